"""Argument checks shared by every layer: a bad value stops here, is repeated in the message, and
the allowed ones are named.
"""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Iterable
from numbers import Integral, Real

import numpy as np


def integer(name: str, value, low: int | None = None, high: int | None = None) -> int:
    """Return `value` as int, or raise ValueError unless it is an integer in [low, high]."""
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, Integral):
        if (
            not isinstance(value, Real)
            or isinstance(value, (bool, np.bool_))
            or not _is_whole(value)
        ):
            raise ValueError(f"{name}={value!r} must be an integer{_range(low, high)}")
    whole = int(value)
    if (low is not None and whole < low) or (high is not None and whole > high):
        raise ValueError(f"{name}={value!r} must be an integer{_range(low, high)}")
    return whole


def cores() -> int:
    """Return how many cores this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def workers(name: str, value) -> int:
    """Return `value` as int, or raise ValueError unless it is an integer >= 1; warn if there are
    fewer cores (but not of two).
    """
    count = integer(name, value, 1)
    if count > max(2, cores()):
        warnings.warn(
            f"{name}={count} is more than the {cores()} cores of this process: they will wait for one another",
            stacklevel=3,
        )
    return count


def integer_fields(config, lowest: dict[str, int], optional: Iterable[str] = ()) -> None:
    """Check that fields of a frozen dataclass are integers >= their `lowest`, and store them as
    int; `optional` ones may be None.

    5 and 5.0 are then one config with one result. Raises ValueError as `integer`.
    """
    for name, low in lowest.items():
        value = getattr(config, name)
        if value is not None or name not in optional:
            object.__setattr__(config, name, integer(name, value, low))


def real(
    name: str,
    value,
    low: float | None = None,
    high: float | None = None,
    *,
    above: float | None = None,
    below: float | None = None,
) -> float:
    """Return `value` as float, or raise ValueError unless it is finite and low <= value <= high,
    above < value < below.
    """
    v = math.nan
    if (isinstance(value, Real) and not isinstance(value, (bool, np.bool_))) or (
        isinstance(value, np.ndarray) and value.ndim == 0 and value.dtype.kind in "iuf"
    ):
        try:
            v = float(value)
        except OverflowError:  # a Python integer beyond 1.8e308
            v = math.inf
    ok = math.isfinite(v)
    if ok:
        ok = (
            (low is None or v >= low)
            and (high is None or v <= high)
            and (above is None or v > above)
            and (below is None or v < below)
        )
    if not ok:
        raise ValueError(
            f"{name}={value!r} must be a finite number{_range(low, high, above, below)}"
        )
    return v


def array(
    name: str,
    value,
    *,
    ndim: int | None = None,
    low: float | None = None,
    high: float | None = None,
    above: float | None = None,
) -> np.ndarray:
    """Return `value` as a finite float64 array of `ndim` axes with entries in range; a ValueError
    names the first bad entry.
    """
    try:
        out = np.asarray(value)
        if out.dtype.kind not in "biufO":  # complex numbers would lose a part, texts would be read
            raise TypeError
        out = out.astype(float, copy=False)
    except (TypeError, ValueError, OverflowError):
        raise ValueError(f"{name}={value!r} must be an array of numbers") from None
    if ndim is not None and out.ndim != ndim:
        raise ValueError(f"{name} has shape {out.shape}; it must have {ndim} axes")
    bad = ~np.isfinite(out)
    if low is not None:
        bad |= out < low
    if high is not None:
        bad |= out > high
    if above is not None:
        bad |= out <= above
    if bad.any():
        raise ValueError(
            f"{name} holds {float(out[bad][0])!r}; entries must be finite numbers{_range(low, high, above)}"
        )
    return out


def choice(name: str, value, allowed: Iterable):
    """Return `value` if it is one of `allowed`, else raise ValueError that lists them."""
    allowed = list(allowed)
    if not any(type(value) is type(a) and value == a for a in allowed):
        raise ValueError(f"{name}={value!r} must be one of {', '.join(repr(a) for a in allowed)}")
    return value


def generator(rng) -> np.random.Generator:
    """Return `rng`, or raise ValueError unless it is a numpy Generator (never a seed: the caller
    owns the randomness).
    """
    if not isinstance(rng, np.random.Generator):
        raise ValueError(
            f"rng={rng!r} must be a numpy.random.Generator, for example numpy.random.default_rng(0)"
        )
    return rng


def simplex(name: str, value, *, ndim: int = 1, tol: float = 1e-9) -> np.ndarray:
    """Return `value` as float64 array whose last axis is a probability vector, or raise ValueError."""
    out = array(name, value, ndim=ndim, low=0.0)
    sums = out.sum(axis=-1)
    if out.shape[-1] == 0 or not np.allclose(sums, 1.0, rtol=0, atol=tol):
        raise ValueError(
            f"{name} must sum to 1 along its last axis; the sums are {np.array2string(np.atleast_1d(sums), threshold=4)}"
        )
    return out


def _is_whole(value: Real) -> bool:
    try:
        return math.floor(value) == value
    except (OverflowError, ValueError):  # infinite, NaN
        return False


def _range(low=None, high=None, above=None, below=None) -> str:
    parts = [
        f">= {low}" if low is not None else "",
        f"<= {high}" if high is not None else "",
        f"> {above}" if above is not None else "",
        f"< {below}" if below is not None else "",
    ]
    parts = [p for p in parts if p]
    return " " + " and ".join(parts) if parts else ""
