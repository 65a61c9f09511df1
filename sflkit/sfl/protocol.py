"""The caches and streams that you may bring to a run, how they are built, and how they are checked.

A server rule and a model of your own are built as for every paper, see `sflkit.federated.own`; the
server's `shares` are the clients' weights in the objective, 1/K each. A cache rule keeps something
between rounds, so that every client needs a cache of its own. That is why a run asks for a class or
a function that makes them, and refuses a finished object.

=======  =======================================  =====================================
keyword  class, built as                          function, called as
=======  =======================================  =====================================
cache    cls(config.capacity, config.batch_size)  f(config, long_term), per client
stream   (a function only)                        f(config, n_classes), per run
=======  =======================================  =====================================

`long_term` (n_classes,) holds the client's long-term label shares. A stream may also be finished: a
`LabelStream` or `ShareStream`, which do not change in a run, or the shares themselves, an array
(rounds, n_clients, n_classes).

A cache, by the protocol `CacheLike`, must keep four promises: it holds at most B samples; it holds
only what arrived at its client; the labels it gives are those of the data set; and no two clients
share it. All are checked in every round (see `contents` and `Arrivals`). A cache may hold a sample
twice: with a small data set the same sample arrives again and again, and a rule may weigh a sample
by repeating it.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from sflkit.sfl.config import SFLConfig
from sflkit.sfl.streams import LabelStream, ShareStream

Stream = LabelStream | ShareStream
NEEDS = ("inputs", "losses")  # what a cache may ask for
_INT64 = np.dtype(np.int64)


class CacheLike(Protocol):
    """The members of a cache that a run uses; `sflkit.sfl.caches.Cache` has them all.

    Attributes
    ----------
    ids, labels : int64 arrays (n,)
        The cached samples and their labels, aligned.
    """

    @property
    def ids(self) -> np.ndarray: ...

    @property
    def labels(self) -> np.ndarray: ...

    def update(self, ids: np.ndarray, labels: np.ndarray, rng: np.random.Generator) -> None:
        """Take one round of arrivals, int64 arrays (n_arrivals,).

        A cache with the attribute `needs` gets what it names as well, see `caches.Cache`.
        """


class Contents(NamedTuple):
    """What all caches of a run hold, one after the other.

    Attributes
    ----------
    ids, labels : int64 arrays (n_samples,)
    sizes : list of int, one per client
    """

    ids: np.ndarray
    labels: np.ndarray
    sizes: list[int]


def build_caches(
    cache: Callable | None, config: SFLConfig, long_terms: np.ndarray
) -> list[CacheLike] | None:
    """Return one cache per client from the class or function `cache`; None of None.

    Parameters
    ----------
    cache : class, function or None
        See the table above.
    config : SFLConfig
    long_terms : array (n_clients, n_classes)
        Long-term label shares.

    Raises
    ------
    ValueError
        If `cache` is an object or cannot be called as the table says, or if what it makes is no
        cache, is not empty, or is the same object for two clients.
    """
    if cache is None:
        return None
    from sflkit.federated.own import check_not_shared, maker, name_of  # they bring torch

    make = maker(
        "cache",
        cache,
        of_class=("config.capacity", "config.batch_size"),
        of_function=("config", "long_term"),
        finished=hasattr(cache, "update"),
    )
    if inspect.isclass(cache):
        built = [make(config.capacity, config.batch_size) for _ in long_terms]
    else:
        built = [make(config, long_term) for long_term in long_terms]
    for k, made in enumerate(built):
        lacks = [name for name in ("update", "ids", "labels") if not hasattr(made, name)]
        if lacks:
            raise ValueError(
                f"cache={name_of(cache)} made {made!r}, which lacks {', '.join(lacks)}; derive "
                "your rule from sflkit.sfl.caches.Cache"
            )
        if unknown := set(needs(made)) - set(NEEDS):
            raise ValueError(
                f"needs of cache rule {name_of(cache)} holds {', '.join(sorted(unknown))}; it may "
                f"hold {', '.join(NEEDS)}"
            )
        if len(made.ids):
            raise ValueError(
                f"cache={name_of(cache)} made a cache for client {k} that holds {len(made.ids)} "
                "samples before round 1; it must make an empty one for each client"
            )
    check_not_shared("cache", built, [f"client {k}" for k in range(len(built))])
    return built


def needs(cache: CacheLike) -> tuple[str, ...]:
    """Return what a cache asks for besides ids and labels."""
    return tuple(getattr(cache, "needs", ()))


def build_stream(stream: Any, config: SFLConfig, n_classes: int) -> Stream:
    """Return the stream: `stream` itself, of the shares `stream`, or what the function makes.

    Raises
    ------
    ValueError
        If `stream` is none of these, cannot be called as the table says, or makes none; or if its
        numbers of clients and classes are not those of the run.
    """
    if isinstance(stream, (np.ndarray, list, tuple)):
        stream = ShareStream(stream)
    if not isinstance(stream, Stream):
        from sflkit.federated.own import maker, name_of  # they bring torch

        make = maker("stream", stream, of_class=None, of_function=("config", "n_classes"))
        made = make(config, n_classes)
        made = ShareStream(made) if isinstance(made, (np.ndarray, list, tuple)) else made
        if not isinstance(made, Stream):
            raise ValueError(f"stream={name_of(stream)} made {made!r}, which is no LabelStream")
        stream = made
    if stream.long_term.shape != (config.n_clients, n_classes):
        has_clients, has_classes = stream.long_term.shape
        raise ValueError(
            f"stream has {has_clients} clients and {has_classes} classes; this run needs "
            f"{config.n_clients} and {n_classes}"
        )
    return stream


def contents(caches: Sequence[CacheLike], capacity: int, t: int) -> Contents:
    """Return what the caches of a run hold after round t.

    Raises
    ------
    ValueError
        If the ids and labels of a cache are no int64 arrays of one length, or hold more samples
        than `capacity`. The message names the rule, the client and the round.
    """
    held = [(cache.ids, cache.labels) for cache in caches]
    for k, (ids, labels) in enumerate(held):
        fits = type(ids) is type(labels) is np.ndarray and ids.dtype == labels.dtype == _INT64
        if not (fits and ids.ndim == 1 and ids.shape == labels.shape and len(ids) <= capacity):
            raise ValueError(f"{where(caches[k], k, t)}: {_misshapen(ids, labels, capacity)}")
    all_ids, all_labels = (np.concatenate(parts) for parts in zip(*held, strict=True))
    return Contents(all_ids, all_labels, [len(ids) for ids, _ in held])


class Arrivals:
    """What has arrived at every client so far, against which `check` compares the caches.

    It is cheap enough for every round, since it looks at the samples of all clients at once, and
    for the client at fault only where something is wrong.

    Parameters
    ----------
    n_clients : int
        K.
    labels : int array (n_samples,)
        Labels of the data set, whose rows the ids name; below 2^31.
    """

    def __init__(self, n_clients: int, labels: np.ndarray):
        self.labels = labels
        # The label of each sample that arrived at a client; -1 where it did not.
        self._known = np.full(n_clients * len(labels), -1, dtype=np.int32)
        self._first = np.arange(n_clients) * len(labels)

    def add(self, ids: Sequence[np.ndarray]) -> None:
        """Note the arrivals of one round, an int64 array of ids for each client."""
        together = np.concatenate(ids)
        places = together + self._first.repeat([len(own) for own in ids])
        self._known[places] = self.labels[together]

    def check(self, held: Contents, caches: Sequence[CacheLike], t: int) -> None:
        """Compare what the `caches` hold after round t with what arrived.

        Raises
        ------
        ValueError
            If a cache holds a sample that did not arrive at its client, or gives it a label that is
            not its own. The message names the rule, the client and the round.
        """
        # Seen as unsigned numbers, negative ids are beyond the data set as well.
        if not len(held.ids) or held.ids.view(np.uint64).max() < len(self.labels):
            known = self._known.take(held.ids + self._first.repeat(held.sizes))
            if (known == held.labels).all():
                return
        ends = np.cumsum(held.sizes)[:-1]
        parts = zip(np.split(held.ids, ends), np.split(held.labels, ends), strict=True)
        for k, (ids, labels) in enumerate(parts):
            self._find_wrong(where(caches[k], k, t), k, ids, labels)

    def _find_wrong(self, place: str, k: int, ids: np.ndarray, labels: np.ndarray) -> None:
        n_samples = len(self.labels)
        outside = (ids < 0) | (ids >= n_samples)
        if outside.any():
            raise ValueError(
                f"{place}: holds id {ids[outside][0]}; ids are rows of the training set, in "
                f"[0, {n_samples - 1}]"
            )
        known = self._known[self._first[k] + ids]
        if (known < 0).any():
            raise ValueError(
                f"{place}: holds id {ids[known < 0][0]}, a sample that never arrived at this client"
            )
        if (known != labels).any():
            i = int((known != labels).argmax())
            raise ValueError(
                f"{place}: gives sample {ids[i]} the label {labels[i]}; its label is {known[i]}"
            )


def where(cache: CacheLike, client: int, t: int) -> str:
    """Return "cache rule X, client k, round t", the start of an error message."""
    return f"cache rule {type(cache).__name__}, client {client}, round {t}"


def _misshapen(ids: Any, own: Any, capacity: int) -> str:
    for name, value in (("ids", ids), ("labels", own)):
        if type(value) is not np.ndarray or value.dtype != np.int64 or value.ndim != 1:
            kind = type(value).__name__
            form = f" of {value.dtype}, shape {value.shape}" if kind == "ndarray" else ""
            return f"{name} is a {kind}{form}; it must be a numpy array of int64, shape (n,)"
    if len(ids) != len(own):
        return f"has {len(ids)} ids but {len(own)} labels; they must be aligned"
    return f"holds {len(ids)} samples; it may hold at most capacity={capacity}"
