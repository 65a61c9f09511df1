"""Random streams that do not disturb one another.

Every draw in the library comes from a generator keyed by what it is for, so that adding a client, a
rule or a round changes nobody else's numbers, rules compared in one figure see the same stream, and
a resumed run equals an uninterrupted one."""

from __future__ import annotations

import numpy as np

from sflkit import checks

# Append only: the position is part of every key, so reordering would change published numbers.
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
    """Return the generator of `purpose` under `seed`, further keyed by non-negative integers such
    as (client, round).

    Raises
    ------
    ValueError
        If `seed` or a key is not a non-negative integer, or `purpose` is not in `PURPOSES`.
    """
    checks.choice("purpose", purpose, PURPOSES)
    seed = checks.integer("seed", seed, 0)
    key = tuple(checks.integer("key", k, 0) for k in key)
    return np.random.default_rng(
        np.random.SeedSequence(seed, spawn_key=(PURPOSES.index(purpose), *key))
    )


def model_seed(seed: int) -> int:
    """Return the seed, in [0, 2^31), under which a run with the seed `seed` draws its first model.

    It comes from the random stream "model", so that it depends on nothing
    else that a run draws. Pass it to `Task.init`.

    Raises
    ------
    ValueError
        If `seed` is not a non-negative integer.
    """
    return int(generator(seed, "model").integers(2**31))
