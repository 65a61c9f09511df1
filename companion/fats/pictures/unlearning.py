"""The pictures of notebook 42: Figs. 1, 5 and 8 as the paper draws them, and the law behind them.

Each function draws into axes that it is given. Accuracies are those of
`evidence.unlearning.clocked`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from companion import figures, sheets
from companion.fats import recovery
from sflkit.fats.first_uses import LEVELS
from sflkit.fats.methods import METHODS

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Panels of the authors' curves: figure -> the paper's data set -> level -> panel.
PANELS = {
    "fats-fig5": {
        "MNIST": {"sample": "a", "client": "d"},
        "Fashion-MNIST": {"sample": "b", "client": "e"},
        "CIFAR-10": {"sample": "c", "client": "f"},
    },
    "fats-fig8": {
        "MNIST": {"sample": "a", "client": "b"},
        "FEMNIST": {"sample": "c", "client": "d"},
    },
}
# The authors' name of a method -> our colour of it.
COLORS = {
    "FATS": METHODS["fats"].look.color,
    "FRS": METHODS["frs"].look.color,
    "FR2": METHODS["fr2"].look.color,
}


def figure5(axes: np.ndarray, shown: pd.DataFrame, ran: Mapping[str, str]) -> None:
    """Draw Fig. 5: samples above, clients below, a column for each of the paper's data sets.

    Parameters
    ----------
    axes : array of Axes (2, 3)
    shown : DataFrame
        `evidence.unlearning.clocked` of our runs.
    ran : mapping
        The paper's data set -> ours that was run for it; the others show the authors' curves alone.
    """
    for column, (name, panels) in zip(axes.T, PANELS["fats-fig5"].items(), strict=True):
        for ax, level in zip(column, LEVELS, strict=True):
            if name in ran:
                accuracy(ax, shown, ran[name], level)
            drawn = sheets.authors_curves(ax, "fats-fig5", panels[level], COLORS)
            note = "" if name in ran else " (not run)"
            ax.set(title=f"{name}, {level}s{note}", xlim=(0, drawn["x"].max()), ylim=(0, 1))
        column[1].set_xlabel("communication round")
    _label(axes)


def figure8(axes: np.ndarray, shown: pd.DataFrame, data: str) -> None:
    """Draw Fig. 8: our stream on `data` beside the authors' curves, samples above, clients below.

    The requests come at other rounds than the authors', so that the curves have panels of their
    own: ours, and the authors' on MNIST and on FEMNIST, in axes of the same range.

    Parameters
    ----------
    axes : array of Axes (2, 3)
    shown : DataFrame
        `evidence.unlearning.clocked` of our runs.
    data : str
        Which of our data sets stands in the first column.
    """
    for row, level in zip(axes, LEVELS, strict=True):
        accuracy(row[0], shown, data, level)
        row[0].set(title=f"{level}s, MNIST: ours, 10 requests", xlim=(0, 120), ylim=(0, 1))
        for ax, (name, panels) in zip(row[1:], PANELS["fats-fig8"].items(), strict=True):
            sheets.authors_curves(ax, "fats-fig8", panels[level], COLORS)
            ax.set(title=f"{level}s, {name}: paper, 3 requests", xlim=(0, 120), ylim=(0, 1))
    for ax in axes[1]:
        ax.set_xlabel("communication round")
    _label(axes)


def figure1(axes: np.ndarray, shown: pd.DataFrame, data: str) -> None:
    """Draw our data set of Fig. 1: samples left, clients right."""
    notes = (f"FEMNIST (stand-in: {data})", "CIFAR-100, Shakespeare: not run")
    for ax, level, note in zip(axes, LEVELS, notes, strict=True):
        accuracy(ax, shown, data, level)
        ax.set(title=f"Figure 1, {level}s; {note}", ylim=(0, 1))
        ax.set_xlabel("communication round")
    axes[0].set_ylabel("test accuracy")
    axes[0].legend(ncols=3)


def accuracy(ax: Axes, shown: pd.DataFrame, data: str, level: str) -> None:
    """Draw each method's mean accuracy over the runs with its 95 % interval, without a legend."""
    part = shown[(shown["level"] == level) & (shown["data"] == data)]
    # The fall at a request is drawn upright: what is recomputed starts a little later.
    part = part.assign(clock=part["clock"] + 0.02 * (part["phase"] == "recovery"))
    figures.curves(ax, part, "clock", "accuracy", "method", rules=METHODS, markers=0)
    for line in ax.get_lines():
        line.set_marker("None")
    ax.legend().remove()
    ax.set(xlabel="", ylabel="")


def law(ax: Axes, runs: pd.DataFrame, level: str) -> None:
    """Draw the law of the round that FATS goes back to, and the accuracy at each such round.

    Parameters
    ----------
    ax : Axes
    runs : DataFrame
        Rows of `training.run` with their configs, of one data set.
    level : {"sample", "client"}
    """
    paths = recovery.paths_of(runs)
    laws, keys = recovery.laws_of(runs)
    mine = keys.get_locs([slice(None), level, slice(None), "fats"])
    chances = laws[mine].mean(axis=0)
    path = paths.recomputed[paths.index.get_indexer(keys[mine])].mean(axis=0)
    rounds, after = np.arange(len(chances)), float((chances * path).sum())
    ax.bar(rounds, chances, color="0.8", width=0.8, label="probability of that round")
    ax.plot(rounds, path, color=COLORS["FATS"], label="accuracy of the model kept before it")
    ax.axhline(after, color="black", linestyle="--", linewidth=1.4, label="its mean over the bars")
    ax.annotate(f"{after:.2f}", (0.72 * rounds[-1], after), (0, 4), textcoords="offset points")
    ax.annotate("no use", (rounds[-1], chances[-1]), (0, 3), textcoords="offset points", ha="right")
    ax.set(xlabel="round that FATS goes back to", ylim=(0, 1), title=f"{level}s")


def _label(axes: np.ndarray) -> None:
    """Name the axes of a sheet, and put its legend above it."""
    for row in axes:
        row[0].set_ylabel("test accuracy")
        for ax in row[1:]:
            ax.tick_params(labelleft=False)
    handles = [axes[0, 0].plot([], [], color=color)[0] for color in COLORS.values()]
    for line in ("-", "--"):
        handles += axes[0, 0].plot([], [], color="0.35", linestyle=line)
    names = [name.replace("2", "²") for name in COLORS] + ["ours, 95 %", "the paper"]
    axes[0, 0].figure.legend(handles, names, loc="outside upper center", ncols=5)
