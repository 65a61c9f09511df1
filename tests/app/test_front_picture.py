"""The README's picture: drawn from the numbers that are published today, legible and small."""

from __future__ import annotations

import json
import shutil

import pytest

from companion.app import front_picture
from sflkit.runs import sums
from tests.helpers import ROOT


@pytest.fixture
def copied(tmp_path, monkeypatch):
    """A folder of figures with what the picture needs."""
    monkeypatch.delenv("SFLKIT_FIGURES", raising=False)
    monkeypatch.chdir(ROOT)
    root = tmp_path / "figures"
    files = [file.relative_to(ROOT / "figures") for file in front_picture.inputs().values()]
    tables = ("verdicts.csv", "parts.csv")  # a verdict's digest covers its parts
    files += tables
    for file in files:
        (root / file).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / "figures" / file, root / file)
    monkeypatch.setenv("SFLKIT_FIGURES", str(root))
    return root


def test_changed_numbers_are_noticed(copied):
    assert not front_picture.is_current()  # not drawn yet
    assert front_picture.draw() == copied / "overview.png" and front_picture.is_current()
    kept = json.loads((copied / "overview.json").read_text())
    assert sorted(kept["drawn from"]) == sorted(
        file.relative_to(copied).as_posix() for file in front_picture.inputs().values()
    )
    assert list(sums.damages(copied, ["overview.png", "overview.json"])) == []
    file = front_picture.inputs()["fats-alg2"]
    file.write_text(file.read_text().replace("tiny,0,0.125,", "tiny,0,0.126,"))
    assert not front_picture.is_current()
