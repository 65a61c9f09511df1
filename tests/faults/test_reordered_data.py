"""Other data, or the same in another order, at every call that goes on from a state.

A state knows the data that it was trained on. Given other data each call says so; given the same
data in another form it answers what it answers to the first, bit for bit.
"""

from __future__ import annotations

import itertools

import numpy as np
import pandas as pd
import pytest
import torch

from sflkit.fats import learning
from sflkit.fats.state import load, save
from tests.fats.fats_cases import setup


def of_client(number, change):
    """Return a change of the data of one client."""
    return lambda data: [change(*d) if k == number else d for k, d in enumerate(data)]


def entry(x, y):
    x = x.copy()
    x[0, 0] += 1e-3
    return x, y


SAME = {
    "as lists": lambda data: [(x.tolist(), y.tolist()) for x, y in data],
    "as tensors": lambda data: [(torch.tensor(x), torch.tensor(y)) for x, y in data],
    "in float64": lambda data: [(x.astype(float), y) for x, y in data],
    "as tables": lambda data: [
        (pd.DataFrame(x, range(len(x))[::-1]), pd.Series(y, range(len(y))[::-1])) for x, y in data
    ],
    "from a generator": lambda data: (pair for pair in data),
}
OTHER = {
    "clients backwards": lambda data: data[::-1],
    "two clients crossed": lambda data: [data[1], data[0], *data[2:]],
    "a client missing": lambda data: data[:-1],
    "a client twice": lambda data: [*data, data[0]],
    "samples backwards": of_client(1, lambda x, y: (x[::-1].copy(), y[::-1].copy())),
    "features backwards": of_client(1, lambda x, y: (x[:, ::-1].copy(), y)),
    "labels backwards": of_client(1, lambda x, y: (x, y[::-1].copy())),
    "another label": of_client(1, lambda x, y: (x, np.append(1 - y[:1], y[1:]))),
    "another entry": of_client(1, entry),
    "a sample missing": of_client(1, lambda x, y: (x[:-1], y[:-1])),
    "a masked sample": of_client(1, lambda x, y: (np.ma.array(x, mask=np.eye(*x.shape)), y)),
}
TARGETS = [[(0, 1)], [(0, None)], [(0, 0), (2, None)]]


def forget(state, data, targets, path):
    return learning.forget(task(), data, state, targets, np.random.default_rng(0))


def forget_on_disk(state, data, targets, path):
    save(state, path)
    learning.forget(task(), data, load(path), targets, np.random.default_rng(0), path=path)
    return load(path)


def resume(state, data, targets, path):
    asked = learning.request(state, targets, np.random.default_rng(0))
    return learning.resume(task(), data, asked)


def resume_on_disk(state, data, targets, path):
    save(learning.request(state, targets, np.random.default_rng(0)), path)
    learning.resume(task(), data, load(path), path=path)
    return load(path)


DOORS = (forget, forget_on_disk, resume, resume_on_disk)


def task():
    return setup(1)[0]


@pytest.fixture(scope="module")
def learned():
    """A state, and the data that it was learned from."""
    model, clients, history, _ = setup(1)
    return learning.learn(model, clients, history, 0.3, start=model.init(0)), clients


@pytest.mark.parametrize("door", DOORS, ids=lambda door: door.__name__)
@pytest.mark.parametrize("kind", [*SAME, *OTHER])
def test_reordered_data(learned, tmp_path, door, kind):
    state, data = learned
    for number, targets in enumerate(TARGETS):
        right = door(state, data, targets, tmp_path / f"right {number}")
        path = tmp_path / f"{number}"
        try:
            found = door(state, (SAME | OTHER)[kind](data), targets, path)
        except ValueError as error:
            named = any(word in str(error) for word in ("client", "sample", "data"))
            word = "good" if named else "vague"
            before = load(path) if path.exists() else state
            assert before.status == "pending" or before.history.forgotten == set()
        else:
            same = torch.equal(found.params, right.params) and found.status == right.status
            word = "right" if same else "silent"
        assert word == ("right" if kind in SAME else "good"), kind


def test_there_are_doors_of_every_kind(learned):
    state, data = learned
    hit = [learning.request(state, t, np.random.default_rng(0)).status for t in TARGETS]
    assert "pending" in hit
    assert not any(
        np.array_equal(x, other) for (x, _), (other, _) in itertools.combinations(data, 2)
    )
