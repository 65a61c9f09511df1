"""Plans of notebooks 10, 11 and 14: which caches are followed, and which problems are trained.

Each takes the parameters of its notebook (`companion.plans`).
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import replace

import pandas as pd

from companion.plans import Stage
from companion.sfl import toy_problem
from companion.sfl.toy_problem import SyntheticConfig
from sflkit.sfl import cache_paths, discrepancy
from sflkit.sfl.config import SFLConfig
from sflkit.sfl.discrepancy import DiscrepancyConfig


def cache_configs(rules: list[str], seeds: list[int], **settings) -> list[SFLConfig]:
    """Return one config for each rule and seed; `settings` are other fields of SFLConfig."""
    return [
        SFLConfig(train=False, rule=rule, seed=seed, **settings)
        for rule in dict.fromkeys(rules)
        for seed in seeds
    ]


def streams_and_caches(
    *,
    seeds: list[int],
    rounds: int,
    rules: list[str],
    n_clients: int,
    classes_per_client: int,
    n_states: int,
    temperature: float,
    capacity: int,
    batch_size: int,
    theta: float,
) -> Generator[Stage, pd.DataFrame, pd.DataFrame]:
    """Notebook 10: every rule on every seed's streams."""
    settings = dict(
        rounds=rounds,
        n_clients=n_clients,
        classes_per_client=classes_per_client,
        n_states=n_states,
        temperature=temperature,
        capacity=capacity,
        batch_size=batch_size,
        theta=theta,
    )
    return (yield Stage(cache_paths.run, cache_configs(rules, seeds, **settings), "caches"))


def discrepancy_bounds(
    *,
    seed: int,
    n_clients: int,
    classes_per_client: int,
    temperature: float,
    batch_size: int,
    cache_rounds: int,
    theta: float,
    rounds: int,
    sizes: list[int],
    repeats: int,
    parts: int,
) -> Generator[Stage, pd.DataFrame, pd.DataFrame]:
    """Notebook 11: four rules over rounds, FIFO and DRSR over cache sizes."""
    config = DiscrepancyConfig(
        seed=seed,
        n_clients=n_clients,
        classes_per_client=classes_per_client,
        temperature=temperature,
        batch_size=batch_size,
        cache_rounds=cache_rounds,
        theta=theta,
        rounds=rounds,
        repeats=repeats,
    )
    settings = [replace(config, rule=rule) for rule in discrepancy.RULES]
    short = replace(config, rounds=max(sizes))
    others = [m for m in sizes if m != cache_rounds]
    settings += [replace(short, rule="fifo", cache_rounds=m) for m in others]
    settings += [replace(short, rule="drsr", cache_rounds=m) for m in others if 5 <= m <= 20]
    runs = [replace(c, part=p) for c in settings for p in range(parts)]
    return (yield Stage(discrepancy.run, runs, "caches"))


def convergence(
    *,
    seed: int,
    n_clients: int,
    n_classes: int,
    temperature: float,
    batch_size: int,
    cache_rounds: int,
    theta: float,
    rounds: int,
    local_steps: int,
    local_rate: float,
    global_rate: float,
    repeats: int,
    parts: int,
) -> Generator[Stage, pd.DataFrame, pd.DataFrame]:
    """Notebook 14: three rules on the problem that meets every assumption."""
    config = SyntheticConfig(
        seed=seed,
        n_clients=n_clients,
        n_classes=n_classes,
        classes_per_client=n_classes,
        temperature=temperature,
        batch_size=batch_size,
        cache_rounds=cache_rounds,
        theta=theta,
        rounds=rounds,
        local_steps=local_steps,
        local_rate=local_rate,
        global_rate=global_rate,
        repeats=repeats,
    )
    runs = [replace(config, rule=r, part=p) for r in toy_problem.RULES for p in range(parts)]
    return (yield Stage(toy_problem.run, runs, "training"))
