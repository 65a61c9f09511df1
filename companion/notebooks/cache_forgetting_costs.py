"""What it costs to forget a sample of a streaming cache: rounds to recompute, mini-batches that
change, and samples that only an archive still has.

Clients receive samples of SFL's label stream, keep a cache each, and train as FATS draws them. Of
every seed, some of all samples that arrived are asked to be forgotten, each by itself, after the
last round; both readings of `cache_forgetting` answer the same requests. Nothing trains.

"""

from __future__ import annotations

from typing import Annotated

import numpy as np
import pandas as pd

from companion.notebooks.cache_forgetting import (
    PROVED,
    Stream,
    dropped_reads,
    fill,
    never_arrived,
)
from sflkit.config import Count, OneOf, Seed, settings
from sflkit.fats.forgetting import forget_sample
from sflkit.fats.history import History, draw_history
from sflkit.randomness import generator
from sflkit.sfl.streams import kl_markov_stream

EXPERIMENT = "beyond-costs"
RESULT_VERSION = 1

ARCHIVE = "archive"  # a cache with room for all that arrives


@settings
class CostsConfig:
    """One seed of one cache rule, in the notation of FATS.

    `capacity` and `arrivals` are B and B_s of SFL; before the first round B samples arrive. The
    rule "archive" keeps all. `requests` samples of all that arrived are asked to be forgotten.
    """

    rule: Annotated[str, OneOf((*PROVED, ARCHIVE))] = "drsr"
    seed: Seed = 0
    n_clients: Count = 10
    clients_per_round: Count = 3
    local_steps: Count = 3
    batch_size: Count = 4
    rounds: Count = 40
    capacity: Count = 20
    arrivals: Count = 5
    n_classes: Count = 10
    classes_per_client: Count = 3
    requests: Count = 30


def run(config: CostsConfig) -> pd.DataFrame:
    """Answer the requests by both readings.

    Returns
    -------
    DataFrame
        One row per reading ("withheld" or "never arrived") with means over the requests: free
        (share that needs no recomputation), redone (share of all rounds to recompute), batches
        (mini-batches that change) and dropped (share of the samples read by recomputing that no
        cache holds any more; NaN where every request is free).

    Raises
    ------
    ValueError
        If a cache could not fill a mini-batch without a requested sample.
    """
    streams = draw_streams(config)
    size, everything = len(streams[0].arrival), config.rule == ARCHIVE
    caches = fill(
        streams,
        "fifo" if everything else config.rule,
        capacity=size if everything else config.capacity,
        batch_size=config.arrivals,
        rounds=config.rounds,
        seed=config.seed,
    )
    history = draw_history(
        n_clients=config.n_clients,
        samples_per_client=[size] * config.n_clients,
        clients_per_round=config.clients_per_round,
        batch_size=config.batch_size,
        local_steps=config.local_steps,
        rounds=config.rounds,
        held=caches.held,
        rng=generator(config.seed, "batches"),
    )
    rng, rows = generator(config.seed, "requests"), []
    for number in rng.choice(config.n_clients * size, config.requests, replace=False):
        target = divmod(int(number), size)
        withheld, at = forget_sample(history, *target, np.random.default_rng(0), "minimal")
        rows.append(_cost("withheld", history, withheld, None if at is None else at[0]))
        moved, first, _ = never_arrived(history, caches, *target, np.random.default_rng(0))
        rows.append(_cost("never arrived", history, moved, first))
    return pd.DataFrame(rows).groupby("reading", sort=False).mean().reset_index()


def draw_streams(config: CostsConfig) -> list[Stream]:
    """Return the clients' streams: B samples before round 0, then B_s before every further one."""
    stream = kl_markov_stream(
        n_clients=config.n_clients,
        n_classes=config.n_classes,
        classes_per_client=config.classes_per_client,
        n_states=10,
        temperature=0.2,
        rng=generator(config.seed, "stream"),
    )
    sizes = [config.capacity] + [config.arrivals] * (config.rounds - 1)
    counts = stream.sample(config.rounds, sizes, generator(config.seed, "arrivals"))
    arrival = np.repeat(np.arange(config.rounds), sizes)
    labels = np.arange(config.n_classes)
    found = []
    for k in range(config.n_clients):
        rng = generator(config.seed, "samples", k)
        own = [rng.permutation(labels.repeat(counts[r, k])) for r in range(config.rounds)]
        found.append(Stream(arrival, np.concatenate(own)))
    return found


def _cost(reading: str, before: History, after: History, first: int | None) -> dict:
    rounds = before.rounds
    return {
        "reading": reading,
        "free": first is None,
        "redone": 0.0 if first is None else (rounds - first) / rounds,
        "batches": float((before.batches != after.batches).any(axis=-1).sum()),
        "dropped": np.nan if first is None else dropped_reads(after, first),
    }
