"""Student's intervals over independent seeds, and how many seeds an answer still needs."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from sflkit import checks

MAX_RUNS = 10_000  # beyond this the answer to "how many more runs" is "more than we would ever do"


@dataclass(frozen=True)
class Estimate:
    """A mean with its interval; `spread` is the standard error times sqrt(n), from which the runs
    still needed are reckoned.
    """

    mean: float
    low: float
    high: float
    n: int
    spread: float
    confidence: float


def mean_interval(sample, confidence: float = 0.95) -> Estimate:
    """Return mean and Student's interval of (n,) independent numbers; one number has an interval
    without end.
    """
    return _mean(sample_of("sample", sample), confidence)


def text(sample, digits: int = 3, confidence: float = 0.95) -> str:
    """Return "mean ± half width" of (n,) independent numbers, the number alone if there is one, ""
    if there is none.
    """
    if not len(sample):
        return ""
    estimate = mean_interval(sample, confidence)
    half = f" ± {estimate.high - estimate.mean:.{digits}f}" if estimate.n > 1 else ""
    return f"{estimate.mean:.{digits}f}{half}"


def runs_needed(estimate: Estimate, low: float, high: float) -> int | None:
    """Return how many runs in all would settle whether the mean lies in (low, high), were mean and
    spread to stay as observed.

    None: more than `MAX_RUNS`, or unknown because a single run shows no spread.
    """
    from scipy import (
        special,  # scipy.stats.t.ppf is the same number but takes most of a second to load
    )

    if estimate.n < 2:
        return None
    distance = min(abs(estimate.mean - edge) for edge in (low, high) if math.isfinite(edge))
    quantile = 0.5 + estimate.confidence / 2

    def settled(n):
        return special.stdtrit(n - 1, quantile) * estimate.spread / math.sqrt(n) < distance

    if not settled(MAX_RUNS):
        return None
    lower, upper = 1, MAX_RUNS  # the half width falls with n: bisect
    while upper - lower > 1:
        middle = (lower + upper) // 2
        lower, upper = (lower, middle) if settled(middle) else (middle, upper)
    return upper


def sample_of(name: str, sample) -> np.ndarray:
    """Return one finite number a seed as (n_seeds,) array, or raise ValueError."""
    sample = checks.array(name, sample, ndim=1)
    if not len(sample):
        raise ValueError(f"{name}=[] must hold one number a seed")
    return sample


def _mean(sample: np.ndarray, confidence: float) -> Estimate:
    n = len(sample)
    return _estimate(
        float(sample.mean()), float(sample.std(ddof=1)) if n > 1 else math.inf, n, n - 1, confidence
    )


def difference_interval(x, y, confidence: float = 0.95, *, paired: bool = True) -> Estimate:
    """Return mean(x) - mean(y) with the interval of the seed-by-seed differences, or Welch's when
    the seeds are not shared.
    """
    x, y = sample_of("x", x), sample_of("y", y)
    if paired:
        if len(x) != len(y):
            raise ValueError(
                f"x has {len(x)} seeds and y has {len(y)}; paired values need the same seeds (or paired=False)"
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

    checks.real("confidence", confidence, above=0.0, below=1.0)
    half = (
        float(special.stdtrit(degrees, 0.5 + confidence / 2)) * spread / math.sqrt(n)
        if math.isfinite(spread)
        else math.inf
    )
    return Estimate(mean, mean - half, mean + half, n, spread, confidence)
