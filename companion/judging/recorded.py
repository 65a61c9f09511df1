"""The tables of figures/: verdicts.csv with a row per claim, parts.csv with a row per judged part.

SHA256SUMS beside them has the digest of every file of the folder, as `sha256sum` writes it, so that
a cut picture or a verdict edited by hand does not pass for a result (`sflkit.runs.sums`). Digests
tell damage and slips from results. They do not keep anyone from writing a false row with a right
digest; git says who committed what.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from sflkit import paths
from sflkit.runs import sums

COLUMNS = {
    "verdicts.csv": (
        "artefact verdict setting differs claim source refuted_by printed n_seeds note".split()
    ),
    "parts.csv": (
        "artefact part role erratum sentence rule answer ours interval n_seeds hint size levels"
    ).split(),
}


_WAY = f"`git checkout -- figures/{sums.NAME}` brings the published digests back"


class DamagedTable(ValueError):
    """A table of figures/ is not what was written there."""


def read_table(file: Path) -> pd.DataFrame:
    """Return a table of figures/ as texts; one that is not there has no rows.

    Raises
    ------
    DamagedTable
        If it differs from its digest; the message names the file and the way out.
    """
    try:
        return _read(file)
    except DamagedTable:  # or it is just being written
        with contextlib.suppress(paths.CannotWrite), paths.lock(file.with_name("verdicts.csv")):
            return _read(file)
        raise


def put_rows(folder: Path, artefact: str, rows: Mapping[str, Iterable[Mapping]]) -> None:
    """Replace all rows of an artefact in tables, which are sorted by it.

    Raises
    ------
    DamagedTable
        If the digests cannot be read, or a table differs from its own, unless the rows make it what
        the digest is of: so a write that failed can be made again. All stay as they are.
    """
    texts = {}
    with paths.lock(folder / "verdicts.csv"):
        known = _digests(folder)
        for name, new in rows.items():
            old = _read(folder / name, whole=False).to_dict("records")
            kept = [row for row in old if row["artefact"] != artefact]
            both = sorted([*kept, *new], key=lambda row: natural_key(row["artefact"]))
            frame = pd.DataFrame(both, columns=COLUMNS[name])
            texts[name] = frame.to_csv(index=False, lineterminator="\n").encode()
            if hashlib.sha256(texts[name]).hexdigest() != known.get(name):
                _read(folder / name)
        sums.put(folder, texts)  # first: they tell a second try what the tables were to be
        for name, text in texts.items():
            paths.write_atomic(folder / name, text)


def drop_damaged(folder: Path) -> list[str]:
    """Delete the tables that differ from their digests, as after a kill, and return what was wrong.

    The notebooks whose rows are gone are no longer current, and fill them again.

    Raises
    ------
    DamagedTable
        If the digests cannot be read or are missing: then no table is known to be wrong.
    """
    if any((folder / name).exists() for name in COLUMNS) and not _digests(folder):
        raise DamagedTable(f"{folder / sums.NAME} is missing; {_WAY}")
    found = []
    for name in COLUMNS:
        try:
            read_table(folder / name)
        except DamagedTable as error:
            found.append(str(error))
            with paths.lock(folder / "verdicts.csv"):
                (folder / name).unlink()
    return found


def _digests(folder: Path) -> dict[str, str]:
    """Return the digests of a folder; DamagedTable where they cannot be read."""
    try:
        return sums.read(folder)
    except ValueError as error:
        raise DamagedTable(f"{error}; {_WAY}") from None


def natural_key(text: str) -> tuple[Any, ...]:
    """Return a sort key that puts sfl-fig2 before sfl-fig10."""
    return tuple(int(part) if part.isdigit() else part for part in re.split(r"(\d+)", text))


def _read(file: Path, whole: bool = True) -> pd.DataFrame:
    """Return a table; with `whole` only if it has its digest."""
    try:
        content = paths.read(file)
        known = sums.read(file.parent).get(file.name) if whole else ""
        if whole and hashlib.sha256(content).hexdigest() != known:
            raise ValueError(f"it differs from its digest in {sums.NAME}")
        found = pd.read_csv(io.BytesIO(content), dtype=str, keep_default_na=False)
        if list(found) != COLUMNS[file.name]:
            raise ValueError(f"its columns are not {', '.join(COLUMNS[file.name])}")
    except FileNotFoundError:
        return pd.DataFrame(columns=COLUMNS[file.name], dtype=str)
    except (OSError, ValueError) as error:
        way = "`git checkout -- figures` brings what is published back, others can be deleted"
        raise DamagedTable(f"{file}: {error}; {way}") from None
    return found
