"""Notebook 93, your own data: what is chosen and compared of the runs, and their pictures.

The stream, the archive and the runs are in `own_data`.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from companion import figures
from sflkit.data.own import Table
from sflkit.intervals import Estimate, difference_interval, mean_interval

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from sflkit.registry import Registry


def chosen(scores: pd.DataFrame, rule: str) -> pd.Series:
    """Return for each seed the score of the p_hist that is best on average over the *other* seeds.

    No seed chooses what it judges. Ties go to the smaller p_hist.

    Raises
    ------
    ValueError
        If there is only one seed.
    """
    table = scores[scores["rule"] == rule].pivot(index="seed", columns="p_hist", values="accuracy")
    if len(table) < 2:
        raise ValueError(f"scores of {rule!r} have one seed; choosing needs at least two")
    best = {seed: table.drop(index=seed).mean().idxmax() for seed in table.index}
    return pd.Series({seed: table.loc[seed, best[seed]] for seed in table.index}, name=rule)


def comparison(scores: pd.DataFrame) -> pd.DataFrame:
    """Return one row per rule: late accuracies, and how the chosen p_hist compares.

    Differences are taken seed by seed, with 95 % intervals: the p_hist that the other seeds choose,
    minus the stream alone (p_hist = 0) and minus the archive alone (p_hist = 1), where these were
    run; and the rule at its own choice minus the first rule at its own.
    """
    rules = list(dict.fromkeys(scores["rule"]))
    own = {rule: chosen(scores, rule) for rule in rules}
    rows = []
    for rule in rules:
        table = scores[scores["rule"] == rule]
        means = table.groupby("p_hist")["accuracy"].mean()
        row = {
            "cache rule": rule,
            "best p_hist": f"{means.idxmax():g}",
            "accuracy": _words(mean_interval(own[rule])),
        }
        for value, name in ((0.0, "minus stream alone"), (1.0, "minus archive alone")):
            alone = table[table["p_hist"] == value].set_index("seed")["accuracy"]
            row[name] = _difference(own[rule], alone) if len(alone) else "not run"
        row[f"minus {rules[0]}"] = "" if rule == rules[0] else _difference(own[rule], own[rules[0]])
        rows.append(row)
    return pd.DataFrame(rows)


def bottom_line(scores: pd.DataFrame, rule: str) -> str:
    """Say in words what the archive adds to the stream, and the other way round, under one rule."""
    own = chosen(scores, rule)
    table = scores[scores["rule"] == rule]
    best = table.groupby("p_hist")["accuracy"].mean().idxmax()
    said = [f"With {rule} caches the archive should count for p_hist = {best:g}."]
    for value, name in ((0.0, "the stream alone"), (1.0, "the archive alone")):
        alone = table[table["p_hist"] == value].set_index("seed")["accuracy"]
        if len(alone) and best != value:
            said.append(f"Compared with {name} this {_gains(difference_interval(own, alone))}.")
        elif len(alone):
            said.append(f"That is {name}.")
    return " ".join(said)


def _gains(estimate: Estimate) -> str:
    points = f"{100 * abs(estimate.mean):.1f} points of accuracy"
    interval = f"95 % interval {100 * estimate.low:.1f} to {100 * estimate.high:.1f}"
    if estimate.low > 0:
        return f"gains {points} ({interval})"
    if estimate.high < 0:
        return f"loses {points} ({interval})"
    return f"makes no difference that these seeds could tell from luck ({interval} points)"


def _words(estimate: Estimate) -> str:
    return f"{estimate.mean:.3f} ({estimate.low:.3f} to {estimate.high:.3f})"


def _difference(a: pd.Series, b: pd.Series) -> str:
    estimate = difference_interval(a, b.loc[a.index])
    return f"{estimate.mean:+.3f} ({estimate.low:+.3f} to {estimate.high:+.3f})"


_WINDOWS = 60


def mix_over_time(ax: Axes, table: Table, archive: float) -> pd.DataFrame:
    """Draw the label shares along the rows of a table, and where its archive ends.

    Returns what is drawn: `row` (the end of a window) and a share for each label.
    """
    ends = np.linspace(0, len(table), min(_WINDOWS, len(table)) + 1).astype(int)
    parts = [table.y[a:b] for a, b in itertools.pairwise(ends)]
    shares = np.array([np.bincount(y, minlength=len(table.labels)) / len(y) for y in parts])
    middles = (ends[:-1] + ends[1:]) / 2
    ax.stackplot(middles, shares.T, labels=table.labels, alpha=0.9)
    ax.axvline(archive * len(table), color="black", linewidth=2)
    for text, at, side in (("archive ", archive, "right"), (" stream", archive, "left")):
        ax.text(at * len(table), 1.02, text, ha=side, va="bottom")
    ax.set(xlabel="row, in the order of time", ylabel="share of the label", ylim=(0, 1))
    ax.set_xlim(middles[0], middles[-1])
    ax.legend(loc="center left", bbox_to_anchor=(1.01, 0.5), title="label")
    return pd.DataFrame({"row": ends[1:]} | dict(zip(table.labels, shares.T, strict=True)))


def accuracy_by_importance(ax: Axes, scores: pd.DataFrame, rules: Registry) -> pd.DataFrame:
    """Draw the late accuracy over p_hist, one line with 95 % intervals per cache rule.

    `scores` is what `own_data.late_scores` returns, and `rules` gives each rule its look. Returns
    what is drawn: rule, p_hist, accuracy, low, high.
    """
    rows = []
    names = list(dict.fromkeys(scores["rule"]))
    for i, name in enumerate(names):
        own = scores[scores["rule"] == name].groupby("p_hist")["accuracy"]
        found = {share: mean_interval(sample) for share, sample in own}
        at = np.array(list(found))
        means = np.array([e.mean for e in found.values()])
        reach = np.array([[e.mean - e.low, e.high - e.mean] for e in found.values()]).T
        look = figures.series_style(name, i, rules)
        label = rules[name].label if name in rules else name
        shift = 0.006 * (i - (len(names) - 1) / 2)
        finite = np.where(np.isfinite(reach), reach, 0)
        ax.errorbar(at + shift, means, finite, capsize=4, label=label, **look)
        rows += [(name, share, e.mean, e.low, e.high) for share, e in found.items()]
    ax.set(xlabel="importance of the archive, p_hist", ylabel="late test accuracy")
    ax.legend(title="cache rule")
    return pd.DataFrame(rows, columns=["rule", "p_hist", "accuracy", "low", "high"])
