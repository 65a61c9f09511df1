"""The README's findings say what today's verdicts say, and nothing where these have changed."""

from __future__ import annotations

import pandas as pd
import pytest

from companion.app import findings
from companion.judging import tables
from tests.helpers import ROOT

PARTS = tables.all_parts(ROOT / "figures")
ROWS = tables.all_verdicts(ROOT / "figures")
COLUMNS = ["artefact", "part", "answer", "ours", "interval", "n_seeds"]


@pytest.mark.parametrize("finding", findings.FINDINGS, ids=lambda finding: finding.artefacts[0])
def test_each_finding_is_written_for_today_s_answers(finding):
    """One that is not must be written anew: look at what VERDICTS.md says of its claims."""
    assert finding.stale(findings.Parts(PARTS)) == []
    assert set(finding.artefacts) <= set(ROWS["artefact"])


def test_numbers_come_from_the_parts():
    rows = [
        ("a", "x", "yes", "+1.25 points", "[0.5, 2]"),
        ("a", "y", "no", "0 of 15 hold, largest difference 0.2", ""),
        ("a", "z", "no", "1.5 points", "[-1, 4]"),
    ]
    parts = findings.Parts(
        pd.DataFrame(rows, columns=["artefact", "part", "answer", "ours", "interval"])
    )
    assert (parts.answer("a/x"), parts.answer("a/none")) == ("yes", "")
    assert parts.value("a/x") == 1.25 and parts.size("a/x") == "1.25 points"
    assert parts.interval("a/x") == "95 % interval from 0.5 to 2"
    assert parts.size("a/y").endswith(" 0.2")


def test_a_finding_whose_answer_changed_says_so_and_nothing_else():
    changed = PARTS.copy()
    first = (changed["artefact"] == "fats-alg2") & (changed["part"] == "tiny")
    assert first.sum() == 1
    changed.loc[first, "answer"] = "yes"
    told = findings.as_markdown(ROWS, changed, {}).splitlines()
    before = findings.as_markdown(ROWS, PARTS, {}).splitlines()
    assert findings.CHANGED in told[0] and "tiny federations" not in told[0]
    assert told[1:] == before[1:] and findings.CHANGED not in "".join(before)


def test_the_finding_on_osafl_tells_lead_interval_and_seeds():
    rows = [
        ("osafl-tab2", "best_m_fedavg", "yes", "+2.1 points", "[1.3, 2.9]", "3"),
        ("osafl-alg2", "printed_buffer", "no", "-60 points", "[-62, -58]", "3"),
    ]
    finding, parts = findings.FINDINGS[-1], findings.Parts(pd.DataFrame(rows, columns=COLUMNS))
    assert finding.stale(parts) == []
    said = "on 3 seeds that chose nothing OSAFL's best accuracy is 2.1 points above M-FedAvg's "
    assert said + "(95 % interval from 1.3 to 2.9; the paper: 3.3 points)" in finding.text(parts)


@pytest.mark.parametrize("finding", findings.FINDINGS, ids=lambda finding: finding.artefacts[0])
def test_a_finding_has_sixty_words_at_most(finding):
    text = finding.text(findings.Parts(PARTS))
    assert len(f"{finding.title} {text}".split()) <= 75 and len(text.split()) <= 60
