"""Notebook 42, Figs. 1, 5 and 8: runs, means over the law of the hit round, evidence.

Source: FATS, Sections 5.2 and 6.2.1, Remark 4, Appendices A.2 and A.5. A run tells one draw of the
hit round; `hit_rounds` knows the law of it. Here the accuracies of a run become two paths of R + 1
models each, and `scores` are means over that law along them. FRS and FR2 always go back to the
first model.

==========  ==============  ===============================================================
code        shape           meaning
==========  ==============  ===============================================================
learning    (runs, R + 1)   accuracy of the model after 0..R rounds of learning
recomputed  (runs, R + 1)   that of the models that stand after the request: what was kept,
                            then what was made again
laws        (runs, R + 1)   of the round that recomputing starts from
==========  ==============  ===============================================================
"""

from __future__ import annotations

import inspect
from collections.abc import Generator, Mapping, Sequence
from dataclasses import fields
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from companion import story
from companion.claims import FATS as CLAIMS
from companion.judging.claims import NotRun, Setting, Undecided
from companion.notebooks import hit_rounds
from companion.notebooks.fats_shared import READINGS, REQUESTS, read_as
from companion.plans import Stage
from sflkit.data import federations
from sflkit.fats import training
from sflkit.fats.config import TABLE_2, FATSConfig
from sflkit.fats.first_uses import LEVELS
from sflkit.fats.methods import METHODS
from sflkit.fats.training import choose_requests, federation_of
from sflkit.intervals import mean_interval
from sflkit.models import NETWORKS

COLUMNS = ("n_clients", "clients_per_round", "rounds", "local_steps", "batch_size")


class Unlearning(NamedTuple):
    """The frames of Figs. 1, 5 and 8, of Fig. 5's first data set at a larger rate, and of learning
    at the printed one."""

    fig1: pd.DataFrame
    fig5: pd.DataFrame
    fig8: pd.DataFrame
    larger: pd.DataFrame
    readings: pd.DataFrame


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

    `data` is one of `FATSConfig`, the others are the notebook's parameters of these names. With
    `table_2` a data set that the paper has takes its sizes from Table 2 and its number of requests
    from Section 6.2.1.

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


def printed_rate(data: str, *, paper_rate: float, **shared: Any) -> dict[str, Any]:
    """Return the fields of a `FATSConfig` for runs at the printed rate; see `settings_of`.

    They say how many samples a client has, as those of Figure 7 do.
    """
    found = settings_of(data, **shared | dict(rate=paper_rate))
    if shared["table_2"] and data in TABLE_2:
        found |= dict(samples_per_client=TABLE_2[data]["samples_per_client"])
    return found


def at_the_printed_rate(paper_rate: float) -> dict[str, Any]:
    """Return the fields of a step at the printed rate whose gradients are summed (ERRATA 65)."""
    return dict(rate=paper_rate) | READINGS["sum"]


def readings_of(**given: Any) -> list[FATSConfig]:
    """Return what is learnt at the printed rate: Fig. 5's first data set under all readings; under
    the sum the points of Fig. 7 and the other data sets."""
    p = SimpleNamespace(**given)
    names = [name for name in inspect.signature(settings_of).parameters if name != "data"]
    shared = {name: given[name] for name in [*names, "paper_rate"]}
    sizes = {data: printed_rate(data, **shared) for data in p.data_readings}
    first = sizes[p.data_readings[0]]
    changes = [dict(clients_per_round=k) for k in p.clients_readings]
    changes += [dict(batch_size=b) for b in p.batches_readings]
    found = [read_as(name, first, seed) for name in READINGS for seed in p.seeds_readings]
    found += [read_as("sum", first, s, **change) for change in changes for s in p.seeds_points]
    others = [sizes[data] for data in p.data_readings[1:]]
    return found + [read_as("sum", other, seed) for other in others for seed in p.seeds_points]


def unlearning(**given: Any) -> Generator[Stage, pd.DataFrame, Unlearning]:
    """Plan notebook 42: every data set, level, method and seed of Figs. 1, 5 and 8.

    The first data set of Fig. 5 has seeds of its own, since others were declared at another time,
    and a figure that is `summed` has the step of `at_the_printed_rate` for it. In the stream of
    Fig. 8 the first request comes after `interval` rounds.
    """
    p = SimpleNamespace(**given)
    names = inspect.signature(settings_of).parameters
    shared = {name: given[name] for name in names if name != "data"}

    def configs(datasets: list[str], seeds: list[int], **more: Any) -> list[FATSConfig]:
        return [
            FATSConfig(**settings_of(data, **shared) | more, level=level, method=method, seed=seed)
            for data in datasets
            for seed in seeds
            for level in LEVELS
            for method in METHODS
        ]

    summed = at_the_printed_rate(p.paper_rate)
    step = {name: summed if name in p.summed else {} for name in ("fats-fig5", "fats-fig8")}
    at_once = configs(p.data_fig5[:1], p.seeds_fig5, **step["fats-fig5"])
    at_once += configs(p.data_fig5[1:], p.seeds_others)
    fig5 = yield Stage(training.run, at_once, "fats-fig5")
    stream = dict(streaming=True, interval=p.interval, request_round=p.interval)
    stream |= dict(n_requests=p.requests_fig8 * p.each_fig8, per_request=p.each_fig8)
    stream |= dict(rounds=p.rounds_fig8) | step["fats-fig8"]
    fig8 = yield Stage(training.run, configs(p.data_fig8, p.seeds_fig8, **stream), "fats-fig8")
    fig1 = yield Stage(training.run, configs(p.data_fig1, p.seeds_fig1), "fats-fig1")
    larger = yield Stage(training.run, configs(p.data_fig5[:1], p.seeds_larger), "a larger rate")
    readings = yield Stage(training.run, readings_of(**given), "readings of a local step")
    return Unlearning(fig1, fig5, fig8, larger, readings)


RUN = ["data", "level", "seed", "method"]


class Paths(NamedTuple):
    """Accuracies of the runs, a row each, indexed by `RUN`, columns 0..R; see the module."""

    learning: pd.DataFrame
    recomputed: pd.DataFrame


def paths_of(frame: pd.DataFrame) -> Paths:
    """Return the paths of runs of one data set, whose requests came all at once after R rounds.

    Parameters
    ----------
    frame : DataFrame
        Rows of `training.run` with the columns of their configs, every round evaluated, among them
        a run of "frs" for each level and seed: it shows the first model, which all methods share.

    Raises
    ------
    ValueError
        If there are several data sets or numbers of rounds, or a round was not evaluated.
    """
    rounds = frame["rounds"].unique()
    if len(rounds) != 1 or frame["data"].nunique() != 1:
        raise ValueError("frame must hold runs of one data set with one number of rounds")
    learning = _wide(frame[frame["phase"] == "learning"], int(rounds[0]))
    made = _wide(frame[frame["phase"] == "recovery"], int(rounds[0]))
    first = made.xs("frs", level="method")[0]
    places = learning.index.droplevel("method")
    learning[0] = first.reindex(places).to_numpy()
    recomputed = made.reindex(learning.index).fillna(learning)
    if learning.isna().any(axis=None):
        raise ValueError("every round must be evaluated, and each level and seed needs a frs run")
    return Paths(learning, recomputed)


def laws_of(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the law of the start of each run, a row each, indexed by `RUN`, columns 0..R.

    FATS has that of its own requests, all at once (a seed decides them), the others start from
    round 0.

    Parameters
    ----------
    frame : DataFrame
        Rows of `training.run` with the columns of their configs.
    """
    laws = {}
    for config in configs_of(frame):
        key = tuple(getattr(config, name) for name in RUN)
        if METHODS[config.method].build().from_scratch:
            laws[key] = np.eye(1, config.rounds + 1)[0]
            continue
        sizes = sizes_of(config)
        shared = {name: getattr(config, name) for name in COLUMNS}
        shared |= dict(n_clients=len(sizes), samples_per_client=sizes)
        laws[key] = hit_rounds.hit_law(choose_requests(config, sizes), **shared)
    index = pd.MultiIndex.from_tuples(laws, names=RUN)
    return pd.DataFrame(np.array([*laws.values()]), index).sort_index()


def scores(frame: pd.DataFrame, *, band: float = 0.02) -> pd.DataFrame:
    """Return what the claims of Figs. 1, 5 and 8 and of Remark 4 are judged by, one row per run.

    Parameters
    ----------
    frame : DataFrame
        As for `paths_of`.
    band : float
        A method is back when its accuracy is within this of its late mean before the request.

    Returns
    -------
    DataFrame
        Indexed by `RUN`. before, kept: mean over the last quarter of the rounds, of learning and of
        the recomputed path. speed: mean over all rounds of learning. after, back, share: expected
        accuracy of the model that is fallen back to, expected rounds until it is back, expected
        share of the rounds that is recomputed. finished: mean accuracy over the R rounds after the
        request, which is served to its end. moves: mean absolute
        change of accuracy from round to round, over the last half of the recomputed path.
    """
    laws, paths = laws_of(frame), paths_of(frame)
    index, laws = laws.index, laws.to_numpy()
    learning, recomputed = (np.array(path.loc[index], order="C") for path in paths)
    rounds = learning.shape[1] - 1
    late = np.arange(rounds + 1) > 0.75 * rounds
    before = learning[:, late].mean(axis=1)
    table = {
        "before": before,
        "speed": learning[:, 1:].mean(axis=1),
        "after": hit_rounds.expected(laws, recomputed),
        "back": hit_rounds.expected(laws, hit_rounds.rounds_back(recomputed, before - band)),
        "share": hit_rounds.expected_share(laws),
        "kept": recomputed[:, late].mean(axis=1),
        "finished": hit_rounds.expected(laws, hit_rounds.mean_after(recomputed, rounds)),
        "moves": np.abs(np.diff(recomputed[:, rounds // 2 :], axis=1)).mean(axis=1),
    }
    return pd.DataFrame(table, index=index)


def stream_scores(frame: pd.DataFrame) -> pd.DataFrame:
    """Return what the streams of Fig. 8 are judged by, one row per run, indexed by `RUN`.

    late: the mean accuracy over the last quarter of learning. mean: the accuracy from the first
    request to one interval after the last, on a clock on which a request comes every `interval`
    rounds and a method with nothing to do keeps its model. after: the accuracy of the models
    fallen back to, mean over the requests.
    """
    learning = frame[frame["phase"] == "learning"]
    late = learning[learning["round"] > 0.75 * learning["round"].max()]
    made = frame[frame["phase"] == "recovery"].copy()
    made["since"] = made["round"] - made.groupby([*RUN, "requests"])["round"].transform("min")
    shown = made.pivot(index=[*RUN, "requests"], columns="since", values="accuracy")
    shown = shown.reindex(columns=range(made["interval"].iloc[0])).ffill(axis=1)
    mean, fallen = shown.mean(axis=1).groupby(RUN).mean(), shown[0].groupby(RUN).mean()
    found = {"late": late.groupby(RUN)["accuracy"].mean(), "mean": mean, "after": fallen}
    return pd.DataFrame(found).sort_index()


def sizes_of(config: FATSConfig) -> np.ndarray:
    """Return how many samples each client of a config holds, int (n_clients,).

    The published numbers where they are there, so that no data set is needed.
    """
    names = ("data", "n_clients", "seed", "alpha", "n_samples", "samples_per_client")
    settings = {name: getattr(config, name) for name in names}
    settings |= {"min_samples": max(config.min_samples, config.batch_size)}
    return np.array(
        story.kept("samples of each client", settings, lambda: federation_of(config).sizes.tolist())
    )


def configs_of(frame: pd.DataFrame) -> list[FATSConfig]:
    """Return the configs whose fields are columns of a frame of `sweep.run_many`, each once."""
    names = [field.name for field in fields(FATSConfig)]
    rows = frame.drop_duplicates("key")[names].to_dict("records")
    return [
        FATSConfig(**{name: None if pd.isna(value) else value for name, value in row.items()})
        for row in rows
    ]


def _wide(rows: pd.DataFrame, rounds: int) -> pd.DataFrame:
    """Return the last accuracy of each model round as columns 0..R, one row per run."""
    wide = rows.pivot_table(index=RUN, columns="model_round", values="accuracy", aggfunc="last")
    return wide.reindex(columns=range(rounds + 1))


# Our data set -> the paper's that it stands for, and the ones that are not its own data.
STANDS_FOR = {
    "digits": "MNIST",
    "mnist": "MNIST",
    "fmnist": "Fashion-MNIST",
    "cifar10": "CIFAR-10",
    "cifar100": "CIFAR-100",
    "writers": "FEMNIST",
    "mnist-writers": "FEMNIST",
    "femnist": "FEMNIST",
}
# Part of Fig. 1 -> the data set on which the paper finds FATS superior to FedAvg.
SUPERIOR = {"superior": "FEMNIST", "superior_shakespeare": "Shakespeare"}
STAND_INS = ("digits", "writers", "mnist-writers")
# Artefact -> the data set that is judged part by part, and the others as key -> name.
AT_ONCE = {
    "fats-fig5": ("MNIST", {"fmnist": "Fashion-MNIST", "cifar10": "CIFAR-10"}),
    "fats-fig1": ("FEMNIST", {"cifar100": "CIFAR-100", "shakespeare": "Shakespeare"}),
}
# What it would take to run a data set of the paper that was not run.
_WHY_ABSENT = {
    "Fashion-MNIST": "two CPU hours",
    "CIFAR-10": "two CPU hours",
    "FEMNIST": "see data/README.md; synthetic writers cannot show it",
    "CIFAR-100": "the paper's VGG16 is work for a GPU",
    "Shakespeare": "60,000 steps of an LSTM each",
}
OTHERS = ("frs", "fr2")
Settings = Mapping[str, Mapping[str, Any]]


def clocked(frame: pd.DataFrame) -> pd.DataFrame:
    """Return accuracies on the clock of the pictures: phase, clock, `RUN`, accuracy.

    The clock counts rounds since the start, on which all methods agree, from 0 on as the authors'
    curves do; a method that has nothing to do keeps its model. During recovery the accuracy is that
    of the model being recomputed.
    """
    learning, made = frame[frame["phase"] == "learning"], frame[frame["phase"] == "recovery"]
    began = made.groupby([*RUN, "requests"])["round"].transform("min")
    first = made["request_round"].fillna(made["rounds"]).astype(int)
    made = made.assign(asked=first + (made["requests"] - 1) * made["interval"])
    made["clock"] = made["asked"] + made["round"] - began
    held = []
    for _, part in made.groupby("data"):
        end = part["asked"].max() + part["rounds"].iloc[0]
        times = np.arange(part["clock"].min(), end + 1)
        wide = part.pivot_table(index="clock", columns=RUN, values="accuracy", aggfunc="last")
        wide = wide.reindex(times).ffill().melt(ignore_index=False, value_name="accuracy")
        held.append(wide.reset_index())
    learnt = learning.assign(clock=learning["round"] - 1)[["phase", "clock", *RUN, "accuracy"]]
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


# Part of Fig. 8 -> the two scores that it compares, each with its method.
_STREAMED = {"stable": ("mean", "fats", "late", "fats"), "after": ("after", "fats", "after", "frs")}


# Parts of Fig. 5 that ask how fast FR² learns, and what their scores are counted in.
_OF_FR2 = [(f"sooner_{level}s_fr2", 1, "rounds") for level in LEVELS]
_OF_FR2 += [("fluctuates", 100, "points")]
_WHY_FR2 = "FR²'s rate is not printed, and at ours its steps are up to ten times FATS's"


def _told(pair: tuple[np.ndarray, np.ndarray], scale: float, unit: str) -> str:
    """Return the mean difference of a pair with its interval, in words."""
    at = mean_interval(scale * (pair[0] - pair[1]))
    return f"{at.mean:+.3g} {unit} [{at.low:.3g}, {at.high:.3g}]"


def evidence(
    fig1: pd.DataFrame, fig5: pd.DataFrame, stream: pd.DataFrame, larger: pd.DataFrame
) -> dict[str, dict[str, Any]]:
    """Return the evidence on the four artefacts, artefact -> part -> what the rule takes.

    `fig1` and `fig5` are `scores` of the runs of these figures, of all data sets, `stream` is
    `stream_scores` of those of Fig. 8, `larger` `scores` at a larger rate, by which Remark 4 is
    judged as well.
    """
    found = {"fats-fig1": _at_once("fats-fig1", fig1), "fats-fig5": _at_once("fats-fig5", fig5)}
    one, end = _of_set(stream, "MNIST"), _of_set(fig5, "MNIST")
    none = _absent("MNIST")
    eight: dict[str, Any] = {"femnist": NotRun("see data/README.md")}
    four: dict[str, Any] = {}
    for level in LEVELS:
        for other in OTHERS:
            for key, table in (("mean", one), ("finished", end)):
                pair = none if table is None else _pair(table, level, key, "fats", key, other)
                eight[f"{key}_{level}s_{other}"] = pair
        for key, pair in _STREAMED.items():
            eight[f"{key}_{level}s"] = none if one is None else _pair(one, level, *pair)
    parts = [part.key for part in CLAIMS["fats-rem4"].parts]
    four |= dict.fromkeys(parts, none) if end is None else _useful(end)
    if (beside := _of_set(larger, "MNIST")) is not None and end is not None:
        four |= {f"larger_{key}": pair for key, pair in _useful(beside).items()}
        both = _comparisons(end), _comparisons(beside)
        for key, scale, unit in _OF_FR2:
            told = [_told(pairs[key], scale, unit) for pairs in both]
            found["fats-fig5"][key] = Undecided(
                f"{told[0]}, at a larger rate {told[1]}; {_WHY_FR2}"
            )
    for key, pair in eight.items():
        if key.endswith("fr2") and not isinstance(pair, NotRun):
            eight[key] = Undecided(f"{_told(pair, 100, 'points')}; {_WHY_FR2}")
    for key, name in AT_ONCE["fats-fig5"][1].items():
        table = _of_set(fig5, name)
        pairs = {} if table is None else _useful(table)
        four[key] = {_SAID[part]: pairs[part] for part in pairs} or _absent(name)
    return found | {"fats-fig8": eight, "fats-rem4": four}


_SUMMED = ", a mini-batch's gradients summed"


def setting_of(
    settings: Settings,
    datasets: Sequence[str],
    runs: int | str,
    test_size: int,
    stream: str = "",
    fitted: str = "",
) -> Setting:
    """Return the setting of a verdict on the data sets that were run for it.

    `stream` says when requests come, where they do not come all at once, `fitted` which reading
    the claim's own curves chose.
    """
    each = "; ".join(
        f"{_named(data)}, {network(STANDS_FOR[data], settings[data]['model'])}, "
        f"rate {settings[data]['rate']:g}{_SUMMED * ('reduction' in settings[data])}, "
        + ", ".join(f"{symbol} = {settings[data][name]}" for symbol, name in zip("MKREb", COLUMNS))
        + f", {settings[data]['n_requests']} to forget"
        for data in datasets
    )
    level = "stand-in" if set(datasets) & set(STAND_INS) else "reduced"
    words = f"{each}; seeds: {runs}; {test_size} test images; rate in print: 0.001"
    return Setting(level, f"{words}; {stream}" if stream else words, fitted=fitted)


def _named(data: str) -> str:
    return f"{data} for {STANDS_FOR[data]}" if data in STAND_INS else STANDS_FOR[data]


def note_on(artefact: str, scores: pd.DataFrame) -> str:
    """Return the note of an artefact's verdict: what retraining loses, or FATS recomputes."""

    def each(of: pd.Series) -> str:
        means = of.groupby(["data", "level"]).mean()
        return ", ".join(f"{_named(data)}, {at}s {x:.2f}" for (data, at), x in means.items())

    if artefact == "fats-rem4":
        frs = scores.xs("frs", level="method")
        lost = each(100 * (frs["kept"] - frs["before"]))
        return (
            f"training from scratch, whose law FATS has, ends this many points above before: {lost}"
        )
    share = each(scores["share"].xs("fats", level="method"))
    return (
        f"expected share of the rounds that FATS recomputes: {share}. That FATS falls back to a "
        "better model than the first one follows wherever learning has begun; what says something "
        "is by how much"
    )


def around_requests(curves: pd.DataFrame, by: list[str], rounds: int) -> pd.DataFrame:
    """Return what the table of Fig. 5 compares: levels around requests after so many rounds.

    Parameters
    ----------
    curves : DataFrame
        Columns clock, accuracy and `by`; a row of the answer for each of these.
    """

    def level(first: int, last: int, of: str) -> pd.Series:
        return curves[curves["clock"].between(first, last)].groupby(by)["accuracy"].agg(of)

    before, least = level(rounds - 5, rounds - 1, "mean"), level(rounds, rounds + 4, "min")
    return pd.DataFrame(
        {
            "before, five rounds": before,
            "least of the next five": least,
            "drop": before - least,
            "16 to 20 rounds later": level(rounds + 16, rounds + 20, "mean"),
        }
    )


def _absent(name: str) -> NotRun:
    return NotRun(_WHY_ABSENT.get(name, f"{name} is not among the data sets"))


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
    # The authors' FR² falls to 0.398 where clients of MNIST leave.
    pairs["fr2_falls"] = table.xs("client", level="level")["after", "fr2"].to_numpy()
    for level in LEVELS:
        pairs[f"after_{level}s"] = _pair(table, level, "after", "fats", "after", "frs")
        for other in OTHERS:
            pairs[f"sooner_{level}s_{other}"] = _pair(table, level, "back", other, "back", "fats")
    return pairs


# Part of Remark 4 on MNIST -> the same comparison on another data set, in words.
_SAID = {
    "kept_samples": "samples, against before",
    "kept_clients": "clients, against before",
    "retrained_samples": "samples, against retraining",
    "retrained_clients": "clients, against retraining",
}


def _useful(table: pd.DataFrame) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Return the pairs that Remark 4 is judged by on one data set."""
    return {
        f"{key}_{level}s": _pair(table, level, "kept", "fats", column, method)
        for level in LEVELS
        for key, column, method in (("kept", "before", "fats"), ("retrained", "kept", "frs"))
    }


def _at_once(artefact: str, scores: pd.DataFrame) -> dict[str, Any]:
    """Return the evidence on Fig. 1 or 5."""
    first, others = AT_ONCE[artefact]
    keys = [part.key for part in CLAIMS[artefact].parts]
    data = scores.index.get_level_values("data").unique()
    standing_in = {STANDS_FOR[name] for name in data if name in STAND_INS}
    main = _of_set(scores, first)
    pairs = {} if main is None else _comparisons(main)
    found = {key: pairs.get(key, _absent(first)) for key in keys if key not in others}
    for key, name in others.items():
        table = _of_set(scores, name)
        asked = next(part.rule.rules for part in CLAIMS[artefact].parts if part.key == key)
        pairs = {} if table is None else _comparisons(table)
        found[key] = {name: pairs[name] for name in asked} if pairs else _absent(name)
    for key, name in SUPERIOR.items():
        if key in keys:  # than FedAvg: the accuracies that "before" compares
            table = None if name in standing_in else _of_set(scores, name)
            found[key] = _absent(name) if table is None else _comparisons(table)["before"]
    return found


# Panels of the authors' curves: figure -> the paper's data set -> level -> panel.
PANELS = {
    "fats-fig5": {
        "MNIST": {"sample": "a", "client": "d"},
        "Fashion-MNIST": {"sample": "b", "client": "e"},
        "CIFAR-10": {"sample": "c", "client": "f"},
    },
    "fats-fig8": {
        "MNIST": {"sample": "a", "client": "b"},
    },
}
# The paper's networks (Section 6.1.2) where they are not a CNN, by data set.
_NETWORKS = {"CIFAR-10": "VGG16", "CIFAR-100": "VGG16", "Shakespeare": "LSTM"}
# The rounds of the requests on the authors' curves of Fig. 5.
REQUESTED = {"MNIST": 30, "Fashion-MNIST": 50, "CIFAR-10": 50}
# The authors' name of a method -> our colour of it.
COLORS = {row.label.replace("²", "2"): row.look.color for _, row in METHODS.items()}


def network(name: str, model: str) -> str:
    """Return what a model is called, and in brackets the paper's for that set if it is another."""
    own, paper = NETWORKS[model].label, _NETWORKS.get(name, "CNN")
    return own if own == paper else f"{own} (paper: {paper})"
