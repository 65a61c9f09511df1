"""Curves of OSAFL and its baselines, with what the paper prints beside them.

Source: OSAFL, Figs. 4 to 6, Tables II to V. The runs are those of `sflkit.osafl.plans.training`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from sflkit.osafl.claims.dataset1 import LABELS
from sflkit.results import figures
from sflkit.results.tables import paper_values

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from sflkit.osafl.plans.training import Dataset1, Dataset2

# What stands for a client that never joined, in the arms of Algorithm 2's figure.
NEVER_JOINED = {
    "osafl": "OSAFL, left out",
    "osafl_zero": "OSAFL, zeros",
    "osafl_printed": "OSAFL, as printed",
    "m_afa_cd": "M-AFA-CD, left out",
    "m_afa_cd_printed": "M-AFA-CD, as printed",
}
ROUND = 40  # at which Section V-B.2 reads Fig. 6


def labels() -> dict[str, str]:
    """Return what the arms of `plans` are called, in the order in which they are drawn."""
    from sflkit.osafl.rules import RULES  # it loads torch

    return RULES.labels() | {"m_afa_cd_printed": "M-AFA-CD, printed buffer"}


def compared(
    ax: Axes, runs: pd.DataFrame, what: str, printed: Mapping[str, float] | None = None
) -> None:
    """Draw one curve per arm, the mean over seeds, and right of them what is known of their ends.

    First the 95 % intervals of the last round, as far as the axes reach; then what the paper
    prints, as hollow marks in the colour and shape of each rule (a star for centralised SGD).

    Parameters
    ----------
    ax : Axes
    runs : DataFrame
        Runs of `plans`, with the column `arm`.
    what : {"accuracy", "loss"}
    printed : mapping, optional
        Name of a rule -> the paper's number.
    """
    from sflkit.osafl.rules import RULES

    names = labels()
    part = runs.dropna(subset=[what])
    part = part.sort_values("arm", key=lambda arms: arms.map(list(names).index), kind="stable")
    figures.curves(ax, part, "round", what, "arm", rules=RULES, interval=None, labels=names)
    for line in ax.get_lines():
        if line.get_label() == names["m_afa_cd_printed"]:
            line.set(color="#8B5A2B", linestyle=":", marker="x", markeredgecolor="#8B5A2B")
    figures.end_intervals(ax, part, "round", what, "arm")
    end = int(runs["round"].max())
    for i, (rule, value) in enumerate((printed or {}).items()):
        look = RULES[rule].look
        ax.plot(
            [end * (1.22 + 0.03 * i)],
            [value],
            marker="*" if look.marker == "None" else look.marker,
            markersize=7,
            markerfacecolor="none",
            markeredgecolor=look.color,
            markeredgewidth=1.5,
            linestyle="none",
            clip_on=False,
            zorder=5,
            label="printed in the paper (hollow)" if i == 0 else None,
        )
    ax.set(xlabel="round", ylabel=f"test {what}", xlim=(0, end * 1.45))
    ax.set_xticks(np.unique(np.linspace(0, end, 6).round()))
    ax.legend().remove()


def one_legend(fig: Figure, ncols: int = 4, axes: Sequence[Axes] | None = None) -> None:
    """Put one legend above a figure, with every label of its panels (or of `axes`) once."""
    found = {}
    for ax in fig.axes if axes is None else axes:
        for handle, label in zip(*ax.get_legend_handles_labels(), strict=True):
            found.setdefault(label, handle)
    fig.legend(found.values(), found.keys(), loc="outside upper center", ncols=ncols)


def drawn(runs: pd.DataFrame, what: str, names: Sequence[str]) -> pd.DataFrame:
    """Return what `compared` draws: means by round, and every seed in the last round.

    `names` are the columns that tell panels and arms apart; a mean has no seed (-1).
    """
    means = runs.groupby([*names, "round"], sort=False)[what].mean().reset_index().assign(seed=-1)
    last = runs.loc[runs["round"] == runs["round"].max(), [*names, "round", what, "seed"]]
    return pd.concat([means, last], ignore_index=True)


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
    values = paper_values("osafl").set_index(["artefact", "quantity"])["value"]
    names = {"genie": "SGD"} | LABELS
    return {rule: values[artefact, f"test {what} {name} {network}"] for rule, name in names.items()}


def never_joined(found: Dataset1, K: int) -> tuple[Figure, dict[str, Any]]:
    """Draw what stands for clients that never joined, and what the scale of the inputs does.

    Parameters
    ----------
    found : Dataset1
    K : int
        Of the request model; every seed has a line.

    Returns
    -------
    fig : Figure
    drawn : dict
        What it draws, for `figures.save_figure`.
    """
    import matplotlib.pyplot as plt

    mine = found.tables[(found.tables["K"] == K) & found.tables["arm"].isin(NEVER_JOINED)]
    shown = pd.concat([mine, found.buffers], ignore_index=True)
    fig, axes = plt.subplots(1, 3, figsize=(10.8, 4.2))
    for n, (arm, name) in enumerate(NEVER_JOINED.items()):
        look = figures.series_style("", n) | {"linewidth": 1.3, "marker": "None"}
        for i, (_, run) in enumerate(shown[shown["arm"] == arm].groupby("seed")):
            for ax, what in zip(axes[:2], ("loss", "accuracy"), strict=True):
                ax.plot(run["round"], run[what], **look, label=name if i == 0 else None)
    axes[0].axhline(np.log(100), color="0.5", linestyle=":", linewidth=1)
    axes[0].set(xlabel="round", ylabel="test loss", yscale="log", ylim=(1, 1e4))
    axes[0].set_title("loss; dotted: a uniform guess", fontsize=11)
    axes[1].set(xlabel="round", ylabel="test accuracy", ylim=(0, None))
    axes[1].set_title(f"accuracy, K = {K}", fontsize=11)
    scale = _scale_of_inputs(axes[2], found.scan)
    one_legend(fig, ncols=3, axes=axes[:1])
    runs = shown[["arm", "seed", "round", "accuracy", "loss"]]
    return fig, {"runs": runs, "scan": scale.reset_index()}


def _scale_of_inputs(ax: Axes, scan: pd.DataFrame) -> pd.DataFrame:
    """Draw best accuracies over the scale of the inputs, and return them."""
    from sflkit.osafl.plans.training import FEDAVG_TABLE_2, scan_table
    from sflkit.osafl.rules import RULES

    scale = scan_table(scan)
    for arm in scale:
        ax.plot(
            scale.index, scale[arm], label=labels()[arm], **figures.series_style(arm, rules=RULES)
        )
    ax.axhline(FEDAVG_TABLE_2, color="0.5", linestyle=":", linewidth=1)
    ax.set(xlabel="scale of the inputs", ylabel="best test accuracy", xscale="log", ylim=(0, 1))
    ax.set(xticks=scale.index, xticklabels=[f"{norm:g}" for norm in scale.index])
    ax.set_title("dotted: M-FedAvg in the paper", fontsize=11)
    ax.minorticks_off()
    if len(scale):
        ax.legend(fontsize=9)
    return scale


def dataset1(found: Dataset1, top_k: Sequence[int], what: str) -> tuple[Figure, dict[str, Any]]:
    """Draw Fig. 4 (what = "accuracy") or 5 ("loss") of the FCN: printed, then tuned step sizes.

    Tables II and III stand beside the curves at the printed ones. Returns the figure and what it
    draws, for `figures.save_figure`.
    """
    import matplotlib.pyplot as plt

    panels = {f"K = {K}, printed rates": (K, _of(found.tables, K)) for K in top_k}
    if len(found.tuned):
        first = _of(found.tables, top_k[0])
        both = pd.concat([found.tuned, first[first["arm"] == "genie"]])
        panels[f"K = {top_k[0]}, tuned rates"] = (None, both)
    fig, axes = plt.subplots(1, len(panels), figsize=(3.9 * len(panels), 4.4), squeeze=False)
    for ax, (name, (K, runs)) in zip(axes[0], panels.items(), strict=True):
        table = {1: "osafl-tab2", 2: "osafl-tab3"}.get(K)
        compared(ax, runs, what, printed_marks(table, what, "FCN") if table else None)
        ax.set(ylim=(0, None) if what == "accuracy" else (1.8, 5))
        ax.set_title(f"FCN, {name.replace('rates', 'steps')}", fontsize=11)
    one_legend(fig, ncols=4)
    return fig, {name: drawn(runs, what, ["arm"]) for name, (_, runs) in panels.items()}


def dataset2(found: Dataset2, top_k: Sequence[int]) -> tuple[Figure, dict[str, Any]]:
    """Draw Fig. 6, accuracy above loss, with Tables IV and V and what the text reads at round 40.

    Returns the figure and what it draws, for `figures.save_figure`.
    """
    import matplotlib.pyplot as plt

    fig, axes = plt.subplots(2, len(top_k), figsize=(4.8 * len(top_k), 7.4), squeeze=False)
    for column, K in zip(axes.T, top_k, strict=True):
        runs = _of(found.tables, K)
        table = {1: "osafl-tab4", 2: "osafl-tab5"}.get(K)
        for ax, what in zip(column, ("accuracy", "loss"), strict=True):
            compared(ax, runs, what, printed_marks(table, what, "LSTM") if table else None)
            ax.set(ylim=(0, None) if what == "accuracy" else (1.5, 5))
            ax.set_title(f"LSTM, K = {K}", fontsize=11)
        if table and runs["round"].max() >= ROUND:
            _at_round_40(column[0], K)
    one_legend(fig, ncols=3)
    kinds = ("accuracy", "loss")
    return fig, {what: drawn(found.tables, what, ["K", "arm"]) for what in kinds}


def _at_round_40(ax: Axes, K: int) -> None:
    """Mark the accuracies that the text reads off Fig. 6."""
    from sflkit.osafl.rules import RULES

    values = paper_values("osafl").set_index(["artefact", "quantity"])["value"]
    for rule, name in LABELS.items():
        look = RULES[rule].look
        said = values["osafl-fig6", f"accuracy at round {ROUND} K = {K} {name}"]
        hollow = dict(markerfacecolor="none", markeredgecolor=look.color, zorder=6)
        ax.plot([ROUND], [said], marker=look.marker, **hollow)


def _of(runs: pd.DataFrame, K: int) -> pd.DataFrame:
    return runs[runs["K"] == K]
