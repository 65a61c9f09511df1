"""The exact mean of FATS's unlearning time, in steps, without drawing a single history.

Let the first use be in step t0 of 1 to T = R E. Unlearning repeats T - t0 + 1 steps: one for every
step by whose end the use has happened. Its mean is therefore a sum of probabilities,

    E[time] = sum over t of P(used in the first t steps).

A slot draws one of M clients uniformly, and slots are independent. In the first e steps of a round
a slot spares a given sample with probability s_e = 1 - (1 - (1 - b/N)^e) / M, and w given clients
with probability 1 - w/M; a round in which a forgotten client is drawn is repeated as a whole.

Source: FATS, Algorithms 1 to 3, Sections 5.3.1, 6.2.2 and 6.2.3; the sums are ours. Requests come
after training, for a sample or for clients chosen uniformly at random.

==================  ======  ===================================================
code                symbol  meaning
==================  ======  ===================================================
n_clients           M       clients, each with `samples_per_client` = N samples
clients_per_round   K       slots per round
batch_size          b       samples of a mini-batch
local_steps         E       steps per round, each slot with its own mini-batches
rounds              R       rounds; T = R E
requests            w       clients that ask to be forgotten
==================  ======  ===================================================
"""

from __future__ import annotations

import numpy as np

from sflkit import checks


def sample_time(
    *,
    n_clients: int,
    samples_per_client: int,
    clients_per_round: int,
    batch_size: int,
    local_steps: int,
    rounds: int,
) -> float:
    """Return the mean number of steps that are repeated for one sample, from its first use on.

    Parameters
    ----------
    n_clients, samples_per_client, clients_per_round, batch_size, local_steps, rounds : int
        M, N, K, b, E, R, each at least 1; b at most N.

    Raises
    ------
    ValueError
        If a number is out of range.
    """
    m, k = checks.integer("n_clients", n_clients, 1), _count("clients_per_round", clients_per_round)
    n = checks.integer("samples_per_client", samples_per_client, 1)
    b = checks.integer("batch_size", batch_size, 1, n)
    e, r = _count("local_steps", local_steps), _count("rounds", rounds)
    spared = 1 - (1 - (1 - b / n) ** np.arange(1, e + 1)) / m
    in_round = spared**k  # (E,): all slots spare it in the first 1, ..., E steps of a round
    before = in_round[-1] ** np.arange(r)
    return float((1 - np.outer(before, in_round)).sum())


def client_time(
    *,
    n_clients: int,
    clients_per_round: int,
    local_steps: int,
    rounds: int,
    requests: int = 1,
    one_by_one: bool = False,
) -> float:
    """Return the mean number of steps that are repeated for clients, whole rounds from the first.

    One by one, each request waits for the one before to be recovered, and the times add up: after
    i requests the history has the law of a training with M - i clients, because forgetting is exact
    (Theorem 2).

    Parameters
    ----------
    n_clients, clients_per_round, local_steps, rounds : int
        M, K, E, R, each at least 1.
    requests : int
        w, at least 1 and below M.
    one_by_one : bool
        Whether the requests are served in turn; otherwise all are served at once.

    Raises
    ------
    ValueError
        If a number is out of range.
    """
    m, k = checks.integer("n_clients", n_clients, 2), _count("clients_per_round", clients_per_round)
    e, r = _count("local_steps", local_steps), _count("rounds", rounds)
    w = checks.integer("requests", requests, 1, m - 1)
    if checks.flag("one_by_one", one_by_one):
        spared = 1 - 1 / (m - np.arange(w))
    else:
        spared = np.array([1 - w / m])
    by_round = spared[:, None] ** (k * np.arange(1, r + 1))
    return float(e * (1 - by_round).sum())


def rule_of_thumb(rho: float) -> float:
    """Return 1 - (1 - e^-rho) / rho, the share of a training that one request costs.

    It is the limit of `client_time` / T for many clients and rounds at fixed rho = rho_C = K R / M:
    the first of a Poisson number of uses, spread evenly over the training.

    Raises
    ------
    ValueError
        If rho is not a positive number.
    """
    rho = checks.real("rho", rho, above=0)
    return float(1 + np.expm1(-rho) / rho)


def _count(name: str, value: int) -> int:
    return checks.integer(name, value, 1)
