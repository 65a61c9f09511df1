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


def frame(*rows):
    return pd.DataFrame([*rows], columns=COLUMNS)


def finding(text="{{ gain.size }}"):
    values = {"gain": ["a/x", "yes"], "rule": ["a/y", "no"]}
    return {"title": "It is so.", "claims": ["a"], "values": values, "text": text}


TOLD = frame(
    ("a", "x", "yes", "+1.25 points", "[0.5, 2]", "40"),
    ("a", "y", "no", "0 of 15 hold, largest difference 0.2", "", ""),
)


@pytest.mark.parametrize("finding", findings.findings(), ids=lambda finding: finding["claims"][0])
def test_each_finding_is_written_for_today_s_answers_in_forty_words(finding):
    """One that is not must be written anew: look at what VERDICTS.md says of its claims."""
    text = findings.text(finding, PARTS)
    assert text != findings.CHANGED and len(text.split()) <= 40
    assert len(finding["title"].split()) <= 15
    assert set(finding["claims"]) <= set(ROWS["artefact"])


def test_numbers_come_from_the_parts():
    text = (
        "{{ gain.size }}, {{ gain.low }} to {{ gain.high }}, {{ gain.n_seeds }} seeds, "
        '{{ "%g" | format(rule.number) }}'
    )
    assert findings.text(finding(text), TOLD) == "1.25 points, 0.5 to 2, 40 seeds, 0.2"


def test_a_finding_whose_answer_changed_or_whose_claim_was_not_judged_says_so_and_nothing_else():
    changed = TOLD.assign(answer=["yes", "yes"])
    assert findings.text(finding(), changed) == findings.CHANGED
    assert findings.text(finding(), TOLD.iloc[:0]) == findings.CHANGED
