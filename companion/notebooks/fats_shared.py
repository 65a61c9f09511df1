"""What several notebooks of FATS share: Table 2 as printed, and the readings of a local step.

`sflkit.fats.config.TABLE_2` holds the same sizes as settings of a run, with whole numbers of
samples.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from companion.judging.tables import paper_curve, paper_value
from sflkit.fats.config import FATSConfig
from sflkit.fats.expected_time import client_time, sample_time

Sizes = Mapping[str, Any]  # the keywords of `draw_history` without rng
KEYWORDS = (
    "n_clients",
    "samples_per_client",
    "clients_per_round",
    "batch_size",
    "local_steps",
    "rounds",
)
# One draw of one client and one sample, of two clients with two samples each.
TINY: Sizes = dict(zip(KEYWORDS, (2, 2, 1, 1, 1, 1), strict=True))
# Samples or clients forgotten at once, Section 6.2.1; five where nothing is said here.
REQUESTS = {"mnist": 10, "femnist": 10}
# The settings, and the words that the columns are transcribed with.
NAMES = ("MNIST", "FashionM", "Cifar-10", "Cifar-100", "FEMNIST", "Shakespeare")
COLUMNS = {
    "samples": "samples",
    "M": "clients M",
    "K": "clients per round K",
    "R": "rounds R",
    "E": "local steps E",
    "b": "batch size b",
}


def table_2() -> pd.DataFrame:
    """Return Table 2: one row per setting, the columns samples, M, K, R, E and b."""
    return pd.DataFrame(
        {
            short: [int(paper_value("fats", "fats-tab2", f"{name} {long}")) for name in NAMES]
            for short, long in COLUMNS.items()
        },
        index=NAMES,
    )


def paper_sizes(table: pd.DataFrame) -> dict[str, dict[str, Any]]:
    """Return the sizes of Table 2's settings, with the mean number of samples of a client."""
    return {
        row.Index: dict(
            zip(KEYWORDS, (row.M, row.samples / row.M, row.K, row.b, row.E, row.R), strict=True)
        )
        for row in table.itertuples()
    }


def of_clients(sizes: Sizes) -> dict[str, int]:
    """Return the sizes that the time of a client depends on."""
    names = ("n_clients", "clients_per_round", "local_steps", "rounds")
    return {name: sizes[name] for name in names}


def mean_time(level: str, sizes: Sizes) -> float:
    """Return the exact mean time of one request for a "sample" or a "client", in steps."""
    return sample_time(**sizes) if level == "sample" else client_time(**of_clients(sizes))


# What the sources allow for a local step at the printed rate (ERRATA 65): the mean of the text, a
# sum, and the optimiser of the authors' released repository.
READINGS: dict[str, dict[str, Any]] = {
    "mean": dict(reduction="mean"),
    "released": dict(momentum=0.9, weight_decay=1e-4),
    "sum": dict(reduction="sum"),
}


def read_as(reading: str, sizes: Mapping[str, Any], seed: int, **more: Any) -> FATSConfig:
    """Return a training under one of `READINGS`, for what is learnt before a request.

    One sample is to be forgotten unless `more` says otherwise; `sizes` and `more` are fields of a
    `FATSConfig`.
    """
    return FATSConfig(**{**sizes, "n_requests": 1, **READINGS[reading], **more}, seed=seed)


def authors_learning(panels: Sequence[str], rounds: int) -> np.ndarray:
    """Return the authors' FATS in Fig. 5 before the request, the mean of `panels`, (rounds,).

    Entry r - 1 is the accuracy after round r: their curves begin at 0.
    """
    curves = paper_curve("fats-fig5")
    own = curves[curves["panel"].isin(list(panels)) & (curves["series"] == "FATS")]
    return own.groupby("x")["y"].mean().loc[: rounds - 1].to_numpy()
