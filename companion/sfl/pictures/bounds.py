"""The pictures of SFL's Propositions 1 to 3 and Corollary 1: exact, simulated, bound.

Each function draws into axes that it is given. Exact expectations have the look of their cache
rule, bounds are black and dotted, printed bounds that fail are dashed, and simulated caches are
black dots with 95 % intervals.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from companion import figures
from companion.sfl.evidence.bounds import THETAS, Case, LongRun, Rare, Speed, full_caches, late_drsr
from companion.sfl.pictures import shared as pictures
from sflkit.sfl import bounds

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_BOUND: dict[str, Any] = {"color": "black", "linestyle": ":"}
_PRINTED: dict[str, Any] = {"color": "#CC79A7", "linestyle": "--"}
_LOGS = {"xscale": "log", "yscale": "log"}


def fifo(axes: Sequence[Axes], case: Case, simulated: pd.DataFrame, two: pd.DataFrame) -> None:
    """Draw Proposition 1: over rounds, over cache sizes, and on a stream of two speeds."""
    look, worst = pictures.line("fifo"), case.worst
    own = _worst_pair(case, simulated)
    axes[0].plot(case.t, case.fifo[:, worst], **look, label="exact")
    rows = own[(own["rule"] == "fifo") & (own["cache_rounds"] == case.cache_rounds)].iloc[4::5]
    _dots(axes[0], rows, "round", label="simulated")
    axes[0].axhline(case.fifo_bound, **_BOUND, label="bound (Prop. 1)")
    axes[0].axvspan(0, case.cache_rounds, color="gray", alpha=0.15, linewidth=0)
    axes[0].text(case.cache_rounds / 2, 0.0005, "not\nyet full", ha="center", va="bottom")
    axes[0].set(xlabel="round t", ylabel="discrepancy (squared share)", ylim=(0, None))
    axes[0].set_title(f"M = {case.cache_rounds}")
    axes[0].legend(loc="upper right")
    axes[1].plot(case.sizes, case.fifo_by_size[:, worst], **look)
    _dots(axes[1], _worst_pair(case, full_caches(case, simulated)), "cache_rounds")
    limit = [bounds.fifo_discrepancy(m, case.gamma, case.delta2) for m in case.sizes]
    axes[1].plot(case.sizes, limit, **_BOUND)
    axes[1].set(**_LOGS, xlabel="cache size M (rounds)", ylim=(1e-3, 1e-1))
    axes[1].set_title("larger caches, t = M")
    axes[2].plot(two["M"], two["exact"], **look)
    axes[2].plot(two["M"], two["bound, integrated"], **_BOUND, label=r"integrated $\Gamma$")
    axes[2].plot(two["M"], two["bound, cut"], **_PRINTED, label=r"$\Gamma$ cut at 0.05")
    axes[2].set(**_LOGS, xlabel="cache size M (rounds)", ylabel=r"discrepancy / $\delta^2$")
    axes[2].set_title("two-speed stream")
    axes[2].legend(loc="lower left")


def srsr(axes: Sequence[Axes], case: Case, simulated: pd.DataFrame, rare: Rare) -> None:
    """Draw Proposition 2 for three starts: empty, filled, and full of a rare label."""
    look, own = pictures.line("srsr"), _worst_pair(case, simulated)
    own = own[own["cache_rounds"] == case.cache_rounds]
    late = case.t[case.cache_rounds :]
    starts = (
        ("srsr", case.srsr, case.srsr_bound[:, case.worst], case.t, "empty start, as printed"),
        ("srsr_filled", case.filled, case.filled_bound, late, "filled start, as implemented"),
    )
    for ax, (rule, exact, bound, when, title) in zip(axes, starts, strict=False):
        ax.plot(case.t, exact[:, case.worst], **look, label="exact")
        _dots(ax, own[own["rule"] == rule].iloc[4::5], "round", label="simulated caches")
        ax.plot(when, bound, **_BOUND, label="bound")
        ax.set(xlabel="round t", yscale="log", title=title, ylim=(1e-3, 1))
    axes[0].set(ylabel="discrepancy (squared share)")
    axes[0].legend()
    full = rare.full
    axes[2].plot(full["t"], full["exact"], **look)
    mended = full["bound with (v_0 - pi)^2"]
    axes[2].plot(full["t"], mended, **_BOUND, label=r"with $(v_0-\pi)^2$")
    axes[2].plot(full["t"], full["bound as printed"], **_PRINTED, label=r"as printed, $\pi^2$")
    axes[2].set(xlabel="round t", yscale="log", title=r"starts full of a label, $\pi$ = 0.02")
    axes[2].legend()


def long_run(
    axes: Sequence[Axes], case: Case, simulated: pd.DataFrame, rare: Rare, found: LongRun
) -> None:
    """Draw Corollary 1: the limit by theta, a rare label, and where the bound says nothing."""
    look = pictures.line("srsr")
    low, high = found.exact.min(axis=1), found.exact.max(axis=1)
    shade = {"color": look["color"], "alpha": 0.25, "linewidth": 0}
    axes[0].fill_between(THETAS, low, high, **shade, label="exact, all labels")
    axes[0].plot(THETAS, found.bound, **_BOUND, marker="o", markersize=4, label="limit bound $L$")
    last = simulated[(simulated["rule"] == "srsr_filled") & (simulated["round"] == case.rounds)]
    last = last[last["client"] >= 0]
    text = f"simulated, t = {case.rounds}"
    axes[0].plot([case.theta] * len(last), last["mean"], "k_", markersize=9, label=text)
    axes[0].set(**_LOGS, xlabel=r"weight of new data $\theta$")
    axes[0].set(ylabel="discrepancy (squared share)", title=f"Corollary 1: M = {case.cache_rounds}")
    t, small = rare.full["t"], found.rare_largest / 4
    axes[1].plot(t, found.rare_paper, **_PRINTED, label=r"bound, $\theta$ = 2/3")
    axes[1].plot(t, found.rare_small, **_BOUND, label=rf"bound, $\theta$ = {small:.2f}")
    axes[1].plot(t, rare.empty, **look, label=r"exact, $\theta$ of the run")
    axes[1].set(xlabel="round t", title=r"a rare label, $\pi$ = 0.02", ylim=(0, None))
    ratio = np.linspace(0.05, 0.99, 95)
    limit = [bounds.srsr_discrepancy_limit(1, r, 1, 1) for r in ratio]
    axes[2].plot(ratio, limit, **_BOUND, label=r"$L/\delta^2$, $\Gamma$ = 1")
    axes[2].axhline(1, color="gray", linewidth=1, label="one round, no averaging")
    axes[2].set(xlabel=r"weight of a round $\theta/M$", yscale="log", title="bound without limit")
    axes[0].set_ylim(top=0.1)
    axes[2].set_ylim(top=2000)
    for ax in axes:
        ax.legend(fontsize=8)


def speed(axes: Sequence[Axes], case: Case, found: Speed) -> None:
    """Draw how fast SRSR gets to its limit: two starts over rounds, and the rounds it takes."""
    starts = {"empty start, (12)": "srsr", "filled by appending": "srsr_filled"}
    for ax, (text, rule) in zip(axes, starts.items(), strict=False):
        for i, theta in enumerate(THETAS[[1, 2, 4, 5]]):
            path = found.paths[rule, theta][:, case.worst]
            look = figures.series_style(None, i) | {"marker": "None"}
            ax.plot(np.arange(1, len(path) + 1), path, **look, label=rf"$\theta$ = {theta:.2g}")
        ax.set(**_LOGS, xlabel="round t", title=text, ylim=(1e-4, 0.3))
        axes[2].plot(THETAS[1:], found.settled[rule].max(axis=1), marker="o", label=text)
    axes[0].set(ylabel="exact discrepancy")
    axes[2].set(**_LOGS, xlabel=r"weight of new data $\theta$")
    axes[2].set_title("rounds to its limit (± 10 %)")
    axes[0].legend()
    axes[2].legend(loc="lower left", fontsize=8)
    axes[2].set_ylim(bottom=5)


def drsr(axes: Sequence[Axes], case: Case, simulated: pd.DataFrame) -> None:
    """Draw Proposition 3: over rounds, and over cache sizes beside FIFO and SRSR."""
    own = _worst_pair(case, simulated)
    own = own[(own["rule"] == "drsr") & (own["cache_rounds"] == case.cache_rounds)]
    axes[0].plot(case.t, case.drsr[:, case.worst], **pictures.line("drsr"), label="DRSR, exact")
    some = [0, 1, 2, 4, 6, *range(9, case.rounds, 10)]
    _dots(axes[0], own.iloc[some], "round", label="simulated caches")
    capped = bounds.drsr_discrepancy(case.t, case.gamma, case.delta2)
    axes[0].plot(case.t, capped, **_BOUND, label="bound with the cap")
    printed = (2 * case.gamma + 1) * case.delta2 / case.t[:6]
    axes[0].plot(case.t[:6], printed, **_PRINTED, label="bound as printed")
    axes[0].set(**_LOGS, xlabel="round t", ylabel="discrepancy (squared share)")
    axes[0].set(title=f"over rounds, M = {case.cache_rounds}", ylim=(1e-3, 1e-1))
    horizon = max(case.sizes)
    for rule, key, how in (
        ("fifo", "fifo", {}),
        ("srsr", "srsr_filled", {"theta": case.theta}),
        ("drsr", "drsr", {}),
    ):
        exact = [case.exact(key, horizon, m, **how)[case.worst] for m in case.sizes]
        look = pictures.line(rule)
        axes[1].plot(case.sizes, exact, **look, label=f"{pictures.label(rule)}, exact")
    rows = _worst_pair(case, late_drsr(case, simulated))
    _dots(axes[1], rows, "cache_rounds", label="DRSR, simulated")
    axes[1].set(**_LOGS, xlabel="cache size M (rounds)")
    axes[1].set(title=f"over cache sizes, t = {horizon}", ylim=(1e-3, 1e-1))
    for ax in axes:
        ax.legend()


def _dots(ax: Axes, rows: pd.DataFrame, x: str, **options: Any) -> None:
    half = 1.96 * rows["standard_error"]
    ax.errorbar(rows[x], rows["mean"], half, fmt="o", color="black", **options)


def _worst_pair(case: Case, simulated: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of the client and label with FIFO's largest discrepancy."""
    client, label = case.client[case.worst], case.label[case.worst]
    return simulated[(simulated["client"] == client) & (simulated["label"] == label)]
