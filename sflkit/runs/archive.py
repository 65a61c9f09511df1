"""Published results: per experiment one table of rows and one file of records, both compressed.

`<experiment>.csv.xz` holds the rows of all runs, sorted by key, with the 16 digits of the key in
the first column `key`; pandas reads it as it stands. A run that lacks a column of the table has
empty cells there. `<experiment>.jsonl.xz` holds one record a line, in the same order.

Columns that nothing reads are left out (`UNREAD`), so the digests in a record are those of the rows
and of the record as published. What is written depends on the runs alone: whoever adds the same
runs, in whatever order, writes the same bytes.
"""

from __future__ import annotations

import csv
import functools
import io
import itertools
import json
import lzma
import re
from collections.abc import Iterable, Mapping
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple

from sflkit import paths
from sflkit.runs import sums

# Columns by experiment that no notebook, claim, picture or test reads from published runs. They are
# two thirds of the bytes, and a run computes them again.
UNREAD = dict.fromkeys(
    ("sfl-training", "sfl-training-full-start"), re.compile(r"accumulated|count_\d+")
)
ROWS, RECORDS = ".csv.xz", ".jsonl.xz"
MOST = 2**30  # bytes that a file may hold unpacked


class Archive(NamedTuple):
    """Runs of one experiment.

    Attributes
    ----------
    records, contents : mapping
        Records and csv texts by key.
    checked : dict
        What was found out so far about runs, by key (`store.look_in_archive`).
    wrong : str
        Why the files cannot be read, if they cannot.
    """

    records: Mapping[str, dict]
    contents: Mapping[str, bytes]
    checked: dict[str, Any]
    wrong: str = ""


def files_of(experiment: str, folder: Path | str) -> list[Path]:
    """Return the two files of an experiment's published runs, rows and records."""
    return [Path(folder) / f"{experiment}{suffix}" for suffix in (ROWS, RECORDS)]


def experiments(folder: Path | str) -> list[str]:
    """Return the experiments that have a published file in a folder, sorted."""
    files = [f.name for end in (ROWS, RECORDS) for f in Path(folder).glob(f"[!.]*{end}")]
    return sorted({name.removesuffix(ROWS).removesuffix(RECORDS) for name in files})


def read(experiment: str, folder: Path | str) -> Archive:
    """Return the published runs of an experiment; none where the folder holds none.

    The files are parsed once in a process as long as they do not change.
    """
    stamps = []
    for file in files_of(experiment, folder):
        try:
            seen = file.stat()
        except OSError:
            stamps.append(None)
        else:
            stamps.append((seen.st_mtime_ns, seen.st_size))
    return _read(experiment, Path(folder), *stamps) if any(stamps) else Archive({}, {}, {})


@functools.lru_cache(maxsize=64)
def _read(experiment: str, folder: Path, *stamps: tuple[int, int] | None) -> Archive:
    rows, records = files_of(experiment, folder)
    try:
        kept = map(json.loads, unpacked(records).splitlines())
        by_key = {record["key"]: record for record in kept}
        names, *lines = _rows(unpacked(rows))
        contents = {}
        for digits, run in itertools.groupby(lines, itemgetter(0)):
            key = f"{experiment}/{digits}"
            own = list(by_key.get(key, {}).get("columns", names[1:]))
            places = [names.index(name) for name in own]
            contents[key] = _text([own, *([line[place] for place in places] for line in run)])
    except Exception as error:  # damaged, it fails in lzma, json, csv or here, each in its own way
        return Archive({}, {}, {}, f"an archive that cannot be read: {error!r}")
    return Archive(by_key, contents, {})


def unpacked(file: Path) -> bytes:
    """Return what an xz file holds; ValueError or LZMAError where it is cut or more than `MOST`."""
    unpacker = lzma.LZMADecompressor()
    content = unpacker.decompress(paths.read(file), MOST)
    if not unpacker.eof or unpacker.unused_data:
        raise ValueError(f"{file.name} ends too early, goes on after its end, or is too large")
    return content


def _rows(text: bytes) -> Iterable[list[str]]:
    return csv.reader(io.StringIO(text.decode(), newline=""))


def _text(rows: Iterable[list[str]]) -> bytes:
    buffer = io.StringIO(newline="")
    csv.writer(buffer, lineterminator="\n").writerows(rows)
    return buffer.getvalue().encode()


def kept(experiment: str, columns: Mapping[str, str]) -> dict[str, str]:
    """Return the columns of a run that are published, name -> type."""
    unread = UNREAD.get(experiment)
    return {n: kind for n, kind in columns.items() if unread is None or not unread.fullmatch(n)}


def write(experiment: str, folder: Path | str, runs: Mapping[str, tuple[dict, bytes]]) -> None:
    """Write all published runs of an experiment: key -> record and csv text.

    The caller holds the lock of the files. The records are put in place after the rows: a kill
    between leaves rows without a record, which nothing reads. Their digests come last, see `sums`.

    Raises
    ------
    paths.CannotWrite
        If the disk is full or the folder cannot be written.
    """
    names = list(dict.fromkeys(name for key in sorted(runs) for name in runs[key][0]["columns"]))
    table, said = [["key", *names]], []
    for key in sorted(runs):
        record, content = runs[key]
        said.append(json.dumps(record, separators=(",", ":")) + "\n")
        own, *lines = _rows(content)
        for line in lines:
            cells = dict(zip(own, line, strict=True))
            table.append([key.rpartition("/")[2], *(cells.get(name, "") for name in names)])
    rows, records = files_of(experiment, folder)
    paths.write_atomic(rows, lzma.compress(_text(table), preset=6))
    paths.write_atomic(records, lzma.compress("".join(said).encode(), preset=6))
    sums.put(folder, [rows.name, records.name])
