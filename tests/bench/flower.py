"""Flower's simulation as a peer, in its own environment: `.venv-bench`, made by

    python -m venv .venv-bench && .venv-bench/bin/pip install "flwr[simulation]==1.41" torch numpy

Run as a program inside it (`python flower.py W1 5 2`), this file trains one workload for five
rounds with two CPUs a client and prints a JSON list, the seconds of each round. `run` starts it
from the benchmark with each of `CPUS_A_CLIENT` and returns the faster list, or [] when the
environment is missing. Start-up is not counted. `start_simulation` is Flower's older way; with its
newer one, `run_simulation`, a round of W4 took 0.91 s in place of 0.22, and the others no less."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from statistics import median

ROOT = Path(__file__).resolve().parents[2]
PYTHON = ROOT / ".venv-bench" / "bin" / "python"
CPUS_A_CLIENT = (1, 2)  # which of them Flower is faster with depends on the workload


def run(workload: str, rounds: int, timeout: float = 600.0) -> list[float]:
    """Return the seconds of `rounds` rounds, the first (a warm-up) dropped, with the better number
    of CPUs; [] without Flower.
    """
    if not PYTHON.exists():
        print(
            f"Flower is left out: {PYTHON.relative_to(ROOT)} is missing; see tests/bench/flower.py"
        )
        return []
    cpus = [n for n in CPUS_A_CLIENT if n <= (os.cpu_count() or 1)]
    return min(
        (seconds for n in cpus if (seconds := _run(workload, rounds, n, timeout))),
        key=median,
        default=[],
    )


def _run(workload: str, rounds: int, cpus: int, timeout: float) -> list[float]:
    env = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "RAY_DEDUP_LOGS": "0",
        "FLWR_TELEMETRY_ENABLED": "0",
    }
    command = [str(PYTHON), str(Path(__file__)), workload, str(rounds + 1), str(cpus)]
    done = None
    try:
        done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=timeout)
        return json.loads(done.stdout.strip().splitlines()[-1])[1:]
    except (subprocess.TimeoutExpired, json.JSONDecodeError, IndexError) as error:
        last = done.stderr.strip().splitlines()[-1:] if done else []
        print(
            f"{workload}: Flower with {cpus} CPUs a client gave no result:",
            *last or [type(error).__name__],
        )
        return []


def main(name: str, rounds: int, cpus: int) -> None:
    import flwr
    import torch
    from torch.nn import functional as F

    from tests.bench.workloads import WORKLOADS

    workload = WORKLOADS[name]
    data: dict = {}  # filled once in each Ray worker

    class Client(flwr.client.NumPyClient):
        def __init__(self, k):
            if not data:
                data["x"], data["y"], data["ids"] = workload.data()
                data["model"] = workload.build()
            self.k, self.model = k, data["model"]

        def fit(self, parameters, config):
            with torch.no_grad():
                for p, value in zip(self.model.parameters(), parameters):
                    p.copy_(torch.from_numpy(value))
            optimiser = torch.optim.SGD(self.model.parameters(), lr=workload.rate)
            ids = data["ids"][self.k]
            for s in range(workload.steps):
                i = ids[0] if workload.full_batch else ids[s]
                optimiser.zero_grad()
                F.cross_entropy(self.model(data["x"][i]), data["y"][i]).backward()
                optimiser.step()
            return [p.detach().numpy() for p in self.model.parameters()], workload.batch, {}

    stamps: list[float] = []

    class Timed(flwr.server.strategy.FedAvg):
        def configure_fit(self, *args, **kwargs):
            stamps.append(time.perf_counter())
            return super().configure_fit(*args, **kwargs)

        def aggregate_fit(self, *args, **kwargs):
            result = super().aggregate_fit(*args, **kwargs)
            stamps.append(time.perf_counter())
            return result

    start = flwr.common.ndarrays_to_parameters(
        [p.detach().numpy() for p in workload.build().parameters()]
    )
    strategy = Timed(
        fraction_fit=workload.clients / workload.pool,
        fraction_evaluate=0.0,
        min_fit_clients=workload.clients,
        min_available_clients=workload.pool,
        initial_parameters=start,
    )
    flwr.simulation.start_simulation(
        client_fn=lambda context: Client(int(context.node_config["partition-id"])).to_client(),
        num_clients=workload.pool,
        config=flwr.server.ServerConfig(num_rounds=rounds),
        strategy=strategy,
        client_resources={"num_cpus": cpus, "num_gpus": 0},
        ray_init_args={"include_dashboard": False},
    )
    print(json.dumps([end - begin for begin, end in zip(stamps[::2], stamps[1::2])]))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
