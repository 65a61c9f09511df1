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

import pytest

from sflkit.fats.learning import forget, learn
from sflkit.fats.state import load, save
from tests.fats.fats_cases import setup
from tests.fats.state_attacks import ATTACKS, BAD, attacked, world
from tests.faults import campaign
from tests.helpers import ROOT

WORDS = ("refused", "exact", *BAD)


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
    print(f"\n{kind}:", ", ".join(f"{found[word]} {word}" for word in WORDS))
    assert not any(found[word] for word in BAD)


HOLDING = textwrap.dedent("""
    import os, sys, time
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
        rename(*args)
    os.replace = replace
    save(state, sys.argv[1])
    print("saved", flush=True)
    os._exit(0)
""")


@pytest.mark.parametrize("way", ["fork", "kill"])
def test_the_lock_goes_with_its_owner(tmp_path, way):
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
        else:
            child.kill()
        child.wait()
        assert load(path).digest == before.digest
        save(load(path), path)  # at once, though a grandchild sleeps on
        after = forget(task, clients, load(path), [(0, None)], rng, path=path)
        assert load(path).digest == after.digest
        assert {file.name for file in tmp_path.iterdir()} == {"state"}
    finally:
        os.killpg(child.pid, signal.SIGKILL) if way == "fork" else None
        child.stdout.close()
