"""What FATS draws: the clients of every round, the mini-batches of every slot, and when each sample
is first used.

Source: FATS, Algorithm 1, lines 8 and 12, and Section 5.3.1. Every round draws K clients with
replacement. Each draw (a *slot*) has its own E mini-batches of b samples, drawn without replacement
from what its client has left, also when a client is drawn twice (ERRATA 19).

==================  ==========  ============  ==================================================
code                symbol      shape         meaning (rounds, steps, clients, samples from 0)
==================  ==========  ============  ==================================================
n_clients           M           scalar        clients at the start
samples_per_client  N, N_k      () or (M,)    samples of each client at the start
samples_left                    (M,)          samples that are not forgotten
kept                            (sum N_k,)    which samples these are, client after client
clients_per_round   K           scalar        slots per round; fixed, also after deletions
batch_size          b           scalar        samples of a mini-batch; fixed likewise (ERRATA 45)
local_steps         E           scalar        mini-batches of a slot in a round
rounds              R = T / E   scalar        rounds; T = R E steps; step e of round r is the
                                              run's step r E + e
clients             P           (R, K)        client of each slot
batches             B           (R, K, E, b)  sample numbers of each mini-batch, ascending
==================  ==========  ============  ==================================================
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike

from sflkit import checks
from sflkit.config import Count, checked

# A client and one of its samples, or None for the whole client.
Target = tuple[int, int | None]
_MOST = 2**31 - 1  # samples of one client, which are counted out in memory


@dataclass(frozen=True, eq=False, repr=False)
class History:
    """What was drawn, and for whom. It never changes: forgetting returns a new history.

    `draw_history` draws one, and `History.of` makes one of arrays; the constructor checks nothing.
    The arrays become read-only.

    Parameters
    ----------
    clients : int64 array (rounds, clients_per_round)
        The client of each slot.
    batches : int64 array (rounds, clients_per_round, local_steps, batch_size)
        Sample numbers within the slot's client, ascending within a mini-batch.
    samples_per_client : int64 array (n_clients,)
        Samples at the start. Sample numbers do not move when samples are forgotten.
    forgotten : frozenset of (client, sample)
        What was forgotten; (client, None) is a whole client.
    """

    clients: np.ndarray
    batches: np.ndarray
    samples_per_client: np.ndarray
    forgotten: frozenset[Target] = frozenset()

    def __post_init__(self):
        for values in (self.clients, self.batches, self.samples_per_client):
            values.setflags(write=False)

    @classmethod
    def of(
        cls,
        clients: ArrayLike,
        batches: ArrayLike,
        samples_per_client: ArrayLike,
        forgotten: Iterable[Target] = (),
    ) -> History:
        """Return the history of these draws, copied and checked.

        The parameters are those of the class.

        Raises
        ------
        ValueError
            If shapes or numbers do not fit together, or something forgotten never existed or is
            still in use.
        """
        clients = np.array(checks.integers("clients", clients))
        batches = np.array(checks.integers("batches", batches))
        sizes = np.array(
            checks.integers("samples_per_client", samples_per_client, low=1, high=_MOST)
        )
        _check_draws(clients, batches, sizes)
        whole = cls(clients, batches, sizes)
        gone = frozenset(whole.existing(*pair("forgotten", target)) for target in forgotten)
        history = replace(whole, forgotten=gone)
        history.check_left()
        history.check_draws()
        return history

    n_clients = property(lambda self: len(self.samples_per_client), doc="M, clients at the start.")
    rounds = property(lambda self: self.batches.shape[0], doc="R.")
    clients_per_round = property(lambda self: self.batches.shape[1], doc="K.")
    local_steps = property(lambda self: self.batches.shape[2], doc="E.")
    batch_size = property(lambda self: self.batches.shape[3], doc="b.")
    steps = property(lambda self: self.rounds * self.local_steps, doc="T = R E.")

    @property
    def samples_left(self) -> np.ndarray:
        """Samples that are not forgotten, (n_clients,); 0 for a forgotten client."""
        return np.add.reduceat(self.kept, self.offsets, dtype=np.int64)

    @functools.cached_property
    def kept(self) -> np.ndarray:
        """Which samples are not forgotten, bool (sum N_k,), the clients one after another."""
        kept = np.ones(self.samples_per_client.sum(), dtype=bool)
        for client, sample in self.forgotten:
            kept[self._own(client) if sample is None else self.offsets[client] + sample] = False
        kept.setflags(write=False)
        return kept

    @functools.cached_property
    def offsets(self) -> np.ndarray:
        """Where each client's samples begin in such arrays, (n_clients,)."""
        offsets = np.cumsum(self.samples_per_client) - self.samples_per_client
        offsets.setflags(write=False)
        return offsets

    def _own(self, client: int) -> slice:
        return slice(at := self.offsets[client], at + self.samples_per_client[client])

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

    def remaining(self, client: int) -> np.ndarray:
        """Return the sample numbers that a client has left, ascending.

        Raises
        ------
        ValueError
            If the client never existed.
        """
        return np.flatnonzero(self.kept[self._own(self.existing(client)[0])])

    @functools.cached_property
    def first(self) -> np.ndarray:
        """The first step that uses each sample, (sum N_k,), T for none; made once for all draws."""
        steps = np.arange(self.steps).reshape(self.rounds, 1, self.local_steps, 1)
        used = self.offsets[self.clients][:, :, None, None] + self.batches
        first = np.full(self.samples_per_client.sum(), self.steps)
        np.minimum.at(first, used.reshape(-1), np.broadcast_to(steps, used.shape).reshape(-1))
        first.setflags(write=False)
        return first

    def first_step(self, client: int, sample: int | None = None) -> int:
        """Return the first step that uses a sample, or begins the first round of a client.

        T if none does. Arguments are not checked.
        """
        if sample is None:  # a round begins with a mini-batch of each of its clients
            return int(self.first[self._own(client)].min())
        return int(self.first[self.offsets[client] + sample])

    def first_use(self, client: int, sample: int | None = None) -> tuple[int, int] | int | None:
        """Return the first (round, step) that uses a sample, or the first round of a client.

        None means that nothing uses it. This is a look-up, whatever the number of rounds.
        Source: FATS, Section 5.3.1.

        Raises
        ------
        ValueError
            If the client or the sample never existed.
        """
        client, sample = self.existing(client, sample)
        first = self.first_step(client, sample)
        if first == self.steps:
            return None
        return first // self.local_steps if sample is None else divmod(first, self.local_steps)

    def without(self, targets: Sequence[Target]) -> History:
        """Return the history of the same draws that counts the targets as forgotten as well.

        What it drew may still use them: this is what a rule of `sflkit.fats.forgetting` repairs.
        The samples of a client that goes as well go with it.

        Raises
        ------
        ValueError
            For a target that never existed, is forgotten, or is named twice; if no client would be
            left, or one with fewer samples than a mini-batch has.
        """
        seen: set[Target] = set()
        for client, sample in (self.existing(*target) for target in targets):
            name = f"client={client}" if sample is None else f"sample={sample} of client={client}"
            if (client, sample) in self.forgotten:
                raise ValueError(f"{name} is forgotten already")
            if (client, None) in self.forgotten:
                raise ValueError(f"{name} is forgotten already, with its whole client")
            if (client, sample) in seen:
                raise ValueError(f"{name} is named twice in one request")
            seen.add((client, sample))
        gone = {(k, sample) for k, sample in seen if sample is None or (k, None) not in seen}
        left = replace(self, forgotten=self.forgotten | gone)
        vars(left)["first"] = self.first  # the draws are the same
        left.check_left()
        return left

    def check_left(self) -> None:
        """Raise ValueError unless a client is left, and each can fill a mini-batch."""
        gone = [client for client, sample in self.forgotten if sample is None]
        stays = np.setdiff1d(np.arange(self.n_clients), gone)
        if not len(stays):
            raise ValueError("at least one client must be left to train on; all would be forgotten")
        left, least = self.samples_left, self.batch_size
        for k in stays[left[stays] < least]:
            had = self.samples_per_client[k]
            raise ValueError(
                f"client={k} would have {left[k]} of its {had} samples left; mini-batches keep "
                f"batch_size={least}, so that at most {had - least} can be forgotten; or forget "
                "the client"
            )

    def check_draws(self) -> None:
        """Raise ValueError if something is in use that is forgotten."""
        for target in self.forgotten:
            used = self.first_use(*target)
            if used is not None:
                raise ValueError(
                    f"(client, sample)={target} is forgotten, but still in use at {used}"
                )

    def __repr__(self) -> str:
        names = ("n_clients", "rounds", "clients_per_round", "local_steps", "batch_size")
        sizes = ", ".join(f"{name}={getattr(self, name)}" for name in names)
        return f"History({sizes}, forgotten={len(self.forgotten)})"


@checked
def draw_history(
    *,
    n_clients: Count,
    samples_per_client: ArrayLike,
    clients_per_round: Count,
    batch_size: Count,
    local_steps: Count,
    rounds: Count,
    rng: np.random.Generator,
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

    Raises
    ------
    ValueError
        For sizes out of range, or a client with fewer samples than a mini-batch needs (ERRATA 21).
    """
    sizes = client_sizes(samples_per_client, n_clients, 1)
    if sizes.min() < batch_size:
        k = int(sizes.argmin())
        raise ValueError(
            f"batch_size={batch_size} must be at most {sizes[k]}, the samples that client {k} has"
        )
    clients = np.zeros((rounds, clients_per_round), dtype=np.int64)
    batches = np.zeros((*clients.shape, local_steps, batch_size), dtype=np.int64)
    return drawn_afresh(History(clients, batches, sizes), 0, checks.generator(rng))


def drawn_afresh(history: History, start: int, rng: np.random.Generator) -> History:
    """Return the history with all rounds from `start` on drawn as Algorithm 1 does."""
    if start >= history.rounds:
        return history
    clients, batches = history.clients.copy(), history.batches.copy()
    clients[start:] = draw_clients(history, clients[start:].shape, rng)
    batches[start:] = draw_batches(history, clients[start:], history.local_steps, rng)
    return replace(history, clients=clients, batches=batches)


def draw_clients(history: History, shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
    """Draw clients that are left, uniformly and with replacement; int64 of that shape."""
    present = np.flatnonzero(history.samples_left)
    return present[rng.integers(len(present), size=shape)]


def draw_batches(
    history: History, clients: np.ndarray, steps: int, rng: np.random.Generator
) -> np.ndarray:
    """Draw mini-batches of what the clients of the slots have left.

    Parameters
    ----------
    history : History
        Who has what left.
    clients : int array
        The slots' clients.
    steps : int
        Mini-batches of each slot.
    rng : numpy.random.Generator

    Returns
    -------
    int64 array (*clients.shape, steps, batch_size)
        Sample numbers, ascending within a mini-batch.
    """
    left, own = history.samples_left, clients[..., None, None]
    ranks = subsets(np.repeat(left[clients], steps), history.batch_size, rng)
    # Rank i is the i-th sample that its client has left; ascending ranks stay ascending.
    ranks = ranks.reshape(*clients.shape, steps, history.batch_size)
    places = (np.cumsum(left) - left)[own] + ranks
    return np.flatnonzero(history.kept)[places] - history.offsets[own]


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


def client_sizes(samples_per_client: ArrayLike, n_clients: int, low: int) -> np.ndarray:
    """Return the samples of each client, int64 (n_clients,), from one number or one per client.

    Raises
    ------
    ValueError
        If they are no integers >= low, or not as many as there are clients.
    """
    sizes = checks.integers("samples_per_client", samples_per_client, low=low, high=_MOST)
    checks.shape("samples_per_client", sizes, (), (n_clients,))
    return np.full(n_clients, sizes, dtype=np.int64)


def pair(name: str, target: object) -> Target:
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


def _check_draws(clients: np.ndarray, batches: np.ndarray, sizes: np.ndarray) -> None:
    """Refuse draws whose shapes or numbers do not fit clients with so many samples."""
    four = batches.ndim == 4 and 0 not in batches.shape
    if not four or clients.shape != batches.shape[:2] or sizes.ndim != 1:
        raise ValueError(
            "shapes must be clients (R, K), batches (R, K, E, b), samples_per_client (M,); "
            f"they are {clients.shape}, {batches.shape}, {sizes.shape}"
        )
    if clients.min() < 0 or clients.max() >= len(sizes):
        raise ValueError(
            f"clients must lie in 0..{len(sizes) - 1}, as samples_per_client has {len(sizes)} "
            "entries"
        )
    beyond = batches >= sizes[clients][:, :, None, None]
    if batches.min() < 0 or beyond.any() or (np.diff(batches) <= 0).any():
        raise ValueError(
            "batches must each hold samples of their slot's client, in ascending order, none twice"
        )
