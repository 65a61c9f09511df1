"""The numbers of a run as a csv text, and back.

Floats keep 7 significant digits: small files, and far below any effect that we report.
"""

from __future__ import annotations

import csv
import io

import pandas as pd

from sflkit import checks

FLOAT_FORMAT = "%.7g"
_DTYPES = {"i": "int64", "u": "int64", "f": "float64", "b": "bool"}


def written(frame: pd.DataFrame) -> tuple[bytes, dict[str, str]]:
    """Return the csv text of a run's frame, and the type of each column by its name.

    Raises
    ------
    TypeError
        If `frame` is no DataFrame of numbers, booleans and strings with at least one row.
    """
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
    columns = {name: _kind(name, column) for name, column in frame.items()}
    text = frame.to_csv(index=False, float_format=FLOAT_FORMAT, na_rep="nan", lineterminator="\n")
    return text.encode("utf-8"), columns


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


def shape(content: bytes) -> tuple[int, list[str]]:
    """Return number of rows and names of columns of a csv text that `written` may have returned."""
    if b'"' in content:
        head, *rows = csv.reader(io.StringIO(content.decode(errors="replace"), newline=""))
        return len(rows), head
    head, _, rows = content.partition(b"\n")
    return rows.count(b"\n"), head.decode(errors="replace").split(",")


def parse(content: bytes, columns: dict[str, str]) -> pd.DataFrame:
    """Return the frame of a csv text with these types; ValueError if its columns are others."""
    frame = pd.read_csv(
        io.BytesIO(content),
        dtype=columns,
        keep_default_na=False,
        na_values={name: ["nan"] for name, kind in columns.items() if kind == "float64"},
    )
    if list(frame.columns) != list(columns):
        raise ValueError("columns differ from the record")
    return frame
