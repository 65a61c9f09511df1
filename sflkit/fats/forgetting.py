"""How a sampling history forgets a sample or a client.

Source: FATS, Algorithms 2 and 3, Theorem 2, Section 5.3; ERRATA 13-19 and 45 for what is corrected.
This is about who trains on what, without any training; the notation is that of
`sflkit.fats.history`. Forgetting turns a history of the law of learning on all data into one of the
law of learning on what is left; `sflkit.fats.enumeration` shows, for tiny sizes, that it does so to
the fraction.

Forgetting a client has one rule, since Algorithm 3 is exact as printed. For a sample there are
several, in `RULES`. A rule is a function (hit, rng) -> History that gets a `Hit` and returns a
history whose draws no longer use the targets; one of your own is used everywhere after

    RULES.add("mine", Rule(my_rule, label="My rule"))
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from sflkit import checks
from sflkit.fats.history import History, Target, draw_batches, drawn_afresh, subsets
from sflkit.registry import Look, Registry, Rule


class Forgetting(NamedTuple):
    """The history after a request, and where recomputing must start.

    `first` is the (round, step) of the first use of a sample, or the first round of a client, and
    None if nothing that has run used them.
    """

    history: History
    first: Any


class Hit(NamedTuple):
    """What a rule has to repair.

    `history` is as it was before the request and must not be changed; `left` has the same draws,
    with the targets among what is forgotten: draw from it. `targets` are the samples to forget, at
    least one, and `step` the first step that uses one of them, T if none does. `steps_done` in
    [0, T] have run when the request comes.
    """

    history: History
    left: History
    targets: list[Target]
    step: int
    steps_done: int


def repair_exact(hit: Hit, rng: np.random.Generator) -> History:
    """Keep the clients of the first round that is hit, and redraw what its hit clients did.

    Each hit client gets new mini-batches from its first hit step on, in all its slots. The other
    slots of that round stay, and all later rounds are drawn afresh. Source: FATS, Algorithm 2, with
    ERRATA 13: a hit says that the client was drawn in this round; drawing the round's clients again
    would leave it under-represented.
    """
    left = hit.left
    if hit.step == left.steps:
        return left
    r, batches = hit.step // left.local_steps, left.batches.copy()
    for client, samples in by_client(hit.targets).items():
        slots = np.flatnonzero(left.clients[r] == client)
        hits = np.isin(batches[r, slots], samples).any(axis=(0, 2))
        if hits.any():
            e = int(hits.argmax())
            new = draw_batches(left, left.clients[r, slots], left.local_steps - e, rng)
            batches[r, slots, e:] = new
    return drawn_afresh(replace(left, batches=batches), r + 1, rng)


def repair_printed(hit: Hit, rng: np.random.Generator) -> History:
    """Run Algorithm 1 again from the first hit on, or from `steps_done` on if that comes first.

    Source: FATS, Algorithm 2, as printed. When the hit is at a round's first step, the round's
    clients are drawn again, which is not exact (ERRATA 13).
    """
    left = hit.left
    r, e = divmod(min(hit.step, hit.steps_done), left.local_steps)
    if e:
        batches = left.batches.copy()
        batches[r, :, e:] = draw_batches(left, left.clients[r], left.local_steps - e, rng)
        left, r = replace(left, batches=batches), r + 1
    return drawn_afresh(left, r, rng)


def repair_minimal(hit: Hit, rng: np.random.Generator) -> History:
    """Replace only the samples, inside the mini-batches that hold them, by unused ones.

    Source: ERRATA 16. This is exact: given that it holds the sample, a mini-batch is the sample and
    a uniform set of others, so that a uniform choice among those unused there completes it.
    """
    return _hit_batches_anew(hit, rng, keep=True)


def repair_claim1(hit: Hit, rng: np.random.Generator) -> History:
    """Draw each mini-batch that holds a target anew, from what its client has left.

    All clients and all other mini-batches stay. Source: FATS, Appendix B.2 and B.3, the operator
    SU_r whose exactness Claim 1 states ("we essentially substitute some mini-batches drawn by
    client k_u"); Algorithm 2 is another one (ERRATA 13).

    Theorem. This is exact, and it draws rho_S = b K T / (M N) mini-batches anew on average.
    Proof. Given the clients, mini-batches are independent, and each is a uniform set of b of its
    client's N samples. One without the targets is a uniform set of b of what is left; one with a
    target is replaced by such a set. So either way it has the law of retraining, and the clients
    have theirs already. There are K T mini-batches, each of the target's client with probability
    1/M, and then with the target with probability b/N.
    """
    return _hit_batches_anew(hit, rng, keep=False)


def _hit_batches_anew(hit: Hit, rng: np.random.Generator, *, keep: bool) -> History:
    """Draw anew what holds a target: the targets alone, or (not `keep`) the whole mini-batch."""
    left = hit.left
    if hit.step == left.steps:
        return left
    batches = left.batches.copy()
    for client, samples in by_client(hit.targets).items():
        remaining = left.remaining(client)
        holds = (left.clients == client)[:, :, None] & np.isin(batches, samples).any(axis=-1)
        for place in map(tuple, np.argwhere(holds)):
            batch = batches[place]
            kept = batch[~np.isin(batch, samples if keep else batch)]
            unused = np.setdiff1d(remaining, kept, assume_unique=True)
            new = subsets(np.array([len(unused)]), len(batch) - len(kept), rng)[0]
            batches[place] = np.sort(np.concatenate([kept, unused[new]]))
    return replace(left, batches=batches)


RULES = Registry(
    "forgetting rule",
    {
        "exact": Rule(repair_exact, "our rule, exact", Look("#0072B2", "-", "o")),
        "printed": Rule(repair_printed, "Algorithm 2 as printed", Look("#D55E00", "-", "s")),
        "minimal": Rule(repair_minimal, "our rule, minimal", Look("#009E73", "-", "^")),
        "claim1": Rule(repair_claim1, "Claim 1's operator", Look("#CC79A7", "-", "D")),
    },
)


# The rules that are proved to be exact by enumeration (tests/fats/test_forgetting.py).
EXACT = frozenset({"exact", "minimal", "claim1"})


def forget_sample(
    history: History,
    client: int | Sequence[int],
    sample: int | Sequence[int],
    rng: np.random.Generator,
    rule: str = "exact",
    *,
    steps_done: int | None = None,
) -> Forgetting:
    """Forget a sample, or several at once, and repair the history where it used them.

    Source: FATS, Algorithm 2, with ERRATA 13-16.

    Parameters
    ----------
    history : History
    client, sample : int or int sequences of one length
        Several samples of one client may be given with a single `client`. Empty sequences change
        nothing.
    rng : numpy.random.Generator
        Untouched when nothing has to be redrawn.
    rule : {"exact", "printed", "minimal", "claim1"} or another name in `RULES`
        See `repair_exact`, `repair_printed`, `repair_minimal` and `repair_claim1`.
    steps_done : int, optional
        Steps t_u in [0, T] that have run when the request comes; the end by default. A history
        reaches ahead of the run: a later hit is repaired likewise but costs nothing, so that
        `first` is then None.

    Returns
    -------
    Forgetting
        `first` is the (round, step) from which models must be recomputed, None without a hit.

    Raises
    ------
    ValueError
        For a sample that never existed or is forgotten, a forgotten client, a client that would be
        left with fewer samples than a mini-batch needs, an unknown rule, or a rule that leaves a
        target in use. The history is untouched in any case.
    """
    targets = _sample_targets(client, sample)
    after, step = forget_targets(history, targets, rng, rule, steps_done=steps_done)
    return Forgetting(after, None if step is None else divmod(step, history.local_steps))


def forget_client(
    history: History,
    client: int | Sequence[int],
    rng: np.random.Generator,
    *,
    steps_done: int | None = None,
) -> Forgetting:
    """Forget a client, or several at once; parameters are those of `forget_sample`.

    From the first round that drew one of them on, everything is drawn afresh. Source: FATS,
    Algorithm 3, which is exact as printed (ERRATA 17). K stays, so that a smaller crowd is drawn
    more often. A round that has begun at `steps_done` counts as used. `first` is the round from
    which models must be recomputed, None without a hit.

    Raises
    ------
    ValueError
        For a client that never existed or is forgotten, or when no client would be left. The
        history is untouched.
    """
    targets = [(k, None) for k in _numbers("client", client)]
    after, step = forget_targets(history, targets, rng, steps_done=steps_done)
    return Forgetting(after, None if step is None else step // history.local_steps)


def forget_targets(
    history: History,
    targets: Sequence[Target],
    rng: np.random.Generator,
    rule: str = "exact",
    *,
    steps_done: int | None = None,
) -> Forgetting:
    """Forget samples and clients at once: the samples by a rule, then the clients.

    `targets` are (client, sample), or (client, None) for a whole client, with whom its samples go;
    all else is as in `forget_sample`. `first` is the first step of a use that has run; of a client
    the first of its first round.

    Raises
    ------
    ValueError
        As `forget_sample` and `forget_client`; nothing is drawn then.
    """
    checks.choice("rule", rule, RULES)
    checks.generator(rng)
    done = checks.instance("history", history, History).steps
    if steps_done is not None:
        done = checks.integer("steps_done", steps_done, 0, done)
    new = history.without(targets).forgotten - history.forgotten
    # In the order of the request, by which the generator's numbers are dealt.
    asked = [target for target in (history.existing(*t) for t in targets) if target in new]
    samples = [target for target in asked if target[1] is not None]
    whole = [target for target in asked if target[1] is None]
    steps = []
    if samples:
        step = min(history.first_step(*target) for target in samples)
        history = _repaired(Hit(history, history.without(samples), samples, step, done), rng, rule)
        steps.append(step)
    if whole:
        step = min(history.first_step(*target) for target in whole)
        history = drawn_afresh(history.without(whole), step // history.local_steps, rng)
        steps.append(step)
    return Forgetting(history, min((step for step in steps if step < done), default=None))


def _repaired(hit: Hit, rng: np.random.Generator, rule: str) -> History:
    """Return what a rule makes of a hit, refused if it leaves a target in use."""
    made = RULES[rule].build(hit, rng)
    after = hit.left
    if made is not after:
        after = replace(after, clients=made.clients, batches=made.batches)
    for target in hit.targets:
        if after.first_step(*target) < after.steps:
            raise ValueError(f"rule={rule!r} must not leave (client, sample)={target} in use")
    return after


def by_client(targets: Iterable[Target]) -> dict[int, list]:
    """Return the samples of (client, sample) pairs in a list per client."""
    groups: dict[int, list] = {}
    for client, sample in targets:
        groups.setdefault(client, []).append(sample)
    return groups


def _sample_targets(client: int | Sequence[int], sample: int | Sequence[int]) -> list[Target]:
    """Return the samples that a request names; one client may stand for several samples."""
    samples = _numbers("sample", sample)
    clients = _numbers("client", client)
    if not np.ndim(client):
        clients = [client] * len(samples)
    if len(clients) != len(samples) or any(s is None for s in samples):
        raise ValueError(
            f"client={client!r} and sample={sample!r} must be two integers or as many of each; one "
            "client for several samples is fine, and forget_client forgets a whole client"
        )
    return list(zip(clients, samples))


def _numbers(name: str, value: int | Sequence[int]) -> np.ndarray:
    """Return what a request names, one or several, as objects, which are checked one by one.

    A mask or an index means nothing here: masked entries are refused, an index is left out."""
    checks.values(name, value)
    return np.atleast_1d(np.asarray(value, dtype=object))
