"""Notebook 92, beyond the papers: a map of all published runs, and two combinations of papers.

The map asks every published run, whatever it was made for, and has two lines of its own, over cache
sizes and over horizons: runs of one group differ in the rule and the seed alone, so that the effect
is a difference seed by seed. FATS's saving is its exact law.

OSAFL on the caches of SFL: OSAFL's clients keep a FIFO store, which follows every whim of its user;
a DRSR cache of the same size holds the labels in the shares of everything that has arrived.

Data streams with caches: a fresh client of the data-streams paper uses what arrives in a round and
forgets it. Such samples make the training noisy, and so its bound psi gives old clients more weight
than their samples have. With a cache its mini-batches come from ROUNDS_KEPT times as many samples,
and the variance of their mean is that much smaller, so that the constant c1 of the noise, a
standard deviation, shrinks by the square root, and the ratio c2 / c1 grows by it (`weights`). It is
our rule of thumb, not the paper's.

Every run is kept by `sflkit.runs.sweep`, so that a second call computes nothing. Scores are
taken seed by seed: all arms of a seed see the same streams.
"""

from __future__ import annotations

import math
from collections.abc import Generator, Iterator, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from companion.plans import Stage
from sflkit import paths
from sflkit.datastreams import psi
from sflkit.datastreams import training as streams_training
from sflkit.datastreams.config import DataStreamsConfig
from sflkit.intervals import mean_interval
from sflkit.osafl import video
from sflkit.osafl.clients import Samples, world
from sflkit.osafl.config import OSAFLConfig
from sflkit.runs import archive
from sflkit.sfl import training as sfl_training
from sflkit.sfl.caches import DRSR, FIFO, RULES
from sflkit.sfl.config import SFLConfig

_NETWORKS = {"linear": "linear", "lenet": "LeNet"}
_BUFFERS = {
    ("exclude", "exclude"): "joined clients only",
    ("zero", "literal"): "OSAFL without w/η",
    ("literal", "literal"): "as printed",
}
_SETS = {
    "logistic": "synthetic",
    "cifar10-patches": "CIFAR-10, JPEG",
    "cifar10-complete-patches": "CIFAR-10",
    "cifar100-complete-patches": "CIFAR-100",
    "mnist-writers": "writers",
    "shakespeare": "Shakespeare",
}
LEAST_SEEDS = 3
# They chose a scale of the inputs or a reading of OSAFL, and judge nothing.
_CHOSE = (0, 100)
# The rate that the paper prints for the FCN, by rule; other runs were tuned.
_PRINTED = {"osafl": ("global_rate", 35.0), "m_fedavg": ("rate", 0.15)}


# The map's own runs: a line of caches of other sizes, and one of other horizons.
MAP_CAPACITIES = (150, 600)
MAP_HORIZONS = (25, 160)  # the fresh client has 160 samples: one a round, at most
_MAP_SEEDS = {"SFL": range(20, 30), "data streams": range(40, 80)}


def map_runs() -> Generator[Stage, pd.DataFrame, None]:
    """Plan what the map lacks: DRSR and FIFO over cache sizes, Uniform and Fresh over T.

    But for the size, or T, they are as notebook 12's runs on traffic and notebook 21's synthetic
    line with 20 % of old data; the rate 0.1, which won there at T = 100, was not searched again.
    """
    cache = SFLConfig(
        data="traffic600", model="linear", local_rate=0.05, rounds=200, evaluate_every=5
    )
    caches = [
        replace(cache, rule=rule, seed=seed, capacity=capacity)
        for capacity in MAP_CAPACITIES
        for rule in ("drsr", "fifo")
        for seed in _MAP_SEEDS["SFL"]
    ]
    yield Stage(sfl_training.full_start, caches, "cache sizes")
    arms = dict(arms=("fresh", "uniform"), rates=(0.1, 0.1), batch_size=16)
    streams = [
        DataStreamsConfig(seed=seed, rounds=rounds, evaluate_every=rounds, **arms)
        for rounds in MAP_HORIZONS
        for seed in _MAP_SEEDS["data streams"]
    ]
    yield Stage(streams_training.run, streams, "horizons")


def effects() -> pd.DataFrame:
    """Return the central effect of SFL, data streams and OSAFL in every group of published runs.

    Returns
    -------
    DataFrame, one row per group with at least `LEAST_SEEDS` seeds
        paper; where, the group in words; series, which model or number of files is scored; and in
        points of accuracy mean, low, high (95 % interval over seeds) and n, the seeds.

    Raises
    ------
    ValueError
        If the published runs cannot be read.
    """
    rows = []
    for paper, where, series, difference in (*_sfl(), *_streams(), *_osafl()):
        values = 100 * difference.dropna().to_numpy()
        if len(values) >= LEAST_SEEDS:
            found = mean_interval(values)
            row = {"mean": found.mean, "low": found.low, "high": found.high, "n": found.n}
            rows.append({"paper": paper, "where": where, "series": series} | row)
    return pd.DataFrame(rows)


# --- groups of published runs ---------------------------------------------------------------------


def _published(experiment: str) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the rows of an experiment's runs, and their configs by key."""
    found = archive.read(experiment, paths.published())
    if found.wrong:
        raise ValueError(f"{experiment}: {found.wrong}")
    table, _ = archive.files_of(experiment, paths.published())
    rows = pd.read_csv(table, dtype={"key": str})
    configs = {key.rpartition("/")[2]: record["config"] for key, record in found.records.items()}
    return rows, pd.DataFrame.from_dict(configs, orient="index")


def _pairs(
    configs: pd.DataFrame, values: Mapping[str, float], of: str, upper: str, lower: str, by: list
) -> Iterator[tuple[tuple, pd.Series]]:
    """Yield each group and the differences, seed by seed, of the rule `upper` from `lower`."""
    scored = configs.assign(value=pd.Series(values))
    for group, part in scored.groupby(by, dropna=False):
        wide = part.pivot_table("value", "seed", of, dropna=False)
        if {upper, lower} <= set(wide):
            yield group, wide[upper] - wide[lower]


def _sfl() -> Iterator[tuple[str, str, str, pd.Series]]:
    rows, configs = _published("sfl-training-full-start")
    last = rows.groupby("key")["round"].transform("max")
    late = rows[rows["round"] > 0.75 * last].groupby("key")["accuracy"].mean()
    by = ["data", "model", "capacity", "batch_size", "local_rate", "rounds"]
    for group, difference in _pairs(configs, late, "rule", "drsr", "fifo", by):
        images, model, capacity, batch, *_ = group
        name = f"{_SETS.get(images, images)}, {_NETWORKS.get(model, model)}"
        name += f", B = {capacity}, {batch} new"
        yield "SFL", name, "", difference


def _streams() -> Iterator[tuple[str, str, str, pd.Series]]:
    rows, configs = _published("datastreams-training")
    judged = configs[configs["validation"].eq(0) & configs["server"].eq("fedavg")]
    ends = rows[rows["round"] == rows.groupby("key")["round"].transform("max")]
    for column, name in (("accuracy", "averaged model"), ("accuracy_last", "last iterate")):
        wide = ends.pivot_table(column, "key", "arm")
        gain = (wide["uniform"] - wide["fresh"]).reindex(judged.index)
        for (images, share, rounds), part in judged.groupby(["data", "hist_fraction", "rounds"]):
            by_seed = gain.loc[part.index].set_axis(part["seed"]).groupby(level=0).mean()
            where = f"{_SETS.get(images, images)}, {share:.0%} old, T = {rounds:g}"
            yield "data streams", where, name, by_seed


def _osafl() -> Iterator[tuple[str, str, str, pd.Series]]:
    rows, configs = _published("osafl-training")
    best = rows.groupby("key")["best_accuracy"].last().fillna(0.0)  # diverged before it was scored
    dense = configs[configs["model"].eq("osafl_fcn") & configs["rounds"].eq(100)]
    dense = dense[dense["chi"].eq(1) & ~dense["seed"].isin(_CHOSE)].assign(value=best)
    sides = {}
    for rule, (name, printed) in _PRINTED.items():
        rates = dense[name].astype(float).fillna(printed)
        sides[rule] = dense[dense["rule"].eq(rule) & rates.eq(printed)]
    for (own, others), words in _BUFFERS.items():
        for scale in sorted(set(dense["input_norm"])):
            for K in (1, 2):
                of = {"osafl": own, "m_fedavg": others}
                upper, lower = (
                    side[
                        side["never_joined"].eq(of[rule])
                        & side["input_norm"].eq(scale)
                        & side["top_k"].eq(K)
                    ]
                    .groupby("seed")["value"]
                    .mean()
                    for rule, side in sides.items()
                )
                yield "OSAFL", f"{words}, scale {scale:g}", f"K = {K}", upper - lower


ROUNDS_KEPT = 5


def fifo(client: int, most: int) -> FIFO:
    """Return an empty FIFO cache with room for ROUNDS_KEPT rounds of at most `most` arrivals."""
    return FIFO(ROUNDS_KEPT * most, most)


def drsr(client: int, most: int) -> DRSR:
    """Return an empty DRSR cache of that size."""
    return DRSR(ROUNDS_KEPT * most, most)


def long_term_shares(config: OSAFLConfig) -> np.ndarray:
    """Return how often each user asks for each file in the long run, (n_clients, n_files).

    It is the stationary law of the user's Markov chain of requests.
    """
    w = world(config)
    law = video.request_matrix(w.catalogue, w.users, top_k=config.top_k)
    n = law.shape[1]
    # pi (P - I) = 0 with sum 1, as one least-squares system per user; every chain is irreducible.
    system = np.concatenate([law.swapaxes(1, 2) - np.eye(n), np.ones((len(law), 1, n))], axis=1)
    goal = np.append(np.zeros(n), 1.0)
    shares = np.stack([np.linalg.lstsq(one, goal, rcond=None)[0] for one in system])
    return np.clip(shares, 0, None) / np.clip(shares, 0, None).sum(axis=1, keepdims=True)


def discrepancy(config: OSAFLConfig, rule: str) -> pd.DataFrame:
    """Return the discrepancy of what the stores hold from the long-term shares, by round from 1.

    Source: SFL, Section IV-C, sum over labels of (v - pi)^2, here its mean over the clients. `rule`
    is a name in `sfl.caches.RULES` whose class is built as (capacity, batch_size).
    """
    samples = Samples(config, "cpu", RULES[rule].build)
    goal = long_term_shares(config)
    rows = []
    for t in range(1, config.rounds + 1):
        counts = samples.label_counts(t)
        shares = counts / counts.sum(axis=1, keepdims=True)
        rows.append({"round": t, "discrepancy": ((shares - goal) ** 2).sum(axis=1).mean()})
    return pd.DataFrame(rows)


STORES = ("fifo", "drsr")
MEMORIES = {"none": None, "fifo": fifo, "drsr": drsr}
RATIO = 0.15  # c2 / c1 that the data-streams paper reports for images


class Weights(NamedTuple):
    """The arms of the second question.

    `psi` is the weight of the old clients that psi names without caches, and `cached` the one it
    names for caches; both are arms.
    """

    arms: tuple[str, ...]
    psi: str
    cached: str


def weights(n_old: float, n_fresh: int) -> Weights:
    """Return the arms for a share `n_old` of old samples and so many fresh clients of one size."""
    ratios = (RATIO, RATIO * math.sqrt(ROUNDS_KEPT))
    shares = [psi.equal_fresh_p_hist(n_old, n_fresh, ratio) for ratio in ratios]
    without, cached = (f"p_hist={round(share, 3):g}" for share in shares)
    return Weights(("fresh", cached, without, "historical"), without, cached)


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
    """Return what the rules of the first question take."""
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
    """Return what the rules of the second question take."""
    score = weight_scores(found)
    gain = {name: score[name][arms.psi] - score[name]["fresh"] for name in ("none", "drsr")}
    drsr, fifo, none = (score[name] for name in ("drsr", "fifo", "none"))
    return {
        "alone": (drsr["fresh"].to_numpy(), none["fresh"].to_numpy()),
        "less_needed": (gain["none"].to_numpy(), gain["drsr"].to_numpy()),
        "reweighted": (drsr[arms.cached].to_numpy(), drsr[arms.psi].to_numpy()),
        "rule": (drsr[arms.cached].to_numpy(), fifo[arms.cached].to_numpy()),
    }
