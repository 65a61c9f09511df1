"""What all tests share: results and figures go to a scratch folder, and a small clone with
notebooks of its own.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

import pytest

from tests.helpers import ROOT, write_notebook


def pytest_configure(config):
    os.environ.setdefault("SFLKIT_BATCH", "1")
    if (
        not hasattr(config, "workerinput") and "SFLKIT_CACHE" not in os.environ
    ):  # the workers inherit what is set here
        config.sflkit_scratch = tempfile.mkdtemp(prefix="sflkit-test-")
        os.environ["SFLKIT_CACHE"] = f"{config.sflkit_scratch}/results"
        os.environ.setdefault("SFLKIT_FIGURES", f"{config.sflkit_scratch}/figures")


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
    for name in ("pyproject.toml", "Snakefile"):
        shutil.copy(ROOT / name, tmp_path)
    (tmp_path / "notebooks").mkdir()
    (tmp_path / "notebooks" / "profiles.yaml").write_text(
        'paper:\n  "10": {rounds: 4, rate: 1.0e-3}\n'
    )
    blocks = (
        f"<!-- {name}:begin -->\n<!-- {name}:end -->\n"
        for name in ("notebooks", "verdicts", "bench")
    )
    (tmp_path / "README.md").write_text("".join(blocks))
    write_notebook(tmp_path / "notebooks" / "10_first.ipynb")
    write_notebook(tmp_path / "notebooks" / "12_second.ipynb", artefacts=())
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    for name in ("SFLKIT_FIGURES", "SFLKIT_CACHE", "SFLKIT_WATCH", "SFLKIT_PUBLISH"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path
