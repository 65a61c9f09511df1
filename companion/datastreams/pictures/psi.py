"""Pictures of notebook 20: the minimiser of psi, and what simple strategies lose.

Source: FDS, Section 5 (Figs. 1 and 2), Section 6, Appendix C.5 (Fig. 4). The tables that are drawn
come from `companion.datastreams.evidence.psi`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from companion import figures, sheets
from companion.datastreams.evidence.psi import REPORTED, Groups, rounds_until, turning_points
from companion.judging import tables

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_SHARE = r"$N_\mathrm{hist}/N$"
_BARS = {  # look of a strategy: colour and hatch
    "fresh": ("#E69F00", "//"),
    "historical": ("#0072B2", ""),
    "uniform": ("#009E73", ".."),
}


def _line(i: int) -> dict:
    return figures.series_style(None, i) | {"marker": "None"}


def minimiser(groups: Groups, found: pd.DataFrame, excess: pd.DataFrame, line: float) -> Figure:
    """Draw p_hist over c2/c1 with the reported values (Fig. 1), and what other strategies lose.

    Parameters
    ----------
    groups : Groups
    found, excess : DataFrame
        Of `psi_evidence.sweep` and `psi_evidence.excess`.
    line : float
        The ratio at which strategies are compared, CIFAR-10's.
    """
    import matplotlib.pyplot as plt

    fig, (left, right) = plt.subplots(1, 2, figsize=(9.6, 4.2), width_ratios=(1.4, 1))
    leaves = turning_points(groups, found)["leaves"]
    for i, (fraction, part) in enumerate(found.groupby("fraction")):
        look, name = _line(i), f"{100 * fraction:g} %"
        left.plot(part["ratio"], part["p_hist"], **look, label=name)
        dot = dict(color=look["color"], markersize=6, clip_on=False, zorder=4)
        left.plot(leaves[fraction], 1, "o", **dot)
        left.axhline(fraction, xmin=0.45, color=look["color"], linewidth=0.8, linestyle=":")
        if fraction in REPORTED:
            value = tables.paper_value("datastreams", REPORTED[fraction], "CIFAR-10 p_hist")
            sheets.printed_marks(left, line, {name: value}, {name: look["color"]})
    left.axvline(line, color="gray", linestyle="--", linewidth=1.2)
    near = dict(xytext=(4, 0), textcoords="offset points", color="dimgray", fontsize=9)
    left.annotate("CIFAR-10", (line, 0.02), **near)
    left.set(xscale="log", xlabel="$c_2/c_1$", ylabel=r"$p^*_\mathrm{hist}$", ylim=(0, 1.03))
    left.set_title(f"Figure 1: M = {sum(groups)}, $M_\\mathrm{{hist}}$ = {groups.n_historical}")
    sheets.explain_marks(left, marks=True, title=_SHARE, fontsize=9, loc="lower left")
    _bars(right, excess, line)
    return fig


def _bars(ax: Axes, excess: pd.DataFrame, line: float) -> None:
    place = np.arange(len(excess.columns))
    for i, (name, row) in enumerate(excess.iterrows()):
        color, hatch = _BARS[name]
        look = dict(color=color, hatch=hatch, edgecolor="white", label=name.capitalize())
        ax.bar(place + 0.27 * (i - 1), row, 0.25, **look)
    ax.set(xlabel=_SHARE, ylabel=r"excess of $\psi$ over its minimum, %")
    ax.set(title=f"$c_2/c_1={line:g}$, $c_0=0$", ylim=(0, 1.35 * excess.to_numpy().max()))
    ax.set_xticks(place, [f"{100 * f:g} %" for f in excess.columns])
    ax.legend(fontsize=9, loc="upper center", ncol=3, columnspacing=1.0, handlelength=1.5)


def trade(groups: Groups, found: pd.DataFrame, line: float) -> Figure:
    """Draw effective samples, gradient noise and p_hist of the minimiser over c2/c1 (Fig. 4)."""
    import matplotlib.pyplot as plt

    fig, axes = plt.subplots(1, 3, figsize=(10.4, 3.8))
    halfway = turning_points(groups, found)["halfway"]
    for i, (fraction, part) in enumerate(found.groupby("fraction")):
        look = _line(i)
        for ax, column in zip(axes, ("n_eff", "noise", "p_hist"), strict=True):
            ax.plot(part["ratio"], part[column], **look, label=f"{100 * fraction:g} %")
        noise = (1 - fraction) / groups.n_fresh**0.5  # Uniform's
        axes[1].axhline(noise, color=look["color"], linewidth=0.8, linestyle=":")
        diamond = dict(color=look["color"], markersize=6, zorder=4)
        axes[2].plot(halfway[fraction], (1 + fraction) / 2, "D", **diamond)
    for ax in axes:
        ax.axvline(line, color="gray", linestyle="--", linewidth=1.0)
        ax.set(xscale="log", xlabel="$c_2/c_1$", ylim=(0, None))
    axes[0].set_title(r"Figure 4: effective samples $N_\mathrm{eff}/N$")
    axes[1].set_title(r"gradient noise $\sqrt{\sum_\mathrm{fresh}p_m^2}$")
    axes[2].set_title(r"$p^*_\mathrm{hist}$")
    axes[0].legend(title=_SHARE, fontsize=9, loc="lower right")
    return fig


def simple_strategies(gaps: pd.DataFrame, crossings: pd.DataFrame) -> Figure:
    """Draw how far Historical and Uniform are above the least psi, and their difference (Fig. 2).

    The tables are those of `psi_evidence.gaps` and `psi_evidence.crossings`.
    """
    import matplotlib.pyplot as plt

    fig, axes = plt.subplots(1, 3, figsize=(10.4, 4.0))
    equal = crossings.set_index("c2/c1")["Historical = Uniform at N_hist/N"]
    for i, (ratio, part) in enumerate(gaps.groupby("ratio")):
        look = _line(i)
        above = part["historical"].where(part["historical"] > 1e-12)
        axes[0].plot(part["share"], above, **look, label=f"{ratio:.2g}")
        axes[1].plot(part["share"], part["uniform"], **look)
        axes[2].plot(part["share"], part["difference"], **look)
        if np.isfinite(equal[ratio]):
            axes[2].plot(equal[ratio], 0, "o", color=look["color"], markersize=6, zorder=4)
    axes[0].set(yscale="log", ylim=(1e-5, 30), title=r"$\psi_\mathrm{hist}-\psi^*$")
    axes[0].set_ylabel("difference, in units of $c_1$")
    axes[1].set(title=r"Figure 2: $\psi_\mathrm{unif}-\psi^*$", ylim=(0, None))
    axes[2].set(title=r"$\psi_\mathrm{hist}-\psi_\mathrm{unif}$", ylim=(-0.2, 0.4))
    axes[2].axhline(0, color="black", linewidth=0.8)
    for ax in axes:
        ax.set(xlabel=_SHARE, xlim=(0, 1))
    handles = axes[0].get_legend_handles_labels()
    fig.legend(*handles, title="$c_2/c_1$", loc="outside right center", fontsize=9)
    return fig


def held_now(rounds: np.ndarray, weights: Mapping[float, np.ndarray]) -> Figure:
    """Draw the weight of fresh clients over the rounds if clients count by what they hold now.

    `weights` is the answer of `psi_evidence.held_now`.
    """
    import matplotlib.pyplot as plt

    fig, ax = plt.subplots(figsize=(8.6, 3.8))
    needed = rounds_until()
    for i, (fraction, curve) in enumerate(weights.items()):
        name = f"{100 * fraction:g} %, 5 % from T = {needed[fraction]}"
        ax.plot(rounds, curve, **_line(i), label=name)
    ax.axhline(0.05, color="black", linestyle=":", linewidth=1)
    ax.axvline(100, color="gray", linestyle="--", linewidth=1)
    ax.set(xscale="log", yscale="log", xlabel="rounds T", ylabel="weight of fresh clients")
    ax.set_title("weights by the samples held now")
    ax.legend(title=_SHARE, fontsize=9)
    return fig
