"""The worksheets: the algorithm as it stands is the library's, and a changed line is noticed."""

from __future__ import annotations

import json

import matplotlib
import pytest

from tests.helpers import ROOT

SHEETS = ROOT / "notebooks" / "worksheets"
# Worksheet -> what it says as it stands; a line, another in its place; and what is then not said.
CASES = {
    "sfl": ("DRSR in 200 of 200", "weight = 1 / t ", "weight = max(1 / t, 1 / 2) "),
    "datastreams": ("the same in 100 cases", "np.sum(p[~historical] ** 2)", "np.sum(p**2)"),
    "osafl": ("the same scores in 200 cases", "/ (chi + 1)", "/ chi"),
    "fats": (
        "distance from never having had it: 0",
        "client = target[0]",
        "client = one_round(rng, target)[0]",
    ),
}


def said(name, line="", other=""):
    """What the cells of a worksheet print, with one line exchanged."""
    matplotlib.use("Agg")
    cells = json.loads((SHEETS / f"{name}.ipynb").read_text(encoding="utf-8"))["cells"]
    told = []
    names = {"print": lambda *words: told.append(" ".join(map(str, words)))}
    for cell in cells:
        if cell["cell_type"] == "code":
            source = "".join(cell["source"]).replace("my_guess = None", "my_guess = 1")
            exec(source.replace(line, other) if line else source, names)
    return "\n".join(told)


def test_there_is_a_worksheet_for_each_lab():
    labs = {path.stem for path in (ROOT / "docs" / "labs").glob("*.md")}
    assert {path.stem for path in SHEETS.glob("*.ipynb")} == labs == set(CASES)


@pytest.mark.parametrize("name", CASES)
def test_the_lines_are_the_librarys_and_a_changed_one_is_noticed(name):
    words, line, other = CASES[name]
    assert words in said(name)
    assert words not in said(name, line, other)


@pytest.mark.parametrize("name", CASES)
def test_a_prediction_stands_before_the_run(name):
    cells = json.loads((SHEETS / f"{name}.ipynb").read_text(encoding="utf-8"))["cells"]
    sources = ["".join(cell["source"]) for cell in cells]
    (guess,) = [i for i, source in enumerate(sources) if "my_guess = None" in source]
    assert "Predict first" in sources[guess - 1]
    shown = "\n".join(json.dumps(cell.get("outputs", [])) for cell in cells)
    assert not shown.replace("[]", "").strip(), "an output would give the answer away"
    with pytest.raises(AssertionError, match="write your guess"):
        exec(sources[guess + 1], {"my_guess": None})
    longest = max(len(s.splitlines()) for s, c in zip(sources, cells) if c["cell_type"] == "code")
    assert longest <= 25
