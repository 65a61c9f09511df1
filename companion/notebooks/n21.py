"""Notebook 21, the strategies: runs, and the evidence on tables and figures.

Source: FDS (Federated Learning for Data Streams), Sections 5 and 6, Appendices C.6 and D, Tables 2
to 5, Figs. 3 and 5 to 8, (204). Algorithm 1 itself is checked in `fds_algorithm1`.

A line of Tables 2, 4, 5 is a *case*: a data set and a share of historical samples. It becomes one
config per seed, in which all strategies and the whole grid of p_hist train side by side. Where
several local rates are offered, runs on held-out samples choose one for each strategy first; except
on synthetic data this is done at the middle one of the shares of historical samples for all of
them.

A score is the accuracy after the last round, as a share: that of the averaged output of Algorithm
1, or that of the last iterate. Frames of scores have a row per seed and a column per strategy,
named as in the tables ("Fresh", "Historical", "Uniform", "Ours" and its other readings) and as
points of the grid ("p_hist=0.2").
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import product
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from companion import story
from companion.claims import DATASTREAMS as CLAIMS
from companion.judging.claims import Undecided
from companion.notebooks.datastreams_shared import (
    BASELINES,
    ROWS,
    SHOWN,
    TABLES,
    VALIDATION,
    both_readings,
    estimated_share,
    minimising_share,
    n_fresh,
    printed,
    printed_cells,
    ratio_by_table3,
    reported_ratio,
    reported_share,
)
from companion.notebooks.fds_algorithm1 import algorithm_evidence, table1_evidence
from companion.plans import Stage
from sflkit.datastreams import psi, training
from sflkit.datastreams.config import DataStreamsConfig
from sflkit.intervals import mean_interval
from sflkit.runs.keys import config_dict

FEWER = {
    "FEMNIST": "5 % are 15 writers here and 180 in the paper, so that this refutes nothing",
    "Shakespeare": "5 % are 13 roles here and 46 in the paper, so that this refutes nothing",
}
GRID = {0.0: "fresh", 0.2: "p_hist=0.2", 0.5: "p_hist=0.5", 0.8: "p_hist=0.8", 1.0: "historical"}
FIGURES = {
    "ds-fig5": "synthetic",
    "ds-fig6": "CIFAR-100",
    "ds-fig7": "FEMNIST",
    "ds-fig8": "Shakespeare",
}


def artefact_of(row: str, fraction: float) -> str:
    """Return the id of a line of the tables, such as "ds-tab2-cifar10"."""
    suffix = "" if row == "synthetic" else "-" + row.lower().replace("-", "")
    return TABLES[fraction] + suffix


def nearest_share(row: str, fraction: float) -> float:
    """Return the share of the grid, not 0, that is nearest to the reported p_hist.

    0 leaves the old data out, which no reported share does.
    """
    return min((0.2, 0.5, 0.8, 1.0), key=lambda x: abs(x - reported_share(row, fraction)))


def percent(fraction: float) -> str:
    """Return 0.05 as "5 %"."""
    return f"{100 * fraction:g} %"


def rivals(row: str, fraction: float) -> tuple[str, ...]:
    """Return the baselines with which Ours is compared: not with the one that it is itself."""
    keys = {part.key for part in CLAIMS[artefact_of(row, fraction)].parts}
    return tuple(name for name in BASELINES if f"ours, {name}" in keys)


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
    """What notebook 21 draws and judges: cases and runs by (row, fraction)."""

    cases: dict[tuple[str, float], Case]
    found: dict[tuple[str, float], pd.DataFrame]


def readings(row: str, fraction: float) -> dict[str, str]:
    """Return the strategies of a line of the tables and the arm that trains each.

    "Ours" is the strategy with the reported p_hist. Where that is not the minimiser of psi at the
    reported ratio (ERRATA 25), "Ours (psi)" is the minimiser; on synthetic data "Ours (Table 3)" is
    the minimiser at the ratio that (204) gives for Table 3 (ERRATA 26).
    """
    reported, least = reported_share(row, fraction), minimising_share(row, fraction)
    by_psi = "historical" if least == 1 else "ours"
    named = {"Fresh": "fresh", "Historical": "historical", "Uniform": "uniform"}
    if abs(least - reported) < 0.005 + 1e-9:
        named["Ours"] = by_psi
    else:
        named["Ours"] = "historical" if reported == 1 else f"p_hist={reported:g}"
        named["Ours (psi)"] = by_psi
    if row == "synthetic":
        ratio = ratio_by_table3(row, fraction)
        share = psi.equal_fresh_p_hist(fraction, n_fresh(row, fraction), ratio)
        named["Ours (Table 3)"] = f"p_hist={share:.2f}"
    return named


def strategies(**given: Any) -> Generator[Stage, pd.DataFrame, Strategies]:
    """Plan the lines of Tables 2, 4, 5 and Figs. 3, 5 to 8.

    Every keyword is a parameter of notebook 21, which says what it means. Searches use the seeds
    0, 1, ...; runs that judge use those from `first_seed` on (FEMNIST and Shakespeare have a first
    seed of their own), which no search and no trial saw.
    """
    p = SimpleNamespace(**given)
    image = dict(model=p.image_model, local_steps=p.local_steps_images)
    image |= dict(n_clients=50, n_historical=25, n_samples=p.image_samples or None)
    if p.image_model == "cnn":
        image |= dict(hidden=2048, padding=0)  # the paper's, by Table 3
    coarse = p.image_data.replace("cifar10", "cifar100")
    settings = {
        "synthetic": dict(data="logistic", model="linear", n_clients=11, n_historical=10)
        | dict(rounds=p.rounds, local_steps=p.local_steps, epsilon=p.epsilon),
        "CIFAR-10": dict(data=p.image_data, rounds=p.rounds_cifar10, **image),
        "CIFAR-100": dict(data=coarse, rounds=p.rounds_cifar100, **image),
        "FEMNIST": dict(data=p.writer_data, model="mlp", hidden=(p.dense_hidden,))
        | dict(n_clients=p.n_writers)
        | dict(rounds=p.rounds_writers, local_steps=p.local_steps_writers, availability="1"),
        "Shakespeare": dict(data=p.play_data, model=p.play_model, hidden=p.play_hidden)
        | dict(n_clients=p.n_roles, n_samples=p.play_samples or None, availability="2")
        | dict(rounds=p.rounds_plays, local_steps=p.local_steps_plays),
    }
    first, few = p.first_seed, p.tuning_seeds_images
    lines = {  # the rates to choose from, the seeds that judge, and how many search
        "synthetic": (p.rates, first, p.n_seeds, p.tuning_seeds),
        "CIFAR-10": (p.rates_images, first, p.n_seeds_cifar10, few),
        "CIFAR-100": (p.rates_images, first, p.n_seeds_cifar100, few),
        "FEMNIST": ([p.rate_natural], p.first_seed_writers, p.n_seeds_writers, few),
        "Shakespeare": (p.rates_plays, p.first_seed_plays, p.n_seeds_plays, few),
    }
    cases = {}
    for row, fraction in product(p.rows, p.fractions):
        rates, first, n, searching = lines[row]
        config = _config(row, fraction, settings[row], p.batch_size)
        named, seeds = readings(row, fraction), range(first, first + n)
        cases[row, fraction] = Case(
            row, fraction, config, named, tuple(rates), seeds, range(searching)
        )
    found = {}
    middle = sorted(p.fractions)[len(p.fractions) // 2]
    for row in p.rows:
        tried = {}
        for fraction in p.fractions if row == "synthetic" else [middle]:
            configs = cases[row, fraction].search()
            tried[fraction] = yield Stage(
                training.run, configs, f"{row} {percent(fraction)}, rates"
            )
        for fraction in p.fractions:
            configs = cases[row, fraction].judged(tried.get(fraction, tried[middle]))
            found[row, fraction] = yield Stage(training.run, configs, f"{row} {percent(fraction)}")
    return Strategies(cases, found)


def _config(row: str, fraction: float, settings: dict, batch_size: int) -> DataStreamsConfig:
    """Return the config of a line of the tables, with the arm "ours" alone.

    The reported ratio is multiplied by the root of the paper's number of fresh clients over ours:
    (204) has that root in its denominator, and psi depends on the product alone.
    """
    here = settings["n_clients"]
    old = settings.get("n_historical") or min(max(1, round(fraction * here)), here - 1)
    ratio = reported_ratio(row, fraction) * (n_fresh(row, fraction) / (here - old)) ** 0.5
    return DataStreamsConfig(
        **({"n_historical": None} | settings),
        arms=("ours",),
        rates=(0.1,),
        hist_fraction=fraction,
        c_ratio=float(ratio),
        batch_size=batch_size,
        evaluate_every=max(1, settings["rounds"] // 10),
    )


Scores = Mapping[tuple[str, float], pd.DataFrame]


def scores(case: Case, frame: pd.DataFrame, column: str = "accuracy") -> pd.DataFrame:
    """Return the scores of a case's strategies and grid, (n_seeds, n_names), from its runs.

    `column` is "accuracy" of the averaged output, or "accuracy_last" of the last iterate.
    """
    last = frame[frame["round"] == frame["round"].max()]
    by_arm = last.pivot(index="seed", columns="arm", values=column)
    named = {name: by_arm[arm] for name, arm in case.readings.items()}
    return pd.DataFrame(named | {f"p_hist={x:g}": by_arm[arm] for x, arm in case.grid.items()})


def all_scores(runs: Strategies, column: str = "accuracy") -> dict[tuple[str, float], pd.DataFrame]:
    """Return the scores of all cases that were run, by (row, fraction)."""
    return {key: scores(runs.cases[key], frame, column) for key, frame in runs.found.items()}


def optimal(score: pd.DataFrame) -> np.ndarray:
    """Return each seed's score under the share of the grid that is best for the other seeds.

    The paper's Optimal is the best share by its mean on the test set, so that the seeds that choose
    it also judge it, and it can never be below any other share. Leaving a seed out of its own
    choice takes that advantage away.

    Parameters
    ----------
    score : DataFrame (n_seeds, n_names)
        At least two seeds; fewer raise ValueError.

    Returns
    -------
    float array (n_seeds,)
    """
    return _best_of(score[[name for name in score if name.startswith("p_hist=")]])


def best_with_old(score: pd.DataFrame) -> np.ndarray:
    """Return each seed's score under the strategy with old data that is best for the other seeds.

    All strategies but Fresh, and the grid above 0; see `optimal`.
    """
    fresh = [name for name in score if name in ("Fresh", "p_hist=0")]
    return _best_of(score.drop(columns=fresh))


def _best_of(score: pd.DataFrame) -> np.ndarray:
    """Return each seed's value in the column that is best for the other seeds, (n_seeds,)."""
    if len(score) < 2:
        raise ValueError("score holds one seed; a seed's Optimal is chosen by the others")
    values = score.to_numpy()
    others = values.sum(axis=0) - values  # each row: the sum over the other seeds
    return values[np.arange(len(values)), others.argmax(axis=1)]


def table_evidence(row: str, fraction: float, score: pd.DataFrame) -> dict[str, Any]:
    """Return the evidence on a line of Tables 2, 4, 5, from its scores."""
    known = {
        "only new data": (best_with_old(score), score["Fresh"]),
        "historical is poor": (score["Uniform"], score["Historical"]),
        "uniform is poor": (score["Historical"], score["Uniform"]),
        "psi, Uniform": (score.get("Ours (psi)"), score["Uniform"]),
    }
    known |= {f"ours, {name}": (score["Ours"], score[name]) for name in BASELINES}
    return {part.key: known[part.key] for part in CLAIMS[artefact_of(row, fraction)].parts}


def figure_evidence(artefact: str, found: Scores) -> dict[str, Any]:
    """Return the evidence on one of Figs. 5 to 8, from scores by (row, fraction)."""
    row, known = FIGURES[artefact], {}
    for fraction in TABLES:
        score, said = found[row, fraction], printed_cells(row, fraction)
        rises = said["Fresh"][0] < said["Historical"][0]
        first, second = sorted(("p_hist=0", "p_hist=1"), reverse=rises)
        best, nearest = optimal(score), score[f"p_hist={nearest_share(row, fraction):g}"]
        known[f"order at {percent(fraction)}"] = (score[first], score[second])
        known[f"share at {percent(fraction)}"] = (nearest, best)
        known[f"psi at {percent(fraction)}"] = (score["p_hist=1"], best)
    return {part.key: known[part.key] for part in CLAIMS[artefact].parts}


def gaps(found: Scores) -> dict[tuple[str, float], np.ndarray]:
    """Return the gaps to Optimal of Historical and Uniform, by (name, fraction): Fig. 3."""
    return {
        (name, fraction): optimal(score) - score[name].to_numpy()
        for (row, fraction), score in found.items()
        for name in ("Historical", "Uniform")
        if row == "CIFAR-10"
    }


def fig3_evidence(found: Scores) -> dict[str, Any]:
    """Return the evidence on Fig. 3, from scores by (row, fraction)."""
    gap = gaps(found)
    return {
        "Historical 5 % 20 %": (gap["Historical", 0.05], gap["Historical", 0.2]),
        "Historical 20 % 50 %": (gap["Historical", 0.2], gap["Historical", 0.5]),
        "Uniform 20 % 5 %": (gap["Uniform", 0.2], gap["Uniform", 0.05]),
        "Uniform 20 % 50 %": (gap["Uniform", 0.2], gap["Uniform", 0.5]),
        "ranking at 5 %": (gap["Historical", 0.05], gap["Uniform", 0.05]),
        "ranking at 50 %": (gap["Uniform", 0.5], gap["Historical", 0.5]),
    }


def _ours_beside(
    found: Scores, row: str, lines: Iterable[tuple[str, float]]
) -> dict[str, tuple[pd.Series, pd.Series]]:
    """Return Ours and a baseline by line in words, such as "Fresh, 5 %"."""
    pairs = {f"{name}, {percent(f)}": (found[row, f], name) for name, f in lines}
    return {line: (score["Ours"], score[name]) for line, (score, name) in pairs.items()}


def _few_and_many(row: str, few: pd.Series, many: pd.Series) -> Any:
    """Return both scores, or why a loss refutes nothing: fewer clients than the paper's."""
    lost = mean_interval(100 * (few - many))
    told = f"{lost.mean:.2f} points [{lost.low:.2f}, {lost.high:.2f}]; {FEWER[row]}"
    return (few, many) if lost.low > -1 else Undecided(told)


def several_evidence(found: Scores) -> dict[str, dict[str, Any]]:
    """Return the evidence on the sentences about several lines, from scores by (row, fraction)."""
    every = [(name, f) for f in TABLES for name in BASELINES]
    outperforms = {  # the lines that the claim names
        part.key: {
            line: pair
            for line, pair in _ours_beside(found, part.key, every).items()
            if line in part.rule.rules.rules
        }
        for part in CLAIMS["ds-outperforms"].parts
    }
    natural = ("FEMNIST", "Shakespeare")  # whose clients are natural ones
    return {
        "ds-optimal": {
            "consistently": {
                f"{row}, {percent(fraction)}": (score["Ours"].to_numpy(), optimal(score))
                for (row, fraction), score in found.items()
            }
        },
        "ds-outperforms": outperforms,
        "ds-reuse": {
            row: (best_with_old(found[row, 0.05]), found[row, 0.05]["Fresh"]) for row in ROWS
        },
        "ds-departures": {
            row: _ours_beside(found, row, [(name, f) for f in TABLES for name in rivals(row, f)])
            for row in natural
        },
        "ds-subset": {
            row: _few_and_many(row, *(found[row, f]["Historical"] for f in (0.05, 0.5)))
            for row in natural
        },
    }


def estimated_shares(
    cases: Mapping[tuple[str, float], Case], rates: Sequence[float], seed: int
) -> pd.DataFrame:
    """Return the p_hist that the heuristic's own ratio gives, a row per line, a column per rate.

    C.6 measures B, G and D on the first tenth of each historical client's samples, D after a brief
    training whose rate is not stated (ERRATA 68): `rates` are those that are tried.
    """
    rows = {}
    for (row, f), case in cases.items():
        config = replace(case.config, seed=seed)
        settings = config_dict(config) | {"brief rates": list(rates)}

        def make(config: DataStreamsConfig = config) -> list[float]:
            return [_estimate(config, rate)[1] for rate in rates]

        rows[f"{row}, {percent(f)}"] = story.kept("estimated p_hist", settings, make)
    return pd.DataFrame.from_dict(rows, orient="index", columns=list(rates)).sort_index(axis=1)


def measured_constants(
    cases: Mapping[tuple[str, float], Case], rate: float, seed: int
) -> dict[str, dict[str, float]]:
    """Return what (204) needs, measured on ours with 20 % of old data: row -> D, G, B and d.

    Arguments are those of `estimated_shares`, with one rate of the brief training.
    """
    ours = {}
    for (row, f), case in cases.items():
        if f == 0.2:
            config = replace(case.config, seed=seed)
            settings = config_dict(config) | {"brief rate": rate}

            def make(config: DataStreamsConfig = config) -> dict[str, float]:
                found = _estimate(config, rate)[2]
                names = ("diameter", "grad_bound", "loss_bound", "n_params")
                return {key: getattr(found, name) for key, name in zip("DGBd", names, strict=True)}

            ours[row] = story.kept("Table 3", settings, make)
    return ours


def printed_constants(row: str) -> dict[str, float]:
    """Return a row of Table 3: D, G, B and d."""
    names = {"D": "D", "G": "G", "B": "B", "d": "parameters d"}
    return {key: printed("ds-c2c1", f"{row} {name}") for key, name in names.items()}


def table3_evidence(ours: Mapping[str, Mapping[str, float]]) -> dict[str, float]:
    """Return the evidence on Table 3, logarithms of ours over print; `ours` as measured."""
    return {
        f"{row} {name}": float(np.log(ours[row][name] / printed_constants(row)[name]))
        for row in ROWS
        for name in "DGB"
    }


def _estimate(config: DataStreamsConfig, rate: float) -> tuple[float, float, Any]:
    """Return `estimated_share` of the data and the network of a config."""
    names = [name for name in ("hidden", "padding") if getattr(config, name) is not None]
    options, data = {name: getattr(config, name) for name in names}, training.build(config)
    return estimated_share(data, config.model, options, seed=config.seed, rate=rate)


def cells(score: pd.DataFrame) -> dict[str, np.ndarray]:
    """Return our cells of a line of the tables, in %, a value for each seed, by strategy.

    Optimal is `optimal`: no seed chooses the share that it judges.
    """
    ours = {name: score[name].to_numpy() for name in SHOWN[:-1]} | {"Optimal": optimal(score)}
    return {name: 100 * sample for name, sample in ours.items()}


def all_evidence(averaged: Scores, last: Scores) -> dict[str, dict[str, Any]]:
    """Return the evidence on the tables and figures: artefact -> part -> what a rule takes.

    The scores are the answers of `all_scores` for both readings of the paper's accuracies, of all
    lines of the tables. Each part that was run has the evidence under both, by reading.
    """
    one, other = (trained_evidence(scores) for scores in (averaged, last))
    untrained = {"ds-alg1": algorithm_evidence(), "ds-tab1": table1_evidence()}
    trained = {artefact: both_readings(parts, other[artefact]) for artefact, parts in one.items()}
    return untrained | trained


def trained_evidence(scores: Scores) -> dict[str, dict[str, Any]]:
    """Return the evidence under one reading."""
    lines = [(row, f) for f in TABLES for row in ROWS]
    return {
        **{artefact_of(*line): table_evidence(*line, scores[line]) for line in lines},
        "ds-fig3": fig3_evidence(scores),
        **{figure: figure_evidence(figure, scores) for figure in FIGURES},
        **several_evidence(scores),
    }
