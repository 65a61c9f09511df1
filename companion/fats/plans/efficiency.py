"""Which runs notebook 43 needs: how long does forgetting take?

`largest_clients` is also where the lines of Figs. 2 and 6 end.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import NamedTuple

import numpy as np
import pandas as pd

from companion.judging.tables import paper_value
from companion.plans import Stage
from sflkit.fats import training
from sflkit.fats.config import TABLE_2, FATSConfig


class Efficiency(NamedTuple):
    """The frames of Figs. 2 and 6 (one request), of Fig. 3 (several), and of the timed training."""

    one: pd.DataFrame
    several: pd.DataFrame
    trained: pd.DataFrame


def efficiency(
    *,
    seed: int,
    runs: int,
    points: int,
    femnist_b: list[int],
    femnist_m: list[int],
    shakespeare_b: list[int],
    shakespeare_m: list[int],
    drawn_clients: list[int],
    requests: list[int],
    train_data: str,
    train_model: str,
    train_clients: int,
    train_samples: int,
    train_rounds: int,
    train_rate: float,
    train_steps: int,
    train_seeds: list[int],
) -> Generator[Stage, pd.DataFrame, Efficiency]:
    """Plan notebook 43: drawn histories at Table 2's sizes, and a training for the seconds."""
    counted = dict(seed=seed, train=False, runs=runs)
    lines = dict(femnist=(femnist_b, femnist_m), shakespeare=(shakespeare_b, shakespeare_m))
    one = yield Stage(
        training.run,
        [
            FATSConfig(**sizes, data=data, level=level, n_requests=1, **counted)
            for data, (batches, clients) in lines.items()
            for level, sizes in _points_of_lines(data, batches, clients, points)
        ],
        "one request",
    )
    several = yield Stage(
        training.run,
        [
            FATSConfig(
                **sizes | {"clients_per_round": k},
                data=data,
                level="client",
                n_requests=count,
                streaming=streaming,
                **counted,
            )
            for data, name in (("femnist", "FEMNIST"), ("shakespeare", "Shakespeare"))
            for sizes in [
                TABLE_2[data]
                | {"n_clients": int(paper_value("fats", "fats-fig3", f"{name} clients M"))}
            ]
            for k in drawn_clients
            for streaming in (False, True)
            for count in requests
        ],
        "several requests",
    )
    timed = dict(level="client", n_requests=5, streaming=True, data=train_data, model=train_model)
    timed |= dict(n_clients=train_clients, samples_per_client=train_samples, rounds=train_rounds)
    timed |= dict(local_steps=train_steps, rate=train_rate, test_size=200)
    timed |= dict(evaluate_every=train_rounds)
    trained = yield Stage(
        training.run,
        [
            FATSConfig(
                **timed,
                method=method,
                seed=s,
                clients_per_round=max(1, train_clients // train_rounds),
            )
            for s in train_seeds
            for method in ("fats", "frs")
        ],
        "timed",
    )
    return Efficiency(one, several, trained)


def _points_of_lines(
    data: str, batches: list[int], clients: list[int], points: int
) -> list[tuple[str, dict[str, int]]]:
    """Return level and sizes of the drawn points of Fig. 2 or 6.

    A line ends at the largest K whose rho is at most 1; the largest K that all lines of a level
    have is among its points.
    """
    table = TABLE_2[data]
    lines = [("sample", table["n_clients"], b) for b in sorted(batches)]
    lines += [("client", m, table["batch_size"]) for m in sorted(clients)]
    last = {line: largest_clients(data, *line) for line in lines}
    found = []
    for level, m, b in lines:
        common = min(k for line, k in last.items() if line[0] == level)
        ks = np.linspace(1, last[level, m, b], points).round().astype(int)
        found += [
            (level, table | {"n_clients": m, "batch_size": b, "clients_per_round": int(k)})
            for k in np.unique([*ks, common])
        ]
    return found


def largest_clients(data: str, level: str, n_clients: int, batch_size: int) -> int:
    """Return the largest K at which rho_S (level "sample") or rho_C ("client") is at most 1.

    R, E and N are those of the data set in Table 2; the total of samples is Table 2's as well.
    """
    table = TABLE_2[data]
    if level == "client":
        return n_clients // table["rounds"]
    samples = n_clients * table["samples_per_client"]
    return samples // (batch_size * table["rounds"] * table["local_steps"])
