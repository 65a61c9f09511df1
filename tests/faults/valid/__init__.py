"""Valid calls of the library, a file per package: name -> what returns a function and keywords.

They are made anew at every call, as some functions draw and some objects remember.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.faults.valid import data, datastreams, fats, federated, osafl, results, sfl

MODULES = (federated, osafl, fats, data, datastreams, sfl, results)
CALLS: dict[str, Callable[[], tuple[Callable, dict[str, Any]]]] = {
    name: make for module in MODULES for name, make in module.CALLS.items()
}
assert len(CALLS) == sum(len(module.CALLS) for module in MODULES), "two calls of one name"
# Beyond what an argument takes, where another argument, or a number of ours, is the limit.
BEYOND: dict[str, dict[str, tuple]] = {
    name: limits for module in MODULES for name, limits in getattr(module, "BEYOND", {}).items()
}
assert set(BEYOND) <= set(CALLS)
