"""The pictures of notebook 43: the unlearning time of one request and of several."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from companion import figures
from companion.fats.evidence.efficiency import LEVELS, NAMES
from sflkit.fats.expected_time import rule_of_thumb

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def figure6(axes: Sequence[Axes], beside: pd.DataFrame) -> None:
    """Draw Fig. 6 in the paper's axes: the authors' points hollow, our exact means as lines.

    Left a sample, one line a batch size b; in the middle a client, one line a number of clients M,
    by the work that is recomputed; right the same points beside the first participation.

    Parameters
    ----------
    axes : three Axes
    beside : DataFrame
        `evidence.efficiency.beside_figure6`.
    """
    import seaborn

    panels = (
        ("sample", "recomputed", "b"),
        ("client", "recomputed", "M"),
        ("client", "first", "M"),
    )
    for ax, (level, column, name) in zip(axes, panels, strict=True):
        lines = beside[beside["level"] == level].groupby("line")
        colors = seaborn.color_palette("viridis", len(lines))
        for color, (value, line) in zip(colors, lines, strict=True):
            label = f"{name} = {value}"
            ax.plot(line["K"], line[column], color=color, linewidth=1.3, label=label)
            ax.plot(
                line["K"], line["paper"], "D", color=color, markerfacecolor="none", markersize=6
            )
        ax.axhline(5000, color="black", linewidth=1)
        ax.annotate("FRS", (12, 5000), (0, -12), textcoords="offset points", ha="right")
        ax.set(yscale="log", ylim=(100, 7000), xlim=(1, 12.5), xlabel="clients per round K")
        ax.xaxis.get_major_locator().set_params(integer=True)
    axes[0].set(ylabel="unlearning time, steps", title="Figure 6(a), a sample: work recomputed")
    axes[1].set_title("(b), a client: work recomputed")
    axes[2].set_title("(b), a client: first participation")
    axes[1].plot([], [], color="0.35", label="ours, exact")
    axes[1].plot([], [], "D", color="0.35", markerfacecolor="none", label="the paper")
    axes[0].legend(fontsize=8, ncols=2, loc="lower right")
    axes[1].legend(handles=axes[1].lines[-2:], loc="lower right")
    axes[2].legend(fontsize=8, ncols=2, loc="lower right")


def one_request(exact: pd.DataFrame, drawn: pd.DataFrame, data: str) -> Figure:
    """Return Fig. 2 or 6: a sample's and a client's time over K, and all lines over rho.

    Lines are exact means, points those of drawn histories with their 95 % intervals; `exact` and
    `drawn` are `evidence.efficiency.exact_means` and `drawn_means`.
    """
    import matplotlib.pyplot as plt

    fig, axes = plt.subplots(1, 3, figsize=(11.4, 3.9), sharey=True)
    exact, drawn = exact[exact["data"] == data], drawn[drawn["data"] == data]
    full = int(exact["T"].iloc[0])
    for ax, (level, column, *_) in zip(axes, LEVELS):
        for i, (value, line) in enumerate(exact[exact["level"] == level].groupby(column)):
            look = figures.series_style(None, i)
            dots = drawn[(drawn["level"] == level) & (drawn[column] == value)]
            _line(ax, look, line["K"], line["exact"], dots, dots["K"], f"${column}={value}$")
            style = look | {"marker": "None", "linestyle": "-" if level == "client" else ":"}
            axes[2].plot(line["rho"], line["exact"], **style)
        ax.set(xlabel="clients per round K", title=f"Figure 2, {data.upper()}: a {level}")
        ax.xaxis.get_major_locator().set_params(integer=True)
    _limits(axes[2], full)
    for ax in axes:
        ax.axhline(full, color="black", linewidth=1)
        ax.axhline(full / 2, color="black", linewidth=1, linestyle="--")
        ax.set_ylim(0, 1.08 * full)
        ax.legend(fontsize=8.5, loc="upper left", bbox_to_anchor=(0, 0.94))
    end = exact[exact["level"] == "sample"]["K"].max()
    axes[0].text(end, full, "FRS", ha="right", va="bottom")
    axes[0].text(end, full / 2, "half of FRS", ha="right", va="bottom")
    axes[0].set_ylabel("unlearning time (steps)")
    return fig


def several_requests(exact: pd.DataFrame, drawn: pd.DataFrame) -> Figure:
    """Return Fig. 3: the time of several clients, at once and one by one, in trainings.

    `exact` and `drawn` are `evidence.efficiency.exact_several` and `drawn_several`.
    """
    import matplotlib.pyplot as plt

    fig, axes = plt.subplots(2, 2, figsize=(9.4, 5.9), sharex=True)
    for column, (data, name) in enumerate(NAMES.items()):
        for row, streaming in enumerate((False, True)):
            ax = axes[row, column]
            mine, dots = (
                frame[(frame["data"] == data) & (frame["streaming"] == streaming)]
                for frame in (exact, drawn)
            )
            for i, (k, line) in enumerate(mine.groupby("K")):
                here = dots[dots["K"] == k].assign(
                    mean=lambda x: x["mean"] / x["T"], sem=lambda x: x["sem"] / x["T"]
                )
                shares, look = line["exact"] / line["T"], figures.series_style(None, i)
                _line(ax, look, line["w"], shares, here, here["w"], f"K = {k}")
            _references(ax, mine, streaming)
            ax.set(title=f"Figure 3, {name}: {'one by one' if streaming else 'at once'}")
        axes[1, column].set_xlabel("clients that ask to be forgotten")
        axes[0, column].xaxis.get_major_locator().set_params(integer=True)
    for ax in axes[:, 0]:
        ax.set_ylabel("unlearning time / training")
    axes[0, 1].legend(fontsize=8.5, loc="center left", bbox_to_anchor=(1, 0.5))
    return fig


def _line(
    ax: Axes,
    look: dict,
    x: pd.Series,
    exact: pd.Series,
    dots: pd.DataFrame,
    at: pd.Series,
    label: str,
) -> None:
    """Draw an exact line, its drawn points with their 95 % intervals, and one entry for both."""
    ax.plot(x, exact, **look | {"marker": "None"})
    style = {"color": look["color"], "marker": look["marker"], "linestyle": "none"}
    ax.errorbar(at, dots["mean"], 1.96 * dots["sem"], **style, markersize=4)
    ax.plot([], [], **look, label=label)


def _limits(ax: Axes, full: int) -> None:
    """Draw the rule of thumb and Theorem 7's order over rho."""
    rho = np.linspace(0.01, 1, 50)
    thumb = full * np.array([rule_of_thumb(value) for value in rho])
    label = r"$T[1-(1-e^{-\rho})/\rho]$"
    ax.plot(rho, thumb, color="black", linewidth=4, alpha=0.25, label=label)
    dotted = dict(color="black", linestyle=(0, (1, 2)))
    ax.plot(rho, full * rho, **dotted, label=r"Theorem 7: order $\rho T$")
    ax.plot([], [], color="gray", label=r"clients, over $\rho_C$")
    ax.plot([], [], color="gray", linestyle=":", label=r"samples, over $\rho_S$")
    ax.set(xlabel=r"stability $\rho$", title="all lines")


def _references(ax: Axes, mine: pd.DataFrame, streaming: bool) -> None:
    """Draw FRS and Theorem 7's order for the smallest K of a panel of Fig. 3."""
    w = np.arange(1, mine["w"].max() + 1)
    ax.plot(w, w if streaming else np.ones(len(w)), color="black", linewidth=1.2, label="FRS")
    label = rf"$w\rho_C$, K = {mine['K'].min()}"
    ax.plot(w, w * mine["rho_C"].min(), color="gray", linestyle=":", label=label)
    ax.set_ylim(0, 5.2 if streaming else 1.08)
