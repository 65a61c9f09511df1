"""What several modules on data streams share: the lines of Tables 2, 4 and 5, what they print, both
readings of their scores.

Source: FDS (Federated Learning for Data Streams), Tables 2, 4 and 5.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from functools import cache

import pandas as pd

from companion import sheets
from companion.claims import DATASTREAMS
from companion.judging.tables import paper_value, paper_values

ROWS = ("synthetic", "CIFAR-10", "CIFAR-100", "FEMNIST", "Shakespeare")
BASELINES = ("Fresh", "Historical", "Uniform")
TABLES = {0.05: "ds-tab4", 0.2: "ds-tab2", 0.5: "ds-tab5"}
FIGURES = {
    "ds-fig5": "synthetic",
    "ds-fig6": "CIFAR-100",
    "ds-fig7": "FEMNIST",
    "ds-fig8": "Shakespeare",
}


def artefact_of(row: str, fraction: float) -> str:
    """Return the id of a line of the tables, such as "ds-tab2-cifar10"."""
    suffix = "" if row == "synthetic" else "-" + row.lower().replace("-", "")
    return TABLES[fraction] + suffix


@cache
def printed_line(row: str, fraction: float) -> dict[str, float]:
    """Return what a line prints: p_hist, and the accuracy of each strategy in %."""
    table = paper_values("datastreams")
    values = table[table["artefact"] == TABLES[fraction]].set_index("quantity")["value"]
    names = ("p_hist", *BASELINES, "Ours", "Optimal")
    return {name: float(values[f"{row} {name.lower()}"]) for name in names}


def nearest_share(row: str, fraction: float) -> float:
    """Return the share of the grid, not 0, that is nearest to the reported p_hist.

    0 leaves the old data out, which no reported share does.
    """
    return min((0.2, 0.5, 0.8, 1.0), key=lambda x: abs(x - printed_line(row, fraction)["p_hist"]))


def percent(fraction: float) -> str:
    """Return 0.05 as "5 %"."""
    return f"{100 * fraction:g} %"


def rivals(row: str, fraction: float) -> tuple[str, ...]:
    """Return the baselines with which Ours is compared: not with the one that it is itself."""
    keys = {part.key for part in DATASTREAMS[artefact_of(row, fraction)].parts}
    return tuple(name for name in BASELINES if f"ours, {name}" in keys)


VALIDATION = 0.2  # share of every client's samples that choose the rate

SHOWN = ("Fresh", "Historical", "Uniform", "Ours", "Optimal")


@functools.cache
def printed_cells(row: str, fraction: float) -> dict[str, tuple[float, float]]:
    """Return number and half width that a line of Tables 2, 4, 5 prints, in %, by strategy."""
    return {
        name: tuple(
            paper_value("datastreams", TABLES[fraction], f"{row} {name.lower()}{part}")
            for part in ("", " half width")
        )
        for name in SHOWN
    }


def both_iterates(
    averaged: Mapping[str, Mapping], last: Mapping[str, Mapping], paper: Mapping[str, Mapping]
) -> pd.DataFrame:
    """Return a table of the paper with both readings of ours: four lines for each of its rows.

    The averaged output of Algorithm 1, the last iterate, the paper, and the difference of each from
    the paper. The arguments are those of `sheets.table`.
    """
    mean, end = (sheets.table(ours, paper, corner="data") for ours in (averaged, last))
    both = mean.loc[(slice(None), sheets.DIFFERENCE), :] + ",  "
    both += end.loc[(slice(None), sheets.DIFFERENCE), :]
    lines = {}
    for row in paper:
        lines[row, "averaged"] = mean.loc[(row, sheets.OURS)]
        lines[row, "last iterate"] = end.loc[(row, sheets.OURS)]
        lines[row, sheets.PAPER] = mean.loc[(row, sheets.PAPER)]
        lines[row, "differences"] = both.loc[(row, sheets.DIFFERENCE)]
    return pd.DataFrame(lines).T.rename_axis(mean.index.names)
