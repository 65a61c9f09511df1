"""The clients of a streaming-FL run: their label streams, arrivals and caches, without any
learning. Source: SFL, Section IV.
"""

from __future__ import annotations

import numpy as np

from sflkit.randomness import generator
from sflkit.sfl import caches, sampling, streams
from sflkit.sfl.config import SFLConfig


def make_cache(config: SFLConfig, long_term: np.ndarray):
    """Return an empty cache of the config's rule; only FULL may know the client's `long_term`
    shares (n_classes,).
    """
    size = config.capacity, config.batch_size
    return {
        "fifo": lambda: caches.FIFO(*size),
        "srsr": lambda: caches.SRSR(*size, config.theta),
        "drsr": lambda: caches.DRSR(*size),
        "lazy": lambda: caches.Lazy(*size),
        "reservoir": lambda: caches.Reservoir(*size),
        "full": lambda: caches.Full(config.capacity, long_term),
        "full_refreshed": lambda: caches.Full(config.capacity, long_term, refresh=True),
    }[config.rule]()


def make_stream(config: SFLConfig, n_classes: int) -> streams.LabelStream:
    """Return the config's label stream, which depends on the seed and the stream's settings only,
    not on the rule.
    """
    return streams.kl_markov_stream(
        n_clients=config.n_clients,
        n_classes=n_classes,
        classes_per_client=config.classes_per_client,
        n_states=config.n_states,
        temperature=config.temperature,
        batch_size=config.batch_size if config.exact_counts else None,
        rng=generator(config.seed, "stream"),
    )


class Clients:
    """The clients' streams and caches, without any learning: `arrive(t)` brings every cache to
    round t.

    Attributes
    ----------
    stream : LabelStream
    counts : int array (rounds, n_clients, n_classes)
        Labels of the arrivals.
    caches : list of cache objects, one a client; their ids are rows of the training set.
    """

    def __init__(
        self,
        config: SFLConfig,
        labels: np.ndarray,
        n_classes: int,
        cache=None,
        stream: streams.LabelStream | None = None,
    ):
        self.config, self.labels, self.n_classes = config, labels, n_classes
        self.stream = make_stream(config, n_classes) if stream is None else stream
        if self.stream.long_term.shape != (config.n_clients, n_classes):
            raise ValueError(
                f"stream has {self.stream.long_term.shape[0]} clients and {self.stream.long_term.shape[1]} classes; "
                f"this run needs {config.n_clients} and {n_classes}"
            )
        self.counts = self.stream.sample(
            config.rounds,
            config.batch_size,
            generator(config.seed, "arrivals"),
            exact=config.exact_counts,
        )
        self.sources = [
            sampling.SampleSource(labels, generator(config.seed, "samples", k))
            for k in range(config.n_clients)
        ]
        self.caches = [
            cache(shares) if cache else make_cache(config, shares)
            for shares in self.stream.long_term
        ]
        for k, full in enumerate(self.caches):
            if isinstance(full, caches.Full):
                # FULL holds its set before the first arrival; a source of its own leaves the
                # arrivals as under other rules
                ids = sampling.SampleSource(labels, generator(config.seed, "samples", k, 0)).draw(
                    full.quota
                )
                full.update(ids, labels[ids], generator(config.seed, "cache", k, 0))

    def arrive(self, t: int) -> None:
        """Deliver the arrivals of round t (1-based, in order) to every cache."""
        for k, (source, cache) in enumerate(zip(self.sources, self.caches, strict=True)):
            ids = source.draw(self.counts[t - 1, k])
            cache.update(ids, self.labels[ids], generator(self.config.seed, "cache", k, t))

    def cached_counts(self) -> np.ndarray:
        """Return the label counts of all caches, (n_clients, n_classes)."""
        return np.stack([cache.label_counts(self.n_classes) for cache in self.caches])
