"""A limit on memory: the run that goes beyond it is named, and the others are not lost."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.faults import campaign
from tests.helpers import DRAW, write_notebook

SFLKIT = [sys.executable, "-m", "sflkit.cli"]
# The limit is the kernel's own, so that it is the kernel that runs out.
GREEDY = """\
import resource
resource.setrlimit(resource.RLIMIT_AS, (2 * 2**30, 2 * 2**30))
import numpy as np
blocks = [np.ones(2**26) for _ in range(100)]
"""


@pytest.mark.slow
def test_a_notebook(clone):
    write_notebook(clone / "notebooks" / "10_first.ipynb", DRAW, ["sfl-fig2"])
    write_notebook(clone / "notebooks" / "12_second.ipynb", GREEDY, ())
    for _ in campaign.tries(1, 0.1):
        with campaign.attempt("limit on memory"):
            done = subprocess.run([*SFLKIT, "figures"], capture_output=True, text=True)
            assert done.returncode == 1 and "FAILED 12_second" in done.stdout
            said = done.stdout + done.stderr
            assert "12_second, cell [3]: " in said
            assert "MemoryError" in said or "did memory run out?" in said
            assert (clone / "figures" / "sfl-fig2.png").is_file()
