"""Cache rules: the paper's cases by hand, limits, and one property list for every rule."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sflkit.rounding import largest_remainder
from sflkit.sfl.caches import DRSR, FIFO, SRSR, Full, Lazy, Reservoir, SharesRule
from sflkit.sfl.discrepancy import rule_weights
from sflkit.sfl.streams import kl_markov_stream


def feed(cache, rounds, rng):
    """Offer rounds of labels with fresh ids 0, 1, 2, ...; return the labels of all of them."""
    seen = []
    for labels in rounds:
        cache.update(np.arange(len(seen), len(seen) + len(labels)), labels, rng)
        seen.extend(labels)
    return np.array(seen, dtype=int)


@settings(max_examples=40)
@given(
    st.sampled_from([0.0, 0.3, 2 / 3, 1.0, None]),
    st.integers(1, 8),
    st.integers(1, 4),
    st.integers(0, 10**6),
)
def test_label_counts_equal_the_rounded_target(theta, batch_size, m, seed):
    """The target is recomputed here by the recursion on real shares, independently of the cache's
    own bookkeeping.
    """
    capacity = batch_size * m
    cache = DRSR(capacity, batch_size) if theta is None else SRSR(capacity, batch_size, theta)
    rng = np.random.default_rng(seed)
    target = np.zeros(3)
    for t in range(1, 25):
        labels = rng.choice(3, size=batch_size, p=[0.6, 0.3, 0.1])
        old, new = cache.label_counts(3), np.bincount(labels, minlength=3)
        cache.update(np.arange(batch_size) + 1000 * t, labels, rng)
        if t <= m:
            target = target + new
        else:
            weight = m / t if theta is None else theta
            target = (
                1 - weight * batch_size / capacity
            ) * target + weight * new  # (10) and (14) with ERRATA 1
        wanted = largest_remainder(target, round(target.sum()))
        if (wanted <= old + new).all():
            np.testing.assert_array_equal(cache.label_counts(3), wanted)
        else:
            assert (cache.label_counts(3) <= old + new).all() and len(cache) == capacity


def test_srsr_by_hand():
    # B = 4, B_s = 2, theta = 1/2. Cache {0,0,0,1}; arrivals {1,1}: weight theta B_s / B = 1/4, so
    # the target is 3/4 * (3, 1) + 1/2 * (0, 2) = (2.25, 1.75), rounded (2, 2). Label 1: n~ = 2 <=
    # n_new = 2, case 1: both new ones in, the old one out. Label 0: n~ = 2 > 0, case 2: one of the
    # three old ones leaves.
    cache = SRSR(4, 2, 0.5)
    rng = np.random.default_rng(0)
    feed(cache, [[0, 0], [0, 1]], rng)
    cache.update([4, 5], [1, 1], rng)
    assert cache.label_counts(2).tolist() == [2, 2]
    np.testing.assert_allclose(cache.target, [2.25, 1.75])
    assert {4, 5} <= set(cache.ids.tolist())
    assert 3 not in cache.ids
    assert len({0, 1, 2} & set(cache.ids.tolist())) == 2
    # next round {1,1} again: 3/4 * (2.25, 1.75) + (0, 1) = (1.6875, 2.3125): carried, not 3/4 * (2,
    # 2) + (0, 1) = (1.5, 2.5)
    cache.update([6, 7], [1, 1], rng)
    np.testing.assert_allclose(cache.target, [1.6875, 2.3125])
    assert cache.label_counts(2).tolist() == [2, 2]


def test_journal_targets_lose_fifty_samples():
    # ERRATA 1: (10) of the journal has 1 - B_s/B where 1 - theta B_s/B is meant: 150 + 100 = 250 of
    # 300 samples
    old, new, theta = np.array([200, 100]), np.array([100, 50]), Fraction(2, 3)
    assert (
        sum(
            (1 - Fraction(150, 300)) * int(o) + theta * int(n)
            for o, n in zip(old, new, strict=True)
        )
        == 250
    )
    assert (
        sum(
            (1 - theta * Fraction(150, 300)) * int(o) + theta * int(n)
            for o, n in zip(old, new, strict=True)
        )
        == 300
    )


def test_drsr_is_the_running_mean():
    # after t rounds the target is B times the mean of u_1..u_t, exactly, also while the cache fills
    # (ERRATA 3)
    rng = np.random.default_rng(2)
    cache, seen = DRSR(30, 10), []
    for t in range(40):
        labels = rng.integers(0, 3, size=10)
        seen.extend(labels)
        cache.update(np.arange(10) + 10 * t, labels, rng)
        mean = np.bincount(seen, minlength=3) / len(seen)
        np.testing.assert_allclose(cache.shares, mean)
        np.testing.assert_array_equal(
            cache.label_counts(3), largest_remainder(mean * len(cache), len(cache))
        )


def test_carried_shares_follow_the_printed_weights():
    stream = kl_markov_stream(
        n_clients=1,
        n_classes=3,
        classes_per_client=3,
        n_states=5,
        batch_size=30,
        rng=np.random.default_rng(0),
    )
    counts = stream.sample(12, 30, np.random.default_rng(1), exact=True)[:, 0]
    for cache, rule, theta in (
        (SRSR(90, 30, 0.4), "srsr_filled", 0.4),
        (DRSR(90, 30), "drsr", None),
    ):
        feed(cache, [np.repeat(np.arange(3), n) for n in counts], np.random.default_rng(2))
        weights = rule_weights(rule, 12, cache_rounds=3, theta=theta)
        np.testing.assert_allclose(cache.shares, weights @ (counts[::-1] / 30))


def test_carried_rounding_does_not_freeze():
    # ERRATA 4: rounding an integer state each round freezes at 1e-3, carrying the real target stays
    # at 1e-6 .. 1e-5
    stream = kl_markov_stream(
        n_clients=10, n_classes=10, classes_per_client=3, n_states=10, rng=np.random.default_rng(0)
    )
    counts = stream.sample(300, 30, np.random.default_rng(1))
    carried = frozen = 0.0
    for k in range(10):
        cache, state = DRSR(300, 30), np.zeros(10)
        for t, n in enumerate(counts[:, k], start=1):
            cache.update(np.arange(30), np.repeat(np.arange(10), n), np.random.default_rng(t))
            weight = min(10 / t, 1) if t > 10 else None
            state = (
                state + n
                if weight is None
                else largest_remainder((1 - weight / 10) * state + weight * n, 300)
            )
        mean = counts[:, k].mean(axis=0) / 30
        carried += ((cache.label_counts(10) / 300 - mean) ** 2).sum() / 10
        frozen += ((state / 300 - mean) ** 2).sum() / 10
    assert carried < 2e-5 and frozen > 3e-4


def test_selective_replacement_is_uniform_within_a_label():
    # case 2 with B = 4, B_s = 1: target (3.2, .8)->(3, 1) keeps the new 1 and drops one of four 0s,
    # each with chance 1/4
    left = np.zeros(4)
    for seed in range(800):
        cache = DRSR(4, 1)
        feed(cache, [[0], [0], [0], [0], [1]], np.random.default_rng(seed))
        assert 4 in cache.ids
        left[[i for i in range(4) if i not in cache.ids]] += 1
    assert left.sum() == 800 and (np.abs(left - 200) < 4 * np.sqrt(800 * 3 / 16)).all()


def test_reservoir_is_uniform():
    # inclusion probability B / n = 3/12 of every sample, 4 standard errors of a binomial with 2000
    # trials
    hits = np.zeros(12)
    for seed in range(2000):
        cache = Reservoir(3, 2)
        feed(cache, [[0, 0]] * 6, np.random.default_rng(seed))
        hits[cache.ids] += 1
    assert (np.abs(hits - 500) < 4 * np.sqrt(2000 * 0.25 * 0.75)).all()


def test_fifo_and_lazy_by_hand():
    fifo, lazy = FIFO(4, 2), Lazy(4, 2)
    for cache in (fifo, lazy):
        feed(cache, [[0, 1], [2, 0], [1, 1]], np.random.default_rng(0))
    assert fifo.ids.tolist() == [2, 3, 4, 5] and fifo.labels.tolist() == [2, 0, 1, 1]
    assert lazy.ids.tolist() == [0, 1, 2, 3] and lazy.labels.tolist() == [0, 1, 2, 0]


def test_full_by_hand():
    # B = 10, pi = (0.55, 0.45, 0): quota (6, 4, 0) by largest remainder with ties to the first
    pool = np.repeat([0, 1, 2], 20)
    static, refreshed = Full(10, [0.55, 0.45, 0]), Full(10, [0.55, 0.45, 0], refresh=True)
    for cache in (static, refreshed):
        cache.update(np.arange(60), pool, np.random.default_rng(0))
        assert cache.label_counts(3).tolist() == [6, 4, 0]
    first = static.ids.tolist()
    for cache in (static, refreshed):
        cache.update([100, 101, 102], [0, 0, 2], np.random.default_rng(1))
        assert cache.label_counts(3).tolist() == [6, 4, 0]
    assert static.ids.tolist() == first and {100, 101} <= set(refreshed.ids.tolist())


@pytest.mark.parametrize("theta", [0.0, 1.0])
def test_theta_limits(theta):
    rng = np.random.default_rng(0)
    cache = SRSR(4, 2, theta)
    feed(cache, [[0, 0], [0, 0]], rng)
    cache.update([4, 5], [1, 1], rng)
    # theta = 0 keeps the shares (4, 0); theta = 1 with M = 2 takes both new samples: 1/2 * (4, 0) +
    # (0, 2) = (2, 2)
    assert cache.label_counts(2).tolist() == ([4, 0] if theta == 0 else [2, 2])


def test_theta_zero_still_renews_samples():
    # the journal says theta = 0 adds none of the new data; its own step 2 (new data first within a
    # label) does
    rng = np.random.default_rng(0)
    cache = SRSR(4, 2, 0.0)
    feed(cache, [[0, 1], [0, 1], [0, 1]], rng)
    assert cache.label_counts(2).tolist() == [2, 2] and {4, 5} <= set(cache.ids.tolist())


@pytest.mark.parametrize(
    ("weight", "carried"),
    [
        # (2, 0) / 2 at first, then (1 - w) v + w u with u = (0, 1) twice
        (0.5, [[1, 0], [0.5, 0.5], [0.25, 0.75]]),
        (0.0, [[1, 0], [1, 0], [1, 0]]),
        (1.0, [[1, 0], [0, 1], [0, 1]]),
    ],
)
def test_a_rule_with_another_weight_carries_the_first_shares_in_full(weight, carried):
    class Mine(SharesRule):
        def weight(self, n_arrivals):
            return weight

    cache, rng = Mine(4, 2), np.random.default_rng(0)
    for t, labels in enumerate(([0, 0], [1, 1], [1, 1])):
        cache.update([2 * t, 2 * t + 1], labels, rng)
        shares = np.zeros(2)
        shares[: len(cache.shares)] = cache.shares
        assert shares.tolist() == carried[t]
