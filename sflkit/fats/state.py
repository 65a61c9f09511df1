"""The state of a run that can forget, and its file: one npz without pickled objects, written so
that no crash leaves half of one.

A file is replaced in one step (temporary name beside it, fsync, rename, fsync of the folder). The
status stands in it: a process that was killed while it recomputed leaves a "pending" state, whose
model is refused until `unlearning.resume` has finished it. What a file has forgotten stays so: a
state that still knows it may not replace the file. One process at a time may write a file.

==============  ===================  ======================================================================================
entry           shape, type          meaning
==============  ===================  ======================================================================================
status, method  text                 "clean" or "pending"; one of METHODS
clients         (R, K) int32         clients of the slots
batches         (R, K, E, b) int32   sample numbers of the mini-batches
sizes           (M,) int64           samples of each client at the start
forgotten       (n, 2) int64         client, and sample or -1 for the whole client
rounds          (m,) int64           rounds before which a model is stored, as `model_<round>` (P,) float32
numbers         (7,) float64         rate, every, owed, and FR2's rate, momentum, decay, damping
ledger          (n, 6) float64       the entries
==============  ===================  ======================================================================================
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from sflkit import checks
from sflkit.fats.baselines import Fisher
from sflkit.fats.history import History
from sflkit.fats.ledger import Entry, Ledger

METHODS = ("fats", "frs", "fr2")


class PendingRequestError(RuntimeError):
    """A model was asked for that a request has taken away and that is not recomputed yet."""


@dataclass(frozen=True, eq=False)
class State:
    """A run of learning: what has to be kept so that it can go on and forget. It never changes;
    `request` and `resume` return new ones. Fields as in the table of `unlearning`; `method` is
    one of METHODS, `fisher` FR2's settings.
    """

    history: History
    rate: float
    models: Mapping[int, Tensor] = field(repr=False)
    every: int
    ledger: Ledger = field(repr=False)
    method: str = "fats"
    owed: int = 0
    fisher: Fisher = field(default_factory=Fisher)

    rounds_done = property(
        lambda self: max(self.models), doc="Rounds that have run, and need not be recomputed."
    )
    status = property(
        lambda self: "pending" if self.rounds_done < self.owed else "clean",
        doc='"clean" or "pending".',
    )

    @property
    def params(self) -> Tensor:
        """The global model after `rounds_done` rounds, (P,) on the CPU. Raises PendingRequestError
        in a pending state.
        """
        if self.status == "pending":
            raise PendingRequestError(
                f"a request is pending: {self.rounds_done} of {self.owed} rounds stand, the others must be "
                "recomputed without what was forgotten; call resume(task, clients, state)"
            )
        return self.models[self.rounds_done].clone()


def save(state: State, path: Path | str) -> None:
    """Write a state, replacing the file in one step. A name without suffix is taken as it is.

    Raises
    ------
    ValueError
        If there is a file that is no state, or that has forgotten what this state has not; it stays
        as it is.
    """
    refuse_stale(state.history, path)
    history, fisher = state.history, state.fisher
    forgotten = sorted(
        (client, -1 if sample is None else sample) for client, sample in history.forgotten
    )
    content = {
        "status": np.array(state.status),
        "method": np.array(state.method),
        "clients": history.clients.astype(np.int32),
        "batches": history.batches.astype(np.int32),
        "sizes": history.samples_per_client,
        "forgotten": np.array(forgotten, dtype=np.int64).reshape(-1, 2),
        "rounds": np.array(sorted(state.models), dtype=np.int64),
        "numbers": np.array(
            [
                state.rate,
                state.every,
                state.owed,
                fisher.rate,
                fisher.momentum,
                fisher.decay,
                fisher.damping,
            ]
        ),
        "ledger": np.array(state.ledger.entries, dtype=np.float64).reshape(-1, len(Entry._fields)),
    }
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.tmp")
    with open(temporary, "wb") as file:
        np.savez(
            file, **content, **{f"model_{r}": model.numpy() for r, model in state.models.items()}
        )
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, path)
    if hasattr(os, "O_DIRECTORY"):  # the rename itself must survive a power cut, too
        folder = os.open(path.parent, os.O_DIRECTORY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def refuse_stale(history: History, path: Path | str) -> None:
    """Raise ValueError if `path` is a file that is no state, or has forgotten what `history` has
    not.
    """
    try:
        with np.load(path, allow_pickle=False) as file:
            held = _forgotten(file)
    except FileNotFoundError:
        return
    except Exception as error:  # as in `load`
        raise ValueError(
            f"{str(path)!r} exists and is not a state, so it is not replaced; name another file or remove it "
            f"({error})"
        ) from error
    known = sorted(
        (item for item in held if not {item, (item[0], None)} & history.forgotten), key=str
    )
    if known:
        raise ValueError(
            f"{str(path)!r} holds a state that has forgotten (client, sample)={known[0]} ({len(known)} in all), "
            "which this state has not; go on from the file's state, or name another file"
        )


def load(path: Path | str) -> State:
    """Read a state that `save` wrote; look at its `status`.

    Raises
    ------
    FileNotFoundError
        If there is none.
    ValueError
        If the file is no state, or its parts contradict one another.
    """
    try:
        with np.load(path, allow_pickle=False) as file:
            method, status = (
                checks.choice("method", str(file["method"]), METHODS),
                str(file["status"]),
            )
            rate, every, owed, *fisher = file["numbers"].tolist()
            history = History(file["clients"], file["batches"], file["sizes"], _forgotten(file))
            models = {int(r): torch.from_numpy(file[f"model_{r}"]) for r in file["rounds"]}
            entries = tuple(
                Entry(*(int(v) for v in row[:-1]), float(row[-1])) for row in file["ledger"]
            )
        checks.real("rate", rate, above=0)
        every, owed = (
            checks.integer("every", every, 1),
            checks.integer("owed", owed, 0, history.rounds),
        )
        if min(models) != 0 or max(models) > history.rounds:
            raise ValueError(
                f"models stand before rounds {sorted(models)}; they must be 0 and others up to {history.rounds}"
            )
        size = len(models[0])
        if not all(
            m.shape == (size,) and m.dtype == torch.float32 and torch.isfinite(m).all()
            for m in models.values()
        ):
            raise ValueError("the models must be finite float32 vectors of one length")
        ledger = Ledger(history.clients_per_round, history.local_steps, size, entries)
        state = State(history, rate, models, every, ledger, method, owed, Fisher(*fisher))
        if state.status != status:
            raise ValueError(
                f"it says that it is {status!r}, but its models make it {state.status!r}"
            )
    except FileNotFoundError:
        raise
    except (
        Exception
    ) as error:  # a damaged file fails in zipfile, zlib, numpy or torch, each in ways of its own
        raise ValueError(f"{str(path)!r} is not a state that can be read: {error}") from error
    return state


def _forgotten(file) -> frozenset:
    return frozenset((int(k), None if s < 0 else int(s)) for k, s in file["forgotten"])
