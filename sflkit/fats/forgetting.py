"""The sampling history of FATS: who trains in which round on which mini-batches, and how it forgets
a sample or a client.

Source: FATS, Algorithms 1-3, Theorem 2, Section 5.3; ERRATA 13-22 and 45 for what is corrected.
This is the law alone, without any training. Every round draws K clients with replacement; each draw
(a *slot*) has its own E mini-batches of b samples, drawn without replacement from what its client
has left, also when a client is drawn twice (ERRATA 19). Forgetting turns a history of the law of
learning on all data into one of the law of learning on what is left; `sflkit.fats.enumeration`
shows, for tiny sizes, that it does so to the fraction.

==================  ==========  ============  ======================================================================
code                symbol      shape         meaning (rounds, steps, clients, samples count from 0)
==================  ==========  ============  ======================================================================
n_clients           M           scalar        clients at the start
samples_per_client  N, N_k      () or (M,)    samples of each client at the start
clients_per_round   K           scalar        draws of clients a round; fixed, also after deletions (ERRATA 45)
batch_size          b           scalar        samples of a mini-batch; fixed, also after deletions
local_steps         E           scalar        mini-batches of a slot a round
rounds              R = T / E   scalar        rounds; T = R E steps, step e of round r is step r E + e of the run
clients             P           (R, K)        client of each slot
batches             B           (R, K, E, b)  sample numbers of each mini-batch, ascending
rho_s, rho_c        rho_S, _C   scalar        TV stability towards one sample or one client
==================  ==========  ============  ======================================================================
"""

from __future__ import annotations

import copy
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from sflkit import checks
from sflkit.fats.history import (
    History,
    by_client,
    draw_batches,
    draw_clients,
    existing,
    fill,
    frozen,
    store,
    subsets,
)

RULES = ("exact", "printed", "minimal")


class Forgetting(NamedTuple):
    """The history after a request, and the first use that must be recomputed: (round, step), or a
    round for a client, or None.
    """

    history: History
    first: object


class Request(NamedTuple):
    """One request of a stream: sample None forgets the client; steps_done is the time t_u at which
    it comes (None: the end).
    """

    client: object
    sample: object = None
    steps_done: int | None = None


def forget_sample(
    history: History,
    client,
    sample,
    rng: np.random.Generator,
    rule: str = "exact",
    *,
    steps_done=None,
) -> Forgetting:
    """Forget a sample, or several at once, and repair the history where it used them.

    Source: FATS, Algorithm 2, with ERRATA 13-16.

    Parameters
    ----------
    history : History
    client, sample : int or int sequences of one length
        Several samples of one client may be given with a single `client`; empty sequences change
        nothing.
    rng : numpy.random.Generator
        Untouched when nothing has to be redrawn.
    rule : {"exact", "printed", "minimal"}
        "exact" keeps the clients of the first round that is hit, redraws there the mini-batches of
        each hit client from its first hit step on in all its slots, leaves the other slots, and
        draws all later rounds afresh. "minimal" replaces only the sample inside hit mini-batches by
        one of those unused there. "printed" reruns Algorithm 1 from the first hit on, which draws
        the clients again when the hit is at a round's first step: this is not exact (ERRATA 13).
    steps_done : int, optional
        Steps t_u in [0, T] that have run when the request comes; the end by default. A history
        reaches ahead of the run: a later hit is repaired likewise but costs nothing, so `first` is
        then None ("printed" draws the steps ahead afresh).

    Returns
    -------
    Forgetting
        `first` is the (round, step) from which models must be recomputed, None without a hit.

    Raises
    ------
    ValueError
        For a sample that never existed or is forgotten, a forgotten client, a client that would be
        left with fewer samples than a mini-batch needs, an unknown rule. The history is untouched
        in any case.
    """
    checks.choice("rule", rule, RULES)
    rng, done, steps = checks.generator(rng), _steps_done(history, steps_done), history.local_steps
    targets = samples_of(history, client, sample)
    after = admit(history, targets)
    hit = min((history.first_step(*target) for target in targets), default=history.steps)
    first = divmod(hit, steps) if hit < done else None
    if rule == "printed" and targets:
        hit = min(hit, done)
    if hit == history.steps:
        return Forgetting(after, None)
    clients, batches = history.clients.copy(), history.batches.copy()
    r, e = divmod(hit, steps)
    if (
        rule == "minimal"
    ):  # ERRATA 16: a hit mini-batch is the sample and a uniform set of others, so this is enough
        for k, samples in by_client(targets).items():
            for at in np.argwhere(
                (clients == k)[:, :, None] & np.isin(batches, samples).any(axis=-1)
            ):
                batches[tuple(at)] = _replace(batches[tuple(at)], samples, after.remaining(k), rng)
        return Forgetting(store(copy.copy(after), clients, batches), first)
    if rule == "exact":
        # ERRATA 13: a hit says that the client was drawn; drawing the clients again would leave it
        # under-represented
        for k, samples in by_client(targets).items():
            slots = np.flatnonzero(clients[r] == k)
            hits = np.isin(batches[r, slots], samples).any(axis=(0, 2))
            if hits.any():
                e = int(hits.argmax())
                batches[r, slots, e:] = draw_batches(
                    after, clients[r, slots], steps - e, history.batch_size, rng
                )
        r += 1
    elif e:
        batches[r, :, e:] = draw_batches(after, clients[r], steps - e, history.batch_size, rng)
        r += 1
    return Forgetting(_renew(after, clients, batches, r, rng), first)


def forget_client(
    history: History, client, rng: np.random.Generator, *, steps_done=None
) -> Forgetting:
    """Forget a client, or several at once: from the first round that drew one of them on,
    everything is drawn afresh.

    Source: FATS, Algorithm 3, which is exact as printed (ERRATA 17). K stays, so a smaller crowd is
    drawn more often.

    Parameters
    ----------
    client : int or int sequence
        An empty sequence changes nothing.
    steps_done : int, optional
        As in `forget_sample`; a round that has begun counts as used.

    Returns
    -------
    Forgetting
        `first` is the round from which models must be recomputed, None without a hit.

    Raises
    ------
    ValueError
        For a client that never existed or is forgotten, or when no client would be left. The
        history is untouched.
    """
    rng, done = checks.generator(rng), _steps_done(history, steps_done)
    targets = clients_of(history, client)
    after = admit(history, targets)
    hit = min((int(history.first_round[k]) for k, _ in targets), default=history.rounds)
    if hit == history.rounds:
        return Forgetting(after, None)
    first = hit if hit * history.local_steps < done else None
    return Forgetting(
        _renew(after, history.clients.copy(), history.batches.copy(), hit, rng), first
    )


def forget_stream(
    history: History, requests: Iterable, rng: np.random.Generator, rule: str = "exact"
) -> Forgetting:
    """Serve requests one after another: each a `Request` or a tuple (client, sample) or (client,
    None), as in `forgotten`.

    Returns the last history and a tuple with each request's `first`. All requests are checked
    before anything is drawn, so that one refused request (ValueError, see `forget_sample` and
    `forget_client`) refuses the stream and changes nothing."""
    checks.choice("rule", rule, RULES)
    rng, requests, planned, firsts = (
        checks.generator(rng),
        [_request(request) for request in listed(requests)],
        history,
        [],
    )
    for client, sample, steps_done in requests:
        _steps_done(history, steps_done)
        planned = admit(
            planned,
            clients_of(planned, client) if sample is None else samples_of(planned, client, sample),
        )
    for client, sample, steps_done in requests:
        if sample is None:
            history, first = forget_client(history, client, rng, steps_done=steps_done)
        else:
            history, first = forget_sample(
                history, client, sample, rng, rule, steps_done=steps_done
            )
        firsts.append(first)
    return Forgetting(history, tuple(firsts))


def listed(requests) -> list:
    """Return requests as a list, refused with ValueError unless they can be gone through."""
    if not isinstance(requests, Iterable):
        raise ValueError(
            f"requests={requests!r} must be a list of (client, sample) or (client, None)"
        )
    return list(requests)


def _replace(batch, samples, remaining, rng) -> np.ndarray:
    kept = batch[~np.isin(batch, samples)]
    unused = np.setdiff1d(remaining, kept, assume_unique=True)
    return np.sort(
        np.concatenate(
            [kept, unused[subsets(np.array([len(unused)]), len(batch) - len(kept), rng)[0]]]
        )
    )


def _renew(history, clients, batches, start: int, rng) -> History:
    """Draw all rounds from `start` on afresh, in place, and return the history that holds them."""
    if start < len(clients):
        clients[start:] = draw_clients(history, clients[start:].shape, rng)
        batches[start:] = draw_batches(history, clients[start:], *batches.shape[2:], rng)
    return store(copy.copy(history), clients, batches)


def _steps_done(history, steps_done) -> int:
    return (
        history.steps
        if steps_done is None
        else checks.integer("steps_done", steps_done, 0, history.steps)
    )


def _request(request) -> Request:
    if not isinstance(request, (tuple, list)) or not 1 <= len(request) <= 3:
        raise ValueError(
            f"request={request!r} must be (client, sample) or (client, None), optionally with steps_done"
        )
    return Request(*request)


def clients_of(history, client) -> list:
    return _new(
        history, [existing(history, k) for k in np.atleast_1d(np.asarray(client, dtype=object))]
    )


def samples_of(history, client, sample) -> list:
    samples = np.atleast_1d(np.asarray(sample, dtype=object))
    clients = (
        np.atleast_1d(np.asarray(client, dtype=object))
        if np.ndim(client)
        else [client] * len(samples)
    )
    if len(clients) != len(samples) or any(s is None for s in samples):
        raise ValueError(
            f"client={client!r} and sample={sample!r} must be two integers or as many of each; one client for "
            f"several samples is fine, and forget_client forgets a whole client"
        )
    return _new(history, [existing(history, k, s) for k, s in zip(clients, samples)])


def _new(history, targets) -> list:
    """Return the targets, refused unless none is forgotten and each is named once."""
    seen = set()
    for k, s in targets:
        name = f"client={k}" if s is None else f"sample={s} of client={k}"
        if (k, s) in history.forgotten or (k, None) in history.forgotten:
            raise ValueError(
                f"{name} is forgotten already{'' if (k, s) in history.forgotten else ', with its whole client'}"
            )
        if (k, s) in seen:
            raise ValueError(f"{name} is named twice in one request")
        seen.add((k, s))
    return targets


def admit(history, targets) -> History:
    """The history with the targets booked as forgotten, its draws not yet repaired; refused if too
    little would be left.
    """
    left = history.samples_left.copy()
    for k, s in targets:
        left[k] -= left[k] if s is None else 1
    if not left.any():
        raise ValueError(
            f"client={targets[-1][0]} is the last one; at least one client must be left to train on"
        )
    for k, s in targets:
        if s is not None and left[k] < history.batch_size:
            spare = history.samples_left[k] - history.batch_size
            raise ValueError(
                f"sample={s} of client={k}: mini-batches keep batch_size={history.batch_size}, so that "
                f"at most {spare} of its {history.samples_left[k]} samples can be forgotten; or forget the client"
            )
    after = copy.copy(history)
    fill(after, samples_left=frozen(left), forgotten=history.forgotten.union(targets))
    return after
