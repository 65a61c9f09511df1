"""Which samples each client holds in which round, where a client is a small cache on a stream.

FATS lets every client train on all of its samples in every round. A client of a stream holds some
of the samples that have arrived, and what it holds changes from round to round. What it held in a
round is kept here as two numbers per sample, since a sample that a cache has dropped does not come
back. Not in the paper; `sflkit.fats.history` draws from it.

==================  ==============  ============================================================
code                shape           meaning (rounds, clients, samples from 0)
==================  ==============  ============================================================
rounds              scalar          R
samples_per_client  (M,)            N_k, all samples that ever arrive at a client
entered             (sum N_k,)      first round that holds a sample; clients follow one another
left                (sum N_k,)      first round that does not hold it any more, R if it stays;
                                    equal to `entered` where no round holds it
==================  ==============  ============================================================
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from sflkit import checks

MOST_HELD = 2**31 - 1  # samples of one client, which are counted out in memory


@dataclass(frozen=True, eq=False)
class Held:
    """Which samples each client holds in which round. It never changes; make one by `Held.of`.

    Parameters
    ----------
    entered, left : int32 arrays (all samples,)
        Round r holds a sample where entered <= r < left. The arrays are read-only.
    offsets : int64 array (n_clients + 1,)
        Where each client's samples begin.
    rounds : int
        R.
    """

    entered: np.ndarray
    left: np.ndarray
    offsets: np.ndarray
    rounds: int

    @classmethod
    def of(cls, contents: Sequence[Sequence[ArrayLike]], samples_per_client: ArrayLike) -> Held:
        """Return what clients hold, from what their caches held in every round.

        Parameters
        ----------
        contents : list of lists of int arrays
            contents[k][r] holds the numbers of the samples that client k holds in round r, in any
            order; every client has as many rounds.
        samples_per_client : int array (n_clients,)
            N_k >= 1.

        Raises
        ------
        ValueError
            If a client lacks rounds, holds a sample twice or one that it does not have, or takes
            back a sample that it has dropped.
        """
        sizes = _sizes(samples_per_client)
        checks.instance("contents", contents, Sequence)
        if len(contents) != len(sizes):
            raise ValueError(
                f"contents has {len(contents)} clients; samples_per_client={samples_per_client!r} "
                "must be one integer for each"
            )
        rounds = len(checks.instance("contents[0]", contents[0], Sequence))
        spans = [_spans(k, own, int(n), rounds) for k, (own, n) in enumerate(zip(contents, sizes))]
        return cls.between(*(np.concatenate(parts) for parts in zip(*spans)), sizes, rounds)

    @classmethod
    def everything(cls, samples_per_client: ArrayLike, rounds: int) -> Held:
        """Return what clients hold that have all of their samples in every round, as in FATS."""
        sizes = _sizes(samples_per_client)
        n = int(sizes.sum())
        return cls.between(np.zeros(n), np.full(n, rounds), sizes, rounds)

    @classmethod
    def between(
        cls, entered: ArrayLike, left: ArrayLike, samples_per_client: ArrayLike, rounds: int
    ) -> Held:
        """Return what clients hold, from the first and one past the last round of each sample.

        Raises
        ------
        ValueError
            Unless 0 <= entered <= left <= rounds for every sample.
        """
        rounds = checks.integer("rounds", rounds, 1)
        sizes = _sizes(samples_per_client)
        offsets = np.concatenate([[0], np.cumsum(sizes)])
        first, end = (
            checks.integers(name, values, low=0, high=rounds).astype(np.int32)
            for name, values in (("entered", entered), ("left", left))
        )
        shape = (int(offsets[-1]),)
        fits = first.shape == end.shape == shape
        if not fits or (first < 0).any() or (first > end).any() or (end > rounds).any():
            raise ValueError(
                f"entered and left have shapes {first.shape} and {end.shape}; they must be {shape} "
                f"as samples_per_client adds up to {shape[0]}, and 0 <= entered <= left <= "
                f"rounds={rounds}"
            )
        for values in (first, end):
            values.setflags(write=False)
        return cls(first, end, offsets, rounds)

    @property
    def samples_per_client(self) -> np.ndarray:
        """N_k, int64 (n_clients,)."""
        return np.diff(self.offsets)

    def samples(self, client: int, r: int) -> np.ndarray:
        """Return the numbers of the samples that a client holds in round r, ascending."""
        own = slice(self.offsets[client], self.offsets[client + 1])
        return np.flatnonzero((self.entered[own] <= r) & (r < self.left[own]))

    def counts(self, forgotten: Collection[tuple[int, int | None]] = ()) -> np.ndarray:
        """Return how many samples each client holds in each round, int64 (n_clients, rounds).

        Samples among the `forgotten` (client, sample), and all of a client (client, None), do not
        count.
        """
        present = self._present(forgotten)
        owner = np.repeat(np.arange(len(self.offsets) - 1), self.samples_per_client)[present]
        change = np.zeros((len(self.offsets) - 1, self.rounds + 1), dtype=np.int64)
        np.add.at(change, (owner, self.entered[present]), 1)
        np.add.at(change, (owner, self.left[present]), -1)
        return change.cumsum(axis=1)[:, :-1]

    def holds(self, clients: np.ndarray, rounds: np.ndarray, samples: np.ndarray) -> np.ndarray:
        """Return whether each client holds each sample in the round; all of one shape, bool."""
        at = self.offsets[clients] + samples
        return (self.entered[at] <= rounds) & (rounds < self.left[at])

    def without(self, forgotten: Collection[tuple[int, int | None]]) -> Held:
        """Return what is held where the `forgotten` never were; the others are numbered anew."""
        gone = {client for client, sample in forgotten if sample is None}
        present = self._present(forgotten)
        sizes = np.add.reduceat(present.astype(np.int64), self.offsets[:-1])
        sizes = [n for client, n in enumerate(sizes) if client not in gone]
        return Held.between(self.entered[present], self.left[present], sizes, self.rounds)

    def replaced(self, client: int, contents: Sequence[ArrayLike]) -> Held:
        """Return what is held when one client holds `contents` (one array per round) instead."""
        n = int(self.samples_per_client[client])
        own = slice(self.offsets[client], self.offsets[client + 1])
        entered, left = self.entered.copy(), self.left.copy()
        entered[own], left[own] = _spans(client, contents, n, self.rounds)
        return Held.between(entered, left, self.samples_per_client, self.rounds)

    def _present(self, forgotten: Collection[tuple[int, int | None]]) -> np.ndarray:
        """Return which samples are not forgotten, bool (all samples,)."""
        present = np.ones(len(self.entered), dtype=bool)
        for client, sample in forgotten:
            first, end = self.offsets[client : client + 2]
            present[slice(first, end) if sample is None else first + sample] = False
        return present


def _sizes(samples_per_client: ArrayLike) -> np.ndarray:
    """Return N_k of each client, refused unless they could be counted out in memory."""
    sizes = checks.integers("samples_per_client", samples_per_client, ndim=1, low=1, high=MOST_HELD)
    if not len(sizes):
        raise ValueError("samples_per_client must have one entry per client, at least one")
    return sizes


def _spans(
    client: int, contents: Sequence[ArrayLike], size: int, rounds: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return the first round of each sample of a client, and one past its last."""
    if not isinstance(contents, Sequence) or len(contents) != rounds:
        if not isinstance(contents, Sequence):
            raise ValueError(f"contents of client {client} is {contents!r}; it must be a list")
        raise ValueError(f"contents of client {client} has {len(contents)} rounds, not {rounds}")
    entered = np.zeros(size, dtype=np.int32)
    left = np.zeros(size, dtype=np.int32)
    for r, numbers in enumerate(contents):
        now = np.empty(0, int)
        if not isinstance(numbers, Sequence) or len(numbers):
            now = checks.integers(f"contents of client {client}, round {r},", numbers, low=0)
        if now.ndim != 1 or len(set(now.tolist())) < len(now) or now.max(initial=0) >= size:
            raise ValueError(
                f"contents of client {client}, round {r}, is {numbers!r}; it must hold different "
                f"samples in [0, {size - 1}]"
            )
        known = left[now] > 0
        back = now[known & (left[now] < r)]
        if len(back):
            raise ValueError(
                f"contents of client {client}, round {r}, holds sample {back[0]}, which it had "
                "dropped; a dropped sample must not come back"
            )
        entered[now[~known]] = r
        left[now] = r + 1
    return entered, left
