"""Dense layers of the pool: the plain loop's numbers by either product and step, and models for which they would be wrong."""

import platform

import pytest
import torch
from torch import nn
from torch.autograd import forward_ad
from torch.nn import functional as F

from sflkit import engine, fused, models
from tests.test_engine import CASES, make, reference


@pytest.fixture(autouse=True, params=["torch's product", "oneDNN's product and step"])
def fuse_every_layer(request, monkeypatch):
    monkeypatch.setattr(fused, "_LEAST_NUMBERS", 1)
    if request.param != "torch's product":
        monkeypatch.setattr(fused, "_LEAST_PRODUCT", 1)
        monkeypatch.setattr(fused, "_LEAST_SAMPLES", 1)


def fused_layers(task):
    return [len(replica.dense) for replica in task._replicas["cpu"]]


def random_batches(n_clients=1, steps=3, n_in=4, n_out=3):
    g = torch.Generator().manual_seed(1)
    return [[(torch.randn(5, n_in, generator=g), torch.randint(0, n_out, (5,), generator=g)) for _ in range(steps)]
            for _ in range(n_clients)]


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


class Differentiated(nn.Module):
    """Takes a gradient through a layer within the forward pass, which must not be a step of that layer."""

    def __init__(self):
        super().__init__()
        self.inner, self.outer = nn.Linear(4, 4), nn.Linear(4, 3)

    def forward(self, x):
        if not torch.is_grad_enabled():
            return self.outer(x)
        z = x.detach().requires_grad_()
        (gradient,) = torch.autograd.grad(self.inner(z).tanh().sum(), z)
        return self.outer(x + gradient)


class Sometimes(nn.Module):
    """Uses a layer twice, but only for some inputs."""

    def __init__(self):
        super().__init__()
        self.inner, self.outer = nn.Linear(4, 4), nn.Linear(4, 3)

    def forward(self, x):
        h = self.inner(x).tanh()
        return self.outer(self.inner(h) if x[0, 0] > 1 else h)


class Deep(nn.Module):
    """Inputs with a further axis take the usual path."""

    def __init__(self):
        super().__init__()
        self.inner, self.outer = nn.Linear(2, 4), nn.Linear(4, 3)

    def forward(self, x):
        return self.outer(self.inner(x.view(-1, 2, 2)).tanh().sum(1))


@pytest.mark.parametrize("model, left", [(Twice, 0), (Tied, 1), (Borrowed, 0), (Unused, 2), (Differentiated, 0), (Deep, 2)])
def test_weights_used_twice_are_trained_as_usual(model, left):
    task, batches = engine.Task(model()), random_batches()
    w = task.init(0)
    torch.testing.assert_close(train(task, w, batches)[0], reference(task, w, batches[0], 0.1), atol=1e-6, rtol=0)
    assert fused_layers(task) == [left]


def test_same_bits_whoever_finds_out():
    batches = random_batches(n_clients=12)
    results = []
    for threads in (2, 2, 1):
        task = engine.Task(Sometimes())
        results.append(engine.local_sgd(task, task.init(0), batches, 0.1, backend="pool", threads=threads))
        assert not task.fusable and set(fused_layers(task)) == {0}
    assert torch.equal(results[0], results[1]) and torch.equal(results[0], results[2])


def test_an_input_changed_in_place_is_an_error_as_for_a_plain_layer():
    class InPlace(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b, self.c = nn.Linear(4, 4), nn.Linear(4, 3), nn.Linear(4, 3)

        def forward(self, x):
            h = self.a(x)
            y = self.b(h)
            return y + self.c(h.relu_())

    task = engine.Task(InPlace())
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        train(task, task.init(0), random_batches())


def test_weights_rates_and_threads():
    task, batches = engine.Task(nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 3))), random_batches(n_clients=3)
    w = task.init(0)
    weighted = [[(x, y, torch.arange(1.0, 6)) for x, y in client] for client in batches]
    rates = [0.1, 0.3, 0.05]
    got = engine.local_sgd(task, w, weighted, rates, backend="pool", threads=2)
    for k in range(3):
        torch.testing.assert_close(got[k], reference(task, w, weighted[k], rates[k]), atol=1e-6, rtol=0)
    assert all(n == 2 for n in fused_layers(task))


def test_an_error_in_the_loss_leaves_usual_layers():
    def loss(outputs, y):
        if torch.is_grad_enabled() and (y == 2).any():
            raise KeyError("no such label")
        return (outputs**2).sum(1)

    task = engine.Task(nn.Linear(4, 3), loss)
    w, (x, y) = task.init(0), random_batches()[0][0]
    with pytest.raises(KeyError):
        train(task, w, [[(x, torch.full_like(y, 2))]])
    (replica,) = task._replicas["cpu"]
    assert replica.dense and replica.dense[0]._rate is None


def test_other_uses_of_the_replica_see_a_usual_layer():
    task, w, batches = make("mlp", [[6, 5], [7]])
    want = engine.local_sgd(engine.Task(models.create(**CASES["mlp"])), w, batches, 0.1, backend="stacked")
    trained = train(task, w, batches)
    torch.testing.assert_close(engine.local_sgd(task, w, batches, 0.1, backend="stacked"), want, atol=0, rtol=0)
    before = trained.clone()
    engine.evaluate(task, trained, *batches[0][0])
    assert torch.equal(trained, before)
    assert set(fused_layers(task)) == {3}


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


class Penalised(Differentiated):
    """Adds a function of its own gradient, which is then differentiated a second time."""

    def forward(self, x):
        if not torch.is_grad_enabled():
            return self.outer(x)
        z = x.detach().requires_grad_()
        (gradient,) = torch.autograd.grad(self.outer(self.inner(z).tanh()).square().sum(), z, create_graph=True)
        return self.outer(x + gradient)


class Transformed(Differentiated):
    """Differentiates itself by torch.func."""

    def forward(self, x):
        return self.outer(torch.func.grad(lambda z: self.inner(z).tanh().sum())(x))


@pytest.mark.parametrize("model", [Penalised, Transformed])
@pytest.mark.parametrize("least", [1, 10**9])
def test_second_derivatives_and_transforms_are_those_of_plain_layers(model, least, monkeypatch):
    monkeypatch.setattr(fused, "_LEAST_NUMBERS", least)  # with a step within the backward pass, and without
    task, batches = engine.Task(model()), random_batches()
    w = task.init(0)
    got = train(task, w, batches)[0]
    torch.testing.assert_close(got, reference(task, w, batches[0], 0.1), atol=1e-6, rtol=0)
    inner = slice(0, 20)
    assert (got - w)[inner].abs().max() > 1e-3


class Hooked(Differentiated):
    """Changes the gradient of a weight by a hook."""

    def forward(self, x):
        if torch.is_grad_enabled() and not self.outer.weight._backward_hooks:
            self.outer.weight.register_hook(lambda g: 2 * g)
        return self.outer(self.inner(x).tanh())


class Substituted(Differentiated):
    """Calls a layer with other parameters than its own, one of them with all entries at one place in memory."""

    def forward(self, x):
        bias = self.outer.bias[0].expand(4)
        h = torch.func.functional_call(self.inner, {"weight": self.inner.weight.sign() + self.inner.weight, "bias": bias}, (x,))
        return self.outer(h.tanh())


class Dual(Differentiated):
    """Differentiates itself forwards, without a graph."""

    def forward(self, x):
        if torch.is_inference_mode_enabled():  # where it cannot be done
            return self.outer(x)
        with torch.no_grad(), forward_ad.dual_level():
            slope = forward_ad.unpack_dual(self.inner(forward_ad.make_dual(x, torch.ones_like(x)))).tangent
        return self.outer(x + slope)


class Mixed(Differentiated):
    def forward(self, x):
        with torch.autocast("cpu", torch.bfloat16):
            return self.outer(self.inner(x).tanh()).float()


class ByKeyword(Differentiated):
    def forward(self, x):
        return self.outer(input=self.inner(input=x).tanh())


class Sparse(Differentiated):
    def forward(self, x):
        return self.outer(self.inner(x.to_sparse()).tanh())


class Clamped(Differentiated):
    """Changes a weight in place after its use, which a first layer without gradients for its inputs does not mind."""

    def forward(self, x):
        h = self.inner(x).tanh()
        with torch.no_grad():
            self.inner.weight.clamp_(-0.3, 0.3)
        return self.outer(h)


@pytest.mark.parametrize("model", [Hooked, Substituted, Dual, Mixed, ByKeyword, Sparse, Clamped])
@pytest.mark.parametrize("least", [1, 10**9])
def test_what_else_a_model_may_do_with_its_layers(model, least, monkeypatch):
    monkeypatch.setattr(fused, "_LEAST_NUMBERS", least)
    task, batches = engine.Task(model()), random_batches()
    w = task.init(0)
    tolerance = 1e-3 if model is Mixed else 1e-6  # bfloat16 has eight bits
    torch.testing.assert_close(train(task, w, batches)[0], reference(task, w, batches[0], 0.1), atol=tolerance, rtol=0)


@pytest.fixture
def forget_onednn():
    fused._offered.cache_clear()
    yield
    fused._offered.cache_clear()


def has_onednn():
    return (platform.machine().lower() in ("x86_64", "amd64") and torch.backends.mkldnn.is_available()
            and hasattr(torch.ops.mkldnn, "_linear_pointwise"))


@pytest.mark.skipif(not has_onednn(), reason="no oneDNN for this processor")
def test_onednn_is_found_whatever_the_defaults_and_can_be_switched_off(forget_onednn):
    torch.set_default_dtype(torch.float64)
    try:
        assert fused._onednn() is not None
    finally:
        torch.set_default_dtype(torch.float32)
    with torch.backends.mkldnn.flags(enabled=False):
        assert fused._onednn() is None
    assert fused._onednn() is not None


@pytest.mark.skipif(not has_onednn(), reason="no oneDNN for this processor")
def test_large_products_are_onednns_in_few_shapes(monkeypatch):
    monkeypatch.setattr(fused, "_LEAST_PRODUCT", 6 * 4 * 5)
    calls, onednn = [], fused._onednn()
    monkeypatch.setattr(fused, "_onednn", lambda: lambda *args: calls.append((*args[0].shape, len(args[1]))) or onednn(*args))
    layer = nn.Linear(4, 5)
    fused.fuse(layer)
    for n in (5, 6, 33, 45, 64):  # inputs that lie apart in memory, an output whose gradient is one number seen many times
        for x in (torch.randn(n, 8)[:, ::2], torch.randn(4, n).t(), torch.randn(1, 4).expand(n, 4)):
            x = x.detach().requires_grad_()
            plain = F.linear(x, layer.weight, layer.bias).sum()
            want = torch.autograd.grad(plain, [x, *layer.parameters()])
            got = torch.autograd.grad(layer(x).sum(), [x, *layer.parameters()])
            for a, b in zip(got, want, strict=True):
                torch.testing.assert_close(a, b, atol=1e-4, rtol=0)
            with torch.no_grad():
                torch.testing.assert_close(layer(x), F.linear(x, layer.weight, layer.bias), atol=1e-5, rtol=0)
    # rows, inner and outer sizes of outputs and of both gradients; five samples are too few, 33, 45 and 64 become 64
    assert set(calls) == {shape for n in (6, 64) for shape in ((n, 4, 5), (n, 5, 4), (5, n, 4))} and len(calls) == 4 * 3 * 4


@pytest.mark.parametrize("failure", [AttributeError, RuntimeError, "other numbers", "another processor"])
def test_without_onednn_all_goes_by_torch(failure, monkeypatch, forget_onednn):
    def product(x, *args):
        if failure == "other numbers":
            return torch.zeros(2, 2)
        raise failure("not here")

    if failure == "another processor":
        monkeypatch.setattr(platform, "machine", lambda: "arm64")
    else:
        monkeypatch.setattr(torch.ops.mkldnn, "_linear_pointwise", product)
    assert fused._onednn() is None
    task, w, batches = make("mlp", [[6, 5], [7]])
    torch.testing.assert_close(train(task, w, batches)[0], reference(task, w, batches[0], 0.1), atol=1e-6, rtol=0)


def test_only_large_layers_are_fused(monkeypatch):
    monkeypatch.undo()
    task = engine.Task(models.create("mlp", input_shape=(3168,), n_classes=100, hidden=(512, 256)))
    train(task, task.init(0), [[(torch.zeros(2, 3168), torch.zeros(2, dtype=torch.int64))]])
    assert fused_layers(task) == [1]
