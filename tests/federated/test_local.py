"""Local training against a plain torch.optim loop, the choice of the back end, and bad input."""

import gc
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional as F

from sflkit import models
from sflkit.federated import Task, evaluate, local, local_sgd
from sflkit.federated.batches import Lists, convert
from tests.federated.federated_cases import CASES, make, reference


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
    batches[0] = [
        (x, y, torch.rand(len(x), generator=g)) for x, y in batches[0]
    ]  # weighted beside unweighted clients
    got = local_sgd(
        task, starts, batches, rates, backend=backend, prox=0.7, corrections=corrections
    )
    for k in range(3):
        want = reference(task, starts[k], batches[k], rates[k], 0.7, corrections[k])
        torch.testing.assert_close(got[k], want, atol=1e-5, rtol=0)
    shared = local_sgd(task, w, batches, 0.1, backend=backend, corrections=corrections[0])
    torch.testing.assert_close(
        shared[2], reference(task, w, batches[2], 0.1, 0.0, corrections[0]), atol=1e-5, rtol=0
    )


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


@settings(max_examples=15)
@given(
    sizes=st.lists(st.lists(st.integers(1, 7), max_size=4), min_size=1, max_size=5),
    seed=st.integers(0, 1000),
)
def test_back_ends_agree(sizes, seed):
    task, w, batches = make("mlp", sizes, seed)
    pool, stacked = (local_sgd(task, w, batches, 0.2, backend=b) for b in ("pool", "stacked"))
    torch.testing.assert_close(pool, stacked, atol=1e-5, rtol=0)


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
        for other in callers.map(
            lambda _: local_sgd(task, w, batches, 0.1, backend=backend, threads=2), range(12)
        ):
            assert torch.equal(first, other)


def test_out_is_filled_and_returned():
    task, w, batches = make("mlp", [[6], []])
    out = torch.full((2, task.n_params), float("nan"))
    for backend in ("pool", "stacked"):
        got = local_sgd(task, w, batches, 0.1, backend=backend, out=out.fill_(float("nan")))
        assert got is out and torch.equal(got, local_sgd(task, w, batches, 0.1, backend=backend))
    with pytest.raises(ValueError, match=r"out must be"):
        local_sgd(task, w, batches, 0.1, out=out[:1])


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
    starts = w + 0.1 * torch.randn(
        len(sizes), task.n_params, generator=torch.Generator().manual_seed(3)
    )
    for start in (w, starts):
        want = local_sgd(task, start, batches, 0.1, backend=backend) - start
        out = torch.full_like(want, float("nan"))
        assert torch.equal(
            local_sgd(task, start, batches, 0.1, backend=backend, updates=True, out=out), want
        )


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
NAN = torch.full((63,), float("nan"))
LISTS = [
    (dict(params=torch.zeros(62)), r"shape \(62,\); it must be \(63,\) or \(n_clients, 63\)"),
    (dict(params=torch.zeros(3, 63)), "3 rows but there are 2 clients"),
    (dict(params=NAN), "params of client 0 hold NaN"),
    (dict(params=torch.stack([torch.zeros(63), NAN])), "params of client 1 hold NaN"),
    (dict(batches=(X, Y)), "batches of client 0 is a Tensor"),
    (dict(batches=X), "must be a list with one list"),
    (dict(batches=[[(X, Y)], [X]]), r"client 1, step 0: a batch must be \(x, y\)"),
    (
        dict(batches=[[(X, Y), (X, Y[:3])], []]),
        "client 0, step 1: x has shape .* same number of sam",
    ),
    (dict(batches=[[(X[:0], Y[:0])], []]), "at least 1"),
    (dict(batches=[[(X[:, :7], Y)], []]), r"does not take samples of shape \(7,\)"),
    (
        dict(batches=[[], [(X, Y), (X, Y + 1)]]),
        "client 1, step 1: label 3 is out .* must lie in 0..2",
    ),
    (dict(batches=[[(X, Y - 1)], []]), "label -1 is out of range"),
    (dict(batches=[[(X, Y.float())], []]), "needs integer labels"),
    (dict(batches=[[(X, Y[:, None])], []]), r"y has shape \(4, 1\)"),
    (dict(batches=[[(X, Y, torch.ones(3))], []]), r"weights of shape \(3,\) must be \(4,\)"),
    (dict(batches=[[(X, Y, Y - 1.0)], []]), "finite, >= 0, not all 0"),
    (dict(batches=[[(X, Y, 0 * Y)], []]), "not all 0"),
    (dict(batches=[[(X, Y, NAN[:4])], []]), "finite"),
    (dict(rate=0.0), "rate holds 0.0"),
    (dict(rate=[0.1, 0.1, 0.1]), r"rate has shape \(3,\)"),
    (dict(rate=None), "rate=None"),
    (dict(prox=-1.0), "prox=-1.0"),
    (dict(corrections=torch.zeros(3, 63)), "corrections has 3 rows"),
    (dict(corrections=NAN), "corrections of client 0"),
    (dict(device="tpu"), "device='tpu' must be one of"),
    (dict(threads=0), "threads=0 must be an integer >= 1"),
    (dict(data=(X, Y)), "give either batches"),
]
ROWS = [
    (dict(rows=[[[0, 4]]]), r"rows holds 4; entries must be integers .*3"),
    (dict(rows=[[[0, -2]]]), "rows holds -2"),
    (dict(rows=[[[0.5]]]), "rows holds 0.5"),
    (dict(rows=[[[0, 1], [2]]]), "rows=.* must be an array of numbers"),
    (dict(rows=0), r"rows has shape \(\)"),
    (dict(rows=[[[[0]]]]), r"rows has shape \(1, 1, 1, 1\)"),
    (dict(rows=None), "give either batches"),
    (dict(batches=[[(X, Y)]]), "give either batches"),
    (dict(data=(X,)), r"data=.* must be a pair"),
    (dict(data=(X[:3], Y)), "data: x has shape"),
    (dict(data=(X[:, :3], Y)), "data: the model does not take"),
    (dict(data=(X, Y + 1)), "data: label 3 is out of range"),
    (dict(weights=[[[1.0, -1.0]]]), "weights holds -1.0"),
    (dict(weights=[[[0.0, 0.0]]]), "not all 0"),
    (dict(weights=[[[1.0]]]), r"weights of shape \(1, 1, 1\) must be shaped like rows"),
    (dict(weights=[[[1.0, float("nan")]]]), "weights holds nan"),
    (dict(params=torch.zeros(2, 63)), "2 rows but there are 1 clients"),
]


@pytest.mark.parametrize(
    ("form", "change", "message"),
    [*(("lists", *case) for case in LISTS), *(("rows", *case) for case in ROWS)],
)
def test_bad_input(form, change, message):
    good = dict(task=Task(models.create(**CASES["linear"])), params=torch.zeros(63), rate=0.1)
    good |= {"batches": [[(X, Y)]] * 2} if form == "lists" else {"data": (X, Y), "rows": [[[0, 1]]]}
    local_sgd(**good)
    with pytest.raises(ValueError, match=message):
        local_sgd(**{**good, **change})


def test_kinds_of_batches_are_each_compared_with_the_model():
    # the second batch has float64 inputs, int32 labels; the third targets of another shape
    task, w, [[(x, y)]] = make("linear", [[4]])
    first, second = convert(task, [[(x, y), (x.double(), y.int())]], torch.device("cpu"))[0]
    assert first.kind == second.kind and second.y.dtype == torch.int64
    assert torch.equal(first.x, second.x)
    with pytest.raises(ValueError, match=r"client 0, step 1: y has shape .* \(4, 3\) need \(4,\)"):
        convert(task, [[(x, y), (x, y[:, None])]], torch.device("cpu"))
