"""One small run a paper and a sweep on threads and processes, by whatever versions are installed.

`python small_runs.py FOLDER` ends with "whole" where all of them gave finite accuracies; the folder
takes the results of the sweep.
"""

from __future__ import annotations

import sys
from pathlib import Path

import joblib
import numpy as np

from sflkit.datastreams import training as datastreams
from sflkit.datastreams.config import DataStreamsConfig
from sflkit.fats import training as fats
from sflkit.fats.config import FATSConfig
from sflkit.osafl import training as osafl
from sflkit.osafl.config import OSAFLConfig
from sflkit.runs import run_many
from sflkit.sfl import training as sfl
from sflkit.sfl.config import SFLConfig


def sweep(folder: Path) -> None:
    """Two runs on threads, two on processes, and none the second time."""
    small = dict(data="digits", model="linear", rounds=2, capacity=30, batch_size=15)
    for seed, backend in enumerate(("threading", "loky")):
        configs = [SFLConfig(rule=rule, seed=seed, **small) for rule in ("drsr", "fifo")]
        with joblib.parallel_config(backend=backend):
            for computed in (2, 0):
                found = run_many(sfl.run, configs, jobs=2, store=folder)
                assert found.attrs["computed"] == computed
                assert np.isfinite(found["accuracy"].dropna()).all()


def papers() -> None:
    """A run of the other three papers, a few rounds each."""
    runs = (
        (osafl.run, OSAFLConfig(rounds=2, n_clients=4, hidden=(8,), test_size=40)),
        (datastreams.run, DataStreamsConfig(rounds=2)),
        (
            fats.run,
            FATSConfig(
                data="digits", model="linear", n_clients=8, rounds=2, clients_per_round=2,
                local_steps=2, batch_size=5, min_samples=5, n_requests=1,
            ),
        ),
    )  # fmt: skip
    for run, config in runs:
        assert np.isfinite(run(config)["accuracy"].dropna()).all()


if __name__ == "__main__":
    sweep(Path(sys.argv[1]))
    papers()
    print("whole")
