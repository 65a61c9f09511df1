"""The pictures of notebook 42: accuracy around requests, all at once and one after another."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from companion import figures
from companion.fats import recovery
from sflkit.fats.first_uses import LEVELS
from sflkit.fats.methods import METHODS

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Settings = Mapping[str, Mapping[str, Any]]


def at_once(
    shown: pd.DataFrame, runs: pd.DataFrame, datasets: Sequence[str], settings: Settings
) -> Figure:
    """Return Fig. 1 or 5: accuracy over rounds, and beside it the law of the hit round.

    Parameters
    ----------
    shown : DataFrame
        `evidence.unlearning.clocked` of the runs.
    runs : DataFrame
        Rows of `training.run` with their configs.
    datasets, settings
        Which data sets are drawn, and the fields of their configs.
    """
    import matplotlib.pyplot as plt

    size = (10.4 * len(datasets), 6.6)
    grid = dict(figsize=size, sharex="col", sharey="row", squeeze=False)
    fig, axes = plt.subplots(2, 2 * len(datasets), **grid)
    for j, data in enumerate(datasets):
        mine = runs[runs["data"] == data]
        rounds, w = settings[data]["rounds"], settings[data]["n_requests"]
        for i, level in enumerate(LEVELS):
            left, right = axes[i, 2 * j], axes[i, 2 * j + 1]
            top = _accuracy(left, shown, data, level, markers=6)
            left.axvline(rounds, color="0.4", linestyle=":", linewidth=1.2)
            left.set_title(f"{data}: {w} {level}{'s' * (w > 1)} forgotten, mean of the runs")
            _law(right, mine, level, top)
            right.set_title(f"{data}, {level}s: where FATS goes back to")
        axes[1, 2 * j].set_xlabel("communication rounds")
        axes[1, 2 * j + 1].set_xlabel("round that FATS goes back to")
    for row in axes:
        row[0].set_ylabel("test accuracy")
    methods, laws = (ax.get_legend_handles_labels() for ax in axes[0, :2])
    # A legend is filled column by column: a method, and below it what the right panels draw.
    handles, labels = (
        [shown for pair in zip(*both, strict=True) for shown in pair]
        for both in zip(methods, laws, strict=True)
    )
    fig.legend(handles, labels, loc="outside upper center", ncols=3, fontsize=10)
    return fig


def one_by_one(
    shown: pd.DataFrame,
    runs: pd.DataFrame,
    datasets: Sequence[str],
    settings: Settings,
    interval: int,
) -> Figure:
    """Return Fig. 8: accuracy on a clock that brings a request every `interval` rounds, and costs.

    Means are thick lines and runs are thin ones, as intervals of a few runs would fill the panels.
    In the right panels FRS's line is wide, since FR² costs the same. The parameters are those of
    `at_once`.
    """
    import matplotlib.pyplot as plt

    ratios = [3, 2] * len(datasets)
    grid = dict(sharex="col", squeeze=False, width_ratios=ratios)
    fig, axes = plt.subplots(2, len(ratios), figsize=(9.6 * len(datasets), 6), **grid)
    spent = steps_spent(runs)
    for j, data in enumerate(datasets):
        rounds, w = settings[data]["rounds"], settings[data]["n_requests"]
        for i, level in enumerate(LEVELS):
            left, right = axes[i, 2 * j], axes[i, 2 * j + 1]
            _accuracy(left, shown, data, level, markers=8, runs=True)
            for n in range(w):
                left.axvline(rounds + n * interval, color="0.4", linestyle=":", linewidth=1.2)
            left.set(ylabel="test accuracy", title=f"{data}: {w} {level}s, one by one")
            mine = spent[(spent["level"] == level) & (spent["data"] == data)]
            columns = ("requests", "unlearning_steps", "method")
            figures.curves(right, mine, *columns, rules=METHODS, interval=None)
            for line in right.get_lines():
                if line.get_label() == METHODS["frs"].label:
                    line.set(linewidth=5, markersize=8)
            _runs(right, mine, *columns[:2])
            right.legend().remove()
            right.set(xlabel="", ylabel="steps recomputed so far", title=f"{level}s: cost")
            right.set(xticks=range(1, w + 1, max(1, w // 5)), ylim=(0, None))
        axes[1, 2 * j].set_xlabel("clock, communication rounds")
        axes[1, 2 * j + 1].set_xlabel("requests so far")
    fig.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside upper center", ncols=3)
    return fig


def steps_spent(runs: pd.DataFrame) -> pd.DataFrame:
    """Return the steps recomputed until each request of a stream is served, methods in order."""
    made = runs[runs["phase"] == "recovery"]
    by = [*recovery.RUN, "requests"]
    spent = made.groupby(by)["unlearning_steps"].last().reset_index()
    order = list(METHODS)
    return spent.sort_values("method", key=lambda names: names.map(order.index), kind="stable")


def _accuracy(
    ax: Axes, shown: pd.DataFrame, data: str, level: str, markers: int, *, runs: bool = False
) -> float:
    """Draw the mean accuracy of each method on the clock and return the largest value.

    With it go the 95 % intervals, or all runs where `runs` says so.
    """
    part = shown[(shown["level"] == level) & (shown["data"] == data)]
    # The fall at a request is drawn upright: what is recomputed starts a little later.
    part = part.assign(clock=part["clock"] + 0.02 * (part["phase"] == "recovery"))
    how = {"rules": METHODS, "markers": markers, "interval": None if runs else 0.95}
    figures.curves(ax, part, "clock", "accuracy", "method", **how)
    if runs:
        _runs(ax, part.sort_values("clock"), "clock", "accuracy")
    top = float(part["accuracy"].max())
    ax.set(xlabel="", ylabel="", ylim=(0, min(1.02, 1.15 * top)))
    ax.legend().remove()
    return top


def _runs(ax: Axes, frame: pd.DataFrame, x: str, y: str) -> None:
    """Draw each run of `frame` as a thin line in its method's colour."""
    for (method, _), run in frame.groupby(["method", "seed"]):
        ax.plot(run[x], run[y], color=METHODS[method].look.color, linewidth=0.6, alpha=0.6)


def _law(ax: Axes, runs: pd.DataFrame, level: str, top: float) -> None:
    """Draw the law of the round that FATS goes back to, and the accuracy at each such round."""
    paths = recovery.paths_of(runs)
    laws, keys = recovery.laws_of(runs)
    mine = keys.get_locs([slice(None), level, slice(None), "fats"])
    law = laws[mine].mean(axis=0)
    path = paths.recomputed[paths.index.get_indexer(keys[mine])].mean(axis=0)
    rounds, after = np.arange(len(law)), float((law * path).sum())
    scaled = law / law.max() * top
    ax.bar(rounds, scaled, color="0.82", width=0.8, label="probability p of the round, own scale")
    color = METHODS["fats"].look.color
    ax.plot(rounds, path, color=color, label="FATS's accuracy after so many rounds")
    dashed = dict(color="black", linestyle="--", linewidth=1.4)
    ax.axhline(after, **dashed, label="expected accuracy after the request")
    ax.text(0.7 * rounds[-1], after + 0.015, f"{after:.2f}", fontsize=10)
    # The bars have no axis of their own: the first and the last say how much they are.
    ax.text(0.6, scaled[0], f"p = {law[0]:.2g}", va="center", fontsize=8)
    text = f"no hit: p = {law[-1]:.2g}"
    ax.text(rounds[-1], 0.02 * top, text, rotation=90, ha="center", va="bottom", fontsize=8)
    ax.xaxis.get_major_locator().set_params(integer=True)
    ax.set_xlim(-0.6, rounds[-1] + 0.6)
