"""From the runs of notebook 45 to the evidence on Table 1, and what that table can show at all.

Source: FATS, Sections 6.1.3, 6.2.1 and 6.2.5, Tables 1 and 2. Accuracies and precisions of an
attack are shares; a blind attack has one half of both.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from companion import story
from companion.claims import FATS as CLAIMS
from companion.fats.evidence.table_2 import NAMES, paper_sizes, table_2
from companion.fats.plans.membership import Membership
from companion.judging.claims import NotRun
from companion.judging.tables import paper_values
from sflkit.fats import membership, stability
from sflkit.fats.config import MembershipConfig
from sflkit.fats.methods import METHODS
from sflkit.results.intervals import mean_interval
from sflkit.results.store import config_dict

FORGOTTEN = (10, 5, 5, 5, 10, 5)  # samples or clients of each set, Section 6.2.1
CELL = ["attack", "setting", "data", "level", "state"]
_HALF_DIGIT = 5e-5  # the table prints hundredths of a per cent
_BLIND = NotRun(
    "the attack has not been shown to see members before forgetting, so that the row would prove "
    "nothing"
)


def printed_names() -> dict[str, str]:
    """Return method -> its name in the paper's table, which writes FR2 for FR²."""
    return {name: label.replace("²", "2") for name, label in METHODS.labels().items()}


def printed_table() -> pd.Series:
    """Return the numbers of Table 1 in per cent, indexed by quantity."""
    rows = paper_values("fats").query("artefact == 'fats-tab1'")
    return rows.set_index("quantity")["value"]


def ceilings() -> pd.DataFrame:
    """Return how good the best attack before forgetting can be, one row for each of the six sets.

    A sample that was never used leaves no trace. An attacker who names every used sample and no
    other is right in (1 + p_S) / 2 of the answers, p_S the probability of being used (Lemma 1).
    Columns: used with probability, best attack before forgetting, used among 10 samples.
    """
    sizes = paper_sizes(table_2())
    used = np.array([stability.stability(**each).p_sample for each in sizes.values()])
    return pd.DataFrame(
        {
            "used with probability": used,
            "best attack before forgetting": (1 + used) / 2,
            "used among 10 samples": 10 * used,
        },
        index=list(NAMES),
    )


def fewest_members() -> pd.DataFrame:
    """Return the fewest members a side that each printed accuracy allows, rounding included.

    With n members and n others an accuracy is a multiple of 1/(2n). A variable on such a grid whose
    mean lies d above a grid point has at least the variance d (1/(2n) - d), which the printed
    standard deviation must not undercut. Columns: one per method, forgotten samples (what the paper
    forgets), "blind std, %" (standard deviation that resampling so few samples gives an attack
    which calls half of them members).
    """
    printed, n = printed_table(), np.arange(1, 2001)
    table = pd.DataFrame(index=list(NAMES), columns=list(printed_names().values()))
    for name in NAMES:
        for method in table.columns:
            mean, std = _mean_and_std(printed, f"{name} accuracy {method}")
            means = mean + np.linspace(-_HALF_DIGIT, _HALF_DIGIT, 101)
            above = means[:, None] % (1 / (2 * n))
            variance = (above * (1 / (2 * n) - above)).min(axis=0)
            table.loc[name, method] = int(n[(variance <= (std + _HALF_DIGIT) ** 2).argmax()])
    forgotten = np.array(FORGOTTEN)
    return table.assign(
        **{"forgotten samples": forgotten, "blind std, %": (100 / np.sqrt(8 * forgotten)).round(1)}
    )


def members_behind_the_strange_precision() -> int:
    """Return the fewest members a side behind FEMNIST's printed row of FR2, 33.2 +- 42.1 %.

    Let A members and B others be called member. Accuracy 50.00 +- 0.00 % bounds the mean of
    (A - B)^2 by 8 n^2 0.00005^2. Precision p has |A - B| >= |2 p - 1| wherever something was
    called, and if silent sets count 0 at least the share m^2 / (m^2 + s^2) of the sets is not
    silent (m, s: printed mean and spread of p; Cauchy and Schwarz), so that the mean of (A - B)^2
    is at least 4 (m^2 + s^2) - 4 m + m^2 / (m^2 + s^2).
    """
    m, s = _mean_and_std(printed_table(), "FEMNIST precision FR2")
    square = s**2 + m**2
    apart = 4 * square - 4 * m + m**2 / square
    return int(np.ceil(np.sqrt(apart / (8 * _HALF_DIGIT**2))))


def results_of(found: Membership) -> pd.DataFrame:
    """Return all rows of the runs with a column `setting`: ordinary or overfitted."""
    ordinary = found.ordinary.assign(setting="ordinary")
    return pd.concat([ordinary, found.overfitted.assign(setting="overfitted")], ignore_index=True)


def by_seed(results: pd.DataFrame) -> pd.DataFrame:
    """Return accuracy and precision on the whole sets for each seed, mean over its mirror pair."""
    return results.groupby([*CELL, "seed"])[["whole_accuracy", "whole_precision"]].mean()


def attack_table(results: pd.DataFrame) -> pd.DataFrame:
    """Return the attacks in per cent, one row per cell.

    `whole` is the accuracy on all members and as many unseen samples, mean over the seeds, and
    `half interval` half its 95 % interval. The others are means over runs: accuracy and precision
    over resampled sets as in the paper with the spread of the sets, the share of silent attacks,
    and the model's own accuracy on trained (fit) and unseen samples (test).
    """
    columns = ["accuracy", "accuracy_std", "precision", "precision_std", "silent", "fit", "test"]
    table = results.groupby(CELL, sort=False)[columns].mean().mul(100)
    seeds = by_seed(results)["whole_accuracy"].groupby(level=CELL, sort=False)
    half = seeds.agg(lambda values: mean_interval(values.to_numpy()).high - values.mean())
    table.insert(0, "whole", seeds.mean().mul(100))
    table.insert(1, "half interval", half.mul(100))
    names = {"accuracy_std": "std of sets", "precision_std": "std of sets, precision"}
    return table.rename(columns=names).round(1)


def evidence(results: pd.DataFrame, data: str) -> dict[str, Any]:
    """Return the evidence on Table 1, part -> what the rule takes.

    Rows are judged on the overfitted federation of the data set `data`, and only at a level where
    the same attack wins before forgetting.
    """
    heart = by_seed(results).loc["shadow", "overfitted", data]
    rules = {part.key: part.rule for part in CLAIMS["fats-tab1"].parts}
    parts: dict[str, Any] = {}
    for level in ("sample", "client"):
        power = f"power_{level}"
        parts[power] = heart.loc[(level, "before"), "whole_accuracy"].to_numpy() - 0.55
        sees = rules[power].judge(parts[power]).answer == "yes"
        for method in METHODS:
            for what in ("accuracy", "precision"):
                values = heart.loc[(level, method), f"whole_{what}"].to_numpy()
                parts[f"{what}_{level}_{method}"] = values if sees else _BLIND
    fats, frs = (heart.loc[("sample", name), "whole_accuracy"] for name in ("fats", "frs"))
    parts["consistent"] = (fats.to_numpy(), frs.to_numpy())
    mean, std = _mean_and_std(printed_table(), "FEMNIST accuracy FATS")
    parts["exception"] = (100 * mean, 100 * std / np.sqrt(100), 50.0)
    parts["others"] = NotRun("one data set was attacked")
    return parts


def table1(results: pd.DataFrame, partner: Mapping[str, str]) -> tuple[dict, dict]:
    """Return ours and the paper's numbers of Table 1 in per cent, for `sheets.table`.

    Rows are the paper's data sets, and below them our federation that learnt its samples by heart;
    columns accuracy and precision by method.

    Parameters
    ----------
    results : DataFrame
        `results_of`.
    partner : mapping
        Our data set -> the row of the paper that it stands in.
    """
    seeds, printed = by_seed(results).loc["shadow"].mul(100), printed_table()
    columns = {
        f"{what} {METHODS[method].label}": (what, method, title)
        for what in ("accuracy", "precision")
        for method, title in printed_names().items()
    }

    def cells(values: pd.DataFrame) -> dict[str, np.ndarray]:
        return {
            column: values.loc[method, f"whole_{what}"].to_numpy()
            for column, (what, method, _) in columns.items()
        }

    paper = {
        name: {
            column: tuple(100 * x for x in _mean_and_std(printed, f"{name} {what} {title}"))
            for column, (what, _, title) in columns.items()
        }
        for name in NAMES
    }
    ours = {}
    for setting, data, level in results.groupby(["setting", "data", "level"], sort=False).groups:
        row = partner[data] if setting == "ordinary" else f"ours, by heart: {level}s"
        ours[row] = cells(seeds.loc[setting, data, level])
        paper.setdefault(row, {})
    return ours, paper


def _mean_and_std(printed: pd.Series, quantity: str) -> tuple[float, float]:
    """Return a printed mean and its standard deviation as shares."""
    return tuple(printed[f"{quantity}{part} (%)"] / 100 for part in ("", " standard deviation"))


def counts(config: MembershipConfig, level: str) -> dict[str, Any]:
    """Return who holds how many samples in an attack where samples or clients are forgotten.

    own : samples that each attacked client trains on; forgotten, unseen, attacker : numbers of
    samples, the last of those that the attacker holds.
    """

    def make() -> dict[str, Any]:
        made = membership.build(config)
        parts = membership.split(config, made, level)
        own = [len(ids) for ids in parts.clients]
        return {
            "own": own,
            "forgotten": len(parts.forgotten),
            "unseen": len(parts.unseen),
            "attacker": made.sizes[len(own) :].sum(),
        }

    return story.kept("samples of an attack", config_dict(config) | {"level": level}, make)
