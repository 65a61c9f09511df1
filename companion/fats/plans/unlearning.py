"""Which runs notebook 42 needs: accuracy before, at and after forgetting.

`settings_of` is also what the notebook shows.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, NamedTuple

import pandas as pd

from companion.plans import Stage
from sflkit.data import federations
from sflkit.fats import training
from sflkit.fats.config import TABLE_2, FATSConfig
from sflkit.fats.first_uses import LEVELS
from sflkit.fats.methods import METHODS

# Samples or clients forgotten at once, Section 6.2.1; five where nothing is said here.
REQUESTS = {"mnist": 10, "femnist": 10}
COLUMNS = ("n_clients", "clients_per_round", "rounds", "local_steps", "batch_size")


class Unlearning(NamedTuple):
    """The frames of Figs. 1, 5 and 8, and of the paper's own rate."""

    fig1: pd.DataFrame
    fig5: pd.DataFrame
    fig8: pd.DataFrame
    paper_rate: pd.DataFrame


def settings_of(
    data: str,
    *,
    table_2: bool,
    images: list[int],
    natural: list[int],
    min_samples: int,
    model: str,
    model_natural: str,
    rate: float,
    rate_natural: float,
    fisher_rate: float,
    n_requests: int,
    n_requests_natural: int,
    test_size: int,
) -> dict[str, Any]:
    """Return the fields of a `FATSConfig` that a data set shares in all figures of notebook 42.

    Parameters
    ----------
    data : str
        A name of `FATSConfig.data`.
    table_2 : bool
        Whether a data set that the paper has takes its sizes from Table 2 and its number of
        requests from Section 6.2.1, in place of `images`, `natural` and `n_requests`.
    images, natural : list of five int
        M, K, R, E, b for images, and for natural clients.
    min_samples, model, model_natural, rate, rate_natural, fisher_rate, n_requests,
    n_requests_natural, test_size
        The notebook's parameters of these names.

    Raises
    ------
    ValueError
        If `images` or `natural` does not hold five integers.
    """
    for name, row in (("images", images), ("natural", natural)):
        if len(row) != len(COLUMNS):
            raise ValueError(f"{name}={row} must hold five integers: M, K, R, E, b")
    shared = dict(data=data, test_size=test_size, fisher_rate=fisher_rate)
    if data in federations.NATURAL:
        sizes = dict(zip(COLUMNS, natural)) | dict(n_requests=n_requests_natural)
        own = dict(model=model_natural, rate=rate_natural, min_samples=min_samples)
    else:
        sizes = dict(zip(COLUMNS, images)) | dict(n_requests=n_requests)
        own = dict(model=model, rate=rate)
    if table_2 and data in TABLE_2:
        sizes = {name: TABLE_2[data][name] for name in COLUMNS}
        sizes |= dict(n_requests=REQUESTS.get(data, 5))
    return sizes | own | shared


def unlearning(
    *,
    data_fig1: list[str],
    data_fig5: list[str],
    data_fig8: list[str],
    paper_rate: float,
    interval: int,
    seeds_fig1: list[int],
    seeds_fig5: list[int],
    seeds_fig8: list[int],
    seeds_rate: list[int],
    table_2: bool,
    images: list[int],
    natural: list[int],
    min_samples: int,
    model: str,
    model_natural: str,
    rate: float,
    rate_natural: float,
    fisher_rate: float,
    n_requests: int,
    n_requests_natural: int,
    test_size: int,
) -> Generator[Stage, pd.DataFrame, Unlearning]:
    """Plan notebook 42: every data set, level, method and seed of Figs. 1, 5 and 8."""
    shared = dict(table_2=table_2, images=images, natural=natural, min_samples=min_samples)
    shared |= dict(model=model, model_natural=model_natural, rate=rate, rate_natural=rate_natural)
    shared |= dict(fisher_rate=fisher_rate, n_requests=n_requests)
    shared |= dict(n_requests_natural=n_requests_natural, test_size=test_size)

    def configs(datasets: list[str], seeds: list[int], **more: Any) -> list[FATSConfig]:
        return [
            FATSConfig(**settings_of(data, **shared), **more, level=level, method=method, seed=seed)
            for data in datasets
            for seed in seeds
            for level in LEVELS
            for method in METHODS
        ]

    fig5 = yield Stage(training.run, configs(data_fig5, seeds_fig5), "fats-fig5")
    stream = dict(streaming=True, interval=interval)
    fig8 = yield Stage(training.run, configs(data_fig8, seeds_fig8, **stream), "fats-fig8")
    fig1 = yield Stage(training.run, configs(data_fig1, seeds_fig1), "fats-fig1")
    at_rate = [
        FATSConfig(
            **settings_of(data_fig5[0], **shared | dict(rate=paper_rate)), method=method, seed=seed
        )
        for seed in seeds_rate
        for method in METHODS
    ]
    slow = yield Stage(training.run, at_rate, "the paper's rate")
    return Unlearning(fig1, fig5, fig8, slow)
