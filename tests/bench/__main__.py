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
from tests.bench import draw, flower, scaling
from tests.bench.peers import PEERS
from tests.bench.workloads import WORKLOADS, Workload

RESULTS = Path(__file__).resolve().parents[2] / "data" / "results" / "bench"
COLUMNS = (
    "workload",
    "peer",
    "seconds",
    "seconds_min",
    "seconds_max",
    "speedup",
    "speedup_min",
    "speedup_max",
    "peak_share",
    "difference",
    "repeats",
    "threads",
    "load",
    "torch",
    "processor",
)


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m tests.bench", description=__doc__.split("\n", 1)[0]
    )
    parser.add_argument("--workloads", nargs="+", choices=list(WORKLOADS), default=list(WORKLOADS))
    parser.add_argument(
        "--repeats", type=int, default=7, help="measurements of each peer, at least 5"
    )
    parser.add_argument(
        "--scaling", action="store_true", help="growth and peak memory in place of the workloads"
    )
    parser.add_argument(
        "--draw", action="store_true", help="measure nothing; draw figures/bench.png anew"
    )
    parser.add_argument(
        "--force", action="store_true", help="keep the results of a busy machine, too"
    )
    args = parser.parse_args()
    if args.repeats < 5:
        parser.error(f"--repeats {args.repeats} must be at least 5")
    if not args.draw and _measure_all(args):
        print("kept; `sflkit verdicts --write-readme` brings docs/guides/speed.md up to date")
    try:
        print(f"drawn: {draw.draw()}")
    except ValueError as error:
        raise SystemExit(str(error)) from None


def _measure_all(args) -> bool:
    """Measure what was asked for; return whether the results were kept."""
    machine = {
        "threads": thread_count(),
        "load": os.getloadavg()[0],
        "torch": torch.__version__,
        "processor": _processor(),
    }
    print(", ".join(f"{name} {value}" for name, value in machine.items()))
    busy = machine["load"] > 0.5
    keep = args.force or not busy
    if busy:
        print(
            "The machine is busy. Peers whose threads wait for one another, the plain loop first, "
            "then look many times slower than they are; take no ratio from this run"
            + ("." if args.force else ", which is not kept (--force keeps it).")
        )
    if args.scaling:
        scaling.run(RESULTS if keep else None, args.repeats, machine)
        return keep
    print(
        f"{'':4}{'peer':16}{'ms a round':>12}{'(range)':>18}{'over plain':>12}{'(range)':>16}"
        f"{'of sgemm':>9}{'difference':>12}"
    )
    for name in args.workloads:
        rows = measure(WORKLOADS[name], args.repeats, machine)
        for row in rows:
            _show(row)
        if keep:
            scaling.write(RESULTS / f"{name}.csv", COLUMNS, rows)
    return keep


def measure(workload: Workload, repeats: int, machine: dict) -> list[dict]:
    """Return one row per peer; `speedup` is the plain loop's seconds over the peer's."""
    x, y, ids = workload.data()
    start = Task(workload.build()).init(0)
    names = list(PEERS)
    peers = {n: PEERS[n](workload, x, y, ids, start) for n in names}
    for peer in peers.values():
        peer.round(workload.participants(0))
    after_one = {n: peer.params().clone() for n, peer in peers.items()}
    difference = {n: float((after_one[n] - after_one["plain"]).abs().max()) for n in names}
    rounds = {n: _rounds_per_sample(peer, workload) for n, peer in peers.items()}
    seconds: dict[str, list[float]] = {n: [] for n in names}
    peak = []
    for repeat in range(repeats):
        for n in names if repeat % 2 == 0 else reversed(names):
            seconds[n].append(_time(peers[n], workload, rounds[n]))
        peak.append(_sgemm_flops())
    wrong = {n: d for n, d in difference.items() if not d <= 1e-4}
    if wrong:
        raise SystemExit(
            f"{workload.name}: parameters after one round differ from the plain loop's by more "
            f"than 1e-4: {wrong}"
        )
    at_peak = (
        workload.flops * workload.clients * workload.steps * workload.batch / median(peak)
    )  # seconds

    def row(peer: str, times: list[float], plain: list[float], off: float) -> dict:
        ratios = [p / t for p, t in zip(plain, times, strict=True)]
        values = (
            workload.name,
            peer,
            median(times),
            min(times),
            max(times),
            median(ratios),
            min(ratios),
            max(ratios),
            at_peak / median(times),
            off,
            len(times),
            *machine.values(),
        )
        return {
            c: f"{v:.4g}" if isinstance(v, float) else v
            for c, v in zip(COLUMNS, values, strict=True)
        }

    rows = [row(n, seconds[n], seconds["plain"], difference[n]) for n in names]
    theirs = flower.run(workload.name, rounds=repeats)
    return rows + (
        [row("flower", theirs, [median(seconds["plain"])] * len(theirs), float("nan"))]
        if theirs
        else []
    )


def _rounds_per_sample(peer, workload: Workload) -> int:
    """Return how many rounds one measurement takes, to last about 0.3 s; warms up on the way."""
    for _ in range(3):
        seconds = _time(peer, workload, 1)
    if seconds < 0.05:  # a single round of a tiny model is too short to tell
        seconds = _time(peer, workload, 20)
    return max(1, round(0.3 / seconds))


def _time(peer, workload: Workload, rounds: int) -> float:
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
    try:
        line = next(
            x for x in Path("/proc/cpuinfo").read_text().splitlines() if x.startswith("model name")
        )
        name = line.split(":", 1)[1].strip()
    except (OSError, StopIteration):
        name = platform.processor() or platform.machine()
    return f"{name} x {os.cpu_count()}" + (
        f", {torch.cuda.get_device_name()}" if torch.cuda.is_available() else ""
    )


def _show(row: dict) -> None:
    ms = [1e3 * float(row[c]) for c in ("seconds", "seconds_min", "seconds_max")]
    up = [float(row[c]) for c in ("speedup", "speedup_min", "speedup_max")]
    print(
        f"{row['workload']:4}{row['peer']:16}{ms[0]:12.4g}"
        f"{f'({ms[1]:.4g} .. {ms[2]:.4g})':>20}{up[0]:10.2f}"
        f"{f'({up[1]:.2f} .. {up[2]:.2f})':>18}{float(row['peak_share']):9.3f}"
        f"{row['difference']:>12}",
        flush=True,
    )


if __name__ == "__main__":
    main()
