"""What a user's own code is called and what its source says, for the keys of results.

A result is looked up by its key. Where a user's own cache rule, server rule, model, stream or run
function took part, the key must change when that code changes, or a sweep would answer with the
numbers of the old code. So the key holds the name of the class or function and the sha256 of its
source.

The source of a class is its own text and that of its bases, but for bases from sflkit, the standard
library and installed packages. The text counts as it stands: a changed comment is a changed source.
It is read from the file (or the notebook cell) that the code was imported from. Python goes on
running what it imported while an edited file says something else; such code is refused until it is
imported anew.

What is not seen is what the code uses: a helper function that it calls, a global constant, a file
that it reads. When one of these changes, raise the `RESULT_VERSION` of a run, or change a line of
the rule itself, such as a class attribute `version = 2`.
"""

from __future__ import annotations

import ast
import functools
import hashlib
import inspect
import linecache
import sys
import sysconfig
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from sflkit import checks

_WAY_OUT = "write it as a class or function with a name in a module, script or cell"
_ELSE = {"data": "pass Dataset.of(x, y)", "stream": f"{_WAY_OUT}, or pass an array of shares"}
_PLAIN = bool | int | float | complex | str | bytes | None
_IN_PYTHON = 1 << 9  # the flag of classes that a class statement made (Py_TPFLAGS_HEAPTYPE)
# What `dataclass` writes into a class; the fields say as much.
_GENERATED = ("__init__", "__repr__", "__eq__", "__lt__", "__le__", "__gt__", "__ge__", "__hash__")


def identity(keyword: str, thing: Any) -> dict[str, str]:
    """Return the name and the source digest of a class or function.

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
        For a lambda, a partial, an instance, something defined within a function (the values that
        it takes from there could not be seen), something without a source that can be read, or with
        a file that was edited after it was imported.
    """
    if callable(known := getattr(thing, "identity", None)) and not inspect.isclass(thing):
        return known()
    if isinstance(thing, np.ndarray):
        said = f"{thing.dtype.str} {thing.shape} ".encode() + thing.tobytes()
        return {"name": "array", "source_sha256": hashlib.sha256(said).hexdigest()}
    named = inspect.isclass(thing) or inspect.isfunction(thing)
    if not named or "<" in thing.__qualname__:
        raise ValueError(
            f"{keyword}={checks.shown(thing, 80)} must be a class or function with a name of its "
            f"own, so that its results can be found again: {_ELSE.get(keyword, _WAY_OUT)}"
        )
    try:
        text = _text(thing)
    except (OSError, TypeError):
        raise ValueError(
            f"{keyword}={thing!r} has no source that can be read, so that a change of it could "
            f"not be seen: {_WAY_OUT}"
        ) from None
    changed = _changed_file(thing)
    if changed is not None:
        raise ValueError(
            f"{keyword}={thing!r} is not what {changed} says, which has changed since it was "
            "imported: reload the module or start Python anew"
        )
    return {"name": thing.__qualname__, "source_sha256": hashlib.sha256(text.encode()).hexdigest()}


def of_this_library(thing: type | Callable) -> bool:
    """Return whether a class or function belongs to this repository: to sflkit or its companion."""
    return thing.__module__.partition(".")[0] in ("sflkit", "companion")


def _changed_file(thing: type | Callable) -> str | None:
    """Return the file that says something else than what a class or function was imported as."""
    if inspect.isclass(thing):
        written = [cls for cls in thing.__mro__ if cls is thing or not _is_installed(cls)]
        functions = [function for cls in written for function in _functions(cls)]
    else:
        functions = [inspect.unwrap(thing)]
    for code in (function.__code__ for function in functions):
        file = Path(code.co_filename)
        if not file.is_file() or file.stat().st_mtime < _started():
            continue
        codes = _codes_in(file, file.stat().st_mtime_ns)
        if codes and code not in codes:
            return code.co_filename
    return None


@functools.cache
def _started() -> float:
    """Return when this process started, in seconds of the system's clock."""
    import psutil

    return psutil.Process().create_time()


@functools.lru_cache(maxsize=64)
def _codes_in(file: Path, mtime_ns: int) -> set[types.CodeType]:
    """Return the code of everything that a Python file defines, as of the time `mtime_ns`."""
    try:
        pending = [compile(file.read_bytes(), str(file), "exec", dont_inherit=True)]
    except (SyntaxError, ValueError):  # not a Python file, such as a text with code in it
        return set()
    codes = set()
    while pending:
        code = pending.pop()
        codes.add(code)
        pending += [constant for constant in code.co_consts if inspect.iscode(constant)]
    return codes


def _text(thing: type | Callable) -> str:
    if inspect.isclass(thing):
        return _class_text(thing)
    function = inspect.unwrap(thing)
    return f"{function.__qualname__}\n{inspect.getsource(function)}"


def _class_text(cls: type) -> str:
    own_bases = [base for base in cls.__mro__[1:] if not _is_installed(base)]
    return "\n".join(f"{c.__qualname__}\n{_definition(c)}" for c in (cls, *own_bases))


@functools.lru_cache(maxsize=1024)
def _is_installed(cls: type) -> bool:
    """Return whether a class comes from sflkit, the standard library or an installed package."""
    if of_this_library(cls) or cls.__module__.partition(".")[0] in sys.stdlib_module_names:
        return True
    file = getattr(sys.modules.get(cls.__module__), "__file__", None)
    folders = {sysconfig.get_path(name) for name in ("purelib", "platlib")}
    return file is not None and any(Path(file).is_relative_to(folder) for folder in folders)


def _definition(cls: type) -> str:
    """Return the text of a class statement, or of all that the class holds.

    `inspect.getsource` asks for the file of the class's module. A notebook's `__main__` has none,
    and in a worker process `__main__` is the worker's own script. The methods know better where
    they were written, so they are asked first.
    """
    places = [
        (function.__code__.co_filename, function.__code__.co_firstlineno)
        for function in _functions(cls)
        if function.__qualname__.startswith(f"{cls.__qualname__}.")
    ]
    file = getattr(sys.modules.get(cls.__module__), "__file__", None)
    if not places and file:
        places = [(file, None)]
    for file, line in places:
        text = _class_statement(file, cls.__qualname__, line)
        if text is not None:
            return text
    return _contents(cls)


def _class_statement(file: str, name: str, line: int | None) -> str | None:
    """Return the class statement `name` that holds a line of a file (None: the last one)."""
    linecache.checkcache(file)
    lines = linecache.getlines(file)
    try:
        tree = ast.parse("".join(lines))
    except (SyntaxError, ValueError):  # not a Python file, such as a text with code in it
        return None
    found = None
    for qualified, node in _class_nodes(tree):
        first = min([node.lineno, *(item.lineno for item in node.decorator_list)])
        if qualified == name and (line is None or first <= line <= node.end_lineno):
            found = "".join(lines[first - 1 : node.end_lineno])
    return found


def _class_nodes(tree: ast.AST, prefix: str = "") -> Iterator[tuple[str, ast.ClassDef]]:
    """Yield qualified name and node of every class outside functions."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.ClassDef):
            yield f"{prefix}{node.name}", node
            yield from _class_nodes(node, f"{prefix}{node.name}.")
        elif not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            yield from _class_nodes(node, prefix)


def _functions(cls: type) -> list[Callable]:
    """Return the functions that a class statement defines."""
    return [function for value in vars(cls).values() for function in _functions_of(value)]


def _functions_of(value: Any) -> list[Callable]:
    """Return the functions behind an attribute of a class: of a method, a property and the like."""
    if isinstance(value, property):
        value = [part for part in (value.fget, value.fset, value.fdel) if part is not None]
    elif isinstance(value, staticmethod | classmethod):
        value = [value.__func__]
    elif isinstance(value, functools.cached_property):
        value = [value.func]
    else:
        value = [value]
    return [inspect.unwrap(part) for part in value if inspect.isfunction(part)]


def _contents(cls: type) -> str:
    """Return the sources of a class's methods, its plain attributes and the names of its bases.

    Raises
    ------
    OSError
        If a method has no readable source, or an attribute is neither a function nor plain data.
    """
    if not cls.__flags__ & _IN_PYTHON:
        raise OSError(f"{cls.__qualname__} was not written in Python")
    parts = [f"bases {[base.__qualname__ for base in cls.__bases__]}"]
    for name, value in sorted(vars(cls).items()):
        functions = _functions_of(value)
        if functions:
            if "__dataclass_fields__" in vars(cls) and name in _GENERATED:
                continue
            parts += [f"{name}: {inspect.getsource(function)}" for function in functions]
        elif inspect.isclass(value):
            parts.append(f"{name}: {_class_text(value)}")
        elif name == "__annotations__":
            parts += [f"{field}: {inspect.formatannotation(kind)}" for field, kind in value.items()]
        elif name == "__slots__" or not _is_pythons_own(name, value):
            parts.append(f"{name} = {_plain_text(value)}")
    return "\n".join(parts)


def _is_pythons_own(name: str, value: Any) -> bool:
    """Return whether an attribute of a class was put there by Python, not by the author."""
    return name.startswith("__") or name == "_abc_impl" or inspect.ismemberdescriptor(value)


def _plain_text(value: Any) -> str:
    """Return the text of plain data, the same in every process, or raise OSError."""
    if isinstance(value, _PLAIN):
        return repr(value)
    if isinstance(value, list | tuple):
        return f"{type(value).__name__}({', '.join(map(_plain_text, value))})"
    if isinstance(value, set | frozenset):
        return f"set({', '.join(sorted(map(_plain_text, value)))})"
    if isinstance(value, dict):
        pairs = (f"{_plain_text(k)}: {_plain_text(v)}" for k, v in value.items())
        return f"dict({', '.join(pairs)})"
    raise OSError(f"{value!r} has no text of its own")
