"""Loss and accuracy by hand, over batches, weights and models, and bad input."""

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

from sflkit import models
from sflkit.federated import Task, evaluate, evaluation, local_sgd
from tests.federated.federated_cases import CASES, make


def test_evaluate_batches_rows_and_losses():
    task, w, [[(x, y)]] = make("mlp", [[11]])
    rows = torch.stack([w, task.init(4), w])
    whole = evaluate(task, rows, x, y)
    parts = evaluate(task, rows, x.numpy(), y.numpy(), batch_size=4, threads=2)
    assert whole._fields == ("loss", "accuracy")
    assert whole.loss.shape == whole.accuracy.shape == (3,)
    np.testing.assert_allclose(parts.loss, whole.loss, atol=1e-6)
    np.testing.assert_array_equal(parts.accuracy, whole.accuracy)
    one = evaluate(task, rows[1], x, y)
    assert (one.loss, one.accuracy) == (whole.loss[1], whole.accuracy[1])
    assert isinstance(one.loss, float)
    regression = Task(models.create("linear", input_shape=(1,), n_classes=1), "mse")
    result = evaluate(
        regression, np.array([1.0, 1.0]), np.array([[1.0], [2.0]]), np.array([[2.0], [5.0]])
    )
    assert result.loss == pytest.approx((0**2 + 2**2) / 2) and np.isnan(result.accuracy)


class OwnBatchNorm(nn.Linear):
    def forward(self, x):
        return super().forward(x - x.mean(0))


class OwnDropout(nn.Linear):
    def forward(self, x):
        return super().forward(F.dropout(x, 0.5))


@pytest.mark.parametrize(
    "model",
    [
        OwnBatchNorm(99, 2),
        OwnDropout(99, 2),
        nn.Sequential(nn.Linear(99, 99), nn.RReLU(), nn.Linear(99, 2)),
    ],
)
def test_what_a_batch_or_chance_decides_is_refused(model):
    """Its loss would depend on `batch_size`; no module of a known class says so."""
    task = Task(model)
    x, y = torch.rand(30, 99) + 1, torch.zeros(30, dtype=torch.long)
    for call in (evaluate, lambda *args: local_sgd(*args[:2], [[(x, y)]], 0.1)):
        with pytest.raises(ValueError, match="depends on chance or on the other samples"):
            call(task, task.init(0), x, y)


def test_a_diverged_model_is_measured_and_has_no_accuracy():
    # the largest of outputs that are no numbers would be the first, and every label 0 a hit
    task, w, [[(x, y)]] = make("mlp", [[11]])
    rows = torch.stack([w, w * float("nan"), w])
    rows[2, 0] = float("inf")
    found = evaluate(task, rows, x, 0 * y)
    assert np.isnan(found.loss[1])
    np.testing.assert_array_equal(np.isnan(found.accuracy), [False, True, True])
    assert found.accuracy[0] == evaluate(task, w, x, 0 * y).accuracy
    assert np.isnan(evaluate(task, rows[1], x, 0 * y).accuracy)


@pytest.mark.parametrize("together", [2, 3, 5])
@pytest.mark.parametrize("case", CASES)
def test_models_evaluated_together_as_on_a_gpu(case, together, monkeypatch):
    task, w, [[(x, y)]] = make(case, [[11]])
    x[3] = float("nan")
    rows = torch.stack([w + k / 10 for k in range(5)])
    model, targets = models.create(**CASES[case]), torch.randn(11, CASES[case]["n_classes"])
    own = Task(model, lambda outputs, y: F.cross_entropy(outputs, y, reduction="none"))
    weights = np.arange(11.0) * (np.arange(11) != 3)
    calls = [(task, y, None), (task, y, weights), (own, y, weights)]
    calls += [(Task(model, "mse"), targets, v) for v in (None, weights)]
    alone = [evaluate(t, rows, x, y, weights=v, batch_size=4) for t, y, v in calls]
    monkeypatch.setattr(evaluation, "models_together", lambda *_: together)
    for (t, y, v), want in zip(calls, alone, strict=True):
        got = evaluate(t, rows, x, y, weights=v, batch_size=4)
        np.testing.assert_allclose(got.loss, want.loss, rtol=1e-5)
        np.testing.assert_array_equal(got.accuracy, want.accuracy)
        assert np.isfinite(got.loss).all() == (v is not None)


def test_evaluate_weights_by_hand():
    # one bias-only weight v = 1 and targets 1, 2, 4: losses 0, 1, 9; weights 3, 1, 0: (0 * 3 + 1)
    # / 4
    regression = Task(models.create("linear", input_shape=(1,), n_classes=1), "mse")
    x, y, v = np.zeros((3, 1)), np.array([[1.0], [2.0], [4.0]]), np.array([0.0, 1.0])
    assert evaluate(regression, v, x, y, weights=[3, 1, 0]).loss == 0.25
    large = [1.5e308, 5e307, 0]  # their sum would overflow
    assert evaluate(regression, v, x, y, weights=large).loss == pytest.approx(0.25)
    # logits (0, x): a sample of x > 0 is called 1. Three samples 1, 2, -3 with labels 1, 0, 0:
    # right, wrong, right.
    task, w = (
        Task(models.create("linear", input_shape=(1,), n_classes=2)),
        np.array([0.0, 1.0, 0.0, 0.0]),
    )
    x, y = torch.tensor([[1.0], [2.0], [-3.0]]), torch.tensor([1, 0, 0])
    got = evaluate(task, w, x, y, weights=torch.tensor([0.2, 0.5, 0.3]))
    assert got.accuracy == pytest.approx(0.5)
    hand = 0.2 * np.log1p(np.exp(-1)) + 0.5 * np.log1p(np.exp(2)) + 0.3 * np.log1p(np.exp(-3))
    assert got.loss == pytest.approx(hand, abs=1e-6)


def test_an_output_that_is_no_number_names_no_label():
    """Of inputs 1 and NaN the second has no largest logit; a bias that is infinite has no model."""
    task = Task(models.create("linear", input_shape=(1,), n_classes=2))
    x, y = torch.tensor([[1.0], [float("nan")]]), torch.tensor([1, 0])
    found = evaluate(task, np.array([0.0, 1.0, 0.0, 0.0]), x, y)
    assert np.isnan(found.loss) and np.isnan(found.accuracy)
    infinite = evaluate(task, np.array([0.0, 1.0, 0.0, np.inf]), x[:1], y[:1])
    assert np.isnan(infinite.accuracy)


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
    assert np.isfinite(evaluate(task, rows, x, y, weights=only).loss).all()
    assert np.isnan(evaluate(task, rows, x, y).loss).all()
