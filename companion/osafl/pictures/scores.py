"""Pictures of notebook 32: the score, and Theorem 1 with exact values beside its bound.

Source: OSAFL, (21), (24) to (26), (30), (35). The tables that are drawn come from
`companion.osafl.evidence.scores` and `companion.osafl.quadratics`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from companion import figures
from companion.osafl.evidence.scores import OneClient

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LEVELS = np.linspace(0, 1, 401)  # of the distributions of best score over lambda


def score(
    updates: np.ndarray,
    scores: np.ndarray,
    coefficients: Mapping[str, np.ndarray],
    one: OneClient,
) -> Figure:
    """Draw the score in four panels.

    Six updates and their scores, the score over the angle, the distribution of the best score over
    lambda, and the surrogate (30) of one client. Arguments are those of `score_evidence`.
    """
    import matplotlib.pyplot as plt

    fig, ((plane, curve), (spread, why)) = plt.subplots(2, 2, figsize=(9.6, 7.2))
    _plane(plane, updates, scores)
    angle = np.linspace(0, 180, 91)
    for i, chi in enumerate((1, 2, 10)):
        look = figures.series_style(None, i) | {"markevery": 15}
        value = (chi + np.cos(np.deg2rad(angle))) / (chi + 1)
        curve.plot(angle, value, **look, label=rf"$\chi={chi}$")
    curve.set(xlabel="angle to the average update (degrees)", ylabel="score", ylim=(0, 1.02))
    curve.set(xticks=range(0, 181, 45), title="score (21)")
    curve.legend()
    for i, (name, values) in enumerate(coefficients.items()):
        look = figures.series_style(None, i) | {"marker": "None"}
        spread.plot(np.quantile(values, LEVELS), LEVELS, **look, label=name)
    spread.axvline(0.9, color="black", linewidth=0.8)
    spread.set(xlabel=r"best score / $\lambda$ in random rounds", ylabel="share below")
    spread.set(xlim=(0.4, 1.01), ylim=(0, 1), title="the coefficient of (35)")
    spread.legend(loc="upper left", fontsize=9)
    why.plot(one.score, one.given, color="#0072B2", label=r"$\lambda=0.8$ given")
    look = dict(color="#D55E00", linestyle="--", label=r"$\lambda=\Delta/2$, the best one")
    why.plot(one.score, one.free, **look)
    why.plot(one.best[0], one.given.min(), "o", color="#0072B2")
    why.plot(one.best[1], one.free.min(), "s", color="#D55E00", clip_on=False, zorder=5)
    why.set(xlabel=r"score $\Delta$ of a single client", ylabel="surrogate (30)", xlim=(0, 1))
    why.set_title("what the bound really prefers")
    why.legend(fontsize=9)
    return fig


def _plane(ax: Axes, updates: np.ndarray, scores: np.ndarray) -> None:
    """Draw updates as arrows with their scores, their mean, and their score-weighted mean."""
    import matplotlib.pyplot as plt

    colours = plt.get_cmap("cividis")
    for d, s in zip(updates, scores, strict=True):
        arrow = dict(arrowstyle="-|>", color=colours(s), linewidth=2.2)
        ax.annotate("", d, (0, 0), arrowprops=arrow)
        place = d + 0.13 * d / np.linalg.norm(d)
        ax.text(*place, f"{s:.2f}", ha="center", va="center", fontsize=10)
    means = (
        (updates.mean(axis=0), "#D55E00", "average update"),
        ((scores[:, None] * updates).mean(axis=0), "#0072B2", "weighted by the scores"),
    )
    for vector, color, name in means:
        look = dict(color=color, linewidth=5, solid_capstyle="round", label=name, zorder=3)
        ax.plot(*np.stack([0 * vector, vector], axis=1), **look)
    ax.set(xlim=(-1.25, 1.75), ylim=(-0.95, 1.45), aspect="equal", xlabel=r"$d_1$", ylabel=r"$d_2$")
    ax.set_title(r"six updates and their scores, $\chi=1$")
    ax.legend(loc="upper right", fontsize=9)


def theorem1(static: pd.DataFrame, moving: pd.DataFrame) -> Figure:
    """Draw Theorem 1 against exact values, for data that stay and for data that move.

    The tables are those of `quadratics.static` and `quadratics.steady_walk`.
    """
    import matplotlib.pyplot as plt

    fig, (left, middle, right) = plt.subplots(1, 3, figsize=(12.0, 4.2))
    own = (static["score"] == "1") & (static["loss"] == "(18)") & (static["kappa"] == "5")
    for i, (product, line) in enumerate(static[own].groupby("product")):
        look = figures.series_style(None, i)
        left.plot(line["rate"], line["exact"], **look, label=rf"$\eta\tilde\eta={product:g}$")
        ok = line["feasible"] & (line["bound"] < np.inf)
        dotted = dict(color=look["color"], linestyle=":", marker=".")
        left.plot(line["rate"][ok], line["bound"][ok], **dotted)
    left.set(xscale="log", yscale="log", xlabel=r"local rate $\eta$")
    title = r"Theorem 1: $\Delta=1$, $\kappa=5$ (dotted: (24))"
    left.set(ylabel="mean squared gradient", title=title)
    left.set_ylim(top=15)
    left.legend(fontsize=8.5, loc="upper left")
    order = {"1/4": 0.25, "1/2": 0.5, "3/4": 0.75, "1": 1.0}
    usable = static[static["feasible"]]
    readings = {"(18)": "score-weighted loss (18)", "(3)": "true loss (3)"}
    for i, (reading, text) in enumerate(readings.items()):
        top = usable[usable["loss"] == reading].groupby("score")["ratio"].max()[list(order)]
        middle.plot(list(order.values()), top, **figures.series_style(None, i), label=text)
    middle.axhline(1, color="black", linewidth=1)
    middle.set(xlabel=r"score $\Delta$ of all clients", ylabel="largest exact / bound")
    middle.set(ylim=(0, None), xticks=list(order.values()), title="data that stay")
    middle.legend(fontsize=8.5)
    for i, ((kappa, rate), line) in enumerate(moving.groupby(["kappa", "rate"])):
        look = figures.series_style(None, i) | {"markevery": 4}
        name = rf"$\kappa={kappa}$, $\eta={rate}$"
        right.plot(line["product"], line["ratio"], **look, label=name)
    right.axhline(1, color="black", linewidth=1)
    right.set(xscale="log", yscale="log", xlabel=r"$\eta\tilde\eta$", ylabel="exact / bound")
    right.set_title("data that move")
    right.legend(fontsize=8.5)
    return fig


def remark4(special: pd.DataFrame) -> Figure:
    """Draw the exact mean over (26) and over (25); `special` is of `identical_clients`."""
    import matplotlib.pyplot as plt

    fig, axes = plt.subplots(1, 2, figsize=(9.6, 3.9))
    for ax, column in zip(axes, ("(26)", "(25)"), strict=True):
        for i, (kappa, line) in enumerate(special[special["product"] == 1.0].groupby("kappa")):
            look = figures.series_style(None, i) | {"markevery": 6}
            ratio = line["exact"] / line[column]
            ax.plot(line["fraction"] / 4, ratio, **look, label=rf"$\kappa={kappa}$")
        ax.axhline(1, color="black", linewidth=1)
        ax.set(xlabel=r"$\beta\eta\kappa$", ylabel="exact / bound", xlim=(0, 0.25))
        ax.set_title(f"{column}, $\\eta\\tilde\\eta=1/\\beta$")
    axes[0].legend(fontsize=9)
    axes[1].set_ylim(0, 1.05)
    return fig
