"""`python -m tests.bench`: seconds a federated round, ours beside a plain loop (and Flower, when
.venv-bench has it).

Peers alternate within one process, since the speed of a shared machine drifts: a ratio is the
median over repeats of the ratio of two neighbouring measurements, with its range. Parameters after
one round must agree to 1e-4. Flower runs afterwards in a process of its own: each of its rounds is
compared with the plain loop's median, and its parameters with nobody's."""

from __future__ import annotations

import argparse
import os
import platform
import time
from pathlib import Path
from statistics import median

import torch

from sflkit.federated import Task
from sflkit.machine import thread_count
from tests.bench import flower, scaling
from tests.bench.peers import PEERS
from tests.bench.workloads import WORKLOADS, Workload

RESULTS = scaling.ROOT / "data" / "results" / "bench"
SHOWN = ["workload", "peer", "seconds", "seconds_min", "seconds_max"]
SHOWN += ["speedup", "speedup_min", "speedup_max", "peak_share", "difference"]


def main() -> None:
    parser = argparse.ArgumentParser("python -m tests.bench", description=__doc__.split("\n\n")[0])
    parser.add_argument("--workloads", nargs="+", choices=list(WORKLOADS), default=list(WORKLOADS))
    parser.add_argument("--repeats", type=int, default=7, help="measurements of each, at least 5")
    parser.add_argument("--scaling", action="store_true", help="growth and peak memory instead")
    parser.add_argument("--force", action="store_true", help="keep a busy machine's results, too")
    args = parser.parse_args()
    if args.repeats < 5:
        parser.error(f"--repeats {args.repeats} must be at least 5")
    _measure_all(args)


def _measure_all(args: argparse.Namespace) -> None:
    load = os.getloadavg()[0]
    machine = {"threads": thread_count(), "load": load, "torch": torch.__version__}
    machine["processor"] = _processor()
    print(", ".join(f"{name} {value}" for name, value in machine.items()))
    folder = RESULTS
    if load > 0.5:
        print(
            "The machine is busy. Peers whose threads wait for one another, the plain loop first, "
            "then look many times slower than they are; take no ratio from this run. "
            f"It is {'' if args.force else 'not '}kept."
        )
        folder = RESULTS if args.force else None
    if args.scaling:
        scaling.run(folder, args.repeats, machine)
        return
    for name in args.workloads:
        rows = measure(WORKLOADS[name], args.repeats, machine)
        print(scaling.table(rows)[SHOWN].to_string(index=False), flush=True)
        if folder:
            scaling.write(folder / f"{name}.csv", rows)
    if folder:
        print("kept; `sflkit verdicts --write-readme` brings docs/guides/speed.md up to date")


def measure(workload: Workload, repeats: int, machine: dict) -> list[dict]:
    """Return one row per peer; `speedup` is the plain loop's seconds over the peer's."""
    x, y, ids = workload.data()
    start = Task(workload.build()).init(0)
    peers = {name: make(workload, x, y, ids, start) for name, make in PEERS.items()}
    for peer in peers.values():
        peer.round(workload.participants(0))
    plain = peers["plain"].params().clone()
    off = {name: float((peer.params() - plain).abs().max()) for name, peer in peers.items()}
    if wrong := {name: d for name, d in off.items() if not d <= 1e-4}:
        raise SystemExit(
            f"{workload.name}: parameters after one round differ from the plain loop's by more "
            f"than 1e-4: {wrong}"
        )
    rounds = {name: _rounds_per_sample(peer, workload) for name, peer in peers.items()}
    seconds: dict[str, list[float]] = {name: [] for name in peers}
    peak = []
    for repeat in range(repeats):
        for name in list(peers)[:: 1 if repeat % 2 == 0 else -1]:
            seconds[name].append(timed(peers[name], workload, rounds[name]))
        peak.append(_sgemm_flops())
    base, at_peak = seconds["plain"], workload.flops() / median(peak)
    rows = [
        _row(times, base, at_peak) | {"peer": n, "difference": off[n]}
        for n, times in seconds.items()
    ]
    if theirs := flower.run(workload.name, rounds=repeats):
        row = _row(theirs, [median(base)] * len(theirs), at_peak)
        rows.append(row | {"peer": "flower", "difference": float("nan")})
    return [{"workload": workload.name} | row | machine for row in rows]


def _row(times: list[float], plain: list[float], at_peak: float) -> dict:
    ratios = [p / t for p, t in zip(plain, times, strict=True)]
    row = {"peer": "", **scaling.spread("seconds", times), **scaling.spread("speedup", ratios)}
    row |= {"peak_share": at_peak / median(times), "difference": 0.0}
    return row | {"repeats": len(times)}


def _rounds_per_sample(peer, workload: Workload) -> int:
    """Return how many rounds one measurement takes, to last about 0.3 s; warms up on the way."""
    for _ in range(3):
        seconds = timed(peer, workload, 1)
    if seconds < 0.05:  # a single round of a tiny model is too short to tell
        seconds = timed(peer, workload, 20)
    return max(1, round(0.3 / seconds))


def timed(peer, workload: Workload, rounds: int) -> float:
    began = time.perf_counter()
    for r in range(rounds):
        peer.round(workload.participants(r + 1))
    return (time.perf_counter() - began) / rounds


def _sgemm_flops(n: int = 2048) -> float:
    a, b = torch.ones(n, n), torch.ones(n, n)
    a @ b
    began = time.perf_counter()
    a @ b
    return 2 * n**3 / (time.perf_counter() - began)


def _processor() -> str:
    name, cpus = platform.processor() or platform.machine(), Path("/proc/cpuinfo")
    for line in cpus.read_text().splitlines() if cpus.exists() else ():
        if line.startswith("model name"):
            name = line.split(":", 1)[1].strip()
    gpu = f", {torch.cuda.get_device_name()}" if torch.cuda.is_available() else ""
    return f"{name} x {os.cpu_count()}{gpu}"


if __name__ == "__main__":
    main()
