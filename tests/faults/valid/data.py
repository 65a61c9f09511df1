"""Valid calls of what makes, splits and reads data."""

from __future__ import annotations

import numpy as np

from sflkit import data
from sflkit.data import federations, partitions, traffic


def rng() -> np.random.Generator:
    """Return a generator of its own."""
    return np.random.default_rng(0)


def static() -> federations.Federation:
    """Return the digits at three clients."""
    return federations.static("digits", n_clients=3, seed=0)


CALLS = {
    "Dataset.of": lambda: (
        data.Dataset.of,
        dict(x=np.ones((6, 2)), y=np.array([0, 1, 0, 1, 0, 1]), name="mine"),
    ),
    "dirichlet": lambda: (
        partitions.dirichlet,
        dict(labels=np.arange(40) % 4, n_clients=3, alpha=5.0, rng=rng()),
    ),
    "pachinko": lambda: (
        partitions.pachinko,
        dict(
            fine=np.repeat(np.arange(4), 10),
            coarse=np.repeat([0, 0, 1, 1], 10),
            n_clients=4,
            rng=rng(),
            alpha=0.5,
            beta=10.0,
        ),
    ),
    "load": lambda: (data.load, dict(name="digits", download=False)),
    "data_streams": lambda: (
        lambda **options: federations.data_streams("digits", **options),
        dict(n_clients=10, hist_fraction=0.2, seed=0, n_historical=5, n_samples=100, alpha=0.4),
    ),
    "static": lambda: (
        lambda **options: federations.static("digits", **options),
        dict(n_clients=5, seed=0, alpha=0.5, n_samples=100, min_samples=1),
    ),
    "validation_split": lambda: (
        federations.validation_split,
        dict(federation=federations.static("digits", n_clients=3, seed=0), share=0.2, rng=rng()),
    ),
    "generate": lambda: (traffic.generate, dict(n_packets=40, seed=0, n_classes=4, n_flows=5)),
}
