"""Where the learner's samples come from: rows as they are needed, the same bits as all at once."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from sflkit import data
from sflkit.data import Dataset
from sflkit.sfl import learner
from sflkit.sfl.clients import Clients
from sflkit.sfl.config import SFLConfig
from sflkit.sfl.learner import Learner, resident_inputs
from sflkit.sfl.training import run

TINY = SFLConfig(
    data="digits",
    model="linear",
    n_clients=3,
    n_states=4,
    capacity=20,
    batch_size=10,
    rounds=4,
    test_size=50,
)


@pytest.mark.parametrize("superclasses", [False, True])
def test_rows_as_needed_are_bit_for_bit_those_of_the_whole_set(superclasses, monkeypatch):
    config = replace(TINY, superclasses=superclasses)
    source = data.load("digits")
    source = source.with_coarse_labels() if superclasses else source
    monkeypatch.setattr(learner, "_PART", 100)  # so that the set comes in several parts
    learner._resident.clear()
    whole = resident_inputs(source, torch.device("cpu"))
    assert torch.equal(whole, torch.from_numpy(source.inputs("train")))
    trained = []
    table = whole, torch.from_numpy(source.labels("train", np.arange(len(whole))))
    for resident in (None, table):
        clients = Clients(config, source.y_train, source.n_classes)
        own = Learner(config, clients.stream, source)
        assert own.resident is None  # on a CPU
        own.resident = resident
        for t in range(1, 4):
            clients.arrive(t)
            own.step(clients.contents)
        trained.append(own.params)
    assert torch.equal(*trained)
    learner._resident.clear()


def test_only_what_the_caches_hold_is_normalised(monkeypatch):
    asked = []
    inputs = Dataset.inputs

    def counted(self, split, indices=None):
        asked.append((split, None if indices is None else len(indices)))
        return inputs(self, split, indices)

    monkeypatch.setattr(Dataset, "inputs", counted)
    run(TINY)
    # 3 caches fill up by 10 samples per round to 20; the test set is normalised once
    assert asked == [("test", 50), ("train", 30), *[("train", 60)] * 3]


def test_a_step_moves_the_model_by_the_mean_difference_by_hand():
    # one client, one step: w - rate g; FedAvg with eta = 1/2 goes half the way
    config = replace(TINY, n_clients=1, local_steps=1, local_rate=0.2, global_rate=0.5)
    source = data.load("digits")
    clients = Clients(config, source.y_train, 10)
    clients.arrive(1)
    own = Learner(config, clients.stream, source)
    start = own.params.clone()
    w = start.clone().requires_grad_()
    ids = clients.caches[0].ids
    x = torch.from_numpy(source.inputs("train", ids)).flatten(1)
    y = torch.from_numpy(source.labels("train", ids))
    weight, bias = w[:7840].view(10, 784), w[7840:]
    torch.nn.functional.cross_entropy(x @ weight.T + bias, y).backward()
    own.step(clients.contents)
    torch.testing.assert_close(own.params, start - 0.5 * 0.2 * w.grad, rtol=0, atol=1e-6)
    assert np.isfinite(own.evaluate().loss)
