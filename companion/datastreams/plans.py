"""Which runs notebooks 21 and 22 need: the lines of the tables, and the optimisers.

Source: FDS (Federated Learning for Data Streams), Section 6, Appendices D and E.

A line of Tables 2, 4, 5 is a *case*: a data set and a share of historical samples. It becomes one
config per seed, in which all strategies and the whole grid of p_hist train side by side. Where
several local rates are offered, runs on held-out samples choose one for each strategy first; except
on synthetic data this is done at the middle one of the shares of historical samples for all of
them.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import replace
from typing import NamedTuple

import pandas as pd

from companion.datastreams.printed import ROWS, printed_line
from companion.plans import Stage
from sflkit.datastreams import psi, training
from sflkit.datastreams.config import DataStreamsConfig

GRID = {0.0: "fresh", 0.2: "p_hist=0.2", 0.5: "p_hist=0.5", 0.8: "p_hist=0.8", 1.0: "historical"}
VALIDATION = 0.2  # share of every client's samples that choose the rate
# c2 / c1 as Tables 4, 2 and 5 print it; clients of Table 1; historical ones of Section 6, by share
# where the clients are natural.
RATIOS = {
    "synthetic": {0.05: 0.094, 0.2: 0.092, 0.5: 0.085},
    "CIFAR-10": {0.05: 0.150, 0.2: 0.150, 0.5: 0.150},
    "CIFAR-100": {0.05: 0.284, 0.2: 0.284, 0.5: 0.284},
    "FEMNIST": {0.05: 0.001, 0.2: 0.001, 0.5: 0.001},
    "Shakespeare": {0.05: 0.064, 0.2: 0.064, 0.5: 0.095},
}
CLIENTS = {"synthetic": 11, "CIFAR-10": 50, "CIFAR-100": 50, "FEMNIST": 3597, "Shakespeare": 916}
HISTORICAL = {"synthetic": 10, "CIFAR-10": 25, "CIFAR-100": 25}
TABLE_3 = dict(loss_bound=0.7, grad_bound=0.4, diameter=1.9, n_params=21, n_samples=200)


class Case(NamedTuple):
    """A line of the tables: its config, whose seed and arms are to be replaced, and its runs.

    `readings` maps the names of the tables, and other readings of Ours, to arms.
    """

    row: str
    fraction: float
    config: DataStreamsConfig
    readings: dict[str, str]
    rates: tuple[float, ...]
    seeds: range
    tuning: range

    @property
    def grid(self) -> dict[float, str]:
        """The arm of each share of the grid. On images p_hist = N_hist / N is Uniform itself."""
        images = self.row.startswith("CIFAR")
        return {x: "uniform" if images and x == self.fraction else arm for x, arm in GRID.items()}

    @property
    def arms(self) -> tuple[str, ...]:
        """All arms that train: the readings and the grid, each once."""
        return tuple(dict.fromkeys([*self.readings.values(), *self.grid.values()]))

    def search(self) -> list[DataStreamsConfig]:
        """Return the configs that try every rate for every arm; none where there is one rate."""
        if len(self.rates) == 1:
            return []
        tried = dict(
            arms=tuple(arm for arm in self.arms for _ in self.rates),
            rates=self.rates * len(self.arms),
            validation=VALIDATION,
            evaluate_every=self.config.rounds,
        )
        return [replace(self.config, seed=seed, **tried) for seed in self.tuning]

    def judged(self, tried: pd.DataFrame) -> list[DataStreamsConfig]:
        """Return the configs that judge, at the rates that won the search.

        An arm that was not in the search takes Uniform's rate.
        """
        best = training.best_rates(tried) if len(tried) else {"uniform": self.rates[0]}
        rates = tuple(best.get(arm, best["uniform"]) for arm in self.arms)
        return [replace(self.config, seed=seed, arms=self.arms, rates=rates) for seed in self.seeds]


class Strategies(NamedTuple):
    """What notebook 21 draws and judges: cases, searches and runs by (row, fraction).

    A case that leaves the search to another one has no runs in `tried`.
    """

    cases: dict[tuple[str, float], Case]
    tried: dict[tuple[str, float], pd.DataFrame]
    found: dict[tuple[str, float], pd.DataFrame]


class Optimisers(NamedTuple):
    """What notebook 22 draws and judges."""

    tried: pd.DataFrame
    rates: dict[str, dict[str, float]]
    found: pd.DataFrame


def minimiser(row: str, fraction: float) -> float:
    """Return the p_hist that minimises psi at the reported ratio and the paper's clients."""
    return psi.equal_fresh_p_hist(fraction, _n_fresh(row, fraction), RATIOS[row][fraction])


def readings(row: str, fraction: float) -> dict[str, str]:
    """Return the strategies of a line of the tables and the arm that trains each.

    "Ours" is the strategy with the reported p_hist. Where that is not the minimiser of psi at the
    reported ratio (ERRATA 25), "Ours (psi)" is the minimiser; on synthetic data "Ours (Table 3)" is
    the minimiser at the ratio that (204) gives for Table 3 (ERRATA 26).
    """
    reported, least = printed_line(row, fraction)["p_hist"], minimiser(row, fraction)
    by_psi = "historical" if least == 1 else "ours"
    named = {"Fresh": "fresh", "Historical": "historical", "Uniform": "uniform"}
    if abs(least - reported) < 0.005 + 1e-9:
        named["Ours"] = by_psi
    else:
        named["Ours"] = "historical" if reported == 1 else f"p_hist={reported:g}"
        named["Ours (psi)"] = by_psi
    if row == "synthetic":
        n_fresh = _n_fresh(row, fraction)
        ratio = psi.estimate_c_ratio(n_fresh=n_fresh, **TABLE_3)
        named["Ours (Table 3)"] = f"p_hist={psi.equal_fresh_p_hist(fraction, n_fresh, ratio):.2f}"
    return named


def strategies(
    *,
    rows: Sequence[str],
    fractions: Sequence[float],
    first_seed: int,
    first_seed_writers: int,
    first_seed_plays: int,
    n_seeds: int,
    n_seeds_images: int,
    n_seeds_writers: int,
    n_seeds_plays: int,
    tuning_seeds: int,
    tuning_seeds_images: int,
    rates: Sequence[float],
    rates_images: Sequence[float],
    rates_plays: Sequence[float],
    rate_natural: float,
    rounds: int,
    rounds_images: int,
    rounds_writers: int,
    rounds_plays: int,
    local_steps: int,
    local_steps_images: int,
    local_steps_writers: int,
    local_steps_plays: int,
    batch_size: int,
    epsilon: float,
    image_data: str,
    image_model: str,
    image_samples: int,
    writer_data: str,
    n_writers: int,
    dense_hidden: int,
    play_data: str,
    play_model: str,
    n_roles: int,
    play_samples: int,
    play_hidden: int,
) -> Generator[Stage, pd.DataFrame, Strategies]:
    """Plan the lines of Tables 2, 4, 5 and Figs. 3, 5 to 8.

    Every keyword is a parameter of notebook 21, which says what it means. Searches use the seeds
    0, 1, ...; runs that judge use those from `first_seed` on (FEMNIST and Shakespeare have a first
    seed of their own), which no search and no trial saw.
    """
    image = dict(model=image_model, rounds=rounds_images, local_steps=local_steps_images)
    image |= dict(n_clients=50, n_historical=25, n_samples=image_samples or None)
    if image_model == "cnn":
        image |= dict(hidden=2048, padding=0)  # the paper's, by Table 3
    coarse = image_data.replace("cifar10", "cifar100")
    settings = {
        "synthetic": dict(data="logistic", model="linear", n_clients=11, n_historical=10)
        | dict(rounds=rounds, local_steps=local_steps, epsilon=epsilon),
        "CIFAR-10": dict(data=image_data, **image),
        "CIFAR-100": dict(data=coarse, **image),
        "FEMNIST": dict(data=writer_data, model="mlp", hidden=(dense_hidden,), n_clients=n_writers)
        | dict(rounds=rounds_writers, local_steps=local_steps_writers, availability="1"),
        "Shakespeare": dict(data=play_data, model=play_model, hidden=play_hidden)
        | dict(n_clients=n_roles, n_samples=play_samples or None, availability="2")
        | dict(rounds=rounds_plays, local_steps=local_steps_plays),
    }
    n_of = (n_seeds, n_seeds_images, n_seeds_images, n_seeds_writers, n_seeds_plays)
    first_of = (first_seed, first_seed, first_seed, first_seed_writers, first_seed_plays)
    seeds = {
        row: range(first, first + n) for row, first, n in zip(ROWS, first_of, n_of, strict=True)
    }
    rates_of = (rates, rates_images, rates_images, [rate_natural], rates_plays)
    offered = dict(zip(ROWS, rates_of, strict=True))
    cases = {
        (row, fraction): Case(
            row,
            fraction,
            _config(row, fraction, settings[row], batch_size),
            readings(row, fraction),
            tuple(offered[row]),
            seeds[row],
            range(tuning_seeds if row == "synthetic" else tuning_seeds_images),
        )
        for row in rows
        for fraction in fractions
    }
    tried, found = {}, {}
    middle = sorted(fractions)[len(fractions) // 2]
    for row in rows:
        searched = fractions if row == "synthetic" else [middle]
        for fraction in searched:
            configs = cases[row, fraction].search()
            name = f"{row} {100 * fraction:g} %, rates"
            tried[row, fraction] = yield Stage(training.run, configs, name)
        for fraction in fractions:
            chosen_by = tried.get((row, fraction), tried[row, searched[0]])
            configs = cases[row, fraction].judged(chosen_by)
            found[row, fraction] = yield Stage(training.run, configs, f"{row} {100 * fraction:g} %")
    return Strategies(cases, tried, found)


def optimisers(
    *,
    data: str,
    n_samples: int,
    model: str,
    n_clients: int,
    hist_fraction: float,
    c_ratio: float,
    rounds: int,
    local_steps: int,
    batch_size: int,
    prox: float,
    rates: Sequence[float],
    search_seeds: Sequence[int],
    seeds: Sequence[int],
) -> Generator[Stage, pd.DataFrame, Optimisers]:
    """Plan Appendix E: four strategies under FedAvg, FedProx and SCAFFOLD.

    Every keyword is a parameter of notebook 22, which says what it means.
    """
    arms = ("fresh", "historical", "uniform", "ours")
    base = DataStreamsConfig(
        arms=arms,
        rates=(rates[0],) * len(arms),
        data=data,
        n_samples=n_samples or None,
        model=model,
        n_clients=n_clients,
        n_historical=n_clients // 2,
        hist_fraction=hist_fraction,
        c_ratio=c_ratio,
        rounds=rounds,
        local_steps=local_steps,
        batch_size=batch_size,
        prox=prox,
        evaluate_every=rounds,
        **({"hidden": 2048, "padding": 0} if model == "cnn" else {}),
    )
    servers = ("fedavg", "fedprox", "scaffold")
    grid = dict(
        arms=tuple(arm for arm in arms for _ in rates),
        rates=tuple(rates) * len(arms),
        validation=VALIDATION,
    )
    searches = [
        replace(base, server=s, seed=seed, **grid) for s in servers for seed in search_seeds
    ]
    tried = yield Stage(training.run, searches, "rates")
    best = {s: training.best_rates(tried[tried["server"] == s]) for s in servers}
    runs = [
        replace(base, server=s, seed=seed, rates=tuple(best[s][arm] for arm in arms))
        for s in servers
        for seed in seeds
    ]
    found = yield Stage(training.run, runs, "strategies")
    return Optimisers(tried, best, found)


def _n_fresh(row: str, fraction: float) -> int:
    """Return the paper's number of fresh clients."""
    return CLIENTS[row] - HISTORICAL.get(row, round(fraction * CLIENTS[row]))


def _config(row: str, fraction: float, settings: dict, batch_size: int) -> DataStreamsConfig:
    """Return the config of a line of the tables, with the arm "ours" alone.

    The reported ratio is multiplied by the root of the paper's number of fresh clients over ours:
    (204) has that root in its denominator, and psi depends on the product alone.
    """
    here = settings["n_clients"]
    old = settings.get("n_historical") or min(max(1, round(fraction * here)), here - 1)
    ratio = RATIOS[row][fraction] * (_n_fresh(row, fraction) / (here - old)) ** 0.5
    return DataStreamsConfig(
        **({"n_historical": None} | settings),
        arms=("ours",),
        rates=(0.1,),
        hist_fraction=fraction,
        c_ratio=float(ratio),
        batch_size=batch_size,
        evaluate_every=max(1, settings["rounds"] // 10),
    )
