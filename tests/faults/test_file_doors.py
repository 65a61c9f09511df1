"""Links, pipes, nested files and two writers at every file of the library: nothing is silent.

`make test` makes a part of them, `make faults` all, and two writers 0.4 N times at each file.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import re

import pytest
import torch

from tests.faults import campaign, file_doors
from tests.faults.damaged_calls import Outcome

pytestmark = pytest.mark.usefixtures("committed")
READ = [(door, kind) for door in (*file_doors.DOORS, *file_doors.OWN) for kind in file_doors.KINDS]
WRITTEN = [(door, kind) for door in file_doors.DOORS for kind in file_doors.KINDS]
WRITERS = {door.write: door for door in file_doors.DOORS if door.name != "a state"}.values()


@pytest.fixture
def committed(monkeypatch):
    """A clone as it was committed, and no folder of figures but a test's own."""
    monkeypatch.setattr("sflkit.runs.origin.commit", lambda: "0123456789")


@pytest.mark.parametrize(
    ("act", "cases"), [(file_doors.read, READ), (file_doors.write, WRITTEN)], ids=["read", "write"]
)
def test_what_lies_in_a_files_place(tmp_path, act, cases):
    bad = []
    for number, (door, kind) in list(enumerate(cases))[:: 1 if campaign.N else 7]:
        found = act(door, kind, tmp_path / f"{number}" / "folder")
        if found.word not in ("good", "right"):
            bad.append((door.name, kind, *found))
    assert not bad


def write(door, folder, content, barrier, answers):
    """Write a content when the other is ready, and answer with the error."""
    torch.set_num_threads(1)
    barrier.wait()
    try:
        door.write(folder, content)
        answers.put("")
    except Exception as error:
        answers.put(f"{type(error).__name__}: {error}")


def together(door, folder, rights):
    """Let two processes write a file at once; return how that ended."""
    context = multiprocessing.get_context("fork")
    barrier, answers = context.Barrier(2), context.Queue()
    crew = [
        context.Process(target=write, args=(door, folder, content, barrier, answers))
        for content in (1, 2)
    ]
    for process in crew:
        process.start()
    said = [text for text in (answers.get(timeout=60) for _ in crew) if text]
    for process in crew:
        process.join()
    left = [name for name in os.listdir(folder) if re.search(r"\.(tmp|partial)$", name)]
    with contextlib.suppress(ValueError):
        if door.read(folder) in rights and not said and not left:
            return Outcome("right", "", 0.0)
    return Outcome("other" if said or left else "silent", f"{said} {left}", 0.0)


@pytest.mark.parametrize("door", WRITERS, ids=lambda door: door.name)
def test_two_writers(tmp_path, door):
    rights = []
    for content in (1, 2):
        folder = tmp_path / f"content {content}"
        folder.mkdir()
        door.write(folder, content)
        rights.append(door.read(folder))
    assert rights[0] != rights[1]
    for number in campaign.tries(2, 0.4):
        folder = tmp_path / f"{number}"
        folder.mkdir()
        found = together(door, folder, rights)
        assert found.word == "right", found
