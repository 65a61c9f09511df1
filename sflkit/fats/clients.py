"""The data of the clients that a state learns from: copied, checked, and known again.

A state is trained on copies, so that what becomes of the caller's arrays meanwhile changes nothing,
and it remembers a digest of each sample that is not forgotten, in order: other data, or the same in
another order, are refused later. What is forgotten may be anything.

=======  ==========  ==============================================================================
code     shape       meaning
=======  ==========  ==============================================================================
clients  M pairs     (x, y) of each client, tensors or arrays; None for one that is forgotten
known    (sum N_k,)  digest of each sample, the clients one after another, 0 for a forgotten one
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
from sflkit.federated.batches import convert

# The data of a client, or None for one that is forgotten.
Data = tuple[Tensor, Tensor] | None


def client_data(task: Task, clients: Iterable, history: History) -> list[Data]:
    """Return copies of the clients' data as tensors on the device that trains.

    All labels that are left, the shape of one sample per client, and whether the samples that are
    left are finite, are looked at.

    Raises
    ------
    ValueError
        If there are not as many clients or samples as the history says, they do not fit the task,
        or one that is left is not finite.
    """
    device = machine.device()
    if not isinstance(clients, Iterable):
        raise ValueError(f"clients={clients!r} must be a list of (x, y)")
    clients = list(clients)
    if len(clients) != history.n_clients:
        raise ValueError(
            f"clients has {len(clients)} entries; the history has {history.n_clients} clients"
        )
    data: list[Data] = []
    trials = []
    for k, (own, size) in enumerate(zip(clients, history.samples_per_client)):
        left = history.remaining(k)
        data.append(None if own is None and not len(left) else _copied(k, own, int(size), device))
        trials.append([_trial(*data[k], left)] if len(left) else [])
        if len(left):
            _check_finite(k, data[k][0], left)
    convert(task, trials, device)
    return data


def samples_left(history: History) -> np.ndarray:
    """Return which samples are not forgotten, bool (sum N_k,), the clients one after another."""
    parts = [np.zeros(n, dtype=bool) for n in history.samples_per_client]
    for k, part in enumerate(parts):
        part[history.remaining(k)] = True
    return np.concatenate(parts)


def identified(data: list[Data], history: History, known: np.ndarray | None) -> np.ndarray:
    """Return the digest of each sample, uint64 (sum N_k,).

    Raises
    ------
    ValueError
        If a sample that is left has another one than `known` says.
    """
    left, sizes = samples_left(history), history.samples_per_client
    found = np.concatenate(
        [np.zeros(n, np.uint64) if own is None else _digests(*own) for own, n in zip(data, sizes)]
    )
    other = np.flatnonzero(left & (found != known)) if known is not None else ()
    if len(other):
        k = int(np.searchsorted(np.cumsum(sizes), other[0], side="right"))
        raise ValueError(
            f"clients[{k}] is not what the state was trained on: sample "
            f"{other[0] - sizes[:k].sum()} is another one; give the same clients in the same "
            "order, with what is forgotten in its place"
        )
    return np.where(left, found, np.uint64(0))


def _copied(k: int, own: Any, size: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """Return the data of client k as tensors, refused unless both have `size` samples."""
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
    return x, y


def _check_finite(k: int, x: Tensor, left: np.ndarray) -> None:
    """Refuse a sample that is left and not finite; one that is forgotten may be anything."""
    if x.is_floating_point() and not torch.isfinite(x.sum()):
        finite = torch.isfinite(x).reshape(len(x), -1).all(1).cpu().numpy()[left]
        if not finite.all():
            raise ValueError(
                f"clients[{k}]: x holds NaN or infinity in sample {left[~finite][0]}; samples must "
                "be finite"
            )


def _trial(x: Tensor, y: Tensor, left: np.ndarray) -> tuple[Tensor, Tensor]:
    """Return a mini-batch by which a client's data are checked: one sample, and all labels left.

    The one sample stands for all, so that nothing of the size of the data is copied."""
    one = x[left[0]]
    one = one.float() if one.is_floating_point() else one
    return one.expand(len(left), *one.shape), y[torch.from_numpy(left).to(y.device)]


def _digests(x: Tensor, y: Tensor) -> np.ndarray:
    """Return the first 8 bytes of each sample's sha256, uint64 (n,)."""
    rows = []
    for values in (x, y):
        values = values.float() if values.is_floating_point() else values.long()
        rows.append(values.reshape(len(y), -1).cpu().contiguous().numpy())
    found = (hashlib.sha256(a.tobytes() + b.tobytes()).digest()[:8] for a, b in zip(*rows))
    return np.frombuffer(b"".join(found), dtype="<u8").astype(np.uint64)
