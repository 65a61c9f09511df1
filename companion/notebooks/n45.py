"""Notebook 45, membership inference before and after forgetting: Table 1.

Source: FATS, Sections 6.1.3, 6.2.1 and 6.2.5, Tables 1 and 2. Accuracies and precisions of an
attack are shares; a blind attack has one half of both.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, NamedTuple

import pandas as pd

from companion import story
from companion.claims import FATS as CLAIMS
from companion.judging.claims import NotRun
from companion.plans import Stage
from sflkit.data import federations
from sflkit.fats import membership
from sflkit.fats.config import MembershipConfig
from sflkit.fats.first_uses import LEVELS
from sflkit.fats.methods import METHODS
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


CELL = ["attack", "setting", "data", "level", "state"]
_BLIND = NotRun(
    "the attack has not been shown to see members before forgetting, so that the row would prove "
    "nothing"
)


def results_of(found: Membership) -> pd.DataFrame:
    """Return all rows of the runs with a column `setting`: ordinary or overfitted."""
    ordinary = found.ordinary.assign(setting="ordinary")
    return pd.concat([ordinary, found.overfitted.assign(setting="overfitted")], ignore_index=True)


def by_seed(results: pd.DataFrame) -> pd.DataFrame:
    """Return accuracy and precision on the whole sets for each seed, mean over its mirror pair."""
    return results.groupby([*CELL, "seed"])[["whole_accuracy", "whole_precision"]].mean()


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
