"""Pictures of notebook 21: curves of the grid of p_hist, and the printed differences beside ours.

Source: FDS (Federated Learning for Data Streams), Figs. 3 and 5 to 8, Tables 2, 4 and 5. What the
tables print for the last round stands at the right of the curves, hollow.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from companion import figures, sheets
from companion.datastreams.evidence.strategies import printed_cells
from companion.datastreams.plans import Case, Strategies
from companion.datastreams.printed import percent
from sflkit.data import catalogue

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# The two readings of the paper's curves: column of a run, and what it is.
READINGS = {
    "accuracy": "output of Algorithm 1\n(mean of the models), %",
    "accuracy_last": "last model, %",
}
MARKED = ("Fresh", "Historical", "Uniform", "Optimal")
MANY_SEEDS = 10  # from here on intervals over seeds are drawn
_GREY, _BLACK = "0.45", "black"
_FOREST = {"averaged": ("#0072B2", "o", -0.17), "last": ("#D55E00", "s", 0.17)}


def grid_curves(runs: Strategies, row: str, number: int) -> tuple[Figure, dict[str, Any]]:
    """Draw accuracy over rounds for the grid of p_hist, a column per share of historical samples.

    The upper row has the averaged output and the lower one the last iterate, since the paper does
    not say which of them its curves show.

    Parameters
    ----------
    runs : Strategies
    row : str
        The line of the tables.
    number : int
        That of the paper's figure.

    Returns
    -------
    fig : Figure
    drawn : dict
        What it draws, for `figures.save_figure`.
    """
    import matplotlib.pyplot as plt

    from sflkit.models import NETWORKS  # it loads torch

    shown = [fraction for name, fraction in runs.found if name == row]
    fig, axes = plt.subplots(2, len(shown), figsize=(9.6, 5.6), sharex=True, sharey="row")
    drawn: dict[str, Any] = {}
    for ax, (column, name) in zip(axes, READINGS.items(), strict=True):
        for j, fraction in enumerate(shown):
            case = runs.cases[row, fraction]
            lines = means(runs.found[row, fraction], case, column)
            _panel(ax[j], lines, case)
            drawn[f"last {fraction:g}" if "last" in column else f"{fraction:g}"] = lines
        ax[0].set(ylabel=name, ylim=_range(drawn, row, shown))
    for ax, fraction in zip(axes[0], shown, strict=True):
        ax.set_title(f"{percent(fraction)} historical")
    for ax in axes[1]:
        ax.set_xlabel("round t")
    sheets.explain_marks(axes[0][0], marks=True)
    legend = axes[0][0].get_legend()
    handles, labels = legend.legend_handles, [text.get_text() for text in legend.get_texts()]
    legend.remove()
    fig.legend(handles, labels, loc="outside lower center", ncol=6, fontsize=9, columnspacing=1.2)
    config = runs.cases[row, shown[0]].config
    own = config.data == "logistic"
    here = "synthetic logistic regression" if own else catalogue.about(config.data)
    title = f"Figure {number}, {row}. Here: {here}; {NETWORKS[config.model].label} model"
    marks = "F, H, U, O: what the tables print for Fresh, Historical, Uniform, Optimal"
    fig.suptitle(f"{title}, {config.rounds} rounds\n{marks}", fontsize=11)
    return fig, drawn


def _range(drawn: dict[str, pd.DataFrame], row: str, shown: list[float]) -> tuple[float, float]:
    """Return the range of y: that of the printed ends and of the curves after their first fifth."""
    late = [of.loc[of["round"] > 0.2 * of["round"].max(), "points"] for of in drawn.values()]
    printed = [printed_cells(row, f)[name][0] for f in shown for name in MARKED]
    low, high = min(printed + [x.min() for x in late]), max(printed + [x.max() for x in late])
    room = 0.05 * (high - low)
    return low - room, high + 2 * room


def means(frame: pd.DataFrame, case: Case, column: str) -> pd.DataFrame:
    """Return mean and 95 % interval over seeds in %: p, round, points, low, high, seeds."""
    from scipy import stats

    share_of = {arm: x for x, arm in case.grid.items()}
    frame = frame.assign(p=frame["arm"].map(share_of), y=100 * frame[column]).dropna(subset="p")
    of = frame.groupby(["p", "round"])["y"].agg(["mean", "std", "count"]).reset_index()
    half = stats.t.ppf(0.975, of["count"] - 1) * of["std"] / of["count"] ** 0.5
    columns = {"points": of["mean"], "low": of["mean"] - half, "high": of["mean"] + half}
    return of[["p", "round"]].assign(**columns, seeds=of["count"])


def _panel(ax: Axes, lines: pd.DataFrame, case: Case) -> None:
    """Draw the curves of one share of historical samples, and the printed ends of its table."""
    colours = {}
    for i, (p, part) in enumerate(lines.groupby("p")):
        look = figures.series_style(None, i) | {"marker": "None"}
        colours[p] = look["color"]
        ax.plot(part["round"], part["points"], **look, label=f"$p_{{hist}}$ = {p:g}")
        if part["seeds"].min() >= MANY_SEEDS:
            band = dict(color=look["color"], alpha=0.18, linewidth=0)
            ax.fill_between(part["round"], part["low"], part["high"], **band)
    printed = {name: printed_cells(case.row, case.fraction)[name][0] for name in MARKED}
    end = lines["round"].max()
    at = {name: (1.08 + 0.08 * i) * end for i, name in enumerate(MARKED)}
    uniform = colours.get(case.fraction, _GREY)
    of = {"Fresh": colours[0.0], "Historical": colours[1.0], "Uniform": uniform, "Optimal": _BLACK}
    sheets.printed_marks(ax, at, printed, of)
    for name, x in at.items():
        top = dict(xytext=(0, 1), textcoords="offset points", fontsize=8, color=_GREY, ha="center")
        ax.annotate(name[0], (x, 1), xycoords=ax.get_xaxis_transform(), **top)
    ax.set(xlim=(0, 1.4 * end), xticks=np.unique(np.linspace(0, end, 6).round()))


def forest(differences: pd.DataFrame) -> Figure:
    """Draw the printed differences of strategies with ours, averaged and last.

    `differences` is that of `evidence.strategies`.
    """
    import matplotlib.pyplot as plt

    pairs = list(dict.fromkeys(differences["pair"]))
    lines = list(dict.fromkeys(zip(differences["row"], differences["fraction"], strict=True)))
    place = {line: i + 0.6 * (i // 3) for i, line in enumerate(lines)}
    fig, axes = plt.subplots(1, len(pairs), figsize=(9.6, 6.2), sharey=True)
    for ax, pair in zip(axes, pairs, strict=True):
        part = differences[differences["pair"] == pair]
        y = np.array([place[line] for line in zip(part["row"], part["fraction"], strict=True)])
        for name, (color, marker, shift) in _FOREST.items():
            reach = [part[name] - part[f"{name} low"], part[f"{name} high"] - part[name]]
            look = dict(fmt=marker, color=color, markersize=4, elinewidth=1.3, label=name)
            ax.errorbar(part[name], y + shift, xerr=reach, **look)
        hollow = dict(marker="D", markerfacecolor="none", markeredgecolor="black", markersize=7)
        ax.plot(part["paper"], y, linestyle="None", **hollow, label="hollow: the paper")
        ax.axvline(0, color="0.4", linewidth=1)
        ax.set(title=pair, xlabel="points")
    names = [f"{row}, {percent(fraction)}" for row, fraction in lines]
    axes[0].set_yticks([*place.values()], names)
    axes[0].invert_yaxis()
    handles, labels = axes[0].get_legend_handles_labels()
    fig.legend(handles, labels, loc="outside lower center", ncol=3)
    return fig
