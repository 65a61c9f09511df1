"""The exact law of any code that draws with `Generator.integers`: run it once for every outcome of
its draws.

This is how notebook 40 and the tests show that forgetting is exact: not on a model of the rules,
but on `draw_history` and `forget_sample` themselves, whose outcomes are enumerated and their
probabilities added as fractions. The cost grows with the number of outcomes, so sizes must be tiny.
`printed_rule_distance` gives the same distance for the rule as printed at any size, by Monte Carlo
over a closed form.

Source: FATS, (2) for the distance, Theorem 2 for the claim; ERRATA 13.

==================  ==========  =====================================================================
code                symbol      meaning
==================  ==========  =====================================================================
law                 phi         dict: key of an outcome -> (probability as Fraction, outcome)
key                             what two outcomes share when they count as one, hashable
==================  ==========  =====================================================================
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from sflkit import checks
from sflkit.fats.forgetting import Request, forget_client, forget_sample
from sflkit.fats.history import History, draw_history

MAX_OUTCOMES = 2_000_000


class _Tape(np.random.Generator):
    """A generator whose integers come from a list of choices; it remembers how many there were at
    each.
    """

    def __init__(self):
        super().__init__(np.random.PCG64(0))
        self.choices, self.sizes, self.at = [], [], 0

    def integers(self, low, high=None, size=None, dtype=np.int64, endpoint=False):
        low, high = (0, low) if high is None else (low, high)
        shape = size if size is not None else np.broadcast_shapes(np.shape(low), np.shape(high))
        low, high = np.broadcast_to(low, shape), np.broadcast_to(high, shape)
        drawn = [a + self._choose(int(b) - int(a) + endpoint) for a, b in zip(low.flat, high.flat)]
        out = np.array(drawn, dtype=dtype).reshape(shape)
        return out if out.ndim else out[()]

    def _choose(self, size: int) -> int:
        if self.at == len(self.choices):
            self.choices.append(0)
            self.sizes.append(size)
        self.at += 1
        return self.choices[self.at - 1]


def _refuse(name):
    def method(self, *args, **kwargs):
        raise NotImplementedError(f"only Generator.integers can be enumerated, not {name}")

    return method


for _name in dir(np.random.Generator):
    if not _name.startswith("_") and _name not in ("integers", "bit_generator"):
        setattr(_Tape, _name, _refuse(_name))


def outcomes(run: Callable):
    """Yield (result, probability) of run(rng) for every outcome of what it draws with rng.integers;
    probabilities add up to 1.

    Raises
    ------
    NotImplementedError
        If `run` draws in any other way.
    ValueError
        After MAX_OUTCOMES outcomes.
    """
    tape, count = _Tape(), 0
    while True:
        tape.at = 0
        result, denominator = run(tape), 1
        for size in tape.sizes:
            denominator *= size
        yield result, Fraction(1, denominator)
        while tape.choices and tape.choices[-1] + 1 == tape.sizes[-1]:
            tape.choices.pop()
            tape.sizes.pop()
        if not tape.choices:
            return
        tape.choices[-1] += 1
        count += 1
        if count >= MAX_OUTCOMES:
            raise ValueError(f"more than {MAX_OUTCOMES} outcomes; choose smaller sizes")


def history_key(history: History, rounds: int | None = None) -> tuple:
    """Return what makes a history (or its first `rounds` rounds) what it is: clients and
    mini-batches.
    """
    return history.clients[:rounds].tobytes(), history.batches[:rounds].tobytes()


def drawn_law(**sizes) -> dict:
    """Return the law of `draw_history` for these sizes (its keywords without rng)."""
    return _collect(
        (outcome, p) for outcome, p in outcomes(lambda rng: draw_history(**sizes, rng=rng))
    )


def retrained_law(requests, **sizes) -> dict:
    """Return the law of learning from the start on what the requests leave: what exact forgetting
    must equal.

    Samples keep their numbers; a forgotten client's number is skipped. This is drawn by reduced
    sizes and renumbered, so it does not share the code that draws from histories with gaps."""
    sizes = dict(sizes)
    n_clients = sizes.pop("n_clients")
    each = np.full(n_clients, sizes.pop("samples_per_client"))
    requests = [Request(*request) for request in requests]
    gone = {request.client for request in requests if request.sample is None}
    present = np.array([k for k in range(n_clients) if k not in gone])
    left = [[s for s in range(each[k]) if (k, s) not in {r[:2] for r in requests}] for k in present]
    law = drawn_law(
        n_clients=len(present), samples_per_client=[len(numbers) for numbers in left], **sizes
    )

    def renumber(history):
        batches = np.empty_like(history.batches)
        for at in np.ndindex(history.clients.shape):
            batches[at] = np.array(left[history.clients[at]])[history.batches[at]]
        return History(present[history.clients], batches, each)

    return _collect((renumber(history), p) for p, history in law.values())


def forgotten_law(law: dict, request, rule: str = "exact") -> dict:
    """Return the law of the history after one request, by running `forget_sample` or
    `forget_client` on every history.

    All histories of `law` must have the same `forgotten`. Where a rule draws all rounds after the
    hit one afresh ("exact", "printed", clients), histories that agree up to there share one
    enumeration; a test checks this against running each."""
    client, sample, steps_done = Request(*request)
    groups = {}
    for p, history in law.values():
        first = None if np.ndim(client) or np.ndim(sample) else history.first_use(client, sample)
        fresh_after = (
            None
            if first is None or rule == "minimal"
            else first
            if sample is None
            else first[0] + 1
        )
        group = groups.setdefault(
            (history_key(history, fresh_after), fresh_after), [Fraction(0), history]
        )
        group[0] += p

    def run(history, rng):
        if sample is None:
            return forget_client(history, client, rng, steps_done=steps_done).history
        return forget_sample(history, client, sample, rng, rule, steps_done=steps_done).history

    return _collect(
        (after, weight * p)
        for weight, history in groups.values()
        for after, p in outcomes(lambda rng, h=history: run(h, rng))
    )


def total_variation(law: dict, other: dict) -> Fraction:
    """Return the total variation distance of two laws, half the sum of |difference|. Source: FATS,
    (2).
    """
    zero = (Fraction(0), None)
    return (
        sum(
            (
                abs(law.get(key, zero)[0] - other.get(key, zero)[0])
                for key in law.keys() | other.keys()
            ),
            Fraction(0),
        )
        / 2
    )


class Distance(NamedTuple):
    """A Monte Carlo estimate and its standard error."""

    value: float
    error: float


def printed_rule_distance(
    *,
    n_clients,
    samples_per_client,
    clients_per_round,
    batch_size,
    local_steps,
    rounds,
    rng,
    repeats: int = 20000,
) -> Distance:
    """Return the distance of the rule as printed from retraining, for one forgotten sample, at any
    size.

    Source: ERRATA 13. With n_r slots of the client in round r, independent Binomial(K, 1/M), and a
    = 1 - b/N, the density of the repaired history against retraining is 1 + sum_r a^(E (n_1 + .. +
    n_{r-1})) (a^{n_r} - (1 - b/(M N))^K): to reach round r unhit has the first factor; there
    a^{n_r} is kept unhit at its first step, and a hit draws all clients again. The distance is half
    the mean of the absolute sum.

    Raises
    ------
    ValueError
        For sizes below 1 or batch_size >= samples_per_client (nothing would be left to draw from).
    """
    n_clients, repeats = (
        checks.integer("n_clients", n_clients, 1),
        checks.integer("repeats", repeats, 2),
    )
    clients_per_round, rounds = (
        checks.integer("clients_per_round", clients_per_round, 1),
        checks.integer("rounds", rounds, 1),
    )
    batch_size, local_steps = (
        checks.integer("batch_size", batch_size, 1),
        checks.integer("local_steps", local_steps, 1),
    )
    spared = 1 - batch_size / checks.real(
        "samples_per_client", samples_per_client, above=batch_size
    )
    slots = checks.generator(rng).binomial(clients_per_round, 1 / n_clients, size=(repeats, rounds))
    before = np.cumsum(slots, axis=1) - slots
    unhit = (1 - (1 - spared) / n_clients) ** clients_per_round
    half = np.abs((spared ** (local_steps * before) * (spared**slots - unhit)).sum(axis=1)) / 2
    return Distance(float(half.mean()), float(half.std(ddof=1) / np.sqrt(repeats)))


def _collect(weighted) -> dict:
    law = {}
    for history, p in weighted:
        key = history_key(history)
        law[key] = (law[key][0] + p, history) if key in law else (p, history)
    return law
