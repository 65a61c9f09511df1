"""How the time of a round grows, and how much memory it takes: the public `local_sgd` and the
server's mean, back end "auto".

Growth: one of three numbers varies, the others stay (`AXES`). A round includes picking the samples,
as in `peers`. The points of an axis are measured in turns, and exponents are least-squares slopes
of log seconds on log size with their standard error. `exponent` fits all points; `exponent_end`
only those of the last two decades, where a round is more than its fixed costs.

Memory: the highest resident memory of a fresh process that makes the data and the model and then
runs two rounds, MiB (1024^2 bytes), and what it had (`start_mib`: interpreter, torch, data, model)
before the first round. Ray's processes are not watched, so Flower has no row. The last two rows are
10,000 clients of a LeNet: all in one call, whose (10,000, 61,706) float32 result alone is 2.5 GB,
filled anew in every round; and in groups of `peers.GROUP`, of which only the sum is kept.

    python -m tests.bench.scaling W1 "sflkit auto"     # the memory of one peer, as json
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from statistics import median

import numpy as np
import pandas as pd

from sflkit import checks
from sflkit.federated import Task
from sflkit.runs import sums
from tests.bench.peers import ALL_PEERS, PEERS, Ours
from tests.bench.workloads import MANY, WORKLOADS, Workload

ROOT = Path(__file__).resolve().parents[2]
LEAST_SECONDS = 0.3  # of one measurement


def _parameters(width: int) -> Workload:
    return Workload("", "mlp", (32,), 10, 10, 10, 2, 32, False, options={"hidden": (width, width)})


# axis: what its size counts, the workload of a value, the values
AXES = {
    "clients": (
        "clients of W4, a linear model with 42 parameters",
        lambda n: replace(WORKLOADS["W4"], clients=n, pool=n),
        (10, 30, 100, 300, 1000, 3000, 10_000),
    ),
    "parameters": (
        "parameters, 10 clients of an MLP, 2 steps of 32",
        _parameters,
        (16, 36, 80, 152, 296, 526, 978, 1710, 3140),
    ),
    "samples": (
        "cached samples, 10 clients of W1, a LeNet",
        lambda n: replace(WORKLOADS["W1"], batch=n),
        (10, 30, 100, 300, 1000),
    ),
}


def run(folder: Path | None, repeats: int, machine: dict) -> None:
    """Measure growth and memory, print them, and, given a folder, write scaling.csv and memory.csv
    there.
    """
    rows = []
    for axis in AXES:
        rows += growth(axis, repeats, machine)
        print(table(rows[-1:]).iloc[:, :9].to_string(index=False), flush=True)
        if folder:
            write(folder / "scaling.csv", rows)
    rows, about = [], {name: machine[name] for name in ("threads", "torch", "processor")}
    pairs = [(name, peer) for name in WORKLOADS for peer in PEERS]
    pairs += [(MANY.name, peer) for peer in ("sflkit auto", "sflkit in groups")]
    for workload, peer in pairs:
        rows.append({"workload": workload, "peer": peer} | peak_memory(workload, peer) | about)
        print(
            table(rows[-1:]).iloc[:, :6].to_string(index=False, header=len(rows) == 1), flush=True
        )
        if folder:
            write(folder / "memory.csv", rows)


def growth(axis: str, repeats: int, machine: dict, values=None) -> list[dict]:
    """Return one row per size of an axis of `AXES`, with the exponents of the axis."""
    _, make, defaults = AXES[checks.choice("axis", axis, AXES)]
    points = []
    for value in defaults if values is None else values:
        workload = make(value)
        peer = Ours(workload, *workload.data(), Task(workload.build()).init(0))
        size = peer.task.n_params if axis == "parameters" else value
        seconds = min(_time(peer, 1) for _ in range(3))
        points.append((size, peer, max(1, round(LEAST_SECONDS / seconds)), []))
    for repeat in range(repeats):
        for _, peer, rounds, seconds in points[:: 1 if repeat % 2 == 0 else -1]:
            seconds.append(_time(peer, rounds))
    sizes, medians = np.array([p[0] for p in points]), np.array([median(p[3]) for p in points])
    late = sizes >= sizes.max() / 100
    whole, end = fit(sizes, medians), fit(sizes[late], medians[late])
    slopes = dict(zip(("exponent", "exponent_se"), whole, strict=True))
    slopes |= dict(zip(("exponent_end", "exponent_end_se"), end, strict=True))
    return [
        {"axis": axis, "size": size, **spread("seconds", times), **slopes, "repeats": repeats}
        | machine
        for size, _, _, times in points
    ]


def fit(sizes, seconds) -> tuple[float, float]:
    """Return the exponent b of seconds = a size^b by least squares of the logarithms, and its
    standard error."""
    (slope, _), covariance = np.polyfit(np.log(sizes), np.log(seconds), 1, cov=True)
    return float(slope), float(np.sqrt(covariance[0, 0]))


def peak_memory(workload: str, peer: str) -> dict:
    """Return clients, n_params, start_mib and peak_mib of a peer's two rounds in a new process."""
    command = [sys.executable, "-m", "tests.bench.scaling", workload, peer]
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    env = os.environ | {"PYTHONPATH": path}
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{peer} on {workload} failed: {done.stderr.strip()[-500:]}")
    return json.loads(done.stdout)


def main(workload: str, peer: str) -> None:
    works = WORKLOADS | {MANY.name: MANY}
    work = works[checks.choice("workload", workload, works)]
    make = ALL_PEERS[checks.choice("peer", peer, ALL_PEERS)]
    start = Task(work.build()).init(0)
    one = make(work, *work.data(), start)
    found = {"clients": work.clients, "n_params": len(start), "start_mib": high_water_mib()}
    for r in range(2):
        one.round(work.participants(r))
    print(json.dumps(found | {"peak_mib": high_water_mib()}))


def high_water_mib() -> int:
    """Return the highest resident memory of this process so far, MiB.

    Linux: VmHWM. What getrusage says there counts the parent's memory in, since the child is the
    parent's image until exec."""
    status = Path("/proc/self/status")
    for line in status.read_text().splitlines() if status.exists() else ():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) // 1024
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak // 2**20 if sys.platform == "darwin" else peak // 1024


def spread(name: str, values: list[float]) -> dict:
    """Return the median of measurements, and the least and the largest."""
    return {name: median(values), f"{name}_min": min(values), f"{name}_max": max(values)}


def _time(peer, rounds: int) -> float:
    everyone = peer.workload.participants(0)
    began = time.perf_counter()
    for _ in range(rounds):
        peer.round(everyone)
    return (time.perf_counter() - began) / rounds


def table(rows: list[dict]) -> pd.DataFrame:
    """Return rows as a frame whose numbers have four digits."""
    short = [{k: f"{v:.4g}" if isinstance(v, float) else v for k, v in r.items()} for r in rows]
    return pd.DataFrame(short)


def write(file: Path, rows: list[dict]) -> None:
    """Write the rows as csv, and its digest where the results are published."""
    file.parent.mkdir(parents=True, exist_ok=True)
    table(rows).to_csv(file, index=False, lineterminator="\n")
    if (file.parents[1] / sums.NAME).is_file():
        sums.put(file.parents[1], [f"{file.parent.name}/{file.name}"])


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit('usage: python -m tests.bench.scaling WORKLOAD PEER, such as W1 "sflkit auto"')
    main(*sys.argv[1:])
