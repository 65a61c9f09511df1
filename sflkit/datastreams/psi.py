"""The bound psi on the true error, and the importance of clients that minimises it.

Source: FDS (Federated Learning for Data Streams), Section 5, Corollary 5.1, Appendix C.6, with the
corrections of ERRATA 24 to 26.

Samples that are used once make the training noisy, which c1 weighs; few old samples make it
generalise badly, which c2 weighs. psi adds up the two, and its minimiser over the clients'
importance p is the paper's own strategy.

| code       | symbol      | shape | meaning                                               |
|------------|-------------|-------|-------------------------------------------------------|
| p          | p           | (M,)  | clients' relative importance, on the simplex          |
| n          | N_m / N     | (M,)  | clients' sample counts or fractions                   |
| historical | m <= M_hist | (M,)  | bool mask of the historical clients                   |
| c1, c2     | c1, c2      |       | weights of the two errors, in units of the loss       |
| p_hist     | p_hist      |       | sum of p over the historical clients                  |
| k          |             |       | the minimiser's fresh part is p_m ~ n_m / (1 + k n_m) |
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from sflkit import checks
from sflkit.config import Count, Positive, checked
from sflkit.datastreams.importance import SIMPLEX_TOL, checked_clients
from sflkit.exports import short_repr

_BISECTIONS = 200  # some 60 halvings exhaust a double


def psi(
    p: ArrayLike, n: ArrayLike, historical: ArrayLike, c1: float, c2: float, c0: float = 0.0
) -> float:
    """Return psi = c0 + c1 sqrt(sum over fresh of p_m^2) + c2 sqrt(sum over all of p_m^2 / n_m).

    Source: FDS, Corollary 5.1, (19).

    Parameters
    ----------
    p : array (n_clients,)
        Relative importance, on the simplex.
    n : array (n_clients,)
        Sample counts or fractions, > 0 (normalised inside).
    historical : bool array (n_clients,)
        At least one True and one False.
    c1, c2, c0 : float
        >= 0; c1 and c2 not both 0.

    Raises
    ------
    ValueError
        If p is off the simplex, lengths differ, n is not positive, a group is empty, or the
        constants are out of range.
    """
    p = checks.simplex("p", p, tol=SIMPLEX_TOL)
    n, historical = checked_clients(n, historical)
    checks.shape("p", p, n.shape, like="n")
    c1, c2 = _constants(c1, c2)
    return _psi(p, n, historical, c1, c2) + checks.real("c0", c0, 0)


class PsiMinimum(NamedTuple):
    """Where psi is smallest.

    p (n_clients,) is the minimiser, value the psi there for c0 = 0, and p_hist the importance of
    the historical clients in it.
    """

    p: np.ndarray
    value: float
    p_hist: float
    __repr__ = short_repr


def minimize_psi(n: ArrayLike, historical: ArrayLike, c1: float, c2: float) -> PsiMinimum:
    """Minimise psi over the simplex.

    By the conditions of Karush, Kuhn and Tucker the historical clients have p_m ~ n_m and the fresh
    ones p_m ~ n_m / (1 + k n_m), with the same factor. Let A be sqrt(sum over fresh of p_m^2) and S
    be sqrt(sum of p_m^2 / n_m); then k = (c1/c2) S / A (ERRATA 24).

    k A(k) - (c1/c2) S(k) rises with k, so that its root is unique. It exists if and only if c2/c1 >
    sqrt(n_hist / M_fresh); otherwise p_hist = 1. For equal fresh sizes the root solves a quadratic
    equation in x = k n_m. For unequal ones that equation's root x bounds k between x / max n_m and
    x / min n_m, and one bisection finds it. Source: FDS, Section 5.

    Parameters
    ----------
    n, historical
        As in `psi`.
    c1, c2 : float
        >= 0, not both 0; c1 = 0 gives the Uniform strategy, c2 = 0 the Historical one (the limit;
        psi is then 0 for any p without fresh clients).

    Returns
    -------
    PsiMinimum
        p (n_clients,), value, p_hist.

    Raises
    ------
    ValueError
        As in `psi`.
    """
    n, historical = checked_clients(n, historical)
    c1, c2 = _constants(c1, c2)
    k = _fresh_discount(n[~historical], float(n[historical].sum()), c1, c2)
    if k == math.inf:
        p, p_hist = np.where(historical, n / n[historical].sum(), 0.0), 1.0
    else:
        p = np.where(historical, n, n / (1 + k * n))
        p = p / p.sum() if k else n
        p_hist = float(p[historical].sum())
    return PsiMinimum(p, _psi(p, n, historical, c1, c2), p_hist)


def equal_fresh_p_hist(n_hist: float, n_fresh: int, c_ratio: float) -> float:
    """Return the minimiser's p_hist when all fresh clients have the same size, in closed form.

    Source: FDS, Section 5, with ERRATA 24.

    Parameters
    ----------
    n_hist : float
        N_hist / N, the share of historical samples, in (0, 1).
    n_fresh : int
        Fresh clients M - M_hist, >= 1.
    c_ratio : float
        c2 / c1 >= 0.

    Raises
    ------
    ValueError
        If an argument is out of range.
    """
    n_hist = checks.real("n_hist", n_hist, above=0, below=1)
    n_fresh = checks.integer("n_fresh", n_fresh, 1)
    c_ratio = checks.real("c_ratio", c_ratio, 0)
    # This is tested first, since far to the left the root below is imaginary.
    if c_ratio * math.sqrt(n_fresh) <= math.sqrt(n_hist):
        return 1.0
    a = 1 / (c_ratio * math.sqrt(n_fresh))
    return n_hist + a * (1 - n_hist) * n_hist / math.sqrt(1 - a**2 * (1 - n_hist) * n_hist)


@checked
def estimate_c_ratio(
    *,
    loss_bound: Positive,
    n_params: Count,
    n_samples: Count,
    grad_bound: Positive,
    diameter: Positive,
    n_fresh: Count,
) -> float:
    """Return the paper's estimate (B + sqrt(d/N)) / (G D sqrt(M - M_hist)) of c2/c1.

    ERRATA 26: the ratios that the paper reports do not all follow from its own Table 3. To repeat
    its runs, take the reported ratios as they are. Source: FDS, (204), from (199)-(203).

    Parameters
    ----------
    loss_bound : float
        B > 0, largest loss.
    n_params : int
        d >= 1, parameters of the model.
    n_samples : int
        N >= 1, samples of all clients over the whole training.
    grad_bound : float
        G > 0, largest gradient norm; sigma_0 is taken as 2 G.
    diameter : float
        D > 0 of the parameter set; the paper takes the largest distance of a briefly trained local
        model from the start.
    n_fresh : int
        M - M_hist >= 1, fresh clients.

    Raises
    ------
    ValueError
        If an argument is out of range.
    """
    return (loss_bound + math.sqrt(n_params / n_samples)) / (
        grad_bound * diameter * math.sqrt(n_fresh)
    )


def _fresh_discount(fresh: np.ndarray, n_hist: float, c1: float, c2: float) -> float:
    """Return k of `minimize_psi`, which is 0 for Uniform and inf for Historical.

    `fresh` holds the fractions n_m of the fresh clients, `n_hist` is the sum of the others.
    """
    noise = c1 * math.sqrt(n_hist)
    spread = c2 * math.sqrt(len(fresh))
    if noise >= spread:
        return math.inf
    t = noise / spread
    a = t / math.sqrt(n_hist)
    x = (t**2 + a * math.sqrt(1 - t**2 * (1 - n_hist))) / ((1 - t) * (1 + t))
    low, high = x / fresh.max(), x / fresh.min()
    ratio = c1 / c2
    for _ in range(_BISECTIONS):
        middle = math.sqrt(low) * math.sqrt(high)
        if not low < middle < high:
            break
        part = fresh / (1 + middle * fresh)
        total = math.sqrt(n_hist + (part * (part / fresh)).sum())
        if middle * np.linalg.norm(part) < ratio * total:
            low = middle
        else:
            high = middle
    return high


def _psi(p: np.ndarray, n: np.ndarray, historical: np.ndarray, c1: float, c2: float) -> float:
    return float(c1 * np.linalg.norm(p[~historical]) + c2 * math.sqrt((p * (p / n)).sum()))


def _constants(c1: float, c2: float) -> tuple[float, float]:
    c1, c2 = checks.real("c1", c1, 0), checks.real("c2", c2, 0)
    if c1 == 0 == c2:
        raise ValueError(f"c1={c1!r} and c2={c2!r}: at least one of them must be > 0")
    return c1, c2
