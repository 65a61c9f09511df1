"""The pictures of notebook 44: accuracy and unlearning time over rho_S and over rho_C."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from companion import figures, sheets
from companion.fats.evidence.tradeoff import Measured
from sflkit.results import intervals

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_SYMBOLS = {"rho_S": r"$\rho_S$ (samples)", "rho_C": r"$\rho_C$ (clients)"}
_ACCURACY, _TIME = "#0072B2", "#D55E00"
# The authors' panel of Fig. 7.
_PANELS = {"rho_S": "a", "rho_C": "b"}


def draw(axes: Sequence[Axes], measured: Measured, artefact: str, steps: int) -> None:
    """Draw Fig. 4 or 7 as the paper does: time on the left axis, accuracy on the right one.

    Fig. 7 has the authors' curves beside ours, dashed, and over rho_C the first participation,
    which is what they plot.

    Parameters
    ----------
    axes : two Axes
        Over rho_S and over rho_C.
    measured : Measured
    artefact : {"fats-fig7", "fats-fig4"}
    steps : int
        T, steps of a training.
    """
    for ax, over in zip(axes, ("rho_S", "rho_C"), strict=True):
        x, scores, rows = measured.line(artefact, over)
        right = ax.twinx()
        ax.plot(x, steps * rows["time"], color=_TIME, marker="s", label="time recomputed, exact")
        if over == "rho_C":
            ax.plot(
                x, steps * rows["first"], color=_TIME, linestyle=":", label="first participation"
            )
        found = [intervals.mean_interval(scores[i].dropna()) for i in scores]
        middle = np.array([one.mean for one in found])
        error = [middle - [one.low for one in found], [one.high for one in found] - middle]
        right.errorbar(x, middle, error, color=_ACCURACY, marker="o", capsize=2)
        if artefact == "fats-fig7":
            which = {"Unlearning Time": _TIME}, {"Learning Utility": _ACCURACY}
            for side, colors in zip((ax, right), which, strict=True):
                sheets.authors_curves(side, artefact, _PANELS[over], colors)
        ax.set(xlabel=_SYMBOLS[over], ylim=(0, 0.42 * steps))
        right.set(ylim=(0.7, 1))
        right.grid(visible=False)
        if ax is axes[0]:
            ax.set_ylabel("unlearning time, steps", color=_TIME)
            right.tick_params(labelright=False, right=False)
            continue
        right.set_ylabel("test accuracy", color=_ACCURACY)
        ax.plot([], [], color=_ACCURACY, marker="o", label="accuracy, 95 %")
        sheets.explain_marks(ax, curves=artefact == "fats-fig7", fontsize=8, loc="lower right")


def times(axes: Sequence[Axes], measured: Measured, artefact: str, requests: int) -> None:
    """Draw the time of one and of several requests over rho_S and over rho_C, in trainings."""
    for ax, over in zip(axes, ("rho_S", "rho_C"), strict=True):
        _time(ax, measured, artefact, over, requests)
        ax.set(xlabel=_SYMBOLS[over], ylim=(0, 1.05))
    axes[0].set_ylabel("recomputed steps / T")
    axes[0].legend(fontsize=8, loc="center right")


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
