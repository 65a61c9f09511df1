"""A worker of a Dask cluster that is killed loses nothing: its run is begun again elsewhere."""

from __future__ import annotations

import collections
import os
import signal
import sys
import threading
import time
from pathlib import Path

import joblib
import pandas as pd
import pytest

from sflkit.runs import sweep
from sflkit.sfl import cache_paths
from sflkit.sfl.config import SFLConfig

# What `cache_paths.run` does, with a note of every beginning; a run of seed 3 notes its process and
# waits while the file `hold` exists.
PROBE = """
import os, time
from pathlib import Path
from sflkit.sfl import cache_paths
from sflkit.sfl.config import SFLConfig
EXPERIMENT = "cluster-probe"
RESULT_VERSION = 1
FOLDER = Path(__file__).parent

def run(config):
    with open(FOLDER / "begun", "a") as file:
        file.write(f"{config.seed}\\n")
    if config.seed == 3 and (FOLDER / "hold").exists():
        (FOLDER / "new").write_text(str(os.getpid()))
        os.replace(FOLDER / "new", FOLDER / "holder")
        while (FOLDER / "hold").exists():
            time.sleep(0.01)
    return cache_paths.run(config)
"""


@pytest.mark.slow
def test_a_killed_worker_costs_only_what_it_was_in_the_middle_of(tmp_path, monkeypatch):
    distributed = pytest.importorskip("distributed")
    (tmp_path / "cluster_probe.py").write_text(PROBE)
    (tmp_path / "hold").touch()
    monkeypatch.syspath_prepend(str(tmp_path))
    path = os.pathsep.join([str(tmp_path), str(Path(sweep.__file__).parents[2])])
    monkeypatch.setenv("PYTHONPATH", path)
    sys.modules.pop("cluster_probe", None)
    import cluster_probe

    small = dict(train=False, n_clients=3, rounds=8, capacity=12, batch_size=6)
    configs = [SFLConfig(seed=seed, **small) for seed in range(8)]
    one_process = sweep.run_many(cache_paths.run, configs, store=tmp_path / "serial")

    def kill():
        while not (tmp_path / "holder").exists():
            time.sleep(0.01)
        os.kill(int((tmp_path / "holder").read_text()), signal.SIGKILL)
        (tmp_path / "hold").unlink()

    workers = dict(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None)
    with (
        distributed.LocalCluster(**workers) as local,
        distributed.Client(local),
        joblib.parallel_config(backend="dask"),
    ):
        threading.Thread(target=kill, daemon=True).start()
        frame = sweep.run_many(cluster_probe.run, configs, store=tmp_path / "store")
    pd.testing.assert_frame_equal(
        frame.drop(columns="key"), one_process.drop(columns="key"), check_exact=True
    )
    begun = collections.Counter(map(int, (tmp_path / "begun").read_text().split()))
    assert begun[3] == 2 and set(begun.values()) <= {1, 2}
    again = sweep.run_many(cluster_probe.run, configs, store=tmp_path / "store")
    assert again.attrs["computed"] == 0
