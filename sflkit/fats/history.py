"""What FATS draws: clients of every round and the mini-batches of every slot, with the look-up of
first use.

Source: FATS, Algorithm 1, lines 8 and 12, and Section 5.3.1. The notation is that of
`sflkit.fats.forgetting`, which re-exports what is for users; here live the container and the
sampling that learning and forgetting share."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from sflkit import checks


@dataclass(frozen=True, eq=False, repr=False)
class History:
    """What was drawn; it never changes, forgetting returns a new one, and its arrays are read-only.

    Parameters
    ----------
    clients : int array (rounds, clients_per_round)
    batches : int array (rounds, clients_per_round, local_steps, batch_size)
        Sample numbers within the slot's client, ascending within a mini-batch.
    samples_per_client : int array (n_clients,)
        Samples at the start; sample numbers do not move when samples are forgotten.
    forgotten : frozenset of (client, sample)
        What was forgotten; (client, None) is a whole client.

    Attributes
    ----------
    samples_left : int array (n_clients,)
        Samples not forgotten, 0 for a forgotten client.
    first_round : int array (n_clients,)
        First round that drew the client, `rounds` if none did.

    Raises
    ------
    ValueError
        If shapes or numbers do not fit together, or something forgotten is still in use.
    """

    clients: np.ndarray
    batches: np.ndarray
    samples_per_client: np.ndarray
    forgotten: frozenset = frozenset()

    def __post_init__(self):
        clients, batches = (
            np.array(self.clients, dtype=np.int64),
            np.array(self.batches, dtype=np.int64),
        )
        sizes = np.array(self.samples_per_client, dtype=np.int64)
        if (
            batches.ndim != 4
            or 0 in batches.shape
            or clients.shape != batches.shape[:2]
            or sizes.ndim != 1
        ):
            raise ValueError(
                f"shapes must be clients (R, K), batches (R, K, E, b), samples_per_client (M,); "
                f"they are {clients.shape}, {batches.shape}, {sizes.shape}"
            )
        if sizes.min(initial=1) < 1 or clients.min() < 0 or clients.max() >= len(sizes):
            raise ValueError(
                f"clients must lie in 0..{len(sizes) - 1} and each have at least one sample"
            )
        if (
            batches.min() < 0
            or (batches >= sizes[clients][:, :, None, None]).any()
            or (np.diff(batches) <= 0).any()
        ):
            raise ValueError(
                "each mini-batch must hold samples of its slot's client, in ascending order, none twice"
            )
        fill(self, samples_per_client=frozen(sizes))
        forgotten, left = frozenset(existing(self, *item) for item in self.forgotten), sizes.copy()
        for client, sample in forgotten:
            left[client] -= sample is not None
        left[[client for client, sample in forgotten if sample is None]] = 0
        if not left.any() or ((left > 0) & (left < batches.shape[3])).any():
            raise ValueError(
                f"a client must be left, each with at least batch_size={batches.shape[3]} samples; left are {left}"
            )
        fill(self, forgotten=forgotten, samples_left=frozen(left))
        store(self, clients, batches)
        for item in forgotten:
            if self.first_use(*item) is not None:
                raise ValueError(
                    f"(client, sample)={item} is forgotten, but still in use at {self.first_use(*item)}"
                )

    n_clients = property(lambda self: len(self.samples_per_client), doc="M, clients at the start.")
    rounds = property(lambda self: self.batches.shape[0], doc="R.")
    clients_per_round = property(lambda self: self.batches.shape[1], doc="K.")
    local_steps = property(lambda self: self.batches.shape[2], doc="E.")
    batch_size = property(lambda self: self.batches.shape[3], doc="b.")
    steps = property(lambda self: self.rounds * self.local_steps, doc="T = R E.")

    def first_step(self, client: int, sample: int) -> int:
        """Return the first step r E + e of the run that uses a sample, `steps` if none does; O(1),
        arguments not checked.
        """
        return int(self._first_step[self._offsets[client] + sample])

    def first_use(self, client: int, sample: int | None = None):
        """Return the first (round, step) that uses a sample, the first round of a client without
        `sample`, or None; O(1).

        Source: FATS, Section 5.3.1. Raises ValueError for a client or sample that never existed.
        """
        client, sample = existing(self, client, sample)
        if sample is None:
            first = int(self.first_round[client])
            return first if first < self.rounds else None
        first = self.first_step(client, sample)
        return divmod(first, self.local_steps) if first < self.steps else None

    def remaining(self, client: int) -> np.ndarray:
        """Return the sample numbers that a client has left, ascending, int64
        (samples_left[client],).
        """
        client, _ = existing(self, client)
        if (client, None) in self.forgotten:
            return np.empty(0, dtype=np.int64)
        return _without(
            self.samples_per_client[client], [s for k, s in self.forgotten if k == client]
        )

    def __repr__(self):
        names = ("n_clients", "rounds", "clients_per_round", "local_steps", "batch_size")
        return f"History({', '.join(f'{n}={getattr(self, n)}' for n in names)}, forgotten={len(self.forgotten)})"


def draw_history(
    *,
    n_clients,
    samples_per_client,
    clients_per_round,
    batch_size,
    local_steps,
    rounds,
    rng: np.random.Generator,
) -> History:
    """Draw the sampling history of R rounds.

    Source: FATS, Algorithm 1, lines 8 and 12.

    Parameters
    ----------
    n_clients, clients_per_round, batch_size, local_steps, rounds : int
        M, K, b, E, R, each >= 1.
    samples_per_client : int or int array (n_clients,)
        N_k, each >= batch_size.
    rng : numpy.random.Generator
        Only its `integers` is used.

    Raises
    ------
    ValueError
        For sizes out of range, or a client with fewer samples than a mini-batch needs (ERRATA 21).
    """
    n_clients = checks.integer("n_clients", n_clients, 1)
    shape = (
        checks.integer("rounds", rounds, 1),
        checks.integer("clients_per_round", clients_per_round, 1),
    )
    local_steps, batch_size = (
        checks.integer("local_steps", local_steps, 1),
        checks.integer("batch_size", batch_size, 1),
    )
    sizes = checks.array("samples_per_client", samples_per_client, low=1)
    if (
        (sizes != np.floor(sizes)).any()
        or sizes.ndim > 1
        or (sizes.ndim and len(sizes) != n_clients)
    ):
        raise ValueError(
            f"samples_per_client={samples_per_client!r} must be one integer, or n_clients={n_clients} of them"
        )
    sizes = np.full(n_clients, sizes, dtype=np.int64)
    if sizes.min() < batch_size:
        k = int(sizes.argmin())
        raise ValueError(
            f"batch_size={batch_size} must be at most {sizes[k]}, the samples that client {k} has"
        )
    history = object.__new__(History)
    fill(
        history,
        samples_per_client=frozen(sizes),
        samples_left=frozen(sizes.copy()),
        forgotten=frozenset(),
    )
    clients = draw_clients(history, shape, checks.generator(rng))
    return store(history, clients, draw_batches(history, clients, local_steps, batch_size, rng))


def draw_clients(history: History, shape, rng) -> np.ndarray:
    """Draw clients that are left, uniformly with replacement."""
    present = np.flatnonzero(history.samples_left)
    return present[rng.integers(len(present), size=shape)]


def draw_batches(history: History, clients, steps: int, batch_size: int, rng) -> np.ndarray:
    """Draw samples that the clients of the slots have left, shape (*clients.shape, steps,
    batch_size).
    """
    sizes = np.repeat(history.samples_left[clients].reshape(-1), steps)
    ranks = subsets(sizes, batch_size, rng).reshape(*clients.shape, steps, batch_size)
    for client, samples in by_client(
        pair for pair in history.forgotten if pair[1] is not None
    ).items():
        slots = clients == client
        if slots.any():  # the r-th sample that is left; ascending ranks stay ascending
            ranks[slots] = _without(history.samples_per_client[client], samples)[ranks[slots]]
    return ranks


def subsets(sizes: np.ndarray, n: int, rng) -> np.ndarray:
    """Draw for each entry of `sizes` a uniform n-subset of 0..size-1, ascending (Floyd's algorithm,
    all rows at once).
    """
    tops = sizes - n + np.arange(n)[:, None]
    picks = rng.integers(tops + 1)
    for j in range(1, n):
        taken = (picks[:j] == picks[j]).any(axis=0)
        picks[j, taken] = tops[j, taken]
    return np.sort(picks.T, axis=1)


def by_client(pairs: Iterable) -> dict:
    """Group (client, sample) pairs: client -> list of samples."""
    groups = {}
    for client, sample in pairs:
        groups.setdefault(client, []).append(sample)
    return groups


def existing(history: History, client, sample=None) -> tuple:
    """Return (client, sample) as integers, refused with ValueError unless both exist in the
    history.
    """
    client = checks.integer("client", client, 0, history.n_clients - 1)
    return client, sample if sample is None else checks.integer(
        "sample", sample, 0, int(history.samples_per_client[client]) - 1
    )


def store(history: History, clients, batches) -> History:
    """Put arrays into a history under construction, with the look-up tables of first use (4 bytes a
    sample).
    """
    rounds, _, steps, _ = batches.shape
    sizes = history.samples_per_client
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    first_round = np.full(len(sizes), rounds, dtype=np.int32)
    np.minimum.at(
        first_round,
        clients,
        np.broadcast_to(np.arange(rounds, dtype=np.int32)[:, None], clients.shape),
    )
    first_step = np.full(offsets[-1], rounds * steps, dtype=np.int32)
    times = np.arange(rounds * steps, dtype=np.int32).reshape(rounds, 1, steps, 1)
    keys = offsets[clients][:, :, None, None] + batches
    np.minimum.at(first_step, keys.reshape(-1), np.broadcast_to(times, keys.shape).reshape(-1))
    fill(history, clients=frozen(clients), batches=frozen(batches))
    fill(history, first_round=frozen(first_round), _first_step=first_step, _offsets=offsets)
    return history


def fill(history: History, **values) -> None:
    """Set fields of a history under construction; it is frozen for its users."""
    history.__dict__.update(values)


def frozen(values: np.ndarray) -> np.ndarray:
    """Make an array read-only and return it."""
    values.setflags(write=False)
    return values


def _without(size: int, samples) -> np.ndarray:
    keep = np.ones(size, dtype=bool)
    keep[samples] = False
    return np.flatnonzero(keep)
