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

A number out of its range, which its annotation says, raises ValueError.
"""

from __future__ import annotations

from typing import Annotated, NamedTuple

import numpy as np

from sflkit import checks
from sflkit.config import Count, OneOf, Positive, Whole, checked

RULES = ("exact", "printed", "minimal", "claim1")


@checked
def sample_time(
    *,
    n_clients: Count,
    samples_per_client: Count,
    clients_per_round: Count,
    batch_size: Count,
    local_steps: Count,
    rounds: Count,
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
    checks.integer("batch_size", batch_size, 1, samples_per_client)
    share = batch_size / samples_per_client
    spared = 1 - (1 - (1 - share) ** np.arange(1, local_steps + 1)) / n_clients
    # (E,): all slots spare it in the first 1, ..., E steps of a round
    in_round = spared**clients_per_round
    before = in_round[-1] ** np.arange(rounds)
    return float((1 - np.outer(before, in_round)).sum())


class RuleCost(NamedTuple):
    """What forgetting one sample costs on average, by a rule of `forgetting.RULES`.

    Attributes
    ----------
    steps : float
        Time steps that are repeated, from the first use on, `sample_time`: the same by every rule,
        since the global model changes from there on.
    gradients : float
        Gradients of a mini-batch that are computed again: all K slots of later rounds, and of the
        hit round the slots that the rule changes, each from its first change on.
    samples : float
        Samples that are drawn anew for mini-batches.
    """

    steps: float
    gradients: float
    samples: float


@checked
def rule_cost(rule: Annotated[str, OneOf(RULES)], **sizes: int) -> RuleCost:
    """Return what one sample costs on average by a rule, without drawing a history.

    A round is reached unhit with probability q^r, q of its K E mini-batches. With n slots of the
    client, Binomial(K, 1/M), and a = 1 - b/N, the first e steps of the round spare the sample with
    probability a^(e n). "exact" redoes all n slots from the first hit on, E[n (1 - a^(e n))] summed
    over e; "minimal" and "claim1" each slot from its own first hit on, E[n] (1 - a^e); "printed"
    all K. Of mini-batches "claim1" draws those with the sample anew, rho_S on average, and
    "minimal" one sample in each; the others all that they redo. Source: FATS, Algorithm 2 and
    Appendix B.2; the sums are ours.

    Parameters
    ----------
    rule : {"exact", "printed", "minimal", "claim1"}
    **sizes
        The keywords of `sample_time`.

    Raises
    ------
    ValueError
        For another rule, or a number out of range.
    """
    time = sample_time(**sizes)
    names = "n_clients samples_per_client clients_per_round batch_size local_steps rounds"
    m, n, k, b, e, r = (int(sizes[name]) for name in names.split())
    if rule == "printed":
        return RuleCost(time, k * time, b * k * time)
    spared = (1 - b / n) ** np.arange(1, e + 1)
    slot = 1 - (1 - spared) / m
    unhit = slot[-1] ** (k * np.arange(r))
    later = k * e * (1 - unhit).sum()
    both = slot ** (k - 1) if rule == "exact" else 1.0
    gradients = float(later + unhit.sum() * k / m * (1 - spared * both).sum())
    uses = b * k * e * r / (m * n)
    samples = {"exact": b * gradients, "claim1": b * uses, "minimal": uses}[rule]
    return RuleCost(time, gradients, samples)


@checked
def client_time(
    *,
    n_clients: Annotated[int, Whole(2)],
    clients_per_round: Count,
    local_steps: Count,
    rounds: Count,
    requests: Count = 1,
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
    checks.integer("requests", requests, 1, n_clients - 1)
    spared = np.array([1 - requests / n_clients])
    if checks.flag("one_by_one", one_by_one):
        spared = 1 - 1 / (n_clients - np.arange(requests))
    by_round = spared[:, None] ** (clients_per_round * np.arange(1, rounds + 1))
    return float(local_steps * (1 - by_round).sum())


@checked
def first_participation(
    *, n_clients: Count, clients_per_round: Count, local_steps: Count, rounds: Count
) -> float:
    """Return the mean step at the end of a client's first round, 0 if no round draws it.

    This is what the paper plots as the unlearning time of clients (ERRATA 86), E r for the first
    round r = 1 to R, and not what is recomputed, E (R - r + 1), which is `client_time`. Both add up
    to E (R + 1) times the probability of being drawn. By symmetry it is also the mean time from the
    start of the last round that draws the client to the end. Source: FATS, Figures 6b and 7b; the
    sum is ours.

    Parameters
    ----------
    n_clients, clients_per_round, local_steps, rounds : int
        M, K, E, R, each at least 1.

    Raises
    ------
    ValueError
        If a number is out of range.
    """
    unused = (1 - 1 / n_clients) ** (clients_per_round * np.arange(rounds + 1))
    return float(local_steps * (unused[:-1] - unused[-1]).sum())


@checked
def rule_of_thumb(rho: Positive) -> float:
    """Return 1 - (1 - e^-rho) / rho, the share of a training that one request costs.

    It is the limit of `client_time` / T for many clients and rounds at fixed rho = rho_C = K R / M:
    the first of a Poisson number of uses, spread evenly over the training.

    Raises
    ------
    ValueError
        If rho is not a positive number.
    """
    return float(1 + np.expm1(-rho) / rho)
