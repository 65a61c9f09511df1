"""The exercises of notebooks 90 to 92: deciding a claim, finding a slip, the long run of a user."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from companion.teaching.exercise import Exercise, Form, close, number, vector

ANSWERS = ("yes", "no", "too small to see", "open")


def _read_answer(value: Any, args: tuple) -> str:
    if not isinstance(value, str) or value not in ANSWERS:
        raise TypeError(f"{value!r:.60}, of type {type(value).__name__}")
    return value


decide = Exercise(
    "90",
    "what an interval decides",
    "Write `decide(low, high, smallest)`. A claim says that a difference is above 0. Repeated runs "
    "gave a 95 % interval of it, from `low` to `high`, and nobody would care about a difference of "
    "less than `smallest` in either direction. Return 'yes' or 'no' if the interval tells whether "
    "the difference is above 0, however small it is. Otherwise return 'too small to see' if the "
    "interval holds nothing that anybody would care about, and 'open' if it does.",
    "decide(low, high, smallest)",
    Form(f"one of the texts {', '.join(map(repr, ANSWERS))}", _read_answer),
)


def _intervals(rng: np.random.Generator) -> Iterator[tuple[float, float]]:
    """Yield intervals of many kinds, for a smallest effect of 0.5."""
    for size in (0.2, 1.0, 3.0):
        for low, high in np.sort(rng.uniform(-size, size, (40, 2))).round(3):
            if high - low > 0.01 and min(abs(abs(low) - 0.5), abs(abs(high) - 0.5)) > 0.01:
                yield float(low), float(high)


@decide.must(hint="Does it matter how close to 0 an interval is, once all of it is above 0?")
def above_zero_is_yes(f, rng):
    "An interval above 0 means yes, whether or not anybody would care about the difference."
    ends = (0.1, 2.1), (0.4, 2.4), (5.0, 7.0), (0.1, 0.3), (0.01, 0.49)
    return all(f(low, high, 0.5) == "yes" for low, high in ends)


@decide.must(hint="Exchange the two things that are compared. What becomes of the ends?", shows=2)
def the_other_way_round_yes_is_no(f, rng):
    "With the sign of the difference yes becomes no, and the other two answers stay."
    other = {"yes": "no", "no": "yes"}
    for low, high in _intervals(rng):
        answer = f(low, high, 0.5)
        if f(-high, -low, 0.5) != other.get(answer, answer):
            return False
    return True


@decide.must(hint="Which answers can an interval inside a decided one have?", shows=2)
def more_runs_open_nothing_again(f, rng):
    "When an interval decides something, a part of it decides something, too."
    for low, high in _intervals(rng):
        answer = f(low, high, 0.5)
        a, b = np.sort(rng.uniform(low, high, 2))
        if answer != "open" and f(float(a), float(b), 0.5) == "open":
            return False
    return True


@decide.must(hint="What can be said when the sign is unsure and no number inside matters?")
def around_zero_and_small_is_too_small_to_see(f, rng):
    "An interval around 0 of which no number is worth caring about is too small to see."
    small = ((-0.4, 0.3), (-0.45, 0.1), (-0.1, 0.49))
    return all(f(low, high, 0.5) == "too small to see" for low, high in small)


@decide.must(hint="Is the middle of an interval more certain than its ends?")
def an_interval_on_both_sides_is_open(f, rng):
    "An interval around 0 that reaches a difference to care about leaves the claim open."
    wide = ((-0.1, 3.0), (-2.0, 0.3), (-1.0, 1.5), (-0.6, 0.4))
    return all(f(low, high, 0.5) == "open" for low, high in wide)


@decide.must(hint="Which of the three numbers have a unit?", shows=2)
def units_do_not_matter(f, rng):
    "Points in place of shares change all three numbers, and not the answer."
    return all(
        f(low, high, 0.5) == f(scale * low, scale * high, scale * 0.5)
        for low, high in _intervals(rng)
        for scale in (0.01, 100.0)
    )


class _Law(NamedTuple):
    """A function with a formula that a message can show."""

    formula: str
    value: Callable[[float], float]

    def __call__(self, x: float) -> float:
        return self.value(x)

    def __repr__(self) -> str:
        return self.formula


power = Exercise(
    "91",
    "the power that was lost",
    "Many a slip is a lost power, such as an E that stands under a root and belongs outside. Write "
    "`power(f)`, which finds out. `f` is a function of a number x > 0 with values above 0, and for "
    "large x it goes like c * x ** a, with some factor c > 0. Return the power a, to three digits. "
    "For f(x) = 7 / x it is -1.",
    "power(f)",
    number,
)


def _near(a: float, b: float) -> bool:
    return abs(a - b) < 5e-4


@power.must(hint="Compare f at two places. What does a power do to the ratio of the two?")
def a_plain_power_is_found(f, rng):
    "The power of x ** a is a, whether it grows, falls or stays."
    laws = {
        -1.0: _Law("x ** -1", lambda x: x**-1),
        -0.5: _Law("x ** -0.5", lambda x: x**-0.5),
        0.0: _Law("x ** 0", lambda x: 1.0),
        2.0: _Law("x ** 2", lambda x: x * x),
    }
    return all(_near(f(law), a) for a, law in laws.items())


@power.must(hint="Use a combination of two values of f in which a factor drops out.", shows=2)
def a_factor_does_not_matter(f, rng):
    "A factor before the power changes nothing."
    plain, large, small = (
        _Law(f"{c:g} / x ** 0.5", lambda x, c=c: c / x**0.5) for c in (1.0, 1000.0, 0.001)
    )
    return _near(f(plain), f(large)) and _near(f(plain), f(small))


@power.must(hint="How large must x be until the smaller power has died away?")
def of_a_sum_the_larger_power_remains(f, rng):
    "What falls faster does not matter in the end, however large its factor."
    laws = {
        -0.5: _Law("1 / x ** 0.5 + 100 / x", lambda x: x**-0.5 + 100 / x),
        0.0: _Law("2 + 50 / x ** 0.5", lambda x: 2 + 50 / x**0.5),
        1.0: _Law("x + 1000", lambda x: x + 1000),
    }
    return all(_near(f(law), a) for a, law in laws.items())


long_run = Exercise(
    "92",
    "what a user asks for in the long run",
    "Write `long_run(P)`. A user who has just asked for file i asks for file j next with "
    "probability `P[i, j]`, and every file can be reached from every other one. Return the share "
    "that each file has of all requests in the long run.",
    "long_run(P)",
    vector("a vector with one share per file", len),
)


def _chains(rng: np.random.Generator) -> Iterator[np.ndarray]:
    """Yield transition matrices: files in turn, files that stay for long, and random ones."""
    yield np.roll(np.eye(3), 1, axis=1)
    yield np.array([[0.999, 0.001], [0.003, 0.997]])
    for n in (2, 5):
        yield rng.dirichlet(np.ones(n), n)


@long_run.must(hint="What do the shares of all files add up to?")
def they_are_shares(f, rng):
    "All shares together are 1, and none is below 0."
    return all(close(share.sum(), 1) and (share >= -1e-12).all() for share in map(f, _chains(rng)))


@long_run.must(hint="Which shares does one more request of everybody leave as they are?")
def one_more_request_changes_nothing(f, rng):
    "If files are asked for in these shares now, then also at the next request."
    return all(np.allclose(f(P) @ P, f(P), rtol=0, atol=1e-9) for P in _chains(rng))
