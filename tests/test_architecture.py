"""Who may import whom: floors, no circles, no companion in sflkit, heavy packages late."""

from __future__ import annotations

import ast
import subprocess
import sys
from functools import cache
from pathlib import Path

from tests.helpers import ROOT

# A module of sflkit imports only from floors below its own, or from its own package.
FLOORS = {
    "sfl datastreams osafl fats cli": 4,
    "data federated runs intervals": 3,
    "models randomness config machine rounding": 2,
    "checks exports registry paths npzfiles torch_draws installed": 1,
}
FLOOR = {name: floor for names, floor in FLOORS.items() for name in names.split()}
# Packages that take a second to load or open a display.
HEAVY = {"torch", "sklearn", "cvxpy", "seaborn", "matplotlib.pyplot"}
# What is imported here needs none of them, so that a command answers at once.
LIGHT = "cli paths checks data runs.sweep sfl.caches sfl.bounds fats.forgetting fats.history"
NAMED_TUPLE = ("_asdict", "_fields", "_make", "_replace")  # public, whatever their names look like
FILES = sorted(path for name in ("sflkit", "companion") for path in (ROOT / name).rglob("*.py"))


def dotted(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


MODULES = {dotted(path): path for path in FILES}


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


@cache
def imported(name: str) -> frozenset[str]:
    """The names that a module imports anywhere; `from a import b` counts as a.b."""
    found = set()
    for node in ast.walk(tree_of(MODULES[name])):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{name}: relative import"
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return frozenset(found)


@cache
def used(name: str) -> frozenset[str]:
    """The modules of this repository that a module imports."""
    found = set()
    for full in imported(name):
        while full and full not in MODULES:
            full = full.rpartition(".")[0]
        found |= {full} if full else set()
    return frozenset(found - {name})


def test_sflkit_imports_downwards_and_nothing_of_the_companion():
    wrong = []
    for name in MODULES:
        parts = name.split(".")
        if parts[0] != "sflkit" or len(parts) == 1:
            continue
        for other in used(name):
            there = other.split(".")
            if there[0] == "companion":
                wrong.append(f"{name} imports {other}")
            elif len(there) > 1 and there[1] != parts[1] and FLOOR[there[1]] >= FLOOR[parts[1]]:
                wrong.append(f"{name} (floor {FLOOR[parts[1]]}) imports {other}")
    assert not wrong


def test_no_circles():
    done: set[str] = set()

    def visit(name: str, trail: tuple[str, ...]):
        assert name not in trail, "a circle: " + " -> ".join((*trail[trail.index(name) :], name))
        if name not in done:
            for other in sorted(used(name)):
                visit(other, (*trail, name))
            done.add(name)

    for name in sorted(MODULES):
        visit(name, ())


def test_no_private_name_crosses_a_file():
    wrong = []
    for name, path in MODULES.items():
        ours = [n for n in imported(name) if n.split(".")[0] in ("sflkit", "companion")]
        wrong += [f"{name}: {n}" for n in ours if n.rpartition(".")[2].startswith("_")]
        modules = {n.rpartition(".")[2] for n in ours}
        wrong += [
            f"{name}: {node.value.id}.{node.attr}"
            for node in ast.walk(tree_of(path))
            if isinstance(node, ast.Attribute)
            and isinstance(node.value, ast.Name)
            and node.value.id in modules
            and node.attr.startswith("_")
            and not node.attr.startswith("__")
            and node.attr not in NAMED_TUPLE
        ]
    assert not wrong


def test_light_modules_load_nothing_heavy():
    names = [f"sflkit.{name}" for name in LIGHT.split()]
    code = (
        f"import importlib, sys\nfor name in {names}: importlib.import_module(name)\n"
        f"print(*[name for name in {sorted(HEAVY)} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stdout.strip()) == (0, ""), done.stderr
