"""Federated learning from data streams: historical clients hold their samples, fresh clients see
theirs once.

Source: FDS (Federated Learning for Data Streams), Algorithm 1, Sections 5 and 6, Appendices C.1,
C.6, D and E.

A round: the server draws clients, each of them receives its batch and updates its memory, takes E
gradient steps on mini-batches of K stored samples, and the server adds the weighted mean of the
differences and projects. One run trains several *arms* on one federation: an arm is a strategy for
the clients' importance at a local rate. Arms see the same arrivals, memories, mini-batches and
initial model, so that their differences are paired, and train in one stacked call.

The neighbouring modules hold the parts: `datastreams_arrivals` lines 2-6, `datastreams_training`
lines 7-14, `datastreams_constants` the measurement of B, G, D and sigma_0;
`sflkit.datastreams.importance` has the strategies and the estimate of c2/c1.

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
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from sflkit.data import federations
from sflkit.datastreams import strategies
from sflkit.datastreams.arms import Arms
from sflkit.datastreams.arrivals import mean_memory, memories
from sflkit.datastreams.config import DataStreamsConfig, parse_arm
from sflkit.randomness import generator

if TYPE_CHECKING:  # servers needs torch
    from sflkit.federated.servers import ServerRule


EXPERIMENT = "datastreams-training"


RESULT_VERSION = 1


def build(config: DataStreamsConfig) -> federations.Federation:
    """Return the config's federation, with the validation part as its test set where
    config.validation > 0.
    """
    full = federations.data_streams(
        config.data,
        n_clients=config.n_clients,
        n_historical=config.n_historical,
        seed=config.seed,
        hist_fraction=config.hist_fraction,
        n_samples=config.n_samples,
        epsilon=config.epsilon,
    )
    if not config.validation:
        return full
    return federations.validation_split(
        full, config.validation, generator(config.seed, "test_set", 1)
    )


def client_importance(
    arm: str, federation: federations.Federation, c_ratio: float | None = None
) -> np.ndarray:
    """Return p (n_clients,) of an arm: "uniform", "historical", "fresh", "ours" (needs c_ratio) or
    "p_hist=0.5".

    Source: FDS, Section 5 and 6. Raises ValueError as `strategies.client_importance`.
    """
    strategy, p_hist = parse_arm(arm)
    c_ratio = c_ratio if strategy == "ours" else None
    return strategies.client_importance(
        strategy, federation.sizes, federation.historical, c_ratio=c_ratio, p_hist=p_hist
    )


def run(
    config: DataStreamsConfig,
    *,
    federation=None,
    memory=None,
    weights=None,
    model=None,
    server: Callable[[np.ndarray], ServerRule] | None = None,
) -> pd.DataFrame:
    """Train all arms of a config.

    Parameters
    ----------
    config : DataStreamsConfig
    federation : Federation, optional
        Your own clients, in place of `build(config)`.
    memory : callable, optional
        Your own memory rule, as in `memories`.
    weights : callable, optional
        Your own sample weights, (round, client, rows of x, p_m) -> lambda (n,) >= 0; a client whose
        weights are all 0 sits out. Default: lambda_m = p_m / `mean_memory`, so that every sample of
        a client has the same weight whenever it is stored, and the client's importance over the
        training, (15), is p_m under full participation, whatever the availability; with
        `participation` it varies with the draw, and a client never drawn counts 0. Full
        participation with constant memories gives p_m^(t) = p_m. A client absent in a round leaves
        its share to the others, by (5); the round then counts less in the average, by (6).
    model : torch.nn.Module, optional
        Your own network.
    server : callable, optional
        Your own server, in place of config.server and config.prox: called once an arm with its p
        (n_clients,), it returns a `servers.ServerRule`. The rule gets unnormalised weights, and
        `work` with the ids of the clients that have any.

    Returns
    -------
    DataFrame, one row an evaluated round and arm
        round (from 1), arm, rate, p_hist (importance of the historical clients), accuracy and loss
        of the averaged output theta-bar over the rounds so far, accuracy_last and loss_last of
        theta^(t+1), diverged (parameters no longer finite: the arm stands still, and its numbers
        are NaN).

    Raises
    ------
    ValueError
        As `federations.data_streams` and `memories`; if a server asks for local options other than
        prox and corrections.
    """
    federation = build(config) if federation is None else federation
    options = dict(
        rounds=config.rounds, seed=config.seed, availability=config.availability, memory=memory
    )
    planned = memories(federation, **options)
    actual = (
        planned
        if config.participation is None
        else memories(federation, **options, participation=config.participation)
    )
    p = np.stack([client_importance(arm, federation, config.c_ratio) for arm in config.arms])
    arms = Arms(
        config, federation, p, mean_memory(planned, federation.n_clients), weights, model, server
    )
    rows = []
    for t, stored in enumerate(actual, 1):
        arms.step(t, stored)
        if t % config.evaluate_every == 0 or t == config.rounds:
            rows += arms.evaluate(t)
    frame = pd.DataFrame(rows)
    frame.attrs["data"] = {
        "name": federation.name,
        "digest": federation.digest,
        "size": int(federation.sizes.sum()),
        "test_size": len(federation.y_test),
        "note": federation.note,
    }
    return frame


def best_rates(frame: pd.DataFrame) -> dict[str, float]:
    """Return {arm: rate} with the highest final accuracy of the averaged output, mean over the runs
    in `frame`.

    Source: FDS, D.2. `frame` joins the results of runs with validation > 0. Ties go to the smaller
    loss, then the smaller rate; a rate that diverged in any run comes last."""
    last = frame[frame["round"] == frame["round"].max()]
    mean = last.groupby(["arm", "rate"], sort=True)[["accuracy", "loss"]].agg(
        lambda column: column.mean(skipna=False)
    )
    mean = mean.assign(accuracy=mean["accuracy"].fillna(-np.inf)).reset_index()
    mean = mean.sort_values(
        ["accuracy", "loss", "rate"], ascending=[False, True, True], kind="stable"
    )
    return {arm: float(group["rate"].iloc[0]) for arm, group in mean.groupby("arm", sort=False)}
