"""Flipped bits, cut files, blocks of zeros: read as they were or named, never read otherwise."""

from __future__ import annotations

import shutil

import pytest

from companion.judging import seals
from tests.faults import campaign, file_doors


def corruptions(kind, path):
    """Yield after each corruption of a file, which is put right again."""
    right = path.read_bytes()
    for number in campaign.tries(20, 10):
        path.write_bytes(campaign.damaged(right, campaign.generator(kind, number)))
        with campaign.attempt(f"corruption of {kind}"):
            yield
        path.write_bytes(right)


WITH_DIGESTS = ("a state", "rows of a result", "record of a result", "a data set")
WITH_DIGESTS += ("published rows", "published records")
DOORS = [door for door in file_doors.DOORS if door.name in WITH_DIGESTS]


@pytest.mark.parametrize("door", DOORS, ids=lambda door: door.name)
def test_a_file_is_read_as_it_was_or_named(tmp_path, door):
    door.write(tmp_path, 1)
    right = door.read(tmp_path)
    for _ in corruptions(door.name, tmp_path / door.file):
        try:
            assert door.read(tmp_path) == right  # a blank between two entries of the json
        except ValueError as error:
            assert file_doors.names(error, door), error


@pytest.fixture(scope="module")
def published(tmp_path_factory):
    folder = tmp_path_factory.mktemp("figures") / "published"
    file_doors.draw(folder, 1, "sfl-fig3")
    file_doors.draw(folder, 1)
    file_doors.judge(folder, 2)
    return folder


@pytest.mark.parametrize(
    "name",
    [*(f"sfl-fig2{end}" for end in (".png", ".csv", ".json")), *seals.COLUMNS],
)
def test_what_is_published(published, tmp_path, name):
    folder = shutil.copytree(published, tmp_path / "published")
    right = campaign.contents(folder)
    rows = seals.rows(folder / name) if name in seals.COLUMNS else []
    for _ in corruptions(f"{name}", folder / name):
        found = seals.damages(folder)
        if not found:  # such as a quote around an entry, which changes no entry
            assert rows and seals.rows(folder / name) == rows
            continue
        assert all(damage.file.parent == folder and damage.wrong for damage in found)
        seals.mend(folder, found)
        # what is left is of a figure that its notebook draws anew
        assert {d.artefact for d in seals.damages(folder)} <= {"sfl-fig2", "sfl-fig3"}
        for file, content in right.items():
            (folder / file).write_bytes(content)
