"""The pictures of notebook 44: accuracy and unlearning time over rho_S and over rho_C."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from companion import figures
from companion.fats.evidence.tradeoff import KNEE, Measured
from sflkit.results import intervals

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_SYMBOLS = {
    "rho_S": r"$\rho_S$ (forgetting samples)",
    "rho_C": r"$\rho_C$ (forgetting clients)",
}


def draw(measured: Measured, artefact: str, *, requests: int, title: str) -> Figure:
    """Return the figure of one data set: accuracy above time, over rho_S and over rho_C.

    Parameters
    ----------
    measured : Measured
    artefact : {"fats-fig7", "fats-fig4"}
    requests : int
        How many requests the histories with several have.
    title : str
        What was trained, in words.
    """
    import matplotlib.pyplot as plt

    fig, axes = plt.subplots(2, 2, figsize=(9.2, 6.0), sharex="col", sharey="row")
    for column, over in enumerate(("rho_S", "rho_C")):
        _accuracy(axes[0, column], measured, artefact, over)
        _time(axes[1, column], measured, artefact, over, requests)
        for ax in axes[:, column]:
            ax.axvline(KNEE, color="0.55", linewidth=1, linestyle=(0, (2, 3)))
        rows = measured.line(artefact, over)[2]
        fixed = (
            f"b varies, K = {rows['K'].iloc[0]}"
            if over == "rho_S"
            else f"K varies, b = {rows['b'].iloc[0]}"
        )
        axes[0, column].set_title(fixed)
        axes[1, column].set_xlabel(_SYMBOLS[over])
    axes[0, 0].set_ylabel("test accuracy")
    axes[1, 0].set(ylabel="recomputed steps / T", ylim=(0, 1.32), yticks=np.arange(0, 1.1, 0.2))
    axes[1, 0].legend(fontsize=8, ncol=2, loc="upper left")
    fig.suptitle(title, fontsize="medium")
    return fig


def _accuracy(ax: Axes, measured: Measured, artefact: str, over: str) -> None:
    """Draw the trainings that every setting has, their mean, and its 95 % interval."""
    x, scores, _ = measured.line(artefact, over)
    blue = figures.series_style(None, 0)["color"]
    ax.plot(x, scores.dropna().T, "o", color=blue, markersize=3, alpha=0.35)
    ax.plot(x, scores.mean(axis=0), "-", color=blue)
    columns = [scores[i].dropna().to_numpy() for i in scores]
    if min(map(len, columns)) > 1:
        found = [intervals.mean_interval(values) for values in columns]
        low, high = [one.low for one in found], [one.high for one in found]
        ax.fill_between(x, low, high, color=blue, alpha=0.18, linewidth=0)


def _time(ax: Axes, measured: Measured, artefact: str, over: str, requests: int) -> None:
    """Draw the exact time of one request and the drawn ones of one and of several."""
    x, _, rows = measured.line(artefact, over)
    orange, green = (figures.series_style(None, i)["color"] for i in (1, 2))
    ax.plot(x, rows["time"], "-", color=orange, label="one request, exact")
    for w, color, fmt, label in (
        (1, orange, "o", "one request, histories"),
        (requests, green, "s--", f"{requests} at once, histories"),
    ):
        ax.errorbar(
            x,
            rows[f"time {w}"],
            1.96 * rows[f"error {w}"],
            fmt=fmt,
            color=color,
            linewidth=1.2,
            markersize=4,
            label=label,
        )
    ax.axhline(1, color="black", linewidth=1, linestyle=":", label="training again (FRS)")
