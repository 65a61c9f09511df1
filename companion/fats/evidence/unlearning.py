"""From the runs of notebook 42 to the evidence on Figs. 1, 5 and 8 and on Remark 4.

What is averaged over the law of the hit round stands in `companion.fats.recovery`.

Source: FATS, Sections 5.2 and 6.2.1, Appendices A.2 and A.5.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from companion.claims import FATS as CLAIMS
from companion.fats import recovery
from companion.fats.plans.unlearning import COLUMNS
from companion.judging.claims import NotRun, Setting
from companion.judging.tables import paper_curve
from sflkit.fats import training
from sflkit.fats.config import TABLE_2, FATSConfig
from sflkit.fats.first_uses import LEVELS
from sflkit.fats.methods import METHODS
from sflkit.results.intervals import mean_interval

# Our data set -> the paper's that it stands for, and the ones that are not its own data.
STANDS_FOR = {
    "digits": "MNIST",
    "mnist": "MNIST",
    "fmnist": "Fashion-MNIST",
    "cifar10": "CIFAR-10",
    "cifar100": "CIFAR-100",
    "writers": "FEMNIST",
    "femnist": "FEMNIST",
}
# Part of Fig. 1 -> the data set on which the paper finds FATS superior to FedAvg.
SUPERIOR = {"superior": "FEMNIST", "superior_shakespeare": "Shakespeare"}
STAND_INS = ("digits", "writers")
# Artefact -> the data set that is judged part by part, and the others as key -> name.
AT_ONCE = {
    "fats-fig5": ("MNIST", {"fmnist": "Fashion-MNIST", "cifar10": "CIFAR-10"}),
    "fats-fig1": ("FEMNIST", {"cifar100": "CIFAR-100", "shakespeare": "Shakespeare"}),
}
# What it would take to run a data set of the paper that was not run.
_WHY_ABSENT = {
    "Fashion-MNIST": "its runs take some two CPU hours",
    "CIFAR-10": "a small network on it takes some two CPU hours",
    "CIFAR-100": "the paper's VGG16 on it is work for a GPU",
    "Shakespeare": "one training takes 60,000 steps of an LSTM",
}
OTHERS = ("frs", "fr2")
Settings = Mapping[str, Mapping[str, Any]]


def _samples(setting: Mapping[str, Any], seed: int) -> int:
    """Return how many samples the clients of a setting hold together."""
    return int(recovery.sizes_of(FATSConfig(**setting, seed=seed)).sum())


def expected_shares(settings: Settings, *, seed: int) -> pd.DataFrame:
    """Return the share of T that FATS recomputes, by formula and over 1000 drawn histories.

    If w requests have w rho uses on average, spread evenly over the steps, the first comes after an
    exponential time: the share is 1 - (1 - e^(-w rho)) / (w rho), and nothing is hit with
    probability e^(-w rho).
    """
    mnist = TABLE_2["mnist"]
    rho_1 = mnist | dict(n_clients=150, samples_per_client=100)
    cases = [
        ("MNIST, w = 1", mnist, 1),
        ("rho = 1, w = 10", rho_1, 10),
    ]
    own = []
    for data, s in settings.items():
        size = {name: s[name] for name in COLUMNS}
        size |= {"samples_per_client": _samples(s, seed) // s["n_clients"]}
        own.append((f"{data}, w = {s['n_requests']}", size, s["n_requests"]))
    rows = []
    for name, size, w in own + cases:
        for level in LEVELS:
            config = FATSConfig(train=False, level=level, n_requests=w, runs=1000, **size)
            frame = training.run(config)
            samples = size["n_clients"] * size["samples_per_client"]
            x = _uses(size, w, samples)[LEVELS.index(level)]
            share = (frame["steps"] / (size["rounds"] * size["local_steps"])).mean()
            rows.append((name, level, x, 1 - (1 - np.exp(-x)) / x, share, np.exp(-x)))
            rows[-1] += ((frame["hits"] == 0).mean(),)
    columns = ["setting", "forgotten", "w rho", "share of T, formula", "share of T"]
    return pd.DataFrame(rows, columns=[*columns, "no hit, formula", "no hit"])


def clocked(frame: pd.DataFrame) -> pd.DataFrame:
    """Return accuracies on the clock of the pictures: phase, clock, `recovery.RUN`, accuracy.

    The clock counts rounds since the start, on which all methods agree; a method that has nothing
    to do keeps its model. During recovery the accuracy is that of the model being recomputed.
    """
    by = recovery.RUN
    learning, made = frame[frame["phase"] == "learning"], frame[frame["phase"] == "recovery"]
    began = made.groupby([*by, "requests"])["round"].transform("min")
    waited = (made["requests"] - 1) * made["interval"]
    made = made.assign(clock=made["rounds"] + waited + made["round"] - began)
    held = []
    for _, part in made.groupby("data"):
        end = 2 * part["rounds"].iloc[0] + (part["requests"].max() - 1) * part["interval"].max()
        times = np.arange(part["clock"].min(), end + 1)
        wide = part.pivot_table(index="clock", columns=by, values="accuracy", aggfunc="last")
        wide = wide.reindex(times).ffill().melt(ignore_index=False, value_name="accuracy")
        held.append(wide.reset_index())
    learnt = learning.assign(clock=learning["round"])[["phase", "clock", *by, "accuracy"]]
    return pd.concat([learnt, pd.concat(held).assign(phase="recovery")], ignore_index=True)


def mean_curves(shown: pd.DataFrame) -> pd.DataFrame:
    """Return the lines that are drawn of `clocked`: means over seeds, with 95 % intervals.

    One row per phase, clock, data, level and method, with the columns mean, low and high.
    """
    by = [name for name in shown.columns if name not in ("seed", "accuracy")]
    samples = shown.dropna(subset="accuracy").groupby(by, sort=False)["accuracy"]
    found = {key: mean_interval(sample) for key, sample in samples}
    index = pd.MultiIndex.from_tuples(found, names=by)
    rows = [(at.mean, at.low, at.high) for at in found.values()]
    return pd.DataFrame(rows, index, ["mean", "low", "high"]).reset_index()


def all_scores(frame: pd.DataFrame) -> pd.DataFrame:
    """Return `recovery.scores` of runs of several data sets."""
    return pd.concat([recovery.scores(part) for _, part in frame.groupby("data", sort=False)])


# Part of Fig. 8 -> the two scores that it compares, each with its method.
_STREAMED = {"stable": ("mean", "fats", "late", "fats"), "after": ("after", "fats", "after", "frs")}


def evidence(
    fig1: pd.DataFrame, fig5: pd.DataFrame, stream: pd.DataFrame
) -> dict[str, dict[str, Any]]:
    """Return the evidence on the four artefacts, artefact -> part -> what the rule takes.

    Parameters
    ----------
    fig1, fig5 : DataFrame
        `all_scores` of the runs of Figs. 1 and 5.
    stream : DataFrame
        `recovery.stream_scores` of those of Fig. 8.
    """
    found = {"fats-fig1": _at_once("fats-fig1", fig1), "fats-fig5": _at_once("fats-fig5", fig5)}
    one, end = _of_set(stream, "MNIST"), _of_set(fig5, "MNIST")
    none = _absent("MNIST")
    eight: dict[str, Any] = {"femnist": NotRun("the stream is run on MNIST alone")}
    four: dict[str, Any] = {}
    for level in LEVELS:
        for other in OTHERS:
            for key, table in (("mean", one), ("finished", end)):
                pair = none if table is None else _pair(table, level, key, "fats", key, other)
                eight[f"{key}_{level}s_{other}"] = pair
        for key, pair in _STREAMED.items():
            eight[f"{key}_{level}s"] = none if one is None else _pair(one, level, *pair)
        for key, column, method in (("kept", "before", "fats"), ("retrained", "kept", "frs")):
            pair = none if end is None else _pair(end, level, "kept", "fats", column, method)
            four[f"{key}_{level}s"] = pair
    return found | {"fats-fig8": eight, "fats-rem4": four}


def setting_of(
    settings: Settings,
    datasets: Sequence[str],
    runs: int,
    test_size: int,
    interval: int | None = None,
) -> Setting:
    """Return the setting of a verdict on the data sets that were run for it.

    `interval` is the number of rounds between two requests of a stream, None where all come at
    once.
    """
    each = "; ".join(
        f"{_named(data)}, {settings[data]['model']} network, rate {settings[data]['rate']:g}, "
        + ", ".join(f"{symbol} = {settings[data][name]}" for symbol, name in zip("MKREb", COLUMNS))
        + f", {settings[data]['n_requests']} to forget"
        for data in datasets
    )
    level = "stand-in" if set(datasets) & set(STAND_INS) else "reduced"
    words = f"{each}; {runs} runs; the paper's rate is 0.001, {test_size} test images"
    if interval is not None:
        words += (
            f"; one request every {interval} rounds, which is harder than on the authors' curves, "
            "where three come, in rounds 20, 40 and 60"
        )
    return Setting(level, words)


def _named(data: str) -> str:
    return f"{data} for {STANDS_FOR[data]}" if data in STAND_INS else STANDS_FOR[data]


def note_on(artefact: str, scores: pd.DataFrame) -> str:
    """Return what FATS recomputes of the rounds, as the note of an artefact's verdict."""
    share = scores["share"].xs("fats", level="method").groupby(["data", "level"]).mean()
    each = ", ".join(f"{data} {level}s {value:.2f}" for (data, level), value in share.items())
    words = f"expected share of the rounds that FATS recomputes: {each}"
    if artefact == "fats-rem4":
        return words
    return (
        f"{words}. That FATS falls back to a better model than the first one follows wherever "
        "learning has begun; what says something is by how much"
    )


def around_requests(shown: pd.DataFrame, data: str, rounds: int) -> dict[str, dict[str, Any]]:
    """Return what the table of Fig. 5 compares, in per cent: row -> method -> our runs.

    Parameters
    ----------
    shown : DataFrame
        `clocked` of runs whose requests came all at once.
    data : str
        The data set.
    rounds : int
        After how many rounds the requests came.
    """
    found = {}
    for level in LEVELS:
        part = shown[(shown["data"] == data) & (shown["level"] == level)]
        for method, runs in part.groupby("method"):
            learning = runs[runs["phase"] == "learning"].assign(x=lambda f: f["clock"] - 1)
            made = runs[runs["phase"] == "recovery"].assign(x=lambda f: f["clock"])
            of_runs = pd.concat([learning, made]).assign(y=lambda f: 100 * f["accuracy"])
            each = [_around(run, rounds) for _, run in of_runs.groupby("seed")]
            for name in each[0]:
                values = np.array([run[name] for run in each])
                found.setdefault(f"{level}s: {name}", {})[METHODS[method].label] = values
    return found


def printed_around_requests(panels: Mapping[str, str], rounds: int) -> dict[str, dict[str, float]]:
    """Return the same of the authors' curves of Fig. 5: row -> method -> number.

    Parameters
    ----------
    panels : mapping
        Level -> the panel of its curves.
    rounds : int
        The round of the requests.
    """
    curves = paper_curve("fats-fig5")
    curves = curves.assign(y=100 * curves["y"])
    found = {}
    for level, panel in panels.items():
        for series, curve in curves[curves["panel"] == panel].groupby("series"):
            for name, value in _around(curve, rounds).items():
                label = series.replace("2", "²")
                found.setdefault(f"{level}s: {name}", {})[label] = value
    return found


def _around(curve: pd.DataFrame, rounds: int) -> dict[str, float]:
    """Return the levels of one curve of x and y around requests in round `rounds`."""
    before = curve.loc[curve["x"].between(rounds - 5, rounds - 1), "y"].mean()
    least = curve.loc[curve["x"].between(rounds, rounds + 4), "y"].min()
    later = curve.loc[curve["x"].between(rounds + 16, rounds + 20), "y"].mean()
    return {
        "before, five rounds": before,
        "least of the next five": least,
        "drop": before - least,
        "16 to 20 rounds later": later,
    }


def late_learning(frame: pd.DataFrame) -> pd.Series:
    """Return the mean accuracy of the last quarter of learning, one entry per run."""
    paths = recovery.paths_of(frame)
    late = paths.learning[:, int(0.75 * paths.learning.shape[1]) :]
    return pd.Series(late.mean(axis=1), index=paths.index, name="late accuracy")


def _uses(size: Mapping[str, Any], w: float, samples: int) -> tuple[float, float]:
    """Return w rho_S and w rho_C, in the order of `LEVELS`."""
    slots = w * size["clients_per_round"] * size["rounds"]
    return slots * size["batch_size"] * size["local_steps"] / samples, slots / size["n_clients"]


def _absent(name: str) -> NotRun:
    why = f" ({_WHY_ABSENT[name]})" if name in _WHY_ABSENT else ""
    return NotRun(f"{name} is not among the data sets of these settings{why}")


def _of_set(scores: pd.DataFrame, name: str) -> pd.DataFrame | None:
    """Return the scores of the first data set that stands for `name`, a column per method."""
    for data in dict.fromkeys(scores.index.get_level_values("data")):
        if STANDS_FOR[data] == name:
            return scores.xs(data, level="data").unstack("method")
    return None


def _pair(
    table: pd.DataFrame, level: str, a: str, method_a: str, b: str, method_b: str
) -> tuple[np.ndarray, np.ndarray]:
    """Return two columns of scores of a level, seed by seed."""
    part = table.xs(level, level="level")
    return part[a, method_a].to_numpy(), part[b, method_b].to_numpy()


def _comparisons(table: pd.DataFrame) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Return the pairs that one data set of Fig. 1 or 5 is judged by."""
    samples, clients = (table.xs(level, level="level")["moves"] for level in LEVELS)
    moves = (samples + clients) / 2
    pairs = {
        "before": _pair(table, "sample", "before", "fats", "before", "frs"),
        "speed": _pair(table, "sample", "speed", "fats", "speed", "frs"),
        "fluctuates": (moves["fr2"].to_numpy(), moves["frs"].to_numpy()),
    }
    for level in LEVELS:
        pairs[f"after_{level}s"] = _pair(table, level, "after", "fats", "after", "frs")
        for other in OTHERS:
            pairs[f"sooner_{level}s_{other}"] = _pair(table, level, "back", other, "back", "fats")
    return pairs


def _at_once(artefact: str, scores: pd.DataFrame) -> dict[str, Any]:
    """Return the evidence on Fig. 1 or 5."""
    first, others = AT_ONCE[artefact]
    keys = [part.key for part in CLAIMS[artefact].parts]
    main = _of_set(scores, first)
    pairs = {} if main is None else _comparisons(main)
    found = {key: pairs.get(key, _absent(first)) for key in keys if key not in others}
    for key, name in others.items():
        table = _of_set(scores, name)
        found[key] = _absent(name) if table is None else _comparisons(table)
    for key, name in SUPERIOR.items():
        if key in keys:  # than FedAvg: the accuracies that "before" compares
            table = _of_set(scores, name)
            found[key] = _absent(name) if table is None else _comparisons(table)["before"]
    return found
