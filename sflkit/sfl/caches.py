"""Local cache update rules: what a client keeps of a stream when it can hold only B samples.

Source: SFL, Section IV-B (FIFO, SRSR, DRSR) and Section VI (FULL, LAZY); Reservoir is the textbook
baseline the paper lacks (Vitter 1985, Algorithm R). ERRATA 1, 3 and 4 say where the printed targets
are completed.

A cache rule is any object with this small protocol, so that your own rule fits everywhere:

- ``update(ids, labels, rng)`` takes one round of arrivals;
- ``ids`` and ``labels`` are the cached samples, int64 arrays of one length;
- ``label_counts(n_classes)`` and ``len(cache)``.

==================  ========  ===========  ======================================================
code                symbol    shape        meaning
==================  ========  ===========  ======================================================
capacity            B         scalar       samples the cache can hold
batch_size          B_s       scalar       samples that arrive in a full round, B_s <= B
theta               theta     scalar       SRSR's weight of new data, in [0, 1]
shares              v         (n_labels,)  label shares the rule aims at, real-valued
target              n tilde   (n_labels,)  samples of each label the rule aims at, real-valued
==================  ========  ===========  ======================================================
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np

from sflkit import checks
from sflkit.rounding import largest_remainder

MAX_LABEL = 10**6  # rules hold one number for each label up to the largest


class _Cache(ABC):
    """Storage and checks common to every rule; a rule implements `_update` on checked arrivals."""

    def __init__(self, capacity: int):
        self.capacity = checks.integer("capacity", capacity, 1)
        self._ids = np.empty(0, dtype=np.int64)
        self._labels = np.empty(0, dtype=np.int64)

    @property
    def ids(self) -> np.ndarray:
        """Identifiers of the cached samples, oldest first for FIFO (a copy)."""
        return self._ids.copy()

    @property
    def labels(self) -> np.ndarray:
        """Labels of the cached samples, aligned with `ids` (a copy)."""
        return self._labels.copy()

    def __len__(self) -> int:
        return len(self._ids)

    def label_counts(self, n_classes: int) -> np.ndarray:
        """Return how many cached samples carry each label, int64 array (n_classes,).

        Raises
        ------
        ValueError
            If a cached label is not below `n_classes`.
        """
        n_classes = checks.integer("n_classes", n_classes, 1)
        if len(self._labels) and self._labels.max() >= n_classes:
            raise ValueError(
                f"n_classes={n_classes} is too small: the cache holds label {self._labels.max()}"
            )
        return np.bincount(self._labels, minlength=n_classes)

    def update(self, ids, labels, rng: np.random.Generator) -> None:
        """Take one round of arrivals into the cache.

        Parameters
        ----------
        ids, labels : int arrays (n_arrivals,)
            Sample identifiers and their labels in [0, MAX_LABEL], in order of arrival; at most
            `capacity`, none is fine.
        rng : numpy.random.Generator
            Decides which samples of a label stay.

        Raises
        ------
        ValueError
            If lengths differ, an entry is no non-negative integer label, or more samples arrive
            than the cache holds. The cache is left as it was.
        """
        ids, labels = _integers("ids", ids), _integers("labels", labels)
        if len(ids) != len(labels):
            raise ValueError(
                f"ids has {len(ids)} entries but labels has {len(labels)}; they must be aligned"
            )
        if len(labels) and (labels.min() < 0 or labels.max() > MAX_LABEL):
            wrong = labels.min() if labels.min() < 0 else labels.max()
            raise ValueError(f"labels holds {wrong}; labels must be integers in [0, {MAX_LABEL}]")
        self._check_arrivals(len(ids))
        if len(ids):
            self._update(ids, labels, checks.generator(rng))

    def _check_arrivals(self, n: int) -> None:
        if n > self.capacity:
            raise ValueError(f"{n} samples arrive at once; at most capacity={self.capacity} can")

    @abstractmethod
    def _update(self, ids: np.ndarray, labels: np.ndarray, rng: np.random.Generator) -> None:
        """Take at least one checked arrival."""

    def _keep(self, ids: np.ndarray, labels: np.ndarray) -> None:
        self._ids, self._labels = ids, labels


class _RoundCache(_Cache):
    """A cache that also knows how many samples a full round brings."""

    def __init__(self, capacity: int, batch_size: int):
        super().__init__(capacity)
        self.batch_size = checks.integer("batch_size", batch_size, 1, self.capacity)


class FIFO(_RoundCache):
    """First in, first out: the B newest samples. Source: SFL (7)."""

    def _update(self, ids, labels, rng):
        self._keep(
            np.concatenate([self._ids, ids])[-self.capacity :],
            np.concatenate([self._labels, labels])[-self.capacity :],
        )


class Lazy(_RoundCache):
    """The first B samples received, never updated again. Source: SFL, Section VI, benchmark LAZY."""

    def _update(self, ids, labels, rng):
        room = self.capacity - len(self._ids)
        self._keep(
            np.concatenate([self._ids, ids[:room]]), np.concatenate([self._labels, labels[:room]])
        )


class Reservoir(_RoundCache):
    """A uniform sample of everything received so far. Source: Vitter (1985), Algorithm R; not in
    the paper.
    """

    def __init__(self, capacity: int, batch_size: int):
        super().__init__(capacity, batch_size)
        self.seen = 0

    def _update(self, ids, labels, rng):
        room = self.capacity - len(self)
        kept_ids, kept_labels = (
            np.concatenate([self._ids, ids[:room]]),
            np.concatenate([self._labels, labels[:room]]),
        )
        position = (
            self.seen + np.arange(1, len(ids) + 1)[room:]
        )  # of each later arrival in the whole stream, from 1
        slots = rng.integers(0, position)
        hit = slots < self.capacity
        # a slot drawn twice keeps the later arrival (numpy assigns repeated indices in order), as
        # one by one would
        kept_ids[slots[hit]], kept_labels[slots[hit]] = ids[room:][hit], labels[room:][hit]
        self.seen += len(ids)
        self._keep(kept_ids, kept_labels)


class _SelectiveReplacement(_Cache):
    """Step 2 of SRSR, shared by every rule that aims at label counts: meet the target, new data
    first.

    Source: SFL, Section IV-B, cases 1 and 2. With n~_r <= n_r(new), n~_r random new samples replace
    all old ones of label r; otherwise all new ones stay and random old ones fill up. Both cases are
    one ordering: new before old, random within."""

    _new_first = True

    @abstractmethod
    def _wanted(self, available: np.ndarray) -> np.ndarray:
        """Return how many samples of each label to hold, none above what is `available` in the old
        cache and the arrivals.
        """

    def _replace(self, ids, labels, rng) -> None:
        all_ids, all_labels = (
            np.concatenate([self._ids, ids]),
            np.concatenate([self._labels, labels]),
        )
        wanted = self._wanted(np.bincount(all_labels, minlength=len(self.shares)))
        age = np.zeros(len(all_ids))
        age[: len(self._ids)] = 1 if self._new_first else -1
        order = np.lexsort((rng.random(len(all_ids)), age, all_labels))
        sorted_labels = all_labels[order]
        rank = np.arange(len(order)) - np.searchsorted(sorted_labels, sorted_labels)
        kept = order[rank < wanted[sorted_labels]]
        kept.sort()
        self._keep(all_ids[kept], all_labels[kept])


class _SharesRule(_RoundCache, _SelectiveReplacement):
    """SRSR and DRSR: a running average of label shares, v <- (1 - w) v + w u, whose weight w is the
    rule.
    """

    def __init__(self, capacity: int, batch_size: int):
        super().__init__(capacity, batch_size)
        self.shares = np.empty(0)

    @property
    def target(self) -> np.ndarray:
        """Real-valued number of samples of each label the rule aims at; adds up to len(cache)."""
        return self.shares * len(self)

    @abstractmethod
    def _weight(self, n_arrivals: int) -> float:
        """Return the weight w in [0, 1] of `n_arrivals` new samples."""

    def _update(self, ids, labels, rng):
        n_labels = max(len(self.shares), labels.max() + 1)
        shares = np.zeros(n_labels)
        shares[: len(self.shares)] = self.shares
        weight = self._weight(len(ids))
        self.shares = (1 - weight) * shares + weight * np.bincount(
            labels, minlength=n_labels
        ) / len(ids)
        self._replace(ids, labels, rng)

    def _wanted(self, available):
        # ERRATA 4: the real-valued shares are carried; only what is stored gets rounded, capped at
        # what exists
        size = min(self.capacity, int(available.sum()))
        return largest_remainder(self.shares * size, size, available)


class SRSR(_SharesRule):
    """Static ratio selective replacement. Source: SFL (10)-(12).

    While the cache has room every arrival is appended; then the target is (1 - theta B_s / B)
    n_r(old) + theta n_r(new). theta = 0 freezes the label shares, but by the paper's own step 2 new
    samples still replace old ones of their label."""

    def __init__(self, capacity: int, batch_size: int, theta: float):
        super().__init__(capacity, batch_size)
        self.theta = checks.real("theta", theta, 0, 1)

    def _weight(self, n_arrivals):
        if len(self) + n_arrivals <= self.capacity:
            return n_arrivals / (len(self) + n_arrivals)
        return (
            self.theta * n_arrivals / self.capacity
        )  # ERRATA 1: the journal's (10) drops theta from the old cache's factor


class DRSR(_SharesRule):
    """Dynamic ratio selective replacement: shares follow the average of all arrivals so far.
    Source: SFL (14), Prop. 3.

    theta_t = B / (B_s t) makes the weight of round t equal 1 / t; with rounds of unequal size it is
    the arrivals' part of everything seen. In the first M rounds that is exactly "append everything"
    (ERRATA 3)."""

    def __init__(self, capacity: int, batch_size: int):
        super().__init__(capacity, batch_size)
        self.seen = 0

    def _weight(self, n_arrivals):
        self.seen += n_arrivals
        return n_arrivals / self.seen


class Full(_SelectiveReplacement):
    """FULL: a set of size B with round(B pi_r) samples of each label. Source: SFL, Section VI,
    benchmark FULL.

    Parameters
    ----------
    capacity : int
        B, samples.
    shares : array (n_classes,)
        The long-term distribution pi, which no real client knows.
    refresh : bool
        False (the paper): samples taken once stay for ever; True: new samples replace old ones of
        their label, so that FULL sees as many different samples as the other rules do.
    """

    def __init__(self, capacity: int, shares, refresh: bool = False):
        super().__init__(capacity)
        self.shares = checks.simplex("shares", shares)
        self.refresh = self._new_first = checks.choice("refresh", refresh, (False, True))
        self.quota = largest_remainder(self.shares * self.capacity, self.capacity)

    def _check_arrivals(self, n):
        pass  # FULL is filled from a pool of any size

    def _update(self, ids, labels, rng):
        if labels.max() >= len(self.quota):
            raise ValueError(
                f"labels holds {labels.max()}; shares names {len(self.quota)} classes, so labels must be below that"
            )
        self._replace(ids, labels, rng)

    def _wanted(self, available):
        return np.minimum(self.quota, available)


def _integers(name: str, values) -> np.ndarray:
    out = np.asarray(values)
    if out.size == 0 and out.ndim == 1:
        return out.astype(np.int64)
    if out.ndim != 1 or out.dtype.kind not in "iu":
        raise ValueError(
            f"{name} must be a one-dimensional array of integers; got dtype {out.dtype}, shape {out.shape}"
        )
    return out.astype(np.int64)
