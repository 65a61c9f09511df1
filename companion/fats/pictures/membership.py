"""The picture of notebook 45: Table 1 with ours in the same rows and columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from companion.fats.evidence.membership import by_seed, printed_names, printed_table
from companion.fats.evidence.table_2 import NAMES
from sflkit.fats.methods import METHODS
from sflkit.results.intervals import mean_interval

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_STEP = 0.17  # between the marks of one row
_COLORS = {"before": "#000000"} | {name: row.look.color for name, row in METHODS.items()}
_LABELS = {"before": "before forgetting"} | METHODS.labels()


def table1(
    axes: Sequence[Axes], results: pd.DataFrame, ceiling: pd.DataFrame, partner: Mapping[str, str]
) -> None:
    """Draw Table 1: its rows from above, the paper's cells hollow, ours full, accuracy left.

    Below stand the rows of a federation of ours that learnt its samples by heart.

    Parameters
    ----------
    axes : two Axes
        For accuracy and precision, with a shared y.
    results : DataFrame
        `evidence.membership.results_of`.
    ceiling : DataFrame
        `evidence.membership.ceilings`.
    partner : mapping
        Our data set -> the row of the paper that it stands in.
    """
    seeds = by_seed(results).loc["shadow"].mul(100)
    cells = list(results.groupby(["setting", "data", "level"], sort=False).groups)
    by_heart = [cell for cell in cells if cell[0] == "overfitted"]
    rows = {(setting, data, level): NAMES.index(partner[data]) for setting, data, level in cells}
    rows |= {cell: len(NAMES) + i for i, cell in enumerate(by_heart)}
    for ax, what in zip(axes, ("accuracy", "precision"), strict=True):
        _printed(ax, what)
        for cell, row in rows.items():
            _ours(ax, seeds.loc[cell, f"whole_{what}"], row)
        ax.axvline(50, color="0.4", linewidth=1, zorder=1)
        ax.grid(axis="y", visible=False)
        ax.set_xlabel(f"{what} of the attack, %")
    best = 100 * ceiling["best attack before forgetting"]
    look = {"color": "black", "markersize": 16, "markeredgewidth": 2.5}
    axes[0].plot(best, range(len(NAMES)), "|", **look, label="best possible before")
    axes[0].set(xlim=(40, 78))
    axes[1].set(xlim=(0, 82))
    names = [*NAMES, *(f"ours: by heart, {level}s" for *_, level in by_heart)]
    axes[0].set_yticks(range(len(names)), names)
    axes[0].invert_yaxis()
    for name, color in _COLORS.items():
        axes[0].plot([], [], "o", color=color, label=_LABELS[name])
    axes[0].plot([], [], "D", color="0.35", markerfacecolor="none", label="the paper ± std")
    handles, labels = axes[0].get_legend_handles_labels()
    axes[0].figure.legend(handles, labels, loc="outside upper center", ncols=6, fontsize=9)


def _printed(ax: Axes, what: str) -> None:
    """Draw the paper's cells of one column group, with their standard deviations."""
    printed = printed_table()
    for i, data in enumerate(NAMES):
        for j, (method, title) in enumerate(printed_names().items()):
            ax.errorbar(
                printed[f"{data} {what} {title} (%)"],
                i + _STEP * (j - 1),
                xerr=printed[f"{data} {what} {title} standard deviation (%)"],
                fmt="D",
                color=_COLORS[method],
                markerfacecolor="none",
                markersize=5,
                elinewidth=1,
            )


def _ours(ax: Axes, seeds: pd.Series, row: int) -> None:
    """Draw the mean of each state over the seeds, with its 95 % interval where there are many."""
    for j, (state, color) in enumerate(_COLORS.items()):
        values, place = seeds.loc[state].to_numpy(), row + _STEP * (j - 2)
        ax.plot(np.mean(values), place, "o", color=color, markersize=5, zorder=4)
        if len(values) > 2:
            found = mean_interval(values)
            ax.plot([found.low, found.high], [place, place], color=color, linewidth=2)
