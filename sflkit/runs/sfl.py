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

import functools
from dataclasses import dataclass

import numpy as np
import pandas as pd

from sflkit import caches, checks, data, partitions, streams
from sflkit.randomness import generator

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


def run(config: SFLConfig, *, cache=None, stream: streams.LabelStream | None = None, model=None) -> pd.DataFrame:
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
    if not config.train:
        clients = Clients(config, np.arange(config.n_classes).repeat(config.capacity), config.n_classes, cache, stream)
        learner, attrs = None, {}
    else:
        source = data.load(config.data)
        source = source.with_coarse_labels() if config.superclasses else source
        clients = Clients(config, source.y_train, source.n_classes, cache, stream)
        learner = _Learner(config, source, clients.stream.long_term.mean(axis=0), model)
        about = {"name": source.name, "digest": source.digest, "size": len(source.y_train), "canonical": source.canonical}
        attrs = {"data": about | {"test_size": len(learner.test[1])}}
    rows = []
    for t in range(1, config.rounds + 1):
        clients.arrive(t)
        counts = clients.cached_counts()
        shares = counts / counts.sum(axis=1, keepdims=True)
        row = {"round": t, "discrepancy": ((shares - clients.stream.long_term) ** 2).sum(), "accuracy": np.nan, "loss": np.nan}
        if learner:
            learner.step(clients.caches, t)
            if t % config.evaluate_every == 0 or t == config.rounds:
                row["loss"], row["accuracy"] = learner.evaluate()
        rows.append(row | {f"count_{r}": n for r, n in enumerate(counts.sum(axis=0))})
    frame = pd.DataFrame(rows)
    frame.insert(2, "accumulated", frame["discrepancy"].cumsum())
    frame.attrs |= attrs
    return frame


@functools.lru_cache(maxsize=1)  # the runs of a sweep share one data set, whose conversion costs as much as many rounds
def _training_tensors(name: str, superclasses: bool, digest: str, device: str):
    import torch

    source = data.load(name)
    source = source.with_coarse_labels() if superclasses else source
    return torch.as_tensor(source.inputs("train")).to(device), torch.as_tensor(source.labels("train")).to(device)


class _Learner:
    """The global model and the round that trains it."""

    def __init__(self, config: SFLConfig, source: data.Dataset, test_shares: np.ndarray, model):
        import torch

        from sflkit import engine, models, servers

        options = {"width": config.width} if config.model == "mobilenetv2" else {}
        self.config, self.engine, self.torch = config, engine, torch
        if model is None:
            model = models.create(config.model, input_shape=source.input_shape, n_classes=source.n_classes, **options)
        self.task, self.server = engine.Task(model), servers.FedAvg(config.global_rate)
        device = "cuda" if torch.cuda.is_available() else "cpu"
        self.params = self.task.init(int(generator(config.seed, "model").integers(2**31))).to(device)
        self.x, self.y = _training_tensors(source.name, config.superclasses, source.digest, device)
        test = partitions.draw_test_set(source.y_test, test_shares, config.test_size, generator(config.seed, "test_set"))
        self.test = (
            torch.as_tensor(source.inputs("test", test)).to(device),
            torch.as_tensor(source.labels("test", test)).to(device),
        )

    def step(self, client_caches: list, t: int) -> None:
        batches = []
        for cache in client_caches:
            ids = self.torch.as_tensor(cache.ids, device=self.x.device)
            batches.append([(self.x[ids], self.y[ids])] * self.config.local_steps)  # (3): E steps on the whole cache
        local = self.engine.local_sgd(self.task, self.params, batches, self.config.local_rate)
        self.params = self.server(self.params, local - self.params)
        if not bool(self.torch.isfinite(self.params).all()):
            raise FloatingPointError(
                f"the global model is no longer finite after round {t}; lower local_rate={self.config.local_rate}"
            )

    def evaluate(self):
        return self.engine.evaluate(self.task, self.params, *self.test)
