"""Processes that forget on one state at the same moment: nothing is lost, unreadable or dirty.

Each try has a learned state in a file of its own, and processes that start at a barrier. Each
forgets its target on that file: different clients, samples of different clients, or all the same
client. One that is refused, since another was faster, loads the file again and goes on from there,
as the message says, until the file has forgotten its target and is clean. Counted are

| word       | meaning |
|------------|---------|
| lost       | a target that its process saw forgotten, but the file has not in the end |
| unreadable | a file that cannot be loaded, in the end or by a process meanwhile |
| dirty      | a clean file whose model is not, bit for bit, that of learning on its history |
"""

from __future__ import annotations

import collections
import multiprocessing
import time

import pytest
import torch

from sflkit.fats.learning import forget, learn, resume
from sflkit.fats.state import load
from tests.fats.fats_cases import poisoned, setup
from tests.faults import campaign

TARGETS = {
    "clients": [(k, None) for k in range(4)],
    "samples": [(k, 1) for k in range(4)],
    "the same": [(1, None)] * 4,
}
PATIENCE = 20.0  # seconds in which a process must come to its end


def forgets(path, target, rng):
    """Go on until the file has forgotten the target and is clean; return the words on the way."""
    task, clients, _, _ = setup(1, n_clients=6)
    words, began = collections.Counter(), time.monotonic()
    while time.monotonic() - began < PATIENCE:
        try:
            state = load(path)
        except ValueError:
            words["unreadable"] += 1
            return words
        try:
            if target not in state.history.forgotten:
                state = forget(task, clients, state, [target], rng, path=path)
            elif state.status == "pending":
                state = resume(task, clients, state, path=path)
        except ValueError:  # another process was faster
            words["refused"] += 1
            time.sleep(0.01 * rng.random())
            continue
        except OSError:  # its temporary file went away
            words["broken"] += 1
            continue
        if target in state.history.forgotten and state.status == "clean":
            return words
    words["starved"] += 1
    return words


def work(number, barrier, orders, answers):
    """Serve orders (path, target, try) until one is None."""
    torch.set_num_threads(1)
    for path, target, attempt in iter(orders.get, None):
        barrier.wait()
        answers.put(forgets(path, target, campaign.generator("race", 10 * attempt + number)))


def judged(path, targets):
    """Return the words for the file as it is in the end."""
    words = collections.Counter()
    try:
        state = load(path)
    except ValueError:
        return collections.Counter(unreadable=1)
    words["lost"] += len(set(targets) - state.history.forgotten)
    if state.status == "clean":
        task, clients, _, _ = setup(1, n_clients=6)
        clients = poisoned(clients, state.history.forgotten)
        again = learn(task, clients, state.history, 0.3, start=task.init(0), every=state.every)
        words["dirty"] += not torch.equal(state.params, again.params)
    return words


@pytest.mark.parametrize("kind", TARGETS)
@pytest.mark.parametrize("n", [2, pytest.param(4, marks=pytest.mark.slow)])
def test_processes_that_forget_on_one_state(tmp_path, kind, n):
    task, clients, history, _ = setup(1, n_clients=6)
    learned = learn(task, clients, history, 0.3, start=task.init(0), path=tmp_path / "learned")
    assert learned.status == "clean"
    content, found = (tmp_path / "learned").read_bytes(), collections.Counter()
    context = multiprocessing.get_context("fork")
    barrier, answers = context.Barrier(n), context.Queue()
    orders = [context.Queue() for _ in range(n)]
    crew = [context.Process(target=work, args=(i, barrier, orders[i], answers)) for i in range(n)]
    for process in crew:
        process.start()
    for number in campaign.tries(3, 2.0):
        path = tmp_path / f"{number}"
        path.write_bytes(content)
        for queue, target in zip(orders, TARGETS[kind]):
            queue.put((path, target, number))
        words = sum((answers.get(timeout=60) for _ in crew), collections.Counter())
        words += judged(path, TARGETS[kind][:n])
        found += words
        bad = {word: words[word] for word in ("lost", "unreadable", "dirty", "starved")}
        assert not any(bad.values()), (bad, dict(words))
    for queue, process in zip(orders, crew):
        queue.put(None)
        process.join(30)
    assert found["broken"] == 0
