"""Tensors whose numbers do not lie plainly in memory are refused at each door, by name."""

import numpy as np
import pytest
import torch

from sflkit import models
from sflkit.federated import FedAvg, LocalWork, Scaffold, Task, evaluate, local_sgd
from sflkit.federated.servers import check_work, weighted_average
from tests.federated.federated_cases import CASES

pytestmark = pytest.mark.filterwarnings("ignore")  # torch calls some kinds prototypes


FOREIGN = {
    "meta": lambda t: t.to("meta"),
    "sparse": lambda t: t.to_sparse(),
    "nested": lambda t: torch.nested.nested_tensor([t, t]),
    "quantised": lambda t: torch.quantize_per_tensor(t.float(), 0.1, 0, torch.quint8),
    "8-bit floats": lambda t: t.float().to(torch.float8_e4m3fn),
    "negative bit": lambda t: torch.complex(t.float(), t.float()).conj().imag,
    "conjugate bit": lambda t: torch.complex(t.float(), t.float()).conj(),
}
X, Y, W = torch.ones(4, 20), torch.tensor([0, 1, 2, 0]), torch.ones(4)
TASK = Task(models.create(**CASES["linear"]))
P, U = torch.ones(63), torch.ones(2, 63)


def train(**change):
    local_sgd(**{**dict(task=TASK, params=P, batches=[[(X, Y)]], rate=0.1), **change})


def rows(**change):
    local_sgd(**{**dict(task=TASK, params=P, rate=0.1, data=(X, Y), rows=[[[0]]]), **change})


DOORS = {
    "params": (P, lambda t: train(params=t)),
    "corrections": (P, lambda t: train(corrections=t)),
    "rate": (W[:1], lambda t: train(rate=t)),
    "out": (torch.zeros(1, 63), lambda t: train(out=t)),
    "client 0, step 0: x": (X, lambda t: train(batches=[[(t, Y)]])),
    "client 0, step 0: x, y": (Y, lambda t: train(batches=[[(X, t)]])),
    "client 0, step 0: x, y and weights": (W, lambda t: train(batches=[[(X, Y, t)]])),
    "data: x": (X, lambda t: rows(data=(t, Y))),
    "data: x, y": (Y, lambda t: rows(data=(X, t))),
    "rows": (torch.zeros(1, 1, 1, dtype=torch.long), lambda t: rows(rows=t)),
    "weights": (torch.ones(1, 1, 1), lambda t: rows(weights=t)),
    "samples: x": (X, lambda t: evaluate(TASK, P, t, Y)),
    "samples: x, y": (Y, lambda t: evaluate(TASK, P, X, t)),
    "params ": (P, lambda t: evaluate(TASK, t, X, Y)),
    "weights ": (W, lambda t: evaluate(TASK, P, X, Y, weights=t)),
    "updates": (U, lambda t: weighted_average(t)),
    "weights  ": (W[:2], lambda t: weighted_average(U, t)),
    "params  ": (P, lambda t: FedAvg()(t, U)),
    "work.clients": (torch.arange(2), lambda t: LocalWork(t, [1, 1], 0.1)),
    "updates ": (U, lambda t: Scaffold(2)(P, t, None, LocalWork([0, 1], [1, 1], 0.1))),
}


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("kind", FOREIGN)
def test_a_foreign_tensor_is_refused_by_name(kind, door):
    plain, call = DOORS[door]
    call(plain)
    with pytest.raises(ValueError, match=door.strip()):
        call(FOREIGN[kind](plain))


def test_byte_orders_and_long_doubles_are_one_answer():
    model = torch.linspace(-1, 1, 63)
    x, y = np.linspace(0, 1, 80).reshape(4, 20), np.array([0, 1, 2, 0])
    found = evaluate(TASK, model, x, y).loss
    for kind in (">f8", np.longdouble, ">f4", np.float32):
        assert evaluate(TASK, model, x.astype(kind), y.astype(">i4")).loss == found
    updates = np.linspace(0, 1, 126).reshape(2, 63)
    whole = FedAvg()(np.ones(63), updates)
    for kind in (">f8", np.longdouble):
        np.testing.assert_array_equal(FedAvg()(np.ones(63), updates.astype(kind)), whole)


def test_work_is_compared_with_updates_by_their_shape_alone():
    work = LocalWork([0, 1], [1, 1], 0.1)
    assert check_work(work, 2, torch.ones(2, 5, device="meta")) is work  # nothing to copy there
    for updates in (torch.tensor(1.0), np.array(3.0), torch.ones(3, 1)):
        with pytest.raises(ValueError, match="updates"):
            check_work(work, 2, updates)
