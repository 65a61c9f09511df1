"""The data of a round's local steps, checked, in one of two forms that both back ends read.

`Lists` holds batches as a caller's lists gave them; `Rows` holds one table of samples, and for each
step the rows of it that the step takes. The back end "pool" takes a client's batches one by one,
"stacked" takes `Picks`, in which all clients' steps are rows of one table.

| code    | symbol | shape     | meaning                                                        |
|---------|--------|-----------|----------------------------------------------------------------|
| batches | L_t^k  | C lists   | each client's local steps, a list of (x, y) or (x, y, weights) |
| x, y    |        | (N, ...)  | inputs and targets of a batch, or of the table                 |
| rows    | L_t^k  | (C, S, n) | rows of the table in each client's local steps; -1: none       |
| weights |        | (C, S, n) | sample weights >= 0 in a step's mean loss; 0: no sample        |
| sizes   |        | (C, S)    | samples in each step; 0: no step                               |

One rule covers what is ragged: a weight of 0 is no sample, a step of zeros is no step, and a client
of zeros is a spare row, whose parameters stay.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import zip_longest
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from sflkit import checks
from sflkit.federated.arrays import array_of, tensor_of, weights_of
from sflkit.federated.task import Task


class Batch(NamedTuple):
    """The checked data of one local step.

    Attributes
    ----------
    x, y : Tensor (n, ...)
        Inputs and targets, on the device that trains.
    w : Tensor (n,) or None
        Sample weights.
    kind : tuple
        Shape and type of one input and one target; only batches of one kind can be stacked.
    """

    x: Tensor
    y: Tensor
    w: Tensor | None
    kind: tuple


class Picks(NamedTuple):
    """Local steps as rows of a table on the device that trains.

    Attributes
    ----------
    x, y : Tensor (N, ...)
        The table.
    rows : int64 Tensor (C, S, n)
        Rows of the table. What fills up a step is a row of the client's own. S is 1 where each
        client takes all its steps on the same rows.
    weights : Tensor (C, S, n)
        They sum to 1 over a step, or are all 0 in a step that is none.
    places : int array (C, S)
        How many places of each step are in use; 0: no step. The steps of a client stand before what
        are no steps.
    """

    x: Tensor
    y: Tensor
    rows: Tensor
    weights: Tensor
    places: np.ndarray


class Lists:
    """Each client's list of batches, checked; see `read` for what is raised."""

    resident = False  # the table of each round is another one

    def __init__(self, task: Task, batches: Sequence, device: torch.device):
        self._distinct, used = read(task, batches, device)
        self.dtype = task.dtype
        self._n = np.array([len(b.x) for b in self._distinct] + [0])  # at the end, where -1 points
        self._used = np.array(list(zip_longest(*used, fillvalue=-1)), np.int64).T
        self.sizes = self._n[self._used].reshape(len(used), -1)
        self.examples = list({b.kind: b.x for b in self._distinct}.values())  # one of each kind

    def batches(self, k: int) -> list[Batch]:
        """Return the batches of client k; a repeated one is the same object."""
        return [self._distinct[i] for i in self._used[k] if i >= 0]

    def picks(self) -> Picks:
        """Return the batches, all of one kind, as rows of a table of their own."""
        distinct, used, n = self._distinct, self._used, self._n
        if ((used == used[:, :1]) | (used < 0)).all():
            used = used[:, :1]
        places = np.arange(n.max())
        inside = places < n[used][..., None]
        rows = (np.cumsum(n) - n)[np.maximum(used, 0)][..., None] + places
        x, y = (torch.cat(column) for column in ([b.x for b in distinct], [b.y for b in distinct]))
        rows, weights = _filled(rows, inside, inside, x.device, self.dtype)
        if any(b.w is not None for b in distinct):
            ones = (
                x.new_ones(len(b.x), dtype=self.dtype) if b.w is None else b.w for b in distinct
            )
            weights = weights * torch.cat(list(ones))[rows]
        return Picks(x, y, rows, _normalised(weights), self.sizes)


class Rows:
    """Rows of a table of samples for each local step, checked at the door of `local_sgd`.

    Parameters
    ----------
    task : Task
    data : pair of tensors or arrays (N, ...)
        The table (x, y); it is not copied where it lies on `device` in the task's types.
    rows : int tensor or array (C, S, n), (C, n) or (n,)
        Rows of the table; -1 marks a place without a sample. (C, n) is one step of each client,
        (n,) one step of one.
    weights : tensor or array, shaped like rows, optional
        Sample weights, finite and >= 0, of any sum in a step; not all 0 together.
    device : torch.device

    Raises
    ------
    ValueError
        If the table does not fit the task, a row lies outside it, a shape differs, or a weight is
        out of range.
    """

    resident = True

    def __init__(self, task: Task, data: Any, rows: Any, weights: Any, device: torch.device):
        self._table, self.dtype = samples(task, "data", data, device), task.dtype
        rows = checks.integers("rows", array_of(rows), low=-1, high=len(self._table.x) - 1)
        if rows.ndim not in (1, 2, 3):
            raise ValueError(
                f"rows has shape {rows.shape}; it must be (n_clients, n_steps, n), (n_clients, n) "
                "or (n,)"
            )
        self._weighted = weights is not None
        weights = _row_weights(task, weights, rows.shape) if self._weighted else rows >= 0
        if rows.ndim < 3:
            rows, weights = (a.reshape(-1, 1, a.shape[-1]) for a in (rows, weights))
        weights = np.where(rows >= 0, weights, 0)
        # what are no steps goes behind each client's steps, whose order stays
        absent = ~(weights > 0).any(2)
        if (absent[:, :-1] & ~absent[:, 1:]).any():
            order = np.argsort(absent, axis=1, kind="stable")[..., None]
            rows, weights = (np.take_along_axis(a, order, 1) for a in (rows, weights))
        self._rows, self._weights, self._inside = rows, weights, weights > 0
        self._same = rows.shape[1] > 1 and all((a == a[:, :1]).all() for a in (rows, weights))
        self.sizes = self._inside.sum(2)
        self.examples = [self._table.x]

    def batches(self, k: int) -> Iterator[Batch]:
        """Make the batches of client k; a repeated one is the same object."""
        (x, y, _, kind), batch = self._table, None
        for s in np.flatnonzero(self.sizes[k]):
            if batch is None or not self._same:
                inside = self._inside[k, s]
                rows = torch.from_numpy(self._rows[k, s][inside]).to(x.device)
                w = torch.from_numpy(self._weights[k, s][inside]) if self._weighted else None
                batch = Batch(x[rows], y[rows], w if w is None else w.to(x.device), kind)
            yield batch

    def picks(self) -> Picks:
        """Return the steps as rows of the table."""
        x, y = self._table[:2]
        last = self._rows.shape[2] - self._inside[:, :, ::-1].argmax(2)
        part = slice(None, 1 if self._same else None)
        parts = (a[:, part] for a in (self._rows, self._inside, self._weights))
        rows, weights = _filled(*parts, x.device, self.dtype)
        return Picks(x, y, rows, _normalised(weights), np.where(self.sizes > 0, last, 0))


class Training(NamedTuple):
    """All that `local_sgd` asks of a back end, which writes the result to `out`.

    Attributes
    ----------
    task : Task
    start : Tensor (C, P)
        The clients' first parameters.
    data : Lists or Rows
        Their local steps.
    rates : array (C,)
        Local learning rates.
    prox : float
        mu, the factor of the proximal term.
    corrections : Tensor (C, P) or None
        What is added to the gradients.
    updates : bool
        Whether to write the difference to `start` in place of the new parameters.
    out : Tensor (C, P)
    threads : int
        Upper bound on CPU threads.
    """

    task: Task
    start: Tensor
    data: Lists | Rows
    rates: np.ndarray
    prox: float
    corrections: Tensor | None
    updates: bool
    out: Tensor
    threads: int


def _row_weights(task: Task, weights: Any, shape: tuple[int, ...]) -> np.ndarray:
    most = torch.finfo(task.dtype).max / max(1, shape[-1])  # their sum must be finite
    return weights_of(weights, shape, "rows", most).astype(str(task.dtype).removeprefix("torch."))


def _filled(
    rows: np.ndarray, inside: np.ndarray, weights: np.ndarray, device: torch.device, dtype: Any
) -> tuple[Tensor, Tensor]:
    """Return rows (C, S, n) on the device, each place in no use with a row of its step's own, and
    the weights.
    """
    own = np.take_along_axis(rows, inside.argmax(2)[..., None], 2)
    rows = torch.from_numpy(np.where(inside, rows, np.maximum(own, 0)))
    weights = torch.from_numpy(np.ascontiguousarray(weights))
    return rows.to(device, non_blocking=True), weights.to(device, dtype, non_blocking=True)


def _normalised(weights: Tensor) -> Tensor:
    """Return weights (C, S, n) whose sum is 1 in each step that has any."""
    total = weights.sum(2, keepdim=True)
    return weights / torch.where(total > 0, total, 1)


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
    known: dict[int, int] = {}  # the number of each item by its id
    items, places, distinct, used = [], [], [], []
    fitting: set[tuple] = set()  # kinds of batches that were compared with the model
    for k, client in enumerate(batches):
        if not isinstance(client, Sequence):
            kind = type(client).__name__
            raise ValueError(f"batches of client {k} is a {kind}; it must be a list of (x, y)")
        row, before, i = [], None, 0
        for s, item in enumerate(client):
            if item is not before:  # full-batch steps repeat one item
                before, i = item, known.setdefault(id(item), len(items))
            if i == len(items):
                items.append(item)  # so that its id does not come again
                places.append(f"client {k}, step {s}")
                distinct.append(_batch(task, item, device, places[-1], fitting))
            row.append(i)
        used.append(row)
    _check_labels(task, distinct, places)
    return distinct, used


def samples(task: Task, name: str, pair: Any, device: torch.device) -> Batch:
    """Return samples (x, y) that an error message calls `name`, checked as one batch."""
    if not isinstance(pair, (tuple, list)) or len(pair) != 2:
        raise ValueError(f"{name}={checks.shown(pair, 80)} must be a pair (x, y)")
    batch = _batch(task, pair, device, name, set())
    _check_labels(task, [batch], [name])
    return batch


def _batch(task: Task, item: Any, device: torch.device, where: str, fitting: set[tuple]) -> Batch:
    """Return the batch of one step, which messages call `where`; add new kinds to `fitting`."""
    if not isinstance(item, (tuple, list)) or len(item) not in (2, 3):
        raise ValueError(f"{where}: a batch must be (x, y) or (x, y, weights)")
    try:
        x, y, *w = [tensor_of(part, device) for part in item]
    except (TypeError, ValueError, RuntimeError) as error:
        raise ValueError(
            f"{where}: x, y and weights must be tensors or arrays of numbers ({error})"
        ) from None
    sample, target = x.shape, y.shape
    if not sample or not target or sample[0] == 0 or sample[0] != target[0]:
        raise ValueError(
            f"{where}: x has shape {tuple(sample)} and y {tuple(target)}; both need the same "
            "number of samples, at least 1 (a client without data gets an empty list)"
        )
    kind = (sample[1:], x.dtype, target[1:], y.dtype)
    if kind not in fitting:
        x, y = _fit(task, x, y, where)
        kind = (sample[1:], x.dtype, target[1:], y.dtype)
        fitting.add(kind)
    return Batch(x, y, _weights(task, w[0], sample[0], where) if w else None, kind)


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


def _check_labels(task: Task, batches: list[Batch], places: list[str]) -> None:
    """Check all labels in one pass; a ValueError names the place of the first wrong one."""
    if task.loss != "cross_entropy" or not batches:
        return
    n_classes = min(task.forward(x).shape[0] for x in {b.kind: b.x for b in batches}.values())
    low, high = torch.cat([b.y if b.y.ndim == 1 else b.y.flatten() for b in batches]).aminmax()
    if low >= 0 and high < n_classes:
        return
    for b, place in zip(batches, places, strict=True):
        wrong = b.y[(b.y < 0) | (b.y >= n_classes)]
        if len(wrong):
            raise ValueError(
                f"{place}: label {int(wrong[0])} is out of range; the model has {n_classes} "
                f"outputs, so the labels y must lie in 0..{n_classes - 1}"
            )
