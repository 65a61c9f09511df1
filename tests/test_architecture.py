"""The floor map: who may import whom, where heavy packages load, and what every file says of
itself.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from tests.helpers import ROOT

PACKAGE = ROOT / "sflkit"
# A module imports only from floors below its own, or from its own package.
FLOORS = {
    5: ("beyond",),  # what papers make together; on floor 4 it would have to be one of them
    4: ("sfl", "datastreams", "osafl", "fats", "app", "teaching"),
    3: ("data", "federated", "results"),
    2: ("models", "randomness", "config", "machine", "rounding"),
    1: ("checks", "registry", "paths", "npzfiles", "torch_draws"),
}
FLOOR = {name: floor for floor, names in FLOORS.items() for name in names}
PAPERS = ("sfl", "datastreams", "osafl", "fats")
# Packages that take a second to load, or open a display. Only what trains may name torch at the top
# of a module.
HEAVY = {"torch", "sklearn", "cvxpy", "seaborn", "matplotlib.pyplot"}
TRAINS = (
    "beyond/evidence",
    "beyond/pictures",
    "beyond/stores",
    "federated",
    "models",
    "datastreams/evidence/algorithm",
    "datastreams/arms",
    "datastreams/constants",
    "datastreams/evidence/strategies",
    "osafl/clients",
    "osafl/config",
    "osafl/errata",
    "osafl/evidence/by_hand",
    "osafl/evidence/comparison",
    "osafl/evidence/remarks",
    "osafl/evidence/training",
    "osafl/networks",
    "osafl/plans/training",
    "osafl/evidence/resources",
    "osafl/evidence/stragglers",
    "osafl/pictures/resources",
    "osafl/rules",
    "osafl/scores",
    "osafl/sharing",
    "osafl/training",
    "osafl/tuning",
    "fats/attacks",
    "fats/baselines",
    "fats/state",
    "fats/unlearning",
)
NAMED_TUPLE = ("_asdict", "_fields", "_make", "_replace")  # public, whatever their names look like
NOTEBOOK_TOOLS = {"papermill", "nbclient", "nbformat", "snakemake"}
MODULES = sorted(path for path in PACKAGE.rglob("*.py") if path != PACKAGE / "__init__.py")
BY_NAME = {
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path
    for path in MODULES
}


def name_of(path: Path) -> str:
    return str(path.relative_to(PACKAGE).with_suffix(""))


def part(path: Path) -> str:
    """The module or package of sflkit that a file belongs to."""
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imports(path: Path, top_level_only: bool = False):
    """Yield the dotted names that a file imports; `from a import b` counts as a.b."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    functions = [
        node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    inside = {id(node) for function in functions for node in ast.walk(function)}
    guarded = [
        node
        for node in tree.body
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
    ]
    type_checking = {id(node) for block in guarded for node in ast.walk(block)}
    for node in ast.walk(tree):
        if top_level_only and id(node) in inside | type_checking:
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path.name}: relative import"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def modules_imported(path: Path) -> set[str]:
    """The modules of sflkit that a file imports, at its top or in a function."""
    found = set()
    for name in imports(path):
        while name and name not in BY_NAME:
            name = name.rpartition(".")[0]
        if name:
            found.add(name)
    return found


def test_every_module_has_a_floor():
    unknown = {part(path) for path in MODULES} - set(FLOOR)
    assert not unknown, f"give {', '.join(sorted(unknown))} a floor in {Path(__file__).name}"


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_imports_point_downwards(path):
    own = part(path)
    for name in modules_imported(path):
        used = part(BY_NAME[name])
        assert used == own or FLOOR[used] < FLOOR[own], (
            f"{name_of(path)} (floor {FLOOR[own]}) imports {name} (floor {FLOOR[used]})"
        )


def test_no_circles():
    graph = {name: modules_imported(path) - {name} for name, path in BY_NAME.items()}
    done: set[str] = set()

    def visit(name: str, trail: tuple[str, ...]):
        assert name not in trail, "a circle: " + " -> ".join((*trail[trail.index(name) :], name))
        if name not in done:
            for used in sorted(graph[name]):
                visit(used, (*trail, name))
            done.add(name)

    for name in sorted(graph):
        visit(name, ())


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_no_private_name_crosses_a_file(path):
    tree = ast.parse(path.read_text(encoding="utf-8"))
    modules = {
        alias.asname or alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("sflkit")
        for alias in node.names
    }
    taken = [
        name
        for name in imports(path)
        if name.startswith("sflkit.") and name.rpartition(".")[2].startswith("_")
    ]
    reached = [
        f"{node.value.id}.{node.attr}"
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and node.value.id in modules
        and node.attr.startswith("_")
        and not node.attr.startswith("__")
        and node.attr not in NAMED_TUPLE
    ]
    assert not taken + reached


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_heavy_packages_load_on_first_use(path):
    name = name_of(path)
    allowed = {"torch"} if name.startswith(TRAINS) else set()
    top = {
        heavy
        for used in imports(path, top_level_only=True)
        for heavy in HEAVY
        if f"{used}.".startswith(f"{heavy}.")
    }
    assert top <= allowed, f"{name} imports {', '.join(sorted(top - allowed))} at its top"
    if part(path) != "app":
        assert not any(used.split(".")[0] in NOTEBOOK_TOOLS for used in imports(path))


def test_importing_what_does_not_train_loads_nothing_heavy():
    names = [name for name, path in BY_NAME.items() if not name_of(path).startswith(TRAINS)]
    code = (
        f"import importlib, sys\nfor name in {names}: importlib.import_module(name)\n"
        f"print(*[name for name in {sorted(HEAVY)} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == ""


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_every_file_says_what_it_holds(path):
    assert ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))), (
        "a module docstring is missing"
    )


def test_summary(record_property):
    """The numbers that a closing note asks for, printed by `pytest -rP`."""
    files = {floor: sum(FLOOR[part(path)] == floor for path in MODULES) for floor in FLOORS}
    upward = sum(
        FLOOR[part(BY_NAME[used])] >= FLOOR[part(path)] and part(BY_NAME[used]) != part(path)
        for path in MODULES
        for used in modules_imported(path)
    )
    between = sum(
        part(BY_NAME[used]) in PAPERS and part(path) in PAPERS and part(BY_NAME[used]) != part(path)
        for path in MODULES
        for used in modules_imported(path)
    )
    print(
        f"{len(MODULES)} files on {len(FLOORS)} floors {files}; {upward} upward imports, "
        f"{between} imports between papers"
    )
    assert (upward, between) == (0, 0)
