"""Result files: a computed run is one `<key>.csv` (its numbers) and one `<key>.json` (its record).

Published results lie together instead, per experiment in one table and one file of records
(`sflkit.runs.archive`). Every reader here takes either form from a folder.

Floats keep 7 significant digits: small files, and far below any effect that we report. The record
holds key, experiment, result version and config (`sflkit.runs.keys`), versions, commit, device,
threads, data set, seconds, the columns' types, the sha256 of the csv and one of the record itself.
The csv is put in place first and the json last, so the json makes a result complete. One that is
incomplete, truncated or altered, or whose key is not that of its own config, is never used; `look`
says what is wrong with it.
"""

from __future__ import annotations

import hashlib
import io
import json
import platform
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import pandas as pd

from sflkit import checks, paths
from sflkit.runs import archive, origin
from sflkit.runs.keys import key_of, plain

FLOAT_FORMAT = "%.7g"
# Where the locks of runs lie in a folder of results; git ignores it.
LOCKS = ".locks"
_DTYPES = {"i": "int64", "u": "int64", "f": "float64", "b": "bool"}


class OnDisk(NamedTuple):
    """What a folder holds under a key.

    Attributes
    ----------
    record : dict or None
        The record, as far as it can be read.
    content : bytes
        The csv file.
    wrong : str
        What is wrong with the result; nothing where it is complete, or where there is none.
    """

    record: dict | None
    content: bytes
    wrong: str

    @property
    def complete(self) -> bool:
        """Whether the result is there and whole."""
        return self.record is not None and not self.wrong


# --- read -----------------------------------------------------------------------------------------


def read_result(key: str, folder: Path | str) -> tuple[pd.DataFrame, dict] | None:
    """Return frame and record of a complete result.

    None stands for a result that `folder` does not hold, or holds half-written or altered; `look`
    tells these apart.
    """
    found = look(key, folder)
    if not found.complete:
        return None
    return parse([found.content], found.record["columns"]), found.record


def look(key: str, folder: Path | str) -> OnDisk:
    """Return what a folder holds under a key, without a look at the numbers themselves.

    Of a result that is published and lies in a file of its own as well, the whole one is taken.
    """
    published = look_in_archive(key, folder)
    if published.complete:
        return published
    single = look_at_files(key, folder)
    return single if single.record is not None or single.wrong else published


def look_in_archive(key: str, folder: Path | str) -> OnDisk:
    """Return what the archive of a key's experiment holds; see `checked`."""
    found = archive.read(key.partition("/")[0], folder)
    if found.wrong:
        return OnDisk(None, b"", found.wrong)
    if key not in found.checked:
        found.checked[key] = checked(key, found.records.get(key), found.contents.get(key))
    return found.checked[key]


def look_at_files(key: str, folder: Path | str) -> OnDisk:
    """Return what the two files of a key hold; see `checked`."""
    parts = []
    for suffix in (".json", ".csv"):
        try:
            parts.append(paths.read(Path(folder) / f"{key}{suffix}"))
        except (FileNotFoundError, NotADirectoryError):
            parts.append(None)
        except OSError as error:
            return OnDisk(None, b"", f"a file that cannot be read: {error.strerror}")
    return checked(key, *parts)


def checked(key: str, record: dict | bytes | None, csv: bytes | None) -> OnDisk:
    """Return a record, or its JSON text, and its numbers, and what is wrong with them under a key.

    A result is complete when its record can be read and is of this key, by what it says and by what
    follows from its own config; when it has its own digest; and when the csv has the digest that
    the record says.
    """
    if record is None:
        return OnDisk(None, csv or b"", "" if csv is None else "numbers without a record")
    if isinstance(record, bytes):
        try:
            record = json.loads(record)
        except (ValueError, RecursionError):  # it may nest too deeply
            record = None
    if not isinstance(record, dict):
        return OnDisk(None, csv or b"", "a record that cannot be read")
    return OnDisk(record, csv or b"", _wrong(key, record, csv))


def _wrong(key: str, record: dict, csv: bytes | None) -> str:
    if record.get("key") != key:
        return f"the record is of {record.get('key')}"
    if csv is None:
        return "a record without numbers"
    if missing := [name for name in ("sha256", "record_sha256") if name not in record]:
        return f"the record lacks {', '.join(missing)}"
    if hashlib.sha256(csv).hexdigest() != record["sha256"]:
        return "the numbers differ from the record's digest"
    if record["record_sha256"] != record_sha256(record):
        return "the record differs from its own digest"
    try:
        own = key_of(record)
    except (KeyError, TypeError, ValueError):
        own = "none"
    if own != key:
        return f"the record's config, experiment or result version are those of another key, {own}"
    return ""


def record_sha256(record: Mapping[str, object]) -> str:
    """Return the digest of a record without its own digest."""
    rest = {name: value for name, value in record.items() if name != "record_sha256"}
    return hashlib.sha256(json.dumps(rest, sort_keys=True).encode()).hexdigest()


def is_complete(key: str, folder: Path | str) -> bool:
    """Return whether `folder` holds a complete result of that key."""
    return look(key, folder).complete


def parse(contents: Sequence[bytes], columns: Mapping[str, str]) -> pd.DataFrame:
    """Return one frame of csv texts with these columns, name -> type; ValueError if the first has
    others.
    """
    rows = (text.partition(b"\n")[2] for text in contents[1:])
    frame = pd.read_csv(
        io.BytesIO(b"".join([contents[0], *rows])),
        dtype=columns,
        keep_default_na=False,
        na_values={name: ["nan"] for name, kind in columns.items() if kind == "float64"},
    )
    if list(frame.columns) != list(columns):
        raise ValueError("columns are not those of the record")
    return frame


# --- write ----------------------------------------------------------------------------------------


def write_result(
    folder: Path | str, head: dict, frame: pd.DataFrame, *, threads: int, seconds: float
) -> None:
    """Write the frame of the run that `head` describes, and its record.

    The caller holds the result's lock. `frame.attrs["data"]` (a dict) and `frame.attrs["device"]`
    go into the record.

    Raises
    ------
    TypeError
        If `frame` is no DataFrame of numbers, booleans and strings with at least one row.
    paths.CannotWrite
        If the disk is full or the folder cannot be written; no half of a result stays behind.
    """
    columns = _columns(frame)
    text = frame.to_csv(index=False, float_format=FLOAT_FORMAT, na_rep="nan", lineterminator="\n")
    content = text.encode()
    record = head | {
        "rows": len(frame),
        "columns": columns,
        "sha256": hashlib.sha256(content).hexdigest(),
        "data": frame.attrs.get("data"),
        "device": frame.attrs.get("device") or origin.device(),
        "machine": platform.machine(),
        "threads": threads,
        "versions": origin.versions(),
        "commit": head.get("commit") or origin.commit(),
        "seconds": round(seconds, 3),
    }
    record = plain(record)
    record["record_sha256"] = record_sha256(record)
    write_pair(Path(folder), head["key"], content, json.dumps(record, indent=1) + "\n")


def _columns(frame: pd.DataFrame) -> dict[str, str]:
    """Return the type of each column by its name; TypeError where a csv could not hold it."""
    if not isinstance(frame, pd.DataFrame) or frame.empty:
        raise TypeError(
            f"the run must return a DataFrame with rows; it returned {type(frame).__name__}"
        )
    # an empty name is read back as another one
    if not frame.columns.is_unique or not all(isinstance(c, str) and c for c in frame.columns):
        raise TypeError(
            f"the columns of a result must be distinct strings, none empty; they are "
            f"{list(frame.columns)}"
        )
    return {name: _kind(name, column) for name, column in frame.items()}


def _kind(name: str, column: pd.Series) -> str:
    kind = column.dtype.kind
    if kind in _DTYPES:
        if kind != "f" and (column.isna().any() or column.max() > checks.LARGEST):
            raise TypeError(
                f"column {name!r} of a result is {column.dtype}; outside float columns entries "
                "must be there, and integers fit into 64 bits"
            )
        return _DTYPES[kind]
    if all(isinstance(v, str) and not set(v) & set("\r\0") for v in column):
        return "str"
    raise TypeError(
        f"column {name!r} of a result must hold numbers, booleans or strings; it holds "
        f"{column.dtype}"
    )


def write_pair(folder: Path, key: str, content: bytes, record: str | bytes) -> None:
    """Put the two files of a result in place, or none of them."""
    csv = folder / f"{key}.csv"
    paths.write_atomic(csv, content)
    try:
        # Last, since it makes the result complete.
        paths.write_atomic(folder / f"{key}.json", record)
    except paths.CannotWrite:
        csv.unlink(missing_ok=True)
        raise


def discard(key: str, folder: Path | str) -> None:
    """Delete the two files of a result, where they are."""
    for suffix in (".json", ".csv"):
        (Path(folder) / f"{key}{suffix}").unlink(missing_ok=True)


def run_lock(key: str, folder: Path | str, *, wait: bool = True) -> paths.Lock:
    """Return the lock that whoever computes the result of that key for `folder` holds.

    It dies with its process. See `paths.lock`.
    """
    folder = Path(folder)
    return paths.lock(folder / key, wait=wait, folder=folder / LOCKS)


def is_running(key: str, folder: Path | str) -> bool:
    """Return whether a living process holds the lock of a run, which says that it computes it."""
    folder = Path(folder)
    if not (folder / LOCKS / f"{Path(key).name}.lock").is_file():
        return False  # asking would make the file
    try:
        with run_lock(key, folder, wait=False):
            return False
    except OSError:  # held (TimeoutError is one), or not ours to open
        return True
