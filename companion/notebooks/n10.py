"""Notebook 10, streams and caches: which caches are followed, and what is measured.

Source: SFL, Sections III to V, Figs. 1, 2, 3 and 5.
"""

from __future__ import annotations

import math
from collections.abc import Generator, Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from companion.plans import Stage
from sflkit.sfl import cache_paths, discrepancy
from sflkit.sfl.clients import Clients, make_stream
from sflkit.sfl.config import SFLConfig


def streams_and_caches(
    *, seeds: list[int], rules: list[str], **settings: Any
) -> Generator[Stage, pd.DataFrame, pd.DataFrame]:
    """Notebook 10: every rule on every seed's streams."""
    same = "rounds n_clients classes_per_client n_states temperature capacity batch_size theta"
    own = {name: settings[name] for name in same.split()}
    rules = list(dict.fromkeys(rules))
    configs = [SFLConfig(train=False, rule=r, seed=s, **own) for r in rules for s in seeds]
    return (yield Stage(cache_paths.run, configs, "caches"))


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
    t = psi["drsr"].columns.to_numpy()
    late = {rule: table.to_numpy()[:, t > t[-1] // 2] for rule, table in psi.items()}
    filled = t > first_full
    return {
        "mean": {rule: np.log(values.mean(axis=1)) for rule, values in late.items()},
        "fluctuation": {rule: np.log(values.std(axis=1)) for rule, values in late.items()},
        "total": {rule: np.log(table.to_numpy().sum(axis=1)) for rule, table in psi.items()},
        "falls": (np.log(psi["drsr"].to_numpy()[:, filled]), np.log(t[filled])),
    }


def expected_totals(config: SFLConfig, seeds: Iterable[int]) -> dict[str, np.ndarray]:
    """Return rule -> (rounds,) accumulated discrepancy of FIFO, SRSR and DRSR, in expectation.

    It is the mean over the seeds' streams, for exact counts, that is without the noise of drawing
    B_s labels and without rounding. `config` names the stream's and the caches' settings.
    """
    how = {"cache_rounds": math.ceil(config.capacity / config.batch_size)}
    streams = [make_stream(replace(config, seed=seed), config.n_classes) for seed in seeds]

    def total(rule: str, **theta: float) -> np.ndarray:
        paths = [discrepancy.exact_path(s, rule, config.rounds, **how, **theta) for s in streams]
        return np.mean([path.sum(axis=(1, 2)).cumsum() for path in paths], axis=0)

    srsr = total("srsr_filled", theta=config.theta)
    return {"fifo": total("fifo"), "srsr": srsr, "drsr": total("drsr")}


def stream_evidence(
    config: SFLConfig, clients: Clients, frame: pd.DataFrame, seeds: Sequence[int]
) -> dict[str, Evidence]:
    """Return the evidence of Figs. 1, 3 and 5 and of C, artefact -> part -> what the rule takes.

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
    logs = late_logs(frame, seeds, -(-config.capacity // config.batch_size))
    expected = expected_totals(config, [seed + len(seeds) for seed in seeds])
    others = np.stack([expected["srsr"], expected["fifo"]])
    by_labels = distances(config, seeds)
    return {
        "sfl-fig1": _wandering(config, clients),
        "sfl-fig3": {"apart": bool(distance(clients.stream.long_term) > 0.5)},
        "sfl-noniid": {"falls": (by_labels[:, 1:], by_labels[:, :-1])},
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


def distance(shares: np.ndarray) -> float:
    """Return the mean total variation between two clients' `shares`, (n_clients, n_classes)."""
    return float(
        np.mean([np.abs(a - b).sum() / 2 for i, a in enumerate(shares) for b in shares[:i]])
    )


def distances(config: SFLConfig, seeds: Sequence[int]) -> np.ndarray:
    """Return `distance` of the long-term shares with 2 to all labels a client, (n_seeds, n_C)."""

    def of(seed: int, labels: int) -> float:
        one = replace(config, seed=seed, classes_per_client=labels)
        return distance(make_stream(one, config.n_classes).long_term)

    several = range(2, config.n_classes + 1)
    return np.array([[of(seed, labels) for labels in several] for seed in seeds])


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
