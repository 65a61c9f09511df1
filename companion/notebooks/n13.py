"""Notebook 13, Figs. 6, 7 and 8: arrivals, cache size and SRSR's weight.

Source: SFL, Section VI and supplement. Accuracies are shares in the frames and per cent, or points
of them, in the pictures.

A cache that starts full holds B samples of round 0 of the stream, all from its state u_0, so that
v_t = a_0 u_t + ... + a_{t-1} u_1 + a_t u_0 (`full_start_weights`). LAZY never leaves u_0, whose
expected discrepancy is the largest of all rounds, and SRSR with a small theta leaves it slowly
(Fig. 8(a)). DRSR takes the B samples for the M
rounds that they fill. While FIFO still holds some of round 0, chance decides which of these samples
go first; the weights are those of its expected shares. `sflkit.sfl.training.full_start` trains with
such caches.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd

from companion import figures, sheets
from companion.judging.claims import NotRun
from companion.notebooks import label_only, sfl_shared
from companion.notebooks.label_only import LabelOnlyConfig
from companion.notebooks.sfl_shared import LATE, THROUGHOUT, Evidence, difference, steps, window
from companion.plans import Stage
from sflkit.intervals import mean_interval
from sflkit.models import NETWORKS
from sflkit.sfl import clients, training
from sflkit.sfl.caches import RULES
from sflkit.sfl.config import SFLConfig
from sflkit.sfl.discrepancy import exact_discrepancy
from sflkit.sfl.streams import LabelStream

if TYPE_CHECKING:
    from matplotlib.axes import Axes


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


# --- notebook 13 ----------------------------------------------------------------------------------


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
    exact = {
        "slow": (low, theta, (0.0, 0.25), sizes["few"]),
        "shift": (high, low, LATE, sizes["many"]),
    }
    figure: Evidence = {
        key: np.array(
            [
                exact_gap(s, a, b, last, span, batch_size=n, capacity=capacity)
                for s in streams(usual)
            ]
        )
        for key, (a, b, span, n) in exact.items()
    }
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


Arms = Mapping[tuple[str, str, float], pd.DataFrame]
_DISCREPANCY = r"expected discrepancy $\mathbb{E}\,\psi_t$"
_THETA_COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")


def sheet(
    axes: np.ndarray,
    number: int,
    found: Sensitivity,
    arms: Mapping[str, tuple[str, float]],
    looks: Sequence[Mapping[str, Any]],
    measure: Callable[..., pd.DataFrame],
) -> dict[str, pd.DataFrame]:
    """Draw Fig. 6 or 8 in the paper's axes, and below what it says of them by a measure.

    Parameters
    ----------
    axes : array of Axes (3, 2)
        A column for few and one for many arrivals; rows: trained runs as the paper draws them,
        their measure, and that by labels alone.
    number : int
        The figure's number.
    found : Sensitivity
    arms : mapping
        What the legend calls an arm -> its rule and theta.
    looks : sequence of mappings
        As of `over_runs`.
    measure : function (ax, rows by arm, looks) -> DataFrame
        Such as `spreads`.

    Returns
    -------
    dict
        "a, accuracy", "a, linear" and "a, labels alone" and the like for (b): what
        `over_runs` and the measure return.
    """
    drawn = {}
    capacity, end = found.trained["capacity"].iloc[0], found.trained["round"].max()
    network = NETWORKS[found.trained["model"].iloc[0]].label
    frames = {network: found.trained, "labels alone": found.labels}
    sizes = (sorted(frame["batch_size"].unique()) for frame in frames.values())
    for (above, *below), letter, *of_each in zip(axes.T, "ab", *sizes, strict=True):
        for (what, frame), size, ax in zip(frames.items(), of_each, below, strict=True):
            rows = alike({name: arm(frame, rule, size, v) for name, (rule, v) in arms.items()})
            if frame is found.trained:
                drawn[f"{letter}, accuracy"] = over_runs(above, rows, looks)
            drawn[f"{letter}, {what}"] = measure(ax, rows, looks)
            ax.set(title=f"{what}, $B_s$ = {size}", xlim=(-0.05 * end, 1.05 * end))
        above.set(title=f"Figure {number}({letter}): $B_s$ = {of_each[0]} of B = {capacity}")
        above.set(xlim=(-0.05 * end, 1.05 * end), ylabel="test accuracy, %")
        above.legend(loc="lower right", fontsize=9)
        below[-1].set(xlabel="round t")
    for row in axes:
        row[1].set_ylabel("")
    return drawn


def over_runs(ax: Axes, arms: Mapping[str, pd.DataFrame], looks: Sequence[Mapping]) -> pd.DataFrame:
    """Draw the mean accuracy of some arms, and one standard deviation over runs around it.

    Parameters
    ----------
    ax : Axes
    arms : mapping
        What the legend calls an arm -> rows of `arm`.
    looks : sequence of mappings
        Matplotlib's keywords for the line of each arm.

    Returns
    -------
    DataFrame
        arm, round, mean and std, in per cent.
    """
    drawn = []
    for (name, rows), look in zip(arms.items(), looks, strict=True):
        mean, std = 100 * rows.groupby("round")["accuracy"].mean(), _spread(rows)
        ax.plot(mean.index, mean, label=name, **look)
        ax.fill_between(mean.index, mean - std, mean + std, color=look["color"], alpha=0.18, lw=0)
        drawn.append(std.to_frame("std").assign(arm=name, mean=mean).reset_index())
    return pd.concat(drawn)[["arm", "round", "mean", "std"]]


def spreads(ax: Axes, arms: Mapping[str, pd.DataFrame], looks: Sequence[Mapping]) -> pd.DataFrame:
    """Draw the standard deviation of the accuracy over runs, in points; arguments as `over_runs`.

    Of runs in several worlds it is that over the paths of a world, the root of its mean square. It
    is drawn smoothed over five evaluations, and returned as it is, by round and arm.
    """
    drawn = pd.DataFrame({name: _spread(rows) for name, rows in arms.items()})
    for name, look in zip(arms, looks, strict=True):
        ax.plot(drawn[name].rolling(5, center=True, min_periods=1).mean(), label=name, **look)
    late = drawn[drawn.index > 0.25 * drawn.index.max()]
    ax.set(ylabel="SD over runs,\npoints", ylim=(0, 1.3 * late.max(axis=None)))
    return drawn


def gaps(
    ax: Axes, arms: Mapping[str, pd.DataFrame], looks: Sequence[Mapping], *, to: str
) -> pd.DataFrame:
    """Draw the mean accuracy minus that of the arm `to`, in points; arguments as `over_runs`.

    Bands are 95 % intervals over pairs of runs. Mean and half the interval's width are returned by
    round, for each arm.
    """
    drawn, edge = {}, 0.0
    curves = {
        name: 100 * rows.pivot(index="seed", columns="round", values="accuracy")
        for name, rows in arms.items()
    }
    for (name, mine), look in zip(curves.items(), looks, strict=True):
        if name == to:
            ax.axhline(0, **look)
            continue
        gap = mine - curves[to]
        mean, half = gap.mean(), gap.apply(_half_width)
        ax.plot(mean, **look)
        ax.fill_between(mean.index, mean - half, mean + half, color=look["color"], alpha=0.18, lw=0)
        drawn[name], drawn[f"{name}, half"] = mean, half
        reach = mean.abs() + half
        edge = max(edge, 1.2 * reach[reach.index > 0.05 * reach.index.max()].max())
    ax.set(ylabel=f"minus {to},\npoints", ylim=(-edge, edge))
    return pd.DataFrame(drawn)


def draw_arrivals(
    axes: np.ndarray, arms: Arms, sizes: Mapping[str, int], theta: float, how: Mapping[str, Any]
) -> dict[str, np.ndarray]:
    """Draw what Fig. 6 rests on: above the spread of the accuracy, below the discrepancy.

    Parameters
    ----------
    axes : array of Axes (2, 2)
        A column for few and one for many arrivals.
    arms : mapping
        (few or many, rule, theta) -> rows of `arm`.
    sizes : mapping
        few or many -> B_s.
    theta : float
        SRSR's weight.
    how : mapping
        streams, capacity and rounds.
    """
    at, drawn = np.unique(np.linspace(1, how["rounds"], 25).astype(int)), {}
    rules = ("drsr", "srsr")
    for (above, below), (name, n) in zip(axes.T, sizes.items(), strict=True):
        own = {sfl_shared.label(rule): arms[name, rule, theta] for rule in rules}
        spread = spreads(above, own, [sfl_shared.line(rule) for rule in rules])
        for rule in rules:
            size = {"batch_size": n, "capacity": how["capacity"]}
            exact = exact_psi(how["streams"], rule, at, theta=theta, **size)
            below.plot(at, exact, **sfl_shared.line(rule))
            drawn[f"spread {name} {rule}"] = spread[sfl_shared.label(rule)].to_numpy()
            drawn[f"psi {name} {rule}"] = np.stack([at, exact])
        above.set_title(f"{name} arrivals: $B_s$ = {n} of B = {how['capacity']}")
        below.set_xlabel("round t")
    axes[0, 1].set_ylabel("")
    axes[1, 0].set(ylabel=_DISCREPANCY, ylim=(0, None))
    axes[0, 1].legend()
    return drawn


def weights(
    axes: np.ndarray,
    arms: Arms,
    sizes: Mapping[str, int],
    thetas: Sequence[float],
    theta: float,
    how: Mapping[str, Any],
) -> dict[str, np.ndarray]:
    """Draw what Fig. 8 rests on: above SRSR's discrepancy by theta, below the accuracy.

    Arguments are those of `draw_arrivals`, and `thetas`, SRSR's weights. Accuracies are shown less
    DRSR's.
    """
    at, drawn = np.unique(np.linspace(1, how["rounds"], 25).astype(int)), {}
    for column, (name, n) in zip(axes.T, sizes.items(), strict=True):
        size = {"batch_size": n, "capacity": how["capacity"]}
        drsr = arms[name, "drsr", theta].groupby("round")["accuracy"].mean()
        for value, color in zip(thetas, _THETA_COLORS, strict=False):
            exact = exact_psi(how["streams"], "srsr", at, theta=value, **size)
            column[0].plot(at, exact, color=color, label=f"θ = {value:.2g}")
            drawn[f"psi {name} {value:.3g}"] = exact
            mean = arms[name, "srsr", value].groupby("round")["accuracy"].mean()
            column[1].plot(mean.index, 100 * (mean - drsr), color=color)
            drawn[f"accuracy {name} {value:.3g}"] = mean.to_numpy()
        column[1].axhline(0, color="0.4", linewidth=1)
        column[0].set_title(f"{name} arrivals: $B_s$ = {n} of B = {how['capacity']}")
        column[1].set_xlabel("round t")
    axes[0, 0].set(ylabel=_DISCREPANCY, ylim=(0, None))
    axes[1, 0].set(ylabel="accuracy minus\nDRSR's, points")
    axes[0, 1].legend(fontsize=9)
    return drawn | {"rounds": at}


def _half_width(sample: pd.Series) -> float:
    found = mean_interval(sample)
    return (found.high - found.low) / 2


def _spread(rows: pd.DataFrame) -> pd.Series:
    """Return the root of the mean variance over the paths of a world, in points, by round."""
    curves = 100 * path_curves(rows, THROUGHOUT)
    variance = (curves**2).sum(axis=0) / (len(curves) - rows["world"].nunique())
    return pd.Series(np.sqrt(variance), pd.Index(np.unique(rows["round"]), name="round"))


def figure7(
    axes: Sequence[Axes], frame: pd.DataFrame, printed: Mapping[int, float]
) -> pd.DataFrame:
    """Draw Fig. 7: DRSR and SRSR over rounds, a panel a cache size, with the printed accuracies.

    Parameters
    ----------
    axes : two Axes
        For the small and the large cache.
    frame : DataFrame
        Rows of a sweep over rules, seeds and capacities.
    printed : mapping
        B -> the paper's accuracy at round 200, a share; which rule's it does not say.

    Returns
    -------
    DataFrame
        Mean, std and count of the accuracy in per cent, by rule, capacity and round.
    """
    shown = frame.dropna(subset="accuracy")
    shown = shown.assign(accuracy=100 * shown["accuracy"])
    band = 0.95 if shown["seed"].nunique() >= 4 else None
    for ax, letter, (size, part) in zip(axes, "ab", shown.groupby("capacity"), strict=True):
        look = {"rules": RULES, "interval": band}
        figures.curves(ax, part, "round", "accuracy", "rule", **look)
        ax.set(xlabel="round t", ylabel="test accuracy, %", ylim=(0, 100))
        ax.set_title(f"Figure 7({letter}): B = {size}, $B_s$ = {part['batch_size'].iloc[0]}")
        if size in printed:
            value = {"paper": 100 * printed[size]}
            sheets.printed_marks(ax, 200, value, {"paper": "black"})
            ax.axvline(200, color="0.6", linewidth=1, zorder=1)
            ax.annotate(
                f"{value['paper']:.0f}", (200, value["paper"]), (7, 5), textcoords="offset points"
            )
            ours = part[part["round"] == 200].groupby("rule")["accuracy"].mean()
            said = ",\n".join(f"{RULES[rule].label} {mean:.0f}" for rule, mean in ours.items())
            place = dict(xytext=(7, -32), textcoords="offset points", fontsize=9)
            if said:
                ax.annotate(f"ours: {said}", (200, ours.min()), **place)
        sheets.explain_marks(ax, marks=True, loc="lower right")
    groups = shown.groupby(["rule", "capacity", "round"])["accuracy"]
    return groups.agg(["mean", "std", "count"]).reset_index()
