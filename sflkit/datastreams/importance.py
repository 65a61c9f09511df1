"""How much each sample and each client counts when data stream in: weights, strategies, and the
minimiser of the bound psi.

Source: FDS (Federated Learning for Data Streams), Sections 4 and 5, Appendix C, with the
corrections of ERRATA 24-27 and 29. Historical clients keep their samples for all T rounds; a fresh
client keeps the samples of the current round only.

================  ===============  ==========  ===============================================================
code              symbol           shape       meaning (dimensionless unless said)
================  ===============  ==========  ===============================================================
weights           lambda           (T, M, N)   weight of each stored sample in each round, 0 where it is absent
aggregation       p^(t)            (T, M)      share of each client in a round's update, (5)
round weights     q                (T,)        share of each round in the averaged output, (6)
importance        p_{m,i}          (M, N)      share of each sample in the whole training, (15)
p                 p                (M,)        clients' relative importance, on the simplex
n                 n_m = N_m / N    (M,)        clients' sample counts, or their fractions (normalised inside)
historical        m <= M_hist      (M,)        bool mask of the historical clients
c1, c2            c1, c2           scalar      weight of the gradient noise, of the generalisation error, in loss
p_hist            p_hist           scalar      sum of p over the historical clients
k                 -                scalar      the minimiser's fresh part is p_m ~ n_m / (1 + k n_m)
================  ===============  ==========  ===============================================================
"""

from __future__ import annotations

import numpy as np

from sflkit import checks

SIMPLEX_TOL = 1e-6  # room for float32 vectors and interior-point solutions


def aggregation_weights(weights) -> np.ndarray:
    """Return the clients' aggregation weights of each round, (rounds, n_clients); rows sum to 1.
    Source: FDS, (5).

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
            f"weights add up to 0.0 in round {int(np.argmin(rounds > 0)) + 1}; every round needs a weight > 0"
        )
    return totals / rounds[:, None]


def round_weights(weights) -> np.ndarray:
    """Return q, the share of each round in the averaged output, (rounds,). Source: FDS, (6);
    `weights` as above.
    """
    weights = _weights(weights)
    return weights.sum(axis=(1, 2)) / weights.sum()


def relative_importance(weights) -> np.ndarray:
    """Return p_{m,i}, the share of each sample in the whole training, (n_clients, n_samples).
    Source: FDS, (15).

    Row sums are the clients' p_m, which equal `round_weights` @ `aggregation_weights`.
    """
    weights = _weights(weights)
    return weights.sum(axis=0) / weights.sum()


def effective_samples(weights) -> float:
    """Return (sum w)^2 / sum w^2, the number of equally weighted samples that average as well.
    Source: FDS, Theorem 4.1.

    `weights` may have any shape; at least one must be > 0. The answer lies in [1, number of
    weights] (Lemma 4.2)."""
    weights = checks.array("weights", weights, low=0)
    if not weights.size or weights.max() == 0:
        raise ValueError(f"weights={weights!r} must hold an entry > 0")
    scaled = weights / weights.max()
    return float(scaled.sum() ** 2 / (scaled**2).sum())


def client_effective_samples(p, counts) -> float:
    """Return N_eff = 1 / sum p_m^2 / N_m when the samples of a client share its p_m equally.
    Source: FDS, C.2.

    counts : (n_clients,), samples N_m > 0 of each client over the whole training.
    """
    p, counts = (
        checks.simplex("p", p, tol=SIMPLEX_TOL),
        checks.array("counts", counts, ndim=1, above=0),
    )
    check_same_length("p", p, "counts", counts)
    return float(p.sum() ** 2 / (p * (p / counts)).sum())


def gradient_noise(p, historical) -> float:
    """Return sqrt(sum of p_m^2 over the fresh clients), what c1 multiplies in psi (0 for
    Historical). Source: FDS, (19).
    """
    p = checks.simplex("p", p, tol=SIMPLEX_TOL)
    return float(np.linalg.norm(p[~_mask(historical, len(p))]))


def sample_weights(p, memory) -> np.ndarray:
    """Return lambda_m = p_m / memory_m, the stationary weight of a stored sample that gives the
    clients importance p.

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
    p, memory = (
        checks.simplex("p", p, tol=SIMPLEX_TOL),
        checks.array("memory", memory, ndim=1, low=1),
    )
    check_same_length("p", p, "memory", memory)
    if (memory != np.floor(memory)).any():
        raise ValueError(
            f"memory holds {float(memory[memory != np.floor(memory)][0])!r}; entries must be whole numbers >= 1"
        )
    # ERRATA 27: not p_m / N_m, which Section 5 implies and which makes historical clients count T
    # times too much
    return p / memory


def checked_clients(n, historical) -> tuple[np.ndarray, np.ndarray]:
    n = checks.array("n", n, ndim=1, above=0)
    historical = _mask(historical, len(n))
    if historical.all() or not historical.any():
        counts = f"{int(historical.sum())} historical and {int((~historical).sum())} fresh clients"
        raise ValueError(f"historical marks {counts}; there must be at least 1 of each")
    fractions = n / n.sum()
    if not fractions.all():
        raise ValueError(
            f"n holds {float(n.max())!r} and {float(n.min())!r}: they differ too much, a fraction is 0 as a double"
        )
    return fractions, historical


def _mask(historical, length: int) -> np.ndarray:
    mask = np.asarray(historical)
    if mask.dtype != bool or mask.shape != (length,):
        raise ValueError(
            f"historical={historical!r} must be a bool mask of shape ({length},), one entry per client"
        )
    return mask


def _weights(weights) -> np.ndarray:
    weights = checks.array("weights", weights, ndim=3, low=0)
    if not weights.any():
        raise ValueError(
            f"weights of shape {weights.shape} add up to 0.0; at least one must be > 0"
        )
    return weights


def check_same_length(name, value, other, reference) -> None:
    if len(value) != len(reference):
        raise ValueError(
            f"{name} has {len(value)} entries and {other} has {len(reference)}; they must agree, one per client"
        )
