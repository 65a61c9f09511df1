"""What several tests of FATS build on: sizes, histories, and small tasks with data."""

import itertools
import math
from fractions import Fraction

import numpy as np
from torch import nn

from sflkit.data.federations import Federation
from sflkit.fats.config import FATSConfig
from sflkit.fats.enumeration import (
    drawn_law,
)
from sflkit.fats.forgetting import forget_client, forget_sample
from sflkit.fats.history import History, draw_history
from sflkit.federated import Task

TINY = list(itertools.product((1, 2), (1, 2), (1, 2)))  # K, E, R


# M, K, R, E, b, all samples: Table 2
TABLE_2 = [
    (300, 5, 30, 10, 10, 60_000),
    (300, 5, 50, 10, 10, 60_000),
    (600, 5, 50, 10, 10, 60_000),
    (600, 10, 50, 10, 10, 60_000),
    (3556, 5, 350, 20, 10, 811_586),
    (660, 20, 30, 100, 60, 3_678_451),
]


def sizes(k=1, e=1, r=1, m=2, n=2, b=1):
    return dict(
        n_clients=m,
        samples_per_client=n,
        clients_per_round=k,
        batch_size=b,
        local_steps=e,
        rounds=r,
    )


LAWS = {}


def drawn(setting):
    """The law of drawing, enumerated once for each setting."""
    key = str(setting)
    if key not in LAWS:
        LAWS[key] = drawn_law(**setting)
        assert sum(p for p, _ in LAWS[key].values()) == 1
    return LAWS[key]


def printed_reference(m, n, b, k, e, r):
    """The printed rule's TV by hand (ERRATA 13): half the mean of |sum over rounds| over the slots
    n_r ~ Binomial(K, 1/M).
    """
    a, unhit = 1 - Fraction(b, n), (1 - Fraction(b, n * m)) ** k
    weights = [
        math.comb(k, i) * Fraction(1, m) ** i * (1 - Fraction(1, m)) ** (k - i)
        for i in range(k + 1)
    ]
    total = Fraction(0)
    for slots in itertools.product(range(k + 1), repeat=r):
        excess = sum(a ** (e * sum(slots[:i])) * (a ** slots[i] - unhit) for i in range(r))
        total += math.prod(weights[i] for i in slots) * abs(excess)
    return total / 2


def serve(history, request, rng, rule="exact"):
    client, sample, *steps_done = request
    done = steps_done[0] if steps_done else None
    if sample is None:
        return forget_client(history, client, rng, steps_done=done)
    return forget_sample(history, client, sample, rng, rule, steps_done=done)


def serve_all(history, requests, rng, rule="exact"):
    """Return the history after requests served one after another, and each one's `first`."""
    firsts = []
    for request in requests:
        history, first = serve(history, request, rng, rule)
        firsts.append(first)
    return history, tuple(firsts)


def small():
    """Two rounds of three slots, two steps, b = 2; sample 1 of client 0 is first used in round 0,
    step 1, by slot 1.
    """
    clients = [[0, 0, 1], [0, 1, 2]]
    batches = [
        [[[0, 2], [0, 3]], [[2, 4], [1, 2]], [[0, 1], [1, 2]]],
        [[[1, 3], [0, 1]], [[2, 3], [0, 4]], [[0, 1], [0, 1]]],
    ]
    return History.of(clients, batches, [6, 5, 5])


SIZES = dict(
    n_clients=4, samples_per_client=6, clients_per_round=3, batch_size=2, local_steps=3, rounds=5
)


def setup(seed=0, **changes):
    """A task, clients with data and a history of FATS."""
    sizes = SIZES | changes
    rng = np.random.default_rng(seed)
    numbers = np.full(sizes["n_clients"], sizes["samples_per_client"])
    clients = [
        (rng.standard_normal((n, 3)).astype(np.float32), rng.integers(2, size=n)) for n in numbers
    ]
    task = Task(nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2)))
    return task, clients, draw_history(**sizes, rng=rng), rng


def line(targets):
    """Clients of one feature x = 1, and the model w x under the loss (w - y)^2: a step is w <- w -
    2 rate (w - mean y).
    """
    data = [(np.ones((len(y), 1)), np.array(y, dtype=np.float32)[:, None]) for y in targets]
    return Task(nn.Linear(1, 1, bias=False), loss="mse"), data


def poisoned(clients, forgotten):
    """The data with everything forgotten made NaN: whoever touches it gets NaN parameters."""
    out = [
        None if (k, None) in forgotten else (np.array(x), np.array(y))
        for k, (x, y) in enumerate(clients)
    ]
    for k, s in forgotten:
        if s is not None and out[k] is not None:
            out[k][0][s] = np.nan
    return out


TINY_RUN = FATSConfig(
    data="digits",
    model="linear",
    seed=2,
    n_requests=2,
    n_clients=6,
    clients_per_round=2,
    batch_size=3,
    local_steps=2,
    rounds=5,
    rate=0.1,
    test_size=50,
)


def federation(seed=0, n_clients=6, each=8):
    """Clients with samples of four features and three classes."""
    rng = np.random.default_rng(seed)
    n, n_test = n_clients * each, 80
    x = rng.standard_normal((n + n_test, 4)).astype(np.float32)
    y = (x[:, 0] > 0).astype(np.int64) + (x[:, 1] > 0)
    return Federation(
        "made",
        x[:n],
        y[:n],
        tuple(np.arange(n).reshape(n_clients, each)),
        x[n:],
        y[n:],
        np.full(n_test, 1 / n_test),
        3,
        np.ones(n_clients, dtype=bool),
    )
