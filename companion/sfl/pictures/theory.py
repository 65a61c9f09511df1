"""The pictures of SFL's streams and of its theory: Figs. 1 and 5, Propositions 1 to 3, Section V.

Each function draws into axes that it is given. What it draws comes from sweeps and from
`companion.sfl.evidence.streams`; the notebook keeps the numbers beside the figure.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from companion import figures
from companion.sfl.pictures import shared as pictures
from sflkit.sfl.caches import RULES

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Held = tuple[np.ndarray, np.ndarray]  # ids and labels of what a cache holds


def updates_by_hand(
    axes: np.ndarray, steps: Mapping[str, tuple[Held, Held]], new_labels: ArrayLike, first_id: int
) -> None:
    """Draw one update of small caches: what was held, what arrives, what is held then.

    Parameters
    ----------
    axes : array of Axes (n_rules, 3)
    steps : mapping
        Name of a rule -> (ids, labels) before and after the update.
    new_labels : int array (n,)
        Labels of the arrivals, whose ids follow on `first_id`.
    first_id : int
    """
    new_ids = first_id + np.arange(len(np.asarray(new_labels)))
    for row, (name, (before, after)) in zip(axes, steps.items(), strict=True):
        order = np.lexsort((after[0], after[1]))
        pictures.squares(row[0], before[1], gone=~np.isin(before[0], after[0]))
        thrown = ~np.isin(new_ids, after[0])
        pictures.squares(row[1], new_labels, y=-0.5, new=np.ones(len(new_ids), bool), gone=thrown)
        pictures.squares(row[2], after[1][order], new=after[0][order] >= first_id)
        row[0].text(-0.4, -1.06, name, ha="right", va="center", weight="bold")
        for ax in row:
            ax.set(xlim=(-0.2, 6.2), ylim=(-2.3, 0.2), aspect="equal")
            ax.axis("off")
    titles = "cache before (crossed: leaves)", "arrivals (crossed: not kept)", "cache after"
    for ax, title in zip(axes[0], titles, strict=True):
        ax.set_title(title, fontsize=11)


def wandering_shares(ax: Axes, short: ArrayLike, long: ArrayLike) -> None:
    """Draw Fig. 1: the label shares of one client's arrivals around its long-term shares.

    Parameters
    ----------
    short : array (n_rounds, n_classes)
        Shares of the arrivals.
    long : array (n_classes,)
        Long-term shares.
    """
    short, long = np.asarray(short), np.asarray(long)
    held, height = np.flatnonzero(long), -1.0
    rounds = np.arange(1, len(short) + 1)
    for i, r in enumerate(held):
        look = figures.series_style("", i)
        look |= {"linestyle": "-", "markersize": 3.5, "linewidth": 1.2}
        ax.plot(rounds, short[:, r], label=f"class {r}", **look)
        ax.axhline(long[r], color=look["color"], linestyle="--", linewidth=1.8)
    for r in sorted(held, key=long.__getitem__):
        height = max(height + 0.1, long[r])  # names do not overlap
        ax.text(rounds[-1] + 0.8, height, f"$\\pi$ of class {r}", va="center", fontsize=9)
    ax.set(ylabel="share of the arrivals", ylim=(0, 1), xlim=(0, rounds[-1] + 0.5))
    ax.set_xlabel("round t")
    ax.legend(ncols=5, loc="upper left")


def discrepancies(
    ax: Axes, frame: pd.DataFrame, column: str, text: str, one: int | None = None
) -> None:
    """Draw Fig. 5: a column of a frame over rounds, by cache rule: mean and 95 % interval.

    Parameters
    ----------
    frame : DataFrame
        Rows of a sweep over rules and seeds.
    column, text : str
        What is drawn, and what the axis calls it.
    one : int, optional
        A seed whose own run is drawn beside the mean, thin: a mean fluctuates less than a run does.
    """
    figures.curves(ax, frame, "round", column, "rule", rules=RULES)
    if one is not None:
        for rule, run in frame[frame["seed"] == one].groupby("rule"):
            color = pictures.line(str(rule))["color"]
            ax.plot(run["round"], run[column], color=color, linewidth=0.6, alpha=0.6)
    ax.set(xlabel="round t", ylabel=text, xlim=(1, int(frame["round"].max())), ylim=(0, None))
