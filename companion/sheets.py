"""Sheets: the paper's own figure or table, and ours in the same axes, rows and columns.

A sheet draws ours as the paper draws it (its axes, ranges, panels and arms). What the paper prints
stands in the same axes: the authors' digitised curves dashed in the colour of the same series, a
printed number as a hollow mark. Below stands the table ours | paper | difference in the paper's own
rows and columns. What the papers print lies in data/paper_values (`companion.judging.tables`).
"""

from __future__ import annotations

import os
from collections.abc import Hashable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from companion.judging import tables
from sflkit import paths
from sflkit.intervals import mean_interval

if TYPE_CHECKING:
    from matplotlib.axes import Axes

OURS, PAPER, DIFFERENCE = "ours", "paper", "difference"
_HOLLOW = dict(marker="D", markerfacecolor="none", markeredgewidth=1.6, linestyle="None")


def authors_curves(
    ax: Axes,
    figure: str,
    panel: str,
    colors: Mapping[str, str],
    *,
    scale: float = 1.0,
    within: tuple[float, float] | None = None,
) -> pd.DataFrame:
    """Draw the authors' own curves of one panel, dashed, each in the colour of the same series.

    Parameters
    ----------
    ax : Axes
        Ours are in it already, so that its limits are known.
    figure, panel : str
        Such as "sfl-fig10", "a"; see `tables.paper_curve`.
    colors : mapping
        The authors' name of a series -> colour. Series that are not in it are left out.
    scale : float
        What the authors' y is multiplied by, such as 100 for per cent.
    within : (float, float), optional
        The range of x that the figure shows; what lies within is drawn. Runs of a reader's own may
        be shorter or longer than the authors'. Those that are published may not.

    Returns
    -------
    DataFrame
        series, x, y as drawn.

    Raises
    ------
    ValueError
        If a series has no curve in the panel, or, where figures are published, none within the
        range, or one that ends before nine tenths of it.
    """
    curves = tables.paper_curve(figure)
    curves = curves[(curves["panel"] == panel) & curves["series"].astype(str).isin(list(colors))]
    if missing := sorted(set(colors) - set(curves["series"].astype(str))):
        raise ValueError(f"{figure}, panel {panel!r}: {missing[0]!r} has no curve")
    low, high = within or (-np.inf, np.inf)
    shown = curves[curves["x"].between(low, high)].assign(y=scale * curves["y"])
    if os.environ.get(paths.PUBLISH) == "1" and np.isfinite(high):
        ends = shown.groupby(shown["series"].astype(str))["x"].max().reindex(list(colors))
        if (bad := ends[~(ends >= low + 0.9 * (high - low))]).size:
            raise ValueError(
                f"{figure}, panel {panel!r}: {bad.index[0]!r} ends at {bad.iloc[0]:g} of the "
                f"authors' rounds, the figure at {high:g}; such a figure is not published"
            )
    for name, part in shown.groupby("series", sort=False):
        ax.plot(part["x"], part["y"], color=colors[str(name)], linestyle="--", linewidth=1.1)
    return shown[["series", "x", "y"]].reset_index(drop=True)


def printed_marks(
    ax: Axes, x: float | Mapping[str, float], values: Mapping[str, float], colors: Mapping[str, str]
) -> None:
    """Draw printed numbers as hollow diamonds, each in the colour of the same series.

    Parameters
    ----------
    ax : Axes
    x : float or mapping
        Where they stand: one place for all, or series -> place.
    values : mapping
        Series -> printed number, in the units of the axis.
    colors : mapping
        Series -> colour.
    """
    for name, value in values.items():
        place = x[name] if isinstance(x, Mapping) else x
        look = _HOLLOW | {"markeredgecolor": colors[name], "markersize": 7, "zorder": 5}
        ax.plot([place], [value], clip_on=False, **look)


def explain_marks(ax: Axes, *, curves: bool = False, marks: bool = False, **legend: Any) -> None:
    """Add to the legend of `ax` what dashed lines and hollow diamonds are: the paper's."""
    handles, labels = ax.get_legend_handles_labels()
    if curves:
        handles += ax.plot([], [], color="0.35", linestyle="--", linewidth=1.1)
        labels.append("dashed: the paper")
    if marks:
        handles += ax.plot([], [], color="0.35", **_HOLLOW)
        labels.append("hollow: the paper")
    ax.legend(handles, labels, **legend)


def one_legend(ax: Axes, **where: Any) -> None:
    """Put the legend of `ax`, with the mark of the paper, beside the panels of its figure."""
    explain_marks(ax, marks=True)
    legend = ax.get_legend()
    handles, labels = legend.legend_handles, [text.get_text() for text in legend.get_texts()]
    legend.remove()
    ax.figure.legend(handles, labels, **where)


def table(
    ours: Mapping[Hashable, Mapping[str, ArrayLike]],
    paper: Mapping[Hashable, Mapping[str, float | tuple[float, float]]],
    *,
    digits: int = 1,
    corner: str = "",
) -> pd.DataFrame:
    """Return the paper's table with three lines for each of its rows: ours, paper, difference.

    Parameters
    ----------
    ours : mapping
        Row -> column -> our values, one a seed (shown as mean ± half of the 95 % interval), one
        number, or None where nothing was run.
    paper : mapping
        Row -> column -> the printed number, or (number, printed spread). It fixes the order of rows
        and columns; a cell that the paper leaves empty may be missing.
    digits : int
        After the decimal point.
    corner : str
        What the rows are, such as "data set".

    Raises
    ------
    ValueError
        If ours has a row or column that the paper has not.
    """
    columns = list(dict.fromkeys(column for row in paper.values() for column in row))
    for row, values in ours.items():
        if row not in paper or set(values) - set(columns):
            strange = row if row not in paper else sorted(set(values) - set(columns))
            raise ValueError(f"the paper's table has no {strange!r}; it has {[*paper]}, {columns}")
    lines = {}
    for row, printed in paper.items():
        mine = {column: _mean(ours.get(row, {}).get(column)) for column in columns}
        theirs = {column: _printed(printed.get(column)) for column in columns}
        lines[row, OURS] = {c: _text(*mine[c], digits) for c in columns}
        lines[row, PAPER] = {c: _text(*theirs[c], digits) for c in columns}
        lines[row, DIFFERENCE] = {
            c: ""
            if np.isnan(mine[c][0] - theirs[c][0])
            else f"{round(mine[c][0] - theirs[c][0], digits) + 0.0:+.{digits}f}"
            for c in columns
        }
    index = pd.MultiIndex.from_tuples(lines, names=[corner, ""])
    return pd.DataFrame([*lines.values()], index, columns)


def _mean(values: ArrayLike | None) -> tuple[float, float]:
    """Return mean and half of the 95 % interval; NaN for what there is none of."""
    if values is None or np.size(values) == 0:
        return np.nan, np.nan
    if np.size(values) == 1:
        return float(np.ravel(values)[0]), np.nan
    found = mean_interval(values)
    return found.mean, found.high - found.mean


def _printed(value: float | tuple[float, float] | None) -> tuple[float, float]:
    if value is None:
        return np.nan, np.nan
    return value if isinstance(value, tuple) else (value, np.nan)


def _text(value: float, spread: float, digits: int) -> str:
    if np.isnan(value):
        return "–"
    return f"{value:.{digits}f}" + ("" if np.isnan(spread) else f" ± {spread:.{digits}f}")
