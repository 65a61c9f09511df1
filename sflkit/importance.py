"""How much each sample and each client counts when data stream in: weights, strategies, and the minimiser of the bound psi.

Source: FDS (Federated Learning for Data Streams), Sections 4 and 5, Appendix C, with the corrections of ERRATA 24-27 and 29.
Historical clients keep their samples for all T rounds; a fresh client keeps the samples of the current round only.

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

import math
from typing import NamedTuple

import numpy as np

from sflkit import checks

STRATEGIES = ("uniform", "historical", "fresh", "ours", "fixed")
OPTIMAL_GRID = (0.0, 0.2, 0.5, 0.8, 1.0)  # p_hist of the paper's "Optimal", Section 6
_SIMPLEX_TOL = 1e-6  # room for float32 vectors and interior-point solutions
_BISECTIONS = 200  # some 60 halvings exhaust a double


def aggregation_weights(weights) -> np.ndarray:
    """Return the clients' aggregation weights of each round, (rounds, n_clients); rows sum to 1. Source: FDS, (5).

    Parameters
    ----------
    weights : array (rounds, n_clients, n_samples)
        Non-negative sample weights, 0 for a sample outside the client's memory; pad clients with fewer samples by 0.

    Raises
    ------
    ValueError
        If a weight is negative, or no sample has weight in some round.
    """
    totals = _weights(weights).sum(axis=2)
    rounds = totals.sum(axis=1)
    if (rounds == 0).any():
        raise ValueError(f"weights add up to 0.0 in round {int(np.argmin(rounds > 0)) + 1}; every round needs a weight > 0")
    return totals / rounds[:, None]


def round_weights(weights) -> np.ndarray:
    """Return q, the share of each round in the averaged output, (rounds,). Source: FDS, (6); `weights` as above."""
    weights = _weights(weights)
    return weights.sum(axis=(1, 2)) / weights.sum()


def relative_importance(weights) -> np.ndarray:
    """Return p_{m,i}, the share of each sample in the whole training, (n_clients, n_samples). Source: FDS, (15).

    Row sums are the clients' p_m, which equal `round_weights` @ `aggregation_weights`.
    """
    weights = _weights(weights)
    return weights.sum(axis=0) / weights.sum()


def effective_samples(weights) -> float:
    """Return (sum w)^2 / sum w^2, the number of equally weighted samples that average as well. Source: FDS, Theorem 4.1.

    `weights` may have any shape; at least one must be > 0. The answer lies in [1, number of weights] (Lemma 4.2).
    """
    weights = checks.array("weights", weights, low=0)
    if not weights.size or weights.max() == 0:
        raise ValueError(f"weights={weights!r} must hold an entry > 0")
    scaled = weights / weights.max()
    return float(scaled.sum() ** 2 / (scaled**2).sum())


def client_effective_samples(p, counts) -> float:
    """Return N_eff = 1 / sum p_m^2 / N_m when the samples of a client share its p_m equally. Source: FDS, C.2.

    counts : (n_clients,), samples N_m > 0 of each client over the whole training.
    """
    p, counts = checks.simplex("p", p, tol=_SIMPLEX_TOL), checks.array("counts", counts, ndim=1, above=0)
    _same_length("p", p, "counts", counts)
    return float(p.sum() ** 2 / (p * (p / counts)).sum())


def gradient_noise(p, historical) -> float:
    """Return sqrt(sum of p_m^2 over the fresh clients), what c1 multiplies in psi (0 for Historical). Source: FDS, (19)."""
    p = checks.simplex("p", p, tol=_SIMPLEX_TOL)
    return float(np.linalg.norm(p[~_mask(historical, len(p))]))


def sample_weights(p, memory) -> np.ndarray:
    """Return lambda_m = p_m / memory_m, the stationary weight of a stored sample that gives the clients importance p.

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
    p, memory = checks.simplex("p", p, tol=_SIMPLEX_TOL), checks.array("memory", memory, ndim=1, low=1)
    _same_length("p", p, "memory", memory)
    if (memory != np.floor(memory)).any():
        raise ValueError(f"memory holds {float(memory[memory != np.floor(memory)][0])!r}; entries must be whole numbers >= 1")
    # ERRATA 27: not p_m / N_m, which Section 5 implies and which makes historical clients count T times too much
    return p / memory


def client_importance(strategy: str, n, historical, *, c_ratio=None, p_hist=None) -> np.ndarray:
    """Return a strategy's relative importance of the clients, shape (n_clients,).

    Source: FDS, Sections 4-6.

    Parameters
    ----------
    strategy : {"uniform", "historical", "fresh", "ours", "fixed"}
        "uniform" p = n; "historical" and "fresh" ignore the other group; "ours" minimises psi; "fixed" gives the historical
        clients p_hist in all. Within a group p_m ~ n_m, except among the fresh clients of "ours" (ERRATA 24).
    n : array (n_clients,)
        Sample counts or fractions, > 0.
    historical : bool array (n_clients,)
        At least one True and one False.
    c_ratio : float, optional
        c2 / c1 >= 0, required by "ours" and refused by the others (`estimate_c_ratio`).
    p_hist : float, optional
        In [0, 1], required by "fixed" and refused by the others; the paper's "Optimal" tries `OPTIMAL_GRID`.

    Raises
    ------
    ValueError
        For an unknown strategy, an argument missing or out of place, or bad n or historical.
    """
    checks.choice("strategy", strategy, STRATEGIES)
    n, historical = _clients(n, historical)
    for name, value, owner in (("c_ratio", c_ratio, "ours"), ("p_hist", p_hist, "fixed")):
        if value is not None and strategy != owner:
            raise ValueError(f"{name}={value!r} belongs to the strategy {owner!r}, not to {strategy!r}")
    if strategy == "ours":
        return minimize_psi(n, historical, 1.0, checks.real("c_ratio", c_ratio, 0)).p
    if strategy == "uniform":
        return n
    share = checks.real("p_hist", {"historical": 1.0, "fresh": 0.0}.get(strategy, p_hist), 0, 1)
    return np.where(historical, share * n / n[historical].sum(), (1 - share) * n / n[~historical].sum())


def psi(p, n, historical, c1, c2, c0=0.0) -> float:
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
        If p is off the simplex, lengths differ, n is not positive, a group is empty, or the constants are out of range.
    """
    p = checks.simplex("p", p, tol=_SIMPLEX_TOL)
    n, historical = _clients(n, historical)
    _same_length("p", p, "n", n)
    c1, c2 = _constants(c1, c2)
    return _psi(p, n, historical, c1, c2) + checks.real("c0", c0, 0)


class PsiMinimum(NamedTuple):
    """The minimiser of psi over the simplex, its value (c0 = 0), and the importance of the historical clients in it."""

    p: np.ndarray
    value: float
    p_hist: float


def minimize_psi(n, historical, c1, c2) -> PsiMinimum:
    """Minimise psi over the simplex: closed form for equal fresh sizes, else one bisection between closed forms.

    Source: FDS, Section 5. By the conditions of Karush, Kuhn and Tucker the historical clients have p_m ~ n_m and the fresh
    ones p_m ~ n_m / (1 + k n_m), same factor, where k = (c1/c2) sqrt(sum of p_m^2/n_m) / sqrt(sum over fresh of p_m^2)
    (ERRATA 24). k A(k) - (c1/c2) S(k) rises with k, so the root is unique; it exists iff c2/c1 > sqrt(n_hist / M_fresh),
    and otherwise p_hist = 1. With x = k n_m for equal fresh sizes it is a quadratic equation; for unequal sizes that
    equation's root x bounds k between x / max n_m and x / min n_m.

    Parameters
    ----------
    n, historical
        As in `psi`.
    c1, c2 : float
        >= 0, not both 0; c1 = 0 gives the Uniform strategy, c2 = 0 the Historical one (the limit; psi is then 0 for any p
        without fresh clients).

    Returns
    -------
    PsiMinimum
        p (n_clients,), value, p_hist.

    Raises
    ------
    ValueError
        As in `psi`.
    """
    n, historical = _clients(n, historical)
    c1, c2 = _constants(c1, c2)
    k = _fresh_discount(n[~historical], float(n[historical].sum()), c1, c2)
    if k == math.inf:
        p, p_hist = np.where(historical, n / n[historical].sum(), 0.0), 1.0
    else:
        p = np.where(historical, n, n / (1 + k * n))
        p = p / p.sum() if k else n
        p_hist = float(p[historical].sum())
    return PsiMinimum(p, _psi(p, n, historical, c1, c2), p_hist)


def equal_fresh_p_hist(n_hist, n_fresh, c_ratio) -> float:
    """Return the minimiser's p_hist when all fresh clients have the same size, in closed form (ERRATA 24).

    Parameters
    ----------
    n_hist : float
        N_hist / N, the share of historical samples, in (0, 1).
    n_fresh : int
        Fresh clients M - M_hist, >= 1.
    c_ratio : float
        c2 / c1 >= 0.
    """
    n_hist, n_fresh = checks.real("n_hist", n_hist, above=0, below=1), checks.integer("n_fresh", n_fresh, 1)
    c_ratio = checks.real("c_ratio", c_ratio, 0)
    if c_ratio * math.sqrt(n_fresh) <= math.sqrt(n_hist):  # test first: the root below is imaginary far to the left
        return 1.0
    a = 1 / (c_ratio * math.sqrt(n_fresh))
    return n_hist + a * (1 - n_hist) * n_hist / math.sqrt(1 - a**2 * (1 - n_hist) * n_hist)


def estimate_c_ratio(*, loss_bound, n_params, n_samples, grad_bound, diameter, n_fresh) -> float:
    """Return the paper's estimate (B + sqrt(d/N)) / (G D sqrt(M - M_hist)) of c2/c1. Source: FDS, (204), from (199)-(203).

    ERRATA 26: the ratios the paper reports do not all follow from its own Table 3; take those as inputs.

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
        D > 0 of the parameter set; the paper takes the largest distance of a briefly trained local model from the start.
    n_fresh : int
        M - M_hist >= 1, fresh clients.

    Raises
    ------
    ValueError
        If an argument is out of range.
    """
    loss_bound, grad_bound = checks.real("loss_bound", loss_bound, above=0), checks.real("grad_bound", grad_bound, above=0)
    n_params, n_samples = checks.integer("n_params", n_params, 1), checks.integer("n_samples", n_samples, 1)
    diameter, n_fresh = checks.real("diameter", diameter, above=0), checks.integer("n_fresh", n_fresh, 1)
    return (loss_bound + math.sqrt(n_params / n_samples)) / (grad_bound * diameter * math.sqrt(n_fresh))


def _fresh_discount(fresh: np.ndarray, n_hist: float, c1: float, c2: float) -> float:
    """Return k of `minimize_psi`, 0 for Uniform, inf for Historical."""
    noise, spread = c1 * math.sqrt(n_hist), c2 * math.sqrt(len(fresh))
    if noise >= spread:
        return math.inf
    t = noise / spread
    a = t / math.sqrt(n_hist)
    x = (t**2 + a * math.sqrt(1 - t**2 * (1 - n_hist))) / ((1 - t) * (1 + t))
    low, high, ratio = x / fresh.max(), x / fresh.min(), c1 / c2
    for _ in range(_BISECTIONS):
        middle = math.sqrt(low) * math.sqrt(high)
        if not low < middle < high:
            break
        part = fresh / (1 + middle * fresh)
        if middle * np.linalg.norm(part) < ratio * math.sqrt(n_hist + (part * (part / fresh)).sum()):
            low = middle
        else:
            high = middle
    return high


def _psi(p, n, historical, c1, c2) -> float:
    return float(c1 * np.linalg.norm(p[~historical]) + c2 * math.sqrt((p * (p / n)).sum()))


def _constants(c1, c2) -> tuple[float, float]:
    c1, c2 = checks.real("c1", c1, 0), checks.real("c2", c2, 0)
    if c1 == 0 == c2:
        raise ValueError(f"c1={c1!r} and c2={c2!r}: at least one of them must be > 0")
    return c1, c2


def _clients(n, historical) -> tuple[np.ndarray, np.ndarray]:
    n = checks.array("n", n, ndim=1, above=0)
    historical = _mask(historical, len(n))
    if historical.all() or not historical.any():
        counts = f"{int(historical.sum())} historical and {int((~historical).sum())} fresh clients"
        raise ValueError(f"historical marks {counts}; there must be at least 1 of each")
    fractions = n / n.sum()
    if not fractions.all():
        raise ValueError(f"n holds {float(n.max())!r} and {float(n.min())!r}: they differ too much, a fraction is 0 as a double")
    return fractions, historical


def _mask(historical, length: int) -> np.ndarray:
    mask = np.asarray(historical)
    if mask.dtype != bool or mask.shape != (length,):
        raise ValueError(f"historical={historical!r} must be a bool mask of shape ({length},), one entry per client")
    return mask


def _weights(weights) -> np.ndarray:
    weights = checks.array("weights", weights, ndim=3, low=0)
    if not weights.any():
        raise ValueError(f"weights of shape {weights.shape} add up to 0.0; at least one must be > 0")
    return weights


def _same_length(name, value, other, reference) -> None:
    if len(value) != len(reference):
        raise ValueError(f"{name} has {len(value)} entries and {other} has {len(reference)}; they must agree, one per client")
