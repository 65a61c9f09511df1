"""The data of a round's local steps, in one of two forms that both back ends read.

`Lists` holds batches as a caller's lists gave them; `Rows` holds one table of samples, and for each
step the rows of it that the step takes. The back end "pool" takes a client's batches one by one,
"stacked" takes `Picks`, in which all clients' steps are rows of one table.

| code    | symbol | shape     | meaning                                                        |
|---------|--------|-----------|----------------------------------------------------------------|
| x, y    |        | (N, ...)  | the table: inputs and targets                                  |
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
from sflkit.federated.arrays import array_of
from sflkit.federated.batches import Batch, read, samples
from sflkit.federated.task import Task


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


class Lists:
    """Each client's list of batches, checked at the door of `local_sgd`; see `batches.read`."""

    resident = False  # the table of each round is another one

    def __init__(self, task: Task, batches: Sequence, device: torch.device):
        self.dtype = task.dtype
        self._distinct, self._used = read(task, batches, device)
        self._n = np.array([b.n for b in self._distinct] + [0])  # at the end, where -1 points
        self._which = np.array(list(zip_longest(*self._used, fillvalue=-1)), np.int64).T

    def __len__(self) -> int:
        return len(self._used)

    def batches(self, k: int) -> list[Batch]:
        """Return the batches of client k; a repeated one is the same object."""
        return [self._distinct[i] for i in self._used[k]]

    def examples(self) -> list[Tensor]:
        """Return inputs of each kind of batches."""
        return list({b.kind: b.x for b in self._distinct}.values())

    def sizes(self) -> np.ndarray:
        """Return how many samples each step has, (C, S); 0: no step."""
        return self._n[self._which].reshape(len(self), -1)

    def picks(self) -> Picks:
        """Return the batches, all of one kind, as rows of a table of their own."""
        distinct, used, n = self._distinct, self._which, self._n
        if ((used == used[:, :1]) | (used < 0)).all():
            used = used[:, :1]
        places = np.arange(n.max())
        inside = places < n[used][..., None]
        first = np.cumsum(n) - n
        rows = first[np.maximum(used, 0)][..., None] + np.where(inside, places, 0)
        x, y = (torch.cat(column) for column in ([b.x for b in distinct], [b.y for b in distinct]))
        rows = torch.from_numpy(rows).to(x.device)
        weights = torch.from_numpy(inside).to(x.device, self.dtype)
        if any(b.w is not None for b in distinct):
            ones = (x.new_ones(b.n, dtype=self.dtype) if b.w is None else b.w for b in distinct)
            weights = weights * torch.cat(list(ones))[rows]
        return Picks(x, y, rows, _normalised(weights), self.sizes())


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
        self.table, self.dtype = samples(task, "data", data, device), task.dtype
        rows = checks.integers("rows", array_of(rows), low=-1, high=self.table.n - 1)
        if rows.ndim not in (1, 2, 3):
            raise ValueError(
                f"rows has shape {rows.shape}; it must be (n_clients, n_steps, n), (n_clients, n) "
                "or (n,)"
            )
        shape = rows.shape
        rows = rows.reshape(-1, 1, shape[-1]) if rows.ndim < 3 else rows
        inside = rows >= 0
        self.weights = None
        if weights is not None:
            most = torch.finfo(task.dtype).max / max(1, shape[-1])  # their sum must be finite
            weights = checks.array("weights", array_of(weights), low=0.0, high=most)
            weights = torch.from_numpy(weights.copy()).to(task.dtype).numpy()
            if weights.shape != shape or (weights.size and not weights.any()):
                raise ValueError(
                    f"weights of shape {weights.shape} must be shaped like rows, {shape}, and not "
                    "all 0"
                )
            self.weights = np.where(inside, weights.reshape(rows.shape), 0)
            inside = self.weights > 0
        self.rows, self.inside = rows, inside
        self._move_steps_first()
        self.same = rows.shape[1] > 1 and all(
            a is None or bool((a == a[:, :1]).all()) for a in (self.rows, self.inside, self.weights)
        )

    def _move_steps_first(self) -> None:
        """Put what are no steps behind each client's steps, whose order stays."""
        absent = ~self.inside.any(2)
        if (absent[:, :-1] & ~absent[:, 1:]).any():
            order = np.argsort(absent, axis=1, kind="stable")[..., None]
            arrays = (self.rows, self.inside, self.weights)
            moved = [a if a is None else np.take_along_axis(a, order, 1) for a in arrays]
            self.rows, self.inside, self.weights = moved

    def __len__(self) -> int:
        return len(self.rows)

    def batches(self, k: int) -> Iterator[Batch]:
        """Make the batches of client k; a repeated one is the same object."""
        batch = None
        for s in np.flatnonzero(self.inside[k].any(1)):
            if batch is None or not self.same:
                batch = self._batch(k, s)
            yield batch

    def _batch(self, k: int, s: int) -> Batch:
        x, y, _, _, kind = self.table
        inside = self.inside[k, s]
        rows = torch.from_numpy(self.rows[k, s][inside]).to(x.device)
        w = None
        if self.weights is not None:
            w = torch.from_numpy(self.weights[k, s][inside]).to(x.device)
        return Batch(x[rows], y[rows], w, len(rows), kind)

    def examples(self) -> list[Tensor]:
        """Return inputs of each kind of batches."""
        return [self.table.x]

    def sizes(self) -> np.ndarray:
        """Return how many samples each step has, (C, S); 0: no step."""
        return self.inside.sum(2)

    def picks(self) -> Picks:
        """Return the steps as rows of the table."""
        n = self.rows.shape[2]
        last = n - self.inside[:, :, ::-1].argmax(2)
        places = np.where(self.inside.any(2), last, 0)
        part = slice(None, 1 if self.same else None)
        rows, inside = self.rows[:, part], self.inside[:, part]
        own = np.take_along_axis(rows, inside.argmax(2)[..., None], 2)
        rows = np.where(inside, rows, np.maximum(own, 0))
        weights = inside if self.weights is None else self.weights[:, part]
        x, y = self.table.x, self.table.y
        rows = torch.from_numpy(rows).to(x.device, non_blocking=True)
        weights = torch.from_numpy(weights).to(x.device, self.dtype, non_blocking=True)
        return Picks(x, y, rows, _normalised(weights), places)


def _normalised(weights: Tensor) -> Tensor:
    """Return weights (C, S, n) whose sum is 1 in each step that has any."""
    total = weights.sum(2, keepdim=True)
    return weights / torch.where(total > 0, total, 1)
