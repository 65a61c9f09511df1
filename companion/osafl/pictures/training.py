"""Curves of OSAFL and its baselines, with what the paper prints beside them.

Source: OSAFL, Figs. 4 to 6, Tables II to V. The runs are those of `companion.osafl.plans.training`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from companion import figures
from companion.judging.tables import paper_values
from companion.osafl.claims.dataset1 import LABELS
from companion.osafl.measures import at_k, best, by_arm
from sflkit.results.intervals import mean_interval

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from companion.osafl.plans.training import Dataset1, Dataset2

# What stands for a client that never joined, in the arms of Algorithm 2's figure. A rule keeps its
# colour in every figure; the line says what its buffer holds.
NEVER_JOINED = {
    "osafl": "OSAFL, left out",
    "osafl_zero": "OSAFL, zeros",
    "osafl_printed": "OSAFL, as printed",
    "m_afa_cd": "M-AFA-CD, left out",
    "m_afa_cd_printed": "M-AFA-CD, as printed",
}
_DASHED, _DOTTED = "--", ":"
_BUFFER_LINES = {"osafl_zero": _DASHED, "osafl_printed": _DOTTED, "m_afa_cd_printed": _DOTTED}
# Arms that are a variant of a rule have its colour, and a line and marker of their own.
_VARIANTS: dict[str, tuple[str, dict[str, Any]]] = {
    "m_afa_cd_printed": ("m_afa_cd", {"linestyle": _DOTTED, "marker": "x"}),
    "osafl_no_score": ("osafl", {"linestyle": _DASHED, "marker": "o", "markerfacecolor": "white"}),
}
_LOSSES = (1.8, 100)  # the least and the largest loss of Algorithm 2's figure
ROUND = 40  # at which Section V-B.2 reads Fig. 6


def labels() -> dict[str, str]:
    """Return what the arms of `plans` are called, in the order in which they are drawn."""
    from sflkit.osafl.rules import RULES  # it loads torch

    variants = {
        "m_afa_cd_printed": "M-AFA-CD, printed buffer",
        "osafl_no_score": "OSAFL without scores",
    }
    return RULES.labels() | variants


def compared(
    ax: Axes, runs: pd.DataFrame, what: str, printed: Mapping[str, float] | None = None
) -> None:
    """Draw one curve per arm, the mean over seeds, and right of them what is known of their ends.

    First the 95 % intervals of the last round, as far as the axes reach; then what the paper
    prints, as hollow marks in the colour and shape of each rule (a star for centralised SGD). A
    variant of a rule has the rule's colour.

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
        for arm, (rule, look) in _VARIANTS.items():
            if line.get_label() == names[arm]:
                color = RULES[rule].look.color
                line.set(color=color, markeredgecolor=color, markerfacecolor=color)
                line.set(**look)
    end = int(runs["round"].max())
    _end_intervals(ax, part, what, names)
    for i, (rule, value) in enumerate((printed or {}).items()):
        look = RULES[rule].look
        star = look.marker == "None"
        ax.plot(
            [end * (1.22 + 0.03 * i)],
            [value],
            marker="*" if star else look.marker,
            markersize=11 if star else 8,
            markerfacecolor="none",
            markeredgecolor=look.color,
            markeredgewidth=1.2,
            linestyle="none",
            clip_on=False,
            zorder=5,
            # the legend shows a round mark, which is seen to be hollow
            label="printed in the paper (hollow)" if rule == "osafl" else None,
        )
    ax.set(xlabel="round", ylabel=f"test {what}", xlim=(0, end * 1.45))
    ax.set_xticks(np.unique(np.linspace(0, end, 6).round()))
    ax.legend().remove()


def _end_intervals(ax: Axes, runs: pd.DataFrame, what: str, names: Mapping[str, str]) -> None:
    """Draw right of each curve the 95 % interval of its last point over the seeds.

    Bands would hide one another. The bars are thin, so that the hollow marks are seen.
    """
    lines = {line.get_label(): line for line in ax.get_lines()}
    end = runs["round"].max()
    last = runs[runs["round"] == end]
    for i, arm in enumerate(dict.fromkeys(runs["arm"])):
        sample = last.loc[last["arm"] == arm, what].dropna()
        if len(sample) > 1:
            at = mean_interval(sample)
            place, color = end * (1.02 + 0.02 * i), lines[names[arm]].get_color()
            ax.plot([place, place], [at.low, at.high], color=color, linewidth=1.2)


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
    for arm, name in NEVER_JOINED.items():
        for i, (_, run) in enumerate(shown[shown["arm"] == arm].groupby("seed")):
            for ax, what in zip(axes[:2], ("loss", "accuracy"), strict=True):
                look = _buffer_look(arm, run[what])
                ax.plot(run["round"], run[what], **look, label=name if i == 0 else None)
    _losses(axes[0], shown)
    axes[0].set_title(f"loss, K = {K}", fontsize=11)
    axes[1].set(xlabel="round", ylabel="test accuracy", ylim=(0, None))
    axes[1].set_title(f"accuracy, K = {K}", fontsize=11)
    scale = _scale_of_inputs(axes[2], found)
    one_legend(fig, ncols=3, axes=axes[:1])
    runs = shown[["arm", "seed", "round", "accuracy", "loss"]]
    return fig, {"runs": runs, "scan": scale.reset_index()}


def _buffer_look(arm: str, values: pd.Series) -> dict[str, Any]:
    """Return how an arm of `NEVER_JOINED` is drawn; a single value needs a mark to be seen."""
    from sflkit.osafl.rules import RULES

    rule = "osafl" if arm.startswith("osafl") else "m_afa_cd"
    return {
        "color": RULES[rule].look.color,
        "linestyle": _BUFFER_LINES.get(arm, "-"),
        "linewidth": 1.4,
        "marker": "x" if values.notna().sum() == 1 else "None",
    }


def _losses(ax: Axes, runs: pd.DataFrame) -> None:
    """Name the uniform guess's loss, and mark with a triangle where a run leaves at the top."""
    from matplotlib.ticker import NullLocator

    low, high = _LOSSES
    ax.set(xlabel="round", ylabel="test loss", yscale="log", ylim=_LOSSES)
    ticks = [2, 3, 5, 10, 20, 50, 100]
    ax.set_yticks(ticks, [str(tick) for tick in ticks])
    ax.yaxis.set_minor_locator(NullLocator())
    ax.axhline(np.log(100), color="black", linewidth=0.8, zorder=4)  # above the runs that guess
    end = runs["round"].max()
    said = {"ha": "right", "fontsize": 9, "color": "0.3"}
    ax.text(end, 1.5 * np.log(100), "thin line: a uniform guess", **said)
    for (arm, _), run in runs.groupby(["arm", "seed"]):
        lost = run["diverged"] & run["loss"].isna()  # no longer finite
        left = run.loc[lost | (run["loss"] > high), "round"]
        if len(left):
            color = _buffer_look(arm, run["loss"])["color"]
            at = left.iloc[0]
            ax.plot([at], [high], marker="^", color=color, clip_on=False, linestyle="none")


def _scale_of_inputs(ax: Axes, found: Dataset1) -> pd.DataFrame:
    """Draw best accuracies over the scale of the inputs, and return them.

    At the second scale that is judged, the seeds of the tables have a mean and an interval.
    """
    from companion.osafl.plans.training import FEDAVG_TABLE_2, scan_table
    from sflkit.osafl.rules import RULES

    scale = scan_table(found.scan)
    for arm in scale:
        seeds = found.scan["seed"].unique()
        scanned = f"seed {seeds[0]}" if len(seeds) == 1 else f"mean of {len(seeds)} seeds"
        look = figures.series_style(arm, rules=RULES) | {"alpha": 0.5}
        ax.plot(scale.index, scale[arm], label=f"{labels()[arm]}, {scanned}", **look)
    if len(seen := at_k(found.nearest, 1)):
        ends = by_arm(seen, best)
        for arm in ends:
            estimate = mean_interval(ends[arm].to_numpy())
            look = figures.series_style(arm, rules=RULES)
            look |= {"linestyle": "none", "markersize": 9, "capsize": 5, "zorder": 4}
            name = f"{labels()[arm]}, mean of {len(ends)} seeds, 95 %"
            half = estimate.high - estimate.mean
            ax.errorbar(found.norm, estimate.mean, half, label=name, **look)
    line = {"color": RULES["m_fedavg"].look.color, "linestyle": ":", "linewidth": 1.2}
    ax.axhline(FEDAVG_TABLE_2, label="M-FedAvg in Table II", **line)
    ax.set(xlabel="scale of the inputs", ylabel="best test accuracy", xscale="log", ylim=(0, 1))
    ax.set(xticks=scale.index, xticklabels=[f"{norm:g}" for norm in scale.index])
    ax.set_title("best accuracy by scale, K = 1", fontsize=11)
    ax.minorticks_off()
    if len(scale):
        ax.legend(fontsize=8, loc="upper left")
    return scale


def dataset1(found: Dataset1, top_k: Sequence[int], what: str) -> tuple[Figure, dict[str, Any]]:
    """Draw Fig. 4 (what = "accuracy") or 5 ("loss"): printed step sizes, then tuned ones.

    At the printed ones Tables II and III stand beside the curves: first under the reading that is
    judged, then without the clients that never joined, at another scale of the inputs, and last
    other networks. OSAFL without scores is among the tuned ones. All panels have one scale. Returns
    the figure and what it draws, for `figures.save_figure`.
    """
    import matplotlib.pyplot as plt

    panels = _panels(found, top_k)
    ncols = len(panels) if len(panels) <= 3 else 3 if len(panels) <= 6 else 4
    nrows = -(-len(panels) // ncols)
    # One or two panels are as wide as the legend.
    size = (max(9.6, 3.5 * ncols), 1.1 + 3.2 * nrows)
    fig, grid = plt.subplots(nrows, ncols, figsize=size, squeeze=False, sharex=True, sharey=True)
    axes = grid.ravel()
    highest = 0.0
    for ax, (name, (runs, table, network)) in zip(axes, panels.items(), strict=False):
        marks = printed_marks(table, what, network) if table else {}
        compared(ax, runs, what, marks)
        means = runs.groupby(["arm", "round"])[what].mean()
        highest = max(highest, means.max(), *marks.values())
        ax.set_title(name, fontsize=11)
    _only_outer_labels(axes, len(panels), ncols)
    top = 1.08 * highest if what == "accuracy" else min(7, max(5, 1.03 * highest))
    axes[0].set(ylim=(0 if what == "accuracy" else 1.8, top))
    if len(found.tuned):
        tuned = axes[[name.endswith("tuned steps") for name in panels].index(True)]
        _say_who_is_missing(tuned, found, low=what == "loss")
    one_legend(fig, ncols=4)
    return fig, {name: drawn(runs, what, ["arm"]) for name, (runs, *_) in panels.items()}


def _panels(found: Dataset1, top_k: Sequence[int]) -> dict[str, tuple[pd.DataFrame, str, str]]:
    """Return the panels of Figs. 4 and 5: title -> runs, table of the paper ("": none), network."""
    table = {1: "osafl-tab2", 2: "osafl-tab3"}
    panels = {
        f"FCN, K = {K}, reading judged": (mine, table[K], "FCN")
        for K in table
        if len(mine := at_k(found.read.runs, K))
    }
    for K in top_k:
        panels[f"FCN, K = {K}, printed steps"] = (at_k(found.tables, K), table.get(K, ""), "FCN")
    if len(found.tuned):
        panels[f"FCN, K = {top_k[0]}, tuned steps"] = (_tuned(found, top_k[0]), "", "FCN")
    for network, runs in found.columns.items():
        for K in top_k if len(runs) else ():
            mine = at_k(runs, K)
            panels[f"{network}, K = {K}, printed steps"] = (mine, table.get(K, ""), network)
    return panels


def _only_outer_labels(axes: np.ndarray, used: int, ncols: int) -> None:
    """Label the left and the lowest panels, and leave out those that are not used."""
    for i, ax in enumerate(axes):
        if i >= used:
            ax.set_axis_off()
        if i % ncols:
            ax.set_ylabel("")
        if i + ncols < used:
            ax.set_xlabel("")
        else:
            ax.tick_params(labelbottom=True)  # hidden above an empty place, since panels share x
            ax.xaxis.label.set_visible(True)


def _tuned(found: Dataset1, K: int) -> pd.DataFrame:
    """Return the runs of the last panel: tuned rules, OSAFL without scores, and the genie."""
    first = at_k(found.tables, K)
    without = found.no_score
    if len(without):
        same = (without["arm"] == "tuned") & without["seed"].isin(found.tuned["seed"])
        without = without[same].assign(arm="osafl_no_score")
    return pd.concat([found.tuned, without, first[first["arm"] == "genie"]])


def _say_who_is_missing(ax: Axes, found: Dataset1, low: bool) -> None:
    """Name in the panel of tuned steps the rules whose search was refused."""
    names = labels()
    missing = [names[rule] for rule, choice in found.chosen.items() if choice.refused]
    if missing:
        y, side = (0.03, "bottom") if low else (0.97, "top")
        said = f"not drawn: {', '.join(missing)},\nwhose search was refused"
        ax.text(0.03, y, said, transform=ax.transAxes, ha="left", va=side, fontsize=9)


def dataset2(found: Dataset2, top_k: Sequence[int]) -> tuple[Figure, dict[str, Any]]:
    """Draw Fig. 6, accuracy and loss, with Tables IV and V and what the text reads at round 40.

    Returns the figure and what it draws, for `figures.save_figure`.
    """
    import matplotlib.pyplot as plt

    if len(top_k) == 1:  # side by side, as wide as the legend
        fig, axes = plt.subplots(1, 2, figsize=(9.6, 4.8), squeeze=False)
        pairs = axes
    else:
        fig, axes = plt.subplots(2, len(top_k), figsize=(4.8 * len(top_k), 7.4), squeeze=False)
        pairs = axes.T
    for pair, K in zip(pairs, top_k, strict=True):
        runs = at_k(found.tables, K)
        table = {1: "osafl-tab4", 2: "osafl-tab5"}.get(K)
        for ax, what in zip(pair, ("accuracy", "loss"), strict=True):
            compared(ax, runs, what, printed_marks(table, what, "LSTM") if table else None)
            ax.set(ylim=(0, None) if what == "accuracy" else (1.5, 5))
            ax.set_title(f"LSTM, K = {K}", fontsize=11)
        if table and runs["round"].max() >= ROUND:
            _at_round_40(pair[0], K)
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
