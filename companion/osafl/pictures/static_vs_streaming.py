"""Fig. 1, and what each difference between its arms does.

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

# How the figure calls the steps from one arm to another, where it says more than their names.
_WORDS = {
    "training": "batches, rates,\nnumber of steps",
    "all together": "all together\n(as in Fig. 1)",
}


def figure1(axes: Sequence[Axes], frame: pd.DataFrame, arms: Sequence[str]) -> pd.DataFrame:
    """Draw Fig. 1: test accuracy and loss over the episodes.

    Parameters
    ----------
    axes : two Axes
    frame : DataFrame
        Rows of `centralised.run`.
    arms : sequence of str
        In the order of `centralised.ARMS`.

    Returns
    -------
    DataFrame
        What is drawn, for `figures.save_figure`.
    """
    ordered = pd.concat([frame[frame["arm"] == arm] for arm in arms])
    for ax, what in zip(axes, ("accuracy", "loss"), strict=True):
        _curves(ax, ordered, what)
    axes[0].legend(loc="lower right")
    axes[1].get_legend().remove()
    return ordered[["arm", "seed", "episode", "accuracy", "loss"]]


def differences(axes: Sequence[Axes], scores: pd.DataFrame, arms: Sequence[str]) -> pd.DataFrame:
    """Draw what each difference between two arms does to accuracy (left) and instability (right).

    Parameters
    ----------
    axes : two Axes
    scores : DataFrame
        `evidence.static_vs_streaming.scores`.
    arms : sequence of str
        In the order of `centralised.ARMS`.

    Returns
    -------
    DataFrame
        what, step, and the change in points, one row per seed.
    """
    rows = []
    for ax, what in zip(axes, ("accuracy", "instability"), strict=True):
        _differences(ax, scores, arms, what)
        for pair, step in steps_between(arms).items():
            rows += [(what, step, gain) for gain in gains(scores, what, pair)]
    axes[1].set_yticklabels([])
    return pd.DataFrame(rows, columns=["what", "step", "points"])


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
