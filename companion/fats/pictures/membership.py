"""The picture of notebook 45: accuracy of the attack before and after forgetting, and Table 1."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from companion.fats.evidence.membership import by_seed, printed_names, printed_table
from companion.fats.evidence.table_2 import NAMES
from sflkit.fats.methods import METHODS
from sflkit.results.intervals import mean_interval

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_BEFORE = ("#000000", "D")
_STEP = 0.19  # between the rows of one cell


def draw(results: pd.DataFrame, ceiling: pd.DataFrame) -> Figure:
    """Return the figure: ours on the left, the paper's Table 1 with its limit on the right.

    Parameters
    ----------
    results : DataFrame
        `evidence.membership.results_of`.
    ceiling : DataFrame
        `evidence.membership.ceilings`.
    """
    import matplotlib.pyplot as plt

    fig, (left, right) = plt.subplots(1, 2, figsize=(10.2, 4.4), width_ratios=[3, 2])
    _ours(left, results)
    _printed(right, ceiling)
    left.axvspan(48, 52, color="0.88", zorder=0, label="within two points")
    for ax in (left, right):
        ax.axvline(50, color="0.4", linewidth=1, zorder=1)
        ax.invert_yaxis()
        ax.grid(axis="y", visible=False)
        ax.set_xlabel("accuracy of the attack, %")
    left.set_title("ours: seeds or mirror pairs (dots), mean, 95 % interval")
    right.set_title("the paper's Table 1: mean ± std")
    below = dict(fontsize=8.5, loc="upper center", handlelength=1)
    left.legend(ncols=5, bbox_to_anchor=(0.4, -0.14), columnspacing=1, **below)
    right.legend(bbox_to_anchor=(0.5, -0.14), **below)
    return fig


def _looks() -> dict[str, tuple[str, str]]:
    """Return state -> colour and marker: before forgetting, then by method."""
    return {name: (row.look.color, row.look.marker) for name, row in METHODS.items()}


def _ours(ax: Axes, results: pd.DataFrame) -> None:
    """Draw every seed, the mean and its interval of each cell and state."""
    cells = list(results.groupby(["setting", "data", "level"], sort=False).groups)
    seeds = by_seed(results).loc["shadow", "whole_accuracy"].mul(100)
    labels = {"before": "before forgetting"} | METHODS.labels()
    for i, (setting, data, level) in enumerate(cells):
        part = seeds.loc[setting, data, level]
        for j, (state, (color, marker)) in enumerate(({"before": _BEFORE} | _looks()).items()):
            values, place = part.loc[state].to_numpy(), i + _STEP * (j - 1.5)
            estimate = mean_interval(values)
            places = np.full(len(values), place)
            ax.plot(values, places, ".", color=color, alpha=0.35, markersize=5)
            if len(values) > 1:
                ends = [estimate.low, estimate.high]
                ax.plot(ends, [place, place], color=color, linewidth=1.6)
            label = labels[state] if i == 0 else None
            ax.plot(estimate.mean, place, marker, color=color, label=label)
    names = [f"{data}, {setting}\n{level}s forgotten" for setting, data, level in cells]
    ax.set_yticks(range(len(cells)), names, fontsize=9)


def _printed(ax: Axes, ceiling: pd.DataFrame) -> None:
    """Draw Table 1, and the best that any attack can do before forgetting."""
    printed = printed_table()
    for i, data in enumerate(NAMES):
        for j, (method, title) in enumerate(printed_names().items()):
            color, marker = _looks()[method]
            ax.errorbar(
                printed[f"{data} accuracy {title} (%)"],
                i + _STEP * (j - 1),
                xerr=printed[f"{data} accuracy {title} standard deviation (%)"],
                fmt=marker,
                color=color,
                markersize=5,
                elinewidth=1.4,
            )
    ax.plot(
        100 * ceiling["best attack before forgetting"],
        range(len(NAMES)),
        "|",
        color="black",
        markersize=16,
        markeredgewidth=2.5,
        label="no attack before\nforgetting can be better",
    )
    ax.set_yticks(range(len(NAMES)), NAMES)
