"""The changelog's table of moved modules: nothing old can be imported, everything new is there."""

from __future__ import annotations

import importlib
import importlib.util
import re
import subprocess
import sys

import pytest

from tests.helpers import ROOT

TEXT = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
ROWS = re.findall(r"^\| (`sflkit\.[^|]*) \| ([^|]*) \|$", TEXT, re.M)
# Something new has taken these names.
TAKEN = {"sflkit.results", "sflkit.models.pretrained", "sflkit.fats.stability"}


def names(cell):
    return re.findall(r"`([a-z_.A-Z0-9]+)(?:\(\))?`", cell)


def module_of(name):
    """The longest part of a dotted name that is a module, and the rest."""
    found = name
    while found not in sys.modules:
        try:
            importlib.import_module(found)
        except ModuleNotFoundError:
            found = found.rpartition(".")[0]
    return found, name[len(found) + 1 :]


def test_every_old_module_has_a_row():
    assert len(ROWS) > 70
    assert {"sflkit.streams", "sflkit.runs.sfl", "sflkit.sweep"} <= {
        names(old)[0] for old, _ in ROWS
    }


@pytest.mark.parametrize("name", sorted({name for _, new in ROWS for name in names(new)}))
def test_what_is_new_is_there(name):
    module, rest = module_of(name)
    assert not rest or hasattr(sys.modules[module], rest), f"{module} has no {rest}"


@pytest.mark.parametrize("name", sorted({name for old, _ in ROWS for name in names(old)} - TAKEN))
def test_what_is_old_is_no_module(name):
    parent = name.rpartition(".")[0]
    assert module_of(parent)[0] != parent or importlib.util.find_spec(name) is None


@pytest.mark.parametrize("name", ["streams", "sweep", "runs.sfl", "bounds"])
def test_old_import_paths_fail_with_pythons_own_error(name):
    code = f"import sflkit.{name}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    missing = f"sflkit.{name.split('.')[0]}"
    error = f"ModuleNotFoundError: No module named '{missing}'"
    assert done.returncode == 1 and done.stderr.splitlines()[-1] == error
