"""Which samples a client holds in which round, when data stream in: arrivals, availability and
memories.

Source: FDS (Federated Learning for Data Streams), Section 3, Algorithm 1 (lines 2-6), Section 5,
Appendices C.1 and D.3.

| code        | symbol       | shape        | meaning                                                        |
|-------------|--------------|--------------|----------------------------------------------------------------|
| batch       | B_m^(t)      | dict         | rows that arrive at each available client in a round           |
| stored      | I_m^(t)      | dict         | rows in the memory of each client that takes part in a round   |
| capacity    | C_m          |              | samples that a client's memory can hold                        |
| mean_memory | mean of size | (n_clients,) | stored samples, mean over all rounds; 0 in rounds it sits out  |
"""

from __future__ import annotations

import numpy as np

from sflkit import checks
from sflkit.randomness import generator

AVAILABILITY = ("stream", "1", "2")


def memories(
    federation, *, rounds, seed, availability="stream", participation=None, memory=None
) -> list[dict[int, np.ndarray]]:
    """Return for each round the rows stored by each client that takes part: {client: rows}. Source:
    FDS, Algorithm 1, lines 2-6.

    A client takes part if it is available, drawn and has a sample. Historical clients hold all
    their samples. With availability "stream" the N_m samples of a fresh client arrive as evenly as
    whole samples can, with a random phase; with fewer samples than rounds it has rounds without
    one. What arrives while the client is not drawn is lost (lines 3-6).

    Parameters
    ----------
    rounds, seed, availability, participation
        As in `DataStreamsConfig`.
    memory : callable, optional
        Your own rule at the fresh clients: (client, most samples that arrive at once) -> empty
        cache object (`sflkit.sfl.caches`). Default: FIFO with room for one round, C_m = b_m: what
        arrived before is forgotten (Section 5).

    Raises
    ------
    ValueError
        If a rule's capacity exceeds the samples that the client ever receives.
    """
    arrivals = _arrivals(federation, rounds, seed, availability)
    stores = {}
    for m in np.flatnonzero(~federation.historical) if memory else ():
        stores[m] = memory(int(m), max(len(batch[m]) for batch in arrivals if m in batch))
        capacity, stream = getattr(stores[m], "capacity", 1), len(federation.clients[m])
        if capacity > stream:
            raise ValueError(
                f"memory of client {m} has capacity={capacity}; it must be <= {stream}, the samples of its stream"
            )
    result = []
    for t, batch in enumerate(arrivals, 1):
        drawn = list(batch)
        if participation is not None and participation < len(drawn):
            drawn = sorted(
                generator(seed, "participation", t)
                .choice(drawn, participation, replace=False)
                .tolist()
            )
        stored = {}
        for m in drawn:
            ids = batch[m]
            if m in stores:
                stores[m].update(ids, federation.y[ids], generator(seed, "cache", m, t))
                ids = stores[m].ids
            if len(ids):
                stored[m] = ids
        result.append(stored)
    return result


def mean_memory(stored: list[dict[int, np.ndarray]], n_clients: int) -> np.ndarray:
    """Return each client's number of stored samples, averaged over all rounds (0 where it does not
    take part), (n_clients,).
    """
    sizes = np.zeros(n_clients)
    for memory in stored:
        for m, ids in memory.items():
            sizes[m] += len(ids)
    return sizes / len(stored)


def _arrivals(federation, rounds, seed, availability) -> list[dict[int, np.ndarray]]:
    """Return for each round {available client: rows that arrive}; historical clients get all their
    rows in each.
    """
    rounds = checks.integer("rounds", rounds, 1)
    checks.choice("availability", availability, AVAILABILITY)
    fresh = np.flatnonzero(~federation.historical)
    result = [
        {int(m): federation.clients[m] for m in np.flatnonzero(federation.historical)}
        for _ in range(rounds)
    ]
    if availability == "stream":
        for m in fresh:
            ids, phase = (
                federation.clients[m],
                int(generator(seed, "arrivals", int(m)).integers(rounds)),
            )
            ends = (
                np.arange(rounds + 1) * len(ids) + phase
            ) // rounds  # N_m in all; exactly b_m a round if T divides N_m
            for t in range(rounds):
                result[t][int(m)] = ids[ends[t] : ends[t + 1]]
        return result
    order = generator(seed, "arrivals").permutation(fresh)
    for i, m in enumerate(order):
        first = i * rounds // len(order)
        for t in range(first, min(first + int(availability), rounds)):
            result[t][int(m)] = federation.clients[m]
    return result
