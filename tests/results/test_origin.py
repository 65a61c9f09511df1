"""Where numbers come from: the commit, with a mark where the clone differs from it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

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


# --- the code of this library ---------------------------------------------------------------------

STUDY = """
import subprocess, sys, warnings
from pathlib import Path
from sflkit.runs import Complete, run_many
from sflkit.sfl import cache_paths
from sflkit.sfl.config import SFLConfig
config = SFLConfig(train=False, rounds=4, n_clients=2, capacity=4, batch_size=2)
for word in sys.argv[1:]:
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        if word == "new":
            Path("sflkit/sfl/mine.py").write_text("LATER = 1\\n")
            file = Path("sflkit/sfl/caches.py")
            file.write_text(file.read_text() + "\\nfrom sflkit.sfl import mine\\n")
            continue
        if word == "commit":
            name = ["-c", "user.name=t", "-c", "user.email=t@t"]
            subprocess.run(["git", *name, "commit", "-a", "-q", "-m", "edited"], check=True)
            continue
        if word == "edit":
            file = Path("sflkit/sfl/caches.py")
            file.write_text(file.read_text() + "\\nLATER = 1\\n")
            continue
        published = {"store": None, "published": "data/results"}.get(word)
        if word == "complete":
            published = Complete(Path("data/results"), "make paper")
        frame = run_many(cache_paths.run, [config], store="store", published=published)
        print(word, frame.attrs["computed"], *(w.category.__name__ for w in said))
"""


@pytest.fixture
def study(tmp_path):
    """A clone of the library with one commit; what asks it for runs in a new process; git."""
    for name in ("notebooks", "companion"):
        (tmp_path / name).mkdir()
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "sflkit", tmp_path / "sflkit", ignore=ignored)
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    (tmp_path / "study.py").write_text(STUDY)
    environment = os.environ | {"PYTHONPATH": str(tmp_path), "PYTHONDONTWRITEBYTECODE": "1"}
    del environment["SFLKIT_BATCH"]

    def ask(*words: str) -> list[str]:
        command = [sys.executable, "study.py", *words]
        done = subprocess.run(
            command, cwd=tmp_path, env=environment, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.splitlines()

    def git(*words: str) -> None:
        command = ["git", "-c", "user.name=t", "-c", "user.email=t@t", *words]
        subprocess.run(command, cwd=tmp_path, check=True)

    git("init", "-q")
    git("add", "sflkit")
    git("commit", "-q", "-m", "all")
    return tmp_path, ask, git


def edit(file, new: str) -> None:
    """Change an import, which every module of numbers has."""
    old = "import numpy as np"
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, f"{old}{new}", 1))


def test_a_result_counts_while_the_code_behind_its_run_is_the_same(study):
    folder, ask, git = study
    caches = folder / "sflkit/sfl/caches.py"
    assert ask("store", "store") == ["store 1", "store 0"]
    edit(caches, "  # a comment")
    edit(folder / "sflkit/osafl/scores.py", "\nNEW = 1")
    assert ask("store") == ["store 0"]  # and another paper
    edit(caches, "\nNEW = 1")
    assert ask("store", "store") == ["store 1 EditedCode", "store 0"]
    git("commit", "-a", "-q", "-m", "edited")
    assert ask("store") == ["store 0"]  # the same code, committed
    git("checkout", "HEAD~", "--", "sflkit/sfl/caches.py")
    assert ask("store", "store") == ["store 1 EditedCode", "store 0"]


def test_what_is_published_is_not_taken_for_edited_code_but_shown_with_a_word(study):
    folder, ask, _ = study
    assert ask("store") == ["store 1"]
    (folder / "data").mkdir()
    (folder / "store").rename(folder / "data" / "results")
    assert ask("published", "complete") == ["published 0", "complete 0"]
    edit(folder / "sflkit/sfl/caches.py", "\nNEW = 1")
    assert ask("complete", "published") == ["complete 0 EditedCode", "published 1 EditedCode"]


def test_a_new_module_counts_before_git_knows_it(study):
    folder, ask, git = study
    ask("new")
    git("commit", "-a", "-q", "-m", "the import alone")
    assert ask("store", "store") == ["store 1", "store 0"]
    mine = folder / "sflkit/sfl/mine.py"
    mine.write_text("LATER = 2\n")
    assert ask("store", "store") == ["store 1 EditedCode", "store 0"]


def test_what_was_loaded_before_a_commit_is_not_filed_as_its(study):
    _, ask, _ = study
    assert ask("store", "edit", "commit", "store") == ["store 1", "store 1 EditedCode"]
    assert ask("store", "store") == ["store 1 EditedCode", "store 0"]


def test_a_file_that_was_written_after_the_process_began_is_not_believed(study):
    _, ask, _ = study
    assert ask("store", "edit", "store") == ["store 1", "store 1 EditedCode"]
    assert ask("store", "store") == ["store 1 EditedCode", "store 0"]  # the new code, at last
