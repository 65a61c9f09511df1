"""Streaming federated learning: K clients with small caches learn from a label stream.

Source: SFL, Sections IV-A and VI. In a round, every client receives B_s samples, updates its cache
by the rule, and takes E full-batch gradient steps on the cache; then the server moves the global
model by eta times the mean of the client differences, (2)-(6) with ERRATA 2.

All clients draw their arrivals from one training set, each in its own random order and without
repetition until the samples of a class are used up; the paper does not say whether clients share
samples. With a small data set several clients therefore see the same samples.

Runs that differ only in the rule (or theta) see the same stream, the same samples, the same test
set and the same initial model, because each of these has its own generator; their differences are
paired.

Your own cache rule, server rule, model or stream goes in by keyword, as `sflkit.sfl.protocol` and
`sflkit.federated.own` say:

    run(config, cache=MyRule)          # class MyRule(caches.Cache)
    run(config, server=FedProx)        # or a function (config, shares) -> rule
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from sflkit import checks
from sflkit.data import Dataset, dataset
from sflkit.sfl.clients import Clients, stream_of
from sflkit.sfl.config import SFLConfig
from sflkit.sfl.protocol import Stream

if TYPE_CHECKING:
    from torch import nn

    from sflkit.sfl.learner import Learner

EXPERIMENT = "sfl-training"
RESULT_VERSION = 1


def run(
    config: SFLConfig,
    *,
    data: str | Dataset | tuple | None = None,
    cache: Callable | None = None,
    server: Callable | None = None,
    model: nn.Module | Callable | None = None,
    stream: Stream | ArrayLike | Callable | None = None,
    start: str = "append",
    stop_after: int | None = None,
) -> pd.DataFrame:
    """Run one cache rule for T rounds.

    Parameters
    ----------
    config : SFLConfig
    data : str, Dataset or tuple of arrays, optional
        Your own data in place of `config.data`: (x, y), (x, y, x_test, y_test), a data set or a
        name, see `data.dataset`.
    cache : class or function, optional
        Your own cache rule in place of `config.rule`: a class, which is built as
        cls(config.capacity, config.batch_size), or a function (config, long_term) -> empty cache,
        where long_term (n_classes,) holds the client's long-term label shares. It may ask for
        inputs and losses, see `needs` of `caches.Cache`.
    server : class or function, optional
        Your own server rule in place of FedAvg with `config.global_rate`: a class, which is built
        as cls(), or a function (config, shares) -> rule, where shares (n_clients,) are the clients'
        weights in the objective, 1/K each.
    model : torch.nn.Module, class or function, optional
        Your own network in place of `config.model`; a class or function gets (input_shape,
        n_classes).
    stream : LabelStream, array (rounds, n_clients, n_classes) or function, optional
        Your own stream, of config.n_clients clients and the data set's classes: a Markov chain, or
        the label shares (floats) or counts (integers) of every round; a row of zeros leaves the
        client's cache as it is. A function (config, n_classes) makes any of them.
    start : {"append", "full"}
        Whether caches are empty at the start and fill by appending, or hold B samples, see
        `sflkit.sfl.clients.Clients`.
    stop_after : int, optional
        The round after which the run ends, in [1, config.rounds]. Its rows are the first of the
        whole run's, since nothing that arrives depends on it.

    Returns
    -------
    DataFrame, one row per round
        round (from 1), discrepancy psi_t = sum_k sum_r (v - pi)^2, accumulated (its sum over
        rounds), accuracy and loss on the fixed test set (NaN between evaluations and without
        training), count_<r> (cached samples of class r, all clients). A cache that holds nothing
        has v = 0.

    Raises
    ------
    ValueError
        If the data set has fewer classes than classes_per_client, or no superclasses where they are
        asked for; if cache, server, model or stream is not as described, or breaks the promises of
        `sflkit.sfl.protocol` on the way; or if a server or model is given for a run that does not
        train.
    FloatingPointError
        If the global model stops being finite; the message names the round.
    """
    last = checks.last_round(stop_after, config.rounds)
    learner, attrs = None, {}
    if config.train:
        from sflkit.sfl.learner import Learner  # it brings torch

        source = dataset(config.data if data is None else data)
        source = source.with_coarse_labels() if config.superclasses else source
        labels, n_classes = source.y_train, source.n_classes
        stream = stream_of(stream, config, n_classes)
        learner = Learner(config, stream, source, server=server, model=model)
        attrs = source.record | {"test_size": len(learner.test[1])}
    else:
        for name, own in (("data", data), ("server", server), ("model", model)):
            if own is not None:
                raise ValueError(f"{name} needs train=True; this run has train=False")
        n_classes = config.n_classes
        labels = np.arange(n_classes).repeat(config.capacity)
    observe = None if learner is None else learner.observe
    crowd = Clients(config, labels, n_classes, cache, stream, start, observe)
    frame = pd.DataFrame(_rows(config, crowd, learner, last))
    frame.insert(2, "accumulated", frame["discrepancy"].cumsum())
    if attrs:
        frame.attrs["data"] = attrs
    return frame


def full_start(config: SFLConfig, *, stop_after: int | None = None, **own: Any) -> pd.DataFrame:
    """As `run` with start="full". Results are kept as "sfl-training-full-start"."""
    return run(config, start="full", stop_after=stop_after, **own)


def _rows(
    config: SFLConfig, crowd: Clients, learner: Learner | None, last: int
) -> Iterator[dict[str, Any]]:
    """Run the rounds until `last`; yield the row of each."""
    for t in range(1, last + 1):
        crowd.arrive(t)
        counts = crowd.cached_counts()
        shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
        discrepancy = ((shares - crowd.stream.long_term) ** 2).sum()
        row = {"round": t, "discrepancy": discrepancy, "accuracy": np.nan, "loss": np.nan}
        row |= {f"count_{r}": n for r, n in enumerate(counts.sum(axis=0))}
        if learner is not None:
            learner.step(crowd.contents)
            if not learner.is_finite():
                raise FloatingPointError(
                    f"the global model is no longer finite after round {t}; lower "
                    f"local_rate={config.local_rate} or global_rate={config.global_rate}"
                )
            if t % config.evaluate_every == 0 or t == config.rounds:
                row |= learner.evaluate()._asdict()
        yield row
