"""The grid of readings as one picture: which numbers of Table II each reading meets.

Source: OSAFL, Table II. What is drawn comes from `companion.osafl.plans.readings.grid_table`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from companion.osafl.plans.readings import Reading, name_of, printed
from companion.osafl.printed import LABELS
from sflkit import checks

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def grid_picture(table: pd.DataFrame, K: int = 1, most: int = 12) -> tuple[Figure, dict[str, Any]]:
    """Draw the best readings, one a row, and how far each of the twelve numbers is from print.

    Parameters
    ----------
    table : DataFrame
        As `readings.grid_table` returns, at least one row.
    K : int
        1 for Table II, 2 for Table III.
    most : int
        So many rows are drawn; all have their say in what is returned.

    Returns
    -------
    fig : Figure
    drawn : dict
        What it draws, for `figures.save_figure`.

    Raises
    ------
    ValueError
        If the table has no row.
    """
    import matplotlib.pyplot as plt

    if not len(table):
        raise ValueError("table has no rows; at least one reading must have been run")
    shown = table.head(checks.integer("most", most, 1))
    fig, ax = plt.subplots(figsize=(9.6, 1.0 + 0.44 * (len(shown) + 1)))
    asked = printed(K)
    columns = [f"{rule} {what}" for rule, what in asked.index]
    far = (shown[columns].to_numpy() - asked["value"].to_numpy()) / asked["tolerance"].to_numpy()
    far = np.vstack([np.zeros(len(columns)), far])
    values = np.vstack([asked["value"], shown[columns]])
    image = ax.imshow(np.clip(far, -3, 3), cmap="RdBu_r", vmin=-3, vmax=3, aspect="auto")
    _write(ax, far, values)
    heads = [LABELS[rule] if what == "accuracy" else "loss" for rule, what in asked.index]
    ax.set_xticks(range(len(heads)), heads, rotation=35, ha="left", fontsize=9)
    ax.xaxis.tick_top()
    readings = [Reading(*row[list(Reading._fields)]) for _, row in shown.iterrows()]
    names = [
        f"{met} of 12: {name_of(reading)}".replace(", M-FedNova", ",\nM-FedNova")
        for met, reading in zip(shown["met"], readings, strict=True)
    ]
    ax.set_yticks(range(len(names) + 1), [f"the paper's Table {'I' * (K + 1)}", *names], fontsize=9)
    ax.grid(visible=False)
    fig.colorbar(image, ax=ax, label="ours minus print, in tolerances", pad=0.01, aspect=40)
    return fig, {"readings": table, "printed": asked.reset_index()}


def _write(ax: Axes, far: np.ndarray, values: np.ndarray) -> None:
    """Write each number in its cell, bold where it is met."""
    for (i, j), value in np.ndenumerate(values):
        look = {"weight": "bold" if abs(far[i, j]) <= 1 else "normal", "fontsize": 9}
        look |= {"color": "white" if abs(far[i, j]) > 2 else "black", "ha": "center"}
        text = (f"{value:.2f}" if j % 2 else f"{value:.3f}") if np.isfinite(value) else "∞"
        ax.text(j, i, text, va="center", **look)
