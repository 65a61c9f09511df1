"""Data streams with caches: the fresh clients keep the samples of some rounds.

In the data-streams paper a fresh client uses what arrives in a round and forgets it. Such samples
make the training noisy, and so its bound psi gives old clients more weight than their samples have.
A cache lets a fresh client use each sample in several rounds. Its mini-batches then come from
ROUNDS_KEPT times as many samples, and the variance of their mean is that much smaller, so that the
constant c1 of the noise, a standard deviation, shrinks by the square root. `c_ratio_with_caches` is
what that makes of the ratio c2 / c1. It is our rule of thumb, not the paper's.
"""

from __future__ import annotations

import math

from sflkit import checks
from sflkit.sfl.caches import DRSR, FIFO

ROUNDS_KEPT = 5


def fifo(client: int, most: int) -> FIFO:
    """Return an empty FIFO cache with room for ROUNDS_KEPT rounds of at most `most` arrivals.

    Raises ValueError for client < 0 or most < 1.
    """
    return FIFO(*_size(client, most))


def drsr(client: int, most: int) -> DRSR:
    """Return an empty DRSR cache of that size. Raises ValueError as `fifo`."""
    return DRSR(*_size(client, most))


def _size(client: int, most: int) -> tuple[int, int]:
    checks.integer("client", client, 0)
    most = checks.integer("most", most, 1, checks.LARGEST // ROUNDS_KEPT)
    return ROUNDS_KEPT * most, most


def c_ratio_with_caches(c_ratio: float, rounds_kept: int = ROUNDS_KEPT) -> float:
    """Return c2 / c1 of fresh clients that keep the samples of so many rounds.

    Raises
    ------
    ValueError
        For a ratio < 0 or rounds_kept < 1.
    """
    c_ratio = checks.real("c_ratio", c_ratio, 0)
    return c_ratio * math.sqrt(checks.integer("rounds_kept", rounds_kept, 1))
