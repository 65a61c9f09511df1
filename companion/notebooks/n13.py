"""Notebook 13, Figs. 6, 7 and 8: arrivals, cache size and SRSR's weight.

Source: SFL, Section VI and supplement. Accuracies are shares.

A cache that starts full holds B samples of round 0 of the stream, all from its state u_0, so that
v_t = a_0 u_t + ... + a_{t-1} u_1 + a_t u_0 (`full_start_weights`). LAZY never leaves u_0, whose
expected discrepancy is the largest of all rounds, and SRSR with a small theta leaves it slowly
(Fig. 8(a)). DRSR takes the B samples for the M
rounds that they fill. While FIFO still holds some of round 0, chance decides which of these samples
go first; the weights are those of its expected shares. `sflkit.sfl.training.full_start` trains with
such caches.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from companion.notebooks import label_only
from companion.notebooks.label_only import LabelOnlyConfig
from companion.notebooks.sfl_shared import LATE, THROUGHOUT, Evidence, difference, steps, window
from companion.plans import Stage
from sflkit.sfl import clients, training
from sflkit.sfl.config import SFLConfig
from sflkit.sfl.discrepancy import exact_discrepancy
from sflkit.sfl.streams import LabelStream


class Sensitivity(NamedTuple):
    """Runs of Figs. 6 and 8 (labels alone, which judge nothing, and trained) and of Fig. 7."""

    labels: pd.DataFrame
    trained: pd.DataFrame
    sizes: pd.DataFrame


def sensitivity(**given: Any) -> Generator[Stage, pd.DataFrame, Sensitivity]:
    """Plan notebook 13: arrivals and SRSR's weight by labels alone and by training, cache size.

    `few` and `many` are B_s / B. With labels alone, every world meets every path. The keywords that
    end in "arrivals" are those of Figs. 6 and 8, trained, and `seeds_many` those of Fig. 6(b).
    """
    p = SimpleNamespace(**given)
    arms = [("drsr", p.theta), *(("srsr", value) for value in sorted({p.theta, *p.thetas}))]
    base = LabelOnlyConfig(start="full", capacity=p.label_capacity, rounds=p.label_rounds)
    labels = yield Stage(
        label_only.run,
        [
            replace(base, rule=r, theta=value, batch_size=size, world=w, seed=s)
            for w in p.worlds
            for s in p.paths_of_each
            for size in (arrivals(share, p.label_capacity) for share in (p.few, p.many))
            for r, value in arms
        ],
        "labels alone",
    )
    same = ("data", "model", "rounds", "theta", "evaluate_every")
    trained = SFLConfig(local_rate=p.rate, **{name: given[name] for name in same})
    varied = replace(
        trained,
        model=p.model_arrivals,
        local_rate=p.rate_arrivals,
        rounds=p.rounds_arrivals,
        capacity=p.capacity,
        batch_size=arrivals(p.few, p.capacity),
    )
    everywhere = [
        (s, share, arm) for s in p.seeds_arrivals for share in (p.few, p.many) for arm in arms
    ]
    usual = [(s, p.many, (r, p.theta)) for s in p.seeds_many for r in ("drsr", "srsr")]
    moved = yield Stage(
        training.full_start,
        [
            replace(varied, rule=r, seed=s, theta=value, batch_size=arrivals(share, p.capacity))
            for s, share, (r, value) in dict.fromkeys(everywhere + usual)
        ],
        "arrivals and weights",
        gpu=True,
    )
    sizes = yield Stage(
        training.full_start,
        [
            replace(trained, rule=r, seed=s, capacity=size, batch_size=arrivals(p.few, size))
            for s in p.seeds
            for r in ("drsr", "srsr")
            for size in (p.small_capacity, p.capacity)
        ],
        "cache size",
        gpu=True,
    )
    return Sensitivity(labels, moved, sizes)


def arrivals(share: float, capacity: int) -> int:
    """Return B_s for a share B_s / B of the cache, at least one sample."""
    return max(1, round(share * capacity))


def full_start_weights(
    rule: str, t: int, *, cache_rounds: int, theta: float | None = None
) -> np.ndarray:
    """Return the weights a, newest round first and the round 0 that filled the cache last.

    Parameters
    ----------
    rule : {"fifo", "lazy", "drsr", "srsr"}
    t : int
        Round, >= 0; in round 0 the cache holds u_0 alone.
    cache_rounds : int
        M = B / B_s >= 1, rounds of arrivals that the cache holds.
    theta : float, optional
        SRSR's weight in [0, 1]; the others have none.

    Returns
    -------
    array (t + 1,), >= 0 with sum 1
    """
    if rule == "lazy":
        return np.append(np.zeros(t), 1.0)
    if rule == "fifo":  # each round pushes out an M-th of the samples, those of round 0 first
        new = min(t, cache_rounds)
        gone = np.zeros(max(t - cache_rounds, 0))
        return np.concatenate([np.full(new, 1 / cache_rounds), gone, [1 - new / cache_rounds]])
    if rule == "drsr":
        return np.append(np.full(t, 1.0), cache_rounds) / (cache_rounds + t)
    step = theta / cache_rounds
    return np.append(step * (1 - step) ** np.arange(t), (1 - step) ** t)


def arm(frame: pd.DataFrame, rule: str, batch_size: int, theta: float) -> pd.DataFrame:
    """Return the rows of one arm; the run of world w and path s gets the seed "w/s".

    A trained run has no world of its own: the spread over such runs is that over their seeds.
    """
    chosen = frame[
        (frame["rule"] == rule)
        & (frame["batch_size"] == batch_size)
        & np.isclose(frame["theta"], theta)
    ].dropna(subset="accuracy")
    if "world" not in chosen:
        chosen = chosen.assign(world=0)
    run = chosen["world"].astype(str) + "/" + chosen["seed"].astype(str)
    return chosen.assign(seed=run.to_numpy(), arm=f"{rule} {theta:.3g}")


def alike(rows: Mapping[Any, pd.DataFrame]) -> dict[Any, pd.DataFrame]:
    """Return the rows of some arms over the seeds that all of them have."""
    common = set.intersection(*(set(own["seed"]) for own in rows.values()))
    return {name: own[own["seed"].isin(common)] for name, own in rows.items()}


def path_curves(rows: pd.DataFrame, span: tuple[float, float]) -> np.ndarray:
    """Return the accuracies of an arm in a span, minus the mean over the paths of their world.

    Returns
    -------
    array (n_worlds * n_paths, n_rounds)
        What is left is the spread within a world; runs are in the order of their names "w/s".
    """
    last = rows["round"].max()
    inside = rows[(rows["round"] > span[0] * last) & (rows["round"] <= span[1] * last)]
    curves = inside.pivot(index=["world", "seed"], columns="round", values="accuracy")
    return (curves - curves.groupby("world").transform("mean")).to_numpy()


def nearest_runs(found: Sensitivity, capacity: int) -> dict[str, pd.DataFrame]:
    """Return the runs that judge Fig. 6, by arrivals: the nearest to the paper's.

    With few arrivals those of Fig. 7(b) are Fig. 6(a)'s own setting, with the paper's network.
    """
    return {"few": found.sizes[found.sizes["capacity"] == capacity], "many": found.trained}


def arrival_evidence(
    frames: Mapping[str, pd.DataFrame], sizes: Mapping[str, int], theta: float
) -> dict[str, Evidence]:
    """Return the evidence of Fig. 6 and of DRSR's falling variance.

    Parameters
    ----------
    frames : mapping
        "few" and "many" -> runs.
    sizes : mapping
        "few" and "many" -> B_s.
    theta : float
        SRSR's weight.
    """
    figure, falls = {}, {}
    for name, size in sizes.items():
        rows = {rule: arm(frames[name], rule, size, theta) for rule in ("drsr", "srsr")}
        moves = steps(pd.concat(rows.values()))
        figure[f"across {name}"] = tuple(path_curves(rows[rule], LATE) for rule in rows)
        figure[f"rounds {name}"] = difference(moves, "srsr", "drsr")
        spans = (LATE, (0.25, 0.5))
        falls[f"falls {name}"] = tuple(path_curves(rows["drsr"], span) for span in spans)
    return {"sfl-fig6": figure, "sfl-steadier": falls}


def theta_evidence(
    frame: pd.DataFrame,
    sizes: Mapping[str, int],
    thetas: Sequence[float],
    theta: float,
    capacity: int,
) -> dict[str, Evidence]:
    """Return the evidence of Fig. 8, of theta's variation and of DRSR without a theta to choose.

    Parameters
    ----------
    frame : DataFrame
        Trained runs of Fig. 8.
    sizes : mapping
        "few" and "many" -> B_s.
    thetas : sequence of float
        SRSR's weights, ascending.
    theta : float
        The paper's usual weight, against which a small one is slow.
    capacity : int
        B.
    """
    ran = [("drsr", theta), *(("srsr", v) for v in {theta, *thetas})]
    arms = alike({(n, r, v): arm(frame, r, sizes[n], v) for n in sizes for r, v in ran})
    few, many = ({v: arms[n, "srsr", v] for v in thetas} for n in ("few", "many"))
    low, high = thetas[0], thetas[-1]
    usual = arms["few", "srsr", theta]
    last = int(frame["round"].max())
    own, figure = streams(usual), {}
    for key, a, b, span, arriving in (
        ("slow", low, theta, (0.0, 0.25), "few"),
        ("shift", high, low, LATE, "many"),
    ):
        of = dict(batch_size=sizes[arriving], capacity=capacity)
        figure[key] = np.array([exact_gap(s, a, b, last, span, **of) for s in own])
    for key, a, b, span in (
        ("few", usual, few[low], (0.0, 0.25)),
        ("many", many[low], many[high], LATE),
    ):
        figure[key] = (_mean(a, span) - _mean(b, span)).to_numpy()
    variation = {
        "across": tuple(path_curves(many[v], LATE) for v in (low, high)),
        "rounds": tuple(steps(many[v], by="arm").iloc[:, 0].to_numpy() for v in (high, low)),
    }
    untuned: Evidence = {}
    scores = {
        name: pd.DataFrame({v: _mean(rows, THROUGHOUT) for v, rows in own.items()})
        for name, own in (("few", few), ("many", many))
    }
    chosen = {name: _chosen_by_the_others(score) for name, score in scores.items()}
    for name, other in (("few", "many"), ("many", "few")):
        best, foreign = (_pick(scores[name], chosen[n]) for n in (name, other))
        drsr = _mean(arms[name, "drsr", theta], THROUGHOUT)
        untuned[name] = drsr.to_numpy() - best
        untuned[f"{name} choice"] = best - foreign
    return {"sfl-fig8": figure, "sfl-thetavar": variation, "sfl-untuned": untuned}


def _mean(rows: pd.DataFrame, span: tuple[float, float]) -> pd.Series:
    """Return the mean accuracy of an arm over a span, by run "w/s"."""
    return window(rows, span, by="arm").iloc[:, 0]


def _chosen_by_the_others(score: pd.DataFrame) -> pd.Series:
    """Return for every run the theta that is best in the mean over the other runs.

    A choice by all runs could never be below another one in their mean.
    """
    return (score.sum() - score).idxmax(axis=1)


def _pick(score: pd.DataFrame, chosen: pd.Series) -> np.ndarray:
    """Return each run's score under the theta that was chosen for it."""
    return np.array([score.at[run, v] for run, v in chosen.items()])


def streams(frame: pd.DataFrame) -> list[LabelStream]:
    """Return the streams behind the rows of `arm`, one a seed; rules do not change them.

    All data sets of notebook 13 have the ten classes of `SFLConfig`.
    """
    fields = ["seed", "n_clients", "classes_per_client", "n_states", "temperature"]
    own = frame.drop_duplicates("seed")[fields]
    own["seed"] = own["seed"].str.removeprefix("0/").astype(int)
    return [clients.make_stream(SFLConfig(**given), 10) for given in own.to_dict("records")]


def exact_gap(
    stream: LabelStream,
    theta: float,
    other: float,
    rounds: int,
    span: tuple[float, float],
    **sizes: int,
) -> float:
    """Return how far SRSR's exact psi_t with `theta` lies above that with `other`.

    The mean over six rounds in the span; `sizes` are B_s and B of `exact_psi`.
    """
    first, last = (share * rounds for share in span)
    chosen = np.unique(np.linspace(first, last, 7).astype(int)[1:].clip(1))
    a, b = (exact_psi([stream], "srsr", chosen, theta=v, **sizes) for v in (theta, other))
    return float(np.mean(a - b))


def exact_psi(
    of: Sequence[LabelStream],
    rule: str,
    rounds: Sequence[int] | np.ndarray,
    *,
    theta: float,
    batch_size: int,
    capacity: int,
) -> np.ndarray:
    """Return sum_k sum_r E[(v_t - pi)^2] in some rounds, the mean over streams.

    As E[v_t] = pi, it is the variance of the cached label mix. Caches start full.

    Parameters
    ----------
    of : sequence of LabelStream
    rule : {"drsr", "srsr"}
    rounds : sequence of int
        t >= 1.
    theta : float
        SRSR's weight; DRSR takes none.
    batch_size, capacity : int
        B_s and B, a multiple of it.
    """
    how = {"cache_rounds": capacity // batch_size, "theta": theta if rule == "srsr" else None}
    weights = [full_start_weights(rule, int(t), **how) for t in rounds]
    found = [[exact_discrepancy(s, weights=w).sum() for w in weights] for s in of]
    return np.mean(found, axis=0)


def size_evidence(frame: pd.DataFrame, small: int, large: int) -> dict[str, Evidence]:
    """Return the evidence of Fig. 7: caches of `large` against `small` samples.

    The printed gain is that of round 200.
    """
    late, early, printed = {}, {}, {}
    for rule in ("drsr", "srsr"):
        rows = frame[frame["rule"] == rule]
        late[f"late {rule}"] = difference(window(rows, LATE, by="capacity"), large, small)
        early[rule] = difference(window(rows, (0.0, 0.25), by="capacity"), large, small)
        at = rows[rows["round"] == 200].dropna(subset=["accuracy"])
        score = at.pivot(index="seed", columns="capacity", values="accuracy")
        printed[f"round 200 {rule}"] = difference(score, large, small)
    return {"sfl-fig7": late | printed, "sfl-faster": early}
