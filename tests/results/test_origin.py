"""Where numbers come from: commit and source of the library."""

from __future__ import annotations

import json
import subprocess

import pytest

from sflkit.results import origin
from tests.helpers import ROOT


@pytest.fixture
def library(tmp_path, monkeypatch):
    """A folder of source in a clone of its own, taken for the library."""
    folder = tmp_path / "clone" / "library"
    (folder / "rules").mkdir(parents=True)
    (folder / "rules" / "fifo.py").write_text("slots = 1\n")
    for command in (
        ("init", "-q"),
        ("add", "."),
        ("-c", "user.name=t", "-c", "user.email=t@t", "commit", "-q", "-m", "all"),
    ):
        subprocess.run(["git", "-C", folder.parent, *command], check=True)
    monkeypatch.setattr(origin, "_LIBRARY", folder)
    return folder


def fresh() -> tuple[bool, str]:
    """What a new process finds."""
    origin._git.cache_clear()
    origin.library_sha256.cache_clear()
    return origin.is_edited(), origin.library_sha256()


@pytest.fixture(autouse=True)
def forgets():
    yield
    fresh()


def test_an_edit_shows_and_an_edit_taken_back_does_not(library):
    edited, committed = fresh()
    assert not edited
    (library / "rules" / "fifo.py").write_text("slots = 2\n")
    edited, other = fresh()
    assert edited and other != committed
    (library / "rules" / "fifo.py").write_text("slots = 1\n")
    (library.parent / "README.md").write_text("not source")
    assert fresh() == (False, committed)


def test_a_new_and_a_renamed_file_are_edits(library):
    _, committed = fresh()
    (library / "rules" / "fifo.py").rename(library / "rules" / "lifo.py")
    edited, renamed = fresh()
    assert edited and renamed != committed


def test_without_a_clone_nothing_counts_as_edited(tmp_path, monkeypatch):
    monkeypatch.setattr(origin, "_LIBRARY", tmp_path)
    (tmp_path / "fifo.py").write_text("slots = 1\n")
    assert fresh()[0] is False


def test_published_results_were_computed_from_commits():
    """A result from an edited library would turn stale with the next change of the library."""
    records = [json.loads(p.read_text()) for p in (ROOT / "data/results").rglob("*.json")]
    assert len(records) > 2000
    assert not [record["key"] for record in records if "edited_sha256" in record]
    # Those from before 0.2 do not say which source they were computed with.
    assert sum(record["commit"].endswith("+") for record in records) <= 189
