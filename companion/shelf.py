"""What a folder of results holds, and how runs are published from it.

A result counts as complete here when its record can be read and its csv has the record's sha256;
the numbers are not parsed, so that thousands of results are looked through in seconds.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import pandas as pd

from sflkit import paths
from sflkit.runs import archive, origin, store, sums
from sflkit.runs.store import is_running

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
    files = (file for end in ("json", "csv") for file in folder.glob(f"[!.]*/[!.]*.{end}"))
    names = {f"{f.parent.name}/{f.stem}" for f in files if f.parent.name != _NO_RUNS}
    damaged = {}
    for experiment in archive.experiments(folder):
        found = archive.read(experiment, folder)
        names |= found.records.keys() | found.contents.keys()
        if found.wrong:
            damaged[experiment] = found.wrong
    records: dict[str, dict] = {}
    for key in sorted(names):
        found = store.look(key, folder)
        if found.complete:
            records[key] = found.record
        elif found.wrong and not is_running(key, folder):
            damaged[key] = found.wrong
    return Shelf(records, damaged)


def read_record(key: str, folder: Path | str) -> dict | None:
    """Return the record of a complete result, or None where `folder` holds none of that key."""
    found = store.look(key, folder)
    return None if found.wrong else found.record


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
    if not found.complete or origin.was_edited(found.record["commit"]):
        return False
    try:
        with store.run_lock(key, folder, wait=False):
            if not store.is_complete(key, folder):
                text = json.dumps(found.record, indent=1) + "\n"
                store.write_pair(Path(folder), key, found.content, text)
    except TimeoutError:
        return False
    return True


def pack(folder: Path | str) -> list[str]:
    """Move the complete runs that lie in files of their own into the archives of `folder`.

    Runs that were computed with uncommitted changes stay where they are. Returns the keys moved;
    errors are those of `publish`.
    """
    folder = Path(folder)
    keys = [
        key
        for key, record in survey(folder).records.items()
        if (folder / f"{key}.json").is_file() and not origin.was_edited(record["commit"])
    ]
    publish(keys, folder, folder)
    for key in keys:
        store.discard(key, folder)
    for experiment in {key.partition("/")[0] for key in keys}:
        with contextlib.suppress(OSError):  # others are left there
            (folder / experiment).rmdir()
    return keys


def publish(keys: Iterable[str], source: Path | str, folder: Path | str) -> list[Path]:
    """Add results to the archives of the tracked `folder`, such as `paths.published()`.

    They come from `source`, or from files of their own in `folder`.
    Results that are published already are left alone; columns that nothing reads are left out.

    Returns
    -------
    list of Path
        The archives' files, two per distinct experiment.

    Raises
    ------
    ValueError
        If neither folder holds a complete result of a key, or the one to be added was computed
        while sflkit/, companion/ or notebooks/ had uncommitted changes; if an archive that is to
        grow cannot be read.
    paths.CannotWrite
        If the disk is full or the folder cannot be written.
    """
    source, folder = Path(source), Path(folder)
    by_experiment: dict[str, list[str]] = {}
    for key in dict.fromkeys(keys):
        by_experiment.setdefault(key.partition("/")[0], []).append(key)
    written = []
    for experiment, wanted in by_experiment.items():
        with paths.lock(folder / experiment, folder=folder / store.LOCKS):
            _add(experiment, wanted, source, folder)
        written += archive.files_of(experiment, folder)
    return written


def _add(experiment: str, keys: list[str], source: Path, folder: Path) -> None:
    """Add runs of an experiment to its archive, whose lock the caller holds."""
    found = archive.read(experiment, folder)
    if found.wrong:
        raise ValueError(f"{archive.files_of(experiment, folder)[0]}: {found.wrong}")
    there = {
        key: (record, found.contents.get(key, b""))
        for key, record in found.records.items()
        if not store.look_in_archive(key, folder).wrong
    }
    new = {key: _to_publish(key, source, folder) for key in keys if key not in there}
    names = {file.name for file in archive.files_of(experiment, folder)}
    stale = {file.name for file, _ in sums.damages(folder, names)} & {*names, sums.NAME}
    if new or (stale and len(there) == len(found.records)):  # as after a kill before the digests
        archive.write(experiment, folder, there | new)


def _to_publish(key: str, source: Path, folder: Path) -> tuple[dict, bytes]:
    """Return record and csv text of a complete result with the columns that are published."""
    singles = [store.look_at_files(key, place) for place in (folder, source)]
    found = next((single for single in singles if single.complete), None)
    if found is None:
        raise ValueError(f"key={key!r} must name a complete result in {source} or {folder}")
    record = dict(found.record)
    if origin.was_edited(record["commit"]):
        raise ValueError(
            f"key={key!r} was computed with uncommitted changes of sflkit/, companion/ or "
            f"notebooks/; commit them, delete {key}.json and compute it again"
        )
    columns = archive.kept(record["experiment"], record["columns"])
    content = found.content
    if columns != record["columns"]:
        # As text, so that every number stays as it was written.
        cells = pd.read_csv(io.BytesIO(content), dtype=str, keep_default_na=False)
        content = cells[list(columns)].to_csv(index=False, lineterminator="\n").encode()
    record |= {"columns": columns, "sha256": hashlib.sha256(content).hexdigest()}
    record["record_sha256"] = store.record_sha256(record)
    return record, content


def clear_left_over(folder: Path | str) -> None:
    """Remove what killed writers left in `folder`, but nothing that is being written."""
    for file in Path(folder).glob("*/.*.tmp"):
        name = file.name.removeprefix(".").removesuffix(".tmp")
        key = f"{file.parent.name}/{Path(name).stem}"
        with contextlib.suppress(OSError), store.run_lock(key, folder, wait=False):
            file.unlink(missing_ok=True)
