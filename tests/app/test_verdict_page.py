"""VERDICTS.md: headings under which a reader searches, and parts as sentences."""

from __future__ import annotations

from types import SimpleNamespace

import pandas as pd
import pytest

from companion.app import artefacts, verdict_page
from companion.judging import tables
from tests.helpers import ROOT

ROWS = tables.all_verdicts(ROOT / "figures")


@pytest.mark.parametrize(
    ("artefact", "heading", "anchor"),
    [
        ("sfl-fig4a", "Figure 4a (SFL), sfl-fig4a", "figure-4a-sfl-sfl-fig4a"),
        ("osafl-tab2", "Table II (OSAFL), osafl-tab2", "table-ii-osafl-osafl-tab2"),
        (
            "ds-tab2-cifar10",
            "Table 2, CIFAR-10 (Data streams), ds-tab2-cifar10",
            "table-2-cifar-10-data-streams-ds-tab2-cifar10",
        ),
        ("ds-thm43", "Theorem 4.3 (Data streams), ds-thm43", "theorem-43-data-streams-ds-thm43"),
        ("ds-lemB5", "Lemma B.5 (Data streams), ds-lemB5", "lemma-b5-data-streams-ds-lemb5"),
        ("ds-appE", "Appendix E (Data streams), ds-appE", "appendix-e-data-streams-ds-appe"),
        ("osafl-eq35", "Equation (35) (OSAFL), osafl-eq35", "equation-35-osafl-osafl-eq35"),
        ("fats-alg2", "Algorithm 2 (FATS), fats-alg2", "algorithm-2-fats-fats-alg2"),
        ("x-new", "x-new (x), x-new", "x-new-x-x-new"),
    ],
)
def test_a_heading_has_the_number_the_paper_and_the_id(artefact, heading, anchor):
    assert artefacts.heading(artefact) == heading and artefacts.anchor(artefact) == anchor


def test_every_statement_without_a_number_has_a_name():
    plain = {name for name in ROWS["artefact"] if artefacts.name_of(name) == name}
    assert plain == set() and set(artefacts.STATED) <= set(ROWS["artefact"])


def test_a_cell_names_artefacts_by_kind():
    cell = artefacts.as_cell(["sfl-fig4a", "sfl-fig4b", "sfl-prop1", "sfl-speed", "sfl-faster"])
    assert cell == "Fig. 4a, 4b; Prop. 1; 2 statements"
    assert artefacts.as_cell(["ds-tab2", "ds-tab2-cifar10"]) == "Tab. 2"
    assert artefacts.as_cell([]) == ""
    assert artefacts.as_cell(["fats-rem2-accuracy", "fats-rem4"]) == "Rem. 2 (accuracy), 4"


def part(answer, ours="", interval="", role="paper", erratum="", hint="", n_seeds="40"):
    sentence = "FIFO ends above LAZY"
    return SimpleNamespace(
        sentence=sentence,
        answer=answer,
        ours=ours,
        interval=interval,
        role=role,
        erratum=erratum,
        hint=hint,
        n_seeds=n_seeds,
    )


@pytest.mark.parametrize(
    ("judged", "words"),
    [
        (
            part("yes", "+1.31 points", "[0.857, 1.77]"),
            "**Holds.** FIFO ends above LAZY: +1.31 points, 95 % interval from 0.857 to 1.77.",
        ),
        (
            part("yes", "+1.31 points", "[0.857, 1.77]", n_seeds="3"),
            "**Holds.** FIFO ends above LAZY: +1.31 points, 95 % interval from 0.857 to 1.77 "
            "(3 seeds).",
        ),
        (part("no"), "**Fails.** FIFO ends above LAZY."),
        (
            part("partly", "1 of 3 hold, largest value / bound 2.05e+03"),
            "**Holds in part.** FIFO ends above LAZY: 1 of 3 hold, the largest ratio of the two "
            "sides is 2,050, where 1 is the limit.",
        ),
        (
            part("yes", "6 of 6 hold, largest |z| 1.80", erratum="13"),
            "**Holds.** FIFO ends above LAZY (ERRATA 13): 6 of 6 hold, the largest deviation is "
            "1.80 standard errors.",
        ),
        (
            part("open", "-0.1 points", "[-1, 0.8]", hint="about 9 more seeds would settle it"),
            "**Open.** FIFO ends above LAZY: -0.1 points, 95 % interval from -1 to 0.8. About 9 "
            "more seeds would settle it.",
        ),
        (
            part("no", "2 of 4 hold, not: CNN, FCN"),
            "**Fails.** FIFO ends above LAZY: 2 of 4 hold; it fails for CNN, FCN.",
        ),
        (
            part("no visible effect", "+0.2 points", "[-0.1, 0.4]"),
            "**No visible effect.** FIFO ends above LAZY: +0.2 points, 95 % interval from -0.1 to "
            "0.4.",
        ),
        (
            part("no visible effect", "+0.2 points", "[0.1, 0.4]"),
            "**Too small to count.** FIFO ends above LAZY: +0.2 points, 95 % interval from 0.1 to "
            "0.4.",
        ),
        (
            part("no visible effect", "-0.2 points", "[-0.4, -0.1]"),
            "**Too small to count.** FIFO ends above LAZY: -0.2 points, 95 % interval from -0.4 to "
            "-0.1.",
        ),
        (
            part("yes", "+3.41 (log)", "[3.12, 3.69]"),
            "**Holds.** FIFO ends above LAZY: the logarithm of the ratio is +3.41, 95 % interval "
            "from 3.12 to 3.69.",
        ),
    ],
)
def test_a_part_is_a_sentence(judged, words):
    assert verdict_page.part_sentence(judged, "40") == words


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("fresh clients lead", "Fresh clients lead."),
        ("a cache that starts full", "A cache that starts full."),
        ("b = rho_S N / K", "b = rho_S N / K."),
        ("psi between 0 and 1:", "psi between 0 and 1:"),
    ],
)
def test_a_symbol_keeps_its_letter(text, sentence):
    assert verdict_page._sentence(text) == sentence


@pytest.mark.parametrize(
    ("verdict", "differs", "words"),
    [
        ("partly", "FCN", "**Setting.** A full setting: FCN; 40 seeds."),
        ("not run", "FCN", "**Setting.** None: nothing was run."),
    ],
)
def test_only_what_was_run_has_a_setting(verdict, differs, words):
    row = SimpleNamespace(
        artefact="osafl-tab3",
        profile="paper",
        source="Table III",
        claim="OSAFL leads.",
        verdict=verdict,
        note="",
        printed="",
        setting="full",
        differs=differs,
        n_seeds="40",
    )
    judged = part("not run" if verdict == "not run" else "yes", "+1 points", "[0.5, 1.5]")
    assert words in verdict_page.block(row, pd.DataFrame([vars(judged)]), None)


@pytest.mark.parametrize(
    ("verdict", "answers", "words"),
    [
        ("reproduced", ["yes"], "The claim has one part, which holds."),
        ("reproduced", ["yes"] * 2, "Both parts of the claim hold."),
        ("not run", ["not run"] * 3, "None of the claim's 3 parts was run."),
        (
            "partly",
            ["yes", "yes", "no", "open"],
            "Of the claim's 4 parts 2 hold, 1 fails and 1 is open.",
        ),
    ],
)
def test_the_bottom_line_counts_the_parts(verdict, answers, words):
    parts = pd.DataFrame([vars(part(answer)) for answer in answers])
    assert verdict_page.bottom_line(verdict, parts) == words


def test_the_bottom_line_of_a_corrected_claim_names_the_errata():
    parts = [part("no"), part("yes", role="corrected", erratum="13"), part("no", role="beyond")]
    line = verdict_page.bottom_line("corrected", pd.DataFrame([vars(p) for p in parts]))
    assert line.endswith("; what fails as printed holds as corrected by [ERRATA](ERRATA.md) 13.")


def test_every_claim_has_one_block_that_a_search_finds(monkeypatch):
    monkeypatch.delenv("SFLKIT_FIGURES", raising=False)
    monkeypatch.chdir(ROOT)
    lines = verdict_page.verdict_page("").splitlines()
    headings = [line for line in lines if line.startswith("### ")]
    assert sorted(headings) == sorted(f"### {artefacts.heading(a)}" for a in ROWS["artefact"])
    for paper in artefacts.papers_of(ROWS):
        assert f"## {artefacts.PAPERS[paper]}" in lines
    # what no sentence of the page may hold: the rules' own shorthand
    assert not [line for line in lines if "value / bound" in line or "|z|" in line]
