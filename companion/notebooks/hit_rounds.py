"""The law of the round that a batch of requests hits, and means over it.

What FATS loses when it is asked to forget is decided by one number, the round of the first use: it
goes back to the model before that round. The number is a lottery, but its law is known without any
training, so that what a figure shows of one draw can be averaged over all of them:

    E[accuracy after the request] = sum over r of P(r) accuracy(r),

where accuracy(r) is that of the global model after r rounds. The path that it is read from is the
recomputed one (what was kept, then what was made again), which has the law of learning on what is
left, at whatever round it was cut: exactly so for clients, since the rounds before the hit are
those that do not draw them and all others are drawn afresh. For samples the hit round says a little
about how often their clients were drawn before; that changes the law of the path by an order of
1/M.

Source: FATS, Algorithms 1-3, Theorem 7, Section 6.2.1.

=========  ========  ======================================================================
code       symbol    meaning
=========  ========  ======================================================================
law        P         (R + 1,) probability that the first use is in round r; the last entry
                     is that nothing uses any target
path       a         (..., R + 1) accuracy of the model after 0, 1, ..., R rounds
start      r         round that recomputing goes back to; R recomputes nothing
=========  ========  ======================================================================

"""

from __future__ import annotations

from collections.abc import Iterable
from math import prod

import numpy as np
from numpy.typing import ArrayLike

from sflkit.fats.forgetting import by_client
from sflkit.fats.history import Target, client_sizes


def slot_spared(
    targets: Iterable[Target],
    *,
    n_clients: int,
    samples_per_client: ArrayLike,
    batch_size: int,
    local_steps: int,
) -> float:
    """Return the probability that one slot of a round, all its E mini-batches, uses no target.

    A slot draws one of M clients. One that is to be forgotten is used by being drawn; a client of
    which c of N_k samples are to be forgotten spares them in all E mini-batches with probability
    (C(N_k - c, b) / C(N_k, b))^E.

    Parameters
    ----------
    targets : list of (client, sample), or (client, None) for a whole client
        Each once, which is not checked: a sample that stands twice counts as two of its client.
    n_clients, samples_per_client, batch_size, local_steps
        M, N_k, b, E, as for `history.draw_history`.
    """
    sizes = client_sizes(samples_per_client, n_clients, batch_size)
    spared = 1.0
    for client, samples in by_client(targets).items():
        n = int(sizes[client])
        kept = 0.0
        if None not in samples:
            # C(n - c, b) / C(n, b), without numbers of more digits than memory has
            each = ((n - batch_size - i) / (n - i) for i in range(len(samples)))
            kept = prod(each) ** local_steps
        spared -= (1.0 - kept) / n_clients
    return spared


def hit_law(
    targets: Iterable[Target], *, clients_per_round: int, rounds: int, **sizes: ArrayLike
) -> np.ndarray:
    """Return the law of the first round that uses a target, float64 (R + 1,).

    A round spares all targets if its K independent slots do, so that r rounds do with probability
    s^(K r), s of `slot_spared`.

    Parameters
    ----------
    targets
        As for `slot_spared`; all are served at once. Without any, nothing is ever hit.
    clients_per_round, rounds : int
        K, R.
    **sizes
        n_clients, samples_per_client, batch_size and local_steps, as for `slot_spared`.
    """
    unused = slot_spared(targets, **sizes) ** (float(clients_per_round) * np.arange(rounds + 1))
    return np.append(unused[:-1] - unused[1:], unused[-1])


def rounds_back(path: ArrayLike, goal: ArrayLike) -> np.ndarray:
    """Return the rounds from each start until the accuracy is at `goal`, (..., R + 1).

    Recomputing ends with round R, and so does the wait: R - r at most.

    Parameters
    ----------
    path : array (..., R + 1)
    goal : array (...)
    """
    path = np.asarray(path, dtype=float)
    there = path >= np.asarray(goal, dtype=float)[..., None]
    last = path.shape[-1] - 1
    place = np.where(there, np.arange(last + 1), last)
    first = np.minimum.accumulate(place[..., ::-1], axis=-1)[..., ::-1]
    return first - np.arange(last + 1)


def mean_after(path: ArrayLike, window: int) -> np.ndarray:
    """Return the mean accuracy over the rounds 0..window - 1 after the request, (..., R + 1).

    A start of r shows the models after r, r + 1, ..., R rounds, and then stays at the last.

    Parameters
    ----------
    path : array (..., R + 1)
    window : int
        Rounds, >= 1.
    """
    path = np.asarray(path, dtype=float)
    last = path.shape[-1] - 1
    shown = np.minimum(np.arange(last + 1)[:, None] + np.arange(window), last)
    return path[..., shown].mean(axis=-1)


def expected(law: ArrayLike, values: ArrayLike) -> np.ndarray:
    """Return the mean of `values` (..., R + 1) over a law (..., R + 1) of the start."""
    return (np.asarray(law, dtype=float) * np.asarray(values, dtype=float)).sum(axis=-1)


def expected_share(law: ArrayLike) -> np.ndarray:
    """Return the expected share of the R rounds that is recomputed, so also of bytes and gradients.

    Parameters
    ----------
    law : array (..., R + 1)
    """
    law = np.asarray(law, dtype=float)
    rounds = law.shape[-1] - 1
    return expected(law, 1 - np.arange(rounds + 1) / rounds)
