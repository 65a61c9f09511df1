"""Cache rules that start with a full cache: the weights with which they average what they saw.

Source: SFL, Section VI. "Keeps the initial training data set" (LAZY) reads as a cache that holds B
samples before round 1, while our rules otherwise start empty and fill by appending. The B samples
come from round 0 of the stream, all from its state u_0, so that

    v_t = a_0 u_t + ... + a_{t-1} u_1 + a_t u_0.

With a full start, two things of the paper appear that appending hides: LAZY never leaves u_0, whose
expected discrepancy is the largest of all rounds, and SRSR with a small theta leaves it slowly
(Fig. 8(a)). DRSR takes the B samples for the M rounds that they fill: the average of everything
seen so far.

While FIFO still holds some of round 0, chance decides which of these samples go first; the weights
are those of its expected shares, and the spread of that choice is not in them.

`sflkit.sfl.training.full_start` trains with such caches; here is their exact discrepancy:

    exact_discrepancy(stream, weights=full_start_weights("srsr", 20, cache_rounds=10, theta=0.1))
"""

from __future__ import annotations

import numpy as np

from sflkit import checks

RULES = ("fifo", "lazy", "drsr", "srsr")


def full_start_weights(
    rule: str, t: int, *, cache_rounds: int, theta: float | None = None
) -> np.ndarray:
    """Return the weights a, newest round first and the round 0 that filled the cache last.

    Parameters
    ----------
    rule : {"fifo", "lazy", "drsr", "srsr"}
    t : int
        Round, >= 0; in round 0 the cache holds u_0 alone.
    cache_rounds : int
        M = B / B_s >= 1, rounds of arrivals that the cache holds.
    theta : float, optional
        SRSR's weight in [0, 1]; required by "srsr" and refused by the others.

    Returns
    -------
    array (t + 1,), >= 0 with sum 1

    Raises
    ------
    ValueError
        For an unknown rule, t or cache_rounds out of range, or theta missing or out of place.
    """
    checks.choice("rule", rule, RULES)
    t = checks.integer("t", t, 0)
    cache_rounds = checks.integer("cache_rounds", cache_rounds, 1)
    if rule != "srsr" and theta is not None:
        raise ValueError(f"theta={theta!r} belongs to the rule 'srsr', not to {rule!r}")
    if rule == "lazy":
        return np.append(np.zeros(t), 1.0)
    if rule == "fifo":  # each round pushes out an M-th of the samples, those of round 0 first
        new = min(t, cache_rounds)
        gone = np.zeros(max(t - cache_rounds, 0))
        return np.concatenate([np.full(new, 1 / cache_rounds), gone, [1 - new / cache_rounds]])
    if rule == "drsr":
        return np.append(np.full(t, 1.0), cache_rounds) / (cache_rounds + t)
    step = checks.real("theta", theta, 0, 1) / cache_rounds
    return np.append(step * (1 - step) ** np.arange(t), (1 - step) ** t)
