"""Theorem 1's counter-example: the law of the model, by hand and by simulation."""

import numpy as np
import pytest

from companion.notebooks import n14


@pytest.mark.parametrize(
    ("cache_rounds", "refreshed", "limit"),
    [(1, True, 1 / 28), (2, True, 1 / 32), (5, False, 1 / 20)],
)
def test_limits_by_hand(cache_rounds, refreshed, limit):
    """With a = 1/4, (1 - a)^2 = 9/16 and a^2 / (1 - 9/16) = (1/16) (16/7) = 1/7.

    M = 1: the noise c/2 has variance 1/4 and no memory: 1/7 * 1/4 = 1/28. M = 2: variance 2/16,
    covariance 1/16 at lag 1: 1/7 * (1/8 + 2 * 3/4 * 1/16) = 1/7 * 7/32 = 1/32. A cache that keeps
    its first M coins has the mean c/2 for ever, of variance 1 / (4 M), and the model ends at it.
    """
    moments = n14.squared_gradient(400, 0.25, cache_rounds, refreshed=refreshed)
    assert moments[-1] == pytest.approx(limit, rel=1e-12)


def test_the_first_rounds_by_hand():
    """w_1 = w_0 (1-a) - a c_1 / 2, so E w_1^2 = (1-a)^2 / 4 + a^2 / 4, for any cache.

    With M = 2, w_2 = (1-a) w_1 - a (c_1 + c_2) / 4: the weights of the coins, over 2, are
    -(1-a) a - a/2 and -a/2.
    """
    a = 0.25
    second = (1 - a) ** 4 / 4 + ((a * (1 - a) + a / 2) ** 2 + (a / 2) ** 2) / 4
    found = n14.squared_gradient(3, a, 2)
    np.testing.assert_allclose(found, [0.25, (1 - a) ** 2 / 4 + a**2 / 4, second], rtol=1e-14)


@pytest.mark.parametrize("refreshed", [True, False])
def test_simulated_paths_have_the_exact_moments(refreshed):
    """w <- (1 - a) w - a n, where n is the mean of c / 2 over the coins that the cache holds."""
    step, size, rounds = 0.3, 3, 30
    coins = np.random.default_rng(3).choice([-1.0, 1.0], size=(20_000, rounds))
    path = [np.full(len(coins), 0.5)]
    for t in range(1, rounds):
        held = coins[:, max(0, t - size) : t] if refreshed else coins[:, : min(t, size)]
        path.append((1 - step) * path[-1] - step * held.mean(axis=1) / 2)
    path = np.stack(path, axis=1)
    error = (path**2).std(axis=0, ddof=1) / len(path) ** 0.5
    exact = n14.squared_gradient(rounds, step, size, refreshed=refreshed)
    assert (np.abs((path**2).mean(axis=0) - exact) <= 4.5 * error + 1e-12).all()
    assert np.abs(path).max() <= 0.5 + 1e-12  # where the recursion is exact


def test_the_step_of_a_round():
    # one local step moves by eta_L, so a round by eta eta_L
    assert n14.step_of(1, 0.1, 2.0) == pytest.approx(0.2, rel=1e-14)
    # for a tiny rate E steps move E times as far
    assert n14.step_of(50, 1e-7, 1.0) == pytest.approx(50e-7, rel=1e-5)
