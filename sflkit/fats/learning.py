"""Learning that can forget exactly: FATS on a sampling history, and the baselines FRS and FR2
behind the same functions.

    state = learn(task, clients, history, rate=0.1, start=task.init(0))
    state = forget(task, clients, state, [(3, 17), (5, None)], rng)  # sample 17 of client 3, and
    state.params, state.recomputed.steps                             # client 5

Source: FATS, Algorithms 1-3, Sections 5.3 and 6.1.4. The history says who trains on what and how it
forgets (`sflkit.fats.history`, `sflkit.fats.forgetting`); here it is trained on. What a method does
differently is said in `sflkit.fats.methods`.

Between rounds nothing but the global model is left of a round, so that one model before each round,
or before every k-th, is enough to go back: a round is replayed from its model and its mini-batches,
which gives the same bits (same machine, same number of threads). The paper's per-step local models,
T of them, are not needed (ERRATA 18 disappears with them): a hit in the middle of a round replays
that round from its start, with all its slots, which adds at most E - 1 steps.

With a `path`, the pending state (`sflkit.fats.state`) is on the disk before anything is recomputed,
and models that hold forgotten data are gone from there.

=========== ==========  ===========  ===============================================================
code        symbol      shape        meaning
=========== ==========  ===========  ===============================================================
history     P, B        (R, K, ...)  clients and mini-batches of all rounds, also of those that have
                                     not run yet
models      theta       (P,) each    round -> global model before that round, float32 on the CPU; 0
                                     is the start
every       k           scalar       a model is kept before rounds 0, k, 2k, ..., and the last one
rounds_done r           scalar       rounds that have run
owed        r_u         scalar       rounds that had run when a request came; pending while
                                     rounds_done < owed
rate        eta         scalar       local learning rate
clients     D_k         M pairs      (x, y) of each client, tensors or arrays; anything for a client
                                     that is forgotten
=========== ==========  ===========  ===============================================================
"""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from sflkit import checks, federated, machine
from sflkit.config import OneOf, Positive, checked
from sflkit.fats import forgetting
from sflkit.fats.clients import identified, table
from sflkit.fats.history import History, pair
from sflkit.fats.methods import LEARNS_AS, METHODS
from sflkit.fats.sgd import SGD, Fisher
from sflkit.fats.state import Entry, State, check_replaces, fixed_digest, save, sealed, sha256

MEMORY_BYTES = 2**30  # that the kept models of a run take, about, unless it says `every`


@checked
def learn(
    task: federated.Task,
    clients: Iterable,
    history: History,
    rate: Positive,
    *,
    start: ArrayLike | Tensor,
    method: Annotated[str, OneOf(METHODS)] = "fats",
    every: int | None = None,
    sgd: SGD | None = None,
    fisher: Fisher | None = None,
    rounds: int | None = None,
    path: Path | str | None = None,
    on_round: Callable[[State], Any] | None = None,
) -> State:
    """Train on a history.

    Source: FATS, Algorithm 1; for the baselines FedAvg, on a history of `methods.draw_fedavg`.

    Parameters
    ----------
    task : Task
    clients : sequence of (x, y)
        One per client, with as many samples as the history says; tensors or arrays. They are
        copied: what becomes of them during the training changes nothing.
    history : History
    rate : float
        eta > 0.
    start : tensor or array (P,)
        The first model, `task.init(seed)` for instance.
    method : {"fats", "frs", "fr2"} or another name in `methods.METHODS`
        FATS averages the K slots' models with equal weights (line 22), FedAvg by the clients'
        numbers of samples.
    every : int, optional
        k >= 1, a model is kept before every k-th round; by default the least k whose models fit
        into `MEMORY_BYTES`.
    sgd : SGD, optional
        The local steps; by default those that the paper prints.
    fisher : Fisher, optional
        FR2's settings.
    rounds : int, optional
        Rounds to train, all of the history by default; `resume` trains the rest.
    path, on_round
        See `resume`.

    Raises
    ------
    ValueError
        For data that do not fit the history or the task, a value out of range, or a `path` whose
        file holds a state that has forgotten something.
    FloatingPointError
        If the model stops being finite; the message names the round.
    """
    rounds = None if rounds is None else checks.integer("rounds", rounds, 0, history.rounds)
    least = max(1, -(-4 * task.n_params * history.rounds // MEMORY_BYTES))
    every = least if every is None else checks.integer("every", every, 1)
    state = State(
        *(history, rate, {0: _first_model(task, start)}, every, method),
        *(SGD() if sgd is None else checks.instance("sgd", sgd, SGD), fisher or Fisher()),
    )
    return resume(task, clients, sealed(state), until=rounds, path=path, on_round=on_round)


def forget(
    task: federated.Task,
    clients: Iterable,
    state: State,
    requests: Iterable,
    rng: np.random.Generator,
    rule: str = "exact",
    *,
    path: Path | str | None = None,
    on_round: Callable[[State], Any] | None = None,
) -> State:
    """Forget samples and clients, all at once, and recompute what they touched.

    This is `request`, then `resume`. Source: FATS, Algorithms 2 and 3. For a stream of requests
    call it once for each. The model afterwards is, bit for bit, the one that `learn` makes from the
    new history.

    Parameters
    ----------
    task, clients
        As in `learn`.
    state : State
    requests, rng, rule
        See `request`.
    path, on_round
        See `resume`. With a path, the pending state replaces the old file before recomputation
        starts, and the clean one replaces it at the end: a process killed in between leaves a
        pending state. Killed before the first, it leaves the old state: a request is accepted once
        it is on the disk. Without a path no file changes: one that `learn` wrote still holds models
        made with what is forgotten here, until a later state is saved to it.

    Raises
    ------
    ValueError
        As `request` and `resume`; a refused request leaves state and file untouched.
    FloatingPointError
        As `resume`; the file then holds the pending state.
    """
    asked = request(state, requests, rng, rule)
    if asked is state:
        return state
    until = max(asked.owed, asked.rounds_done)
    return resume(task, clients, asked, until=until, path=path, on_round=on_round)


def request(
    state: State, requests: Iterable, rng: np.random.Generator, rule: str = "exact"
) -> State:
    """Accept requests without training.

    The history forgets, and models that hold forgotten data are dropped.

    Parameters
    ----------
    state : State
        A pending state takes further requests, too.
    requests : list of (client, sample), or (client, None) for a whole client
        All are served together; an empty list changes nothing. They come after the `rounds_done`
        rounds that have run (a request within a round waits for its end): later uses are repaired
        in the history and cost nothing. A sample of a client that leaves at the same time goes with
        it.
    rng : numpy.random.Generator
        For what the history draws anew; untouched by requests that are refused.
    rule : {"exact", "printed", "minimal", "claim1"} or another name in `forgetting.RULES`
        See `forgetting.forget_sample`; FRS and FR2 draw everything anew by any rule.

    Raises
    ------
    ValueError
        See `forgetting.forget_sample` and `forget_client`; for FRS and FR2 also when fewer clients
        than K would be left.
    """
    checks.choice("rule", rule, forgetting.RULES)
    checks.generator(rng)
    checks.instance("state", state, State).check()
    asked = checks.instance("requests", requests, Iterable)
    targets = [pair("requests", item) for item in asked]
    if not targets:
        return state
    old, done = state.history, state.rounds_done
    method = METHODS[state.method].build()
    method.check(old.without(targets))
    steps = done * old.local_steps
    history, step = forgetting.forget_targets(old, targets, rng, rule, steps_done=steps)
    first = -1 if step is None else step // old.local_steps
    restart = 0 if method.from_scratch else _first_change(old, history, done)
    history = method.repaired(history, rng)
    samples = [s for _, s in history.forgotten - old.forgotten if s is not None]
    rule = rule if samples and not method.from_scratch else "exact"
    start = max((r for r in state.models if r <= restart), default=-1)
    if start == done:  # all rounds that have run stand
        start = -1
    owed = max(state.owed, done)
    data = state.data if state.data is None else np.where(history.kept, state.data, np.uint64(0))
    entry = Entry(len(targets), rule, first, start, owed)
    return sealed(
        state,
        history=history,
        log=(*state.log, entry),
        data=data,
        models={r: model for r, model in state.models.items() if start < 0 or r <= start},
        owed=state.owed if start < 0 else owed,
    )


def resume(
    task: federated.Task,
    clients: Iterable,
    state: State,
    *,
    until: int | None = None,
    path: Path | str | None = None,
    on_round: Callable[[State], Any] | None = None,
) -> State:
    """Train on: what a pending request still needs, or the rounds that have not run.

    Parameters
    ----------
    task, clients
        As in `learn`.
    state : State
    until : int, optional
        Rounds that shall have run at the end, in [rounds_done, R]; by default `owed` for a pending
        state, else R.
    path : path, optional
        File that the state is saved to at the end (`save`). A state that has forgotten something is
        also saved before the first round: what the file held before must not outlive a crash.
    on_round : callable, optional
        Called after each round with the state then, whose models[rounds_done] is the model, also
        while it is pending; it may `save` it.

    Raises
    ------
    ValueError
        For data that do not fit the history or the task, or are not those that the state was
        trained on; for a value out of range, or a file that `save` would not replace; if a model
        was written to meanwhile.
    FloatingPointError
        If the model stops being finite; the message names the round.
    """
    checks.instance("state", state, State).check()
    own, done = replace(state, history=copy.deepcopy(state.history)), state.rounds_done
    data = table(task, clients, own.history)
    if until is None:
        until = state.owed if state.status == "pending" else own.history.rounds
    until = checks.integer("until", until, done, own.history.rounds)
    state = sealed(state, data=identified(data, own.history, state.data))
    if path is not None:
        if own.history.forgotten and until > done:
            save(state, path)
        else:
            check_replaces(state, Path(path))  # before the work, not after it
    params = state.models[done].clone()
    if sha256(params.numpy()) != state.digests[done]:  # another thread was faster than the check
        raise ValueError(f"models[{done}] was written to")
    params = params.to(machine.device())
    fixed = fixed_digest(state)
    for r in range(done, until):
        began = time.perf_counter()
        params = _round(task, data, own, r, params)
        state = _advanced(state, params, time.perf_counter() - began, fixed)
        if on_round is not None:
            on_round(replace(state, models={**state.models}, digests={**state.digests}))
    if path is not None:
        save(state, path)
    else:
        state.check()  # on_round or another thread may have written to a model
    return state


def served_by(state: State, method: str, fisher: Fisher | None = None) -> State:
    """Return the state with another method for its requests, which learns alike until then.

    Raises
    ------
    ValueError
        If something is forgotten already, or the method learns otherwise than the state has.
    """
    checks.instance("state", state, State).check()
    checks.choice("method", method, METHODS)
    ways = {LEARNS_AS.get(name, name) for name in (method, state.method)}
    if state.history.forgotten or len(ways) > 1:
        raise ValueError(
            f"method={method!r} cannot take over a state that {state.method!r} has learned or that "
            "has forgotten something"
        )
    return sealed(state, method=method, fisher=fisher or state.fisher)


def _first_change(old: History, new: History, done: int) -> int:
    """Return the first of `done` rounds that is another one now and must run again, -1 for none.

    It is that of the first use, unless a rule of one's own has changed rounds before."""
    changed = (old.clients != new.clients).any(axis=1)
    changed |= (old.batches != new.batches).any(axis=(1, 2, 3))
    return int(changed[:done].argmax()) if changed[:done].any() else -1


def _first_model(task: federated.Task, start: Any) -> Tensor:
    """Return the first model as a vector of its own: the caller may go on writing to `start`."""
    first = checks.shape("start", task.vectors("start", start), (task.n_params,))
    return first.to("cpu", torch.float32, copy=True)


def _round(
    task: federated.Task, data: tuple[Tensor, Tensor], state: State, r: int, params: Tensor
) -> Tensor:
    """Run round r from `params` and return the next global model; nobody else has this `state`."""
    history, method = state.history, METHODS[state.method].build()
    rows = history.offsets[history.clients[r]][:, None, None] + history.batches[r]
    models = method.train(task, params, data, rows, state)
    # For equal weights, too, the product with the weights is four times as fast as a mean.
    params = federated.weighted_average(models, method.weights(history, r))
    # The sum also overflows, but far beyond any sensible model.
    if not bool(torch.isfinite(params.sum())):
        raise FloatingPointError(
            f"the global model is no longer finite after round {r}; lower rate={state.rate}"
        )
    return params


def _advanced(state: State, params: Tensor, seconds: float, fixed: str) -> State:
    """Return the state after one more round, which took so many seconds and ended in `params`."""
    done, log = state.rounds_done, list(state.log)
    if done < state.owed:  # booked on the last entry that asked for any rounds
        i = max(i for i, entry in enumerate(log) if entry.start >= 0)
        entry = log[i]
        log[i] = entry._replace(rounds=entry.rounds + 1, seconds=entry.seconds + seconds)
    # The last model may lie between those that are kept.
    models = {r: model for r, model in state.models.items() if r % state.every == 0}
    models[done + 1] = params.detach().to("cpu", copy=True)
    return sealed(state, fixed, models=models, log=tuple(log))
