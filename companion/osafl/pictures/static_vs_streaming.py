"""Fig. 1 with its confounders taken apart: curves of all arms, and what each difference does.

Source: OSAFL, Section I, Fig. 1, Appendix A. Scores come from
`companion.osafl.evidence.static_vs_streaming`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from companion import figures
from companion.osafl.evidence.static_vs_streaming import NAMES, PAPERS_PAIR, gains, steps_between
from sflkit.results import intervals

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# How the figure calls the steps from one arm to another, where it says more than their names.
_WORDS = {
    "training": "batches, rates,\nnumber of steps",
    "all together": "all together\n(as in Fig. 1)",
}


def taken_apart(
    frame: pd.DataFrame, scores: pd.DataFrame, arms: Sequence[str], title: str
) -> tuple[Figure, pd.DataFrame]:
    """Draw accuracy and loss over the episodes, and below what each difference between arms does.

    Parameters
    ----------
    frame : DataFrame
        Rows of `centralised.run`.
    scores : DataFrame
        `evidence.static_vs_streaming.scores`.
    arms : sequence of str
        In the order of `centralised.ARMS`.
    title : str

    Returns
    -------
    fig : Figure
    drawn : DataFrame
        What the upper row draws, for `figures.save_figure`.
    """
    import matplotlib.pyplot as plt

    fig, axes = plt.subplots(2, 2, figsize=(10, 6.8), height_ratios=(1.15, 1))
    ordered = pd.concat([frame[frame["arm"] == arm] for arm in arms])
    for ax, what in zip(axes[0], ("accuracy", "loss"), strict=True):
        _curves(ax, ordered, what)
    axes[0, 0].set_title(title)
    axes[0, 0].legend(loc="lower right", fontsize=8)
    axes[0, 1].get_legend().remove()
    for ax, what in zip(axes[1], ("accuracy", "instability"), strict=True):
        _differences(ax, scores, arms, what)
    axes[1, 1].set_yticklabels([])
    return fig, ordered[["arm", "seed", "episode", "accuracy", "loss"]]


def _curves(ax: Axes, ordered: pd.DataFrame, what: str) -> None:
    """Draw means and bands; the axis fits what happens after the first tenth of the episodes."""
    figures.curves(ax, ordered, "episode", what, "arm", interval=0.95, labels=NAMES)
    settled = ordered[ordered["episode"] > 0.1 * ordered["episode"].max()]
    means = settled.groupby(["arm", "episode"])[what].mean()
    margin = 0.08 * (means.max() - means.min())
    ax.set(ylim=(means.min() - margin, means.max() + margin))
    ax.set(xlabel="episode", ylabel=f"test {what}")


def _differences(ax: Axes, scores: pd.DataFrame, arms: Sequence[str], what: str) -> None:
    """Draw a row per step from one arm to another: seeds as dots, mean and 95 % interval."""
    steps = steps_between(arms)
    for i, pair in enumerate(steps):
        gain = gains(scores, what, pair)
        mean = intervals.mean_interval(gain)
        own = figures.series_style(pair[1], arms.index(pair[1]))["color"]
        color = "black" if pair == PAPERS_PAIR else own
        ax.plot(gain, np.full(len(gain), i), "o", color=color, alpha=0.3, markersize=4)
        ax.plot([mean.low, mean.high], [i, i], color=color, linewidth=2.4)
        ax.plot(mean.mean, i, "D", color=color, markersize=7)
    ax.axvline(0, color="0.4", linewidth=1)
    ax.set(yticks=range(len(steps)), ylim=(len(steps) - 0.5, -0.5))
    ax.set_yticklabels([_WORDS.get(step, step) for step in steps.values()])
    ax.set_xlabel(f"change of {what}, percentage points")
