"""Packages name what they hold, load nothing before it is used, and results print in few lines."""

import importlib
import pkgutil
import subprocess
import sys

import numpy as np
import pytest

from sflkit.exports import short_repr
from sflkit.osafl import Devices, Link, allocate

PACKAGES = ("sfl", "datastreams", "osafl", "fats")


@pytest.mark.parametrize("name", PACKAGES)
def test_all_modules_and_the_best_known_names_are_attributes(name):
    package = importlib.import_module(f"sflkit.{name}")
    modules = {module.name for module in pkgutil.iter_modules(package.__path__)}
    assert modules < set(dir(package)) and dir(package) == sorted(package.__all__)
    assert all(getattr(package, one) is not None for one in dir(package))
    assert package.run.__module__ == f"sflkit.{name}.training"
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        _ = package.nothing


def test_dir_loads_no_torch():
    names = ", ".join(f"sflkit.{name}" for name in PACKAGES)
    code = f"import sys, {names}; dir(sflkit.sfl); sflkit.sfl.DRSR; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.strip() == "False", done.stderr


def test_an_allocation_prints_itself_in_a_few_lines():
    devices = Devices(np.full(20, 1.0), np.full(20, 5e8), np.full(20, 2.0), 1e9, 0.5)
    text = repr(allocate(devices, Link(1e6)))
    assert text == short_repr(allocate(devices, Link(1e6))) and len(text.splitlines()) == 7
    assert "local_steps: int64 (20,), 5 to 5" in text and "feasible: 20 of 20 true" in text
