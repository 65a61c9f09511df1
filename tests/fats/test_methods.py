"""The table of methods: what each decides, and a method of one's own everywhere."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from sflkit.fats import learning, training
from sflkit.fats.history import History
from sflkit.fats.methods import FATS, FR2, FRS, METHODS
from sflkit.fats.state import load
from sflkit.registry import Rule
from tests.fats.fats_cases import SIZES, TINY_RUN, federation, poisoned, setup


class Weighted(FATS):
    """FATS with its models weighted by their clients' numbers of samples."""

    def weights(self, history, r):
        return history.samples_left[history.clients[r]]


@pytest.fixture
def methods(monkeypatch):
    """The registry, as it was again after the test."""
    monkeypatch.setattr(METHODS, "_rules", dict(METHODS._rules))
    return METHODS


def test_what_the_methods_decide():
    # clients of 3 and 1 samples; a round with client 0 twice, and client 1
    history = History.of([[0, 0, 1]], [[[[0]], [[2]], [[0]]]], [3, 1])
    assert FATS().weights(history, 0).tolist() == [1, 1, 1]
    assert FRS().weights(history, 0).tolist() == FR2().weights(history, 0).tolist() == [3, 3, 1]
    assert (FATS.from_scratch, FRS.from_scratch, FR2.from_scratch) == (False, True, True)
    assert FATS().repaired(history, np.random.default_rng(0)) is history
    FATS().check(history)
    with pytest.raises(ValueError, match="clients_per_round=3 must be at most 2, the clients"):
        FRS().check(history)
    assert METHODS.labels() == {"fats": "FATS", "frs": "FRS", "fr2": "FR²"}
    assert len({rule.look for rule in METHODS.values()}) == 3


@pytest.mark.parametrize("name", METHODS)
def test_every_method_draws_and_repairs_what_it_can_train_on(name):
    method, rng = METHODS[name].build(), np.random.default_rng(1)
    history = method.draw(rng=rng, **SIZES)
    assert history.batches.shape == (5, 3, 3, 2) and history.n_clients == 4
    again = method.repaired(history, rng)
    assert again.forgotten == history.forgotten and again.batches.shape == history.batches.shape
    # whole and valid: the checked constructor takes it
    History.of(again.clients, again.batches, again.samples_per_client, again.forgotten)
    weights = method.weights(again, 0)
    assert weights.shape == (3,) and (weights > 0).all()


def test_a_method_of_ones_own_forgets_exactly(methods, tmp_path):
    methods.add("weighted", Rule(Weighted, "FATS, weighted"))
    task, clients, history, rng = setup(3)
    start = task.init(0)
    options = dict(rate=0.3, start=start, method="weighted")
    state = learning.learn(task, clients, history, **options)
    # the first sample of client 0 is forgotten before, so that weights differ between clients
    state = learning.forget(task, clients, state, [(0, 0)], rng)
    target = (int(state.history.clients[1, 0]), None)
    gone = {(0, 0), target}
    after = learning.forget(
        task, poisoned(clients, gone), state, [target], rng, path=tmp_path / "s"
    )
    again = learning.learn(task, poisoned(clients, gone), after.history, **options)
    assert torch.equal(after.params, again.params)
    equal = learning.learn(
        task, poisoned(clients, gone), after.history, **options | {"method": "fats"}
    )
    assert not torch.equal(equal.params, after.params)
    assert load(tmp_path / "s").method == "weighted"


def test_a_method_of_ones_own_in_an_experiment(methods):
    methods.add("plain", Rule(type("Plain", (FATS,), {}), "FATS again"))
    methods.add("weighted", Rule(Weighted, "FATS, weighted"))
    frames = {
        name: training.run(replace(TINY_RUN, method=name), data=federation())
        for name in ("fats", "plain", "weighted")
    }
    shown = [name for name in frames["fats"] if name != "unlearning_seconds"]
    assert frames["plain"][shown].equals(frames["fats"][shown])  # nothing overridden: FATS's bits
    # all clients have 8 samples, so that weights tell only after the request
    learnt = frames["fats"].phase == "learning"
    assert np.allclose(frames["weighted"][learnt].loss, frames["fats"][learnt].loss)
    counted = replace(TINY_RUN, method="weighted", train=False, samples_per_client=8, runs=30)
    assert training.run(counted).equals(training.run(replace(counted, method="fats")))
