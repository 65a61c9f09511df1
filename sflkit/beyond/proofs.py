"""That forgetting from streaming caches is exact, counted out in fractions.

The two readings of `sflkit.beyond.forgetting` are compared with learning that never used the
sample, for tiny federations and every cache rule. What is compared is everything that remains: what
the clients hold in every round, who trained, and on what. As in `sflkit.fats.enumeration`, the code
that runs is the library's own, once for each outcome of its draws.

Caches draw nothing that clients or mini-batches depend on except through what is held. So the law
of what is held is enumerated first, then for each of its outcomes the law of the history. For a
sample that never arrived, the replay of the cache draws dice of its own here, independent of those
that the cache had. Which dice it takes cannot matter, as long as what it then holds has the right
law: given both contents, mini-batches know nothing else of the dice.

The reference shares no code with forgetting. A withheld sample's is `enumeration.retrained_law`. A
sample that never arrived is taken out of the stream, the caches are filled and the history drawn
without it, and the samples behind it get their old numbers back.
"""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from sflkit.beyond import forgetting
from sflkit.beyond.forgetting import Stream
from sflkit.fats import enumeration
from sflkit.fats.enumeration import drawn_law, forgotten_law, outcomes, retrained_law
from sflkit.fats.held import Held
from sflkit.fats.history import History


class Case(NamedTuple):
    """A tiny federation of caches; `sample` of client 0 is to be forgotten."""

    streams: tuple[Stream, ...]
    sample: int
    capacity: int = 2
    rounds: int = 2
    clients_per_round: int = 1
    batch_size: int = 1
    local_steps: int = 1

    @property
    def sizes(self) -> dict[str, Any]:
        """The keywords of `history.draw_history` but for rng and held."""
        return dict(
            n_clients=len(self.streams),
            samples_per_client=[len(stream.arrival) for stream in self.streams],
            clients_per_round=self.clients_per_round,
            batch_size=self.batch_size,
            local_steps=self.local_steps,
            rounds=self.rounds,
        )

    def without(self) -> Case:
        """Return the case whose stream lacks the sample; those behind it move up by one number."""
        first = Stream(*(np.delete(values, self.sample) for values in self.streams[0]))
        return self._replace(streams=(first, *self.streams[1:]))


_OTHER = Stream(np.array([0, 0]), np.array([0, 1]))
_OWN = Stream(np.array([0, 0, 1, 2]), np.array([0, 1, 0, 1]))
_LONGER = Stream(np.array([0, 0, 0, 1, 2]), np.array([0, 1, 1, 0, 1]))
# A sample there from the start, one that arrives later, two clients per round, two local steps,
# mini-batches of two of a larger cache, and arrivals of two at once.
CASES = (
    Case((_OWN, _OTHER), sample=0, rounds=3),
    Case((_OWN, _OTHER), sample=2, rounds=3),
    Case((_OWN, _OTHER), sample=1, clients_per_round=2, rounds=3),
    Case((_OWN, _OTHER), sample=1, local_steps=2, rounds=3),
    Case((_LONGER, _LONGER), sample=1, capacity=3, batch_size=2, rounds=3),
    Case((Stream(np.array([0, 0, 1, 1]), np.array([0, 1, 1, 0])), _OTHER), sample=2, rounds=2),
)


def withheld_distance(case: Case, rule: str, repair: str = "exact") -> Fraction:
    """Return the distance between withholding the sample afterwards and from the start.

    `repair` is a rule of `fats.forgetting.RULES`. 0 means that forgetting is exact.
    """
    ours, goal = {}, {}
    for p, held, _ in held_law(case, rule):
        law = drawn_law(**case.sizes, held=held)
        _add(ours, p, held, forgotten_law(law, (0, case.sample), repair).values())
        _add(goal, p, held, retrained_law([(0, case.sample)], **case.sizes, held=held).values())
    return enumeration.total_variation(ours, goal)


def unaware_distance(case: Case, rule: str) -> Fraction:
    """Return that distance for a history that does not know what was held.

    Its mini-batches were drawn from the caches, but forgetting draws from all samples, whether they
    had arrived or not.
    """
    ours, goal = {}, {}
    for p, held, _ in held_law(case, rule):
        law = {
            key: (q, History.of(h.clients, h.batches, h.samples_per_client))
            for key, (q, h) in drawn_law(**case.sizes, held=held).items()
        }
        _add(ours, p, held, forgotten_law(law, (0, case.sample)).values())
        _add(goal, p, held, retrained_law([(0, case.sample)], **case.sizes, held=held).values())
    return enumeration.total_variation(ours, goal)


def never_arrived_distance(case: Case, rule: str) -> Fraction:
    """Return the distance between a sample that is made to never have arrived, and none at all."""
    ours, goal = {}, {}
    for p, held, after in held_law(case, rule):
        for q, history in drawn_law(**case.sizes, held=held).values():
            moved = outcomes(
                lambda rng, history=history, after=after: forgetting.follow(
                    history, after, 0, case.sample, rng
                )
            )
            _add(ours, p * q, after, ((chance, found) for found, chance in moved))
    without = case.without()
    for p, held, _ in held_law(without, rule):
        law = drawn_law(**without.sizes, held=held).values()
        renumbered = ((q, _renumbered(h, case.sample)) for q, h in law)
        _add(goal, p, _with_gap(held, case), renumbered)
    return enumeration.total_variation(ours, goal)


def held_law(case: Case, rule: str) -> list[tuple[Fraction, Held, Held]]:
    """Return (probability, held, held without the sample) for all that the caches may hold."""
    sizes = np.bincount(case.streams[0].arrival)

    def run(rng: np.random.Generator) -> tuple[Held, Held]:
        caches = forgetting.fill(
            case.streams,
            rule,
            capacity=case.capacity,
            batch_size=int(sizes[1]),
            rounds=case.rounds,
            dice=lambda client, r: rng,
        )
        return caches.held, caches.without(0, min(case.sample, len(caches.held.entered) - 1)).held

    law: dict[tuple, list] = {}
    for (held, after), p in outcomes(run, ranks=True):
        entry = law.setdefault((*_key(held), *_key(after)), [Fraction(0), held, after])
        entry[0] += p
    return [(p, held, after) for p, held, after in law.values()]


def _key(held: Held) -> tuple[bytes, bytes]:
    return held.entered.tobytes(), held.left.tobytes()


def _add(law: dict, p: Fraction, held: Held, part: Iterable[tuple[Fraction, History]]) -> None:
    """Add to a law the probabilities of what is held together with each history of `part`."""
    for q, history in part:
        key = (*_key(held), *enumeration.history_key(history))
        law[key] = (law.get(key, (Fraction(0), None))[0] + p * q, None)


def _renumbered(history: History, sample: int) -> History:
    """Return the history of a stream without a sample, with the numbers of the stream with it."""
    own = (history.clients == 0)[:, :, None, None]
    batches = history.batches + (own & (history.batches >= sample))
    sizes = history.samples_per_client + (np.arange(history.n_clients) == 0)
    return History.of(history.clients, batches, sizes)


def _with_gap(held: Held, case: Case) -> Held:
    """Return what is held, in the numbers of the stream with the sample, which nothing holds."""
    entered, left = (np.insert(values, case.sample, 0) for values in (held.entered, held.left))
    return Held.between(entered, left, case.sizes["samples_per_client"], held.rounds)
