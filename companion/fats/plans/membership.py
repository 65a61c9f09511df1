"""Which runs notebook 45 needs: membership inference before and after forgetting."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import replace
from typing import NamedTuple

import pandas as pd

from companion.plans import Stage
from sflkit.data import federations
from sflkit.fats import membership
from sflkit.fats.config import MembershipConfig
from sflkit.fats.first_uses import LEVELS


class Membership(NamedTuple):
    """The frames of the federation that learnt by heart, and of the ordinary ones."""

    overfitted: pd.DataFrame
    ordinary: pd.DataFrame


def membership_settings(
    *,
    data: list[str],
    model: str,
    hidden: int,
    n_clients: int,
    samples_per_client: int,
    clients_per_round: int,
    local_steps: int,
    batch_size: int,
    rounds: int,
    rate: float,
    model_over: str,
    n_clients_over: int,
    samples_over: int,
    clients_over: int,
    rounds_over: int,
    rate_over: float,
    noise: float,
    forget_share: float,
    n_shadows: int,
    repeats: int,
) -> dict[tuple[str, str], MembershipConfig]:
    """Return ("ordinary", data set) and ("overfitted", first data set) -> config.

    The arguments are notebook 45's parameters. Natural clients come as they are.
    """
    shared = dict(hidden=hidden, local_steps=local_steps, batch_size=batch_size)
    shared |= dict(forget_share=forget_share, n_shadows=n_shadows, repeats=repeats)
    ordinary = dict(n_clients=n_clients, samples_per_client=samples_per_client)
    over = dict(n_clients=n_clients_over, samples_per_client=samples_over)
    whole = dict(n_clients=None, samples_per_client=None)
    settings = {
        ("ordinary", name): MembershipConfig(
            **shared,
            **whole if name in federations.NATURAL else ordinary,
            data=name,
            model=model,
            clients_per_round=clients_per_round,
            rounds=rounds,
            rate=rate,
        )
        for name in data
    }
    settings["overfitted", data[0]] = MembershipConfig(
        **shared,
        **whole if data[0] in federations.NATURAL else over,
        data=data[0],
        model=model_over,
        clients_per_round=clients_over,
        rounds=rounds_over,
        rate=rate_over,
        noise=noise,
        levels=LEVELS,
    )
    return settings


def attacks_on(
    *,
    seeds: list[int],
    seeds_ordinary: list[int],
    data: list[str],
    model: str,
    hidden: int,
    n_clients: int,
    samples_per_client: int,
    clients_per_round: int,
    local_steps: int,
    batch_size: int,
    rounds: int,
    rate: float,
    model_over: str,
    n_clients_over: int,
    samples_over: int,
    clients_over: int,
    rounds_over: int,
    rate_over: float,
    noise: float,
    forget_share: float,
    n_shadows: int,
    repeats: int,
) -> Generator[Stage, pd.DataFrame, Membership]:
    """Plan notebook 45: mirror pairs where the attack has power, single runs where it has none."""
    settings = membership_settings(
        data=data,
        model=model,
        hidden=hidden,
        n_clients=n_clients,
        samples_per_client=samples_per_client,
        clients_per_round=clients_per_round,
        local_steps=local_steps,
        batch_size=batch_size,
        rounds=rounds,
        rate=rate,
        model_over=model_over,
        n_clients_over=n_clients_over,
        samples_over=samples_over,
        clients_over=clients_over,
        rounds_over=rounds_over,
        rate_over=rate_over,
        noise=noise,
        forget_share=forget_share,
        n_shadows=n_shadows,
        repeats=repeats,
    )
    over = settings["overfitted", data[0]]
    pairs = [replace(over, seed=s, mirror=mirror) for s in seeds for mirror in (False, True)]
    overfitted = yield Stage(membership.run, pairs, "mirror pairs")
    plain = [replace(settings["ordinary", name], seed=s) for name in data for s in seeds_ordinary]
    ordinary = yield Stage(membership.run, plain, "ordinary federations")
    return Membership(overfitted, ordinary)
