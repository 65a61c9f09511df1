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
        print(f"no Flower: {PYTHON.relative_to(ROOT)} is missing; see tests/bench/flower.py")
        return []
    found = []
    env = os.environ | {"PYTHONPATH": str(ROOT), "FLWR_TELEMETRY_ENABLED": "0"}
    for cpus in CPUS_A_CLIENT[: os.cpu_count()]:
        command = [str(PYTHON), __file__, workload, str(rounds + 1), str(cpus)]
        try:
            done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=timeout)
            found.append(json.loads(done.stdout.strip().splitlines()[-1])[1:])
        except (subprocess.TimeoutExpired, json.JSONDecodeError, IndexError) as error:
            print(f"{workload}: Flower with {cpus} CPUs a client gave no result: {error!r}")
    return min(found, key=median, default=[])


def main(name: str, rounds: int, cpus: int) -> None:
    import flwr
    import torch
    from torch.nn import functional as F

    from tests.bench.peers import select
    from tests.bench.workloads import WORKLOADS

    workload = WORKLOADS[name]

    class Client(flwr.client.NumPyClient):
        made: tuple = ()  # the data and the model, once in each Ray worker

        def __init__(self, k):
            Client.made = Client.made or (*workload.data(), workload.build())
            self.k, self.workload = k, workload
            self.x, self.y, self.ids, self.model = Client.made

        def fit(self, parameters, config):
            with torch.no_grad():
                for p, value in zip(self.model.parameters(), parameters):
                    p.copy_(torch.from_numpy(value))
            optimiser = torch.optim.SGD(self.model.parameters(), lr=workload.rate)
            for x, y in select(self, self.k):
                optimiser.zero_grad()
                F.cross_entropy(self.model(x), y).backward()
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

    start = [p.detach().numpy() for p in workload.build().parameters()]
    flwr.simulation.start_simulation(
        client_fn=lambda context: Client(int(context.node_config["partition-id"])).to_client(),
        num_clients=workload.pool,
        config=flwr.server.ServerConfig(num_rounds=rounds),
        strategy=Timed(
            fraction_fit=workload.clients / workload.pool,
            fraction_evaluate=0.0,
            min_fit_clients=workload.clients,
            min_available_clients=workload.pool,
            initial_parameters=flwr.common.ndarrays_to_parameters(start),
        ),
        client_resources={"num_cpus": cpus, "num_gpus": 0},
        ray_init_args={"include_dashboard": False},
    )
    print(json.dumps([end - begin for begin, end in zip(stamps[::2], stamps[1::2])]))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
