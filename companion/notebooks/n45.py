"""Notebook 45, membership inference before and after forgetting: Table 1.

Source: FATS, Sections 6.1.3, 6.2.1 and 6.2.5, Tables 1 and 2. Accuracies and precisions of an
attack are shares; a blind attack has one half of both.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from companion import story
from companion.claims import FATS as CLAIMS
from companion.judging.claims import NotRun
from companion.judging.tables import paper_values
from companion.notebooks.fats_shared import NAMES
from companion.plans import Stage
from sflkit.data import federations
from sflkit.fats import membership
from sflkit.fats.config import MembershipConfig
from sflkit.fats.first_uses import LEVELS
from sflkit.fats.methods import METHODS
from sflkit.intervals import mean_interval
from sflkit.runs.keys import config_dict


class Membership(NamedTuple):
    """The frames of the federation that learnt by heart, and of the ordinary ones."""

    overfitted: pd.DataFrame
    ordinary: pd.DataFrame


def membership_settings(**given: Any) -> dict[tuple[str, str], MembershipConfig]:
    """Return ("ordinary", data set) and ("overfitted", first data set) -> config.

    The arguments are notebook 45's parameters but for the seeds. Natural clients come as they are.
    """
    p = SimpleNamespace(**given)
    shared = dict(hidden=p.hidden, local_steps=p.local_steps, batch_size=p.batch_size)
    shared |= dict(forget_share=p.forget_share, n_shadows=p.n_shadows, repeats=p.repeats)
    ordinary = dict(n_clients=p.n_clients, samples_per_client=p.samples_per_client)
    over = dict(n_clients=p.n_clients_over, samples_per_client=p.samples_over)
    whole = dict(n_clients=None, samples_per_client=None)
    settings = {
        ("ordinary", name): MembershipConfig(
            **shared,
            **whole if name in federations.NATURAL else ordinary,
            data=name,
            model=p.model,
            clients_per_round=p.clients_per_round,
            rounds=p.rounds,
            rate=p.rate,
        )
        for name in p.data
    }
    settings["overfitted", p.data[0]] = MembershipConfig(
        **shared,
        **whole if p.data[0] in federations.NATURAL else over,
        data=p.data[0],
        model=p.model_over,
        clients_per_round=p.clients_over,
        rounds=p.rounds_over,
        rate=p.rate_over,
        noise=p.noise,
        levels=LEVELS,
    )
    return settings


def attacks_on(
    *, seeds: list[int], seeds_ordinary: list[int], **given: Any
) -> Generator[Stage, pd.DataFrame, Membership]:
    """Plan notebook 45: mirror pairs where the attack has power, single runs where it has none.

    `given` is what `membership_settings` takes.
    """
    settings, data = membership_settings(**given), given["data"]
    over = settings["overfitted", data[0]]
    pairs = [replace(over, seed=s, mirror=mirror) for s in seeds for mirror in (False, True)]
    overfitted = yield Stage(membership.run, pairs, "mirror pairs")
    plain = [replace(settings["ordinary", name], seed=s) for name in data for s in seeds_ordinary]
    ordinary = yield Stage(membership.run, plain, "ordinary federations")
    return Membership(overfitted, ordinary)


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
    parts["low"] = NotRun("FEMNIST is needed, see data/README.md")
    parts["consistent"] = (fats.to_numpy(), frs.to_numpy())
    parts["others"] = NotRun(
        f"a row counts where the attack wins before forgetting, which was tried on {data} alone"
    )
    return parts


def printed_cells() -> dict[str, dict[str, tuple[float, float]]]:
    """Return Table 1 in per cent: data set -> column such as "accuracy FATS" -> mean, deviation."""
    printed = printed_table()
    return {
        data: {
            f"{what} {METHODS[method].label}": tuple(
                printed[f"{data} {what} {title}{part} (%)"] for part in ("", " standard deviation")
            )
            for what in ("accuracy", "precision")
            for method, title in printed_names().items()
        }
        for data in NAMES
    }


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
