"""The server step by hand, its limiting cases, and bad input."""

import numpy as np
import pytest
import torch

from sflkit import models
from sflkit.engine import Task, local_sgd
from sflkit.servers import FedAvg, weighted_average


def test_fedavg_by_hand():
    # w = (1, 2); updates (2, 0), (0, 4): mean (1, 2); eta = 0.5: w + (0.5, 1) = (1.5, 3).
    # Weights (3, 1): mean (1.5, 1), w + (0.75, 0.5).
    w, updates = torch.tensor([1.0, 2.0]), torch.tensor([[2.0, 0.0], [0.0, 4.0]])
    assert torch.equal(FedAvg(0.5)(w, updates), torch.tensor([1.5, 3.0]))
    assert torch.equal(FedAvg(0.5)(w, updates, [3, 1]), torch.tensor([1.75, 2.5]))
    assert torch.equal(w, torch.tensor([1.0, 2.0]))
    np.testing.assert_array_equal(FedAvg(0.5)(w.numpy(), updates.numpy(), torch.tensor([3.0, 1.0])), [1.75, 2.5])


def test_global_rate_one_is_the_mean_of_the_local_models():
    g = torch.Generator().manual_seed(0)
    w, local = torch.randn(50, generator=g), torch.randn(4, 50, generator=g)
    torch.testing.assert_close(FedAvg()(w, local - w), local.mean(0))


def test_paper_step_with_the_missing_rate():
    # (5)-(6) as ERRATA 2 reads them: w + eta eta_L mean_k Delta_k with Delta_k = -sum of the E gradients. For l = (v - y)^2 with
    # one bias-only weight v (x = 0 kills the slope): gradient 2 (v - y). v = 0, eta_L = 0.1, E = 2, y = 1 and y = -3:
    # client 1: g = -2, v = 0.2, g = -1.6, Delta = 3.6; client 2: g = 6, v = -0.6, g = 4.8, Delta = -10.8; mean -3.6.
    # w + 0.5 * 0.1 * -3.6 = -0.18.
    task = Task(models.create("linear", input_shape=(1,), n_classes=1), "mse")
    w = torch.zeros(2)
    batches = [[(np.array([[0.0]]), np.array([[y]]))] * 2 for y in (1.0, -3.0)]
    new = FedAvg(0.5)(w, local_sgd(task, w, batches, 0.1) - w)
    torch.testing.assert_close(new, torch.tensor([0.0, -0.18]))


def test_weights():
    updates = torch.tensor([[1.0, 1.0], [float("nan"), 0.0], [3.0, 5.0]])
    assert torch.equal(weighted_average(updates, [1, 0, 1]), torch.tensor([2.0, 3.0]))  # weight 0: no influence, even as NaN
    g = torch.Generator().manual_seed(0)
    u = torch.randn(5, 7, generator=g)
    torch.testing.assert_close(weighted_average(u, np.full(5, 0.3)), weighted_average(u))
    torch.testing.assert_close(weighted_average(u, [2, 0, 0, 0, 0]), u[0])


@pytest.mark.parametrize(("updates", "weights", "message"), [
    (torch.zeros(3), None, r"updates has shape \(3,\)"),
    (torch.zeros(0, 3), None, "at least one client"),
    (torch.zeros(2, 3), [1.0], "one per row of updates"),
    (torch.zeros(2, 3), [0.0, 0.0], "not all 0"),
    (torch.zeros(2, 3), [1.0, -1.0], "weights holds -1.0"),
    (torch.zeros(2, 3), [1.0, float("nan")], "weights holds nan"),
])
def test_bad_input(updates, weights, message):
    with pytest.raises(ValueError, match=message):
        weighted_average(updates, weights)


def test_bad_rate_and_shape():
    for rate in (0, -1, float("inf"), float("nan")):
        with pytest.raises(ValueError, match=f"global_rate={rate}"):
            FedAvg(rate)
    with pytest.raises(ValueError, match=r"params has shape \(4,\)"):
        FedAvg()(torch.zeros(4), torch.zeros(2, 3))
