"""Attacks on unlearning states: what is put together, changed or raced must not pass for clean.

`ATTACKS` are kinds of attack, functions (world, rng) -> a state that somebody then uses, or None
where all happened on the disk. `attacked` makes one try and says how it ended:

| word       | meaning |
|------------|---------|
| refused    | an error, and what stood before stands |
| exact      | accepted, and each model is that of learning on its history, bit for bit |
| lost       | the file has forgotten less than before |
| unreadable | the file cannot be loaded |
| dirty      | a clean state with another model, in memory or in the file |
"""

from __future__ import annotations

import copy
import functools
import io
import pickle
import shutil
import threading
import zipfile
from dataclasses import fields, replace
from typing import Any, NamedTuple

import numpy as np
import torch

from sflkit.fats.learning import forget, learn, request, resume
from sflkit.fats.state import PendingRequestError, State, load, save
from tests.fats.fats_cases import poisoned, setup

BAD = ("lost", "unreadable", "dirty")


class World(NamedTuple):
    """States of two runs, and the file of one that has forgotten."""

    task: Any
    clients: list
    states: dict[str, State]
    path: Any


def world(folder, seed):
    """Return the states before, after and during a request, and on another branch and run."""
    task, clients, history, rng = setup(seed, n_clients=5)
    start, path = task.init(seed), folder / "state"
    before = learn(task, clients, history, 0.3, start=start)
    target, other = [(int(history.clients[1, 0]), None)], [(int(history.clients[0, 1]), 2)]
    pending = request(before, target, rng)
    after = resume(task, clients, pending, path=path)
    states = {
        "before": before,
        "pending": pending,
        "after": after,
        "branch": forget(task, clients, before, other, rng),
        "twin": forget(task, clients, before, target, rng),
        "short": learn(task, clients, history, 0.3, start=start, rounds=3),
        "rate": learn(task, clients, history, 0.2, start=start),
        "run": learn(task, clients, setup(seed + 1, n_clients=5)[2], 0.3, start=task.init(9)),
    }
    return World(task, clients, states, path)


def pick(world, rng):
    return world.states[str(rng.choice(list(world.states)))]


def parts_of_two(world, rng):
    """`dataclasses.replace` with some parts of another state, digests among them or not."""
    one, other = pick(world, rng), pick(world, rng)
    names = [f.name for f in fields(State)]
    taken = rng.choice(names, rng.integers(1, len(names)), replace=False)
    return replace(one, **{name: getattr(other, name) for name in taken})


def models_put_back(world, rng):
    """The models of before under what a request has left."""
    before, after = world.states["before"], world.states[str(rng.choice(["after", "pending"]))]
    kept = before.models if rng.integers(2) else after.models | {5: before.models[5]}
    return replace(after, models=kept, owed=int(rng.choice([after.owed, 0])))


def copied(world, rng):
    """A deep or pickled copy, whose arrays can be written to; one part is changed in place."""
    state = pick(world, rng)
    state = copy.deepcopy(state) if rng.integers(2) else pickle.loads(pickle.dumps(state))
    change = int(rng.integers(9))
    r = int(rng.choice(list(state.models)))
    if change == 1:
        state.models[r][rng.integers(len(state.models[r]))] += 1e-3
    elif change == 2 and r:
        del state.models[r]
    elif change == 3:
        state.models[min(r + 1, 5)] = state.models[r]
    elif change == 4:
        state.history.batches[...] = np.roll(state.history.batches, 1, axis=0)
    elif change == 5:
        state.history.clients[0] = state.history.clients[-1]
    elif change == 6:
        object.__setattr__(state.history, "forgotten", frozenset())
    elif change == 7:
        object.__setattr__(state, "owed", 0)
    elif change == 8:
        state.data[rng.integers(len(state.data))] = 0
    return state


def meddled(world, rng, where, thread, back=False):
    """Something is written to while a request is served, by `on_round` or by another thread.

    With `back` it is put back after the next round.
    """
    before, n = copy.deepcopy(world.states["before"]), int(rng.integers(1, 4))
    clients = [(x.copy(), y.copy()) for x, y in world.clients]
    target = [(int(before.history.clients[0, 0]), None)]
    seen, kept = [], []

    def arrays(state):
        if where == "data":
            return [values for pair in clients for values in pair]
        if where == "history":
            state.history.batches.setflags(write=True)
            return [state.history.batches]
        models = before.models if where == "the old state" else state.models
        return [model.numpy() for model in models.values()]

    def meddle(state):
        if where == "the dict":
            state.models[5] = before.models[5]
            state.models.pop(0, None)
            return
        for values in arrays(state):
            kept.append((values, values.copy()))
            values[...] = 0 if where == "history" else 1 - values

    def on_round(state):
        seen.append(state)
        if len(seen) == n and thread:
            worker = threading.Thread(target=meddle, args=(state,))
            worker.start()
            worker.join()
        elif len(seen) == n:
            meddle(state)
        elif back:
            for values, old in kept:
                values[...] = old

    state = forget(world.task, clients, before, target, np.random.default_rng(0), on_round=on_round)
    return seen[-1] if rng.integers(4) == 0 else state


def stale_save(world, rng):
    """Any of the states, going on or not, is saved where one that has forgotten lies."""
    state = pick(world, rng)
    if rng.integers(2):
        state = request(state, [(int(rng.integers(5)), int(rng.integers(6)))], rng)
    if rng.integers(2):
        resume(world.task, world.clients, state, path=world.path)
    else:
        save(state, world.path)


def mixed_file(world, rng):
    """A file with entries of another state's, each valid by itself."""
    files = []
    for state in (pick(world, rng), pick(world, rng)):
        save(state, world.path.with_name("other"))
        with np.load(world.path.with_name("other")) as file:
            files.append(dict(file))
        world.path.with_name("other").unlink()
    names = sorted(files[0].keys() & files[1].keys())
    taken = rng.choice(names, rng.integers(1, len(names)), replace=False)
    np.savez(world.path.with_name("mixed.npz"), **files[0] | {n: files[1][n] for n in taken})
    return load(world.path.with_name("mixed.npz"))


def damaged_file(world, rng):
    """A file that was cut, or whose bytes were changed; the zip's own sums are made right."""
    content = world.path.read_bytes()
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(content)) as old, zipfile.ZipFile(out, "w") as new:
        for name in old.namelist():
            part = bytearray(old.read(name))
            if rng.integers(3) == 0:
                part[rng.integers(len(part))] ^= 1 << int(rng.integers(8))
            new.writestr(name, bytes(part))
    damaged = out.getvalue()
    if rng.integers(4) == 0:
        damaged = damaged[: rng.integers(len(damaged))]
    world.path.with_name("damaged").write_bytes(damaged)
    return load(world.path.with_name("damaged"))


ATTACKS = {
    "parts of two states": parts_of_two,
    "models put back": models_put_back,
    "a copy changed in place": copied,
    "an older state saved": stale_save,
    "entries of two files": mixed_file,
    "a damaged file": damaged_file,
}
for _where in ("data", "models", "the dict", "the old state", "history"):
    ATTACKS[f"{_where} changed meanwhile"] = functools.partial(meddled, where=_where, thread=False)
    ATTACKS[f"{_where} changed by a thread"] = functools.partial(meddled, where=_where, thread=True)
for _where in ("data", "models", "the old state", "history"):
    ATTACKS[f"{_where} changed and put back"] = functools.partial(
        meddled, where=_where, thread=True, back=True
    )


def clean(world, state):
    """Whether the model of a clean state is that of learning on its history, bit for bit."""
    data = poisoned(world.clients, state.history.forgotten)
    start, done = state.models[0], state.rounds_done
    again = learn(
        world.task, data, state.history, state.rate, start=start, rounds=done, every=state.every
    )
    return all(torch.equal(model, again.models[r]) for r, model in state.models.items())


def uses(world, state, rng):
    """Yield the states to which the use of one leads that an attack has made."""
    state.check()
    yield state
    save(state, world.path.with_name("own"))
    yield load(world.path.with_name("own"))
    yield resume(world.task, world.clients, state)
    yield resume(world.task, world.clients, request(state, [(4, 5)], rng))


def attacked(first, folder, kind, rng):
    """Make one try of a kind of attack in an empty folder, and return how it ended.

    `first` is the `world`, which stays as it is.
    """
    here = first._replace(path=folder / "state")
    shutil.copy(first.path, here.path)
    gone = load(here.path).history.forgotten
    states, word = [], "exact"
    try:
        made = ATTACKS[kind](here, rng)
        if made is not None:
            for state in uses(here, made, rng):
                states.append(state)
    except (ValueError, PendingRequestError):
        word = "refused"
    for name in ("state", "own"):
        if not (folder / name).exists():
            continue
        try:
            states.append(load(folder / name))
        except ValueError:
            return "unreadable"
    left = load(here.path).history.forgotten
    if any(not {(k, s), (k, None)} & left for k, s in gone):
        return "lost"
    known = [s.models[0] for s in here.states.values()]
    for state in states:
        made_here = any(torch.equal(state.models[0], start) for start in known)
        if state.status == "clean" and not (made_here and clean(here, state)):
            return "dirty"
    return word
