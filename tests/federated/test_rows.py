"""Rows of a table in place of lists: the same training, one count of operations, recordings."""

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils._python_dispatch import TorchDispatchMode

from sflkit import models
from sflkit.federated import Task, local_sgd, recording, stacked
from tests.federated.federated_cases import CASES, ROWS, table


@pytest.mark.parametrize("backend", ["pool", "stacked"])
def test_a_full_batch_and_fewer_axes(backend):
    task, w, x, y = table("linear")
    one, options = ROWS[:1, 0], dict(rate=0.1, data=(x, y), backend=backend)
    step = local_sgd(task, w, rows=one, **options)
    assert torch.equal(step, local_sgd(task, w, rows=one[0], **options))
    assert torch.equal(step, local_sgd(task, w, rows=torch.tensor(ROWS[:1, :1]), **options))
    full = local_sgd(task, w, rows=np.broadcast_to(one[:, None], (1, 3, 4)), **options)
    assert torch.equal(full, local_sgd(task, w, [[(x[:4], y[:4])] * 3], 0.1, backend=backend))
    assert torch.equal(local_sgd(task, w, rows=ROWS[2:3, :, :0], **options)[0], w)


@pytest.mark.parametrize("backend", ["pool", "stacked"])
def test_what_fills_up_a_step_has_no_influence(backend):
    task, w, x, y = table("mlp")
    rows = np.array([[[1, 2, -1]], [[3, -1, -1]]])
    clean = local_sgd(task, w, rate=0.1, data=(x, y), rows=rows, backend=backend)
    x[0] = float("nan")  # which no client takes
    assert torch.equal(local_sgd(task, w, rate=0.1, data=(x, y), rows=rows, backend=backend), clean)


class Count(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.calls = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.calls += 1
        return func(*args, **(kwargs or {}))


def tiny_cnn():
    return nn.Sequential(nn.Conv2d(1, 2, 3), nn.ReLU(), nn.Flatten(), nn.Linear(8, 3))


@pytest.mark.parametrize("form", ["rows", "lists"])
@pytest.mark.parametrize(
    ("model", "shape"), [(lambda: nn.Linear(4, 3), (4,)), (tiny_cnn, (1, 4, 4))]
)
def test_operations_a_local_step_do_not_depend_on_the_number_of_clients(model, shape, form):
    def operations(clients, steps):
        task = Task(model())
        w, rows = task.init(0), np.arange(clients * steps * 5).reshape(clients, steps, 5)
        x, y = torch.zeros(rows.size, *shape), torch.arange(rows.size) % 3
        where = dict(data=(x, y), rows=rows)
        if form == "lists":
            parts = zip(x.view(clients, steps, 5, *shape), y.view(clients, steps, 5), strict=True)
            where = dict(batches=[list(zip(*part, strict=True)) for part in parts])
        local_sgd(task, w, rate=0.1, backend="stacked", **where)  # what is made once
        with Count() as seen:
            local_sgd(task, w, rate=0.1, backend="stacked", **where)
        return seen.calls

    counts = [(operations(c, 2), operations(c, 5)) for c in (10, 100, 1000)]
    assert len({five - two for two, five in counts}) == 1 < counts[0][1]
    assert len(set(counts)) == 1  # and nor do those of a call


@pytest.mark.parametrize("case", ["linear", "mlp"])
def test_a_traced_step_gives_the_same_bits(case, monkeypatch):
    task, w, x, y = table(case)
    options = dict(rate=0.1, data=(x, y), rows=ROWS[:2], backend="stacked", prox=0.1)
    plain = local_sgd(task, w, **options)
    calls, gradients = [], stacked._gradients
    monkeypatch.setattr(stacked, "TRACED_AFTER", 0)
    monkeypatch.setattr(stacked, "_gradients", lambda *a: calls.append(1) or gradients(*a))
    for _ in range(3):
        assert torch.equal(local_sgd(task, w, **options), plain)
    assert (
        len(calls) == 2
    )  # two shapes, each noted once: two steps of both clients, then one of one


def test_a_shape_is_traced_when_it_came_up_often_and_a_callable_loss_never(monkeypatch):
    task, w, x, y = table("linear")
    scale = [1.0]
    own = Task(
        models.create(**CASES["linear"]),
        lambda outputs, y: scale[0] * F.cross_entropy(outputs, y, reduction="none"),
    )
    made = []
    monkeypatch.setattr(
        recording, "traced", lambda step, inputs: made.append(len(inputs[0])) or step
    )
    options = dict(rate=0.1, data=(x, y), rows=ROWS[[0, 3], :1], backend="stacked", updates=True)
    for _ in range(stacked.TRACED_AFTER):
        local_sgd(task, w, **options)
    assert made == []
    for t in (task, task, own):
        want = local_sgd(t, w, **options)
    assert made == [2]
    for _ in range(stacked.TRACED_AFTER + 1):
        scale[0] += 1
        got = local_sgd(own, w, **options)
    torch.testing.assert_close(got, scale[0] * want, atol=1e-5, rtol=1e-4)


def test_a_step_on_a_tensor_from_elsewhere_is_not_traced():
    elsewhere = torch.ones(2)

    def step(x):
        x.add_(elsewhere)

    assert recording.traced(step, [torch.zeros(2)]) is None
    program = recording.traced(lambda x, y: x.add_(y.view(2)), [torch.zeros(2), torch.ones(2)])
    program(x := torch.zeros(2), torch.full((2,), 3.0))
    assert x.tolist() == [3.0, 3.0]


def test_no_more_recordings_are_kept_than_said():
    programs, made, kept = recording.Programs(), [], recording.KEPT
    for key in [*range(kept + 1), kept, 0]:  # the last but one is known, the first was forgotten
        assert programs.get((key,), 0, lambda key=key: made.append(key) or key) == key
    assert made == [*range(kept + 1), 0]


@pytest.mark.parametrize("case", CASES)
def test_a_captured_round_is_the_eager_one(case, monkeypatch):
    """As on a GPU, where the graph would repeat the round on the same memory."""
    task, w, x, y = table(case)
    g = torch.Generator().manual_seed(5)
    options = dict(data=(x, y), backend="stacked", updates=True)
    calls = [
        dict(rows=ROWS, rate=0.1),
        dict(rows=np.roll(ROWS, 2, 2), rate=[0.1, 0.2, 0.05, 0.1]),
        dict(rows=ROWS, rate=0.1, prox=0.5, weights=(ROWS >= 0) * np.arange(1.0, 5)),
        dict(rows=ROWS, rate=0.2, corrections=torch.randn(4, task.n_params, generator=g) / 10),
        dict(rows=ROWS[[0, 0]], rate=0.1),
        dict(rows=np.broadcast_to(ROWS[:2, :1], (2, 3, 4)), rate=0.1),
    ]
    captured = []

    def capture(run):
        captured.append([run() for _ in range(3)])
        return run

    monkeypatch.setattr(recording, "captures", lambda device: True)
    monkeypatch.setattr(recording, "captured", capture)
    for call in calls:
        for again in range(stacked.CAPTURED_AFTER + 2):  # a replay must follow its inputs
            got = local_sgd(task, w + again / 100, **options, **call)
            with monkeypatch.context() as off:
                off.setattr(recording, "captures", lambda device: False)
                want = local_sgd(task, w + again / 100, **options, **call)
            torch.testing.assert_close(got, want, atol=1e-5, rtol=0)
        if len(got) == 4:
            assert not got[2].any()
    assert len(captured) == 4  # calls 0 and 1 have one shape, and so have 2 and 3
