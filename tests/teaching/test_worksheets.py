"""The worksheets: one for each lab, and a guess comes first; `tests/test_labs.py` runs them."""

from __future__ import annotations

import json

import pytest

from tests.helpers import ROOT

SHEETS = ROOT / "notebooks" / "worksheets"
LABS = sorted(path.stem for path in (ROOT / "docs" / "labs").glob("*.md"))


def test_there_is_a_worksheet_for_each_lab():
    assert sorted(path.stem for path in SHEETS.glob("*.ipynb")) == LABS


@pytest.mark.parametrize("name", LABS)
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
