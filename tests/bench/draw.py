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
from sflkit.runs import sums
from tests.bench.peers import PEERS
from tests.bench.scaling import AXES

ROOT = Path(__file__).resolve().parents[2]
RESULTS, FIGURE = ROOT / "data" / "results" / "bench", ROOT / "figures" / "bench.png"
# of "sflkit auto" over the plain loop, on 2 cores
TARGETS = {"W1": 1.5, "W2": 1.8, "W3": 1.4, "W4": 14.0}


def draw(results: Path = RESULTS, file: Path = FIGURE) -> Path:
    """Draw what `results` holds into `file` (png) and return it; ValueError if it lacks a part."""
    import matplotlib.pyplot as plt

    speed, growth = sorted(results.glob("W*.csv")), results / "scaling.csv"
    if not speed or not growth.is_file():
        raise ValueError(
            f"{results} lacks W*.csv or scaling.csv; `make bench` and `make bench BENCH=--scaling` "
            "write them"
        )
    figures.style()
    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4.2))
    _speedups(left, pd.concat(map(pd.read_csv, speed), ignore_index=True))
    _growth(right, pd.read_csv(growth))
    file.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(file, dpi=150, metadata={"Software": None})
    plt.close(figure)
    if file == FIGURE:
        sums.put(file.parent, [file.name])
    return file


def _speedups(ax, frame: pd.DataFrame) -> None:
    # a peer keeps its look, whoever else was measured
    known = [name for name in (*PEERS, "flower") if name != "plain"]
    workloads = list(dict.fromkeys(frame["workload"]))
    for index, name in enumerate(known):
        part = frame[frame["peer"] == name]
        if part.empty:
            continue
        offset = 0.8 * ((index + 0.5) / len(known) - 0.5)
        at, look = part["workload"].map(workloads.index) + offset, figures.series_style(name, index)
        options = dict(color=look["color"], marker=look["marker"], linestyle="none", capsize=3)
        ax.errorbar(
            at, part["speedup"], yerr=_range(part, "speedup"), label=name, zorder=3, **options
        )
    for i, workload in enumerate(workloads):
        label = "target of auto, 2 cores" if i == 0 else None
        line = dict(color="#000000", linestyle=(0, (4, 2)), linewidth=1.2, label=label)
        ax.hlines(TARGETS[workload], i - 0.42, i + 0.42, **line)
    ax.axhline(1, color="#666666", linewidth=1)
    ax.set(yscale="log", xlim=(-0.5, len(workloads) - 0.5), xlabel="workload")
    ax.set(ylabel="speed-up over the plain loop (times)", title=_machine(frame))
    ax.set_xticks(range(len(workloads)), workloads)
    ax.yaxis.set_major_formatter("{x:g}")
    ax.grid(axis="x", visible=False)
    ax.legend(loc="upper left", fontsize=9)


def _growth(ax, frame: pd.DataFrame) -> None:
    for index, (axis, (about, *_)) in enumerate(AXES.items()):
        part = frame[frame["axis"] == axis].sort_values("size")
        look, last = figures.series_style(axis, index), part.iloc[-1]
        slope = last["exponent_end"]
        label = f"{about}:\n{slope:.2f} ± {last['exponent_end_se']:.2f} at the end, "
        label += f"{last['exponent']:.2f} in all"
        options = dict(color=look["color"], marker=look["marker"], linestyle="none", capsize=2)
        error = _range(part, "seconds")
        ax.errorbar(part["size"], part["seconds"], yerr=error, label=label, zorder=3, **options)
        late = part[part["size"] >= last["size"] / 100]
        level = np.log(late["seconds"]).mean() - slope * np.log(late["size"]).mean()
        line = np.exp(level) * late["size"] ** slope
        ax.plot(late["size"], line, color=look["color"], linestyle=look["linestyle"])
    ax.set(xscale="log", yscale="log", xlabel="clients, parameters or samples a client")
    ax.set(ylabel="seconds a round", title="growth, with fitted exponents")
    ax.set_ylim(top=ax.get_ylim()[1] * 60)  # room for the legend
    ax.legend(fontsize="x-small", loc="upper left")


def _range(part: pd.DataFrame, name: str) -> list[pd.Series]:
    low, high = part[name] - part[f"{name}_min"], part[f"{name}_max"] - part[name]
    return [low.clip(lower=0), high.clip(lower=0)]


def _machine(frame: pd.DataFrame) -> str:
    found = frame[["processor", "threads", "torch"]].drop_duplicates()
    if len(found) > 1:
        return "measured on several machines"
    processor, threads, version = found.iloc[0]
    return f"{processor}, {threads} thread{'' if threads == 1 else 's'}, torch {version}"
