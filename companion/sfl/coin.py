"""Theorem 1's counter-example: one client, one class, and a fair coin in place of a sample.

Source: SFL, Theorem 1, with ERRATA 9, 52 and 74. The loss of a round's sample is h(w) + c w / 2,
where c = 1 or -1 is the round's coin and h has curvature 1 for |w| <= 1/2 and slope 1/2 or less
beyond. Then L = sigma_M = 1, sigma_G = A = lambda_t = 0, and the long-term loss is h. With the
coins of M rounds in the cache, E local steps move the model by w <- (1 - a) w - a n, where n is the
cache's mean of c / 2. From w_0 = 1/2 the model stays in [-1/2, 1/2], so that this is exact and
grad f(w) = w.

| code         | symbol   | shape | meaning                                                        |
|--------------|----------|-------|----------------------------------------------------------------|
| step         | a        |       | what a round moves, (1 - (1 - eta_L)^E) eta, in (0, 1]         |
| cache_rounds | M        |       | rounds in the cache, B / B_s; the paper asks for M > 1         |
| refreshed    |          |       | True: the last M rounds (FIFO); False: the first M for ever    |
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from sflkit import checks
from sflkit.sfl import bounds


def squared_gradient(
    rounds: int, step: float, cache_rounds: int, *, refreshed: bool = True
) -> np.ndarray:
    """Return E||grad f(w_t)||^2 = E[w_t^2] for t = 0, ..., rounds - 1, exactly, shape (rounds,).

    While the cache fills, it holds every coin so far. The model is a weighted sum of the coins and
    of w_0, so its second moment is (1 - a)^(2t) / 4 plus a quarter of the sum of squared weights.

    Parameters
    ----------
    rounds, cache_rounds : int
        T, M >= 1.
    step : float
        a in (0, 1].
    refreshed : bool
        Whether new coins replace old ones once the cache is full.

    Raises
    ------
    ValueError
        If an argument is out of range.
    """
    rounds = checks.integer("rounds", rounds, 1)
    step = checks.real("step", step, 0, 1, above=0)
    cache_rounds = checks.integer("cache_rounds", cache_rounds, 1)
    refreshed = checks.flag("refreshed", refreshed)
    weights = np.zeros(rounds)  # of coin s in w_t
    moments = np.empty(rounds)
    for t in range(rounds):
        moments[t] = (1 - step) ** (2 * t) / 4 + (weights**2).sum() / 4
        held = min(t + 1, cache_rounds)
        first = t + 1 - held if refreshed else 0
        weights *= 1 - step
        weights[first : first + held] -= step / held
    return moments


def limit(step: float, cache_rounds: int, *, refreshed: bool = True) -> float:
    """Return the limit of `squared_gradient` for many rounds.

    A cache that is never refreshed leaves the model at minus the mean of its M coins, halved:
    1 / (4M). For FIFO the noise n has covariance (M - k) / (4 M^2) at lag k < M, and w is its
    moving average of rate 1 - a: a^2 / (1 - (1-a)^2) times the sum of the covariances over all
    lags, weighted by (1-a)^|k|. With a = 1/4 that is 1/28 for M = 1 and 1/32 for M = 2.

    Raises
    ------
    ValueError
        If an argument is out of range.
    """
    step = checks.real("step", step, 0, 1, above=0)
    cache_rounds = checks.integer("cache_rounds", cache_rounds, 1)
    refreshed = checks.flag("refreshed", refreshed)
    if not refreshed:
        return 1 / (4 * cache_rounds)
    lags = np.arange(cache_rounds)
    covariance = (cache_rounds - lags) / (4 * cache_rounds**2)
    spread = covariance[0] + 2 * (covariance[1:] * (1 - step) ** lags[1:]).sum()
    return float(step**2 / (1 - (1 - step) ** 2) * spread)


def step_of(local_steps: int, local_rate: float, global_rate: float) -> float:
    """Return a = eta (1 - (1 - eta_L)^E), what E local steps and the server's step move in a round.

    Raises
    ------
    ValueError
        If an argument is out of range.
    """
    local_steps = checks.integer("local_steps", local_steps, 1)
    local_rate = checks.real("local_rate", local_rate, 0, 1, above=0)
    return checks.real("global_rate", global_rate, above=0) * (1 - (1 - local_rate) ** local_steps)


def bound(
    rounds: int, local_steps: int, local_rate: float, global_rate: float
) -> bounds.SFLConvergence:
    """Return Theorem 1's bound on the least of the first `rounds` squared gradients.

    The loss gap is h(1/2) - h(0) = 1/8. Raises ValueError as `bounds.theorem1`.
    """
    rounds = checks.integer("rounds", rounds, 1)
    return bounds.theorem1(
        loss_gap=0.125,
        rounds=rounds,
        local_steps=local_steps,
        smoothness=1.0,
        local_rate=local_rate,
        global_rate=global_rate,
        n_classes=1,
        max_share=1.0,
        sigma_m2=1.0,
        sigma_g2=0.0,
        dissimilarity2=0.0,
        lambda2=np.zeros(rounds),
        n_clients=1,
    )


def simulate(
    rounds: int, step: float, cache_rounds: int, coins: ArrayLike, *, refreshed: bool = True
) -> np.ndarray:
    """Return w_0, ..., w_{rounds-1} along given paths of coins, shape (n_paths, rounds).

    Parameters
    ----------
    rounds, step, cache_rounds, refreshed
        As of `squared_gradient`.
    coins : array (n_paths, rounds)
        Each 1 or -1.

    Raises
    ------
    ValueError
        If an argument is out of range or `coins` has another shape.
    """
    coins = checks.array("coins", coins, ndim=2, low=-1)
    if coins.shape[1] != checks.integer("rounds", rounds, 1):
        raise ValueError(
            f"coins has shape {coins.shape}; it must have {rounds} columns, one a round"
        )
    if not (np.abs(coins) == 1).all():
        wrong = float(coins[np.abs(coins) != 1][0])
        raise ValueError(f"coins holds {wrong!r}; entries must be 1 or -1")
    step = checks.real("step", step, 0, 1, above=0)
    cache_rounds = checks.integer("cache_rounds", cache_rounds, 1)
    refreshed = checks.flag("refreshed", refreshed)
    path = np.empty(coins.shape)
    w = np.full(len(coins), 0.5)
    for t in range(rounds):
        path[:, t] = w
        held = min(t + 1, cache_rounds)
        first = t + 1 - held if refreshed else 0
        w = (1 - step) * w - step * coins[:, first : first + held].mean(axis=1) / 2
    return path
