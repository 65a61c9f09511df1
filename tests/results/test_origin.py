"""Where numbers come from: the commit, with a mark where the clone differs from it."""

from __future__ import annotations

import os
import shutil
import subprocess

import pytest

from companion import shelf
from sflkit import paths
from sflkit.runs import origin
from tests.helpers import ROOT


@pytest.fixture
def clone(tmp_path, monkeypatch):
    """A clone of three files with one commit."""
    for name in ("sflkit/fifo.py", "notebooks/10.ipynb", "README.md"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("1")
    for command in (
        ("init", "-q"),
        ("add", "."),
        ("-c", "user.name=t", "-c", "user.email=t@t", "commit", "-q", "-m", "all"),
    ):
        subprocess.run(["git", "-C", tmp_path, *command], check=True)
    monkeypatch.setattr(paths, "clone_root", lambda: tmp_path)
    yield tmp_path
    origin._git.cache_clear()


def fresh() -> str:
    """What a new process says."""
    origin._git.cache_clear()
    return origin.commit()


@pytest.mark.parametrize("name", ["sflkit/fifo.py", "sflkit/new.py", "notebooks/10.ipynb"])
def test_an_edit_marks_the_commit_until_it_is_taken_back(clone, name):
    commit = fresh()
    assert len(commit) == 10 and not origin.was_edited(commit)
    before = (clone / name).read_text() if (clone / name).exists() else None
    (clone / name).write_text("2")
    assert fresh() == commit + "+" and origin.was_edited(fresh())
    if before is None:
        (clone / name).unlink()
    else:
        (clone / name).write_text(before)
    (clone / "README.md").write_text("2")  # no number comes from there
    assert fresh() == commit


def test_a_clone_of_which_git_does_not_say_whether_it_was_edited_counts_as_edited(
    clone, tmp_path, monkeypatch
):
    real = shutil.which("git")
    fake = tmp_path / "bin" / "git"
    fake.parent.mkdir()
    fake.write_text(f'#!/bin/sh\ncase "$*" in *status*) exit 128;; esac\nexec {real} "$@"\n')
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", f"{fake.parent}:{os.environ['PATH']}")
    assert origin.was_edited(fresh())


def test_without_a_clone_or_git_there_is_no_commit(clone, monkeypatch):
    monkeypatch.setenv("PATH", "")
    assert fresh() == "none"
    monkeypatch.setattr(paths, "clone_root", lambda: None)
    assert fresh() == "none"


def test_published_results_were_computed_from_commits():
    """But for 130 from before 0.2, which were published with the mark of uncommitted changes."""
    records = shelf.survey(ROOT / "data" / "results").records.values()
    assert len(records) > 2000
    assert sum(origin.was_edited(record["commit"]) for record in records) <= 130
