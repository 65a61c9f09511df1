"""A full disk, a folder that cannot be written, a folder that vanishes.

What lay there before is whole, no half of a file stays, the message names the file, and with room
again the same call succeeds.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from companion.judging import recorded, tables
from sflkit import paths
from sflkit.fats.learning import learn
from sflkit.fats.state import save
from sflkit.runs import store, sums, sweep, workers
from sflkit.sfl import cache_paths
from tests.faults import campaign, file_doors
from tests.helpers import write_notebook

SFLKIT = [sys.executable, "-m", "sflkit.cli"]


def write_a_state(folder, number):
    from tests.fats.fats_cases import setup

    task, clients, history, _ = setup(0)
    folder.mkdir(parents=True, exist_ok=True)
    state = learn(task, clients, history, 0.1 * number, start=task.init(0), rounds=2)
    save(state, folder / "state.npz")


WRITERS = {
    "a result": file_doors.write_result,
    "a state": write_a_state,
    "a data file": file_doors.write_data,
    "a figure": file_doors.draw,
    "a verdict": file_doors.judge,
}


def result_is_known(folder):
    """Whether a result in a folder is whole, or nothing at all; or is known not to be."""
    found = store.look(file_doors.KEY, folder)
    return not found.wrong or "digest" in found.wrong or "without" in found.wrong


@pytest.mark.parametrize("kind", WRITERS)
def test_full_disk(tmp_path, kind):
    write = WRITERS[kind]
    write(tmp_path / "measured", 2)
    size = max(len(content) for content in campaign.contents(tmp_path / "measured").values())
    for number in campaign.tries(4, 0.5):
        folder = tmp_path / str(number)
        write(folder, 1)
        before = campaign.contents(folder)
        bytes_left = int(campaign.generator(kind, number).uniform(0, size))
        try:
            with campaign.room(bytes_left):
                write(folder, 2)
        except OSError as error:
            assert str(folder) in str(error) and "too large" in str(error).lower()
        left = campaign.contents(folder)
        assert left.keys() <= before.keys()  # no temporary file
        assert result_is_known(folder)
        write(folder, 2)
        complete = campaign.contents(folder)
        assert complete.keys() == before.keys() and complete != before
        for name, content in left.items():
            assert content in (before[name], complete[name]), f"half of {name}"
        if (folder / sums.NAME).exists():
            assert not list(sums.damages(folder))


@pytest.fixture
def locked():
    """A folder, and a context in which this process may not write to it."""
    top = Path(tempfile.mkdtemp(prefix="sflkit-locked-"))
    top.chmod(0o755)

    @contextlib.contextmanager
    def lock():
        user = os.geteuid()
        folders = [top, *(path for path in top.rglob("*") if path.is_dir())]
        for folder in folders:
            folder.chmod(0o555)
        if user == 0:  # who may write everywhere
            os.seteuid(65534)
        try:
            yield
        finally:
            os.seteuid(user)
            for folder in folders:
                folder.chmod(0o755)

    yield top, lock
    shutil.rmtree(top)


@pytest.mark.parametrize("kind", WRITERS)
def test_folder_that_cannot_be_written(locked, kind, monkeypatch):
    top, lock = locked
    folder = top / "results"
    monkeypatch.setenv("SFLKIT_FIGURES", str(top / "figures"))
    for _ in range(2):  # the second finds a file, and loads what the other user might not read
        WRITERS[kind](folder, 1)
    before = campaign.contents(folder)
    with lock(), pytest.raises(OSError, match=f"{top}.*([Pp]ermission|denied)"):
        WRITERS[kind](folder, 2)
    assert campaign.contents(folder) == before
    WRITERS[kind](folder, 2)


def test_store_that_vanishes_during_a_sweep(tmp_path, monkeypatch):
    folder = tmp_path / "store"
    write = workers.write_result

    def vanished(*args, **options):
        shutil.rmtree(folder, ignore_errors=True)
        write(*args, **options)

    configs = [dataclasses.replace(file_doors.TINY, seed=seed) for seed in range(3)]
    with monkeypatch.context() as patch:
        patch.setattr(workers, "write_result", vanished)
        with pytest.raises(RuntimeError, match=f"is not in {folder}: was something deleted"):
            sweep.run_many(cache_paths.run, configs, store=folder)
    frame = sweep.run_many(cache_paths.run, configs, store=folder)
    assert (frame.attrs["computed"], frame.attrs["reused"]) == (2, 1)  # the last one was left


def test_an_output_folder_that_cannot_be_written_is_named_before_anything_runs(clone):
    (clone / "out").write_text("a file where a folder should be")
    done = subprocess.run([*SFLKIT, "figures"], capture_output=True, text=True)
    assert done.returncode == 2 and "Traceback" not in done.stderr
    assert f"cannot write {paths.out()}" in done.stderr


def test_a_home_that_cannot_be_written_is_named(clone, monkeypatch):
    """Jupyter keeps its connection files there; the folder of the copy was blamed."""
    write_notebook(clone / "notebooks" / "10_first.ipynb", run="1", artefacts=["sfl-fig2"])
    monkeypatch.setenv("HOME", "/proc")
    for name in ("JUPYTER_RUNTIME_DIR", "JUPYTER_DATA_DIR", "XDG_RUNTIME_DIR", "XDG_DATA_HOME"):
        monkeypatch.delenv(name, raising=False)
    done = subprocess.run([*SFLKIT, "run", "10"], capture_output=True, text=True)
    assert done.returncode == 1 and "Traceback" not in done.stderr
    assert "cannot use /proc/" in done.stderr


def test_what_is_published_can_be_checked_in_a_clone_that_is_read_only(locked, monkeypatch):
    """`sflkit check` wanted a lock there, and called the figures damaged."""
    top, lock = locked
    (top / "notebooks").mkdir()
    (top / "pyproject.toml").write_text('[project]\nname = "sflkit"\n')
    monkeypatch.chdir(top)
    monkeypatch.delenv("SFLKIT_FIGURES", raising=False)
    file_doors.draw(top / "figures", 1)
    file_doors.judge(top / "figures", 2)
    shutil.rmtree(top / "out")
    for damaged in (False, True):
        if damaged:
            (top / "figures" / "verdicts.csv").write_text("cut")
        with lock():
            try:
                found = tables.all_verdicts(top / "figures")["verdict"].tolist()
            except recorded.DamagedTable:
                found = "damaged"
        assert found == ("damaged" if damaged else ["reproduced"]) and not (top / "out").exists()
