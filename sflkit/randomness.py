"""Random streams that do not disturb one another.

Every draw in the library comes from a generator that is keyed by what it is for, and where clients
and rounds are drawn one by one also by client and round. So rules that are compared in one figure
see the same stream, a further rule or round changes nobody else's numbers, and a resumed run equals
an uninterrupted one. Quantities that are drawn for all clients at once, such as the capacities of
OSAFL's stores, do change with the number of clients.

    rng = generator(seed, "cache", client, round)
"""

from __future__ import annotations

import hashlib

import numpy as np

from sflkit import checks

# A SeedSequence takes that much of a seed and of an entry of its key for one number.
_SEED_BITS = 128
_KEY_BITS = 32

# What numbers are drawn for. Append only: the place of a purpose in this list is part of every key,
# so that another order would change published numbers.
PURPOSES = (
    "stream",
    "arrivals",
    "samples",
    "cache",
    "test_set",
    "model",
    "batches",
    "partition",
    "data",
    "bootstrap",
    "participation",
    "channel",
    "requests",
    "attack",
    "monte_carlo",
)


def generator(seed: int, purpose: str, *key: int) -> np.random.Generator:
    """Return the generator of one purpose under one seed.

    Parameters
    ----------
    seed : int
        The seed of the run, >= 0.
    purpose : str
        One of `PURPOSES`.
    *key : int
        Further parts of the key, each >= 0, such as the client and the round.

    Returns
    -------
    A new generator: the same arguments always give one that starts at the same numbers.

    Raises
    ------
    ValueError
        If `seed` or a key is not a non-negative integer, or `purpose` is not in `PURPOSES`.
    """
    checks.choice("purpose", purpose, PURPOSES)
    seed = checks.integer("seed", seed, 0, any_size=True)
    key = tuple(checks.integer("key", k, 0, any_size=True) for k in key)
    number = PURPOSES.index(purpose)
    if seed < 2**_SEED_BITS and all(k < 2**_KEY_BITS for k in key):
        return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(number, *key)))
    # A SeedSequence cuts larger numbers into words, so that 2^32 would be the key (0, 1).
    text = " ".join(map(str, (seed, number, *key)))
    digest = hashlib.sha256(text.encode()).digest()
    return np.random.default_rng(np.random.SeedSequence(int.from_bytes(digest, "big")))


def model_seed(seed: int) -> int:
    """Return the seed, in [0, 2^31), under which a run with the seed `seed` draws its first model.

    It comes from the random stream "model", so that it depends on nothing else that a run draws.
    Pass it to `Task.init`.

    Raises
    ------
    ValueError
        If `seed` is not a non-negative integer.
    """
    return int(generator(seed, "model").integers(2**31))
