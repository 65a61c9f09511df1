"""The benchmark's figure, figures/bench.png, from what was measured: data/results/bench/W*.csv and
scaling.csv.

Left: seconds of the plain loop over those of each peer, median and range, one group a workload; a
short line marks the target of "auto". Right: seconds a round against clients, parameters and cached
samples, each with its fitted exponent."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

from companion import figures
from sflkit import checks
from sflkit.runs import sums
from tests.bench.scaling import AXES, GROWTH_COLUMNS

ROOT = Path(__file__).resolve().parents[2]
RESULTS, FIGURE = ROOT / "data" / "results" / "bench", ROOT / "figures" / "bench.png"
TARGETS = {
    "W1": 1.5,
    "W2": 1.8,
    "W3": 1.4,
    "W4": 14.0,
}  # of "sflkit auto" over the plain loop, on 2 cores
_SPEED_COLUMNS = (
    "workload",
    "peer",
    "speedup",
    "speedup_min",
    "speedup_max",
    "threads",
    "torch",
    "processor",
)


def draw(results: Path = RESULTS, file: Path = FIGURE) -> Path:
    """Draw what `results` holds into `file` (png) and return it; a side without measurements says
    so.

    Raises ValueError if nothing was measured, or if a csv has no rows, lacks columns, or names an
    unknown peer or axis."""
    import matplotlib.pyplot as plt

    speed = [_read(path, _SPEED_COLUMNS) for path in sorted(results.glob("W*.csv"))]
    growth = (
        _read(results / "scaling.csv", GROWTH_COLUMNS)
        if (results / "scaling.csv").is_file()
        else None
    )
    if not speed and growth is None:
        raise ValueError(f"{results} holds no measurement to draw; `make bench` makes them")
    figures.style()
    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4.2))
    _speedups(left, pd.concat(speed, ignore_index=True)) if speed else _empty(
        left, "python -m tests.bench"
    )
    _growth(right, growth) if growth is not None else _empty(
        right, "python -m tests.bench --scaling"
    )
    file.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(file, dpi=150, metadata={"Software": None})
    plt.close(figure)
    if file == FIGURE:
        sums.put(file.parent, [file.name])
    return file


def _speedups(ax, frame: pd.DataFrame) -> None:
    from tests.bench.peers import PEERS

    known = [
        name for name in (*PEERS, "flower") if name != "plain"
    ]  # a peer keeps its look, whoever else was measured
    for name in set(frame["peer"]) - {"plain"}:
        checks.choice("peer", name, known)
    workloads = list(dict.fromkeys(frame["workload"]))
    for index, name in enumerate(known):
        part = frame[frame["peer"] == name]
        at = [
            workloads.index(w) + 0.8 * ((index + 0.5) / len(known) - 0.5) for w in part["workload"]
        ]
        low, high = part["speedup"] - part["speedup_min"], part["speedup_max"] - part["speedup"]
        if len(part):
            look = figures.series_style(name, index)
            ax.errorbar(
                at,
                part["speedup"],
                yerr=[low.clip(lower=0), high.clip(lower=0)],
                label=name,
                capsize=3,
                zorder=3,
                color=look["color"],
                marker=look["marker"],
                linestyle="none",
            )
    marks = [
        (TARGETS[workload], i - 0.42, i + 0.42)
        for i, workload in enumerate(workloads)
        if workload in TARGETS
    ]
    if marks:
        ax.hlines(
            *zip(*marks),
            color="#000000",
            linestyle=(0, (4, 2)),
            linewidth=1.2,
            label="target of auto, 2 cores",
        )
    ax.axhline(1, color="#666666", linewidth=1)
    ax.set(
        yscale="log",
        xlim=(-0.5, len(workloads) - 0.5),
        xlabel="workload",
        ylabel="speed-up over the plain loop (times)",
        title=_machine(frame),
    )
    ax.set_xticks(range(len(workloads)), workloads)
    ax.yaxis.set_major_formatter("{x:g}")
    ax.grid(axis="x", visible=False)
    ax.legend(loc="upper left", fontsize=9)


def _growth(ax, frame: pd.DataFrame) -> None:
    for axis in dict.fromkeys(frame["axis"]):
        checks.choice("axis", axis, AXES)
    for index, axis in enumerate(AXES):
        part = frame[frame["axis"] == axis].sort_values("size")
        if part.empty:
            continue
        look, (about, *_), last = figures.series_style(axis, index), AXES[axis], part.iloc[-1]
        error = [part["seconds"] - part["seconds_min"], part["seconds_max"] - part["seconds"]]
        late = part["size"] >= last["size"] / 100
        at_end = f"{last['exponent_end']:.2f} ± {last['exponent_end_se']:.2f} at the end"
        label = f"{about}:\n{at_end}, {last['exponent']:.2f} in all"
        ax.errorbar(
            part["size"],
            part["seconds"],
            yerr=error,
            label=label,
            capsize=2,
            color=look["color"],
            marker=look["marker"],
            linestyle="none",
            zorder=3,
        )
        size = part["size"][late]
        level = np.log(part["seconds"][late]).mean() - last["exponent_end"] * np.log(size).mean()
        ax.plot(
            size,
            np.exp(level) * size ** last["exponent_end"],
            color=look["color"],
            linestyle=look["linestyle"],
        )
    ax.set(
        xscale="log",
        yscale="log",
        xlabel="clients, parameters or samples a client",
        ylabel="seconds a round",
        title="growth, with fitted exponents",
    )
    ax.set_ylim(top=ax.get_ylim()[1] * 60)  # room for the legend
    ax.legend(fontsize="x-small", loc="upper left")


def _empty(ax, command: str) -> None:
    ax.text(0.5, 0.5, f"not measured:\n{command}", ha="center", va="center", transform=ax.transAxes)
    ax.set_axis_off()


def _machine(frame: pd.DataFrame) -> str:
    found = frame[["processor", "threads", "torch"]].drop_duplicates()
    if len(found) > 1:
        return "measured on several machines"
    processor, threads, version = found.iloc[0]
    return f"{processor}, {threads} thread{'' if threads == 1 else 's'}, torch {version}"


def _read(file: Path, columns) -> pd.DataFrame:
    try:
        frame = pd.read_csv(file)
    except pd.errors.EmptyDataError:
        frame = pd.DataFrame()
    missing = [name for name in columns if name not in frame]
    if missing or frame.empty:
        what = (
            f"lacks the columns {', '.join(missing)}"
            if len(frame.columns) and missing
            else "has no rows"
        )
        raise ValueError(f"{file.name} {what}; `make bench` writes it anew")
    return frame
