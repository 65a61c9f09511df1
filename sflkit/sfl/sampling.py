"""Which samples of a data set arrive at a client, and which make up the test set.

Source: SFL, Section VI and supplement.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from sflkit import checks
from sflkit.rounding import largest_remainder

MOST_AT_ONCE = 10**6  # samples of one draw; classes are gone through again and again for them


class SampleSource:
    """Endless supply of sample ids by label.

    Each class comes in random order without replacement, and is shuffled anew after each full pass.

    Parameters
    ----------
    labels : array of int, (n_samples,)
        Class index of every sample of the data set.
    rng : numpy.random.Generator
        Owned by the source from here on: it is used by every later draw.

    Raises
    ------
    ValueError
        If labels are not one-dimensional integers in range, or `rng` is no generator.
    """

    def __init__(self, labels: ArrayLike, rng: np.random.Generator):
        labels = checks.labels("labels", labels)
        self._rng = checks.generator(rng)
        order = np.argsort(labels, kind="stable")
        self._sizes = np.bincount(labels)
        # Only of the classes that there are: labels may be few and their numbers large.
        present = np.flatnonzero(self._sizes)
        parts = np.split(order, np.cumsum(self._sizes[present])[:-1]) if len(present) else []
        self._pools = {
            int(label): self._rng.permutation(pool) for label, pool in zip(present, parts)
        }
        self._next = dict.fromkeys(self._pools, 0)

    def draw(self, counts: ArrayLike) -> np.ndarray:
        """Return ids of `counts[r]` samples of each class r, int64 (sum(counts),).

        They come in random order, whatever their classes.

        Raises
        ------
        ValueError
            If counts are not non-negative integers, ask for a class of which the source holds no
            sample, or for more than `MOST_AT_ONCE` samples.
        """
        counts = checks.integers("counts", counts, ndim=1, low=0)
        if (asked := sum(counts.tolist())) > MOST_AT_ONCE:
            raise ValueError(
                f"counts asks for {asked} samples at once; it must be at most {MOST_AT_ONCE}"
            )
        picked = [self._take(label, int(counts[label])) for label in np.flatnonzero(counts)]
        if not picked:
            return np.empty(0, np.int64)
        ids = np.concatenate(picked)
        # A cache that keeps only part of a batch must not see one label first.
        self._rng.shuffle(ids)
        return ids

    def _take(self, label: int, count: int) -> np.ndarray:
        if label not in self._pools:
            raise ValueError(
                f"counts asks for {count} samples of class {label}; this source holds samples of "
                f"classes {list(self._pools)}"
            )
        parts = []
        while count:
            pool = self._pools[label]
            start = self._next[label]
            if start == len(pool):
                self._rng.shuffle(pool)
                start = 0
            part = pool[start : start + count].copy()
            self._next[label] = start + len(part)
            count -= len(part)
            parts.append(part)
        return parts[0] if len(parts) == 1 else np.concatenate(parts)


def draw_test_set(
    labels: ArrayLike, shares: ArrayLike, size: int, rng: np.random.Generator
) -> np.ndarray:
    """Draw a fixed test set whose label shares are `shares`, without replacement.

    The counts are the largest-remainder rounding of `shares * size`. When a class runs short,
    `size` shrinks to the largest value whose counts the data can fill, so that the proportions
    stay.

    Parameters
    ----------
    labels : array of int, (n_samples,)
    shares : array, (n_classes,)
        Wanted label distribution, for the SFL paper the clients' average long-term share.
    size : int
        Wanted number of samples, at least 1.
    rng : numpy.random.Generator

    Returns
    -------
    ids : array of int64, at most `size` of them, in random order.

    Raises
    ------
    ValueError
        If shares are no probability vector, a class with a share has no sample at all, or an
        argument is out of range.
    """
    labels = checks.labels("labels", labels)
    shares = checks.simplex("shares", shares)
    rng = checks.generator(rng)
    size = checks.integer("size", size, 1)
    have = np.bincount(labels, minlength=len(shares))
    if len(have) > len(shares):
        raise ValueError(f"shares has {len(shares)} classes; the labels go up to {len(have) - 1}")
    empty = np.flatnonzero((shares > 0) & (have == 0))
    if len(empty):
        raise ValueError(
            f"shares gives {shares[empty[0]]:.3g} to class {empty[0]}, of which labels holds none"
        )
    with np.errstate(divide="ignore", over="ignore"):
        # No class may need more than it has plus the one sample that rounding can add.
        limit = np.min(np.where(shares > 0, (have + 1) / np.where(shares > 0, shares, 1), np.inf))
    size = int(min(size, limit, have.sum()))
    counts = largest_remainder(shares / shares.sum() * size, size)
    while (counts > have).any():
        size -= 1
        counts = largest_remainder(shares / shares.sum() * size, size)
    return SampleSource(labels, rng).draw(counts)
