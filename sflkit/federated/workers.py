"""The back end "pool": clients one by one, by several threads at a time; and torch's settings.

This is the faster way for every model whose arithmetic takes longer than torch's bookkeeping.
Threads that share one small tensor are slower and less steady than threads that each have a client
of their own. So a pool of `threads` workers takes the clients one by one, and every worker gives
torch one thread for the inside of its operations ("intra-op").
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

import numpy as np
import torch

if TYPE_CHECKING:
    from sflkit.federated.batches import Batch, Training
    from sflkit.federated.replicas import Replica

Item = TypeVar("Item")
Result = TypeVar("Result")

_executors: dict[int, ThreadPoolExecutor] = {}
_lock = threading.Lock()
_worker = threading.local()
if hasattr(os, "register_at_fork"):
    # A forked child inherits this dictionary, but none of the threads in it.
    os.register_at_fork(after_in_child=_executors.clear)


def for_each_client(
    function: Callable[[Item], Result], items: Sequence[Item], threads: int, device: torch.device
) -> list[Result]:
    """Return [function(item) for item in items], on a CPU computed by `threads` workers.

    Parameters
    ----------
    function : callable
        It must be safe to run in several threads at once; its first error is raised here.
    items : sequence
        Usually clients. Workers take them in this order, so put the longest work first. Where there
        are fewer items than threads, each item gets several intra-op threads.
    threads : int
        Upper bound on all CPU threads together, >= 1.
    device : torch.device
        On a GPU the items are computed one after another in the calling thread.

    Returns
    -------
    list
        Results in the order of `items`. The caller's thread settings are what they were.
    """
    if device.type != "cpu" or min(threads, len(items)) < 2:
        with torch_settings(device, threads):
            return [function(item) for item in items]
    intra_op = max(1, threads // len(items))

    def work(item: Item) -> Result:
        if getattr(_worker, "intra_op", None) != intra_op:
            # A new thread takes torch's default at its first question or operation; asking first
            # keeps that from undoing the number set here.
            torch.get_num_threads()
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
        # What a worker sets is also the default of threads that start later.
        torch.set_num_threads(before)


@contextmanager
def torch_settings(device: torch.device, threads: int) -> Iterator[None]:
    """Set torch up for a computation on `device`, and set it back at the end.

    On a CPU the calling thread gets at most `threads` intra-op threads. On a GPU convolutions are
    computed in full float32 and in the same way each time, so that results repeat bit for bit.
    """
    if device.type != "cpu":
        flags = {"enabled": True, "benchmark": False, "deterministic": True, "allow_tf32": False}
        with torch.backends.cudnn.flags(**flags):
            yield
        return
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def train(work: Training) -> None:
    """Train the clients of `work` and write the result to `work.out`.

    Clients with the most samples come first, so that the workers end at about the same time. A
    client's result does not depend on which worker trains it, nor on the other clients.
    """
    start, out, samples = work.start, work.out, work.data.sizes.sum(1)

    def train_client(k: int) -> None:
        with work.task.replica(out.device) as replica, torch.enable_grad():
            replica.load(start[k])
            _sgd(work, k, replica, work.data.batches(k))
            replica.store(out[k], start[k] if work.updates else None)

    with torch.no_grad():
        for k in np.flatnonzero(samples == 0).tolist():
            out[k] = 0 if work.updates else start[k]
    busy = [k for k in np.argsort(-samples, kind="stable").tolist() if samples[k]]
    for_each_client(train_client, busy, work.threads, out.device)


def _sgd(work: Training, k: int, replica: Replica, steps: Iterable[Batch]) -> None:
    """Take client k's steps w <- w - rate (g + prox (w - w_start) + correction) from w_start."""
    params, rate, prox = replica.params, float(work.rates[k]), work.prox
    # The steps are w <- (1 - rate prox) w + drift - rate g, where the drift is the same in all
    # steps.
    drift = []
    with torch.no_grad():
        if prox or work.corrections is not None:
            drift = [p * (rate * prox) for p in params]
        if work.corrections is not None:
            for d, c in zip(drift, replica.views(work.corrections[k]), strict=True):
                d.sub_(c, alpha=rate)
    x = inputs = None
    for batch in steps:
        if batch.x is not x:  # full-batch steps repeat one batch, which is converted once
            x, inputs = batch.x, replica.inputs(batch.x)
        work.task.mean_loss(replica.module(inputs), batch.y, batch.w).backward()
        with torch.no_grad():
            for p, d in zip(params, drift, strict=True) if drift else ():
                p.mul_(1 - rate * prox).add_(d)
            for p in params:
                if p.grad is not None:  # None: the model did not use this parameter
                    p.sub_(p.grad, alpha=rate)
                # Gradients that live on until the next backward pass take fresh memory there, whose
                # first use costs a third of a step of a dense model with 1.8 million parameters.
                p.grad = None
