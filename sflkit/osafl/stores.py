"""FIFO stores of clients whose samples arrive between the rounds.

Source: OSAFL, Section II-A (stores, Binomial arrivals) and Section V-A (sizes). Since the oldest
samples leave, a store is a window of its client's sequence of samples, whatever these are.

===========  ======  ============  =========================================
code         symbol  shape         meaning
===========  ======  ============  =========================================
capacity     D_u     (n_clients,)  samples a store holds
slots        E_u     (n_clients,)  arrival slots between two rounds, below D_u
probability  p_u,ac  (n_clients,)  probability that a slot brings a sample
===========  ======  ============  =========================================
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sflkit import checks

ARRIVAL_LOW, ARRIVAL_HIGH = 0.3, 0.8  # OSAFL, Section V-A


class Stores(NamedTuple):
    """FIFO stores of the clients; arrays (n_clients,), see the table at the top."""

    capacity: np.ndarray
    slots: np.ndarray
    probability: np.ndarray


def draw_stores(
    n_clients: int,
    rng: np.random.Generator,
    *,
    capacity_low: int = 320,
    capacity_high: int = 640,
) -> Stores:
    """Draw D_u and p_u uniformly, and E_u = ceil(32 p_u). Source: OSAFL, Section V-A.

    The paper's p_u,ac is taken as this p_u, between 0.3 and 0.8.

    Parameters
    ----------
    n_clients : int
    rng : numpy.random.Generator
    capacity_low, capacity_high : int
        Smallest and largest D_u. Up to 26 samples arrive before a round, and no store is renewed as
        a whole.

    Raises
    ------
    ValueError
        Unless 27 <= capacity_low <= capacity_high.
    """
    n_clients = checks.integer("n_clients", n_clients, 1)
    low = checks.integer("capacity_low", capacity_low, int(np.ceil(32 * ARRIVAL_HIGH)) + 1)
    high = checks.integer("capacity_high", capacity_high, low)
    size_rng, arrival_rng = checks.generator(rng).spawn(2)
    probability = arrival_rng.uniform(ARRIVAL_LOW, ARRIVAL_HIGH, n_clients)
    return Stores(
        size_rng.integers(low, high + 1, n_clients),
        np.ceil(32 * probability).astype(np.int64),
        probability,
    )


def fifo_windows(stores: Stores, rounds: int, rng: np.random.Generator) -> np.ndarray:
    """Draw arrivals and return which samples each store holds in each round.

    A store starts full with its client's samples 0..D_u - 1; before round t = 1, 2, ...
    Binomial(E_u, p_u) new ones arrive and as many of the oldest leave, so that its content is
    always a window of the client's sequence.

    Returns
    -------
    int64 array (rounds, n_clients, 2)
        The first sample, and one past the last.

    Raises
    ------
    ValueError
        For rounds < 1, an empty store, as many slots as samples, or a probability outside [0, 1].
    """
    rounds = checks.integer("rounds", rounds, 1)
    checks.instance("stores", stores, Stores)
    capacity = checks.array("capacity", stores.capacity, ndim=1, low=1).astype(np.int64)
    slots = checks.array("slots", stores.slots, ndim=1, low=0).astype(np.int64)
    probability = checks.array("probability", stores.probability, ndim=1, low=0, high=1)
    if not len(capacity) == len(slots) == len(probability) or (slots >= capacity).any():
        raise ValueError(
            f"slots={slots!r} must be one per client and below capacity={capacity!r}; "
            "there must be as many probabilities"
        )
    children = checks.generator(rng).spawn(len(capacity))
    arrivals = np.stack(
        [c.binomial(e, p, rounds) for c, e, p in zip(children, slots, probability, strict=True)],
        axis=1,
    )
    first = np.cumsum(arrivals, axis=0)
    return np.stack([first, first + capacity], axis=2)
