"""Which runs notebook 44 needs: accuracy and unlearning time over rho_S and rho_C.

`tradeoff_grid` is also what the notebook shows and draws by.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, NamedTuple

import pandas as pd

from companion.plans import Stage
from sflkit.fats import stability, training
from sflkit.fats.config import FATSConfig

EQUAL_MIXES = 1e4  # Dirichlet parameter at which label mixes hardly differ


class Tradeoff(NamedTuple):
    """Drawn histories of one and of several requests, and the trainings, over the grid.

    `equal_mixes` repeats the two settings of Remark 2 on clients with nearly equal label mixes.
    """

    one: pd.DataFrame
    several: pd.DataFrame
    trained: pd.DataFrame
    equal_mixes: pd.DataFrame


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


def check_lines(grid: pd.DataFrame, knee: float) -> None:
    """Check that every line of the grid ends at rho <= 1 and has the knee and points around it.

    Raises
    ------
    ValueError
        If a line does not; the message lists its values of rho.
    """
    lines = grid[grid["over"] != "fixed"].groupby(["artefact", "over"], sort=False)["rho"]
    for (artefact, over), rho in lines:
        below, above = (rho <= knee + 1e-9).sum(), (rho >= knee - 1e-9).sum()
        if rho.max() > 1 + 1e-9 or below < 2 or above < 2 or below + above != len(rho) + 1:
            raise ValueError(
                f"{artefact} over {over} has {rho.round(4).tolist()}; it must hold {knee}, end at "
                f"1 at most and have points on both sides of {knee}"
            )


def tradeoff(
    *,
    data_fig7: str,
    data_fig4: str,
    model: str,
    rate: float,
    requests: int,
    repeats: int,
    seeds_fig7: list[int],
    seeds_fig4: list[int],
    more_ends: int,
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
    """Plan notebook 44: a figure's seeds at every setting, and at end points `more_ends` others.

    These follow the figure's largest seed. The settings of Remark 2 count as end points of Fig. 7,
    and are trained with the same seeds once more on nearly equal label mixes.
    """
    sizes = dict(n_clients=n_clients, samples_per_client=samples_per_client)
    sizes |= dict(local_steps=local_steps)
    lines = dict(rounds_fig7=rounds_fig7, rounds_fig4=rounds_fig4, draws_fig7=draws_fig7)
    lines |= dict(draws_fig4=draws_fig4, batches_fig7=batches_fig7, batches_fig4=batches_fig4)
    lines |= dict(batch_size=batch_size, clients_fig7=clients_fig7, clients_fig4=clients_fig4)
    grid = tradeoff_grid(**sizes, **lines)
    one = yield Stage(training.run, counting_configs(grid, 1, repeats, **sizes), "one request")
    some = counting_configs(grid, requests, repeats, **sizes)
    several = yield Stage(training.run, some, "several requests")
    trains = dict(**sizes, model=model, rate=rate, test_size=test_size)
    fig7, fig4 = sorted(set(seeds_fig7)), sorted(set(seeds_fig4))
    configs = []
    for row in grid.itertuples():
        data, seeds = (data_fig4, fig4) if row.artefact == "fats-fig4" else (data_fig7, fig7)
        these = at_ends(seeds, more_ends) if row.end else seeds
        configs += training_configs(row, these, data=data, **trains)
    trained = yield Stage(training.run, configs, "trainings")
    mixes = [
        config
        for row in grid[grid["over"] == "fixed"].itertuples()
        for config in training_configs(
            row, at_ends(fig7, more_ends), data=data_fig7, alpha=EQUAL_MIXES, **trains
        )
    ]
    equal_mixes = yield Stage(training.run, mixes, "equal label mixes")
    return Tradeoff(one, several, trained, equal_mixes)


def at_ends(seeds: list[int], more: int) -> list[int]:
    """Return the seeds of end points: `seeds`, and so many that follow the largest of them."""
    return [*seeds, *range(max(seeds) + 1, max(seeds) + 1 + more)]


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
