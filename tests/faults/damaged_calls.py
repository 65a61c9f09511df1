"""Valid calls of the library, and all the ways in which one argument of each is damaged.

Everything is generated and in one fixed order: the n-th damaged call is the same in every process.
A damaged call is

| outcome | meaning |
|---------|---------|
| good    | ValueError or TypeError whose message names the argument |
| vague   | ValueError or TypeError that does not name it |
| answer  | an answer without NaN, which may be right: 1e30 is a distance like any other |
| silent  | an answer that holds NaN where that of the valid call holds none; or any answer to NaN,
            complex numbers, text in place of numbers, or True in place of a number |
| other   | any other error, such as AttributeError for an object of a wholly wrong type |
| slow    | more than a second |

`tests.faults.campaign.tally` counts answers, and those to NaN that a docstring explains, as right.
"""

from __future__ import annotations

import math
import re
import time
import warnings
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import torch

from tests.faults.valid import CALLS

NAN, INF = math.nan, math.inf
OBJECT = object()
# What replaces an argument of a kind; a value that is allowed there gives an answer.
NUMBERS = (
    *(NAN, INF, -INF, -1.5, 0, 1e30, -1e30, 10**400),
    *(1j, True, "abc", "1", [], [1.0, 2.0], OBJECT, None),
)
WRONG = {
    bool: ("no", "", 1, 0, 2.5, NAN, [], OBJECT, None),
    int: (*NUMBERS, 0.5, -1, np.zeros(2), b"1"),
    float: (*NUMBERS, np.zeros((2, 2)), b"1"),
    str: ("", "nonsense", 3, NAN, [], b"text", OBJECT, None),
    np.random.Generator: (0, "abc", [], NAN, OBJECT, None),
}
OF_OBJECTS = ("abc", 3, NAN, [], OBJECT, None)


# What names a place inside a list of an argument at least as well as the argument's own name.
INSIDE = {
    "batches": r"client \d+, step \d+",
    "requests": "client|sample",
    "targets": "client|sample",
    "arms": "arm",
    "configs": "config",
    "name": "device|strategy",
    "x": "samples",
}


class Damaged(NamedTuple):
    """A valid call whose argument `argument` is `value`."""

    call: str
    argument: str
    value: Any

    def __str__(self) -> str:
        shown = " ".join(repr(self.value).split())
        shown = re.sub(r"0x[0-9a-f]+", "...", shown)
        return f"{self.call}({self.argument}={shown[:60]})"


class Outcome(NamedTuple):
    """How a damaged call ended: a word of the table above, and what was said."""

    word: str
    said: str
    seconds: float


def damaged() -> Iterator[Damaged]:
    """Yield every damaged call, in a fixed order."""
    for call, make in CALLS.items():
        for argument, value in make()[1].items():
            for wrong in damages(value):
                yield Damaged(call, argument, wrong)


def damages(value: Any) -> list[Any]:
    """Return what a valid argument is replaced by, in turn."""
    for kind, wrong in WRONG.items():
        if type(value) is kind or (kind is np.random.Generator and isinstance(value, kind)):
            return list(wrong)
    if isinstance(value, (np.ndarray, torch.Tensor)):
        return _of_array(value)
    of_list = _of_list(value) if type(value) in (list, tuple) and len(value) else []
    return [*OF_OBJECTS, *of_list]


def _of_list(value: list | tuple) -> list[Any]:
    """Return damaged copies of a list: its length, its first entry, and that one's first."""
    kind = type(value)
    first, rest = value[0], list(value[1:])
    inner = damages(first) if not hasattr(first, "_fields") else list(OF_OBJECTS)
    return [kind(rest), kind([first, first, *rest]), *(kind([new, *rest]) for new in inner)]


def _of_array(value: np.ndarray | torch.Tensor) -> list[Any]:
    """Return damaged copies of an array: entries, shape, length and type."""
    plain = np.asarray(value)
    out: list[Any] = []
    for entry in (NAN, INF, -INF, -1.5, 1e30):
        changed = plain.astype(float)
        changed.flat[0] = entry
        out.append(changed)
    column = plain.reshape(-1, 1)
    twice = np.concatenate([plain, plain])
    out += [plain[:0], plain[:-1], twice, plain[None], column, plain + 1j * np.ones(plain.shape)]
    if isinstance(value, torch.Tensor):
        out = [torch.as_tensor(part) for part in out]
    if plain.dtype.kind == "i" and plain.ndim:
        out += [np.where(plain == plain.flat[0], most, plain) for most in (-1, 10**6, 2**63 - 1)]
        out += [np.full_like(plain, plain.flat[0])]
    texts = plain.astype(str)
    return [*out, texts, texts.astype(object), "abc", [[1], [1, 2]], 10**400, OBJECT, None]


def can_be_right(case: Damaged) -> bool:
    """Return whether there may be a right answer to the value of a damaged call."""
    valid = CALLS[case.call]()[1][case.argument]
    kind = getattr(case.value, "dtype", None)
    text = isinstance(case.value, (str, bytes)) or getattr(kind, "kind", "") in ("U", "S", "O")
    if case.value is OBJECT or _holds_nan(case.value) or (text and not isinstance(valid, str)):
        return False
    imaginary = isinstance(case.value, complex) or getattr(kind, "kind", "") == "c"
    return not (imaginary or getattr(kind, "is_complex", False) or _is_flag(case.value, valid))


def _is_flag(value: Any, valid: Any) -> bool:
    return type(valid) in (int, float) and value is True


def outcome(case: Damaged) -> Outcome:
    """Make the damaged call and return how it ended."""
    function, options = CALLS[case.call]()
    began = time.perf_counter()
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            answer = function(**options | {case.argument: case.value})
    except (ValueError, TypeError) as error:
        said = str(error)
        names = f"{re.escape(case.argument)}|{INSIDE.get(case.argument, case.argument)}"
        word = "good" if re.search(rf"\b({names})\b", said) else "vague"
    except Exception as error:
        word, said = "other", f"{type(error).__name__}: {error}"
    else:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            valid = CALLS[case.call]()
            lost = _holds_nan(answer) and not _holds_nan(valid[0](**valid[1]))
        lost = lost or not can_be_right(case)
        word, said = ("silent" if lost else "answer"), repr(answer)[:200]
    seconds = time.perf_counter() - began
    return Outcome("slow" if seconds > 1 else word, said, seconds)


def _holds_nan(answer: Any) -> bool:
    """Return whether an answer, an array or a tuple of them holds NaN."""
    if isinstance(answer, tuple):
        return any(map(_holds_nan, answer))
    if isinstance(answer, torch.Tensor):
        return bool(torch.isnan(answer).any()) if answer.is_floating_point() else False
    if isinstance(answer, (float, np.ndarray, np.floating)):
        array = np.asarray(answer)
        return array.dtype.kind in "fc" and bool(np.isnan(array).any())
    return False
