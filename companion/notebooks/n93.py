"""Notebook 93, your own data: what is chosen and compared of the runs.

The stream, the archive and the runs are in `own_data`.
"""

from __future__ import annotations

import pandas as pd

from sflkit.intervals import Estimate, difference_interval, mean_interval


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
