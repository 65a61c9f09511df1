"""Federated learning from data streams: historical clients hold their samples, fresh clients see theirs once.

Source: FDS (Federated Learning for Data Streams), Algorithm 1, Sections 5 and 6, Appendices C.1, C.6, D and E.

A round: the server draws clients, each of them receives its batch and updates its memory, takes E gradient steps on mini-batches
of K stored samples, and the server adds the weighted mean of the differences and projects. One run trains several *arms* on one
federation: an arm is a strategy for the clients' importance at a local rate. Arms see the same arrivals, memories, mini-batches
and initial model, so that their differences are paired, and train in one stacked call.

The neighbouring modules hold the parts: `datastreams_arrivals` lines 2-6, `datastreams_training` lines 7-14,
`datastreams_constants` the measurement of B, G, D and sigma_0; `sflkit.importance` has the strategies and the estimate of c2/c1.

| code                     | symbol        | shape  | meaning                                                                  |
|--------------------------|---------------|--------|--------------------------------------------------------------------------|
| p                        | p_m           | (A, M) | relative importance of the clients in each arm, on the simplex           |
| p_hist                   | p_hist        |        | sum of p_m over the historical clients                                   |
| accuracy, loss           | theta-bar     |        | of the averaged output, mean over the clients' test distributions        |
| accuracy_last, loss_last | theta^(t+1)   |        | of the last iterate                                                      |
| local_steps, batch_size  | E, K          |        | local gradient steps a round, samples of a mini-batch                    |
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from sflkit import checks, federations, importance
from sflkit.randomness import generator
from sflkit.runs.datastreams_arrivals import AVAILABILITY, mean_memory, memories
from sflkit.runs.datastreams_constants import Constants, estimate_constants, estimate_sigma0
from sflkit.runs.datastreams_training import Arms

if TYPE_CHECKING:  # servers needs torch
    from sflkit.servers import ServerRule

EXPERIMENT = "datastreams-training"
RESULT_VERSION = 1
RATE_GRID = tuple(10.0**e for e in (-3.5, -3.0, -2.5, -2.0, -1.5, -1.0))  # Appendix D.2
STRATEGIES = ("uniform", "historical", "fresh", "ours")  # beside "p_hist=0.5"
SERVERS = ("fedavg", "fedprox", "scaffold")

__all__ = ["AVAILABILITY", "RATE_GRID", "RESULT_VERSION", "SERVERS", "STRATEGIES", "Constants", "DataStreamsConfig", "best_rates",
           "build", "client_importance", "estimate_constants", "estimate_sigma0", "mean_memory", "memories", "run"]


@dataclass(frozen=True)
class DataStreamsConfig:
    """One run: several arms on one federation. Defaults are the synthetic task of FDS with N_hist / N = 20 %.

    Parameters
    ----------
    arms : tuple of str
        Each one of STRATEGIES or "p_hist=x" with x in [0, 1]; the paper's "Optimal" is the best of x in 0, 0.2, 0.5, 0.8, 1.
    rates : tuple of float
        Local rate eta > 0 of each arm; the same arm may occur with several (the paper's grid search over RATE_GRID).
    seed : int
        >= 0.
    data : one of `sflkit.federations.NAMES`; n_clients, n_historical, hist_fraction, n_samples, epsilon : its options
        M = 11, M_hist = 10, 200 samples (Table 1, Section 6); epsilon is not stated. CIFAR: M = 50, M_hist = 25.
        hist_fraction is N_hist / N (natural clients: M_hist / M, and n_historical is neither used nor bounded): 0.05, 0.2, 0.5.
    model : str
        One of `sflkit.models.NAMES`; hidden (mlp: tuple; cnn, char_rnn: int), channels and padding (cnn), width
        (mobilenetv2, vgg16): None takes the model's own. "2 CNN + 2 FC" of CIFAR is cnn with hidden=2048, padding=0 (Table 3).
    rounds : int
        T >= 1. Not stated; the axes of Fig. 3 end at 800.
    local_steps, batch_size : int
        E >= 1 and K >= 1. Not stated.
    c_ratio : float or None
        c2 / c1 >= 0 of the arm "ours": 0.092 (Table 2, synthetic); CIFAR-10 0.150, CIFAR-100 0.284, FEMNIST 0.001, Shakespeare
        0.064.
    server : one of SERVERS
        "fedprox" has prox = 0.1 (Appendix E).
    prox : float
        mu >= 0 of "fedprox".
    radius : float or None
        Theta is the ball of this radius > 0 around the initial model; None leaves out the projection. The paper states neither
        the centre nor the radius, but measures distances from the initial model (C.6).
    participation : int or None
        Clients drawn per round, without replacement from those available; None takes all, as Section 6 does.
    availability : one of AVAILABILITY
        "stream": a fresh client's samples arrive evenly over the T rounds. "1", "2": it is there, with all its samples, in
        one round (FEMNIST), or in two consecutive ones, or one if that is the last (Shakespeare).
    evaluate_every : int
        Rounds between evaluations; the last round is always evaluated.
    validation : float
        In [0, 1): this share of every client's samples is held out and is the test set; 0 tests on the real one.
    """

    arms: tuple[str, ...] = ("uniform", "historical", "fresh", "ours")
    rates: tuple[float, ...] = (0.1, 0.1, 0.1, 0.1)
    seed: int = 0
    data: str = "logistic"
    n_clients: int | None = 11
    n_historical: int | None = 10
    hist_fraction: float = 0.2
    n_samples: int | None = None
    epsilon: float = 0.1
    model: str = "linear"
    hidden: int | tuple[int, ...] | None = None
    channels: tuple[int, int] | None = None
    padding: int | None = None
    width: float | None = None
    rounds: int = 100
    local_steps: int = 5
    batch_size: int = 32
    c_ratio: float | None = 0.092
    server: str = "fedavg"
    prox: float = 0.1
    radius: float | None = None
    participation: int | None = None
    availability: str = "stream"
    evaluate_every: int = 10
    validation: float = 0.0

    def __post_init__(self):
        object.__setattr__(self, "arms", tuple(self.arms))
        object.__setattr__(self, "rates", tuple(checks.real("rates", r, above=0) for r in self.rates))
        if not self.arms or len(self.arms) != len(self.rates):
            raise ValueError(f"arms={self.arms!r} and rates={self.rates!r} must have one entry an arm, and at least one")
        for arm in self.arms:
            _strategy(arm)
        if "ours" in self.arms:
            checks.real("c_ratio", self.c_ratio, 0)
        for name, allowed in (("data", federations.NAMES), ("server", SERVERS), ("availability", AVAILABILITY)):
            checks.choice(name, getattr(self, name), allowed)
        natural = self.data in federations.NATURAL
        for name, low, high, optional in (
            ("seed", 0, None, False), ("rounds", 1, None, False), ("local_steps", 1, None, False), ("batch_size", 1, None, False),
            ("evaluate_every", 1, None, False), ("n_clients", 2, None, natural),
            ("n_historical", *((None, None, True) if natural else (1, (self.n_clients or 2) - 1, False))),
            ("n_samples", 2, None, True),
            ("participation", 1, self.n_clients, True),
        ):  # stored as int: 5 and 5.0 are one config with one result
            if not (optional and getattr(self, name) is None):
                object.__setattr__(self, name, checks.integer(name, getattr(self, name), low, high))
        checks.real("hist_fraction", self.hist_fraction, above=0, below=1)
        checks.real("prox", self.prox, 0)
        checks.real("epsilon", self.epsilon, 0)
        checks.real("validation", self.validation, 0, below=1)
        if self.radius is not None:
            checks.real("radius", self.radius, above=0)


def build(config: DataStreamsConfig) -> federations.Federation:
    """Return the config's federation, with the validation part as its test set where config.validation > 0."""
    full = federations.data_streams(config.data, n_clients=config.n_clients, n_historical=config.n_historical, seed=config.seed,
                                    hist_fraction=config.hist_fraction, n_samples=config.n_samples, epsilon=config.epsilon)
    if not config.validation:
        return full
    return federations.validation_split(full, config.validation, generator(config.seed, "test_set", 1))


def client_importance(arm: str, federation: federations.Federation, c_ratio: float | None = None) -> np.ndarray:
    """Return p (n_clients,) of an arm: "uniform", "historical", "fresh", "ours" (needs c_ratio) or "p_hist=0.5".

    Source: FDS, Section 5 and 6. Raises ValueError as `importance.client_importance`.
    """
    strategy, p_hist = _strategy(arm)
    c_ratio = c_ratio if strategy == "ours" else None
    return importance.client_importance(strategy, federation.sizes, federation.historical, c_ratio=c_ratio, p_hist=p_hist)


def run(config: DataStreamsConfig, *, federation=None, memory=None, weights=None, model=None,
        server: Callable[[np.ndarray], ServerRule] | None = None) -> pd.DataFrame:
    """Train all arms of a config.

    Parameters
    ----------
    config : DataStreamsConfig
    federation : Federation, optional
        Your own clients, in place of `build(config)`.
    memory : callable, optional
        Your own memory rule, as in `memories`.
    weights : callable, optional
        Your own sample weights, (round, client, rows of x, p_m) -> lambda (n,) >= 0; a client whose weights are all 0 sits out.
        Default: lambda_m = p_m / `mean_memory`, so that every sample of a client has the same weight whenever it is stored,
        and the client's importance over the training, (15), is p_m under full participation, whatever the availability; with
        `participation` it varies with the draw, and a client never drawn counts 0. Full participation with constant memories
        gives p_m^(t) = p_m. A client absent in a round leaves its share to the others, by (5); the round then counts less in
        the average, by (6).
    model : torch.nn.Module, optional
        Your own network.
    server : callable, optional
        Your own server, in place of config.server and config.prox: called once an arm with its p (n_clients,), it returns a
        `servers.ServerRule`. The rule gets unnormalised weights, and `work` with the ids of the clients that have any.

    Returns
    -------
    DataFrame, one row an evaluated round and arm
        round (from 1), arm, rate, p_hist (importance of the historical clients), accuracy and loss of the averaged output
        theta-bar over the rounds so far, accuracy_last and loss_last of theta^(t+1), diverged (parameters no longer finite: the
        arm stands still, and its numbers are NaN).

    Raises
    ------
    ValueError
        As `federations.data_streams` and `memories`; if a server asks for local options other than prox and corrections.
    """
    federation = build(config) if federation is None else federation
    options = dict(rounds=config.rounds, seed=config.seed, availability=config.availability, memory=memory)
    planned = memories(federation, **options)
    actual = planned if config.participation is None else memories(federation, **options, participation=config.participation)
    p = np.stack([client_importance(arm, federation, config.c_ratio) for arm in config.arms])
    arms = Arms(config, federation, p, mean_memory(planned, federation.n_clients), weights, model, server)
    rows = []
    for t, stored in enumerate(actual, 1):
        arms.step(t, stored)
        if t % config.evaluate_every == 0 or t == config.rounds:
            rows += arms.evaluate(t)
    frame = pd.DataFrame(rows)
    frame.attrs["data"] = {"name": federation.name, "digest": federation.digest, "size": int(federation.sizes.sum()),
                           "test_size": len(federation.y_test), "note": federation.note}
    return frame


def best_rates(frame: pd.DataFrame) -> dict[str, float]:
    """Return {arm: rate} with the highest final accuracy of the averaged output, mean over the runs in `frame`.

    Source: FDS, D.2. `frame` joins the results of runs with validation > 0. Ties go to the smaller loss, then the smaller rate;
    a rate that diverged in any run comes last.
    """
    last = frame[frame["round"] == frame["round"].max()]
    mean = last.groupby(["arm", "rate"], sort=True)[["accuracy", "loss"]].agg(lambda column: column.mean(skipna=False))
    mean = mean.assign(accuracy=mean["accuracy"].fillna(-np.inf)).reset_index()
    mean = mean.sort_values(["accuracy", "loss", "rate"], ascending=[False, True, True], kind="stable")
    return {arm: float(group["rate"].iloc[0]) for arm, group in mean.groupby("arm", sort=False)}


def _strategy(arm: str) -> tuple[str, float | None]:
    if arm in STRATEGIES:
        return arm, None
    try:
        name, value = arm.split("=")
        if name != "p_hist":
            raise ValueError
        return "fixed", checks.real("p_hist", float(value), 0, 1)
    except (AttributeError, ValueError):
        allowed = ", ".join(map(repr, STRATEGIES))
        raise ValueError(f"arms holds {arm!r}; an arm is one of {allowed} or 'p_hist=x' with x in [0, 1]") from None
