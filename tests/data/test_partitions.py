"""Sample sources, the test set, and the split by classes."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sflkit.data import partitions
from sflkit.sfl import sampling

LABELS = np.array([0, 0, 0, 1, 1, 2])


def rng(seed=0):
    return np.random.default_rng(seed)


def test_source_gives_every_sample_once_before_any_twice():
    source = sampling.SampleSource(LABELS, rng())
    # Class 0 holds ids 0, 1, 2; class 1 ids 3, 4; class 2 id 5.
    first = np.concatenate([source.draw([2, 1, 0]), source.draw([1, 1, 1])])
    assert sorted(first) == [0, 1, 2, 3, 4, 5]
    assert sorted(source.draw([3, 2, 1])) == [0, 1, 2, 3, 4, 5]


def test_source_reshuffles_after_a_full_pass():
    source = sampling.SampleSource(np.zeros(50, int), rng())
    passes = [source.draw([50]).tolist() for _ in range(2)]
    assert sorted(passes[0]) == sorted(passes[1]) == list(range(50))
    # A draw shuffles its result, so compare orders through single draws.
    orders = [[int(source.draw([1])[0]) for _ in range(50)] for _ in range(2)]
    assert orders[0] != orders[1] and sorted(orders[0]) == sorted(orders[1])


def test_source_spans_passes_within_one_draw():
    drawn = sampling.SampleSource(LABELS, rng()).draw([7, 0, 3])
    # 7 = 2 * 3 + 1 passes over class 0, 3 passes over the single sample of class 2
    counts = np.bincount(drawn, minlength=6)
    assert sorted(counts[:3]) == [2, 2, 3] and counts[5] == 3 and counts[3:5].sum() == 0


def test_source_mixes_labels_within_a_batch():
    labels = np.repeat([0, 1], 200)
    drawn = labels[sampling.SampleSource(labels, rng()).draw([100, 100])]
    assert 30 < drawn[:100].sum() < 70  # mean 50, standard deviation 3.5 under a random order


def test_source_of_a_share_returns_global_ids():
    source = sampling.SampleSource(LABELS, rng(), ids=[1, 4, 5])
    assert source.pool_sizes.tolist() == [1, 1, 1]
    assert sorted(source.draw([1, 1, 1])) == [1, 4, 5]
    with pytest.raises(
        ValueError, match=r"2 samples of class 0; this source holds samples of classes \[1, 2\]"
    ):
        sampling.SampleSource(LABELS, rng(), ids=[4, 5]).draw([2, 0, 0])


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
@settings(max_examples=50, deadline=None)
def test_source_draws_what_is_asked_and_evenly(batches, seed):
    source, drawn = sampling.SampleSource(LABELS, rng(seed)), []
    for counts in batches:
        ids = source.draw(counts)
        assert np.bincount(LABELS[ids], minlength=3).tolist() == counts
        drawn.extend(ids)
    used = np.bincount(np.array(drawn, int), minlength=6)
    for label in range(3):
        assert np.ptp(used[LABELS == label]) <= 1


@pytest.mark.parametrize(
    "counts", [[-1, 0, 0], [0.5, 0, 0], [[1, 0, 0]], [0, 0, 0, 1], [np.nan, 0, 0], ["a"]]
)
def test_source_refuses_counts(counts):
    with pytest.raises(ValueError, match="counts"):
        sampling.SampleSource(LABELS, rng()).draw(counts)


def test_source_takes_an_empty_batch():
    empty = sampling.SampleSource(LABELS, rng()).draw([0, 0, 0])
    assert empty.shape == (0,) and empty.dtype == np.int64


@pytest.mark.parametrize("labels", [[], [[0]], [0.5], [-1, 0], ["a"]])
def test_labels_are_checked(labels):
    for call in (
        lambda: sampling.SampleSource(labels, rng()),
        lambda: sampling.draw_test_set(labels, [1.0], 1, rng()),
        lambda: partitions.split_by_classes(labels, [[0]], rng()),
    ):
        with pytest.raises(ValueError, match="labels"):
            call()


def test_seeds_are_no_generators():
    for call in (
        lambda: sampling.SampleSource(LABELS, 0),
        lambda: sampling.draw_test_set(LABELS, [0.5, 0.5, 0], 2, 0),
        lambda: partitions.split_by_classes(LABELS, [[0]], 0),
        lambda: partitions.assign_classes(1, 1, 1, None),
    ):
        with pytest.raises(ValueError, match="rng"):
            call()


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
@settings(max_examples=80, deadline=None)
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


@pytest.mark.parametrize(
    ("shares", "size", "message"),
    [
        ([0.5, 0.6, 0.0], 3, "sum"),
        ([1.5, -0.5, 0.0], 3, "shares"),
        ([0.5, 0.5], 3, "the labels go up to 2"),
        ([np.nan, 1, 0], 3, "shares"),
        ([0.4, 0.4, 0.1, 0.1], 3, "class 3"),
        ([0.5, 0.5, 0.0], 0, "size=0"),
        ([0.5, 0.5, 0.0], -2, "size=-2"),
    ],
)
def test_test_set_refuses(shares, size, message):
    with pytest.raises(ValueError, match=message):
        sampling.draw_test_set(LABELS, shares, size, rng())


def test_split_is_disjoint_complete_and_even():
    labels = np.repeat(np.arange(4), [10, 9, 8, 5])
    shares = partitions.split_by_classes(labels, [[0, 1], [0, 2], [0, 1]], rng())
    counts = np.array([np.bincount(labels[ids], minlength=4) for ids in shares])
    # Class 0: 10 samples for three clients, 4 + 3 + 3; class 1: 9 for two, 5 + 4; class 2: all 8 to
    # client 1; nobody holds class 3.
    assert (
        sorted(counts[:, 0]) == [3, 3, 4]
        and sorted(counts[[0, 2], 1]) == [4, 5]
        and counts[1].tolist()[1:] == [0, 8, 0]
    )
    assert counts.sum(axis=0).tolist() == [10, 9, 8, 0]
    assert len(set(np.concatenate(shares).tolist())) == 27


def test_split_feeds_a_source():
    labels = rng(1).integers(0, 10, 500)
    rows = partitions.assign_classes(10, 10, 3, rng(2))
    for row, ids in zip(rows, partitions.split_by_classes(labels, rows, rng(3)), strict=True):
        source = sampling.SampleSource(labels, rng(4), ids)
        assert np.flatnonzero(source.pool_sizes).tolist() == row.tolist()


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([[0, 0]], "each once"),
        ([[]], "at least one"),
        ([[3]], r"\[0, 2\]"),
        ([[-1]], "-1"),
        ([[0.5]], "integers"),
        ([[2], [2]], "class 2 has 1 samples for the 2 clients"),
    ],
)
def test_split_refuses(rows, message):
    with pytest.raises(ValueError, match=message):
        partitions.split_by_classes(LABELS, rows, rng())


@given(st.integers(1, 15), st.integers(1, 12), st.data())
@settings(max_examples=60, deadline=None)
def test_assignment_is_balanced(n_clients, n_classes, more):
    per_client = more.draw(st.integers(1, n_classes))
    rows = partitions.assign_classes(
        n_clients, n_classes, per_client, rng(more.draw(st.integers(0, 99)))
    )
    assert rows.shape == (n_clients, per_client) and all(
        len(set(row)) == per_client for row in rows.tolist()
    )
    assert np.ptp(np.bincount(rows.ravel(), minlength=n_classes)) <= 1


@pytest.mark.parametrize(
    "bad", [(0, 10, 3), (10, 0, 3), (10, 10, 0), (10, 10, 11), (2.5, 10, 3), (True, 10, 3)]
)
def test_assignment_refuses(bad):
    with pytest.raises(ValueError, match="must be an integer"):
        partitions.assign_classes(*bad, rng())


def test_dirichlet_limits():
    labels = np.repeat([0, 1], [40, 60])
    # alpha -> infinity: shares 1/4 of each class, 10 and 15 samples a client.
    even = partitions.dirichlet(labels, 4, 1e12, rng())
    assert [np.bincount(labels[ids]).tolist() for ids in even] == [[10, 15]] * 4
    # alpha -> 0: a class has one owner.
    single = partitions.dirichlet(labels, 4, 1e-9, rng(), min_samples=0)
    counts = np.array([np.bincount(labels[ids], minlength=2) for ids in single])
    assert sorted(counts[:, 0]) == [0, 0, 0, 40] and sorted(counts[:, 1]) == [0, 0, 0, 60]


def test_dirichlet_shares_have_the_laws_variance():
    # A share of a symmetric Dirichlet law over M clients has mean 1/M and variance (1/M)(1 - 1/M) /
    # (M alpha + 1). M = 5, alpha = 0.4: 0.16 / 3 = 0.0533. 400 classes of 1000 samples give 2000
    # shares; their sample variance lies within 15 % (the standard error is about 4 %), while alpha
    # = 0.2 would give 0.08 and alpha = 0.8 would give 0.032.
    labels = np.repeat(np.arange(400), 1000)
    clients = partitions.dirichlet(labels, 5, 0.4, rng())
    shares = np.array([np.bincount(labels[ids], minlength=400) for ids in clients]) / 1000
    assert abs(shares.var() / (0.16 / 3) - 1) < 0.15


def test_dirichlet_fills_poor_clients_from_the_richest():
    # One class, one owner: 12 samples for 4 clients with at least 2. The owner gives 2 to each of
    # the three others, 6 are left.
    clients = partitions.dirichlet(np.zeros(12, int), 4, 1e-9, rng(), min_samples=2)
    assert sorted(map(len, clients)) == [2, 2, 2, 6] and sorted(np.concatenate(clients)) == list(
        range(12)
    )


@given(
    st.lists(st.integers(0, 4), min_size=12, max_size=60),
    st.integers(1, 12),
    st.floats(1e-6, 1e6),
    st.integers(0, 99),
)
@settings(max_examples=60, deadline=None)
def test_dirichlet_assigns_every_sample_once(labels, n_clients, alpha, seed):
    clients = partitions.dirichlet(labels, n_clients, alpha, rng(seed))
    assert len(clients) == n_clients and min(map(len, clients)) >= 1
    assert sorted(np.concatenate(clients).tolist()) == list(range(len(labels)))
    again = partitions.dirichlet(labels, n_clients, alpha, rng(seed))
    assert all(np.array_equal(a, b) for a, b in zip(clients, again, strict=True))


def test_pachinko_limits():
    # 2 coarse labels of 2 fine ones, 30 samples each, 3 clients of 40. Both parameters large: the
    # law of every leaf is 1/4, a client has 10 of each, give or take sampling (the last client
    # takes what is left).
    fine = np.repeat([0, 1, 2, 3], 30)
    even = np.array(
        [
            np.bincount(fine[ids], minlength=4)
            for ids in partitions.pachinko(fine, fine // 2, 3, rng(), alpha=1e9, beta=1e9)
        ]
    )
    assert np.abs(even - 10).max() <= 8 and even.sum(axis=0).tolist() == [30] * 4
    # Both towards 0: a client empties one leaf after another. 40 samples are one whole leaf and 10
    # of the second leaf of the same coarse label, since the other coarse label is entered only when
    # the first is pruned.
    first = partitions.pachinko(fine, fine // 2, 3, rng(), alpha=1e-9, beta=1e-9)[0]
    counts = np.bincount(fine[first], minlength=4)
    assert sorted(counts) == [0, 0, 10, 30] and len(set(np.flatnonzero(counts) // 2)) == 1


def test_pachinko_follows_coarse_then_fine():
    # alpha -> 0, beta -> infinity: a client holds one coarse label and its fine labels evenly. 2
    # clients, 2 coarse labels of 50 samples in 2 fine ones: 50 each, so a client takes a whole
    # coarse label, 25 of each fine label in it.
    fine = np.repeat([0, 1, 2, 3], 25)
    for seed in range(5):
        clients = partitions.pachinko(fine, fine // 2, 2, rng(seed), alpha=1e-9, beta=1e9)
        assert sorted(np.bincount(fine[ids], minlength=4).tolist() for ids in clients) == [
            [0, 0, 25, 25],
            [25, 25, 0, 0],
        ]


def test_pachinko_draws_as_one_by_one():
    """The law of the first client's counts by enumeration, with pruning: fine labels a, b (2 and 4
    samples), 3 of 6 drawn.

    beta large makes the law (1/2, 1/2). Until a is pruned (two draws of a) draws are fair; then
    only b is drawn. Two a: aab 1/4 (the third draw is certain), aba 1/8, baa 1/8, together 1/2. One
    a: abb, bab, bba 3/8. None: bbb 1/8."""
    fine = np.repeat([0, 1], [2, 4])
    n = 4000
    counts = np.zeros(3)
    generator = rng(5)
    for _ in range(n):
        first = partitions.pachinko(fine, np.zeros(6, int), 2, generator, beta=1e9)[0]
        counts[(fine[first] == 0).sum()] += 1
    expected = np.array([1 / 8, 3 / 8, 1 / 2])
    assert (np.abs(counts / n - expected) < 4 * np.sqrt(expected * (1 - expected) / n)).all()


def test_pachinko_renormalises_inside_the_coarse_label():
    # Coarse A has fine labels of 1 and 20 samples, coarse B one of 20; laws even. When A's single
    # sample is gone, A keeps the probability 1/2 (its other fine label takes all of it), so the
    # first client's share of A is 1/2 on average. Without the renormalisation inside A it would be
    # 1/3 from then on.
    fine = np.repeat([0, 1, 2], [1, 20, 20])
    generator = rng(6)
    first = [
        partitions.pachinko(fine, fine // 2, 4, generator, alpha=1e9, beta=1e9)[0]
        for _ in range(500)
    ]
    shares = [(fine[ids] < 2).mean() for ids in first]
    assert abs(np.mean(shares) - 1 / 2) < 0.03  # standard error 0.007


@given(
    st.lists(st.integers(0, 7), min_size=10, max_size=60),
    st.integers(1, 10),
    st.floats(1e-5, 1e4),
    st.floats(1e-5, 1e4),
    st.integers(0, 99),
)
@settings(max_examples=60, deadline=None)
def test_pachinko_assigns_every_sample_once_and_evenly(fine, n_clients, alpha, beta, seed):
    fine = np.array(fine)
    clients = partitions.pachinko(fine, fine // 3, n_clients, rng(seed), alpha=alpha, beta=beta)
    assert sorted(np.concatenate(clients).tolist()) == list(range(len(fine)))
    sizes = [len(ids) for ids in clients]
    assert max(sizes) - min(sizes) <= 1 and len(sizes) == n_clients


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: partitions.dirichlet(LABELS, 0, 1.0, rng()), "n_clients=0"),
        (lambda: partitions.dirichlet(LABELS, 7, 1.0, rng()), "n_clients=7 .* <= 6"),
        (lambda: partitions.dirichlet(LABELS, 4, 1.0, rng(), min_samples=2), "n_clients=4 .* <= 3"),
        (lambda: partitions.dirichlet(LABELS, 2, 0.0, rng()), "alpha=0.0"),
        (lambda: partitions.dirichlet(LABELS, 2, np.nan, rng()), "alpha"),
        (lambda: partitions.dirichlet(LABELS, 2, 1.0, 0), "rng=0"),
        (lambda: partitions.pachinko(LABELS, LABELS, 7, rng()), "n_clients=7 .* <= 6"),
        (lambda: partitions.pachinko(LABELS, LABELS[:5], 2, rng()), "coarse has 5 labels, fine 6"),
        (
            lambda: partitions.pachinko(LABELS, [0, 0, 1, 1, 1, 1], 2, rng()),
            r"fine label 0 belongs to coarse labels \[0, 1\]",
        ),
        (lambda: partitions.pachinko(LABELS, LABELS, 2, rng(), beta=-1), "beta=-1"),
        (lambda: partitions.pachinko(LABELS, LABELS, 2, rng(), alpha=0), "alpha=0"),
    ],
)
def test_allocations_refuse(call, message):
    with pytest.raises(ValueError, match=message):
        call()
