"""Notebook 20, the minimiser of psi: what is computed, the evidence for its claims.

Source: FDS, Section 5 (Figs. 1 and 2), Section 6 (baselines), Appendices C.4 to C.6, Tables 1 to 5.
Samples are spread equally within the group of historical and within the group of fresh clients,
unless a function says otherwise.

| code     | symbol      | meaning                                             |
|----------|-------------|-----------------------------------------------------|
| fraction | N_hist / N  | share of the samples that historical clients hold   |
| ratio    | c2 / c1     | weight of generalisation over that of noise in psi  |
| leaves   |             | the ratio up to which fresh clients are left out    |
| halfway  |             | the ratio at which p_hist is half-way down          |
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from companion.notebooks.datastreams_shared import (
    ROWS,
    TABLES,
    minimising_share,
    printed,
    ratio_by_table3,
    reported_ratio,
    reported_share,
)
from sflkit.datastreams import importance
from sflkit.datastreams.psi import minimize_psi, psi
from sflkit.datastreams.strategies import client_importance

Evidence = dict[str, Any]
UNSTATED_N = (500_000, 1_000_000)  # Fig. 2's caption has the first, no place the second
_HALF_DIGIT = 0.05  # Table 3 prints one decimal


class Groups(NamedTuple):
    """Two groups of clients, historical and fresh."""

    n_historical: int
    n_fresh: int

    @property
    def historical(self) -> np.ndarray:
        """Which clients are historical, bool (n_clients,)."""
        return np.arange(self.n_historical + self.n_fresh) < self.n_historical

    def sizes(self, fraction: float) -> np.ndarray:
        """Return each client's share of the samples, (n_clients,), if `fraction` of them is old."""
        old, new = fraction / self.n_historical, (1 - fraction) / self.n_fresh
        return np.where(self.historical, old, new)


# --- Figs. 1 and 4: the minimiser over c2/c1 ------------------------------------------------------


def sweep(groups: Groups, fractions: Sequence[float], ratios: np.ndarray) -> pd.DataFrame:
    """Return the minimiser of psi for every fraction and ratio.

    Returns
    -------
    DataFrame
        fraction, ratio, p_hist, n_eff (N_eff / N), noise (the root of the fresh clients' squared
        importance).
    """
    rows = []
    for fraction in fractions:
        n = groups.sizes(fraction)
        for ratio in ratios:
            best = minimize_psi(n, groups.historical, 1.0, ratio)
            row = {
                "fraction": fraction,
                "ratio": ratio,
                "p_hist": best.p_hist,
                "n_eff": importance.client_effective_samples(best.p, n),
                "noise": importance.gradient_noise(best.p, groups.historical),
            }
            rows.append(row)
    return pd.DataFrame(rows)


def turning_points(groups: Groups, found: pd.DataFrame) -> pd.DataFrame:
    """Return where p_hist leaves 1 and where it is half-way down, by fraction.

    The columns leaves and halfway come from the closed form, p_hist = (1 + fraction) / 2 solved for
    the ratio; seen_leaves and seen_halfway are the first ratios of the sweep beyond them.
    """
    rows = {}
    for fraction, part in found.groupby("fraction"):
        rows[fraction] = {
            "leaves": (fraction / groups.n_fresh) ** 0.5,
            "seen_leaves": part.loc[part["p_hist"] < 1 - 1e-9, "ratio"].min(),
            "halfway": (fraction * (3 * fraction + 1) / groups.n_fresh) ** 0.5,
            "seen_halfway": part.loc[part["p_hist"] < (1 + fraction) / 2, "ratio"].min(),
        }
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis("fraction")


def psi_of(strategy: str, groups: Groups, n: np.ndarray, ratio: float) -> float:
    """Return psi of a strategy for the sizes n, with c1 = 1 and c0 = 0."""
    p = client_importance(strategy, n, groups.historical)
    return psi(p, n, groups.historical, 1.0, ratio)


def _moves(groups: Groups, found: pd.DataFrame, points: pd.DataFrame) -> dict[str, Evidence]:
    """Return the evidence of Figs. 1 and 4."""
    by_fraction = found.groupby("fraction")
    ends, parts = by_fraction.agg(["first", "last"]), [part for _, part in by_fraction]
    fractions = points.index.to_numpy()
    noise = (1 - fractions) / groups.n_fresh**0.5  # of Uniform
    falls = {str(f): _monotone(part["p_hist"], -1) for f, part in by_fraction}
    starts = np.stack([ends["n_eff"]["first"], ends["noise"]["first"]])
    far = np.abs(np.stack([ends["n_eff"]["last"] - 1, ends["noise"]["last"] - noise]))
    rising = [_monotone(part[column], 1) for part in parts for column in ("n_eff", "noise")]
    return {
        "ds-fig1": {
            "left": (ends["p_hist"]["first"].to_numpy(), 1.0),
            "right": (np.abs(ends["p_hist"]["last"] - fractions).to_numpy(), 0.001),
            "between": falls,
        },
        "ds-fig4": {
            "left": (starts, np.stack([fractions, np.zeros(len(fractions))])),
            "right": (far, 0.001),
            "between": all(rising),
            "earlier": {
                "leaves 1": bool((np.diff(points["seen_leaves"]) > 0).all()),
                "half-way": bool((np.diff(points["seen_halfway"]) > 0).all()),
            },
        },
    }


# --- Fig. 2: the simple strategies over N_hist / N ------------------------------------------------


def gaps(groups: Groups, ratios: Sequence[float], points: int) -> pd.DataFrame:
    """Return how far Historical and Uniform are above the least psi, over the share of old data.

    Returns
    -------
    DataFrame
        ratio, share, historical and uniform (psi minus its minimum, in units of c1), difference
        (psi of Historical minus psi of Uniform). The shares are `points` equally spaced ones and
        those of the paper's tables.
    """
    shares = np.unique([*np.linspace(0.005, 0.995, points), *TABLES])
    rows = []
    for ratio in ratios:
        for share in shares:
            n = groups.sizes(share)
            least = minimize_psi(n, groups.historical, 1.0, ratio).value
            of = {name: psi_of(name, groups, n, ratio) for name in ("historical", "uniform")}
            # Rounding may leave -1e-17 where a strategy is the minimiser.
            above = {name: max(0.0, value - least) for name, value in of.items()}
            difference = of["historical"] - of["uniform"]
            rows.append({"ratio": ratio, "share": share, **above, "difference": difference})
    return pd.DataFrame(rows)


def crossing(groups: Groups, ratio: float) -> float:
    """Return N_hist / N where Historical and Uniform are equal, NaN if nowhere.

    It is s^2 with s (1 + s) = ratio sqrt(n_fresh).
    """
    s = (np.sqrt(1 + 4 * ratio * groups.n_fresh**0.5) - 1) / 2
    return s**2 if s < 1 else np.nan


def _shapes(groups: Groups, found: pd.DataFrame) -> Evidence:
    """Return the evidence of Fig. 2; signs are looked at on a fine grid of the interval."""
    sizes = [groups.sizes(share) for share in np.linspace(0.005, 0.995, 199)]
    signs = [
        [
            np.sign(np.subtract(*(psi_of(s, groups, n, r) for s in ("historical", "uniform"))))
            for n in sizes
        ]
        for r in np.geomspace(10**-1.3, 10**-0.5, 41)
    ]
    parts = [part for _, part in found.groupby("ratio")]
    return {
        "historical": all(_monotone(part["historical"], -1) for part in parts),
        "uniform": all(_up_and_down(part["uniform"].to_numpy()) for part in parts),
        "difference": bool(((np.diff(signs) != 0).sum(axis=1) == 1).all()),
    }


# --- Section 6: weights by the samples that clients hold now --------------------------------------


def fresh_weight(fraction: float, rounds: int) -> float:
    """Return the weight of the fresh clients after so many rounds, if `fraction` of data is old.

    Clients count by the samples that they hold at present; a fresh client holds 1 / T of its own.
    """
    return 1 - importance.memory_importance([fraction, 1 - fraction], [True, False], rounds)[0]


def rounds_until(weight: float = 0.05) -> dict[float, int]:
    """Return after how many rounds fresh clients have at most this weight, by fraction."""
    return {f: int(np.ceil((1 - f) / f * (1 - weight) / weight)) for f in TABLES}


# --- Appendix C.4: convexity and descent ----------------------------------------------------------


def descents(rng: np.random.Generator, problems: int) -> np.ndarray:
    """Return by what share of psi's minimum projected descent ends above it, (3 * problems,).

    There are so many random problems with 3, 8 and 20 clients each.
    """
    return np.concatenate([_descents(rng, size, problems) for size in (3, 8, 20)])


def _descents(rng: np.random.Generator, size: int, problems: int) -> np.ndarray:
    mask = rng.permutation(size) < max(1, size // 3)  # historical clients
    drawn, least = [], []
    for _ in range(problems):
        n, ratio = rng.lognormal(0, 1, size), 10 ** rng.uniform(-2, 1.5)
        c1, c2 = min(1.0, 1 / ratio), min(1.0, ratio)
        least.append(minimize_psi(n, mask, c1, c2).value)
        drawn.append((n / n.sum(), c1, c2))
    n, c1, c2 = (np.array(part) for part in zip(*drawn, strict=True))
    ended = [descend_each(n, mask, c1, c2, length) for length in (0.5, 0.05, 0.005)]
    return np.min(ended, axis=0) / least - 1


def chords(rng: np.random.Generator, number: int) -> np.ndarray:
    """Return psi at random points between two others, and what straight lines give, (2, number)."""
    pairs = []
    for _ in range(number):
        size = int(rng.integers(2, 30))
        mask = np.arange(size) < rng.integers(1, size)
        n, (c1, c2) = rng.lognormal(0, 1, size), rng.lognormal(0, 2, 2)
        ends, t = rng.dirichlet(np.full(size, 0.3), 2), rng.uniform()
        high, low = (psi(p, n, mask, c1, c2) for p in ends)
        between = psi(t * ends[0] + (1 - t) * ends[1], n, mask, c1, c2)
        pairs.append((between, t * high + (1 - t) * low))
    return np.array(pairs).T


# --- Appendix C.6: (204) and Table 3 --------------------------------------------------------------


def table3_ratios() -> pd.DataFrame:
    """Return c2/c1 by (204) with Table 3's constants beside the reported ratios.

    `lowest` and `highest` let B, G and D vary within their printed digits. CIFAR stands there with
    Table 1's N and with two that Table 1 does not have, see `UNSTATED_N`.
    """
    rows = []
    for name, fraction in product(ROWS, TABLES):
        ratio = reported_ratio(name, fraction)
        stated = int(printed("ds-tab1", f"{name} samples"))
        for number in (stated, *(UNSTATED_N if name.startswith("CIFAR") else ())):
            low, middle, high = (
                ratio_by_table3(name, fraction, number, sign * _HALF_DIGIT) for sign in (-1, 0, 1)
            )
            row = {"data": name, "N_hist/N": fraction, "reported": ratio, "N": number}
            row |= {"(204)": middle, "lowest": low, "highest": high}
            rows.append(row | {"agrees": low <= ratio + 0.0005 and high >= ratio - 0.0005})
    return pd.DataFrame(rows)


def reported_importance() -> pd.DataFrame:
    """Return the minimiser at the reported ratios beside the reported p_hist."""
    rows = []
    for name, fraction in product(ROWS, TABLES):
        p_hist, ours = reported_share(name, fraction), minimising_share(name, fraction)
        row = {"data": name, "N_hist/N": fraction, "reported": p_hist, "minimiser": ours}
        rows.append(row | {"agrees": bool(abs(ours - p_hist) < 0.005 + 1e-9)})
    return pd.DataFrame(rows)


def _reported(ratios: pd.DataFrame, importances: pd.DataFrame) -> Evidence:
    """Return the evidence on (204) and Table 3."""
    off = np.maximum(ratios["lowest"] - ratios["reported"], ratios["reported"] - ratios["highest"])
    stated = ~ratios["N"].isin(UNSTATED_N)
    ratio = {f"ratio {name}": (part, 0.0005) for name, part in off[stated].groupby(ratios["data"])}
    away = (importances["minimiser"] - importances["reported"]).abs().groupby(importances["data"])
    return ratio | {f"p_hist {name}": (part, 0.005 + 1e-9) for name, part in away}


# --- the verdicts ---------------------------------------------------------------------------------


def evidence(
    groups: Groups,
    found: pd.DataFrame,
    above: pd.DataFrame,
    ratios: pd.DataFrame,
    ended: np.ndarray,
    straight: np.ndarray,
) -> dict[str, Evidence]:
    """Return the evidence of notebook 20: artefact -> part -> what its rule takes.

    The arguments are groups and the answers of `sweep`, `gaps`, `table3_ratios`, `descents` and
    `chords`.
    """
    moves = _moves(groups, found, turning_points(groups, found))
    return {
        "ds-fig1": moves["ds-fig1"],
        "ds-fig2": _shapes(groups, above),
        "ds-fig4": moves["ds-fig4"],
        "ds-c2c1": _reported(ratios, reported_importance()),
        "ds-memory": {f"{100 * f:g} %": (fresh_weight(f, 800), 0.05) for f in TABLES},
        "ds-c4": {"convex": tuple(straight), "descent": (ended, 0.01)},
    }


def _monotone(values: pd.Series, sign: int) -> bool:
    """Return whether values never fall (sign 1) or never rise (-1), up to rounding."""
    return bool((sign * np.diff(values) >= -1e-12).all())


def _up_and_down(values: np.ndarray) -> bool:
    """Return whether values rise to a peak inside and fall behind it."""
    top = values.argmax()
    inside = 0 < top < len(values) - 1
    return inside and _monotone(values[: top + 1], 1) and _monotone(values[top:], -1)


def descend_each(
    n: np.ndarray, historical: np.ndarray, c1: np.ndarray, c2: np.ndarray, length: float
) -> np.ndarray:
    """Return the least psi that 2000 steps of descent from p = n meet on many problems, (R,).

    Parameters
    ----------
    n : array (R, n_clients)
        Fractions > 0, rows on the simplex.
    historical : bool array (n_clients,)
    c1, c2 : array (R,)
    length : float
        Of the first step.
    """
    p, best, least = n, n, np.full((len(n), 1), np.inf)
    for k in range(1, 2001):
        noise = np.linalg.norm(np.where(historical, 0.0, p), axis=-1, keepdims=True)
        spread = np.sqrt((p * (p / n)).sum(axis=-1, keepdims=True))
        value = c1[:, None] * noise + c2[:, None] * spread
        best, least = np.where(value < least, p, best), np.minimum(value, least)
        slope = c2[:, None] * p / n / spread
        of_noise = c1[:, None] * p / np.where(noise > 0, noise, 1.0)
        slope = slope + np.where(historical, 0.0, of_noise)
        slope = slope - slope.mean(axis=-1, keepdims=True)  # along the simplex
        largest = np.abs(slope).max(axis=-1, keepdims=True)
        slope = slope / np.where(largest > 0, largest, 1.0)  # so that no square overflows
        size = np.linalg.norm(slope, axis=-1, keepdims=True)
        p = _projected(p - length / np.sqrt(k) * slope / np.where(size > 0, size, 1.0))
    found = zip(best, n, c1, c2, strict=True)
    return np.array([psi(p, share, historical, a, b) for p, share, a, b in found])


def _projected(point: np.ndarray) -> np.ndarray:
    """Return the points of the simplex that are nearest to `point` (..., n)."""
    falling = -np.sort(-point, axis=-1)
    excess = np.cumsum(falling, axis=-1) - 1
    positive = falling * np.arange(1, point.shape[-1] + 1) > excess
    kept = point.shape[-1] - 1 - positive[..., ::-1].argmax(axis=-1, keepdims=True)
    return np.maximum(point - np.take_along_axis(excess, kept, -1) / (kept + 1), 0)
