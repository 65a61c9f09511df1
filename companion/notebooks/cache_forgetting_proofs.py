"""That forgetting from streaming caches is exact, counted out in fractions.

The two readings of `cache_forgetting` are compared with learning that never used the
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

from collections.abc import Iterable, Iterator
from fractions import Fraction
from typing import Annotated, Any, NamedTuple

import numpy as np
import pandas as pd

from companion.notebooks import cache_forgetting
from companion.notebooks.cache_forgetting import PROVED, Stream
from sflkit.config import OneOf, Seed, settings
from sflkit.fats import enumeration
from sflkit.fats.enumeration import Law, drawn_law, forgotten_law, outcomes, retrained_law
from sflkit.fats.history import Held, History

EXPERIMENT = "beyond-proofs"
RESULT_VERSION = 1


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


def _case(arrival: list[int], labels: list[int], sample: int, **sizes: Any) -> Case:
    """Return a case whose second client holds the first samples, as many as a mini-batch has."""
    n = sizes.get("batch_size", 1)
    other = Stream(np.zeros(n, dtype=np.int64), np.zeros(n, dtype=np.int64))
    return Case((Stream(np.array(arrival), np.array(labels)), other), sample, **sizes)


CASES = {
    "there from the start": _case([0, 0, 1], [0, 1, 0], 0),
    "arrives later": _case([0, 0, 1], [0, 1, 0], 2),
    "two clients per round": _case([0, 0, 1], [0, 1, 0], 1, clients_per_round=2),
    "two local steps": _case([0, 0, 1], [0, 1, 0], 1, local_steps=2),
    "mini-batches of two": _case([0, 0, 0, 1], [0, 1, 1, 0], 1, capacity=3, batch_size=2),
    "two arrive at once": _case([0, 0, 1, 1], [0, 1, 1, 0], 2),
    "three rounds": _case([0, 0, 1, 2], [0, 1, 0, 1], 1, rounds=3),
}


@settings
class ProofConfig:
    """A tiny federation under a cache rule; nothing is drawn, and the seed changes nothing."""

    case: Annotated[str, OneOf(CASES)] = "there from the start"
    rule: Annotated[str, OneOf(PROVED)] = "fifo"
    seed: Seed = 0


class Distances(NamedTuple):
    """How far forgetting is from learning that never used the sample, as total variations.

    `withheld` and `never_arrived` are those of the two readings; 0 means exact. `unaware` is the
    first reading for a history that does not know what was held: its mini-batches were drawn from
    the caches, but forgetting draws from all samples, whether they had arrived or not.
    """

    withheld: Fraction
    never_arrived: Fraction
    unaware: Fraction


def run(config: ProofConfig) -> pd.DataFrame:
    """Return the `distances` of a config in one row, as fractions in words."""
    found = distances(CASES[config.case], config.rule)
    return pd.DataFrame([{name: str(value) for name, value in found._asdict().items()}])


def distances(case: Case, rule: str, repair: str = "exact") -> Distances:
    """Return the distances of a case under a rule in `cache_forgetting.PROVED`.

    `repair` is a rule in `fats.forgetting.RULES`, for the first reading.
    """
    target = (0, case.sample)
    withheld, unaware, moved = {}, {}, {}
    less, none = {}, {}
    for p, held, afters in held_law(case, rule):
        law = drawn_law(**case.sizes, held=held)
        blind = {key: (q, _unaware(h)) for key, (q, h) in law.items()}
        _add(withheld, p, held, forgotten_law(law, target, repair).values())
        _add(unaware, p, held, forgotten_law(blind, target, repair).values())
        _add(less, p, held, retrained_law([target], **case.sizes, held=held).values())
        for after, share in afters:
            _add(moved, p * share, after, _followed(law, after, case.sample))
    for p, held, _ in held_law(case.without(), rule, replayed=False):
        law = drawn_law(**case.without().sizes, held=held).values()
        _add(none, p, _with_gap(held, case), ((q, _renumbered(h, case.sample)) for q, h in law))
    tv = enumeration.total_variation
    return Distances(tv(withheld, less), tv(moved, none), tv(unaware, less))


def held_law(
    case: Case, rule: str, *, replayed: bool = True
) -> list[tuple[Fraction, Held, list[tuple[Held, Fraction]]]]:
    """Return all that the caches may hold, as (probability, held, afters).

    `afters` lists what they may hold without the sample, each with its share of that probability;
    it is empty where the caches are not `replayed`. Only client 0 must ever drop a sample, so that
    the others' dice decide nothing and are not enumerated.
    """
    busiest = max(int(np.bincount(stream.arrival).max()) for stream in case.streams)

    def run(rng: np.random.Generator) -> tuple[Held, Held | None]:
        caches = cache_forgetting.fill(
            case.streams,
            rule,
            capacity=case.capacity,
            batch_size=min(busiest, case.capacity),
            rounds=case.rounds,
            dice=lambda client, r: rng if client == 0 else np.random.default_rng(0),
        )
        return caches.held, caches.without(0, case.sample).held if replayed else None

    law: dict[tuple, tuple[Held, dict]] = {}
    for (held, after), p in outcomes(run, ranks=True):
        _, afters = law.setdefault(_key(held), (held, {}))
        key = None if after is None else _key(after)
        afters[key] = (after, afters.get(key, (after, Fraction(0)))[1] + p)
    result = []
    for held, afters in law.values():
        total = sum((p for _, p in afters.values()), Fraction(0))
        each = [(after, p / total) for after, p in afters.values()] if replayed else []
        result.append((total, held, each))
    return result


def _unaware(history: History) -> History:
    return History.of(history.clients, history.batches, history.samples_per_client)


def _followed(law: Law, after: Held, sample: int) -> Iterator[tuple[Fraction, History]]:
    """Yield (probability, history) of each history of `law` that follows the caches to `after`."""
    for q, history in law.values():
        for moved, chance in outcomes(
            lambda rng, history=history: cache_forgetting.follow(history, after, 0, sample, rng)
        ):
            yield q * chance, moved


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
    return Held(*(np.insert(values, case.sample, 0) for values in held))
