"""What a run is called: the key of its result, and what its record says before anything has run.

A key is `<experiment>/<16 hexadecimal digits>`, so that the results of an experiment lie in a
folder of their own. An experiment names itself: the module of its `run` function has `EXPERIMENT =
"sfl-training"` (a second function `pilot` there would be "sfl-training-pilot"), and moving or
renaming that module changes no key.

The digits hash the experiment's name, the `RESULT_VERSION` of its module, the config, and code of a
user's own that takes part (`sflkit.runs.identity`). The code of this library is not hashed: its
`RESULT_VERSION` is raised when its numbers change, and see `sflkit.runs.origin`.

Equal configs have one key: by a field's annotation 1 and 1.0 and numpy's numbers are one value, and
0.0 and -0.0 are.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import json
import re
import sys
import types
import typing
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from sflkit import checks
from sflkit.runs.identity import code_of_config, own_code

_EXPERIMENT = re.compile(r"[a-z0-9][a-z0-9-]*")


def describe(run: Callable, config: Any, code: Mapping[str, dict] | None = None) -> dict:
    """Return what a result's record says before anything has run.

    Parameters
    ----------
    run : function
        See `experiment_name`.
    config : frozen dataclass with a seed
        See `config_dict`.
    code : mapping, optional
        What `identity.own_code` says of `run` and of what a user hands to it besides the config;
        looked up for `run` alone unless given.

    Returns
    -------
    dict
        key, experiment, result_version, config, and sources where code of a user's own takes part:
        name and digest of each piece.

    Raises
    ------
    TypeError, ValueError
        If `run` or the config is not as described.
    """
    head = {
        "experiment": experiment_name(run),
        "result_version": _result_version(run),
        "config": _keyed(config),
    }
    code = (own_code(run) if code is None else dict(code)) | code_of_config(config)
    if code:
        head["sources"] = code
    return {"key": key_of(head), **head}


def key_of(head: Mapping[str, Any]) -> str:
    """Return the key of what a record says of its run.

    Raises
    ------
    KeyError, TypeError, ValueError
        If experiment, result_version or config are missing, or hold what JSON cannot.
    """
    parts = [head[name] for name in ("experiment", "result_version", "config")]
    parts += [head["sources"]] if "sources" in head else []
    digits = hashlib.sha256(canonical(parts).encode()).hexdigest()[:16]
    return f"{head['experiment']}/{digits}"


def result_key(run: Callable, config: Any, given: Mapping[str, Any] | None = None) -> str:
    """Return what names the result of `run(config, **given)`.

    `given` holds what a user hands to `run` besides the config, keyword -> class or function.
    Errors are those of `describe` and `identity.own_code`.
    """
    return describe(run, config, own_code(run, given))["key"]


def experiment_name(run: Callable) -> str:
    """Return the name that the module of `run` gives its experiment.

    Another function than `run` adds its own name.

    Raises
    ------
    TypeError
        If `run` is no function at the top level of a module, or its module has no `EXPERIMENT`.
    ValueError
        If the name could not be that of a folder.
    """
    name = getattr(run, "__qualname__", None)
    if not callable(run) or name is None or "<" in name or not getattr(run, "__module__", None):
        raise TypeError(f"run={run!r} must be a function at the top level of a module")
    experiment = getattr(sys.modules.get(run.__module__), "EXPERIMENT", None)
    if experiment is None:
        raise TypeError(
            f"module {run.__module__} must have EXPERIMENT, the name under which the results of "
            f"{name} are kept, such as EXPERIMENT = 'my-study'"
        )
    if not isinstance(experiment, str) or not _EXPERIMENT.fullmatch(experiment):
        raise ValueError(
            f"EXPERIMENT={experiment!r} must be made of lower-case letters, digits and -, "
            "such as 'my-study'"
        )
    if name == "run":
        return experiment
    return f"{experiment}-{name.strip('_').replace('_', '-').lower()}"


def _result_version(run: Callable) -> int:
    module = sys.modules.get(run.__module__)
    if not hasattr(module, "RESULT_VERSION"):
        raise TypeError(
            f"module {run.__module__} must have RESULT_VERSION, an integer raised whenever its "
            "numbers change"
        )
    return checks.integer("RESULT_VERSION", module.RESULT_VERSION, 0)


def config_dict(config: Any) -> dict:
    """Return the fields of a config in JSON's own types.

    Raises
    ------
    TypeError
        If the config is no frozen dataclass, or a field holds what JSON cannot.
    ValueError
        If it has no field `seed` with an integer >= 0.
    """
    if (
        not dataclasses.is_dataclass(config)
        or isinstance(config, type)
        or not config.__dataclass_params__.frozen
    ):
        raise TypeError(f"config={config!r} must be an instance of a frozen dataclass")
    kinds = _kinds(type(config))
    fields = {}
    for field in dataclasses.fields(config):
        value = _typed(kinds.get(field.name), getattr(config, field.name))
        fields[field.name] = plain(value, f"{type(config).__name__}.{field.name}")
    fields["seed"] = checks.integer("seed", fields.get("seed"), 0, any_size=True)
    return fields


def _keyed(config: Any) -> dict:
    """Return the fields that a key is made of.

    A config class may say in `LATER` which fields came after results had been published, and what
    all earlier runs had there: while a field has that value it leaves the key as it was.
    """
    later = getattr(type(config), "LATER", {})
    fields = config_dict(config)
    return {name: fields[name] for name in fields if fields[name] != later.get(name, ...)}


@functools.cache
def _kinds(cls: type) -> dict[str, Any]:
    """Return the annotations of a dataclass; none where a name is for a type checker alone."""
    try:
        return typing.get_type_hints(cls)
    except NameError:
        return {}


def _typed(kind: Any, value: Any) -> Any:
    """Return a value as its annotation has it, so that values which are equal have one text."""
    if isinstance(value, np.generic):
        value = value.item()
    among = typing.get_args(kind) if typing.get_origin(kind) in _UNIONS else (kind,)
    if isinstance(value, bool | int | float) and value == value:
        return _number(among, value)
    if dataclasses.is_dataclass(value):
        kinds = _kinds(type(value))
        fields = dataclasses.fields(value)
        found = {f.name: _typed(kinds.get(f.name), getattr(value, f.name)) for f in fields}
        # Of two classes that may stand here, each with such fields, the name tells which it is.
        others = [other for other in among if other not in (type(value), type(None), None)]
        return found | ({"class": type(value).__qualname__} if others else {})
    inner = [typing.get_args(one) for one in among if typing.get_args(one)]
    inner = inner[0] if inner else ()
    if isinstance(value, list | tuple):
        many = len(inner) == 1 or inner[1:] == (...,)
        kinds = [inner[0]] * len(value) if many else inner
        return [_typed(one, entry) for one, entry in zip([*kinds, *[None] * len(value)], value)]
    if isinstance(value, dict) and all(isinstance(name, str) for name in value):
        return {name: _typed(inner[-1] if inner else None, v) for name, v in value.items()}
    return value


_UNIONS = (typing.Union, types.UnionType)


def _number(among: tuple, value: bool | int | float) -> bool | int | float:
    """Return a number as the kinds that are allowed have it: bool, float or int."""
    whole = value == int(value) if abs(value) < float("inf") else False
    if bool in among and (isinstance(value, bool) or (int not in among and float not in among)):
        return bool(value) if value in (0, 1) else value
    if int in among and whole:
        return int(value)
    if float in among and abs(value) <= sys.float_info.max:
        return float(value) + 0.0  # -0.0 is 0.0
    return value


def plain(value: Any, name: str = "record") -> Any:
    """Return `value` in JSON's own types.

    Raises
    ------
    TypeError
        If it holds anything but finite numbers, booleans, strings, None, lists and dicts.
    """
    try:
        return json.loads(json.dumps(value, allow_nan=False, default=_item))
    except (TypeError, ValueError, RecursionError):
        raise TypeError(
            f"{name}={value!r} must be made of finite numbers, booleans, strings, None, lists and "
            "dicts"
        ) from None


def _item(value: Any) -> Any:
    """Return a number of numpy as Python's own."""
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError


def canonical(value: Any) -> str:
    """Return the one JSON text of a value: keys sorted, no spaces."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)
