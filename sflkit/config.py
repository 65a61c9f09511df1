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
import inspect
from collections.abc import Callable, Collection, Mapping
from functools import partial, wraps
from typing import Annotated, Any, TypeVar, dataclass_transform, get_args, get_type_hints

import numpy as np
import pydantic

from sflkit import checks

Class = TypeVar("Class", bound=type)
Function = TypeVar("Function", bound=Callable)
# Stands in a message for the name of the field, which a type does not know.
_NAME = "<field>"
# What pydantic calls the other kinds of refusal.
_WORDS = {
    "string_type": "text",
    "none_required": "None",
    "tuple_type": "a tuple or a list",
    "missing": "a tuple with more entries",
    "too_long": "a tuple with fewer entries",
}


def Whole(
    low: int | None = None, high: int | None = None, any_size: bool = False
) -> pydantic.PlainValidator:
    """Return what allows an integer in [low, high]; a bound that is None is open."""
    options = {"low": low, "high": high, "any_size": any_size}
    return pydantic.PlainValidator(partial(checks.integer, _NAME, **options))


def Number(
    low: float | None = None,
    high: float | None = None,
    above: float | None = None,
    below: float | None = None,
) -> pydantic.PlainValidator:
    """Return what allows a finite number with low <= value <= high and above < value < below."""
    options = {"low": low, "high": high, "above": above, "below": below}
    return pydantic.PlainValidator(partial(checks.real, _NAME, **options))


def OneOf(allowed: Collection) -> pydantic.PlainValidator:
    """Return what allows one of `allowed`, a collection that is looked at for every value.

    A registry may therefore grow after the config was declared.
    """
    return pydantic.PlainValidator(partial(_choice, allowed=allowed))


def _choice(value: Any, allowed: Collection) -> Any:
    """Return `value`, numpy's as Python's own."""
    plain = value.item() if isinstance(value, np.generic) else value
    return checks.choice(_NAME, plain, allowed)


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
        if bare := _bare_number(kind):
            raise TypeError(
                f"{name} of {cls.__name__} is a bare {bare}; say what it allows by Whole, Number "
                "or one of the names made of them in sflkit.config"
            )
    construct = made.__init__

    @wraps(construct)
    def __init__(self: Any, *args: Any, **fields: Any) -> None:
        names = tuple(_kinds(type(self)))
        by_place = dict(zip(names, args))
        for name in (*map(repr, args[len(names) :]), *(by_place.keys() & fields.keys())):
            raise ValueError(
                f"{name} is one value too many for {type(self).__name__}; its {len(names)} fields, "
                f"each given once, are {', '.join(names)}"
            )
        given = by_place | fields
        for name, value in given.items():
            if isinstance(value, (set, frozenset)):
                raise ValueError(f"{name}={value!r} must be a list or a tuple; a set has no order")
        try:
            construct(self, **given)
        except pydantic.ValidationError as error:
            raise ValueError(_one_line(error, type(self), given)) from None

    made.__init__ = __init__
    return made


def checked(function: Function) -> Function:
    """Let a function take its arguments as their annotations say.

    Those are checked that are annotated by this module's types, by a class of this library, or by
    numpy's Generator. The range of an argument thus stands in the signature alone. A default is
    taken as it is.

    Raises
    ------
    ValueError
        From the function, where an argument is not allowed; the message names the first.
    """
    kinds = get_type_hints(function, include_extras=True)
    found = {name: check for name, kind in kinds.items() for check in _own_checks(kind)}
    signature = inspect.signature(function)

    @wraps(function)
    def call(*args: Any, **given: Any) -> Any:
        bound = signature.bind(*args, **given)
        for name, check in found.items():
            value = bound.arguments.get(name)
            if name in bound.arguments and value is not signature.parameters[name].default:
                try:
                    bound.arguments[name] = check(value)
                except ValueError as error:
                    raise ValueError(str(error).replace(_NAME, name)) from None
        return function(*bound.args, **bound.kwargs)

    return call


def _own_checks(kind: Any) -> list[Callable[[Any], Any]]:
    """Return the check that an annotation asks for, alone or beside None."""
    marks = [m for m in getattr(kind, "__metadata__", ()) if isinstance(m, pydantic.PlainValidator)]
    if kind is np.random.Generator:
        return [checks.generator]
    if inspect.isclass(kind) and kind.__module__.startswith("sflkit."):
        protocol = getattr(kind, "_is_protocol", False)
        return [] if protocol else [partial(checks.instance, _NAME, kind=kind)]
    return [m.func for m in marks] or [c for part in get_args(kind) for c in _own_checks(part)]


def _kinds(cls: type) -> dict[str, Any]:
    """Return the annotation of every field of a config class, with what `Annotated` adds."""
    hints = get_type_hints(cls, include_extras=True)
    return {field.name: hints[field.name] for field in dataclasses.fields(cls)}


def _bare_number(kind: Any) -> str:
    """Return the name of a number type in `kind` that no check goes with, or nothing."""
    if any(isinstance(m, pydantic.PlainValidator) for m in getattr(kind, "__metadata__", ())):
        return ""
    if kind in (int, float, bool):
        return kind.__name__
    return next(filter(None, map(_bare_number, get_args(kind))), "")


def _one_line(error: pydantic.ValidationError, cls: type, given: Mapping[str, Any]) -> str:
    """Return what is wrong with the values that a config of class `cls` was given, in one line."""
    by_field: dict[Any, list] = {}
    for detail in error.errors(include_url=False):
        by_field.setdefault(detail["loc"][0] if detail["loc"] else None, []).append(detail)
    return "; ".join(_refusal(field, details, cls, given) for field, details in by_field.items())


def _refusal(field: Any, details: list, cls: type, given: Mapping[str, Any]) -> str:
    """Return what is wrong with one field; None stands for what a validator of all fields says."""
    first = details[0]
    if first["type"] == "unexpected_keyword_argument":
        return f"{field} is no field of {cls.__name__}; its fields are {', '.join(_kinds(cls))}"
    if first["type"] == "missing" and len(first["loc"]) == 1:
        return f"{field} of {cls.__name__} must be given"
    allowed: dict[str, None] = {}
    for detail in details:
        said = str(detail.get("ctx", {}).get("error", ""))
        if said and _NAME not in said:  # by a validator of the config's own
            return said
        rule = said.partition(" must be ")[2] or _WORDS.get(detail["type"]) or detail["msg"]
        if any(isinstance(step, int) for step in detail["loc"]) and detail["type"] != "missing":
            return f"{field} entry={checks.shown(detail['input'], 100)} must be {rule}"
        allowed[rule] = None
    value = given.get(field, first["input"])  # a default was not given
    own = field in ("data", "model") and not isinstance(value, str)
    more = f"; your own is for run(config, {field}=...), where it takes one" if own else ""
    return f"{field}={checks.shown(value, 100)} must be {' or '.join(allowed)}{more}"
