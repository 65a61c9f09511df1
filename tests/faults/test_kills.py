"""kill -9 at random moments: of figures, the published runs, an unlearning request, a sweep.

After each, what was finished is there with the same bytes, nothing half-done passes for whole, no
process outlives the killed one, and a second call goes on to what an undisturbed one gives.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import textwrap
import time

import pytest
import torch

from companion import shelf
from sflkit import paths
from sflkit.fats.learning import learn, resume
from sflkit.fats.state import PendingRequestError, load
from sflkit.runs import store
from tests.faults import campaign
from tests.helpers import DRAW, ROOT, write_notebook

SFLKIT = [sys.executable, "-m", "sflkit.cli"]
QUIET = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}


def whole(command):
    """Run a command to its end and return what it took, in seconds."""
    began = time.monotonic()
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    return time.monotonic() - began


@pytest.mark.slow
def test_figures(clone):
    write_notebook(clone / "notebooks" / "10_first.ipynb", run=DRAW, artefacts=["sfl-fig2"])
    command = [*SFLKIT, "figures"]
    seconds = whole(command)
    folder = clone / "figures"
    right = campaign.contents(folder)
    for number in campaign.tries(1):
        moment = campaign.generator("figures", number).uniform(0.1, seconds)
        shutil.rmtree(folder)
        campaign.kill(subprocess.Popen(command, **QUIET), moment)
        whole(command)
        assert campaign.contents(folder) == right  # and no temporary file


@pytest.mark.slow
def test_paper(planned, monkeypatch):
    clone = planned({"10": ("study", {"seeds": list(range(10))})})
    monkeypatch.setenv("PROBE_SECONDS", "0.1")
    command = [*SFLKIT, "paper", "--jobs", "2"]
    seconds = whole(command)
    folder, log = paths.published(), clone / "log"
    right = records(folder)
    for number in campaign.tries(1):
        moment = campaign.generator("paper", number).uniform(0.1, seconds)
        shutil.rmtree(folder)
        log.unlink()
        campaign.kill(subprocess.Popen(command, **QUIET), moment)
        found = shelf.survey(folder)
        assert not [wrong for wrong in found.damaged.values() if "without a record" not in wrong]
        whole(command)
        assert found.records.items() <= shelf.survey(folder).records.items()
        assert records(folder) == right and not shelf.survey(folder).damaged
        # Two were in flight at the kill; no other ran twice.
        assert log.read_text().count("start") <= len(right) + 2
        assert not list(folder.rglob("*.tmp"))


def records(folder):
    """Return the numbers of a folder's results by key."""
    keys = shelf.survey(folder).records
    return {key: store.look(key, folder).content for key in keys}


SERVING = textwrap.dedent("""
    import sys
    sys.path.insert(0, sys.argv[2])
    import numpy as np
    from tests.fats.fats_cases import setup
    from sflkit.fats.state import load
    from sflkit.fats.learning import forget
    task, clients, _, _ = setup(1, rounds=8)
    path, rng = sys.argv[1], np.random.default_rng(int(sys.argv[3]))
    state = load(path)
    print("ready", flush=True)
    for target in [(k, s) for s in range(3) for k in range(4)]:
        print("ask", *target, flush=True)
        state = forget(task, clients, state, [target], rng, path=path)
        print("done", *target, flush=True)
""")


def test_unlearning_request(tmp_path):
    from tests.fats.fats_cases import poisoned, setup

    task, clients, history, _ = setup(1, rounds=8)
    learned = tmp_path / "learned"
    learn(task, clients, history, 0.3, start=task.init(0), path=learned)
    for number in campaign.tries(1):
        moment = campaign.generator("unlearning", number).uniform(0, 0.5)
        path = tmp_path / str(number) / "state.npz"
        path.parent.mkdir()
        shutil.copy(learned, path)
        command = [sys.executable, "-c", SERVING, str(path), str(ROOT), str(number)]
        child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert child.stdout.readline() == "ready\n"
        campaign.kill(child, moment)
        said = [line.split() for line in child.stdout.read().splitlines()]
        child.stdout.close()
        asked, served = (
            {(int(k), int(s)) for word, k, s in said if word == wanted}
            for wanted in ("ask", "done")
        )
        left = load(path)
        forgotten = set(left.history.forgotten)
        assert served <= forgotten <= asked
        if left.status == "pending":
            with pytest.raises(PendingRequestError):
                _ = left.params
        # Who touched what is forgotten would get NaN, and another model than one that never
        # saw it.
        clean = poisoned(clients, forgotten)
        done = resume(task, clean, left, path=path, until=left.history.rounds)
        assert load(path).status == "clean"
        anew = learn(task, clean, left.history, 0.3, start=task.init(0))
        assert torch.equal(done.params, anew.params)
        assert {file.name for file in path.parent.iterdir()} == {"state.npz"}


SWEEPING = textwrap.dedent("""
    import contextlib, sys
    sys.path.insert(0, sys.argv[2])
    import joblib
    import paper_probe
    from sflkit.runs import sweep
    if __name__ == "__main__":
        with contextlib.ExitStack() as stack:
            if sys.argv[3] == "dask":
                import distributed
                options = dict(threads_per_worker=1, processes=True, dashboard_address=None)
                local = stack.enter_context(distributed.LocalCluster(n_workers=2, **options))
                stack.enter_context(distributed.Client(local))
            stack.enter_context(joblib.parallel_config(backend=sys.argv[3]))
            configs = [paper_probe.Config(seed) for seed in range(12)]
            sweep.run_many(paper_probe.run, configs, store=sys.argv[1], jobs=2)
""")


@pytest.mark.parametrize("backend", ["loky", pytest.param("dask", marks=pytest.mark.slow)])
def test_sweep(tmp_path, monkeypatch, backend):
    if backend == "dask":
        pytest.importorskip("distributed")
    shutil.copy(ROOT / "tests" / "app" / "paper_probe.py", tmp_path)
    (tmp_path / "sweeping.py").write_text(SWEEPING)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), str(ROOT)]))
    monkeypatch.setenv("PROBE_SECONDS", "0.05")
    # The probe writes down how many threads it had, and the last run that is missing has them all.
    monkeypatch.setenv("SFLKIT_THREADS", "1")
    folder = tmp_path / "store"
    command = [sys.executable, str(tmp_path / "sweeping.py"), str(folder), str(tmp_path), backend]
    seconds = whole(command)
    right = records(folder)
    assert len(right) == 12
    for number in campaign.tries(1, 0.3):
        moment = campaign.generator(f"sweep on {backend}", number).uniform(0.1, seconds)
        shutil.rmtree(folder)
        campaign.kill(subprocess.Popen(command, **QUIET), moment)
        kept = records(folder)
        assert kept.items() <= right.items()
        whole(command)
        assert records(folder) == right
        assert not [key for key in right if store.look(key, folder).wrong]
        assert not [name for name in campaign.contents(folder) if name.endswith(".tmp")]
