"""When do requests hit? First uses of forgotten samples or clients over many sampling histories,
without any training.

Source: FATS, Theorem 7, Figures 2, 3, 6 (unlearning time); ERRATA 13, 19. The law is that of
`histories` with the rule "exact"; but of a history only those slots are drawn whose clients are
asked to forget, and all histories at once, so that thousands of histories of any of Table 2's sizes
take seconds.

==================  ========  ============  ====================================================================
code                symbol    shape         meaning
==================  ========  ============  ====================================================================
targets             X_u, k_u  (runs, w)     what each request of each run forgets
first               t_S, t_C  (runs, w)     first step of its use, r E for a client, T = R E if there is none
==================  ========  ============  ====================================================================

T - first is the paper's unlearning time in steps; a run that keeps one model a round replays (R -
first // E) E."""

from __future__ import annotations

import numpy as np

from sflkit import checks
from sflkit.fats.history import subsets

LEVELS = ("sample", "client")


_CHUNK = 2**21  # slots (runs x R x K) in memory at a time: 16 MB of clients


def first_uses(
    *,
    level,
    n_requests,
    n_clients,
    samples_per_client,
    clients_per_round,
    batch_size,
    local_steps,
    rounds,
    runs,
    rng: np.random.Generator,
    streaming: bool = False,
    targets=None,
) -> np.ndarray:
    """Draw histories and requests, and return the first step that each request hits.

    Parameters
    ----------
    level : {"sample", "client"}
    n_requests : int
        w >= 1 different targets a run; below n_clients for clients.
    n_clients, samples_per_client, clients_per_round, batch_size, local_steps, rounds : as for `histories.draw_history`
    runs : int
        Histories, >= 1.
    rng : numpy.random.Generator
    streaming : bool
        True: one request after another, each on the history as the one before has left it. False:
        all at once, for which a single first use is returned, the earliest.
    targets : int array, optional
        Clients (runs, w), or clients and samples (runs, w, 2); drawn uniformly from all clients or
        samples by default.

    Returns
    -------
    int64 (runs, w) if streaming, else (runs, 1)
        Steps in [0, T]; T means that the request hits nothing.

    Raises
    ------
    ValueError
        For sizes out of range, a target named twice in a run, or requests that a history would
        refuse: no client left, or fewer samples at a client than a mini-batch has.
    """
    checks.choice("level", level, LEVELS)
    n_clients, runs = checks.integer("n_clients", n_clients, 1), checks.integer("runs", runs, 1)
    shape = (
        checks.integer("rounds", rounds, 1),
        checks.integer("clients_per_round", clients_per_round, 1),
    )
    local_steps, batch_size = (
        checks.integer("local_steps", local_steps, 1),
        checks.integer("batch_size", batch_size, 1),
    )
    sizes = checks.array("samples_per_client", samples_per_client, low=batch_size)
    if (
        sizes.ndim > 1
        or (sizes != np.floor(sizes)).any()
        or (sizes.ndim and len(sizes) != n_clients)
    ):
        raise ValueError(
            f"samples_per_client={samples_per_client!r} must be one integer, or n_clients={n_clients} of them"
        )
    sizes = np.full(n_clients, sizes, dtype=np.int64)
    pool = n_clients if level == "client" else int(sizes.sum())
    n_requests = checks.integer("n_requests", n_requests, 1, pool - 1)
    checks.choice("streaming", streaming, (False, True))
    checks.generator(rng)
    if targets is None:
        numbers = rng.permuted(subsets(np.full(runs, pool), n_requests, rng), axis=1)
    else:
        numbers = _numbers(level, targets, sizes, (runs, n_requests))
    clients, samples = numbers, None
    if level == "sample":
        ends = np.cumsum(sizes)
        clients = np.searchsorted(ends, numbers, side="right")
        samples = numbers - (ends - sizes)[clients]
        asked = (clients[:, :, None] == clients[:, None, :]).sum(
            axis=2
        )  # samples that the run forgets of the same client
        if (asked > sizes[clients] - batch_size).any():
            k = int(clients[asked > sizes[clients] - batch_size][0])
            raise ValueError(
                f"client {k} has samples_per_client={sizes[k]} samples, of which batch_size={batch_size} must be "
                f"left after n_requests={n_requests} requests"
            )
    first = np.empty((runs, n_requests if streaming else 1), dtype=np.int64)
    size = max(1, _CHUNK // (shape[0] * shape[1]))
    for at in range(0, runs, size):
        part = slice(at, at + size)
        if level == "client":
            first[part] = _clients(clients[part], n_clients, shape, streaming, rng) * local_steps
        else:
            first[part] = _samples(
                clients[part], samples[part], sizes, shape, local_steps, batch_size, streaming, rng
            )
    return first


def _clients(targets, n_clients, shape, streaming, rng) -> np.ndarray:
    """First rounds of client requests, (n, w) or (n, 1)."""
    n, rounds = len(targets), shape[0]
    drawn, order = rng.integers(n_clients, size=(n, *shape)), np.arange(rounds)
    if not streaming:
        gone = np.zeros((n, n_clients), dtype=bool)
        np.put_along_axis(gone, targets, True, axis=1)
        return _first(
            np.take_along_axis(gone, drawn.reshape(n, -1), axis=1).reshape(drawn.shape).any(axis=2)
        )[:, None]
    first = np.empty(targets.shape, dtype=np.int64)
    for i in range(targets.shape[1]):
        hits = (drawn == targets[:, i, None, None]).any(axis=2)
        first[:, i] = _first(hits)
        run, r = np.nonzero(
            order >= first[:, i, None]
        )  # these rounds are drawn again, from the clients that are left
        fresh = rng.integers(n_clients - i - 1, size=(len(run), shape[1]))
        drawn[run, r] = _skip(fresh, targets[run, : i + 1])
    return first


def _samples(targets, samples, sizes, shape, steps, batch_size, streaming, rng) -> np.ndarray:
    """First steps of sample requests, (n, w) or (n, 1). Mini-batches exist only for slots of
    clients that a run targets.
    """
    n, w = targets.shape
    rounds = shape[0]
    drawn = rng.integers(len(sizes), size=(n, *shape))
    watched = np.zeros((n, len(sizes)), dtype=bool)
    np.put_along_axis(watched, targets, True, axis=1)

    def draw(run, client, count, done):
        """Mini-batches (m, count, b) of clients of runs that have served `done` requests."""
        own = targets[run, :done] == client[:, None]
        left = sizes[client] - own.sum(axis=1)
        ranks = subsets(np.repeat(left, count), batch_size, rng).reshape(
            len(run), count * batch_size
        )
        taken = np.where(own, samples[run, :done], sizes.max())
        return _skip(ranks, taken).reshape(len(run), count, batch_size)

    run, r, slot = np.nonzero(
        np.take_along_axis(watched, drawn.reshape(n, -1), axis=1).reshape(drawn.shape)
    )
    client = drawn[run, r, slot]
    batches = draw(run, client, steps, 0)
    first = np.full((n, w), rounds * steps, dtype=np.int64)
    for i in range(w):
        own = np.flatnonzero(client == targets[run, i])
        hits = (batches[own] == samples[run[own], i, None, None]).any(axis=2)
        np.minimum.at(
            first[:, i],
            run[own],
            np.where(hits.any(axis=1), r[own] * steps + hits.argmax(axis=1), rounds * steps),
        )
        if not streaming:
            continue
        hit_round, hit_step = np.divmod(first[:, i], steps)
        # the hit round keeps its clients: redraw the target's slots there from the hit step on
        # (ERRATA 13)
        same = own[r[own] == hit_round[run[own]]]
        for e in np.unique(hit_step[run[same]]):
            rows = same[hit_step[run[same]] == e]
            batches[rows, e:] = draw(run[rows], client[rows], steps - e, i + 1)
        again_run, again_r = np.nonzero(np.arange(rounds) > hit_round[:, None])
        drawn[again_run, again_r] = rng.integers(len(sizes), size=(len(again_run), shape[1]))
        at, new_slot = np.nonzero(watched[again_run[:, None], drawn[again_run, again_r]])
        new_run, new_r = again_run[at], again_r[at]
        new_client = drawn[new_run, new_r, new_slot]
        stays = r <= hit_round[run]
        run, r = np.concatenate([run[stays], new_run]), np.concatenate([r[stays], new_r])
        client = np.concatenate([client[stays], new_client])
        batches = np.concatenate([batches[stays], draw(new_run, new_client, steps, i + 1)])
    return first if streaming else first.min(axis=1, keepdims=True)


def _first(hits) -> np.ndarray:
    """Position of the first True along the last axis, its length without one."""
    return np.where(hits.any(axis=-1), hits.argmax(axis=-1), hits.shape[-1])


def _skip(ranks, taken) -> np.ndarray:
    """Turn ranks (m, n) among what is left into numbers, where the numbers `taken` (m, i) are gone."""
    for column in np.sort(taken, axis=1).T:
        ranks = ranks + (ranks >= column[:, None])
    return ranks


def _numbers(level, targets, sizes, shape) -> np.ndarray:
    """Targets as numbers of clients, or of samples counted through all clients; checked."""
    values = checks.array("targets", targets, low=0).astype(np.int64)
    want = shape if level == "client" else (*shape, 2)
    if values.shape != want:
        raise ValueError(f"targets has shape {values.shape}; {level} requests need {want}")
    clients = values if level == "client" else values[..., 0]
    if clients.max() >= len(sizes) or (
        level == "sample" and (values[..., 1] >= sizes[clients]).any()
    ):
        raise ValueError(
            f"targets must name clients in 0..{len(sizes) - 1}, and samples that these have"
        )
    numbers = values if level == "client" else values[..., 1] + (np.cumsum(sizes) - sizes)[clients]
    if (np.diff(np.sort(numbers, axis=1), axis=1) == 0).any():
        raise ValueError("targets names something twice in one run")
    return numbers
