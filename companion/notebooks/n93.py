"""Notebook 93, your own data: what is chosen and compared of the runs.

The stream, the archive and the runs are in `own_data`.
"""

from __future__ import annotations

import pandas as pd

from sflkit import intervals


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
    """Return one row per rule: late accuracies, and how the chosen p_hist compares, in points.

    Differences are taken seed by seed, with 95 % intervals: the p_hist that the other seeds choose,
    minus the stream alone (p_hist = 0) and minus the archive alone (p_hist = 1), where these were
    run; and the rule at its own choice minus the first rule at its own.
    """
    rules = list(dict.fromkeys(scores["rule"]))
    own = {rule: 100 * chosen(scores, rule) for rule in rules}
    rows = []
    for rule in rules:
        by = 100 * scores[scores["rule"] == rule].pivot(
            index="seed", columns="p_hist", values="accuracy"
        )
        row = {"cache rule": rule, "best p_hist": f"{by.mean().idxmax():g}"}
        row["accuracy, %"] = intervals.text(own[rule], 1)
        for value, name in ((0.0, "minus stream alone"), (1.0, "minus archive alone")):
            row[name] = intervals.text(own[rule] - by[value], 1) if value in by else "not run"
        first = own[rules[0]]
        row[f"minus {rules[0]}"] = "" if rule == rules[0] else intervals.text(own[rule] - first, 1)
        rows.append(row)
    return pd.DataFrame(rows)
