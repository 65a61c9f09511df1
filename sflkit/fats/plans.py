"""Which runs the FATS notebooks need, for the notebooks and for the queue.

Every plan is a generator of stages, see `sflkit.results.plans`; its arguments are parameters of its
notebook. `settings_of` and `tradeoff_grid` are also what the notebooks show and draw by.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from sflkit.data import federations
from sflkit.fats import membership, stability, training
from sflkit.fats.config import TABLE_2, FATSConfig, MembershipConfig
from sflkit.fats.first_uses import LEVELS
from sflkit.fats.methods import METHODS
from sflkit.results.plans import Stage
from sflkit.results.tables import paper_value

COLUMNS = ("n_clients", "clients_per_round", "rounds", "local_steps", "batch_size")


# --- notebook 42: accuracy before, at and after forgetting ----------------------------------------


class Unlearning(NamedTuple):
    """The frames of Figs. 1, 5 and 8, and of the paper's own rate."""

    fig1: pd.DataFrame
    fig5: pd.DataFrame
    fig8: pd.DataFrame
    paper_rate: pd.DataFrame


def settings_of(
    data: str,
    *,
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
        own = dict(model=model_natural, rate=rate_natural, min_samples=min_samples)
        return dict(zip(COLUMNS, natural)) | own | dict(n_requests=n_requests_natural) | shared
    own = dict(model=model, rate=rate, n_requests=n_requests)
    return dict(zip(COLUMNS, images)) | own | shared


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
    shared = dict(images=images, natural=natural, min_samples=min_samples)
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


# --- notebook 43: how long does forgetting take? --------------------------------------------------


class Efficiency(NamedTuple):
    """The frames of Figs. 2 and 6 (one request), of Fig. 3 (several), and of the timed training."""

    one: pd.DataFrame
    several: pd.DataFrame
    trained: pd.DataFrame


def efficiency(
    *,
    seed: int,
    runs: int,
    points: int,
    femnist_b: list[int],
    femnist_m: list[int],
    shakespeare_b: list[int],
    shakespeare_m: list[int],
    drawn_clients: list[int],
    requests: list[int],
    train_data: str,
    train_model: str,
    train_clients: int,
    train_samples: int,
    train_rounds: int,
    train_rate: float,
    train_steps: int,
    train_seeds: list[int],
) -> Generator[Stage, pd.DataFrame, Efficiency]:
    """Plan notebook 43: drawn histories at Table 2's sizes, and a training for the seconds."""
    counted = dict(seed=seed, train=False, runs=runs)
    lines = dict(femnist=(femnist_b, femnist_m), shakespeare=(shakespeare_b, shakespeare_m))
    one = yield Stage(
        training.run,
        [
            FATSConfig(**sizes, data=data, level=level, n_requests=1, **counted)
            for data, (batches, clients) in lines.items()
            for level, sizes in _points_of_lines(data, batches, clients, points)
        ],
        "one request",
    )
    several = yield Stage(
        training.run,
        [
            FATSConfig(
                **sizes | {"clients_per_round": k},
                data=data,
                level="client",
                n_requests=count,
                streaming=streaming,
                **counted,
            )
            for data, name in (("femnist", "FEMNIST"), ("shakespeare", "Shakespeare"))
            for sizes in [
                TABLE_2[data]
                | {"n_clients": int(paper_value("fats", "fats-fig3", f"{name} clients M"))}
            ]
            for k in drawn_clients
            for streaming in (False, True)
            for count in requests
        ],
        "several requests",
    )
    timed = dict(level="client", n_requests=5, streaming=True, data=train_data, model=train_model)
    timed |= dict(n_clients=train_clients, samples_per_client=train_samples, rounds=train_rounds)
    timed |= dict(local_steps=train_steps, rate=train_rate, test_size=200)
    timed |= dict(evaluate_every=train_rounds)
    trained = yield Stage(
        training.run,
        [
            FATSConfig(
                **timed,
                method=method,
                seed=s,
                clients_per_round=max(1, train_clients // train_rounds),
            )
            for s in train_seeds
            for method in ("fats", "frs")
        ],
        "timed",
    )
    return Efficiency(one, several, trained)


def _points_of_lines(
    data: str, batches: list[int], clients: list[int], points: int
) -> list[tuple[str, dict[str, int]]]:
    """Return level and sizes of the drawn points of Fig. 2 or 6.

    A line ends at the largest K whose rho is at most 1; the largest K that all lines of a level
    have is among its points.
    """
    table = TABLE_2[data]
    steps = table["rounds"] * table["local_steps"]
    samples = table["n_clients"] * table["samples_per_client"]
    lines = [("sample", table["n_clients"], b, samples // (b * steps)) for b in sorted(batches)] + [
        ("client", m, table["batch_size"], m // table["rounds"]) for m in sorted(clients)
    ]
    found = []
    for level, m, b, last in lines:
        common = min(line[3] for line in lines if line[0] == level)
        ks = np.linspace(1, last, points).round().astype(int)
        found += [
            (level, table | {"n_clients": m, "batch_size": b, "clients_per_round": int(k)})
            for k in np.unique([*ks, common])
        ]
    return found


# --- notebook 44: accuracy and unlearning time over rho -------------------------------------------


class Tradeoff(NamedTuple):
    """Drawn histories of one and of several requests, and the trainings, over the grid."""

    one: pd.DataFrame
    several: pd.DataFrame
    trained: pd.DataFrame


def tradeoff_grid(
    *,
    n_clients: int,
    samples_per_client: int,
    local_steps: int,
    rounds_fig7: int,
    rounds_fig4: int,
    draws_fig7: int,
    draws_fig4: int,
    batches_fig7: list[int],
    batches_fig4: list[int],
    batch_size: int,
    clients_fig7: list[int],
    clients_fig4: list[int],
) -> pd.DataFrame:
    """Return the settings of Figs. 7 and 4, one row each, and those of Remark 2.

    Columns: artefact, over (which rho varies; "fixed" holds rho_S = that of Fig. 7's largest K and
    K b with it), K, b, R, rho_S, rho_C, rho (the one that varies), end (whether an end point).

    Raises
    ------
    ValueError
        If a batch size is not below samples_per_client, so that nobody could forget a sample.
    """
    most, least = max(clients_fig7), min(clients_fig7)
    figures = (
        ("fats-fig7", rounds_fig7, draws_fig7, batches_fig7, clients_fig7),
        ("fats-fig4", rounds_fig4, draws_fig4, batches_fig4, clients_fig4),
    )
    lines = [
        (artefact, over, k, b, rounds)
        for artefact, rounds, draws, batches, clients in figures
        for over, points in (
            ("rho_S", [(draws, b) for b in sorted(set(batches))]),
            ("rho_C", [(k, batch_size) for k in sorted(set(clients))]),
        )
        for k, b in points
    ]
    lines += [
        ("fats-rem2-accuracy", "fixed", least, batch_size * most // least, rounds_fig7),
        ("fats-rem2-accuracy", "fixed", most, batch_size, rounds_fig7),
    ]
    grid = pd.DataFrame(lines, columns=["artefact", "over", "K", "b", "R"])
    if grid["b"].max() >= samples_per_client:
        raise ValueError(
            f"batch size {grid['b'].max()} must be below samples_per_client={samples_per_client}, "
            "or nobody could forget"
        )
    rhos = [
        stability.stability(
            n_clients=n_clients,
            samples_per_client=samples_per_client,
            clients_per_round=row.K,
            batch_size=row.b,
            local_steps=local_steps,
            rounds=row.R,
        )
        for row in grid.itertuples()
    ]
    grid["rho_S"], grid["rho_C"] = [r.rho_s for r in rhos], [r.rho_c for r in rhos]
    grid["rho"] = grid["rho_S"].where(grid["over"] == "rho_S", grid["rho_C"])
    line = grid.groupby(["artefact", "over"])["rho"]
    grid["end"] = (grid["rho"] == line.transform("min")) | (grid["rho"] == line.transform("max"))
    return grid


def tradeoff(
    *,
    data_fig7: str,
    data_fig4: str,
    model: str,
    rate: float,
    requests: int,
    repeats: int,
    seeds: list[int],
    first_end: int,
    last_end: int,
    test_size: int,
    n_clients: int,
    samples_per_client: int,
    local_steps: int,
    rounds_fig7: int,
    rounds_fig4: int,
    draws_fig7: int,
    draws_fig4: int,
    batches_fig7: list[int],
    batches_fig4: list[int],
    batch_size: int,
    clients_fig7: list[int],
    clients_fig4: list[int],
) -> Generator[Stage, pd.DataFrame, Tradeoff]:
    """Plan notebook 44: `seeds` at every setting, first_end to last_end as well at end points."""
    sizes = dict(n_clients=n_clients, samples_per_client=samples_per_client)
    sizes |= dict(local_steps=local_steps)
    grid = tradeoff_grid(
        **sizes,
        rounds_fig7=rounds_fig7,
        rounds_fig4=rounds_fig4,
        draws_fig7=draws_fig7,
        draws_fig4=draws_fig4,
        batches_fig7=batches_fig7,
        batches_fig4=batches_fig4,
        batch_size=batch_size,
        clients_fig7=clients_fig7,
        clients_fig4=clients_fig4,
    )
    one = yield Stage(training.run, counting_configs(grid, 1, repeats, **sizes), "one request")
    several = yield Stage(
        training.run, counting_configs(grid, requests, repeats, **sizes), "several requests"
    )
    names = {"fats-fig4": data_fig4}
    trained = yield Stage(
        training.run,
        [
            config
            for row in grid.itertuples()
            for config in training_configs(
                row,
                sorted({*seeds, *(range(first_end, last_end + 1) if row.end else ())}),
                data=names.get(row.artefact, data_fig7),
                model=model,
                rate=rate,
                test_size=test_size,
                **sizes,
            )
        ],
        "trainings",
    )
    return Tradeoff(one, several, trained)


def counting_configs(
    grid: pd.DataFrame, n_requests: int, repeats: int, **sizes: int
) -> list[FATSConfig]:
    """Return the configs of drawn histories, one for each row of `tradeoff_grid`."""
    return [
        FATSConfig(
            train=False,
            level="sample" if row.over == "rho_S" else "client",
            n_requests=n_requests,
            runs=repeats,
            clients_per_round=row.K,
            batch_size=row.b,
            rounds=row.R,
            **sizes,
        )
        for row in grid.itertuples()
    ]


def training_configs(row: Any, seeds: list[int], **settings: Any) -> list[FATSConfig]:
    """Return the configs of the trainings of one row of `tradeoff_grid`, one for each seed."""
    return [
        FATSConfig(
            n_requests=1,
            clients_per_round=row.K,
            batch_size=row.b,
            rounds=row.R,
            seed=seed,
            **settings,
        )
        for seed in seeds
    ]


# --- notebook 45: membership inference ------------------------------------------------------------


class Membership(NamedTuple):
    """The frames of the federation that learnt by heart, and of the ordinary ones."""

    overfitted: pd.DataFrame
    ordinary: pd.DataFrame


def membership_settings(
    *,
    data: list[str],
    model: str,
    hidden: int,
    n_clients: int,
    samples_per_client: int,
    clients_per_round: int,
    local_steps: int,
    batch_size: int,
    rounds: int,
    rate: float,
    n_clients_over: int,
    samples_over: int,
    clients_over: int,
    rounds_over: int,
    rate_over: float,
    noise: float,
    forget_share: float,
    n_shadows: int,
    repeats: int,
) -> dict[tuple[str, str], MembershipConfig]:
    """Return ("ordinary", data set) and ("overfitted", first data set) -> config.

    The arguments are notebook 45's parameters. Natural clients come as they are.
    """
    shared = dict(model=model, hidden=hidden, local_steps=local_steps, batch_size=batch_size)
    shared |= dict(forget_share=forget_share, n_shadows=n_shadows, repeats=repeats)
    ordinary = dict(n_clients=n_clients, samples_per_client=samples_per_client)
    over = dict(n_clients=n_clients_over, samples_per_client=samples_over)
    whole = dict(n_clients=None, samples_per_client=None)
    settings = {
        ("ordinary", name): MembershipConfig(
            **shared,
            **whole if name in federations.NATURAL else ordinary,
            data=name,
            clients_per_round=clients_per_round,
            rounds=rounds,
            rate=rate,
        )
        for name in data
    }
    settings["overfitted", data[0]] = MembershipConfig(
        **shared,
        **whole if data[0] in federations.NATURAL else over,
        data=data[0],
        clients_per_round=clients_over,
        rounds=rounds_over,
        rate=rate_over,
        noise=noise,
        levels=LEVELS,
    )
    return settings


def attacks_on(
    *,
    seeds: list[int],
    seeds_ordinary: list[int],
    data: list[str],
    model: str,
    hidden: int,
    n_clients: int,
    samples_per_client: int,
    clients_per_round: int,
    local_steps: int,
    batch_size: int,
    rounds: int,
    rate: float,
    n_clients_over: int,
    samples_over: int,
    clients_over: int,
    rounds_over: int,
    rate_over: float,
    noise: float,
    forget_share: float,
    n_shadows: int,
    repeats: int,
) -> Generator[Stage, pd.DataFrame, Membership]:
    """Plan notebook 45: mirror pairs where the attack has power, single runs where it has none."""
    settings = membership_settings(
        data=data,
        model=model,
        hidden=hidden,
        n_clients=n_clients,
        samples_per_client=samples_per_client,
        clients_per_round=clients_per_round,
        local_steps=local_steps,
        batch_size=batch_size,
        rounds=rounds,
        rate=rate,
        n_clients_over=n_clients_over,
        samples_over=samples_over,
        clients_over=clients_over,
        rounds_over=rounds_over,
        rate_over=rate_over,
        noise=noise,
        forget_share=forget_share,
        n_shadows=n_shadows,
        repeats=repeats,
    )
    over = settings["overfitted", data[0]]
    pairs = [replace(over, seed=s, mirror=mirror) for s in seeds for mirror in (False, True)]
    overfitted = yield Stage(membership.run, pairs, "mirror pairs")
    plain = [replace(settings["ordinary", name], seed=s) for name in data for s in seeds_ordinary]
    ordinary = yield Stage(membership.run, plain, "ordinary federations")
    return Membership(overfitted, ordinary)
