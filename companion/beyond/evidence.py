"""The runs of notebook 92, and from them to what the rules of its questions take.

Every run is kept by `sflkit.results.sweep`, so that a second call computes nothing. Scores are
taken seed by seed: all arms of a seed see the same streams.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from companion.beyond import costs, memories, proofs, stores
from companion.beyond.forgetting import PROVED, NeverArrived, Stream, never_arrived
from sflkit import data, models
from sflkit.datastreams import psi
from sflkit.datastreams import training as streams_training
from sflkit.datastreams.config import DataStreamsConfig
from sflkit.fats import unlearning
from sflkit.fats.state import State
from sflkit.federated import Task
from sflkit.osafl import training as osafl_training
from sflkit.osafl.config import OSAFLConfig
from sflkit.randomness import generator, model_seed
from sflkit.results.sweep import run_many
from sflkit.sfl.caches import RULES

STORES = ("fifo", "drsr")
MEMORIES = {"none": None, "fifo": memories.fifo, "drsr": memories.drsr}
RATIO = 0.15  # c2 / c1 that the data-streams paper reports for images


class Weights(NamedTuple):
    """The arms of the third question.

    `psi` is the weight of the old clients that psi names without caches, and `cached` the one it
    names for caches; both are arms.
    """

    arms: tuple[str, ...]
    psi: str
    cached: str


def forgetting_runs(
    seeds: Sequence[int], *, requests: int, rounds: int, **options: Any
) -> dict[str, pd.DataFrame]:
    """Return the frames "proofs" and "costs" of the first question.

    `options` are jobs and published of `sweep.run_many`.
    """
    tiny = [proofs.ProofConfig(case, rule) for case in proofs.CASES for rule in PROVED]
    priced = [
        costs.CostsConfig(rule=rule, seed=seed, requests=requests, rounds=rounds)
        for rule in (*PROVED, costs.ARCHIVE)
        for seed in seeds
    ]
    counted = run_many(proofs.run, tiny, description="fractions", **options)
    return {"proofs": counted, "costs": run_many(costs.run, priced, **options)}


def store_runs(config: OSAFLConfig, seeds: Sequence[int], **options: Any) -> pd.DataFrame:
    """Return the rounds of OSAFL with each kind of store, with their discrepancy; column `cache`.

    Parameters
    ----------
    config : OSAFLConfig
        Its seed is replaced.
    seeds : list of int
    **options
        jobs and published of `sweep.run_many`.
    """
    frames, keys = [], []
    configs = [replace(config, seed=seed) for seed in seeds]
    for rule in STORES:
        build = RULES[rule].build
        frame = run_many(osafl_training.run, configs, cache=build, description=rule, **options)
        keys += frame.attrs["keys"]
        held = pd.concat([stores.discrepancy(one, rule).assign(seed=one.seed) for one in configs])
        frames.append(frame.assign(cache=rule).merge(held, on=["seed", "round"]))
    found = pd.concat(frames, ignore_index=True)
    found.attrs["keys"] = keys
    return found


def weights(n_old: float, n_fresh: int) -> Weights:
    """Return the arms for a share `n_old` of old samples and so many fresh clients of one size."""
    without = psi.equal_fresh_p_hist(n_old, n_fresh, RATIO)
    ratio = memories.c_ratio_with_caches(RATIO)
    cached = psi.equal_fresh_p_hist(n_old, n_fresh, ratio)
    named = [f"p_hist={round(share, 3):g}" for share in (without, cached)]
    return Weights(("fresh", named[1], named[0], "historical"), named[0], named[1])


def weight_runs(
    config: DataStreamsConfig, arms: Weights, seeds: Sequence[int], **options: Any
) -> pd.DataFrame:
    """Return the rounds of all arms with each memory of the fresh clients; column `memory`.

    Parameters and options are as in `store_runs`; arms and rates of the config are replaced by
    `arms`, at its first rate.
    """
    rates = config.rates[:1] * len(arms.arms)
    configs = [replace(config, arms=arms.arms, rates=rates, seed=seed) for seed in seeds]
    frames, keys = [], []
    for name, memory in MEMORIES.items():
        frame = run_many(
            streams_training.run, configs, cache=memory, description=f"memory {name}", **options
        )
        keys += frame.attrs["keys"]
        # the config's own arms and rates are columns of the same name; those of the rows count
        frames.append(frame.assign(memory=name))
    found = pd.concat(frames, ignore_index=True)
    found.attrs["keys"] = keys
    return found


class Trained(NamedTuple):
    """A model that learnt from caches, and its history without a sample that never arrived."""

    task: Task
    clients: list
    state: State
    forgotten: NeverArrived


def trained_example(seed: int = 0) -> Trained:
    """Train a linear model on digits from DRSR caches, and forget a sample that round 10 used."""
    config = costs.CostsConfig(seed=seed, rounds=20)
    source = data.load("digits")
    streams = costs.draw_streams(config)
    caches = costs.fill_caches(config, streams)
    history = costs.drawn(config, caches)
    task = Task(models.create("linear", input_shape=source.input_shape, n_classes=10))
    clients = [_samples(source, stream, seed, k) for k, stream in enumerate(streams)]
    state = unlearning.learn(task, clients, history, 0.05, start=task.init(model_seed(seed)))
    client, sample = int(history.clients[10, 0]), int(history.batches[10, 0, 0, 0])
    rng = generator(seed, "requests", 1)
    return Trained(task, clients, state, never_arrived(history, caches, client, sample, rng))


def _samples(source: data.Dataset, stream: Stream, seed: int, client: int) -> tuple:
    """Return an image of the data set for each label of a stream, and the labels."""
    rng = generator(seed, "samples", client, 1)
    rows = [rng.choice(np.flatnonzero(source.y_train == label)) for label in stream.labels]
    return source.inputs("train", np.array(rows)), stream.labels


def forgetting_evidence(found: dict[str, pd.DataFrame]) -> dict[str, Any]:
    """Return what the rules of the first question take."""
    tiny = found["proofs"]
    off = {
        name: np.array([_number(text) for text in tiny[name]])
        for name in ("withheld", "never_arrived", "unaware")
    }
    unaware = {
        rule: bool((off["unaware"][(tiny["rule"] == rule).to_numpy()] > 0).any()) for rule in PROVED
    }
    redone = found["costs"].pivot(index="seed", columns=["rule", "reading"], values="redone")
    drsr, archive = redone["drsr"], redone[costs.ARCHIVE]
    return {
        "withheld": (off["withheld"], 0.0),
        "never_arrived": (off["never_arrived"], 0.0),
        "unaware": unaware,
        "dearer": (drsr["never arrived"].to_numpy(), drsr["withheld"].to_numpy()),
        "cheaper": (archive["withheld"].to_numpy(), drsr["withheld"].to_numpy()),
    }


def store_scores(found: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Return discrepancy, mean_score and accuracy, one row per seed and one column per store.

    The accuracy is the mean over the evaluations of the last quarter, the others are means over all
    rounds.
    """
    late = found[found["round"] > 0.75 * found["round"].max()]
    parts = {"discrepancy": found, "mean_score": found, "accuracy": late}
    return {
        name: rows.groupby(["seed", "cache"])[name].mean().unstack("cache")
        for name, rows in parts.items()
    }


def store_evidence(found: pd.DataFrame) -> dict[str, Any]:
    """Return what the rules of the second question take."""
    scores = store_scores(found)
    held, agree, accuracy = (scores[n] for n in ("discrepancy", "mean_score", "accuracy"))
    return {
        "nearer": (held["fifo"].to_numpy(), held["drsr"].to_numpy()),
        "scores": (agree["drsr"].to_numpy(), agree["fifo"].to_numpy()),
        "accuracy": (accuracy["drsr"].to_numpy(), accuracy["fifo"].to_numpy()),
    }


def weight_scores(found: pd.DataFrame) -> pd.DataFrame:
    """Return the accuracy of the averaged output after the last round, by memory and arm."""
    last = found[found["round"] == found["round"].max()]
    return last.pivot(index="seed", columns=["memory", "arm"], values="accuracy")


def weight_evidence(found: pd.DataFrame, arms: Weights) -> dict[str, Any]:
    """Return what the rules of the third question take."""
    score = weight_scores(found)
    gain = {name: score[name][arms.psi] - score[name]["fresh"] for name in ("none", "drsr")}
    drsr, fifo, none = (score[name] for name in ("drsr", "fifo", "none"))
    return {
        "alone": (drsr["fresh"].to_numpy(), none["fresh"].to_numpy()),
        "less_needed": (gain["none"].to_numpy(), gain["drsr"].to_numpy()),
        "reweighted": (drsr[arms.cached].to_numpy(), drsr[arms.psi].to_numpy()),
        "rule": (drsr[arms.cached].to_numpy(), fifo[arms.cached].to_numpy()),
    }


def _number(fraction: str) -> float:
    above, _, below = str(fraction).partition("/")
    return int(above) / int(below or 1)
