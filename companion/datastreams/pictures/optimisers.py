"""The pictures of notebook 22: client drift on two quadratics, and strategies by optimiser."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from companion import figures, sheets
from companion.datastreams.drift_example import CURVATURE, OWN_BEST, optimum
from companion.datastreams.evidence.optimisers import (
    OPTIMISERS,
    STRATEGIES,
    printed_accuracies,
)
from sflkit.results.intervals import mean_interval

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def drift(fixed: dict[str, np.ndarray], streaming: dict[str, np.ndarray]) -> Figure:
    """Return the paths of the global model on fixed data, its error, and that on streaming data.

    `fixed` and `streaming` hold `drift_example.path` by name, FedAvg first and SCAFFOLD last.
    """
    import matplotlib.pyplot as plt

    fig, axes = plt.subplots(1, 3, figsize=(11, 3.8), width_ratios=[4, 3, 4])
    slope, intercept = np.meshgrid(np.linspace(-0.3, 1.6, 80), np.linspace(-0.6, 1.15, 80))
    loss = sum(
        (h * (np.stack([slope, intercept], axis=-1) - a) ** 2).sum(axis=-1)
        for h, a in zip(CURVATURE, OWN_BEST)
    )
    axes[0].contour(slope, intercept, loss, levels=12, colors="0.8", linewidths=0.8)
    best = optimum()
    for name, look in _looks(list(fixed)).items():
        axes[0].plot(*fixed[name].T, **look | {"marker": "o", "markersize": 3}, label=name)
        axes[1].semilogy(np.maximum(np.abs(fixed[name][:, 0] - best[0]), 1e-4), **look)
        axes[2].plot(streaming[name][:61, 0] - best[0], **look | {"linewidth": 1.5})
    axes[0].plot(*best, "*", color="black", markersize=13, zorder=5, label="optimum")
    axes[0].set(xlabel="slope", ylabel="intercept", title="global model, one dot a round")
    axes[1].set(xlabel="round", ylabel="|slope - optimum|", title="fixed data", ylim=(1e-4, 3))
    title = "client 2's points are new in each round"
    axes[2].set(xlabel="round", ylabel="slope - optimum", title=title, ylim=(-0.6, 0.9))
    axes[2].axhline(0, color="0.4", linewidth=1)
    handles, labels = axes[0].get_legend_handles_labels()
    fig.legend(handles, labels, loc="outside lower center", ncol=len(labels))
    return fig


def by_optimiser(score: pd.DataFrame, title: str) -> Figure:
    """Return accuracies by strategy and optimiser, and what each optimiser changes against FedAvg.

    The paper's numbers stand in the same axes, hollow. `score` is `final_scores` of the evidence;
    `title` says what was trained.
    """
    import matplotlib.pyplot as plt

    fig, (left, right) = plt.subplots(1, 2, figsize=(9.6, 4.2), width_ratios=[3, 2])
    paper, place = printed_accuracies(), np.arange(len(STRATEGIES))
    for i, (name, label) in enumerate(OPTIMISERS.items()):
        look = figures.series_style(label, i) | {"linestyle": "None"}
        bar = look | dict(capsize=3, elinewidth=1.4, label=label)
        color, at = {label: look["color"]}, place + 0.22 * (i - 1)
        left.errorbar(at, *_bars([100 * score[name, s] for s in STRATEGIES]), **bar)
        for x, s in zip(at, STRATEGIES, strict=True):
            sheets.printed_marks(left, x + 0.08, {label: paper[name, s]}, color)
            if name != "fedavg":
                change = paper[name, s] - paper["fedavg", s]
                sheets.printed_marks(right, x + 0.08, {label: change}, color)
        if name != "fedavg":
            changes = [100 * (score[name, s] - score["fedavg", s]) for s in STRATEGIES]
            right.errorbar(at, *_bars(changes), **bar)
    right.axhline(0, color="0.4", linewidth=1)
    names = [s.capitalize() for s in STRATEGIES]
    for ax, text in ((left, title), (right, "change against FedAvg")):
        ax.set(xticks=place, xticklabels=names, title=text, xlim=(-0.5, 3.5))
    left.set_ylabel("test accuracy, %")
    right.set_ylabel("percentage points")
    sheets.explain_marks(left, marks=True, loc="upper left")
    return fig


def _looks(names: list[str]) -> dict[str, dict[str, Any]]:
    """Return the looks of FedAvg, FedProx and SCAFFOLD as in the figure by optimiser."""
    series = [0, 1, *range(3, len(names)), 2]
    looks = {
        name: figures.series_style(name, i) | {"marker": "None"} for name, i in zip(names, series)
    }
    looks[names[-1]]["linestyle"] = "-"
    return looks


def _bars(samples: list[pd.Series]) -> tuple[list[float], list[float]]:
    """Return means and half widths of the 95 % intervals of samples over seeds."""
    found = [mean_interval(sample.to_numpy()) for sample in samples]
    return [e.mean for e in found], [e.high - e.mean for e in found]
