"""How stable FATS is for given sizes, and the sizes for a given stability: Lemma 1 in numbers, and
Algorithm 1's first line.

Source: FATS, Algorithm 1 line 3, Lemma 1 and its proof, Table 2; ERRATA 20-22. The notation is that
of `sflkit.fats.history`, and

============  =============  =======================================================================
code          symbol         meaning
============  =============  =======================================================================
rho_s, rho_c  rho_S, rho_C   total variation (TV) stability towards one sample, or one client
p_sample      P(use)         exact probability that a sample is used at least once
p_client                     exact probability that a client is drawn at least once
============  =============  =======================================================================
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from sflkit import checks


class Stability(NamedTuple):
    """TV stability by the paper's formula, and the exact probabilities of use, which are the TV.

    `rho_s` and `p_sample` are arrays (n_clients,) where the clients have numbers of samples of
    their own.
    """

    rho_s: float | np.ndarray
    rho_c: float
    p_sample: float | np.ndarray
    p_client: float


class Plan(NamedTuple):
    """Sizes that keep a promised stability, and the stability that they have."""

    clients_per_round: int
    batch_size: int
    rho_s: float
    rho_c: float


class _Crowd(NamedTuple):
    """What a plan cannot choose: M, the least N_k, T, and R."""

    n_clients: int
    samples: float
    steps: int
    rounds: int


def stability(
    *,
    n_clients: int,
    samples_per_client: ArrayLike,
    clients_per_round: int,
    batch_size: int,
    local_steps: int,
    rounds: int,
) -> Stability:
    """Return rho_S = b K T / (M N) and rho_C = K R / M, and the probabilities that they bound.

    Source: FATS, Lemma 1. The exact probabilities (ERRATA 20): a slot spares a client with
    probability 1 - 1/M and a sample with 1 - 1/M + (1 - b/N)^E / M, and there are K R independent
    slots.

    Parameters
    ----------
    n_clients, clients_per_round, batch_size, local_steps, rounds : int
        M, K, b, E, R, each >= 1.
    samples_per_client : float or array (n_clients,)
        N, a mean over clients for instance, or each client's own N_k; >= batch_size. With an array,
        rho_s and p_sample are arrays too: those of a sample of each client (ERRATA 21).

    Raises
    ------
    ValueError
        For values out of range.
    """
    n_clients = checks.integer("n_clients", n_clients, 1)
    rounds = checks.integer("rounds", rounds, 1)
    clients_per_round = checks.integer("clients_per_round", clients_per_round, 1)
    batch_size = checks.integer("batch_size", batch_size, 1)
    local_steps = checks.integer("local_steps", local_steps, 1)
    sizes = _sizes(samples_per_client, n_clients, batch_size)
    rho_s = _rho_s(n_clients, sizes, clients_per_round, batch_size, local_steps * rounds)
    rho_c = clients_per_round * rounds / n_clients
    with np.errstate(divide="ignore"):  # b = N gives log 0 = -inf: the sample is in every batch
        used = -np.expm1(local_steps * np.log1p(-batch_size / sizes)) / n_clients
        p_sample, p_client = (
            -np.expm1(clients_per_round * rounds * np.log1p(-p))
            for p in (used, np.float64(1 / n_clients))
        )
    if sizes.ndim:
        return Stability(rho_s, rho_c, p_sample, float(p_client))
    return Stability(float(rho_s), rho_c, float(p_sample), float(p_client))


def plan(
    *,
    rho_s: float,
    rho_c: float,
    n_clients: int,
    samples_per_client: ArrayLike,
    local_steps: int,
    rounds: int,
) -> Plan:
    """Return the most clients per round, then the largest mini-batch, that keep a stability.

    The stability of the plan is never above what was asked. Source: FATS, Algorithm 1, line 3, K =
    rho_C E M / T and b = rho_S N / (rho_C E), made integers: K is rounded down, then b = rho_S M N
    / (K T) with that K. Rounding to the nearest breaks the promise: (0.05, 0.05) can become (0.1,
    0.1) (ERRATA 22). Call it once: K and b stay as they are after deletions (ERRATA 45).

    Parameters
    ----------
    rho_s, rho_c : float
        Stability asked for, in (0, 1].
    n_clients, local_steps, rounds : int
        M, E, R, each >= 1.
    samples_per_client : float or array (n_clients,)
        N >= 1; with an array, the client with the fewest samples must keep the promise, since its
        samples are used most.

    Raises
    ------
    ValueError
        For values out of range, and when K or b would be 0. For rho_s or rho_c outside (0, 1], and
        for an empty round or mini-batch, the message holds the nearest feasible plan: of all
        integers K >= 1 and b in [1, N] whose stabilities are at most 1, those with the least
        |rho_s(K, b) - rho_s| + |rho_c(K) - rho_c| (of equals the least K, then the least b), where
        what was asked is first clipped to [0, 1]. It may lie above what was asked.
    """
    rho_s = checks.real("rho_s", rho_s)
    rho_c = checks.real("rho_c", rho_c)
    n_clients = checks.integer("n_clients", n_clients, 1)
    rounds = checks.integer("rounds", rounds, 1)
    steps = checks.integer("local_steps", local_steps, 1) * rounds
    size = float(_sizes(samples_per_client, n_clients, 1).min())
    crowd = _Crowd(n_clients, size, steps, rounds)
    if not (0 < rho_s <= 1 and 0 < rho_c <= 1):
        raise ValueError(_no_plan(rho_s, rho_c, crowd, ""))
    most = _largest(rho_c * n_clients / rounds, lambda k: k * rounds / n_clients <= rho_c)
    if not most:
        raise ValueError(_no_plan(rho_s, rho_c, crowd, "a round would be empty; "))
    best = _largest(
        rho_s * n_clients * size / (most * steps),
        lambda b: _rho_s(n_clients, size, most, b, steps) <= rho_s,
    )
    best = min(best, math.floor(size))
    if not best:
        raise ValueError(_no_plan(rho_s, rho_c, crowd, "a mini-batch would be empty; "))
    got = _rho_s(n_clients, size, most, best, steps)
    return Plan(most, best, got, most * rounds / n_clients)


def _no_plan(rho_s: float, rho_c: float, crowd: _Crowd, empty: str) -> str:
    """Return the message that there is no such plan, with the nearest one that there is."""
    n_clients, size, steps, rounds = crowd
    asked = [
        f"{name}={rho!r} must be above 0 and at most 1"
        for name, rho in (("rho_s", rho_s), ("rho_c", rho_c))
        if not 0 < rho <= 1
    ]
    asked.append(
        f"rho_s={rho_s!r}, rho_c={rho_c!r} with n_clients={n_clients}, "
        f"samples_per_client={size:g}, local_steps={steps // rounds}, rounds={rounds}"
    )
    near = _nearest(min(max(rho_s, 0), 1), min(max(rho_c, 0), 1), crowd)
    if near is None:
        return (
            f"{'; '.join(asked)}: no plan is feasible; rounds must be at most {n_clients} and "
            f"rounds * local_steps at most {n_clients * size:g}, since one client per round and "
            "one sample per mini-batch are the least"
        )
    return (
        f"{'; '.join(asked)}: infeasible, {empty}the nearest feasible plan is "
        f"rho_s={near.rho_s!r}, rho_c={near.rho_c!r} (clients_per_round={near.clients_per_round}, "
        f"batch_size={near.batch_size})"
    )


def _nearest(rho_s: float, rho_c: float, crowd: _Crowd) -> Plan | None:
    """Return the feasible plan nearest in |d rho_s| + |d rho_c|, None if there is none.

    For each K only the b around rho_s M N / (K T) are tried."""
    n_clients, size, steps, rounds = crowd
    k = np.arange(1, n_clients // rounds + 1)[:, None]
    # One less as well, since the quotient may be rounded up.
    b = np.floor(rho_s * n_clients * size / (k * steps)).astype(int) + np.arange(-1, 2)
    b = np.clip(b, 1, math.floor(size))
    got_s = _rho_s(n_clients, size, k, b, steps)
    got_c = k * rounds / n_clients
    distance = np.where(got_s <= 1, abs(got_s - rho_s) + abs(got_c - rho_c), np.inf)
    if not np.isfinite(distance).any():
        return None
    i, j = np.unravel_index(distance.argmin(), distance.shape)
    return Plan(int(k[i, 0]), int(b[i, j]), float(got_s[i, j]), float(got_c[i, 0]))


def _rho_s(n_clients, size, clients_per_round, batch_size, steps):
    """Return b K T / (M N), for numbers or arrays."""
    return batch_size * clients_per_round * steps / (n_clients * size)


def _largest(near: float, allowed: Callable[[int], bool]) -> int:
    """Return the largest integer that is allowed, 0 if none is.

    `near` may be off by rounding: 0.29 * 100 is 28.999..., while 29 / 100 is 0.29."""
    guess = math.floor(near) + 1
    while guess > 0 and not allowed(guess):
        guess -= 1
    return guess


def _sizes(values: ArrayLike, n_clients: int, low: int) -> np.ndarray:
    sizes = checks.array("samples_per_client", values, low=low)
    if sizes.ndim > 1 or (sizes.ndim and len(sizes) != n_clients):
        raise ValueError(
            f"samples_per_client={values!r} must be a number, or one for each of "
            f"n_clients={n_clients}"
        )
    return sizes
