"""A clock that jumps back: what was made before the jump looks newer than what is changed after."""

from __future__ import annotations

import os
import subprocess
import sys
import time

from tests.faults import campaign
from tests.helpers import DRAW, write_notebook

FIGURES = [sys.executable, "-m", "sflkit.cli", "figures", "--only", "10"]


def test_figures(clone):
    path = write_notebook(clone / "notebooks" / "10_first.ipynb", DRAW, ["sfl-fig2"])
    assert subprocess.run(FIGURES, capture_output=True).returncode == 0
    for number in campaign.tries(1, 0.1):
        jump = campaign.generator("clocks", number).uniform(60, 10**6)
        with campaign.attempt("clock that jumps back"):
            ahead = time.time() + jump
            for file in (clone / "out").rglob("*"):
                os.utime(file, (ahead, ahead))
            # Changed after the jump, and yet older than what was made from it.
            write_notebook(path, DRAW.replace("float(rounds)", f"{4.0 + number}"), ["sfl-fig2"])
            done = subprocess.run(FIGURES, capture_output=True, text=True)
            assert "1 run, 0 up to date, 0 failed" in done.stdout, done.stdout + done.stderr
            drawn = (clone / "figures" / "quick" / "sfl-fig2.csv").read_text()
            assert drawn.endswith(f",{4 + number}\n")
