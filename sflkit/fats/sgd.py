"""The local steps of FATS and of federated averaging, in the readings that sources allow.

Source: FATS, Algorithm 1, line 16, whose step is that of `SGD()`. ERRATA 65: neither it nor the
settings of the authors' released repository, `SGD(momentum=0.9, weight_decay=1e-4)`, reach the
published curves at the printed rate; the sum of a mini-batch's gradients does.

============  ======  =======  ====================================================================
code          symbol  shape    meaning
============  ======  =======  ====================================================================
params        theta   (P,)     global model before the round
rate          eta     scalar   local learning rate
batches       B       C lists  each slot's mini-batches, (x, y) of b samples
momentum      -       scalar   of the velocity, in [0, 1)
weight_decay  -       scalar   adds weight_decay * theta to every gradient
============  ======  =======  ====================================================================
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated, Any

from sflkit import checks
from sflkit.config import NotNegative, Number, OneOf, settings
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


def local_steps(
    task: Task,
    params: Tensor,
    batches: Sequence,
    rate: float,
    sgd: SGD,
    *,
    threads: int | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """Train every client from `params` by the steps that `sgd` says, and return the models (C, P).

    Parameters
    ----------
    task, batches, threads, out
        As for `federated.local_sgd`; for a sum all mini-batches are of one size, without weights.
    params : tensor (P,)
        One start for all clients.
    rate : float
        > 0.
    sgd : SGD

    Raises
    ------
    ValueError
        As `federated.local_sgd`, or if mini-batches of several sizes are to be summed.
    """
    from sflkit import federated

    checks.instance("sgd", sgd, SGD)
    size = 1 if sgd.reduction == "mean" else _one_size(batches)
    if not (sgd.momentum or sgd.weight_decay):
        return federated.local_sgd(task, params, batches, rate * size, threads=threads, out=out)
    rate = checks.real("rate", rate, above=0)

    def train(replica: Replica, steps: list[Batch]) -> None:
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

    return train_each(task, params, batches, train, threads, out)


def train_each(
    task: Task,
    params: Tensor,
    batches: Sequence,
    train: Callable[[Replica, list[Batch]], Any],
    threads: int | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """Let `train` move a working copy of the model for each client, from `params` (P,) on.

    Returns the new models (C, P), in `out` if given.

    Raises
    ------
    ValueError
        If `params` is no finite tensor (P,), or `batches` do not fit the task.
    """
    import torch

    from sflkit.federated.batches import convert
    from sflkit.federated.workers import for_each_client

    if not isinstance(params, torch.Tensor):
        raise ValueError(f"params={checks.shown(params)} must be a tensor")
    if params.shape != (task.n_params,):
        raise ValueError(
            f"params has shape {tuple(params.shape)}; it must be a tensor of shape "
            f"({task.n_params},)"
        )
    task.vectors("params", params)  # finite and real
    checks.instance("batches", batches, Sequence)
    steps = convert(task, batches, params.device)
    models = torch.empty(len(steps), task.n_params, device=params.device) if out is None else out

    def one(k: int) -> None:
        with task.replica(params.device) as replica, torch.enable_grad():
            replica.load(params)
            train(replica, steps[k])
            replica.store(models[k])

    for_each_client(one, range(len(steps)), thread_count(threads), params.device)
    return models


def _one_size(batches: Sequence) -> int:
    """Return b, refused unless all mini-batches have it."""
    sizes = {len(batch[1]) for client in batches for batch in client}
    if len(sizes) > 1:
        raise ValueError(
            f"batches hold mini-batches of {min(sizes)} to {max(sizes)} samples; for "
            "reduction='sum' all must be of one size"
        )
    return sizes.pop() if sizes else 1
