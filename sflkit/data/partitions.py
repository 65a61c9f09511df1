"""Who holds which samples: C classes each (SFL), Dirichlet and Pachinko allocations (FDS, FATS),
streams by label, the test set.

The paper (journal, Section VI and supplement) gives each of K clients C of the R classes, lets
label counts arrive by a Markov chain, and tests on one set drawn to the network's long-term label
mixture. It does not say how the samples behind the counts are chosen: here a client goes through
its pool of a class in random order, and through a new random order once the pool is used up, so
that no sample comes twice before all have come once.

FDS (Section 6, D.1.2) distributes CIFAR-10 by a Dirichlet law per class (Wang et al. 2020) and
CIFAR-100 by Pachinko allocation (Li and McCallum 2006; Reddi et al. 2021, Appendix F); FATS
(Section 6.1.1) draws each client's label mix from a Dirichlet law (Hsu et al. 2019), which is
Pachinko allocation with one level.

==============  ======  =====================  =======
code name       symbol  shape                  unit
==============  ======  =====================  =======
labels          y       (n_samples,)           class index
counts          --      (n_classes,)           samples
shares          pi      (n_classes,)           fraction
client_classes  --      (n_clients, C)         class index
ids             --      (n,)                   row index
alpha, beta     --      --                     Dirichlet parameter of every class (coarse, fine), > 0
==============  ======  =====================  =======
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sflkit import checks


def assign_classes(
    n_clients: int, n_classes: int, classes_per_client: int, rng: np.random.Generator
) -> np.ndarray:
    """Give each client `classes_per_client` distinct classes so that the classes are held by
    equally many clients (up to one).

    Returns
    -------
    client_classes : array of int64, (n_clients, classes_per_client), sorted along each row.

    Raises
    ------
    ValueError
        If a number is below 1 or there are more classes per client than classes.
    """
    n_clients, n_classes = (
        checks.integer("n_clients", n_clients, 1),
        checks.integer("n_classes", n_classes, 1),
    )
    per_client, rng = (
        checks.integer("classes_per_client", classes_per_client, 1, n_classes),
        checks.generator(rng),
    )
    held = np.zeros(n_classes, np.int64)
    rows = np.empty((n_clients, per_client), np.int64)
    for k in range(n_clients):
        # The least held classes first, ties in random order.
        rows[k] = np.sort(np.lexsort((rng.random(n_classes), held))[:per_client])
        held[rows[k]] += 1
    return rows


def split_by_classes(
    labels, client_classes: Sequence[Sequence[int]], rng: np.random.Generator
) -> list[np.ndarray]:
    """Split the samples into disjoint shares: every class is shuffled and divided evenly among the
    clients that hold it.

    Parameters
    ----------
    labels : array of int, (n_samples,)
    client_classes : (n_clients, C) array or one sequence of class indices a client
        Classes of each client, for example from `assign_classes`; samples of a class that nobody
        holds stay unused.
    rng : numpy.random.Generator

    Returns
    -------
    shares : list of int64 arrays, one a client, in random order.

    Raises
    ------
    ValueError
        If a client has no class or one twice, a class has no sample, or has fewer samples than
        clients that hold it.
    """
    labels, rng = checked_labels(labels), checks.generator(rng)
    n_classes = int(labels.max()) + 1
    rows = [
        checked_indices(f"client_classes[{k}]", row, n_classes)
        for k, row in enumerate(client_classes)
    ]
    parts: list[list[np.ndarray]] = [[] for _ in rows]
    for k, row in enumerate(rows):
        if len(row) == 0 or len(np.unique(row)) < len(row):
            raise ValueError(
                f"client_classes[{k}]={row.tolist()} must name at least one class, each once"
            )
    for label in range(n_classes):
        holders = [k for k, row in enumerate(rows) if label in row]
        pool = rng.permutation(np.flatnonzero(labels == label))
        if len(pool) < len(holders):
            raise ValueError(
                f"class {label} has {len(pool)} samples for the {len(holders)} clients that hold it"
            )
        # Who gets the odd sample is drawn, else the first clients would always hold more.
        for k, share in zip(
            rng.permutation(holders),
            np.array_split(pool, len(holders)) if holders else (),
            strict=True,
        ):
            parts[int(k)].append(share)
    return [rng.permutation(np.concatenate(part)) for part in parts]


def dirichlet(
    labels, n_clients: int, alpha: float, rng: np.random.Generator, *, min_samples: int = 1
) -> tuple[np.ndarray, ...]:
    """Distribute every class over the clients in shares drawn from a symmetric Dirichlet law; sizes
    differ among clients.

    Class by class the shuffled samples are cut at the rounded cumulative shares (Wang et al. 2020;
    FDS, D.1.2, alpha = 0.4). A client left with fewer than `min_samples` takes random samples from
    whoever holds most; Wang et al. draw all again.

    Parameters
    ----------
    labels : array of int, (n_samples,)
    n_clients : int
    alpha : float
        > 0. Large: every client has the mix of the whole; towards 0: every class belongs to one
        client.
    rng : numpy.random.Generator
    min_samples : int
        >= 0.

    Returns
    -------
    clients : tuple of int64 arrays, one a client, each in random order; every sample occurs exactly once.

    Raises
    ------
    ValueError
        If an argument is out of range or there are fewer than `n_clients * min_samples` samples.
    """
    labels, rng = checked_labels(labels), checks.generator(rng)
    alpha, min_samples = (
        checks.real("alpha", alpha, above=0),
        checks.integer("min_samples", min_samples, 0),
    )
    n_clients = checks.integer("n_clients", n_clients, 1, len(labels) // max(min_samples, 1))
    parts: list[list[np.ndarray]] = [[] for _ in range(n_clients)]
    for label in np.unique(labels):
        pool = rng.permutation(np.flatnonzero(labels == label))
        cuts = np.rint(np.cumsum(rng.dirichlet(np.full(n_clients, alpha)))[:-1] * len(pool)).astype(
            np.int64
        )
        for part, share in zip(parts, np.split(pool, cuts), strict=True):
            part.append(share)
    clients = [rng.permutation(np.concatenate(part)) for part in parts]
    for m in range(n_clients):
        while len(clients[m]) < min_samples:
            richest = int(np.argmax([len(ids) for ids in clients]))
            clients[m] = np.append(clients[m], clients[richest][-1])
            clients[richest] = clients[richest][:-1]
    return tuple(clients)


def pachinko(
    fine,
    coarse,
    n_clients: int,
    rng: np.random.Generator,
    *,
    alpha: float = 0.1,
    beta: float = 10.0,
) -> tuple[np.ndarray, ...]:
    """Distribute samples by two-level Pachinko allocation: equally many (up to one) to every
    client.

    Client after client draws a Dirichlet law over the coarse labels (alpha) and one over the fine
    labels inside each (beta), then its samples one by one without replacement: coarse label, fine
    label, sample. A label whose samples are used up is pruned and the laws are renormalised (Reddi
    et al. 2021, Appendix F, whose alpha and beta are the defaults; FDS, D.1.2). With `coarse` equal
    to `fine` one level is left, Hsu et al.'s clients of equal size. The n mod n_clients samples
    that equal sizes leave over go to as many clients drawn at random, one each, so that every
    sample is assigned exactly once. The last clients take what is left.

    Parameters
    ----------
    fine, coarse : arrays of int, (n_samples,)
        Every fine label belongs to one coarse label.
    n_clients : int
        At most n_samples.
    rng : numpy.random.Generator
    alpha, beta : float
        > 0.

    Returns
    -------
    clients : tuple of int64 arrays, one a client, each in random order.

    Raises
    ------
    ValueError
        If lengths differ, a fine label has two coarse ones, or an argument is out of range.
    """
    fine, coarse, rng = checked_labels(fine), checked_labels(coarse), checks.generator(rng)
    alpha, beta = checks.real("alpha", alpha, above=0), checks.real("beta", beta, above=0)
    n_clients = checks.integer("n_clients", n_clients, 1, len(fine))
    if len(fine) != len(coarse):
        raise ValueError(f"coarse has {len(coarse)} labels, fine {len(fine)}")
    leaves, first, leaf, left = np.unique(
        fine, return_index=True, return_inverse=True, return_counts=True
    )
    if (coarse[first][leaf] != coarse).any():
        bad = fine[np.flatnonzero(coarse[first][leaf] != coarse)[0]]
        raise ValueError(
            f"fine label {bad} belongs to coarse labels {np.unique(coarse[fine == bad]).tolist()}; it must be one"
        )
    parents, parent = np.unique(coarse[first], return_inverse=True)
    pools = [
        rng.permutation(pool)
        for pool in np.split(np.argsort(leaf, kind="stable"), np.cumsum(left)[:-1])
    ]
    extra = np.zeros(n_clients, np.int64)
    extra[rng.permutation(n_clients)[: len(fine) % n_clients]] = 1
    clients = []
    for wanted in len(fine) // n_clients + extra:
        upper, lower = rng.dirichlet(np.full(len(parents), alpha)), np.empty(len(leaves))
        for p in range(len(parents)):
            lower[parent == p] = rng.dirichlet(np.full((parent == p).sum(), beta))
        mine: list[np.ndarray] = []
        while wanted:
            law = _pruned(upper, lower, parent, left > 0, rng, alpha, beta)
            # Draws keep their law until a leaf runs out: take them up to there, prune, and draw the
            # rest from the new law.
            drawn = rng.choice(len(leaves), wanted, p=law)
            ends = [
                where[left[j] - 1]
                for j in np.unique(drawn)
                if len(where := np.flatnonzero(drawn == j)) >= left[j]
            ]
            drawn = drawn[: min(ends) + 1] if ends else drawn
            for j, count in zip(*np.unique(drawn, return_counts=True), strict=True):
                mine.append(pools[j][left[j] - count : left[j]])
                left[j] -= count
            wanted -= len(drawn)
        clients.append(rng.permutation(np.concatenate(mine)))
    return tuple(clients)


def _pruned(upper, lower, parent, alive, rng, alpha: float, beta: float) -> np.ndarray:
    """Return the law over leaves of one client when only the leaves in `alive` have samples left,
    (n_leaves,).
    """
    lower = np.where(alive, lower, 0.0)
    sums = np.bincount(parent, lower, len(upper))
    open_ = np.bincount(parent, alive, len(upper)) > 0
    # A part of a Dirichlet vector, renormalised, is Dirichlet again: what underflowed to zero may
    # be drawn anew.
    for p in np.flatnonzero(open_ & (sums <= 0)):
        inside = alive & (parent == p)
        lower[inside], sums[p] = rng.dirichlet(np.full(inside.sum(), beta)), 1.0
    upper = np.where(open_, upper, 0.0)
    if upper.sum() <= 0:
        upper[open_] = rng.dirichlet(np.full(open_.sum(), alpha))
    law = upper[parent] * lower / np.where(sums > 0, sums, 1)[parent]
    return law / law.sum()


def checked_labels(labels) -> np.ndarray:
    labels = np.asarray(labels)
    if labels.ndim != 1 or not len(labels) or not np.issubdtype(labels.dtype, np.integer):
        raise ValueError(
            f"labels has shape {labels.shape} and type {labels.dtype}; it must be a non-empty vector of integers"
        )
    if labels.min() < 0:
        raise ValueError(f"labels holds {labels.min()}; class indices must be >= 0")
    return labels


def checked_indices(name: str, value, size: int) -> np.ndarray:
    out = np.asarray(value)
    if out.ndim != 1 or (out.size and not np.issubdtype(out.dtype, np.integer)):
        raise ValueError(f"{name}={value!r} must be a vector of integers")
    if out.size and (out.min() < 0 or out.max() >= size):
        bad = out[(out < 0) | (out >= size)][0]
        raise ValueError(f"{name} holds {bad}; entries must be integers in [0, {size - 1}]")
    return out.astype(np.int64)
