"""Federated learning from data streams: historical clients hold their samples throughout, fresh
clients see each of theirs once.

Source: FDS (Federated Learning for Data Streams), Algorithm 1, Sections 5 and 6, Appendices C.1,
C.6, D and E.

In a round the server draws clients. Each of them receives the samples that arrive and updates its
memory, then takes E gradient steps on mini-batches of K stored samples. The server adds the
weighted mean of the clients' differences to its model, and projects.

One run trains several *arms* on one federation; an arm is a strategy for the clients' importance at
a local rate. Arms see the same arrivals, memories, mini-batches and initial model, so that their
differences are paired, and they train in one call of the engine.

The neighbouring modules hold the parts: `arrivals` has lines 2-6 of Algorithm 1, `arms` lines 7-14,
`strategies` the clients' importance, `constants` the measurement of B, G, D and sigma_0, and `psi`
the estimate of c2 / c1 from them.

| code                     | symbol      | shape  | meaning                                  |
|--------------------------|-------------|--------|------------------------------------------|
| importance               | p_m         | (A, M) | importance of the clients in each arm    |
| p_hist                   | p_hist      |        | sum of p_m over the historical clients   |
| accuracy, loss           | theta-bar   |        | of the averaged output                   |
| accuracy_last, loss_last | theta^(t+1) |        | of the last iterate                      |
| local_steps, batch_size  | E, K        |        | steps per round, samples of a mini-batch |
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from sflkit import checks
from sflkit.data import Dataset, federations
from sflkit.data.federations import Federation
from sflkit.datastreams.arrivals import Memory, mean_memory, memories
from sflkit.datastreams.config import DataStreamsConfig
from sflkit.datastreams.strategies import client_importance
from sflkit.randomness import generator

if TYPE_CHECKING:  # torch loads when something trains
    from torch import nn

    from sflkit.federated import ServerRule

EXPERIMENT = "datastreams-training"
RESULT_VERSION = 1


def build(config: DataStreamsConfig, data: Any = None) -> Federation:
    """Return the config's federation, of `data` in place of config.data if given; see `run`.

    Where config.validation > 0, that share of every client's samples is held out and replaces the
    test set.
    """
    if isinstance(data, Federation):
        return data
    full = federations.data_streams(
        config.data if data is None else data,
        n_clients=config.n_clients,
        n_historical=config.n_historical,
        seed=config.seed,
        hist_fraction=config.hist_fraction,
        n_samples=config.n_samples,
        epsilon=config.epsilon,
    )
    if not config.validation:
        return full
    rng = generator(config.seed, "test_set", 1)
    return federations.validation_split(full, config.validation, rng)


def run(
    config: DataStreamsConfig,
    *,
    data: Federation | Dataset | tuple | str | None = None,
    cache: Callable[[int, int], Memory] | None = None,
    weights: Callable[[int, int, np.ndarray, float], Any] | None = None,
    model: nn.Module | Callable[[tuple[int, ...], int], nn.Module] | None = None,
    server: Callable[..., ServerRule] | None = None,
    stop_after: int | None = None,
) -> pd.DataFrame:
    """Train all arms of a config.

    Parameters
    ----------
    config : DataStreamsConfig
        The settings.
    data : Federation, Dataset, arrays or str, optional
        Your own clients; or data that are dealt to clients as the config says, in place of
        config.data: (x, y), (x, y, x_test, y_test), a data set or a name, see `data.dataset`.
    cache : class or callable, optional
        Your own memory of the fresh clients: a cache rule's class, or a function (client, most) ->
        memory, see `arrivals.memories`.
    weights : callable, optional
        Your own sample weights, (round, client, rows of x, p_m) -> lambda (n,) >= 0. A client whose
        weights are all 0 sits out. The default is lambda_m = p_m / `mean_memory`: every sample of a
        client then has the same weight whenever it is stored, and the client's importance over the
        training, (15), is p_m under full participation, whatever the availability. With
        `participation` it varies with the draw, and a client that is never drawn counts 0. Under
        full participation with constant memories p_m^(t) = p_m. A client absent in a round leaves
        its share to the others, by (5); the round then counts less in the average, by (6).
    model : torch.nn.Module, class or callable, optional
        Your own network, or a class or function (input_shape, n_classes) that builds it, in place
        of config.model and its options.
    server : class or callable, optional
        Your own server rule (`sflkit.federated.ServerRule`), in place of config.server: a class,
        built as cls(), or a function (config, shares) -> rule. It is called once per arm, with that
        arm's importance p (n_clients,) as shares. A rule gets weights that do not sum to 1, and
        `work` with the ids of the clients that have any weight.
    stop_after : int, optional
        The round after which the run ends, in [1, config.rounds]. Its rows are the first of the
        whole run's, none before the first evaluation: arrivals and weights stay those of T rounds.

    Returns
    -------
    DataFrame
        One row per evaluated round and arm: round (from 1), arm, rate, p_hist (importance of the
        historical clients), accuracy and loss of the averaged output theta-bar over the rounds so
        far, accuracy_last and loss_last of theta^(t+1), all as means over the clients' test
        distributions, and diverged. An arm has diverged when its parameters are no longer finite;
        it then stands still, and its scores are NaN.

    Raises
    ------
    ValueError
        As `federations.data_streams` and `memories`; if `model` or `server` is not what is said
        above; if a server asks for local options other than prox and corrections.
    """
    from sflkit.datastreams.arms import Arms

    last = checks.last_round(stop_after, config.rounds)
    federation = build(config, data)
    options: dict[str, Any] = dict(
        rounds=config.rounds, seed=config.seed, availability=config.availability, cache=cache
    )
    stored = planned = memories(federation, **options)
    if config.participation is not None:
        stored = memories(federation, **options, participation=config.participation)
    sizes, historical = federation.sizes, federation.historical
    importance = np.stack(
        [client_importance(arm, sizes, historical, c_ratio=config.c_ratio) for arm in config.arms]
    )
    memory_size = mean_memory(planned, federation.n_clients)
    arms = Arms(
        config, federation, importance, memory_size, weights=weights, model=model, server=server
    )
    rows = []
    for t, held in zip(range(1, last + 1), stored):  # arrivals of later rounds are never drawn
        arms.step(t, held)
        if t % config.evaluate_every == 0 or t == config.rounds:
            rows += arms.evaluate(t)
    frame = pd.DataFrame(rows)
    frame.attrs["data"] = federation.record | {"test_size": len(federation.y_test)}
    return frame


def best_rates(frame: pd.DataFrame) -> dict[str, float]:
    """Return {arm: rate}, the rate with the highest final accuracy of the averaged output.

    Source: FDS, Appendix D.2.

    Parameters
    ----------
    frame : DataFrame
        The joined results of runs with validation > 0; the accuracy is the mean over these runs.
        Ties go to the smaller loss, then to the smaller rate. A rate that diverged in any run comes
        last.
    """
    last = frame[frame["round"] == frame["round"].max()]
    mean = last.groupby(["arm", "rate"], sort=True)[["accuracy", "loss"]].agg(
        lambda column: column.mean(skipna=False)
    )
    mean = mean.assign(accuracy=mean["accuracy"].fillna(-np.inf)).reset_index()
    mean = mean.sort_values(
        ["accuracy", "loss", "rate"], ascending=[False, True, True], kind="stable"
    )
    return {arm: float(group["rate"].iloc[0]) for arm, group in mean.groupby("arm", sort=False)}
