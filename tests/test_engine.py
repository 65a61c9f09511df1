"""The engine against a plain torch.optim loop, back ends against each other, promises about threads and bits, bad input."""

import copy
import gc
import os
import pickle
import subprocess
import sys
import types
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.nn import functional as F
from torch.nn.utils import parameters_to_vector, vector_to_parameters

from sflkit import backends, engine, models, replicas
from sflkit.engine import Task, evaluate, local_sgd

CASES = {
    "linear": dict(name="linear", input_shape=(20,), n_classes=3),
    "mlp": dict(name="mlp", input_shape=(12,), n_classes=4, hidden=(16, 8)),
    "lenet": dict(name="lenet", input_shape=(1, 28, 28), n_classes=10),
    "small_cnn": dict(name="small_cnn", input_shape=(3, 8, 8), n_classes=5),
}


def make(case, sizes, seed=0):
    """Return a task, parameters, and per client the batches of the given sizes."""
    spec = CASES[case]
    task = Task(models.create(**spec))
    g = torch.Generator().manual_seed(seed)
    batches = [[(torch.randn(n, *spec["input_shape"], generator=g), torch.randint(0, spec["n_classes"], (n,), generator=g))
                for n in client] for client in sizes]
    return task, task.init(seed), batches


def reference(task, start, batches, rate, prox=0.0, correction=None):
    """One client by torch.optim.SGD on an ordinary module, FedProx and the correction as terms of the loss."""
    model = task.build(start)
    optimiser = torch.optim.SGD(model.parameters(), lr=rate)
    for x, y, *w in batches:
        losses = F.cross_entropy(model(x), y, reduction="none")
        loss = (losses * w[0]).sum() / w[0].sum() if w else losses.mean()
        flat = parameters_to_vector(model.parameters())
        loss = loss + prox / 2 * ((flat - start) ** 2).sum()
        if correction is not None:
            loss = loss + correction @ flat
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    return parameters_to_vector(model.parameters()).detach()


@pytest.mark.parametrize("backend", ["pool", "stacked"])
@pytest.mark.parametrize("case", CASES)
def test_equals_plain_loop_with_unequal_lengths_and_sizes(case, backend):
    task, w, batches = make(case, [[6, 6], [], [4, 9, 2], [5]])
    got = local_sgd(task, w, batches, 0.1, backend=backend)
    for k, client in enumerate(batches):
        torch.testing.assert_close(got[k], reference(task, w, client, 0.1), atol=1e-5, rtol=0)
    assert torch.equal(got[1], w)  # no data, no change
    assert (got[0] - w).abs().max() > 1e-3  # the others did move


@pytest.mark.parametrize("backend", ["pool", "stacked"])
def test_options_equal_plain_loop(backend):
    task, w, batches = make("mlp", [[6, 5], [7], [6, 6, 6]])
    g = torch.Generator().manual_seed(5)
    starts = w + 0.1 * torch.randn(3, task.n_params, generator=g)
    corrections = 0.1 * torch.randn(3, task.n_params, generator=g)
    rates = np.array([0.1, 0.2, 0.05])
    batches[0] = [(x, y, torch.rand(len(x), generator=g)) for x, y in batches[0]]  # weighted beside unweighted clients
    got = local_sgd(task, starts, batches, rates, backend=backend, prox=0.7, corrections=corrections)
    for k in range(3):
        want = reference(task, starts[k], batches[k], rates[k], 0.7, corrections[k])
        torch.testing.assert_close(got[k], want, atol=1e-5, rtol=0)
    shared = local_sgd(task, w, batches, 0.1, backend=backend, corrections=corrections[0])
    torch.testing.assert_close(shared[2], reference(task, w, batches[2], 0.1, 0.0, corrections[0]), atol=1e-5, rtol=0)


@pytest.mark.parametrize("backend", ["pool", "stacked"])
def test_one_step_by_hand(backend):
    # Linear 1 -> 1, l = (a x + b - y)^2, x = 2, y = 5, a = 1, b = 0: error -3, gradient (2*-3*2, 2*-3) = (-12, -6).
    # Rate 0.1: a = 2.2, b = 0.6. Second step: error 2.2*2 + 0.6 - 5 = 0, so nothing moves.
    task = Task(models.create("linear", input_shape=(1,), n_classes=1), "mse")
    batch = (np.array([[2.0]]), np.array([[5.0]]))
    got = local_sgd(task, np.array([1.0, 0.0]), [[batch], [batch] * 2], 0.1, backend=backend)
    torch.testing.assert_close(got, torch.tensor([[2.2, 0.6], [2.2, 0.6]]), atol=1e-6, rtol=0)
    # FedProx with mu = 1 from a second start w_start = (1, 0): first step the same (the term is 0 there); in the second the
    # loss gradient is 0 and the proximal one (1.2, 0.6), so a = 2.2 - 0.12, b = 0.6 - 0.06.
    got = local_sgd(task, np.array([1.0, 0.0]), [[batch] * 2] * 2, 0.1, backend=backend, prox=1.0)
    torch.testing.assert_close(got[0], torch.tensor([2.08, 0.54]), atol=1e-6, rtol=0)


@pytest.mark.parametrize("backend", ["pool", "stacked"])
def test_weights_repeat_and_drop_samples(backend):
    # Weights (2, 1, 0) equal the batch in which the first sample stands twice and the third is missing.
    task, w, [[(x, y)]] = make("linear", [[3]])
    weighted = local_sgd(task, w, [[(x, y, torch.tensor([2.0, 1.0, 0.0]))]] * 2, 0.3, backend=backend)
    repeated = local_sgd(task, w, [[(x[[0, 0, 1]], y[[0, 0, 1]])]] * 2, 0.3, backend=backend)
    torch.testing.assert_close(weighted, repeated, atol=1e-6, rtol=0)


@pytest.mark.parametrize("backend", ["pool", "stacked"])
def test_callable_loss(backend):
    task, w, batches = make("mlp", [[6, 4], [3]])
    same = Task(models.create(**CASES["mlp"]), lambda outputs, y: F.cross_entropy(outputs, y, reduction="none"))
    want = local_sgd(task, w, batches, 0.1)
    torch.testing.assert_close(local_sgd(same, w, batches, 0.1, backend=backend), want, atol=1e-6, rtol=0)


@settings(max_examples=15, deadline=None)
@given(sizes=st.lists(st.lists(st.integers(1, 7), max_size=4), min_size=1, max_size=5), seed=st.integers(0, 1000))
def test_back_ends_agree(sizes, seed):
    task, w, batches = make("mlp", sizes, seed)
    pool, stacked = (local_sgd(task, w, batches, 0.2, backend=b) for b in ("pool", "stacked"))
    torch.testing.assert_close(pool, stacked, atol=1e-5, rtol=0)


def test_rows_of_params_equal_separate_calls():
    task, w, batches = make("lenet", [[5, 5], [5, 5]])
    rows = torch.stack([w, task.init(9)])
    both = local_sgd(task, rows, batches, 0.1, backend="pool", threads=2)
    for k in range(2):
        assert torch.equal(both[k], local_sgd(task, rows[k], [batches[k]], 0.1, backend="pool", threads=1)[0])


def test_repeated_batch_and_inputs_untouched():
    task, w, batches = make("lenet", [[5], [4]])
    before = [w.clone(), batches[0][0][0].clone()]
    copies = [[(x.clone(), y.clone()) for x, y in client * 3] for client in batches]
    for backend in ("pool", "stacked"):
        again = local_sgd(task, w, [client * 3 for client in batches], 0.1, backend=backend)
        assert torch.equal(again, local_sgd(task, w, copies, 0.1, backend=backend))
    assert torch.equal(w, before[0]) and torch.equal(batches[0][0][0], before[1])


@pytest.mark.parametrize("backend", ["pool", "stacked"])
def test_same_bits_again_and_from_concurrent_callers(backend):
    task, w, batches = make("mlp", [[6, 6], [4, 9, 2], [5], [7, 3]])
    first = local_sgd(task, w, batches, 0.1, backend=backend, threads=2)
    with ThreadPoolExecutor(3) as callers:
        for other in callers.map(lambda _: local_sgd(task, w, batches, 0.1, backend=backend, threads=2), range(12)):
            assert torch.equal(first, other)


def test_recorded_step_has_the_same_bits():
    task, w, batches = make("linear", [[6, 6], [6, 6, 6]])
    first = local_sgd(task, w, batches, 0.1, backend="stacked")
    for _ in range(backends._TRACE_AFTER + 1):
        assert torch.equal(first, local_sgd(task, w, batches, 0.1, backend="stacked"))
    assert len(task._traces) == 2 and all(callable(step) for step in task._traces.values())  # two clients active, then one
    task._traces = dict.fromkeys(task._traces, lambda *args: torch.zeros(len(args[0]), task.n_params))
    assert torch.equal(local_sgd(task, w, batches, 0.1, backend="stacked"), w.expand(2, -1))  # the runs above did use them


def test_out_is_filled_and_returned():
    task, w, batches = make("mlp", [[6], []])
    out = torch.full((2, task.n_params), float("nan"))
    for backend in ("pool", "stacked"):
        got = local_sgd(task, w, batches, 0.1, backend=backend, out=out.fill_(float("nan")))
        assert got is out and torch.equal(got, local_sgd(task, w, batches, 0.1, backend=backend))
    with pytest.raises(ValueError, match=r"out must be"):
        local_sgd(task, w, batches, 0.1, out=out[:1])


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


@pytest.mark.parametrize(("model", "loss"), [
    (ByValue, "cross_entropy"), (Masked, "cross_entropy"), (Accumulated, "cross_entropy"),
    (nn.Sequential, lambda outputs, y: (outputs - y[:, None]).square().mean(1) / (1 + float(outputs.detach().max() > 1e9))),
])
def test_auto_trains_and_evaluates_what_vmap_does_not_take(model, loss, monkeypatch):
    task, batches = Task(model(nn.Linear(12, 4)), loss), make("mlp", [[6, 5], [7], []])[2]
    w = task.init(0)
    assert engine._backend(task, "auto", torch.device("cpu"), engine.convert(task, batches, torch.device("cpu"))) == "stacked"
    with pytest.raises(ValueError, match=r"backend='stacked' cannot train this model.* use 'pool' or 'auto'"):
        local_sgd(task, w, batches, 0.1, backend="stacked")
    assert task.stackable  # what an explicit call met may be some other error
    monkeypatch.setattr(backends, "_evaluated_at_once", lambda task, *_: 3 if task.stackable else 1)
    rows = torch.stack([w, w + 0.1, w - 0.1])
    alone = [evaluate(task, row, *batches[0][0]).loss for row in rows]
    np.testing.assert_allclose(evaluate(task, rows, *batches[0][0]).loss, alone, rtol=1e-6)
    assert task.stackable == (model not in (Masked, Accumulated))  # inputs, and the loss, are outside vmap here
    task.stackable = True
    got = local_sgd(task, w, batches, 0.1, updates=True)
    assert not task.stackable
    want = local_sgd(Task(model(nn.Linear(12, 4)), loss), w, batches, 0.1, backend="pool", updates=True)
    assert torch.equal(got, want) and want.abs().max() > 1e-3
    with pytest.raises(ValueError, match="cannot train this model"):
        local_sgd(task, w, batches, 0.1, backend="stacked")


def test_an_error_of_the_loss_itself_is_raised_by_auto():
    def loss(outputs, y):
        raise RuntimeError("broken on purpose")

    task, w, batches = make("linear", [[3], [4]])
    with pytest.raises(RuntimeError, match="broken on purpose"):
        local_sgd(Task(models.create(**CASES["linear"]), loss), w, batches, 0.1)


@pytest.mark.parametrize("backend", ["pool", "stacked"])
@pytest.mark.parametrize("sizes", [[[6, 5], [], [7, 2, 3]], [[], []]])
def test_updates_are_the_difference_to_the_last_bit(backend, sizes):
    task, w, batches = make("mlp", sizes)
    starts = w + 0.1 * torch.randn(len(sizes), task.n_params, generator=torch.Generator().manual_seed(3))
    for start in (w, starts):
        want = local_sgd(task, start, batches, 0.1, backend=backend) - start
        out = torch.full_like(want, float("nan"))
        assert torch.equal(local_sgd(task, start, batches, 0.1, backend=backend, updates=True, out=out), want)


def test_the_garbage_collector_waits_and_is_left_as_it_was(monkeypatch):
    task, w, batches = make("linear", [[3]])
    seen = []
    monkeypatch.setattr(engine, "convert", lambda *args, f=engine.convert: seen.append(gc.isenabled()) or f(*args))
    assert gc.isenabled()
    local_sgd(task, w, batches, 0.1)
    with pytest.raises(ValueError, match="client 0"):
        local_sgd(task, w, [[(batches[0][0][0], None)]], 0.1)
    assert gc.isenabled() and seen == [False, False]
    gc.disable()
    try:
        local_sgd(task, w, batches, 0.1)
        assert not gc.isenabled()
    finally:
        gc.enable()


def _pooled(*order):
    features = nn.Sequential(nn.Conv2d(1, 3, 3), *(layer() for layer in order), nn.Conv2d(3, 4, 3), nn.ReLU(inplace=True),
                             nn.MaxPool2d(3, stride=2, padding=1, ceil_mode=True))
    return nn.Sequential(features, nn.Flatten(), nn.Linear(64, 5))


def test_pooling_goes_before_relu_with_the_same_bits():
    # Constant and zero images make all windows ties, in which only the first place may get the gradient.
    x = torch.randn(8, 1, 18, 18, generator=torch.Generator().manual_seed(0))
    x[:2], x[2:4] = 0.0, 1.0
    y = torch.arange(8) % 5
    model = _pooled(nn.ReLU, lambda: nn.MaxPool2d(2))
    moved = copy.deepcopy(model)
    replicas.pool_before_relu(moved)
    assert [type(layer) for layer in moved[0]] == [nn.Conv2d, nn.MaxPool2d, nn.ReLU, nn.Conv2d, nn.MaxPool2d, nn.ReLU]
    assert [n for n, _ in moved.named_parameters()] == [n for n, _ in model.named_parameters()]
    gradients = []
    for m in (model, moved):
        F.cross_entropy(m(x), y).backward()
        gradients.append([p.grad for p in m.parameters()])
    for a, b in zip(*gradients, strict=True):
        assert torch.equal(a, b) and a.abs().max() > 0


def test_pooling_goes_first_in_training_only():
    task, w, batches = make("lenet", [[5]])
    first = local_sgd(task, w, batches, 0.1, backend="pool", threads=1)
    (replica,) = task._replicas["cpu"]

    def order():
        return [type(m) for m in replica.module if isinstance(m, nn.ReLU | nn.MaxPool2d)][:4]

    assert order() == [nn.MaxPool2d, nn.ReLU] * 2
    evaluate(task, w, *batches[0][0], threads=1)
    assert order() == [nn.ReLU, nn.MaxPool2d] * 2
    assert torch.equal(local_sgd(task, w, batches, 0.1, backend="pool", threads=1), first)
    assert order() == [nn.MaxPool2d, nn.ReLU] * 2 and len(task._replicas["cpu"]) == 1


def test_other_orders_and_models_with_code_of_their_own_stay_as_they_are():
    class Own(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.Sequential(nn.Conv2d(1, 3, 3), nn.ReLU(), nn.MaxPool2d(2))

        def forward(self, x):
            return self.layers[:2](x).mean((2, 3))  # stops before the pooling

    class Backwards(nn.Sequential):
        def forward(self, x):
            for layer in reversed(self):
                x = layer(x)
            return x

    models_left = [Own(), nn.Sequential(Own()), Backwards(nn.ReLU(), nn.MaxPool2d(2)), nn.Sequential(nn.Tanh(), nn.MaxPool2d(2)),
                   *(nn.Sequential(nn.ReLU(), pool) for pool in (nn.AvgPool2d(2), nn.MaxPool2d(2, return_indices=True),
                                                                 nn.MaxPool2d(2, padding=1, dilation=3)))]
    for name in ("forward", "forward_pre", "full_backward", "full_backward_pre"):
        for i in (0, 1):
            models_left.append(nn.Sequential(nn.ReLU(), nn.MaxPool2d(2)))
            getattr(models_left[-1][i], f"register_{name}_hook")(lambda *args: None)
    for model in models_left:
        before = [type(m) for m in model.modules()]
        replicas.pool_before_relu(model)
        assert [type(m) for m in model.modules()] == before


def test_chunks_give_the_same_answer(monkeypatch):
    task, w, batches = make("mlp", [[6, 6], [4], [5, 5, 5], [2]])
    whole = local_sgd(task, w, batches, 0.1, backend="stacked")
    calls = []
    made = 12 + 12 + 16 + 16 + 8 + 8 + 4  # inputs, flattened inputs, and what the layers hand on, twice through a ReLU
    monkeypatch.setattr(backends, "_NUMBERS", 2 * (task.n_params + 6 * made))
    monkeypatch.setattr(backends, "_stacked_sgd", lambda t, w, *a, f=backends._stacked_sgd: calls.append(len(w)) or f(t, w, *a))
    torch.testing.assert_close(local_sgd(task, w, batches, 0.1, backend="stacked"), whole, atol=1e-6, rtol=0)
    assert calls == [2, 2]


def test_a_gpus_memory_bounds_what_is_stacked(monkeypatch):
    task, w, _ = make("mlp", [])
    x = torch.zeros(6, 12)
    engine.convert(task, [[(x, torch.zeros(6, dtype=torch.int64))]], torch.device("cpu"))  # what the layers make is counted here
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: types.SimpleNamespace(total_memory=32 * 10_000))
    data = engine.Batch(x.to("meta"), None, None, 6)
    assert backends._at_once(task, data, 6) == 10_000 // (task.n_params + 6 * (12 + 12 + 16 + 16 + 8 + 8 + 4)) > 1
    assert backends._at_once(task, data, 10**6) == 1


def test_thread_settings_of_the_caller_are_unchanged(monkeypatch):
    task, w, batches = make("mlp", [[6], [6], [6]])
    before = torch.get_num_threads()
    x, y = batches[0][0]
    for threads in (1, 2, 3):
        for backend in ("pool", "stacked"):
            local_sgd(task, w, batches, 0.1, backend=backend, threads=threads)
        evaluate(task, w, x, y, threads=threads, batch_size=2)
        assert torch.get_num_threads() == before
        with ThreadPoolExecutor(1) as fresh:  # what a thread started later finds
            assert fresh.submit(torch.get_num_threads).result() == before


def test_workers_have_one_intra_op_thread():
    seen = backends._map(lambda _: torch.get_num_threads(), list(range(6)), 3, torch.device("cpu"))
    assert seen == [1] * 6
    assert backends._map(lambda _: torch.get_num_threads(), [0, 1], 4, torch.device("cpu")) == [2, 2]  # four threads, two clients


def test_environment_bounds_threads(monkeypatch):
    monkeypatch.setenv("SFLKIT_THREADS", "2")
    assert engine.thread_count(8) == 2 and engine.thread_count(1) == 1 and engine.thread_count() <= 2
    for bad in ("0", "-1", "two", "1.5"):
        monkeypatch.setenv("SFLKIT_THREADS", bad)
        with pytest.raises(ValueError, match=f"SFLKIT_THREADS='{bad}'"):
            engine.thread_count()
    monkeypatch.delenv("SFLKIT_THREADS")
    assert engine.thread_count() == torch.get_num_threads()


def test_init_is_deterministic_and_leaves_the_global_state():
    task = Task(models.create(**CASES["lenet"]))
    torch.manual_seed(3)
    state = torch.get_rng_state()
    a, b, c = task.init(1), task.init(1), task.init(2)
    assert torch.equal(torch.get_rng_state(), state)
    assert torch.equal(a, b) and not torch.equal(a, c)
    assert a.shape == (task.n_params,) and a.dtype == torch.float32 and not a.requires_grad
    torch.manual_seed(1)  # the same draws as building the model under that seed
    assert torch.equal(a, parameters_to_vector(models.create(**CASES["lenet"]).parameters()))


def test_flat_order_is_that_of_parameters():
    task, w, [[(x, y)]] = make("small_cnn", [[4]])
    model = models.create(**CASES["small_cnn"])
    vector_to_parameters(w, model.parameters())
    assert torch.equal(parameters_to_vector(task.build(w).parameters()), w)
    torch.testing.assert_close(task.build(w)(x), model(x))
    before = evaluate(task, w, x, y)
    assert before.loss == pytest.approx(F.cross_entropy(model(x), y).item(), abs=1e-6)
    assert before.accuracy == (model(x).argmax(1) == y).double().mean().item()


def test_evaluate_batches_rows_and_losses():
    task, w, [[(x, y)]] = make("mlp", [[11]])
    rows = torch.stack([w, task.init(4), w])
    whole = evaluate(task, rows, x, y)
    parts = evaluate(task, rows, x.numpy(), y.numpy(), batch_size=4, threads=2)
    assert whole._fields == ("loss", "accuracy") and whole.loss.shape == whole.accuracy.shape == (3,)
    np.testing.assert_allclose(parts.loss, whole.loss, atol=1e-6)
    np.testing.assert_array_equal(parts.accuracy, whole.accuracy)
    one = evaluate(task, rows[1], x, y)
    assert (one.loss, one.accuracy) == (whole.loss[1], whole.accuracy[1]) and isinstance(one.loss, float)
    regression = Task(models.create("linear", input_shape=(1,), n_classes=1), "mse")
    result = evaluate(regression, np.array([1.0, 1.0]), np.array([[1.0], [2.0]]), np.array([[2.0], [5.0]]))
    assert result.loss == pytest.approx((0**2 + 2**2) / 2) and np.isnan(result.accuracy)
    assert np.isnan(evaluate(task, w * float("nan"), x, y).loss)  # a diverged model is measured, not refused


@pytest.mark.parametrize("together", [2, 3, 5])
@pytest.mark.parametrize("case", CASES)
def test_models_evaluated_together_as_on_a_gpu(case, together, monkeypatch):
    task, w, [[(x, y)]] = make(case, [[11]])
    x = x.clone()
    x[3] = float("nan")
    rows = torch.stack([w + k / 10 for k in range(5)])
    per_sample = Task(models.create(**CASES[case]), lambda outputs, y: F.cross_entropy(outputs, y, reduction="none"))
    regression, targets = Task(models.create(**CASES[case]), "mse"), torch.randn(11, CASES[case]["n_classes"])
    weights = np.arange(11.0) * (np.arange(11) != 3)
    calls = [(task, y, None), (task, y, weights), (per_sample, y, weights), (regression, targets, None),
             (regression, targets, weights)]
    one_by_one = [evaluate(t, rows, x, y, weights=w, batch_size=4) for t, y, w in calls]
    monkeypatch.setattr(backends, "_evaluated_at_once", lambda *_: together)
    for (t, y, w), want in zip(calls, one_by_one, strict=True):
        got = evaluate(t, rows, x, y, weights=w, batch_size=4)
        np.testing.assert_allclose(got.loss, want.loss, rtol=1e-5)
        np.testing.assert_array_equal(got.accuracy, want.accuracy)
        assert np.isfinite(got.loss).all() == (w is not None)


def test_evaluate_weights_by_hand():
    # one bias-only weight v = 1 and targets 1, 2, 4: losses 0, 1, 9; weights 3, 1, 0: (0 * 3 + 1) / 4
    regression = Task(models.create("linear", input_shape=(1,), n_classes=1), "mse")
    x, y, v = np.zeros((3, 1)), np.array([[1.0], [2.0], [4.0]]), np.array([0.0, 1.0])
    assert evaluate(regression, v, x, y, weights=[3, 1, 0]).loss == 0.25
    assert evaluate(regression, v, x, y, weights=[3e307, 1e307, 0]).loss == pytest.approx(0.25)  # their sum would overflow
    # logits (0, x): a sample of x > 0 is called 1. Three samples 1, 2, -3 with labels 1, 0, 0: right, wrong, right.
    task, w = Task(models.create("linear", input_shape=(1,), n_classes=2)), np.array([0.0, 1.0, 0.0, 0.0])
    x, y = torch.tensor([[1.0], [2.0], [-3.0]]), torch.tensor([1, 0, 0])
    got = evaluate(task, w, x, y, weights=torch.tensor([0.2, 0.5, 0.3]))
    assert got.accuracy == pytest.approx(0.5)
    hand = 0.2 * np.log1p(np.exp(-1)) + 0.5 * np.log1p(np.exp(2)) + 0.3 * np.log1p(np.exp(-3))
    assert got.loss == pytest.approx(hand, abs=1e-6)


def test_evaluate_weights_limits():
    task, w, [[(x, y)]] = make("mlp", [[11]])
    rows, g = torch.stack([w, task.init(4)]), np.random.default_rng(0)
    plain, equal = evaluate(task, rows, x, y), evaluate(task, rows, x, y, weights=np.full(11, 0.3))
    np.testing.assert_allclose(equal.loss, plain.loss, rtol=1e-12)
    np.testing.assert_allclose(equal.accuracy, plain.accuracy, rtol=1e-12)
    counts = g.integers(0, 4, 11)  # whole weights are repeated samples; 0 drops one
    repeated = np.repeat(np.arange(11), counts)
    whole = evaluate(task, rows, x[repeated], y[repeated])
    for batch_size, threads in ((500, 1), (4, 2)):
        got = evaluate(task, rows, x, y, weights=counts, batch_size=batch_size, threads=threads)
        np.testing.assert_allclose(got.loss, whole.loss, rtol=1e-6)
        np.testing.assert_allclose(got.accuracy, whole.accuracy, rtol=1e-12)
    x = x.clone()
    x[3] = float("nan")
    only = np.ones(11)
    only[3] = 0
    assert np.isfinite(evaluate(task, rows, x, y, weights=only).loss).all() and np.isnan(evaluate(task, rows, x, y).loss).all()


def test_training_fits_the_data():
    task, w, [[(x, y)]] = make("mlp", [[12]])
    trained = local_sgd(task, w, [[(x, y)] * 400], 0.5)[0]
    assert evaluate(task, trained, x, y).accuracy == 1.0 > evaluate(task, w, x, y).accuracy


def test_auto_choice():
    tiny, _, few = make("linear", [[20], [20]])
    conv, _, images = make("lenet", [[4], [4]])
    cpu, gpu = torch.device("cpu"), torch.device("cuda")
    prepare = engine.convert
    assert engine._backend(tiny, "auto", cpu, prepare(tiny, few, cpu)) == "stacked"
    assert engine._backend(tiny, "auto", cpu, prepare(tiny, few[:1], cpu)) == "pool"  # nothing to stack
    assert engine._backend(conv, "auto", cpu, prepare(conv, images, cpu)) == "pool"
    assert engine._backend(conv, "auto", gpu, prepare(conv, images, cpu)) == "stacked"
    many, _, samples = make("linear", [[101], [101]])
    assert engine._backend(many, "auto", cpu, prepare(many, samples, cpu)) == "pool"
    big = Task(models.create("mlp", input_shape=(3168,), n_classes=100))
    wide = [[(torch.zeros(32, 3168), torch.zeros(32, dtype=torch.long))]] * 2
    assert engine._backend(big, "auto", cpu, prepare(big, wide, cpu)) == "pool"


def test_recurrent_layers_train_in_the_pool_only():
    class Last(nn.Module):
        def __init__(self):
            super().__init__()
            self.rnn, self.head = nn.LSTM(3, 5, batch_first=True), nn.Linear(5, 2)

        def forward(self, x):
            return self.head(self.rnn(x)[0][:, -1])

    task = Task(Last())
    batches = [[(torch.randn(4, 6, 3), torch.tensor([0, 1, 1, 0]))] * 2] * 2
    w = task.init(0)
    torch.testing.assert_close(local_sgd(task, w, batches, 0.1)[1], reference(task, w, batches[1], 0.1), atol=1e-6, rtol=0)
    with pytest.raises(ValueError, match="recurrent"):
        local_sgd(task, w, batches, 0.1, backend="stacked")


def test_task_survives_pickling():
    task, w, batches = make("mlp", [[4], [5]])
    want = local_sgd(task, w, batches, 0.1)
    assert torch.equal(local_sgd(pickle.loads(pickle.dumps(task)), w, batches, 0.1), want)


def test_works_in_a_forked_child():
    code = ("import os, torch\nfrom sflkit import models\nfrom sflkit.engine import Task, local_sgd\n"
            "t = Task(models.create('linear', input_shape=(3,), n_classes=2)); w = t.init(0)\n"
            "b = [[(torch.ones(2, 3), torch.tensor([0, 1]))]] * 4\n"
            "def go(): return local_sgd(t, w, b, 0.1, backend='pool', threads=2).sum().item()\n"
            "first = go(); pid = os.fork()\n"
            "if pid == 0: os._exit(0 if go() == first else 3)\n"
            "assert os.waitpid(pid, 0)[1] == 0\n")
    env = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run([sys.executable, "-c", code], timeout=60, capture_output=True, text=True, env=env)
    assert done.returncode == 0, done.stderr


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_missing_gpu():
    task, w, batches = make("linear", [[2]])
    with pytest.raises(ValueError, match="sees no GPU"):
        local_sgd(task, w, batches, 0.1, device="cuda")
    assert torch.equal(local_sgd(task, w, batches, 0.1, device="auto"), local_sgd(task, w, batches, 0.1, device="cpu"))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("backend", ["pool", "stacked"])
def test_gpu_equals_cpu(backend):
    task, w, batches = make("lenet", [[6, 6], [], [4, 9, 2], [5]])
    gpu = local_sgd(task, w, batches, 0.1, backend=backend, device="cuda")
    assert gpu.device.type == "cpu"  # where params came from
    torch.testing.assert_close(gpu, local_sgd(task, w, batches, 0.1, device="cpu"), atol=1e-4, rtol=0)
    on_device = local_sgd(task, w.cuda(), [[(x.cuda(), y.cuda()) for x, y in c] for c in batches], 0.1, backend=backend)
    assert on_device.is_cuda and torch.equal(on_device.cpu(), gpu)
    on_gpu, on_cpu = (evaluate(task, gpu, *batches[0][0], weights=np.arange(1, 7), device=device) for device in ("cuda", "cpu"))
    np.testing.assert_allclose(on_gpu.loss, on_cpu.loss, atol=1e-4)
    np.testing.assert_array_equal(on_gpu.accuracy, on_cpu.accuracy)


X, Y = torch.zeros(4, 20), torch.tensor([0, 1, 2, 0])


@pytest.mark.parametrize(("change", "message"), [
    (dict(params=torch.zeros(62)), r"shape \(62,\); it must be \(63,\) or \(n_clients, 63\)"),
    (dict(params=torch.zeros(3, 63)), "3 rows but batches has 2 clients"),
    (dict(params=torch.full((63,), float("nan"))), "params of client 0 hold NaN"),
    (dict(params=torch.stack([torch.zeros(63), torch.full((63,), float("inf"))])), "params of client 1 hold NaN"),
    (dict(params="w"), "params='w' must be a tensor"),
    (dict(batches=(X, Y)), "batches of client 0 is a Tensor"),
    (dict(batches=X), "must be a list with one list"),
    (dict(batches=[[(X, Y)], [X]]), r"client 1, step 0: a batch must be \(x, y\)"),
    (dict(batches=[[(X, Y), (X, Y[:3])], []]), "client 0, step 1: x has shape .* same number of samples"),
    (dict(batches=[[(X[:0], Y[:0])], []]), "at least 1"),
    (dict(batches=[[(X[:, :7], Y)], []]), r"does not take samples of shape \(7,\)"),
    (dict(batches=[[], [(X, Y), (X, Y + 1)]]), "client 1, step 1: label 3 is out of range; .* must lie in 0..2"),
    (dict(batches=[[(X, Y - 1)], []]), "label -1 is out of range"),
    (dict(batches=[[(X, Y.float())], []]), "needs integer labels"),
    (dict(batches=[[(X, Y[:, None])], []]), r"y has shape \(4, 1\)"),
    (dict(batches=[[(X, Y, torch.ones(3))], []]), r"weights of shape \(3,\) must be \(4,\)"),
    (dict(batches=[[(X, Y, torch.tensor([1.0, -1, 1, 1]))], []]), "finite, >= 0, not all 0"),
    (dict(batches=[[(X, Y, torch.zeros(4))], []]), "not all 0"),
    (dict(batches=[[(X, Y, torch.tensor([1.0, float("nan"), 1, 1]))], []]), "finite"),
    (dict(rate=0.0), "rate holds 0.0"),
    (dict(rate=float("nan")), "rate holds nan"),
    (dict(rate=[0.1, 0.1, 0.1]), r"rate has shape \(3,\)"),
    (dict(rate=-0.1), "rate holds -0.1"),
    (dict(prox=-1.0), "prox=-1.0"),
    (dict(corrections=torch.zeros(3, 63)), "corrections has 3 rows"),
    (dict(corrections=torch.full((63,), float("nan"))), "corrections of client 0"),
    (dict(backend="vmap"), "backend='vmap' must be one of 'auto', 'pool', 'stacked'"),
    (dict(device="tpu"), "device='tpu' must be one of"),
    (dict(threads=0), "threads=0 must be an integer >= 1"),
    (dict(threads=-2), "threads=-2"),
])
def test_bad_input(change, message):
    task = Task(models.create(**CASES["linear"]))
    good = dict(params=torch.zeros(63), batches=[[(X, Y)], [(X, Y)]], rate=0.1)
    local_sgd(task, **good)
    with pytest.raises(ValueError, match=message):
        local_sgd(task, **{**good, **change})


def test_evaluate_refuses_bad_input():
    task = Task(models.create(**CASES["linear"]))
    for bad, message in ((dict(y=Y + 1), "label 3 is out of range"), (dict(x=X[:0], y=Y[:0]), "at least 1"),
                         (dict(batch_size=0), "batch_size=0"), (dict(params=torch.zeros(5)), r"must be \(63,\)"),
                         (dict(device="gpu"), "device='gpu'"), (dict(threads=0), "threads=0"),
                         (dict(weights=np.zeros(len(X))), "not all 0"), (dict(weights=[1.0]), r"weights of shape \(1,\)"),
                         (dict(weights=-np.ones(len(X))), "weights holds -1.0")):
        with pytest.raises(ValueError, match=message):
            evaluate(**{**dict(task=task, params=torch.zeros(63), x=X, y=Y), **bad})


class Bare(nn.Module):
    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(torch.zeros(3))

    def forward(self, x):
        return x * self.w


def test_task_refuses_what_it_cannot_train():
    frozen = nn.Linear(2, 2)
    frozen.bias.requires_grad_(False)
    for model, message in ((nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4)), "buffers .1.running_mean"),
                           (nn.Sequential(nn.Linear(2, 2), nn.Dropout(0.5)), "dropout"), (nn.ReLU(), "no parameters"),
                           (nn.Linear(2, 2).double(), "float64"), (frozen, "requires_grad=False"),
                           ("lenet", "must be a torch.nn.Module")):
        with pytest.raises(ValueError, match=message):
            Task(model)
    with pytest.raises(ValueError, match="loss='hinge' must be one of"):
        Task(nn.Linear(2, 2), "hinge")
    with pytest.raises(ValueError, match="no reset_parameters"):
        Task(Bare()).init(0)
    for seed in (-1, 1.5, True, None):
        with pytest.raises(ValueError, match="seed="):
            Task(nn.Linear(2, 2)).init(seed)
    with pytest.raises(ValueError, match="build takes one"):
        Task(nn.Linear(2, 2)).build(torch.zeros(2, 6))
