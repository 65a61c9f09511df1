"""Local cache update rules: what a client keeps of a stream when it can hold only B samples.

Source: SFL, Section IV-B (FIFO, SRSR, DRSR) and Section VI (FULL, LAZY); Reservoir is the textbook
baseline the paper lacks (Vitter 1985, Algorithm R). ERRATA 1, 3 and 4 say where the printed targets
are completed.

To add a rule of your own, derive from `Cache` and say in `take` what stays of a round's arrivals,
or derive from `SharesRule` and give the weight of new data only. `training.run(config, cache=...)`
takes the class as it is; a row in `RULES` makes its name a rule like any other, in configs, sweeps,
legends and widgets. Nothing else must be touched, but for two cases. A parameter of the rule's own
is a field of `SFLConfig`, named in the row's `options`; with `cache=`, a function
(config, long_term) can set it instead. And the exact discrepancy of a rule is known only where
`sfl.discrepancy` says how the rule weighs past rounds. What a run asks of a cache is said in
`sflkit.sfl.protocol`.

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
from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike

from sflkit import checks
from sflkit.registry import Look, Registry, Rule
from sflkit.rounding import largest_remainder

MAX_LABEL = checks.MAX_LABEL  # rules hold one number for each label up to the largest


class Cache(ABC):
    """What every rule has in common: the stored samples, and the check of what arrives.

    Derive from it to write a rule. `take` is all that you must write: it gets the checked arrivals
    of one round and calls `keep` with what the cache holds from then on. For example, a cache that
    forgets everything but the newest round:

    >>> class Forgetful(Cache):
    ...     def take(self, ids, labels, rng):
    ...         self.keep(ids, labels)
    >>> cache = Forgetful(capacity=4, batch_size=2)
    >>> cache.update([7, 8], [0, 1], np.random.default_rng(0))
    >>> cache.ids
    array([7, 8])

    A rule that looks at more than ids and labels names it in `needs`: "inputs" (n, ...) are the
    samples as the network gets them, "losses" (n,) what the global model of the round's start
    loses on each. A run that trains then hands them to `take` as keywords, in the order of
    `joined`: first of the samples that are held, then of the arrivals.

    Parameters
    ----------
    capacity : int
        B >= 1, samples.
    batch_size : int, optional
        B_s in [1, B], the number of samples that a full round brings. A rule that does not need it
        leaves it out.

    Raises
    ------
    ValueError
        If a number is out of range.
    """

    needs: tuple[str, ...] = ()
    # Whether at most `capacity` samples may arrive at once. FULL picks from a pool of any size.
    bounded_arrivals = True

    def __init__(self, capacity: int, batch_size: int | None = None):
        self.capacity = checks.integer("capacity", capacity, 1)
        if batch_size is not None:
            batch_size = checks.integer("batch_size", batch_size, 1, self.capacity)
        self.batch_size = batch_size
        self._ids = self._labels = np.empty(0, dtype=np.int64)

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

    def __repr__(self) -> str:
        return f"{type(self).__name__}: {len(self)} of {self.capacity} samples"

    def label_counts(self, n_classes: int) -> np.ndarray:
        """Return how many cached samples carry each label, int64 array (n_classes,).

        Raises
        ------
        ValueError
            If a cached label is not below `n_classes`.
        """
        most = self._labels.max(initial=-1)
        if checks.integer("n_classes", n_classes, 1) <= most:
            raise ValueError(f"n_classes={n_classes} is too small: the cache holds label {most}")
        return np.bincount(self._labels, minlength=int(n_classes))

    def update(
        self, ids: ArrayLike, labels: ArrayLike, rng: np.random.Generator, **needed: np.ndarray
    ) -> None:
        """Check one round of arrivals and `take` it into the cache; nothing is taken of none.

        Parameters
        ----------
        ids, labels : int arrays (n_arrivals,)
            Sample identifiers and their labels in [0, MAX_LABEL], in order of arrival; at most
            `capacity`, none is fine.
        rng : numpy.random.Generator
            Decides which samples of a label stay.
        **needed : arrays (n_held + n_arrivals, ...)
            What the rule `needs`.

        Raises
        ------
        ValueError
            If lengths differ, an entry is no non-negative integer label, or more samples arrive
            than the cache holds. The cache is left as it was.
        """
        ids = _vector("ids", ids)
        labels = _vector("labels", labels)
        if len(labels) and (labels.min() < 0 or labels.max() > MAX_LABEL):
            checks.integers("labels", labels, low=0, high=MAX_LABEL)  # says which
        if len(ids) != len(labels):
            raise ValueError(
                f"ids has {len(ids)} entries but labels has {len(labels)}; they must be aligned"
            )
        if self.bounded_arrivals and len(ids) > self.capacity:
            raise ValueError(
                f"{len(ids)} samples arrive at once; at most capacity={self.capacity} can"
            )
        if len(ids):
            self.take(ids, labels, checks.generator(rng), **needed)

    @abstractmethod
    def take(self, ids: np.ndarray, labels: np.ndarray, rng: np.random.Generator) -> None:
        """Decide what the cache holds after a round, and `keep` it; every rule writes its own.

        Parameters
        ----------
        ids, labels : int64 arrays (n_arrivals,)
            The arrivals, at least one, checked by `update`. The samples held so far are `self.ids`
            and `self.labels`.
        rng : numpy.random.Generator
            The only source of chance, so that runs can be repeated.
        """

    def joined(self, ids: np.ndarray, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return ids and labels of the samples held so far, and then of these."""
        return np.concatenate([self._ids, ids]), np.concatenate([self._labels, labels])

    def keep(self, ids: ArrayLike, labels: ArrayLike) -> None:
        """Hold exactly these samples from now on.

        Parameters
        ----------
        ids, labels : int arrays (n,), n <= capacity

        Raises
        ------
        ValueError
            If they are no integers, their lengths differ, or there are more than the cache holds.
        """
        ids, labels = _vector("ids", ids).copy(), _vector("labels", labels).copy()
        if not len(ids) == len(labels) <= self.capacity:
            raise ValueError(
                f"keep got {len(ids)} ids and {len(labels)} labels; they must be aligned, and at "
                f"most capacity={self.capacity} can stay"
            )
        self._ids, self._labels = ids, labels


class FIFO(Cache):
    """First in, first out: the B newest samples. Source: SFL (7)."""

    def take(self, ids: np.ndarray, labels: np.ndarray, rng: np.random.Generator) -> None:
        """Append the arrivals and drop the oldest samples beyond `capacity`."""
        ids, labels = self.joined(ids, labels)
        self.keep(ids[-self.capacity :], labels[-self.capacity :])


class Lazy(Cache):
    """The first B samples received, never updated again.

    Source: SFL, Section VI, benchmark LAZY.
    """

    def take(self, ids: np.ndarray, labels: np.ndarray, rng: np.random.Generator) -> None:
        """Append the first arrivals for which there is room."""
        ids, labels = self.joined(ids, labels)
        self.keep(ids[: self.capacity], labels[: self.capacity])


class Reservoir(Cache):
    """A uniform sample of everything received so far.

    Source: Vitter (1985), Algorithm R; not in the paper.
    """

    seen = 0

    def take(self, ids: np.ndarray, labels: np.ndarray, rng: np.random.Generator) -> None:
        """Fill the room; each later arrival then replaces a random sample, or is dropped."""
        room = self.capacity - len(self)
        # Arrival t of the whole stream, counted from 1, takes slot j ~ U{0, ..., t-1} if j < B.
        slots = rng.integers(0, self.seen + np.arange(room + 1, len(ids) + 1))
        self.seen += len(ids)
        ids, labels = self.joined(ids, labels)
        kept = np.arange(len(ids))
        hit = slots < self.capacity
        # numpy assigns repeated indices in order: a slot that is drawn twice keeps the later one.
        kept[slots[hit]] = kept[self.capacity :][hit]
        self.keep(ids[kept[: self.capacity]], labels[kept[: self.capacity]])


class SelectiveReplacement(Cache):
    """Step 2 of SRSR, shared by every rule that aims at label counts: new data go first.

    Source: SFL, Section IV-B, cases 1 and 2. With n~_r <= n_r(new), n~_r random new samples replace
    all old ones of label r; otherwise all new ones stay and random old ones fill up. Both cases are
    one ordering: new before old, random within.

    A rule of this kind says in `wanted` how many samples of each label it aims at, and its `take`
    calls `replace`.
    """

    new_first = True  # False: samples that are held stay before any new one is taken
    shares = np.empty(0)

    @abstractmethod
    def wanted(self, available: np.ndarray) -> np.ndarray:
        """Return how many samples of each label to hold, int array (n_labels,).

        No number may exceed that of the samples `available` (n_labels,) in the old cache and the
        arrivals together; their sum must not exceed the capacity.
        """

    def replace(self, ids: np.ndarray, labels: np.ndarray, rng: np.random.Generator) -> None:
        """Hold `wanted` samples of each label, chosen among the old ones and the arrivals."""
        held = len(self)
        ids, labels = self.joined(ids, labels)
        wanted = self.wanted(np.bincount(labels, minlength=len(self.shares)))
        old = np.arange(len(ids)) < held
        order = np.lexsort((rng.random(len(ids)), old == self.new_first, labels))
        by_label = labels[order]
        rank = np.arange(len(order)) - np.searchsorted(by_label, by_label)
        kept = np.sort(order[rank < wanted[by_label]])
        self.keep(ids[kept], labels[kept])


class SharesRule(SelectiveReplacement):
    """SRSR and DRSR: a running average of label shares, v <- (1 - w) v + w u.

    The weight w of the new shares u is all that tells one such rule from another; derive from this
    class and write `weight` for one of your own.
    """

    @property
    def target(self) -> np.ndarray:
        """Real-valued number of samples of each label the rule aims at; adds up to len(cache)."""
        return self.shares * len(self)

    @abstractmethod
    def weight(self, n_arrivals: int) -> float:
        """Return the weight w in [0, 1] of `n_arrivals` new samples; called once per round.

        Of the first arrivals it is taken as 1, since nothing is carried before them.
        """

    def take(self, ids: np.ndarray, labels: np.ndarray, rng: np.random.Generator) -> None:
        """Move the carried shares towards those of the arrivals, then meet them."""
        n_labels = max(len(self.shares), labels.max() + 1)
        shares = np.zeros(n_labels)
        shares[: len(self.shares)] = self.shares
        weight = self.weight(len(ids))
        if not len(self.shares):  # nothing is carried yet that could keep a part
            weight = 1.0
        counts = np.bincount(labels, minlength=n_labels)
        self.shares = (1 - weight) * shares + weight * counts / len(ids)
        self.replace(ids, labels, rng)

    def wanted(self, available: np.ndarray) -> np.ndarray:
        """Return the carried shares of the cache's size as whole samples, (n_labels,)."""
        # ERRATA 4: the real-valued shares are carried; only what is stored gets rounded, capped at
        # what exists
        size = min(self.capacity, int(available.sum()))
        return largest_remainder(self.shares * size, size, available)


class SRSR(SharesRule):
    """Static ratio selective replacement. Source: SFL (10)-(12).

    While the cache has room every arrival is appended; then the target is (1 - theta B_s / B)
    n_r(old) + theta n_r(new). theta = 0 freezes the label shares, but by the paper's own step 2 new
    samples still replace old ones of their label.
    """

    def __init__(self, capacity: int, batch_size: int, theta: float):
        super().__init__(capacity, batch_size)
        self.theta = checks.real("theta", theta, 0, 1)

    def weight(self, n_arrivals: int) -> float:
        """Return theta times the arrivals' part of the cache; their part of all while it fills."""
        if len(self) + n_arrivals <= self.capacity:
            return n_arrivals / (len(self) + n_arrivals)
        # ERRATA 1: the journal's (10) drops theta from the old cache's factor
        return self.theta * n_arrivals / self.capacity


class DRSR(SharesRule):
    """Dynamic ratio selective replacement: shares follow the average of all arrivals so far.

    Source: SFL (14), Prop. 3. theta_t = B / (B_s t) makes the weight of round t equal 1 / t; with
    rounds of unequal size it is the arrivals' part of everything seen. In the first M rounds that
    is exactly "append everything" (ERRATA 3).
    """

    seen = 0

    def weight(self, n_arrivals: int) -> float:
        """Return the arrivals' part of everything seen."""
        self.seen += n_arrivals
        return n_arrivals / self.seen


class Full(SelectiveReplacement):
    """FULL: a set of size B with round(B pi_r) samples of each label.

    Source: SFL, Section VI, benchmark FULL.

    Parameters
    ----------
    capacity : int
        B, samples.
    shares : array (n_classes,)
        The long-term distribution pi, which no real client knows.
    refresh : bool
        False: samples taken once stay for ever; True: new samples replace old ones of their label,
        so that FULL sees as many different samples as the other rules do. The paper does not say
        which it means, its Fig. 10 speaks for True (ERRATA 85).
    """

    bounded_arrivals = False  # it is filled from a pool of any size

    def __init__(self, capacity: int, shares: ArrayLike, refresh: bool = False):
        super().__init__(capacity)
        self.shares = checks.simplex("shares", shares).copy()
        self.refresh = self.new_first = checks.flag("refresh", refresh)
        self.quota = largest_remainder(self.shares * self.capacity, self.capacity)

    def take(self, ids: np.ndarray, labels: np.ndarray, rng: np.random.Generator) -> None:
        """Fill what lacks of each label's quota; with `refresh`, renew what is there."""
        if labels.max() >= len(self.quota):
            raise ValueError(
                f"labels holds {labels.max()}; shares names {len(self.quota)} classes, so labels "
                "must be below that"
            )
        self.replace(ids, labels, rng)

    def wanted(self, available: np.ndarray) -> np.ndarray:
        """Return the quota of each label, or all that is `available` where that is less."""
        return np.minimum(self.quota, available)


def _full(refresh: bool) -> Callable[..., Full]:
    return lambda capacity, batch_size, long_term: Full(capacity, long_term, refresh)


# Every rule of a run, in the order of legends and menus. A row's `build` is called with capacity
# and batch_size, and with its `options` as keywords: fields of the config, or "long_term", the
# client's long-term label shares, which no real client knows. Colours are those of Okabe and Ito,
# safe for colour-blind readers; a line and a marker of its own keep each apart in grey print.
RULES = Registry(
    "cache rule",
    {
        "full": Rule(_full(False), "FULL", Look("#000000"), options=("long_term",)),
        "drsr": Rule(DRSR, "DRSR", Look("#0072B2", "-", "o")),
        "srsr": Rule(SRSR, "SRSR", Look("#D55E00", (0, (5, 1.5)), "s"), options=("theta",)),
        "fifo": Rule(FIFO, "FIFO", Look("#009E73", (0, (4, 1.5, 1, 1.5)), "^")),
        "lazy": Rule(Lazy, "LAZY", Look("#CC79A7", (0, (1, 1.2)), "D")),
        "reservoir": Rule(Reservoir, "Reservoir", Look("#E69F00", (0, (3, 1, 1, 1, 1, 1)), "v")),
        "full_refreshed": Rule(
            _full(True), "FULL (renewed)", Look("#666666", (0, (8, 2)), "x"), ("long_term",)
        ),
    },
)


def _vector(name: str, values: ArrayLike) -> np.ndarray:
    """Return an int64 vector, at once where it is one: this is called in every round of a cache."""
    if type(values) is np.ndarray and values.dtype == np.int64 and values.ndim == 1:
        return values
    return checks.integers(name, values, ndim=1)
