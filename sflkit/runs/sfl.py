"""Streaming federated learning: K clients with small caches learn from a label stream. Source: SFL, Section IV-A and VI.

A round: every client receives B_s samples, updates its cache by the rule, takes E full-batch gradient steps on the cache,
and the server moves the global model by eta times the mean of the client differences, (2)-(6) with ERRATA 2.

All clients draw their arrivals from one training set, each in its own random order and without repetition until the samples of
a class are used up; the paper does not say whether clients share samples. With a small data set several clients therefore see
the same samples (`partitions.split_by_classes` makes disjoint shares for experiments of your own).

Runs that differ only in the rule (or theta) see the same stream, the same samples, the same test set and the same initial
model, because each of these has its own generator; their differences are paired.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np
import pandas as pd

from sflkit import caches, checks, data, partitions, streams
from sflkit.randomness import generator
from sflkit.runs.sfl_learner import Learner as _Learner

EXPERIMENT = "sfl-training"
RESULT_VERSION = 1
_POSITIVE_INTEGERS = (
    "n_clients",
    "classes_per_client",
    "n_states",
    "capacity",
    "rounds",
    "local_steps",
    "test_size",
    "evaluate_every",
    "n_classes",
)
# What may differ between runs that train side by side (`run_stacked`): model, sizes, data set and number of steps stay equal.
FREE = (
    "rule",
    "seed",
    "theta",
    "classes_per_client",
    "n_states",
    "temperature",
    "exact_counts",
    "local_rate",
    "global_rate",
    "test_size",
)
RULES = ("fifo", "srsr", "drsr", "lazy", "reservoir", "full", "full_refreshed")


@dataclass(frozen=True)
class SFLConfig:
    """One run of one cache rule. Defaults are the FMNIST setting of SFL, Section VI (Fig. 4b).

    Parameters
    ----------
    rule : one of RULES
        "full" is static, "full_refreshed" renews its samples each round.
    seed : int
        >= 0.
    data, model : str
        Names of `sflkit.data` and `sflkit.models`; `width` scales "mobilenetv2".
    superclasses : bool
        Learn the coarse labels (20 for CIFAR-100; supplement).
    n_clients, classes_per_client, n_states : int
        K = 10, C = 3, S = 10 short-term distributions (Section VI).
    temperature : float
        > 0, of the transition law exp(-KL / temperature), which the paper leaves open (ERRATA 12); with 0.2 the label shares
        of successive rounds have a correlation near 0.45.
    exact_counts : bool
        False draws the labels of a round from the short-term distribution, True rounds its shares.
    capacity, batch_size : int
        B = 300 and B_s = 150 samples.
    theta : float
        SRSR's weight, 2/3.
    rounds, local_steps : int
        T, which the paper's text does not state (its curves run past 200), and E = 2 full-batch steps.
    local_rate, global_rate : float
        eta_L = 0.1 for FMNIST, 0.01 for NTC and CIFAR-100; eta = 1 (supplement).
    test_size : int
        At most so many test samples, drawn to the network's long-term mixture; fewer where a class of the test set runs
        short (`attrs["data"]["test_size"]` has the number). Not stated in the paper.
    evaluate_every : int
        Rounds between evaluations; the last round is always evaluated.
    train : bool
        False follows only the caches: no model, no data set, milliseconds a round.
    n_classes : int
        R of a run without training; with training the data set says.
    """

    rule: str = "drsr"
    seed: int = 0
    data: str = "fmnist"
    model: str = "lenet"
    width: float = 1.0
    superclasses: bool = False
    n_clients: int = 10
    classes_per_client: int = 3
    n_states: int = 10
    temperature: float = 0.2
    exact_counts: bool = False
    capacity: int = 300
    batch_size: int = 150
    theta: float = 2 / 3
    rounds: int = 200
    local_steps: int = 2
    local_rate: float = 0.1
    global_rate: float = 1.0
    test_size: int = 2000
    evaluate_every: int = 1
    train: bool = True
    n_classes: int = 10

    def __post_init__(self):
        checks.choice("rule", self.rule, RULES)
        checks.choice("data", self.data, (*data.AT_HAND, *data.SPECS))
        checks.integer_fields(self, {"seed": 0} | dict.fromkeys(_POSITIVE_INTEGERS, 1))
        object.__setattr__(self, "batch_size", checks.integer("batch_size", self.batch_size, 1, self.capacity))
        for name in ("temperature", "local_rate", "global_rate", "width"):
            checks.real(name, getattr(self, name), above=0)
        checks.real("theta", self.theta, 0, 1)
        for name in ("superclasses", "exact_counts", "train"):
            checks.choice(name, getattr(self, name), (False, True))
        if not self.train:
            checks.integer("classes_per_client", self.classes_per_client, 1, self.n_classes)


def make_cache(config: SFLConfig, long_term: np.ndarray):
    """Return an empty cache of the config's rule; only FULL may know the client's `long_term` shares (n_classes,)."""
    size = config.capacity, config.batch_size
    return {
        "fifo": lambda: caches.FIFO(*size),
        "srsr": lambda: caches.SRSR(*size, config.theta),
        "drsr": lambda: caches.DRSR(*size),
        "lazy": lambda: caches.Lazy(*size),
        "reservoir": lambda: caches.Reservoir(*size),
        "full": lambda: caches.Full(config.capacity, long_term),
        "full_refreshed": lambda: caches.Full(config.capacity, long_term, refresh=True),
    }[config.rule]()


def make_stream(config: SFLConfig, n_classes: int) -> streams.LabelStream:
    """Return the config's label stream, which depends on the seed and the stream's settings only, not on the rule."""
    return streams.kl_markov_stream(
        n_clients=config.n_clients,
        n_classes=n_classes,
        classes_per_client=config.classes_per_client,
        n_states=config.n_states,
        temperature=config.temperature,
        batch_size=config.batch_size if config.exact_counts else None,
        rng=generator(config.seed, "stream"),
    )


class Clients:
    """The clients' streams and caches, without any learning: `arrive(t)` brings every cache to round t.

    Attributes
    ----------
    stream : LabelStream
    counts : int array (rounds, n_clients, n_classes)
        Labels of the arrivals.
    caches : list of cache objects, one a client; their ids are rows of the training set.
    """

    def __init__(
        self, config: SFLConfig, labels: np.ndarray, n_classes: int, cache=None, stream: streams.LabelStream | None = None
    ):
        self.config, self.labels, self.n_classes = config, labels, n_classes
        self.stream = make_stream(config, n_classes) if stream is None else stream
        if self.stream.long_term.shape != (config.n_clients, n_classes):
            raise ValueError(
                f"stream has {self.stream.long_term.shape[0]} clients and {self.stream.long_term.shape[1]} classes; "
                f"this run needs {config.n_clients} and {n_classes}"
            )
        self.counts = self.stream.sample(
            config.rounds, config.batch_size, generator(config.seed, "arrivals"), exact=config.exact_counts
        )
        self.sources = [partitions.SampleSource(labels, generator(config.seed, "samples", k)) for k in range(config.n_clients)]
        self.caches = [cache(shares) if cache else make_cache(config, shares) for shares in self.stream.long_term]
        for k, full in enumerate(self.caches):
            if isinstance(full, caches.Full):
                # FULL holds its set before the first arrival; a source of its own leaves the arrivals as under other rules
                ids = partitions.SampleSource(labels, generator(config.seed, "samples", k, 0)).draw(full.quota)
                full.update(ids, labels[ids], generator(config.seed, "cache", k, 0))

    def arrive(self, t: int) -> None:
        """Deliver the arrivals of round t (1-based, in order) to every cache."""
        for k, (source, cache) in enumerate(zip(self.sources, self.caches, strict=True)):
            ids = source.draw(self.counts[t - 1, k])
            cache.update(ids, self.labels[ids], generator(self.config.seed, "cache", k, t))

    def cached_counts(self) -> np.ndarray:
        """Return the label counts of all caches, (n_clients, n_classes)."""
        return np.stack([cache.label_counts(self.n_classes) for cache in self.caches])


def run(
    config: SFLConfig, *, cache=None, stream: streams.LabelStream | None = None, model=None, backend: str = "auto"
) -> pd.DataFrame:
    """Run one cache rule for T rounds.

    Parameters
    ----------
    config : SFLConfig
    cache : callable, optional
        Your own rule: long-term shares (n_classes,) -> empty cache object (protocol in `sflkit.caches`), one call a client.
    stream : LabelStream, optional
        Your own stream, of config.n_clients clients and the data set's classes.
    model : torch.nn.Module, optional
        Your own network.
    backend : str
        Of `engine.local_sgd`.

    Returns
    -------
    DataFrame, one row a round
        round (from 1), discrepancy psi_t = sum_k sum_r (v - pi)^2, accumulated (its sum over rounds), accuracy and loss on the
        fixed test set (NaN between evaluations and without training), count_<r> (cached samples of class r, all clients).

    Raises
    ------
    ValueError
        If the data set has fewer classes than classes_per_client, or no superclasses where they are asked for.
    FloatingPointError
        If the global model stops being finite; the message names the round.
    """
    (answer,) = run_stacked([config], cache=cache, stream=stream, model=model, backend=backend)
    if isinstance(answer, Exception):
        raise answer
    return answer


def run_stacked(
    configs: Sequence[SFLConfig], *, cache=None, stream: streams.LabelStream | None = None, model=None, backend: str = "auto"
) -> list[pd.DataFrame | FloatingPointError]:
    """Run several configs side by side: one call of `engine.local_sgd` a round trains the clients of all of them.

    Each run has its own stream, caches, model, server and test set, and none sees another, so that every answer is that of
    `run(config)`: with backend="pool" on a CPU to the last bit (while there are no more threads than clients in one run and
    batches in its test), with "stacked" to the rounding of batched products. So 10 seeds of 5 rules train 500 models at once.

    Parameters
    ----------
    configs : SFLConfig, at least one; they may differ in the fields of `FREE` only
    cache, stream, model, backend
        As of `run`, for every config.

    Returns
    -------
    list, one entry a config
        The DataFrame of `run`, or the FloatingPointError of a run whose model stopped being finite; the others go on.

    Raises
    ------
    ValueError
        As `run`, or if the configs differ in another field.
    """
    configs = list(configs)
    if not configs:
        raise ValueError("configs=[] must hold at least one config")
    first = configs[0]
    for config in configs:
        differ = [name for name, value in _shared(config).items() if value != getattr(first, name)]
        if differ:
            raise ValueError(f"configs differ in {', '.join(differ)}; those of one batch may differ only in {', '.join(FREE)}")
    if first.train:
        source = data.load(first.data)
        source = source.with_coarse_labels() if first.superclasses else source
        clients = [Clients(config, source.y_train, source.n_classes, cache, stream) for config in configs]
        learner = _Learner(clients, source, model, backend)
        about = {"name": source.name, "digest": source.digest, "size": len(source.y_train), "canonical": source.canonical}
        attrs = [{"data": about | {"test_size": len(member.test[1])}} for member in learner.members]
    else:
        labels = np.arange(first.n_classes).repeat(first.capacity)
        clients = [Clients(config, labels, first.n_classes, cache, stream) for config in configs]
        learner, attrs = None, [{}] * len(configs)
    rows, failures = [[] for _ in configs], {}
    for t in range(1, first.rounds + 1):
        active = [i for i in range(len(configs)) if i not in failures]
        if not active:
            break
        for i in active:
            clients[i].arrive(t)
            counts = clients[i].cached_counts()
            gaps = counts / counts.sum(axis=1, keepdims=True) - clients[i].stream.long_term
            row = {"round": t, "discrepancy": (gaps**2).sum(), "accuracy": np.nan, "loss": np.nan}
            rows[i].append(row | {f"count_{r}": n for r, n in enumerate(counts.sum(axis=0))})
        if learner:
            learner.step([held for i in active for held in clients[i].caches])
            for i, stays in zip(active, learner.keep_finite(), strict=True):
                if not stays:
                    failures[i] = FloatingPointError(
                        f"the global model is no longer finite after round {t}; lower local_rate={configs[i].local_rate}"
                    )
            if t % first.evaluate_every == 0 or t == first.rounds:
                for i, result in zip([i for i in active if i not in failures], learner.evaluate(), strict=True):
                    rows[i][-1] |= result._asdict()
    return [failures[i] if i in failures else _frame(rows[i], attrs[i]) for i in range(len(configs))]


def stack_key(config: SFLConfig) -> tuple | None:
    """Return what runs must have in common for `sweep.run_many` to put them into one batch; None (never) without training."""
    return tuple(_shared(config).values()) if config.train else None


def _shared(config: SFLConfig) -> dict:
    return {field.name: getattr(config, field.name) for field in fields(config) if field.name not in FREE}


def _frame(rows: list[dict], attrs: dict) -> pd.DataFrame:
    frame = pd.DataFrame(rows)
    frame.insert(2, "accumulated", frame["discrepancy"].cumsum())
    frame.attrs |= attrs
    return frame
