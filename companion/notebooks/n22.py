"""Notebook 22, Appendix E: runs and evidence.

Source: FDS (Federated Learning for Data Streams), Appendices D.2 and E, Table 2, (204); Li et al.
(2020) for FedProx, Karimireddy et al. (2020) for SCAFFOLD.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import replace
from itertools import permutations
from types import SimpleNamespace
from typing import Any, NamedTuple

import pandas as pd

from companion.judging.claims import NotRun
from companion.judging.rules import Above
from companion.notebooks.datastreams_shared import BASELINES, VALIDATION
from companion.plans import Stage
from sflkit.datastreams import training
from sflkit.datastreams.config import DataStreamsConfig

STRATEGIES = ("fresh", "historical", "uniform", "ours")
OPTIMISERS = {"fedavg": "FedAvg", "fedprox": "FedProx", "scaffold": "SCAFFOLD"}


class Optimisers(NamedTuple):
    """What notebook 22 draws and judges."""

    tried: pd.DataFrame
    rates: dict[str, dict[str, float]]
    found: pd.DataFrame


def optimisers(**given: Any) -> Generator[Stage, pd.DataFrame, Optimisers]:
    """Plan Appendix E: four strategies under FedAvg, FedProx and SCAFFOLD.

    Every keyword is a parameter of notebook 22, which says what it means.
    """
    p = SimpleNamespace(**given)
    same = "data model n_clients hist_fraction c_ratio rounds local_steps batch_size prox"
    base = DataStreamsConfig(
        arms=STRATEGIES,
        rates=(p.rates[0],) * len(STRATEGIES),
        n_samples=p.n_samples or None,
        n_historical=p.n_clients // 2,
        evaluate_every=p.rounds,
        **{name: given[name] for name in same.split()},
        **({"hidden": 2048, "padding": 0} if p.model == "cnn" else {}),
    )
    grid = dict(
        arms=tuple(arm for arm in STRATEGIES for _ in p.rates),
        rates=tuple(p.rates) * len(STRATEGIES),
        validation=VALIDATION,
    )
    searches = [
        replace(base, server=s, seed=seed, **grid) for s in OPTIMISERS for seed in p.search_seeds
    ]
    tried = yield Stage(training.run, searches, "rates")
    best = {s: training.best_rates(tried[tried["server"] == s]) for s in OPTIMISERS}
    runs = [
        replace(base, server=s, seed=seed, rates=tuple(best[s][arm] for arm in STRATEGIES))
        for s in OPTIMISERS
        for seed in p.seeds
    ]
    found = yield Stage(training.run, runs, "strategies")
    return Optimisers(tried, best, found)


def appendix_e_evidence(score: pd.DataFrame) -> dict[str, Any]:
    """Return the evidence on Appendix E.

    Parameters
    ----------
    score : DataFrame (n_seeds, (server, arm))
        Accuracy with the columns (server, arm), servers "fedavg", "fedprox" and "scaffold".
    """
    evidence: dict[str, Any] = {}
    before, rule = score["fedavg"], Above(smallest=0.001)
    ordered = [  # surely, and visibly
        (first, second)
        for first, second in permutations(before, 2)
        if rule.judge((before[first], before[second])).answer == "yes"
    ]
    for server, name in (("fedprox", "FedProx"), ("scaffold", "SCAFFOLD")):
        evidence[f"{name}, order"] = {
            f"{first} above {second}": (score[server, first], score[server, second])
            for first, second in ordered
        } or NotRun("no two strategies differ surely under FedAvg")
        for baseline in BASELINES:
            pair = (score[server, "ours"], score[server, baseline.lower()])
            evidence[f"{name}, {baseline}"] = pair
        means = (score[server].mean(axis=1), before.mean(axis=1))
        evidence[f"{name}, improvement"] = means
    return evidence
