"""Pictures of a table of your own and of what was learnt from it (notebook 93)."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from companion import figures
from sflkit.data.tables import Table
from sflkit.results.intervals import mean_interval

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from sflkit.registry import Registry

_WINDOWS = 60


def mix_over_time(ax: Axes, table: Table, archive: float) -> pd.DataFrame:
    """Draw the label shares along the rows of a table, and where its archive ends.

    Returns what is drawn: `row` (the end of a window) and a share for each label.
    """
    ends = np.linspace(0, len(table), min(_WINDOWS, len(table)) + 1).astype(int)
    parts = [table.y[a:b] for a, b in itertools.pairwise(ends)]
    shares = np.array([np.bincount(y, minlength=len(table.labels)) / len(y) for y in parts])
    middles = (ends[:-1] + ends[1:]) / 2
    ax.stackplot(middles, shares.T, labels=table.labels, alpha=0.9)
    ax.axvline(archive * len(table), color="black", linewidth=2)
    for text, at, side in (("archive ", archive, "right"), (" stream", archive, "left")):
        ax.text(at * len(table), 1.02, text, ha=side, va="bottom")
    ax.set(xlabel="row, in the order of time", ylabel="share of the label", ylim=(0, 1))
    ax.set_xlim(middles[0], middles[-1])
    ax.legend(loc="center left", bbox_to_anchor=(1.01, 0.5), title="label")
    return pd.DataFrame({"row": ends[1:]} | dict(zip(table.labels, shares.T, strict=True)))


def accuracy_by_importance(ax: Axes, scores: pd.DataFrame, rules: Registry) -> pd.DataFrame:
    """Draw the late accuracy over p_hist, one line with 95 % intervals per cache rule.

    `scores` is what `own_data.late_scores` returns, and `rules` gives each rule its look. Returns
    what is drawn: rule, p_hist, accuracy, low, high.
    """
    rows = []
    names = list(dict.fromkeys(scores["rule"]))
    for i, name in enumerate(names):
        own = scores[scores["rule"] == name].groupby("p_hist")["accuracy"]
        found = {share: mean_interval(sample) for share, sample in own}
        at = np.array(list(found))
        means = np.array([e.mean for e in found.values()])
        reach = np.array([[e.mean - e.low, e.high - e.mean] for e in found.values()]).T
        look = figures.series_style(name, i, rules)
        label = rules[name].label if name in rules else name
        shift = 0.006 * (i - (len(names) - 1) / 2)
        finite = np.where(np.isfinite(reach), reach, 0)
        ax.errorbar(at + shift, means, finite, capsize=4, label=label, **look)
        rows += [(name, share, e.mean, e.low, e.high) for share, e in found.items()]
    ax.set(xlabel="importance of the archive, p_hist", ylabel="late test accuracy")
    ax.legend(title="cache rule")
    return pd.DataFrame(rows, columns=["rule", "p_hist", "accuracy", "low", "high"])
