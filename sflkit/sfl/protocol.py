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
`LabelStream` or `GivenStream`, which do not change in a run, or the array (rounds, n_clients,
n_classes) of a `GivenStream`: floats are the label shares of each round, integers the numbers of
samples. A row of zeros is a round in which nothing arrives at a client; its cache is then left as
it is, and its `update` is not called.

A cache, by the protocol `CacheLike`, must keep four promises: it holds at most B samples; it holds
only what arrived at its client; the labels it gives are those of the data set; and no two clients
share it. All are checked in every round (see `Arrivals.contents`). A cache may hold a sample
twice: with a small data set the same sample arrives again and again, and a rule may weigh a sample
by repeating it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from sflkit import checks
from sflkit.sfl.config import SFLConfig
from sflkit.sfl.streams import GivenStream, LabelStream

Stream = LabelStream | GivenStream
NEEDS = ("inputs", "losses")  # what a cache may ask for


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
    from sflkit.federated.own import build_each, name_of  # they bring torch

    sizes = config.capacity, config.batch_size
    built = build_each(
        "cache",
        cache,
        {f"client {k}": (sizes, (config, row)) for k, row in enumerate(long_terms)},
        of_class=("config.capacity", "config.batch_size"),
        of_function=("config", "long_term"),
        protocol=CacheLike,
    )
    for k, made in enumerate(built):
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
    return built


def needs(cache: CacheLike) -> tuple[str, ...]:
    """Return what a cache asks for besides ids and labels."""
    wanted = getattr(cache, "needs", ())
    return (wanted,) if isinstance(wanted, str) else tuple(wanted)


def build_stream(stream: Any, config: SFLConfig, n_classes: int) -> Stream:
    """Return the stream: `stream` itself, of the array `stream`, or what the function makes.

    Raises
    ------
    ValueError
        If `stream` is none of these, cannot be called as the table says, or makes none; or if its
        numbers of clients and classes are not those of the run.
    """
    given, finished = stream, (Stream, np.ndarray, list, tuple)
    if not isinstance(given, finished):
        from sflkit.federated.own import maker, name_of  # they bring torch

        make = maker("stream", given, of_class=None, of_function=("config", "n_classes"))
        stream = make(config, n_classes)
        if not isinstance(stream, finished):
            raise ValueError(f"stream={name_of(given)} made {stream!r}, which is no LabelStream")
    stream = stream if isinstance(stream, Stream) else GivenStream(stream)
    checks.shape("stream of clients and classes", stream.long_term, (config.n_clients, n_classes))
    return stream


class Arrivals:
    """What has arrived at every client so far, against which the caches are compared.

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
        self._known = np.full((n_clients, len(labels)), -1, dtype=np.int32)

    def add(self, ids: Sequence[np.ndarray]) -> None:
        """Note the arrivals of one round, an int64 array of ids for each client."""
        together = np.concatenate(ids)
        rows = np.arange(len(ids)).repeat([len(own) for own in ids])
        self._known[rows, together] = self.labels[together]

    def contents(self, caches: Sequence[CacheLike], capacity: int, t: int) -> Contents:
        """Return what the caches of a run hold after round t.

        Raises
        ------
        ValueError
            If the ids and labels of a cache are no int64 arrays of one length, or hold more samples
            than `capacity`, one that did not arrive at the client, or a label that is not the
            sample's own. The message names the rule, the client and the round.
        """
        held = [(cache.ids, cache.labels) for cache in caches]
        for k, (ids, labels) in enumerate(held):
            if wrong := _misshapen(ids, labels, capacity):
                raise ValueError(f"{where(caches[k], k, t)}: {wrong}")
        ids, labels = (np.concatenate(parts) for parts in zip(*held, strict=True))
        sizes = [len(own) for own, _ in held]
        rows = np.arange(len(held)).repeat(sizes)
        outside = (ids < 0) | (ids >= len(self.labels))
        known = np.where(outside, -1, self._known[rows, np.where(outside, 0, ids)])
        if (wrong := (known < 0) | (known != labels)).any():
            at = int(wrong.argmax())
            said = f"gives sample {ids[at]} the label {labels[at]}; its label is {known[at]}"
            if known[at] < 0:
                said = f"holds id {ids[at]}, a sample that never arrived at this client"
            raise ValueError(f"{where(caches[rows[at]], rows[at], t)}: {said}")
        return Contents(ids, labels, sizes)


def where(cache: CacheLike, client: int, t: int) -> str:
    """Return "cache rule X, client k, round t", the start of an error message."""
    return f"cache rule {type(cache).__name__}, client {client}, round {t}"


def _misshapen(ids: Any, labels: Any, capacity: int) -> str:
    """Return what is wrong with the form of a cache's arrays, if anything is."""
    for name, value in (("ids", ids), ("labels", labels)):
        if type(value) is not np.ndarray or value.dtype != np.int64 or value.ndim != 1:
            kind = type(value).__name__
            form = f" of {value.dtype}, shape {value.shape}" if kind == "ndarray" else ""
            return f"{name} is a {kind}{form}; it must be a numpy array of int64, shape (n,)"
    if len(ids) != len(labels):
        return f"has {len(ids)} ids but {len(labels)} labels; they must be aligned"
    if len(ids) > capacity:
        return f"holds {len(ids)} samples; it may hold at most capacity={capacity}"
    return ""
