"""The local steps of a round: plain SGD in the readings that sources allow, and FR2's scaled ones.

Source: FATS, Algorithm 1, line 16, whose step is that of `SGD()`, and Section 6.1.4. ERRATA 65:
neither it nor the settings of the authors' released repository, `SGD(momentum=0.9,
weight_decay=1e-4)`, reach the published curves at the printed rate; the sum of a mini-batch's
gradients does.

============  ========  =========  ================================================================
code          symbol    shape      meaning
============  ========  =========  ================================================================
params        theta, w  (P,)       global model before the round
data                    (N, ...)   the samples of all clients, inputs and targets
rows          B         (K, E, b)  rows of them in each mini-batch of each slot; -1: no sample
rate          eta       scalar     local learning rate
momentum      beta_1    scalar     of the velocity, or of FR2's running mean m of the gradients
weight_decay            scalar     adds weight_decay * theta to every gradient
decay         beta_2    scalar     of FR2's running mean F of their squares (diagonal empirical
                                   Fisher), in [0, 1)
damping       lambda    scalar     added to F, > 0; squared loss per unit of parameter, as F
============  ========  =========  ================================================================
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np

from sflkit import checks
from sflkit.config import NotNegative, Number, OneOf, Positive, settings
from sflkit.machine import thread_count

if TYPE_CHECKING:
    from torch import Tensor

    from sflkit.federated import Task
    from sflkit.federated.batches import Batch
    from sflkit.federated.replicas import Replica

REDUCTIONS = ("mean", "sum")
Reduction = Annotated[str, OneOf(REDUCTIONS)]
Momentum = Annotated[float, Number(0, below=1)]


@settings
class SGD:
    """How a mini-batch moves a local model.

    Parameters
    ----------
    reduction : {"mean", "sum"}
        What is made of the gradients of a mini-batch's samples: their mean, as printed, or their
        sum. At a rate r the sum is the mean at the rate r b.
    momentum : float
        In [0, 1). Step s with the gradient g: v <- momentum v + g; theta <- theta - rate v. The
        velocity v is zero at the start of every round, for a client keeps nothing between rounds
        that could hold forgotten data.
    weight_decay : float
        >= 0, adds weight_decay * theta to g.

    Raises
    ------
    ValueError
        If a setting is out of range.
    """

    reduction: Reduction = "mean"
    momentum: Momentum = 0.0
    weight_decay: NotNegative = 0.0


@settings
class Fisher:
    """Settings of FR2's local steps; FATS states none of them.

    Parameters
    ----------
    rate : float
        eta > 0, of the scaled steps; not comparable with the rate of plain SGD.
    momentum, decay : float
        In [0, 1); 0.9 and 0.999 are the customary ones of Adam, after which the momentum technique
        is modelled.
    damping : float
        > 0. Where gradients are small against its root, a step is rate / damping (0.1 by default)
        times their mean.

    Raises
    ------
    ValueError
        If a setting is out of range.
    """

    rate: Positive = 0.001
    momentum: Momentum = 0.9
    decay: Momentum = 0.999
    damping: Positive = 0.01


def local_steps(
    task: Task, params: Tensor, data: tuple, rows: Any, rate: float, sgd: SGD
) -> Tensor:
    """Train every slot from `params` by the steps that `sgd` says, and return the models (K, P).

    Parameters
    ----------
    task, data, rows
        As for `federated.local_sgd`; for a sum all mini-batches are of one size.
    params : tensor (P,)
        One start for all slots.
    rate : float
        > 0.
    sgd : SGD

    Raises
    ------
    ValueError
        As `federated.local_sgd`, or if mini-batches of several sizes are to be summed.
    """
    from sflkit import federated

    size = 1 if checks.instance("sgd", sgd, SGD).reduction == "mean" else _one_size(rows)
    if not (sgd.momentum or sgd.weight_decay):
        return federated.local_sgd(task, params, None, rate * size, data=data, rows=rows)
    rate = checks.real("rate", rate, above=0)

    def train(replica: Replica, steps: Iterator[Batch]) -> None:
        import torch

        # The same steps as with summed gradients: v and weight_decay * theta are divided by size.
        optimiser = torch.optim.SGD(
            replica.params, rate * size, sgd.momentum, weight_decay=sgd.weight_decay / size
        )
        for batch in steps:
            loss = task.mean_loss(replica.module(replica.inputs(batch.x)), batch.y, batch.w)
            loss.backward()
            optimiser.step()
            optimiser.zero_grad()

    return _train_each(task, params, data, rows, train)


def fisher_sgd(task: Task, params: Tensor, data: tuple, rows: Any, fisher: Fisher) -> Tensor:
    """Train every slot from `params` by steps that the diagonal empirical Fisher scales.

    Source: FATS, Section 6.1.4, "a diagonal approximation of the Fisher Information Matrix ... and
    the momentum technique"; Liu et al. 2022, "The right to be forgotten in federated learning".
    Step s = 1..E with the mini-batch gradient g: m <- beta_1 m + (1 - beta_1) g; F <- beta_2 F +
    (1 - beta_2) g^2; w <- w - eta m' / (F' + lambda), where m' = m / (1 - beta_1^s) and F' = F / (1
    - beta_2^s). m and F start at zero in every round, since a client keeps nothing and sends only
    its model.

    ERRATA 47: the authors' released baseline uses AdaHessian, which scales by second derivatives;
    we follow the text. The squares are those of mini-batch gradients, about 1/b of the mean over
    single samples near a minimum.

    Parameters
    ----------
    task, params, data, rows
        As for `local_steps`.
    fisher : Fisher

    Returns
    -------
    tensor (K, P)

    Raises
    ------
    ValueError
        As `federated.local_sgd`.
    """
    checks.instance("fisher", fisher, Fisher)

    def train(replica: Replica, steps: Iterator[Batch]) -> None:
        import torch

        means = [torch.zeros_like(p) for p in replica.params]
        squares = [torch.zeros_like(p) for p in replica.params]
        for s, batch in enumerate(steps, start=1):
            loss = task.mean_loss(replica.module(batch.x), batch.y, batch.w)
            grads = torch.autograd.grad(
                loss, replica.params, allow_unused=True, materialize_grads=True
            )
            with torch.no_grad():
                for p, g, m, f in zip(replica.params, grads, means, squares, strict=True):
                    m.lerp_(g, 1 - fisher.momentum)
                    f.lerp_(g.square(), 1 - fisher.decay)
                    scale = (f / (1 - fisher.decay**s)).add_(fisher.damping)
                    p.addcdiv_(m, scale, value=-fisher.rate / (1 - fisher.momentum**s))

    return _train_each(task, params, data, rows, train)


def _train_each(
    task: Task,
    params: Tensor,
    data: tuple,
    rows: Any,
    train: Callable[[Replica, Iterator[Batch]], None],
) -> Tensor:
    """Let `train` move a working copy of the model for each slot; return the new models (K, P)."""
    import torch

    from sflkit.federated.batches import Rows
    from sflkit.federated.workers import for_each_client

    params = task.vectors("params", params)
    checks.shape("params", params, (task.n_params,))
    steps = Rows(task, data, rows, None, params.device)
    n_slots = len(steps.sizes)
    models = torch.empty(n_slots, task.n_params, dtype=params.dtype, device=params.device)

    def one(k: int) -> None:
        with task.replica(params.device) as replica, torch.enable_grad():
            replica.load(params)
            train(replica, steps.batches(k))
            replica.store(models[k])

    for_each_client(one, range(n_slots), thread_count(None), params.device)
    return models


def _one_size(rows: Any) -> int:
    """Return b, refused unless all mini-batches have it."""
    sizes = {n for n in (np.asarray(rows) >= 0).sum(-1).flat if n}
    if len(sizes) > 1:
        raise ValueError(
            f"rows hold mini-batches of {min(sizes)} to {max(sizes)} samples; for "
            "reduction='sum' all must be of one size"
        )
    return int(sizes.pop()) if sizes else 1
