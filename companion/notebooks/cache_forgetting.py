"""Forgetting exactly from streaming caches: FATS on what SFL's caches held.

Every client of a stream keeps a cache. In each round samples arrive, the cache's rule decides which
samples it holds, and the clients that are drawn train on mini-batches of these. Now a sample is to
be forgotten. Exact means: as likely as if it had been so from the start. There are two readings of
"so", because the cache itself depends on the sample. Without it another one would have been kept.

- *Withheld from training.* The sample arrived and took its place in the cache, but no mini-batch
  may use it. `sflkit.fats.forgetting` does this on any history that knows what was held. What was
  held stays, and so what the model learnt from the others still tells that something was there.
- *Never arrived.* The stream went on without it, and so did the cache. `never_arrived` does this.

The second reading is exact by three steps. (1) A cache is a function of its client's stream and of
its dice, which are independent of everything else. Run again with the same dice and without the
sample, the rule gives a cache of exactly the law that it would have had. (2) Given what was held,
mini-batches are independent uniform subsets of it, whatever the dice. (3) A mini-batch drawn from
what was held becomes one drawn from what would have been held: samples that would not have been
there are renamed one for one to those that would have been there in their place, and if one place
stays empty, it is filled up by a uniform choice of unused samples. Both turn a uniform subset into
a uniform subset. `cache_forgetting_proofs` counts it out in fractions, for every rule in
`PROVED`.

Replaying a round needs its samples, also those that the caches have dropped since. A client that
may have to forget exactly must therefore archive what it trained on.

==========  ==========  =======================================================================
code        shape       meaning (rounds, clients, samples from 0; samples in order of arrival)
==========  ==========  =======================================================================
arrival     (N_k,)      round in which each sample of a client arrives, ascending
labels      (N_k,)      its label
contents    R arrays    numbers of the samples that a client holds in each round
capacity    scalar      B, samples of a cache
==========  ==========  =======================================================================

"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from sflkit import checks
from sflkit.fats.forgetting import completed
from sflkit.fats.history import Held, History
from sflkit.randomness import generator
from sflkit.sfl import caches as cache_rules

# The rules for which `cache_forgetting_proofs` counts out that a sample can be made to have never
# arrived.
PROVED = ("fifo", "lazy", "reservoir", "srsr", "drsr")
THETA = 2 / 3  # SRSR's weight of new data

# (client, round) -> the generator that a cache update draws from; the same call, the same dice.
Dice = Callable[[int, int], np.random.Generator]


class Stream(NamedTuple):
    """What arrives at a client: the round (N,) and the label (N,) of each sample, in order."""

    arrival: np.ndarray
    labels: np.ndarray


@dataclass(frozen=True, eq=False)
class Caches:
    """What the caches of all clients held in every round. It never changes; make it by `fill`.

    `streams` has one per client, with the samples in `missing` that never arrived; `dice` is where
    the rule draws from, and `held` what was held in each round.
    """

    streams: tuple[Stream, ...]
    rule: str
    capacity: int
    batch_size: int
    rounds: int
    dice: Dice
    held: Held = field(repr=False)
    missing: frozenset[tuple[int, int]] = frozenset()

    def without(self, client: int, sample: int) -> Caches:
        """Return the caches of the streams in which a sample never arrived, by the same dice."""
        missing = self.missing | {(client, sample)}
        contents = [_contents(self, client, {s for k, s in missing if k == client})]
        first = sum(len(stream.arrival) for stream in self.streams[:client])
        parts = zip(self.held, held_of(contents, [len(self.streams[client].arrival)]), strict=True)
        held = Held(*(np.r_[v[:first], own, v[first + len(own) :]] for v, own in parts))
        return replace(self, held=held, missing=missing)


class NeverArrived(NamedTuple):
    """The history and the caches of streams without a sample.

    `first` is the first round whose mini-batches changed, None if none did.
    """

    history: History
    first: int | None
    caches: Caches


def fill(
    streams: Sequence[Stream],
    rule: str,
    *,
    capacity: int,
    batch_size: int,
    rounds: int,
    seed: int = 0,
    dice: Dice | None = None,
) -> Caches:
    """Run a cache rule over the clients' streams.

    Parameters
    ----------
    streams : list of Stream
        One per client, each with at least one sample.
    rule : {"fifo", "lazy", "reservoir", "srsr", "drsr"}
        A name in `PROVED`.
    capacity, batch_size : int
        B and B_s >= 1, samples; at most `capacity` may arrive at once.
    rounds : int
        R >= 1; samples arrive before a round is trained.
    seed : int
        Of the caches' dice.
    dice : callable, optional
        (client, round) -> generator in place of those of the seed.

    Raises
    ------
    ValueError
        For a rule that is not proved, or a capacity that cannot take what arrives at once.
    """
    if rule not in PROVED:
        raise ValueError(
            f"rule={rule!r} must be one of {', '.join(map(repr, PROVED))}, for which forgetting is "
            "proved to be exact; for any other cache, tell `draw_history` what it held "
            "(`fats.history.Held`), and a sample can be withheld from training"
        )
    dice = dice or (lambda client, r: generator(seed, "cache", client, r))
    own = tuple(Stream(*map(np.asarray, stream)) for stream in streams)
    sizes = [len(stream.arrival) for stream in own]
    nothing = Held(*np.zeros((2, sum(sizes)), dtype=np.int64))
    empty = Caches(own, rule, capacity, batch_size, rounds, dice, nothing)
    contents = [_contents(empty, k, ()) for k in range(len(own))]
    return replace(empty, held=held_of(contents, sizes))


def held_of(contents: Sequence[Sequence[np.ndarray]], sizes: Sequence[int]) -> Held:
    """Return what clients hold, from contents[k][r], the samples of client k of N_k in round r.

    No rule takes back a sample that it has dropped.
    """
    entered, left = [], []
    for own, size in zip(contents, sizes, strict=True):
        holds = np.zeros((len(own), size), dtype=bool)
        for r, ids in enumerate(own):
            holds[r, ids] = True
        entered.append(holds.argmax(axis=0))
        left.append(entered[-1] + holds.sum(axis=0))
    return Held(np.concatenate(entered), np.concatenate(left))


def never_arrived(
    history: History,
    caches: Caches,
    client: int,
    sample: int,
    rng: np.random.Generator,
) -> NeverArrived:
    """Forget a sample as if it had never arrived, in the cache and in every mini-batch.

    The history was drawn with held=caches.held; `rng` draws what fills a place that stays empty.

    Raises
    ------
    ValueError
        If the history was not drawn from these caches, the sample never existed, or without it a
        cache cannot fill a mini-batch in some round.
    """
    client, sample = history.existing(client, checks.integer("sample", sample, 0))
    same = history.held is not None and all(map(np.array_equal, history.held, caches.held))
    if not same or history.forgotten != caches.missing:
        raise ValueError(
            "history must be drawn with held=caches.held, and all that it has forgotten must have "
            "been made to never arrive in these caches: the two ways to forget do not mix"
        )
    after = caches.without(client, sample)
    moved = follow(history, after.held, client, sample, rng)
    changed = np.flatnonzero((moved.batches != history.batches).any(axis=(1, 2, 3)))
    return NeverArrived(moved, int(changed[0]) if len(changed) else None, after)


def follow(
    history: History, held: Held, client: int, sample: int, rng: np.random.Generator
) -> History:
    """Return the history of a client that holds `held` in place of what it held.

    Step (3) of the module: mini-batches of the client are renamed and completed where the two
    differ. `held` must not hold the sample, and at most as many samples as before in each round.
    Raises ValueError if it holds too few to fill a mini-batch.
    """
    after = replace(history, forgotten=history.forgotten | {(client, sample)}, held=held)
    after.check_left()
    batches = history.batches.copy()
    for r, slot in np.argwhere(history.clients == client):
        before, now = history.remaining(client, r), after.remaining(client, r)
        gone = np.setdiff1d(before, now, assume_unique=True)
        new = np.setdiff1d(now, before, assume_unique=True)
        for step in range(history.local_steps):
            batches[r, slot, step] = renamed(batches[r, slot, step], gone, new, now, rng)
    return replace(after, batches=batches)


def dropped_reads(history: History, first: int) -> float:
    """Return the share of the samples read by recomputing that the caches have dropped since.

    Recomputing from round `first` on reads the mini-batches of these rounds. What no cache holds in
    the last round must come from an archive.
    """
    offsets = np.cumsum(history.samples_per_client) - history.samples_per_client
    at = offsets[history.clients[first:, :, None, None]] + history.batches[first:]
    return float(1 - (history.held.left[at] == history.rounds).mean())


def _contents(caches: Caches, client: int, gone: Collection[int]) -> list[np.ndarray]:
    """Return what a client's cache holds in each round when the samples `gone` never arrive."""
    stream = caches.streams[client]
    present = np.ones(len(stream.arrival), dtype=bool)
    present[list(gone)] = False
    row = cache_rules.RULES[caches.rule]
    options = {"theta": THETA} if "theta" in row.options else {}
    cache = row.build(caches.capacity, caches.batch_size, **options)
    contents = []
    for r in range(caches.rounds):
        new = np.flatnonzero(present & (stream.arrival == r))
        if len(new):
            cache.update(new, stream.labels[new], caches.dice(client, r))
        contents.append(cache.ids)
    return contents


def renamed(
    batch: np.ndarray,
    gone: np.ndarray,
    new: np.ndarray,
    now: np.ndarray,
    rng: np.random.Generator,
) -> np.ndarray:
    """Return a mini-batch of what was held as one of what is held `now`, (b,), ascending.

    The i-th of the samples that are `gone` becomes the i-th `new` one; those of the gone that no
    new one stands for are replaced by unused ones."""
    place = np.searchsorted(gone, batch)
    is_gone = np.isin(batch, gone)
    named = is_gone & (place < len(new))
    if named.any():
        batch = batch.copy()
        batch[named] = new[place[named]]
    left_over = gone[len(new) :]
    if (is_gone & ~named).any():
        return completed(batch, left_over, now, rng)
    return np.sort(batch)
