"""How the settings of a run are declared: each range once, beside its field.

    @settings
    class Config:
        rule: Annotated[str, OneOf(RULES)] = "drsr"
        seed: Seed = 0
        rounds: Count = 200
        theta: Share = 2 / 3

A config is a frozen pydantic dataclass. What a field allows is said by the types below; what
several fields must agree on is said in a method under pydantic's `model_validator(mode="after")`.
A refusal is one ValueError that names the field, its value and what is allowed, in one line.

Numbers are taken as `sflkit.checks` takes them: numpy's count as numbers and 5.0 as the integer 5,
but text and booleans do not, unlike in pydantic's own lax mode. Equal settings are thus equal
configs, with one result.
"""

from __future__ import annotations

import functools
from collections.abc import Collection
from dataclasses import dataclass
from typing import Annotated, Any, TypeVar, dataclass_transform

import pydantic

from sflkit import checks

Class = TypeVar("Class", bound=type)
# Stands in a message for the name of the field, which a type does not know.
_NAME = "<field>"


@dataclass(frozen=True)
class _Checked:
    """A type whose values go through `check` first, and are what it returns."""

    def check(self, value: Any) -> Any:
        raise NotImplementedError

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> Any:
        return pydantic.PlainValidator(self.check).__get_pydantic_core_schema__(source, handler)


@dataclass(frozen=True)
class Whole(_Checked):
    """An integer in [low, high]; a bound that is None is open."""

    low: int | None = None
    high: int | None = None

    def check(self, value: Any) -> int:
        """Return `value` as int; ValueError as `checks.integer`."""
        return checks.integer(_NAME, value, self.low, self.high)


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


@dataclass(frozen=True)
class OneOf(_Checked):
    """One of `allowed`, a collection that is looked at for every value.

    A registry may therefore grow after the config was declared.
    """

    allowed: Collection

    def check(self, value: Any) -> Any:
        """Return `value`; ValueError as `checks.choice`."""
        return checks.choice(_NAME, value, self.allowed)


Seed = Annotated[int, Whole(0)]
Count = Annotated[int, Whole(1)]
Positive = Annotated[float, Number(above=0)]
NotNegative = Annotated[float, Number(0)]
Share = Annotated[float, Number(0, 1)]
Flag = Annotated[bool, OneOf((False, True))]


@dataclass_transform(frozen_default=True)
def settings(cls: Class) -> Class:
    """Turn a class of annotated fields into a frozen pydantic dataclass with one-line errors.

    Raises
    ------
    ValueError
        From the class's constructor, where a field is unknown, missing or not allowed.
    """
    made = pydantic.dataclasses.dataclass(
        cls, frozen=True, config=pydantic.ConfigDict(extra="forbid")
    )
    construct = made.__init__

    @functools.wraps(construct)
    def __init__(self: Any, *args: Any, **fields: Any) -> None:
        try:
            construct(self, *args, **fields)
        except pydantic.ValidationError as error:
            raise ValueError(one_line(error, made)) from None

    made.__init__ = __init__
    return made


def one_line(error: pydantic.ValidationError, cls: type) -> str:
    """Return what is wrong with a config of class `cls`, in one line."""
    return "; ".join(dict.fromkeys(_text(detail, cls) for detail in error.errors()))


def _text(detail: Any, cls: type) -> str:
    name = str(detail["loc"][0]) if detail["loc"] else ""
    entry = " entry" if len(detail["loc"]) > 1 and isinstance(detail["loc"][1], int) else ""
    if detail["type"] == "value_error":
        return str(detail["ctx"]["error"]).replace(_NAME, name + entry)
    if detail["type"] in ("unexpected_keyword_argument", "unexpected_positional_argument"):
        fields = ", ".join(cls.__dataclass_fields__)
        return f"{name} is no field of {cls.__name__}; its fields are {fields}"
    if detail["type"] in ("missing", "missing_argument"):
        return f"{name} of {cls.__name__} must be given"
    what = detail["msg"][0].lower() + detail["msg"][1:]
    return f"{name}{entry}={detail['input']!r} is refused: {what}"
