"""The lowest and the newest versions that pyproject allows: each runs a small run a paper, a sweep
and the README's block, in an environment of its own.

`SFLKIT_PYTHONS="python3.11 python3.13"` names the interpreters; by default this one alone. Where a
version has no wheel for an interpreter the test is skipped with pip's own words.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib

import pytest

from tests.helpers import ROOT

PYTHONS = os.environ.get("SFLKIT_PYTHONS", sys.executable).split()
RANGE = re.compile(r"(?P<name>[A-Za-z0-9-]+)>=(?P<low>[\d.]+),<(?P<high>[\d.]+)")


def wanted(which: str) -> list[str]:
    """The library's dependencies, at their lowest versions or as the ranges stand."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    if which == "newest":
        return project["dependencies"]
    return [RANGE.fullmatch(text).expand(r"\g<name>==\g<low>") for text in project["dependencies"]]


def test_every_dependency_has_a_lowest_and_a_first_excluded_version():
    assert all(map(RANGE.fullmatch, wanted("newest")))
    assert len(wanted("lowest")) == len(wanted("newest"))


@pytest.mark.slow
@pytest.mark.faults
@pytest.mark.parametrize("python", PYTHONS)
@pytest.mark.parametrize("which", ["lowest", "newest"])
def test_small_runs(which, python, tmp_path):
    if shutil.which(python) is None:
        pytest.skip(f"{python} is not here")
    subprocess.run([python, "-m", "venv", tmp_path / "env"], check=True)
    own = tmp_path / "env" / "bin" / "python"
    install = [own, "-m", "pip", "install", "-q", "--only-binary", ":all:", *wanted(which)]
    done = subprocess.run(install, capture_output=True, text=True)
    if done.returncode and "No matching distribution" in done.stderr:
        pytest.skip(done.stderr.strip().splitlines()[-1])
    assert done.returncode == 0, done.stderr
    block = re.search(r"^```python\n(.*?)^```$", (ROOT / "README.md").read_text(), re.M | re.S)
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    small = [ROOT / "tests" / "faults" / "small_runs.py", tmp_path / "store"]
    for arguments in (small, ["-c", block[1]]):
        done = subprocess.run([own, *arguments], env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
