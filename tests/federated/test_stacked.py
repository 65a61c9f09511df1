"""Stacked training: what cannot be stacked, chunks, and the memory of a GPU."""

import numpy as np
import pytest
import torch
from torch import nn

from sflkit.federated import Task, evaluate, evaluation, local_sgd, stacked
from sflkit.federated.replicas import Replica
from tests.federated.federated_cases import make, reference


class ByValue(nn.Sequential):
    def forward(self, x):
        return super().forward(x if x.max() > 0 else -x)


class Masked(nn.Sequential):
    def forward(self, x):
        z = super().forward(x)
        z[z < -1] = 0
        return z


class Accumulated(nn.Sequential):
    def forward(self, x):
        h = torch.zeros(len(x), 4)
        h += super().forward(x)
        return h


@pytest.mark.parametrize("model", [ByValue, Masked, Accumulated])
def test_auto_trains_and_evaluates_what_vmap_does_not_take(model, monkeypatch):
    task, batches = Task(model(nn.Linear(12, 4))), make("mlp", [[6, 5], [7], []])[2]
    w, (x, y) = task.init(0), batches[0][0]
    got, want = (local_sgd(task, w, batches, 0.1, backend=b) for b in ("auto", "pool"))
    assert torch.equal(got, want) and (want - w).abs().max() > 1e-3
    with pytest.raises(ValueError, match=r"cannot train this model, .* use 'pool' or 'auto'"):
        local_sgd(task, w, batches, 0.1, backend="stacked")
    assert not task.stackable(x)
    together = lambda task, x, n: 3 if task.stackable(x) else 1  # noqa: E731
    monkeypatch.setattr(evaluation, "models_together", together)
    rows = torch.stack([w, w + 0.1, w - 0.1])
    alone = [evaluate(task, row, x, y).loss for row in rows]
    np.testing.assert_allclose(evaluate(task, rows, x, y).loss, alone, rtol=1e-6)


@pytest.fixture
def seen(monkeypatch):
    """The shapes of what models are stacked on."""
    shapes, outputs = [], Replica.outputs

    def noted(self, parts, x, **options):
        shapes.append(tuple(x.shape))
        return outputs(self, parts, x, **options)

    monkeypatch.setattr(Replica, "outputs", noted)
    return shapes


def test_a_model_is_tried_out_once_for_a_kind_of_sample(seen):
    task, w, batches = make("mlp", [[6, 5], [7]])
    for _ in range(2):
        local_sgd(task, w, [client[:1] for client in batches], 0.1)
    assert seen == [(2, 1, 12), (2, 7, 12), (2, 7, 12)]  # the trial, then a step in each call


def test_an_error_in_a_stacked_step_is_raised_and_nothing_is_trained_anew():
    class Late(nn.Linear):
        def forward(self, x):
            if len(x) > 2:  # the trial has one sample, or two
                raise RuntimeError("broken on purpose")
            return super().forward(x)

    task, batches = Task(nn.Sequential(Late(12, 4))), make("mlp", [[6], [7]])[2]
    with pytest.raises(RuntimeError, match="broken on purpose"):
        local_sgd(task, task.init(0), batches, 0.1)


def test_samples_of_several_shapes_go_to_the_pool():
    task = Task(nn.Sequential(nn.AdaptiveAvgPool1d(4), nn.Flatten(), nn.Linear(4, 3)))
    w, y = task.init(0), torch.tensor([0, 2])
    batches = [[(torch.randn(2, 1, n), y)] for n in (8, 12)]
    got = local_sgd(task, w, batches, 0.1)
    assert torch.equal(got, local_sgd(task, w, batches, 0.1, backend="pool"))
    with pytest.raises(
        ValueError, match="backend='stacked' cannot train on samples or targets of several shapes"
    ):
        local_sgd(task, w, batches, 0.1, backend="stacked")


class Tied(nn.Module):
    """Two layers share a weight, which has two names."""

    def __init__(self):
        super().__init__()
        self.there, self.back, self.outer = nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 3)
        self.back.weight = self.there.weight

    def forward(self, x):
        return self.outer(self.back(self.there(x).tanh()))


class Twice(nn.Module):
    """One layer is used twice, another not at all."""

    def __init__(self):
        super().__init__()
        self.inner, self.idle, self.outer = nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 3)

    def forward(self, x):
        return self.outer(self.inner(self.inner(x).tanh()))


@pytest.mark.parametrize("backend", ["pool", "stacked"])
def test_weights_used_twice_or_never(backend):
    g = torch.Generator().manual_seed(1)
    batches = [[(torch.randn(5, 4, generator=g), torch.arange(5) % 3) for _ in range(3)]] * 2
    tied, twice = Task(Tied()), Task(Twice())
    w = tied.init(0)
    got = local_sgd(tied, w, batches, 0.1, backend=backend)
    torch.testing.assert_close(got[1], reference(tied, w, batches[1], 0.1), atol=1e-6, rtol=0)
    w = twice.init(0)
    w[20:40] = 7.0
    got = local_sgd(twice, w, batches, 0.1, backend=backend)
    assert (got[:, 20:40] == 7.0).all() and (got - w)[:, :20].abs().max() > 1e-3
    want = local_sgd(twice, w, batches, 0.1, backend="pool")
    torch.testing.assert_close(got, want, atol=1e-6, rtol=0)


# inputs, flattened inputs, and what the layers hand on, twice through a ReLU, of a sample
MADE = 12 + 12 + 16 + 16 + 8 + 8 + 4


def test_chunks_give_the_same_answer(seen, monkeypatch):
    task, w, batches = make("mlp", [[6, 6], [4], [5, 5, 5], [2]])
    whole = local_sgd(task, w, batches, 0.1, backend="stacked")
    seen.clear()
    monkeypatch.setattr(stacked, "CPU_NUMBERS", 2 * (task.n_params + 6 * MADE))
    chunks = local_sgd(task, w, batches, 0.1, backend="stacked")
    torch.testing.assert_close(chunks, whole, atol=1e-6, rtol=0)
    # clients 2 and 0 for two steps, client 2 for its third, clients 1 and 3
    assert [clients for clients, *_ in seen] == [2, 2, 1, 2]


def test_a_gpus_free_memory_bounds_what_is_stacked(monkeypatch):
    # of the card 10,000 numbers' worth is free; torch holds 500 more here, of which it uses 200
    task, w, _ = make("mlp", [])
    x = torch.zeros(6, 12)
    task.forward(x)  # what the layers make is counted here
    for name, numbers in (("memory_reserved", 500), ("memory_allocated", 200)):
        monkeypatch.setattr(torch.cuda, name, lambda device, n=numbers: 32 * n)
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (32 * 10_000, 32 * 90_000))
    one = task.n_params + 6 * MADE
    assert stacked.models_at_once(task, x.to("meta"), 6) == 10_300 // one > 10_000 // one
    assert stacked.models_at_once(task, x.to("meta"), 10**6) == 1


def test_a_card_without_memory_says_what_would_fit(monkeypatch):
    task, w, batches = make("mlp", [[6, 6], [4]])
    one = task.n_params + 6 * MADE

    def full(*_):
        raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr(stacked, "_train_chunk", full)
    monkeypatch.setattr(stacked, "free_bytes", lambda device: 7 * 32 * one + 1)
    with pytest.raises(ValueError, match=r"device: 2 clients found no memory .*for some 7 clients"):
        local_sgd(task, w, batches, 0.1, backend="stacked")
