"""From streams, caches and bounds to what the rules of their claims take.

Source: SFL, Sections III to V; the claims are in `companion.claims`, the pictures in
`companion.sfl.pictures.theory`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from sflkit.sfl import discrepancy
from sflkit.sfl.clients import Clients, make_stream
from sflkit.sfl.config import SFLConfig

Evidence = dict[str, Any]


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
        stream = make_stream(replace(config, seed=seed), config.n_classes)
        for rule, found in paths.items():
            theta = config.theta if rule == "srsr_filled" else None
            path = discrepancy.exact_path(
                stream, rule, config.rounds, cache_rounds=cache_rounds, theta=theta
            )
            found.append(path.sum(axis=(1, 2)).cumsum())
    names = {"fifo": "fifo", "srsr_filled": "srsr", "drsr": "drsr"}
    return {names[rule]: np.mean(found, axis=0) for rule, found in paths.items()}


# --- notebook 10 ----------------------------------------------------------------------------------


def stream_evidence(
    config: SFLConfig, clients: Clients, frame: pd.DataFrame, seeds: Sequence[int]
) -> dict[str, Evidence]:
    """Return the evidence of Figs. 1, 3 and 5, artefact -> part -> what the rule takes.

    Parameters
    ----------
    config : SFLConfig
        Of the clients.
    clients : Clients
        Those of Figs. 1 and 3.
    frame : DataFrame
        Rows of the sweep over rules and `seeds`, with the columns discrepancy and accumulated.
    seeds : sequence of int
        "Throughout" is judged by the expectations on as many other streams: those of the next
        seeds, which no rule has seen.
    """
    long = clients.stream.long_term
    apart = [np.abs(a - b).sum() / 2 for i, a in enumerate(long) for b in long[:i]]
    logs = late_logs(frame, seeds, -(-config.capacity // config.batch_size))
    expected = expected_totals(config, [seed + len(seeds) for seed in seeds])
    others = np.stack([expected["srsr"], expected["fifo"]])
    return {
        "sfl-fig1": _wandering(config, clients),
        "sfl-fig3": {"apart": bool(np.mean(apart) > 0.5)},
        "sfl-fig5a": {
            f"{what} {rule}": (logs[what]["fifo"], logs[what][rule])
            for what in ("mean", "fluctuation")
            for rule in ("srsr", "drsr")
        }
        | {"falls": logs["falls"]},
        "sfl-fig5b": {
            "fifo srsr": (logs["total"]["fifo"], logs["total"]["srsr"]),
            "srsr drsr": (logs["total"]["srsr"], logs["total"]["drsr"]),
            "throughout": (np.stack([expected["drsr"]] * 2), others),
        },
    }


def _wandering(config: SFLConfig, clients: Clients) -> dict[str, bool]:
    """Return whether rounds are off the long-term shares, alike, and right on average."""
    shares, long = clients.counts / config.batch_size, clients.stream.long_term
    off = np.abs(shares - long).max(axis=2)  # (rounds, clients)
    mean_off = np.abs(shares.mean(axis=0) - long).max(axis=1)
    return {
        "off": bool((off > 0.05).mean() > 0.5),
        "alike": bool((clients.stream.autocovariance(1).sum(axis=1) > 0).all()),
        "average": bool((mean_off < off.mean(axis=0)).all()),
    }
