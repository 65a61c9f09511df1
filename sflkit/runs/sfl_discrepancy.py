"""Monte Carlo of E[(v_t - pi)^2], the discrepancy between a cache and its stream, with the real caches.

Source: SFL, Section IV-B, Propositions 1-3. Every repeat follows the same label stream (drawn from the seed) along a path of
its own, with exact counts, so that the mean over repeats estimates what `sflkit.streams.exact_discrepancy` computes. What is
stored is counted: samples are whole, so the rounding of ERRATA 4, an error below one sample a label, is in these numbers.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from sflkit import caches, checks, streams
from sflkit.randomness import generator

EXPERIMENT = "sfl-discrepancy"
RESULT_VERSION = 1
RULES = ("fifo", "srsr", "srsr_filled", "drsr")


@dataclass(frozen=True)
class DiscrepancyConfig:
    """One cache rule over many paths of one stream.

    Parameters
    ----------
    rule : one of RULES, as in `streams.exact_discrepancy`
        "srsr" is the recursion as printed, v_0 = 0: the cache starts full of blanks, samples of no class. "srsr_filled" is the
        rule as implemented, which appends the first M rounds.
    seed : int
        Of the stream, >= 0.
    part : int
        Independent block of repeats, >= 0.
    n_clients, n_classes, classes_per_client, n_states, temperature
        The stream, see `streams.kl_markov_stream`; SFL, Section VI has 10 clients, 10 classes, 3 a client, 10 states.
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
        sizes = ("n_clients", "n_classes", "classes_per_client", "n_states", "batch_size", "cache_rounds", "rounds",
                 "repeats")
        checks.integer_fields(self, {"seed": 0, "part": 0} | dict.fromkeys(sizes, 1))
        checks.real("temperature", self.temperature, above=0)
        checks.real("theta", self.theta, 0, 1)


def make_stream(config: DiscrepancyConfig) -> streams.LabelStream:
    """Return the config's stream, which depends on the seed and the stream's settings only; shares lie on the 1/B_s grid."""
    return streams.kl_markov_stream(
        n_clients=config.n_clients, n_classes=config.n_classes, classes_per_client=config.classes_per_client,
        n_states=config.n_states, temperature=config.temperature, batch_size=config.batch_size,
        rng=generator(config.seed, "stream"))


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
    """Return a stream with `repeats` independent copies of each client, the copies of one client side by side."""
    return streams.LabelStream(stream.short_term.repeat(repeats, axis=0), stream.transition.repeat(repeats, axis=0))


def run(config: DiscrepancyConfig) -> pd.DataFrame:
    """Follow the rule along `repeats` paths.

    Returns
    -------
    DataFrame, one row a round, client and class that the client owns
        round (from 1), client, label, discrepancy (mean over repeats of (v_t - pi)^2), square (mean of its square). Rows with
        client = label = -1 hold the sum over clients and labels, psi_t.
    """
    stream = make_stream(config)
    copies = repeat_clients(stream, config.repeats)
    counts = copies.sample(config.rounds, config.batch_size, generator(config.seed, "arrivals", config.part), exact=True)
    rng = generator(config.seed, "cache", config.part)
    shares = np.empty(counts.shape)
    labels = np.arange(config.n_classes)
    for k in range(counts.shape[1]):
        cache = make_cache(config, rng)
        for t in range(config.rounds):
            cache.update(np.arange(config.batch_size) + config.batch_size * t, labels.repeat(counts[t, k]), rng)
            held = cache.label_counts(config.n_classes + 1)
            shares[t, k] = held[:-1] / held.sum()
    gaps = (shares - copies.long_term) ** 2
    gaps = gaps.reshape(config.rounds, config.n_clients, config.repeats, config.n_classes)
    client, label = np.nonzero(stream.long_term)
    own, psi = gaps.swapaxes(2, 3)[:, client, label], gaps.sum(axis=(1, 3))
    own = np.concatenate([own, psi[:, None]], axis=1)  # (rounds, pairs + 1, repeats)
    client, label, t = np.append(client, -1), np.append(label, -1), np.arange(1, config.rounds + 1)
    return pd.DataFrame({
        "round": t.repeat(len(client)), "client": np.tile(client, len(t)), "label": np.tile(label, len(t)),
        "discrepancy": own.mean(axis=2).ravel(), "square": (own ** 2).mean(axis=2).ravel()})


def pool(frame: pd.DataFrame) -> pd.DataFrame:
    """Pool the parts of configs: mean, standard_error and repeats of each rule, cache_rounds, theta, round, client, label."""
    by = ["rule", "cache_rounds", "theta", "round", "client", "label"]
    weighted = frame[by].assign(repeats=frame["repeats"], first=frame["discrepancy"] * frame["repeats"],
                                second=frame["square"] * frame["repeats"])
    total = weighted.groupby(by, sort=False).sum().reset_index()
    n, mean = total["repeats"], total["first"] / total["repeats"]
    variance = (total["second"] / n - mean ** 2).clip(lower=0)
    return total[by].assign(mean=mean, standard_error=np.sqrt(variance / (n - 1)), repeats=n)
