"""Valid calls whose arrays come in another dress, generated from `tests.faults.valid`.

| kind              | what is given                                            | a right answer   |
|-------------------|----------------------------------------------------------|------------------|
| crossed indices   | pandas objects whose index and columns run backwards     | the valid call's |
| masked arrays     | arrays of which an entry is masked                       | none             |
| empty masks       | masked arrays of which none is                           | the valid call's |
| lists             | the arrays' numbers in lists                             | the valid call's |
| reused buffers    | arrays that the caller fills anew when it has the answer | stays as it was  |
| read-only arrays  | arrays that cannot be written, backwards in memory       | the valid call's |
| shared arrays     | one array for all arguments that are equal               | the valid call's |
| foreign bytes     | arrays of the other byte order                           | the valid call's |
| narrow numbers    | float16, float32 and int8 that hold the same number      | the valid call's |

An answer is everything that can be reached from it: fields, arrays, tensors, models and, of a
method, its object. Where there is no right answer, every answer is silently wrong.
"""

from __future__ import annotations

import copy
import functools
import re
import time
import types
import warnings
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple
from unittest import mock

import numpy as np
import pandas as pd
import torch
from torch import nn

from tests.faults.damaged_calls import INSIDE, Outcome
from tests.faults.valid import CALLS

Change = Callable[[np.ndarray], Any]


class Dressed(NamedTuple):
    """A valid call of which one argument, or all, come in the dress of a kind."""

    kind: str
    call: str
    argument: str

    def __str__(self) -> str:
        return f"{self.call}({self.argument} as {self.kind})"


def crossed(values: np.ndarray) -> Any:
    """Return a Series or DataFrame of these values whose labels run backwards."""
    if values.ndim not in (1, 2):
        return values
    backwards = [range(n)[::-1] for n in values.shape]
    return (pd.Series if values.ndim == 1 else pd.DataFrame)(values, *backwards)


def masked(values: np.ndarray) -> np.ma.MaskedArray:
    """Return these values with the first of them masked."""
    mask = np.zeros(values.shape, bool)
    mask.flat[0] = True
    return np.ma.array(values, mask=mask)


def read_only(values: np.ndarray) -> np.ndarray:
    """Return these values in an array that cannot be written, with strides that run backwards."""
    out = values[::-1].copy()[::-1] if values.ndim else values.copy()
    out.flags.writeable = False
    return out


def foreign_bytes(values: np.ndarray) -> np.ndarray:
    """Return these values in the byte order of other processors."""
    return values.astype(values.dtype.newbyteorder())


def narrow(value: Any) -> Any:
    """Return a number in the narrowest type that holds it, and arrays as they are."""
    kinds = (np.int8, np.int16) if isinstance(value, int) else (np.float16, np.float32)
    fits = [kind for kind in kinds if kind is not np.int8 or -128 <= value < 128]
    held = (kind(value) for kind in fits if not isinstance(value, np.ndarray))
    with np.errstate(over="ignore"):
        return next((small for small in held if float(small) == value), value)


# What a state keeps of the clock is no part of an answer.
STILL = functools.partial(mock.patch, "time.perf_counter", lambda: 0.0)
EQUAL: dict[str, Change] = {  # what must be answered as the valid call is, or refused
    "crossed indices": crossed,
    "empty masks": np.ma.array,
    "lists": np.ndarray.tolist,
    "read-only arrays": read_only,
    "foreign bytes": foreign_bytes,
}
NARROW = "narrow numbers"  # in which numbers alone come as well
WITH_CALLER = ("reused buffers", "shared arrays")
CHANGES = EQUAL | {"masked arrays": masked, NARROW: narrow}
KINDS = (*CHANGES, *WITH_CALLER)
ALL = "all arguments"


def arrays(value: Any) -> Iterator[np.ndarray | torch.Tensor]:
    """Yield the arrays of an argument: itself, or those in its lists."""
    if isinstance(value, (np.ndarray, torch.Tensor)):
        yield value
    elif type(value) in (list, tuple):
        for part in value:
            yield from arrays(part)


def dressed(value: Any, kind: str) -> Any:
    """Return an argument with all of its arrays, or numbers, changed as a kind says."""
    if type(value) in (list, tuple):
        return type(value)(dressed(part, kind) for part in value)
    if isinstance(value, torch.Tensor):
        return masked(np.asarray(value).copy()) if kind == "masked arrays" else value
    if isinstance(value, np.ndarray) and kind != NARROW:
        return CHANGES[kind](value.copy())
    return narrow(value) if _is_narrow(kind, value) else value


def _is_narrow(kind: str, value: Any) -> bool:
    return kind == NARROW and type(value) in (int, float) and bool(np.isfinite(value))


def _takes(kind: str, value: Any) -> bool:
    """Return whether an argument can come in the dress of a kind."""
    if type(value) in (list, tuple):
        return any(_takes(kind, part) for part in value)
    if kind == NARROW:
        return _is_narrow(kind, value)
    return isinstance(value, (np.ndarray, torch.Tensor))


def cases() -> Iterator[Dressed]:
    """Yield every call in every dress, in a fixed order."""
    for call, make in CALLS.items():
        options = make()[1]
        for kind in KINDS:
            names = [name for name, value in options.items() if _takes(kind, value)]
            if kind not in WITH_CALLER:
                yield from (Dressed(kind, call, name) for name in names)
            if (kind in WITH_CALLER and names) or (kind != "masked arrays" and len(names) > 1):
                yield Dressed(kind, call, ALL)


@STILL()
def outcome(case: Dressed) -> Outcome:
    """Make the call and return how it ended: good, right, vague, silent, other or slow."""
    torch.manual_seed(0)  # some of the models are made without a seed
    function, options = CALLS[case.call]()
    options = copy.deepcopy(options)
    names = list(options) if case.argument == ALL else [case.argument]
    if case.kind in CHANGES:
        options |= {name: dressed(options[name], case.kind) for name in names}
    elif case.kind == "shared arrays":
        options = _shared(options)
    before = said_by(list(arrays(list(options.values())))) if case.kind in WITH_CALLER else None
    began = time.monotonic()
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            answer = function(**options)
    except (ValueError, TypeError) as error:
        word, said = _word(names, str(error)), str(error)
    except Exception as error:
        word, said = "other", f"{type(error).__name__}: {error}"
    else:
        word, said = _judged(case, (answer, getattr(function, "__self__", None)), options, before)
    seconds = time.monotonic() - began
    return Outcome("slow" if seconds > 1 else word, said, seconds)


def _word(names: list[str], said: str) -> str:
    known = "|".join(f"{re.escape(name)}|{INSIDE.get(name, name)}" for name in names)
    return "good" if re.search(rf"\b({known})\b", said) else "vague"


def _judged(case: Dressed, answer: Any, options: dict, before: Any) -> tuple[str, str]:
    """Return the word for an answer, and what is wrong with it."""
    if case.kind == "masked arrays":  # which has no right answer
        return "silent", repr(answer)[:200]
    right = answered(case.call)
    if said_by(answer) != right:
        return "silent", f"another answer: {repr(answer)[:200]}"
    if case.kind == "reused buffers":
        for values in arrays(list(options.values())):
            values[...] = not values.any() if values.dtype in (bool, torch.bool) else 77
        if said_by(answer) != right:
            return "silent", "the answer changed with the buffer"
    elif before is not None and before != said_by(list(arrays(list(options.values())))):
        return "silent", "an argument was written to"
    return "right", ""


def _shared(options: dict[str, Any]) -> dict[str, Any]:
    """Return arguments of which those that hold equal arrays hold the same one."""
    known: dict[Any, Any] = {}
    out = {}
    for name, value in options.items():
        is_array = isinstance(value, (np.ndarray, torch.Tensor))
        out[name] = known.setdefault(repr(said_by(value)), value) if is_array else value
    return out


@functools.cache
@STILL()
def answered(call: str) -> Any:
    """Return what the valid call answers."""
    torch.manual_seed(0)
    function, options = CALLS[call]()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return said_by((function(**copy.deepcopy(options)), getattr(function, "__self__", None)))


def said_by(thing: Any, seen: frozenset[int] = frozenset()) -> Any:
    """Return everything that an object says, in a form that can be compared."""
    if isinstance(thing, np.random.Generator):
        return repr(thing.bit_generator.state)
    if isinstance(thing, (bool, int, float, complex, str, bytes, type, type(None), np.generic)):
        return repr(thing)
    if id(thing) in seen:
        return "again"
    seen |= {id(thing)}
    tell = functools.partial(said_by, seen=seen)
    if isinstance(thing, torch.Tensor):
        thing = thing.detach().cpu().numpy()
    if isinstance(thing, np.ndarray):
        return thing.shape, thing.dtype.str, thing.tobytes()
    if isinstance(thing, (pd.DataFrame, pd.Series)):
        return thing.to_json(double_precision=15)
    if isinstance(thing, nn.Module):
        return tell(dict(thing.state_dict()))
    if isinstance(thing, (list, tuple)):
        return [tell(part) for part in thing]
    if isinstance(thing, (set, frozenset)):
        return sorted(map(repr, thing))
    if isinstance(thing, dict | types.MappingProxyType):
        return [(tell(key), tell(part)) for key, part in thing.items()]
    if isinstance(thing, functools.partial):
        return tell([thing.func, thing.args, thing.keywords])
    if isinstance(thing, types.FunctionType):
        cells = thing.__closure__ or ()
        return [thing.__qualname__, *(tell(cell.cell_contents) for cell in cells)]
    if isinstance(thing, types.MethodType):
        return [thing.__func__.__qualname__, tell(thing.__self__)]
    fields = dict(getattr(thing, "__dict__", {}))
    for cls in type(thing).__mro__:
        slots = getattr(cls, "__slots__", ())
        fields |= {name: getattr(thing, name, None) for name in slots if not name.startswith("__")}
    return [type(thing).__qualname__, tell(fields)]
