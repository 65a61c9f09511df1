"""Notebook 22, Appendix E: runs, client drift on two quadratics, evidence, pictures.

Source: FDS (Federated Learning for Data Streams), Appendices D.2 and E, Table 2, (204); Li et al.
(2020) for FedProx, Karimireddy et al. (2020) for SCAFFOLD. The example of drift is ours.

Two clients fit a line y = slope x + intercept by least squares. Client 1 sees x = +-2 and its
points lie on y = 0; client 2 sees x = +-1/2 and its points lie on y = x + 1. Their losses have the
curvatures 8 and 1/2 in the slope, and 2 in the intercept. With E steps of size eta a client covers
the share A_k = eta sum over j < E of (1 - eta (h_k + mu))^j h_k of the way to its own line (h_k:
curvature, mu: FedProx's penalty), so that the average stands still where sum_k A_k (w - a_k) = 0,
which is not the optimum where the curvatures differ.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import replace
from itertools import permutations
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd

from companion import figures, sheets, story
from companion.judging.claims import NotRun
from companion.judging.rules import Above
from companion.notebooks.datastreams_shared import (
    BASELINES,
    VALIDATION,
    both_iterates,
    estimated_share,
    printed,
    printed_cells,
)
from companion.plans import Stage
from sflkit import federated, models
from sflkit.datastreams import training
from sflkit.datastreams.config import DataStreamsConfig
from sflkit.federated import servers
from sflkit.intervals import mean_interval
from sflkit.randomness import generator
from sflkit.runs.keys import config_dict

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class Optimisers(NamedTuple):
    """What notebook 22 draws and judges."""

    tried: pd.DataFrame
    rates: dict[str, dict[str, float]]
    found: pd.DataFrame


def optimisers(**given: Any) -> Generator[Stage, pd.DataFrame, Optimisers]:
    """Plan Appendix E: four strategies under FedAvg, FedProx and SCAFFOLD.

    Every keyword is a parameter of notebook 22, which says what it means.
    """
    p = SimpleNamespace(**given)
    arms = ("fresh", "historical", "uniform", "ours")
    same = "data model n_clients hist_fraction c_ratio rounds local_steps batch_size prox"
    base = DataStreamsConfig(
        arms=arms,
        rates=(p.rates[0],) * len(arms),
        n_samples=p.n_samples or None,
        n_historical=p.n_clients // 2,
        evaluate_every=p.rounds,
        **{name: given[name] for name in same.split()},
        **({"hidden": 2048, "padding": 0} if p.model == "cnn" else {}),
    )
    servers = ("fedavg", "fedprox", "scaffold")
    grid = dict(
        arms=tuple(arm for arm in arms for _ in p.rates),
        rates=tuple(p.rates) * len(arms),
        validation=VALIDATION,
    )
    searches = [
        replace(base, server=s, seed=seed, **grid) for s in servers for seed in p.search_seeds
    ]
    tried = yield Stage(training.run, searches, "rates")
    best = {s: training.best_rates(tried[tried["server"] == s]) for s in servers}
    runs = [
        replace(base, server=s, seed=seed, rates=tuple(best[s][arm] for arm in arms))
        for s in servers
        for seed in p.seeds
    ]
    found = yield Stage(training.run, runs, "strategies")
    return Optimisers(tried, best, found)


RATE, STEPS = 0.1, 10
OWN_BEST = np.array([[0.0, 0.0], [1.0, 1.0]])  # (slope, intercept) of each client's own line
CURVATURE = np.array([[8.0, 2.0], [0.5, 2.0]])
PLACES = (2.0, 0.5)  # the clients' points lie at plus and minus this
START = (1.5, -0.5)
JITTER = 0.5  # error of client 2's points where they are new in each round


def optimum() -> np.ndarray:
    """Return (slope, intercept) at which the gradients of both clients cancel."""
    return (CURVATURE * OWN_BEST).sum(axis=0) / CURVATURE.sum(axis=0)


def fixed_point(mu: float = 0.0) -> np.ndarray:
    """Return (slope, intercept) at which FedAvg, or FedProx with penalty mu, stands still."""
    left = 1 - RATE * (CURVATURE + mu)
    share = RATE * CURVATURE * sum(left**j for j in range(STEPS))
    return (share * OWN_BEST).sum(axis=0) / share.sum(axis=0)


def penalties_of(penalties: Sequence[float]) -> dict[str, float | None]:
    """Return name -> FedProx's penalty, 0 for FedAvg and None for SCAFFOLD."""
    prox = {f"FedProx {mu:g}": float(mu) for mu in penalties}
    return {"FedAvg": 0.0, **prox, "SCAFFOLD": None}


def path(mu: float | None, *, rounds: int, jitter: float = 0.0) -> np.ndarray:
    """Return the global models of a run, (rounds + 1, 2) of slope and intercept.

    Parameters
    ----------
    mu : float or None
        FedProx's penalty, or None for SCAFFOLD.
    rounds : int
    jitter : float
        Standard deviation of the errors that client 2's two points have anew in each round, as a
        fresh client's would.
    """
    import torch

    task = federated.Task(models.create("linear", input_shape=(1,), n_classes=1), "mse")
    x = [torch.tensor([[-place], [place]]) for place in PLACES]
    error = torch.as_tensor(generator(0, "samples").normal(size=(rounds, 2, 1)) * jitter)
    rule = servers.Scaffold(2) if mu is None else servers.FedProx(mu)
    w = torch.tensor(START)
    models_so_far = [w.numpy()]
    for t in range(rounds):
        y = [x[k] * OWN_BEST[k, 0] + OWN_BEST[k, 1] for k in (0, 1)]
        y[1] = y[1] + error[t]
        batches = [[(x[k], y[k].float())] * STEPS for k in (0, 1)]
        work = servers.LocalWork(clients=np.arange(2), steps=np.full(2, STEPS), rate=RATE)
        local = federated.local_sgd(task, w, batches, RATE, **rule.local_options(work))
        w = rule(w, local - w, None, work)
        models_so_far.append(w.numpy())
    return np.array(models_so_far)


def limits(
    fixed: dict[str, np.ndarray], streaming: dict[str, np.ndarray], names: dict[str, float | None]
) -> pd.DataFrame:
    """Return where each optimiser stops, the closed form, and bias and spread on streaming data.

    Parameters
    ----------
    fixed, streaming : dict of name -> path
        Runs without jitter, and with it; bias and spread are those of the second half.
    names : dict
        `optimisers` of the same penalties.
    """
    rows = []
    for name, mu in names.items():
        theory = optimum() if mu is None else fixed_point(mu)
        late = streaming[name][len(streaming[name]) // 2 :] - optimum()
        rows.append(
            {
                "": name,
                "limit, slope": fixed[name][-1][0],
                "theory": theory[0],
                "intercept": fixed[name][-1][1],
                "streaming: bias": late[:, 0].mean(),
                "streaming: std": late[:, 0].std(),
            }
        )
    return pd.DataFrame(rows)


def appendix_e_evidence(score: pd.DataFrame) -> dict[str, Any]:
    """Return the evidence on Appendix E.

    Parameters
    ----------
    score : DataFrame (n_seeds, (server, arm))
        Accuracy with the columns (server, arm), servers "fedavg", "fedprox" and "scaffold".
    """
    evidence: dict[str, Any] = {}
    before, rule = score["fedavg"], Above(smallest=0.001)
    ordered = [  # surely, and visibly
        (first, second)
        for first, second in permutations(before, 2)
        if rule.judge((before[first], before[second])).answer == "yes"
    ]
    for server, name in (("fedprox", "FedProx"), ("scaffold", "SCAFFOLD")):
        evidence[f"{name}, order"] = {
            f"{first} above {second}": (score[server, first], score[server, second])
            for first, second in ordered
        } or NotRun("no two strategies differ surely under FedAvg")
        for baseline in BASELINES:
            pair = (score[server, "ours"], score[server, baseline.lower()])
            evidence[f"{name}, {baseline}"] = pair
        means = (score[server].mean(axis=1), before.mean(axis=1))
        evidence[f"{name}, improvement"] = means
    return evidence


STRATEGIES = ("fresh", "historical", "uniform", "ours")
OPTIMISERS = {"fedavg": "FedAvg", "fedprox": "FedProx", "scaffold": "SCAFFOLD"}


def printed_accuracies() -> dict[tuple[str, str], float]:
    """Return (optimiser, strategy) -> the paper's accuracy on CIFAR-10 in per cent."""
    places = {
        "fedavg": ("ds-tab2", "CIFAR-10"),
        "fedprox": ("ds-appE", "FedProx"),
        "scaffold": ("ds-appE", "SCAFFOLD"),
    }
    return {
        (name, strategy): printed(artefact, f"{prefix} {strategy}")
        for name, (artefact, prefix) in places.items()
        for strategy in STRATEGIES
    }


def final_scores(
    frame: pd.DataFrame, seeds: Sequence[int], column: str = "accuracy"
) -> pd.DataFrame:
    """Return the accuracy after the last round, (n_seeds, (server, arm)).

    `column` is "accuracy" of the averaged output, or "accuracy_last" of the last iterate.
    """
    last = frame[frame["round"] == frame["round"].max()]
    wide = last.pivot(index="seed", columns=["server", "arm"], values=column)
    return wide.loc[list(seeds)]


def appendix_e(score: pd.DataFrame, last: pd.DataFrame) -> pd.DataFrame:
    """Return Appendix E's numbers as a table, in %, with FedAvg's of Table 2: ours and the paper's.

    The arguments are `final_scores` of both columns.
    """
    paper: dict[str, dict[str, Any]] = {label: {} for label in OPTIMISERS.values()}
    for (name, strategy), value in printed_accuracies().items():
        paper[OPTIMISERS[name]][strategy.capitalize()] = value
    paper["FedAvg"] = {
        name: cell
        for name, cell in printed_cells("CIFAR-10", 0.2).items()
        if name.lower() in STRATEGIES
    }
    ours = (
        {
            label: {s.capitalize(): 100 * of[name, s] for s in STRATEGIES}
            for name, label in OPTIMISERS.items()
        }
        for of in (score, last)
    )
    return both_iterates(*ours, paper)


def searched_rates(search: pd.DataFrame, chosen: dict[str, dict[str, float]]) -> pd.DataFrame:
    """Return validation accuracy in per cent by optimiser, strategy and rate, and what won."""
    last = search[search["round"] == search["round"].max()]
    by = dict(index=["server", "arm"], columns="rate", values="accuracy")
    tried = last.pivot_table(**by, sort=False, dropna=False)
    won = [f"{chosen[server][arm]:.2g}" for server, arm in tried.index]
    return (100 * tried).round(1).assign(chosen=won)


def scaffold_by_rate(search: pd.DataFrame) -> pd.DataFrame:
    """Return SCAFFOLD's accuracy less FedAvg's in the validation runs, by rate.

    Mean points for each strategy, then in how many pairs of strategy and seed SCAFFOLD is ahead.
    """
    last = search[search["round"] == search["round"].max()]
    pairs = last.pivot(index=["arm", "seed"], columns=["server", "rate"], values="accuracy")
    ahead = pairs["scaffold"] - pairs["fedavg"]
    means = {f"{s}, points": 100 * ahead.loc[s].mean() for s in STRATEGIES}
    return pd.DataFrame(means | {"accuracy higher": (ahead > 0).sum()})


class Measured(NamedTuple):
    """What is told of a federation: its samples and clients, and what (204) gives on it.

    sizes, historical : arrays over clients; n_test : test samples; ratio, p_hist : see
    `estimated_share`.
    """

    sizes: np.ndarray
    historical: np.ndarray
    n_test: int
    ratio: float
    p_hist: float


def federation_of(config: DataStreamsConfig, model: str, seed: int) -> Measured:
    """Return what the notebook tells of a federation, which needs its data set; see `Measured`."""

    def make() -> dict[str, Any]:
        made = training.build(config)
        own = {"hidden": 2048, "padding": 0} if model == "cnn" else {}
        ratio, share, _ = estimated_share(made, model, own, seed=seed)
        return {
            "sizes": made.sizes.tolist(),
            "historical": made.historical.tolist(),
            "n_test": len(made.y_test),
            "ratio": ratio,
            "p_hist": share,
        }

    settings = config_dict(config) | {"network": model, "seed of the estimate": seed}
    found = story.kept("federation", settings, make)  # the published one holds more
    found |= {name: np.array(found[name]) for name in ("sizes", "historical")}
    return Measured(**{name: found[name] for name in Measured._fields})


def drift(fixed: dict[str, np.ndarray], streaming: dict[str, np.ndarray]) -> Figure:
    """Return the paths of the global model on fixed data, its error, and that on streaming data.

    `fixed` and `streaming` hold the answers of `path` by name, FedAvg first and SCAFFOLD last.
    """
    import matplotlib.pyplot as plt

    fig, axes = plt.subplots(1, 3, figsize=(11, 3.8), width_ratios=[4, 3, 4])
    slope, intercept = np.meshgrid(np.linspace(-0.3, 1.6, 80), np.linspace(-0.6, 1.15, 80))
    loss = sum(
        (h * (np.stack([slope, intercept], axis=-1) - a) ** 2).sum(axis=-1)
        for h, a in zip(CURVATURE, OWN_BEST)
    )
    axes[0].contour(slope, intercept, loss, levels=12, colors="0.8", linewidths=0.8)
    best = optimum()
    for name, look in _looks(list(fixed)).items():
        axes[0].plot(*fixed[name].T, **look | {"marker": "o", "markersize": 3}, label=name)
        axes[1].semilogy(np.maximum(np.abs(fixed[name][:, 0] - best[0]), 1e-4), **look)
        axes[2].plot(streaming[name][:61, 0] - best[0], **look | {"linewidth": 1.5})
    axes[0].plot(*best, "*", color="black", markersize=13, zorder=5, label="optimum")
    axes[0].set(xlabel="slope", ylabel="intercept", title="global model, one dot a round")
    axes[1].set(xlabel="round", ylabel="|slope - optimum|", title="fixed data", ylim=(1e-4, 3))
    title = "client 2's points are new in each round"
    axes[2].set(xlabel="round", ylabel="slope - optimum", title=title, ylim=(-0.6, 0.9))
    axes[2].axhline(0, color="0.4", linewidth=1)
    handles, labels = axes[0].get_legend_handles_labels()
    fig.legend(handles, labels, loc="outside lower center", ncol=len(labels))
    return fig


def by_optimiser(score: pd.DataFrame, title: str) -> Figure:
    """Return accuracies by strategy and optimiser, and what each optimiser changes against FedAvg.

    The paper's numbers stand in the same axes, hollow. `score` is `final_scores` of the evidence;
    `title` says what was trained.
    """
    import matplotlib.pyplot as plt

    fig, (left, right) = plt.subplots(1, 2, figsize=(9.6, 4.2), width_ratios=[3, 2])
    paper, place = printed_accuracies(), np.arange(len(STRATEGIES))
    for i, (name, label) in enumerate(OPTIMISERS.items()):
        look = figures.series_style(label, i) | {"linestyle": "None"}
        bar = look | dict(capsize=3, elinewidth=1.4, label=label)
        color, at = {label: look["color"]}, place + 0.22 * (i - 1)
        left.errorbar(at, *_bars([100 * score[name, s] for s in STRATEGIES]), **bar)
        for x, s in zip(at, STRATEGIES, strict=True):
            sheets.printed_marks(left, x + 0.08, {label: paper[name, s]}, color)
            if name != "fedavg":
                change = paper[name, s] - paper["fedavg", s]
                sheets.printed_marks(right, x + 0.08, {label: change}, color)
        if name != "fedavg":
            changes = [100 * (score[name, s] - score["fedavg", s]) for s in STRATEGIES]
            right.errorbar(at, *_bars(changes), **bar)
    right.axhline(0, color="0.4", linewidth=1)
    names = [s.capitalize() for s in STRATEGIES]
    for ax, text in ((left, title), (right, "change against FedAvg")):
        ax.set(xticks=place, xticklabels=names, title=text, xlim=(-0.5, 3.5))
    left.set_ylabel("test accuracy, %")
    right.set_ylabel("percentage points")
    sheets.explain_marks(left, marks=True, loc="upper left")
    return fig


def _looks(names: list[str]) -> dict[str, dict[str, Any]]:
    """Return the looks of FedAvg, FedProx and SCAFFOLD as in the figure by optimiser."""
    series = [0, 1, *range(3, len(names)), 2]
    looks = {
        name: figures.series_style(name, i) | {"marker": "None"} for name, i in zip(names, series)
    }
    looks[names[-1]]["linestyle"] = "-"
    return looks


def _bars(samples: list[pd.Series]) -> tuple[list[float], list[float]]:
    """Return means and half widths of the 95 % intervals of samples over seeds."""
    found = [mean_interval(sample.to_numpy()) for sample in samples]
    return [e.mean for e in found], [e.high - e.mean for e in found]
