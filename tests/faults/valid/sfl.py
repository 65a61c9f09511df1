"""Valid calls of the SFL paper's package."""

from __future__ import annotations

import numpy as np

from sflkit.sfl import bounds, cache_paths, caches, config, discrepancy, sampling, streams, training

problem = dict(
    smoothness=1.0,
    local_rate=0.01,
    local_steps=2,
    n_classes=3,
    max_share=0.5,
    sigma_m2=1.0,
    sigma_g2=1.0,
    dissimilarity2=0.5,
)


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


bare = config.SFLConfig(
    train=False, n_clients=3, n_classes=5, n_states=2, capacity=20, batch_size=10, rounds=4
)

CALLS = {
    "LabelStream": lambda: (
        streams.LabelStream,
        dict(
            short_term=np.full((2, 2, 2), 0.5),
            transition=np.full((2, 2, 2), 0.5),
            start="stationary",
            common=False,
        ),
    ),
    "GivenStream of shares": lambda: (streams.GivenStream, dict(stream=np.full((3, 2, 2), 0.5))),
    "GivenStream.sample of shares": lambda: (
        streams.GivenStream(np.full((3, 2, 2), 0.5)).sample,
        dict(rounds=3, batch_size=4, rng=rng(), exact=False),
    ),
    "GivenStream of counts": lambda: (streams.GivenStream, dict(stream=np.full((3, 2, 2), 2))),
    "GivenStream.sample of counts": lambda: (
        streams.GivenStream(np.full((3, 2, 2), 2)).sample,
        dict(rounds=3, batch_size=4, rng=rng(), exact=False),
    ),
    "LabelStream.sample": lambda: (
        stream().sample,
        dict(rounds=3, batch_size=4, rng=rng(), exact=False),
    ),
    "kl_markov_stream": lambda: (
        streams.kl_markov_stream,
        dict(
            n_clients=2,
            n_classes=4,
            classes_per_client=2,
            n_states=3,
            temperature=1.0,
            batch_size=10,
            rng=rng(),
        ),
    ),
    "exact_discrepancy": lambda: (
        discrepancy.exact_discrepancy,
        dict(stream=stream(), rule="fifo", t=5, cache_rounds=3),
    ),
    "SRSR": lambda: (caches.SRSR, dict(capacity=6, batch_size=2, theta=0.5)),
    "Full": lambda: (caches.Full, dict(capacity=6, shares=np.full(2, 0.5), refresh=True)),
    "sfl lemma2": lambda: (bounds.lemma2, problem | dict(lambda2=0.1, grad_norm2=1.0)),
    "sfl theorem1": lambda: (
        bounds.theorem1,
        problem | dict(loss_gap=1.0, rounds=3, global_rate=1.0, lambda2=np.zeros(3), n_clients=2),
    ),
    "fifo_discrepancy": lambda: (
        bounds.fifo_discrepancy,
        dict(cache_rounds=3.0, corr_rounds=1.0, delta2=0.1),
    ),
    "SFLConfig": lambda: (
        config.SFLConfig,
        dict(
            rule="drsr",
            seed=0,
            rounds=5,
            theta=0.5,
            local_rate=0.1,
            temperature=0.5,
            capacity=20,
            batch_size=10,
            train=False,
            n_classes=5,
            classes_per_client=2,
        ),
    ),
    "LabelStream.autocovariance": lambda: (stream().autocovariance, dict(lag=2)),
    "LabelStream.autocovariances": lambda: (stream().autocovariances, dict(max_lag=2)),
    "LabelStream.states": lambda: (stream().states, dict(rounds=3, rng=rng())),
    "moving_average_stream": lambda: (
        streams.moving_average_stream,
        dict(corr_rounds=3, swing=0.4),
    ),
    **{
        rule.__name__: lambda rule=rule: (rule, dict(capacity=6, batch_size=2))
        for rule in (caches.FIFO, caches.Lazy, caches.Reservoir, caches.DRSR)
    },
    **{
        f"{rule.__name__}.update": lambda rule=rule: (
            rule(4, 2).update,
            dict(ids=np.array([3, 4]), labels=np.array([0, 1]), rng=rng()),
        )
        for rule in (caches.FIFO, caches.Lazy, caches.Reservoir, caches.DRSR)
    },
    "Cache.keep": lambda: (
        caches.FIFO(4, 2).keep,
        dict(ids=np.array([0, 1, 2]), labels=np.array([0, 1, 1])),
    ),
    "Cache.label_counts": lambda: (held().label_counts, dict(n_classes=3)),
    "SampleSource": lambda: (sampling.SampleSource, dict(labels=np.arange(8) % 2, rng=rng())),
    "SampleSource.draw": lambda: (
        sampling.SampleSource(np.arange(8) % 2, rng()).draw,
        dict(counts=np.array([2, 1])),
    ),
    "draw_test_set": lambda: (
        sampling.draw_test_set,
        dict(labels=np.arange(8) % 2, shares=np.array([0.5, 0.5]), size=4, rng=rng()),
    ),
    "repeat_clients": lambda: (discrepancy.repeat_clients, dict(stream=stream(), repeats=3)),
    "rule_weights": lambda: (
        discrepancy.rule_weights,
        dict(rule="srsr", t=5, cache_rounds=3, theta=0.5),
    ),
    "exact_path": lambda: (
        discrepancy.exact_path,
        dict(stream=stream(), rule="srsr", rounds=5, cache_rounds=3, theta=0.5),
    ),
    "exact_discrepancy of weights": lambda: (
        discrepancy.exact_discrepancy,
        dict(stream=stream(), weights=np.array([0.5, 0.5])),
    ),
    "correlation_rounds": lambda: (
        discrepancy.correlation_rounds,
        dict(stream=stream(), window=10),
    ),
    "DiscrepancyConfig": lambda: (
        discrepancy.DiscrepancyConfig,
        dict(
            rule="drsr",
            seed=0,
            n_clients=4,
            temperature=0.2,
            theta=0.5,
            rounds=5,
            repeats=2,
            part=0,
        ),
    ),
    "srsr_discrepancy": lambda: (
        bounds.srsr_discrepancy,
        dict(
            t=np.array([2, 5]),
            cache_rounds=3.0,
            theta=0.5,
            corr_rounds=1.0,
            delta2=0.1,
            share=0.5,
            start=0.0,
        ),
    ),
    "srsr_discrepancy_limit": lambda: (
        bounds.srsr_discrepancy_limit,
        dict(cache_rounds=3.0, theta=0.5, corr_rounds=1.0, delta2=0.1),
    ),
    "drsr_discrepancy": lambda: (
        bounds.drsr_discrepancy,
        dict(t=np.array([2, 5]), corr_rounds=1.0, delta2=0.1),
    ),
    "sfl lemma1": lambda: (
        bounds.lemma1,
        dict(n_classes=3, lambda2=0.1, sigma_m2=1.0, max_share=0.5),
    ),
    "corollary2": lambda: (bounds.corollary2, dict(rounds=9, local_steps=2, n_clients=4)),
    "cache_paths": lambda: (
        lambda **brought: cache_paths.run(
            config.SFLConfig(train=False, rounds=2, n_clients=2, capacity=4, batch_size=2),
            **brought,
        ),
        dict(cache=caches.FIFO),
    ),
    "LabelStream from a start": lambda: (
        lambda start: streams.LabelStream(
            np.full((2, 2, 2), 0.5), np.full((2, 2, 2), 0.5), start=start
        ),
        dict(start=np.array([0, 1])),
    ),
    "Full.update": lambda: (
        caches.Full(4, np.full(2, 0.5)).update,
        dict(ids=np.array([3, 4]), labels=np.array([0, 1]), rng=rng()),
    ),
    "run of shares": lambda: (
        lambda **own: training.run(bare, **own),
        dict(stream=np.full((4, 3, 5), 0.2), start="append", stop_after=2),
    ),
    "run of counts": lambda: (
        lambda **own: training.run(bare, **own),
        dict(stream=np.full((4, 3, 5), 2)),
    ),
}

BEYOND = {
    **{rule: dict(batch_size=(7,)) for rule in ("FIFO", "Lazy", "Reservoir", "DRSR", "SRSR")},
    "SFLConfig": dict(batch_size=(21,), classes_per_client=(6,)),
    "kl_markov_stream": dict(classes_per_client=(5,), batch_size=(1,)),
    "moving_average_stream": dict(corr_rounds=(11,), swing=(0.6,)),
    "exact_discrepancy": dict(t=(2,), rule=("srsr",)),
    "rule_weights": dict(rule=("drsr",)),
    "Cache.label_counts": dict(n_classes=(1,)),
    "LabelStream": dict(transition=(np.stack([np.eye(2)] * 2),)),
    "run of shares": dict(stream=(np.full((4, 3, 5), 7.0), np.zeros((4, 3, 5))), stop_after=(5,)),
    "run of counts": dict(stream=(np.full((4, 3, 5), 3),)),
}
