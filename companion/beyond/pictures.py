"""The pictures of notebook 92: one per question."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from companion import figures
from companion.beyond.evidence import Weights, weight_scores
from sflkit.results import intervals
from sflkit.sfl.caches import RULES

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_READINGS = {"withheld": "#0072B2", "never arrived": "#D55E00"}
_MEMORIES = {
    "none": ("no cache", {"color": "black", "linestyle": ":", "marker": "x"}),
    "fifo": ("FIFO, 5 rounds", figures.series_style("fifo", 0, RULES)),
    "drsr": ("DRSR, 5 rounds", figures.series_style("drsr", 0, RULES)),
}


def _label(rule: str) -> str:
    return RULES[rule].label if rule in RULES else "archive of all"


def costs(found: pd.DataFrame) -> Figure:
    """Return what forgetting costs by cache rule and reading: rounds, requests, mini-batches.

    `found` holds rows of `costs.run` with the columns rule and seed.
    """
    import matplotlib.pyplot as plt

    panels = {
        "redone": "rounds to recompute, % of all",
        "free": "requests that cost nothing, %",
        "batches": "mini-batches that change",
    }
    fig, axes = plt.subplots(1, 3, figsize=(9.6, 3.8), sharey=True)
    rules = list(dict.fromkeys(found["rule"]))
    for ax, (column, title) in zip(axes, panels.items(), strict=True):
        scale = 1 if column == "batches" else 100
        for shift, (reading, color) in zip((0.14, -0.14), _READINGS.items(), strict=True):
            rows = found[found["reading"] == reading]
            sample = [scale * rows.loc[rows["rule"] == rule, column].to_numpy() for rule in rules]
            places = np.arange(len(rules))[::-1] + shift
            _bars(ax, sample, places, color, label=reading)
        ax.set_xlabel(title)
        ax.set_xlim(left=0)
    axes[0].set_yticks(np.arange(len(rules))[::-1], [_label(rule) for rule in rules])
    handles, labels = axes[0].get_legend_handles_labels()
    fig.legend(handles, labels, ncols=2, fontsize=9, loc="outside upper center")
    return fig


def stores(found: pd.DataFrame) -> Figure:
    """Return OSAFL's stores: their distance to the long run, and what DRSR gains, by round.

    `found` holds the rows of `evidence.store_runs`. Bands are 95 % intervals over the seeds, on the
    right of the differences seed by seed.
    """
    import matplotlib.pyplot as plt

    fig, axes = plt.subplots(1, 2, figsize=(9.6, 3.6))
    figures.curves(axes[0], found, "round", "discrepancy", "cache", rules=RULES)
    axes[0].set(xlabel="round t", ylabel=r"distance $\sum_r (v_r-\pi_r)^2$", ylim=(0, None))
    axes[0].legend(fontsize=9)
    by = found.dropna(subset="accuracy").pivot(
        index="round", columns=["cache", "seed"], values="accuracy"
    )
    gain = 100 * (by["drsr"] - by["fifo"])
    estimates = [intervals.mean_interval(row.to_numpy()) for _, row in gain.iterrows()]
    _line(axes[1], gain.index.to_numpy(), estimates, figures.series_style("drsr", 0, RULES), "")
    axes[1].axhline(0, color="0.4", linewidth=1)
    axes[1].set(
        xlabel="round t",
        ylabel="DRSR minus FIFO, points",
        title=f"test accuracy (FIFO ends at {100 * by['fifo'].iloc[-1].mean():.0f} %)",
    )
    return fig


def weights(found: pd.DataFrame, arms: Weights) -> Figure:
    """Return accuracy over the old clients' weight, and what the new ones' caches add to it.

    `found` holds the rows of `evidence.weight_runs`. Bands are 95 % intervals over the seeds of the
    differences seed by seed.
    """
    import matplotlib.pyplot as plt

    score = 100 * weight_scores(found)
    share = found.groupby("arm")["p_hist"].first().sort_values()
    x = share.to_numpy()
    fig, axes = plt.subplots(1, 2, figsize=(9.6, 3.8))
    for memory, (label, look) in _MEMORIES.items():
        axes[0].plot(x, score[memory][share.index].mean(), **look, label=label)
        if memory != "none":
            gain = score[memory] - score["none"]
            _line(axes[1], x, [intervals.mean_interval(gain[a].to_numpy()) for a in share.index],
                  look, label)  # fmt: skip
    for arm, words in ((arms.cached, "psi for caches"), (arms.psi, "psi")):
        axes[0].axvline(share[arm], color="0.6", linewidth=1, linestyle=(0, (2, 3)))
        axes[0].annotate(
            words, (share[arm], 0.02), xycoords=("data", "axes fraction"), rotation=90, fontsize=9,
            ha="right", va="bottom",
        )  # fmt: skip
    axes[1].axhline(0, color="0.4", linewidth=1)
    for ax, label in zip(axes, ("test accuracy, %", "added by a cache, points"), strict=True):
        ax.set(xlabel="weight of the old clients $p_{hist}$", ylabel=label)
        ax.legend(fontsize=9, loc="upper right")
    return fig


def _bars(
    ax: Axes, sample: Sequence[np.ndarray], places: np.ndarray, color: str, label: str
) -> None:
    """Draw means with their 95 % intervals as horizontal bars."""
    found = [intervals.mean_interval(values) for values in sample]
    means = [one.mean for one in found]
    many = all(one.n > 1 for one in found)
    error = [one.high - one.mean for one in found] if many else None
    ax.barh(places, means, height=0.26, color=color, xerr=error, label=label, ecolor="0.25")


def _line(
    ax: Axes, x: np.ndarray, found: Sequence[intervals.Estimate], look: dict, label: str
) -> None:
    means = [one.mean for one in found]
    ax.plot(x, means, **look, label=label)
    if all(one.n > 1 for one in found):
        low, high = ([getattr(one, end) for one in found] for end in ("low", "high"))
        ax.fill_between(x, low, high, color=look["color"], alpha=0.15, linewidth=0)
