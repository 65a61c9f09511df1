"""The exact law of what a piece of code draws: run it once for every outcome of its draws.

The claim to prove is about probabilities: after forgetting, a history has the same law as one drawn
without the forgotten data in the first place. Drawing many histories could only make that likely.
For tiny sizes we can do better and look at all of them, in four steps.

1. *What is enumerated.* `draw_history` and `forget_sample` draw in one way only, by
   `Generator.integers`, which takes each of n numbers with probability 1/n. A run of the code is
   thus fixed by the numbers that it was handed, and runs correspond to the leaves of a tree whose
   nodes are the draws, with n branches each.
2. *How the tree is walked.* In place of a random generator the code gets a `_Tape`, a list of
   choices. It hands out the choices in turn, and when the list ends it goes on with zeros and notes
   how many there were to choose from. After each run `outcomes` raises the last choice that can be
   raised and drops those behind it, like an odometer whose wheels may differ from turn to turn. It
   ends when no choice can be raised: then every leaf was visited, and visited once.
3. *Why the probabilities are exact.* The draws of one run are independent and uniform, so that the
   run's probability is the product of its 1/n. These are kept as fractions; nothing is rounded, and
   the probabilities of all runs add up to exactly 1. A draw in any other way would not be noted,
   and so it is refused.
4. *What is compared.* Runs that end in the same history are added up to a law, and two laws are
   compared by their total variation distance, again a fraction. Distance 0 means equal laws.

The code enumerated is the library's own, not a model of it. The law that forgetting must equal is
drawn by reduced sizes and renumbered (`retrained_law`), and so does not share the code that draws
from histories with gaps. The cost grows with the number of leaves, so that sizes must be tiny.
`printed_rule_distance` gives the distance of the rule as printed at any size, by Monte Carlo over a
closed form.

Source: FATS, (2) for the distance, Theorem 2 for the claim; ERRATA 13.

==================  ==========  ============================================================
code                symbol      meaning
==================  ==========  ============================================================
law                 phi         dict: key of an outcome -> (probability as Fraction, outcome)
key                             what two outcomes share when they count as one, hashable
==================  ==========  ============================================================
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from fractions import Fraction
from typing import Annotated, Any, NamedTuple, NoReturn

import numpy as np

from sflkit import checks
from sflkit.config import Count, Whole, checked
from sflkit.fats.forgetting import forget_client, forget_sample
from sflkit.fats.history import (
    History,
    Target,
    draw_batches,
    draw_clients,
    draw_history,
)

MAX_OUTCOMES = 2_000_000
# Key of an outcome -> its probability, and the outcome itself.
Law = dict[tuple, tuple[Fraction, History]]


class _Tape(np.random.Generator):
    """A generator that hands out the numbers of a list instead of random ones.

    Choice i says which of `sizes[i]` equally likely numbers the i-th draw of the run takes, and
    `at` counts the draws. Behind the end of the list the choice is 0, and the list grows by it.
    """

    def __init__(self):
        super().__init__(np.random.PCG64(0))  # never drawn from
        self.choices: list[int] = []
        self.sizes: list[int] = []
        self.at = 0

    def integers(self, low, high=None, size=None, dtype=np.int64, endpoint=False):
        """Return what `Generator.integers` may return: the chosen number for each entry."""
        low, high = (0, low) if high is None else (low, high)
        shape = size if size is not None else np.broadcast_shapes(np.shape(low), np.shape(high))
        low = np.broadcast_to(low, shape)
        high = np.broadcast_to(high, shape)
        drawn = [a + self._choose(int(b) - int(a) + endpoint) for a, b in zip(low.flat, high.flat)]
        out = np.array(drawn, dtype=dtype).reshape(shape)
        return out if out.ndim else out[()]

    def _choose(self, size: int) -> int:
        if self.at == len(self.choices):
            self.choices.append(0)
            self.sizes.append(size)
        self.at += 1
        return self.choices[self.at - 1]

    def next_run(self) -> bool:
        """Set the choices of the next run, and return whether there is one."""
        self.at = 0
        while self.choices and self.choices[-1] + 1 == self.sizes[-1]:
            self.choices.pop()
            self.sizes.pop()
        if not self.choices:
            return False
        self.choices[-1] += 1
        return True

    def probability(self) -> Fraction:
        """Return the probability of the run that has just ended."""
        return Fraction(1, math.prod(self.sizes))


def _refuse(name: str) -> Callable[..., NoReturn]:
    def method(self: _Tape, *args: Any, **kwargs: Any) -> NoReturn:
        raise NotImplementedError(f"only Generator.integers can be enumerated, not {name}")

    return method


# All other ways to draw would come from the generator behind the tape, unnoticed.
for _name in dir(np.random.Generator):
    if not _name.startswith("_") and _name not in ("integers", "bit_generator"):
        setattr(_Tape, _name, _refuse(_name))


def outcomes(run: Callable[[np.random.Generator], Any]) -> Iterator[tuple[Any, Fraction]]:
    """Yield (result, probability) of run(rng) for every outcome of what it draws.

    Parameters
    ----------
    run : callable
        It must draw by `rng.integers` only, and depend on nothing else that changes.

    Raises
    ------
    NotImplementedError
        If `run` draws in any other way.
    ValueError
        After MAX_OUTCOMES outcomes.
    """
    tape = _Tape()
    for _ in range(MAX_OUTCOMES):
        result = run(tape)
        yield result, tape.probability()
        if not tape.next_run():
            return
    raise ValueError(f"more than {MAX_OUTCOMES} outcomes; choose smaller sizes")


def history_key(history: History, rounds: int | None = None) -> tuple[bytes, bytes]:
    """Return what makes a history (or its first `rounds` rounds) what it is, hashable.

    That is its clients and its mini-batches.
    """
    return history.clients[:rounds].tobytes(), history.batches[:rounds].tobytes()


def drawn_law(**sizes: Any) -> Law:
    """Return the law of `draw_history`; `sizes` are its keywords without rng."""
    return _collect(outcomes(lambda rng: draw_history(**sizes, rng=rng)))


def retrained_law(requests: Iterable[Target], **sizes: Any) -> Law:
    """Return the law of learning from the start on what the requests leave.

    This is what exact forgetting must equal. Samples keep their numbers, and a forgotten client's
    number is skipped: histories of reduced sizes are drawn and renumbered.

    Parameters
    ----------
    requests : list of (client, sample), or (client, None) for a whole client
    **sizes
        Keywords of `draw_history` without rng.
    """
    n_clients = sizes.pop("n_clients")
    each = np.full(n_clients, sizes.pop("samples_per_client"))
    gone = {tuple(request)[:2] for request in requests}  # whatever their times
    present = np.array([k for k in range(n_clients) if (k, None) not in gone])
    left = [[s for s in range(each[k]) if (k, s) not in gone] for k in present]
    counts = [len(numbers) for numbers in left]
    law = drawn_law(n_clients=len(present), samples_per_client=counts, **sizes)

    def renumbered(history: History) -> History:
        batches = np.empty_like(history.batches)
        for at in np.ndindex(history.clients.shape):
            batches[at] = np.array(left[history.clients[at]])[history.batches[at]]
        return History.of(present[history.clients], batches, each)

    return _collect((renumbered(history), p) for p, history in law.values())


def forgotten_law(law: Law, request: tuple, rule: str = "exact") -> Law:
    """Return the law of the history after one request.

    `forget_sample` or `forget_client` is run on every history of `law`, for every outcome of its
    draws. A rule that draws all rounds after the hit one afresh does the same on histories that
    agree up to there, so that these share one enumeration; a test compares this with running each.

    Parameters
    ----------
    law : dict
        All of its histories must have the same `forgotten`.
    request : (client, sample) or (client, None), with steps_done behind if it comes earlier
        `steps_done` is that of `forget_sample`.
    rule : str
        A name in `forgetting.RULES`. Histories share an enumeration with "exact" and "printed".
    """
    client, sample, steps_done = (*request, None)[:3]
    groups: dict[tuple, tuple[Fraction, History]] = {}
    for p, history in law.values():
        fresh_after = _rounds_that_matter(history, client, sample, rule)
        key = (history_key(history, fresh_after), fresh_after)
        weight, representative = groups.get(key, (Fraction(0), history))
        groups[key] = (weight + p, representative)

    def run(history: History, rng: np.random.Generator) -> History:
        if sample is None:
            return forget_client(history, client, rng, steps_done=steps_done).history
        return forget_sample(history, client, sample, rng, rule, steps_done=steps_done).history

    return _collect(
        (after, weight * p)
        for weight, history in groups.values()
        for after, p in outcomes(lambda rng, history=history: run(history, rng))
    )


def restarted_law(law: Law, client: int, sample: int, *, keep_clients: bool = False) -> Law:
    """Return the law of the history after a sample is forgotten by training again from the start.

    Source: FATS, Section 5.3.2, the variant that stores no history: a hit draws all rounds again,
    and a history that did not use the sample stays. As printed that is not exact, since a hit says
    that the client took part; with the clients of all rounds kept it is (ERRATA 15).

    Parameters
    ----------
    law : dict
        All of its histories must have the same `forgotten`.
    client, sample : int
        What is forgotten.
    keep_clients : bool
        Whether a hit draws the mini-batches only.

    Raises
    ------
    ValueError
        If the client or the sample never existed, or too few samples are left.
    """
    keep_clients = checks.flag("keep_clients", keep_clients)
    for _, history in checks.instance("law", law, Mapping).values():
        client, sample = history.existing(client, checks.integer("sample", sample, 0))

    def run(history: History, rng: np.random.Generator) -> History:
        left = history.without([(client, sample)])
        if history.first_use(client, sample) is None:
            return left
        clients = history.clients
        if not keep_clients:
            clients = draw_clients(left, clients.shape, rng)
        batches = draw_batches(left, clients, history.local_steps, rng)
        return replace(left, clients=clients, batches=batches)

    return _collect(
        (after, weight * p)
        for weight, history in law.values()
        for after, p in outcomes(lambda rng, history=history: run(history, rng))
    )


def total_variation(law: Mapping, other: Mapping) -> Fraction:
    """Return the total variation distance of two laws, half the sum of |difference|.

    Source: FATS, (2).
    """
    zero = (Fraction(0), None)
    differences = (
        abs(law.get(key, zero)[0] - other.get(key, zero)[0]) for key in law.keys() | other.keys()
    )
    return sum(differences, Fraction(0)) / 2


class Distance(NamedTuple):
    """A Monte Carlo estimate and its standard error."""

    value: float
    error: float


@checked
def printed_rule_distance(
    *,
    n_clients: Count,
    samples_per_client: float,
    clients_per_round: Count,
    batch_size: Count,
    local_steps: Count,
    rounds: Count,
    rng: np.random.Generator,
    repeats: Annotated[int, Whole(2)] = 20000,
) -> Distance:
    """Return the distance of the rule as printed from retraining, for one sample, at any size.

    Source: ERRATA 13. With n_r slots of the client in round r, independent Binomial(K, 1/M), and a
    = 1 - b/N, the density of the repaired history against retraining is 1 + sum_r a^(E (n_1 + .. +
    n_{r-1})) (a^{n_r} - (1 - b/(M N))^K): to reach round r unhit has the first factor; there
    a^{n_r} is kept unhit at its first step, and a hit draws all clients again. The distance is half
    the mean of the absolute sum.

    Parameters
    ----------
    n_clients, clients_per_round, batch_size, local_steps, rounds : int
        M, K, b, E, R, each >= 1.
    samples_per_client : float
        N > batch_size, a mean for instance.
    rng : numpy.random.Generator
    repeats : int
        Draws of the n_r, >= 2.

    Raises
    ------
    ValueError
        For sizes below 1 or batch_size >= samples_per_client (nothing would be left to draw from).
    """
    samples = checks.real("samples_per_client", samples_per_client, above=batch_size)
    spared = 1 - batch_size / samples
    slots = checks.generator(rng).binomial(clients_per_round, 1 / n_clients, size=(repeats, rounds))
    before = np.cumsum(slots, axis=1) - slots
    unhit = (1 - (1 - spared) / n_clients) ** clients_per_round
    half = np.abs((spared ** (local_steps * before) * (spared**slots - unhit)).sum(axis=1)) / 2
    return Distance(float(half.mean()), float(half.std(ddof=1) / np.sqrt(repeats)))


def _rounds_that_matter(history: History, client: Any, sample: Any, rule: str) -> int | None:
    """Return up to which round a history decides what it becomes; None for all of its rounds.

    With the rules named, a hit leaves nothing of the rounds after the hit one, and of the round of
    a client's first use nothing at all."""
    several = np.ndim(client) or np.ndim(sample)
    first = None if several else history.first_use(client, sample)
    if first is None:
        return None
    if sample is None:
        return first
    return first[0] + 1 if rule in ("exact", "printed") else None


def _collect(weighted: Iterable[tuple[History, Fraction]]) -> Law:
    """Add up the probabilities of equal histories."""
    law: Law = {}
    for history, p in weighted:
        key = history_key(history)
        law[key] = (law[key][0] + p, history) if key in law else (p, history)
    return law
