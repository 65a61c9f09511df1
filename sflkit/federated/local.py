"""Local training of many clients from flat parameter vectors.

    batches = [[(x0, y0)] * 2, [(x1, y1)] * 2]     # two clients, two full-batch steps each
    updates = local_sgd(task, w, batches, rate=0.1, updates=True)     # (2, P)
    w = w + updates.mean(0)                                           # FedAvg

    rows = [[[0, 1, 2]] * 2, [[3, 4, -1]] * 2]     # the same as rows of a table, C x S x n
    local_sgd(task, w, rate=0.1, data=(x, y), rows=rows, updates=True)

Source: SFL, Section IV, (3): local steps are plain SGD, w <- w - eta_L g. There are two back ends,
which give the same answers to rounding: `sflkit.federated.workers` trains clients side by side in
worker threads, `sflkit.federated.stacked` trains many clients in one computation.

| code        | symbol | shape          | meaning                                               |
|-------------|--------|----------------|-------------------------------------------------------|
| params      | w      | (P,) or (C, P) | flat parameters, in the order of `model.parameters()` |
| batches     | L_t^k  | C lists        | each client's local steps, (x, y) or (x, y, weights)  |
| rows        | L_t^k  | (C, S, n)      | the same as rows of a table `data`; -1: no sample     |
| rate        | eta_L  | () or (C,)     | local learning rate                                   |
| prox        | mu     | ()             | FedProx: adds mu (w - w_start) to every gradient      |
| corrections |        | (P,) or (C, P) | added to every gradient, as SCAFFOLD's c - c_k        |
"""

from __future__ import annotations

import gc
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from sflkit import checks, machine
from sflkit.federated import stacked, workers
from sflkit.federated.arrays import is_plain
from sflkit.federated.batches import Lists, Rows, Training
from sflkit.federated.task import Task

BACKENDS = ("auto", "pool", "stacked")
# Up to these sizes torch's bookkeeping outweighs the arithmetic, and one stacked computation beats
# the workers. Measured for dense models with 10 and 50 clients on 2 cores of a busy machine (best
# time of the pool over that of stacked): 25 450 parameters with batches of 40: 2.5; 50 890 with
# 20: 2.2 and 1.4; 101 770 with 10: 0.5 and 1.5; 7 850 with 150: 1.0 and 0.8; 210 with 2000: 0.6.
STACK_PARAMS = 50_000
STACK_BATCH = 100


def local_sgd(
    task: Task,
    params: Any,
    batches: Sequence[Sequence[tuple]] | None = None,
    rate: Any = None,
    *,
    data: Any = None,
    rows: Any = None,
    weights: Any = None,
    backend: str = "auto",
    device: str = "auto",
    threads: int | None = None,
    prox: float = 0.0,
    corrections: Any = None,
    updates: bool = False,
    out: Tensor | None = None,
) -> Tensor:
    """Train every client by plain SGD and return its new parameters, or what changed.

    Parameters
    ----------
    task : Task
        The model and the loss.
    params : tensor or array (P,) or (C, P)
        The start of all clients, or one row a client; finite.
    batches : list of C lists, optional
        For each client the list of its local steps, each (x, y) or (x, y, weights) with x (n,
        ...), y (n, ...) and weights (n,) >= 0. A step follows the gradient of the (weighted) mean
        loss of its batch. Lists may differ in length, and an empty one leaves the client's
        parameters as they are. For full-batch steps repeat the same tuple: nothing is copied.
        Tensors are used as they are, arrays are converted. NaN in the inputs is not looked for,
        in either form, see `batches.read`.
    rate : float or array (C,)
        The learning rate, > 0, of all clients or of each.
    data, rows, weights : optional, in place of `batches`
        A table of samples (x, y), best kept as tensors on the device that trains; for each local
        step the rows that it takes, int (C, S, n), with -1 for no sample; and their weights >= 0,
        shaped like the rows. A weight of 0 is no sample, a step without samples no step, and a
        client without steps keeps its parameters. See `batches.Rows`.
    backend : {"auto", "pool", "stacked"}
        "auto" stacks clients on a GPU, and on a CPU where there are no convolutions, at most
        `STACK_PARAMS` parameters and at most `STACK_BATCH` samples a step. It takes the pool for
        everything else, and for models that cannot be stacked (`Task.stackable`).
    device : {"auto", "cpu", "cuda"}
        "auto" is a GPU where there is one. Data that already lie there are not moved.
    threads : int, optional
        Upper bound on CPU threads, see `sflkit.machine.thread_count`.
    prox : float
        FedProx's mu >= 0; adds mu (w - w_start) to each gradient.
    corrections : tensor or array (P,) or (C, P), optional
        What is added to each gradient of all clients, or of each.
    updates : bool
        Whether to return new parameters minus `params`, which is what server rules take. This is
        cheaper than to subtract afterwards and gives the same bits.
    out : Tensor (C, P), optional
        A contiguous tensor of the task's type to fill and return; it must not overlap `params`. On
        a CPU the first write to fresh memory costs as much as training a large layer, which
        callers that train many rounds can save.

    Returns
    -------
    Tensor (C, P)
        On the device of `params`. The same inputs, device and thread count give the same bits.

    Raises
    ------
    ValueError
        If a shape, row, label, weight, rate or parameter does not fit, or "stacked" is asked for
        and the model or the data cannot be stacked. Where one client is at fault, the message names
        it.
    """
    where = machine.device(device)
    data = _local_steps(task, batches, data, rows, weights, where)
    n = len(data.sizes)
    start = _vectors(task, "params", params, n)
    if corrections is not None:
        corrections = _vectors(task, "corrections", corrections, n).to(where).expand(n, -1)
    back_end = choose_back_end(task, backend, where, data)
    result = _result(task, out, n, where)
    work = Training(
        task=task,
        start=start.to(where).expand(n, -1),
        data=data,
        rates=_rates(rate, n, torch.finfo(task.dtype).max),
        prox=checks.real("prox", prox, 0.0, torch.finfo(task.dtype).max),
        corrections=corrections,
        updates=checks.flag("updates", updates),
        out=result,
        threads=machine.thread_count(threads),
    )
    (stacked if back_end == "stacked" else workers).train(work)
    if out is None:
        return result.to(start.device)
    return out if out is result else out.copy_(result)


def _local_steps(
    task: Task, batches: Any, data: Any, rows: Any, weights: Any, device: torch.device
) -> Lists | Rows:
    """Return the clients' local steps, which are given in one of two forms."""
    if batches is None and rows is not None:
        return Rows(task, data, rows, weights, device)
    if not (data is None and rows is None and weights is None):
        raise ValueError("give either batches, or data=(x, y) and rows; weights go with rows")
    if not isinstance(batches, Sequence) or isinstance(batches, (str, bytes)):
        kind = type(batches).__name__
        raise ValueError(f"batches={kind} must be a list with one list of (x, y) per client")
    # Python's garbage collector would look at all batches again and again as their number grows,
    # and none of them is garbage: with 10,000 clients that took half of a round.
    was_on = gc.isenabled()
    gc.disable()
    try:
        return Lists(task, batches, device)
    finally:
        if was_on:
            gc.enable()


def _vectors(task: Task, name: str, value: Any, n_clients: int) -> Tensor:
    """Return `value` as (P,) or (C, P), checked."""
    shape = (task.n_params,)
    return checks.shape(name, task.vectors(name, value), shape, (n_clients, *shape))


def _rates(rate: Any, n_clients: int, high: float) -> np.ndarray:
    """Return the rate of each client; beyond `high` the task's numbers are infinite."""
    if isinstance(rate, (bool, np.bool_)):  # which an array of numbers would take for 1
        checks.real("rate", rate, above=0.0)
    rates = checks.array("rate", rate, above=0.0, high=high)
    if rates.ndim == 0:
        return np.full(n_clients, rates)
    return checks.shape("rate", rates, (), (n_clients,))


def _result(task: Task, out: Tensor | None, n_clients: int, device: torch.device) -> Tensor:
    """Return the tensor that the back end fills: `out` itself where it lies on `device`."""
    shape = (n_clients, task.n_params)
    if out is None:
        return torch.empty(shape, dtype=task.dtype, device=device)
    fits = isinstance(out, Tensor) and is_plain(out) and out.shape == shape
    if not fits or out.dtype != task.dtype or not out.is_contiguous():
        kind = str(task.dtype).removeprefix("torch.")
        raise ValueError(f"out must be a contiguous {kind} tensor of shape {shape}")
    return out if out.device.type == device.type else torch.empty_like(out, device=device)


def choose_back_end(task: Task, backend: str, device: torch.device, data: Lists | Rows) -> str:
    """Return "pool" or "stacked", whichever the caller wants or is faster."""
    checks.choice("backend", backend, BACKENDS)
    if backend == "pool" or (backend == "auto" and not _worth_stacking(task, device, data)):
        return "pool"
    if len(data.examples) > 1:
        problem = "cannot train on samples or targets of several shapes or types together"
    elif all(task.stackable(x) for x in data.examples):
        return "stacked"
    else:
        problem = (
            "cannot train this model, which torch.func.vmap does not take (recurrent layers, "
            "decisions by values, changes in place)"
        )
    if backend == "stacked":
        raise ValueError(f"backend='stacked' {problem}; use 'pool' or 'auto'")
    return "pool"


def _worth_stacking(task: Task, device: torch.device, data: Lists | Rows) -> bool:
    if len(data.sizes) < 2 or device.type != "cpu":
        return len(data.sizes) >= 2
    small = task.n_params <= STACK_PARAMS and not task.convolutional
    return small and data.sizes[:, :1].max(initial=0) <= STACK_BATCH
