"""The state of a run that can forget, and its file.

*Nothing forgotten comes back, and nothing dirty is called clean.* A state is "pending" from the
moment at which a request took models away until `learning.resume` has recomputed them, and its
model is refused until then. One digest ties its parts together: history, models, settings, the
order of the data, and what is forgotten. A state whose parts were changed, or come from two states,
is neither trained on nor saved. A file is replaced in one step (temporary name beside it, fsync,
rename, fsync of the folder), under a lock, and only by a state that has forgotten all that the file
has. Digests tell slips, not forgeries.

=============== ===================  ============================================================
entry of a file shape, type          meaning
=============== ===================  ============================================================
about           text                 json of the settings, what is forgotten, the log, the digest
clients         (R, K) int32         clients of the slots
batches         (R, K, E, b) int32   sample numbers of the mini-batches
sizes           (M,) int64           samples of each client at the start
data            (sum N_k,) uint64    digest of each sample, 0 for a forgotten one
model_<round>   (P,) float32         the model before that round
=============== ===================  ============================================================
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import astuple, dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from sflkit import checks, paths
from sflkit.fats.forgetting import EXACT
from sflkit.fats.history import History
from sflkit.fats.methods import METHODS
from sflkit.fats.sgd import SGD, Fisher

_PLAIN = ("rate", "every", "method", "owed")  # parts that json holds as they are
_MIXED = (
    "the state's parts do not belong together: a model, the history or a setting was changed, or "
    "taken from another state; go on from a state as `learn`, `request`, `resume` or `load` "
    "returned it"
)


class PendingRequestError(RuntimeError):
    """A model was asked for that a request has taken away and that is not recomputed yet."""


class Cost(NamedTuple):
    """What rounds cost. Source: FATS, Sections 5.3.1 and 6.1.3.

    Attributes
    ----------
    rounds, steps : int
        R, and T = R E (the paper's unlearning time).
    client_rounds : int
        K R, times that a slot received the global model and sent its own.
    bytes : int
        8 P K R: 4 bytes per parameter, client-round and way.
    """

    rounds: int
    steps: int
    client_rounds: int
    bytes: int


class Entry(NamedTuple):
    """One request, or several served together.

    Attributes
    ----------
    requests : int
        Samples and clients to forget.
    rule : str
        The rule that repaired the history, a name in `forgetting.RULES`. Where no rule is needed
        (clients, methods that train from scratch) it is "exact", as they are.
    first : int
        Round of the first use, -1 if no round that had run is affected.
    start : int
        Round that recomputing starts with, that of the nearest stored model at or before `first`;
        -1 if nothing is recomputed.
    scratch : int
        Rounds that retraining from scratch runs, if it is served to its end.
    rounds : int
        Rounds recomputed until now. One counts with all its slots, as only global models are
        stored. What a killed process had recomputed but not saved is not counted.
    seconds : float
        Seconds that they took, without evaluation.
    """

    requests: int
    rule: str
    first: int
    start: int
    scratch: int
    rounds: int = 0
    seconds: float = 0.0


@dataclass(frozen=True, eq=False, repr=False)
class State:
    """A run of learning: what has to be kept so that it can go on and forget.

    It never changes: the functions of this module return new ones. One that was put together
    otherwise has no right digest and is refused.

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
    method : str
        A name in `methods.METHODS`.
    sgd, fisher : SGD, Fisher
        The local steps of all training but FR2's retraining, and of that.
    owed : int
        Rounds that had run when a request came; those after `rounds_done` must be recomputed.
    log : tuple of Entry
        All requests, in order.
    data : uint64 array (sum N_k,), optional
        Digest of each sample that the state is trained on, 0 for a forgotten one; None before the
        first training.
    digests : mapping from int to str
        sha256 of each model, taken when it was made.
    digest : str
        sha256 of all other parts and of `digests`.
    """

    history: History
    rate: float
    models: Mapping[int, Tensor]
    every: int = 1
    method: str = "fats"
    sgd: SGD = field(default_factory=SGD)
    fisher: Fisher = field(default_factory=Fisher)
    owed: int = 0
    log: tuple[Entry, ...] = ()
    data: np.ndarray | None = None
    digests: Mapping[int, str] = field(default_factory=dict)
    digest: str = ""

    def __repr__(self) -> str:
        return (
            f"State({self.status}, rules={self.rules}, exact={self.exact}, method={self.method!r}, "
            f"rounds_done={self.rounds_done}, rate={self.rate}, every={self.every}, "
            f"{self.history!r})"
        )

    @property
    def rules(self) -> tuple[str, ...]:
        """The rule by which each request was served."""
        return tuple(entry.rule for entry in self.log)

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

    @property
    def recomputed(self) -> Cost:
        """Cost of all requests so far."""
        return self._cost(sum(entry.rounds for entry in self.log))

    @property
    def scratch(self) -> Cost:
        """Cost of retraining from scratch (FRS), if each entry were served to its end."""
        return self._cost(sum(entry.scratch for entry in self.log))

    @property
    def seconds(self) -> float:
        """Seconds of all recomputed rounds."""
        return sum(entry.seconds for entry in self.log)

    def check(self) -> None:
        """Raise ValueError unless the parts are those that the digest was taken of."""
        found = {r: sha256(model.numpy()) for r, model in self.models.items()}
        if found != self.digests or self.digest != _digest(self, fixed_digest(self)):
            raise ValueError(_MIXED)

    def _cost(self, rounds: int) -> Cost:
        slots = self.history.clients_per_round * rounds
        steps = self.history.local_steps * rounds
        return Cost(rounds, steps, slots, 8 * len(self.models[0]) * slots)


def save(state: State, path: Path | str) -> None:
    """Write a state, replacing the file in one step. A name without suffix is taken as it is.

    A link is followed, and the file keeps its permissions. It is an npz without pickled objects:
    `about` is a json of the settings, what is forgotten, the log and the digest; the arrays are
    `clients`, `batches`, `sizes`, `data` and `model_<round>`.

    Raises
    ------
    ValueError
        If the state's parts do not belong together, or the file holds no state, or one that has
        forgotten what this one has not, or that is further on. The file stays as it is.
    paths.CannotWrite
        If the disk is full or the folder cannot be written; an old file stays as it is, and the
        space is free again.
    """
    content = _content(checks.instance("state", state, State))
    _state(content)  # copies that `load` will take: what another thread writes to does not count
    path = Path(os.path.realpath(path))
    with paths.lock(path, folder=path.parent):
        check_replaces(state, path)
        paths.write_atomic(path, lambda file: np.savez(file, **content), durable=True)


def load(path: Path | str) -> State:
    """Read a state that `save` wrote; look at its `status`.

    Raises
    ------
    FileNotFoundError
        If there is none.
    ValueError
        If the file is no state, or was changed.
    """
    try:
        paths.check_regular(path)  # reading a pipe would wait for ever
        with np.load(path, allow_pickle=False) as file:
            if any(entry.compress_type for entry in file.zip.infolist()):
                raise ValueError("its entries are compressed, which `save` does not do")
            return _state(dict(file))
    except FileNotFoundError:
        raise
    except Exception as error:  # damage shows in numpy, json or torch, each in ways of its own
        raise ValueError(f"{str(path)!r} is not a state that can be read: {error}") from error


def check_replaces(state: State, path: Path) -> None:
    """Refuse to replace a file that holds no state, or one that `state` does not go on from."""
    try:
        found = load(path)
    except FileNotFoundError:
        return
    except ValueError as error:
        raise ValueError(
            f"{str(path)!r} exists and is not a state, so it is not replaced; name another file or "
            f"remove it ({error})"
        ) from error
    gone = state.history.forgotten
    known = [item for item in found.history.forgotten if not {item, (item[0], None)} & gone]
    if known:
        raise ValueError(
            f"{str(path)!r} holds a state that has forgotten (client, sample)="
            f"{min(known, key=str)} ({len(known)} in all), which this state has not; go on from "
            "the file's state, or name another file"
        )
    same = gone and found.history.forgotten == gone
    if same and found.rounds_done > state.rounds_done:
        raise ValueError(
            f"{str(path)!r} holds a state that has gone on since this one: {found.rounds_done} "
            "rounds done; load it and go on from there, or name another file"
        )


def _content(state: State) -> dict[str, np.ndarray]:
    """Return the entries of a state's file, as copies."""
    history = state.history
    about = {name: getattr(state, name) for name in (*_PLAIN, "log", "digest")}
    about |= {"sgd": astuple(state.sgd), "fisher": astuple(state.fisher)}
    about |= {"forgotten": sorted(history.forgotten, key=str)}
    return {
        "about": np.array(json.dumps(about)),
        "clients": history.clients.astype(np.int32),
        "batches": history.batches.astype(np.int32),
        "sizes": history.samples_per_client.copy(),
        **({} if state.data is None else {"data": state.data.copy()}),
        **{f"model_{r}": model.numpy().copy() for r, model in state.models.items()},
    }


def _state(file: Mapping[str, np.ndarray]) -> State:
    """Return the state that a file's entries describe, refused unless its digest is theirs."""
    if "about" not in file:
        raise ValueError(
            "it has no digest of the whole; states of earlier versions cannot be checked: move it "
            "away and make it anew, with `learn` and then `forget` for what it has forgotten"
        )
    about = json.loads(str(file["about"]))
    history = History(
        *(file[name].astype(np.int64) for name in ("clients", "batches", "sizes")),
        frozenset(map(tuple, about["forgotten"])),
    )
    state = State(
        history,
        models={int(n[6:]): torch.from_numpy(file[n]) for n in file if n.startswith("model_")},
        sgd=SGD(*about["sgd"]),
        fisher=Fisher(*about["fisher"]),
        log=tuple(Entry(*entry) for entry in about["log"]),
        data=file.get("data"),
        **{name: about[name] for name in _PLAIN},
    )
    state = sealed(state)
    if state.digest != about["digest"]:
        raise ValueError(_MIXED)
    checks.choice("method", state.method, METHODS)
    return state


def sealed(state: State, fixed: str | None = None, **changes: Any) -> State:
    """Return the state with changes, and with the digests of what it then consists of.

    Models that were there keep the digest of when they were made. `fixed` is `fixed_digest`'s."""
    state = replace(state, **changes)
    models = dict(state.models)
    digests = {r: state.digests.get(r) or sha256(model.numpy()) for r, model in models.items()}
    state = replace(state, models=models, digests=digests)
    return replace(state, digest=_digest(state, fixed or fixed_digest(state)))


def _digest(state: State, fixed: str) -> str:
    """Return the digest of a state's parts; `fixed` is that of `fixed_digest`."""
    settings = (state.rate, state.every, state.method, astuple(state.sgd), astuple(state.fisher))
    parts = (fixed, settings, state.owed, [*map(tuple, state.log)], sorted(state.digests.items()))
    return hashlib.sha256(repr(parts).encode()).hexdigest()


def fixed_digest(state: State) -> str:
    """Return the digest of what no round changes: history, what is forgotten, and the data."""
    history = state.history
    drawn = (history.clients, history.batches, history.samples_per_client)
    parts = [sha256(values) for values in drawn]
    parts += [] if state.data is None else [sha256(state.data)]
    return repr((sorted(history.forgotten, key=str), parts))


def sha256(values: np.ndarray) -> str:
    """Return the sha256 of an array's type, shape and numbers."""
    head = f"{values.dtype.str} {values.shape} ".encode()
    return hashlib.sha256(head + np.ascontiguousarray(values).tobytes()).hexdigest()
