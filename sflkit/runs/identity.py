"""What code of a user's own took part in a run: its names and digests, for the keys of results.

A result is looked up by its key. Where a user's own cache rule, server rule, network, stream,
strategy, config class or run function took part, the key must change when that code changes, or a
sweep would answer with the numbers of the old code. It does not matter how such code came in: as a
keyword of `run_many`, as a row that was added to any registry and that a config names, in a nested
field or a tuple as well, or as a config class with methods of its own.

The digest is that of the code which is *loaded*, since that is what runs, never of a file or its
time. It holds instructions and constants (nested functions as well), arguments and their defaults,
what a closure holds, attributes of functions and classes, base classes, and both a wrapper and what
it wraps (`functools.wraps`). Comments, docstrings, annotations and line numbers do not count. It is
the same in every process, with `python -O` as well where there is no `assert`, but not under `-OO`
and not in every version of Python, whose instructions differ: these compute anew.

What is not seen is what the code finds elsewhere while it runs: global names, functions and classes
that it calls, attributes of modules, files, environment variables, installed packages. Where one of
these changes, raise `RESULT_VERSION`, or change a line of the rule itself, such as a class
attribute `version = 2`.
"""

from __future__ import annotations

import copyreg
import dataclasses
import dis
import enum
import functools
import hashlib
import inspect
import pathlib
import sys
import types
import typing
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from sflkit import checks, registry

_WAY_OUT = "write it as a class or function with a name in a module, script or cell"
_ELSE = {"data": "pass Dataset.of(x, y)", "stream": f"{_WAY_OUT}, or pass an array of shares"}
_OURS = ("sflkit", "companion")
_PLAIN = (bool, int, float, complex, str, bytes, type(None), type(...))
_SLOTS = ("builtins", "collections", "_collections")  # where the descriptors of C come from
# What Python and dataclasses write into a class; the rest of it says as much.
_GENERATED = frozenset(
    "__module__ __dict__ __weakref__ __doc__ __qualname__ __firstlineno__ __static_attributes__ "
    "__annotations__ __annotate__ __annotate_func__ __annotations_cache__ __orig_bases__ "
    "__parameters__ __type_params__ __abstractmethods__ _abc_impl __match_args__ "
    "__dataclass_params__ __dataclass_fields__ __signature__ __slotnames__ LATER".split()
)
_FLAGS = inspect.CO_VARARGS | inspect.CO_VARKEYWORDS | inspect.CO_GENERATOR | inspect.CO_COROUTINE


class _Unseen(Exception):
    """Something has no text that would be the same in another process."""


def identity(keyword: str, thing: Any) -> dict[str, str]:
    """Return the name and the digest of what is given to a run.

    Parameters
    ----------
    keyword : str
        What the error message calls it, such as "cache".
    thing : class or function
        It has a name of its own, at the top level of a module, a script or a notebook cell, or
        within such a class; an array, told apart by its values; or a data set, which says itself
        what it is (`Dataset.identity`).

    Returns
    -------
    dict
        `name`, the qualified name without the module, and `source_sha256`. Neither depends on the
        process, nor on the name under which a module was imported.

    Raises
    ------
    ValueError
        For a lambda, a partial, an instance, something defined within a function, an array of
        objects, or code that holds (in its closure, defaults or attributes) what could not be told
        apart in another process, such as an open file.
    """
    if callable(known := getattr(thing, "identity", None)) and not inspect.isclass(thing):
        return known()
    if isinstance(thing, np.ndarray) and thing.dtype != object:
        native = np.ascontiguousarray(thing, thing.dtype.newbyteorder("="))
        native = native + 0.0 if native.dtype.kind == "f" else native  # -0.0 is 0.0
        said = f"{native.dtype.str} {native.shape} ".encode() + native.tobytes()
        return {"name": "array", "source_sha256": hashlib.sha256(said).hexdigest()}
    named = inspect.isclass(thing) or inspect.isfunction(thing)
    if not named or "<" in thing.__qualname__:
        raise ValueError(
            f"{keyword}={checks.shown(thing, 80)} must be a class or function with a name of its "
            f"own, so that its results can be found again: {_ELSE.get(keyword, _WAY_OUT)}"
        )
    return _named(keyword, thing, thing)


def own_code(run: Any, given: Mapping[str, Any] | None = None) -> dict[str, dict[str, str]]:
    """Return name and digest of a user's own code: of what is given to `run`, and of `run`.

    A `run` of this library is left out. Raises ValueError as `identity`.
    """
    own = dict(given or {}) if of_this_library(run) else {"run": run, **(given or {})}
    return {name: identity(name, own[name]) for name in sorted(own)}


def code_of_config(config: Any) -> dict[str, dict[str, str]]:
    """Return name and digest of each piece of a user's own code that a config brings.

    That is each row of a registry that is not this library's and that the config names, in a nested
    field, a tuple or a word such as "mine=0.5" as well; and each class of a config, or of a config
    within it, that is not this library's and has more than fields.

    Raises
    ------
    ValueError
        If such code holds what could not be told apart in another process.
    """
    leaves = list(_leaves("config", config))
    classes = {type(value) for _, value in leaves if dataclasses.is_dataclass(value)}
    found, rows = {}, _own_rows([table for cls in classes for table in _tables_of(cls)])
    for path, value in leaves:
        if dataclasses.is_dataclass(value):
            own = [cls for cls in type(value).__mro__ if not _is_installed(_package(cls))]
            if members := [member for cls in own for member in _members(cls)]:
                found[path] = _named(path, type(value), members)
        elif isinstance(value, str):
            for family, row in rows.get(value.partition("=")[0], ()):
                said = (row.build, row.options)
                found[f"{path}, {family}"] = _named(f"{path}={value!r}", row.build, said)
    return found


def _own_rows(tables: Iterable[registry.Registry]) -> dict[str, list[tuple[str, registry.Rule]]]:
    """Return the rows of a user's own, name -> family of the table and row, in this library's
    tables and in those of the user that are given.
    """
    ours = [t for t in registry.tables() if _root(t.module) in _OURS]
    found: dict[str, list] = {}
    for table in {id(table): table for table in (*ours, *tables)}.values():
        added = table.added
        for name, row in table.items():
            if name in added or not of_this_library(row.build):
                found.setdefault(name, []).append((table.family, row))
    return found


@functools.cache
def _tables_of(cls: type) -> list[registry.Registry]:
    """Return the tables that the annotations of a config class name."""
    try:
        pending = list(typing.get_type_hints(cls, include_extras=True).values())
    except NameError:  # a name that only a type checker imports
        return []
    found = []
    while pending:
        kind = pending.pop()
        for mark in getattr(kind, "__metadata__", ()):  # of `sflkit.config.OneOf`
            said = getattr(mark, "__dict__", {}) | getattr(
                getattr(mark, "func", None), "keywords", {}
            )
            found += [said["allowed"]] if isinstance(said.get("allowed"), registry.Registry) else []
        pending += typing.get_args(kind)
    return found


def of_this_library(thing: Any) -> bool:
    """Return whether a class or function belongs to this repository: to sflkit or its companion."""
    return _package(thing) in _OURS


def _package(thing: Any) -> str:
    """Return the package that something was written in, whatever name a decorator gave it."""
    if inspect.isfunction(thing):
        return _root(thing.__globals__.get("__name__"))
    return _root(getattr(thing, "__module__", None))


def _root(module: Any) -> str:
    return str(module).partition(".")[0]


@functools.lru_cache(maxsize=1024)
def _is_installed(package: str) -> bool:
    """Return whether a package is sflkit, of the standard library, or installed."""
    if package == "__main__":  # a worker of joblib has a file of joblib's there
        return False
    if package in _OURS or package in sys.stdlib_module_names:
        return True
    file = getattr(sys.modules.get(package), "__file__", None) or ""
    return bool({"site-packages", "dist-packages"} & set(pathlib.Path(file).parts))


def _leaves(path: str, value: Any) -> Iterator[tuple[str, Any]]:
    """Yield configs and words in a config, each with its path such as "config.methods.1"."""
    if dataclasses.is_dataclass(value):
        yield path, value
        inside = ((field.name, getattr(value, field.name)) for field in dataclasses.fields(value))
    elif isinstance(value, list | tuple):
        inside = enumerate(value)
    elif isinstance(value, Mapping):
        inside = value.items()
    else:
        yield path, value
        return
    for name, entry in inside:
        yield from _leaves(f"{path}.{name}", entry)


def _named(keyword: str, thing: Any, said: Any) -> dict[str, str]:
    name = getattr(thing, "__qualname__", type(thing).__qualname__)
    try:
        text = repr(_Writer(thing).text(said))
    except (_Unseen, RecursionError) as error:
        raise ValueError(
            f"{keyword}={checks.shown(thing, 80)} holds {error or 'itself without end'}, so that a "
            "change of it could not be seen: keep plain data, arrays, functions and classes there"
        ) from None
    return {"name": name, "source_sha256": hashlib.sha256(text.encode()).hexdigest()}


class _Writer:
    """Says what is loaded in lists of texts, each function and class once.

    `thing` is looked into wherever it comes from; other code of this library, of Python and of
    installed packages is told by its name.
    """

    def __init__(self, thing: Any):
        self.thing = thing
        self.seen: dict[int, Any] = {}  # the things too, so that no other gets their id

    def text(self, value: Any) -> Any:
        """Return what tells a value from others, or raise _Unseen."""
        if isinstance(value, enum.Enum):
            return ["member", self.once(type(value)), value.name, self.text(value.value)]
        if isinstance(value, _PLAIN):
            return f"{type(value).__name__} {value!r}"
        if _package(type(value)) == "torch" and callable(getattr(value, "detach", None)):
            return ["tensor", str(value.dtype), repr(value.detach().cpu().tolist())]
        if isinstance(value, np.ndarray | np.generic) and value.dtype != object:
            return ["array", value.dtype.str, value.shape, value.tobytes().hex()]
        if isinstance(value, set | frozenset):
            return ["set", *sorted(repr(self.text(entry)) for entry in value)]
        if isinstance(value, Mapping):
            return ["dict", *([self.text(k), self.text(v)] for k, v in value.items())]
        if isinstance(value, list | tuple):
            return [type(value).__name__, *map(self.text, value)]
        if isinstance(value, types.ModuleType):
            return ["module", value.__name__]
        if isinstance(value, types.CodeType):
            return _code(value)
        return self.once(value)

    def once(self, value: Any) -> Any:
        """Return what `text` does of functions, classes and instances; a name the second time."""
        if id(value) in self.seen:
            return ["again", getattr(value, "__qualname__", type(value).__qualname__)]
        self.seen[id(value)] = value
        if inspect.isclass(value):
            return self.of_class(value)
        if inspect.isfunction(value):
            return self.function(value)
        for kind, names in _BEHIND.items():
            if isinstance(value, kind):
                return [kind.__name__, *(self.text(getattr(value, name)) for name in names)]
        if hasattr(value, "__wrapped__"):  # of functools.cache, for example
            return [type(value).__name__, self.text(value.__wrapped__)]
        if isinstance(value, types.BuiltinFunctionType | np.ufunc):
            return ["builtin", getattr(value, "__module__", ""), value.__name__]
        if hasattr(type(value), "__get__") and type(value).__module__ in _SLOTS:
            return type(value).__name__  # a slot
        try:
            reduce = copyreg.dispatch_table.get(type(value))  # as pickle does
            parts = reduce(value) if reduce else value.__reduce_ex__(4)
        except Exception:
            raise _Unseen(checks.shown(value, 80)) from None
        return ["instance", self.text(type(value)), self.text(_plain_parts(parts))]

    def function(self, function: types.FunctionType) -> Any:
        """Return what tells a function from others."""
        cells = zip(function.__code__.co_freevars, function.__closure__ or ())
        if _is_installed(_package(function)) and function is not self.thing:
            held = [_content(cell) for _, cell in cells]
            held = [value for value in held if isinstance(value, (*_PLAIN, types.FunctionType))]
            name = f"{_package(function)} {function.__code__.co_qualname}"
            return [name, *map(self.text, [*held, *vars(function).values()])]
        return [
            function.__qualname__,
            _code(function.__code__),
            self.text(function.__defaults__),
            self.text(function.__kwdefaults__),
            *([name, self.text(_content(cell))] for name, cell in cells),
            self.text(vars(function)),  # with what it wraps
        ]

    def of_class(self, cls: type) -> Any:
        """Return what tells a class from others."""
        if _is_installed(_package(cls)) and cls is not self.thing:
            return f"{_package(cls)} {cls.__qualname__}"
        kinds = [base for base in (type(cls), *cls.__bases__) if base not in (type, object)]
        return [cls.__qualname__, *map(self.text, kinds), *map(self.text, _members(cls))]


_BEHIND = {
    property: ("fget", "fset", "fdel"),
    staticmethod: ("__func__",),
    classmethod: ("__func__",),
    functools.cached_property: ("func",),
    functools.partial: ("func", "args", "keywords"),
    functools.partialmethod: ("func", "args", "keywords"),
    types.MethodType: ("__func__", "__self__"),
}


def _plain_parts(parts: str | tuple) -> Any:
    """Return what `__reduce_ex__` said with lists in place of iterators."""
    if isinstance(parts, str):
        return parts
    return [list(part) if isinstance(part, Iterator) else part for part in parts]


def _content(cell: types.CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # not set yet
        return "nothing yet"


def _members(cls: type) -> Iterator[tuple[str, Any]]:
    """Yield what a class statement, or somebody later, put into a class: name and value."""
    fields = getattr(cls, "__dataclass_fields__", {})
    for name, value in sorted(vars(cls).items()):
        if (
            name in _GENERATED
            or ("pydantic_" in name and name[:2] == "__")
            or inspect.ismemberdescriptor(value)
        ):
            continue
        if name in fields and not hasattr(type(value), "__get__"):
            continue  # a default: configs hold the value
        if not (fields and name.startswith("__") and _is_generated(value)):
            yield name, value


def _is_generated(value: Any) -> bool:
    """Return whether `dataclass` or pydantic wrote a method."""
    function = inspect.unwrap(value) if callable(value) else value
    if not inspect.isfunction(function):
        return value is None  # __hash__
    return function.__code__.co_filename == "<string>" or _is_installed(_package(function))


@functools.lru_cache(maxsize=4096)
def _code(code: types.CodeType) -> str:
    """Return a digest of what a code object does, without its docstring and places in the file."""
    said = [
        code.co_flags & _FLAGS,
        code.co_argcount,
        code.co_posonlyargcount,
        code.co_kwonlyargcount,
        code.co_varnames[: code.co_argcount + code.co_kwonlyargcount],
        code.co_exceptiontable.hex(),
    ]
    for step in dis.get_instructions(code):
        value = step.argval if isinstance(step.argval, (*_PLAIN, tuple, frozenset)) else step.arg
        if isinstance(step.argval, types.CodeType):
            value = _code(step.argval)
        said.append((step.opname, _Writer(None).text(value)))
    return hashlib.sha256(repr(said).encode()).hexdigest()
