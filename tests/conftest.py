"""What all tests share: results and figures go to a scratch folder, and a small clone with
notebooks of its own.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from pathlib import Path

import hypothesis
import pytest

from companion.app import fingerprints
from sflkit.runs import origin
from tests.helpers import ROOT, write_notebook

# The pages with generated blocks, and the names of these.
PAGES = {
    "README.md": ("findings", "notebooks", "verdicts"),
    "docs/guides/notebooks.md": ("notebooks",),
    "docs/guides/speed.md": ("bench",),
    "notebooks/README.md": ("index", "figures"),
}
THREADS = ("SFLKIT_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


# A slow machine is no mistake; in CI hypothesis' own profile stays the base.
hypothesis.settings.register_profile("house", hypothesis.settings.default, deadline=None)
hypothesis.settings.load_profile("house")


def pytest_configure(config):
    os.environ.setdefault("SFLKIT_BATCH", "1")
    if (
        not hasattr(config, "workerinput") and "SFLKIT_CACHE" not in os.environ
    ):  # the workers inherit what is set here
        config.sflkit_scratch = tempfile.mkdtemp(prefix="sflkit-test-")
        os.environ["SFLKIT_CACHE"] = f"{config.sflkit_scratch}/results"
        os.environ.setdefault("SFLKIT_FIGURES", f"{config.sflkit_scratch}/figures")


@pytest.fixture(autouse=True)
def _unedited(monkeypatch):
    """Take the library for what is committed, whatever is being edited while the tests run."""
    monkeypatch.setattr(origin, "edits", lambda run, commit="HEAD": iter(()))


def pytest_collection_modifyitems(config, items):
    """What is marked slow runs only where $SFLKIT_FAULTS is set, as `make faults` does.

    A notebook is not executed again where nothing changed that it was made of since `make figures`
    executed it, its outputs and figures included.
    """
    books = {item.path for item in items if item.path.suffix == ".ipynb"}
    current = {book for book in books if fingerprints.is_current(book)}
    config.hook.pytest_deselected(items=[item for item in items if item.path in current])
    items[:] = [item for item in items if item.path not in current]
    if not os.environ.get("SFLKIT_FAULTS"):
        skip = pytest.mark.skip(reason="takes long: `make faults` runs it")
        for item in items:
            if item.get_closest_marker("slow"):
                item.add_marker(skip)


def pytest_unconfigure(config):
    if hasattr(config, "sflkit_scratch"):
        shutil.rmtree(config.sflkit_scratch, ignore_errors=True)


@pytest.fixture(scope="session")
def root() -> Path:
    """The clone under test."""
    return ROOT


@pytest.fixture
def clone(tmp_path, monkeypatch) -> Path:
    """A copy of the project with two short notebooks, as working directory."""
    shutil.copytree(
        ROOT / "sflkit", tmp_path / "sflkit", ignore=shutil.ignore_patterns("__pycache__")
    )
    for name in ("pyproject.toml", ".gitignore"):
        shutil.copy(ROOT / name, tmp_path)
    (tmp_path / "notebooks").mkdir()
    (tmp_path / "notebooks" / "profiles.yaml").write_text(
        'paper:\n  "10": {rounds: 4, rate: 1.0e-3}\n'
    )
    (tmp_path / "docs" / "guides").mkdir(parents=True)
    for page, names in PAGES.items():
        blocks = (f"<!-- {name}:begin -->\n<!-- {name}:end -->\n" for name in names)
        (tmp_path / page).write_text("".join(blocks))
    write_notebook(tmp_path / "notebooks" / "10_first.ipynb")
    write_notebook(tmp_path / "notebooks" / "12_second.ipynb", artefacts=())
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("companion.app.check.PARTS", ())  # it lacks most of what is published
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join((str(tmp_path), str(ROOT))))
    for name in ("SFLKIT_FIGURES", "SFLKIT_CACHE", "SFLKIT_PUBLISH"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


@pytest.fixture
def planned(clone, monkeypatch):
    """That clone with `tests/app/paper_probe.py` as a module of plans.

    It is a function that writes the notebooks: number -> name of a plan there ("" for none), and
    the values of its parameters. What it returns is the clone.
    """
    shutil.copy(ROOT / "tests" / "app" / "paper_probe.py", clone)
    monkeypatch.syspath_prepend(str(clone))
    for name in ("SFLKIT_BATCH", *THREADS):  # `sflkit` sets them
        monkeypatch.setenv(name, "1")
    monkeypatch.setenv("SFLKIT_THREADS", "2")
    for book in (clone / "notebooks").glob("*.ipynb"):
        book.unlink()

    def write(books):
        for number, (function, values) in books.items():
            write_notebook(
                clone / "notebooks" / f"{number}_probe.ipynb",
                plan=f"paper_probe:{function}" if function else None,
                values=values,
            )
        return clone

    sys.modules.pop("paper_probe", None)
    yield write
    sys.modules.pop("paper_probe", None)
