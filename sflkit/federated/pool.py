"""The back end "pool": clients are trained one by one, on a CPU by several workers at a time.

This is the faster way for every model whose arithmetic takes longer than torch's bookkeeping.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import torch
from torch import Tensor

from sflkit.federated.batches import Batch
from sflkit.federated.picks import Training
from sflkit.federated.replicas import Replica
from sflkit.federated.task import Task
from sflkit.federated.workers import for_each_client


def train(work: Training) -> None:
    """Train the clients of `work` and write the result to `work.out`.

    Clients with the most samples come first, so that the workers end at about the same time. A
    client's result does not depend on which worker trains it, nor on the other clients.
    """
    task, start, out = work.task, work.start, work.out

    def train_client(k: int) -> None:
        with task.replica(out.device) as replica, torch.enable_grad():
            replica.load(start[k])
            corrections = None if work.corrections is None else replica.views(work.corrections[k])
            _sgd(task, replica, work.data.batches(k), float(work.rates[k]), work.prox, corrections)
            replica.store(out[k], start[k] if work.updates else None)

    samples = work.data.sizes().sum(1)
    with torch.no_grad():
        for k in np.flatnonzero(samples == 0).tolist():
            out[k] = 0 if work.updates else start[k]
    busy = [k for k in np.argsort(-samples, kind="stable").tolist() if samples[k]]
    for_each_client(train_client, busy, work.threads, out.device)


def _sgd(
    task: Task,
    replica: Replica,
    steps: Iterable[Batch],
    rate: float,
    prox: float,
    corrections: list[Tensor] | None,
) -> None:
    """Take the steps w <- w - rate (g + prox (w - w_start) + correction), starting at w_start."""
    params = replica.params
    # The steps are w <- (1 - rate prox) w + drift - rate g, where the drift is the same in all
    # steps.
    drift = None
    if prox or corrections is not None:
        with torch.no_grad():
            drift = [p * (rate * prox) for p in params]
            for d, c in zip(drift, corrections or (), strict=corrections is not None):
                d.sub_(c, alpha=rate)
    x = inputs = None
    for batch in steps:
        if batch.x is not x:  # full-batch steps repeat one batch, which is converted once
            x, inputs = batch.x, replica.inputs(batch.x)
        loss = task.mean_loss(replica.module(inputs), batch.y, batch.w)
        loss.backward()
        with torch.no_grad():
            if drift is not None:
                for p, d in zip(params, drift, strict=True):
                    p.mul_(1 - rate * prox).add_(d)
            for p in params:
                if p.grad is not None:  # None: the model did not use this parameter
                    p.sub_(p.grad, alpha=rate)
                # Gradients that live on until the next backward pass take fresh memory there, whose
                # first use costs a third of a step of a dense model with 1.8 million parameters.
                p.grad = None
