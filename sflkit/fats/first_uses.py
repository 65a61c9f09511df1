"""When do requests hit? First uses of forgotten samples or clients over many sampling histories,
without any training.

Source: FATS, Theorem 7, Figures 2, 3, 6 (unlearning time); ERRATA 13, 19. The law is that of
`sflkit.fats.forgetting` with the rule "exact". But of a history only those slots are drawn whose
clients are asked to forget, and all histories at once, so that thousands of histories of any of
Table 2's sizes take seconds.

==================  ========  ============  ====================================================
code                symbol    shape         meaning
==================  ========  ============  ====================================================
targets             X_u, k_u  (runs, w)     what each request of each run forgets
first               t_S, t_C  (runs, w)     first step of its use, r E for a client, T = R E if
                                            there is none
==================  ========  ============  ====================================================

T - first is the paper's unlearning time in steps; a run that keeps one model per round replays
(R - first // E) E steps.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from sflkit import checks
from sflkit.config import Count, Flag, OneOf, checked
from sflkit.fats.history import client_sizes, subsets

LEVELS = ("sample", "client")
_CHUNK = 2**21  # slots (runs x R x K) in memory at a time: 16 MB of clients


class _Sizes(NamedTuple):
    """The sizes of all histories, N_k as int64 (M,)."""

    samples: np.ndarray
    rounds: int
    clients_per_round: int
    local_steps: int
    batch_size: int

    @property
    def steps(self) -> int:
        return self.rounds * self.local_steps


class _Slots(NamedTuple):
    """Slots of m targeted clients, in any order: run, round and client (m,), batches (m, E, b)."""

    run: np.ndarray
    round: np.ndarray
    client: np.ndarray
    batches: np.ndarray

    def chosen(self, mask: np.ndarray) -> _Slots:
        return _Slots(*(values[mask] for values in self))

    def joined(self, other: _Slots) -> _Slots:
        return _Slots(*(np.concatenate(both) for both in zip(self, other)))


@checked
def first_uses(
    *,
    level: Annotated[str, OneOf(LEVELS)],
    n_requests: int,
    n_clients: Count,
    samples_per_client: ArrayLike,
    clients_per_round: Count,
    batch_size: Count,
    local_steps: Count,
    rounds: Count,
    runs: Count,
    rng: np.random.Generator,
    streaming: Flag = False,
) -> np.ndarray:
    """Draw histories and requests, and return the first step that each request hits.

    Parameters
    ----------
    level : {"sample", "client"}
        What is forgotten.
    n_requests : int
        w >= 1 different targets per run; below n_clients for clients.
    n_clients, samples_per_client, clients_per_round, batch_size, local_steps, rounds
        As for `history.draw_history`.
    runs : int
        Histories, >= 1.
    rng : numpy.random.Generator
    streaming : bool
        True: one request after another, each on the history as the one before has left it. False:
        all at once, for which a single first use is returned, the earliest.

    Returns
    -------
    int64 array (runs, w) if streaming, else (runs, 1)
        Steps in [0, T]; T means that the request hits nothing.

    Raises
    ------
    ValueError
        For sizes out of range, or requests that a history would
        refuse: no client left, or fewer samples at a client than a mini-batch has.
    """
    samples = client_sizes(samples_per_client, n_clients, batch_size)
    sizes = _Sizes(samples, rounds, clients_per_round, local_steps, batch_size)
    pool = n_clients if level == "client" else int(samples.sum())
    n_requests = checks.integer("n_requests", n_requests, 1, pool - 1)
    numbers = rng.permuted(subsets(np.full(runs, pool), n_requests, rng), axis=1)
    if level == "sample":
        _check_left(numbers, sizes)
    first = _client_steps if level == "client" else _sample_steps
    # Only so many runs at a time that their slots fit into memory.
    n = max(1, _CHUNK // (rounds * clients_per_round))
    parts = [first(numbers[at : at + n], sizes, streaming, rng) for at in range(0, runs, n)]
    return np.concatenate(parts)


def _client_steps(
    targets: np.ndarray, sizes: _Sizes, streaming: bool, rng: np.random.Generator
) -> np.ndarray:
    """Return the first steps of client requests, (n, w) or (n, 1)."""
    n, w = targets.shape
    n_clients = len(sizes.samples)
    drawn = rng.integers(n_clients, size=(n, sizes.rounds, sizes.clients_per_round))
    if not streaming:
        gone = _mask(targets, n_clients)[np.arange(n)[:, None, None], drawn]
        return _first(gone.any(axis=2))[:, None] * sizes.local_steps
    first = np.empty((n, w), dtype=np.int64)
    for i in range(w):
        hits = (drawn == targets[:, i, None, None]).any(axis=2)
        first[:, i] = _first(hits)
        # From the hit round on, all rounds are drawn again, from the clients that are left.
        run, r = np.nonzero(np.arange(sizes.rounds) >= first[:, i, None])
        ranks = rng.integers(n_clients - i - 1, size=(len(run), sizes.clients_per_round))
        drawn[run, r] = _skip(ranks, targets[run, : i + 1])
    return first * sizes.local_steps


def _sample_steps(
    numbers: np.ndarray, sizes: _Sizes, streaming: bool, rng: np.random.Generator
) -> np.ndarray:
    """Return the first steps of sample requests, (n, w) or (n, 1)."""
    clients, samples = _places(numbers, sizes.samples)
    targeted = _mask(clients, len(sizes.samples))
    requests = _SampleRequests(clients, samples, targeted, sizes, rng)
    n, w = numbers.shape
    run, r = np.divmod(np.arange(n * sizes.rounds), sizes.rounds)
    slots = requests.drawn(run, r, served=0)
    first = np.empty((n, w), dtype=np.int64)
    for i in range(w):
        first[:, i] = requests.first_steps(slots, i)
        if streaming:
            slots = requests.repaired(slots, i, first[:, i])
    return first if streaming else first.min(axis=1, keepdims=True)


@dataclass(frozen=True)
class _SampleRequests:
    """The sample requests of n runs, and how their histories are drawn and repaired.

    Only slots of clients that the run targets are kept, and only they get mini-batches: others can
    use none of its samples.
    """

    clients: np.ndarray  # (n, w)
    samples: np.ndarray  # (n, w), numbers within the client
    targeted: np.ndarray  # bool (n, M)
    sizes: _Sizes
    rng: np.random.Generator

    def drawn(self, run: np.ndarray, r: np.ndarray, served: int) -> _Slots:
        """Draw rounds r of runs that have served so many requests."""
        sizes = self.sizes
        clients = self.rng.integers(len(sizes.samples), size=(len(run), sizes.clients_per_round))
        at, slot = np.nonzero(self.targeted[run[:, None], clients])
        client = clients[at, slot]
        return _Slots(
            run[at], r[at], client, self.batches(run[at], client, sizes.local_steps, served)
        )

    def batches(self, run: np.ndarray, client: np.ndarray, steps: int, served: int) -> np.ndarray:
        """Draw mini-batches (m, steps, b) of clients of runs that have served so many requests."""
        samples, batch_size = self.sizes.samples, self.sizes.batch_size
        own = self.clients[run, :served] == client[:, None]
        left = samples[client] - own.sum(axis=1)
        ranks = subsets(np.repeat(left, steps), batch_size, self.rng)
        # A number above all others stands for samples of other clients, which take nothing away.
        taken = np.where(own, self.samples[run, :served], samples.max())
        numbers = _skip(ranks.reshape(len(run), steps * batch_size), taken)
        return numbers.reshape(len(run), steps, batch_size)

    def first_steps(self, slots: _Slots, i: int) -> np.ndarray:
        """Return the first step of each run that uses the sample of its request i, (n,)."""
        first = np.full(len(self.clients), self.sizes.steps, dtype=np.int64)
        own = slots.chosen(slots.client == self.clients[slots.run, i])
        hits = (own.batches == self.samples[own.run, i, None, None]).any(axis=2)
        steps = own.round * self.sizes.local_steps + hits.argmax(axis=1)
        hit = hits.any(axis=1)
        np.minimum.at(first, own.run[hit], steps[hit])
        return first

    def repaired(self, slots: _Slots, i: int, first: np.ndarray) -> _Slots:
        """Return the slots after request i, whose samples were first used at the steps `first`."""
        steps = self.sizes.local_steps
        hit_round, hit_step = np.divmod(first, steps)
        # The hit round keeps its clients: redraw the target's slots there from the hit step on
        # (ERRATA 13).
        own = slots.client == self.clients[slots.run, i]
        same = np.flatnonzero(own & (slots.round == hit_round[slots.run]))
        for e in np.unique(hit_step[slots.run[same]]):
            rows = same[hit_step[slots.run[same]] == e]
            new = self.batches(slots.run[rows], slots.client[rows], steps - e, i + 1)
            slots.batches[rows, e:] = new
        later = np.nonzero(np.arange(self.sizes.rounds) > hit_round[:, None])
        kept = slots.chosen(slots.round <= hit_round[slots.run])
        return kept.joined(self.drawn(*later, served=i + 1))


def _mask(targets: np.ndarray, n_clients: int) -> np.ndarray:
    """Return which clients are targets (n, w) of a run, bool (n, n_clients)."""
    mask = np.zeros((len(targets), n_clients), dtype=bool)
    np.put_along_axis(mask, targets, True, axis=1)
    return mask


def _first(hits: np.ndarray) -> np.ndarray:
    """Return the position of the first True along the last axis, its length without one."""
    return np.where(hits.any(axis=-1), hits.argmax(axis=-1), hits.shape[-1])


def _skip(ranks: np.ndarray, taken: np.ndarray) -> np.ndarray:
    """Return the numbers of ranks (m, n) among those that are left when `taken` (m, i) are gone."""
    for column in np.sort(taken, axis=1).T:
        ranks = ranks + (ranks >= column[:, None])
    return ranks


def _places(numbers: np.ndarray, sizes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return clients and samples of numbers that count samples through all clients."""
    ends = np.cumsum(sizes)
    clients = np.searchsorted(ends, numbers, side="right")
    return clients, numbers - (ends - sizes)[clients]


def _check_left(numbers: np.ndarray, sizes: _Sizes) -> None:
    """Refuse samples without which a client could no longer fill a mini-batch."""
    clients, _ = _places(numbers, sizes.samples)
    asked = (clients[:, :, None] == clients[:, None, :]).sum(axis=2)  # of the same client
    short = asked > sizes.samples[clients] - sizes.batch_size
    if short.any():
        k = int(clients[short][0])
        raise ValueError(
            f"client {k} has samples_per_client={sizes.samples[k]} samples, of which "
            f"batch_size={sizes.batch_size} must be left after n_requests={numbers.shape[1]} "
            "requests"
        )
