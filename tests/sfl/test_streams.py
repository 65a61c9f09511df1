"""Label streams: the generator's promises, the chain's second moments, and the exact discrepancy of
each rule.
"""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sflkit.rounding import largest_remainder
from sflkit.sfl.discrepancy import (
    correlation_rounds,
    exact_discrepancy,
    repeat_clients,
    rule_weights,
)
from sflkit.sfl.streams import LabelStream, kl_markov_stream, moving_average_stream


def two_state(stay, high=0.8, low=0.4):
    """One client, two classes, two states.

    By symmetry rho = (1/2, 1/2) and lambda_2 = 2 stay - 1.
    """
    return LabelStream([[[high, 1 - high], [low, 1 - low]]], [[[stay, 1 - stay], [1 - stay, stay]]])


def test_two_state_chain_by_hand():
    # pi = (0.8 + 0.4) / 2 = 0.6; u - pi = +-0.2, so C(lag) = 0.04 * (2 * 0.9 - 1)^lag = 0.04 *
    # 0.8^lag
    stream = two_state(0.9)
    np.testing.assert_allclose(stream.long_term, [[0.6, 0.4]], atol=1e-12)
    for lag in range(4):
        np.testing.assert_allclose(
            stream.autocovariance(lag), np.full((1, 2), 0.04 * 0.8**lag), atol=1e-12
        )


def test_exact_discrepancy_by_hand():
    # stay = 0.75: C = 0.04 * 0.5^lag. FIFO with M = 2: (1/4)(2 C0 + 2 C1) = (1/4)(0.08 + 0.04) =
    # 0.03
    stream = two_state(0.75)
    np.testing.assert_allclose(exact_discrepancy(stream, "fifo", 5, cache_rounds=2), 0.03)
    # DRSR at t = 3: (1/9)(3 C0 + 4 C1 + 2 C2) = (0.12 + 0.08 + 0.02) / 9 = 0.22 / 9
    np.testing.assert_allclose(exact_discrepancy(stream, "drsr", 3, cache_rounds=2), 0.22 / 9)
    # printed SRSR, theta = 1, M = 2, t = 1: v = u / 2, so E = C0 / 4 + pi^2 / 4 = 0.01 + 0.09 (pi =
    # 0.6) or + 0.04 (pi = 0.4)
    np.testing.assert_allclose(
        exact_discrepancy(stream, "srsr", 1, cache_rounds=2, theta=1), [[0.10, 0.05]]
    )
    # filled SRSR, theta = 1, M = 2, t = 3: weights (1/2, 1/4, 1/4): C0 (1/4 + 1/16 + 1/16) + 2 C1
    # (1/8 + 1/16) + 2 C2 / 8
    np.testing.assert_allclose(
        exact_discrepancy(stream, "srsr_filled", 3, cache_rounds=2, theta=1),
        0.04 * 0.375 + 0.02 * 0.375 + 0.01 * 0.25,
    )


def test_limits_of_the_rules():
    stream = two_state(0.75)
    m = 4
    # while everything fits, all rules that append are the running mean
    for t in (1, m):
        drsr = exact_discrepancy(stream, "drsr", t, cache_rounds=m)
        np.testing.assert_allclose(
            exact_discrepancy(stream, "srsr_filled", t, cache_rounds=m, theta=0.7), drsr
        )
    np.testing.assert_allclose(
        exact_discrepancy(stream, "fifo", m, cache_rounds=m),
        exact_discrepancy(stream, "drsr", m, cache_rounds=m),
    )
    # theta = 0 freezes what the first M rounds left; the printed recursion then stays empty and
    # lacks all of pi
    np.testing.assert_allclose(
        exact_discrepancy(stream, "srsr_filled", 99, cache_rounds=m, theta=0),
        exact_discrepancy(stream, "drsr", m, cache_rounds=m),
    )
    np.testing.assert_allclose(
        exact_discrepancy(stream, "srsr", 99, cache_rounds=m, theta=0), stream.long_term**2
    )
    # a stream that never changes has no discrepancy once the cache is full
    constant = LabelStream([[[0.3, 0.7], [0.3, 0.7]]], [[[0.5, 0.5], [0.5, 0.5]]])
    for rule in ("fifo", "drsr"):
        np.testing.assert_allclose(
            exact_discrepancy(constant, rule, 9, cache_rounds=3), 0, atol=1e-15
        )


@pytest.mark.parametrize(
    ("rule", "theta"), [("fifo", None), ("drsr", None), ("srsr", 2 / 3), ("srsr_filled", 2 / 3)]
)
def test_exact_discrepancy_against_monte_carlo(rule, theta):
    stream = kl_markov_stream(
        n_clients=1,
        n_classes=4,
        classes_per_client=3,
        n_states=6,
        temperature=0.3,
        batch_size=20,
        rng=np.random.default_rng(4),
    )
    t, m, repeats = 12, 4, 4000
    replicas = LabelStream(
        np.repeat(stream.short_term, repeats, axis=0), np.repeat(stream.transition, repeats, axis=0)
    )
    counts = replicas.sample(t, 20, np.random.default_rng(5), exact=True)
    weights = rule_weights(rule, t, cache_rounds=m, theta=theta)
    v = np.tensordot(weights, counts[::-1][: len(weights)] / 20, axes=1)
    squares = (v - stream.long_term) ** 2
    error = squares.std(axis=0, ddof=1) / np.sqrt(repeats)
    exact = exact_discrepancy(stream, rule, t, cache_rounds=m, theta=theta)[0]
    assert (np.abs(squares.mean(axis=0) - exact) <= 4 * error + 1e-15).all()
    assert error.max() < 0.1 * exact.max()  # the interval is narrow enough to catch a wrong formula


def test_multinomial_counts_add_the_sampling_variance():
    # ERRATA 12: C(0) grows by E[p(1-p)] / B_s; here p in {0.8, 0.4}: (0.16 + 0.24) / 2 / 20 = 0.01
    # on top of 0.04
    stream = two_state(0.5)
    counts = stream.sample(40000, 20, np.random.default_rng(0))
    assert np.var(counts[:, 0, 0] / 20) == pytest.approx(0.05, rel=0.03)
    exact = stream.sample(40000, 20, np.random.default_rng(0), exact=True)
    assert np.var(exact[:, 0, 0] / 20) == pytest.approx(0.04, rel=0.03)


@settings(max_examples=25)
@given(st.integers(1, 4), st.integers(1, 12), st.integers(1, 6), st.integers(0, 10**6), st.data())
def test_generated_streams_keep_their_promises(n_clients, n_classes, n_states, seed, data):
    c = data.draw(st.integers(1, n_classes))
    batch = data.draw(st.sampled_from([None, 60, 150]))
    make = dict(
        n_clients=n_clients,
        n_classes=n_classes,
        classes_per_client=c,
        n_states=n_states,
        temperature=0.5,
        batch_size=batch,
    )
    stream = kl_markov_stream(**make, rng=np.random.default_rng(seed))
    support = stream.short_term > 0
    assert (support.sum(axis=2) == c).all() and (support == support[:, :1]).all()
    shares = stream.short_term[support]
    assert c == 1 or (shares.min() >= 0.05 - 1e-12 and shares.max() <= 0.95 + 1e-12)
    np.testing.assert_allclose(
        np.einsum("ks,kst->kt", stream.stationary, stream.transition), stream.stationary, atol=1e-9
    )
    again = kl_markov_stream(
        **{**make, "n_clients": n_clients + 1}, rng=np.random.default_rng(seed)
    )
    np.testing.assert_array_equal(
        again.short_term[:n_clients], stream.short_term
    )  # a new client disturbs nobody
    counts = stream.sample(5, batch or 7, np.random.default_rng(seed), exact=True)
    np.testing.assert_array_equal(
        again.sample(5, batch or 7, np.random.default_rng(seed), exact=True)[:, :n_clients], counts
    )
    assert (counts.sum(axis=2) == (batch or 7)).all()
    if batch:  # on the grid, the counts are the shares
        assert all(
            (counts[t, k] / batch == stream.short_term[k]).all(axis=1).any()
            for t in range(5)
            for k in range(n_clients)
        )


def test_closer_states_are_likelier():
    stream = kl_markov_stream(
        n_clients=1,
        n_classes=3,
        classes_per_client=3,
        n_states=8,
        temperature=0.5,
        rng=np.random.default_rng(1),
    )
    u = stream.short_term[0]
    divergence = (u[:, None] * np.log(u[:, None] / u[None])).sum(axis=2)
    ratio = np.log(stream.transition[0]) + divergence / 0.5
    np.testing.assert_allclose(
        ratio, ratio[:, :1] + np.zeros(8), atol=1e-12
    )  # P_ij proportional to exp(-KL / temperature)


def test_two_mode_chain_breaks_the_truncated_reading():
    # ERRATA 7: u = 1/2 + a s_1 + b s_2 with independent signs s_i of correlations 0.2^lag and
    # 0.999^lag and a^2 : b^2 = 96 : 4.
    # |rho| < 0.05 first at lag 3 (0.96 * 0.008 + 0.04 = 0.0476), so truncation says Gamma = 2,
    # bound 5/M, in units of C(0).
    a, b = 0.3 * np.sqrt(0.96), 0.3 * np.sqrt(0.04)
    flip = [np.array([[1 + r, 1 - r], [1 - r, 1 + r]]) / 2 for r in (0.2, 0.999)]
    u = np.array([0.5 + s1 * a + s2 * b for s1 in (1, -1) for s2 in (1, -1)])
    stream = LabelStream([np.stack([u, 1 - u], axis=1)], [np.kron(*flip)])
    rho = stream.autocovariances(3)[:, 0, 0] / 0.09
    np.testing.assert_allclose(rho, [0.96 * 0.2**k + 0.04 * 0.999**k for k in range(4)], atol=1e-9)
    assert rho[2] > 0.05 > rho[3]
    for m, expected in ((100, 0.0530), (1000, 0.0309)):
        fifo = exact_discrepancy(stream, "fifo", m, cache_rounds=m)[0, 0] / 0.09
        assert (
            fifo == pytest.approx(expected, abs=5e-5) and fifo > 5 / m
        )  # above the bound with the truncated Gamma
        gamma, delta2 = correlation_rounds(stream, m)
        assert delta2 == pytest.approx(0.09)
        assert fifo <= min(2 * gamma + 1, m) / m + 1e-12  # the integrated Gamma is safe


def test_correlation_rounds_of_one_mode():
    # sum over all lags of 0.8^|lag| is (1 + 0.8) / (1 - 0.8) = 9 = 2 Gamma + 1, so Gamma = 4 =
    # lambda / (1 - lambda)
    gamma, delta2 = correlation_rounds(two_state(0.9), 400)
    assert (gamma, delta2) == (pytest.approx(4.0), pytest.approx(0.04))
    assert correlation_rounds(two_state(0.5), 50)[0] == pytest.approx(0)


def test_stationary_law_of_nearly_decoupled_states():
    # two states that leave with probabilities a and b have rho = (b, a) / (a + b), however small a
    # and b are
    a, b = 3e-14, 1e-14
    stream = LabelStream([[[0.8, 0.2], [0.4, 0.6]]], [[[1 - a, a], [b, 1 - b]]])
    np.testing.assert_allclose(stream.stationary, [[0.25, 0.75]], rtol=1e-9)
    cold = kl_markov_stream(
        n_clients=5,
        n_classes=10,
        classes_per_client=3,
        n_states=10,
        temperature=0.005,
        rng=np.random.default_rng(0),
    )
    np.testing.assert_allclose(
        np.einsum("ks,kst->kt", cold.stationary, cold.transition), cold.stationary, rtol=1e-12
    )
    absorbing = LabelStream([[[0.8, 0.2], [0.4, 0.6]]], [[[0.5, 0.5], [0.0, 1.0]]])
    np.testing.assert_allclose(absorbing.stationary, [[0.0, 1.0]], atol=1e-12)


@settings(max_examples=100)
@given(st.lists(st.floats(0, 50), min_size=1, max_size=8), st.data())
def test_largest_remainder(weights, data):
    total = data.draw(st.integers(0, 60))
    if sum(weights) == 0:
        weights = [1.0] * len(weights)
    targets = np.array(weights) * total / sum(weights)
    rounded = largest_remainder(targets, total)
    assert rounded.sum() == total and (np.abs(rounded - targets) < 1 + 1e-6).all()
    caps = np.array(
        data.draw(st.lists(st.integers(0, 20), min_size=len(weights), max_size=len(weights)))
    )
    capped = largest_remainder(targets, total, caps)
    assert (capped <= caps).all() and capped.min() >= 0 and capped.sum() == min(total, caps.sum())
    if (rounded <= caps).all():
        np.testing.assert_array_equal(capped, rounded)


def test_largest_remainder_by_hand():
    # 6 = 2.5 + 2.3 + 1.2: floors 2, 2, 1 leave one, which the remainder 0.5 gets; with a cap of 2
    # it goes to 0.3
    assert largest_remainder(np.array([2.5, 2.3, 1.2]), 6).tolist() == [3, 2, 1]
    assert largest_remainder(np.array([2.5, 2.3, 1.2]), 6, np.array([2, 9, 9])).tolist() == [
        2,
        3,
        1,
    ]


# --- averages of one's own --------------------------------------------------------------------


def test_lazy_by_hand():
    # the mean of the first M = 2 rounds, for ever: (C0 + C1) / 2 with C = 0.04 * 0.5^lag; in round
    # 1 it holds one round, C0
    stream = two_state(0.75)
    for t, expected in ((1, 0.04), (2, 0.03), (3, 0.03), (50, 0.03)):
        lazy = exact_discrepancy(stream, "lazy", t, cache_rounds=2)
        np.testing.assert_allclose(lazy, np.full((1, 2), expected), rtol=1e-12)
    assert rule_weights("lazy", 5, cache_rounds=2).tolist() == [0, 0, 0, 0.5, 0.5]


def test_own_weights_by_hand():
    # v = 3/4 u_t + 1/4 u_{t-2}: C0 (9/16 + 1/16) + 2 C2 * 3/16 = 0.025 + 0.01 * 6/16
    stream = two_state(0.75)
    own = exact_discrepancy(stream, weights=[0.75, 0, 0.25])
    np.testing.assert_allclose(own, np.full((1, 2), 0.02875), rtol=1e-12)


@settings(max_examples=25)
@given(st.integers(1, 9), st.integers(1, 4), st.floats(0, 1), st.integers(0, 99))
def test_a_rules_weights_given_as_ones_own_are_that_rule(t, m, theta, seed):
    stream = kl_markov_stream(
        n_clients=2, n_classes=4, classes_per_client=3, n_states=4, rng=np.random.default_rng(seed)
    )
    for rule in ("fifo", "drsr", "lazy", "srsr_filled"):
        when = max(t, m) if rule == "fifo" else t
        about = {"cache_rounds": m} | ({"theta": theta} if rule == "srsr_filled" else {})
        weights = rule_weights(rule, when, **about)
        assert weights.min() >= 0 and weights.sum() == pytest.approx(1)
        np.testing.assert_array_equal(
            exact_discrepancy(stream, rule, when, **about),
            exact_discrepancy(stream, weights=weights),
        )


@pytest.mark.parametrize("n_states", range(2, 13))
def test_no_discrepancy_is_negative(n_states):
    # A year of seasons that a cache of one year averages out: v = pi, so the discrepancy is 0 but
    # for rounding. With five seasons that used to leave -2e-18.
    share = np.arange(1, n_states + 1) / (n_states + 1)
    ring = np.roll(np.eye(n_states), 1, axis=1)
    stream = LabelStream([np.stack([share, 1 - share], axis=1)], [ring])
    for rule, t in (("fifo", n_states), ("drsr", n_states), ("drsr", 2 * n_states)):
        exact = exact_discrepancy(stream, rule, t, cache_rounds=n_states)
        assert (exact >= 0).all() and exact.max() < 1e-16


# --- a start and a common path ----------------------------------------------------------------


def year(n_clients=1, n_states=4, **options):
    """States that follow one another like seasons; class 0 in the first half, 1 in the second."""
    shares = np.eye(2)[(np.arange(n_states) >= n_states / 2).astype(int)]
    ring = np.roll(np.eye(n_states), 1, axis=1)
    return LabelStream([shares] * n_clients, [ring] * n_clients, **options)


def test_a_year_from_its_first_day_by_hand():
    stream = year(start=0)
    assert stream.states(6, np.random.default_rng(0))[:, 0].tolist() == [0, 1, 2, 3, 0, 1]
    # pi = (1/2, 1/2) whatever the start; u = (1, 0), (1, 0), (0, 1), (0, 1)
    np.testing.assert_allclose(stream.long_term, [[0.5, 0.5]])
    assert stream.first.tolist() == [[1, 0, 0, 0]] and not stream.is_stationary


def test_states_of_each_client():
    stream = year(n_clients=3, start=[0, 2, 3])
    first = stream.states(2, np.random.default_rng(0))
    assert first.tolist() == [[0, 2, 3], [1, 3, 0]]
    assert year(n_clients=2, start=1).states(1, np.random.default_rng(0)).tolist() == [[1, 1]]


@settings(max_examples=25)
@given(st.integers(1, 5), st.integers(1, 5), st.integers(1, 30), st.integers(0, 999))
def test_a_common_path_is_one_path(n_clients, n_states, rounds, seed):
    rng = np.random.default_rng(seed)
    short = rng.dirichlet(np.ones(3), size=(n_clients, n_states))
    chain = rng.dirichlet(np.ones(n_states), size=n_states)[None].repeat(n_clients, axis=0)
    common = LabelStream(short, chain, common=True)
    path = common.states(rounds, np.random.default_rng(seed))
    assert path.shape == (rounds, n_clients) and (path == path[:, :1]).all()
    # a client more sees the same season, and each client's own law is what it is on its own
    wider = LabelStream(
        np.concatenate([short, short[:1]]), chain[[0, *range(n_clients)]], common=True
    )
    np.testing.assert_array_equal(
        wider.states(rounds, np.random.default_rng(seed))[:, :1], path[:, :1]
    )
    alone = LabelStream(short, chain)
    np.testing.assert_array_equal(common.long_term, alone.long_term)
    np.testing.assert_array_equal(
        exact_discrepancy(common, "drsr", rounds, cache_rounds=2),
        exact_discrepancy(alone, "drsr", rounds, cache_rounds=2),
    )


def test_what_a_start_or_a_common_path_rules_out():
    chains = [[[0.5, 0.5]] * 2, [[0.4, 0.6]] * 2]
    with pytest.raises(ValueError, match=r"common=True needs one transition .* client 1 differ"):
        LabelStream([[[1.0, 0.0], [0.0, 1.0]]] * 2, chains, common=True)
    for refused in (
        lambda: correlation_rounds(year(start=0), 5),
        lambda: exact_discrepancy(year(start=0), "drsr", 5, cache_rounds=2),
        lambda: repeat_clients(year(n_clients=2, start=[0, 2]), 2),
    ):
        with pytest.raises(ValueError, match="needs a stream with start='stationary'"):
            refused()
    with pytest.raises(ValueError, match="common=True; its clients cannot be repeated"):
        repeat_clients(year(common=True), 2)


@pytest.mark.parametrize("corr_rounds", [0, 1, 2, 4])
def test_a_moving_average_forgets_after_exactly_gamma_rounds(corr_rounds):
    """The mean of Gamma + 1 coins shares Gamma + 1 - tau of them with that tau rounds later, each
    of variance 1 and weight 1 / (Gamma + 1).
    """
    stream = moving_average_stream(corr_rounds, swing=0.4)
    found = stream.autocovariances(corr_rounds + 3)[:, 0, 0]
    lags = np.arange(corr_rounds + 4)
    expected = 0.16 * np.maximum(corr_rounds + 1 - lags, 0) / (corr_rounds + 1) ** 2
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-15)
    np.testing.assert_allclose(stream.long_term, 0.5)


def test_rounds_of_different_sizes():
    stream = LabelStream([[[0.25, 0.75], [1.0, 0.0]]], [np.full((2, 2), 0.5)])
    sizes = [8, 4, 4, 12]
    for exact in (False, True):
        counts = stream.sample(4, sizes, np.random.default_rng(0), exact=exact)
        assert counts.sum(axis=2)[:, 0].tolist() == sizes
    # one size for all rounds is the same as that size for each
    same = [stream.sample(4, n, np.random.default_rng(0), exact=True) for n in (4, [4] * 4)]
    np.testing.assert_array_equal(*same)
    assert {tuple(row) for row in same[0][:, 0].tolist()} <= {(1, 3), (4, 0)}
    with pytest.raises(ValueError, match=r"batch_size has shape .*; it must be \(\) or"):
        stream.sample(4, [1, 2], np.random.default_rng(0))
    with pytest.raises(ValueError, match="batch_size"):
        stream.sample(2, [1, 0], np.random.default_rng(0))
