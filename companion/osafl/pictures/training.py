"""Curves of OSAFL and its baselines, with what the paper prints beside them.

Source: OSAFL, Figs. 4 to 6, Tables II to V. The runs are those of `companion.osafl.plans.training`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from companion import figures, sheets
from companion.judging.tables import paper_value
from companion.osafl.measures import at_k, at_round, best, by_arm
from companion.osafl.plans.training import scan_table
from companion.osafl.printed import (
    BASELINES,
    CHECKPOINT_ROUND,
    LABELS,
    at_checkpoint,
    at_round_40,
)
from sflkit.results.intervals import mean_interval

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from companion.osafl.plans.training import Dataset1, Dataset2

# What stands for a client that never joined, in the arms of Algorithm 2's figure. A rule keeps its
# colour in every figure; the line says what its buffer holds.
NEVER_JOINED = {
    "osafl_zero": "OSAFL, nothing in their place",
    "osafl": "OSAFL, mean over who joined",
    "osafl_printed": "OSAFL, as printed: w/η",
    "m_afa_cd": "M-AFA-CD, mean over who joined",
    "m_afa_cd_printed": "M-AFA-CD, as printed: w/η",
}
_BUFFER_LINES = {"osafl_zero": "--", "osafl_printed": ":", "m_afa_cd_printed": ":"}


def colors() -> dict[str, str]:
    """Return the colour of each rule."""
    from sflkit.osafl.rules import RULES  # it loads torch

    return {name: RULES[name].look.color for name in RULES}


def printed_marks(artefact: str, what: str, network: str) -> dict[str, float]:
    """Return what a table of the paper prints, rule -> number, with "genie" for centralised SGD.

    Parameters
    ----------
    artefact : str
        A table's, such as "osafl-tab2".
    what : {"accuracy", "loss"}
    network : str
        A column of the table, such as "FCN".
    """
    names = {"genie": "SGD"} | LABELS
    return {
        rule: paper_value("osafl", artefact, f"test {what} {name} {network}")
        for rule, name in names.items()
    }


def compared(ax: Axes, runs: pd.DataFrame, what: str, printed: Mapping[str, float]) -> pd.DataFrame:
    """Draw one curve per rule, the mean over seeds, and right of them what the paper prints.

    Parameters
    ----------
    ax : Axes
    runs : DataFrame
        Runs of `plans`, with the column `arm`, a rule; the paper's M-AFA-CD has the printed buffer.
    what : {"accuracy", "loss"}
    printed : mapping
        Rule -> the paper's number of its best round, as hollow diamonds.

    Returns
    -------
    DataFrame
        Mean, std and count by arm and round.
    """
    from sflkit.osafl.rules import RULES

    drawn = _as_in_the_paper(runs).dropna(subset=[what])
    figures.curves(ax, drawn, "round", what, "arm", rules=RULES, interval=None)
    end = int(runs["round"].max())
    places = {rule: end * (1.05 + 0.035 * i) for i, rule in enumerate(printed)}
    sheets.printed_marks(ax, places, printed, colors())
    ax.set(xlabel="round", ylabel=f"test {what}", xlim=(0, end * 1.3))
    ax.set_xticks(np.unique(np.linspace(0, end, 6).round()))
    ax.legend().remove()
    return drawn.groupby(["arm", "round"])[what].agg(["mean", "std", "count"]).reset_index()


def _as_in_the_paper(runs: pd.DataFrame) -> pd.DataFrame:
    return runs.assign(arm=runs["arm"].replace("m_afa_cd_printed", "m_afa_cd"))


def one_legend(fig: Figure, ncols: int = 4) -> None:
    """Put the legend of the last panel above the figure."""
    sheets.explain_marks(fig.axes[-1], marks=True)
    legend = fig.axes[-1].get_legend()
    handles, names = legend.legend_handles, [text.get_text() for text in legend.get_texts()]
    legend.remove()
    fig.legend(handles, names, loc="outside upper center", ncols=ncols)


def dataset1(found: Dataset1, what: str) -> tuple[Figure, dict[str, pd.DataFrame]]:
    """Draw Fig. 4 (what = "accuracy") or 5 ("loss"): the FCN, K = 1 and 2, under the reading.

    Returns the figure and what it draws, for `figures.save_figure`.
    """
    import matplotlib.pyplot as plt

    panels = list(dict.fromkeys(found.read.runs["K"]))
    number = 4 if what == "accuracy" else 5
    fig, axes = plt.subplots(1, len(panels), figsize=(9.6, 4.3), squeeze=False)
    drawn = {}
    for ax, K in zip(axes[0], panels, strict=True):
        runs = at_k(found.read.runs, K)
        genie = at_k(found.genie, K)
        if len(genie):
            genie = genie[genie["steps"] == genie["steps"].max()].assign(arm="genie")
        printed = printed_marks(f"osafl-tab{1 + K}", what, "FCN")
        drawn[f"K = {K}"] = compared(ax, pd.concat([runs, genie]), what, printed)
        ax.set_title(f"Figure {number}, FCN, K = {K}")
        ax.set(ylim=(0, 0.7 if K == 1 else 0.4) if what == "accuracy" else (1.8, 5))
    if len(panels) > 1:  # none was run with K = 2
        axes[0, 1].plot([], [], color=colors()["genie"], label="centralised SGD")
        axes[0, 1].set_ylabel("")
    one_legend(fig)
    return fig, drawn


def leads(axes: Sequence[Axes], runs: pd.DataFrame) -> pd.DataFrame:
    """Draw how far OSAFL's best accuracy lies above each baseline's, ours and the paper's.

    M-AFA-CD, which lies far outside, is left out.

    Parameters
    ----------
    axes : two Axes
        For K = 1 and 2.
    runs : DataFrame
        The six rules under the reading.

    Returns
    -------
    DataFrame
        K, rule, ours, low, high (95 % interval over seeds) and paper, in points.
    """
    rules = [rule for rule in BASELINES if rule != "m_afa_cd"]
    rows = []
    for ax, K in zip(axes, dict.fromkeys(runs["K"]), strict=False):
        ends, printed = (
            by_arm(at_k(runs, K), best),
            printed_marks(f"osafl-tab{K + 1}", "accuracy", "FCN"),
        )
        for y, rule in enumerate(rules):
            own = 100 * (ends["osafl"] - ends[rule])
            at = mean_interval(own)
            look = {"color": colors()[rule], "markersize": 7, "capsize": 4}
            ax.errorbar(at.mean, y, xerr=[[at.mean - at.low], [at.high - at.mean]], fmt="o", **look)
            ax.plot(own, [y + 0.2] * len(own), "|", color=colors()[rule], markersize=7)
            paper = 100 * (printed["osafl"] - printed[rule])
            sheets.printed_marks(ax, paper, {rule: y - 0.25}, colors())
            rows.append((K, LABELS[rule], at.mean, at.low, at.high, paper))
        ax.axvline(0, color="0.4", linewidth=1)
        ax.set(xlabel="OSAFL minus the rule, points", title=f"Table {'I' * (K + 1)}, FCN, K = {K}")
        ax.set_yticks(range(len(rules)), [LABELS[rule] for rule in rules])
        ax.invert_yaxis()
    sheets.explain_marks(axes[1], marks=True, loc=(0.55, 0.58))
    return pd.DataFrame(rows, columns=["K", "rule", "ours", "low", "high", "paper"])


def checkpoint(ax: Axes, runs: pd.DataFrame, network: str) -> pd.DataFrame:
    """Draw accuracies at the round that Section V-B names, a dot a seed, beside the printed ones.

    Returns the accuracies in per cent, one row per seed and one column per rule.
    """
    ends = 100 * by_arm(runs, at_round(CHECKPOINT_ROUND[network]))[list(LABELS)]
    printed = at_checkpoint(network)
    for x, rule in enumerate(LABELS):
        at = mean_interval(ends[rule])
        look = {"color": colors()[rule], "capsize": 4}
        ax.errorbar(x, at.mean, at.high - at.mean, fmt="o", **look)
        ax.plot(np.full(len(ends), x + 0.12), ends[rule], ".", color=colors()[rule], markersize=4)
        sheets.printed_marks(ax, x - 0.15, {rule: 100 * printed[rule]}, colors())
    ax.set_xticks(range(len(LABELS)), list(LABELS.values()))
    ax.set(ylabel="test accuracy, %", ylim=(0, 70))
    ax.set_title(f"{network}, K = 1, after {CHECKPOINT_ROUND[network]} rounds")
    sheets.explain_marks(ax, marks=True)
    return ends.reset_index()


def never_joined(axes: Sequence[Axes], found: Dataset1) -> dict[str, pd.DataFrame]:
    """Draw what stands for clients that never joined (left), and the scale of the inputs (right).

    Left every seed has a line; a run that has diverged has no accuracy from there on, and a cross
    marks its last one. Right one seed each, by what counts for such clients.
    """
    from sflkit.osafl.rules import RULES

    for arm, name in NEVER_JOINED.items():
        for i, (_, run) in enumerate(found.buffers[found.buffers["arm"] == arm].groupby("seed")):
            rule = "osafl" if arm.startswith("osafl") else "m_afa_cd"
            look = {"color": RULES[rule].look.color, "linestyle": _BUFFER_LINES.get(arm, "-")}
            look |= {"linewidth": 1.2, "marker": "x" if run["accuracy"].count() == 1 else "None"}
            axes[0].plot(run["round"], run["accuracy"], **look, label=name if i == 0 else None)
    axes[0].set(
        xlabel="round",
        ylabel="test accuracy",
        ylim=(0, 1.05),
        title="by buffer, scale 10, K = 1",
    )
    axes[0].legend(fontsize=9, loc="upper left")
    scale = scan_table(found.scan)
    tried = found.read.table
    tried = (
        tried[tried["buffer"] == "OSAFL without w/eta"].drop_duplicates("norm").sort_values("norm")
    )
    for rule in scale:
        look = figures.series_style(rule, rules=RULES) | {"linestyle": "-"}
        axes[1].plot(
            scale.index, scale[rule], **look, label=f"{LABELS[rule]}, mean over who joined"
        )
        look |= {"linestyle": "--", "markersize": 9}
        name = f"{LABELS[rule]}, nothing in their place"
        axes[1].plot(tried["norm"], tried[f"{rule} accuracy"], **look, label=name)
        sheets.printed_marks(
            axes[1], 46, {rule: printed_marks("osafl-tab2", "accuracy", "FCN")[rule]}, colors()
        )
    axes[1].set(xlabel="scale of the inputs", ylabel="best accuracy", xscale="log", ylim=(0, 1.05))
    axes[1].set_xticks(scale.index, [f"{norm:g}" for norm in scale.index])
    axes[1].set_title("by scale, K = 1; dashed: another seed")
    axes[1].minorticks_off()
    sheets.explain_marks(axes[1], marks=True, fontsize=9, loc="upper left")
    runs = found.buffers[["arm", "seed", "round", "accuracy", "loss"]]
    return {
        "runs": runs,
        "scan": scale.reset_index(),
        "tried": tried[["norm", *(f"{r} accuracy" for r in scale)]],
    }


def dataset2(found: Dataset2, top_k: Sequence[int]) -> tuple[Figure, dict[str, pd.DataFrame]]:
    """Draw Fig. 6: accuracy above and loss below, with Tables IV and V and the text's round 40.

    Returns the figure and what it draws, for `figures.save_figure`.
    """
    import matplotlib.pyplot as plt

    fig, axes = plt.subplots(2, len(top_k), figsize=(9.6, 7.4), squeeze=False)
    drawn = {}
    for pair, K in zip(axes.T, top_k, strict=True):
        for ax, what in zip(pair, ("accuracy", "loss"), strict=True):
            printed = printed_marks(f"osafl-tab{3 + K}", what, "LSTM")
            drawn[f"{what}, K = {K}"] = compared(ax, at_k(found.tables, K), what, printed)
            high = {1: 0.7, 2: 0.4}[K]
            ax.set(
                ylim=(0, high) if what == "accuracy" else (1.5, 5), title=f"Figure 6, LSTM, K = {K}"
            )
        sheets.printed_marks(pair[0], 40, at_round_40(K), colors())
    one_legend(fig)
    return fig, drawn
