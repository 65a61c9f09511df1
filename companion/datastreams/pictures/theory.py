"""Pictures of notebook 23: measured errors of four strategies beside the bounds on them.

Source: FDS, Section 4, Corollary 5.1, Lemma B.5. The tables that are drawn come from
`companion.datastreams.plane_problem` and `companion.datastreams.evidence.theory`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from companion import figures
from companion.datastreams import case_study
from companion.datastreams.evidence.theory import KOLMOGOROV
from companion.datastreams.plane_problem import STRATEGIES

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_SIZE = (9.6, 4.0)
VARIABILITY = {  # column: name, colour, hatch
    "at_one": ("measured, one model", "#56B4E9", ".."),
    "sigma_bar2": ("measured, largest", "#0072B2", ""),
    "case_study": ("Section 5, (183)", "#E69F00", "//"),
    "lemma_b5": ("Lemma B.5", "#D55E00", "xx"),
}
TRUE_ERROR = {
    "true": (r"$\epsilon_\mathrm{true}$", "#0072B2", ""),
    "decomposition": (r"$\epsilon_\mathrm{opt}+2\epsilon_\mathrm{gen}$", "#56B4E9", ".."),
    "sum_bound": ("Theorem 4.4", "#009E73", "//"),
    "corollary": ("Corollary 5.1'", "#E69F00", "xx"),
    "psi": (r"$\psi$, appendix", "#D55E00", "\\\\"),
}


def _by_horizon(ax: Axes, table: pd.DataFrame, error: str, title: str, legend: tuple) -> None:
    """Draw an error of each strategy over the horizons, with its bound dotted."""
    for i, (strategy, part) in enumerate(table.groupby("strategy", sort=False)):
        look = figures.series_style(None, i)
        ax.plot(part["T"], part[error], **look, label=strategy.capitalize())
        ax.plot(
            part["T"], part[f"{error}_bound"], color=look["color"], linestyle=":", linewidth=1.2
        )
    name = rf"$\epsilon_\mathrm{{{error}}}$"
    ax.set(xscale="log", yscale="log", xlabel="rounds T", ylabel=name, title=title)
    horizons = sorted(set(table["T"]))
    ax.set_xticks(horizons, horizons)
    ax.minorticks_off()
    ax.legend(fontsize=9, loc=legend[0], bbox_to_anchor=legend[1], ncol=2)


def _grouped_bars(ax: Axes, last: pd.DataFrame, kinds: dict, width: float) -> None:
    """Draw a group of bars for each strategy, a bar for each column that `kinds` names."""
    place, middle = np.arange(len(STRATEGIES)), (len(kinds) - 1) / 2
    for i, (column, (name, color, hatch)) in enumerate(kinds.items()):
        height = last.loc[list(STRATEGIES), column].where(last[column] > 1e-12)
        look = dict(color=color, hatch=hatch, edgecolor="white", label=name)
        ax.bar(place + width * (i - middle), height, width - 0.01, **look)
    ax.set_xticks(place, [strategy.capitalize() for strategy in STRATEGIES])


def generalisation(table: pd.DataFrame, thresholds: pd.DataFrame) -> Figure:
    """Draw measured generalisation errors with Theorem 4.1's bound, and N_eff put to the test.

    The tables are those of `plane_problem.measure` and `theory_evidence.thresholds`.
    """
    import matplotlib.pyplot as plt

    fig, (left, right) = plt.subplots(1, 2, figsize=_SIZE)
    title = "Theorem 4.1: measured, and bound (dotted)"
    _by_horizon(left, table, "gen", title, ("center left", (0, 0.52)))
    place = np.arange(len(thresholds))
    bars = (
        ("sqrt(N_eff) eps_gen", r"$\sqrt{N_\mathrm{eff}}\,\epsilon_\mathrm{gen}$", "#0072B2", ""),
        ("sqrt(N) eps_gen", r"$\sqrt{N}\,\epsilon_\mathrm{gen}$", "#E69F00", "//"),
    )
    for (column, name, color, hatch), shift in zip(bars, (-0.2, 0.2), strict=True):
        look = dict(color=color, hatch=hatch, edgecolor="white", label=name)
        right.bar(place + shift, thresholds[column], 0.38, **look)
    right.axhline(KOLMOGOROV, color="black", linewidth=1, linestyle="--")
    right.set_xticks(place, ["equal", "half\n5 times", "linear", "a tenth\n30 times"], fontsize=9)
    top = 1.25 * thresholds["sqrt(N) eps_gen"].max()
    right.set(title="thresholds; dashed: known limit", ylim=(0, top))
    right.legend(fontsize=9, ncol=2, loc="upper left")
    return fig


def variability(last: pd.DataFrame, turns: pd.DataFrame) -> Figure:
    """Draw the gradient variability of four strategies, and clients who train in turns.

    `last` are the rows of the longest horizon by strategy, `turns` is that of `theory_evidence`.
    """
    import matplotlib.pyplot as plt

    fig, (left, right) = plt.subplots(1, 2, figsize=_SIZE)
    _grouped_bars(left, last, VARIABILITY, 0.2)
    title = f"Lemma B.5: T = {last['T'].iloc[0]}"
    left.set(yscale="log", ylabel=r"$\bar\sigma^2$", title=title, ylim=(1e-3, 300))
    left.legend(fontsize=8.5, ncol=2, loc="upper center")
    clients = turns["M"]
    right.plot(clients, turns["sigma_bar2"], color="#0072B2", marker="o", label=r"$\bar\sigma^2$")
    look = dict(color="#CC79A7", linestyle="--", label="12 times the printed bracket")
    right.plot(clients, 12 * turns["printed bracket"], **look)
    look = dict(color="black", linestyle=":", label="the proof's constants")
    right.plot(clients, turns["proof"], **look)
    right.set(xscale="log", yscale="log", xlabel="clients M", title="half of the clients in turn")
    right.legend(fontsize=9, loc="lower left")
    return fig


def optimisation(table: pd.DataFrame, worked: pd.DataFrame, mended: pd.DataFrame) -> Figure:
    """Draw measured optimisation errors with Theorem 4.3's bound, and the lower-bound example.

    The tables are those of `plane_problem.measure` and of `theory_evidence.worked_example` and
    `mended_example`.
    """
    import matplotlib.pyplot as plt

    fig, (left, right) = plt.subplots(1, 2, figsize=_SIZE)
    title = "Theorem 4.3: measured, and bound (107) (dotted)"
    _by_horizon(left, table, "opt", title, ("center", (0.5, 0.6)))
    fine = [case_study.lower_bound_example(q) for q in np.linspace(0.5, 0.995, 100)]
    spread = np.array([e.sigma_bar2 for e in fine]) ** 0.5
    curves = (
        ("claimed", "claimed, (120)", dict(color="#CC79A7", linestyle="--")),
        ("limit_gap", "limit of the algorithm", dict(color="#0072B2")),
        ("line_gap", "true value of (120)", dict(color="black", linestyle=":")),
    )
    for field, name, look in curves:
        right.plot(spread, [getattr(e, field) for e in fine], **look, label=name)
    dots = dict(color="#0072B2", label="simulated")
    right.plot(worked["sigma_bar2"] ** 0.5, worked["simulated"], "o", **dots)
    at = np.array([case_study.lower_bound_example(q).sigma_bar2 ** 0.5 for q in mended["q"]])
    look = dict(color="#009E73", markersize=5, label="mended example, simulated")
    right.plot(at, 2 * mended["error / sigma_bar"] * at, "D", **look)
    right.set(xscale="log", yscale="log", xlabel=r"gradient variability $\bar\sigma$")
    right.set(ylabel="excess risk", title="the paper's example", ylim=(None, 300))
    right.set_xticks([0.5, 1, 2], ["0.5", "1", "2"])
    right.minorticks_off()
    right.legend(fontsize=9, loc="upper left")
    return fig


def true_error(last: pd.DataFrame) -> Figure:
    """Draw the true error of four strategies beside its bounds; `last` is as in `variability`."""
    import matplotlib.pyplot as plt

    fig, ax = plt.subplots(figsize=(8.6, 3.8))
    _grouped_bars(ax, last, TRUE_ERROR, 0.16)
    title = f"Theorem 4.4: measured (blue) and bounded, T = {last['T'].iloc[0]}"
    ax.set(yscale="log", ylabel="error", title=title)
    fig.legend(*ax.get_legend_handles_labels(), loc="outside right center", fontsize=9)
    return fig


def corollary(leans: pd.DataFrame) -> Figure:
    """Draw the step of Corollary 5.1's derivation that fails, and where psi loses the true error.

    `leans` is that of `theory_evidence.Corollary`.
    """
    import matplotlib.pyplot as plt

    fig, (left, right) = plt.subplots(1, 2, figsize=_SIZE)
    x = np.linspace(1, 6, 201)
    left.plot(x, np.sqrt(x - 1), color="#0072B2", label=r"needed: $\sqrt{x-1}$")
    left.plot(x, np.sqrt(x), color="black", linestyle=":", label=r"appendix: $\sqrt{x}$")
    look = dict(color="#CC79A7", linestyle="--", label=r"main text: $\sqrt{x}-1$")
    left.plot(x, np.sqrt(x) - 1, **look)
    left.plot(4, 1.5, "o", color="#0072B2", label=r"$\|n-p\|_1$ of the two clients")
    left.set(xlabel=r"$x=\sum_m p_m^2/n_m$", ylabel="in units of 2 max disc")
    left.set_title("Corollary 5.1: what its derivation needs")
    left.legend(fontsize=9)
    for column, name, look in (
        ("true_error", "true error", dict(color="#0072B2", marker="o")),
        ("appendix", r"$\psi$, appendix", dict(color="black", linestyle=":")),
        (
            "main_text",
            r"$\psi$, $-2\,\max$ disc and $1/\sqrt{T}$",
            dict(color="#CC79A7", linestyle="--"),
        ),
        (
            "printed",
            r"$\psi$, as printed, no $1/\sqrt{T}$",
            dict(color="#CC79A7", linestyle="-."),
        ),
    ):
        right.plot(leans["e"], leans[column], **look, label=name)
    right.set(xscale="log", yscale="log", xlabel="lean $e$ to the wrong side", ylabel="error")
    right.set(ylim=(None, 200), title=r"two clients, $T=10^6$, $N=10^8$")
    right.legend(fontsize=8.5, loc="upper left")
    return fig
