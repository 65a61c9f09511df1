"""A module imports only from its own or a lower layer, heavy packages load on first use, and files stay small."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[1] / "sflkit"
# 0 lies below everything; the rest is the table of the layers. A new module needs an entry here.
LAYERS = {
    0: ("checks", "randomness", "registry", "rounding", "paths"),
    1: ("streams", "caches", "importance", "video", "stores", "wireless", "alternation", "channels", "histories", "draws",
        "stability", "enumeration", "recomputation", "fats", "bounds"),
    2: ("archives", "data", "downloads", "federations", "natural", "partitions", "synthetic", "traffic"),
    3: ("models", "engine", "batches", "backends", "fused", "replicas", "servers", "unlearning", "retraining", "states",
        "ledgers", "attacks", "buffered", "scores"),
    4: ("runs", "sweep", "results", "intervals", "verdicts", "report"),
    5: ("app",),
}
LAYER = {name: layer for layer, names in LAYERS.items() for name in names}
# Packages that cost over a second, or open a display: only layer 3 may name torch at the top of a module.
HEAVY = {"torch", "sklearn", "cvxpy", "seaborn", "matplotlib.pyplot"}
MODULES = sorted(path for path in PACKAGE.rglob("*.py") if path.name != "__init__.py" or path.parent != PACKAGE)


def part(path: Path) -> str:
    """The module or subpackage of sflkit that a file belongs to."""
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imports(path: Path, top_level_only: bool = False):
    """Yield the dotted names that a file imports; `from a import b` counts as a.b."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    functions = [node for node in ast.walk(tree) if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))]
    inside = {id(node) for function in functions for node in ast.walk(function)}
    for node in ast.walk(tree):
        if top_level_only and id(node) in inside:
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path.name}: relative import"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def test_every_module_has_a_layer():
    unknown = {part(path) for path in MODULES} - set(LAYER)
    assert not unknown, f"give {', '.join(sorted(unknown))} a layer in {Path(__file__).name}"


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_imports_point_downwards(path):
    own = LAYER[part(path)]
    for name in imports(path):
        used = name.split(".")[1] if name.startswith("sflkit.") else None
        if used in LAYER:
            assert LAYER[used] <= own, f"{path.name} (layer {own}) imports sflkit.{used} (layer {LAYER[used]})"
    if part(path) != "app":
        assert not any(name.split(".")[0] in ("papermill", "nbclient", "nbformat", "ipywidgets") for name in imports(path))


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_heavy_packages_load_on_first_use(path):
    allowed = {"torch"} if LAYER[part(path)] == 3 else set()
    top = {heavy for name in imports(path, top_level_only=True) for heavy in HEAVY if f"{name}.".startswith(f"{heavy}.")}
    assert top <= allowed, f"{path.name} imports {', '.join(sorted(top - allowed))} at its top"


def test_importing_all_but_layer_3_loads_nothing_heavy():
    names = [f"sflkit.{name}" for name, layer in LAYER.items() if layer != 3 and list(PACKAGE.glob(f"{name}*"))]
    names += [f"sflkit.app.{module}" for module in ("cli", "gate", "batch", "tables")]
    code = (f"import importlib, sys\nimport sflkit\nfor name in {names}: importlib.import_module(name)\n"
            f"print(*[name for name in {sorted(HEAVY)} if name in sys.modules])")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == ""


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_files_are_small_and_say_what_they_are(path):
    source = path.read_text(encoding="utf-8")
    assert len(source.splitlines()) <= 350
    assert ast.get_docstring(ast.parse(source)), "a module docstring is missing"
