"""Monte Carlo of E[(v_t - pi)^2], the discrepancy between a cache and its stream, with the real
caches.

Source: SFL, Section IV-B, Propositions 1-3. Every repeat follows the same label stream (drawn from
the seed) along a path of its own, with exact counts, so that the mean over repeats estimates what
`sflkit.sfl.discrepancy.exact_discrepancy` computes. What is stored is counted: samples are whole,
so the rounding of ERRATA 4, an error below one sample a label, is in these numbers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from sflkit import checks
from sflkit.randomness import generator
from sflkit.sfl import caches, streams
from sflkit.sfl.streams import LabelStream

EXPERIMENT = "sfl-discrepancy"


RESULT_VERSION = 1


RULES = ("fifo", "srsr", "srsr_filled", "drsr")


@dataclass(frozen=True)
class DiscrepancyConfig:
    """One cache rule over many paths of one stream.

    Parameters
    ----------
    rule : one of RULES, as in `discrepancy.exact_discrepancy`
        "srsr" is the recursion as printed, v_0 = 0: the cache starts full of blanks, samples of no
        class. "srsr_filled" is the rule as implemented, which appends the first M rounds.
    seed : int
        Of the stream, >= 0.
    part : int
        Independent block of repeats, >= 0.
    n_clients, n_classes, classes_per_client, n_states, temperature
        The stream, see `streams.kl_markov_stream`; SFL, Section VI has 10 clients, 10 classes, 3 a
        client, 10 states.
    batch_size, cache_rounds : int
        B_s samples a round and M = B / B_s.
    theta : float
        SRSR's weight in [0, 1].
    rounds, repeats : int
        T and the number of paths.
    """

    rule: str = "drsr"
    seed: int = 0
    part: int = 0
    n_clients: int = 4
    n_classes: int = 10
    classes_per_client: int = 3
    n_states: int = 10
    temperature: float = 0.2
    batch_size: int = 30
    cache_rounds: int = 10
    theta: float = 2 / 3
    rounds: int = 60
    repeats: int = 50

    def __post_init__(self):
        checks.choice("rule", self.rule, RULES)
        sizes = (
            "n_clients",
            "n_classes",
            "classes_per_client",
            "n_states",
            "batch_size",
            "cache_rounds",
            "rounds",
            "repeats",
        )
        checks.integer_fields(self, {"seed": 0, "part": 0} | dict.fromkeys(sizes, 1))
        checks.real("temperature", self.temperature, above=0)
        checks.real("theta", self.theta, 0, 1)


def make_stream(config: DiscrepancyConfig) -> streams.LabelStream:
    """Return the config's stream, which depends on the seed and the stream's settings only; shares
    lie on the 1/B_s grid.
    """
    return streams.kl_markov_stream(
        n_clients=config.n_clients,
        n_classes=config.n_classes,
        classes_per_client=config.classes_per_client,
        n_states=config.n_states,
        temperature=config.temperature,
        batch_size=config.batch_size,
        rng=generator(config.seed, "stream"),
    )


def make_cache(config: DiscrepancyConfig, rng: np.random.Generator):
    """Return a cache of the config's rule in its starting state."""
    size = config.batch_size * config.cache_rounds, config.batch_size
    if config.rule == "fifo":
        return caches.FIFO(*size)
    if config.rule == "drsr":
        return caches.DRSR(*size)
    cache = caches.SRSR(*size, config.theta)
    if config.rule == "srsr":  # blanks carry the label after the last class
        cache.update(-1 - np.arange(size[0]), np.full(size[0], config.n_classes), rng)
    return cache


def repeat_clients(stream: streams.LabelStream, repeats: int) -> streams.LabelStream:
    """Return a stream with `repeats` independent copies of each client, the copies of one client
    side by side.
    """
    return streams.LabelStream(
        stream.short_term.repeat(repeats, axis=0), stream.transition.repeat(repeats, axis=0)
    )


def run(config: DiscrepancyConfig) -> pd.DataFrame:
    """Follow the rule along `repeats` paths.

    Returns
    -------
    DataFrame, one row a round, client and class that the client owns
        round (from 1), client, label, discrepancy (mean over repeats of (v_t - pi)^2), square (mean
        of its square). Rows with client = label = -1 hold the sum over clients and labels, psi_t.
    """
    stream = make_stream(config)
    copies = repeat_clients(stream, config.repeats)
    counts = copies.sample(
        config.rounds,
        config.batch_size,
        generator(config.seed, "arrivals", config.part),
        exact=True,
    )
    rng = generator(config.seed, "cache", config.part)
    shares = np.empty(counts.shape)
    labels = np.arange(config.n_classes)
    for k in range(counts.shape[1]):
        cache = make_cache(config, rng)
        for t in range(config.rounds):
            cache.update(
                np.arange(config.batch_size) + config.batch_size * t,
                labels.repeat(counts[t, k]),
                rng,
            )
            held = cache.label_counts(config.n_classes + 1)
            shares[t, k] = held[:-1] / held.sum()
    gaps = (shares - copies.long_term) ** 2
    gaps = gaps.reshape(config.rounds, config.n_clients, config.repeats, config.n_classes)
    client, label = np.nonzero(stream.long_term)
    own, psi = gaps.swapaxes(2, 3)[:, client, label], gaps.sum(axis=(1, 3))
    own = np.concatenate([own, psi[:, None]], axis=1)  # (rounds, pairs + 1, repeats)
    client, label, t = np.append(client, -1), np.append(label, -1), np.arange(1, config.rounds + 1)
    return pd.DataFrame(
        {
            "round": t.repeat(len(client)),
            "client": np.tile(client, len(t)),
            "label": np.tile(label, len(t)),
            "discrepancy": own.mean(axis=2).ravel(),
            "square": (own**2).mean(axis=2).ravel(),
        }
    )


def pool(frame: pd.DataFrame) -> pd.DataFrame:
    """Pool the parts of configs: mean, standard_error and repeats of each rule, cache_rounds,
    theta, round, client, label.
    """
    by = ["rule", "cache_rounds", "theta", "round", "client", "label"]
    weighted = frame[by].assign(
        repeats=frame["repeats"],
        first=frame["discrepancy"] * frame["repeats"],
        second=frame["square"] * frame["repeats"],
    )
    total = weighted.groupby(by, sort=False).sum().reset_index()
    n, mean = total["repeats"], total["first"] / total["repeats"]
    variance = (total["second"] / n - mean**2).clip(lower=0)
    return total[by].assign(mean=mean, standard_error=np.sqrt(variance / (n - 1)), repeats=n)


def rule_weights(rule: str, t: int, *, cache_rounds: int, theta: float | None = None) -> np.ndarray:
    """Return the weights a with which a cache rule averages the past: v_t = sum_j a[j] u_{t-j},
    newest first.

    Source: SFL, (8) for "fifo", (12) for "srsr", (41) of the preprint for "drsr"; "srsr_filled" is
    SRSR as implemented: the first M rounds are appended, then the recursion (12) runs.

    Parameters
    ----------
    rule : {"fifo", "drsr", "srsr", "srsr_filled"}
    t : int
        Round, >= 1 (counted from 1); "fifo" needs t >= cache_rounds, where the cache is full.
    cache_rounds : int
        M = B / B_s >= 1, rounds of arrivals.
    theta : float, optional
        SRSR's weight in [0, 1]; required by the two SRSR rules and refused by the others.

    Returns
    -------
    array (n,), n <= t; adds up to 1 except for "srsr", which starts empty with v = counts / B.

    Raises
    ------
    ValueError
        For an unknown rule, t or cache_rounds out of range, or theta missing or out of place.
    """
    checks.choice("rule", rule, ("fifo", "drsr", "srsr", "srsr_filled"))
    cache_rounds = checks.integer("cache_rounds", cache_rounds, 1)
    t = checks.integer("t", t, cache_rounds if rule == "fifo" else 1)
    if rule.startswith("srsr"):
        step = checks.real("theta", theta, 0, 1) / cache_rounds
    elif theta is not None:
        raise ValueError(
            f"theta={theta!r} belongs to the rules 'srsr' and 'srsr_filled', not to {rule!r}"
        )
    if rule == "fifo":
        return np.full(cache_rounds, 1 / cache_rounds)
    if rule == "drsr":
        return np.full(t, 1 / t)
    if rule == "srsr":
        return step * (1 - step) ** np.arange(t)
    filled, after = min(t, cache_rounds), max(t - cache_rounds, 0)
    return np.concatenate(
        [step * (1 - step) ** np.arange(after), np.full(filled, (1 - step) ** after / filled)]
    )


def exact_discrepancy(
    stream: LabelStream, rule: str, t: int, *, cache_rounds: int, theta: float | None = None
) -> np.ndarray:
    """Return E[(v_t - pi)^2] of a cache rule under exact counts, shape (n_clients, n_classes).

    With the rule's weights a (`rule_weights`, also for the arguments and what they raise) the
    expectation is sum_{i,j} a_i a_j C(|i-j|) + (1 - sum a)^2 pi^2, from the chain's autocovariances
    C in its stationary state (ERRATA 7)."""
    weights = rule_weights(rule, t, cache_rounds=cache_rounds, theta=theta)
    overlap = np.correlate(weights, weights, mode="full")[len(weights) - 1 :]
    overlap[1:] *= 2
    covariances = stream.autocovariances(len(weights) - 1)
    return (
        np.tensordot(overlap, covariances, axes=1) + (1 - weights.sum()) ** 2 * stream.long_term**2
    )


def correlation_rounds(stream: LabelStream, window: int) -> tuple[float, float]:
    """Return (Gamma, delta2) with which Assumption 1's bounds are safe for a Markov stream over
    `window` rounds.

    A Markov chain's covariances never vanish, so Gamma is the integrated correlation: 2 Gamma + 1
    is the largest sum of
    |C(lag)| / delta2 over |lag| < window, and delta2 the largest C(0) (ERRATA 7).

    Raises
    ------
    ValueError
        If window is not a positive integer or the stream never changes (delta2 = 0).
    """
    covariances = stream.autocovariances(checks.integer("window", window, 1) - 1)
    delta2 = float(covariances[0].max())
    if delta2 <= 0:
        raise ValueError(
            f"delta2={delta2!r}: the short-term shares never change, so no correlation is defined"
        )
    total = np.abs(covariances[0]) + 2 * np.abs(covariances[1:]).sum(axis=0)
    return max(float(total.max()) / delta2 - 1, 0.0) / 2, delta2
