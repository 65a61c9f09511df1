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
    run(config, server=FedAdam)        # or a function (config, shares) -> rule
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import fields
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from sflkit import checks, data
from sflkit.results.attempts import Outcome
from sflkit.sfl.clients import Clients
from sflkit.sfl.config import FREE, SFLConfig
from sflkit.sfl.learner import Learner
from sflkit.sfl.streams import LabelStream

if TYPE_CHECKING:
    from torch import nn

EXPERIMENT = "sfl-training"
RESULT_VERSION = 1


def run(
    config: SFLConfig,
    *,
    cache: Callable | None = None,
    server: Callable | None = None,
    model: nn.Module | Callable | None = None,
    stream: LabelStream | Callable | None = None,
    backend: str = "auto",
    stop_after: int | None = None,
) -> pd.DataFrame:
    """Run one cache rule for T rounds.

    Parameters
    ----------
    config : SFLConfig
    cache : class or function, optional
        Your own cache rule in place of `config.rule`: a class, which is built as
        cls(config.capacity, config.batch_size), or a function (config, long_term) -> empty cache,
        where long_term (n_classes,) holds the client's long-term label shares.
    server : class or function, optional
        Your own server rule in place of FedAvg with `config.global_rate`: a class, which is built
        as cls(), or a function (config, shares) -> rule, where shares (n_clients,) are the clients'
        weights in the objective, 1/K each.
    model : torch.nn.Module, class or function, optional
        Your own network in place of `config.model`; a class or function gets (input_shape,
        n_classes).
    stream : LabelStream or function, optional
        Your own stream, of config.n_clients clients and the data set's classes; a function gets
        (config, n_classes).
    backend : str
        Of `federated.local_sgd`.
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
    own = {"cache": cache, "server": server, "model": model, "stream": stream}
    (outcome,) = run_stacked([config], **own, backend=backend, stop_after=stop_after)
    if outcome.error is not None:
        raise outcome.error
    return outcome.frame


def full_start(
    config: SFLConfig,
    *,
    cache: Callable | None = None,
    server: Callable | None = None,
    model: nn.Module | Callable | None = None,
    stream: LabelStream | Callable | None = None,
    backend: str = "auto",
    stop_after: int | None = None,
) -> pd.DataFrame:
    """As `run`, with caches that hold B samples at the start instead of filling by appending.

    See `start` of `sflkit.sfl.clients.Clients`. Results are kept as "sfl-training-full-start".
    """
    own = {"cache": cache, "server": server, "model": model, "stream": stream}
    how = {"backend": backend, "start": "full", "stop_after": stop_after}
    (outcome,) = run_stacked([config], **own, **how)
    if outcome.error is not None:
        raise outcome.error
    return outcome.frame


def full_start_stacked(
    configs: Sequence[SFLConfig],
    *,
    cache: Callable | None = None,
    server: Callable | None = None,
    model: nn.Module | Callable | None = None,
    stream: LabelStream | Callable | None = None,
    backend: str = "auto",
) -> list[Outcome]:
    """As `run_stacked`, for `full_start`."""
    own = {"cache": cache, "server": server, "model": model, "stream": stream}
    return run_stacked(configs, **own, backend=backend, start="full")


def run_stacked(
    configs: Sequence[SFLConfig],
    *,
    cache: Callable | None = None,
    server: Callable | None = None,
    model: nn.Module | Callable | None = None,
    stream: LabelStream | Callable | None = None,
    backend: str = "auto",
    start: str = "append",
    stop_after: int | None = None,
) -> list[Outcome]:
    """Run several configs side by side.

    One call of `federated.local_sgd` per round trains the clients of all of them, so that 10 seeds
    of 5 rules with 10 clients train 500 models at once. Each run has its own stream, caches, model,
    server and test set, and none sees another. Every answer is therefore that of `run(config)`:
    with backend="pool" on a CPU to the last bit (while there are no more threads than clients in
    one run and batches in its test), with "stacked" to the rounding of batched products.

    Parameters
    ----------
    configs : SFLConfig, at least one; they may differ in the fields of `FREE` only
    cache, server, model, stream, backend
        As of `run`, for every config.
    start : {"append", "full"}
        Of `sflkit.sfl.clients.Clients`, for every config.
    stop_after : int, optional
        As of `run`, for every config.

    Returns
    -------
    list of Outcome, one per config
        `frame`, the DataFrame of `run`; or `error`, the FloatingPointError of a run whose model
        stopped being finite, while the others went on. The other field is None.

    Raises
    ------
    ValueError
        As `run`, or if the configs differ in another field.
    """
    configs = _checked(configs)
    last = checks.last_round(stop_after, configs[0].rounds)
    if configs[0].train:
        clients, learner, attrs = _learning(configs, cache, server, model, stream, backend, start)
    else:
        for name, own in (("server", server), ("model", model)):
            if own is not None:
                raise ValueError(f"{name}={own!r} needs train=True; this run has train=False")
        n_classes = configs[0].n_classes
        labels = np.arange(n_classes).repeat(configs[0].capacity)
        clients = [Clients(config, labels, n_classes, cache, stream, start) for config in configs]
        learner = None
        attrs = [{}] * len(configs)
    caches = [held for run in clients for held in run.caches]
    if len(set(map(id, caches))) < len(caches):
        from sflkit.federated.own import check_not_shared  # brings torch, only for the message

        pairs = [(i, k) for i, run in enumerate(clients) for k in range(len(run.caches))]
        check_not_shared("cache", caches, [f"client {k} of run {i}" for i, k in pairs])
    rows, errors = _rounds(configs, clients, learner, last)
    return [
        Outcome(None, errors[i]) if i in errors else Outcome(_frame(rows[i], attrs[i]), None)
        for i in range(len(configs))
    ]


def stack_key(config: SFLConfig) -> tuple | None:
    """Return what runs must have in common for `sweep.run_many` to put them into one batch.

    None, that is never, without training.
    """
    return tuple(_shared(config).values()) if config.train else None


def _checked(configs: Sequence[SFLConfig]) -> list[SFLConfig]:
    configs = list(configs)
    if not configs:
        raise ValueError("configs=[] must hold at least one config")
    for config in configs:
        shared = _shared(config).items()
        differ = [name for name, value in shared if value != getattr(configs[0], name)]
        if differ:
            raise ValueError(
                f"configs differ in {', '.join(differ)}; those of one batch may differ only in "
                f"{', '.join(FREE)}"
            )
    return configs


def _shared(config: SFLConfig) -> dict[str, Any]:
    names = [field.name for field in fields(config) if field.name not in FREE]
    return {name: getattr(config, name) for name in names}


def _learning(
    configs: list[SFLConfig],
    cache: Callable | None,
    server: Callable | None,
    model: nn.Module | Callable | None,
    stream: LabelStream | Callable | None,
    backend: str,
    start: str,
) -> tuple[list[Clients], Learner, list[dict]]:
    """Return the clients of each run, their learner, and each result's `attrs`."""
    source = data.load(configs[0].data)
    source = source.with_coarse_labels() if configs[0].superclasses else source
    clients = [
        Clients(config, source.y_train, source.n_classes, cache, stream, start)
        for config in configs
    ]
    learner = Learner(clients, source, server=server, model=model, backend=backend)
    about = {
        "name": source.name,
        "digest": source.digest,
        "size": len(source.y_train),
        "canonical": source.canonical,
        "note": source.note,
    }
    sizes = [len(member.test[1]) for member in learner.members]
    return clients, learner, [{"data": about | {"test_size": size}} for size in sizes]


def _rounds(
    configs: list[SFLConfig], clients: list[Clients], learner: Learner | None, last: int
) -> tuple[list[list[dict]], dict[int, FloatingPointError]]:
    """Return the rows of each run, and the error of each that stopped being finite, by number."""
    first = configs[0]
    rows: list[list[dict]] = [[] for _ in configs]
    errors: dict[int, FloatingPointError] = {}
    active = list(range(len(configs)))
    for t in range(1, last + 1):
        for i in active:
            clients[i].arrive(t)
            rows[i].append(_cache_row(t, clients[i]))
        if learner is None:
            continue
        learner.step([clients[i].contents for i in active])
        for i, stays in zip(active, learner.keep_finite(), strict=True):
            if not stays:
                errors[i] = FloatingPointError(
                    f"the global model is no longer finite after round {t}; lower "
                    f"local_rate={configs[i].local_rate} or global_rate={configs[i].global_rate}"
                )
        active = [i for i in active if i not in errors]
        if not active:
            break
        if t % first.evaluate_every == 0 or t == first.rounds:
            for i, result in zip(active, learner.evaluate(), strict=True):
                rows[i][-1] |= result._asdict()
    return rows, errors


def _cache_row(t: int, clients: Clients) -> dict[str, Any]:
    """Return round, discrepancy and label counts; accuracy and loss are filled in later."""
    counts = clients.cached_counts()
    shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    discrepancy = ((shares - clients.stream.long_term) ** 2).sum()
    row = {"round": t, "discrepancy": discrepancy, "accuracy": np.nan, "loss": np.nan}
    return row | {f"count_{r}": n for r, n in enumerate(counts.sum(axis=0))}


def _frame(rows: list[dict], attrs: dict) -> pd.DataFrame:
    frame = pd.DataFrame(rows)
    frame.insert(2, "accumulated", frame["discrepancy"].cumsum())
    frame.attrs |= attrs
    return frame
