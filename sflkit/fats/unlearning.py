"""Learning that can forget exactly: FATS on a sampling history, and the baselines FRS and FR2
behind the same functions.

    state = learn(task, clients, history, rate=0.1, start=task.init(0))
    state = forget(task, clients, state, [(3, 17), (5, None)], rng)       # sample 17 of client 3, and client 5
    state.params, state.ledger.recomputed.steps, state.ledger.scratch.steps

Source: FATS, Algorithms 1-3, Sections 5.3 and 6.1.4. The history says who trains on what and how it
forgets (`histories`); here it is trained on. Between rounds nothing but the global model is left of
a round, so one model before each round, or before every k-th, is enough to go back: a round is
replayed from its model and mini-batches, which gives the same bits (same machine, same number of
threads). The paper's per-step local models, T of them, are not needed (ERRATA 18 disappears with
them): a hit in the middle of a round replays that round from its start, with all its slots, which
adds at most E - 1 steps.

A state is "clean" or "pending": pending from the moment at which a request took models away until
they are recomputed; its model is refused until then. With a `path`, the pending state is on the
disk before anything is recomputed, and models that hold forgotten data are gone from there. An
older state does not bring them back: `save` refuses to replace a file by a state that has forgotten
less.

==========  ==========  ===========  =====================================================================================
code        symbol      shape        meaning
==========  ==========  ===========  =====================================================================================
history     P, B        (R, K, ...)  clients and mini-batches of all rounds, also of those that have not run yet
models      theta       (P,) each    round -> global model before that round, float32 on the CPU; 0 is the start
every       k           scalar       a model is kept before rounds 0, k, 2k, ..., and the last one
rounds_done r           scalar       rounds that have run
owed        r_u         scalar       rounds that had run when a request came; pending while rounds_done < owed
rate        eta         scalar       local learning rate
clients     D_k         M pairs      (x, y) of each client, tensors or arrays; None for a client that is forgotten
==========  ==========  ===========  =====================================================================================
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from sflkit import checks, federated
from sflkit.fats import forgetting
from sflkit.fats.baselines import Fisher, fisher_sgd, present_clients, redraw_fedavg
from sflkit.fats.forgetting import RULES, forget_client, forget_sample
from sflkit.fats.history import History, by_client
from sflkit.fats.ledger import Entry, Ledger
from sflkit.fats.state import METHODS, State, refuse_stale, save
from sflkit.federated.batches import convert


def learn(
    task: federated.Task,
    clients,
    history: History,
    rate: float,
    *,
    start,
    method: str = "fats",
    every: int | None = None,
    memory_bytes: int = 2**30,
    fisher: Fisher | None = None,
    rounds: int | None = None,
    **saving,
) -> State:
    """Train on a history.

    Source: FATS, Algorithm 1; for the baselines FedAvg, on a history of `baselines.draw_fedavg`.

    Parameters
    ----------
    clients : sequence of (x, y), one a client with as many samples as the history says; tensors or arrays.
    rate : eta > 0.
    start : (P,) the first model, `task.init(seed)` for instance.
    method : {"fats", "frs", "fr2"}
        FATS averages the K slots' models with equal weights (line 22), FedAvg by the clients'
        numbers of samples.
    every : k >= 1, a model is kept before every k-th round; by default the least k whose models fit into `memory_bytes`.
    fisher : FR2's settings.
    rounds : rounds to train, all of the history by default; `resume` trains the rest.
    **saving : path, save_every, on_round of `resume`.

    Raises
    ------
    ValueError
        For data that do not fit the history or the task, a value out of range, models too large for
        `memory_bytes`, or a `path` whose file holds a state that has forgotten something.
    FloatingPointError
        If the model stops being finite; the message names the round.
    """
    rate = checks.real("rate", rate, above=0)
    checks.choice("method", method, METHODS)
    try:
        first = (
            torch.as_tensor(start).detach().to("cpu", torch.float32, copy=True)
        )  # the caller may go on writing to `start`
    except (TypeError, ValueError, RuntimeError):
        raise ValueError(
            f"start={start!r} must be a tensor or an array of numbers, ({task.n_params},)"
        ) from None
    if first.shape != (task.n_params,) or not torch.isfinite(first).all():
        raise ValueError(
            f"start has shape {tuple(first.shape)}; it must be ({task.n_params},) finite numbers"
        )
    fitting = (
        checks.integer("memory_bytes", memory_bytes, 1) // (4 * task.n_params) - 2
    )  # beside the start and the last model
    if every is None and fitting < 0:
        raise ValueError(
            f"memory_bytes={memory_bytes} must be at least {8 * task.n_params}, for two models"
        )
    every = (
        -(-history.rounds // (fitting + 1)) if every is None else checks.integer("every", every, 1)
    )
    ledger = Ledger(history.clients_per_round, history.local_steps, task.n_params)
    state = State(history, rate, {0: first}, every, ledger, method, fisher=fisher or Fisher())
    return resume(task, clients, state, until=rounds, **saving)


def forget(
    task: federated.Task,
    clients,
    state: State,
    requests: Iterable,
    rng: np.random.Generator,
    rule: str = "exact",
    *,
    path=None,
    save_every: int | None = None,
    on_round: Callable[[State], None] | None = None,
) -> State:
    """Forget samples and clients, all at once, and recompute what they touched; `request`, then
    `resume`.

    Source: FATS, Algorithms 2 and 3. For a stream of requests call it once for each. The model
    afterwards is, bit for bit, the one that `learn` makes from the new history.

    Parameters
    ----------
    requests, rng, rule : see `request`.
    path, save_every, on_round : see `resume`. With a path, the pending state replaces the old file before recomputation
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
    _tensors(task, clients, asked.history)
    if path is not None and asked is not state:
        save(asked, path)
    return asked


def request(
    state: State, requests: Iterable, rng: np.random.Generator, rule: str = "exact"
) -> State:
    """Accept requests without training: the history forgets, and models that hold forgotten data
    are dropped.

    Parameters
    ----------
    requests : list of (client, sample), or (client, None) for a whole client
        All are served together; an empty list changes nothing. They come after the `rounds_done`
        rounds that have run (a request within a round waits for its end): later uses are repaired
        in the history and cost nothing. A pending state takes further requests. A sample of a
        client that leaves at the same time goes with it.
    rng : numpy.random.Generator, for what the history draws anew; untouched by requests that are refused.
    rule : {"exact", "printed", "minimal"}, see `forgetting.forget_sample`; FRS and FR2 draw everything anew by any rule.

    Raises
    ------
    ValueError
        See `forgetting.forget_sample` and `forget_client`; for FRS and FR2 also when fewer clients
        than K would be left.
    """
    checks.choice("rule", rule, RULES)
    checks.generator(rng)
    requests = forgetting.listed(requests)
    for item in requests:
        if not isinstance(item, (tuple, list)) or len(item) != 2:
            raise ValueError(
                f"request={item!r} must be (client, sample), or (client, None) for a whole client, in a list"
            )
    if not requests:
        return state
    history, done = state.history, state.rounds_done
    at, firsts = done * history.local_steps, []
    samples, gone = _admitted(state, requests)
    if samples:
        history, first = forget_sample(
            history, *(list(part) for part in zip(*samples)), rng, rule, steps_done=at
        )
        firsts += [] if first is None else [first[0]]
    if gone:
        history, first = forget_client(history, gone, rng, steps_done=at)
        firsts += [] if first is None else [first]
    if state.method != "fats":
        history = redraw_fedavg(history, rng)
    first = min(firsts, default=-1)
    restart = first if state.method == "fats" else 0
    start = max((r for r in state.models if r <= restart), default=-1)
    owed = max(state.owed, done)
    if start < 0 or start == done:
        return replace(
            state,
            history=history,
            ledger=state.ledger.booked(Entry(len(requests), first, -1, owed, 0, 0.0)),
        )
    models = {r: model for r, model in state.models.items() if r <= start}
    ledger = state.ledger.booked(Entry(len(requests), first, start, owed, 0, 0.0))
    return replace(state, history=history, models=models, ledger=ledger, owed=owed)


def _admitted(state: State, requests: list) -> tuple[list, list]:
    """Refuse the requests together, before anything is drawn; return the samples of clients that
    stay, and the clients.
    """
    history, samples = state.history, [r for r in requests if r[1] is not None]
    samples = forgetting.samples_of(history, [k for k, _ in samples], [s for _, s in samples])
    gone = forgetting.clients_of(history, [r[0] for r in requests if r[1] is None])
    leaving = set(gone)
    samples = [(k, s) for k, s in samples if (k, None) not in leaving]
    left = forgetting.admit(forgetting.admit(history, samples), gone)
    if state.method != "fats":
        present_clients(left)
    return samples, [k for k, _ in gone]


def resume(
    task: federated.Task,
    clients,
    state: State,
    *,
    until: int | None = None,
    path=None,
    save_every: int | None = None,
    on_round: Callable[[State], None] | None = None,
) -> State:
    """Train on: what a pending request still needs, or the rounds of the history that have not run.

    Parameters
    ----------
    until : rounds that shall have run at the end, in [rounds_done, R]; by default `owed` for a pending state, else R.
    path : file that the state is saved to at the end (`save`), and after every `save_every` rounds. A state that has
        forgotten something is also saved before the first round: what the file held before must not
        outlive a crash.
    on_round : called after each round with the state then, whose models[rounds_done] is the model, also while it is pending.

    Raises
    ------
    ValueError
        For data that do not fit the history or the task, a value out of range, or a file that
        `save` would not replace.
    FloatingPointError
        If the model stops being finite; the message names the round.
    """
    history, done = state.history, state.rounds_done
    data = _tensors(task, clients, history)
    if until is None:
        until = state.owed if state.status == "pending" else history.rounds
    until = checks.integer("until", until, done, history.rounds)
    save_every = None if save_every is None else checks.integer("save_every", save_every, 1)
    if path is not None:
        refuse_stale(history, path)  # before the work, not after it
        if history.forgotten and until > done:
            save(state, path)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    params, buffer = (
        state.models[done].to(device),
        torch.empty(history.clients_per_round, task.n_params, device=device),
    )
    for r in range(done, until):
        began = time.perf_counter()
        params = _round(task, data, state, r, params, buffer)
        if not bool(
            torch.isfinite(params.sum())
        ):  # also on overflow of the sum, far beyond any sensible model
            raise FloatingPointError(
                f"the global model is no longer finite after round {r}; lower rate={state.rate}"
            )
        kept = {
            q: model for q, model in state.models.items() if q % state.every == 0
        }  # the last one may lie between
        ledger = (
            state.ledger.worked(1, time.perf_counter() - began) if r < state.owed else state.ledger
        )
        state = replace(state, models=kept | {r + 1: params.cpu()}, ledger=ledger)
        if path is not None and save_every and (r + 1) % save_every == 0 and r + 1 < until:
            save(state, path)
        if on_round is not None:
            on_round(state)
    if path is not None:
        save(state, path)
    return state


def _round(
    task: federated.Task, data: list, state: State, r: int, params: Tensor, buffer: Tensor
) -> Tensor:
    """Run round r from `params` and return the next global model; `buffer` (K, P) holds the local
    ones.
    """
    history = state.history
    steps, size = history.local_steps, history.batch_size
    ids = torch.tensor(history.batches[r].reshape(len(buffer), -1), device=params.device)
    batches = []
    for k, rows in zip(history.clients[r], ids):
        x, y = (values[rows].split(size) for values in data[k])
        batches.append([(x[e], y[e]) for e in range(steps)])
    if state.method == "fr2" and history.forgotten:
        local = fisher_sgd(task, params, batches, state.fisher)
    else:
        local = federated.local_sgd(task, params, batches, state.rate, out=buffer)
    # line 22: equal weights, so that a client with two slots counts twice; as a product this is
    # four times as fast as a mean
    weights = (
        np.ones(len(local)) if state.method == "fats" else history.samples_left[history.clients[r]]
    )
    return federated.weighted_average(local, weights)


def _tensors(task: federated.Task, clients, history: History) -> list:
    """Check the clients' data against history and task and return them as pairs of tensors on the
    device that trains.

    All labels that are left and the shape of one sample a client are looked at; what is forgotten
    may be anything of its length."""
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if not isinstance(clients, Iterable):
        raise ValueError(f"clients={clients!r} must be a list of (x, y)")
    clients = list(clients)
    if len(clients) != history.n_clients:
        raise ValueError(
            f"clients has {len(clients)} entries; the history has {history.n_clients} clients"
        )
    data, trials, gone = [], [], by_client(history.forgotten)
    for k, (pair, size) in enumerate(zip(clients, history.samples_per_client)):
        trials.append([])
        if pair is None and (k, None) in history.forgotten:
            data.append(None)
            continue
        try:
            if not isinstance(pair, (tuple, list)):
                raise TypeError
            x, y = (torch.as_tensor(values, device=device) for values in pair)
        except (TypeError, ValueError, RuntimeError):
            x = y = torch.empty(())
        if {x.shape[:1], y.shape[:1]} != {(int(size),)}:
            raise ValueError(
                f"clients[{k}] must be (x, y) with samples_per_client={size} samples each, forgotten ones included"
            )
        data.append((x, y))
        if (k, None) not in history.forgotten:
            left = np.delete(np.arange(size), gone.get(k, []))
            one = x[left[0]]  # stands for all, so that nothing of the size of the data is copied
            one = one.float() if one.is_floating_point() else one
            trials[-1].append(
                (
                    one.expand(len(left), *one.shape),
                    y[torch.from_numpy(left).to(device)] if k in gone else y,
                )
            )
    convert(task, trials, device)
    return data
