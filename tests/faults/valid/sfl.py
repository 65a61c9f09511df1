"""Valid calls of the SFL paper's package."""

from __future__ import annotations

import numpy as np

from sflkit.sfl import (
    bounds,
    cache_paths,
    caches,
    config,
    discrepancy,
    sampling,
    streams,
)

problem = {
    "smoothness": 1.0,
    "local_rate": 0.01,
    "local_steps": 2,
    "n_classes": 3,
    "max_share": 0.5,
    "sigma_m2": 1.0,
    "sigma_g2": 1.0,
    "dissimilarity2": 0.5,
}


def rng() -> np.random.Generator:
    """Return a generator of its own."""
    return np.random.default_rng(0)


def stream() -> streams.LabelStream:
    """Return a stream of one client, two states and two labels."""
    return streams.LabelStream(
        np.array([[[0.8, 0.2], [0.3, 0.7]]]), np.array([[[0.9, 0.1], [0.2, 0.8]]])
    )


def held() -> caches.FIFO:
    """Return a cache that holds three samples."""
    cache = caches.FIFO(4, 2)
    cache.keep([0, 1, 2], [0, 1, 1])
    return cache


CALLS = {
    "LabelStream": lambda: (
        streams.LabelStream,
        {
            "short_term": np.full((2, 2, 2), 0.5),
            "transition": np.full((2, 2, 2), 0.5),
            "start": "stationary",
            "common": False,
        },
    ),
    "ShareStream": lambda: (streams.ShareStream, {"shares": np.full((3, 2, 2), 0.5)}),
    "ShareStream.sample": lambda: (
        streams.ShareStream(np.full((3, 2, 2), 0.5)).sample,
        {"rounds": 3, "batch_size": 4, "rng": rng(), "exact": False},
    ),
    "CountStream": lambda: (streams.CountStream, {"counts": np.full((3, 2, 2), 2)}),
    "CountStream.sample": lambda: (
        streams.CountStream(np.full((3, 2, 2), 2)).sample,
        {"rounds": 3, "batch_size": 4, "rng": rng(), "exact": False},
    ),
    "LabelStream.sample": lambda: (
        stream().sample,
        {"rounds": 3, "batch_size": 4, "rng": rng(), "exact": False},
    ),
    "kl_markov_stream": lambda: (
        streams.kl_markov_stream,
        {
            "n_clients": 2,
            "n_classes": 4,
            "classes_per_client": 2,
            "n_states": 3,
            "temperature": 1.0,
            "batch_size": 10,
            "rng": rng(),
        },
    ),
    "exact_discrepancy": lambda: (
        discrepancy.exact_discrepancy,
        {"stream": stream(), "rule": "fifo", "t": 5, "cache_rounds": 3},
    ),
    "SRSR": lambda: (caches.SRSR, {"capacity": 6, "batch_size": 2, "theta": 0.5}),
    "Full": lambda: (caches.Full, {"capacity": 6, "shares": np.full(2, 0.5), "refresh": True}),
    "sfl lemma2": lambda: (
        bounds.lemma2,
        problem | {"lambda2": 0.1, "grad_norm2": 1.0},
    ),
    "sfl theorem1": lambda: (
        bounds.theorem1,
        problem
        | {
            "loss_gap": 1.0,
            "rounds": 3,
            "global_rate": 1.0,
            "lambda2": np.zeros(3),
            "n_clients": 2,
        },
    ),
    "fifo_discrepancy": lambda: (
        bounds.fifo_discrepancy,
        {"cache_rounds": 3.0, "corr_rounds": 1.0, "delta2": 0.1},
    ),
    "SFLConfig": lambda: (
        config.SFLConfig,
        {"rule": "drsr", "seed": 0, "rounds": 5, "theta": 0.5, "local_rate": 0.1},
    ),
    "LabelStream.autocovariance": lambda: (stream().autocovariance, {"lag": 2}),
    "LabelStream.autocovariances": lambda: (stream().autocovariances, {"max_lag": 2}),
    "LabelStream.states": lambda: (stream().states, {"rounds": 3, "rng": rng()}),
    "moving_average_stream": lambda: (
        streams.moving_average_stream,
        {"corr_rounds": 3, "swing": 0.4},
    ),
    "DRSR": lambda: (caches.DRSR, {"capacity": 6, "batch_size": 2}),
    "FIFO": lambda: (caches.FIFO, {"capacity": 6, "batch_size": 2}),
    **{
        f"{rule.__name__}.update": lambda rule=rule: (
            rule(4, 2).update,
            {"ids": np.array([3, 4]), "labels": np.array([0, 1]), "rng": rng()},
        )
        for rule in (caches.FIFO, caches.Lazy, caches.Reservoir, caches.DRSR)
    },
    "Cache.keep": lambda: (
        caches.FIFO(4, 2).keep,
        {"ids": np.array([0, 1, 2]), "labels": np.array([0, 1, 1])},
    ),
    "Cache.label_counts": lambda: (held().label_counts, {"n_classes": 3}),
    "SampleSource": lambda: (
        sampling.SampleSource,
        {"labels": np.arange(8) % 2, "rng": rng()},
    ),
    "SampleSource.draw": lambda: (
        sampling.SampleSource(np.arange(8) % 2, rng()).draw,
        {"counts": np.array([2, 1])},
    ),
    "draw_test_set": lambda: (
        sampling.draw_test_set,
        {"labels": np.arange(8) % 2, "shares": np.array([0.5, 0.5]), "size": 4, "rng": rng()},
    ),
    "repeat_clients": lambda: (discrepancy.repeat_clients, {"stream": stream(), "repeats": 3}),
    "rule_weights": lambda: (
        discrepancy.rule_weights,
        {"rule": "srsr", "t": 5, "cache_rounds": 3, "theta": 0.5},
    ),
    "exact_path": lambda: (
        discrepancy.exact_path,
        {"stream": stream(), "rule": "srsr", "rounds": 5, "cache_rounds": 3, "theta": 0.5},
    ),
    "exact_discrepancy of weights": lambda: (
        discrepancy.exact_discrepancy,
        {"stream": stream(), "weights": np.array([0.5, 0.5])},
    ),
    "correlation_rounds": lambda: (
        discrepancy.correlation_rounds,
        {"stream": stream(), "window": 10},
    ),
    "DiscrepancyConfig": lambda: (
        discrepancy.DiscrepancyConfig,
        {"rule": "drsr", "seed": 0, "n_clients": 4, "temperature": 0.2},
    ),
    "srsr_discrepancy": lambda: (
        bounds.srsr_discrepancy,
        {
            "t": np.array([2, 5]),
            "cache_rounds": 3.0,
            "theta": 0.5,
            "corr_rounds": 1.0,
            "delta2": 0.1,
            "share": 0.5,
            "start": 0.0,
        },
    ),
    "srsr_discrepancy_limit": lambda: (
        bounds.srsr_discrepancy_limit,
        {"cache_rounds": 3.0, "theta": 0.5, "corr_rounds": 1.0, "delta2": 0.1},
    ),
    "drsr_discrepancy": lambda: (
        bounds.drsr_discrepancy,
        {"t": np.array([2, 5]), "corr_rounds": 1.0, "delta2": 0.1},
    ),
    "sfl lemma1": lambda: (
        bounds.lemma1,
        {"n_classes": 3, "lambda2": 0.1, "sigma_m2": 1.0, "max_share": 0.5},
    ),
    "corollary2": lambda: (bounds.corollary2, {"rounds": 9, "local_steps": 2, "n_clients": 4}),
    "cache_paths": lambda: (
        lambda **brought: cache_paths.run(
            config.SFLConfig(train=False, rounds=2, n_clients=2, capacity=4, batch_size=2),
            **brought,
        ),
        {"cache": caches.FIFO},
    ),
}
