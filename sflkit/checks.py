"""Checks of arguments, shared by the whole library.

A check takes the name and the value of an argument and returns the value in the form that the
caller computes with; `generator` takes the value alone, as it is called rng everywhere. A value
that is not allowed raises a ValueError of one line, which names the argument, repeats the value and
says what is allowed.

Numbers are whatever Python and numpy count as numbers, so 5, 5.0 and numpy.int32(5) are all the
integer 5. Booleans and text are no numbers, whatever they could be read as. Only `labels` and
`indices` ask for an array of an integer type, since floats there are a sign of another array.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable
from numbers import Real
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike

Value = TypeVar("Value")
Array = TypeVar("Array")
# What numpy counts and places things with; a size beyond it could only overflow or never end.
LARGEST = 2**63 - 1
MAX_AXES = 32  # of numpy's iterators; an array may have twice as many
MAX_LABEL = 10**6  # labels are counted in arrays with one number for each up to the largest


def integer(
    name: str,
    value: Any,
    low: int | None = None,
    high: int | None = None,
    *,
    any_size: bool = False,
) -> int:
    """Return `value` as an int.

    Parameters
    ----------
    name : str
        What the message calls the value.
    value : number
        A whole number of any type, such as 5 or 5.0.
    low, high : int, optional
        The smallest and the largest integer that is allowed; None leaves that side open, up to
        `LARGEST`.
    any_size : bool
        Whether integers beyond `LARGEST` are allowed, as they are for seeds.

    Raises
    ------
    ValueError
        If `value` is no whole number in [low, high].
    """
    if _is_whole(value):
        whole = int(value)
        too_large = not any_size and abs(whole) > LARGEST
        if too_large and high is None:
            high = LARGEST
        if not too_large and (low is None or whole >= low) and (high is None or whole <= high):
            return whole
    raise ValueError(f"{name}={shown(value)} must be an integer{limits(low, high)}")


def last_round(stop_after: int | None, rounds: int) -> int:
    """Return the round after which a run of `rounds` ends: `stop_after`, or its last.

    Raises
    ------
    ValueError
        If `stop_after` is neither None nor an integer in [1, rounds].
    """
    return rounds if stop_after is None else integer("stop_after", stop_after, 1, rounds)


def flag(name: str, value: Any) -> bool:
    """Return `value` as a bool.

    Only booleans, Python's or numpy's, are allowed: any other object would count as true or false
    without a word, so that "no" would mean yes.

    Raises
    ------
    ValueError
        If `value` is no boolean.
    """
    if isinstance(value, (bool, np.bool_)):
        return bool(value)
    if isinstance(value, np.ndarray) and value.dtype == bool and value.ndim == 0:
        return bool(value)
    raise ValueError(f"{name}={shown(value)} must be True or False")


def instance(name: str, value: Any, kind: type[Value]) -> Value:
    """Return `value` if it is an object of class `kind`.

    Raises
    ------
    ValueError
        If it is not; the message says what it is.
    """
    if isinstance(value, kind):
        return value
    raise ValueError(
        f"{name} must be a {kind.__module__}.{kind.__name__}; "
        f"it is {shown(value, 80)} of type {type(value).__name__}"
    )


def shown(value: Any, most: int = 500) -> str:
    """Return the text of any object, in one line and short enough for a message."""
    try:
        text = " ".join(repr(value).split())
    except RecursionError:
        text = f"<a {type(value).__name__} that nests too deeply>"
    return text if len(text) <= most else f"{text[: most - 3]}..."


def process_cores() -> int:
    """Return how many cores this process may use, by its affinity and its container's quota."""
    import joblib

    return joblib.cpu_count()


def workers(name: str, value: Any) -> int:
    """Return `value`, a number of threads or processes, as an int.

    More workers than cores are allowed, with a warning, since they only wait for one another. Two
    never cause the warning: notebooks ask for two wherever they run.

    Raises
    ------
    ValueError
        If `value` is no integer >= 1.
    """
    count = integer(name, value, 1)
    if count > max(2, process_cores()):
        warnings.warn(
            f"{name}={count} is more than the {process_cores()} cores of this process: "
            "they will wait for one another",
            stacklevel=3,
        )
    return count


def real(
    name: str,
    value: Any,
    low: float | None = None,
    high: float | None = None,
    *,
    above: float | None = None,
    below: float | None = None,
) -> float:
    """Return `value` as a float.

    Parameters
    ----------
    name : str
        What the message calls the value.
    value : number
        A number of any type, or a numpy array without axes that holds one.
    low, high : float, optional
        Bounds that are allowed themselves: low <= value <= high.
    above, below : float, optional
        Bounds that are not: above < value < below.

    Raises
    ------
    ValueError
        If `value` is no number, is infinite or NaN, or lies outside the bounds.
    """
    number = _as_float(value)
    if (
        math.isfinite(number)
        and (low is None or number >= low)
        and (high is None or number <= high)
        and (above is None or number > above)
        and (below is None or number < below)
    ):
        return number
    allowed = limits(low, high, above, below)
    raise ValueError(f"{name}={shown(value)} must be a finite number{allowed}")


def values(name: str, value: ArrayLike) -> np.ndarray:
    """Return `value` as a plain array of its values: without an index, a mask or a history.

    It is the one conversion of all checks of arrays. What numpy cannot read (a ragged list, a
    tensor of a type that numpy does not have, more axes than numpy can go through) comes back as an
    array of one None, which they refuse.

    Raises
    ------
    ValueError
        If entries are masked, or `value` is a tensor that carries gradients, which an array would
        lose without a word.
    """
    if np.ma.is_masked(value):
        raise ValueError(f"{name} has masked entries; fill them, or leave them out")
    if getattr(value, "requires_grad", False):
        raise ValueError(f"{name} is a tensor with gradients; pass its values, .detach()")
    try:
        out = np.asarray(value)
    except (TypeError, ValueError, RuntimeError):
        return np.asarray(None)
    return native(out) if out.ndim <= MAX_AXES else np.asarray(None)


def native(array: np.ndarray) -> np.ndarray:
    """Return an array whose numbers have this machine's byte order and at most 64 bits."""
    if array.dtype.kind == "f" and array.dtype.itemsize > 8:
        return array.astype(float)
    return array if array.dtype.isnative else array.astype(array.dtype.newbyteorder("="))


def array(
    name: str,
    value: ArrayLike,
    *,
    ndim: int | None = None,
    low: float | None = None,
    high: float | None = None,
    above: float | None = None,
) -> np.ndarray:
    """Return `value` as an array of float64.

    Parameters
    ----------
    name : str
        What the message calls the value.
    value : array of numbers
        Booleans count as 0 and 1 here, since masks are summed and averaged.
    ndim : int, optional
        The number of axes that it must have.
    low, high, above : float, optional
        Bounds of every entry, as in `real`.

    Raises
    ------
    ValueError
        If `value` is no array of numbers, has another number of axes, or holds an entry that is
        not finite or out of bounds; the message names the first such entry.
    """
    out = values(name, value)
    try:
        if out.dtype.kind not in "biufO":  # complex numbers would lose a part, texts would be read
            raise TypeError
        # None becomes NaN, which is named below.
        if out.dtype == object and not all(
            isinstance(entry, Real | np.bool_ | None) and not isinstance(entry, np.timedelta64)
            for entry in out.flat
        ):
            raise TypeError
        if out.ndim == 0 and out.item() is None:
            raise TypeError
        out = out.astype(float, copy=False)
    except (TypeError, ValueError, OverflowError):
        raise ValueError(f"{name}={shown(value)} must be an array of numbers") from None
    bad = ~np.isfinite(out)
    return _bounded(name, out, ndim, "finite numbers", bad, low, high, above)


def _bounded(
    name: str, out: np.ndarray, ndim: int | None, what: str, bad: np.ndarray, *bounds: float | None
) -> np.ndarray:
    """Return an array of so many axes without a `bad` entry, and with all inside the bounds, which
    are low, high and, of numbers, above."""
    if ndim is not None and out.ndim != ndim:
        raise ValueError(f"{name} has shape {out.shape}; it must have {ndim} axes")
    for beyond, bound in zip((np.less, np.greater, np.less_equal), bounds):
        bad = bad if bound is None else bad | beyond(out, bound)
    if bad.any():
        first = out[bad][0].item()
        raise ValueError(f"{name} holds {first!r}; entries must be {what}{limits(*bounds)}")
    return out


def shape(name: str, value: Array, *allowed: tuple[int, ...], like: str = "") -> Array:
    """Return `value`, an array or tensor, if its shape is one of those that are allowed.

    Raises
    ------
    ValueError
        If it is another one; the message names it, and the argument `like` that asks for it.
    """
    if (found := tuple(np.shape(value))) not in allowed:
        text = " or ".join(map(str, allowed)) + (f", as {like} has it" if like else "")
        raise ValueError(f"{name} has shape {found}; it must be {text}")
    return value


def integers(
    name: str,
    value: ArrayLike,
    *,
    ndim: int | None = None,
    low: int | None = None,
    high: int | None = None,
) -> np.ndarray:
    """Return `value` as an array of int64, which may be the one that was given.

    Floats that are whole numbers count as integers, as in `integer`.

    Raises
    ------
    ValueError
        If `value` is no array of integers, has another number of axes, or holds an entry that is
        out of bounds; the message names the first such entry.
    """
    out = values(name, value)
    if out.ndim == 0 and out.dtype == object:  # ragged, or no numbers
        raise ValueError(f"{name}={shown(value)} must be an array of integers")
    if out.dtype.kind not in "iu":
        objects = out.flat if out.dtype == object else ()
        if out.dtype == bool or any(isinstance(entry, bool | np.bool_) for entry in objects):
            raise ValueError(
                f"{name}={shown(value)} must be an array of integers; booleans are none"
            )
        floats = array(name, out)
        broken = floats[(floats != np.floor(floats)) | (np.abs(floats) >= 2.0**63)]
        if broken.size:
            raise ValueError(
                f"{name} holds {float(broken[0])!r}; entries must be integers{limits(low, high)}"
            )
        # entry by entry, since floats do not tell all integers of an array of objects apart
        exact = [int(entry) for entry in out.flat] if out.dtype == object else floats
        out = np.reshape(np.array(exact, dtype=np.int64), floats.shape)
    out = _bounded(name, out, ndim, "integers", out > LARGEST, low, high)
    return out.astype(np.int64, copy=False)


def choice(name: str, value: Value, allowed: Iterable[Any]) -> Value:
    """Return `value` if it is one of `allowed`.

    The types must agree as well, so that True is not taken for 1.

    Raises
    ------
    ValueError
        If it is not; the message lists what is allowed.
    """
    allowed = list(allowed)
    if not any(type(value) is type(a) and value == a for a in allowed):
        raise ValueError(f"{name}={shown(value)} must be one of {', '.join(map(repr, allowed))}")
    return value


def generator(rng: Any) -> np.random.Generator:
    """Return `rng` if it is a numpy generator.

    A seed is refused: whoever calls owns the randomness, and a seed taken here would start the same
    numbers again at every call.

    Raises
    ------
    ValueError
        If `rng` is anything but a `numpy.random.Generator`.
    """
    if not isinstance(rng, np.random.Generator):
        raise ValueError(
            f"rng={shown(rng)} must be a numpy.random.Generator, for example "
            "numpy.random.default_rng(0)"
        )
    return rng


def simplex(name: str, value: ArrayLike, *, ndim: int = 1, tol: float = 1e-9) -> np.ndarray:
    """Return `value` as an array of float64 whose last axis is a probability vector.

    Parameters
    ----------
    name : str
        What the message calls the value.
    value : array of numbers >= 0
    ndim : int
        The number of axes that it must have.
    tol : float
        By how much a sum may differ from 1.

    Raises
    ------
    ValueError
        As `array`, or if the entries along the last axis do not sum to 1.
    """
    out = array(name, value, ndim=ndim, low=0.0)
    sums = out.sum(axis=-1)
    if out.shape[-1] == 0 or not np.allclose(sums, 1.0, rtol=0, atol=tol):
        found = np.array2string(np.atleast_1d(sums), threshold=4)
        raise ValueError(f"{name} must sum to 1 along its last axis; the sums are {found}")
    return out


def labels(name: str, value: ArrayLike) -> np.ndarray:
    """Return `value`, the labels of a data set, as an array of integers.

    Raises
    ------
    ValueError
        If it is no vector of integers in [0, `MAX_LABEL`] with at least one entry.
    """
    out = values(name, value)
    if out.ndim != 1 or not len(out) or out.dtype.kind not in "iu":
        raise ValueError(
            f"{name} has shape {out.shape} and type {out.dtype}; "
            "it must be a non-empty vector of integers"
        )
    integers(name, out, low=0, high=MAX_LABEL)
    return out


def indices(name: str, value: ArrayLike, size: int) -> np.ndarray:
    """Return `value`, places in something of `size` entries, as a vector of int64.

    Raises
    ------
    ValueError
        If it is no vector of integers in [0, size); it may be empty.
    """
    out = values(name, value)
    if out.ndim != 1 or (out.size and out.dtype.kind not in "iu"):
        raise ValueError(f"{name}={shown(value)} must be a vector of integers")
    return integers(name, out, low=0, high=size - 1)


def limits(
    low: float | None = None,
    high: float | None = None,
    above: float | None = None,
    below: float | None = None,
) -> str:
    """Return bounds as the end of a message, such as " >= 0 and < 1"; nothing without bounds."""
    bounds = {">=": low, "<=": high, ">": above, "<": below}
    parts = [f"{sign} {bound}" for sign, bound in bounds.items() if bound is not None]
    return " " + " and ".join(parts) if parts else ""


def _is_whole(value: Any) -> bool:
    if not isinstance(value, Real) or isinstance(value, (bool, np.bool_, np.timedelta64)):
        return False
    try:
        return math.floor(value) == value
    except (OverflowError, ValueError):  # infinite, NaN
        return False


def _as_float(value: Any) -> float:
    """Return `value` as a float, NaN where it is no number and infinity where it is too large."""
    # numpy counts a timedelta64 among the integers, whatever its unit
    is_number = isinstance(value, Real)
    is_number &= not isinstance(value, (bool, np.bool_, np.timedelta64))
    if isinstance(value, np.ndarray):
        is_number = value.ndim == 0 and value.dtype.kind in "iuf"
    if not is_number:
        return math.nan
    try:
        return float(value)
    except OverflowError:  # a Python integer beyond 1.8e308
        return math.inf
