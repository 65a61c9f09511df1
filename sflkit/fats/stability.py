"""How stable FATS is for given sizes, and the sizes for a given stability: Lemma 1 in numbers, and
Algorithm 1's first line.

Source: FATS, Algorithm 1 line 3, Lemma 1 and its proof, Table 2; ERRATA 20-22. The notation is that
of `sflkit.fats.forgetting`, which re-exports everything here."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from sflkit import checks


class Stability(NamedTuple):
    """TV stability by the paper's formula, and the exact probability that a sample or client is
    involved, which is the TV.
    """

    rho_s: float
    rho_c: float
    p_sample: float
    p_client: float


class Plan(NamedTuple):
    """Sizes that keep a promised stability, and the stability that they have."""

    clients_per_round: int
    batch_size: int
    rho_s: float
    rho_c: float


def stability(
    *, n_clients, samples_per_client, clients_per_round, batch_size, local_steps, rounds
) -> Stability:
    """Return rho_S = b K T / (M N) and rho_C = K R / M, and the exact involvement probabilities
    that they bound.

    Source: FATS, Lemma 1. The exact ones (ERRATA 20): a slot spares a client with probability 1 -
    1/M and a sample with 1 - 1/M + (1 - b/N)^E / M, and there are K R independent slots.

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
    n_clients, rounds = (
        checks.integer("n_clients", n_clients, 1),
        checks.integer("rounds", rounds, 1),
    )
    clients_per_round = checks.integer("clients_per_round", clients_per_round, 1)
    batch_size, local_steps = (
        checks.integer("batch_size", batch_size, 1),
        checks.integer("local_steps", local_steps, 1),
    )
    sizes = _sizes(samples_per_client, n_clients, batch_size)
    rho_s = _rho_s(n_clients, sizes, clients_per_round, batch_size, local_steps * rounds)
    rho_c = clients_per_round * rounds / n_clients
    with np.errstate(
        divide="ignore"
    ):  # log 0 = -inf where b = N: such a sample is in every mini-batch
        used = -np.expm1(local_steps * np.log1p(-batch_size / sizes)) / n_clients
        p_sample, p_client = (
            -np.expm1(clients_per_round * rounds * np.log1p(-p))
            for p in (used, np.float64(1 / n_clients))
        )
    return Stability(
        rho_s if sizes.ndim else float(rho_s),
        rho_c,
        p_sample if sizes.ndim else float(p_sample),
        float(p_client),
    )


def plan(*, rho_s, rho_c, n_clients, samples_per_client, local_steps, rounds) -> Plan:
    """Return the most clients a round, then the largest mini-batch, whose stability is never above
    what was asked.

    Source: FATS, Algorithm 1, line 3, K = rho_C E M / T and b = rho_S N / (rho_C E), made integers:
    K is rounded down, then b = rho_S M N / (K T) with that K; rounding to the nearest breaks the
    promise, (0.05, 0.05) can become (0.1, 0.1) (ERRATA 22). Call it once: K and b stay as they are
    after deletions (ERRATA 45).

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
    rho_s, rho_c = checks.real("rho_s", rho_s), checks.real("rho_c", rho_c)
    n_clients, rounds = (
        checks.integer("n_clients", n_clients, 1),
        checks.integer("rounds", rounds, 1),
    )
    steps = checks.integer("local_steps", local_steps, 1) * rounds
    size = float(_sizes(samples_per_client, n_clients, 1).min())

    def client_rho(k):
        return k * rounds / n_clients

    def batch(k, limit):
        b = _largest(
            limit * n_clients * size / (k * steps),
            lambda b: _rho_s(n_clients, size, k, b, steps) <= limit,
        )
        return min(b, math.floor(size))

    outside = [
        f"{name}={rho!r} must be above 0 and at most 1"
        for name, rho in (("rho_s", rho_s), ("rho_c", rho_c))
        if not 0 < rho <= 1
    ]
    most = 0 if outside else _largest(rho_c * n_clients / rounds, lambda k: client_rho(k) <= rho_c)
    best = batch(most, rho_s) if most else 0
    if best:
        return Plan(most, best, _rho_s(n_clients, size, most, best, steps), client_rho(most))
    asked = (
        f"rho_s={rho_s!r}, rho_c={rho_c!r} with n_clients={n_clients}, samples_per_client={size:g}, "
        f"local_steps={steps // rounds}, rounds={rounds}"
    )
    asked = "; ".join([*outside, asked])
    near = _nearest(min(max(rho_s, 0), 1), min(max(rho_c, 0), 1), n_clients, size, steps, rounds)
    if near is None:
        raise ValueError(
            f"{asked}: no plan is feasible; rounds must be at most {n_clients} and rounds * local_steps at most "
            f"{n_clients * size:g}, since one client a round and one sample a mini-batch are the least"
        )
    empty = "" if outside else f"{'a mini-batch' if most else 'a round'} would be empty; "
    raise ValueError(
        f"{asked}: infeasible, {empty}the nearest feasible plan is rho_s={near.rho_s!r}, rho_c={near.rho_c!r} "
        f"(clients_per_round={near.clients_per_round}, batch_size={near.batch_size})"
    )


def _nearest(rho_s, rho_c, n_clients, size, steps, rounds) -> Plan | None:
    """The feasible plan nearest in |d rho_s| + |d rho_c|: for each K try the b around rho_s M N /
    (K T); None without any.
    """
    k = np.arange(1, n_clients // rounds + 1)[:, None]
    b = np.floor(rho_s * n_clients * size / (k * steps)).astype(int) + np.arange(
        -1, 2
    )  # -1: the quotient may be rounded up
    b = np.clip(b, 1, math.floor(size))
    got_s, got_c = _rho_s(n_clients, size, k, b, steps), k * rounds / n_clients
    distance = np.where(got_s <= 1, abs(got_s - rho_s) + abs(got_c - rho_c), np.inf)
    if not np.isfinite(distance).any():
        return None
    i, j = np.unravel_index(distance.argmin(), distance.shape)
    return Plan(int(k[i, 0]), int(b[i, j]), float(got_s[i, j]), float(got_c[i, 0]))


def _rho_s(n_clients, size, clients_per_round, batch_size, steps):
    return batch_size * clients_per_round * steps / (n_clients * size)


def _largest(near: float, allowed) -> int:
    """The largest integer that is allowed, where `near` may be off by rounding: 0.29 * 100 is
    28.999..., 29 / 100 is 0.29.
    """
    guess = math.floor(near) + 1
    while guess > 0 and not allowed(guess):
        guess -= 1
    return guess


def _sizes(values, n_clients: int, low: int) -> np.ndarray:
    sizes = checks.array("samples_per_client", values, low=low)
    if sizes.ndim > 1 or (sizes.ndim and len(sizes) != n_clients):
        raise ValueError(
            f"samples_per_client={values!r} must be a number, or one for each of n_clients={n_clients}"
        )
    return sizes
