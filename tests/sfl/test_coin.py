"""Theorem 1's counter-example: the law of the model, by hand and by simulation."""

import numpy as np
import pytest

from companion.sfl import coin


def test_limits_by_hand():
    """With a = 1/4, (1 - a)^2 = 9/16 and a^2 / (1 - 9/16) = (1/16) (16/7) = 1/7.

    M = 1: the noise c/2 has variance 1/4 and no memory: 1/7 * 1/4 = 1/28. M = 2: variance 2/16,
    covariance 1/16 at lag 1: 1/7 * (1/8 + 2 * 3/4 * 1/16) = 1/7 * 7/32 = 1/32.
    """
    assert coin.limit(0.25, 1) == pytest.approx(1 / 28, rel=1e-14)
    assert coin.limit(0.25, 2) == pytest.approx(1 / 32, rel=1e-14)
    assert coin.limit(0.25, 5, refreshed=False) == 1 / 20


def test_the_first_rounds_by_hand():
    """w_1 = w_0 (1-a) - a c_1 / 2, so E w_1^2 = (1-a)^2 / 4 + a^2 / 4, for any cache.

    With M = 2, w_2 = (1-a) w_1 - a (c_1 + c_2) / 4: the weights of the coins, over 2, are
    -(1-a) a - a/2 and -a/2.
    """
    a = 0.25
    second = (1 - a) ** 4 / 4 + ((a * (1 - a) + a / 2) ** 2 + (a / 2) ** 2) / 4
    found = coin.squared_gradient(3, a, 2)
    np.testing.assert_allclose(found, [0.25, (1 - a) ** 2 / 4 + a**2 / 4, second], rtol=1e-14)


@pytest.mark.parametrize("cache_rounds", [1, 2, 7])
@pytest.mark.parametrize("refreshed", [True, False])
def test_the_moments_tend_to_the_limit(cache_rounds, refreshed):
    moments = coin.squared_gradient(400, 0.2, cache_rounds, refreshed=refreshed)
    assert moments[-1] == pytest.approx(
        coin.limit(0.2, cache_rounds, refreshed=refreshed), rel=1e-9
    )


@pytest.mark.parametrize("refreshed", [True, False])
def test_simulated_paths_have_the_exact_moments(refreshed):
    coins = np.random.default_rng(3).choice([-1.0, 1.0], size=(20_000, 30))
    path = coin.simulate(30, 0.3, 3, coins, refreshed=refreshed)
    error = (path**2).std(axis=0, ddof=1) / len(path) ** 0.5
    exact = coin.squared_gradient(30, 0.3, 3, refreshed=refreshed)
    assert (np.abs((path**2).mean(axis=0) - exact) <= 4.5 * error + 1e-12).all()
    assert np.abs(path).max() <= 0.5 + 1e-12  # where the recursion is exact


def test_the_step_of_a_round():
    # one local step moves by eta_L, so a round by eta eta_L
    assert coin.step_of(1, 0.1, 2.0) == pytest.approx(0.2, rel=1e-14)
    # for a tiny rate E steps move E times as far
    assert coin.step_of(50, 1e-7, 1.0) == pytest.approx(50e-7, rel=1e-5)
