"""From the runs of SFL's training figures to what the rules of their claims take.

Source: SFL, Section VI and supplement; the claims are in `companion.claims`. *Late* is
the last quarter of the rounds, *throughout* all of them. Scores are frames with one row a seed and
one column a cache rule, so that differences are taken seed by seed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from companion.judging.claims import NotRun
from companion.sfl.full_start import full_start_weights
from companion.sfl.label_only import LabelOnlyConfig, make_stream
from companion.sfl.plans.training import Comparison, Superclasses
from sflkit.sfl.discrepancy import exact_discrepancy, rule_weights

LATE = (0.75, 1.0)
THROUGHOUT = (0.0, 1.0)
Evidence = dict[str, Any]


def window(
    frame: pd.DataFrame, span: tuple[float, float], column: str = "accuracy", by: str = "rule"
) -> pd.DataFrame:
    """Return the mean of a column over a span of the rounds, one row a seed, one column a `by`.

    Parameters
    ----------
    frame : DataFrame
        Rows of `sweep.run_many`; rounds that were not evaluated are left out.
    span : (float, float)
        Shares of the rounds, from (exclusive) and to (inclusive); (0.75, 1) is the last quarter.
    column, by : str
        What is averaged, and what tells columns of the answer apart.
    """
    last = frame["round"].max()
    inside = (frame["round"] > span[0] * last) & (frame["round"] <= span[1] * last)
    kept = frame[inside].dropna(subset=[column])
    return kept.groupby(["seed", by])[column].mean().unstack(by)


def difference(scores: pd.DataFrame, a: str, b: str) -> np.ndarray:
    """Return a's scores minus b's, seed by seed, (n_seeds,)."""
    return (scores[a] - scores[b]).to_numpy()


def comparison_evidence(found: Comparison) -> dict[str, Evidence]:
    """Return the evidence of notebook 12, artefact -> part -> what the rule takes."""
    late = {panel: window(frame, LATE) for panel, frame in found.full.items()}
    evidence = {f"sfl-fig4{panel}": _order(found, panel, late[panel]) for panel in late}
    gain = {
        panel: (score[["drsr", "srsr", "fifo"]].mean(axis=1) - score["lazy"]).to_numpy()
        for panel, score in late.items()
    }
    evidence["sfl-fig4b"]["gain"] = (gain["a"], gain["b"])
    whole = {panel: window(frame, THROUGHOUT) for panel, frame in found.full.items()}
    labels = window(found.labels, THROUGHOUT)
    evidence["sfl-throughout"] = {
        f"{rule} {panel}": difference(score, rule, "fifo")
        for panel, score in whole.items()
        for rule in ("drsr", "srsr")
    }
    evidence["sfl-throughout"] |= {
        f"labels {rule}": difference(labels, rule, "fifo") for rule in ("drsr", "srsr")
    }
    moves = steps(found.labels)
    evidence["sfl-throughout"]["labels steadier"] = difference(moves, "fifo", "drsr")
    early = {panel: window(frame, (0.0, 0.5)) for panel, frame in found.full.items()}
    evidence["sfl-speed"] = {
        f"{rule} {panel}": difference(score, rule, "lazy")
        for panel, score in early.items()
        for rule in ("drsr", "srsr", "fifo")
    }
    evidence["sfl-nearfull"] = {
        rule: difference(late["a"], rule, "full_refreshed") for rule in ("drsr", "srsr", "fifo")
    }
    return evidence


def gains_over_lazy(evidence: Mapping[str, Evidence]) -> str:
    """Say how large the gains behind `sfl-speed` are, beside the smallest that counts."""
    gains = [100 * gain.mean() for gain in evidence["sfl-speed"].values()]
    return (
        f"The gains over LAZY lie between {min(gains):.2g} and {max(gains):.2g} points, and less "
        "than half a point counts as none."
    )


def _order(found: Comparison, panel: str, late: pd.DataFrame) -> Evidence:
    """Return the evidence of one panel of Fig. 4."""
    loss = window(found.full[panel], LATE, "loss")
    order = {
        "drsr fifo": difference(late, "drsr", "fifo"),
        "srsr fifo": difference(late, "srsr", "fifo"),
        "fifo lazy": difference(late, "fifo", "lazy"),
        "drsr srsr": difference(late, "drsr", "srsr"),
        "full drsr": difference(late, "full_refreshed", "drsr"),
        "static drsr": difference(late, "full", "drsr"),
        "loss drsr lazy": difference(loss, "lazy", "drsr"),
    }
    if panel == "a":
        append = window(found.append, LATE)
        order["append drsr fifo"] = difference(append, "drsr", "fifo")
        order["append fifo lazy"] = difference(append, "fifo", "lazy")
    return order


def steps(frame: pd.DataFrame, span: tuple[float, float] = LATE, by: str = "rule") -> pd.DataFrame:
    """Return how much the accuracy moves from one evaluation to the next, as `window` does.

    The standard deviation of the differences of successive accuracies in the span.
    """
    last = frame["round"].max()
    inside = (frame["round"] > span[0] * last) & (frame["round"] <= span[1] * last)
    groups = frame[inside].dropna(subset=["accuracy"]).groupby(["seed", by])["accuracy"]
    return groups.agg(lambda values: np.diff(values).std(ddof=1)).unstack(by)


# --- notebook 13 ----------------------------------------------------------------------------------


def arm(frame: pd.DataFrame, rule: str, batch_size: int, theta: float) -> pd.DataFrame:
    """Return the rows of one arm; the run of world w and path s gets the seed "w/s"."""
    chosen = frame[
        (frame["rule"] == rule)
        & (frame["batch_size"] == batch_size)
        & np.isclose(frame["theta"], theta)
    ]
    run = chosen["world"].astype(str) + "/" + chosen["seed"].astype(str)
    return chosen.assign(seed=run.to_numpy(), arm=f"{rule} {theta:.3g}")


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


def arrival_evidence(
    frame: pd.DataFrame, sizes: Mapping[str, int], theta: float
) -> dict[str, Evidence]:
    """Return the evidence of Fig. 6 and of DRSR's falling variance.

    Parameters
    ----------
    frame : DataFrame
        Runs with labels as the only difference.
    sizes : mapping
        "few" and "many" -> B_s.
    theta : float
        SRSR's weight.
    """
    figure, falls = {}, {}
    for name, size in sizes.items():
        rows = {rule: arm(frame, rule, size, theta) for rule in ("drsr", "srsr")}
        both = pd.concat(rows.values())
        moves = steps(both)
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
    frame, sizes
        As of `arrival_evidence`.
    thetas : sequence of float
        SRSR's weights, ascending.
    theta : float
        The paper's usual weight, against which a small one is slow.
    capacity : int
        B.
    """
    few, many = ({v: arm(frame, "srsr", sizes[n], v) for v in thetas} for n in ("few", "many"))
    low, high = thetas[0], thetas[-1]
    usual = arm(frame, "srsr", sizes["few"], theta)
    worlds = sorted(set(frame["world"]))
    last = int(frame["round"].max())
    exact = {
        "slow": (sizes["few"], low, theta, (0.0, 0.25), "full"),
        "append slow": (sizes["few"], low, theta, (0.0, 0.25), "append"),
        "shift": (sizes["many"], high, low, LATE, "full"),
    }
    figure: Evidence = {
        key: np.array([exact_gap(w, a, b, n, capacity, last, span, start) for w in worlds])
        for key, (n, a, b, span, start) in exact.items()
    }
    figure["few"] = _gap(usual, few[low], (0.0, 0.25))
    figure["many"] = _gap(many[low], many[high], LATE)
    figure["loss many"] = _gap(many[high], many[low], LATE, "loss")
    moves = [steps(rows, by="arm").iloc[:, 0].to_numpy() for rows in (many[high], many[low])]
    variation = {
        "across": (path_curves(many[low], LATE), path_curves(many[high], LATE)),
        "rounds": tuple(moves),
    }
    untuned: Evidence = {}
    scores = {"few": _by_theta(few), "many": _by_theta(many)}
    chosen = {name: _chosen_by_the_others(score) for name, score in scores.items()}
    for name, other in (("few", "many"), ("many", "few")):
        best, foreign = (_pick(scores[name], chosen[n]) for n in (name, other))
        drsr = window(arm(frame, "drsr", sizes[name], theta), THROUGHOUT, "accuracy", "arm")
        untuned[name] = drsr.iloc[:, 0].to_numpy() - best
        untuned[f"{name} choice"] = best - foreign
    best_of_all = scores["many"].mean().idxmax()
    rows = arm(frame, "drsr", sizes["many"], theta), many[best_of_all]
    untuned["steady"] = tuple(path_curves(one, LATE) for one in rows)
    return {"sfl-fig8": figure, "sfl-thetavar": variation, "sfl-untuned": untuned}


def _by_theta(arms: Mapping[float, pd.DataFrame]) -> pd.DataFrame:
    """Return the mean accuracy of every run, one row a run "w/s" and one column a theta."""
    return pd.DataFrame(
        {v: window(rows, THROUGHOUT, "accuracy", "arm").iloc[:, 0] for v, rows in arms.items()}
    )


def _chosen_by_the_others(score: pd.DataFrame) -> pd.Series:
    """Return for every run the theta that is best in the mean over the other runs.

    A choice by all runs could never be below another one in their mean.
    """
    return (score.sum() - score).idxmax(axis=1)


def _pick(score: pd.DataFrame, chosen: pd.Series) -> np.ndarray:
    """Return each run's score under the theta that was chosen for it."""
    return np.array([score.at[run, v] for run, v in chosen.items()])


def _gap(
    a: pd.DataFrame, b: pd.DataFrame, span: tuple[float, float], column: str = "accuracy"
) -> np.ndarray:
    """Return the mean of a column over a span in arm a minus that in arm b, run by run."""
    first, second = (window(rows, span, column, "arm").iloc[:, 0] for rows in (a, b))
    return (first - second).to_numpy()


def exact_gap(
    world: int,
    theta: float,
    other: float,
    batch_size: int,
    capacity: int,
    rounds: int,
    span: tuple[float, float],
    start: str,
    points: int = 6,
) -> float:
    """Return how far SRSR's exact psi_t with `theta` lies above that with `other`.

    The mean over `points` rounds in the span, see `exact_psi`.
    """
    first, last = (share * rounds for share in span)
    chosen = np.unique(np.linspace(first, last, points + 1).astype(int)[1:].clip(1))
    sizes = {"batch_size": batch_size, "capacity": capacity, "start": start}
    curves = [exact_psi(world, "srsr", chosen, theta=v, **sizes) for v in (theta, other)]
    return float(np.mean(curves[0] - curves[1]))


def exact_psi(
    world: int,
    rule: str,
    rounds: Sequence[int],
    *,
    theta: float,
    batch_size: int,
    capacity: int,
    start: str,
) -> np.ndarray:
    """Return sum_k sum_r E[(v_t - pi)^2] in some rounds, on the stream of a world of `label_only`.

    As E[v_t] = pi, it is the variance of the cached label mix.

    Parameters
    ----------
    world : int
    rule : {"drsr", "srsr"}
    rounds : sequence of int
        t >= 1.
    theta : float
        SRSR's weight; DRSR takes none.
    batch_size, capacity : int
        B_s and B, a multiple of it.
    start : {"full", "append"}
        How caches start, see `sflkit.sfl.clients.Clients`.
    """
    stream = make_stream(replace(LabelOnlyConfig(), world=world))
    weigh: Callable = full_start_weights if start == "full" else rule_weights
    name = "srsr_filled" if rule == "srsr" and start == "append" else rule
    how = {"cache_rounds": capacity // batch_size, "theta": theta if rule == "srsr" else None}
    weights = (weigh(name, int(t), **how) for t in rounds)
    return np.array([exact_discrepancy(stream, weights=w).sum() for w in weights])


def size_evidence(frame: pd.DataFrame, small: int, large: int, rounds: int) -> dict[str, Evidence]:
    """Return the evidence of Fig. 7: caches of `large` against `small` samples.

    The printed gain is that of round 200; a run that ends before has none.
    """
    late, early, printed = {}, {}, {}
    for rule in ("drsr", "srsr"):
        rows = frame[frame["rule"] == rule]
        late[f"late {rule}"] = difference(window(rows, LATE, by="capacity"), large, small)
        early[rule] = difference(window(rows, (0.0, 0.25), by="capacity"), large, small)
        at = rows[rows["round"] == 200].dropna(subset=["accuracy"])
        score = at.pivot(index="seed", columns="capacity", values="accuracy")
        printed[f"round 200 {rule}"] = (
            difference(score, large, small)
            if len(score)
            else NotRun(f"{rounds} rounds, and the paper's number is that of round 200")
        )
    return {"sfl-fig7": late | printed, "sfl-faster": early}


# --- notebook 15 ----------------------------------------------------------------------------------


def superclass_evidence(found: Superclasses) -> Evidence:
    """Return the evidence of Fig. 10, by the mean over the last tenth of the rounds."""
    score, other = (window(frame, (0.9, 1.0)) for frame in (found.judged, found.beside))
    rules = {"full": "full_refreshed", "static": "full"} | {r: r for r in ("drsr", "srsr", "fifo")}
    gain = {name: difference(score, rule, "lazy") for name, rule in rules.items()}
    ordered = {f"{name} lazy": values for name, values in gain.items()}
    beside = difference(other, "drsr", "lazy")
    network, linear = (gain["drsr"], beside) if found.by_network else (beside, gain["drsr"])
    ordered |= {f"{rule} fifo": difference(score, rule, "fifo") for rule in ("drsr", "srsr")}
    return ordered | {"beside lazy": beside, "network": (network, linear)}
