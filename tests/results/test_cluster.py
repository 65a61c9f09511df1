"""A figure's sweep on a Dask cluster: the numbers of one process on any number of workers, and
nothing lost with a killed worker.

The workers are processes on this host.
"""

from __future__ import annotations

import collections
import contextlib
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

pytestmark = pytest.mark.slow
RULES = ("fifo", "srsr", "drsr", "lazy", "reservoir")
# What `cache_paths.run` does, with a note of every beginning; `hold` is the rule and seed of a run
# that notes its process and waits while that file exists.
PROBE = """
import os, time
from pathlib import Path
from sflkit.sfl import cache_paths
from sflkit.sfl.config import SFLConfig
EXPERIMENT = "cluster-probe"
RESULT_VERSION = 1
FOLDER = Path(__file__).parent

def run(config):
    name = f"{config.rule} {config.seed}"
    with open(FOLDER / "begun", "a") as file:
        file.write(name + chr(10))
    hold = FOLDER / "hold"
    if hold.exists() and hold.read_text() == name:
        (FOLDER / "holder").write_text(str(os.getpid()))
        while hold.exists():
            time.sleep(0.01)
    return cache_paths.run(config)
"""


@pytest.fixture
def probe(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv(
        "PYTHONPATH", os.pathsep.join([str(tmp_path), str(Path(sweep.__file__).parents[2])])
    )
    monkeypatch.setenv("SFLKIT_THREADS", "4")
    return load(tmp_path)


def load(folder):
    (folder / "cluster_probe.py").write_text(PROBE)
    sys.modules.pop("cluster_probe", None)
    import cluster_probe

    return cluster_probe


@contextlib.contextmanager
def cluster(workers):
    """Start worker processes and make them joblib's back end."""
    distributed = pytest.importorskip("distributed")
    with (
        distributed.LocalCluster(
            n_workers=workers, threads_per_worker=1, processes=True, dashboard_address=None
        ) as local,
        distributed.Client(local) as client,
        joblib.parallel_config(backend="dask"),
    ):
        assert len(set(client.run(os.getpid).values()) - {os.getpid()}) == workers
        yield client


@contextlib.contextmanager
def killer(victim):
    """Kill the worker whose pid `victim()` gives as soon as it gives one; yields a list that then
    holds the pid.
    """
    killed = []

    def kill():
        while not (pid := victim()):
            time.sleep(0.005)
        os.kill(pid, signal.SIGKILL)
        killed.append(pid)

    thread = threading.Thread(target=kill, daemon=True)
    thread.start()
    yield killed
    thread.join(timeout=30)


def begun(probe):
    """How often each run was begun."""
    return collections.Counter((probe.FOLDER / "begun").read_text().splitlines())


def same(frame, other):
    pd.testing.assert_frame_equal(
        frame.drop(columns="key"), other.drop(columns="key"), check_exact=True
    )


def figure(seeds, **options):
    return [
        SFLConfig(train=False, rule=rule, seed=s, temperature=0.2, **options)
        for rule in RULES
        for s in range(seeds)
    ]


def test_a_killed_worker_loses_nothing_and_only_its_run_is_begun_again(probe, tmp_path):
    configs = figure(4, n_clients=3, rounds=8, capacity=12, batch_size=6)
    one_process = sweep.run_many(cache_paths.run, configs, store=tmp_path / "serial")
    held = f"{configs[6].rule} {configs[6].seed}"
    (tmp_path / "hold").write_text(held)
    store = tmp_path / "killed"
    with cluster(4) as client:

        def victim():
            # Not the worker that happens to be busy: another may have written its result but not
            # yet said so to the scheduler.
            others_done = len(list(store.rglob("*.json"))) == len(configs) - 1
            alone = others_done and sum(map(len, client.processing().values())) == 1
            holder = tmp_path / "holder"  # not there while the last run has yet to begin
            return int(holder.read_text() or 0) if alone and holder.exists() else 0

        with killer(victim) as killed:
            waiter = threading.Thread(
                target=lambda: (_until(lambda: killed), (tmp_path / "hold").unlink()), daemon=True
            )
            waiter.start()
            frame = sweep.run_many(probe.run, configs, store=store)
    same(one_process, frame)
    assert killed and begun(probe) == collections.Counter(
        {f"{c.rule} {c.seed}": 1 for c in configs} | {held: 2}
    )
    assert sweep.run_many(probe.run, configs, store=store).attrs["computed"] == 0


def _until(condition, seconds=60.0):
    end = time.monotonic() + seconds
    while not condition() and time.monotonic() < end:
        time.sleep(0.01)
