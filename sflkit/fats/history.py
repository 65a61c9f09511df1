"""What FATS draws: the clients of every round, the mini-batches of every slot, and when each sample
is first used.

Source: FATS, Algorithm 1, lines 8 and 12, and Section 5.3.1. Every round draws K clients with
replacement. Each draw (a *slot*) has its own E mini-batches of b samples, drawn without replacement
from what its client has left, also when a client is drawn twice (ERRATA 19).

A `History` consists of two parts that never change: the `Draws` and the `Crowd`. Forgetting makes a
new history and takes over the part that stays, so that forgetting a sample that was never used
copies no mini-batches and builds no look-up table.

FATS's clients have all of their samples in every round. Clients that are caches on a stream hold
some: a `sflkit.fats.held.Held` says which, and the mini-batches of a round are then drawn from what
its clients held in that round, also when something is forgotten later.

==================  ==========  ============  ==================================================
code                symbol      shape         meaning (rounds, steps, clients, samples from 0)
==================  ==========  ============  ==================================================
n_clients           M           scalar        clients at the start
samples_per_client  N, N_k      () or (M,)    samples of each client at the start
samples_left                    (M,)          samples that are not forgotten
clients_per_round   K           scalar        slots per round; fixed, also after deletions
batch_size          b           scalar        samples of a mini-batch; fixed likewise (ERRATA 45)
local_steps         E           scalar        mini-batches of a slot in a round
rounds              R = T / E   scalar        rounds; T = R E steps; step e of round r is the
                                              run's step r E + e
clients             P           (R, K)        client of each slot
batches             B           (R, K, E, b)  sample numbers of each mini-batch, ascending
first_round                     (M,)          first round that draws a client, R if none does
first_step                      (sum N_k,)    first step that uses a sample, T if none does
==================  ==========  ============  ==================================================
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from sflkit import checks
from sflkit.fats.held import MOST_HELD, Held

# A client and one of its samples, or None for the whole client.
Target = tuple[int, int | None]


@dataclass(frozen=True, eq=False)
class Crowd:
    """The clients, and how many samples each has: at the start, and without what was forgotten.

    Make one by `Crowd.of`, and a smaller one by `without`. The arrays are read-only.

    Parameters
    ----------
    samples_per_client : int64 array (n_clients,)
        Samples at the start. Sample numbers do not move when samples are forgotten.
    samples_left : int64 array (n_clients,)
        Samples that are not forgotten, 0 for a forgotten client.
    forgotten : frozenset of (client, sample)
        What was forgotten; (client, None) is a whole client.
    held : Held, optional
        What the clients hold in each round; None: all of their samples. It still says when
        something forgotten was held, but nothing draws that any more.
    """

    samples_per_client: np.ndarray
    samples_left: np.ndarray
    forgotten: frozenset[Target] = frozenset()
    held: Held | None = None

    @classmethod
    def of(
        cls,
        samples_per_client: ArrayLike,
        forgotten: Iterable[Target] = (),
        held: Held | None = None,
    ) -> Crowd:
        """Return the crowd of clients with so many samples, without what was forgotten.

        Raises
        ------
        ValueError
            If a client has no sample, something forgotten never existed, or `held` is about other
            numbers of samples.
        """
        sizes = np.array(checks.integers("samples_per_client", samples_per_client, high=MOST_HELD))
        if sizes.ndim != 1 or not len(sizes) or sizes.min() < 1:
            raise ValueError(
                f"samples_per_client={samples_per_client!r} must be integers >= 1, one per client"
            )
        if held is not None and not np.array_equal(held.samples_per_client, sizes):
            raise ValueError(
                f"held is about {held.samples_per_client} samples per client; "
                f"samples_per_client={samples_per_client!r} must be the same"
            )
        whole = cls(read_only(sizes), read_only(sizes.copy()))
        gone = frozenset(whole.existing(*pair("forgotten", target)) for target in forgotten)
        left = sizes.copy()
        for client, sample in gone:
            left[client] -= sample is not None
        left[[client for client, sample in gone if sample is None]] = 0
        return cls(whole.samples_per_client, read_only(left), gone, held)

    @property
    def n_clients(self) -> int:
        """M, the number of clients at the start."""
        return len(self.samples_per_client)

    def existing(self, client: int, sample: int | None = None) -> Target:
        """Return (client, sample) as integers.

        Raises
        ------
        ValueError
            If the client or the sample never existed. Whether it is forgotten does not matter.
        """
        client = checks.integer("client", client, 0, self.n_clients - 1)
        if sample is None:
            return client, None
        most = int(self.samples_per_client[client]) - 1
        return client, checks.integer("sample", sample, 0, most)

    def remaining(self, client: int, r: int | None = None) -> np.ndarray:
        """Return the sample numbers that a client has left, ascending, (samples_left[client],).

        With a round r, those that it holds in that round.

        Raises
        ------
        ValueError
            If the client never existed.
        """
        client, _ = self.existing(client)
        if r is not None and self.held is not None:
            held = self.held.samples(client, r)
            return held[np.isin(held, self.remaining(client), assume_unique=True)]
        if (client, None) in self.forgotten:
            return np.empty(0, dtype=np.int64)
        left = np.ones(self.samples_per_client[client], dtype=bool)
        left[[s for k, s in self.forgotten if k == client]] = False
        return np.flatnonzero(left)

    def without(self, targets: Sequence[Target], batch_size: int) -> Crowd:
        """Return the crowd that has forgotten the targets as well.

        Parameters
        ----------
        targets : list of (client, sample)
            Different from one another, existing and not yet forgotten; this is not checked again.
        batch_size : int
            Samples of a mini-batch, which every client that stays must be able to fill.

        Raises
        ------
        ValueError
            If no client would be left, or one with fewer samples than a mini-batch has.
        """
        left = self.samples_left.copy()
        for client, sample in targets:
            left[client] -= left[client] if sample is None else 1
        forgotten = self.forgotten.union(targets)
        if not left.any():
            raise ValueError(
                f"client={targets[-1][0]} is the last one; "
                "at least one client must be left to train on"
            )
        for client, sample in targets:
            if sample is not None and left[client] < batch_size:
                had = self.samples_left[client]
                raise ValueError(
                    f"sample={sample} of client={client}: mini-batches keep batch_size="
                    f"{batch_size}, so that at most {had - batch_size} of its {had} samples can be "
                    "forgotten; or forget the client"
                )
        crowd = Crowd(self.samples_per_client, read_only(left), forgotten, self.held)
        crowd.check_held(batch_size)
        return crowd

    def check_held(self, batch_size: int) -> None:
        """Raise ValueError if a client that is left cannot fill a mini-batch in some round."""
        if self.held is None:
            return
        counts = self.held.counts(self.forgotten)
        counts[self.samples_left == 0] = batch_size
        if counts.min() < batch_size:
            client, r = np.unravel_index(counts.argmin(), counts.shape)
            raise ValueError(
                f"client={client} would hold {counts.min()} samples in round {r}; it must hold at "
                f"least batch_size={batch_size} in every round, as each round may draw it"
            )


@dataclass(frozen=True, eq=False)
class Draws:
    """Who was drawn for what, with the look-up tables of first use. Make one by `Draws.of`.

    The tables take 4 bytes per client and per sample. The arrays are read-only.

    Parameters
    ----------
    clients : int64 array (rounds, clients_per_round)
        The client of each slot.
    batches : int64 array (rounds, clients_per_round, local_steps, batch_size)
        Sample numbers within the slot's client, ascending within a mini-batch.
    first_round : int32 array (n_clients,)
        First round that draws the client, `rounds` if none does.
    first_steps : int32 array (all samples,)
        First step r E + e of the run that uses the sample, T = R E if none does. Clients follow one
        another.
    offsets : int64 array (n_clients + 1,)
        Where each client's samples begin in `first_steps`.
    """

    clients: np.ndarray
    batches: np.ndarray
    first_round: np.ndarray
    first_steps: np.ndarray
    offsets: np.ndarray

    @classmethod
    def of(cls, clients: np.ndarray, batches: np.ndarray, samples_per_client: np.ndarray) -> Draws:
        """Return the draws with their tables, and make both arrays read-only.

        Shapes are those of the class. Numbers are not checked: `History.of` does that.
        """
        rounds, _, steps, _ = batches.shape
        offsets = np.concatenate([[0], np.cumsum(samples_per_client)])
        first_round = np.full(len(samples_per_client), rounds, dtype=np.int32)
        each_round = np.arange(rounds, dtype=np.int32)[:, None]
        np.minimum.at(first_round, clients, np.broadcast_to(each_round, clients.shape))
        first_steps = np.full(offsets[-1], rounds * steps, dtype=np.int32)
        each_step = np.arange(rounds * steps, dtype=np.int32).reshape(rounds, 1, steps, 1)
        used = offsets[clients][:, :, None, None] + batches
        times = np.broadcast_to(each_step, used.shape).reshape(-1)
        np.minimum.at(first_steps, used.reshape(-1), times)
        return cls(*map(read_only, (clients, batches, first_round, first_steps, offsets)))

    def first_step(self, client: int, sample: int) -> int:
        """Return the first step that uses a sample, T if none does. Arguments are not checked."""
        return int(self.first_steps[self.offsets[client] + sample])


@dataclass(frozen=True, eq=False, repr=False)
class History:
    """What was drawn, and for whom. It never changes: forgetting returns a new history.

    `draw_history` draws one, and `History.of` makes one of arrays; the constructor itself puts two
    parts together that fit each other.

    Parameters
    ----------
    draws : Draws
        Clients and mini-batches of all rounds.
    crowd : Crowd
        The clients' samples, and what was forgotten of them.
    """

    draws: Draws
    crowd: Crowd

    @classmethod
    def of(
        cls,
        clients: ArrayLike,
        batches: ArrayLike,
        samples_per_client: ArrayLike,
        forgotten: Iterable[Target] = (),
        held: Held | None = None,
    ) -> History:
        """Return the history of these draws, copied and checked.

        Parameters
        ----------
        clients : int array (rounds, clients_per_round)
        batches : int array (rounds, clients_per_round, local_steps, batch_size)
            Sample numbers within the slot's client, ascending within a mini-batch.
        samples_per_client : int array (n_clients,)
            Samples at the start.
        forgotten : iterable of (client, sample)
            What was forgotten; (client, None) is a whole client.
        held : Held, optional
            What the clients held in each round, where that is not all of their samples. Without it
            forgetting would draw anew from samples that had not arrived.

        Raises
        ------
        ValueError
            If shapes or numbers do not fit together, something forgotten is still in use, or a
            mini-batch holds a sample that its client did not hold in that round.
        """
        clients = np.array(checks.integers("clients", clients))
        batches = np.array(checks.integers("batches", batches))
        sizes = np.array(checks.integers("samples_per_client", samples_per_client, high=MOST_HELD))
        _check_draws(clients, batches, sizes)
        crowd = Crowd.of(sizes, forgotten, held)
        left = crowd.samples_left
        batch_size = batches.shape[3]
        if not left.any() or ((left > 0) & (left < batch_size)).any():
            raise ValueError(
                f"a client must be left, each with at least batch_size={batch_size} samples; "
                f"left are {left}"
            )
        _check_rounds(held, len(clients))
        crowd.check_held(batch_size)
        history = cls(Draws.of(clients, batches, sizes), crowd)
        history.check_held()
        history.check_forgotten()
        return history

    clients = property(lambda self: self.draws.clients, doc="Client of each slot, (R, K).")
    batches = property(lambda self: self.draws.batches, doc="Sample numbers, (R, K, E, b).")
    first_round = property(lambda self: self.draws.first_round, doc="See `Draws`.")
    samples_per_client = property(lambda self: self.crowd.samples_per_client, doc="See `Crowd`.")
    samples_left = property(lambda self: self.crowd.samples_left, doc="See `Crowd`.")
    forgotten = property(lambda self: self.crowd.forgotten, doc="See `Crowd`.")
    held = property(lambda self: self.crowd.held, doc="See `Crowd`.")
    n_clients = property(lambda self: self.crowd.n_clients, doc="M, clients at the start.")
    rounds = property(lambda self: self.batches.shape[0], doc="R.")
    clients_per_round = property(lambda self: self.batches.shape[1], doc="K.")
    local_steps = property(lambda self: self.batches.shape[2], doc="E.")
    batch_size = property(lambda self: self.batches.shape[3], doc="b.")
    steps = property(lambda self: self.rounds * self.local_steps, doc="T = R E.")

    def first_step(self, client: int, sample: int) -> int:
        """Return the first step that uses a sample, T if none does; as `Draws.first_step`."""
        return self.draws.first_step(client, sample)

    def first_use(self, client: int, sample: int | None = None) -> tuple[int, int] | int | None:
        """Return the first (round, step) that uses a sample, or the first round of a client.

        None means that nothing uses it. This is one look-up, whatever the size of the history.
        Source: FATS, Section 5.3.1.

        Raises
        ------
        ValueError
            If the client or the sample never existed.
        """
        client, sample = self.crowd.existing(client, sample)
        if sample is None:
            first = int(self.first_round[client])
            return first if first < self.rounds else None
        first = self.first_step(client, sample)
        return divmod(first, self.local_steps) if first < self.steps else None

    def remaining(self, client: int, r: int | None = None) -> np.ndarray:
        """Return the sample numbers that a client has left; as `Crowd.remaining`."""
        return self.crowd.remaining(client, r)

    def check_forgotten(self) -> None:
        """Raise ValueError if something forgotten is still in use."""
        for target in self.forgotten:
            used = self.first_use(*target)
            if used is not None:
                raise ValueError(
                    f"(client, sample)={target} is forgotten, but still in use at {used}"
                )

    def check_held(self) -> None:
        """Raise ValueError if a mini-batch holds what its client did not hold in that round."""
        if self.held is None:
            return
        rounds = np.arange(self.rounds)[:, None, None, None]
        fits = self.held.holds(self.clients[:, :, None, None], rounds, self.batches)
        if not fits.all():
            r, slot, step, i = np.argwhere(~fits)[0]
            raise ValueError(
                f"batches hold sample={self.batches[r, slot, step, i]} of "
                f"client={self.clients[r, slot]} in round {r}, which that client did not hold then"
            )

    def __repr__(self) -> str:
        names = ("n_clients", "rounds", "clients_per_round", "local_steps", "batch_size")
        sizes = ", ".join(f"{name}={getattr(self, name)}" for name in names)
        return f"History({sizes}, forgotten={len(self.forgotten)})"


def draw_history(
    *,
    n_clients: int,
    samples_per_client: ArrayLike,
    clients_per_round: int,
    batch_size: int,
    local_steps: int,
    rounds: int,
    rng: np.random.Generator,
    held: Held | None = None,
) -> History:
    """Draw the history of R rounds.

    Source: FATS, Algorithm 1, lines 8 and 12.

    Parameters
    ----------
    n_clients, clients_per_round, batch_size, local_steps, rounds : int
        M, K, b, E, R, each >= 1.
    samples_per_client : int or int array (n_clients,)
        N_k, each >= batch_size.
    rng : numpy.random.Generator
        Only its `integers` is used, so that `sflkit.fats.enumeration` can run through all draws.
    held : Held, optional
        What the clients hold in each round; by default all of their samples. A `held` that says
        so draws the same history as none.

    Raises
    ------
    ValueError
        For sizes out of range, or a client with fewer samples than a mini-batch needs (ERRATA 21),
        with `held` also in a single round.
    """
    n_clients = checks.integer("n_clients", n_clients, 1)
    rounds = checks.integer("rounds", rounds, 1)
    clients_per_round = checks.integer("clients_per_round", clients_per_round, 1)
    local_steps = checks.integer("local_steps", local_steps, 1)
    batch_size = checks.integer("batch_size", batch_size, 1)
    sizes = client_sizes(samples_per_client, n_clients, 1)
    if sizes.min() < batch_size:
        k = int(sizes.argmin())
        raise ValueError(
            f"batch_size={batch_size} must be at most {sizes[k]}, the samples that client {k} has"
        )
    _check_rounds(held, rounds)
    crowd = Crowd.of(sizes, held=held)
    crowd.check_held(batch_size)
    clients = draw_clients(crowd, (rounds, clients_per_round), checks.generator(rng))
    each = np.arange(rounds)[:, None]
    batches = draw_batches(crowd, clients, local_steps, batch_size, rng, each)
    return History(Draws.of(clients, batches, sizes), crowd)


def draw_clients(crowd: Crowd, shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
    """Draw clients that are left, uniformly and with replacement; int64 of that shape."""
    present = np.flatnonzero(crowd.samples_left)
    return present[rng.integers(len(present), size=shape)]


def draw_batches(
    crowd: Crowd,
    clients: np.ndarray,
    steps: int,
    batch_size: int,
    rng: np.random.Generator,
    rounds: ArrayLike | None = None,
) -> np.ndarray:
    """Draw mini-batches of what the clients of the slots have left.

    Parameters
    ----------
    crowd, clients, steps, batch_size, rng
        Who draws from what.
    rounds : int array, optional
        The round of each slot, in a shape that broadcasts to that of `clients`. It is needed where
        clients hold their samples for a time only.

    Returns
    -------
    int64 array (*clients.shape, steps, batch_size)
        Sample numbers, ascending within a mini-batch.

    Raises
    ------
    ValueError
        If `rounds` is missing where it is needed.
    """
    sizes = crowd.samples_left[clients]
    if crowd.held is not None:
        if rounds is None:
            raise ValueError(
                "rounds=None must say the round of each slot: these clients hold their samples for "
                "a time only"
            )
        rounds = np.broadcast_to(rounds, clients.shape)
        sizes = crowd.held.counts(crowd.forgotten)[clients, rounds]
    # Rank r is the r-th sample that is left; ascending ranks stay ascending.
    ranks = subsets(np.repeat(sizes.reshape(-1), steps), batch_size, rng)
    ranks = ranks.reshape(*clients.shape, steps, batch_size)
    if crowd.held is None:
        for client in {client for client, sample in crowd.forgotten if sample is not None}:
            slots = clients == client
            if slots.any():
                ranks[slots] = crowd.remaining(client)[ranks[slots]]
        return ranks
    for client, r in set(zip(clients.reshape(-1).tolist(), rounds.reshape(-1).tolist())):
        slots = (clients == client) & (rounds == r)
        ranks[slots] = crowd.remaining(client, r)[ranks[slots]]
    return ranks


def subsets(sizes: np.ndarray, n: int, rng: np.random.Generator) -> np.ndarray:
    """Draw for each entry of `sizes` (m,) a uniform subset of n of the numbers 0..size-1.

    Returns (m, n), ascending in each row. The algorithm is Floyd's, for all rows at once: n draws
    per row, whatever its size. It needs n <= size, which is not checked.
    """
    tops = sizes - n + np.arange(n)[:, None]
    picks = rng.integers(tops + 1)
    for j in range(1, n):
        taken = (picks[:j] == picks[j]).any(axis=0)
        picks[j, taken] = tops[j, taken]
    return np.sort(picks.T, axis=1)


def by_client(targets: Iterable[Target]) -> dict[int, list]:
    """Return the samples of (client, sample) pairs in a list per client."""
    groups: dict[int, list] = {}
    for client, sample in targets:
        groups.setdefault(client, []).append(sample)
    return groups


def client_sizes(samples_per_client: ArrayLike, n_clients: int, low: int) -> np.ndarray:
    """Return the samples of each client, int64 (n_clients,), from one number or one per client.

    Raises
    ------
    ValueError
        If they are no integers >= low, or not as many as there are clients.
    """
    sizes = checks.integers("samples_per_client", samples_per_client, low=low)
    if sizes.ndim > 1 or (sizes.ndim and len(sizes) != n_clients):
        raise ValueError(
            f"samples_per_client={samples_per_client!r} must be one integer, or "
            f"n_clients={n_clients} of them"
        )
    return np.full(n_clients, sizes, dtype=np.int64)


def read_only(values: np.ndarray) -> np.ndarray:
    """Make an array read-only and return it."""
    values.setflags(write=False)
    return values


def _check_draws(clients: np.ndarray, batches: np.ndarray, sizes: np.ndarray) -> None:
    """Refuse draws whose shapes or numbers do not fit clients with so many samples."""
    four = batches.ndim == 4 and 0 not in batches.shape
    if not four or clients.shape != batches.shape[:2] or sizes.ndim != 1:
        raise ValueError(
            "shapes must be clients (R, K), batches (R, K, E, b), samples_per_client (M,); "
            f"they are {clients.shape}, {batches.shape}, {sizes.shape}"
        )
    if sizes.min(initial=1) < 1 or clients.min() < 0 or clients.max() >= len(sizes):
        raise ValueError(
            f"clients must lie in 0..{len(sizes) - 1}, as samples_per_client has {len(sizes)} "
            "entries, and each have at least one sample"
        )
    beyond = batches >= sizes[clients][:, :, None, None]
    if batches.min() < 0 or beyond.any() or (np.diff(batches) <= 0).any():
        raise ValueError(
            "batches must each hold samples of their slot's client, in ascending order, none twice"
        )


def _check_rounds(held: Held | None, rounds: int) -> None:
    """Refuse a `held` that is about another number of rounds."""
    if held is not None and held.rounds != rounds:
        raise ValueError(f"held is about {held.rounds} rounds; it must be about {rounds}")


def pair(name: str, target: Any) -> Target:
    """Return something to be forgotten as it came, refused unless it is a pair.

    Raises
    ------
    ValueError
        If `target` is no (client, sample); the message calls the list of them `name`.
    """
    if isinstance(target, (tuple, list)) and len(target) == 2:
        return tuple(target)
    raise ValueError(
        f"{name} holds {target!r}; entries must be (client, sample), or (client, None) for a whole "
        "client"
    )
