"""Who holds which samples: the partitions of a data set among clients.

FDS (Federated Learning for Data Streams; Section 6, D.1.2) distributes CIFAR-10 by a Dirichlet law
per class (Wang et al. 2020) and CIFAR-100 by Pachinko allocation (Li and McCallum 2006; Reddi et
al. 2021, Appendix F). FATS (Section 6.1.1) draws the label mix of each client from a Dirichlet law
(Hsu et al. 2019), which is Pachinko allocation with one level.

| code name   | symbol | shape        | unit                                             |
|-------------|--------|--------------|--------------------------------------------------|
| labels      | y      | (n_samples,) | class index                                      |
| clients     | S_m    | M x (n_m,)   | row index, one array per client                  |
| alpha, beta |        |              | Dirichlet parameters, > 0: alpha of every class, |
|             |        |              | beta of every fine label inside a coarse one     |
"""

from __future__ import annotations

from typing import Annotated, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from sflkit import checks
from sflkit.config import Positive, Whole, checked


@checked
def dirichlet(
    labels: ArrayLike,
    n_clients: int,
    alpha: Positive,
    rng: np.random.Generator,
    *,
    min_samples: Annotated[int, Whole(0)] = 1,
) -> tuple[np.ndarray, ...]:
    """Distribute every class over the clients in shares drawn from a symmetric Dirichlet law.

    Class by class the shuffled samples are cut at the rounded cumulative shares (Wang et al. 2020;
    FDS, D.1.2, alpha = 0.4). The sizes of the clients therefore differ. A client left with fewer
    than `min_samples` takes samples from whoever holds most (Wang et al. draw all again instead).

    Parameters
    ----------
    labels : array of int, (n_samples,)
    n_clients : int
        From 1 to the number for which there are `min_samples` each.
    alpha : float
        > 0. Large: every client has the mix of the whole. Towards 0: every class belongs to one
        client.
    rng : numpy.random.Generator
    min_samples : int
        >= 0.

    Returns
    -------
    clients : tuple of int64 arrays
        The rows of each client in random order; every sample occurs exactly once.

    Raises
    ------
    ValueError
        If an argument is out of range or there are fewer than `n_clients * min_samples` samples.
    """
    labels = checks.labels("labels", labels)
    n_clients = checks.integer("n_clients", n_clients, 1, len(labels) // max(min_samples, 1))
    parts: list[list[np.ndarray]] = [[] for _ in range(n_clients)]
    for label in np.unique(labels):
        pool = rng.permutation(np.flatnonzero(labels == label))
        shares = rng.dirichlet(np.full(n_clients, alpha))
        cuts = np.rint(np.cumsum(shares)[:-1] * len(pool)).astype(np.int64)
        for part, share in zip(parts, np.split(pool, cuts), strict=True):
            part.append(share)
    clients = [rng.permutation(np.concatenate(part)) for part in parts]
    for m in range(n_clients):
        while len(clients[m]) < min_samples:
            richest = int(np.argmax([len(ids) for ids in clients]))
            clients[m] = np.append(clients[m], clients[richest][-1])
            clients[richest] = clients[richest][:-1]
    return tuple(clients)


@checked
def pachinko(
    fine: ArrayLike,
    coarse: ArrayLike,
    n_clients: int,
    rng: np.random.Generator,
    *,
    alpha: Positive = 0.1,
    beta: Positive = 10.0,
) -> tuple[np.ndarray, ...]:
    """Distribute samples by two-level Pachinko allocation, equally many to every client.

    Client after client draws a Dirichlet law over the coarse labels (alpha) and one over the fine
    labels inside each (beta), then its samples one by one without replacement: coarse label, fine
    label, sample. A label whose samples are used up is pruned and the laws are renormalised (Reddi
    et al. 2021, Appendix F, whose alpha and beta are the defaults; FDS, D.1.2). The last clients
    take what is left. With `coarse` equal to `fine` one level is left: Hsu et al.'s clients of
    equal size.

    Where the samples cannot be divided evenly, as many clients as samples are left over hold one
    sample more; these clients are drawn at random.

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
    clients : tuple of int64 arrays
        The rows of each client in random order; every sample occurs exactly once.

    Raises
    ------
    ValueError
        If lengths differ, a fine label has two coarse ones, or an argument is out of range.
    """
    fine = checks.labels("fine", fine)
    coarse = checks.labels("coarse", coarse)
    n_clients = checks.integer("n_clients", n_clients, 1, len(fine))
    if len(fine) != len(coarse):
        raise ValueError(f"coarse has {len(coarse)} labels, fine {len(fine)}")
    _, first, leaf = np.unique(fine, return_index=True, return_inverse=True)
    if len(strays := np.flatnonzero(coarse[first][leaf] != coarse)):
        bad = fine[strays[0]]
        owners = np.unique(coarse[fine == bad]).tolist()
        raise ValueError(f"fine label {bad} belongs to coarse labels {owners}; it must be one")
    parent = np.unique(coarse[first], return_inverse=True)[1]
    left = np.bincount(leaf)
    rows = np.split(np.argsort(leaf, kind="stable"), np.cumsum(left)[:-1])
    pools = [rng.permutation(pool) for pool in rows]
    wanted = np.full(n_clients, len(fine) // n_clients)
    wanted[rng.permutation(n_clients)[: len(fine) % n_clients]] += 1
    clients = []
    for n in wanted:
        upper = rng.dirichlet(np.full(parent.max() + 1, alpha))
        lower = np.empty(len(parent))
        for p in range(len(upper)):
            lower[parent == p] = rng.dirichlet(np.full((parent == p).sum(), beta))
        laws = _Laws(upper, lower, parent, alpha, beta)
        clients.append(rng.permutation(_draw_samples(int(n), laws, pools, left, rng)))
    return tuple(clients)


class _Laws(NamedTuple):
    """Where a client's samples come from: leaves are fine labels, their parents coarse ones."""

    upper: np.ndarray  # (n_parents,) probability of each coarse label
    lower: np.ndarray  # (n_leaves,) probability of each fine label inside its coarse one
    parent: np.ndarray  # (n_leaves,) number of the coarse label of each fine one
    alpha: float
    beta: float


def _draw_samples(
    wanted: int,
    laws: _Laws,
    pools: list[np.ndarray],
    left: np.ndarray,
    rng: np.random.Generator,
) -> np.ndarray:
    """Return the rows of one client, and lower `left`, the number of samples left in each pool."""
    mine: list[np.ndarray] = []
    while wanted:
        law = _pruned(laws, left > 0, rng)
        # Draws keep their law until a leaf runs out: take them up to there, prune, and draw the
        # rest from the new law.
        drawn = rng.choice(len(left), wanted, p=law)
        ends = [
            where[left[j] - 1]
            for j in np.unique(drawn)
            if len(where := np.flatnonzero(drawn == j)) >= left[j]
        ]
        if ends:
            drawn = drawn[: min(ends) + 1]
        for j, count in zip(*np.unique(drawn, return_counts=True), strict=True):
            mine.append(pools[j][left[j] - count : left[j]])
            left[j] -= count
        wanted -= len(drawn)
    return np.concatenate(mine)


def _pruned(laws: _Laws, alive: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return the law over leaves, (n_leaves,), when only the leaves `alive` have samples left."""
    parent = laws.parent
    lower = np.where(alive, laws.lower, 0.0)
    sums = np.bincount(parent, lower, len(laws.upper))
    open_ = np.bincount(parent, alive, len(laws.upper)) > 0
    # A part of a Dirichlet vector, renormalised, is Dirichlet again: what underflowed to zero may
    # be drawn anew.
    for p in np.flatnonzero(open_ & (sums <= 0)):
        inside = alive & (parent == p)
        lower[inside] = rng.dirichlet(np.full(inside.sum(), laws.beta))
        sums[p] = 1.0
    upper = np.where(open_, laws.upper, 0.0)
    if upper.sum() <= 0:
        upper[open_] = rng.dirichlet(np.full(open_.sum(), laws.alpha))
    law = upper[parent] * lower / np.where(sums > 0, sums, 1)[parent]
    return law / law.sum()
