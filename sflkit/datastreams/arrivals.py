"""Which samples a client holds in which round, when data stream in.

Source: FDS (Federated Learning for Data Streams), Section 3, Algorithm 1 (lines 2-6), Section 5,
Appendices C.1 and D.3.

| code        | symbol       | shape        | meaning                                    |
|-------------|--------------|--------------|--------------------------------------------|
| batch       | B_m^(t)      | dict         | rows that arrive at each available client  |
| stored      | I_m^(t)      | dict         | rows that each participant stores          |
| capacity    | C_m          |              | samples that a client's memory can hold    |
| mean_memory | mean of size | (n_clients,) | stored samples in the mean over all rounds |
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from sflkit import checks
from sflkit.data.federations import Federation
from sflkit.randomness import generator

AVAILABILITY = ("stream", "1", "2")


class Memory(Protocol):
    """Bring your own memory: what a fresh client keeps of the samples that have arrived.

    `update` takes in what arrives in a round, `ids` are the rows held afterwards. Every client has
    an object of its own. A rule may hold only rows that it was given, and no more of them than its
    `capacity`, where it has that attribute. The cache rules of `sflkit.sfl.caches` are memories.
    """

    @property
    def ids(self) -> np.ndarray: ...

    def update(self, ids: np.ndarray, labels: np.ndarray, rng: np.random.Generator) -> None: ...


def memories(
    federation: Federation,
    *,
    rounds: int,
    seed: int,
    availability: str = "stream",
    participation: int | None = None,
    cache: Callable[[int, int], Memory] | None = None,
) -> list[dict[int, np.ndarray]]:
    """Return for each round the rows stored by each client that takes part, {client: rows}.

    A client takes part if it is available, drawn, and has a sample. Historical clients hold all
    their samples. With availability "stream" the N_m samples of a fresh client arrive as evenly as
    whole samples can, starting at a random phase; with fewer samples than rounds it has rounds
    without one. What arrives while a client is not drawn is lost (lines 3-6). Source: FDS,
    Algorithm 1, lines 2-6.

    Parameters
    ----------
    federation : Federation
        Clients and which of them are historical.
    rounds, seed, availability, participation
        As in `DataStreamsConfig`.
    cache : class or callable, optional
        Your own rule at the fresh clients. A function (client, most) -> `Memory` is called once for
        each client, where `most` is the largest number of samples that arrive at once; a class is
        built as cls(most, most), a cache rule (capacity, batch_size) with room for one round. By
        default what arrived before is forgotten (Section 5): a FIFO cache of that size.

    Returns
    -------
    list of dict
        One dict per round; an int64 array of rows of `federation.x` for each client.

    Raises
    ------
    ValueError
        If an argument is out of range, `cache` is an object where its class is meant, serves two
        clients with one object, has room for more samples than the client ever receives, or holds
        rows that it was not given or more of them than it has room for.
    """
    arrivals = _arrivals(federation, rounds, seed, availability)
    if participation is not None:
        participation = checks.integer("participation", participation, 1)
    stores = {} if cache is None else _new_memories(cache, federation, arrivals)
    received: dict[int, Counter[int]] = {m: Counter() for m in stores}
    result = []
    for t, batch in enumerate(arrivals, 1):
        stored = {}
        for m in _drawn(batch, participation, seed, t):
            ids = batch[m]
            if m in stores:
                stores[m].update(ids, federation.y[ids], generator(seed, "cache", m, t))
                received[m].update(ids.tolist())
                ids = _held(stores[m], m, received[m])
            if len(ids):
                stored[m] = ids
        result.append(stored)
    return result


def mean_memory(stored: list[dict[int, np.ndarray]], n_clients: int) -> np.ndarray:
    """Return how many samples each client stores, averaged over all rounds, shape (n_clients,).

    A round in which a client does not take part counts as 0. `stored` is what `memories` returns.
    """
    sizes = np.zeros(n_clients)
    for memory in stored:
        for m, ids in memory.items():
            sizes[m] += len(ids)
    return sizes / len(stored)


def _drawn(batch: dict[int, np.ndarray], participation: int | None, seed: int, t: int) -> list[int]:
    """Return the clients that take part in round t, of those for which something may arrive."""
    available = list(batch)
    if participation is None or participation >= len(available):
        return available
    rng = generator(seed, "participation", t)
    return sorted(rng.choice(available, participation, replace=False).tolist())


def _new_memories(
    cache: Any, federation: Federation, arrivals: list[dict[int, np.ndarray]]
) -> dict[int, Memory]:
    """Return an empty memory of every fresh client, checked."""
    from sflkit.federated.own import build_each  # it brings torch

    fresh = np.flatnonzero(~federation.historical).tolist()
    most = {m: max(len(batch[m]) for batch in arrivals if m in batch) for m in fresh}
    stores = build_each(
        "cache",
        cache,
        {f"client {m}": ((n, n), (m, n)) for m, n in most.items()},
        of_class=("most", "most"),
        of_function=("client", "most"),
        protocol=Memory,
    )
    for m, store in zip(fresh, stores, strict=True):
        stream = len(federation.clients[m])
        checks.integer(f"memory of client {m}: capacity", getattr(store, "capacity", 1), 0, stream)
    return dict(zip(fresh, stores))


def _held(store: Memory, m: int, received: Counter[int]) -> np.ndarray:
    """Return a copy of the rows in a client's memory, or refuse what no memory could hold.

    `received` counts how often each row has arrived: with availability "2" that is twice.
    """
    ids = checks.integers(f"ids in the memory of client {m}", store.ids, ndim=1).copy()
    held = ids.tolist()
    surplus = sorted(Counter(held) - received)
    if surplus:
        raise ValueError(
            f"memory of client {m} holds rows {surplus} more often than they arrived there"
        )
    capacity = getattr(store, "capacity", len(held))
    if len(held) > capacity:
        raise ValueError(
            f"memory of client {m} holds {len(held)} rows; it must hold at most capacity={capacity}"
        )
    return ids


def _arrivals(
    federation: Federation, rounds: int, seed: int, availability: str
) -> list[dict[int, np.ndarray]]:
    """Return for each round the rows that arrive at each available client, {client: rows}.

    Historical clients have all their rows in every round. A fresh client that is available may be
    there without a row.
    """
    rounds = checks.integer("rounds", rounds, 1)
    checks.choice("availability", availability, AVAILABILITY)
    old = np.flatnonzero(federation.historical).tolist()
    fresh = np.flatnonzero(~federation.historical)
    result = [{m: federation.clients[m] for m in old} for _ in range(rounds)]
    if availability == "stream":
        for m in fresh.tolist():
            ids = federation.clients[m]
            phase = int(generator(seed, "arrivals", m).integers(rounds))
            # N_m rows in all; exactly b_m in every round if T divides N_m
            ends = (np.arange(rounds + 1) * len(ids) + phase) // rounds
            for t in range(rounds):
                result[t][m] = ids[ends[t] : ends[t + 1]]
        return result
    order = generator(seed, "arrivals").permutation(fresh).tolist()
    for i, m in enumerate(order):
        first = i * rounds // len(order)
        for t in range(first, min(first + int(availability), rounds)):
            result[t][m] = federation.clients[m]
    return result
