"""Descent on psi, which the paper names as a way to its minimiser, and on the bound (14).

Source: FDS (Federated Learning for Data Streams), Section 5. `psi.minimize_psi` is exact and
faster; this is here to check the paper's remark. psi has a kink where no fresh client counts, and
its minimiser lies there if c2/c1 is small; steps that shrink like 1 / sqrt(k) get there all the
same, where constant ones would not.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from sflkit import checks
from sflkit.datastreams.importance import check_same_length, checked_clients
from sflkit.datastreams.psi import PsiMinimum, psi


def project_simplex(point: ArrayLike) -> np.ndarray:
    """Return the point of the simplex that is nearest to `point` (n,).

    Held, Wolfe and Crowder (1974): subtract one number from all entries and cut at 0.

    Raises
    ------
    ValueError
        If `point` is empty or not finite.
    """
    point = checks.array("point", point, ndim=1)
    if not point.size:
        raise ValueError("point must hold at least one entry")
    # The answer is the same when all entries are moved, and beside large ones a 1 would be lost.
    return _projected(point - point.max() if np.abs(point).max() > 1e6 else point)


def descend_psi(
    n: ArrayLike,
    historical: ArrayLike,
    c1: float,
    c2: float,
    *,
    steps: int = 2000,
    length: float = 0.5,
    start: ArrayLike | None = None,
) -> PsiMinimum:
    """Return the best point that projected gradient descent meets in some steps.

    The gradient is divided by its norm, so that step k has the length `length` / sqrt(k).

    Parameters
    ----------
    n, historical, c1, c2
        As of `psi.minimize_psi`.
    steps : int
        >= 1.
    length : float
        In (0, 1e6].
    start : array (n_clients,), optional
        On the simplex; by default Uniform.

    Raises
    ------
    ValueError
        As `psi.psi`, or if `steps` or `length` is out of range.
    """
    n, historical = checked_clients(n, historical)
    # A step across the simplex is at most sqrt(2) long.
    length = checks.real("length", length, above=0, high=1e6)
    p = n.copy() if start is None else checks.simplex("start", start)
    psi(p, n, historical, c1, c2)  # refuses what cannot be descended
    best = _descend(p, n, historical, np.array([c1, c2, length]), checks.integer("steps", steps, 1))
    return PsiMinimum(best, psi(best, n, historical, c1, c2), float(best[historical].sum()))


def descend_each(
    n: np.ndarray, historical: np.ndarray, c1: np.ndarray, c2: np.ndarray, length: float
) -> np.ndarray:
    """Return the psi that 2000 steps of `descend_psi` reach on many problems at once, (R,).

    Parameters
    ----------
    n : array (R, n_clients)
        Fractions > 0, rows on the simplex.
    historical : bool array (n_clients,)
    c1, c2 : array (R,)
    length : float
        Of the first step.
    """
    constants = np.stack([c1, c2, np.full(len(n), length)])
    best = _descend(n.copy(), n, historical, constants, 2000)
    found = zip(best, n, c1, c2, strict=True)
    return np.array([psi(p, share, historical, a, b) for p, share, a, b in found])


def descend_generalization(
    losses: ArrayLike, counts: ArrayLike, capacity: float, start: ArrayLike
) -> float:
    """Return the bound (14) where Powell's method ends from some importance of the clients.

    The samples of a client weigh the same. The bound is max_h |sum_m (n_m - p_m) L_{P_m}(h)| +
    capacity sqrt(sum_m p_m^2 / N_m), for the target alpha = n; p is the softmax of the search's
    variables. Source: FDS, Theorem 4.1.

    Parameters
    ----------
    losses : array (n_hypotheses, n_clients)
        Risks >= 0.
    counts : array (n_clients,)
        N_m > 0.
    capacity : float
        >= 0, the second term's factor.
    start : array (n_clients,)
        Logarithms of the importance to begin with, up to a constant.

    Raises
    ------
    ValueError
        If an argument is out of range or the lengths differ.
    """
    from scipy.optimize import minimize

    losses = checks.array("losses", losses, ndim=2, low=0)
    counts = checks.array("counts", counts, ndim=1, above=0)
    capacity = checks.real("capacity", capacity, 0)
    start = checks.array("start", start, ndim=1)
    check_same_length("counts", counts, "start", start)
    if not losses.size or losses.shape[1] != len(counts):
        raise ValueError(
            f"losses has shape {losses.shape}; it must be (n_hypotheses, {len(counts)}), with one "
            "column per entry of counts"
        )
    target = counts / counts.sum()

    def bound(logs: np.ndarray) -> float:
        p = np.exp(logs - logs.max())
        p /= p.sum()
        return np.abs(losses @ (target - p)).max() + capacity * np.sqrt((p**2 / counts).sum())

    return float(minimize(bound, start, method="Powell", options={"maxiter": 40}).fun)


def _descend(
    p: np.ndarray, n: np.ndarray, historical: np.ndarray, constants: np.ndarray, steps: int
) -> np.ndarray:
    """Return the best point that descent from p meets, (..., n_clients).

    `constants` holds c1, c2 and the length of the first step, (3, ...).
    """
    c1, c2, length = constants[..., None]
    best, least = p, np.full((*p.shape[:-1], 1), np.inf)
    for k in range(1, steps + 1):
        noise = np.linalg.norm(np.where(historical, 0.0, p), axis=-1, keepdims=True)
        spread = np.sqrt((p * (p / n)).sum(axis=-1, keepdims=True))
        value = c1 * noise + c2 * spread
        best, least = np.where(value < least, p, best), np.minimum(value, least)
        slope = c2 * p / n / spread
        slope = slope + np.where(historical, 0.0, c1 * p / np.where(noise > 0, noise, 1.0))
        slope = slope - slope.mean(axis=-1, keepdims=True)  # along the simplex
        largest = np.abs(slope).max(axis=-1, keepdims=True)
        slope = slope / np.where(largest > 0, largest, 1.0)  # so that no square overflows
        size = np.linalg.norm(slope, axis=-1, keepdims=True)
        p = _projected(p - length / np.sqrt(k) * slope / np.where(size > 0, size, 1.0))
    return best


def _projected(point: np.ndarray) -> np.ndarray:
    """Return the points of the simplex that are nearest to `point` (..., n)."""
    falling = -np.sort(-point, axis=-1)
    excess = np.cumsum(falling, axis=-1) - 1
    positive = falling * np.arange(1, point.shape[-1] + 1) > excess
    kept = point.shape[-1] - 1 - positive[..., ::-1].argmax(axis=-1, keepdims=True)
    return np.maximum(point - np.take_along_axis(excess, kept, -1) / (kept + 1), 0)
