"""Verdicts: did a claim of a paper come out, by a rule that was written before the run.

A rule takes numbers and returns an `Outcome`; `Outcome.verdict_on(artefact, ...)` names the claim.
Rules for trained or simulated numbers decide by an interval over seeds, rules for mathematics by
rounding error; none by eye.

| verdict | meaning |
|---|---|
| reproduced | every part of the claim holds |
| partly | some parts hold, others do not (or were not run) |
| undecided | no part fails, but an interval spans the claim |
| not reproduced | a part fails and none holds |
| not run | nothing was run |

An undecided outcome says how many more runs would settle it.

Intervals are Student's, two-sided, over independent seeds; an ordering of a and b takes the
differences a - b seed by seed, since rules are compared on the same stream. All parts must hold for
`reproduced`, so no correction for many comparisons is due (intersection-union test, Berger 1982).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from sflkit import checks
from sflkit.results.intervals import (
    MAX_RUNS,
    Estimate,
    difference_interval,
    mean_interval,
    runs_needed,
    sample_of,
)

VERDICTS = ("reproduced", "partly", "undecided", "not reproduced", "not run")


@dataclass(frozen=True)
class Verdict:
    """One row of verdicts.csv: what was claimed, what we found, and by which rule."""

    artefact: str
    claim: str
    rule: str
    ours: str
    paper: str
    interval: str
    verdict: str
    note: str = ""
    n_seeds: int = 0
    profile: str = "quick"

    def __post_init__(self):
        checks.choice("verdict", self.verdict, VERDICTS)


@dataclass(frozen=True)
class Outcome:
    """What a rule found.

    The verdict, the rule in words, a table with one row per part of the claim, the number of seeds
    (0: no randomness), and a note.
    """

    verdict: str
    rule: str
    table: pd.DataFrame = field(repr=False)
    n_seeds: int = 0
    note: str = ""

    def verdict_on(
        self, artefact: str, *, claim: str, paper: str = "", profile: str = "quick", note: str = ""
    ) -> Verdict:
        """Return the verdict on `claim`.

        `paper` is the paper's own number or words, `note` the cause or the deviation.
        """
        parts = self.table.to_dict("records")
        return Verdict(
            artefact=artefact,
            claim=claim,
            rule=self.rule,
            paper=paper,
            verdict=self.verdict,
            n_seeds=self.n_seeds,
            ours="; ".join(f"{p['part']}: {p['ours']}" for p in parts),
            interval="; ".join(p["interval"] for p in parts if p["interval"]),
            note="; ".join(text for text in (note, self.note) if text),
            profile=profile,
        )


# --- rules over seeds -----------------------------------------------------------------------------


def ordering(
    values: Mapping[str, Sequence[float]],
    greater: Iterable[tuple] = (),
    *,
    similar: Iterable[tuple] = (),
    margin: float = 0.0,
    tolerance: float | None = None,
    confidence: float = 0.95,
    paired: bool = True,
) -> Outcome:
    """Judge that some quantities are greater than others, and some similar.

    Parameters
    ----------
    values : mapping
        Name -> (n_seeds,), one number per seed, seeds in one order (each its own where `paired` is
        False, which takes Welch's interval).
    greater : pairs (a, b)
        Judged by values[a] > values[b] + margin; a third entry is a margin of its own. A negative
        margin says "not worse by more than".
    similar : pairs (a, b)
        Judged by whether the interval of values[a] - values[b] lies within +- tolerance
        (Schuirmann's two one-sided tests).

    Raises
    ------
    ValueError
        On no pair, an unknown name, samples that do not fit or hold NaN, or `similar` without a
        tolerance > 0.
    """
    parts = [
        (a, b, checks.real("margin", rest[0] if rest else margin), None) for a, b, *rest in greater
    ]
    parts += [(a, b, None, checks.real("tolerance", tolerance, above=0.0)) for a, b in similar]
    if not parts:
        raise ValueError(
            "greater=[] and similar=[] leave nothing to judge; give at least one pair of names"
        )
    samples = {name: sample_of(name, sample) for name, sample in values.items()}
    rows = []
    for a, b, low, within in parts:
        x, y = (samples[checks.choice("name", name, samples)] for name in (a, b))
        estimate = difference_interval(x, y, confidence, paired=paired)
        if within is None:
            part = f"{a} > {b}" if low == 0 else f"{a} > {b} {'+' if low > 0 else '-'} {abs(low):g}"
            rows.append(_row(part, estimate, low, math.inf))
        else:
            rows.append(_row(f"{a} ~ {b}", estimate, -within, within))
    rule = f"{'paired' if paired else 'Welch'} {100 * confidence:g} % t interval over seeds"
    rule += f", similar within {tolerance:g}" if any(within for *_, within in parts) else ""
    return _outcome(rows, rule, min(len(samples[n]) for a, b, *_ in parts for n in (a, b)))


def tolerance(
    value: ArrayLike,
    target: float,
    tol: float,
    *,
    relative: bool = False,
    confidence: float = 0.95,
    name: str = "value",
) -> Outcome:
    """Judge that `value` lies within `tol` of `target`.

    One number is taken as it is; (n_seeds,) numbers are judged by the interval of their mean.
    `relative` takes `tol` as a share of the target. Raises ValueError on numbers that are not
    finite, or tol <= 0.
    """
    target, tol = checks.real("target", target), checks.real("tol", tol, above=0.0)
    width = tol * abs(target) if relative else tol
    words = f"within {100 * tol:g} % of {target:g}" if relative else f"within {tol:g} of {target:g}"
    if np.ndim(value) == 0:
        value = checks.real("value", value)
        held = abs(value - target) <= width
        return _outcome([_plain_row(name, f"{value:.4g}", held)], words, 0)
    estimate = mean_interval(sample_of(name, value), confidence)
    return _outcome(
        [_row(name, estimate, target - width, target + width, signed=False)],
        f"{100 * confidence:g} % t interval over seeds {words}",
        estimate.n,
    )


def trend(
    values: ArrayLike,
    x: ArrayLike | None = None,
    *,
    sign: int,
    margin: float = 0.0,
    confidence: float = 0.95,
    name: str = "slope",
) -> Outcome:
    """Judge that a curve rises (sign=+1) or falls (sign=-1), by its slope over the seeds.

    `values` is (n_seeds, n_points), `x` (n_points,) with default 0, 1, 2, ... The least-squares
    slopes of the seeds' curves are compared with `margin`. Raises ValueError on other shapes or
    signs.
    """
    checks.choice("sign", sign, (-1, 1))
    values = checks.array("values", values, ndim=2)
    x = checks.array("x", np.arange(values.shape[1]) if x is None else x, ndim=1)
    if len(x) != values.shape[1] or np.ptp(x) == 0:
        raise ValueError(
            f"x has {len(x)} points and values {values.shape[1]}; they need the same number, "
            "at two places at least"
        )
    centred = x - x.mean()
    slopes = values @ centred / (centred @ centred)
    estimate = mean_interval(slopes, confidence)
    low, high = (margin, math.inf) if sign > 0 else (-math.inf, -margin)
    word = "rises" if sign > 0 else "falls"
    return _outcome(
        [_row(f"{name} {word}", estimate, low, high)],
        f"{100 * confidence:g} % t interval over seeds of the slope",
        estimate.n,
    )


def less_spread(
    a: ArrayLike,
    b: ArrayLike,
    *,
    confidence: float = 0.95,
    names: tuple[str, str] = ("a", "b"),
) -> Outcome:
    """Judge that curves `a` vary less across seeds than curves `b`.

    Both are (n_seeds, n_points), paired by seed. The statistic is log(mean over points of the
    variance across seeds) of a minus that of b. Its interval is the jackknife's over seeds (Miller
    1968), which needs no normality of the curves and no random numbers. Raises ValueError on two
    shapes, fewer than 3 seeds, or curves that do not vary.
    """
    a, b = checks.array(names[0], a, ndim=2), checks.array(names[1], b, ndim=2)
    if a.shape != b.shape or len(a) < 3:
        raise ValueError(
            f"{names[0]} has shape {a.shape} and {names[1]} {b.shape}; they need one shape with "
            "at least 3 seeds"
        )

    def statistic(keep: np.ndarray) -> float:
        with np.errstate(divide="ignore"):
            return math.log(a[keep].var(axis=0, ddof=1).mean()) - math.log(
                b[keep].var(axis=0, ddof=1).mean()
            )

    n, everyone = len(a), np.arange(len(a))
    try:
        pseudo = np.array(
            [n * statistic(everyone) - (n - 1) * statistic(everyone != i) for i in everyone]
        )
    except ValueError:
        raise ValueError(
            f"{names[0]} or {names[1]} does not vary across seeds at all; "
            "there is no ratio to judge"
        ) from None
    estimate = mean_interval(pseudo, confidence)
    return _outcome(
        [_row(f"log variance ratio {names[0]} / {names[1]} < 0", estimate, -math.inf, 0.0)],
        f"{100 * confidence:g} % jackknife interval over seeds",
        n,
    )


# --- rules for mathematics, algorithms and pictures -----------------------------------------------


def exact(
    ours: ArrayLike,
    expected: ArrayLike,
    *,
    rtol: float = 1e-9,
    atol: float = 1e-12,
    name: str = "value",
) -> Outcome:
    """Judge that our numbers equal the formula's up to rounding, entry by entry.

    Raises ValueError on NaN or no entries.
    """
    ours, expected = np.broadcast_arrays(
        checks.array("ours", ours), checks.array("expected", expected)
    )
    error = np.abs(ours - expected)
    held = error <= atol + rtol * np.abs(expected)
    largest = float(error.max(initial=0.0))
    return _elements(
        name, held, f"largest difference {largest:.2g}", f"equal to rtol {rtol:g}, atol {atol:g}"
    )


def bound_holds(
    value: ArrayLike, bound: ArrayLike, *, rtol: float = 1e-12, name: str = "value <= bound"
) -> Outcome:
    """Judge that value <= bound entry by entry.

    Bounds may be infinite, values may not. The table gives the tightest ratio. Raises ValueError
    on NaN or no entries.
    """
    value = checks.array("value", value)
    bound = np.asarray(bound, dtype=float)
    if np.isnan(bound).any():
        raise ValueError("bound holds nan; entries must be numbers or inf")
    value, bound = np.broadcast_arrays(value, bound)
    held = value <= bound + rtol * np.where(np.isfinite(bound), np.abs(bound), 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where(bound != 0, value / bound, np.where(value <= 0, 0.0, np.inf))
    return _elements(
        name,
        held,
        f"largest value/bound {float(ratio.max(initial=0.0)):.3g}",
        f"value <= bound to rtol {rtol:g}",
    )


def monte_carlo(
    estimate: ArrayLike,
    standard_error: ArrayLike,
    expected: ArrayLike,
    *,
    z: float = 4.0,
    name: str = "Monte Carlo",
) -> Outcome:
    """Judge that simulated means lie within `z` standard errors of the exact expectation.

    Each entry counts. Raises ValueError on NaN, no entries, or a standard error or z <= 0.
    """
    estimate, expected = checks.array("estimate", estimate), checks.array("expected", expected)
    error = checks.array("standard_error", standard_error, above=0.0)
    score = np.abs(estimate - expected) / error
    return _elements(
        name,
        score <= checks.real("z", z, above=0.0),
        f"largest |z| {float(score.max(initial=0.0)):.2f}",
        f"within {z:g} standard errors",
    )


def check(**passed: bool) -> Outcome:
    """Judge an algorithm or a picture by named checks, such as `check(ten_clients=len(f) == 10)`.

    Raises ValueError on no check, or one that is not True or False.
    """
    if not passed:
        raise ValueError(
            "check() needs at least one named condition, such as check(ten_clients=True)"
        )
    for name, value in passed.items():
        if not isinstance(value, bool | np.bool_):
            raise ValueError(f"{name}={value!r} must be True or False")
    rows = [
        _plain_row(name.replace("_", " "), "yes" if value else "no", bool(value))
        for name, value in passed.items()
    ]
    return _outcome(rows, "named checks", 0)


def not_run(reason: str) -> Outcome:
    """Return the outcome of something that was not run, with the reason."""
    row = {"part": "not run", "ours": reason, "interval": "", "verdict": "not run", "more_runs": ""}
    return Outcome("not run", "none", pd.DataFrame([row]))


def combine(**outcomes: Outcome) -> Outcome:
    """Return one outcome of several, of which every part counts.

    The name of an outcome is put before its parts. Raises ValueError on no outcome.
    """
    if not outcomes:
        raise ValueError("combine() needs at least one outcome")
    tables = [
        o.table.assign(part=[f"{name.replace('_', ' ')}, {p}" for p in o.table["part"]])
        for name, o in outcomes.items()
    ]
    table = pd.concat(tables, ignore_index=True)
    rules = dict.fromkeys(o.rule for o in outcomes.values())
    seeds = [o.n_seeds for o in outcomes.values() if o.n_seeds]
    return Outcome(
        overall(table["verdict"]),
        "; ".join(rules),
        table,
        min(seeds, default=0),
        "; ".join(o.note for o in outcomes.values() if o.note),
    )


def overall(parts: Iterable[str]) -> str:
    """Return the verdict on a claim from the verdicts on its parts, by the table at the top.

    Raises ValueError without any part.
    """
    parts = {checks.choice("verdict", part, VERDICTS) for part in parts}
    if not parts:
        raise ValueError("parts=[] must hold at least one verdict")
    if len(parts) == 1:
        return parts.pop()
    if parts & {"not reproduced", "partly"}:
        return "partly" if parts & {"reproduced", "partly"} else "not reproduced"
    return "undecided" if "undecided" in parts else "partly"


# --- tables ---------------------------------------------------------------------------------------


def _row(part: str, estimate: Estimate, low: float, high: float, signed: bool = True) -> dict:
    """Judge that the mean lies in (low, high), by whether its interval lies inside, outside, or
    across an edge.
    """
    more = ""
    if estimate.low > low and estimate.high < high:
        verdict = "reproduced"
    elif estimate.high <= low or estimate.low >= high:
        verdict = "not reproduced"
    else:
        verdict = "undecided"
        total = runs_needed(estimate, low, high)
        more = f"more than {MAX_RUNS}" if total is None else f"about {max(1, total - estimate.n)}"
        more = more if estimate.n > 1 else "at least 1"
    sign = "+" if signed else ""
    return {
        "part": part,
        "ours": f"{estimate.mean:{sign}.3g}",
        "interval": f"[{estimate.low:.3g}, {estimate.high:.3g}]",
        "verdict": verdict,
        "more_runs": more,
    }


def _plain_row(part: str, ours: str, held: bool) -> dict:
    return {
        "part": part,
        "ours": ours,
        "interval": "",
        "verdict": "reproduced" if held else "not reproduced",
        "more_runs": "",
    }


def _elements(name: str, held: np.ndarray, ours: str, rule: str) -> Outcome:
    held = np.atleast_1d(held)
    if not held.size:
        raise ValueError(f"{name} has no entries to judge")
    row = _plain_row(name, f"{int(held.sum())} of {held.size} hold, {ours}", bool(held.all()))
    if held.any() and not held.all():
        row["verdict"] = "partly"
    return _outcome([row], rule, 0)


def _outcome(rows: list[dict], rule: str, n_seeds: int) -> Outcome:
    open_parts = []
    for row in rows:
        if row["verdict"] == "undecided":
            runs = "run" if row["more_runs"].endswith(" 1") else "runs"
            open_parts.append(f"{row['part']}: {row['more_runs']} more {runs} would settle it")
    return Outcome(
        overall(row["verdict"] for row in rows),
        rule,
        pd.DataFrame(rows),
        n_seeds,
        "; ".join(open_parts),
    )
