"""Clients in parallel: a pool of threads, and torch's settings while they run.

Threads that share one small tensor are slower and less steady than threads that each have a client
of their own. So a pool of `threads` workers takes the clients one by one, and every worker gives
torch one thread for the inside of its operations ("intra-op").
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TypeVar

import torch

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
