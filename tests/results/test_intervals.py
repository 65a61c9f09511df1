"""Intervals against scipy's own, and the number of runs that would settle a question."""

import math

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from sflkit import intervals


@given(st.integers(0, 10_000), st.integers(2, 12), st.integers(2, 9), st.sampled_from([0.8, 0.95]))
@settings(max_examples=30)
def test_intervals_are_scipys(seed, n, m, confidence):
    rng = np.random.default_rng(seed)
    (x, y), other = rng.normal(size=(2, n)), rng.normal(size=m)
    ours = intervals.difference_interval(x, y, confidence)
    theirs = stats.ttest_rel(x, y).confidence_interval(confidence)
    np.testing.assert_allclose([ours.low, ours.high], theirs, rtol=1e-9)
    ours = intervals.difference_interval(x, other, confidence, paired=False)
    theirs = stats.ttest_ind(x, other, equal_var=False).confidence_interval(confidence)
    np.testing.assert_allclose([ours.low, ours.high], theirs, rtol=1e-9)
    ours = intervals.mean_interval(x, confidence)
    np.testing.assert_allclose(
        [ours.low, ours.high],
        stats.t.interval(confidence, n - 1, x.mean(), stats.sem(x)),
        rtol=1e-9,
    )


def test_interval_as_text():
    # 1 and 3: mean 2, half width t(0.975; 1) * sqrt(2) / sqrt(2) = 12.706
    assert intervals.text([1, 3]) == "2.000 ± 12.706"
    assert intervals.text([0.25], digits=1) == "0.2" and intervals.text([]) == ""


def test_runs_needed_are_those_to_the_nearer_edge():
    """From 0.5 the edge 1 of (-1, 1) is nearer than -1: as many as where 1 is the only edge."""
    estimate = intervals.Estimate(0.5, -1, 2, 3, 1.0, 0.95)
    nearer = intervals.runs_needed(estimate, -math.inf, 1)
    assert intervals.runs_needed(estimate, -1, 1) == nearer
    assert nearer > intervals.runs_needed(estimate, -1, math.inf)


@given(st.floats(0.01, 3), st.floats(0.01, 3))
@settings(max_examples=30)
def test_runs_needed_is_the_first_that_settles(mean, spread):
    estimate = intervals.Estimate(mean, -1, 1, 3, spread, 0.95)
    n = intervals.runs_needed(estimate, 0.0, math.inf)
    half = [
        stats.t.ppf(0.975, k - 1) * spread / math.sqrt(k)
        for k in ([n - 1, n] if n else [intervals.MAX_RUNS])
    ]
    if n is None:
        assert half[0] >= mean
    else:
        assert half[1] < mean and (n == 2 or half[0] >= mean)
