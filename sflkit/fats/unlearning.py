"""Learning that can forget exactly: FATS on a sampling history, and the baselines FRS and FR2
behind the same functions.

    state = learn(task, clients, history, rate=0.1, start=task.init(0))
    state = forget(task, clients, state, [(3, 17), (5, None)], rng)  # sample 17 of client 3, and
    state.params, state.ledger.recomputed.steps                      # client 5

Source: FATS, Algorithms 1-3, Sections 5.3 and 6.1.4. The history says who trains on what and how it
forgets (`sflkit.fats.history`, `sflkit.fats.forgetting`); here it is trained on. What a method does
differently is said in `sflkit.fats.methods`.

Between rounds nothing but the global model is left of a round, so that one model before each round,
or before every k-th, is enough to go back: a round is replayed from its model and its mini-batches,
which gives the same bits (same machine, same number of threads). The paper's per-step local models,
T of them, are not needed (ERRATA 18 disappears with them): a hit in the middle of a round replays
that round from its start, with all its slots, which adds at most E - 1 steps.

A state is "clean" or "pending". It is pending from the moment at which a request took models away
until they are recomputed, and its model is refused until then. With a `path`, the pending state is
on the disk before anything is recomputed, and models that hold forgotten data are gone from there.
An older state does not bring them back: `save` refuses to replace a file by a state that has
forgotten less.

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
clients     D_k         M pairs      (x, y) of each client, tensors or arrays; None for a client
                                     that is forgotten
=========== ==========  ===========  ===============================================================
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from sflkit import checks, federated, machine
from sflkit.fats import forgetting
from sflkit.fats.baselines import Fisher
from sflkit.fats.history import History, Target, by_client, pair
from sflkit.fats.ledger import Entry, Ledger
from sflkit.fats.methods import METHODS, Local
from sflkit.fats.sgd import SGD
from sflkit.fats.state import Served, State, draws_mark, refuse_stale, save
from sflkit.federated.arrays import tensor_of
from sflkit.federated.batches import convert

MEMORY_BYTES = 2**30  # that the kept models of a run may take unless it says `every`
# The data of a client, or None for one that is forgotten.
Data = tuple[Tensor, Tensor] | None


def learn(
    task: federated.Task,
    clients: Iterable,
    history: History,
    rate: float,
    *,
    start: ArrayLike | Tensor,
    method: str = "fats",
    every: int | None = None,
    fisher: Fisher | None = None,
    sgd: SGD | None = None,
    rounds: int | None = None,
    path: Path | str | None = None,
    save_every: int | None = None,
    on_round: Callable[[State], Any] | None = None,
) -> State:
    """Train on a history.

    Source: FATS, Algorithm 1; for the baselines FedAvg, on a history of `baselines.draw_fedavg`.

    Parameters
    ----------
    task : Task
    clients : sequence of (x, y)
        One per client, with as many samples as the history says; tensors or arrays.
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
    fisher : Fisher, optional
        FR2's settings.
    sgd : SGD, optional
        The local steps of all other training; by default those that the paper prints.
    rounds : int, optional
        Rounds to train, all of the history by default; `resume` trains the rest.
    path, save_every, on_round
        See `resume`.

    Raises
    ------
    ValueError
        For data that do not fit the history or the task, a value out of range, models too large for
        `MEMORY_BYTES`, or a `path` whose file holds a state that has forgotten something.
    FloatingPointError
        If the model stops being finite; the message names the round.
    """
    rate = checks.real("rate", rate, above=0)
    checks.choice("method", method, METHODS)
    checks.instance("history", history, History)
    rounds = None if rounds is None else checks.integer("rounds", rounds, 0, history.rounds)
    first = _first_model(task, start)
    every = _spacing(task, history.rounds, every)
    ledger = Ledger(history.clients_per_round, history.local_steps, task.n_params)
    steps = dict(fisher=fisher or Fisher(), sgd=sgd or SGD())
    state = State(history, rate, {0: first}, every, ledger, method, **steps)
    return resume(
        task, clients, state, until=rounds, path=path, save_every=save_every, on_round=on_round
    )


def forget(
    task: federated.Task,
    clients: Iterable,
    state: State,
    requests: Iterable,
    rng: np.random.Generator,
    rule: str = "exact",
    *,
    path: Path | str | None = None,
    save_every: int | None = None,
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
    path, save_every, on_round
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
    save_every = None if save_every is None else checks.integer("save_every", save_every, 1)
    asked = request(state, requests, rng, rule)
    if asked.status == "pending":
        return resume(task, clients, asked, path=path, save_every=save_every, on_round=on_round)
    data = _client_data(task, clients, asked.history)
    asked = asked if asked is state else _identified(asked, data)
    if path is not None and asked is not state:
        save(asked, path)
    return asked


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
        it. Where the clients are caches (`History.held`), a sample is withheld from training: what
        was held stays.
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
    requests = _pairs(requests)
    if not requests:
        return state
    method = METHODS[state.method].build()
    samples, gone = _admitted(state, requests)
    history, first = _forgotten(state.history, samples, gone, rng, rule, state.rounds_done)
    history = method.repaired(history, rng)
    restart = 0 if method.from_scratch else first
    needed = samples and not method.from_scratch
    rule = rule if needed else "exact"
    return _booked(state, history, rule, len(requests), first, restart)


def adopt(state: State, history: History) -> State:
    """Return the state that goes on with a history which was repaired elsewhere.

    This is how a history that forgets by other means than `request` is trained on: models from the
    first round on in which the two histories differ are dropped, and the answer is pending until
    `resume` has recomputed them. With the history that `request` draws, it is the state that
    `request` returns.

    Parameters
    ----------
    state : State
        Of a method that goes back to the first use, such as "fats"; pending or clean.
    history : History
        Of the same sizes. It has forgotten all that the state's history has, and more. Where the
        state's history knows which samples had arrived (`held`), so must this one.

    Raises
    ------
    ValueError
        If the sizes differ, the history has forgotten nothing new, or not all that the state's has;
        if it lacks `held` where the state's has it, or uses what it has forgotten; if the method
        trains from scratch after every request.
    """
    checks.instance("state", state, State).check()
    checks.instance("history", history, History).check_forgotten()
    if METHODS[state.method].build().from_scratch:
        raise ValueError(
            f"method={state.method!r} trains from scratch after a request; adopt needs one that "
            "goes back to the first use"
        )
    old = state.history
    same = old.batches.shape == history.batches.shape
    if not same or not np.array_equal(old.samples_per_client, history.samples_per_client):
        raise ValueError(f"history={history!r} must be of the state's sizes, those of {old!r}")
    if old.held is not None and history.held is None:
        raise ValueError(
            "history.held is None; without it later requests would draw samples that had not "
            "arrived, which the state's history knows"
        )
    new = history.forgotten - old.forgotten
    if not new or not old.forgotten <= history.forgotten:
        raise ValueError(
            f"history has forgotten {len(history.forgotten)} targets; it must be all of the "
            f"state's {len(old.forgotten)} and at least one more"
        )
    differ = (old.clients != history.clients).any(axis=1)
    differ |= (old.batches != history.batches).any(axis=(1, 2, 3))
    changed = np.flatnonzero(differ[: state.rounds_done])
    first = int(changed[0]) if len(changed) else -1
    return _booked(state, history, "adopted", len(new), first, first)


def _booked(
    state: State, history: History, rule: str, requests: int, first: int, restart: int
) -> State:
    """Return the state with a history that has forgotten, and without models from `restart` on.

    `first` is the round of the first use that the ledger notes; -1 in both stands for none."""
    start = max((r for r in state.models if r <= restart), default=-1)
    if start == state.rounds_done:  # all rounds that have run stand
        start = -1
    owed = max(state.owed, state.rounds_done)
    entry = Entry(requests, first, start, owed, rounds=0, seconds=0.0)
    before = state.served[-1].mark if state.served else ""
    gone = sorted(history.forgotten, key=str)
    served = Served(rule, draws_mark(history, history.rounds, mark=f"{before} {gone}"))
    after = replace(
        state,
        history=history,
        ledger=state.ledger.booked(entry),
        served=(*state.served, served),
        data=None if state.data is None else np.where(_left(history), state.data, np.uint64(0)),
    )
    if start >= 0:
        models = {r: model for r, model in state.models.items() if r <= start}
        mark = draws_mark(state.history, start)  # of the draws that the models were made from
        after = replace(after, models=models, owed=owed, drawn=mark)
    after.check()  # a rule of one's own may have changed rounds that stand
    return after


def _left(history: History) -> np.ndarray:
    """Return which samples are not forgotten, bool (sum N_k,), the clients one after another."""
    sizes = history.samples_per_client
    left = np.repeat(history.samples_left > 0, sizes)
    offsets = np.cumsum(sizes) - sizes
    left[[offsets[k] + s for k, s in history.forgotten if s is not None]] = False
    return left


def resume(
    task: federated.Task,
    clients: Iterable,
    state: State,
    *,
    until: int | None = None,
    path: Path | str | None = None,
    save_every: int | None = None,
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
        File that the state is saved to at the end (`save`), and after every `save_every` rounds. A
        state that has forgotten something is also saved before the first round: what the file held
        before must not outlive a crash.
    save_every : int, optional
        >= 1.
    on_round : callable, optional
        Called after each round with the state then, whose models[rounds_done] is the model, also
        while it is pending.

    Raises
    ------
    ValueError
        For data that do not fit the history or the task, or are not those that the state was
        trained on; for a value out of range, or a file that `save` would not replace.
    FloatingPointError
        If the model stops being finite; the message names the round.
    """
    checks.instance("state", state, State).check()
    history = state.history
    done = state.rounds_done
    data = _client_data(task, clients, history)
    if until is None:
        until = state.owed if state.status == "pending" else history.rounds
    until = checks.integer("until", until, done, history.rounds)
    save_every = None if save_every is None else checks.integer("save_every", save_every, 1)
    state = _identified(state, data)
    if path is not None:
        refuse_stale(state, path)  # before the work, not after it
        if history.forgotten and until > done:
            save(state, path)
    device = machine.device()
    params = state.models[done].to(device)
    buffer = torch.empty(history.clients_per_round, task.n_params, device=device)
    for r in range(done, until):
        began = time.perf_counter()
        params = _round(task, data, state, r, params, buffer)
        state = _advanced(state, params, time.perf_counter() - began)
        if path is not None and save_every and (r + 1) % save_every == 0 and r + 1 < until:
            save(state, path)
        if on_round is not None:
            on_round(state)
    if path is not None:
        save(state, path)
    return state


def _first_model(task: federated.Task, start: Any) -> Tensor:
    """Return the first model as a vector of its own: the caller may go on writing to `start`."""
    try:
        given = tensor_of(start).detach()
        if given.is_complex():  # its imaginary part would be lost without a word
            raise TypeError
        first = given.to("cpu", torch.float32, copy=True)
    except (TypeError, ValueError, RuntimeError):
        raise ValueError(
            f"start={checks.shown(start)} must be a tensor or an array of numbers, "
            f"({task.n_params},)"
        ) from None
    if first.shape != (task.n_params,) or not torch.isfinite(first).all():
        raise ValueError(
            f"start has shape {tuple(first.shape)}; it must be ({task.n_params},) finite numbers"
        )
    return first


def _spacing(task: federated.Task, rounds: int, every: int | None) -> int:
    """Return k: as asked, or the least one whose models fit into the memory."""
    if every is not None:
        return checks.integer("every", every, 1)
    # Beside the start and the last model, which are always kept.
    fitting = MEMORY_BYTES // (4 * task.n_params) - 2
    if fitting < 0:
        raise ValueError(f"every=None keeps two models at least, over {MEMORY_BYTES:,} bytes here")
    return -(-rounds // (fitting + 1))


def _pairs(requests: Iterable) -> list[Target]:
    """Return requests as a list of (client, sample), refused unless each is a pair."""
    return [pair("requests", item) for item in forgetting.request_list(requests)]


def _admitted(state: State, requests: list[Target]) -> tuple[list[Target], list[int]]:
    """Refuse the requests together, before anything is drawn.

    Returns the samples of clients that stay, and the clients to forget."""
    crowd = state.history.crowd
    batch_size = state.history.batch_size
    asked = [item for item in requests if item[1] is not None]
    samples = forgetting.sample_targets(crowd, [k for k, _ in asked], [s for _, s in asked])
    whole = [k for k, sample in requests if sample is None]
    gone = forgetting.client_targets(crowd, whole)
    leaving = {client for client, _ in gone}
    samples = [(client, sample) for client, sample in samples if client not in leaving]
    left = crowd.without(samples, batch_size).without(gone, batch_size)
    METHODS[state.method].build().check(left, state.history.clients_per_round)
    return samples, [client for client, _ in gone]


def _forgotten(
    history: History,
    samples: list[Target],
    gone: list[int],
    rng: np.random.Generator,
    rule: str,
    rounds_done: int,
) -> tuple[History, int]:
    """Return the history that has forgotten, and the first round of a use that has run, or -1."""
    done = rounds_done * history.local_steps
    firsts = []
    if samples:
        clients, numbers = (list(part) for part in zip(*samples))
        history, first = forgetting.forget_sample(
            history, clients, numbers, rng, rule, steps_done=done
        )
        firsts += [] if first is None else [first[0]]
    if gone:
        history, first = forgetting.forget_client(history, gone, rng, steps_done=done)
        firsts += [] if first is None else [first]
    return history, min(firsts, default=-1)


def _round(
    task: federated.Task, data: list[Data], state: State, r: int, params: Tensor, buffer: Tensor
) -> Tensor:
    """Run round r from `params` and return the next global model.

    `buffer` (K, P) holds the local models."""
    history = state.history
    steps = range(history.local_steps)
    ids = torch.tensor(history.batches[r].reshape(len(buffer), -1), device=params.device)
    batches = []
    for client, rows in zip(history.clients[r], ids):
        x, y = (values[rows].split(history.batch_size) for values in data[client])
        batches.append([(x[e], y[e]) for e in steps])
    method = METHODS[state.method].build()
    local = Local(state.rate, state.fisher, bool(history.forgotten), buffer, state.sgd)
    models = method.train(task, params, batches, local)
    # For equal weights, too, the product with the weights is four times as fast as a mean.
    params = federated.weighted_average(models, method.weights(history, r))
    # The sum also overflows, but far beyond any sensible model.
    if not bool(torch.isfinite(params.sum())):
        raise FloatingPointError(
            f"the global model is no longer finite after round {r}; lower rate={state.rate}"
        )
    return params


def _advanced(state: State, params: Tensor, seconds: float) -> State:
    """Return the state after one more round, which took so many seconds and ended in `params`."""
    done = state.rounds_done
    # The last model may lie between those that are kept.
    kept = {r: model for r, model in state.models.items() if r % state.every == 0}
    ledger = state.ledger.worked(1, seconds) if done < state.owed else state.ledger
    return replace(
        state,
        models=kept | {done + 1: params.cpu()},
        ledger=ledger,
        drawn=draws_mark(state.history, done + 1, done, state.drawn),
    )


def _identified(state: State, data: list[Data]) -> State:
    """Return the state with marks of its samples, refused unless the data are those it had before.

    What is forgotten may be anything."""
    left = _left(state.history)
    sizes = state.history.samples_per_client
    found = np.concatenate(
        [np.zeros(n, np.uint64) if own is None else _marks(*own) for own, n in zip(data, sizes)]
    )
    other = np.flatnonzero(left & (found != state.data)) if state.data is not None else ()
    if len(other):
        ends = np.cumsum(sizes)
        k = int(np.searchsorted(ends, other[0], side="right"))
        raise ValueError(
            f"clients[{k}] is not what the state was trained on: sample "
            f"{other[0] - ends[k] + sizes[k]} is another one; give the same clients in the same "
            "order, with what is forgotten in its place"
        )
    return replace(state, data=np.where(left, found, np.uint64(0)))


def _marks(x: Tensor, y: Tensor) -> np.ndarray:
    """Return a number of 64 bits for each sample, which tells slips and not forgeries, (n,).

    It is a sum of the sample's 32-bit words times fixed odd numbers, so that one changed word
    always changes it, and several do but for one case in 2**32."""
    marks = np.zeros(len(y), dtype=np.uint64)
    at = 0
    for values in (x, y):
        values = values.detach().cpu()
        values = values.float() if values.is_floating_point() else values.long()
        words = values.reshape(len(y), -1).contiguous().numpy().view(np.uint32)
        factors = np.arange(at + 1, at + 1 + words.shape[1], dtype=np.uint64)
        for constant in (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9):  # those of SplitMix64
            factors *= np.uint64(constant)
            factors ^= factors >> np.uint64(29)
        factors |= np.uint64(1)
        for begin in range(0, len(y), 4096):
            part = slice(begin, begin + 4096)
            marks[part] += (words[part] * factors).sum(axis=1, dtype=np.uint64)
        at += words.shape[1]
    return marks


def _client_data(task: federated.Task, clients: Iterable, history: History) -> list[Data]:
    """Return the clients' data as tensors on the device that trains.

    They are checked against history and task. All labels that are left and the shape of one sample
    per client are looked at; what is forgotten may be anything of its length."""
    device = machine.device()
    if not isinstance(clients, Iterable):
        raise ValueError(f"clients={clients!r} must be a list of (x, y)")
    clients = list(clients)
    if len(clients) != history.n_clients:
        raise ValueError(
            f"clients has {len(clients)} entries; the history has {history.n_clients} clients"
        )
    forgotten = by_client(history.forgotten)
    data: list[Data] = []
    trials = []
    for k, (own, size) in enumerate(zip(clients, history.samples_per_client)):
        gone = (k, None) in history.forgotten
        data.append(None if own is None and gone else _tensors(k, own, int(size), device))
        trials.append([] if gone else [_trial(*data[k], forgotten.get(k, []))])
    convert(task, trials, device)
    return data


def _tensors(k: int, own: Any, size: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """Return the data of client k as tensors, refused unless both have `size` samples."""
    try:
        if not isinstance(own, (tuple, list)):
            raise TypeError
        x, y = (tensor_of(values, device) for values in own)
    except (TypeError, ValueError, RuntimeError):
        x = y = torch.empty(())
    if {x.shape[:1], y.shape[:1]} != {(size,)}:
        raise ValueError(
            f"clients[{k}] must be (x, y) with samples_per_client={size} samples each, forgotten "
            "ones included and none masked"
        )
    return x, y


def _trial(x: Tensor, y: Tensor, forgotten: list[int]) -> tuple[Tensor, Tensor]:
    """Return a mini-batch by which a client's data are checked: one sample, and all labels left.

    The one sample stands for all, so that nothing of the size of the data is copied."""
    left = np.delete(np.arange(len(y)), forgotten)
    one = x[left[0]]
    one = one.float() if one.is_floating_point() else one
    labels = y[torch.from_numpy(left).to(y.device)] if forgotten else y
    return one.expand(len(left), *one.shape), labels
