"""Student's intervals over independent seeds, and how many seeds an answer still needs.

The quantile comes from `scipy.special.stdtrit`: `scipy.stats.t.ppf` is the same number, but takes
most of a second to load.
"""

from __future__ import annotations

import bisect
import math
from dataclasses import dataclass
from numbers import Real

import numpy as np
from numpy.typing import ArrayLike

from sflkit import checks

MAX_RUNS = 10_000  # beyond this the answer to "how many more runs" is "more than we would ever do"


@dataclass(frozen=True)
class Estimate:
    """A mean with its interval.

    `n` is the number of seeds. `spread` is the standard error times sqrt(n), from which
    `runs_needed` reckons how many seeds are still missing.
    """

    mean: float
    low: float
    high: float
    n: int
    spread: float
    confidence: float


def mean_interval(sample: ArrayLike, confidence: float = 0.95) -> Estimate:
    """Return mean and Student's interval of (n,) independent numbers.

    The interval of a single number has no end: it goes from minus to plus infinity.

    Raises
    ------
    ValueError
        If the sample is empty or holds a number that is not finite, or `confidence` is not in
        (0, 1).
    """
    return _mean(sample_of("sample", sample), confidence)


def text(sample: ArrayLike, digits: int = 3, confidence: float = 0.95) -> str:
    """Return "mean ± half width" of (n,) independent numbers.

    It is the number alone where there is one, and "" where there is none. Raises ValueError for
    anything but finite numbers, digits in [0, 17] and a confidence in (0, 1).
    """
    digits = checks.integer("digits", digits, 0, 17)
    sample = checks.array("sample", sample, ndim=1)
    if not len(sample):
        return ""
    estimate = mean_interval(sample, confidence)
    half = f" ± {estimate.high - estimate.mean:.{digits}f}" if estimate.n > 1 else ""
    return f"{estimate.mean:.{digits}f}{half}"


def runs_needed(estimate: Estimate, low: float, high: float) -> int | None:
    """Return how many runs in all would settle whether the mean lies in (low, high).

    Mean and spread are taken to stay as observed. None stands for more than `MAX_RUNS`, or for
    unknown, because a single run shows no spread. Either end may be infinite, not both. Raises
    ValueError unless low <= high.
    """
    from scipy import special

    checks.instance("estimate", estimate, Estimate)
    for name, edge in (("low", low), ("high", high)):
        if not isinstance(edge, Real) or abs(edge) != math.inf:
            checks.real(name, edge)
    if not low <= high or not (math.isfinite(low) or math.isfinite(high)):
        raise ValueError(f"low={low!r} must not be above high={high!r}, and one of them finite")
    if estimate.n < 2:
        return None
    distance = min(abs(estimate.mean - edge) for edge in (low, high) if math.isfinite(edge))
    quantile = 0.5 + estimate.confidence / 2

    def settled(n: int) -> bool:
        return special.stdtrit(n - 1, quantile) * estimate.spread / math.sqrt(n) < distance

    # The half width falls with n, so that halving the range finds the first n.
    first = 2 + bisect.bisect_left(range(2, MAX_RUNS + 1), True, key=settled)
    return first if first <= MAX_RUNS else None


def sample_of(name: str, sample: ArrayLike) -> np.ndarray:
    """Return one finite number per seed as (n_seeds,) array, or raise ValueError."""
    sample = checks.array(name, sample, ndim=1)
    if not len(sample):
        raise ValueError(f"{name}=[] must hold one number per seed")
    return sample


def _mean(sample: np.ndarray, confidence: float) -> Estimate:
    n = len(sample)
    spread = float(sample.std(ddof=1)) if n > 1 else math.inf
    return _estimate(float(sample.mean()), spread, n, n - 1, confidence)


def difference_interval(
    x: ArrayLike, y: ArrayLike, confidence: float = 0.95, *, paired: bool = True
) -> Estimate:
    """Return mean(x) - mean(y) with its interval.

    `paired` takes the interval of the seed-by-seed differences, which is right where x and y share
    their seeds; otherwise it is Welch's.

    Raises
    ------
    ValueError
        As `mean_interval`, or if paired samples differ in length.
    """
    x, y = sample_of("x", x), sample_of("y", y)
    if checks.flag("paired", paired):
        if len(x) != len(y):
            raise ValueError(
                f"x has {len(x)} seeds and y has {len(y)}; paired values need the same seeds "
                "(or paired=False)"
            )
        return _mean(x - y, confidence)
    n = min(len(x), len(y))
    if n < 2:
        return _estimate(float(x.mean() - y.mean()), math.inf, n, 0, confidence)
    a, b = x.var(ddof=1) / len(x), y.var(ddof=1) / len(y)
    degrees = (a + b) ** 2 / (a**2 / (len(x) - 1) + b**2 / (len(y) - 1)) if a + b > 0 else 1.0
    return _estimate(float(x.mean() - y.mean()), math.sqrt((a + b) * n), n, degrees, confidence)


def _estimate(mean: float, spread: float, n: int, degrees: float, confidence: float) -> Estimate:
    from scipy import special

    confidence = checks.real("confidence", confidence, above=0.0, below=1.0)
    half = math.inf
    if math.isfinite(spread):
        half = float(special.stdtrit(degrees, 0.5 + confidence / 2)) * spread / math.sqrt(n)
    return Estimate(mean, mean - half, mean + half, n, spread, confidence)
