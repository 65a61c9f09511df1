"""Valid calls of what joins two papers, and of the exercises' checks."""

from __future__ import annotations

import numpy as np

from companion import teaching
from companion.beyond import costs, forgetting, memories, proofs, stores
from companion.beyond.forgetting import Stream
from sflkit.fats.history import History, draw_history
from sflkit.osafl.config import OSAFLConfig

STREAMS = [
    Stream(np.array([0, 0, 1, 2, 2]), np.array([0, 1, 0, 1, 0])),
    Stream(np.array([0, 1, 1, 2]), np.array([1, 1, 0, 0])),
]


def rng() -> np.random.Generator:
    """Return a generator of its own."""
    return np.random.default_rng(0)


def filled() -> forgetting.Caches:
    """Return what two caches held in four rounds."""
    return forgetting.fill(STREAMS, "fifo", capacity=3, batch_size=2, rounds=4)


def drawn() -> History:
    """Return a history drawn from these caches."""
    return draw_history(
        n_clients=2,
        samples_per_client=[5, 4],
        clients_per_round=1,
        batch_size=1,
        local_steps=2,
        rounds=4,
        rng=rng(),
        held=filled().held,
    )


CALLS = {
    "fill": lambda: (
        forgetting.fill,
        {
            "streams": STREAMS,
            "rule": "srsr",
            "capacity": 3,
            "batch_size": 2,
            "rounds": 4,
            "seed": 0,
            "theta": 0.5,
        },
    ),
    "fill of a stream": lambda: (
        lambda arrival, labels: forgetting.fill(
            [Stream(arrival, labels)], "fifo", capacity=3, batch_size=2, rounds=4
        ),
        {"arrival": np.array([0, 0, 1, 2]), "labels": np.array([0, 1, 0, 1])},
    ),
    "never_arrived": lambda: (
        forgetting.never_arrived,
        {
            "history": drawn(),
            "caches": filled(),
            "client": 0,
            "sample": 1,
            "rng": rng(),
            "rounds_done": 3,
        },
    ),
    "follow": lambda: (
        forgetting.follow,
        {
            "history": drawn(),
            "held": filled().without(0, 1).held,
            "client": 0,
            "sample": 1,
            "rng": rng(),
        },
    ),
    "Caches.without": lambda: (filled().without, {"client": 0, "sample": 1}),
    "dropped_reads": lambda: (
        forgetting.dropped_reads,
        {"history": drawn(), "first": 1, "rounds_done": 3},
    ),
    "fifo": lambda: (memories.fifo, {"client": 0, "most": 3}),
    "drsr": lambda: (memories.drsr, {"client": 0, "most": 3}),
    "c_ratio_with_caches": lambda: (
        memories.c_ratio_with_caches,
        {"c_ratio": 0.5, "rounds_kept": 5},
    ),
    "long_term_shares": lambda: (
        stores.long_term_shares,
        {"config": OSAFLConfig(n_clients=3, rounds=2)},
    ),
    "distances": lambda: (
        proofs.distances,
        {
            "case": proofs.Case((Stream(np.array([0, 0, 1]), np.array([0, 1, 0])),), 1),
            "rule": "fifo",
            "repair": "exact",
        },
    ),
    "CostsConfig": lambda: (
        costs.CostsConfig,
        {"rule": "drsr", "seed": 0, "n_clients": 10, "capacity": 20},
    ),
    "ProofConfig": lambda: (
        proofs.ProofConfig,
        {"case": "there from the start", "rule": "fifo", "seed": 0},
    ),
    "check": lambda: (teaching.check, {"exercise": "10", "answer": None}),
}
