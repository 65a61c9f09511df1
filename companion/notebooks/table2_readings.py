"""The readings of OSAFL's comparison that its text allows, and how many numbers of Table II each
one meets.

Source: OSAFL, Algorithms 2 and 6 to 10, Section V-A, Tables II and III; ERRATA 37, 38, 41 to 43,
67. The paper's text leaves open, or contradicts itself on, four things at once. A `Reading` is one
choice of each, and every choice is the same for all six rules:

- `norm`: the scale of Dataset-1's features, which the paper does not state.
- `buffer`: what stands for a client that never joined, see `BUFFERS`.
- `fednova`: which contributions M-FedNova uses, and by which step, see `FEDNOVA`.
- `local_round`: one step on all samples or one for each mini-batch.

A rule does not see all four, so that readings share runs: `configs` lists each once. One seed
chooses the reading that meets most of the printed numbers, and other seeds judge what it says of
the rules (`grid`). A local round of 32 steps, as Section II-C counts them, is chosen by the CNN
alone, after the few rounds that the text names, and shown on what did not choose it (`steps_grid`).
"""

from __future__ import annotations

import itertools
from collections.abc import Generator, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd

from companion.judging.tables import paper_value
from companion.notebooks.osafl_shared import (
    CASE,
    LABELS,
    accuracy,
    collect,
    collected,
    printed_table,
    scaled,
)
from companion.plans import Stage
from sflkit import checks
from sflkit.osafl import training
from sflkit.osafl.config import OSAFLConfig

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


# Buffer -> what stands in OSAFL's and in the baselines' buffers for a client that never joined.
BUFFERS = {
    "printed": ("literal", "literal"),
    "OSAFL without w/eta": ("zero", "literal"),
    "no rule with w/eta": ("zero", "zero"),
    "joined clients only": ("exclude", "exclude"),
}
# M-FedNova -> its rule, and whether the step has the local rate as a factor.
FEDNOVA = {
    "this round's": ("m_fednova", True),
    "this round's, without its rate": ("m_fednova", False),
    "latest": ("m_fednova_latest", True),
    "latest, without its rate": ("m_fednova_latest", False),
}
LOCAL_ROUNDS = ("gradient", "minibatches")
RULES_OF_TABLE = tuple(LABELS)
# What a number may differ by, beside twice the printed spread.
TOLERANCE = {"accuracy": 0.03, "loss": 0.15}


class Reading(NamedTuple):
    """One choice of what the paper leaves open; see the top of this module."""

    norm: float | None
    buffer: str = "OSAFL without w/eta"
    fednova: str = "latest, without its rate"
    local_round: str = "gradient"


def cells(
    norms: Iterable[float | None],
    buffers: Iterable[str] = tuple(BUFFERS),
    fednova: Iterable[str] = tuple(FEDNOVA),
    local_rounds: Iterable[str] = LOCAL_ROUNDS,
) -> list[Reading]:
    """Return every reading of the given choices."""
    return [Reading(*each) for each in itertools.product(norms, buffers, fednova, local_rounds)]


class Read(NamedTuple):
    """What `grid` found.

    Attributes
    ----------
    table : DataFrame
        As `grid_table` returns, of the seed that chooses.
    best : Reading
        The first of the table.
    runs : DataFrame
        The six rules under that reading on the seeds that judge, with the columns `arm`, `K` and
        `seed`.
    scored, no_score : DataFrame
        OSAFL as it is, and with all scores 1 at steps of the same mean length (`arm` is
        "printed"), first K, on the seeds that judge the score.
    """

    table: pd.DataFrame
    best: Reading
    runs: pd.DataFrame
    scored: pd.DataFrame
    no_score: pd.DataFrame


def star(
    norms: Sequence[float | None],
    buffers: Sequence[str] = tuple(BUFFERS),
    fednova: Sequence[str] = tuple(FEDNOVA),
) -> list[Reading]:
    """Return what is tried: these buffers and forms of M-FedNova at the first scale.

    At the other scales there is one reading, that of `Reading`'s defaults, with which the list
    begins. A local round is one step on all samples.
    """
    first = cells(norms[:1], buffers, fednova, LOCAL_ROUNDS[:1])
    return list(dict.fromkeys([*map(Reading, norms[:1]), *first, *map(Reading, norms[1:])]))


def grid(
    base: Mapping,
    tried: Sequence[Reading],
    seed: int,
    seeds: Sequence[int],
    top_k: Sequence[int],
    score_seeds: Sequence[int],
) -> Generator[Stage, pd.DataFrame, Read]:
    """Yield the runs of all readings, then those of the best one on other seeds.

    Parameters
    ----------
    base : mapping
        As for `config`.
    tried : sequence of Reading
        Such as `star` returns, at least one.
    seed : int
        It chooses, with K = 1.
    seeds : sequence of int
        They judge, with every K of `top_k`; `seed` is not among them.
    score_seeds : sequence of int
        They judge what the score adds, with the first K; `seed` is not among them.

    Raises
    ------
    ValueError
        If a seed chooses and judges.
    """
    if seed in (*seeds, *score_seeds):
        raise ValueError(
            f"seeds={[*seeds, *score_seeds]} must not hold {seed}, which chooses the reading"
        )
    asked = configs(tried, base, [seed])
    frame = yield Stage(training.run, asked, "readings")
    found = collect(frame, {(i,): one for i, one in enumerate(asked)}, ("case",))
    runs = {one: found[found["case"] == i] for i, one in enumerate(asked)}
    table = grid_table(runs, tried, base, seed=seed)
    first = Reading(*table.loc[0, list(Reading._fields)])
    best = next(one for one in tried if name_of(one) == name_of(first))  # NaN stands for None
    judges = cases(best, base, seeds, top_k)
    judging = yield from collected(judges, CASE, "best reading")
    own = cases(best, base, score_seeds, top_k[:1], ("osafl",))
    scored = yield from collected(own, CASE, "best reading, OSAFL")
    no_score = yield from collected(_without_scores(own, scored), CASE, "best reading, score")
    return Read(table, best, judging, scored, no_score)


def cases(
    reading: Reading,
    base: Mapping,
    seeds: Sequence[int],
    top_k: Sequence[int],
    rules: Sequence[str] = RULES_OF_TABLE,
) -> dict[tuple[str, int, int], OSAFLConfig]:
    """Return the runs of a reading by rule, K and seed: one K and one seed after the other."""
    return {
        (rule, K, seed): config(reading, rule, base, seed=seed, K=K)
        for K in top_k
        for seed in seeds
        for rule in rules
    }


def _without_scores(cases: Mapping[tuple, OSAFLConfig], runs: pd.DataFrame) -> dict:
    """Return OSAFL with chi so large that all scores are 1, at its mean score times its step."""
    found = {}
    for (_, K, seed), own in cases.items():
        share = round(float(runs.loc[runs["seed"] == seed, "mean_score"].mean()), 4)
        found["printed", K, seed] = scaled(replace(own, chi=1e9), share)
    return found


# The rules whose printed accuracies at the CNN's checkpoint choose the scale of the 32 steps.
CHOOSERS = ("osafl", "m_fedavg")


class Steps(NamedTuple):
    """What `steps_grid` found; frames of runs have the columns `arm`, `K` and `seed`.

    Attributes
    ----------
    table : DataFrame, one row per cell, the nearest to print first
        norm, buffer, the accuracy of each of `CHOOSERS` at the CNN's checkpoint (0 where the run
        has diverged), and distance, the mean absolute difference from print; NaN where OSAFL's
        alone makes another cell nearer.
    best : Reading
        The first of the table.
    curves : DataFrame
        The CNN until the checkpoint under it, K = 1: the seed that chose, then those that judge.
    fcn : DataFrame
        The FCN under it on the seed that chose, which did not choose by the FCN.
    """

    table: pd.DataFrame
    best: Reading
    curves: pd.DataFrame
    fcn: pd.DataFrame


def steps_grid(
    cnn: Mapping,
    fcn: Mapping,
    norms: Sequence[float],
    printed_norms: Sequence[float],
    seed: int,
    rules: Sequence[str],
    seeds: Sequence[int],
    fcn_rules: Sequence[str],
) -> Generator[Stage, pd.DataFrame, Steps]:
    """Yield the runs of a local round of 32 steps by scale and buffer, then more at the nearest.

    Parameters
    ----------
    cnn, fcn : mapping
        The settings of the two networks' runs, as for `config`; the CNN's end at its checkpoint.
    norms, printed_norms : sequence of float
        Scales of the inputs without w/eta in OSAFL's buffer, at least one, and with it.
    seed : int
        It chooses by `CHOOSERS` on the CNN.
    rules, fcn_rules : sequence of str
        What is run besides at the nearest cell on that seed, with the CNN and with the FCN.
    seeds : sequence of int
        They judge the CNN at the nearest cell, with all rules; `seed` is not among them.

    Raises
    ------
    ValueError
        If a seed chooses and judges.
    """
    if seed in seeds:
        raise ValueError(f"seeds={list(seeds)} must not hold {seed}, which chooses the scale")
    rest = ("this round's", "minibatches")
    tried = [Reading(norm, "OSAFL without w/eta", *rest) for norm in norms]
    tried += [Reading(norm, "printed", *rest) for norm in printed_norms]
    table = yield from _nearest_first(tried, cnn, seed)
    best = next(one for one in tried if one[:2] == tuple(table.loc[0, ["norm", "buffer"]]))
    more = cases(best, cnn, [seed], (1,), (*CHOOSERS, *rules)) | cases(best, cnn, seeds, (1,))
    curves = yield from collected(more, CASE, "32 steps, CNN")
    own = cases(best, fcn, [seed], (1,), fcn_rules)
    dense = yield from collected(own, CASE, "32 steps, FCN")
    return Steps(table, best, curves, dense)


def _nearest_first(
    tried: Sequence[Reading], base: Mapping, seed: int
) -> Generator[Stage, pd.DataFrame, pd.DataFrame]:
    """Yield OSAFL's run of every cell, and M-FedAvg's of those that may be the nearest to print.

    A cell's distance is at least half of OSAFL's difference, so that M-FedAvg is not asked for
    where another cell is nearer already.
    """
    first, second = CHOOSERS
    rows = pd.DataFrame([one[:2] for one in tried], columns=["norm", "buffer"])
    for rule in CHOOSERS:
        rows[rule], rows[f"{rule} off"] = np.nan, np.nan
    asked = {(i,): config(one, first, base, seed=seed) for i, one in enumerate(tried)}
    runs = yield from collected(asked, ("cell",), "32 steps")
    _note(rows, runs, first)
    rows["distance"] = np.nan
    for i in rows.sort_values([f"{first} off", "norm"]).index:
        if rows.loc[i, f"{first} off"] / 2 > rows["distance"].min():
            break
        run = {(i,): config(tried[i], second, base, seed=seed)}
        _note(rows, (yield from collected(run, ("cell",), "32 steps")), second)
        rows["distance"] = rows[[f"{rule} off" for rule in CHOOSERS]].mean(axis=1, skipna=False)
    rows["distance"] = rows["distance"].round(12)
    order = ["distance", f"{first} off", "norm"]
    table = rows.sort_values(order, ignore_index=True)
    return table[["norm", "buffer", *CHOOSERS, "distance"]]


def _note(rows: pd.DataFrame, runs: pd.DataFrame, rule: str) -> None:
    """Write a rule's accuracies at the CNN's checkpoint into their cells, and how far off."""
    for i, run in runs.groupby("cell"):
        rows.loc[i, rule] = float(accuracy(run).iloc[-1])
        rows.loc[i, f"{rule} off"] = abs(rows.loc[i, rule] - checkpoint_value("CNN", rule))


# The rounds after which Section V-B.1 names accuracies at K = 1.
CHECKPOINT_ROUND = {"CNN": 5, "SqueezeNet1": 30}


def checkpoint_value(network: str, rule: str) -> float:
    """Return the accuracy that Section V-B.1 names for a rule at a network's checkpoint."""
    where = f"accuracy at round {CHECKPOINT_ROUND[network]} {network}"
    return paper_value("osafl", "osafl-fig4", f"{where} {LABELS[rule]}")


def name_of(reading: Reading) -> str:
    """Return a reading in words, "scale 40, OSAFL without w/eta, M-FedNova latest" for one."""
    raw = reading.norm is None or reading.norm != reading.norm
    norm = "raw inputs" if raw else f"scale {reading.norm:g}"
    more = "" if reading.local_round == "gradient" else ", 32 steps"
    return f"{norm}, {reading.buffer}, M-FedNova {reading.fednova}{more}"


def config(reading: Reading, rule: str, base: Mapping, *, seed: int, K: int = 1) -> OSAFLConfig:
    """Return the run of one rule of Table II under a reading.

    Parameters
    ----------
    reading : Reading
    rule : str
        One of the six of the table; "m_fednova" stands for whichever form the reading names.
    base : mapping
        The settings that all runs share, such as `osafl_shared.fcn_base` returns.
    seed, K : int

    Raises
    ------
    ValueError
        If the rule or a choice of the reading is unknown.
    """
    checks.choice("rule", rule, RULES_OF_TABLE)
    osafl, others = BUFFERS[checks.choice("buffer", reading.buffer, BUFFERS)]
    form, has_rate = FEDNOVA[checks.choice("fednova", reading.fednova, FEDNOVA)]
    never = osafl if rule == "osafl" else others
    if rule in ("m_fedavg", "m_fedprox") and never == "zero":
        never = "literal"  # the same for them, so that readings share a run
    if rule == "m_fednova":
        rule = form
        # A client that never joined has kappa_u = 0 and no part; this round's form has no buffer.
        never = "exclude" if never == "exclude" or form == "m_fednova" else "zero"
    shared = dict(base) | {"input_norm": reading.norm, "local_round": reading.local_round}
    found = OSAFLConfig(rule, never, seed=seed, top_k=K, **shared)
    if rule.startswith("m_fednova") and not has_rate:
        hyper = found.hyper
        found = replace(found, slowdown=round(hyper["slowdown"] / hyper["rate"], 6))
    return found


def configs(
    readings: Iterable[Reading], base: Mapping, seeds: Sequence[int], top_k: Sequence[int] = (1,)
) -> list[OSAFLConfig]:
    """Return the runs of some readings, each once: one K, seed and reading after the other."""
    readings = list(readings)
    return list(
        dict.fromkeys(
            config(reading, rule, base, seed=seed, K=K)
            for K in top_k
            for seed in seeds
            for reading in readings
            for rule in RULES_OF_TABLE
        )
    )


def printed(K: int = 1) -> pd.DataFrame:
    """Return the twelve numbers of the FCN's column of Table II (K = 1) or III (K = 2).

    Returns
    -------
    DataFrame, one row per rule and what, "accuracy" or "loss"
        value, spread, and tolerance: twice the spread plus `TOLERANCE`.
    """
    cells = {
        (rule, what): (*pair, 2 * pair[1] + TOLERANCE[what])
        for rule in RULES_OF_TABLE
        for what, pair in printed_table(f"osafl-tab{K + 1}", "FCN")[LABELS[rule]].items()
    }
    index = pd.MultiIndex.from_tuples(cells, names=["rule", "what"])
    return pd.DataFrame([*cells.values()], index, ["value", "spread", "tolerance"])


def grid_table(
    runs: Mapping[OSAFLConfig, pd.DataFrame],
    readings: Iterable[Reading],
    base: Mapping,
    *,
    seed: int,
) -> pd.DataFrame:
    """Return how many of the twelve numbers of Table II each reading meets.

    Parameters
    ----------
    runs : mapping
        Config -> its rows.
    readings, base, seed
        As for `configs`.

    Returns
    -------
    DataFrame, one row per reading
        The choices of the reading; "<rule> accuracy" and "<rule> loss", best accuracy and the loss
        of that round (0 and infinity for a run that diverged at once); `met`, the score, 0 to 12;
        `accuracies` and `losses`, its two parts; `distance`, the mean absolute difference from
        print of the accuracies. The best reading comes first.

    Raises
    ------
    ValueError
        If a run of a reading is not there.
    """
    asked = printed()
    rows = []
    for reading in readings:
        own = {rule: config(reading, rule, base, seed=seed) for rule in RULES_OF_TABLE}
        if missing := [rule for rule, one in own.items() if one not in runs]:
            raise ValueError(f"the reading {name_of(reading)!r} was not run with {missing[0]}")
        ours = pd.Series({cell: _number(runs[own[cell[0]]], cell[1]) for cell in asked.index})
        apart = (ours - asked["value"]).abs()
        met = (apart <= asked["tolerance"]).groupby(level=1).sum()
        row = reading._asdict() | {f"{rule} {what}": value for (rule, what), value in ours.items()}
        row |= {"met": met.sum(), "accuracies": met["accuracy"], "losses": met["loss"]}
        rows.append(row | {"distance": apart.xs("accuracy", level=1).mean()})
    table = pd.DataFrame(rows)
    if not len(table):
        return table
    return table.sort_values(["met", "distance"], ascending=[False, True], ignore_index=True)


def met(runs: pd.DataFrame, K: int) -> int:
    """Return how many of Table II's or III's twelve numbers the means over some seeds meet.

    Parameters
    ----------
    runs : DataFrame
        The six rules, with the columns `arm`, `K` and `seed`; the rows of K are taken.
    K : int
        1 or 2.
    """
    rows = runs[runs["K"] == K].groupby(["arm", "seed"])
    asked = printed(K)
    ours = {
        (rule, what): np.mean([_number(run, what) for (arm, _), run in rows if arm == rule])
        for rule, what in asked.index
    }
    return int(((pd.Series(ours) - asked["value"]).abs() <= asked["tolerance"]).sum())


def _number(run: pd.DataFrame, what: str) -> float:
    value = run[f"best_{what}"].iloc[-1]
    return float(value) if value == value else {"accuracy": 0.0, "loss": np.inf}[what]


def grid_picture(table: pd.DataFrame) -> tuple[Figure, dict[str, Any]]:
    """Draw the best twelve readings, one a row, and how far each number of Table II is from print.

    Parameters
    ----------
    table : DataFrame
        As `grid_table` returns, at least one row; all have their say in what is returned.

    Returns
    -------
    fig : Figure
    drawn : dict
        What it draws, for `figures.save_figure`.
    """
    import matplotlib.pyplot as plt

    shown = table.head(12)
    fig, ax = plt.subplots(figsize=(9.6, 1.0 + 0.44 * (len(shown) + 1)))
    asked = printed()
    columns = [f"{rule} {what}" for rule, what in asked.index]
    far = (shown[columns].to_numpy() - asked["value"].to_numpy()) / asked["tolerance"].to_numpy()
    far = np.vstack([np.zeros(len(columns)), far])
    values = np.vstack([asked["value"], shown[columns]])
    image = ax.imshow(np.clip(far, -3, 3), cmap="RdBu_r", vmin=-3, vmax=3, aspect="auto")
    _write(ax, far, values)
    heads = [LABELS[rule] if what == "accuracy" else "loss" for rule, what in asked.index]
    ax.set_xticks(range(len(heads)), heads, rotation=35, ha="left", fontsize=9)
    ax.xaxis.tick_top()
    readings = [Reading(*row[list(Reading._fields)]) for _, row in shown.iterrows()]
    names = [
        f"{met} of 12: {name_of(reading)}".replace(", M-FedNova", ",\nM-FedNova")
        for met, reading in zip(shown["met"], readings, strict=True)
    ]
    ax.set_yticks(range(len(names) + 1), ["the paper's Table II", *names], fontsize=9)
    ax.grid(visible=False)
    fig.colorbar(image, ax=ax, label="ours minus print, in tolerances", pad=0.01, aspect=40)
    return fig, {"readings": table, "printed": asked.reset_index()}


def _write(ax: Axes, far: np.ndarray, values: np.ndarray) -> None:
    """Write each number in its cell, bold where it is met."""
    for (i, j), value in np.ndenumerate(values):
        look = {"weight": "bold" if abs(far[i, j]) <= 1 else "normal", "fontsize": 9}
        look |= {"color": "white" if abs(far[i, j]) > 2 else "black", "ha": "center"}
        text = (f"{value:.2f}" if j % 2 else f"{value:.3f}") if np.isfinite(value) else "∞"
        ax.text(j, i, text, va="center", **look)
