"""The checks of what clients train on, given as lists of batches.

| code    | symbol | shape    | meaning                                                        |
|---------|--------|----------|----------------------------------------------------------------|
| batches | L_t^k  | C lists  | each client's local steps, a list of (x, y) or (x, y, weights) |
| x       |        | (n, ...) | inputs of one local step                                       |
| y       |        | (n, ...) | targets                                                        |
| weights |        | (n,)     | sample weights >= 0 in the step's mean loss                    |
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from sflkit import checks
from sflkit.federated.arrays import tensor_of
from sflkit.federated.task import Task


class Batch(NamedTuple):
    """The checked data of one local step.

    Attributes
    ----------
    x, y : Tensor (n, ...)
        Inputs and targets, on the device that trains.
    w : Tensor (n,) or None
        Sample weights.
    n : int
        Number of samples.
    kind : tuple
        Shape and type of one input and one target; only batches of one kind can be stacked.
    """

    x: Tensor
    y: Tensor
    w: Tensor | None
    n: int
    kind: tuple


def convert(task: Task, batches: Sequence, device: torch.device) -> list[list[Batch]]:
    """Check the clients' data and return them as batches on `device`; see `read`."""
    distinct, used = read(task, batches, device)
    return [[distinct[i] for i in client] for client in used]


def read(
    task: Task, batches: Sequence, device: torch.device
) -> tuple[list[Batch], list[list[int]]]:
    """Check the clients' data; return the distinct batches, and which of them each client takes.

    A tuple that occurs several times is checked once and is one batch. Inputs are not searched for
    NaN: in calls with thousands of small batches that would take longer than to train, and NaN
    inputs end in NaN parameters, which the next call refuses.

    Raises
    ------
    ValueError
        If a batch does not have the documented form, or does not fit the task's model and loss; the
        message names the client and the step.
    """
    number: dict[int, int] = {}
    items, places, distinct, used = [], [], [], []  # items: the id of a freed one may return
    fitting: set[tuple] = set()  # kinds of batches that were compared with the model
    for k, client in enumerate(batches):
        if not isinstance(client, Sequence):
            kind = type(client).__name__
            raise ValueError(f"batches of client {k} is a {kind}; it must be a list of (x, y)")
        row, before, i = [], None, 0
        for s, item in enumerate(client):
            if item is not before:  # full-batch steps repeat one item
                before, i = item, number.setdefault(id(item), len(items))
                if i == len(items):
                    distinct.append(_batch(task, item, device, (k, s), fitting))
                    items.append(item)
                    places.append((k, s))
            row.append(i)
        used.append(row)
    if task.loss == "cross_entropy" and distinct:
        _check_labels(task, list(zip(distinct, places, strict=True)))
    return distinct, used


def samples(task: Task, name: str, pair: Any, device: torch.device) -> Batch:
    """Return samples (x, y) that an error message calls `name`, checked as one batch."""
    if not isinstance(pair, (tuple, list)) or len(pair) != 2:
        raise ValueError(f"{name}={checks.shown(pair, 80)} must be a pair (x, y)")
    batch = _batch(task, pair, device, name, set())
    if task.loss == "cross_entropy":
        _check_labels(task, [(batch, name)])
    return batch


def _at(place: tuple[int, int] | str) -> str:
    return place if isinstance(place, str) else "client {}, step {}".format(*place)


def _batch(
    task: Task, item: Any, device: torch.device, place: tuple[int, int] | str, fitting: set[tuple]
) -> Batch:
    """Return the batch of one step at `place` = (client, step); add new kinds to `fitting`."""
    if not isinstance(item, (tuple, list)) or len(item) not in (2, 3):
        raise ValueError(f"{_at(place)}: a batch must be (x, y) or (x, y, weights)")
    try:
        x, y = tensor_of(item[0], device), tensor_of(item[1], device)
        w = tensor_of(item[2], device) if len(item) == 3 else None
    except (TypeError, ValueError, RuntimeError) as error:
        raise ValueError(
            f"{_at(place)}: x, y and weights must be tensors or arrays of numbers ({error})"
        ) from None
    sample, target = x.shape, y.shape
    if not sample or not target or sample[0] == 0 or sample[0] != target[0]:
        raise ValueError(
            f"{_at(place)}: x has shape {tuple(sample)} and y {tuple(target)}; both need the same "
            "number of samples, at least 1 (a client without data gets an empty list)"
        )
    kind = (sample[1:], x.dtype, target[1:], y.dtype)
    if kind not in fitting:
        x, y = _fit(task, x, y, _at(place))
        kind = (sample[1:], x.dtype, target[1:], y.dtype)
        fitting.add(kind)
    if w is not None:
        w = _weights(task, w, sample[0], _at(place))
    return Batch(x, y, w, sample[0], kind)


def _fit(task: Task, x: Tensor, y: Tensor, where: str) -> tuple[Tensor, Tensor]:
    """Return inputs and targets in the types that the task takes, after a look at their shapes."""
    if x.is_complex():
        raise ValueError(f"{where}: x has dtype {x.dtype}; samples must be real")
    x = x.to(task.dtype) if x.is_floating_point() else x
    if task.loss != "cross_entropy":
        y = y.to(task.dtype) if y.is_floating_point() else y
    elif y.is_floating_point() or y.is_complex() or y.dtype == torch.bool:
        raise ValueError(f"{where}: y has dtype {y.dtype}; cross_entropy needs integer labels")
    else:
        y = y.long()
    try:
        outputs, _, alone = task.forward(x)
    except Exception as error:
        raise ValueError(
            f"{where}: the model does not take samples of shape {tuple(x.shape[1:])}, dtype "
            f"{x.dtype}: {error}"
        ) from error
    if not alone:
        raise ValueError(
            f"{where}: what the model makes of a sample depends on chance or on the other samples "
            "of its batch, as with dropout or batch normalisation; it must decide by the sample"
        )
    n, *target = y.shape
    want = outputs if task.loss == "mse" else y.shape[1:] if callable(task.loss) else outputs[1:]
    if y.shape[1:] != want:
        raise ValueError(
            f"{where}: y has shape {(n, *target)}; the model's outputs of shape {(n, *outputs)} "
            f"need {(n, *want)}"
        )
    return x, y


def _weights(task: Task, w: Tensor, n: int, where: str) -> Tensor:
    if w.is_complex():
        raise ValueError(f"{where}: weights have dtype {w.dtype}; they must be real")
    w = w.to(task.dtype)
    if w.shape != (n,) or not (w.min() >= 0 and 0 < w.sum() < float("inf")):
        raise ValueError(
            f"{where}: weights of shape {tuple(w.shape)} must be ({n},), finite, >= 0, not all 0"
        )
    return w


def _check_labels(task: Task, batches: list[tuple[Batch, Any]]) -> None:
    """Check all labels in one pass; a ValueError names the place of the first wrong one."""
    kinds = {b.kind: b for b, _ in batches}
    n_classes = min(task.forward(b.x).shape[0] for b in kinds.values())
    labels = [b.y if b.y.ndim == 1 else b.y.flatten() for b, _ in batches]
    low, high = torch.cat(labels).aminmax()
    if low >= 0 and high < n_classes:
        return
    for b, place in batches:
        wrong = b.y[(b.y < 0) | (b.y >= n_classes)]
        if len(wrong):
            raise ValueError(
                f"{_at(place)}: label {int(wrong[0])} is out of range; the model has {n_classes} "
                f"outputs, so the labels y must lie in 0..{n_classes - 1}"
            )
