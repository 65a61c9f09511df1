"""Notebook 44, accuracy and unlearning time over rho_S and rho_C: Figs. 4 and 7, Remark 2.

Source: FATS, Sections 5.2 and 6.2.4, Appendix A.4. Accuracy is the mean test accuracy of the global
models of the last fifth of the rounds, one number per training, before the request. Unlearning time
is a share of a whole training.
"""

from __future__ import annotations

import inspect
from collections.abc import Generator, Mapping
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from companion.judging.claims import Setting
from companion.notebooks.fats_shared import mean_time, of_clients, read_as
from companion.plans import Stage
from sflkit.fats import stability, training
from sflkit.fats.config import FATSConfig
from sflkit.fats.expected_time import first_participation
from sflkit.runs.keys import result_key


class Tradeoff(NamedTuple):
    """Drawn histories of one request, trainings over the grid, and those at the paper's rate."""

    one: pd.DataFrame
    trained: pd.DataFrame
    summed: pd.DataFrame


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


SIZES = ("n_clients", "samples_per_client", "local_steps")
LINES = tuple(inspect.signature(tradeoff_grid).parameters)


def tradeoff(**given: Any) -> Generator[Stage, pd.DataFrame, Tradeoff]:
    """Plan notebook 44: a figure's seeds at every setting, and at end points `more_ends` others.

    These follow the figure's largest seed. The settings of Remark 2 count as end points of Fig. 7.
    """
    p = SimpleNamespace(**given)
    grid = tradeoff_grid(**{name: given[name] for name in LINES})
    sizes = {name: given[name] for name in SIZES}
    one = yield Stage(training.run, counting_configs(grid, p.repeats, **sizes), "one request")
    trains = dict(**sizes, model=p.model, test_size=p.test_size)
    figures = {
        "fats-fig7": (p.seeds_fig7, dict(data=p.data_fig7, rate=p.rate)),
        "fats-fig4": (p.seeds_fig4, dict(data=p.data_fig4, rate=p.rate_fig4)),
    }
    figures["fats-rem2-accuracy"] = figures["fats-fig7"]
    configs = []
    for row in grid.itertuples():
        seeds, on = figures[row.artefact]
        next_ = max(seeds) + 1
        more = range(next_, next_ + p.more_ends) if row.end else ()
        configs += [
            config_of(row, seed=seed, **on, **trains) for seed in [*sorted(set(seeds)), *more]
        ]
    trained = yield Stage(training.run, configs, "trainings")
    points = [(k, p.batch_size) for k in p.clients_summed]
    points += [(p.draws_fig7, b) for b in p.batches_summed]
    trains |= dict(data=p.data_fig7, test_size=p.test_size_summed)
    at_rate = trains | dict(rate=p.paper_rate, rounds=p.rounds_fig7)
    slowly = [
        read_as("sum", at_rate, seed, clients_per_round=k, batch_size=b)
        for k, b in dict.fromkeys(points)
        for seed in p.seeds_summed
    ]
    summed = yield Stage(training.run, slowly, "Figure 7 at the paper's rate, gradients summed")
    return Tradeoff(one, trained, summed)


def config_of(row: Any, **settings: Any) -> FATSConfig:
    """Return the config of a row of `tradeoff_grid`."""
    return FATSConfig(
        n_requests=1, clients_per_round=row.K, batch_size=row.b, rounds=row.R, **settings
    )


def counting_configs(grid: pd.DataFrame, repeats: int, **sizes: int) -> list[FATSConfig]:
    """Return the configs of drawn histories, one for each row of `tradeoff_grid`."""
    levels = np.where(grid["over"] == "rho_S", "sample", "client").tolist()
    return [
        config_of(row, train=False, level=level, runs=repeats, **sizes)
        for row, level in zip(grid.itertuples(), levels, strict=True)
    ]


KNEE = 0.5  # rho beyond which the paper's curves flatten
LATE = 0.8  # accuracy is taken after this share of the rounds
REAL = {"fats-fig7": "mnist", "fats-fig4": "fmnist", "fats-rem2-accuracy": "mnist"}


class Measured(NamedTuple):
    """The grid with what was measured at each of its settings.

    grid : DataFrame
        `tradeoff_grid` with columns time (exact mean, one request), first (a client's first
        participation, exact; ERRATA 86), accuracy and seeds.
    times : array (n_histories, n_settings)
        Unlearning time of every drawn history, one request.
    scores : dict of (artefact, over) -> DataFrame (n_seeds, n_points)
        Accuracy of every training, columns are rows of the grid; NaN where a setting lacks a seed.
    summed : dict of (K, b) -> array (n_seeds,)
        Accuracy at the paper's rate with a mini-batch's gradients summed, on points of Fig. 7.
    """

    grid: pd.DataFrame
    times: np.ndarray
    scores: dict[tuple[str, str], pd.DataFrame]
    summed: dict[tuple[int, int], np.ndarray]

    def line(self, artefact: str, over: str) -> tuple[np.ndarray, pd.DataFrame, pd.DataFrame]:
        """Return rho (n_points,), scores (n_seeds, n_points) and the grid's rows of one line."""
        scores = self.scores[artefact, over]
        rows = self.grid.loc[scores.columns]
        return rows["rho"].to_numpy(), scores, rows


def measure(
    found: Tradeoff,
    grid: pd.DataFrame,
    *,
    data: Mapping[str, str],
    repeats: int,
    **sizes: int,
) -> Measured:
    """Return what the runs say at each setting of the grid.

    `grid` is `tradeoff_grid` of the same parameters, `data` says which data set each artefact was
    trained on, and `sizes` are those of `SIZES`.
    """
    shares = [_exact_shares(row, **sizes) for row in grid.itertuples()]
    grid = grid.assign(**pd.DataFrame(shares, columns=["time", "first"]))
    one = _shares(found.one, counting_configs(grid, repeats, **sizes))
    late = _late(found.trained)
    by_row = {row.Index: late[data[row.artefact], row.R, row.K, row.b] for row in grid.itertuples()}
    grid["accuracy"] = pd.Series({i: values.mean() for i, values in by_row.items()})
    grid["seeds"] = pd.Series({i: len(values) for i, values in by_row.items()})
    scores = {
        key: pd.concat({i: by_row[i] for i in rows.index}, axis=1)
        for key, rows in grid.groupby(["artefact", "over"], sort=False)
    }
    by = ["clients_per_round", "batch_size"]
    summed = {key: of.to_numpy() for key, of in _late(found.summed).groupby(level=by)}
    return Measured(grid, one, scores, summed)


def evidence(measured: Measured) -> dict[str, dict[str, Any]]:
    """Return the evidence on the three artefacts, artefact -> part -> what the rule takes."""
    figures = {artefact: _figure(measured, artefact) for artefact in ("fats-fig7", "fats-fig4")}
    costs = measured.scores["fats-rem2-accuracy", "fixed"].dropna().to_numpy()
    return figures | {"fats-rem2-accuracy": {"free": (costs[:, 0], costs[:, 1])}}


def setting_of(
    measured: Measured, artefact: str, *, data: Mapping[str, str], words: str
) -> Setting:
    """Return the setting of a verdict; `words` says network, rate and sizes."""
    rows = measured.grid[measured.grid["artefact"] == artefact]
    level = "reduced" if data[artefact] == REAL[artefact] else "stand-in"
    least, most = rows["seeds"].min(), rows["seeds"].max()
    runs = f"{least} seeds a point" + (f", {most} at the ends" if most > least else "")
    return Setting(level, f"{data[artefact]}, {words}, R = {rows['R'].iloc[0]}; {runs}")


def note_on(measured: Measured, artefact: str) -> str:
    """Return the cause or number that a verdict of this notebook carries."""
    if artefact != "fats-rem2-accuracy":
        times = measured.line(artefact, "rho_S")[2]["time"]
        return (
            f"the exact mean time of one sample rises with rho_S from {times.iloc[0]:.3f} to "
            f"{times.iloc[-1]:.3f} of T: ERRATA 46"
        )
    _, _, rows = measured.line(artefact, "fixed")
    each = ", ".join(
        f"{row.accuracy:.3f} at rho_C = {row.rho_C:.2g} (K = {row.K}, b = {row.b})"
        for row in rows.itertuples()
    )
    return (
        f"rho_S = {rows['rho_S'].iloc[0]:.2f}, K b = {rows['K'].iloc[0] * rows['b'].iloc[0]}: "
        f"accuracy {each}. A round of few clients has the labels of few, of which the bound's "
        "K b knows nothing"
    )


def _figure(measured: Measured, artefact: str) -> dict[str, Any]:
    """Return the evidence on Fig. 4 or 7."""
    parts: dict[str, Any] = {}
    gain = {}
    for over, name in (("rho_S", "S"), ("rho_C", "C")):
        x, scores, rows = measured.line(artefact, over)
        ends, every = scores.iloc[:, [0, -1]].dropna(), scores.dropna().to_numpy()
        gain[over] = ends.iloc[:, 1] - ends.iloc[:, 0]
        parts[f"rises_{name}"] = (ends.iloc[:, 1].to_numpy(), ends.iloc[:, 0].to_numpy())
        parts[f"flattens_{name}"] = _slopes(every, x)
    up = x <= KNEE + 1e-9  # x, every and rows are now those of rho_C
    knee, time = up.sum() - 1, rows["time"].to_numpy()
    share = (time[knee] - time[0]) / (time[-1] - time[0])
    parts["ahead"] = (every[:, knee] - every[:, 0], share * (every[:, -1] - every[:, 0]))
    both = pd.concat(gain, axis=1).dropna()
    parts["impact"] = (both["rho_S"].to_numpy(), both["rho_C"].to_numpy())
    drawn = measured.times[:, rows.index]
    parts["time_C_low"] = (drawn[:, up], x[up])
    parts["time_C_high"] = (drawn[:, x >= KNEE - 1e-9], x[x >= KNEE - 1e-9])
    x, _, rows = measured.line(artefact, "rho_S")
    parts["time_falls_S"] = parts["time_rises_S"] = (measured.times[:, rows.index], x)
    return parts


def _slopes(curves: np.ndarray, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the least-squares slopes of (n, n_points) curves up to the knee and from it on."""
    halves = (x <= KNEE + 1e-9, x >= KNEE - 1e-9)
    low, high = (np.polyfit(x[half], curves[:, half].T, 1)[0] for half in halves)
    return low, high


def _exact_shares(row: Any, **sizes: int) -> tuple[float, float]:
    """Return the mean unlearning time and the mean first participation of a client, as shares of T.

    Along rho_S the time is that of a sample, else that of a client.
    """
    steps = row.R * sizes["local_steps"]
    sizes |= dict(clients_per_round=row.K, rounds=row.R, batch_size=row.b)
    time = mean_time("sample" if row.over == "rho_S" else "client", sizes)
    return time / steps, first_participation(**of_clients(sizes)) / steps


def _shares(frame: pd.DataFrame, configs: list[FATSConfig]) -> np.ndarray:
    """Return the unlearning time of each history as a share of T, (n_histories, n_configs)."""
    drawn = frame.drop_duplicates(["key", "run"])  # settings may occur twice
    drawn = drawn.assign(share=drawn["steps"] / (drawn["local_steps"] * drawn["rounds"]))
    keys = [result_key(training.run, config) for config in configs]
    return drawn.pivot(index="run", columns="key", values="share")[keys].to_numpy()


def _late(frame: pd.DataFrame) -> pd.Series:
    """Return each training's late accuracy, indexed by data, R, K, b and seed."""
    late = frame[(frame["phase"] == "learning") & (frame["round"] > LATE * frame["rounds"])]
    by = ["data", "rounds", "clients_per_round", "batch_size", "seed"]
    return late.groupby(by)["accuracy"].mean()
