"""A table of your own: rows in the order of time, one label each, from a CSV or npz file.

| file | what it holds                                                                            |
|------|------------------------------------------------------------------------------------------|
| .csv | one row per sample, oldest first; a column with the label, optionally one that says      |
|      | which client (machine, user, place) the row belongs to; every other column is a feature  |
| .tsv | the same with tabs between the columns; either may be gzipped, .csv.gz and .tsv.gz       |
| .npz | `x` (n, ...) numbers, `y` (n,) labels, optionally `client` (n,); oldest sample first     |
"""

from __future__ import annotations

import csv
import gzip
import hashlib
import io
import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from sflkit import npzfiles, paths
from sflkit.randomness import generator

EXAMPLE_LABELS = ("idle", "running", "hot", "fault")
_EXAMPLE_ROWS = 420  # of each machine
_SHOWN = 8  # names in a message
_SEPARATORS = {".csv": ",", ".csv.gz": ",", ".tsv": "\t", ".tsv.gz": "\t"}
# What arrays of text make of a value that is not there.
_ABSENT = ("", "nan", "NaT")
# The part of a column's spread that may be lost where its numbers become float32.
_LOST = 1e-3
_WHOLE = 2**24  # up to here float32 tells all integers apart


@dataclass(frozen=True, eq=False)
class Table:
    """Samples in the order of time.

    Attributes
    ----------
    x : float32 array (n_samples, ...)
    y : int64 array (n_samples,)
        Numbers of the labels.
    client : int64 array (n_samples,)
        Numbers of the clients; all 0 where the file names none.
    labels, clients : tuple of str
        What the numbers stand for, in sorted order.
    features : tuple of str
        Names of the columns of x; empty for npz files.
    digest : str
        sha256 of the file.
    """

    x: np.ndarray = field(repr=False)
    y: np.ndarray = field(repr=False)
    client: np.ndarray = field(repr=False)
    labels: tuple[str, ...]
    clients: tuple[str, ...]
    features: tuple[str, ...]
    digest: str

    def __len__(self) -> int:
        return len(self.y)


def read(path: Path | str, *, label: str = "label", client: str = "client") -> Table:
    """Read a table from a CSV or npz file.

    Parameters
    ----------
    path : path
        Ends in .csv, .csv.gz, .tsv, .tsv.gz or .npz.
    label, client : str
        Columns of a CSV file. `client` may be missing: all rows are then of one client. They are
        not used for npz files, whose arrays have fixed names.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    ValueError
        If the file has another form than described, a row has more fields than the heading, a label
        or a client is missing, or numbers do not become float32 (too large, or so close to one
        another that they would be the same); the message names file, column and row.
    """
    path = Path(path).expanduser()
    end = next((end for end in (*_SEPARATORS, ".npz") if path.name.endswith(end)), None)
    if end is None:
        raise ValueError(f"path={str(path)!r} must end in {', '.join(_SEPARATORS)} or .npz")
    if not path.is_file():
        raise FileNotFoundError(f"path={str(path)!r}: there is no such file")
    content = path.read_bytes()
    try:
        if end == ".npz":
            x, y, owners, features = _from_npz(path)
        else:
            x, y, owners, features = _from_csv(content, label, client, end)
        x = _as_float32(x, features)
        labels, y = _numbered(label if features else "y", y, features)
        clients, owner = _numbered(client if features else "client", owners, features)
        if len(labels) < 2:
            raise ValueError(f"it has the label {labels[0]!r} only; it must have two or more")
    except ValueError as error:
        raise ValueError(f"{path.name}: {error}") from None
    return Table(x, y, owner, labels, clients, features, hashlib.sha256(content).hexdigest())


def write_example(path: Path | str) -> Path:
    """Write a small synthetic CSV file: six machines, four states, six sensors; always the same.

    A machine stays in a state for a while, each has a mix of states of its own, and its sensors
    drift, so that old rows say less and less about new ones. The file stays untouched where it has
    this content already.
    """
    rng = generator(0, "data")
    n_machines, n_sensors = 6, 6
    centres = rng.normal(0, 1.0, (len(EXAMPLE_LABELS), n_sensors))
    drift = rng.normal(0, 1.5, n_sensors)
    mixes = rng.dirichlet(np.full(len(EXAMPLE_LABELS), 1.0), n_machines) * 0.8 + 0.05
    offsets = rng.normal(0, 0.3, (n_machines, n_sensors))
    states = np.array([rng.choice(4, p=mix) for mix in mixes])
    lines = ["machine,label," + ",".join(f"sensor_{i}" for i in range(n_sensors))]
    for t in range(_EXAMPLE_ROWS):
        for m in range(n_machines):
            if rng.random() < 0.08:
                states[m] = rng.choice(4, p=mixes[m])
            mean = centres[states[m]] + offsets[m] + drift * t / _EXAMPLE_ROWS
            sensors = ",".join(f"{value:.2f}" for value in rng.normal(mean, 0.9))
            lines.append(f"m{m + 1},{EXAMPLE_LABELS[states[m]]},{sensors}")
    path, text = Path(path), "\n".join(lines) + "\n"
    if not path.is_file() or path.read_text(encoding="utf-8") != text:
        paths.write_atomic(path, text)
    return path


def _from_csv(content: bytes, label: str, client: str, end: str) -> tuple:
    import pandas as pd

    separator = _SEPARATORS[end]
    try:
        text = (gzip.decompress(content) if end.endswith(".gz") else content).decode("utf-8-sig")
    except (OSError, EOFError, zlib.error, UnicodeDecodeError) as error:
        raise ValueError(f"it is no CSV file in UTF-8: {error}") from None
    _check_separator(text, separator)
    try:
        rows = csv.reader(io.StringIO(text, newline=""), strict=True, delimiter=separator)
        _check_fields(filter(None, rows))
        kinds = {label: str, client: str}
        frame = pd.read_csv(io.StringIO(text), sep=separator, dtype=kinds, index_col=False)
    except (csv.Error, pd.errors.ParserError, pd.errors.EmptyDataError) as error:
        raise ValueError(f"it is no CSV file: {error}") from None
    if label not in frame:
        raise ValueError(
            f"label={label!r} is no column; it has {', '.join(frame.columns[:_SHOWN])}"
        )
    features = frame.drop(columns=[label, client], errors="ignore")
    if not features.size:
        raise ValueError(f"it has {len(frame)} rows and {len(features.columns)} features")
    for name, column in features.items():
        if not pd.api.types.is_numeric_dtype(column):
            row = int(pd.to_numeric(column, errors="coerce").isna().argmax())
            raise ValueError(_no_number(name, column.iloc[row], row))
    owners = frame[client] if client in frame else pd.Series("all", index=frame.index)
    names = tuple(features.columns)
    return features.to_numpy(np.float64), frame[label].to_numpy(str), owners.to_numpy(str), names


def _check_separator(text: str, separator: str) -> None:
    """Refuse a heading that other separators part, but not its own; quoted text counts as none."""
    heading = text.strip("\r\n").partition("\n")[0].strip("\r")
    plain = re.sub(r'"[^"]*"', "", heading)
    if separator not in plain and (other := re.search("[;\t,|]", plain)):
        raise ValueError(
            f"the heading is one column, {heading!r}: is it separated by {other[0]!r}? Read are "
            "commas in a .csv and tabs in a .tsv, with points in decimals. pandas.read_csv(..., "
            f"sep={other[0]!r}, decimal=...) reads any other form, and to_csv(..., index=False) "
            "writes this one"
        )


def _check_fields(rows: Iterator[list[str]]) -> None:
    """Refuse columns without a name of their own, and rows longer than the heading.

    pandas would give the first names, and take the first column of the second for row names.
    """
    heading = next(rows, [])
    for k, name in enumerate(heading):
        if not name.strip() or name in heading[:k]:
            hint = "" if k or name else " (of pandas, the row numbers: to_csv(..., index=False))"
            raise ValueError(
                f"column {k + 1} of the heading is called {name!r}{hint}; every column needs a "
                "name of its own"
            )
    for n, row in enumerate(rows, 2):
        if len(row) > len(heading):
            raise ValueError(
                f"row {n}, counted from the heading, has {len(row)} fields and the heading "
                f"{len(heading)}"
            )


def _no_number(name: str, cell: Any, row: int) -> str:
    """Return what is said of a cell of a feature that is no number."""
    way = (
        "(code words as columns of 0 and 1, or drop them; which column is the label and which the "
        "client is said by label= and client=)"
    )
    if re.fullmatch(r"[+-]?\d+,\d+", str(cell).strip()):
        way = "with a point before the decimals"
    return f"{_place(repr(name), cell, row, (name,))}; features must be numbers {way}"


def _place(column: str, value: Any, row: int, features: tuple[str, ...]) -> str:
    """Return where a value stands, in words; in a file without `features` rows count from 0."""
    where = f"row {row + 2}, counted from the heading" if features else f"row {row}, counted from 0"
    return f"the column {column} holds {value!r} in {where}"


def _as_float32(x: np.ndarray, features: tuple[str, ...]) -> np.ndarray:
    """Return numbers (n, ...) as float32, refused where that would lose what they say."""
    with np.errstate(over="ignore"):
        out = x.astype(np.float32)
    columns, rounded = x.reshape(len(x), -1), out.reshape(len(x), -1)
    called = [*map(repr, features)] or [f"{k} of x" for k in range(columns.shape[1])]
    if not np.isfinite(rounded).all():
        row, column = np.argwhere(~np.isfinite(rounded))[0]
        place = _place(called[column], columns[row, column].item(), row, features)
        raise ValueError(
            f"{place}; features are finite float32, which ends at 3.4e38; fill or drop such rows"
        )
    for column in np.flatnonzero(np.abs(rounded).max(axis=0) >= _WHOLE):
        exact = columns[:, column]
        lost = np.abs(exact.astype(np.longdouble) - rounded[:, column])
        is_whole = not np.any(exact % 1)
        fewer = is_whole and len(np.unique(rounded[:, column])) < len(np.unique(exact))
        if fewer or lost.max() > _LOST * exact.std(dtype=float) > 0:
            place = _place(called[column], exact[lost.argmax()].item(), lost.argmax(), features)
            raise ValueError(
                f"{place} and others that are too close to one another for float32, which would "
                "make several of them the same; subtract the smallest, or drop the column"
            )
    return out


def _numbered(
    what: str, values: np.ndarray, features: tuple[str, ...]
) -> tuple[tuple[str, ...], np.ndarray]:
    """Return the names of labels or clients in sorted order, and the number of each row's."""
    texts = values.astype(str)
    absent = np.isin(texts, _ABSENT)
    if absent.any():
        place = _place(repr(what), str(texts[absent][0]), absent.argmax(), features)
        raise ValueError(f"{place}, which is no name; fill or drop such rows")
    names, numbers = np.unique(texts, return_inverse=True)
    return tuple(names.tolist()), numbers.astype(np.int64)


def _from_npz(path: Path) -> tuple:
    try:
        arrays = npzfiles.read_npz(path, names=("x", "y", "client"))
    except ValueError as error:
        raise ValueError(f"it cannot be read as npz: {error}") from error
    if missing := [name for name in ("x", "y") if name not in arrays]:
        raise ValueError(f"it has no array {missing[0]!r}; it needs x and y")
    x, y = arrays["x"], arrays["y"]
    owners = arrays.get("client", np.full(y.shape, "all"))
    if x.ndim < 2 or not x.size or x.dtype.kind not in "iufb":
        raise ValueError(f"x is {x.dtype} {x.shape}; it must be numbers (n, ...), one at least")
    if not y.shape == owners.shape == x.shape[:1]:
        raise ValueError(
            f"x is {x.shape}, y {y.shape}, client {owners.shape}; a row needs one each"
        )
    return x, y, owners, ()
