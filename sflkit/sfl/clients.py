"""The clients of a streaming-FL run: their label streams, arrivals and caches, without learning.

Source: SFL, Section IV.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from sflkit import checks
from sflkit.randomness import generator
from sflkit.sfl import caches, protocol, sampling, streams
from sflkit.sfl.config import SFLConfig


def make_cache(config: SFLConfig, long_term: np.ndarray) -> caches.Cache:
    """Return an empty cache of the config's rule, built as its row in `caches.RULES` says.

    Parameters
    ----------
    config : SFLConfig
        Its rule, capacity, batch_size, and the fields that the rule's options name.
    long_term : array (n_classes,)
        The client's long-term label shares, which only FULL may know.
    """
    given = vars(config) | {"long_term": long_term}
    return caches.RULES[config.rule].make(config.capacity, config.batch_size, **given)


def make_stream(config: SFLConfig, n_classes: int) -> streams.LabelStream:
    """Return the config's label stream.

    It depends on the seed and the stream's settings only, not on the rule, so that rules can be
    compared on one stream.
    """
    stream = streams.kl_markov_stream(
        n_clients=1 if config.common else config.n_clients,
        n_classes=n_classes,
        classes_per_client=config.classes_per_client,
        n_states=config.n_states,
        temperature=config.temperature,
        batch_size=config.batch_size if config.exact_counts else None,
        rng=generator(config.seed, "stream"),
    )
    if not config.common:
        return stream
    short_term, transition = (
        rows.repeat(config.n_clients, axis=0) for rows in (stream.short_term, stream.transition)
    )
    return streams.LabelStream(short_term, transition, common=True)


def stream_of(stream: Any, config: SFLConfig, n_classes: int) -> protocol.Stream:
    """Return the run's stream: a user's own, see `sflkit.sfl.protocol`, or the config's for None.

    Raises ValueError as `protocol.build_stream`.
    """
    if stream is None:
        return make_stream(config, n_classes)
    return protocol.build_stream(stream, config, n_classes)


STARTS = ("append", "full")


class Clients:
    """The clients' streams and caches, without any learning.

    `arrive(t)` brings every cache to round t. After each round the caches are checked for what
    `sflkit.sfl.protocol` says that a cache promises.

    Parameters
    ----------
    config : SFLConfig
    labels : int array (n_samples,)
        Labels of the data set from which all clients draw.
    n_classes : int
        R.
    cache, stream : optional
        Your own cache rule and stream, see `sflkit.sfl.protocol`.
    start : {"append", "full"}
        What a cache holds before round 1: nothing, so that it fills by appending, or B samples. The
        paper does not say; "keeps the initial training data set" (Section VI, LAZY) reads as the
        latter. They come from round 0 of the stream: from one state, and the rounds follow from
        there. FULL holds its own set either way.
    observe : function, optional
        (names, ids) -> {name: array}, the inputs and losses of samples, for caches that need them.

    Attributes
    ----------
    stream : LabelStream or GivenStream
    counts : int array (rounds, n_clients, n_classes)
        Labels of the arrivals.
    caches : list of cache objects, one per client; their ids are rows of the training set.
    contents : protocol.Contents
        What the caches hold.

    Raises
    ------
    ValueError
        If `cache` or `stream` is not what `sflkit.sfl.protocol` asks for.
    """

    def __init__(
        self,
        config: SFLConfig,
        labels: np.ndarray,
        n_classes: int,
        cache: Callable | None = None,
        stream: Any = None,
        start: str = "append",
        observe: Callable[[tuple[str, ...], np.ndarray], dict] | None = None,
    ):
        self.config = config
        self.labels = labels
        self.n_classes = n_classes
        self.stream = stream_of(stream, config, n_classes)
        self.observe = observe
        checks.choice("start", start, STARTS)
        first = [config.capacity] if start == "full" else []
        counts = self.stream.sample(
            len(first) + config.rounds,
            first + [config.batch_size] * config.rounds,
            generator(config.seed, "arrivals"),
            exact=config.exact_counts,
        )
        self.counts = counts[len(first) :]
        self.sources = [
            sampling.SampleSource(labels, generator(config.seed, "samples", k))
            for k in range(config.n_clients)
        ]
        self._arrivals = protocol.Arrivals(config.n_clients, labels)
        long_terms = self.stream.long_term
        own = protocol.build_caches(cache, config, long_terms)
        self.caches = [make_cache(config, row) for row in long_terms] if own is None else own
        # Drawn also where FULL takes none of it, so that the later arrivals are the same.
        held = [
            source.draw(n) for source, n in zip(self.sources, counts[0], strict=True) if len(first)
        ]
        self._deliver(0, [self._first_set(k, held) for k in range(config.n_clients)])

    def arrive(self, t: int) -> None:
        """Deliver the arrivals of round t (1-based, in order) to every cache.

        Raises
        ------
        ValueError
            If a cache refuses them or breaks a promise; the message names rule, client and round.
        """
        drawn = [source.draw(n) for source, n in zip(self.sources, self.counts[t - 1], strict=True)]
        self._deliver(t, drawn)

    def cached_counts(self) -> np.ndarray:
        """Return the label counts of all caches, (n_clients, n_classes)."""
        n_clients = len(self.caches)
        rows = np.arange(n_clients).repeat(self.contents.sizes)
        cells = rows * self.n_classes + self.contents.labels
        counts = np.bincount(cells, minlength=n_clients * self.n_classes)
        return counts.reshape(n_clients, self.n_classes)

    def _needed(self, cache: protocol.CacheLike, ids: np.ndarray) -> dict[str, np.ndarray]:
        """Return what the cache asks for of the samples that it holds, and then of the arrivals."""
        names = protocol.needs(cache)
        if not names:
            return {}
        if self.observe is None:
            raise ValueError(f"needs {', '.join(names)}, which only a run with train=True has")
        return self.observe(names, np.concatenate([cache.ids, ids]))

    def _first_set(self, k: int, held: list[np.ndarray]) -> np.ndarray:
        """Return the ids of what client k's cache holds before the first arrival.

        FULL's are drawn from a source of its own, so that the arrivals are those of the other
        rules; the others hold what was `held` at the start, if anything.
        """
        if not isinstance(self.caches[k], caches.Full):
            return held[k] if held else np.empty(0, np.int64)
        rng = generator(self.config.seed, "samples", k, 0)
        return sampling.SampleSource(self.labels, rng).draw(self.caches[k].quota)

    def _deliver(self, t: int, ids: list[np.ndarray]) -> None:
        """Update every cache with its client's arrivals, and look at what it then holds."""
        self._arrivals.add(ids)
        for k, cache in enumerate(self.caches):
            if not len(ids[k]):  # a round without arrivals leaves the cache
                continue
            rng = generator(self.config.seed, "cache", k, t)
            try:
                cache.update(ids[k], self.labels[ids[k]], rng, **self._needed(cache, ids[k]))
            except ValueError as error:
                raise ValueError(f"{protocol.where(cache, k, t)}: {error}") from error
        self.contents = self._arrivals.contents(self.caches, self.config.capacity, t)
