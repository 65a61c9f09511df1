"""What was recorded of every artefact: its claim, verdict, parts, figure and notebook.

The files are those that `make figures` writes: verdicts.csv and parts.csv, index.csv and the
figures. A verdict whose claim nobody declared and a figure that is not there are problems, with
file and line.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd

from companion.app import gate
from companion.app.artefacts import PAPERS, name_of, ordered
from companion.claims import declared
from companion.judging import seals, tables
from docs.site.sources import Problem
from sflkit import paths

PACKAGES = {"sfl": "sfl", "ds": "datastreams", "osafl": "osafl", "fats": "fats"}
OTHER = "other"  # of no paper: the tour of notebook 00, what goes beyond the papers


@dataclass(frozen=True, eq=False)
class Artefact:
    """A figure, table, theorem or algorithm of a paper, and what became of its claim.

    `verdict` is a row of `tables.all_verdicts` or None, `parts` its rows of `tables.all_parts`,
    `figure` the png under the clone's root or None, `notebook` what draws and judges it.
    """

    name: str
    verdict: Any = None
    parts: pd.DataFrame = field(default_factory=pd.DataFrame)
    figure: str | None = None
    caption: str = ""
    notebook: gate.Notebook | None = None

    @property
    def paper(self) -> str:
        """A key of `PAPERS`, or `OTHER`."""
        prefix = self.name.split("-")[0]
        return prefix if prefix in PAPERS else OTHER

    @property
    def label(self) -> str:
        """What the paper calls it, such as "Figure 4a"."""
        return name_of(self.name) if self.paper in PAPERS else self.name.replace("-", " ")

    @property
    def alt(self) -> str:
        """What stands in the place of its figure."""
        return " ".join(self.caption.split()) or self.label


@dataclass
class Records:
    """All artefacts in the papers' order, and what is wrong with the files that record them."""

    artefacts: list[Artefact]
    problems: list[Problem] = field(default_factory=list)

    def of(self, paper: str) -> list[Artefact]:
        """Return the artefacts of one paper."""
        return [artefact for artefact in self.artefacts if artefact.paper == paper]

    @property
    def judged(self) -> list[Artefact]:
        """Those with a verdict."""
        return [artefact for artefact in self.artefacts if artefact.verdict is not None]


def read(root: Path) -> Records:
    """Return what the clone at `root` has recorded."""
    problems: list[Problem] = []
    problems += _undeclared(root, set(declared()))
    verdicts = {row.artefact.lower(): row for row in tables.all_verdicts().itertuples()}
    parts = tables.all_parts()
    drawn = _drawn(root, problems)
    notebooks = gate.notebooks()
    judges = {name: book for book in notebooks for name in book.artefacts}
    by_name = {book.name: book for book in notebooks}
    found = {}
    for key in dict.fromkeys([*verdicts, *drawn]):
        row = verdicts.get(key)
        name = row.artefact if row is not None else key
        file, entry = drawn.get(key, (None, {}))
        found[name] = Artefact(
            name,
            row,
            parts[parts["artefact"] == name],
            file,
            entry.get("caption", ""),
            judges.get(name) or by_name.get(entry.get("notebook", "")),
        )
    in_order = [
        found[row.artefact]
        for paper in (*PAPERS, OTHER)
        for row in ordered(
            pd.DataFrame({"artefact": [name for name in found if found[name].paper == paper]})
        )
    ]
    return Records(in_order, sorted(problems))


def _undeclared(root: Path, declared: set[str]) -> Iterator[Problem]:
    file = paths.figures() / "verdicts.csv"
    for line, row in _rows(file):
        if row["artefact"] not in declared:
            yield Problem(
                _name(file, root),
                line,
                f"the verdict on {row['artefact']!r} has no claim: declare it in companion/claims",
            )


def _drawn(root: Path, problems: list[Problem]) -> dict[str, tuple[str, dict]]:
    """Return figure and index row by artefact in lower case."""
    found = {}
    index = paths.figures() / "index.csv"
    listed = set(seals.OTHERS)
    for line, row in _rows(index):
        png = index.parent / f"{row['artefact']}.png"
        listed.add(png.stem)
        if not png.is_file():
            missing = f"the figure {_name(png, root)} is missing"
            problems.append(Problem(_name(index, root), line, missing))
            continue
        found[row["artefact"].lower()] = _name(png, root), row
    for png in sorted(index.parent.glob("*.png")):
        if png.stem not in listed:
            said = f"{_name(png, root)} is not in the index"
            problems.append(Problem(_name(index, root), 1, said))
    return found


def _rows(file: Path) -> Iterator[tuple[int, dict[str, str]]]:
    """Yield the rows of a table with the lines that they begin at."""
    with file.open(encoding="utf-8", newline="") as text:
        reader = csv.DictReader(text)
        line = reader.line_num + 2  # below the header, which is read with the first row
        for row in reader:
            yield line, row
            line = reader.line_num + 1


def _name(file: Path, root: Path) -> str:
    return file.relative_to(root).as_posix() if file.is_relative_to(root) else str(file)


def paper_values(artefact: Artefact) -> pd.DataFrame:
    """Return the numbers transcribed from the paper for an artefact: quantity, value, source."""
    if artefact.paper == OTHER:
        return pd.DataFrame()
    table = tables.paper_values(PACKAGES[artefact.paper])
    mine = table["artefact"].str.lower() == artefact.name.lower()
    return table[mine].drop(columns="artefact")
