"""Nothing is executed twice, and whatever a notebook was made of is noticed when it changes."""

from __future__ import annotations

import subprocess
import sys

import pytest

from companion.app import fingerprints
from tests.helpers import DRAW, write_notebook


def sflkit(*arguments):
    command = [sys.executable, "-m", "sflkit.cli", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture
def drawn(clone):
    """A clone whose notebook 10 was drawn; it reads a module of sflkit and a file of data.

    The data lie below a folder called sflkit, as they do in a clone of that name.
    """
    (clone / "data" / "sflkit").mkdir(parents=True)
    (clone / "data" / "sflkit" / "numbers").write_bytes(b"\xfd7")
    read = "from sflkit import rounding\nprint(open('../data/sflkit/numbers', 'rb').read())\n"
    book = write_notebook(
        clone / "notebooks" / "10_first.ipynb", run=read + DRAW, artefacts=["sfl-fig2"]
    )
    assert "10_first: changed" in sflkit("figures")
    return book


def test_only_what_changed_is_executed_again(clone, drawn, monkeypatch):
    assert "_first" not in sflkit("figures")  # and not 12_second either
    assert "10_first: unchanged" in sflkit("figures", "--force", "--only", "10")
    files = {
        "a module": clone / "sflkit" / "rounding.py",
        "a module that is not its own": clone / "sflkit" / "fats" / "enumeration.py",
        "data": clone / "data" / "sflkit" / "numbers",
        "its own source or outputs": drawn,
        "a picture": clone / "figures" / "sfl-fig2.png",
        "a passport": clone / "figures" / "sfl-fig2.json",
        "a verdict": clone / "figures" / "verdicts.csv",
        "a part": clone / "figures" / "parts.csv",
    }
    for what, file in files.items():
        before = file.read_bytes()
        file.write_bytes(before.replace(b"sfl-fig2", b"sfl-fig3") + b"\n")
        assert fingerprints.is_current(drawn) == (what.endswith("not its own")), what
        file.write_bytes(before)
        assert fingerprints.is_current(drawn), what
    more = clone / "data" / "mnist.npz"  # a data set comes to hand
    more.touch()
    assert not fingerprints.is_current(drawn)
    more.unlink()
    assert fingerprints.is_current(drawn)
    with monkeypatch.context() as patch:
        patch.setattr(fingerprints, "packages", lambda: "another numpy")
        assert not fingerprints.is_current(drawn)
    (clone / "figures" / "sfl-fig2.csv").unlink()
    assert not fingerprints.is_current(drawn)
