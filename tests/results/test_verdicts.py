"""Verdict rules against cases worked out by hand and scipy's own intervals."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from sflkit.results import intervals, verdicts
from sflkit.results.verdicts import overall

SEEDS = np.arange(8.0)  # what all rules of one seed share: a paired interval must not see it


def test_ordering_by_hand():
    # differences 1, 2, 3: mean 2, s = 1, t(0.975, 2) = 4.302653, half width 4.302653 / sqrt(3) =
    # 2.484138: [-0.484, 4.484]. To settle it: t(0.975, n-1) / sqrt(n) < 2. n = 3: 2.484; n = 4:
    # 3.182446 / 2 = 1.591. So 4 runs in all, 1 more.
    out = verdicts.ordering({"a": [11, 22, 33], "b": [10, 20, 30]}, [("a", "b")])
    assert out.verdict == "undecided" and out.n_seeds == 3
    assert out.table.to_dict("records") == [
        {
            "part": "a > b",
            "ours": "+2",
            "interval": "[-0.484, 4.48]",
            "verdict": "undecided",
            "more_runs": "about 1",
        }
    ]
    assert out.note == "a > b: about 1 more run would settle it"
    # a fourth difference of 2 keeps the mean: s^2 = 2/3, half = 3.182446 * 0.8165 / 2 = 1.299:
    # [0.701, 3.299], settled
    out = verdicts.ordering({"a": [11, 22, 33, 42], "b": [10, 20, 30, 40]}, [("a", "b")])
    assert out.verdict == "reproduced" and out.table["interval"][0] == "[0.701, 3.3]"
    # the same numbers against a margin of 1 (0.701 < 1 < 3.299) and of 4 (3.299 < 4), and the claim
    # the other way round
    values = {"a": [11, 22, 33, 42], "b": [10, 20, 30, 40]}
    assert verdicts.ordering(values, [("a", "b", 1.0)]).verdict == "undecided"
    assert verdicts.ordering(values, [("a", "b")], margin=4.0).verdict == "not reproduced"
    assert verdicts.ordering(values, [("b", "a")]).verdict == "not reproduced"
    assert (
        verdicts.ordering(values, [("b", "a", -3.5)]).verdict == "reproduced"
    )  # "b is not worse by more than 3.5"
    # pairing matters: without it the seeds' own spread (11 to 42) hides the difference
    assert verdicts.ordering(values, [("a", "b")], paired=False).verdict == "undecided"


def test_ordering_without_spread_or_with_one_seed():
    assert verdicts.ordering({"a": [2, 3], "b": [1, 2]}, [("a", "b")]).verdict == "reproduced"
    assert (
        verdicts.ordering({"a": [1, 2], "b": [1, 2]}, [("a", "b")]).verdict == "not reproduced"
    )  # equal is not greater
    single = verdicts.ordering({"a": [9.0], "b": [1.0]}, [("a", "b")])
    assert single.verdict == "undecided"
    assert single.table[["interval", "more_runs"]].to_numpy().tolist() == [
        ["[-inf, inf]", "at least 1"]
    ]
    # differences -1, 1: the mean is 0, so no number of runs is seen to settle it
    assert (
        verdicts.ordering({"a": [0, 1], "b": [1, 0]}, [("a", "b")]).table["more_runs"][0]
        == "more than 10000"
    )


def test_similar_needs_the_whole_interval_inside():
    values = {
        "a": SEEDS + 0.001 * np.array([1, -1, 2, -2, 1, -1, 2, -2]),
        "b": SEEDS,
        "c": SEEDS + 0.5,
    }
    assert verdicts.ordering(values, similar=[("a", "b")], tolerance=0.01).verdict == "reproduced"
    assert (
        verdicts.ordering(values, similar=[("c", "b")], tolerance=0.01).verdict == "not reproduced"
    )
    assert verdicts.ordering(values, similar=[("a", "b")], tolerance=0.0001).verdict == "undecided"
    mixed = verdicts.ordering(values, [("b", "c")], similar=[("a", "b")], tolerance=0.01)
    assert mixed.verdict == "partly" and mixed.table["verdict"].tolist() == [
        "not reproduced",
        "reproduced",
    ]


@given(st.integers(0, 10_000), st.integers(2, 12), st.sampled_from([0.8, 0.95, 0.99]))
@settings(max_examples=30, deadline=None)
def test_intervals_are_scipys(seed, n, confidence):
    x, y = np.random.default_rng(seed).normal(size=(2, n))
    ours = intervals.difference_interval(x, y, confidence)
    theirs = stats.ttest_rel(x, y).confidence_interval(confidence)
    np.testing.assert_allclose([ours.low, ours.high], theirs, rtol=1e-9)
    ours = intervals.difference_interval(x, y, confidence, paired=False)
    theirs = stats.ttest_ind(x, y, equal_var=False).confidence_interval(confidence)
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


@given(st.floats(0.01, 3), st.floats(0.01, 3))
@settings(max_examples=30, deadline=None)
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


def test_coverage_of_the_ordering_rule():
    # equal means: a two-sided 95 % interval wrongly reproduces in 2.5 % of the trials and wrongly
    # refutes in 2.5 %. 400 trials: standard error sqrt(0.025 * 0.975 / 400) = 0.0078; three of them
    # = 0.0234
    rng = np.random.default_rng(3)
    found = [
        verdicts.ordering({"a": rng.normal(size=5), "b": np.zeros(5)}, [("a", "b")]).verdict
        for _ in range(400)
    ]
    assert (
        abs(found.count("reproduced") / 400 - 0.025) < 0.0234
        and abs(found.count("not reproduced") / 400 - 0.025) < 0.0234
    )


@pytest.mark.parametrize(
    "parts, expected",
    [
        (["reproduced", "reproduced"], "reproduced"),
        (["reproduced", "not reproduced"], "partly"),
        (["reproduced", "undecided"], "undecided"),
        (["undecided", "not reproduced"], "not reproduced"),
        (["reproduced", "undecided", "not reproduced"], "partly"),
        (["partly", "not reproduced"], "partly"),
        (["partly"], "partly"),
        (["not run", "not run"], "not run"),
        (["reproduced", "not run"], "partly"),
        (["undecided", "not run"], "undecided"),
        (["not reproduced", "not run"], "not reproduced"),
        (["not reproduced"] * 2, "not reproduced"),
    ],
)
def test_overall(parts, expected):
    assert overall(parts) == overall(parts[::-1]) == expected


def test_tolerance():
    assert verdicts.tolerance(0.73, 0.72, 0.02).verdict == "reproduced"
    assert verdicts.tolerance(0.75, 0.72, 0.02).verdict == "not reproduced"
    assert (
        verdicts.tolerance(0.75, 0.72, 0.05, relative=True).verdict == "reproduced"
    )  # 0.03 < 0.036
    # three seeds 0.70, 0.72, 0.74: mean 0.72, s = 0.02, half width 4.302653 * 0.02 / sqrt(3) =
    # 0.0497
    seeds = [0.70, 0.72, 0.74]
    assert verdicts.tolerance(seeds, 0.72, 0.06).verdict == "reproduced"
    assert verdicts.tolerance(seeds, 0.72, 0.04).verdict == "undecided"
    assert verdicts.tolerance(seeds, 0.90, 0.06).verdict == "not reproduced"
    assert verdicts.tolerance(seeds, 0.72, 0.06).table["interval"][0] == "[0.67, 0.77]"


def test_trend():
    # slopes of the three seeds: 1, 2, 3 -> mean 2, interval [-0.484, 4.484] as above
    steep = np.array([[0, 1, 2], [0, 2, 4], [0, 3, 6]])
    assert verdicts.trend(steep, sign=1).verdict == "undecided"
    assert verdicts.trend(steep + [[0, 5, 10]], sign=1).verdict == "reproduced"
    assert verdicts.trend(steep + [[0, 5, 10]], sign=-1).verdict == "not reproduced"
    assert verdicts.trend(-steep - [[0, 5, 10]], sign=-1).verdict == "reproduced"
    assert verdicts.trend(steep + [[0, 5, 10]], sign=1, margin=20).verdict == "not reproduced"
    # x in steps of 10 divides the slopes by 10
    assert verdicts.trend(steep, [0, 10, 20], sign=1).table["ours"][0] == "+0.2"


def test_less_spread():
    # b = 3 a: every variance is 9 times as large, so each pseudo-value is log(1/9) = -2.197 exactly
    a = np.random.default_rng(0).normal(size=(6, 10))
    out = verdicts.less_spread(a, 3 * a, names=("drsr", "srsr"))
    assert (
        out.verdict == "reproduced"
        and out.table["ours"][0] == "-2.2"
        and out.table["interval"][0] == "[-2.2, -2.2]"
    )
    assert verdicts.less_spread(3 * a, a).verdict == "not reproduced"
    assert (
        verdicts.less_spread(a, np.random.default_rng(1).normal(size=(6, 10))).verdict
        == "undecided"
    )
    with pytest.raises(ValueError, match="does not vary across seeds"):
        verdicts.less_spread(np.ones((4, 3)), a[:4, :3])


def test_exact_bound_monte_carlo():
    assert verdicts.exact([1.0, 2.0], [1.0, 2.0 + 1e-12]).verdict == "reproduced"
    half = verdicts.exact([1.0, 2.0], [1.0, 2.1])
    assert (
        half.verdict == "partly" and half.table["ours"][0] == "1 of 2 hold, largest difference 0.1"
    )
    assert verdicts.exact(1.0, 2.0).verdict == "not reproduced"
    assert verdicts.bound_holds([0.1, 0.2, 0.0], [0.1, np.inf, 0.0]).verdict == "reproduced"
    broken = verdicts.bound_holds([0.0530, 0.01], [0.0500, 0.02])  # ERRATA 7: 0.0530 > 0.0500
    assert (
        broken.verdict == "partly"
        and broken.table["ours"][0] == "1 of 2 hold, largest value/bound 1.06"
    )
    assert verdicts.bound_holds(1.0, 0.0).verdict == "not reproduced"
    # deviations of 1, 3.9 and 4.1 standard errors
    assert verdicts.monte_carlo([1.1, 1.39], [0.1, 0.1], 1.0).verdict == "reproduced"
    assert verdicts.monte_carlo([1.1, 1.41], [0.1, 0.1], 1.0).verdict == "partly"


def test_check_combine_not_run():
    assert verdicts.check(ten_clients=True, sums_to_one=np.bool_(True)).verdict == "reproduced"
    assert verdicts.check(ten_clients=True, sums_to_one=False).verdict == "partly"
    left_out = verdicts.not_run("needs 40 GPU hours")
    both = verdicts.combine(drawn=verdicts.check(ten_clients=True), cifar_100=left_out)
    assert both.verdict == "partly" and both.table["part"].tolist() == [
        "drawn, ten clients",
        "cifar 100, not run",
    ]
    seeds = verdicts.ordering({"a": [2.0, 3.1, 4.0], "b": [1.0, 2.0, 3.0]}, [("a", "b")])
    assert verdicts.combine(x=seeds, y=verdicts.check(ok=True)).n_seeds == 3
    verdict = seeds.verdict_on(
        "sfl-fig4a", claim="a > b", paper="a above b", profile="paper", note="on traffic"
    )
    # differences 1, 1.1, 1: mean 1.0333, s = 0.057735, half width 4.302653 * 0.057735 / sqrt(3) =
    # 0.14342
    assert (verdict.ours, verdict.interval, verdict.verdict) == (
        "a > b: +1.03",
        "[0.89, 1.18]",
        "reproduced",
    )
    assert verdict.note == "on traffic" and verdict.n_seeds == 3 and verdict.profile == "paper"


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda: verdicts.ordering({"a": [1.0]}), "leave nothing to judge"),
        (lambda: verdicts.ordering({"a": [1.0]}, [("a", "x")]), "name='x' must be one of 'a'"),
        (
            lambda: verdicts.ordering({"a": [1.0, 2.0], "b": [1.0]}, [("a", "b")]),
            "2 seeds and y has 1",
        ),
        (
            lambda: verdicts.ordering({"a": [1.0, np.nan], "b": [1.0, 2.0]}, [("a", "b")]),
            "a holds nan",
        ),
        (
            lambda: verdicts.ordering({"a": [], "b": []}, [("a", "b")]),
            r"a=\[\] must hold one number per seed",
        ),
        (
            lambda: verdicts.ordering({"a": [1.0], "b": [1.0]}, similar=[("a", "b")]),
            "tolerance=None must be a finite number > 0",
        ),
        (
            lambda: verdicts.ordering({"a": [1, 2], "b": [1, 2]}, [("a", "b")], confidence=95),
            "confidence=95 must be .* < 1",
        ),
        (lambda: verdicts.tolerance(1.0, 1.0, 0.0), "tol=0.0 must be"),
        (lambda: verdicts.tolerance(np.nan, 1.0, 0.1), "value=nan"),
        (lambda: verdicts.trend([[1, 2]], sign=0), "sign=0 must be one of -1, 1"),
        (lambda: verdicts.trend([[1, 2]], [1, 1], sign=1), "two places"),
        (lambda: verdicts.trend([1, 2], sign=1), "must have 2 axes"),
        (lambda: verdicts.less_spread(np.ones((2, 3)), np.ones((2, 3))), "at least 3 seeds"),
        (lambda: verdicts.exact([], []), "no entries"),
        (lambda: verdicts.bound_holds(1.0, np.nan), "bound holds nan"),
        (lambda: verdicts.monte_carlo(1.0, 0.0, 1.0), "standard_error holds 0.0"),
        (lambda: verdicts.check(), "at least one named"),
        (lambda: verdicts.check(looks_good="yes"), "looks_good='yes' must be True or False"),
        (lambda: verdicts.combine(), "at least one"),
        (lambda: overall([]), "at least one"),
        (lambda: overall(["good"]), "verdict='good' must be one of 'reproduced'"),
        (
            lambda: verdicts.Verdict("a", "c", "r", "o", "p", "i", "fine"),
            "verdict='fine' must be one of",
        ),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(ValueError, match=message):
        call()
