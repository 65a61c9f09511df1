"""Streaming federated learning in which caches differ in their labels and in nothing else.

Source: the mechanism behind SFL, Section VI: a rule that holds the long-term label mix should train
better than one that follows the latest round. In an ordinary run a rule also decides which and how
many different samples a model ever sees, and that is the larger effect. Here a client's loss in
round t is

    sum_r v_t^{k,r} * (mean loss over ALL training samples of class r),

with the label shares v_t^{k,r} of its cache. Every rule thus trains on the same samples, and what
is left between rules is the label mix and nothing else. The caches are the real ones, on the
paper's stream; the model is linear (softmax), and the classes overlap, since a model that separates
its classes does not care in which proportion it sees them.

A *world* is what the paper fixes before a run: stream law, class means, samples, test set and
initial model. A *path* is what differs between the runs of one world: the labels that arrive. The
variance across runs that the paper speaks of is that over the paths of one world.

| code    | symbol   | shape       | meaning                                                       |
|---------|----------|-------------|---------------------------------------------------------------|
| shares  | v_t      | (K, R)      | label shares of the caches                                    |
| weights | W_t      | (R, F+1, R) | model: from features and a constant to the scores of R classes|
| x       |          | (R, n, F+1) | features of n samples of each class, the last one constant    |

"""

from __future__ import annotations

from typing import Annotated, NamedTuple

import numpy as np
import pandas as pd
from scipy.special import softmax

from sflkit import checks
from sflkit.config import Count, OneOf, Positive, Seed, Share, settings
from sflkit.randomness import generator
from sflkit.sfl.caches import RULES, Full
from sflkit.sfl.clients import STARTS, make_cache
from sflkit.sfl.streams import LabelStream, kl_markov_stream

EXPERIMENT = "sfl-label-only"
RESULT_VERSION = 1


@settings
class LabelOnlyConfig:
    """One run of one cache rule in which only labels differ. Sizes are those of SFL, Fig. 4.

    Parameters
    ----------
    rule : str
        A name in `sflkit.sfl.caches.RULES`.
    seed : int
        Of the path, >= 0: which labels arrive, and which samples a cache drops.
    world : int
        Of stream law, class means, samples and initial model, >= 0.
    start : {"append", "full"}
        Whether a cache starts empty or holds B samples, see `sflkit.sfl.clients.Clients`.
    n_clients, n_classes, classes_per_client, n_states, temperature
        The stream, see `SFLConfig`. At 0.05 a short-term distribution stays for some ten rounds.
    capacity, batch_size, theta, rounds, local_steps
        As of `SFLConfig`.
    local_rate : float
        > 0.
    features : int
        F, the dimension of the Gaussian classes.
    noise : float
        > 0, standard deviation of a sample around its class mean, whose entries have variance 1.
    samples : int
        Training samples of each class, and as many test samples.
    """

    rule: Annotated[str, OneOf(RULES)] = "drsr"
    seed: Seed = 0
    world: Seed = 0
    start: Annotated[str, OneOf(STARTS)] = "append"
    n_clients: Count = 10
    n_classes: Count = 10
    classes_per_client: Count = 3
    n_states: Count = 10
    temperature: Positive = 0.05
    capacity: Count = 300
    batch_size: Count = 150
    theta: Share = 2 / 3
    rounds: Count = 200
    local_steps: Count = 2
    local_rate: Positive = 0.5
    features: Count = 20
    noise: Positive = 1.5
    samples: Count = 100


class Classes(NamedTuple):
    """Gaussian classes: features with a constant behind, float32 (n_classes, samples, F + 1)."""

    train: np.ndarray
    test: np.ndarray


def make_stream(config: LabelOnlyConfig) -> LabelStream:
    """Return the stream of the config's world."""
    return kl_markov_stream(
        n_clients=config.n_clients,
        n_classes=config.n_classes,
        classes_per_client=config.classes_per_client,
        n_states=config.n_states,
        temperature=config.temperature,
        rng=generator(config.world, "stream"),
    )


def make_classes(config: LabelOnlyConfig) -> Classes:
    """Return training and test samples of the config's world."""
    rng = generator(config.world, "data")
    means = rng.standard_normal((config.n_classes, 1, config.features))
    size = (config.n_classes, config.samples, config.features)
    parts = [means + config.noise * rng.standard_normal(size) for _ in range(2)]
    constant = np.ones((config.n_classes, config.samples, 1))
    return Classes(*(np.concatenate([x, constant], axis=2).astype(np.float32) for x in parts))


class Samples(NamedTuple):
    """All samples of each client's classes: x (K, N, F + 1), y (K, N) and y as 0 and 1 (K, N, R).

    `per_class` is the number of samples of a class.
    """

    x: np.ndarray
    y: np.ndarray
    indicator: np.ndarray
    per_class: int


def samples_of(owned: np.ndarray, x: np.ndarray) -> Samples:
    """Return the samples of the classes that clients own.

    Parameters
    ----------
    owned : float array (n_clients, n_classes)
        > 0 where a client owns a class, such as its long-term shares. A client with fewer classes
        than another gets some that it does not own; their share is 0 in all that follows.
    x : float array (n_classes, per_class, n_features)
    """
    n_classes, per_class, n_features = x.shape
    most = int((owned > 0).sum(axis=1).max())
    classes = np.argsort(-owned, axis=1, kind="stable")[:, :most]
    y = classes.repeat(per_class, axis=1)
    indicator = np.eye(n_classes, dtype=x.dtype)[y]
    return Samples(x[classes].reshape(len(owned), -1, n_features), y, indicator, per_class)


def local_training(
    weights: np.ndarray, shares: np.ndarray, samples: Samples, *, steps: int, rate: float
) -> np.ndarray:
    """Return the clients' models after gradient steps on their label-weighted losses.

    Parameters
    ----------
    weights : float array (n_features, n_classes)
        The global model, with which every client starts.
    shares : float array (n_clients, n_classes)
        Label shares of the caches, 0 for classes that a client does not own.
    samples : Samples
    steps : int
        E.
    rate : float
        eta_L.

    Returns
    -------
    float array (n_clients, n_features, n_classes)
    """
    weight = np.take_along_axis(shares, samples.y, axis=1) / samples.per_class
    weight = weight[:, :, None].astype(samples.x.dtype)
    transposed = samples.x.swapaxes(1, 2)
    local = np.broadcast_to(weights, (len(shares), *weights.shape))
    for _ in range(steps):
        residual = softmax(samples.x @ local, axis=-1) - samples.indicator
        local = local - rate * (transposed @ (weight * residual))
    return local


def evaluate(weights: np.ndarray, shares: np.ndarray, x: np.ndarray) -> tuple[float, float]:
    """Return loss and accuracy on samples of every class, class r with the weight shares[r]."""
    p = softmax((x @ weights).astype(np.float64), axis=-1)
    rows = np.arange(len(x))
    right = (p.argmax(axis=2) == rows[:, None]).mean(axis=1)
    loss = -np.log(np.maximum(p[rows, :, rows], 1e-300)).mean(axis=1)
    return float(shares @ loss), float(shares @ right)


def cached_shares(config: LabelOnlyConfig, stream: LabelStream) -> np.ndarray:
    """Return the label shares v_t of the caches along the config's path, (rounds, K, R).

    Only labels matter here: the samples have no other identity than their order of arrival.
    """
    first = [config.capacity] if config.start == "full" else []
    sizes = first + [config.batch_size] * config.rounds
    counts = stream.sample(len(sizes), sizes, generator(config.seed, "arrivals"))
    labels = np.arange(config.n_classes)
    shares = np.empty(counts.shape)
    for k, long_term in enumerate(stream.long_term):
        cache = make_cache(config, long_term)
        rng = generator(config.seed, "cache", k)
        if isinstance(cache, Full):  # its set is there before anything arrives
            cache.update(np.arange(config.capacity), labels.repeat(cache.quota), rng)
        for t, arrived in enumerate(counts[:, k]):
            new = rng.permutation(labels.repeat(arrived))
            cache.update(np.arange(len(new)), new, rng)
            shares[t, k] = cache.label_counts(config.n_classes) / len(cache)
    return shares[len(first) :]


def run(config: LabelOnlyConfig, *, stop_after: int | None = None) -> pd.DataFrame:
    """Run one cache rule for T rounds, or the first `stop_after` of them.

    Returns
    -------
    DataFrame, one row per round
        round (from 1), discrepancy psi_t = sum_k sum_r (v - pi)^2, accuracy and loss on the world's
        test set, whose classes weigh what the network's long-term mixture gives them.
    """
    stream = make_stream(config)
    shares = cached_shares(config, stream)[: checks.last_round(stop_after, config.rounds)]
    classes = make_classes(config)
    mixture = stream.long_term.mean(axis=0)
    weights = np.zeros((config.features + 1, config.n_classes), np.float32)
    how = {"steps": config.local_steps, "rate": config.local_rate}
    results = []
    samples = samples_of(stream.long_term, classes.train)
    for held in shares:
        local = local_training(weights, held, samples, **how)
        weights = local.mean(axis=0)  # (4)-(6) with eta = 1
        results.append(evaluate(weights, mixture, classes.test))
    loss, accuracy = np.transpose(results)
    return pd.DataFrame(
        {
            "round": np.arange(1, len(shares) + 1),
            "discrepancy": ((shares - stream.long_term) ** 2).sum(axis=(1, 2)),
            "accuracy": accuracy,
            "loss": loss,
        }
    )
