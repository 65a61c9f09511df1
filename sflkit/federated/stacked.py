"""The back end "stacked": one computation trains many clients, whose parameters lie in (C, P).

The forward pass goes through `torch.func.vmap`, which turns an operation on one client's parameters
into one operation on all clients'. Clients do not see one another, so that the gradient of the sum
of their losses is, row by row, the gradient of each; one ordinary backward pass finds it. A local
step is one gather, that gradient and one update in place: the number of torch's operations does not
depend on the number of clients, as far as these fit one chunk of memory.

This is for tiny models, where torch's bookkeeping takes longer than the arithmetic, and for GPUs,
which one client does not fill. On CPUs it is two to three times slower than the pool for
convolutions.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from sflkit.federated import recording
from sflkit.federated.batches import Picks, Training
from sflkit.federated.replicas import Replica
from sflkit.federated.task import Task
from sflkit.federated.workers import torch_settings

# How many numbers (parameters, inputs, outputs of layers) one stacked computation on a CPU may
# hold.
CPU_NUMBERS = 2**23
# On a GPU it may hold one number for so many bytes of the memory that is free. A float32 number
# takes four, and gradients and what the backward pass needs come on top, in all some three times as
# much.
GPU_BYTES_A_NUMBER = 32
# Up to so many multiply-adds a stacked step gets one thread. On a busy machine two threads took 38
# ms where one took 3 (50 clients, 42 parameters); where exactly threads begin to pay was not
# measured.
ONE_THREAD_BELOW = 2**26
# A step is traced, and a round captured, once its shape came up so often: to note a step takes as
# long as some ten plain ones.
TRACED_AFTER = 20
CAPTURED_AFTER = 2


class Stack(NamedTuple):
    """All that the steps of one chunk of C clients read and write, on the device.

    Attributes
    ----------
    parts : tuple of Tensor (C, ...)
        The parameters, which the steps change; local rates, shaped (C, 1, ...) to go with each of
        them; and where there is a proximal term or a correction as many factors and drifts. The
        steps are then w <- shrink w + drift - rate g with shrink = 1 - rate prox, where the drift,
        rate (prox w_start - correction), stays.
    x, y, rows, weights : Tensor
        As in `Picks`.
    """

    parts: tuple[Tensor, ...]
    x: Tensor
    y: Tensor
    rows: Tensor
    weights: Tensor

    def shapes(self) -> tuple:
        """Return what a recording holds for: the table, and shapes and types of all else."""
        table = (self.x.data_ptr(), self.y.data_ptr())
        return table, _shapes((*self.parts, *self[1:]))


def train(work: Training) -> None:
    """Train the clients of `work` together and write the result to `work.out`.

    They go in chunks that fit the memory bound. Within a chunk those with the most steps come
    first, so that the clients that still train are always the first rows.
    """
    task, out = work.task, work.out
    if not work.data.sizes.any():
        out.zero_() if work.updates else out.copy_(work.start)
        return
    picks = work.data.picks()
    n = int(picks.places.max())
    order = np.argsort(-(picks.places > 0).sum(1), kind="stable")
    size = models_at_once(task, picks.x, n)
    tiny = task.n_params * n * min(size, len(order)) < ONE_THREAD_BELOW
    with (
        torch_settings(out.device, 1 if tiny else work.threads),
        task.replica(out.device) as replica,
        torch.no_grad(),
    ):
        for first in range(0, len(order), size):
            chunk = order[first : first + size]
            index = torch.from_numpy(chunk).to(out.device)
            try:
                params = _train_chunk(work, replica, picks, chunk, index)
            except torch.OutOfMemoryError as error:
                free = free_bytes(out.device)
                fit = free // (GPU_BYTES_A_NUMBER * numbers_of_one(task, picks.x, n))
                raise ValueError(
                    f"device: {len(chunk)} clients found no memory on the GPU, of which "
                    f"{free / 2**30:.1f} GiB are free, for some {fit} clients; give fewer in one "
                    "call, or device='cpu'"
                ) from error
            new = torch.cat([p.flatten(1) for p in params], 1)
            out[index] = new.sub_(work.start[index]) if work.updates else new


def models_at_once(task: Task, x: Tensor, n: int) -> int:
    """Return for how many models one computation on `n` samples like `x` has the memory."""
    numbers = CPU_NUMBERS
    if x.device.type != "cpu":
        numbers = free_bytes(x.device) // GPU_BYTES_A_NUMBER
    return max(1, numbers // numbers_of_one(task, x, n))


def numbers_of_one(task: Task, x: Tensor, n: int) -> int:
    """Return how many numbers one client takes: parameters, inputs and outputs of layers."""
    return task.n_params + n * (x[0].numel() + task.forward(x).numbers)


def free_bytes(device: torch.device) -> int:
    """Return the memory of a GPU that nobody uses, and what torch holds here without using it."""
    idle = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    return torch.cuda.mem_get_info(device)[0] + idle


def _train_chunk(
    work: Training, replica: Replica, picks: Picks, chunk: np.ndarray, index: Tensor
) -> Sequence[Tensor]:
    """Return the new parameters of the clients in `chunk`, each (C, ...)."""
    task, sizes = work.task, picks.places[chunk]
    params = [part.clone() for part in replica.views(work.start[index])]
    column = torch.tensor(work.rates[chunk], dtype=work.start.dtype, device=index.device)
    rates = [column.view(-1, *[1] * (p.ndim - 1)) for p in params]
    shrink, drift = [], []
    if work.prox or work.corrections is not None:
        shrink = [1 - rate * work.prox for rate in rates]
        drift = [rate * work.prox * p for p, rate in zip(params, rates, strict=True)]
    if work.corrections is not None:
        corrections = replica.views(work.corrections[index])
        for d, rate, correction in zip(drift, rates, corrections, strict=True):
            d.sub_(rate * correction)
    parts = (*params, *rates, *shrink, *drift)
    stack = Stack(parts, picks.x, picks.y, picks.rows[index], picks.weights[index])
    if work.data.resident and recording.captures(index.device):
        masked = bool((sizes == 0).any())
        key = (sizes.shape, masked, stack.shapes())
        made = lambda: _Round(task, replica, stack, sizes.shape[1], masked)  # noqa: E731
        program = task.programs.get(key, CAPTURED_AFTER, made)
        if program is not None:
            return program(stack)
    _steps(task, replica, stack, sizes)
    return params


def _shapes(tensors: Iterable[Tensor]) -> tuple:
    return tuple((t.shape, t.dtype) for t in tensors)


def _steps(
    task: Task, replica: Replica, stack: Stack, sizes: np.ndarray, masked: bool = False
) -> None:
    """Take all steps of a chunk.

    Clients that have no step left, and places in no use, are left out by `sizes` (C, S). Where
    shapes must not change, sizes are those of the arrays, and `masked` holds such clients still.
    """
    once = stack.rows.shape[1] == 1  # each client repeats one batch
    params, before = stack.parts[: len(task.shapes)], None
    for s, now in enumerate(sizes.T):
        active, n = int((now > 0).sum()), int(now.max())
        if not active:
            return
        if not once or before != (active, n):
            before = (active, n)
            place = 0 if once else s
            rows = stack.rows[:active, place, :n].flatten()
            x = stack.x.index_select(0, rows).unflatten(0, (active, n))
            y, weights = stack.y.index_select(0, rows), stack.weights[:active, place, :n]
            tensors = [*(part[:active] for part in stack.parts), x, y, weights.flatten()]
        kept = [p.clone() for p in params] if masked else ()
        _step(task, replica, tensors)
        for p, old in zip(params, kept, strict=True) if masked else ():
            idle = weights.sum(1) == 0
            p.copy_(torch.where(idle.view(-1, *[1] * (p.ndim - 1)), old, p))


def _step(task: Task, replica: Replica, tensors: list[Tensor]) -> None:
    """Take one step in place: on a CPU by a traced function, once the shape has come up often."""

    def step(*tensors: Tensor) -> None:
        *parts, x, y, weights = tensors
        n = len(task.shapes)
        params, rates, *drifting = (parts[i : i + n] for i in range(0, len(parts), n))
        gradients = _gradients(task, replica, params, x, y, weights)
        for p, shrink, drift in zip(params, *drifting, strict=True) if drifting else ():
            p.mul_(shrink).add_(drift)
        for p, rate, g in zip(params, rates, gradients, strict=True):
            p.addcmul_(g, rate, value=-1)

    program = None
    if tensors[0].device.type == "cpu" and isinstance(task.loss, str):  # others may change
        program = task.programs.get(
            _shapes(tensors),
            TRACED_AFTER,
            lambda: recording.traced(step, [t.clone() for t in tensors]),
        )
    (program or step)(*tensors)


def _gradients(
    task: Task, replica: Replica, params: list[Tensor], x: Tensor, y: Tensor, weights: Tensor
) -> tuple[Tensor, ...]:
    """Return the gradients of each client's loss at its parameters, shaped like `params`."""
    with torch.enable_grad():
        params = [p.detach().requires_grad_() for p in params]
        losses = task.sample_losses(replica.outputs(params, x), y)
        loss = losses.to(weights.dtype) @ weights
        return torch.autograd.grad(loss, params, allow_unused=True, materialize_grads=True)


class _Round:
    """All steps of one chunk on memory of its own, recorded and replayed; see `recording`.

    Parameters
    ----------
    task : Task
    replica : Replica
    stack : Stack
        Its table stays where it is; all else is copied, here and at each call.
    n_steps : int
    masked : bool
        Whether some clients sit out some steps.
    """

    def __init__(self, task: Task, replica: Replica, stack: Stack, n_steps: int, masked: bool):
        parts, x, y, rows, weights = stack
        own = Stack(tuple(t.clone() for t in parts), x, y, rows.clone(), weights.clone())
        sizes = np.full((len(rows), n_steps), rows.shape[2])
        self._own, self._params, self._lock = own, own.parts[: len(task.shapes)], threading.Lock()
        self._replay = recording.captured(lambda: _steps(task, replica, own, sizes, masked))

    def __call__(self, stack: Stack) -> tuple[Tensor, ...]:
        """Return the parameters after the steps of `stack`, of the shapes that were recorded."""
        own = self._own
        with self._lock:
            targets = (*own.parts, own.rows, own.weights)
            for target, value in zip(
                targets, (*stack.parts, stack.rows, stack.weights), strict=True
            ):
                target.copy_(value)
            self._replay()
            return tuple(p.clone() for p in self._params)
