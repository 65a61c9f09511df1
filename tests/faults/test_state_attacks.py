"""Attacks on unlearning states, all kinds and many tries; see `tests.fats.state_attacks`.

And what other processes do to the lock of a state: a child that was forked while it was held, a
process that was stopped inside `save`.
"""

from __future__ import annotations

import collections
import os
import signal
import subprocess
import sys
import textwrap
import threading

import pytest

from sflkit import paths
from sflkit.fats.learning import forget, learn
from sflkit.fats.state import load, save
from tests.fats.fats_cases import setup
from tests.fats.state_attacks import ATTACKS, BAD, attacked, world
from tests.faults import campaign
from tests.helpers import ROOT


@pytest.fixture(scope="module")
def states(tmp_path_factory):
    return world(tmp_path_factory.mktemp("states"), 1)


@pytest.mark.parametrize("kind", ATTACKS)
def test_attacks(states, tmp_path, kind):
    found = collections.Counter()
    for number in campaign.tries(2, 1.0):
        (tmp_path / str(number)).mkdir()
        rng = campaign.generator(kind, number)
        found[attacked(states, tmp_path / str(number), kind, rng)] += 1
    assert not any(found[word] for word in BAD)


HOLDING = textwrap.dedent("""
    import os, signal, sys, time
    sys.path.insert(0, sys.argv[2])
    from sflkit.fats.state import load, save
    state, rename = load(sys.argv[1]), os.replace
    def replace(*args):  # inside `save`, under the lock
        if sys.argv[3] == "fork" and not os.fork():
            time.sleep(60)
            os._exit(0)
        print("now", flush=True)
        if sys.argv[3] == "kill":
            time.sleep(60)
        if sys.argv[3] == "stop":
            os.kill(os.getpid(), signal.SIGSTOP)
        rename(*args)
    os.replace = replace
    save(state, sys.argv[1])
    print("saved", flush=True)
    os._exit(0)
""")


@pytest.mark.parametrize("way", ["fork", "kill", "stop"])
def test_the_lock_goes_with_its_owner(tmp_path, monkeypatch, way):
    monkeypatch.setattr(paths, "PATIENCE", 0.3)
    task, clients, history, rng = setup(1)
    path = tmp_path / "state"
    learn(task, clients, history, 0.3, start=task.init(0), path=path)
    before = load(path)
    child = subprocess.Popen(
        [sys.executable, "-c", HOLDING, str(path), str(ROOT), way],
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        assert child.stdout.readline() == "now\n"
        if way == "fork":
            assert child.stdout.readline() == "saved\n"
        elif way == "kill":
            child.kill()
        else:  # who waits is told for whom, until that one goes on
            threading.Timer(1, child.send_signal, [signal.SIGCONT]).start()
            with pytest.warns(UserWarning, match=f"held by process {child.pid}"):
                save(before, path)
        child.wait()
        assert load(path).digest == before.digest
        save(load(path), path)  # at once, though a grandchild sleeps on
        after = forget(task, clients, load(path), [(0, None)], rng, path=path)
        assert load(path).digest == after.digest
        assert {file.name for file in tmp_path.iterdir()} == {"state"}
    finally:
        os.killpg(child.pid, signal.SIGKILL) if way == "fork" else None
        child.stdout.close()
