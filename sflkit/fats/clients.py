"""The data of the clients that a state learns from: copied, checked, and known again.

A state is trained on copies, so that what becomes of the caller's arrays meanwhile changes nothing,
and it remembers a digest of each sample that is not forgotten, in order: other data, or the same in
another order, are refused later. What is forgotten may be anything.

=======  ==========  ==============================================================================
code     shape       meaning
=======  ==========  ==============================================================================
clients  M pairs     (x, y) of each client, tensors or arrays; anything for one that is forgotten
x, y     (sum N, .)  their samples, the clients one after another, zeros for what is forgotten
known    (sum N_k,)  digest of each sample, 0 for a forgotten one
=======  ==========  ==============================================================================
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from sflkit import machine
from sflkit.fats.history import History
from sflkit.federated import Task
from sflkit.federated.arrays import tensor_of
from sflkit.federated.batches import samples


def table(task: Task, clients: Iterable, history: History) -> tuple[Tensor, Tensor]:
    """Return copies of all samples, (x, y) in the task's types on the device that trains.

    Raises
    ------
    ValueError
        If there are not as many clients or samples as the history says, they do not fit the task or
        one another, or one that is left is not finite.
    """
    if not isinstance(clients, Iterable):
        raise ValueError(f"clients={clients!r} must be a list of (x, y)")
    clients = list(clients)
    if len(clients) != history.n_clients:
        raise ValueError(
            f"clients has {len(clients)} entries; the history has {history.n_clients} clients"
        )
    parts = [
        _copied(task, k, own, history) if len(history.remaining(k)) else None
        for k, own in enumerate(clients)
    ]
    first = next(part for part in parts if part is not None)
    for k, (part, n) in enumerate(zip(parts, history.samples_per_client)):
        if part is None:
            parts[k] = tuple(v.new_zeros(int(n), *v.shape[1:]) for v in first)
        elif [(v.shape[1:], v.dtype) for v in part] != [(v.shape[1:], v.dtype) for v in first]:
            raise ValueError(f"clients[{k}] has samples of another shape or type than the others")
    x, y = map(torch.cat, zip(*parts))
    return x, y


def identified(data: tuple[Tensor, Tensor], history: History, known: Any = None) -> np.ndarray:
    """Return the digest of each sample, uint64 (sum N_k,).

    Raises
    ------
    ValueError
        If a sample that is left has another one than `known` says.
    """
    rows = []
    for values in data:
        values = values.float() if values.is_floating_point() else values.long()
        rows.append(values.reshape(len(values), -1).cpu().contiguous().numpy())
    # the first 8 bytes of each sample's sha256
    found = (hashlib.sha256(a.tobytes() + b.tobytes()).digest()[:8] for a, b in zip(*rows))
    marks = np.frombuffer(b"".join(found), dtype="<u8").astype(np.uint64)
    other = np.flatnonzero(history.kept & (marks != known)) if known is not None else ()
    if len(other):
        k = int(np.searchsorted(history.offsets, other[0], side="right")) - 1
        raise ValueError(
            f"clients[{k}] is not what the state was trained on: sample "
            f"{other[0] - history.offsets[k]} is another one; give the same clients in the same "
            "order, with what is forgotten in its place"
        )
    return np.where(history.kept, marks, np.uint64(0))


def _copied(task: Task, k: int, own: Any, history: History) -> tuple[Tensor, Tensor]:
    """Return the data of client k as tensors, zeros for what is forgotten."""
    size, device, left = int(history.samples_per_client[k]), machine.device(), history.remaining(k)
    try:
        if not isinstance(own, (tuple, list)):
            raise TypeError
        x, y = (tensor_of(values, device).detach().clone() for values in own)
    except (TypeError, ValueError, RuntimeError):
        x = y = torch.empty(())
    if {x.shape[:1], y.shape[:1]} != {(size,)}:
        raise ValueError(
            f"clients[{k}] must be (x, y) with samples_per_client={size} samples each, forgotten "
            "ones included and none masked"
        )
    gone = np.setdiff1d(np.arange(size), left)
    x[gone], y[gone] = 0, 0
    if x.is_floating_point() and not torch.isfinite(x.sum()):
        finite = torch.isfinite(x).reshape(size, -1).all(1).cpu().numpy()
        if not finite.all():
            raise ValueError(
                f"clients[{k}]: x holds NaN or infinity in sample {finite.argmin()}; samples must "
                "be finite"
            )
    batch = samples(task, f"clients[{k}]", (x, y), device)
    return batch.x, batch.y
