"""What a folder of results holds: records of the complete ones, damaged ones, runs in progress.

A result counts as complete here when its record can be read and its csv has the record's sha256;
the numbers are not parsed, so that thousands of results are looked through in seconds.
"""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import NamedTuple

import filelock

from sflkit.results import archive, origin, store

_NO_RUNS = "bench"  # the benchmarks' tables, which lie beside the published runs


class Shelf(NamedTuple):
    """Records of complete results by key, and what is wrong with each of the others."""

    records: dict[str, dict]
    damaged: dict[str, str]


def survey(folder: Path | str) -> Shelf:
    """Return what `folder` holds. Nothing is written; a folder that is not there holds nothing.

    Damaged is a record without numbers, numbers without a record, numbers that differ from the
    record, and a record that cannot be read, was changed or is of another result (`store.look`). A
    result that another process is writing just now is left out.
    """
    folder = Path(folder)
    names = {
        f"{file.parent.name}/{file.stem}"
        for suffix in (".json", ".csv")
        for file in folder.glob(f"*/*{suffix}")
        if not file.name.startswith(".")
        and not file.parent.name.startswith(".")
        and file.parent.name != _NO_RUNS
    }
    damaged = {}
    for experiment in archive.experiments(folder):
        found = archive.read(experiment, folder)
        names |= found.records.keys() | found.contents.keys()
        if found.wrong:
            damaged[experiment] = found.wrong
    records: dict[str, dict] = {}
    for key in sorted(names):
        found = store.look(key, folder)
        if found.record is not None and not found.wrong:
            records[key] = found.record
        elif found.wrong and not is_running(key, folder):
            damaged[key] = found.wrong
    return Shelf(records, damaged)


def read_record(key: str, folder: Path | str) -> dict | None:
    """Return the record of a complete result, or None where `folder` holds none of that key."""
    found = store.look(key, folder)
    return None if found.wrong else found.record


def is_running(key: str, folder: Path | str) -> bool:
    """Return whether a living process holds the lock of a run, which says that it computes it."""
    folder = Path(folder)
    if not (folder / store.LOCKS / f"{Path(key).name}.lock").is_file():
        return False  # asking would make the file
    try:
        with store.run_lock(key, folder, wait=False):
            return False
    except OSError:  # held (filelock.Timeout is one), or not ours to open
        return True


def take_over(key: str, source: Path | str, folder: Path | str) -> bool:
    """Copy a complete result from `source` into `folder`; return whether it is there now.

    It is not where `source` does not hold it, where it was computed with uncommitted changes (an
    edit may have been taken back since), or where another process computes it just now.

    Raises
    ------
    paths.CannotWrite
        If the disk is full or the folder cannot be written.
    """
    found = store.look(key, source)
    if store.read_result(key, source) is None or origin.was_edited(found.record["commit"]):
        return False
    try:
        with store.run_lock(key, folder, wait=False):
            if not store.is_complete(key, folder):
                text = json.dumps(found.record, indent=1) + "\n"
                store.write_pair(Path(folder), key, found.content, text)
    except filelock.Timeout:
        return False
    return True


def pack(folder: Path | str) -> list[str]:
    """Move the complete runs that lie in files of their own into the archives of `folder`.

    Runs that were computed with uncommitted changes stay where they are. Returns the keys moved;
    errors are those of `store.publish`.
    """
    folder = Path(folder)
    single = {key for key in survey(folder).records if (folder / f"{key}.json").is_file()}
    keys = [
        key
        for key in sorted(single)
        if (record := read_record(key, folder)) and not origin.was_edited(record["commit"])
    ]
    store.publish(keys, folder, folder)
    for key in keys:
        for suffix in (".json", ".csv"):
            (folder / f"{key}{suffix}").unlink(missing_ok=True)
    for experiment in {key.partition("/")[0] for key in keys}:
        with contextlib.suppress(OSError):  # others are left there
            (folder / experiment).rmdir()
    return keys


def clear_left_over(folder: Path | str) -> None:
    """Remove what killed writers left in `folder`, but nothing that is being written."""
    for file in Path(folder).glob("*/.*.tmp"):
        name = file.name.removeprefix(".").removesuffix(".tmp")
        key = f"{file.parent.name}/{Path(name).stem}"
        with contextlib.suppress(OSError), store.run_lock(key, folder, wait=False):
            file.unlink(missing_ok=True)
