"""What a client trains on in one local step, checked once at the door so that the back ends need not look again."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor


class Batch(NamedTuple):
    """One local step's data: inputs (n, ...), targets (n, ...), sample weights (n,) or None, and n (len(x) is slow)."""

    x: Tensor
    y: Tensor
    w: Tensor | None
    n: int


class Forward(NamedTuple):
    """What a model makes of one sample: the shape of its output, and how many numbers its layers hand on."""

    shape: torch.Size
    numbers: int


def convert(task, batches: Sequence, device: torch.device) -> list[list[Batch]]:
    """Check and convert every distinct batch once; a repeated tuple stays one object, by which the back ends recognise it."""
    seen: dict[int, tuple] = {}  # batch by id of the caller's tuple, which is held too: a freed one's id may return
    result, distinct = [], []
    for k, client in enumerate(batches):
        if not isinstance(client, Sequence):
            raise ValueError(f"batches of client {k} is a {type(client).__name__}; it must be a list of (x, y)")
        row = []
        for s, item in enumerate(client):
            known = seen.get(id(item))
            if known is None:
                known = seen[id(item)] = (_batch(task, item, device, k, s), item)
                distinct.append((known[0], k, s))
            row.append(known[0])
        result.append(row)
    if task.loss == "cross_entropy" and distinct:
        _check_labels(task, distinct)
    return result


def _batch(task, item, device: torch.device, k: int, s: int) -> Batch:
    if not isinstance(item, (tuple, list)) or len(item) not in (2, 3):
        raise ValueError(f"client {k}, step {s}: a batch must be (x, y) or (x, y, weights)")
    try:
        x, y = torch.as_tensor(item[0], device=device), torch.as_tensor(item[1], device=device)
        w = torch.as_tensor(item[2], device=device) if len(item) == 3 else None
    except (TypeError, ValueError, RuntimeError) as error:
        raise ValueError(f"client {k}, step {s}: x, y and weights must be tensors or arrays of numbers ({error})") from None
    shape, targets = x.shape, y.shape
    if not shape or not targets or shape[0] == 0 or shape[0] != targets[0]:
        raise ValueError(f"client {k}, step {s}: x has shape {tuple(shape)} and y {tuple(targets)}; both need the same number of "
                         "samples, at least 1 (a client without data gets an empty list)")
    n = shape[0]
    if x.dtype != torch.float32 and x.is_floating_point():
        x = x.float()
    if task.loss == "cross_entropy":
        if y.dtype != torch.int64:
            if y.is_floating_point() or y.is_complex() or y.dtype == torch.bool:
                raise ValueError(f"client {k}, step {s}: y has dtype {y.dtype}; cross_entropy needs integer labels")
            y = y.long()
    elif y.is_floating_point() and y.dtype != torch.float32:
        y = y.float()
    outputs = _forward(task, x, shape[1:], k, s).shape
    want = outputs[1:] if task.loss == "cross_entropy" else outputs if task.loss == "mse" else targets[1:]
    if targets[1:] != want:
        raise ValueError(f"client {k}, step {s}: y has shape {tuple(targets)}; the model's outputs of shape {(n, *outputs)} "
                         f"need {(n, *want)}")
    if w is not None:
        w = w.float()
        if w.shape != (n,) or not (w.min() >= 0 and 0 < w.sum() < float("inf")):
            raise ValueError(f"client {k}, step {s}: weights of shape {tuple(w.shape)} must be ({n},), finite, >= 0, not all 0")
    return Batch(x, y, w, n)


def _forward(task, x: Tensor, sample: torch.Size, k: int, s: int) -> Forward:
    """Return what one sample's forward pass makes; tried out once per kind of sample."""
    key = (sample, x.dtype)
    forward = task._forwards.get(key)
    if forward is None:
        model, numbers = copy.deepcopy(task._template), []

        def count(module, args, output):
            numbers.extend(v.numel() for v in (output if isinstance(output, tuple) else (output,)) if isinstance(v, Tensor))

        for module in model.modules():
            if not module._modules:
                module.register_forward_hook(count)
        try:
            with torch.inference_mode():
                outputs = model(x[:1].cpu())
        except Exception as error:
            raise ValueError(f"client {k}, step {s}: the model does not take samples of shape {tuple(sample)}, dtype {x.dtype}: "
                             f"{error}") from error
        forward = task._forwards[key] = Forward(outputs.shape[1:], sum(numbers))
    return forward


def _check_labels(task, batches: list[tuple[Batch, int, int]]) -> None:
    """One pass over all labels; client and step are looked for only when one is out of range."""
    n_classes = min(task._forwards[key].shape[0] for key in {(b.x.shape[1:], b.x.dtype) for b, _, _ in batches})
    low, high = torch.cat([b.y if b.y.ndim == 1 else b.y.flatten() for b, _, _ in batches]).aminmax()
    if low < 0 or high >= n_classes:
        for b, k, s in batches:
            wrong = b.y[(b.y < 0) | (b.y >= n_classes)]
            if len(wrong):
                raise ValueError(f"client {k}, step {s}: label {int(wrong[0])} is out of range; the model has {n_classes} "
                                 f"outputs, so labels must lie in 0..{n_classes - 1}")
