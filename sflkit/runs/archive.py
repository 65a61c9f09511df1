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
import json
import lzma
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from sflkit import paths
from sflkit.runs import sums

# Columns by experiment that no notebook, claim, picture or test reads from published runs. They are
# two thirds of the bytes, and a run computes them again.
UNREAD = {
    "sfl-training": re.compile(r"accumulated|count_\d+"),
    "sfl-training-full-start": re.compile(r"accumulated|count_\d+"),
}
ROWS, RECORDS = ".csv.xz", ".jsonl.xz"
MOST = 2**30  # bytes that a file may hold unpacked


class Archive(NamedTuple):
    """Runs of one experiment.

    Attributes
    ----------
    records, contents : mapping
        Records and csv texts by key.
    checked : dict
        What is wrong with each run that was looked at so far, by key.
    wrong : str
        Why the files cannot be read, if they cannot.
    """

    records: Mapping[str, dict]
    contents: Mapping[str, bytes]
    checked: dict[str, str]
    wrong: str = ""


def files_of(experiment: str, folder: Path | str) -> list[Path]:
    """Return the two files of an experiment's published runs, rows and records."""
    return [Path(folder) / f"{experiment}{suffix}" for suffix in (ROWS, RECORDS)]


def experiments(folder: Path | str) -> list[str]:
    """Return the experiments that have a published file in a folder, sorted."""
    found = {
        f.name.removesuffix(end) for end in (ROWS, RECORDS) for f in Path(folder).glob(f"*{end}")
    }
    return sorted(name for name in found if not name.startswith("."))


def read(experiment: str, folder: Path | str) -> Archive:
    """Return the published runs of an experiment; none where the folder holds none.

    The files are parsed once in a process as long as they do not change.
    """
    stamps = []
    for file in files_of(experiment, folder):
        try:
            seen = file.stat()
        except OSError:
            stamps.append((0, 0))
        else:
            stamps.append((seen.st_mtime_ns, seen.st_size))
    if not any(any(stamp) for stamp in stamps):
        return Archive({}, {}, {})
    return _read(experiment, Path(folder), tuple(stamps))


@functools.lru_cache(maxsize=64)
def _read(experiment: str, folder: Path, stamps: tuple) -> Archive:
    rows, records = files_of(experiment, folder)
    try:
        kept = [json.loads(line) for line in unpacked(records).splitlines()]
        by_key = {record["key"]: record for record in kept}
        contents = _contents(experiment, unpacked(rows), by_key)
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


def _contents(experiment: str, table: bytes, records: Mapping[str, dict]) -> dict[str, bytes]:
    """Return the csv text of each run: its rows of the table under its own columns."""
    if b'"' in table:  # slowly, since cells hold commas or line breaks
        head, *lines = _rows(table)
    else:
        first, *rest = table.splitlines()
        head, lines = first.decode().split(","), [line.partition(b",") for line in rest]
    rows: dict[str, list] = {}
    for line in lines:
        digits = line[0] if isinstance(line[0], str) else line[0].decode()
        rows.setdefault(f"{experiment}/{digits}", []).append(line)
    names = head[1:]
    contents = {}
    for key, run in rows.items():
        own = list(records.get(key, {}).get("columns", names))
        places = [names.index(name) for name in own]
        if isinstance(run[0], list):
            contents[key] = _text([own, *([line[1 + place] for place in places] for line in run)])
            continue
        cells = [line[2] for line in run]
        if own != names:
            split = (line.split(b",") for line in cells)
            cells = [b",".join([line[place] for place in places]) for line in split]
        contents[key] = b"\n".join([",".join(own).encode(), *cells, b""])
    return contents


def together(contents: Iterable[bytes]) -> bytes:
    """Return the csv texts of runs with the same columns as one, under one line of names."""
    parts = [text.partition(b"\n") for text in contents]
    return b"".join([parts[0][0] + b"\n", *(rows for _, _, rows in parts)])


def _rows(text: bytes) -> list[list[str]]:
    return list(csv.reader(io.StringIO(text.decode(), newline="")))


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
    names: dict[str, None] = {}
    for key in sorted(runs):
        names |= dict.fromkeys(runs[key][0]["columns"])
    lines = [",".join(["key", *names]).encode()]
    for key in sorted(runs):
        record, content = runs[key]
        lines += _lines(key, record, content, list(names))
    rows, records = files_of(experiment, folder)
    said = [json.dumps(runs[key][0], separators=(",", ":")) for key in sorted(runs)]
    paths.write_atomic(rows, lzma.compress(b"\n".join([*lines, b""]), preset=6))
    paths.write_atomic(records, lzma.compress("\n".join([*said, ""]).encode(), preset=6))
    sums.put(folder, [rows.name, records.name])


def _lines(key: str, record: dict, content: bytes, names: list[str]) -> list[bytes]:
    """Return the table's lines of a run, whose columns are put under those of the table."""
    own = list(record["columns"])
    digits = key.rpartition("/")[2]
    if b'"' in content:
        runs = (dict(zip(own, row, strict=True)) for row in _rows(content)[1:])
        return _text([digits, *(row.get(name, "") for name in names)] for row in runs).splitlines()
    lines = content.split(b"\n")[1:-1]
    if own != names:
        cells = [dict(zip(own, line.split(b","), strict=True)) for line in lines]
        lines = [b",".join([line.get(name, b"") for name in names]) for line in cells]
    return [digits.encode() + b"," + line for line in lines]
