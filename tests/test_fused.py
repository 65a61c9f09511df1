"""The dense step within the backward pass: the plain loop's numbers, and models for which it would be wrong."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from sflkit import engine, fused, models
from tests.test_engine import CASES, make, reference


@pytest.fixture(autouse=True)
def fuse_every_layer(monkeypatch):
    monkeypatch.setattr(fused, "_LEAST_NUMBERS", 1)


def fused_layers(task):
    return [len(replica.dense) for replica in task._replicas["cpu"]]


def train(task, start, batches, **options):
    return engine.local_sgd(task, start, batches, 0.1, backend="pool", threads=1, **options)


@pytest.mark.parametrize("case", CASES)
def test_equals_plain_loop(case):
    task, w, batches = make(case, [[6, 6], [4, 9, 2], [5]])
    got = train(task, w, batches)
    n_dense = sum(isinstance(m, nn.Linear) for m in task.build(w).modules())
    assert fused_layers(task) == [n_dense] and n_dense > 0
    for k, client in enumerate(batches):
        torch.testing.assert_close(got[k], reference(task, w, client, 0.1), atol=1e-6, rtol=0)


def test_one_step_by_hand():
    # l = (a x + b - y)^2 with x = 2, y = 5, a = 1, b = 0: error -3, gradient (2 * -3 * 2, 2 * -3) = (-12, -6).
    task = engine.Task(nn.Linear(1, 1), loss="mse")
    got = train(task, torch.tensor([1.0, 0.0]), [[(torch.tensor([[2.0]]), torch.tensor([[5.0]]))]])
    assert fused_layers(task) == [1]
    torch.testing.assert_close(got[0], torch.tensor([1 + 1.2, 0.6]))


def test_two_layers_by_hand():
    # y^ = b (a x), l = (y^ - y)^2 with x = 1, a = 2, b = 3, y = 5: error 1, gradient of b 2 a = 4, of a 2 b = 6. The step of b
    # comes first; taken before the product that goes on to a, it would make a's gradient 2 (3 - 0.4) = 5.2.
    task = engine.Task(nn.Sequential(nn.Linear(1, 1, bias=False), nn.Linear(1, 1, bias=False)), loss="mse")
    got = train(task, torch.tensor([2.0, 3.0]), [[(torch.ones(1, 1), torch.tensor([[5.0]]))]])
    torch.testing.assert_close(got[0], torch.tensor([2 - 0.6, 3 - 0.4]))


class Twice(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner, self.outer = nn.Linear(4, 4), nn.Linear(4, 3)

    def forward(self, x):
        return self.outer(self.inner(self.inner(x).tanh()))


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.there, self.back, self.outer = nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 3)
        self.back.weight = self.there.weight

    def forward(self, x):
        return self.outer(self.back(self.there(x).tanh()))


class Borrowed(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.inner, self.outer = nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 3)

    def forward(self, x):  # the borrowed weight is needed after `inner` has taken its step
        return self.outer(self.inner(F.linear(self.first(x), self.inner.weight).tanh()))


class Unused(nn.Module):
    def __init__(self):
        super().__init__()
        self.idle, self.outer = nn.Linear(4, 4), nn.Linear(4, 3)

    def forward(self, x):
        return self.outer(x)


@pytest.mark.parametrize("model, left", [(Twice, 0), (Tied, 1), (Borrowed, 0), (Unused, 2)])
def test_weights_used_twice_are_trained_as_usual(model, left):
    task, g = engine.Task(model()), torch.Generator().manual_seed(1)
    w = task.init(0)
    batches = [[(torch.randn(5, 4, generator=g), torch.randint(0, 3, (5,), generator=g)) for _ in range(3)]]
    torch.testing.assert_close(train(task, w, batches)[0], reference(task, w, batches[0], 0.1), atol=1e-6, rtol=0)
    assert fused_layers(task) == [left]


def test_other_uses_of_the_replica_see_a_usual_layer():
    task, w, batches = make("mlp", [[6, 5], [7]])
    want = engine.local_sgd(engine.Task(models.create(**CASES["mlp"])), w, batches, 0.1, backend="stacked")
    trained = train(task, w, batches)
    torch.testing.assert_close(engine.local_sgd(task, w, batches, 0.1, backend="stacked"), want, atol=0, rtol=0)
    before = trained.clone()
    engine.evaluate(task, trained, *batches[0][0])
    assert torch.equal(trained, before)
    assert fused_layers(task) == [3]


def test_proximal_term_and_corrections_take_the_usual_step():
    task, w, batches = make("mlp", [[6, 5]])
    correction = torch.linspace(-0.1, 0.1, task.n_params)
    got = train(task, w, batches, prox=0.7, corrections=correction)
    torch.testing.assert_close(got[0], reference(task, w, batches[0], 0.1, 0.7, correction), atol=1e-5, rtol=0)


def test_an_error_of_the_model_is_raised():
    class Broken(nn.Linear):
        def forward(self, x):
            if torch.is_grad_enabled():  # not yet when the shapes are looked at
                raise RuntimeError("broken on purpose")
            return super().forward(x)

    task = engine.Task(nn.Sequential(nn.Linear(4, 4), Broken(4, 3)))
    with pytest.raises(RuntimeError, match="broken on purpose"):
        train(task, task.init(0), [[(torch.zeros(2, 4), torch.zeros(2, dtype=torch.int64))]])


def test_only_large_layers_are_fused(monkeypatch):
    monkeypatch.undo()
    task = engine.Task(models.create("mlp", input_shape=(3168,), n_classes=100, hidden=(512, 256)))
    train(task, task.init(0), [[(torch.zeros(2, 3168), torch.zeros(2, dtype=torch.int64))]])
    assert fused_layers(task) == [1]
