"""Pictures of notebook 31: what one client may do, and who is left out.

Source: OSAFL, Section II-C, Fig. 3. What is drawn comes from
`companion.osafl.evidence.resources` and `stragglers`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from companion import figures, sheets
from companion.osafl.evidence.resources import NETWORKS, Window, links
from companion.osafl.evidence.stragglers import Stragglers, printed_shares

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_LEVELS = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1400]  # MHz


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
    payload.set(ylabel="payload (Mbit)", title="Figure 3(a): payload, ours")
    titles = {
        found.start: f"Figure 3(b): alternation from {found.start:g} $p_\\mathrm{{max}}$",
        "exact": "not in the paper: exact allocation",
    }
    drawn: dict[str, Any] = {}
    for ax, (kind, title) in zip(others, titles.items(), strict=True):
        drawn |= _distribution(ax, found, kind, rounds)
        ax.set_title(title)
    sheets.explain_marks(others[1], marks=True, fontsize=9, loc="lower right")
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
            sheets.printed_marks(ax, 0.5, {name: 1 - paper}, {name: look["color"]})
    ax.axvline(0.5, color="gray", linestyle=":", linewidth=1)
    ax.set(
        xlim=(0, 1), ylim=(0, 1), xlabel="share of rounds x", ylabel="clients out in less than x"
    )
    return drawn
