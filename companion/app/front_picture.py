"""The README's picture: one result of each paper, drawn from the numbers beside the figures.

`figures/overview.png` has four panels. Each takes the csv beside a figure.
`figures/overview.json` keeps the sha256 of what was drawn, so that a test notices a picture that is
older than its numbers. `sflkit verdicts --write-readme` draws it anew.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from companion import figures
from companion.judging import tables
from sflkit import paths
from sflkit.runs import sums

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# What the panels draw, in their order.
ARTEFACTS = ("sfl-fig5a", "ds-fig5", "osafl-fig3", "fats-alg2")
NETWORKS = ("SqueezeNet1", "CNN", "LSTM", "FCN")
SHARES = {"0.05": 0.06, "0.2": 0.20, "0.5": 0.50}  # of old data -> printed p_hist of "Ours"
_BLUE, _RED, _GREEN = (figures.series_style("", index)["color"] for index in range(3))
_GREY = "#666666"


def inputs() -> dict[str, Path]:
    """Return the csv behind each panel by artefact, without those that are not there."""
    files = {artefact: paths.figures() / f"{artefact}.csv" for artefact in ARTEFACTS}
    return {artefact: file for artefact, file in files.items() if file.is_file()}


def is_current() -> bool:
    """Return whether the picture was drawn from the numbers that are there now.

    Where one of them is missing there is nothing to draw, and the picture counts as current.
    """
    root = paths.figures()
    if set(inputs()) != set(ARTEFACTS):
        return True
    try:
        kept = paths.read(root / "overview.json")
    except OSError:
        return False
    drawn = (root / "overview.png").is_file()
    return drawn and kept.decode(errors="replace") == _passport()


def draw() -> Path:
    """Draw the picture from the numbers that are there now and return its file."""
    import matplotlib.pyplot as plt

    figures.style()
    plt.rcParams.update({"axes.labelsize": 10, "xtick.labelsize": 9.5, "ytick.labelsize": 9.5})
    fig, axes = plt.subplots(2, 2, figsize=(9, 4.8))
    panels = (_caches, _old_data, _stragglers, _forgetting)
    for ax, panel, file in zip(axes.flat, panels, inputs().values(), strict=True):
        panel(ax, pd.read_csv(file))
    picture = figures.small_png(fig, 200)
    plt.close(fig)
    file = paths.figures() / "overview.png"
    paths.write_atomic(file, picture)
    paths.write_atomic(file.with_suffix(".json"), _passport())
    sums.put(file.parent, [file.name, "overview.json"])
    return file


# --- panels ---------------------------------------------------------------------------------------


def _caches(ax: Axes, frame: pd.DataFrame) -> None:
    """Discrepancy over rounds for the three rules of the SFL paper."""
    places = {"fifo": (_GREEN, "FIFO"), "srsr": (_RED, "SRSR"), "drsr": (_BLUE, "DRSR")}
    for rule, (color, label) in places.items():
        part = frame[frame["rule"] == rule]
        ax.plot(part["round"], part["mean"], color=color, linewidth=2)
        end = part.iloc[-1]
        place = (end["round"], part["mean"].iloc[-20:].mean())
        how = dict(xytext=(6, 0), textcoords="offset points", va="center")
        ax.annotate(label, place, color=color, fontweight="bold", **how)
    ax.set(yscale="log", xlabel="round", ylabel="squared distance (log)")
    ax.set_xlim(0, 1.16 * frame["round"].max())
    _title(ax, "DRSR finds the long-term mix of labels", "SFL, Figure 5a: discrepancy")


def _old_data(ax: Axes, frame: pd.DataFrame) -> None:
    """Last accuracy over the weight of old data, for three shares of old data."""
    last = frame[frame["round"] == frame["round"].max()]
    for color, (share, reported) in zip((_BLUE, _RED, _GREEN), SHARES.items(), strict=True):
        part = last[last["table"].astype(str) == share].sort_values("p")
        error = [part["points"] - part["low"], part["high"] - part["points"]]
        label = f"{100 * float(share):.0f} % of the data are old"
        how = dict(color=color, marker="o", capsize=2, elinewidth=1, label=label)
        ax.errorbar(part["p"], part["points"], yerr=error, **how)
        height = np.interp(reported, part["p"], part["points"])
        ax.plot(reported, height, "*", color="black", markersize=11, zorder=4)
    ax.plot([], [], "*", color="black", markersize=9, label="weight that the paper reports")
    ax.set(xlabel="weight given to old data", ylabel="test accuracy, %")
    ax.legend(fontsize=8.5, loc="lower left", handlelength=1.6, labelspacing=0.25)
    _title(ax, "Old data help, if they do not rule", "Data streams, Figure 5: synthetic data")


def _stragglers(ax: Axes, frame: pd.DataFrame) -> None:
    """Share of clients that are left out in at least half of the rounds."""
    half = "share of stragglers in at least half of the rounds"
    paper = [100 * tables.paper_value("osafl", "osafl-fig3", f"{half} {n}") for n in NETWORKS]
    kinds = {
        "paper's number": (paper, _GREY),
        "Algorithm 1, fitted": (_left_out(frame, "0.3"), _RED),
        "exact optimum": (_left_out(frame, "exact"), _BLUE),
    }
    for index, (label, (heights, color)) in enumerate(kinds.items()):
        places = np.arange(len(NETWORKS)) + 0.27 * (index - 1)
        bars = ax.bar(places, heights, 0.25, color=color, label=label)
        ax.bar_label(bars, fmt="{:.0f}", fontsize=8.5, padding=1)
    ax.set_xticks(range(len(NETWORKS)), NETWORKS)
    ax.set(ylabel="clients left out, %", ylim=(0, 95))
    ax.grid(axis="x", visible=False)
    ax.legend(fontsize=8.5, loc="upper left")
    source = "OSAFL, Figure 3, on our channel: out in half of all rounds"
    _title(ax, "Most of those left out could take part", source)


def _forgetting(ax: Axes, frame: pd.DataFrame) -> None:
    """Distance to retraining of Algorithm 2 as printed and mended, in tiny federations."""
    tiny = frame[frame["table"] == "tiny"].sort_values("printed")
    places = np.arange(1, len(tiny) + 1)
    bars = ax.bar(places, tiny["printed"], color=_RED)
    dots = ax.plot(places, tiny["exact"], "o", color=_BLUE, clip_on=False, zorder=4)
    ax.set_xticks(places[::2])
    ax.set(xlabel=f"{len(tiny)} tiny federations, counted out", ylabel="distance to retraining")
    ax.grid(axis="x", visible=False)
    ax.legend([bars, *dots], ["as printed", "with one line changed"], fontsize=8.5)
    _title(ax, "Forgetting a sample, made exact", "FATS, Algorithm 2: total variation")


def _left_out(frame: pd.DataFrame, start: str) -> np.ndarray:
    """Return per network the clients, in per cent, that are out in at least half of the rounds.

    The table holds for each share x = 0, 0.01, ..., 1 of the rounds the clients out in less than x.
    """
    below = [frame.loc[frame["table"] == f"{start} {name}", "0"].iloc[50] for name in NETWORKS]
    return 100 * (1 - np.array(below))


def _title(ax: Axes, statement: str, source: str) -> None:
    ax.set_title(f"{source}\n", loc="left", fontsize=9, color=_GREY)
    text = ax.text(0, 1.03, statement, transform=ax.transAxes, fontsize=11, fontweight="bold")
    text.set_in_layout(False)  # a long statement must not narrow its panel


def _passport() -> str:
    """Return what the picture was drawn from, as overview.json holds it."""
    drawn = sums.of(paths.figures(), (file.name for file in inputs().values()))
    return json.dumps({"drawn from": drawn}, indent=1, sort_keys=True) + "\n"
