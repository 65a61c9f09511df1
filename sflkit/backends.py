"""The two ways to train many clients that `engine.local_sgd` chooses from; both fill `out` (C, P) in place.

`pool`: one client a worker thread, one intra-op thread a worker. Threads that share one small tensor are slower and less
steady than independent workers. Inside a worker convolution weights lie in channels_last order; rows of `out` do not.
`stacked`: one computation over all clients, torch.func.vmap of the gradient; for tiny models, where the time goes into
overhead, and for GPUs. On CPUs it is two to three times slower than the pool for convolutions.
"""

from __future__ import annotations

import os
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import numpy as np
import torch
from torch import Tensor

from sflkit.batches import Batch
from sflkit.fused import Unfusable, stepping
from sflkit.replicas import Replica, borrow

_NUMBERS = 2**23  # float32 numbers (parameters, inputs, outputs of layers) that one stacked computation on a CPU may hold
# The same on a GPU: one for so many bytes of its memory. Gradients and what autograd keeps come on top, some three times as much.
_BYTES_A_NUMBER = 32
# Multiply-adds of a stacked step up to which it gets one thread: on a busy machine two took 38 ms where one took 3 (50 clients,
# 42 parameters). Where exactly threads begin to pay was not measured.
_ONE_THREAD_BELOW = 2**26
_TRACE_AFTER = 60  # recording a step (40-60 ms) takes as long as some 60 unrecorded ones
_MAX_TRACES = 32

_executors: dict[int, ThreadPoolExecutor] = {}
_lock = threading.Lock()
_worker = threading.local()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_executors.clear)  # a forked child has none of its parent's threads


def pool(task, start: Tensor, steps: list[list[Batch]], rates, prox: float, corrections, updates: bool, out: Tensor,
         threads: int) -> None:
    """Train the clients one by one, on a CPU in parallel workers."""

    def train(k: int) -> bool:
        """Train a client; False if the model turns out not to be fusable."""
        with borrow(task, out.device) as replica:
            replica.load(start[k])
            extra = None if corrections is None else replica.views(corrections[k])
            try:
                _sgd(task, replica, steps[k], float(rates[k]), prox, extra)
            except RuntimeError as error:
                if not replica.dense or not (isinstance(error, Unfusable) or "modified by an inplace operation" in str(error)):
                    raise
                return False
            replica.store(out[k], start[k] if updates else None)
            return True

    busy = [k for k, client in enumerate(steps) if client]
    with torch.no_grad():
        for k in set(range(len(steps))) - set(busy):
            out[k] = 0 if updates else start[k]
    busy.sort(key=lambda k: -sum(b.n for b in steps[k]))  # longest first, so that the workers end together
    if not all(_map(train, busy, threads, out.device)):
        # It uses a weight twice. All clients are trained anew: who found out must not show in the result.
        task.fusable = False
        task._replicas.pop(out.device.type, None)  # another thread may have found out, too
        _map(train, busy, threads, out.device)


def _sgd(task, replica: Replica, steps: list[Batch], rate: float, prox: float, corrections: list[Tensor] | None) -> None:
    params = replica.params
    drift = None  # the part of the update that stays the same in every step: rate (mu w_start - correction)
    if prox or corrections is not None:
        with torch.no_grad():
            drift = [p * (rate * prox) for p in params]
            for d, c in zip(drift, corrections or (), strict=corrections is not None):
                d.sub_(c, alpha=rate)
    replica.order(pool_first=True)
    converted: tuple = (None, None)
    with stepping(replica.dense if drift is None else [], rate) as arm:
        for x, y, w, _ in steps:
            if converted[0] is not x:
                converted = (x, _channels_last(x))
            arm(False)
            loss = task.mean_loss(replica.module(converted[1]), y, w)
            arm(True)
            # autograd.grad hands the gradients over; backward() would zero, add and read them once more.
            grads = torch.autograd.grad(loss, params, allow_unused=True)
            with torch.no_grad():
                if drift is not None:
                    for p, d in zip(params, drift, strict=True):
                        p.mul_(1 - rate * prox).add_(d)
                for p, g in zip(params, grads, strict=True):
                    if g is not None:  # unused, or it has taken its step
                        p.sub_(g, alpha=rate)


def stacked(task, start: Tensor, steps: list[list[Batch]], rates, prox: float, corrections, updates: bool, out: Tensor,
            threads: int) -> None:
    """Train all clients at once, in chunks that fit the memory bound; longest lists first, so that the active stay a prefix."""
    order = sorted(range(len(steps)), key=lambda k: -len(steps[k]))
    largest = max((b for client in steps for b in client), key=lambda b: b.n, default=None)
    if largest is None:
        out.zero_() if updates else out.copy_(start)
        return
    size = _at_once(task, largest, largest.n)
    if task.n_params * largest.n * min(size, len(steps)) < _ONE_THREAD_BELOW:
        threads = 1
    with _settings(out.device, threads), torch.no_grad():
        for first in range(0, len(order), size):
            chunk = order[first:first + size]
            index = torch.tensor(chunk, device=out.device)
            rate = torch.tensor(rates[chunk], dtype=torch.float32, device=out.device)[:, None]
            extra = None if corrections is None else corrections[index]
            new = _stacked_sgd(task, start[index], [steps[k] for k in chunk], rate, prox, extra)
            out[index] = new.sub_(start[index]) if updates else new


def _at_once(task, data: Batch, n: int) -> int:
    """Return for how many models one stacked computation on `n` samples like those of `data` has the memory."""
    numbers = _NUMBERS
    if data.x.device.type != "cpu":
        numbers = torch.cuda.get_device_properties(data.x.device).total_memory // _BYTES_A_NUMBER
    sample = data.x.shape[1:]
    return max(1, numbers // (task.n_params + n * (sample.numel() + task._forwards[sample, data.x.dtype].numbers)))


def _stacked_sgd(task, w: Tensor, steps: list[list[Batch]], rates: Tensor, prox: float, corrections) -> Tensor:
    drift = None
    if prox or corrections is not None:
        drift = rates * (prox * w - (0 if corrections is None else corrections))
    lengths = [len(client) for client in steps]
    previous, data = None, None
    for s in range(lengths[0]):
        active = sum(length > s for length in lengths)
        current = [client[s] for client in steps[:active]]
        if previous is None or len(current) != len(previous) or any(a is not b for a, b in zip(current, previous, strict=True)):
            previous, data = current, _stack(current)
        gradient = _stacked_gradient(task, w[:active], *data)
        if drift is not None:
            w[:active].mul_(1 - rates[:active] * prox).add_(drift[:active])
        w[:active].addcmul_(gradient, rates[:active], value=-1)
    return w


def _stack(batches: list[Batch]) -> tuple[Tensor, Tensor, Tensor]:
    """Return inputs (C, n, ...), targets and weights (C, n) that sum to 1; shorter batches are padded with zeros of weight 0."""
    n = max(b.n for b in batches)
    if all(b.n == n and b.w is None for b in batches):
        weights = batches[0].x.new_full((len(batches), n), 1 / n, dtype=torch.float32)
        return torch.stack([b.x for b in batches]), torch.stack([b.y for b in batches]), weights
    weights = torch.stack([_pad(b.x.new_ones(b.n, dtype=torch.float32) if b.w is None else b.w, n) for b in batches])
    weights /= weights.sum(1, keepdim=True)
    return torch.stack([_pad(b.x, n) for b in batches]), torch.stack([_pad(b.y, n) for b in batches]), weights


def _pad(v: Tensor, n: int) -> Tensor:
    return v if len(v) == n else torch.cat([v, v.new_zeros(n - len(v), *v.shape[1:])])


def _stacked_gradient(task, w: Tensor, x: Tensor, y: Tensor, weights: Tensor) -> Tensor:
    """Return the gradients (C, P). A step seen often is recorded once as a plain list of tensor operations, which runs without
    vmap's and autograd's bookkeeping: half the time of a tiny model's step, with the same bits."""
    key = (w.shape, x.shape, x.dtype, y.shape, y.dtype, w.device)
    step = task._traces.get(key, 0)
    if callable(step):
        return step(w, x, y, weights)
    with borrow(task, w.device) as replica, torch.enable_grad():
        def loss(flat, x, y, weights):
            return (task.sample_losses(_call(task, replica, flat, x), y) * weights).sum()

        gradient = torch.func.vmap(torch.func.grad(loss))
        if len(task._traces) >= _MAX_TRACES:
            task._traces.clear()
        task._traces[key] = step + 1 if step < _TRACE_AFTER else _record(gradient, w, x, y, weights)
        return gradient(w, x, y, weights)


def _call(task, replica: Replica, flat: Tensor, x: Tensor) -> Tensor:
    """Return the model's outputs with the parameters `flat` (P,), in a way that torch.func can transform."""
    params = {name: v.view(s) for name, v, s in zip(task.names, flat.split(task.sizes), task.shapes, strict=True)}
    return torch.func.functional_call(replica.module, params, (x,))


def _record(function, *args):
    from torch.fx.experimental.proxy_tensor import make_fx  # loads slowly, and only long runs of tiny models need it

    with _lock:
        graph = make_fx(function)(*args)
    aten = torch.ops.aten
    for node in graph.graph.nodes:  # vmap's rules leave many views that change nothing
        if node.target in (aten.view.default, aten._unsafe_view.default, aten.expand.default):
            source = node.args[0]
            if "val" in source.meta and source.meta["val"].shape == node.meta["val"].shape:
                node.replace_all_uses_with(source)
    graph.graph.eliminate_dead_code()
    graph.recompile()
    return graph


def evaluate(task, rows: Tensor, data: Batch, batch_size: int, threads: int,
             weights: Tensor | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Return mean losses (C,) and shares of correct predictions (C,) of the models in `rows` (C, P); weights (n,) float64.

    On a GPU many models go through one batch of samples at once, on a CPU one after another in parallel workers.
    """
    together = min(len(rows), _evaluated_at_once(task, data, min(data.n, batch_size)))
    try:
        return _evaluate(task, rows, data, batch_size, threads, weights, together)
    except RuntimeError as error:
        if together == 1 or isinstance(error, torch.OutOfMemoryError):
            raise
        task.stackable = False
        return _evaluate(task, rows, data, batch_size, threads, weights, 1)


def _evaluated_at_once(task, data: Batch, n: int) -> int:
    return _at_once(task, data, n) if data.x.device.type != "cpu" and task.stackable else 1


def _evaluate(task, rows: Tensor, data: Batch, batch_size: int, threads: int, weights: Tensor | None,
              together: int) -> tuple[np.ndarray, np.ndarray]:
    n = data.n
    parts = [(k, i) for k in range(0, len(rows), together) for i in range(0, n, batch_size)]
    labelled = not data.y.is_floating_point() and task.loss != "mse"

    def total(values: Tensor, i: int) -> Tensor:
        if weights is not None:
            w = weights[i:i + batch_size]
            values = (values * w).masked_fill(w == 0, 0)  # 0 * inf would be NaN
        return values.sum(1)

    def forward(part: tuple[int, int]) -> tuple[Tensor, Tensor]:
        k, i = part
        models, x, y = rows[k:k + together], data.x[i:i + batch_size], data.y[i:i + batch_size]
        c, b = len(models), len(x)
        with borrow(task, rows.device) as replica, torch.inference_mode():
            replica.order(pool_first=False)
            if c == 1:
                replica.load(models[0])
                outputs = replica.module(_channels_last(x))
            else:
                outputs = torch.func.vmap(lambda row: _call(task, replica, row, x))(models).flatten(0, 1)
                y = y.repeat(c, *[1] * (y.ndim - 1))
            losses = task.sample_losses(outputs, y).double()
            hits = (outputs.argmax(1) == y).double().reshape(c * b, -1).mean(1) if labelled else torch.full_like(losses, np.nan)
            return total(losses.view(c, b), i), total(hits.view(c, b), i)

    totals = np.zeros((2, len(rows)))
    for (k, _), sums in zip(parts, _map(forward, parts, threads, rows.device), strict=True):
        for row, values in zip(totals, sums, strict=True):
            row[k:k + together] += values.cpu().numpy()
    return tuple(totals / (n if weights is None else float(weights.sum())))


def _map(function, items: list, threads: int, device: torch.device) -> list:
    """Return [function(i) for i in items], on a CPU in `threads` workers; with fewer items than threads each gets several."""
    if device.type != "cpu" or min(threads, len(items)) < 2:
        with _settings(device, threads):
            return [function(item) for item in items]
    intra_op = max(1, threads // len(items))

    def work(item):
        if getattr(_worker, "intra_op", None) != intra_op:
            torch.get_num_threads()  # a new thread takes torch's default at its first parallel operation: have that over with
            torch.set_num_threads(intra_op)
            _worker.intra_op = intra_op
        return function(item)

    with _lock:
        if threads not in _executors:
            _executors[threads] = ThreadPoolExecutor(threads, thread_name_prefix="sflkit")
    before = torch.get_num_threads()
    try:
        return list(_executors[threads].map(work, items))
    finally:
        torch.set_num_threads(before)  # the workers' number also became the default of threads not yet started


@contextmanager
def _settings(device: torch.device, threads: int):
    """Bound the calling thread's intra-op threads (CPU); exact and repeatable convolutions (GPU). Restored at the end."""
    if device.type != "cpu":
        with torch.backends.cudnn.flags(enabled=True, benchmark=False, deterministic=True, allow_tf32=False):
            yield
        return
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _channels_last(x: Tensor) -> Tensor:
    return x.contiguous(memory_format=torch.channels_last) if x.ndim == 4 and x.device.type == "cpu" else x
