"""How much each sample and each client counts when data stream in.

Source: FDS (Federated Learning for Data Streams), Sections 3 and 4, Appendix C, with the
corrections of ERRATA 27 and 29. Historical clients keep their samples for all T rounds; a fresh
client keeps the samples of the current round only. `psi` chooses the importance of clients,
`strategies` names the choices.

| code          | symbol      | shape     | meaning                                          |
|---------------|-------------|-----------|--------------------------------------------------|
| weights       | lambda      | (T, M, N) | weight of each stored sample, per round          |
| aggregation   | p^(t)       | (T, M)    | share of each client in a round's update, (5)    |
| round weights | q           | (T,)      | share of each round in the averaged output, (6)  |
| importance    | p_{m,i}     | (M, N)    | share of each sample in the whole training, (15) |
| p             | p           | (M,)      | clients' relative importance, on the simplex     |
| n             | N_m / N     | (M,)      | clients' sample counts or fractions              |
| historical    | m <= M_hist | (M,)      | bool mask of the historical clients              |
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from sflkit import checks

SIMPLEX_TOL = 1e-6  # room for float32 vectors and interior-point solutions


def aggregation_weights(weights: ArrayLike) -> np.ndarray:
    """Return the clients' aggregation weights of each round, (rounds, n_clients).

    Rows sum to 1. Source: FDS, (5).

    Parameters
    ----------
    weights : array (rounds, n_clients, n_samples)
        Non-negative sample weights, 0 for a sample outside the client's memory; pad clients with
        fewer samples by 0.

    Raises
    ------
    ValueError
        If a weight is negative, or no sample has weight in some round.
    """
    totals = _weights(weights).sum(axis=2)
    rounds = totals.sum(axis=1)
    if (rounds == 0).any():
        raise ValueError(
            f"weights add up to 0.0 in round {int(np.argmin(rounds > 0)) + 1}; every round needs a "
            "weight > 0"
        )
    return totals / rounds[:, None]


def round_weights(weights: ArrayLike) -> np.ndarray:
    """Return q, the share of each round in the averaged output, (rounds,).

    `weights` (rounds, n_clients, n_samples) as in `aggregation_weights`; here a round may be
    without weight, but not all of them. Source: FDS, (6).

    Raises
    ------
    ValueError
        If a weight is negative, or all are 0.
    """
    weights = _weights(weights)
    return weights.sum(axis=(1, 2)) / weights.sum()


def relative_importance(weights: ArrayLike) -> np.ndarray:
    """Return p_{m,i}, the share of each sample in the whole training, (n_clients, n_samples).

    Row sums are the clients' p_m, which equal `round_weights` @ `aggregation_weights`. `weights`,
    and what is refused, as in `round_weights`. Source: FDS, (15).
    """
    weights = _weights(weights)
    return weights.sum(axis=0) / weights.sum()


def effective_samples(weights: ArrayLike) -> float:
    """Return (sum w)^2 / sum w^2, the number of equally weighted samples that average as well.

    The answer lies in [1, number of weights] (Lemma 4.2). Source: FDS, Theorem 4.1.

    Parameters
    ----------
    weights : array of any shape
        >= 0, at least one of them > 0.

    Raises
    ------
    ValueError
        If a weight is negative, or none is positive.
    """
    weights = checks.array("weights", weights, low=0)
    if not weights.size or weights.max() == 0:
        raise ValueError(f"weights={weights!r} must hold an entry > 0")
    scaled = weights / weights.max()
    return float(scaled.sum() ** 2 / (scaled**2).sum())


def client_effective_samples(p: ArrayLike, counts: ArrayLike) -> float:
    """Return N_eff = 1 / (sum of p_m^2 / N_m), for samples of a client that share its p_m equally.

    Source: FDS, C.2.

    Parameters
    ----------
    p : array (n_clients,)
        Relative importance, on the simplex.
    counts : array (n_clients,)
        Samples N_m > 0 of each client over the whole training.

    Raises
    ------
    ValueError
        If `p` is off the simplex, a count is not positive, or the lengths differ.
    """
    p = checks.simplex("p", p, tol=SIMPLEX_TOL)
    counts = checks.array("counts", counts, ndim=1, above=0)
    checks.shape("p", p, counts.shape, like="counts")
    return float(p.sum() ** 2 / (p * (p / counts)).sum())


def gradient_noise(p: ArrayLike, historical: ArrayLike) -> float:
    """Return sqrt(sum of p_m^2 over the fresh clients), which c1 multiplies in psi.

    It is 0 for the strategy Historical. Source: FDS, (19).

    Parameters
    ----------
    p : array (n_clients,)
        Relative importance, on the simplex.
    historical : bool array (n_clients,)
        The historical clients; here all may be of one kind.

    Raises
    ------
    ValueError
        If `p` is off the simplex, or `historical` is no mask of its length.
    """
    p = checks.simplex("p", p, tol=SIMPLEX_TOL)
    return float(np.linalg.norm(p[~_mask(historical, "p", p)]))


def sample_weights(p: ArrayLike, memory: ArrayLike) -> np.ndarray:
    """Return lambda_m = p_m / memory_m, (n_clients,).

    With this weight of each of its stored samples in every round, the clients have importance p.

    Parameters
    ----------
    p : array (n_clients,)
        Relative importance, on the simplex.
    memory : int array (n_clients,)
        Samples a client holds at a time, >= 1: N_m for a historical client, b_m for a fresh one.

    Raises
    ------
    ValueError
        If p is off the simplex, or a memory is no positive whole number.
    """
    p = checks.simplex("p", p, tol=SIMPLEX_TOL)
    memory = checks.array("memory", memory, ndim=1, low=1)
    checks.shape("p", p, memory.shape, like="memory")
    broken = memory[memory != np.floor(memory)]
    if broken.size:
        raise ValueError(f"memory holds {float(broken[0])!r}; entries must be whole numbers >= 1")
    # ERRATA 27: not p_m / N_m, which Section 5 implies and which makes historical clients count T
    # times too much
    return p / memory


def memory_importance(n: ArrayLike, historical: ArrayLike, rounds: int) -> np.ndarray:
    """Return p_m in proportion to the samples that a client holds at a time, (n_clients,).

    A historical client holds all of its N_m samples, a fresh one N_m / T, what arrives in a round.
    With f = N_hist / N the historical clients count f / (f + (1 - f) / T) in all. Source: FDS,
    Section 6, "Baselines", the second way to extend FedAvg.

    Parameters
    ----------
    n : array (n_clients,)
        Sample counts or fractions over the whole training, > 0.
    historical : bool array (n_clients,)
        At least one True and one False.
    rounds : int
        T >= 1, in which a fresh client's samples arrive evenly.

    Raises
    ------
    ValueError
        If an argument is out of range.
    """
    n, historical = checked_clients(n, historical)
    held = np.where(historical, n, n / checks.integer("rounds", rounds, 1))
    return held / held.sum()


def checked_clients(n: ArrayLike, historical: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    """Return the fractions n_m = N_m / N and the mask of the historical clients, (n_clients,) each.

    Parameters
    ----------
    n : array (n_clients,)
        Sample counts or fractions, > 0; normalised here.
    historical : bool array (n_clients,)
        At least one True and one False.

    Raises
    ------
    ValueError
        If a size is not positive, sizes differ so much that a fraction is 0 as a double, or the
        mask does not fit or marks one kind only.
    """
    n = checks.array("n", n, ndim=1, above=0)
    historical = _mask(historical, "n", n)
    if historical.all() or not historical.any():
        counts = f"{int(historical.sum())} historical and {int((~historical).sum())} fresh clients"
        raise ValueError(f"historical marks {counts}; there must be at least 1 of each")
    fractions = n / n.sum()
    if not fractions.all():
        raise ValueError(
            f"n holds {float(n.max())!r} and {float(n.min())!r}: they differ too much, a fraction "
            "is 0 as a double"
        )
    return fractions, historical


def _mask(historical: ArrayLike, of: str, values: np.ndarray) -> np.ndarray:
    """Return a mask that marks clients, one entry per entry of `values`, which is called `of`."""
    mask = checks.values("historical", historical)
    if mask.dtype != bool or mask.shape != values.shape:
        raise ValueError(
            f"historical={checks.shown(historical)} must be a bool mask of shape {values.shape}, "
            f"one entry per client, as {of} has"
        )
    return mask


def _weights(weights: ArrayLike) -> np.ndarray:
    weights = checks.array("weights", weights, ndim=3, low=0)
    if not weights.any():
        raise ValueError(
            f"weights of shape {weights.shape} add up to 0.0; at least one must be > 0"
        )
    return weights
