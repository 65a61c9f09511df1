"""Claims: what must be declared, and how answers become a verdict."""

import itertools

import pytest

from companion.judging import claims
from companion.judging.claims import Claim, Claims, NotRun, Part, Run, Setting, Undecided
from companion.judging.rules import (
    ANSWERS,
    TOO_SMALL,
    Above,
    Equal,
    EveryReading,
    Holds,
    Judged,
)

PART = Part("order", "DRSR ends above FIFO", Above(smallest=0.005, scale=100, unit="points"))
FULL = Setting("full")


def claim(artefact="sfl-fig4a", parts=(PART,), text="DRSR is best.", **changes):
    fields = {"source": "Fig. 4(a)", "refuted_by": "a curve below FIFO's"} | changes
    return Claim(artefact, text, parts=parts, **fields)


def judged(answers, roles=None, corrects=("0",)):
    """Return answers with given words; roles "p", "c", "b" for paper, corrected, beyond."""
    roles = roles or "p" * len(answers)
    kinds = {"p": ("paper",), "c": ("corrected", 7, corrects), "b": ("beyond",)}
    return [
        claims.Answer(Part(f"{i}", "s", Holds(), *kinds[role]), Judged(answer, ""))
        for i, (answer, role) in enumerate(zip(answers, roles, strict=True))
    ]


@pytest.mark.parametrize(
    "answers, expected",
    [
        (["yes", "yes"], "reproduced"),
        (["no", "no"], "not reproduced"),
        (["yes", "no"], "partly"),
        (["yes", "partly"], "partly"),
        (["partly"], "partly"),
        (["partly", "no"], "partly"),
        (["open", "no"], "not reproduced"),
        ([TOO_SMALL, "no"], "not reproduced"),
        ([TOO_SMALL], "not reproduced"),
        ([TOO_SMALL, "yes"], "partly"),
        ([TOO_SMALL, "open"], "open"),
        ([TOO_SMALL, "open", "yes"], "partly"),
        (["open"], "open"),
        (["yes", "open"], "open"),
        (["open", "not run"], "open"),
        (["yes", "open", "no"], "partly"),
        (["not run", "not run"], "open"),
        (["yes", "not run"], "open"),
        (["no", "not run"], "not reproduced"),
        ([TOO_SMALL, "not run"], "open"),
    ],
)
def test_verdict_of_answers(answers, expected):
    for order in itertools.permutations(answers):
        assert claims.overall(judged(order)) == expected


@pytest.mark.parametrize(
    "answers, expected",
    [
        (["yes"], "reproduced"),
        ([TOO_SMALL, TOO_SMALL], "not reproduced, too small to see"),
        ([TOO_SMALL, "no"], "not reproduced"),
        (["open", "yes"], "open, undecided"),
        (["not run"], "open, not run"),
        (["not run", "yes"], "open"),
    ],
)
def test_a_verdict_in_full(answers, expected):
    found = judged(answers)
    assert claims.in_full(claims.overall(found), [one.judged for one in found]) == expected


def test_the_seeds_of_a_verdict_are_the_fewest_behind_a_part_of_the_paper():
    parts = [Part(name, "s", Above(0.1), role) for name, role in (("a", "paper"), ("b", "paper"))]
    parts += [Part("c", "s", Above(0.1), "beyond"), Part("d", "s", Holds())]
    evidence = {"a": [1.0, 2, 3], "b": [1.0, 2, 3, 4, 5], "c": [1.0, 2], "d": True}
    assert claim(parts=parts).judge(evidence, setting=FULL).n_seeds == 3


def test_every_mixture_of_answers_has_a_verdict():
    for answers in itertools.product(ANSWERS, repeat=3):
        found = claims.overall(judged(answers))
        assert found in claims.VERDICTS and found != "corrected"
        # one part more that holds never makes a verdict "not reproduced"
        assert claims.overall(judged([*answers, "yes"])) != "not reproduced"


def test_corrected_and_beyond():
    assert claims.overall(judged(["no", "yes"], "pc")) == "corrected"
    assert claims.overall(judged(["partly", "yes", "yes"], "pcc")) == "corrected"
    assert claims.overall(judged(["no", "yes", "yes"], "ppc")) == "corrected"
    # the second part fails as well, and nothing stands in for it
    assert claims.overall(judged(["no", "no", "yes"], "ppc")) == "not reproduced"
    assert claims.overall(judged(["no", "no", "yes"], "ppc", ("0", "1"))) == "corrected"
    # A slip that an erratum mends does not decide while another part is open.
    assert claims.overall(judged(["no", "open", "yes"], "ppc")) == "open"
    assert claims.overall(judged(["no", "yes", "not run", "yes"], "pppc")) == "open"
    assert claims.overall(judged(["no", "no", "open", "yes"], "pppc")) == "not reproduced"
    assert claims.overall(judged(["no", "yes", "open"], "pcc")) == "not reproduced"
    assert claims.overall(judged(["yes", "yes"], "pc")) == "reproduced"
    assert claims.overall(judged([TOO_SMALL, "yes"], "pc")) == "corrected"
    assert claims.overall(judged(["open", "yes"], "pc")) == "open"
    for answer in ANSWERS:  # what is ours does not count
        assert claims.overall(judged(["yes", answer], "pb")) == "reproduced"
        assert claims.overall(judged(["no", answer], "pb")) == "not reproduced"


def test_judge_by_hand():
    control = Part("control", "labels alone move it", Holds(), role="beyond")
    fixed = Part(
        "repair",
        "with line 7 mended it is exact",
        Equal(),
        role="corrected",
        erratum=18,
        corrects=("order",),
    )
    declared = claim(parts=[PART, control, fixed])
    evidence = {"order": ([0.8, 0.81, 0.82], [0.7, 0.71, 0.72]), "control": True, "repair": (1, 2)}
    verdict = declared.judge(evidence, setting=Setting("reduced", "three runs of ten"), note="n")
    assert (verdict.verdict, verdict.n_seeds, verdict.artefact) == ("reproduced", 3, "sfl-fig4a")
    assert [answer.sentence for answer in verdict.answers] == [
        "DRSR ends above FIFO: 81 % against 71 %, +10 points [10, 10], yes",
        "labels alone move it: yes",
        "with line 7 mended it is exact: 1 where 2 is asked, no",
    ]
    assert verdict.line == (
        "**sfl-fig4a: reproduced** (reduced). "
        "DRSR ends above FIFO: 81 % against 71 %, +10 points [10, 10], yes."
    )
    left_out = declared.judge(evidence | {"order": NotRun("no GPU")}, setting=FULL)
    assert (left_out.verdict, left_out.in_full) == ("open", "open, not run")
    assert left_out.answers[0].sentence == "DRSR ends above FIFO: not run (no GPU)"
    ranges = declared.judge(evidence | {"order": Undecided("2 to 9; by the start")}, setting=FULL)
    assert (ranges.verdict, ranges.in_full) == ("open", "open, undecided")
    assert ranges.answers[0].sentence == "DRSR ends above FIFO: 2 to 9; by the start, open"


def test_the_line_of_a_verdict_names_the_part_that_decides():
    parts = [PART, Part("fast", "DRSR is fast", Holds()), Part("cheap", "DRSR is cheap", Holds())]
    verdict = claim(parts=parts).judge(
        {"order": [0.1, 0.1], "fast": True, "cheap": False}, setting=FULL
    )
    assert verdict.line == ("**sfl-fig4a: partly** (full). DRSR is cheap: no; 2 of 3 parts hold.")
    mended = Part("mended", "mended it is cheap", Holds(), "corrected", 3, ("cheap",))
    verdict = claim(parts=[*parts, mended]).judge(
        {"order": [0.1, 0.1], "fast": True, "cheap": False, "mended": True}, setting=FULL
    )
    assert verdict.line.endswith("2 of 3 parts hold. True as corrected by ERRATA 3.")


UP, DOWN = [0.02, 0.021, 0.022], [-0.02, -0.021, -0.022]


def test_a_reading_fitted_to_a_claim_makes_it_partly_at_most():
    def verdict(holds, setting=FULL, **changes):
        found = claim(**changes).judge({"order": holds}, setting=setting)
        return found.in_full

    fitted = Setting("full", fitted="the scale of the inputs, by Table II on seed 100")
    told = "partly, under a reading fitted to it"
    assert verdict(UP) == "reproduced"
    assert verdict(UP, fitted) == verdict(UP, fitted=True) == told
    own = (Part("order", "s", PART.rule, fitted=True),)
    assert verdict(UP, parts=own) == told
    # what fails or is open under the reading that suits it best stays so
    assert verdict(DOWN, fitted) == "not reproduced"
    assert verdict([-0.02, 0.03], fitted) == "open, undecided"
    # what the fit did not see is judged on its own
    unseen = (Part("order", "s", PART.rule, fitted=False),)
    assert verdict(UP, fitted, parts=unseen) == "reproduced"
    # a correction that was fitted corrects in part
    mended = Part("mended", "m", Holds(), "corrected", 3, ("order",), fitted=True)
    found = claim(parts=[PART, mended]).judge({"order": DOWN, "mended": True}, setting=FULL)
    assert found.in_full == told
    assert found.answers[1].sentence == "m: yes (under a reading fitted to it)"
    assert "fitted: the scale of the inputs" in fitted.words
    with pytest.raises(ValueError, match=r"sfl-fig4a: corrected cannot rest on .*'mended'"):
        claims.Verdict(found.claim, "corrected", FULL, found.answers)


def test_without_headroom_nothing_is_concluded():
    control = Part("control", "FULL ends above FIFO", PART.rule, role="beyond")
    part = Part("order", "DRSR ends above FIFO", PART.rule, needs="control")
    declared = claim(parts=[part, control])

    def found(order, full):
        return declared.judge({"order": order, "control": full}, setting=FULL)

    assert found(UP, UP).in_full == "reproduced"
    assert found(DOWN, UP).in_full == "not reproduced"
    # 0.12 points [-0.31, 0.55]: over 3 seeds 0.12 +- 2.484138 * 0.1731
    small = [-0.000531, 0.0012, 0.002931]
    for order in (UP, DOWN, small):
        none = found(order, small)
        assert none.in_full == "open, no headroom here"
        assert none.answers[0].judged.hint == (
            "no headroom here: FULL ends above FIFO: +0.12 points [-0.31, 0.55], open"
        )
    assert found(UP, NotRun("it takes a day")).in_full == "open, no headroom here"
    assert found(NotRun("no GPU"), small).in_full == "open, not run"


def test_a_figure_that_nobody_has_seen_is_open():
    part = Part("fits", "The drawing has three layers", Holds(), seen=False)
    found = claim(parts=[part]).judge({"fits": True}, setting=FULL)
    assert found.in_full == "open, figure not seen"
    assert found.answers[0].sentence == "The drawing has three layers: open (figure not seen)"


def test_readings_that_disagree_leave_a_claim_open():
    part = Part("order", "Ours ends above Fresh", EveryReading(PART.rule))
    found = claim(parts=[part]).judge({"order": {"averaged": DOWN, "last": UP}}, setting=FULL)
    assert found.in_full == "open, the readings disagree"
    assert "averaged: no, -2.1 points" in found.line and "last: yes, +2.1 points" in found.line
    both = claim(parts=[part]).judge({"order": {"averaged": UP, "last": UP}}, setting=FULL)
    assert both.in_full == "reproduced" and "the same under both readings" in both.line


def test_the_nearest_run_judges_and_no_farther_one_slips_in():
    full, toy = Setting("full"), Setting("stand-in", "labels alone")
    near, far = Run({"order": DOWN}, full), Run({"order": UP}, toy)
    assert claims.nearest([far, near]) is near
    assert claims.nearest([far, Run({}, toy)]) is far
    with pytest.raises(ValueError, match=r"runs=.* at least one"):
        claims.nearest([])
    with pytest.raises(ValueError, match="sfl-fig4a, part 'order': its run is 'stand-in', and "):
        claim().judge({"order": Run(UP, toy)}, setting=full)
    assert claim().judge({"order": Run(UP, full)}, setting=toy).verdict == "reproduced"


def test_seeds_that_chose_do_not_judge():
    told = Setting("full", "ours", chose=[100], judges=range(203, 210)).words
    assert told == "ours; chosen on seed 100; judged on seeds 203 to 209"
    assert Setting("full", judges=[5, 3]).words == "judged on seeds 3, 5"
    with pytest.raises(ValueError, match=r"judges=\[100, 203\]: seeds \[100\] chose"):
        Setting("full", chose=[100], judges=[100, 203])


def test_the_decisive_contrast_is_told_of_parts_that_decide_alike():
    # +2.1 points are 42 and 21 % of the printed 5 and 10
    rule = {"smallest": 0.005, "scale": 100, "unit": "points"}
    parts = [Part(f"{n}", f"above {n}", Above(printed=n / 100, **rule)) for n in (5, 10)]
    verdict = claim(parts=parts).judge({"5": UP, "10": UP}, setting=FULL)
    assert verdict.line == (
        "**sfl-fig4a: reproduced** (full). above 10: +2.1 points [1.85, 2.35], yes; "
        "21 % of the printed 10 points [19, 23]; 2 of 2 parts hold."
    )


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda: Part("a", "s", Holds(), fitted="no"), "fitted='no' must be"),
        (lambda: claim(fitted="no"), "fitted='no' must be"),
        (lambda: claim(contrast="best"), r"'sfl-fig4a': contrast='best' must be one of \['order'"),
        (
            lambda: claim(parts=[Part("a", "s", Holds(), needs="FULL")]),
            "'sfl-fig4a': part 'a' needs the control 'FULL', which must be one of",
        ),
        (
            lambda: claim(parts=[Part("a", "s", Holds(), needs="a")]),
            "part 'a' needs the control 'a', which must be one of",
        ),
        (lambda: Part("a", "s", Holds(), erratum=3), "a corrected part, and no other"),
        (lambda: Part("a", "s", Holds(), corrects=("b",)), "a corrected part, and no other"),
        (
            lambda: claim(parts=[PART, Part("a", "s", Holds(), "corrected", 3, ("x",))]),
            "part 'a' corrects .*'x'.* not all among the paper's parts",
        ),
        (
            lambda: claim(parts=[Part("a", "s", Holds(), role="beyond")]),
            "'sfl-fig4a' has no part with a rule",
        ),
        (lambda: claim(text="word " * 121), "'sfl-fig4a' has 121 words"),
        (lambda: claim(refuted_by=" "), "needs refuted_by"),
        (lambda: Claims("sfl", [claim()])["sfl-fig99"], "artefact='sfl-fig99' must be one of"),
        (lambda: claim().judge({}, setting=FULL), "sfl-fig4a: .*no evidence for 'order'"),
        (
            lambda: claim().judge({"order": [1.0], "speed": True}, setting=FULL),
            "sfl-fig4a: no part 'speed'",
        ),
        (
            lambda: claim().judge({"order": [float("nan")]}, setting=FULL),
            "sfl-fig4a, part 'order': evidence holds nan",
        ),
        (lambda: Setting("paper"), "level='paper' must be one of"),
        (lambda: Setting("reduced"), "'reduced' must say what differs"),
        (lambda: claims.overall([]), "at least one part"),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_only_declared_claims_are_recorded():
    declared = Claims("sfl", [claim("sfl-fig6")])
    assert "sfl-fig6" in declared and "sfl-nope" not in declared
    claims.check_declared(declared["sfl-fig6"].judge({"order": [1.0, 1.1]}, setting=FULL))
    for stranger in (claim("sfl-fig98"), claim("sfl-fig6", text="Something else.")):
        verdict = stranger.judge({"order": [1.0, 1.1]}, setting=FULL)
        with pytest.raises(ValueError, match=f"artefact='{stranger.artefact}' is not a declared"):
            claims.check_declared(verdict)
