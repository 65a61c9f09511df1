"""The wheel, installed outside the clone: complete, typed, enough for the library's snippets."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import zipfile

import pytest

import sflkit
from tests.helpers import ROOT

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """The wheel's file."""
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "--quiet"]
    # of a copy without what is ignored, since setuptools leaves build/ and an egg-info behind
    source = folder / "source"
    source.mkdir()
    for name in ("sflkit", "pyproject.toml", "README.md", "LICENSE", "MANIFEST.in"):
        (source / name).symlink_to(ROOT / name)
    subprocess.run([*command, "--wheel-dir", folder, source], check=True, timeout=300)
    (file,) = folder.glob("*.whl")
    return file


@pytest.fixture(scope="module")
def outside(wheel, tmp_path_factory):
    """Run Python where the wheel is installed and no clone is near."""
    folder = tmp_path_factory.mktemp("outside")
    site = folder / "site"
    zipfile.ZipFile(wheel).extractall(site)
    (folder / "work").mkdir()
    environment = {k: v for k, v in os.environ.items() if not k.startswith("SFLKIT_")}
    environment |= {"PYTHONPATH": str(site), "XDG_CACHE_HOME": str(folder / "cache")}

    def run(*arguments):
        return subprocess.run(
            [sys.executable, *arguments],
            cwd=folder / "work",
            env=environment | {"SFLKIT_BATCH": "1"},
            capture_output=True,
            text=True,
            timeout=300,
        )

    return run


def test_it_holds_the_library_and_nothing_else(wheel):
    names = zipfile.ZipFile(wheel).namelist()
    assert "sflkit/py.typed" in names and wheel.stat().st_size < 1_000_000
    found = {name for name in names if name.endswith(".py")}
    assert found == {str(path.relative_to(ROOT)) for path in (ROOT / "sflkit").rglob("*.py")}
    rest = {name.split("/")[0] for name in names} - {"sflkit"}
    assert rest == {f"sflkit-{sflkit.__version__}.dist-info"}


def test_doctor_says_where_notebooks_come_from(outside):
    found = outside("-m", "sflkit.cli", "doctor")
    assert found.returncode == 0, found.stderr
    assert "notebooks  none here: clone the repository" in found.stdout
    assert "/site/sflkit\n" in found.stdout and "missing" not in found.stdout


def test_what_is_missing_is_named_with_the_way_to_get_it(monkeypatch):
    from sflkit import installed

    assert installed.missing() == {}
    there = installed.version
    gone = ("ipywidgets", "papermill", "cvxpy")
    monkeypatch.setattr(installed, "version", lambda n: None if n in gone else there(n))
    found = installed.missing()
    assert sorted(found) == ["", "lab"] and len(found["lab"]) == 2
    said = installed.told("lab", found["lab"])
    assert re.fullmatch(
        r'missing    running notebooks needs more: python -m pip install "ipywidgets[<>=.,\d]+" '
        r'"papermill[<>=.,\d]+"',
        said,
    )


def test_the_snippets_of_readme_and_library_guide_run_from_the_wheel(outside, tmp_path):
    pages = (ROOT / "README.md", ROOT / "docs" / "guides" / "library.md")
    text = "\n".join(page.read_text(encoding="utf-8") for page in pages)
    blocks = re.findall(r"^```python\n(.*?)^```$", text, re.M | re.S)
    assert len(blocks) >= 3
    for block in blocks:
        file = tmp_path / "snippet.py"
        file.write_text(block)
        done = outside(str(file))
        assert done.returncode == 0, f"{block}\n{done.stderr}"
