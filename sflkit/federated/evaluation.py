"""Loss and accuracy of one model, or of many models on the same data.

evaluate(task, w, x_test, y_test).accuracy
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from sflkit import checks, machine
from sflkit.federated.arrays import weights_of
from sflkit.federated.batches import Batch, samples
from sflkit.federated.stacked import models_at_once
from sflkit.federated.task import Task
from sflkit.federated.workers import for_each_client


class Evaluation(NamedTuple):
    """Mean loss and share of correct predictions: floats, or float64 arrays (C,) for C models.

    The accuracy is NaN where there are no classes: for "mse", and for a callable loss with targets
    that are no integers. It is NaN, too, for a model whose parameters or outputs are not: among
    outputs that are no numbers the "largest" would be the first, which names a class by accident.
    """

    loss: float | np.ndarray
    accuracy: float | np.ndarray


def evaluate(
    task: Task,
    params: Any,
    x: Any,
    y: Any,
    *,
    weights: Any = None,
    batch_size: int = 500,
    device: str = "auto",
    threads: int | None = None,
) -> Evaluation:
    """Return the mean loss and the accuracy on the samples (x, y).

    On a GPU many models go through a batch of samples at once. On a CPU they go one after another
    in parallel workers.

    Parameters
    ----------
    task : Task
        The model and the loss.
    params : tensor or array (P,) or (C, P)
        One model, or C models. They need not be finite: a model that diverged is measured, and
        has no accuracy.
    x, y : tensor or array (n, ...)
        Inputs and targets.
    weights : tensor or array (n,), optional
        Sample weights >= 0, not all 0, of any sum. Loss and accuracy become weighted means. A
        sample of weight 0 has no influence, even if its loss is not finite. None counts every
        sample once.
    batch_size : int
        Samples that go through a model at once. It changes memory and rounding, not the result.
    device : {"auto", "cpu", "cuda"}
        "auto" is a GPU where there is one.
    threads : int, optional
        Upper bound on CPU threads, see `sflkit.machine.thread_count`.

    Raises
    ------
    ValueError
        If a shape, label, weight, batch size or device does not fit.
    """
    flat = task.vectors("params", params, finite=False)
    batch_size = checks.integer("batch_size", batch_size, 1)
    where = machine.device(device)
    data = samples(task, "samples", (x, y), where)
    shares = _shares(weights, len(data.x)).to(where)
    rows = flat.to(where).reshape(-1, task.n_params)
    sums = _sums(task, rows, data, batch_size, machine.thread_count(threads), shares)
    loss, accuracy = sums / float(shares.sum())
    accuracy[~torch.isfinite(rows).all(1).cpu().numpy()] = np.nan
    if flat.ndim == 2:
        return Evaluation(loss, accuracy)
    return Evaluation(float(loss[0]), float(accuracy[0]))


def _shares(weights: Any, n: int) -> Tensor:
    """Return the weights (n,), float64, divided by the largest: the sum of some would overflow."""
    if weights is None:
        return torch.ones(n, dtype=torch.float64)
    weights = weights_of(weights, (n,), "samples")
    return torch.from_numpy(weights / weights.max())


def _sums(
    task: Task, rows: Tensor, data: Batch, batch_size: int, threads: int, shares: Tensor
) -> np.ndarray:
    """Return the weighted sums over samples of losses and of hits, float64 (2, C)."""
    n = len(data.x)
    together = min(len(rows), models_together(task, data.x, min(n, batch_size)))
    parts = [
        (slice(k, k + together), slice(i, i + batch_size))
        for k in range(0, len(rows), together)
        for i in range(0, n, batch_size)
    ]

    def measure(part: tuple[slice, slice]) -> np.ndarray:
        models, x, y, w = rows[part[0]], data.x[part[1]], data.y[part[1]], shares[part[1]]
        with task.replica(rows.device) as replica, torch.inference_mode():
            if len(models) > 1:
                outputs = replica.outputs(replica.views(models), x, shared=True)
            else:
                replica.load(models[0])
                outputs = replica.module(replica.inputs(x))
            y = y.repeat(len(models), *[1] * (y.ndim - 1))
            values = torch.stack(_losses_and_hits(task, outputs, y)).view(2, len(models), len(x))
            # 0 times infinity would be NaN
            return (values * w).masked_fill(w == 0, 0).sum(2).cpu().numpy()

    sums = np.zeros((2, len(rows)))
    measured = for_each_client(measure, parts, threads, rows.device)
    for (models, _), values in zip(parts, measured, strict=True):
        sums[:, models] += values
    return sums


def models_together(task: Task, x: Tensor, n: int) -> int:
    """Return how many models go through `n` samples like those of `x` in one computation."""
    return models_at_once(task, x, n) if x.device.type != "cpu" and task.stackable(x) else 1


def _losses_and_hits(task: Task, outputs: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """Return each sample's loss, and the share of its labels that the largest output names.

    The share is NaN where an output is: then no output is the largest.
    """
    losses = task.sample_losses(outputs, y).double()
    if task.loss == "mse" or y.is_floating_point():
        return losses, torch.full_like(losses, torch.nan)
    largest, guess = outputs.max(1)
    hits = (guess == y).double().masked_fill(largest.isnan(), torch.nan)
    return losses, hits.reshape(len(y), -1).mean(1)
