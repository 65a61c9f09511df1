"""Two runs of a notebook side by side: `sflkit compare 10-1 10-2`, or `published 10-1`."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from companion.app import gate
from companion.judging.tables import markdown
from sflkit import paths

SETTINGS = "settings.json"  # of a run: its notebook and the value of each parameter
PUBLISHED = "published"
_LINES = 12  # of a figure, at most, that a table of means tells apart
# Columns whose mean says nothing: where a point lies and how far and of how many it is a mean.
_BESIDE = ["round", "index", "seed", "seeds", "count", "std", "low", "high"]


class Run(NamedTuple):
    """A run of `sflkit run`, or what is published of its notebook."""

    name: str
    notebook: str
    settings: dict[str, Any]
    figures: Path


def write(first: str, second: str) -> Path:
    """Write a page that lays two runs of one notebook side by side, and return it.

    It has the settings that differ, the figures of both, and the means of the columns behind them.

    Raises
    ------
    gate.GateError
        If there is no such run, or the two are of different notebooks.
    """
    runs = [_run(name) for name in (first, second)]
    of = {run.notebook for run in runs} - {""}
    if len(of) != 1:
        raise gate.GateError(
            f"{first} and {second} are runs of {sorted(of) or 'nothing'}; give two of one notebook"
        )
    (notebook,) = of
    runs = [_published(notebook) if run.name == PUBLISHED else run for run in runs]
    page = paths.out() / "runs" / f"{first}-against-{second}.md"
    paths.write_atomic(page, _page(notebook, *runs, page.parent))
    return page


def _run(name: str) -> Run:
    if name == PUBLISHED:
        return Run(name, "", {}, Path())
    folder = paths.out() / "runs" / name
    try:
        said = json.loads(paths.read(folder / SETTINGS))
        return Run(name, said["notebook"], said["settings"], folder / "figures")
    except (OSError, ValueError, KeyError, TypeError):
        there = sorted(file.parent.name for file in folder.parent.glob(f"*/{SETTINGS}"))
        known = ", ".join([PUBLISHED, *there])
        raise gate.GateError(f"no run {name!r} of `sflkit run`; there are: {known}") from None


def _published(notebook: str) -> Run:
    book = gate.find(notebook)
    return Run(PUBLISHED, notebook, gate.values(book), gate.root() / "figures")


def _page(notebook: str, a: Run, b: Run, folder: Path) -> str:
    differ = [
        {"parameter": name, a.name: a.settings[name], b.name: b.settings.get(name)}
        for name in a.settings
        if a.settings[name] != b.settings.get(name)
    ]
    lines = [f"# {notebook}: {a.name} beside {b.name}", ""]
    lines += [markdown(pd.DataFrame(differ)) if differ else "The settings are the same.", ""]
    both = sorted(
        {p.stem for p in a.figures.glob("*.png")} & {p.stem for p in b.figures.glob("*.png")}
    )
    for artefact in both:
        shown = [os.path.relpath(run.figures / f"{artefact}.png", folder) for run in (a, b)]
        pictures = pd.DataFrame([{run.name: f"![]({file})" for run, file in zip((a, b), shown)}])
        lines += [f"## {artefact}", "", markdown(pictures), "", _means(artefact, a, b), ""]
    return "\n".join(lines)


def _means(artefact: str, a: Run, b: Run) -> str:
    """Return the mean of each measured column behind a figure, in both runs, as a table.

    Where a column of words tells a few lines apart, such as the rules, each has means of its own.
    """
    read = {run.name: pd.read_csv(run.figures / f"{artefact}.csv") for run in (a, b)}
    found = {name: frame.drop(columns=_BESIDE, errors="ignore") for name, frame in read.items()}
    words = [
        name
        for name, column in found[a.name].items()
        if not pd.api.types.is_numeric_dtype(column) and column.nunique() <= _LINES
    ]
    if words and all(words[0] in frame for frame in found.values()):
        by = {name: frame.groupby(words[0], sort=False) for name, frame in found.items()}
        means = {name: groups.mean(numeric_only=True).stack() for name, groups in by.items()}
        named = [words[0], "mean of"]
    else:
        means = {name: frame.mean(numeric_only=True) for name, frame in found.items()}
        named = ["mean of"]
    table = pd.DataFrame(means).dropna(how="all").rename_axis(named).reset_index()
    return markdown(table.map(lambda cell: f"{cell:.4g}" if isinstance(cell, float) else cell))
