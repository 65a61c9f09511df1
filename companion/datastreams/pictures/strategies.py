"""Pictures of notebook 21: curves of the grid of p_hist, and gaps to Optimal.

Source: FDS (Federated Learning for Data Streams), Figs. 3 and 5 to 8. What the paper prints for the
last round (Tables 2, 4, 5) stands beside the curves, at their right.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from companion import figures
from companion.datastreams.claims.training import GAPS, PRINTED, TABLES, percent
from companion.datastreams.evidence import training as evidence
from companion.datastreams.plans import GRID, Strategies
from sflkit.data import catalogue
from sflkit.results.intervals import mean_interval

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Which curve a printed number belongs to; Uniform's and Optimal's share depends on the table.
ENDS = {"Fresh": 0.0, "Historical": 1.0}
MANY_SEEDS = 10  # from here on intervals over seeds are drawn


def grid_curves(
    runs: Strategies, row: str, found: evidence.Scores
) -> tuple[Figure, dict[str, Any]]:
    """Draw accuracy over rounds for the grid of p_hist, a panel per share of historical samples.

    CIFAR-10's figure (Fig. 3) gets the gaps to Optimal as a last panel where all shares were run.

    Parameters
    ----------
    runs : Strategies
    row : str
        The line of the tables.
    found : mapping of DataFrame
        Scores by (row, fraction), `evidence.all_scores`.

    Returns
    -------
    fig : Figure
    drawn : dict
        What it draws, for `figures.save_figure`.
    """
    import matplotlib.pyplot as plt

    from sflkit.models import NETWORKS  # it loads torch

    shown = [fraction for name, fraction in runs.found if name == row]
    with_gaps = row == "CIFAR-10" and set(shown) == set(TABLES)
    n = len(shown) + with_gaps
    fig, axes = plt.subplots(1, n, figsize=(3.5 * n + 0.8, 3.7), squeeze=False)
    drawn: dict[str, Any] = {}
    for ax, fraction in zip(axes[0], shown, strict=False):
        drawn |= _panel(ax, runs, row, fraction)
    low, high = zip(*(ax.get_ylim() for ax in axes[0][: len(shown)]), strict=True)
    for ax in axes[0][: len(shown)]:
        ax.set_ylim(min(low), max(high))
    axes[0][0].set_ylabel("test accuracy, %")
    handles, labels = axes[0][0].get_legend_handles_labels()
    fig.legend(handles, labels, loc="outside lower center", ncol=5 if n > 1 else 3, fontsize=9)
    if with_gaps:
        drawn |= gap_panel(axes[0][-1], evidence.gaps(found))
    config = runs.cases[row, shown[0]].config
    own = config.data == "logistic"
    here = "synthetic logistic regression" if own else catalogue.about(config.data)
    about = f"here: {here}; model: {NETWORKS[config.model].label}"
    fig.suptitle(f"The line {row} of the paper's tables\n{about}", fontsize=11)
    return fig, drawn


def _panel(ax: Axes, runs: Strategies, row: str, fraction: float) -> dict[str, Any]:
    """Draw the curves of one share of historical samples, and the printed values of its table."""
    case, frame = runs.cases[row, fraction], runs.found[row, fraction]
    share_of = {arm: x for x, arm in case.grid.items()}
    frame = frame.assign(p=frame["arm"].map(share_of), points=100 * frame["accuracy"])
    frame = frame.dropna(subset="p").sort_values(["p", "seed", "round"])
    many = frame["seed"].nunique() >= MANY_SEEDS
    labels = {x: f"$p_{{hist}}$ = {x:g}" for x in GRID}
    interval = 0.95 if many else None
    figures.curves(ax, frame, "round", "points", "p", interval=interval, labels=labels)
    colours = {x: line.get_color() for x, line in zip(GRID, ax.get_lines(), strict=False)}
    ax.get_legend().remove()
    late = frame[frame["round"] > 0.2 * frame["round"].max()]
    means = late.groupby(["p", "round"])["points"].mean()
    _, *printed = PRINTED[row, fraction]
    printed = dict(zip(("Fresh", "Historical", "Uniform", "Ours", "Optimal"), printed, strict=True))
    end = frame["round"].max()
    marked = [name for name in printed if name != "Ours"]
    for i, name in enumerate(marked):  # side by side, as some are equal
        colour = colours.get(ENDS.get(name), "0.4")
        marker = {"Uniform": "x", "Optimal": "*"}.get(name, "o")
        label = f"paper: {name}"
        look = dict(color=colour, markerfacecolor="white", markersize=7, linestyle="None")
        ax.plot([(1.06 + 0.06 * i) * end], [printed[name]], marker=marker, label=label, **look)
    low, high = min(means.min(), *printed.values()), max(means.max(), *printed.values())
    room = 0.06 * (high - low)
    ax.set(xlabel="round t", ylabel="", title=f"{percent(fraction)} historical")
    ax.set(ylim=(low - room, high + room), xlim=(0, 1.3 * end))
    ax.set_xticks(np.unique(np.linspace(0, end, 6).round()))
    groups = frame.groupby(["p", "round"])["points"]
    lines = [(*key, mean_interval(sample.to_numpy())) for key, sample in groups]
    rows = [(p, t, e.mean, e.low, e.high, e.n) for p, t, e in lines]
    columns = ["p", "round", "points", "low", "high", "seeds"]
    return {f"{fraction:g}": pd.DataFrame(rows, columns=columns)}


def gap_panel(ax: Axes, gaps: Mapping[tuple[str, float], np.ndarray]) -> dict[str, np.ndarray]:
    """Draw the gaps to Optimal with 95 % intervals, and the printed ones; return ours, in points.

    `gaps` are shares by (name, fraction), as `evidence.gaps` returns them.
    """
    x, drawn = [100 * fraction for fraction in TABLES], {}
    for i, (name, printed) in enumerate(GAPS.items()):
        look = figures.series_style(name, i)
        ours = np.stack([100 * gaps[name, fraction] for fraction in TABLES])
        found = [mean_interval(sample) for sample in ours]
        half = [e.high - e.mean for e in found]
        ax.errorbar(x, [e.mean for e in found], half, capsize=3, label=f"{name}, here", **look)
        hollow = look | {"linestyle": ":", "markerfacecolor": "white"}
        ax.plot(x, printed, label=f"{name}, paper", **hollow)
        drawn[f"gap {name}"] = ours
    ax.axhline(0, color="0.6", linewidth=0.8)
    ax.set(xlabel="historical samples, %", ylabel="points below Optimal")
    ax.set_title("gap to Optimal, the best of the grid")
    ax.set_xticks(x)
    ax.legend(fontsize=8)
    return drawn
