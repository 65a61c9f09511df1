"""What a self-checking exercise is, and what is said about an answer.

An exercise asks for one small function. It is judged by *properties*: things that every right
answer has and wrong ones lack, such as "doubling all counts changes nothing". A property calls the
answer with cases of its own and compares what comes back, so that any right way to write the
function passes, and no right number is stored or shown.

A property is written as a function of the answer and of a random generator:

>>> double = Exercise("98", "Twice", "Write `double(x)`.", "double(x)", number)
>>> @double.must(hint="Try 0.")
... def nothing_stays_nothing(f, rng):
...     "Twice nothing is nothing."
...     return f(0) == 0
>>> double.judge(lambda x: x + 1).failed
'nothing stays nothing'
>>> double.judge(lambda x: x + x).passed
True
"""

from __future__ import annotations

import inspect
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

_SHOWN = 160  # characters of a value or an error in a message


class Form(NamedTuple):
    """What an answer must return: `read` takes the value and the arguments of the call.

    It returns the value as plain numbers and arrays, or raises TypeError where it is no such thing.
    """

    words: str
    read: Callable[[Any, tuple], Any]


class Property(NamedTuple):
    """Something that every right answer has: a name, a sentence, a hint and a test."""

    name: str
    says: str
    hint: str
    test: Callable[[Callable, np.random.Generator], bool]
    shows: int


@dataclass(frozen=True)
class Feedback:
    """What is said about an answer; printed, it is the `text`.

    Attributes
    ----------
    state : {"right", "wrong", "wrong type", "not answered"}
    failed : str
        The first property that fails; empty unless `state` is "wrong".
    text : str
        For the reader.
    """

    state: str
    text: str
    failed: str = ""

    @property
    def passed(self) -> bool:
        """Whether the answer has every property."""
        return self.state == "right"

    def __repr__(self) -> str:
        return self.text


@dataclass(frozen=True)
class Exercise:
    """A task and the properties by which an answer to it is judged.

    Parameters
    ----------
    notebook : str
        The number of the notebook that it belongs to, which is its name.
    title, task : str
        For the reader; the task is Markdown and says what each argument is.
    call : str
        How the answer is called, such as "double(x)".
    returns : Form
    adapt : function, optional
        Turns the answer into the function that properties call, where the two differ.
    a : str
        What the answer is: "a function" or "a class".
    """

    notebook: str
    title: str
    task: str
    call: str
    returns: Form
    adapt: Callable[[Callable], Callable] = lambda answer: answer
    a: str = "a function"
    properties: list[Property] = field(default_factory=list)

    def must(self, *, hint: str, shows: int = 1) -> Callable:
        """Add a property: its name is the function's, its sentence the docstring.

        When it fails, the last `shows` calls of the answer are shown with what they returned.
        """

        def add(test: Callable) -> Callable:
            name = test.__name__.replace("_", " ")
            says = " ".join(inspect.getdoc(test).split())
            self.properties.append(Property(name, says, hint, test, shows))
            return test

        return add

    @property
    def expects(self) -> str:
        """What an answer must be, in words."""
        return f"{self.a}, called as {self.call}, that returns {self.returns.words}"

    def judge(self, answer: Any) -> Feedback:
        """Return what is to be said about `answer`; see `companion.teaching.check`."""
        head = f"Exercise {self.notebook}, {self.title}: "
        if answer is None:
            said = f"not answered yet. This exercise expects {self.expects}."
            return Feedback("not answered", head + said)
        expected = f"; this exercise expects {self.expects}."
        if wrong := self._wrong_type(answer):
            return Feedback("wrong type", f"{head}{wrong}{expected}")
        for number, held in enumerate(self.properties, start=1):
            watched = _Watched(self.adapt(answer), self.call, self.returns)
            try:
                if watched.passes(held.test):
                    continue
                seen = watched.seen(held.shows)
            except _WrongForm as error:
                return Feedback("wrong type", f"{head}{error}{expected}")
            except _Raised as error:
                seen = str(error)
            text = (
                f"{head}not yet. Property {number} of {len(self.properties)} fails, "
                f'"{held.name}".\n  What must hold: {held.says}\n  What was seen: {seen}\n'
                f"  Hint: {held.hint}"
            )
            return Feedback("wrong", text, held.name)
        names = "; ".join(held.name for held in self.properties)
        said = f"right. All {len(self.properties)} properties hold: {names}."
        return Feedback("right", head + said)

    def _wrong_type(self, answer: Any) -> str:
        """Say why `answer` cannot be called as it must be; empty if it can."""
        if not callable(answer):
            return f"the answer is {_short(answer)}, of type {type(answer).__name__}"
        if inspect.isclass(answer) != (self.a == "a class"):
            kind = "class" if inspect.isclass(answer) else "function"
            return f"the answer is the {kind} {answer.__name__}"
        names = self.call.partition("(")[2].rpartition(")")[0].split(", ")
        try:
            inspect.signature(answer).bind(*names)
        except TypeError as error:
            return f"the answer cannot be called with {len(names)} arguments ({error})"
        except ValueError:  # some built-in functions have no signature
            pass
        return ""


class _WrongForm(Exception):
    """The answer returned something of another type than asked for."""


class _Raised(Exception):
    """The answer raised an error."""


class _Watched:
    """The answer, which notes its calls, and is safe from changing a property's arrays."""

    def __init__(self, answer: Callable, call: str, returns: Form):
        self._answer = answer
        self._name = call.partition("(")[0]
        self._returns = returns
        self._calls: deque[tuple[tuple, Any]] = deque(maxlen=3)

    def __call__(self, *args: Any) -> Any:
        own = [a.copy() if isinstance(a, np.ndarray) else a for a in args]
        try:
            value = self._answer(*own)
        except Exception as error:
            said = _cut(f"{type(error).__name__}: {error}")
            raise _Raised(f"{self._written(args)} raised {said}") from error
        try:
            value = self._returns.read(value, args)
        except TypeError as error:
            raise _WrongForm(f"{self._written(args)} returned {error}") from error
        self._calls.append((args, value))
        return value

    def passes(self, test: Callable) -> bool:
        """Whether a test holds; numbers with which it cannot even compute do not hold."""
        try:
            return test(self, np.random.default_rng(0))
        except (ArithmeticError, IndexError):
            return False

    def seen(self, shows: int) -> str:
        """The last calls in words."""
        calls = [f"{self._written(a)} returned {_short(value)}" for a, value in self._calls]
        return ", and ".join(calls[-shows:]) + "."

    def _written(self, args: tuple) -> str:
        shown = ", ".join(_short(a) for a in args if not isinstance(a, np.random.Generator))
        return f"{self._name}({shown})"


def _cut(text: str) -> str:
    return text if len(text) <= _SHOWN else text[: _SHOWN - 3] + "..."


def _short(value: Any) -> str:
    """Write a value in at most `_SHOWN` characters; numbers with four digits."""
    if isinstance(value, np.ndarray):
        text = np.array2string(value, precision=4, separator=", ", threshold=12, max_line_width=999)
        return _cut(" ".join(text.split()))
    if isinstance(value, float | np.floating):
        return f"{value:.4g}"
    return _cut(repr(value))


def _read_number(value: Any, args: tuple) -> float:
    array = _numbers(value)
    if array.shape != ():
        raise TypeError(f"an array of shape {array.shape}, not a number")
    return float(array)


def _read_whole(value: Any, args: tuple) -> int:
    number = _read_number(value, args)
    if number != int(number):
        raise TypeError(f"{number:.6g}, which is not whole")
    return int(number)


def _numbers(value: Any) -> np.ndarray:
    """Return value as an array of finite real numbers, or raise TypeError."""
    try:
        array = np.asarray(value)
    except ValueError:  # rows of different lengths
        array = np.asarray(None)
    if array.dtype.kind not in "iuf":
        raise TypeError(f"{_short(value)}, of type {type(value).__name__}")
    if not np.isfinite(array).all():
        raise TypeError(f"{_short(value)}, which is not finite")
    return array


number = Form("a finite number", _read_number)
whole = Form("a whole number", _read_whole)


def vector(words: str, length: Callable[..., int] | None = None, *, integers: bool = False) -> Form:
    """Return the form of a vector with `length(*args)` entries; None allows any length."""

    def read(value: Any, args: tuple) -> np.ndarray:
        array = _numbers(value) if np.size(value) else np.empty(0, np.int64)
        if array.ndim != 1:
            raise TypeError(f"an array of shape {array.shape}, which is no vector")
        if length is not None and len(array) != length(*args):
            raise TypeError(f"{len(array)} entries where {length(*args)} are asked for")
        if integers and (array != array.astype(np.int64)).any():
            raise TypeError(f"{_short(array)}, whose entries are not all whole")
        return array.astype(np.int64 if integers else float)

    return Form(words, read)


def close(a: Any, b: Any) -> bool:
    """Whether two answers agree up to rounding."""
    return bool(np.allclose(a, b, rtol=1e-9, atol=1e-12))
