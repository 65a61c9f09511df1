"""The page of all verdicts: its filter by hand, its widget, and that it is current."""

import json
import re

import pandas as pd
import pytest

from companion.app import gate, overview
from companion.app.overview import Filter
from companion.judging import tables
from tests.helpers import ROOT

ROWS = pd.DataFrame(
    [
        ("sfl-fig1", "reproduced", "full", "A stream. More of it."),
        ("sfl-thm1", "not reproduced", "full", "A bound on the gradient."),
        ("fats-fig1", "reproduced", "stand-in", "Accuracy after forgetting."),
    ],
    columns=["artefact", "verdict", "setting", "claim"],
).assign(ran=True)


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        ({}, [0, 1, 2]),
        ({"paper": "sfl"}, [0, 1]),
        ({"verdict": "reproduced"}, [0, 2]),
        ({"verdict": "reproduced", "setting": "full"}, [0]),
        ({"text": "THM"}, [1]),
        ({"text": "forgetting"}, [2]),
        ({"text": "(.*"}, []),
        ({"paper": "osafl"}, []),
    ],
)
def test_the_filter_by_hand(wanted, found):
    assert Filter(**wanted).chosen(ROWS).index.tolist() == found


def test_the_bottom_line_by_hand():
    told = overview.bottom_line(ROWS)
    assert "Of 3 claims 2 hold, 0 of them after a correction, and 1 was not reproduced." in told
    assert "2 were judged at a full setting" in told


def test_the_widget_filters():
    shown = overview.explorer(ROWS)
    menus, text = shown.children
    assert text.value.count("<tr") == 1 + len(ROWS)
    menus.children[0].value = "fats"
    assert text.value.count("<tr") == 2 and "fats-fig1" in text.value
    menus.children[3].value = "nothing like it"
    assert "fats-fig1" not in text.value


def test_notebook_90_shows_the_recorded_verdicts():
    rows = tables.all_verdicts(ROOT / "figures")
    text = json.dumps(json.loads(gate.find("90").path.read_text(encoding="utf-8"))["cells"])
    stale = [
        row.artefact
        for row in rows.itertuples()
        if not re.search(
            rf"\*\*{row.artefact}\*\* \|[^\n]*?\| {row.verdict} \| {row.setting} ", text
        )
    ]
    assert not stale, "run `sflkit refresh 90`"
