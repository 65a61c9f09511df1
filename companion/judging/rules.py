"""Rules that decide the parts of a claim, written down before the run that they judge.

A rule is declared with the smallest effect that anybody would care about, and later takes the
evidence and answers:

| answer | meaning |
|---|---|
| yes | the part holds |
| no | it does not |
| partly | of several entries or facts some hold and some do not |
| too small to see | an ordering whose interval spans 0 within the smallest effect around it |
| open | an interval over seeds spans what would decide |
| not run | nothing was run |

Rules for trained or simulated numbers decide by Student's two-sided interval over independent
seeds, rules for mathematics by rounding error; none by eye. An ordering of a and b takes the
differences a - b seed by seed, since rules are compared on the same streams.

The sign comes first: an interval wholly above 0 holds and one wholly below 0 fails, however small
the effect, so that a shorter interval never loses. The size stands beside it, as a share of the
difference that the paper prints, and decides nothing.

All parts of a claim must hold for it to be reproduced, so no correction for many comparisons is due
in that direction (intersection-union test, Berger 1982). In the other direction there is none
either: each interval misses its mean in one of twenty cases, so that a claim of twenty parts that
are all true may lose one by chance and be "partly".

One number has one answer: an interval wholly below 0 is below, in every row. "At least as good" has
one margin, `MARGIN`, and nothing else has it. What the paper leaves open is judged under every
reading (`EveryReading`), and levels whose best possible is known as shares of it (`OfCeiling`).
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike

from sflkit import checks
from sflkit.intervals import (
    Estimate,
    difference_interval,
    mean_interval,
    runs_needed,
    sample_of,
)

# A rule on shares takes these two, so that they are shown in percentage points.
POINTS = {"unit": "points", "scale": 100}
TOO_SMALL = "too small to see"
ANSWERS = ("yes", "no", "partly", TOO_SMALL, "open", "not run")

MARGIN = 0.005  # "at least as good": half a point of accuracy, here and nowhere else
WITHIN_MARGIN = "within half a point"
DISAGREE = "the readings disagree"
UNDECIDED = "undecided under"
THE_SAME = "the same under"

_INTERVAL = "95 % interval over seeds"

# An open part says how many more seeds would settle it, if they are not more than this.
WORTH_SAYING = 100


@dataclass(frozen=True)
class Judged:
    """What a rule found.

    `ours` is our number or count in words and `interval` its interval, "" where there is none.
    `n_seeds` is 0 without randomness. `hint` says what would settle an open part, within which
    range of 0 an effect is too small to see, or on what an answer rests. `size` is our effect as a
    share of the printed one, "" where the paper prints none, and `levels` the two means that an
    ordering compares, where they are known.
    """

    answer: str
    ours: str
    interval: str = ""
    n_seeds: int = 0
    hint: str = ""
    size: str = ""
    levels: str = ""


@runtime_checkable
class Rule(Protocol):
    """What decides a part of a claim: `words` for the reader, `judge` for the evidence."""

    @property
    def words(self) -> str: ...

    def judge(self, evidence: Any) -> Judged: ...


# --- rules over seeds -----------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class _OverSeeds:
    """What the rules over seeds share.

    `scale` and `unit` say how numbers are shown: scale=100, unit="points" shows an accuracy of
    0.01 as 1 point. `ratio` says that the evidence holds logarithms of ratios, which are shown as
    ratios: 4.79 as "120 times". Numbers that a rule is declared with are in the units of the
    evidence. `gaps` says that what is compared are differences of accuracies themselves, so that
    the two are shown in points, too, and not in per cent.
    """

    unit: str = ""
    scale: float = 1.0
    ratio: bool = False
    gaps: bool = False

    def _shown(self, value: float, sign: str = "") -> str:
        if self.ratio:
            return f"{math.exp(value):.3g} times"
        return f"{self.scale * value:{sign}.3g} {self.unit}".rstrip()

    def _interval(self, estimate: Estimate) -> str:
        if self.ratio:
            with np.errstate(over="ignore"):
                low, high = np.exp([estimate.low, estimate.high])
            return f"[{low:.3g}, {high:.3g}]"
        return f"[{self.scale * estimate.low:.3g}, {self.scale * estimate.high:.3g}]"

    def _judged(
        self, estimate: Estimate, answer: str, regions: list[tuple], ours: str = ""
    ) -> Judged:
        """Return what was found; a mean inside one of `regions` could still decide an open part."""
        hint = _hint(estimate, regions) if answer == "open" else ""
        ours = ours or self._shown(estimate.mean, "+")
        return Judged(answer, ours, self._interval(estimate), estimate.n, hint)

    def _share(self, printed: float | None, estimate: Estimate) -> str:
        """Return which share of the printed effect ours is, with its interval."""
        if printed is None:
            return ""
        mean, low, high = (
            100 * value / printed for value in (estimate.mean, estimate.low, estimate.high)
        )
        ends = f" [{low:.0f}, {high:.0f}]" if estimate.n > 1 else ""
        scale = ", on the scale of logarithms" if self.ratio else ""
        return f"{mean:.0f} % of the printed {self._shown(printed)}{ends}{scale}"

    def _levels(self, evidence: Any) -> str:
        """Return the two means, "" where the evidence holds differences only."""
        if self.ratio or not isinstance(evidence, tuple):
            return ""
        unit = "%" if self.unit == "points" and not self.gaps else self.unit
        first, second = (f"{self.scale * np.mean(one):.3g} {unit}".rstrip() for one in evidence)
        return f"{first} against {second}"


@dataclass(frozen=True, kw_only=True)
class _OfTwo(_OverSeeds):
    """What the rules on the difference of two samples share.

    `paired` says whether the two share their seeds; otherwise Welch's interval is taken. Evidence
    is a tuple of two (n_seeds,) samples, or one (n_seeds,) sample of differences.
    """

    paired: bool = True

    def _of(self) -> str:
        how = "paired" if self.paired else "Welch's"
        return f"{how} {_INTERVAL} of the"

    def _difference(self, evidence: Any) -> Estimate:
        if not isinstance(evidence, tuple):
            return mean_interval(sample_of("evidence", evidence))
        if len(evidence) != 2:
            raise ValueError(f"evidence has {len(evidence)} samples; it must be a pair (a, b)")
        return difference_interval(*evidence, paired=self.paired)

    def _inside(self, evidence: Any, low: float, high: float) -> Judged:
        """Judge whether the mean of the difference lies in (low, high)."""
        estimate = self._difference(evidence)
        judged = self._judged(estimate, _within(estimate, low, high), [(low, high)])
        return replace(judged, levels=self._levels(evidence))


@dataclass(frozen=True)
class _Ordering(_OverSeeds):
    """A quantity that should be above or below 0.

    Parameters
    ----------
    smallest : float
        > 0. An interval that spans 0 within +-smallest is "too small to see".
    printed : float, optional
        > 0. The size of the printed difference in the direction that is asked for. It decides
        nothing: the answer says which share of it ours is.
    """

    smallest: float
    printed: float | None = field(default=None, kw_only=True)

    def __post_init__(self):
        checks.real("smallest", self.smallest, above=0.0)
        if self.printed is not None:
            checks.real("printed", self.printed, above=0.0)

    def _ordered(self, estimate: Estimate, *, below: bool = False, ours: str = "") -> Judged:
        """Return the answer by the sign, and the size beside it; `below` asks for less than 0."""
        wanted = _turned(estimate) if below else estimate
        answer = _above(wanted, self.smallest)
        regions = [(0.0, math.inf), (-self.smallest, self.smallest)]
        judged = self._judged(estimate, answer, regions, ours)
        if answer == TOO_SMALL:
            judged = replace(judged, hint=self._around())
        return replace(judged, size=self._share(self.printed, wanted))

    def _small(self) -> str:
        return f"{self._around()}: {TOO_SMALL}"

    def _around(self) -> str:
        if self.ratio:
            return f"around 1 within a factor of {math.exp(self.smallest):.3g}"
        return f"around 0 within ±{self._shown(self.smallest)}"


@dataclass(frozen=True)
class Above(_OfTwo, _Ordering):
    """The first quantity is greater than the second."""

    @property
    def words(self) -> str:
        what = "ratio above 1" if self.ratio else "difference above 0"
        return f"{self._of()} {what}; {self._small()}"

    def judge(self, evidence: Any) -> Judged:
        judged = self._ordered(self._difference(evidence))
        return replace(judged, levels=self._levels(evidence))


@dataclass(frozen=True, kw_only=True)
class NotBelow(_OfTwo):
    """The first quantity, an accuracy as a share of 1, is at least as good as the second.

    It holds where the whole interval lies above -`MARGIN`, and says so where it lies below 0;
    otherwise it fails where the whole interval lies below 0, and is open where it spans 0.

    Parameters
    ----------
    printed : float, optional
        > 0. The printed lead of the first, as in `Above`; it decides nothing.
    """

    unit: str = "points"
    scale: float = 100
    printed: float | None = None

    def __post_init__(self):
        if self.printed is not None:
            checks.real("printed", self.printed, above=0.0)

    @property
    def words(self) -> str:
        return f"{self._of()} difference above {self._shown(-MARGIN)}; wholly below 0 otherwise: no"

    def judge(self, evidence: Any) -> Judged:
        estimate = self._difference(evidence)
        if estimate.low > -MARGIN:
            answer = "yes"
        else:
            answer = "no" if estimate.high < 0 else "open"
        judged = self._judged(estimate, answer, [(-MARGIN, math.inf), (-math.inf, 0.0)])
        if answer == "yes" and estimate.high < 0:
            judged = replace(judged, hint=WITHIN_MARGIN)
        size = self._share(self.printed, estimate)
        return replace(judged, levels=self._levels(evidence), size=size)


@dataclass(frozen=True)
class AtMostBelow(_OfTwo):
    """The first quantity is less than `by` below the second, where the claim itself says by how
    much; "at least as good" is `NotBelow`.
    """

    by: float

    def __post_init__(self):
        checks.real("by", self.by, above=0.0)

    @property
    def words(self) -> str:
        return f"{self._of()} difference above {self._shown(-self.by)}"

    def judge(self, evidence: Any) -> Judged:
        return self._inside(evidence, -self.by, math.inf)


@dataclass(frozen=True)
class Similar(_OfTwo):
    """Two quantities differ by less than `within` (Schuirmann's two one-sided tests)."""

    within: float

    def __post_init__(self):
        checks.real("within", self.within, above=0.0)

    @property
    def words(self) -> str:
        return f"{self._of()} difference within ±{self._shown(self.within)}"

    def judge(self, evidence: Any) -> Judged:
        return self._inside(evidence, -self.within, self.within)


@dataclass(frozen=True)
class Near(_OverSeeds):
    """A number lies within `within` of `target`; `relative` takes `within` as a share of it.

    Evidence is one number, or (n_seeds,) numbers, which are judged by the interval of their mean.
    """

    target: float
    within: float
    relative: bool = False

    def __post_init__(self):
        checks.real("target", self.target)
        checks.real("within", self.within, above=0.0)

    @property
    def words(self) -> str:
        if self.relative:
            return f"within {100 * self.within:g} % of {self._shown(self.target)}"
        return f"within {self._shown(self.within)} of {self._shown(self.target)}"

    def judge(self, evidence: Any) -> Judged:
        half = self.within * abs(self.target) if self.relative else self.within
        if np.ndim(evidence) == 0:
            value = checks.real("evidence", evidence)
            return Judged("yes" if abs(value - self.target) <= half else "no", self._shown(value))
        estimate = mean_interval(sample_of("evidence", evidence))
        region = (self.target - half, self.target + half)
        shown = self._shown(estimate.mean)
        return self._judged(estimate, _within(estimate, *region), [region], shown)


@dataclass(frozen=True)
class OfCeiling(_OverSeeds):
    """A level is the printed share of the best that is possible, give or take `within`.

    Ours and the printed level are compared as shares of their own ceilings, since the best
    possible is another one on our data than on the paper's.

    Parameters
    ----------
    target, ceiling : float
        > 0. The printed level and the printed best.
    within : float
        > 0. A difference of two shares.

    Evidence is a tuple (levels, best): (n_seeds,) levels, and the best possible as one number or
    one a seed.
    """

    target: float
    ceiling: float
    within: float
    unit: str = field(default="% of the best possible", kw_only=True)
    scale: float = field(default=100, kw_only=True)

    def __post_init__(self):
        for name in ("target", "ceiling", "within"):
            checks.real(name, getattr(self, name), above=0.0)

    @property
    def words(self) -> str:
        printed = self._shown(self.target / self.ceiling)
        return f"{_INTERVAL} of the share within {100 * self.within:g} points of {printed}"

    def judge(self, evidence: Any) -> Judged:
        if not isinstance(evidence, tuple) or len(evidence) != 2:
            raise ValueError("evidence must be a pair (levels, best)")
        levels = sample_of("levels", evidence[0])
        best = checks.array("best", evidence[1], above=0.0)
        if best.ndim and best.shape != levels.shape:
            raise ValueError(f"best has shape {best.shape}, and there are {len(levels)} levels")
        printed = self.target / self.ceiling
        estimate = mean_interval(levels / best)
        region = (printed - self.within, printed + self.within)
        shown = self._shown(estimate.mean)
        judged = self._judged(estimate, _within(estimate, *region), [region], shown)
        size = f"{100 * estimate.mean / printed:.0f} % of the printed {self._shown(printed)}"
        return replace(judged, size=size)


@dataclass(frozen=True)
class Rises(_Ordering):
    """A curve rises: its least-squares slope, one per seed, is above 0.

    Evidence is (n_seeds, n_points) curves over 0, 1, 2, ..., or a tuple (curves, x) with
    (n_points,) places. `smallest` is a slope.
    """

    _side = "above"

    @property
    def words(self) -> str:
        return f"{_INTERVAL} of the slope {self._side} 0; {self._small()}"

    def judge(self, evidence: Any) -> Judged:
        return self._ordered(mean_interval(_slopes(evidence)), below=self._side == "below")


@dataclass(frozen=True)
class Falls(Rises):
    """A curve falls: its slope is below 0. Evidence is that of `Rises`."""

    _side = "below"


@dataclass(frozen=True)
class LessSpread(_Ordering):
    """The first curves vary less across seeds than the second; shown is the ratio.

    The statistic is log(mean over points of the variance across seeds) of the first minus that of
    the second. Its interval is the jackknife's over seeds (Miller 1968), which needs no normality
    of the curves and no random numbers. `smallest` is on that logarithmic scale: 0.1 is a variance
    ratio of 1.1. Evidence is a tuple of two (n_seeds, n_points) arrays, paired by seed, with at
    least 3 seeds.
    """

    ratio: bool = field(default=True, kw_only=True)

    @property
    def words(self) -> str:
        return f"jackknife {_INTERVAL} of the variance ratio below 1; {self._small()}"

    def judge(self, evidence: Any) -> Judged:
        if not isinstance(evidence, tuple) or len(evidence) != 2:
            raise ValueError("evidence must be a pair (a, b) of curves")
        estimate = mean_interval(_log_variance_ratios(*evidence))
        ours = f"{self._shown(estimate.mean)} the variance"
        return self._ordered(estimate, below=True, ours=ours)


@dataclass(frozen=True)
class Each:
    """Several comparisons that a part takes as one, each decided by its own rule.

    It has their answer if they agree. If one fails it is "partly" where another holds and "no"
    where none does. As long as none fails one open comparison leaves it open; without one it is
    "partly" where some hold and others are too small to see.

    Parameters
    ----------
    rules : Rule, or mapping name -> Rule
        One rule for all comparisons, or one for each.

    Evidence is a mapping name -> what that rule takes.
    """

    rules: Rule | Mapping[str, Rule]

    @property
    def words(self) -> str:
        return f"each one: {self._alone()}"

    def _alone(self) -> str:
        """Return by which rules the comparisons are decided, in words."""
        rules = self.rules.values() if isinstance(self.rules, Mapping) else [self.rules]
        return "; or ".join(dict.fromkeys(rule.words for rule in rules))

    def judge(self, evidence: Mapping[str, Any]) -> Judged:
        if not isinstance(evidence, Mapping) or not evidence:
            raise ValueError("evidence must be a mapping name -> evidence with one entry at least")
        known = (
            self.rules if isinstance(self.rules, Mapping) else dict.fromkeys(evidence, self.rules)
        )
        if unknown := set(known) ^ set(evidence):
            raise ValueError(f"{sorted(unknown)} need both a rule and evidence")
        found = {name: known[name].judge(given) for name, given in evidence.items()}
        n_seeds = min(one.n_seeds for one in found.values())
        return replace(self._taken_as_one(found), n_seeds=n_seeds)

    def _taken_as_one(self, found: Mapping[str, Judged]) -> Judged:
        words = f"{sum(one.answer == 'yes' for one in found.values())} of {len(found)} hold"
        # Those that fail come first, since a page may tell only some.
        unsure = [(name, one) for name, one in found.items() if one.answer != "yes"]
        unsure.sort(key=lambda pair: ANSWERS.index(pair[1].answer))
        others = [_line(name, one) for name, one in unsure]
        # The smallest share is that of the decisive contrast, with the best of the opponents.
        name = min(found, key=lambda name: decisive(found[name].size))
        size = f"{name}: {found[name].size}" if found[name].size else ""
        answer = _together([one.answer for one in found.values()])
        return Judged(answer, "; ".join([words, *others]), size=size)


class EveryReading(Each):
    """One comparison under every reading of what the paper leaves open; see `Each`.

    Where two readings or more have one answer it is the part's, and the hint says that all agree.
    Where what they decide differs the part is open, since a choice decides it that the paper does
    not state, and all of them are shown side by side. A single reading of ours decides nothing.
    """

    @property
    def words(self) -> str:
        return f"the same under every reading: {self._alone()}"

    def _taken_as_one(self, found: Mapping[str, Judged]) -> Judged:
        if len(found) == 1:
            ((_, one),) = found.items()
            return replace(one, answer="open", hint="one reading of ours does not decide alone")
        told = "; ".join(_line(name, one) for name, one in found.items())
        answers = {one.answer for one in found.values()}
        if len(answers) == 1:
            (answer,) = answers
            how_many = "both" if len(found) == 2 else f"all {len(found)}"
            hint = f"{THE_SAME} {how_many} readings"
        elif len(answers - {"open", "not run"}) > 1:
            answer, hint = "open", DISAGREE
        else:
            unsure = [name for name, one in found.items() if one.answer == "open"]
            answer, hint = "open", f"{UNDECIDED} {', '.join(unsure)}"
        return Judged(answer, told, hint=hint, size=self._sizes(found))

    def _sizes(self, found: Mapping[str, Judged]) -> str:
        """Return the share of the printed effect under each reading, where there is one."""
        sizes = {name: one.size.split(" of the printed ") for name, one in found.items()}
        printed = {size[-1].partition(" [")[0] for size in sizes.values()}
        if any(len(size) == 1 for size in sizes.values()) or len(printed) > 1:
            return ""
        shares = ", ".join(f"{size[0]} ({name})" for name, size in sizes.items())
        return f"{shares} of the printed {next(iter(sizes.values()))[1].partition(' [')[0]}"


# --- rules for mathematics, algorithms and pictures -----------------------------------------------


@dataclass(frozen=True)
class Equal:
    """Our numbers equal the formula's up to rounding, entry by entry.

    Evidence is a tuple (ours, expected) of numbers or arrays of one shape; either may be a scalar.
    """

    rtol: float = 1e-9
    atol: float = 1e-12

    @property
    def words(self) -> str:
        return f"equal up to {self.rtol:g} relatively or {self.atol:g} absolutely"

    def judge(self, evidence: tuple[ArrayLike, ArrayLike]) -> Judged:
        ours, expected = _one_shape(evidence, ("ours", "expected"))
        error = np.abs(ours - expected)
        held = error <= self.atol + self.rtol * np.abs(expected)
        counts = held.size == 1 and all(float(one.item()).is_integer() for one in (ours, expected))
        if counts and expected.item() != 0 and not held.all():
            return Judged("no", f"{ours.item():,.0f} where {expected.item():,.0f} is asked")
        return _counted(held, f"largest difference {float(error.max(initial=0.0)):.2g}")


@dataclass(frozen=True)
class AtMost:
    """A value is at most its bound, entry by entry.

    Evidence is a tuple (value, bound); bounds may be infinite, values may not.
    """

    rtol: float = 1e-12

    @property
    def words(self) -> str:
        return "value at most the bound, entry by entry"

    def judge(self, evidence: tuple[ArrayLike, ArrayLike]) -> Judged:
        value, bound = _one_shape(evidence, ("value", "bound"), infinite="bound")
        finite = np.where(np.isfinite(bound), np.abs(bound), 0.0)
        held = value <= bound + self.rtol * finite
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = np.where(bound != 0, value / bound, np.where(value <= 0, 0.0, np.inf))
        return _counted(held, f"largest value / bound {float(ratio.max(initial=0.0)):.3g}")


@dataclass(frozen=True)
class WithinErrors:
    """Simulated means lie within `z` standard errors of the exact expectation, entry by entry.

    Evidence is a tuple (estimate, standard_error, expected).
    """

    z: float = 4.0

    @property
    def words(self) -> str:
        return f"within {self.z:g} standard errors, entry by entry"

    def judge(self, evidence: tuple[ArrayLike, ArrayLike, ArrayLike]) -> Judged:
        estimate, error, expected = _one_shape(evidence, ("estimate", "standard_error", "expected"))
        checks.array("standard_error", error, above=0.0)
        score = np.abs(estimate - expected) / error
        return _counted(score <= self.z, f"largest |z| {float(score.max(initial=0.0)):.2f}")


@dataclass(frozen=True)
class Holds:
    """A fact is true, or every one of several named facts.

    Evidence is True or False, or a mapping name -> True or False.
    """

    @property
    def words(self) -> str:
        return "true"

    def judge(self, evidence: bool | Mapping[str, bool]) -> Judged:
        facts = evidence if isinstance(evidence, Mapping) else {"": evidence}
        if not facts:
            raise ValueError("evidence={} must hold at least one fact")
        for name, value in facts.items():
            if not isinstance(value, bool | np.bool_):
                raise ValueError(f"evidence {name!r}={value!r} must be True or False")
        failed = [str(name) for name, value in facts.items() if not value]
        if not isinstance(evidence, Mapping):
            return Judged("no" if failed else "yes", "")
        count = f"{len(facts) - len(failed)} of {len(facts)} hold"
        words = f"{count}, not: {', '.join(failed)}" if failed else count
        return Judged(_answer(len(facts) - len(failed), len(facts)), words)


# --- helpers --------------------------------------------------------------------------------------


def _above(estimate: Estimate, smallest: float) -> str:
    """Answer whether the mean lies above 0, by the sign of its whole interval."""
    if estimate.low > 0:
        return "yes"
    if estimate.high < 0:
        return "no"
    return TOO_SMALL if -smallest < estimate.low and estimate.high < smallest else "open"


def _turned(estimate: Estimate) -> Estimate:
    """Return the estimate of the opposite quantity."""
    return replace(estimate, mean=-estimate.mean, low=-estimate.high, high=-estimate.low)


def _within(estimate: Estimate, low: float, high: float) -> str:
    """Answer whether the mean lies in (low, high), by where its interval lies."""
    if estimate.low > low and estimate.high < high:
        return "yes"
    return "no" if estimate.high <= low or estimate.low >= high else "open"


def _together(answers: list[str]) -> str:
    """Return the answer of several comparisons that a part takes as one."""
    found = set(answers)
    if len(found) == 1:
        return answers[0]
    if "partly" in found or {"yes", "no"} <= found:
        return "partly"
    if "no" in found:
        return "no"
    return "open" if "open" in found else "partly"


def share_of(size: str) -> float | None:
    """Return our share of the printed effect, in per cent, from the `size` of what was judged."""
    found = re.match(r"(?:.*: )?(-?\d+) %", size)
    return float(found[1]) if found else None


def decisive(size: str) -> float:
    """Return a key by which the contrast comes first of which ours is the smallest share."""
    share = share_of(size)
    return math.inf if share is None else share


def _line(name: str, one: Judged) -> str:
    """Return one of several comparisons in words."""
    found = f"{one.ours} {one.interval}".strip()
    return f"{name}: {one.answer}, {found}" if found else f"{name}: {one.answer}"


def _hint(estimate: Estimate, regions: list[tuple]) -> str:
    if estimate.n < 2:
        return "a single seed shows no spread"
    totals = [runs_needed(estimate, *region) for region in regions]
    more = min((max(1, total - estimate.n) for total in totals if total), default=None)
    if more is None or more > WORTH_SAYING:
        return f"more than {WORTH_SAYING} more seeds would be needed"
    return f"about {more} more seed{'' if more == 1 else 's'} would settle it"


def _slopes(evidence: Any) -> np.ndarray:
    """Return the least-squares slope of each seed's curve."""
    curves, x = evidence if isinstance(evidence, tuple) else (evidence, None)
    curves = checks.array("curves", curves, ndim=2)
    x = checks.array("x", np.arange(curves.shape[1]) if x is None else x, ndim=1)
    if len(x) != curves.shape[1] or len(x) == 0 or np.ptp(x) == 0:
        raise ValueError(
            f"x has {len(x)} points and curves {curves.shape[1]}; they need the same number, "
            "at two places at least"
        )
    centred = x - x.mean()
    return curves @ centred / (centred @ centred)


def _log_variance_ratios(a: ArrayLike, b: ArrayLike) -> np.ndarray:
    """Return the jackknife's pseudo-values of the log variance ratio, one per seed."""
    a = checks.array("a", a, ndim=2)
    b = checks.array("b", b, ndim=2)
    if a.shape != b.shape or len(a) < 3:
        raise ValueError(
            f"a has shape {a.shape} and b {b.shape}; they need one shape with at least 3 seeds"
        )
    everyone = np.arange(len(a))

    def statistic(keep: np.ndarray) -> float:
        first, second = (curves[keep].var(axis=0, ddof=1).mean() for curves in (a, b))
        if first <= 0 or second <= 0:
            raise ValueError("a or b does not vary across seeds at all; there is no ratio to judge")
        return math.log(first) - math.log(second)

    n, whole = len(a), statistic(everyone >= 0)
    return np.array([n * whole - (n - 1) * statistic(everyone != i) for i in everyone])


def _one_shape(evidence: Any, names: tuple[str, ...], infinite: str = "") -> list[np.ndarray]:
    """Return the arrays of the evidence in one shape, or raise ValueError."""
    if not isinstance(evidence, tuple) or len(evidence) != len(names):
        raise ValueError(f"evidence must be a tuple ({', '.join(names)})")
    arrays = []
    for name, values in zip(names, evidence, strict=True):
        if name != infinite:
            arrays.append(checks.array(name, values))
            continue
        arrays.append(np.asarray(values, dtype=float))
        if np.isnan(arrays[-1]).any():
            raise ValueError(f"{name} must hold numbers or inf, and no nan")
    shapes = {array.shape for array in arrays if array.ndim}
    if len(shapes) > 1:
        raise ValueError(
            f"{', '.join(names)} have shapes {', '.join(str(a.shape) for a in arrays)}; "
            "they need one shape, or a single number"
        )
    if any(0 in shape for shape in shapes):
        raise ValueError(f"{names[0]} has no entries to judge")
    shape = shapes.pop() if shapes else ()
    return [np.broadcast_to(array, shape) for array in arrays]


def _counted(held: np.ndarray, words: str) -> Judged:
    count = int(np.sum(held))
    size = int(np.size(held))
    prefix = f"{count} of {size} hold, " if size > 1 else ""
    return Judged(_answer(count, size), prefix + words)


def _answer(held: int, of: int) -> str:
    if held == of:
        return "yes"
    return "partly" if held else "no"
