"""The back end "stacked": one computation trains many clients, whose parameters lie in (C, P).

The forward pass goes through `torch.func.vmap`, which turns an operation on one client's parameters
into one operation on all clients'. Clients do not see one another, so that the gradient of the sum
of their losses is, row by row, the gradient of each; one ordinary backward pass finds it.

This is for tiny models, where torch's bookkeeping takes longer than the arithmetic, and for GPUs,
which one client does not fill. On CPUs it is two to three times slower than the pool for
convolutions.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from sflkit.federated.batches import Batch, Training
from sflkit.federated.replicas import Replica
from sflkit.federated.task import Task
from sflkit.federated.workers import torch_settings

# How many numbers (parameters, inputs, outputs of layers) one stacked computation on a CPU may
# hold.
CPU_NUMBERS = 2**23
# On a GPU it may hold one number for so many bytes of the memory. A float32 number takes four, and
# gradients and what the backward pass needs come on top, in all some three times as much.
GPU_BYTES_A_NUMBER = 32
# Up to so many multiply-adds a stacked step gets one thread. On a busy machine two threads took 38
# ms where one took 3 (50 clients, 42 parameters); where exactly threads begin to pay was not
# measured.
ONE_THREAD_BELOW = 2**26


class Stack(NamedTuple):
    """Batches of C clients in one: x (C, n, ...), y (C n, ...), and weights (C n,).

    The weights of each client sum to 1, so that the weighted sum of all losses is the sum of the
    clients' mean losses.
    """

    x: Tensor
    y: Tensor
    weights: Tensor


def train(work: Training) -> None:
    """Train the clients of `work` together and write the result to `work.out`.

    They go in chunks that fit the memory bound. Within a chunk those with the most steps come
    first, so that the clients that still train are always the first rows.
    """
    task, steps, out = work.task, work.steps, work.out
    order = sorted(range(len(steps)), key=lambda k: -len(steps[k]))
    largest = max((b for client in steps for b in client), key=lambda b: b.n, default=None)
    if largest is None:
        out.zero_() if work.updates else out.copy_(work.start)
        return
    size = models_at_once(task, largest.x, largest.n)
    tiny = task.n_params * largest.n * min(size, len(steps)) < ONE_THREAD_BELOW
    with (
        torch_settings(out.device, 1 if tiny else work.threads),
        task.replica(out.device) as replica,
    ):
        for first in range(0, len(order), size):
            chunk = order[first : first + size]
            new = _train_chunk(work, replica, chunk)
            index = torch.tensor(chunk, device=out.device)
            out[index] = new.sub_(work.start[index]) if work.updates else new


def models_at_once(task: Task, x: Tensor, n: int) -> int:
    """Return for how many models one computation on `n` samples like `x` has the memory."""
    numbers = CPU_NUMBERS
    if x.device.type != "cpu":
        memory = torch.cuda.get_device_properties(x.device).total_memory
        numbers = memory // GPU_BYTES_A_NUMBER
    one = task.n_params + n * (x[0].numel() + task.forward(x).numbers)
    return max(1, numbers // one)


def _train_chunk(work: Training, replica: Replica, clients: list[int]) -> Tensor:
    """Return the new parameters (C, P) of `clients`, ordered by falling number of steps."""
    steps = [work.steps[k] for k in clients]
    index = torch.tensor(clients, device=work.out.device)
    params = [part.clone() for part in replica.views(work.start[index])]
    column = torch.tensor(work.rates[clients], dtype=work.start.dtype, device=index.device)
    rates = [column.view(-1, *[1] * (p.ndim - 1)) for p in params]
    # The steps are w <- (1 - rate prox) w + drift - rate g, where the drift is the same in all
    # steps.
    drift = None
    if work.prox or work.corrections is not None:
        drift = [rate * work.prox * p for p, rate in zip(params, rates, strict=True)]
    if work.corrections is not None:
        corrections = replica.views(work.corrections[index])
        for d, rate, correction in zip(drift, rates, corrections, strict=True):
            d.sub_(rate * correction)
    batches: list[Batch] = []
    for s in range(len(steps[0])):
        current = [client[s] for client in steps if len(client) > s]
        n = len(current)
        if n != len(batches) or any(a is not b for a, b in zip(current, batches, strict=True)):
            batches, stack = current, _stack(current, work.task.dtype)
            active, rate = [p[:n] for p in params], [r[:n] for r in rates]
        gradients = _gradients(work.task, replica, active, stack)
        if drift is not None:
            for p, r, d in zip(active, rate, drift, strict=True):
                p.mul_(1 - r * work.prox).add_(d[:n])
        for p, r, g in zip(active, rate, gradients, strict=True):
            p.addcmul_(g, r, value=-1)
    return torch.cat([p.flatten(1) for p in params], 1)


def _gradients(
    task: Task, replica: Replica, params: list[Tensor], stack: Stack
) -> tuple[Tensor, ...]:
    """Return the gradients of each client's loss at its parameters, shaped like `params`."""
    with torch.enable_grad():
        params = [p.detach().requires_grad_() for p in params]
        losses = task.sample_losses(replica.outputs(params, stack.x), stack.y)
        loss = losses.to(stack.weights.dtype) @ stack.weights
        return torch.autograd.grad(loss, params, allow_unused=True, materialize_grads=True)


def _stack(batches: list[Batch], dtype: torch.dtype) -> Stack:
    """Stack batches; a shorter one is filled up with copies of its first sample of weight 0."""
    n = max(b.n for b in batches)
    x = torch.stack([_fill(b.x, n) for b in batches])
    y = torch.cat([_fill(b.y, n) for b in batches])
    if all(b.n == n and b.w is None for b in batches):
        return Stack(x, y, torch.full((len(y),), 1 / n, dtype=dtype, device=x.device))
    weights = torch.zeros(len(batches), n, dtype=dtype, device=x.device)
    for row, b in zip(weights, batches, strict=True):
        row[: b.n] = 1 if b.w is None else b.w
    return Stack(x, y, (weights / weights.sum(1, keepdim=True)).flatten())


def _fill(v: Tensor, n: int) -> Tensor:
    return v if len(v) == n else torch.cat([v, v[:1].expand(n - len(v), *v.shape[1:])])
