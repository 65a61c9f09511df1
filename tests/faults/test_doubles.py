"""Two of a kind at once: neither breaks what the other does."""

from __future__ import annotations

import subprocess
import sys
import time

import pytest

from sflkit.runs import sums
from tests.faults import campaign
from tests.helpers import DRAW, write_notebook

FIGURES = [sys.executable, "-m", "sflkit.cli", "figures", "--only", "10"]


@pytest.mark.slow
def test_two_times_figures(clone):
    write_notebook(clone / "notebooks" / "10_first.ipynb", run=DRAW, artefacts=["sfl-fig2"])
    folder = clone / "figures"
    right = {}
    for number in campaign.tries(1, 0.1):
        apart = campaign.generator("doubles", number).uniform(0, 3)
        first = subprocess.Popen(FIGURES, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        time.sleep(apart)
        second = subprocess.Popen(FIGURES, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        said = [process.communicate(timeout=300)[0].decode() for process in (first, second)]
        assert [first.returncode, second.returncode] == [0, 0], "\n---\n".join(said)
        assert apart > 2 or any("waiting for " in text for text in said), said
        assert not list(sums.damages(folder))
        right = right or campaign.contents(folder)
        assert campaign.contents(folder) == right
