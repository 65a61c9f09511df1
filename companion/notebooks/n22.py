"""Notebook 22, Appendix E: runs, client drift on two quadratics, evidence.

Source: FDS (Federated Learning for Data Streams), Appendices D.2 and E, Table 2, (204); Li et al.
(2020) for FedProx, Karimireddy et al. (2020) for SCAFFOLD. The example of drift is ours.

Two clients fit a line y = slope x + intercept by least squares. Client 1 sees x = +-2 and its
points lie on y = 0; client 2 sees x = +-1/2 and its points lie on y = x + 1. Their losses have the
curvatures 8 and 1/2 in the slope, and 2 in the intercept. With E steps of size eta a client covers
the share A_k = eta sum over j < E of (1 - eta (h_k + mu))^j h_k of the way to its own line (h_k:
curvature, mu: FedProx's penalty), so that the average stands still where sum_k A_k (w - a_k) = 0,
which is not the optimum where the curvatures differ.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import replace
from itertools import permutations
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from companion.judging.claims import NotRun
from companion.judging.rules import Above
from companion.notebooks.datastreams_shared import (
    BASELINES,
    VALIDATION,
)
from companion.plans import Stage
from sflkit import federated, models
from sflkit.datastreams import training
from sflkit.datastreams.config import DataStreamsConfig
from sflkit.federated import servers
from sflkit.randomness import generator

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


RATE, STEPS = 0.1, 10
OWN_BEST = np.array([[0.0, 0.0], [1.0, 1.0]])  # (slope, intercept) of each client's own line
CURVATURE = np.array([[8.0, 2.0], [0.5, 2.0]])
PLACES = (2.0, 0.5)  # the clients' points lie at plus and minus this
START = (1.5, -0.5)
JITTER = 0.5  # error of client 2's points where they are new in each round


def optimum() -> np.ndarray:
    """Return (slope, intercept) at which the gradients of both clients cancel."""
    return (CURVATURE * OWN_BEST).sum(axis=0) / CURVATURE.sum(axis=0)


def fixed_point(mu: float = 0.0) -> np.ndarray:
    """Return (slope, intercept) at which FedAvg, or FedProx with penalty mu, stands still."""
    left = 1 - RATE * (CURVATURE + mu)
    share = RATE * CURVATURE * sum(left**j for j in range(STEPS))
    return (share * OWN_BEST).sum(axis=0) / share.sum(axis=0)


def path(mu: float | None, *, rounds: int, jitter: float = 0.0) -> np.ndarray:
    """Return the global models of a run, (rounds + 1, 2) of slope and intercept.

    Parameters
    ----------
    mu : float or None
        FedProx's penalty, or None for SCAFFOLD.
    rounds : int
    jitter : float
        Standard deviation of the errors that client 2's two points have anew in each round, as a
        fresh client's would.
    """
    import torch

    task = federated.Task(models.create("linear", input_shape=(1,), n_classes=1), "mse")
    x = [torch.tensor([[-place], [place]]) for place in PLACES]
    error = torch.as_tensor(generator(0, "samples").normal(size=(rounds, 2, 1)) * jitter)
    rule = servers.Scaffold(2) if mu is None else servers.FedProx(mu)
    w = torch.tensor(START)
    models_so_far = [w.numpy()]
    for t in range(rounds):
        y = [x[k] * OWN_BEST[k, 0] + OWN_BEST[k, 1] for k in (0, 1)]
        y[1] = y[1] + error[t]
        batches = [[(x[k], y[k].float())] * STEPS for k in (0, 1)]
        work = servers.LocalWork(clients=np.arange(2), steps=np.full(2, STEPS), rate=RATE)
        local = federated.local_sgd(task, w, batches, RATE, **rule.local_options(work))
        w = rule(w, local - w, None, work)
        models_so_far.append(w.numpy())
    return np.array(models_so_far)


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
