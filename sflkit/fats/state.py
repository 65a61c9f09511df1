"""The state of a run that can forget, and its file: one npz without pickled objects, written so
that no crash leaves half of one.

A file is replaced in one step (temporary name beside it, fsync, rename, fsync of the folder). The
status stands in it: a process that was killed while it recomputed leaves a "pending" state, whose
model is refused until `unlearning.resume` has finished it. What a file has forgotten stays so: a
state that still knows it may not replace the file.

Several processes may forget on one file. Each looks at it and replaces it while it holds the lock
of its folder, and only by a state that descends from the file's: every request leaves a mark in
`served`, and the file's marks must be the first of the state's. Whoever was slower is refused,
loads the file and asks again. A link is followed, and a file with a second name is refused.

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
sgd             (3,) text            only where local steps are not those that the paper prints:
                                     reduction, momentum, weight decay
ledger          (n, 6) float64       the entries
served          (n, 2) text          rule and mark of each request, see `Served`
drawn           text                 mark of the draws that the models were trained on
data            (sum N_k,) uint64    mark of each sample, 0 for a forgotten one
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
import fcntl
import glob
import hashlib
import os
import secrets
import stat
from collections.abc import Collection, Iterator, Mapping
from dataclasses import astuple, dataclass, field
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from sflkit import checks, npzfiles, paths
from sflkit.fats.baselines import Fisher
from sflkit.fats.forgetting import EXACT
from sflkit.fats.held import Held
from sflkit.fats.history import History, Target
from sflkit.fats.ledger import Entry, Ledger
from sflkit.fats.methods import METHODS
from sflkit.fats.sgd import SGD

_ANEW = (
    "states from before that cannot be checked; move it away and make it anew, with `learn` and "
    "then `forget` for what it has forgotten"
)


class PendingRequestError(RuntimeError):
    """A model was asked for that a request has taken away and that is not recomputed yet."""


class Served(NamedTuple):
    """What a state remembers of a request.

    Attributes
    ----------
    rule : str
        The rule that repaired the history: a name in `forgetting.RULES`, or "adopted" after
        `unlearning.adopt`. Where no rule is needed (clients, methods that train from scratch) it is
        "exact", as they are.
    mark : str
        sha256 of the mark before and of the history after the request, so that two processes that
        serve the same request with other draws leave different ones.
    """

    rule: str
    mark: str


@dataclass(frozen=True, eq=False, repr=False)
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
    served : tuple of Served
        The rule and the mark of each request, in order.
    drawn : str
        `draws_mark` of the rounds that the models were trained on.
    data : uint64 array (sum N_k,), optional
        Mark of each sample of the data that the state is trained on, 0 for a forgotten one; None
        before the first training.
    sgd : SGD
        The local steps of all training but FR2's retraining.
    """

    history: History
    rate: float
    models: Mapping[int, Tensor] = field(repr=False)
    every: int
    ledger: Ledger = field(repr=False)
    method: str = "fats"
    owed: int = 0
    fisher: Fisher = field(default_factory=Fisher)
    served: tuple[Served, ...] = ()
    drawn: str = ""
    data: np.ndarray | None = None
    sgd: SGD = field(default_factory=SGD)

    def __repr__(self) -> str:
        return (
            f"State({self.status}, rules={self.rules}, exact={self.exact}, method={self.method!r}, "
            f"rounds_done={self.rounds_done}, rate={self.rate}, every={self.every}, "
            f"{self.history!r})"
        )

    @property
    def rules(self) -> tuple[str, ...]:
        """The rule by which each request was served."""
        return tuple(each.rule for each in self.served)

    @property
    def exact(self) -> bool:
        """Whether all of these are proved to be exact (`forgetting.EXACT`); "printed" is not."""
        return EXACT.issuperset(self.rules)

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
        ValueError
            As `check`.
        """
        self.check()
        if self.status == "pending":
            raise PendingRequestError(
                f"a request is pending: {self.rounds_done} of {self.owed} rounds stand, the others "
                "must be recomputed without what was forgotten; call resume(task, clients, state)"
            )
        return self.models[self.rounds_done].clone()

    def check(self) -> None:
        """Refuse a state whose models were not made by its history.

        Raises
        ------
        ValueError
            If the history was replaced by one with other draws in rounds that have run, or uses
            what it has forgotten.
        """
        self.history.check_forgotten()
        if self.drawn != draws_mark(self.history, self.rounds_done):
            raise ValueError(
                "the state's models were trained on another history; a history that forgets by "
                "other means is taken over by `unlearning.adopt`"
            )


def draws_mark(history: History, rounds: int, first: int = 0, mark: str = "") -> str:
    """Return the sha256 of the draws of rounds first..rounds-1, which goes on from `mark`."""
    for r in range(first, rounds):
        draws = (history.clients[r].astype(np.int32), history.batches[r].astype(np.int32))
        mark = hashlib.sha256(
            mark.encode() + b"".join(part.tobytes() for part in draws)
        ).hexdigest()
    return mark


def save(state: State, path: Path | str) -> None:
    """Write a state, replacing the file in one step. A name without suffix is taken as it is.

    A link is followed, and the file keeps its permissions.

    Raises
    ------
    ValueError
        If the state contradicts itself, or `refuse_stale` would not let it replace the file, which
        stays as it is.
    paths.CannotWrite
        If the disk is full or the folder cannot be written; an old file stays as it is, and the
        space is free again.
    """
    checks.instance("state", state, State).check()
    _check_agreement(state)
    path = Path(os.path.realpath(path))
    content = _content(state)
    content["digests"] = _digests(content)
    with _alone(path):
        refuse_stale(state, path)
        mode = stat.S_IMODE(path.stat().st_mode) if path.exists() else None
        for left in path.parent.glob(f".{glob.escape(path.name)}.*.tmp"):
            left.unlink()  # of a killed process: it may hold what is forgotten
        temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}.tmp")
        try:
            with open(temporary, "xb", opener=paths.new_file(mode)) as file:
                np.savez(file, **content)
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, path)
        finally:
            with contextlib.suppress(OSError):  # it is there only after an error
                temporary.unlink(missing_ok=True)


@contextlib.contextmanager
def _alone(path: Path) -> Iterator[None]:
    """Hold the lock of a file's folder, and make the folder's changes permanent at the end.

    The lock is on the folder itself, so that nothing is left there. Its owner's death drops it."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            fcntl.flock(folder, fcntl.LOCK_EX)
            yield
            os.fsync(folder)  # the rename itself must survive a power cut, too
        finally:
            os.close(folder)
    except OSError as error:
        raise paths.CannotWrite(error.errno, error.strerror or str(error), str(path)) from error


def refuse_stale(state: State, path: Path | str) -> None:
    """Make sure that `state` may replace what the file `path` holds.

    Raises
    ------
    ValueError
        If the file is no state or has several names; if it has forgotten what `state` has not, has
        served a request that `state` does not descend from, or is further on.
    """
    with contextlib.suppress(FileNotFoundError):
        found = os.stat(path)
        if stat.S_ISREG(found.st_mode) and found.st_nlink > 1:
            raise ValueError(
                f"{str(path)!r} has {found.st_nlink} names (hard links), of which only one would "
                "be replaced: under the others what is forgotten would live on; remove them"
            )
    try:
        entries = _entries(path, ("forgotten", "served", "rounds"))
        held, served, done = _forgotten(entries), _served(entries), int(entries["rounds"].max())
    except FileNotFoundError:
        return
    except Exception as error:  # as in `load`
        raise ValueError(
            f"{str(path)!r} exists and is not a state, so it is not replaced; name another file or "
            f"remove it ({error})"
        ) from error
    forgotten = state.history.forgotten
    known = sorted((item for item in held if not {item, (item[0], None)} & forgotten), key=str)
    if known:
        raise ValueError(
            f"{str(path)!r} holds a state that has forgotten (client, sample)={known[0]} "
            f"({len(known)} in all), which this state has not; go on from the file's state, or "
            "name another file"
        )
    behind = served == state.served and served and done > state.rounds_done
    if behind or served != state.served[: len(served)]:
        raise ValueError(
            f"{str(path)!r} holds a state that has gone on since this one: {len(served)} requests "
            f"served, {done} rounds done; load it and go on from there, or name another file"
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
    about = os.stat(path)
    if not stat.S_ISREG(about.st_mode):  # reading a pipe would wait for ever
        raise ValueError("it is no regular file")
    # Its entries are stored, not compressed: they cannot take more than the file.
    found = npzfiles.read_npz(path, names=wanted, largest=about.st_size)
    if "digests" not in found:
        raise ValueError(f"it has no digests; {_ANEW}")
    said = dict(line.split(" ", 1)[::-1] for line in found.pop("digests").tolist())
    if "served" not in said:
        raise ValueError(f"it does not say how it has forgotten; {_ANEW}")
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
        "served": np.array(state.served, dtype=str).reshape(-1, len(Served._fields)),
        "drawn": np.array(state.drawn),
        **({} if state.sgd == SGD() else {"sgd": np.array(astuple(state.sgd), dtype=str)}),
        **({} if state.data is None else {"data": state.data}),
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
    state = State(
        *(history, rate, models, every, ledger, method, owed, Fisher(*fisher)),
        *(_served(file), str(file["drawn"]), _marks(file), _sgd(file)),
    )
    status = str(file["status"])
    if state.status != status:
        raise ValueError(f"it says that it is {status!r}, but its models make it {state.status!r}")
    state.check()
    _check_agreement(state)
    return state


def _sgd(file: Mapping[str, np.ndarray]) -> SGD:
    if "sgd" not in file:
        return SGD()
    reduction, momentum, weight_decay = map(str, file["sgd"])
    return SGD(reduction, float(momentum), float(weight_decay))


def _marks(file: Mapping[str, np.ndarray]) -> np.ndarray | None:
    """Return the marks of the samples, refused unless there is one for each."""
    marks = file.get("data")
    if marks is not None and (marks.dtype != np.uint64 or marks.shape != (file["sizes"].sum(),)):
        raise ValueError(f"data has shape {marks.shape}; it must hold one uint64 per sample")
    return marks


def _served(file: Mapping[str, np.ndarray]) -> tuple[Served, ...]:
    return tuple(Served(*map(str, row)) for row in file["served"])


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
    if len(entries) != len(state.served):
        raise ValueError(f"it served {len(state.served)} requests; its ledger holds {len(entries)}")
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
