"""VERDICTS.md: headings under which a reader searches, and parts as sentences."""

from __future__ import annotations

import re

import pandas as pd
import pytest

from companion.app import artefacts, gate, verdict_page
from companion.judging import tables
from tests.helpers import ROOT

ROWS = tables.all_verdicts(ROOT / "figures")


@pytest.mark.parametrize(
    ("artefact", "name"),
    [
        ("sfl-fig4a", "Figure 4a (SFL)"),
        ("osafl-tab2", "Table II (OSAFL)"),
        ("ds-tab2-cifar10", "Table 2, CIFAR-10 (Data streams)"),
        ("ds-thm43", "Theorem 4.3 (Data streams)"),
        ("ds-lemB5", "Lemma B.5 (Data streams)"),
        ("osafl-eq35", "Equation (35) (OSAFL)"),
    ],
)
def test_a_name_has_the_number_and_the_paper(artefact, name):
    assert artefacts.full_name(artefact) == name


def test_every_statement_without_a_number_has_a_name():
    declared = {name for book in gate.notebooks() for name in book.artefacts}
    assert not {name for name in declared if artefacts.name_of(name) == name}


def part(answer, ours="", interval="", sentence="FIFO ends above LAZY", **more):
    """Return a judged part as parts.csv has it."""
    fields = {"role": "paper", "erratum": "", "hint": "", "size": "", "levels": "", "n_seeds": "40"}
    return (
        fields | {"sentence": sentence, "answer": answer, "ours": ours, "interval": interval} | more
    )


def frame(*parts):
    return list(pd.DataFrame(list(parts)).itertuples())


@pytest.mark.parametrize(
    ("judged", "words"),
    [
        (
            part("yes", "+1.31 points", "[0.857, 1.77]", levels="61.3 % against 60 %"),
            "FIFO ends above LAZY: 61.3 % against 60 %, +1.31 points [0.857, 1.77].",
        ),
        (
            part("yes", "+4.3 points", "[3.4, 5.2]", size="37 % of the printed 11.5 points"),
            "FIFO ends above LAZY: +4.3 points [3.4, 5.2], 37 % of the printed 11.5 points.",
        ),
        (part("no"), "Fails: FIFO ends above LAZY."),
        (
            part("partly", "1 of 3 hold, largest value / bound 2.05e+03"),
            "Holds in part: FIFO ends above LAZY: 1 of 3 hold, up to 2,050 times the limit.",
        ),
        (
            part("yes", "3 of 3 hold, largest value / bound 0.9", sentence="The bound holds"),
            "The bound holds: up to 0.9 times the bound.",
        ),
        (
            part("yes", "6 of 6 hold, largest |z| 1.80"),
            "FIFO ends above LAZY: off by up to 1.80 standard errors.",
        ),
        (
            part("too small to see", "+0.2 points", "[-0.1, 0.4]"),
            "Too small to see: FIFO ends above LAZY: +0.2 points [-0.1, 0.4].",
        ),
        (
            part("no", "2 of 4 hold, not: CNN, FCN"),
            "Fails: FIFO ends above LAZY: 2 of 4 hold, not CNN, FCN.",
        ),
        (part("not run", "it needs the data set"), "It needs the data set."),
    ],
)  # fmt: skip
def test_an_answer_is_one_sentence_for_a_reader(judged, words):
    assert verdict_page.answer("reproduced", frame(judged)) == words


def test_the_part_that_decides_is_told_first():
    holds = part("yes", sentence="SRSR ends above LAZY")
    small = part("too small to see", "+0.1 points", "[-0.1, 0.3]", sentence="DRSR ends above FIFO")
    told = verdict_page.answer("partly", frame(holds, small, part("no")))
    assert told == "Fails: FIFO ends above LAZY. 1 of 3 parts hold."
    told = verdict_page.answer("open", frame(holds, part("not run", "it takes two CPU hours")))
    assert (
        told
        == "Not run: FIFO ends above LAZY: it takes two CPU hours. 1 of 2 parts hold, 1 not run."
    )
    loose = part("yes", "3 of 3 hold, largest value / bound 0.2", sentence="Bound A holds")
    tight = part("yes", "3 of 3 hold, largest value / bound 0.9", sentence="Bound B holds")
    told = verdict_page.answer("reproduced", frame(holds, loose, tight))
    assert told == "Bound B holds: up to 0.9 times the bound."
    wide = part("open", "+1 points", "[-1, 3]", hint="about 9 more seeds would settle it")
    told = verdict_page.answer("open", frame(holds, wide))
    assert told == (
        "FIFO ends above LAZY: +1 points [-1, 3]. About 9 more seeds would settle it. "
        "1 of 2 parts hold."
    )
    slip = part("yes", "0", sentence="It is exact", role="corrected", erratum="46")
    told = verdict_page.answer("open", frame(part("no"), holds, wide, slip))
    assert told.startswith("FIFO ends above LAZY: +1 points")
    assert told.endswith(
        "What fails as printed is corrected by [ERRATA](ERRATA.md) 46. 1 of 3 parts hold."
    )
    mended = part("yes", "0", sentence="It is exact", role="corrected", erratum="13")
    told = verdict_page.answer("corrected", frame(part("no"), mended))
    assert told == "It is exact: 0. Corrected by [ERRATA](ERRATA.md) 13."


def test_the_table_shows_the_decisive_contrast(monkeypatch):
    """Table II fails by M-FedProx's level; its line is about OSAFL minus the best opponent."""
    monkeypatch.delenv("SFLKIT_FIGURES", raising=False)
    monkeypatch.chdir(ROOT)
    parts = tables.all_parts(ROOT / "figures").set_index(["artefact", "part"])
    lines = verdict_page.verdict_page("").splitlines()
    for artefact, number in (("osafl-tab2", "II"), ("osafl-tab3", "III")):
        (line,) = (one for one in lines if one.startswith(f"|[Table {number}](#{artefact})|"))
        found = parts.loc[artefact, "best_m_fednova"]
        share, printed = re.match(r"(\d+ %) of the printed (\S+ points)", found["size"]).groups()
        cells = line.split("|")
        assert cells[4:7] == [f"{found['ours']} {found['interval']}", printed, share]
        block = lines[lines.index(f"### {artefact}") :]
        assert "M-FedProx's best accuracy" in next(one for one in block if "Partly" in one)


def test_every_claim_has_ten_words_at_most():
    declared = {name for book in gate.notebooks() for name in book.artefacts}
    in_short = artefacts.in_short()
    assert set(in_short) == declared
    assert max(len(text.split()) for text in in_short.values()) <= 10


def test_every_claim_has_one_block_that_a_search_finds(monkeypatch):
    monkeypatch.delenv("SFLKIT_FIGURES", raising=False)
    monkeypatch.chdir(ROOT)
    lines = verdict_page.verdict_page("").splitlines()
    headings = [line for line in lines if line.startswith("### ")]
    settings = [line for line in headings if line.startswith("### settings-")]
    assert len(settings) == 4
    links = set(re.findall(r"^\[Setting \d+\]\(#(.*)\)", "\n".join(lines), flags=re.MULTILINE))
    assert links == {line.removeprefix("### ") for line in settings}
    headings = [line for line in headings if line not in settings]
    assert sorted(headings) == sorted(f"### {artefacts.anchor(a)}" for a in ROWS["artefact"])
    for artefact in ROWS["artefact"]:
        named = f"**{artefacts.full_name(artefact)}.** "
        assert lines[lines.index(f"### {artefacts.anchor(artefact)}") + 2].startswith(named)
    for paper in artefacts.by_paper(ROWS):
        assert f"## {artefacts.PAPERS[paper]}" in lines
    assert len(" ".join(lines).split()) <= 12_000
    # what no sentence of the page may hold: the rules' own shorthand
    assert not [line for line in lines if "value / bound" in line or "|z|" in line]
