"""Flipped bits, cut files, blocks of zeros: read as they were or named, never read otherwise."""

from __future__ import annotations

import pytest

from sflkit.runs import sums
from tests.faults import campaign, file_doors


def corruptions(kind, path):
    """Yield after each corruption of a file, which is put right again."""
    right = path.read_bytes()
    for number in campaign.tries(20, 10):
        path.write_bytes(campaign.damaged(right, campaign.generator(kind, number)))
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


PUBLISHED = [door for door in file_doors.DOORS if door.file in ("sfl-fig2.png", "verdicts.csv")]


@pytest.mark.parametrize("door", PUBLISHED, ids=lambda door: door.name)
def test_what_is_published_has_a_digest(tmp_path, door):
    door.write(tmp_path, 1)
    for _ in corruptions(door.name, tmp_path / door.file):
        ((file, _),) = sums.damages(tmp_path)
        assert file == tmp_path / door.file
