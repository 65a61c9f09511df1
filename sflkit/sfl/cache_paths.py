"""The caches of a streaming-FL run without any learning: what Fig. 5 of SFL is drawn from.

`sflkit.sfl.training.run` keeps accuracy, loss and label counts of each round. Here only the
discrepancy of each round is kept, so that the results behind the published figures stay small
enough to be tracked.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import replace

import numpy as np
import pandas as pd

from sflkit.sfl import clients, discrepancy, training
from sflkit.sfl.config import SFLConfig
from sflkit.sfl.streams import LabelStream

EXPERIMENT = "sfl-caches"
RESULT_VERSION = training.RESULT_VERSION


def run(
    config: SFLConfig,
    *,
    cache: Callable | None = None,
    stream: LabelStream | Callable | None = None,
    stop_after: int | None = None,
) -> pd.DataFrame:
    """Follow one cache rule for T rounds.

    Parameters
    ----------
    config : SFLConfig
        Its `train` must be False, so that nobody expects a model.
    cache, stream : optional
        Your own rule and stream, as of `training.run`.
    stop_after : int, optional
        The round after which the run ends, as of `training.run`.

    Returns
    -------
    DataFrame, one row per round
        round (from 1) and discrepancy psi_t.

    Raises
    ------
    ValueError
        If config.train is True, or as `training.run`.
    """
    if config.train:
        raise ValueError(
            "train=True must be False here: cache_paths follows the caches only; "
            "sflkit.sfl.training.run trains"
        )
    frame = training.run(config, cache=cache, stream=stream, stop_after=stop_after)
    return frame[["round", "discrepancy"]]


def late_logs(frame: pd.DataFrame, seeds: list[int], first_full: int) -> dict:
    """Return what Fig. 5 is judged by, as logarithms, for the rules FIFO, SRSR and DRSR.

    Parameters
    ----------
    frame : DataFrame
        Of `run` for these rules and seeds.
    seeds : list of int
    first_full : int
        M, the round in which the cache is full for the first time.

    Returns
    -------
    dict
        "mean", "fluctuation" and "total": rule -> (n_seeds,) logarithms of the mean and of the
        standard deviation over the last half of the rounds, and of the sum over all rounds;
        "falls": log psi_t of DRSR (n_seeds, T - M), and log t.
    """
    psi = {
        rule: part.pivot(index="seed", columns="round", values="discrepancy").loc[seeds]
        for rule, part in frame.groupby("rule")
        if rule in ("fifo", "srsr", "drsr")
    }
    t = next(iter(psi.values())).columns.to_numpy()
    late = {rule: table.to_numpy()[:, t > t[-1] // 2] for rule, table in psi.items()}
    falling = psi["drsr"].to_numpy()[:, t > first_full]
    return {
        "mean": {rule: np.log(values.mean(axis=1)) for rule, values in late.items()},
        "fluctuation": {rule: np.log(values.std(axis=1)) for rule, values in late.items()},
        "total": {rule: np.log(table.to_numpy().sum(axis=1)) for rule, table in psi.items()},
        "falls": (np.log(falling), np.log(t[t > first_full])),
    }


def expected_totals(config: SFLConfig, seeds: Iterable[int]) -> dict[str, np.ndarray]:
    """Return rule -> (rounds,) accumulated discrepancy of FIFO, SRSR and DRSR, in expectation.

    It is the mean over the seeds' streams, for exact counts, that is without the noise of drawing
    B_s labels and without rounding. `config` names the stream's and the caches' settings.
    """
    cache_rounds = math.ceil(config.capacity / config.batch_size)
    paths: dict[str, list] = {"fifo": [], "srsr_filled": [], "drsr": []}
    for seed in seeds:
        stream = clients.make_stream(replace(config, seed=seed), config.n_classes)
        for rule, found in paths.items():
            theta = config.theta if rule == "srsr_filled" else None
            path = discrepancy.exact_path(
                stream, rule, config.rounds, cache_rounds=cache_rounds, theta=theta
            )
            found.append(path.sum(axis=(1, 2)).cumsum())
    names = {"fifo": "fifo", "srsr_filled": "srsr", "drsr": "drsr"}
    return {names[rule]: np.mean(found, axis=0) for rule, found in paths.items()}
