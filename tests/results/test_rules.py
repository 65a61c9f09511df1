"""Rules against cases worked out by hand."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from companion.judging import rules
from companion.judging.rules import (
    Above,
    AtMost,
    AtMostBelow,
    Each,
    Equal,
    EveryReading,
    Falls,
    Holds,
    Judged,
    LessSpread,
    Near,
    NotBelow,
    OfCeiling,
    Rises,
    Similar,
    WithinErrors,
)
from sflkit.intervals import Estimate

SEEDS = np.arange(8.0)  # what all rules of one seed share: a paired interval must not see it
FOUR = (np.array([11, 22, 33, 42.0]), np.array([10, 20, 30, 40.0]))


def test_above_by_hand():
    # differences 1, 2, 3: mean 2, s = 1, t(0.975, 2) = 4.302653, half width 4.302653 / sqrt(3) =
    # 2.484138: [-0.484, 4.484]. To settle it: t(0.975, n-1) / sqrt(n) < 2. n = 3: 2.484; n = 4:
    # 3.182446 / 2 = 1.591. So 4 seeds in all, 1 more.
    rule = Above(smallest=0.1)
    out = rule.judge(([11, 22, 33], [10, 20, 30]))
    assert out == rules.Judged(
        "open", "+2", "[-0.484, 4.48]", 3, "about 1 more seed would settle it", "", "22 against 20"
    )
    # a fourth difference of 2 keeps the mean: s^2 = 2/3, half = 3.182446 * 0.8165 / 2 = 1.299:
    # [0.701, 3.299], settled
    out = rule.judge(FOUR)
    assert (out.answer, out.interval, out.hint) == ("yes", "[0.701, 3.3]", "")
    assert rule.judge(FOUR[::-1]).answer == "no"
    # the differences themselves say the same
    assert rule.judge(FOUR[0] - FOUR[1]) == replace(out, levels="")
    # pairing matters: without it the seeds' own spread (11 to 42) hides the difference
    assert Above(smallest=0.1, paired=False).judge(FOUR).answer == "open"


def test_the_sign_decides_and_a_small_interval_around_0_is_too_small_to_see():
    # [0.701, 3.299] is above 0, whatever the smallest effect
    for smallest in (0.1, 3.3, 100.0):
        assert Above(smallest=smallest).judge(FOUR).answer == "yes"
        assert Above(smallest=smallest).judge(FOUR[::-1]).answer == "no"
    # differences -1, 0, 1: half width 4.302653 / sqrt(3) = 2.484 around 0
    around = [-1.0, 0.0, 1.0]
    found = Above(smallest=2.5, unit="points").judge(around)
    assert (found.answer, found.hint) == ("too small to see", "around 0 within ±2.5 points")
    assert Above(smallest=2.4).judge(around).answer == "open"
    # equal samples: the interval is the point 0
    assert Above(smallest=1e-6).judge(([1, 2], [1, 2])).answer == "too small to see"


def test_the_size_stands_beside_and_decides_nothing():
    # mean 2 of a printed 4 is 50 %, and [0.701, 3.299] is [17.5, 82.5] %
    alone, beside = Above(smallest=1).judge(FOUR), Above(smallest=1, printed=4).judge(FOUR)
    assert beside.size == "50 % of the printed 4 [18, 82]"
    assert (alone.answer, alone.size) == (beside.answer, "")
    # a fall of 7 where 14 is printed, over 3 seeds: 50 %, [4.516, 9.484] / 14
    falling = -np.array([[0, 6, 12], [0, 7, 14], [0, 8, 16.0]])
    assert Falls(smallest=1, printed=14).judge(falling).size == ("50 % of the printed 14 [32, 68]")
    assert Above(smallest=1, printed=4).judge([2.0]).size == "50 % of the printed 4"


def test_levels_and_ratios_are_told_in_a_readers_words():
    # means 27 and 25
    assert Above(smallest=1, unit="rounds").judge(FOUR).levels == "27 rounds against 25 rounds"
    assert Above(smallest=1).judge(FOUR[0] - FOUR[1]).levels == ""
    points = dict(smallest=1, unit="points")
    assert Above(**points).judge(FOUR).levels == "27 % against 25 %"
    assert Above(**points, gaps=True).judge(FOUR).levels == "27 points against 25 points"
    logs = (np.log([20.0, 20.0]), np.log([10.0, 10.0]))
    found = Above(smallest=0.1, ratio=True).judge(logs)
    assert (found.answer, found.ours, found.interval) == ("yes", "2 times", "[2, 2]")
    assert "around 1 within a factor of 1.11" in Above(smallest=0.1, ratio=True).words


def test_at_least_as_good_has_one_margin_of_half_a_point():
    # over 3 seeds mean m and spread s give m +- 4.302653 s / sqrt(3) = m +- 2.484138 s
    def answer(mean, spread):
        found = NotBelow().judge(np.array([mean - spread, mean, mean + spread]) / 100)
        return found.answer, found.interval, found.hint

    # -0.3 +- 0.124 points: below 0 and above -0.5
    assert answer(-0.3, 0.05) == ("yes", "[-0.424, -0.176]", "within half a point")
    assert answer(0.3, 0.05) == ("yes", "[0.176, 0.424]", "")
    assert answer(-0.1, 0.1) == ("yes", "[-0.348, 0.148]", "")  # spans 0: not surely below
    # -0.68 [-0.98, -0.38] spans the margin and lies below 0
    assert answer(-0.68, 0.12)[:2] == ("no", "[-0.978, -0.382]")
    assert answer(-0.9, 0.1)[0] == "no"
    # -0.4 +- 0.497 spans both
    assert answer(-0.4, 0.2)[:2] == ("open", "[-0.897, 0.0968]")
    assert answer(5.0, 9.0)[0] == "open"
    # the interval on the margin itself does not lie above it
    assert NotBelow().judge([-0.005, -0.005]).answer == "no"
    # ours in the mean of the printed lead of 2 points: -0.3 / 2 = -15 %, [-0.424, -0.176] / 2
    found = NotBelow(printed=0.02).judge([-0.0035, -0.003, -0.0025])
    assert found.size == "-15 % of the printed 2 points [-21, -9]"


@given(st.floats(-3, 3), st.floats(0.001, 3))
@settings(max_examples=60)
def test_below_is_below_in_every_row(mean, spread):
    # what "above" refutes, "at least as good" confirms only within half a point, and says so
    sample = np.array([mean - spread, mean, mean + spread]) / 100
    above, level = Above(smallest=0.005).judge(sample), NotBelow().judge(sample)
    if above.answer == "no":
        assert (level.answer, level.hint) in (("no", ""), ("yes", "within half a point"))
    if above.answer == "yes":
        assert level.answer == "yes"
    if level.answer == "no":
        assert above.answer == "no"


def test_at_most_below_and_similar():
    # [0.701, 3.299], turned round [-3.299, -0.701]
    assert AtMostBelow(by=3.3).judge(FOUR[::-1]).answer == "yes"
    assert AtMostBelow(by=1.0).judge(FOUR[::-1]).answer == "open"
    assert AtMostBelow(by=0.5).judge(FOUR[::-1]).answer == "no"
    assert AtMostBelow(by=0.5).judge(FOUR).answer == "yes"
    near = (SEEDS + 0.001 * np.array([1, -1, 2, -2, 1, -1, 2, -2]), SEEDS)
    assert Similar(within=0.01).judge(near).answer == "yes"
    assert Similar(within=0.0001).judge(near).answer == "open"
    assert Similar(within=0.01).judge((SEEDS + 0.5, SEEDS)).answer == "no"


def test_levels_as_shares_of_their_ceiling():
    # print: .628 of a best of .663, 94.72 %. Ours: .61, .62, .63 of .6436: mean 96.333 %, spread
    # 1.5538 %, half width 2.484138 * 1.5538 = 3.8598 points
    levels = [0.61, 0.62, 0.63]
    rule = OfCeiling(target=0.628, ceiling=0.663, within=0.06)
    found = rule.judge((levels, 0.6436))
    assert (found.answer, found.ours) == ("yes", "96.3 % of the best possible")
    assert found.interval == "[92.5, 100]"
    # 96.333 / 94.721 = 1.0170
    assert found.size == "102 % of the printed 94.7 % of the best possible"
    assert OfCeiling(0.628, 0.663, 0.05).judge((levels, 0.6436)).answer == "open"
    # FedProx: .889 of the best where .821 is printed, by more than three points
    near = np.array([0.888, 0.889, 0.890]) * 0.6436
    assert OfCeiling(0.544, 0.6626, 0.03).judge((near, 0.6436)).answer == "no"
    # one ceiling a seed
    assert OfCeiling(0.5, 1, 0.01).judge(([1.0, 2, 3], [2.0, 4, 6])).answer == "yes"
    assert "within 3 points of 94.7 %" in OfCeiling(0.628, 0.663, 0.03).words


def test_one_seed_is_open():
    for rule in (Above(smallest=1), NotBelow(), Similar(within=1)):
        out = rule.judge(([9.0], [1.0]))
        assert (out.answer, out.interval) == ("open", "[-inf, inf]")
        assert out.hint == "a single seed shows no spread"


def test_the_hint_ends_at_a_hundred():
    # differences -1, 1: the mean is 0 and the spread sqrt(2); within +-1 needs n with
    # t(0.975, n-1) sqrt(2) / sqrt(n) < 1: n = 10: 2.2622 * 0.4472 = 1.0117; n = 11: 2.2281 *
    # 0.4264 = 0.9501. So 9 more; an effect of 0.01 would need some 77,000.
    assert Above(smallest=1.0).judge(([0, 1], [1, 0])).hint == "about 9 more seeds would settle it"
    hint = Above(smallest=0.01).judge(([0, 1], [1, 0])).hint
    assert hint == "more than 100 more seeds would be needed"


def test_shown_in_the_units_that_are_asked_for():
    rule = Above(smallest=0.005, scale=100, unit="points")
    out = rule.judge(FOUR)
    assert (out.ours, out.interval) == ("+200 points", "[70.1, 330]")
    assert rule.words == (
        "paired 95 % interval over seeds of the difference above 0; "
        "around 0 within ±0.5 points: too small to see"
    )
    assert Near(target=0.72, within=0.02, scale=100, unit="%").words == "within 2 % of 72 %"


def test_coverage_of_the_ordering_rule():
    # equal means: a two-sided 95 % interval wrongly says yes in 2.5 % of the trials and wrongly
    # no in 2.5 %. 400 trials: standard error sqrt(0.025 * 0.975 / 400) = 0.0078; three of them are
    # 0.0234.
    rng = np.random.default_rng(3)
    rule = Above(smallest=1e-6)
    found = [rule.judge(rng.normal(size=5)).answer for _ in range(400)]
    assert abs(found.count("yes") / 400 - 0.025) < 0.0234
    assert abs(found.count("no") / 400 - 0.025) < 0.0234


@given(st.integers(0, 10_000), st.floats(0.01, 3))
@settings(max_examples=30)
def test_turned_round_the_answer_turns(seed, smallest):
    differences = np.random.default_rng(seed).normal(0.5, size=6)
    turned = {"yes": "no", "no": "yes"}
    above = Above(smallest=smallest).judge(differences).answer
    assert Above(smallest=smallest).judge(-differences).answer == turned.get(above, above)
    x = np.arange(4.0)
    curves = np.random.default_rng(seed).normal(size=(6, 4)) + x
    up = Rises(smallest=smallest).judge(curves).answer
    assert Falls(smallest=smallest).judge(curves).answer == turned.get(up, up)
    assert Falls(smallest=smallest).judge(-curves).answer == up


@given(st.floats(-3, 3), st.floats(0.01, 3), st.floats(0, 1), st.floats(0.01, 3))
@settings(max_examples=60)
def test_a_shorter_interval_never_loses(mean, half, share, smallest):
    # what holds holds in every interval inside, and what fails fails
    def answer(width):
        return rules._above(Estimate(mean, mean - width, mean + width, 5, 1.0, 0.95), smallest)

    wide, narrow = answer(half), answer(share * half)
    if wide in ("yes", "no"):
        assert narrow == wide
    if wide == rules.TOO_SMALL:
        assert narrow != "open"


def test_near():
    assert Near(target=0.72, within=0.02).judge(0.73).answer == "yes"
    assert Near(target=0.72, within=0.02).judge(0.75).answer == "no"
    # 0.03 < 0.05 * 0.72 = 0.036
    assert Near(target=0.72, within=0.05, relative=True).judge(0.75).answer == "yes"
    # three seeds 0.70, 0.72, 0.74: mean 0.72, s = 0.02, half width 4.302653 * 0.02 / sqrt(3) =
    # 0.0497
    seeds = [0.70, 0.72, 0.74]
    assert Near(target=0.72, within=0.06).judge(seeds).answer == "yes"
    assert Near(target=0.72, within=0.04).judge(seeds).answer == "open"
    assert Near(target=0.90, within=0.06).judge(seeds).answer == "no"
    assert Near(target=0.72, within=0.06).judge(seeds).interval == "[0.67, 0.77]"


def test_rises_and_falls():
    # slopes of the three seeds: 1, 2, 3 -> mean 2, interval [-0.484, 4.484] as above
    steep = np.array([[0, 1, 2], [0, 2, 4], [0, 3, 6.0]])
    assert Rises(smallest=0.1).judge(steep).answer == "open"
    # slopes 6, 7, 8: [4.516, 9.484]
    steeper = steep + [[0, 5, 10]]
    assert Rises(smallest=0.1).judge(steeper).answer == "yes"
    assert Falls(smallest=0.1).judge(steeper).answer == "no"
    falling = Falls(smallest=0.1).judge(-steeper)
    assert (falling.answer, falling.ours, falling.interval) == ("yes", "-7", "[-9.48, -4.52]")
    # x in steps of 10 divides the slopes by 10
    assert Rises(smallest=0.1).judge((steep, [0, 10, 20])).ours == "+0.2"


def test_less_spread():
    # b = 3 a: every variance is 9 times as large, so each pseudo-value is log(1/9) = -2.197 exactly
    a = np.random.default_rng(0).normal(size=(6, 10))
    out = LessSpread(smallest=0.1).judge((a, 3 * a))
    assert (out.answer, out.ours) == ("yes", "0.111 times the variance")
    assert out.interval == "[0.111, 0.111]"
    assert LessSpread(smallest=0.1).judge((3 * a, a)).answer == "no"
    other = np.random.default_rng(1).normal(size=(6, 10))
    assert LessSpread(smallest=0.1).judge((a, other)).answer == "open"
    # a variance ratio of 1 / 1.01 in every pseudo-value is small, and its sign is sure
    assert LessSpread(smallest=0.1).judge((a, math.sqrt(1.01) * a)).answer == "yes"


def test_equal_at_most_within_errors():
    assert Equal().judge(([1.0, 2.0], [1.0, 2.0 + 1e-12])).answer == "yes"
    half = Equal().judge(([1.0, 2.0], [1.0, 2.1]))
    assert (half.answer, half.ours) == ("partly", "1 of 2 hold, largest difference 0.1")
    one = Equal().judge((825220, 226180))
    assert (one.answer, one.ours) == ("no", "825,220 where 226,180 is asked")
    assert "where" not in Equal().judge((2, 1.5)).ours  # a measure, not a count
    assert Equal().judge(([1.0, 1.0], 1.0)).answer == "yes"
    assert AtMost().judge(([0.1, 0.2, 0.0], [0.1, np.inf, 0.0])).answer == "yes"
    broken = AtMost().judge(([0.0530, 0.01], [0.0500, 0.02]))  # ERRATA 7: 0.0530 > 0.0500
    assert (broken.answer, broken.ours) == ("partly", "1 of 2 hold, largest value / bound 1.06")
    assert AtMost().judge((1.0, 0.0)).answer == "no"
    # deviations of 1, 3.9 and 4.1 standard errors
    assert WithinErrors().judge(([1.1, 1.39], [0.1, 0.1], 1.0)).answer == "yes"
    assert WithinErrors().judge(([1.1, 1.41], [0.1, 0.1], 1.0)).answer == "partly"


def test_each_line_is_decided_by_its_own_interval():
    # a rises by 2 from place 0 to place 1 in every run, b falls by 2, c's two runs disagree
    up, down, unsure = [[0, 2], [1, 3]], [[2, 0], [3, 1]], [[0, 2], [2, 0]]
    rising = Each(Rises(smallest=0.1))

    def answer(**lines):
        return rising.judge({name: (line, [0, 1]) for name, line in lines.items()})

    assert answer(a=up) == Judged("yes", "1 of 1 hold", n_seeds=2)
    assert answer(a=down).answer == "no"
    assert answer(a=up, b=down).answer == "partly"
    assert answer(a=up, c=unsure).answer == "open"
    assert answer(b=down, c=unsure).answer == "no"
    found = answer(a=up, b=down)
    assert found.ours == "1 of 2 hold; b: no, -2 [-2, -2]"
    assert rising.words == f"each one: {Rises(smallest=0.1).words}"


def test_a_reading_of_ours_never_decides_alone_and_two_have_to_agree():
    rule = EveryReading(Above(smallest=1.0, printed=8))
    up, down, unsure = [3.0, 4.0, 5.0], [-3.0, -4.0, -5.0], [-3.0, 4.0, 5.0]
    alone = rule.judge({"10 steps": up})
    assert (alone.answer, alone.ours) == ("open", Above(smallest=1.0).judge(up).ours)
    assert "does not decide alone" in alone.hint
    both = rule.judge({"10 steps": up, "30 steps": up})
    assert (both.answer, both.hint) == ("yes", "the same under both readings")
    none = rule.judge({"10 steps": down, "30 steps": down, "90 steps": down})
    assert (none.answer, none.hint) == ("no", "the same under all 3 readings")
    # both are shown side by side, with both sizes: -4 and 4 of a printed 8
    split = rule.judge({"10 steps": down, "30 steps": up})
    assert (split.answer, split.hint) == ("open", "the readings disagree")
    assert split.ours == "10 steps: no, -4 [-6.48, -1.52]; 30 steps: yes, +4 [1.52, 6.48]"
    assert split.size == "-50 % (10 steps), 50 % (30 steps) of the printed 8"
    # an interval that spans 0 does not disagree, and does not confirm either
    half = rule.judge({"10 steps": up, "30 steps": unsure})
    assert (half.answer, half.hint) == ("open", "undecided under 30 steps")
    assert rule.judge({"10 steps": unsure, "30 steps": unsure}).answer == "open"


def test_the_size_of_several_comparisons_is_that_of_the_decisive_one():
    # ours minus three opponents: 4, 2 and 6 of printed 8, 8 and 10: 50, 25 and 60 %
    rules_of = {name: Above(1.0, printed=size) for name, size in zip("abc", (8, 8, 10))}
    samples = {"a": [3.0, 4, 5], "b": [1.0, 2, 3], "c": [5.0, 6, 7]}
    found = Each(rules_of).judge(samples)
    assert found.size == "b: 25 % of the printed 8 [-6, 56]"  # 2 +- 2.484 of 8
    assert rules.share_of(found.size) == 25
    assert rules.share_of("-3 % of the printed 8") == -3 and rules.share_of("") is None


def test_each_takes_one_rule_for_all_or_one_for_each():
    # what fails is told first
    told = Each(Holds()).judge({"held": True, "failed": False})
    assert told.ours.startswith("1 of 2 hold; failed")
    mixed = Each({"sure": Holds(), "unsure": Above(smallest=0.1), "failing": Holds()})
    told = mixed.judge({"sure": True, "unsure": ([11, 22, 33], [10, 20, 30]), "failing": False})
    assert told.ours.index("failing") < told.ours.index("unsure")
    limits = Each({"low": Near(target=0, within=1), "high": Near(target=10, within=1)})
    assert limits.judge({"low": 0.5, "high": 10.5}).answer == "yes"
    assert limits.judge({"low": 10.5, "high": 10.5}).answer == "partly"
    assert limits.words.count("; or ") == 1
    some = Each(Holds())
    assert some.judge({"a": {"x": True, "y": False}, "b": False}).answer == "partly"
    above, small, large = Each(Above(smallest=2.0)), [-0.1, 0.2], [3.0, 4.0, 5.0]
    assert above.judge({"a": small, "b": small}).answer == "too small to see"
    mixed = above.judge({"a": small, "b": large})
    assert (mixed.answer, mixed.n_seeds) == ("partly", 2)


@given(st.lists(st.lists(st.floats(-3, 3), min_size=2, max_size=4), min_size=1, max_size=4))
@settings(max_examples=50)
def test_each_says_yes_only_if_all_say_so(samples):
    rule = Above(smallest=0.5)
    alone = [rule.judge(sample).answer for sample in samples]
    found = Each(rule).judge({str(n): sample for n, sample in enumerate(samples)}).answer
    assert (found == "yes") == (set(alone) == {"yes"})
    assert (found in ("no", "partly")) == (
        "no" in alone or set(alone) == {"yes", "too small to see"}
    )


def test_holds():
    assert Holds().judge(True).answer == "yes" and Holds().judge(np.bool_(False)).answer == "no"
    facts = {"ten clients": True, "sums to one": False}
    out = Holds().judge(facts)
    assert (out.answer, out.ours) == ("partly", "1 of 2 hold, not: sums to one")
    assert Holds().judge({"a": False}).answer == "no"


@pytest.mark.parametrize(
    "call, message",
    [
        *[
            (lambda bad=bad: Above(smallest=bad), "smallest=.* must be a finite number > 0")
            for bad in (0, -1, math.inf, math.nan, "0.1")
        ],
        (lambda: Above(smallest=1).judge(([1.0, 2.0], [1.0])), "2 seeds and y has 1"),
        (lambda: Above(smallest=1).judge(([1.0, np.nan], [1.0, 2.0])), "x holds nan"),
        (lambda: Near(target=1, within=1).judge(np.nan), "evidence=nan"),
        (lambda: Rises(smallest=1).judge(([[1, 2]], [1, 1])), "two places"),
        (lambda: LessSpread(smallest=1).judge((np.ones((2, 3)),) * 2), "at least 3 seeds"),
        (lambda: LessSpread(smallest=1).judge((np.ones((3, 3)),) * 2), "does not vary"),
        (lambda: Equal().judge(([], [])), "no entries"),
        (lambda: Equal().judge((np.ones((2, 1)), np.ones(2))), "need one shape"),
        (lambda: AtMost().judge((1.0, np.nan)), "bound must hold numbers or inf"),
        (lambda: AtMost().judge((np.inf, 1.0)), "value holds inf"),
        (lambda: WithinErrors().judge((1.0, 0.0, 1.0)), "standard_error holds 0.0"),
        (lambda: AtMostBelow(by=0), "by=0 must be a finite number > 0"),
        (lambda: NotBelow(printed=-1), "printed=-1 must be a finite number > 0"),
        (lambda: OfCeiling(0.5, 0, 0.1), "ceiling=0 must be a finite number > 0"),
        (lambda: OfCeiling(0.5, 1, 0.1).judge([0.4]), "must be a pair \\(levels, best\\)"),
        (lambda: OfCeiling(0.5, 1, 0.1).judge(([0.4], 0.0)), "best holds 0.0|best=0.0"),
        (lambda: OfCeiling(0.5, 1, 0.1).judge(([0.4], [1.0, 1])), "best has shape"),
        (lambda: Each(Rises(smallest=1)).judge({}), "one entry at least"),
        (lambda: Each({"a": Holds()}).judge({"b": True}), "'a', 'b'.* need both a rule and"),
        (lambda: Holds().judge({}), "at least one fact"),
        (lambda: Holds().judge({"looks_good": "yes"}), "'looks_good'='yes' must be True or False"),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(ValueError, match=message):
        call()
