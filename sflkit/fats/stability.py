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
from typing import Annotated, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from sflkit import checks
from sflkit.config import Count, Number, checked

Asked = Annotated[float, Number(high=1, above=0)]


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


@checked
def stability(
    *,
    n_clients: Count,
    samples_per_client: ArrayLike,
    clients_per_round: Count,
    batch_size: Count,
    local_steps: Count,
    rounds: Count,
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
    sizes = _sizes(samples_per_client, n_clients, batch_size)
    rho_s = _rho_s(n_clients, sizes, clients_per_round, batch_size, local_steps * rounds)
    rho_c = clients_per_round * rounds / n_clients
    with np.errstate(divide="ignore"):  # b = N gives log 0 = -inf: the sample is in every batch
        used = -np.expm1(local_steps * np.log1p(-batch_size / sizes)) / n_clients
        slots = clients_per_round * rounds
        p_sample = -np.expm1(slots * np.log1p(-used))
        p_client = float(-np.expm1(slots * np.log1p(np.float64(-1 / n_clients))))
    if sizes.ndim:
        return Stability(rho_s, rho_c, p_sample, p_client)
    return Stability(float(rho_s), rho_c, float(p_sample), p_client)


@checked
def plan(
    *,
    rho_s: Asked,
    rho_c: Asked,
    n_clients: Count,
    samples_per_client: ArrayLike,
    local_steps: Count,
    rounds: Count,
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
        For values out of range, and when K or b would be 0: the message says the least rho_c, or
        the least rho_s with that K, or that no plan is feasible.
    """
    steps = local_steps * rounds
    size = float(_sizes(samples_per_client, n_clients, 1).min())
    most = _largest(rho_c * n_clients / rounds, lambda k: k * rounds / n_clients <= rho_c)
    if not most:
        least = rounds / n_clients
        way = f"it must be at least {least!r}" if least <= 1 else "no plan is feasible"
        raise ValueError(
            f"rho_c={rho_c!r} leaves each of rounds={rounds} empty; with n_clients={n_clients} "
            f"{way}: one client per round makes {least!r}"
        )
    best = _largest(
        rho_s * n_clients * size / (most * steps),
        lambda b: _rho_s(n_clients, size, most, b, steps) <= rho_s,
    )
    best = min(best, math.floor(size))
    if not best:
        least = _rho_s(n_clients, size, most, 1, steps)
        way = f"must be at least {least!r}" + (", or rho_c smaller" if most > 1 else "")
        if _rho_s(n_clients, size, 1, 1, steps) > 1:
            way = "cannot be kept: no plan is feasible, even with one client per round"
        raise ValueError(
            f"rho_s={rho_s!r} leaves mini-batches empty; with rho_c={rho_c!r}, hence "
            f"clients_per_round={most}, it {way}"
        )
    got = _rho_s(n_clients, size, most, best, steps)
    return Plan(most, best, got, most * rounds / n_clients)


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
    if checks.values("samples_per_client", values).dtype == bool:
        raise ValueError(f"samples_per_client={checks.shown(values)} must be numbers of samples")
    sizes = checks.array("samples_per_client", values, low=low)
    return checks.shape("samples_per_client", sizes, (), (n_clients,))
