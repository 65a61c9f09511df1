"""How the settings of a run are declared: each range once, beside its field.

    @settings
    class Config:
        rule: Annotated[str, OneOf(RULES)] = "drsr"
        seed: Seed = 0
        rounds: Count = 200
        theta: Share = 2 / 3
        hidden: Count | tuple[Count, ...] | None = None
        name: str = ""

A config is a frozen pydantic dataclass. What a field allows is said by the types below; what
several fields must agree on is said in a method under pydantic's `model_validator(mode="after")`.
A refusal is one ValueError of one line that names the field, its value and what is allowed.

Numbers are taken as `sflkit.checks` takes them: numpy's count as numbers and 5.0 as the integer 5,
but text and booleans do not, unlike in pydantic's own lax mode. Defaults go through the same door
as values. Equal settings are thus equal configs, with one result.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from types import NoneType, UnionType
from typing import (
    Annotated,
    Any,
    TypeVar,
    Union,
    dataclass_transform,
    get_args,
    get_origin,
    get_type_hints,
)

import numpy as np
import pydantic
from pydantic.dataclasses import is_pydantic_dataclass

from sflkit import checks
from sflkit.registry import Registry

Class = TypeVar("Class", bound=type)
# Stands in a message for the name of the field, which a type does not know.
_NAME = "<field>"
_WORDS = {str: "text", NoneType: "None"}


class _Checked:
    """A type whose values go through `check` first, and are what it returns."""

    def check(self, value: Any) -> Any:
        """Return `value` as the field holds it, or raise ValueError."""
        raise NotImplementedError

    def expected(self) -> str:
        """Return what is allowed, as a message says it behind "must be"."""
        raise NotImplementedError

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> Any:
        return handler.generate_schema(Annotated[Any, pydantic.PlainValidator(self.check)])


@dataclass(frozen=True)
class Whole(_Checked):
    """An integer in [low, high]; a bound that is None is open, see `checks.integer`."""

    low: int | None = None
    high: int | None = None
    any_size: bool = False

    def check(self, value: Any) -> int:
        """Return `value` as int; ValueError as `checks.integer`."""
        return checks.integer(_NAME, value, self.low, self.high, any_size=self.any_size)

    def expected(self) -> str:
        """Return what is allowed, as a message says it."""
        return f"an integer{checks.limits(self.low, self.high)}"


@dataclass(frozen=True)
class Number(_Checked):
    """A finite number with low <= value <= high and above < value < below."""

    low: float | None = None
    high: float | None = None
    above: float | None = None
    below: float | None = None

    def check(self, value: Any) -> float:
        """Return `value` as float; ValueError as `checks.real`."""
        return checks.real(_NAME, value, self.low, self.high, above=self.above, below=self.below)

    def expected(self) -> str:
        """Return what is allowed, as a message says it."""
        return f"a finite number{checks.limits(self.low, self.high, self.above, self.below)}"


@dataclass(frozen=True, eq=False)
class OneOf(_Checked):
    """One of `allowed`, a collection that is looked at for every value.

    A registry may therefore grow after the config was declared.
    """

    allowed: Collection

    def check(self, value: Any) -> Any:
        """Return `value`, numpy's as Python's own; ValueError as `checks.choice`."""
        plain = value.item() if isinstance(value, np.generic) else value
        return checks.choice(_NAME, plain, self.allowed)

    def expected(self) -> str:
        """Return what is allowed, as a message says it."""
        return f"one of {', '.join(map(repr, self.allowed))}"


Seed = Annotated[int, Whole(0, any_size=True)]
Count = Annotated[int, Whole(1)]
Positive = Annotated[float, Number(above=0)]
NotNegative = Annotated[float, Number(0)]
Share = Annotated[float, Number(0, 1)]
Flag = Annotated[bool, OneOf((False, True))]


@dataclass_transform(frozen_default=True)
def settings(cls: Class) -> Class:
    """Turn a class of annotated fields into a frozen pydantic dataclass with one-line errors.

    Fields that hold several values are tuples; lists and arrays are taken for them, but sets are
    not, which have no order.

    Raises
    ------
    TypeError
        If a field is a bare int, float or bool: pydantic would take text and booleans for numbers.
    ValueError
        From the class's constructor, where a field is unknown, missing or not allowed.
    """
    made = pydantic.dataclasses.dataclass(
        cls, frozen=True, config=pydantic.ConfigDict(extra="forbid", validate_default=True)
    )
    for name, kind in _kinds(made).items():
        if bare := _bare_numbers(kind):
            raise TypeError(
                f"{name} of {cls.__name__} is a bare {bare}; say what it allows by Whole, Number "
                "or one of the names made of them in sflkit.config"
            )
    construct = made.__init__

    @functools.wraps(construct)
    def __init__(self: Any, *args: Any, **fields: Any) -> None:
        given = _by_name(type(self), args, fields)
        try:
            construct(self, **given)
        except pydantic.ValidationError as error:
            raise ValueError(_one_line(error, type(self), given)) from None

    made.__init__ = __init__
    return made


def _kinds(cls: type) -> dict[str, Any]:
    """Return the annotation of every field of a config class, with what `Annotated` adds."""
    hints = get_type_hints(cls, include_extras=True)
    return {field.name: hints[field.name] for field in dataclasses.fields(cls)}


def _by_name(cls: type, args: tuple, fields: dict[str, Any]) -> dict[str, Any]:
    """Return all values that a config was given by the names of their fields."""
    names = tuple(field.name for field in dataclasses.fields(cls))
    if len(args) > len(names):
        raise ValueError(
            f"{args[len(names)]!r} is one value too many for {cls.__name__}; "
            f"its {len(names)} fields are {', '.join(names)}"
        )
    by_place = dict(zip(names, args))
    for name in by_place.keys() & fields.keys():
        raise ValueError(f"{name} of {cls.__name__} is given twice, by its place and by its name")
    for name, value in (by_place | fields).items():
        if isinstance(value, (set, frozenset)):
            raise ValueError(f"{name}={value!r} must be a list or a tuple; a set has no order")
    return by_place | fields


def _bare_numbers(kind: Any) -> str:
    """Return the name of a number type in `kind` that no check goes with, or nothing."""
    if get_origin(kind) is Annotated and any(isinstance(m, _Checked) for m in kind.__metadata__):
        return ""
    if kind in (int, float, bool):
        return kind.__name__
    return next(filter(None, map(_bare_numbers, get_args(kind))), "")


def _expected(kind: Any) -> str:
    """Return what an annotation allows, as a message says it behind "must be"."""
    origin, inside = get_origin(kind), get_args(kind)
    if origin is Annotated:
        checked = [mark for mark in inside[1:] if isinstance(mark, _Checked)]
        return checked[0].expected() if checked else _expected(inside[0])
    if origin in (Union, UnionType):
        return " or ".join(map(_expected, inside))
    if origin is tuple and inside[-1] is Ellipsis:
        return f"a tuple whose entries are each {_expected(inside[0])}"
    if origin is tuple:
        return f"a tuple of {len(inside)} entries: {', '.join(map(_expected, inside))}"
    return _WORDS.get(kind) or f"of type {getattr(kind, '__name__', kind)}"


def _one_line(error: pydantic.ValidationError, cls: type, given: Mapping[str, Any]) -> str:
    """Return what is wrong with the values that a config of class `cls` was given, in one line."""
    by_field: dict[Any, list] = {}
    for detail in error.errors(include_url=False):
        by_field.setdefault(detail["loc"][0] if detail["loc"] else None, []).append(detail)
    return "; ".join(_refusal(field, details, cls, given) for field, details in by_field.items())


def _refusal(field: Any, details: list, cls: type, given: Mapping[str, Any]) -> str:
    """Return what is wrong with one field; None stands for what a validator of all fields says."""
    first, kinds = details[0], _kinds(cls)
    if first["type"] == "unexpected_keyword_argument":
        return f"{field} is no field of {cls.__name__}; its fields are {', '.join(kinds)}"
    if first["type"] == "missing" and len(first["loc"]) == 1:
        return f"{field} of {cls.__name__} must be given"
    for detail in details:
        said = str(detail.get("ctx", {}).get("error", ""))
        if said and _NAME not in said:  # by a validator of the config's own
            return said
        if said and any(isinstance(step, int) for step in detail["loc"]):
            return said.replace(_NAME, f"{field} entry")
    kind = kinds[field]
    if first["type"] == "string_type" and get_origin(kind) is tuple:
        return f"{field} entry={first['input']!r} must be {_WORDS[str]}"
    value = given.get(field, first["input"])  # a default was not given
    own = field in ("data", "model") and not isinstance(value, str)
    more = f"; your own is for run(config, {field}=...), where it takes one" if own else ""
    return f"{field}={checks.shown(value, 100)} must be {_expected(kind)}{more}"


@functools.cache
def registries(cls: type) -> dict[str, Registry]:
    """Return the registries from which the fields of a config take their values, by field.

    A class that `settings` did not declare has none.
    """
    if not is_pydantic_dataclass(cls):
        return {}
    hints = get_type_hints(cls, include_extras=True)
    return {
        field: mark.allowed
        for field, hint in hints.items()
        for mark in getattr(hint, "__metadata__", ())
        if isinstance(mark, OneOf) and isinstance(mark.allowed, Registry)
    }
