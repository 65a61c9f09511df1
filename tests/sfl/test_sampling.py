"""Sample sources and the test set."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sflkit.sfl import sampling

LABELS = np.array([0, 0, 0, 1, 1, 2])


def rng(seed=0):
    return np.random.default_rng(seed)


def test_source_reshuffles_after_a_full_pass():
    source = sampling.SampleSource(np.zeros(50, int), rng())
    passes = [source.draw([50]).tolist() for _ in range(2)]
    assert sorted(passes[0]) == sorted(passes[1]) == list(range(50))
    # A draw shuffles its result, so compare orders through single draws.
    orders = [[int(source.draw([1])[0]) for _ in range(50)] for _ in range(2)]
    assert orders[0] != orders[1] and sorted(orders[0]) == sorted(orders[1])


def test_source_mixes_labels_within_a_batch():
    labels = np.repeat([0, 1], 200)
    drawn = labels[sampling.SampleSource(labels, rng()).draw([100, 100])]
    assert 30 < drawn[:100].sum() < 70  # mean 50, standard deviation 3.5 under a random order


def test_source_says_which_classes_it_holds():
    with pytest.raises(
        ValueError, match=r"2 samples of class 0; this source holds samples of classes \[1, 2\]"
    ):
        sampling.SampleSource([1, 2, 2], rng()).draw([2, 0, 0])


def test_source_is_reproducible_and_leaves_its_input_alone():
    labels = LABELS.copy()
    draws = [
        [source.draw([2, 2, 1]).tolist() for _ in range(5)]
        for source in (sampling.SampleSource(labels, rng(3)) for _ in range(2))
    ]
    assert draws[0] == draws[1]
    np.testing.assert_array_equal(labels, LABELS)
    source = sampling.SampleSource(LABELS, rng())
    source.draw([3, 2, 1])[:] = -1  # the caller's copy
    assert source.draw([3, 2, 1]).min() >= 0


@given(st.lists(st.lists(st.integers(0, 9), min_size=3, max_size=3), max_size=8), st.integers(0, 5))
@settings(max_examples=50)
def test_source_draws_what_is_asked_and_evenly(batches, seed):
    source, drawn = sampling.SampleSource(LABELS, rng(seed)), []
    for counts in batches:
        ids = source.draw(counts)
        assert np.bincount(LABELS[ids], minlength=3).tolist() == counts
        drawn.extend(ids)
    used = np.bincount(np.array(drawn, int), minlength=6)
    for label in range(3):
        assert np.ptp(used[LABELS == label]) <= 1


def test_test_set_by_largest_remainder():
    labels = np.repeat(np.arange(3), 100)
    # 10 * (0.26, 0.37, 0.37) = (2.6, 3.7, 3.7): floors 2, 3, 3 leave 2 seats for the remainders
    # 0.7, 0.7.
    ids = sampling.draw_test_set(labels, [0.26, 0.37, 0.37], 10, rng())
    assert np.bincount(labels[ids]).tolist() == [2, 4, 4] and len(set(ids.tolist())) == 10


def test_test_set_shrinks_in_proportion():
    labels = np.repeat([0, 1], [100, 10])
    # Half of each: class 1 has 10 samples. 20 is 10 + 10; of 21 = 10.5 + 10.5 the odd seat goes to
    # the lower class: 11 + 10.
    assert np.bincount(labels[sampling.draw_test_set(labels, [0.5, 0.5], 60, rng())]).tolist() == [
        11,
        10,
    ]
    assert np.bincount(
        labels[sampling.draw_test_set(labels, [0.9, 0.1], 1000, rng())]
    ).tolist() == [95, 10]


def test_test_set_of_all_samples_and_of_absent_classes():
    assert sorted(sampling.draw_test_set(LABELS, [3 / 6, 2 / 6, 1 / 6], 6, rng())) == list(range(6))
    assert set(sampling.draw_test_set(LABELS, [0.5, 0.5, 0.0], 4, rng())) <= {0, 1, 2, 3, 4}


@given(
    st.lists(st.integers(1, 30), min_size=2, max_size=6), st.integers(1, 200), st.integers(0, 10**6)
)
@settings(max_examples=80)
def test_test_set_keeps_the_shares(sizes, size, seed):
    labels = np.repeat(np.arange(len(sizes)), sizes)
    shares = rng(seed).dirichlet(np.ones(len(sizes)))
    ids = sampling.draw_test_set(labels, shares, size, rng(seed))
    counts = np.bincount(labels[ids], minlength=len(sizes))
    assert 1 <= len(ids) <= size and len(set(ids.tolist())) == len(ids)
    assert np.abs(counts - shares * len(ids)).max() < 1 + 1e-6
    # Never smaller than needed: with two more samples some class could not be filled even if
    # rounded down.
    if len(ids) < min(size, labels.size) - 2:
        grown = [np.floor(shares * (len(ids) + extra)) for extra in (1, 2, 3)]
        assert any((g >= np.array(sizes) - 1).any() for g in grown)
