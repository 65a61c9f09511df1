"""The state of a run that can forget, and its file: one npz without pickled objects, written so
that no crash leaves half of one.

A file is replaced in one step (temporary name beside it, fsync, rename, fsync of the folder). The
status stands in it: a process that was killed while it recomputed leaves a "pending" state, whose
model is refused until `unlearning.resume` has finished it. What a file has forgotten stays so: a
state that still knows it may not replace the file. One process at a time may write a file.

==============  ===================  ===========================================================
entry           shape, type          meaning
==============  ===================  ===========================================================
status, method  text                 "clean" or "pending"; a name in `methods.METHODS`
clients         (R, K) int32         clients of the slots
batches         (R, K, E, b) int32   sample numbers of the mini-batches
sizes           (M,) int64           samples of each client at the start
forgotten       (n, 2) int64         client, and sample or -1 for the whole client
rounds          (m,) int64           rounds before which a model is stored, as `model_<round>`
                                     (P,) float32
numbers         (7,) float64         rate, every, owed, and FR2's rate, momentum, decay, damping
ledger          (n, 6) float64       the entries
entered, left   (sum N_k,) int32     only where clients are caches: when each sample was held
digests         (n,) text            name and sha256 of each other entry, so that no part can be
                                     changed alone
==============  ===================  ===========================================================

The parts must also agree with one another: what the ledger says was asked for with what is
forgotten, what it says was recomputed with the models that stand. A file is read only as far as it
is what `save` writes, uncompressed, so that nothing inflates.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Collection, Mapping
from dataclasses import astuple, dataclass, field
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from sflkit import checks, npzfiles, paths
from sflkit.fats.baselines import Fisher
from sflkit.fats.held import Held
from sflkit.fats.history import History, Target
from sflkit.fats.ledger import Entry, Ledger
from sflkit.fats.methods import METHODS

_ANEW = (
    "states have carried digests since sflkit 0.2; move it away and make it anew, with `learn` and "
    "then `forget` for what it has forgotten"
)


class PendingRequestError(RuntimeError):
    """A model was asked for that a request has taken away and that is not recomputed yet."""


@dataclass(frozen=True, eq=False)
class State:
    """A run of learning: what has to be kept so that it can go on and forget.

    It never changes; `unlearning.request` and `unlearning.resume` return new ones.

    Parameters
    ----------
    history : History
        Clients and mini-batches of all rounds, also of those that have not run yet.
    rate : float
        eta, the local learning rate.
    models : mapping from int to tensor (P,)
        The global model before a round, float32 on the CPU; 0 is the start.
    every : int
        k: a model is kept before rounds 0, k, 2k, ..., and the last one.
    ledger : Ledger
        The book of all requests.
    method : str
        A name in `methods.METHODS`.
    owed : int
        Rounds that had run when a request came; those after `rounds_done` must be recomputed.
    fisher : Fisher
        FR2's settings.
    """

    history: History
    rate: float
    models: Mapping[int, Tensor] = field(repr=False)
    every: int
    ledger: Ledger = field(repr=False)
    method: str = "fats"
    owed: int = 0
    fisher: Fisher = field(default_factory=Fisher)

    @property
    def rounds_done(self) -> int:
        """Rounds that have run, and need not be recomputed."""
        return max(self.models)

    @property
    def status(self) -> str:
        """Either "clean", or "pending" while a request has taken models away."""
        return "pending" if self.rounds_done < self.owed else "clean"

    @property
    def params(self) -> Tensor:
        """The global model after `rounds_done` rounds, a copy (P,) on the CPU.

        Raises
        ------
        PendingRequestError
            In a pending state.
        """
        if self.status == "pending":
            raise PendingRequestError(
                f"a request is pending: {self.rounds_done} of {self.owed} rounds stand, the others "
                "must be recomputed without what was forgotten; call resume(task, clients, state)"
            )
        return self.models[self.rounds_done].clone()


def save(state: State, path: Path | str) -> None:
    """Write a state, replacing the file in one step. A name without suffix is taken as it is.

    Raises
    ------
    ValueError
        If there is a file that is no state, or that has forgotten what this state has not; it stays
        as it is.
    paths.CannotWrite
        If the disk is full or the folder cannot be written; an old file stays as it is, and the
        space is free again.
    """
    refuse_stale(state.history, path)
    path = Path(path)
    content = _content(state)
    content["digests"] = _digests(content)
    temporary = path.with_name(f".{path.name}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(temporary, "wb") as file:
            np.savez(file, **content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except OSError as error:
        raise paths.CannotWrite(error.errno, error.strerror or str(error), str(path)) from error
    finally:
        with contextlib.suppress(OSError):  # it is there only after an error
            temporary.unlink(missing_ok=True)
    if hasattr(os, "O_DIRECTORY"):  # the rename itself must survive a power cut, too
        folder = os.open(path.parent, os.O_DIRECTORY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def refuse_stale(history: History, path: Path | str) -> None:
    """Make sure that `history` may replace what the file `path` holds.

    Raises
    ------
    ValueError
        If the file is no state, or has forgotten what `history` has not.
    """
    try:
        held = _forgotten(_entries(path, ("forgotten",)))
    except FileNotFoundError:
        return
    except Exception as error:  # as in `load`
        raise ValueError(
            f"{str(path)!r} exists and is not a state, so it is not replaced; name another file or "
            f"remove it ({error})"
        ) from error
    known = sorted(
        (item for item in held if not {item, (item[0], None)} & history.forgotten), key=str
    )
    if known:
        raise ValueError(
            f"{str(path)!r} holds a state that has forgotten (client, sample)={known[0]} "
            f"({len(known)} in all), which this state has not; go on from the file's state, or "
            "name another file"
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
        return _state(_entries(path))
    except FileNotFoundError:
        raise
    except Exception as error:
        # A damaged file fails in zipfile, zlib, numpy or torch, each in ways of its own.
        raise ValueError(f"{str(path)!r} is not a state that can be read: {error}") from error


def _entries(path: Path | str, names: Collection[str] | None = None) -> dict[str, np.ndarray]:
    """Return entries of a state's file, those named or all, refused unless their digests agree."""
    wanted = None if names is None else {*names, "digests"}
    # Its entries are stored, not compressed: they cannot take more than the file.
    found = npzfiles.read_npz(path, names=wanted, largest=Path(path).stat().st_size)
    if "digests" not in found:
        raise ValueError(f"it has no digests; {_ANEW}")
    said = dict(line.split(" ", 1)[::-1] for line in found.pop("digests").tolist())
    parts = said.keys() if names is None else names
    if missing := sorted(set(parts) - found.keys()):
        raise ValueError(f"it lacks {', '.join(missing)}")
    for name, values in found.items():
        if said.get(name) != _digest(values):
            raise ValueError(f"{name} is not what its digest says: this part was changed alone")
    return found


def _digests(content: Mapping[str, np.ndarray]) -> np.ndarray:
    return np.array([f"{_digest(content[name])} {name}" for name in sorted(content)])


def _digest(values: np.ndarray) -> str:
    """Return the sha256 of an array's type, shape and numbers."""
    head = f"{values.dtype.str} {values.shape} ".encode()
    return hashlib.sha256(head + np.ascontiguousarray(values).tobytes()).hexdigest()


def _content(state: State) -> dict[str, np.ndarray]:
    """Return the entries of a state's file."""
    history = state.history
    forgotten = sorted((k, -1 if sample is None else sample) for k, sample in history.forgotten)
    numbers = [state.rate, state.every, state.owed, *astuple(state.fisher)]
    entries = np.array(state.ledger.entries, dtype=np.float64)
    held = history.held
    return {
        "status": np.array(state.status),
        "method": np.array(state.method),
        "clients": history.clients.astype(np.int32),
        "batches": history.batches.astype(np.int32),
        "sizes": history.samples_per_client,
        "forgotten": np.array(forgotten, dtype=np.int64).reshape(-1, 2),
        "rounds": np.array(sorted(state.models), dtype=np.int64),
        "numbers": np.array(numbers),
        "ledger": entries.reshape(-1, len(Entry._fields)),
        **({} if held is None else {"entered": held.entered, "left": held.left}),
        **{f"model_{r}": model.numpy() for r, model in state.models.items()},
    }


def _state(file: Mapping[str, np.ndarray]) -> State:
    """Return the state that a file's entries describe, refused unless they fit together."""
    method = checks.choice("method", str(file["method"]), METHODS)
    rate, every, owed, *fisher = file["numbers"].tolist()
    held = None
    if "entered" in file:
        held = Held.between(file["entered"], file["left"], file["sizes"], len(file["clients"]))
    history = History.of(file["clients"], file["batches"], file["sizes"], _forgotten(file), held)
    models = {int(r): torch.from_numpy(file[f"model_{r}"]) for r in file["rounds"]}
    checks.real("rate", rate, above=0)
    every = checks.integer("every", every, 1)
    owed = checks.integer("owed", owed, 0, history.rounds)
    _check_models(models, history.rounds)
    entries = tuple(Entry(*map(int, row[:-1]), float(row[-1])) for row in file["ledger"])
    ledger = Ledger(history.clients_per_round, history.local_steps, len(models[0]), entries)
    state = State(history, rate, models, every, ledger, method, owed, Fisher(*fisher))
    status = str(file["status"])
    if state.status != status:
        raise ValueError(f"it says that it is {status!r}, but its models make it {state.status!r}")
    _check_agreement(state)
    return state


def _check_agreement(state: State) -> None:
    """Refuse a state whose ledger contradicts what is forgotten, owed or recomputed."""
    entries = state.ledger.entries
    if any(entry.requests < 1 or entry.rounds < 0 for entry in entries):
        raise ValueError("its ledger holds an entry without requests, or with rounds below 0")
    if entries and not state.history.forgotten:
        asked = sum(entry.requests for entry in entries)
        raise ValueError(f"its ledger holds {asked} requests, but nothing is forgotten")
    served = [entry for entry in entries if entry.start >= 0]
    owed = max((entry.scratch for entry in served), default=0)
    if state.owed != owed:
        raise ValueError(f"its ledger says that {owed} rounds are owed; owed says {state.owed}")
    if served:
        stand = served[-1].start + served[-1].rounds
        if stand != min(state.rounds_done, owed):
            raise ValueError(
                f"its ledger says that {stand} of {owed} rounds stand; its models say "
                f"{state.rounds_done}"
            )
    off = [r for r in state.models if r % state.every and r != state.rounds_done]
    if off:
        raise ValueError(f"it keeps every {state.every}th model and the last, but holds {off}")


def _check_models(models: Mapping[int, Tensor], rounds: int) -> None:
    """Refuse models of other rounds than those of the history, or that are no models at all."""
    if min(models) != 0 or max(models) > rounds:
        raise ValueError(
            f"models stand before rounds {sorted(models)}; they must be 0 and others up to {rounds}"
        )
    size = len(models[0])
    for model in models.values():
        if model.shape != (size,) or model.dtype != torch.float32:
            raise ValueError("the models must be float32 vectors of one length")
        if not torch.isfinite(model).all():
            raise ValueError("the models must be finite")


def _forgotten(file: Mapping[str, np.ndarray]) -> frozenset[Target]:
    return frozenset((int(k), None if s < 0 else int(s)) for k, s in file["forgotten"])
