"""Streaming federated learning: K clients with small caches learn from a label stream. Source: SFL,
Section IV-A and VI.

A round: every client receives B_s samples, updates its cache by the rule, takes E full-batch
gradient steps on the cache, and the server moves the global model by eta times the mean of the
client differences, (2)-(6) with ERRATA 2.

All clients draw their arrivals from one training set, each in its own random order and without
repetition until the samples of a class are used up; the paper does not say whether clients share
samples. With a small data set several clients therefore see the same samples.

Runs that differ only in the rule (or theta) see the same stream, the same samples, the same test
set and the same initial model, because each of these has its own generator; their differences are
paired."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields

import numpy as np
import pandas as pd

from sflkit import data
from sflkit.sfl import streams
from sflkit.sfl.clients import Clients
from sflkit.sfl.config import FREE, SFLConfig
from sflkit.sfl.learner import Learner as _Learner

EXPERIMENT = "sfl-training"


RESULT_VERSION = 1


def run(
    config: SFLConfig,
    *,
    cache=None,
    stream: streams.LabelStream | None = None,
    model=None,
    backend: str = "auto",
) -> pd.DataFrame:
    """Run one cache rule for T rounds.

    Parameters
    ----------
    config : SFLConfig
    cache : callable, optional
        Your own rule: long-term shares (n_classes,) -> empty cache object (protocol in
        `sflkit.sfl.caches`), one call a client.
    stream : LabelStream, optional
        Your own stream, of config.n_clients clients and the data set's classes.
    model : torch.nn.Module, optional
        Your own network.
    backend : str
        Of `federated.local_sgd`.

    Returns
    -------
    DataFrame, one row a round
        round (from 1), discrepancy psi_t = sum_k sum_r (v - pi)^2, accumulated (its sum over
        rounds), accuracy and loss on the fixed test set (NaN between evaluations and without
        training), count_<r> (cached samples of class r, all clients).

    Raises
    ------
    ValueError
        If the data set has fewer classes than classes_per_client, or no superclasses where they are
        asked for.
    FloatingPointError
        If the global model stops being finite; the message names the round.
    """
    (answer,) = run_stacked([config], cache=cache, stream=stream, model=model, backend=backend)
    if isinstance(answer, Exception):
        raise answer
    return answer


def run_stacked(
    configs: Sequence[SFLConfig],
    *,
    cache=None,
    stream: streams.LabelStream | None = None,
    model=None,
    backend: str = "auto",
) -> list[pd.DataFrame | FloatingPointError]:
    """Run several configs side by side: one call of `federated.local_sgd` a round trains the
    clients of all of them.

    Each run has its own stream, caches, model, server and test set, and none sees another, so that
    every answer is that of `run(config)`: with backend="pool" on a CPU to the last bit (while there
    are no more threads than clients in one run and batches in its test), with "stacked" to the
    rounding of batched products. So 10 seeds of 5 rules train 500 models at once.

    Parameters
    ----------
    configs : SFLConfig, at least one; they may differ in the fields of `FREE` only
    cache, stream, model, backend
        As of `run`, for every config.

    Returns
    -------
    list, one entry a config
        The DataFrame of `run`, or the FloatingPointError of a run whose model stopped being finite;
        the others go on.

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
            raise ValueError(
                f"configs differ in {', '.join(differ)}; those of one batch may differ only in {', '.join(FREE)}"
            )
    if first.train:
        source = data.load(first.data)
        source = source.with_coarse_labels() if first.superclasses else source
        clients = [
            Clients(config, source.y_train, source.n_classes, cache, stream) for config in configs
        ]
        learner = _Learner(clients, source, model, backend)
        about = {
            "name": source.name,
            "digest": source.digest,
            "size": len(source.y_train),
            "canonical": source.canonical,
        }
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
                for i, result in zip(
                    [i for i in active if i not in failures], learner.evaluate(), strict=True
                ):
                    rows[i][-1] |= result._asdict()
    return [
        failures[i] if i in failures else _frame(rows[i], attrs[i]) for i in range(len(configs))
    ]


def stack_key(config: SFLConfig) -> tuple | None:
    """Return what runs must have in common for `sweep.run_many` to put them into one batch; None
    (never) without training.
    """
    return tuple(_shared(config).values()) if config.train else None


def _shared(config: SFLConfig) -> dict:
    return {
        field.name: getattr(config, field.name)
        for field in fields(config)
        if field.name not in FREE
    }


def _frame(rows: list[dict], attrs: dict) -> pd.DataFrame:
    frame = pd.DataFrame(rows)
    frame.insert(2, "accumulated", frame["discrepancy"].cumsum())
    frame.attrs |= attrs
    return frame
