"""Local training against a plain torch.optim loop, the choice of the back end, and bad input."""

import gc
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from sflkit import models
from sflkit.federated import Task, evaluate, local, local_sgd
from sflkit.federated.batches import Lists, read
from tests.federated.federated_cases import CASES, ROWS, lists_of, make, reference, table


@pytest.mark.parametrize("backend", ["pool", "stacked"])
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("options", range(8))
def test_equals_the_plain_loop(case, backend, options):
    """Ragged steps and sizes in both forms, with and without each of the options."""
    task, w, x, y = table(case)
    g, rng = torch.Generator().manual_seed(5), np.random.default_rng(options)
    corrections = 0.1 * torch.randn(4, task.n_params, generator=g) if options & 1 else None
    prox, weights, rates, starts = 0.7 * bool(options & 2), None, np.full(4, 0.1), w.expand(4, -1)
    if options & 4:
        weights = rng.integers(0, 4, ROWS.shape).astype(np.float32)
        rates = np.array([0.1, 0.2, 0.05, 0.1])
        starts = w + 0.01 * torch.randn(4, task.n_params, generator=g)
    start, rate = (starts, rates) if options & 4 else (w, 0.1)
    before = start.clone(), x.clone()
    kw = dict(backend=backend, prox=prox, corrections=corrections)
    lists = lists_of(x, y, ROWS, weights)
    of_rows = local_sgd(task, start, rate=rate, data=(x, y), rows=ROWS, weights=weights, **kw)
    of_lists = local_sgd(task, start, lists, rate, **kw)
    for k, client in enumerate(lists):
        own = None if corrections is None else corrections[k]
        want = reference(task, starts[k], client, rates[k], prox, own)
        torch.testing.assert_close(of_rows[k], want, atol=1e-5, rtol=0)
        torch.testing.assert_close(of_lists[k], want, atol=1e-5, rtol=0)
    assert torch.equal(of_rows[2], starts[2]) and torch.equal(of_lists[2], starts[2])  # no steps
    assert (of_rows[0] - starts[0]).abs().max() > 1e-3  # the others did move
    assert torch.equal(start, before[0]) and torch.equal(x, before[1])
    out = torch.full_like(of_rows, float("nan"))  # updates are the difference to the last bit
    got = local_sgd(task, start, lists, rate, updates=True, out=out, **kw)
    assert got is out and torch.equal(out, of_lists - starts)


@pytest.mark.parametrize("backend", ["pool", "stacked"])
def test_float64_agrees_to_twelve_digits(backend):
    task, w, x, y = table("mlp", dtype=torch.float64)
    assert w.dtype == torch.float64 and torch.equal(w, table("mlp")[1].double())
    batches = lists_of(x, y, ROWS)
    got = local_sgd(task, w, batches, 0.1, backend=backend, prox=0.7)
    for k, client in enumerate(batches):
        want = reference(task, w, client, 0.1, 0.7)
        torch.testing.assert_close(got[k], want, atol=1e-14, rtol=1e-12)
    loss = F.cross_entropy(task.build(w)(x), y).item()
    assert evaluate(task, w, x, y).loss == pytest.approx(loss, rel=1e-13)


@pytest.mark.parametrize("backend", ["pool", "stacked"])
def test_one_step_by_hand(backend):
    # Linear 1 -> 1, l = (a x + b - y)^2, x = 2, y = 5, a = 1, b = 0: error -3, gradient (2*-3*2,
    # 2*-3) = (-12, -6). Rate 0.1: a = 2.2, b = 0.6. Second step: error 2.2*2 + 0.6 - 5 = 0, so
    # nothing moves.
    task = Task(models.create("linear", input_shape=(1,), n_classes=1), "mse")
    batch = (np.array([[2.0]]), np.array([[5.0]]))
    got = local_sgd(task, np.array([1.0, 0.0]), [[batch], [batch] * 2], 0.1, backend=backend)
    torch.testing.assert_close(got, torch.tensor([[2.2, 0.6], [2.2, 0.6]]), atol=1e-6, rtol=0)
    # FedProx with mu = 1 from a second start w_start = (1, 0): first step the same (the term is 0
    # there); in the second the loss gradient is 0 and the proximal one (1.2, 0.6), so a = 2.2 -
    # 0.12, b = 0.6 - 0.06.
    got = local_sgd(task, np.array([1.0, 0.0]), [[batch] * 2] * 2, 0.1, backend=backend, prox=1.0)
    torch.testing.assert_close(got[0], torch.tensor([2.08, 0.54]), atol=1e-6, rtol=0)


@pytest.mark.parametrize("backend", ["pool", "stacked"])
def test_weights_repeat_and_drop_samples(backend):
    # Weights (2, 1, 0) equal the batch in which the first sample stands twice and the third is
    # missing.
    task, w, [[(x, y)]] = make("linear", [[3]])
    weighted = local_sgd(
        task, w, [[(x, y, torch.tensor([2.0, 1.0, 0.0]))]] * 2, 0.3, backend=backend
    )
    repeated = local_sgd(task, w, [[(x[[0, 0, 1]], y[[0, 0, 1]])]] * 2, 0.3, backend=backend)
    torch.testing.assert_close(weighted, repeated, atol=1e-6, rtol=0)


@pytest.mark.parametrize("backend", ["pool", "stacked"])
def test_callable_loss(backend):
    task, w, batches = make("mlp", [[6, 4], [3]])
    same = Task(
        models.create(**CASES["mlp"]),
        lambda outputs, y: F.cross_entropy(outputs, y, reduction="none"),
    )
    want = local_sgd(task, w, batches, 0.1)
    torch.testing.assert_close(
        local_sgd(same, w, batches, 0.1, backend=backend), want, atol=1e-6, rtol=0
    )


@pytest.mark.parametrize("backend", ["pool", "stacked"])
def test_full_batches_repeat_one_tuple_with_the_same_bits(backend):
    task, w, batches = make("lenet", [[5], [4]])
    copies = [[(x.clone(), y.clone()) for x, y in client * 3] for client in batches]
    again = local_sgd(task, w, [client * 3 for client in batches], 0.1, backend=backend)
    assert torch.equal(again, local_sgd(task, w, copies, 0.1, backend=backend))


@pytest.mark.parametrize("backend", ["pool", "stacked"])
def test_same_bits_again_and_from_concurrent_callers(backend):
    task, w, batches = make("mlp", [[6, 6], [4, 9, 2], [5], [7, 3]])
    first = local_sgd(task, w, batches, 0.1, backend=backend, threads=2)
    with ThreadPoolExecutor(3) as callers:
        for other in callers.map(
            lambda _: local_sgd(task, w, batches, 0.1, backend=backend, threads=2), range(12)
        ):
            assert torch.equal(first, other)


def test_out_must_fit():
    task, w, batches = make("mlp", [[6], []])
    with pytest.raises(ValueError, match=r"out must be"):
        local_sgd(task, w, batches, 0.1, out=torch.empty(1, task.n_params))


@pytest.mark.parametrize("backend", ["pool", "stacked"])
def test_clients_without_steps_stay(backend):
    task, w, _ = make("mlp", [])
    assert torch.equal(local_sgd(task, w, [[], []], 0.1, backend=backend), w.expand(2, -1))
    assert not local_sgd(task, w, [[], []], 0.1, backend=backend, updates=True).any()


@pytest.mark.parametrize("on", [True, False])
def test_the_garbage_collector_waits_and_is_left_as_it_was(on, monkeypatch):
    task, w, batches = make("linear", [[3]])
    seen, lists = [], local.Lists
    monkeypatch.setattr(local, "Lists", lambda *a: seen.append(gc.isenabled()) or lists(*a))
    (gc.enable if on else gc.disable)()
    try:
        local_sgd(task, w, batches, 0.1)
        with pytest.raises(ValueError, match="client 0"):
            local_sgd(task, w, [[(batches[0][0][0], None)]], 0.1)
        assert gc.isenabled() == on and seen == [False, False]
    finally:
        gc.enable()


def test_training_fits_the_data():
    task, w, [[(x, y)]] = make("mlp", [[12]])
    trained = local_sgd(task, w, [[(x, y)] * 400], 0.5)[0]
    assert evaluate(task, trained, x, y).accuracy == 1.0 > evaluate(task, w, x, y).accuracy


CONV = torch.nn.Sequential(torch.nn.Conv2d(1, 2, 3), torch.nn.Flatten())  # of few parameters


@pytest.mark.parametrize(
    ("model", "shape", "clients", "n", "on_cpu"),
    [
        (models.create(**CASES["linear"]), (20,), 2, 20, "stacked"),
        (models.create(**CASES["linear"]), (20,), 1, 20, "pool"),  # nothing to stack
        (models.create(**CASES["linear"]), (20,), 2, 101, "pool"),
        (models.create(**CASES["lenet"]), (1, 28, 28), 2, 4, "pool"),
        (CONV, (1, 4, 4), 2, 4, "pool"),
        (models.create("mlp", input_shape=(3168,), n_classes=100), (3168,), 2, 32, "pool"),
    ],
)
def test_auto_choice(model, shape, clients, n, on_cpu):
    task, cpu = Task(model), torch.device("cpu")
    batches = [[(torch.zeros(n, *shape), torch.zeros(n, dtype=torch.long))]] * clients
    data = Lists(task, batches, cpu)
    assert local.choose_back_end(task, "auto", cpu, data) == on_cpu
    on_gpu = "stacked" if clients > 1 else "pool"
    assert local.choose_back_end(task, "auto", torch.device("cuda"), data) == on_gpu


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_missing_gpu():
    task, w, batches = make("linear", [[2]])
    with pytest.raises(ValueError, match="sees no GPU"):
        local_sgd(task, w, batches, 0.1, device="cuda")
    assert torch.equal(
        local_sgd(task, w, batches, 0.1, device="auto"),
        local_sgd(task, w, batches, 0.1, device="cpu"),
    )


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("backend", ["pool", "stacked"])
def test_gpu_equals_cpu(backend):
    task, w, batches = make("lenet", [[6, 6], [], [4, 9, 2], [5]])
    gpu = local_sgd(task, w, batches, 0.1, backend=backend, device="cuda")
    assert gpu.device.type == "cpu"  # where params came from
    torch.testing.assert_close(
        gpu, local_sgd(task, w, batches, 0.1, device="cpu"), atol=1e-4, rtol=0
    )
    on_device = local_sgd(
        task,
        w.cuda(),
        [[(x.cuda(), y.cuda()) for x, y in c] for c in batches],
        0.1,
        backend=backend,
    )
    assert on_device.is_cuda and torch.equal(on_device.cpu(), gpu)
    on_gpu, on_cpu = (
        evaluate(task, gpu, *batches[0][0], weights=np.arange(1, 7), device=device)
        for device in ("cuda", "cpu")
    )
    np.testing.assert_allclose(on_gpu.loss, on_cpu.loss, atol=1e-4)
    np.testing.assert_array_equal(on_gpu.accuracy, on_cpu.accuracy)


X, Y = torch.zeros(4, 20), torch.tensor([0, 1, 2, 0])
BAD_LISTS = [
    (dict(batches=(X, Y)), "batches of client 0 is a Tensor"),
    (dict(batches=[[(X, Y)], [X]]), r"client 1, step 0: a batch must be \(x, y\)"),
    (
        dict(batches=[[(X, Y), (X, Y[:3])], []]),
        "client 0, step 1: x has shape .* same number of sam",
    ),
    (dict(batches=[[(X[:, :7], Y)], []]), r"does not take samples of shape \(7,\)"),
    (
        dict(batches=[[], [(X, Y), (X, Y + 1)]]),
        "client 1, step 1: label 3 is out .* must lie in 0..2",
    ),
    (dict(data=(X, Y)), "give either batches"),
]
BAD_ROWS = [
    (dict(rows=[[[[0]]]]), r"rows has shape \(1, 1, 1, 1\)"),
    (dict(batches=[[(X, Y)]]), "give either batches"),
    (dict(data=(X,)), r"data=.* must be a pair"),
]


@pytest.mark.parametrize(
    ("form", "change", "message"),
    [*(("lists", *case) for case in BAD_LISTS), *(("rows", *case) for case in BAD_ROWS)],
)
def test_what_the_campaign_of_damaged_calls_does_not_find(form, change, message):
    good = dict(task=Task(models.create(**CASES["linear"])), params=torch.zeros(63), rate=0.1)
    good |= {"batches": [[(X, Y)]] * 2} if form == "lists" else {"data": (X, Y), "rows": [[[0, 1]]]}
    local_sgd(**good)
    with pytest.raises(ValueError, match=message):
        local_sgd(**{**good, **change})


def test_kinds_of_batches_are_each_compared_with_the_model():
    # the second batch has float64 inputs, int32 labels; the third targets of another shape
    task, w, [[(x, y)]] = make("linear", [[4]])
    first, second = read(task, [[(x, y), (x.double(), y.int())]], torch.device("cpu"))[0]
    assert first.kind == second.kind and second.y.dtype == torch.int64
    assert torch.equal(first.x, second.x)
    with pytest.raises(ValueError, match=r"client 0, step 1: y has shape .* \(4, 3\) need \(4,\)"):
        read(task, [[(x, y), (x, y[:, None])]], torch.device("cpu"))
