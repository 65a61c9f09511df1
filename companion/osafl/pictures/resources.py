"""Pictures of notebook 31: what one client may do, and who is left out.

Source: OSAFL, Section II-C, Fig. 3. What is drawn comes from
`companion.osafl.evidence.resources` and `stragglers`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from companion import figures
from companion.osafl.evidence.resources import NETWORKS, Window, links
from companion.osafl.evidence.stragglers import ByStart, Stragglers, printed_shares
from sflkit.osafl.devices import Allocation

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_LEVELS = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1400]  # MHz
_EXACT = "#D55E00"
_START = "#56B4E9"


def fits(ax: Axes, found: Window) -> None:
    """Colour the powers and steps that fit by the lowest CPU frequency, if any do."""
    import matplotlib.pyplot as plt
    from matplotlib.colors import LogNorm

    ax.set(xscale="log", xlabel="transmit power p (W)", ylabel=r"local steps $\kappa$")
    if not np.isfinite(found.cpu_hz).any():
        return
    shown = ax.contourf(
        found.power,
        found.steps,
        found.cpu_hz / 1e6,
        levels=_LEVELS,
        norm=LogNorm(1, 1400),
        cmap="cividis",
        extend="min",
    )
    label = "lowest CPU frequency (MHz)"
    plt.colorbar(shown, ax=ax, label=label, format="%g", ticks=_LEVELS)


def one_client(found: Window, best: Allocation, tx_share: float) -> Figure:
    """Draw what one client may do, and what it costs.

    Parameters
    ----------
    found : Window
    best : Allocation
        The exact answer, a star.
    tx_share : float
        Where the alternation starts, a dotted line.
    """
    import matplotlib.pyplot as plt

    fig, (left, right) = plt.subplots(1, 2, figsize=(10.4, 4.2), width_ratios=(1.15, 1))
    fits(left, found)
    star = dict(color=_EXACT, markersize=15, linestyle="none", zorder=4)
    edge = dict(markeredgecolor="white", clip_on=False)
    left.plot(best.tx_watt, best.local_steps, "*", **star, **edge)
    start = dict(color=_START, linestyle=":", linewidth=2)
    at = tx_share * found.client.max_tx_watt[0]
    left.axvline(at, **start)
    left.set(ylim=(0, 5.1), title="what fits (colour)")
    right.plot(found.power, found.upload_j, color="#0072B2", label="sending")
    computing = dict(color="#E69F00", linestyle="--", label="computing 5 steps")
    right.plot(found.power, found.computing_j, **computing)
    right.axhline(found.client.energy_budget_j[0], color="black", linewidth=1, label="budget")
    right.axvline(at, **start, label=f"start, {tx_share:g} of the power")
    right.plot(best.tx_watt, best.energy_j, "*", **star, label="least energy in all")
    right.set(xscale="log", yscale="log", xlabel="transmit power p (W)", ylabel="energy (J)")
    right.set_title("what it costs")
    fig.legend(*right.get_legend_handles_labels(), loc="outside lower center", ncols=5, fontsize=9)
    return fig


def starts(found: ByStart, tx_share: float) -> Figure:
    """Draw stragglers and energy of the alternation over the power that it starts from."""
    import matplotlib.pyplot as plt

    fig, (left, right) = plt.subplots(1, 2, figsize=(9.6, 4.0))
    for i, name in enumerate(NETWORKS):
        look = figures.series_style(None, i)
        left.plot(found.shares, found.left_out[name], **look, markevery=(i, 6), label=name)
        mark = dict(marker=look["marker"], color=look["color"], markersize=8, linestyle="none")
        left.plot(1.35, found.exact[name], **mark, clip_on=False)
    left.axvline(tx_share, color="gray", linestyle=":", linewidth=1.2)
    left.annotate("exact", (1.35, 0.29), ha="center", fontsize=9, color="dimgray")
    left.set(xscale="log", ylim=(0, 1), xlabel=r"start $p/p_\mathrm{max}$")
    left.set(ylabel="stragglers per round", title="who takes part")
    left.legend(fontsize=9, loc="upper center")
    low, median, high = found.energy.T
    band = dict(color=_EXACT, alpha=0.2, linewidth=0, label="10 to 90 % of the clients")
    right.fill_between(found.shares, low, high, **band)
    right.plot(found.shares, median, color=_EXACT, label="median")
    right.axhline(1, color="black", linewidth=1)
    right.set(xscale="log", yscale="log", xlabel=r"start $p/p_\mathrm{max}$")
    right.set(ylabel="energy / least energy", title="what it costs, CNN, equal steps")
    right.legend(fontsize=9)
    return fig


def value_by_start(found: pd.DataFrame) -> tuple[Figure, dict[str, Any]]:
    """Draw how much of the best value of (5) Algorithm 1 reaches, over its start and epsilon.

    Parameters
    ----------
    found : DataFrame
        As `resources.by_start_and_weight` returns.

    Returns
    -------
    fig : Figure
    drawn : dict
        What it draws, for `figures.save_figure`.
    """
    import matplotlib.pyplot as plt

    fig, (left, right) = plt.subplots(1, 2, figsize=(9.6, 4.0))
    weights = found["epsilon"].unique()
    by = found.groupby(["network", "epsilon", "start"])["reached"].mean().unstack("start")
    for i, weight in enumerate(weights):
        look = figures.series_style(None, i)
        mean = by.xs(weight, level="epsilon").mean()
        left.plot(mean.index, mean, **look, label=f"$\\varepsilon$ = {weight:g}")
    for i, name in enumerate(NETWORKS):
        row = by.loc[name].loc[weights[len(weights) // 2]]
        right.plot(row.index, row, **figures.series_style(None, i), label=name)
    left.set(title="mean of the four networks", ylabel="value reached / best value")
    right.set(title=f"$\\varepsilon$ = {weights[len(weights) // 2]:g}")
    for ax in (left, right):
        ax.set(xscale="log", ylim=(0, 1), xlabel=r"start $p/p_\mathrm{max}$")
        ax.legend(fontsize=9)
    return fig, {"reached": found}


def stragglers(found: Stragglers, rounds: int) -> tuple[Figure, dict[str, Any]]:
    """Draw payloads and the distribution over clients of the share of rounds left out (Fig. 3).

    `rounds` is how many rounds a client had.

    Returns
    -------
    fig : Figure
    drawn : dict
        What it draws, for `figures.save_figure`.
    """
    import matplotlib.pyplot as plt

    fig, (payload, *others) = plt.subplots(1, 3, figsize=(11, 4.0), width_ratios=(0.8, 1, 1))
    for i, link in enumerate(links().values()):
        color = figures.series_style(None, i)["color"]
        payload.bar_label(
            payload.bar(i, link.payload_bits / 1e6, color=color, width=0.7), fmt="%.0f"
        )
    slanted = dict(rotation=30, ha="right", rotation_mode="anchor")
    payload.set_xticks(range(len(NETWORKS)), NETWORKS, **slanted)
    payload.grid(visible=False, axis="x")
    payload.set(ylabel="payload (Mbit)", title="(a) payload, ours")
    titles = {
        found.start: f"(b) alternation from {found.start:g} $p_\\mathrm{{max}}$",
        "exact": "(c) exact allocation",
    }
    drawn: dict[str, Any] = {}
    for ax, (kind, title) in zip(others, titles.items(), strict=True):
        drawn |= _distribution(ax, found, kind, rounds)
        ax.set_title(title)
    cross = dict(color="black", markeredgewidth=2, label="paper")
    others[1].plot([], [], "x", **cross)
    others[1].legend(fontsize=9, loc="lower right")
    return fig, drawn


def _distribution(ax: Axes, found: Stragglers, kind: Any, rounds: int) -> dict[str, np.ndarray]:
    level, drawn = np.linspace(0, 1, rounds + 1), {}
    for i, (name, paper) in enumerate(printed_shares().items()):
        everyone = found.often[kind, name].ravel()
        drawn[f"{kind} {name}"] = np.mean(everyone[None] < level[:, None] - 1e-9, axis=1)
        look = figures.series_style(None, i)
        every = (3 * i, max(1, rounds // 6))
        ax.plot(level, drawn[f"{kind} {name}"], **look, markevery=every, label=name)
        if kind != "exact":
            cross = dict(color=look["color"], markersize=9, markeredgewidth=2.2, zorder=5)
            ax.plot(0.5, 1 - paper, "x", **cross)
    ax.axvline(0.5, color="gray", linestyle=":", linewidth=1)
    ax.set(
        xlim=(0, 1), ylim=(0, 1), xlabel="share of rounds x", ylabel="clients out in less than x"
    )
    return drawn
