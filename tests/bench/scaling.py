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
filled anew in every round; and in groups of `GROUP`, of which only the sum is kept.

    python -m tests.bench.scaling W1 "sflkit auto"     # the memory of one peer, as json
"""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from statistics import median

import numpy as np
import torch

from sflkit import checks
from sflkit.federated import Task, local_sgd
from sflkit.runs import sums
from tests.bench.peers import PEERS, Ours, select
from tests.bench.workloads import WORKLOADS, Workload

ROOT = Path(__file__).resolve().parents[2]
GROUP = 500
LEAST_SECONDS = 0.3  # of one measurement
MANY = Workload(
    "10000 LeNets", "lenet", {}, (1, 28, 28), 10, 10_000, 10_000, 1, 10, True, 0.05, float("nan")
)
GROWTH_COLUMNS = (
    "axis",
    "size",
    "seconds",
    "seconds_min",
    "seconds_max",
    "exponent",
    "exponent_se",
    "exponent_end",
    "exponent_end_se",
    "repeats",
    "threads",
    "load",
    "torch",
    "processor",
)
MEMORY_COLUMNS = (
    "workload",
    "peer",
    "clients",
    "n_params",
    "start_mib",
    "peak_mib",
    "threads",
    "torch",
    "processor",
)


class OursInGroups(Ours):
    """A round that holds `GROUP` local models at a time: the mean update needs only their sum."""

    def __init__(self, workload, x, y, ids, start):
        super().__init__(workload, x, y, ids, start)
        self.out = torch.empty(min(GROUP, workload.clients), self.task.n_params)

    def round(self, clients):
        total = torch.zeros_like(self.w)
        for i in range(0, len(clients), GROUP):
            batches = [select(self, k) for k in clients[i : i + GROUP]]
            updates = local_sgd(
                self.task,
                self.w,
                batches,
                self.workload.rate,
                backend=self.backend,
                updates=True,
                out=self.out[: len(batches)],
            )
            total += updates.sum(0)
        self.w = self.rule(self.w, (total / len(clients))[None])


ALL_PEERS = PEERS | {"sflkit in groups": OursInGroups}


def _clients(n: int) -> Workload:
    return replace(WORKLOADS["W4"], clients=n, pool=n)


def _parameters(width: int) -> Workload:
    return Workload(
        "", "mlp", {"hidden": (width, width)}, (32,), 10, 10, 10, 2, 32, False, 0.05, float("nan")
    )


def _samples(n: int) -> Workload:
    return replace(WORKLOADS["W1"], batch=n)


# axis: what its size counts, the workload of a value, the values
AXES = {
    "clients": (
        "clients of W4, a linear model with 42 parameters",
        _clients,
        (10, 30, 100, 300, 1000, 3000, 10_000),
    ),
    "parameters": (
        "parameters, 10 clients of an MLP, 2 steps of 32",
        _parameters,
        (16, 36, 80, 152, 296, 526, 978, 1710, 3140),
    ),
    "samples": ("cached samples, 10 clients of W1, a LeNet", _samples, (10, 30, 100, 300, 1000)),
}


def run(folder: Path | None, repeats: int, machine: dict, axes=AXES, memory=None) -> None:
    """Measure growth and memory, print them, and, given a folder, write scaling.csv and memory.csv
    there.
    """
    rows = []
    for axis in axes:
        rows += growth(axis, repeats, machine)
        last = rows[-1]
        print(
            f"{axis:12}{last['seconds']:>10} s at {last['size']:.4g}; "
            f"exponent {last['exponent']} +- {last['exponent_se']}, "
            f"in the last two decades {last['exponent_end']} +- {last['exponent_end_se']}",
            flush=True,
        )
        if folder:
            write(folder / "scaling.csv", GROWTH_COLUMNS, rows)
    rows = []
    for workload, peer in memory or [
        *((w, p) for w in WORKLOADS for p in PEERS),
        *((MANY.name, p) for p in ("sflkit auto", "sflkit in groups")),
    ]:
        rows.append(
            {"workload": workload, "peer": peer}
            | peak_memory(workload, peer)
            | {name: machine[name] for name in ("threads", "torch", "processor")}
        )
        print(
            f"{workload:14}{peer:18}{rows[-1]['start_mib']:>8} MiB before, "
            f"{rows[-1]['peak_mib']:>6} MiB at most",
            flush=True,
        )
        if folder:
            write(folder / "memory.csv", MEMORY_COLUMNS, rows)


def growth(axis: str, repeats: int, machine: dict, values=None) -> list[dict]:
    """Return one row per size of an axis of `AXES`, with the exponents of the axis."""
    _, make, defaults = AXES[checks.choice("axis", axis, AXES)]
    points = []
    for value in defaults if values is None else values:
        workload = make(value)
        x, y, ids = workload.data()
        peer = Ours(workload, x, y, ids, Task(workload.build()).init(0))
        size = peer.task.n_params if axis == "parameters" else value
        points.append((size, peer, _rounds(peer)))
    seconds: list[list[float]] = [[] for _ in points]
    for repeat in range(repeats):
        order = range(len(points))
        for i in order if repeat % 2 == 0 else reversed(order):
            seconds[i].append(_time(*points[i][1:]))
    sizes, medians = np.array([p[0] for p in points]), np.array([median(s) for s in seconds])
    late = sizes >= sizes.max() / 100
    slopes = [*fit(sizes, medians), *fit(sizes[late], medians[late])]
    rows = []
    for size, times in zip(sizes.tolist(), seconds, strict=True):
        values = (
            axis,
            size,
            median(times),
            min(times),
            max(times),
            *slopes,
            len(times),
            *machine.values(),
        )
        rows.append(
            {
                c: f"{v:.4g}" if isinstance(v, float) else v
                for c, v in zip(GROWTH_COLUMNS, values, strict=True)
            }
        )
    return rows


def fit(sizes, seconds) -> tuple[float, float]:
    """Return the exponent b of seconds = a size^b by least squares of the logarithms, and its
    standard error.

    Raises ValueError unless there are at least three points, of different sizes > 0 and seconds >
    0."""
    sizes, seconds = (
        checks.array("sizes", sizes, ndim=1, above=0),
        checks.array("seconds", seconds, ndim=1, above=0),
    )
    if len(sizes) < 3 or len(set(sizes.tolist())) < len(sizes) or len(seconds) != len(sizes):
        raise ValueError(
            f"sizes={sizes.tolist()} must be at least three different sizes with one time each; "
            "there are "
            f"{len(seconds)} times"
        )
    (slope, _), covariance = np.polyfit(np.log(sizes), np.log(seconds), 1, cov=True)
    return float(slope), float(np.sqrt(covariance[0, 0]))


def peak_memory(workload: str, peer: str) -> dict:
    """Return clients, n_params, start_mib and peak_mib of a peer's two rounds in a new process."""
    _named(workload, peer)
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]),
    }
    done = subprocess.run(
        [sys.executable, "-m", "tests.bench.scaling", workload, peer],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
    )
    if done.returncode:
        raise RuntimeError(
            f"{peer} on {workload} ended with {done.returncode}: {done.stderr.strip()[-500:]}"
        )
    return json.loads(done.stdout)


def main(workload: str, peer: str) -> None:
    work, make = _named(workload, peer)
    x, y, ids = work.data()
    start = Task(work.build()).init(0)
    one = make(work, x, y, ids, start)
    before = high_water_mib()
    for r in range(2):
        one.round(work.participants(r))
    print(
        json.dumps(
            {
                "clients": work.clients,
                "n_params": len(start),
                "start_mib": before,
                "peak_mib": high_water_mib(),
            }
        )
    )


def high_water_mib() -> int:
    """Return the highest resident memory of this process so far, MiB.

    Linux: VmHWM. What getrusage says there counts the parent's memory in, since the child is the
    parent's image until exec."""
    try:
        line = next(
            x for x in Path("/proc/self/status").read_text().splitlines() if x.startswith("VmHWM:")
        )
        return int(line.split()[1]) // 1024
    except (OSError, StopIteration):
        import resource

        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak // 2**20 if sys.platform == "darwin" else peak // 1024


def _named(workload: str, peer: str) -> tuple[Workload, type]:
    works = WORKLOADS | {MANY.name: MANY}
    return works[checks.choice("workload", workload, works)], ALL_PEERS[
        checks.choice("peer", peer, ALL_PEERS)
    ]


def _rounds(peer) -> int:
    """Return how many rounds a measurement takes, to last `LEAST_SECONDS`; warms up on the way."""
    for _ in range(2):
        _time(peer, 1)
    return max(1, round(LEAST_SECONDS / _time(peer, 1)))


def _time(peer, rounds: int) -> float:
    everyone = peer.workload.participants(0)
    began = time.perf_counter()
    for _ in range(rounds):
        peer.round(everyone)
    return (time.perf_counter() - began) / rounds


def write(file: Path, columns, rows: list[dict]) -> None:
    """Write the rows as csv with these columns, and its digest where the results are published."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with open(file, "w", newline="") as f:
        writer = csv.DictWriter(f, columns, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    if (file.parents[1] / sums.NAME).is_file():
        sums.put(file.parents[1], [f"{file.parent.name}/{file.name}"])


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit('usage: python -m tests.bench.scaling WORKLOAD PEER, such as W1 "sflkit auto"')
    try:
        main(*sys.argv[1:])
    except ValueError as error:
        sys.exit(str(error))
