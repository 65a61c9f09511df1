"""How packages name what they hold, and results print themselves, in few lines."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

_SHOWN = 8  # entries of an array that are printed one by one


def exports(
    package: str, names: Mapping[str, str]
) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """Return `__getattr__`, `__dir__` and `__all__` of a package whose modules load on first use.

    Parameters
    ----------
    package : str
        Its dotted name.
    names : mapping
        Module of the package -> the names that are its best known, separated by spaces; they become
        attributes of the package. A module itself is one in any case.
    """
    where = {name: module for module, own in names.items() for name in own.split()}
    public = sorted({*names, *where})

    def get(name: str) -> Any:
        if name not in public:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        module = importlib.import_module(f"{package}.{where.get(name, name)}")
        return getattr(module, name) if name in where else module

    return get, lambda: public, public


def short_repr(record: Any) -> str:
    """Return the text of a named tuple of arrays: of a long one its shape and range."""
    lines = [type(record).__name__]
    for name, value in record._asdict().items():
        text = repr(value)
        if isinstance(value, np.ndarray) and value.size > _SHOWN:
            text = f"{value.dtype} {value.shape}, {np.nanmin(value):.4g} to {np.nanmax(value):.4g}"
            if value.dtype == bool:
                text = f"{value.sum()} of {value.size} true"
        elif isinstance(value, np.ndarray):
            text = np.array2string(value, precision=4)
        lines.append(f"  {name}: {text}")
    return "\n".join(lines)
