"""The tables of figures/, and whether what is published is what was drawn and judged.

index.csv has a row per figure, with the sha256 of its files. verdicts.csv has a row per claim, with
a sha256 of that row and of the claim's rows in parts.csv. `damages` compares all of it, so that a
cut picture or a verdict edited by hand does not pass for a result; `mend` takes rows that cannot be
trusted out of the tables, and the notebooks that they came from are run again. Digests tell damage
and slips from results. They do not keep anyone from writing a false row with a right digest.
"""

from __future__ import annotations

import contextlib
import csv
import hashlib
import io
import json
import re
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from sflkit import paths

SEAL = "sha256"  # the digest of a row of verdicts.csv
# The digests in index.csv and whose they are, by the end of the file's name.
_FILES = {".csv": "data_sha256", ".png": "png_sha256", ".json": "passport_sha256"}
OTHERS = ("overview", "bench", "parameters")  # files of figures/ that are of no artefact
COLUMNS = {
    "index.csv": ("artefact", "notebook", "caption", "results", *_FILES.values()),
    "verdicts.csv": (
        *"artefact verdict setting differs claim source refuted_by printed n_seeds note".split(),
        SEAL,
    ),
    "parts.csv": (
        *"artefact part role erratum sentence rule answer ours interval n_seeds".split(),
        *"hint size levels".split(),
    ),
}
_WAY_OUT = "`sflkit figures` mends what is published, other tables can be deleted"
NO_ROW = "index.csv has no row for it"


class DamagedTable(ValueError):
    """A table of figures/ is not what was written there."""


class Damage(NamedTuple):
    """Something published that is not what was drawn or judged.

    Attributes
    ----------
    file : Path
    wrong : str
        What is wrong with the file.
    artefact : str
        Whose it is; empty where a table lost rows.
    notebook : str
        Which notebook it is from, where that is known.
    """

    file: Path
    wrong: str
    artefact: str = ""
    notebook: str = ""

    def __str__(self) -> str:
        return f"{self.file}: {self.wrong}"


# --- tables ---------------------------------------------------------------------------------------


def read_table(file: Path) -> pd.DataFrame:
    """Return a table of figures/ as texts.

    Raises
    ------
    DamagedTable
        If it is not as it was written; the message names the file and the way out.
    """
    found, wrong = _read(file)
    if wrong:
        raise DamagedTable(f"{file}: {wrong}; {_WAY_OUT}")
    return pd.DataFrame(found, columns=COLUMNS[file.name])


def rows(file: Path) -> list[dict[str, str]]:
    """Return the rows of a table that have all entries; none where there is no table."""
    return _read(file)[0]


def upsert_rows(file: Path, artefact: str, rows: Iterable[Mapping[str, Any]]) -> None:
    """Replace all rows of an artefact in a table sorted by artefact; the caller holds the lock.

    Raises
    ------
    DamagedTable
        As `read_table`; the file stays as it is.
    """
    old = read_table(file).to_dict("records") if file.is_file() else []
    kept = [row for row in old if row["artefact"] != artefact]
    paths.write_atomic(file, _text(file.name, [*kept, *map(_texts, rows)]))


def seal(row: Mapping[str, Any], parts: Iterable[Mapping[str, Any]]) -> str:
    """Return the digest of a row of verdicts.csv, without its own digest, and of its parts."""
    said = {name: value for name, value in _texts(row).items() if name != SEAL}
    content = [said, *map(_texts, parts)]
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def digests(files: Mapping[str, bytes]) -> dict[str, str]:
    """Return what index.csv says of a figure's files, given by the ends of their names."""
    return {name: hashlib.sha256(files[suffix]).hexdigest() for suffix, name in _FILES.items()}


def is_right(file: Path, name: str) -> bool:
    """Return whether a file of a figure has the digest of that name in index.csv, or has no row.

    The caller holds the lock of index.csv.
    """
    found = [row for row in rows(file.parent / "index.csv") if row["artefact"] == file.stem]
    return not found or hashlib.sha256(file.read_bytes()).hexdigest() == found[0].get(name)


def natural_key(text: str) -> tuple:
    """Return a sort key that puts sfl-fig2 before sfl-fig10."""
    return tuple(int(part) if part.isdigit() else part for part in re.split(r"(\d+)", text))


def _texts(row: Mapping[str, Any]) -> dict[str, str]:
    return {name: str(value) for name, value in row.items()}


def _text(name: str, rows: Iterable[Mapping[str, str]]) -> str:
    text = io.StringIO()
    writer = csv.DictWriter(text, COLUMNS[name], restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows(sorted(rows, key=lambda row: natural_key(row["artefact"])))
    return text.getvalue()


def _read(file: Path) -> tuple[list[dict[str, str]], str]:
    """Return the rows of a table that have all entries, and what is wrong with it, if anything.

    A flipped bit must not keep the other rows from being read; what it hit has another digest.
    """
    if not file.is_file():
        return [], ""
    text, names = file.read_bytes().decode("utf-8", errors="replace"), COLUMNS[file.name]
    try:
        head, *lines = csv.reader(io.StringIO(text, newline=""))
    except (csv.Error, ValueError):  # a NUL, a field without end; nothing at all
        head, lines = [], []
    if not text.endswith("\n"):  # the last row may be a part of what it was
        lines = lines[:-1]
    right = [line for line in lines if len(line) == len(names) and head == [*names]]
    found = [dict(zip(names, line, strict=True)) for line in right]
    return found, "" if _text(file.name, found) == text else "it is not as it was written"


# --- damage ---------------------------------------------------------------------------------------


def damages(folder: Path | str) -> list[Damage]:
    """Return what in figures/ is not what was drawn and judged; [] where all is right."""
    return _settled(Path(folder), "index.csv", _figure_damages) + verdict_damages(folder)


def verdict_damages(folder: Path | str) -> list[Damage]:
    """Return what is wrong with verdicts.csv and parts.csv of a folder."""
    return _settled(Path(folder), "verdicts.csv", _verdict_damages)


def _settled(folder: Path, table: str, look: Callable[[Path], list[Damage]]) -> list[Damage]:
    """Return what `look` finds in a folder; what was just being written is no damage."""
    found = look(folder)
    if found:
        with contextlib.suppress(paths.CannotWrite), paths.lock(folder / table):
            return look(folder)  # else the clone is another user's, to read only
    return found


def mend(folder: Path | str, found: Collection[Damage]) -> None:
    """Take out of the tables of a folder what `damages` found wrong in them.

    So goes the row of a figure that has no file left. Nothing is invented: a row that is gone comes
    back when its notebook runs.
    """
    folder = Path(folder)
    named = {damage.artefact for damage in found if damage.file.name not in COLUMNS}
    lost = {n for n in named if not any((folder / f"{n}{end}").is_file() for end in _FILES)}
    bad = {damage.artefact for damage in found if damage.file.name == "verdicts.csv"}
    for name in COLUMNS if found else ():
        gone = lost if name == "index.csv" else bad
        with paths.lock(folder / ("index.csv" if name == "index.csv" else "verdicts.csv")):
            kept = [row for row in rows(folder / name) if row["artefact"] not in gone]
            paths.write_atomic(folder / name, _text(name, kept))


def _figure_damages(folder: Path) -> list[Damage]:
    table = folder / "index.csv"
    figures, wrong = _read(table)
    found = [Damage(table, wrong)] if wrong else []
    for row in figures:
        found += _files_damages(folder, row)
    known = {*OTHERS, *(row["artefact"] for row in figures)}
    pictures = sorted(file for file in folder.glob("*.png") if file.stem not in known)
    return found + [Damage(file, NO_ROW, file.stem) for file in pictures]


def _files_damages(folder: Path, row: Mapping[str, str]) -> list[Damage]:
    """Return what is wrong with the files of a figure, by its row in index.csv."""
    artefact, notebook = row["artefact"], row["notebook"]
    wrong = {}
    for suffix, name in _FILES.items():
        file = folder / f"{artefact}{suffix}"
        if not file.is_file():
            wrong[file] = "it is missing"
        elif not row[name]:
            wrong[file] = f"index.csv has no {name} for it"
        elif hashlib.sha256(file.read_bytes()).hexdigest() != row[name]:
            wrong[file] = "it differs from its digest in index.csv"
    if not wrong and (said := _contradicts(folder / f"{artefact}.json", row)):
        wrong[folder / "index.csv"] = said
    return [Damage(file, said, artefact, notebook) for file, said in wrong.items()]


def _contradicts(passport: Path, row: Mapping[str, str]) -> str:
    """Return what the row of a figure and its passport say differently, or nothing."""
    try:
        said = json.loads(passport.read_text(encoding="utf-8"))
        same = {name: said[name] for name in ("artefact", "notebook", "caption", "data_sha256")}
        same["results"] = str(len(said["results"]))
    except (ValueError, KeyError, TypeError, RecursionError):
        return f"{passport.name} is no passport"
    other = [name for name, value in same.items() if row[name] != value]
    return f"{', '.join(other)} of {row['artefact']} are not those of its passport" if other else ""


def _verdict_damages(folder: Path) -> list[Damage]:
    table = folder / "verdicts.csv"
    verdicts, wrong = _read(table)
    lines, other = _read(folder / "parts.csv")
    found = [Damage(table, wrong)] if wrong else []
    found += [Damage(folder / "parts.csv", other)] if other else []
    parts = defaultdict(list)
    for line in lines:
        parts[line["artefact"]].append(line)
    seen = set()
    for row in verdicts:
        artefact, said = row["artefact"], ""
        if artefact in seen:
            said = f"the row of {artefact} is there twice"
        elif not row[SEAL]:
            said = f"the row of {artefact} has no digest"
        elif row[SEAL] != seal(row, parts[artefact]):
            said = f"the row of {artefact}, or its parts in parts.csv, differ from their digest"
        found += [Damage(table, said, artefact)] if said else []
        seen.add(artefact)
    lost = (f"{artefact} has parts in parts.csv and no row" for artefact in parts.keys() - seen)
    return found + [Damage(table, said, said.split()[0]) for said in sorted(lost)]
