"""Which runs the notebooks of SFL's training figures need (`companion.plans`).

The arguments of a plan have the names of its notebook's parameters.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import replace
from typing import NamedTuple

import pandas as pd

from companion.plans import Stage
from companion.sfl import label_only
from companion.sfl.label_only import LabelOnlyConfig
from sflkit.sfl import training
from sflkit.sfl.config import SFLConfig

RULES = ("full", "full_refreshed", "drsr", "srsr", "fifo", "lazy")
# With caches that fill by appending only what that reading changes is run.
APPENDED = ("drsr", "fifo", "lazy")
LABELLED = ("full", "drsr", "srsr", "fifo", "lazy")


class Comparison(NamedTuple):
    """Runs of Fig. 4: one frame a panel, "a" and "b", with caches that are full at the start; panel
    (a) with caches that fill by appending; and those of labels alone.
    """

    full: dict[str, pd.DataFrame]
    append: pd.DataFrame
    labels: pd.DataFrame


def comparison(
    *,
    data_a: str,
    data_b: str,
    model: str,
    model_b: str,
    rate_a: float,
    rate_b: float,
    rounds: int,
    rounds_b: int,
    seeds: Sequence[int],
    seeds_b: Sequence[int],
    capacity: int,
    batch_size: int,
    theta: float,
    classes_per_client: int,
    evaluate_every: int,
    label_seeds: Sequence[int],
    label_rounds: int,
) -> Generator[Stage, pd.DataFrame, Comparison]:
    """Plan notebook 12: the rules on two data sets, and with labels as the only difference.

    A label seed is a world and a path of its own.
    """
    labelled = LabelOnlyConfig(
        start="full", capacity=300, batch_size=150, theta=theta, rounds=label_rounds
    )
    labels = yield Stage(
        label_only.run,
        [replace(labelled, rule=r, seed=s, world=s) for s in label_seeds for r in LABELLED],
        "labels alone",
    )
    base = SFLConfig(
        capacity=capacity,
        batch_size=batch_size,
        theta=theta,
        classes_per_client=classes_per_client,
        evaluate_every=evaluate_every,
    )
    a = replace(base, data=data_a, model=model, local_rate=rate_a, rounds=rounds)
    b = replace(base, data=data_b, model=model_b, local_rate=rate_b, rounds=rounds_b)
    full = {}
    for panel, config, own in (("a", a, seeds), ("b", b, seeds_b)):
        full[panel] = yield Stage(
            training.full_start,
            [replace(config, rule=r, seed=s) for s in own for r in RULES],
            f"panel {panel}",
            gpu=True,
        )
    append = yield Stage(
        training.run,
        [replace(a, rule=r, seed=s) for s in seeds for r in APPENDED],
        "panel a, appending",
        gpu=True,
    )
    return Comparison(full, append, labels)


class Sensitivity(NamedTuple):
    """Runs of Figs. 6 and 8 (labels alone) and of Fig. 7 (cache size)."""

    labels: pd.DataFrame
    sizes: pd.DataFrame


def sensitivity(
    *,
    data: str,
    model: str,
    rate: float,
    rounds: int,
    seeds: Sequence[int],
    capacity: int,
    small_capacity: int,
    few: float,
    many: float,
    theta: float,
    thetas: Sequence[float],
    evaluate_every: int,
    worlds: Sequence[int],
    paths_of_each: Sequence[int],
    label_capacity: int,
    label_rounds: int,
) -> Generator[Stage, pd.DataFrame, Sensitivity]:
    """Plan notebook 13: arrivals and SRSR's weight by labels alone, cache size by training.

    `few` and `many` are B_s / B. With labels alone, every world meets every path.
    """
    base = LabelOnlyConfig(start="full", capacity=label_capacity, rounds=label_rounds)
    weights = sorted({theta, *thetas})
    arms = [("drsr", theta), *(("srsr", value) for value in weights)]
    labels = yield Stage(
        label_only.run,
        [
            replace(base, rule=r, theta=value, batch_size=arrivals(share, label_capacity), **where)
            for where in ({"world": w, "seed": s} for w in worlds for s in paths_of_each)
            for share in (few, many)
            for r, value in arms
        ],
        "labels alone",
    )
    trained = SFLConfig(
        data=data,
        model=model,
        local_rate=rate,
        rounds=rounds,
        theta=theta,
        evaluate_every=evaluate_every,
    )
    sizes = yield Stage(
        training.full_start,
        [
            replace(trained, rule=r, seed=s, capacity=size, batch_size=arrivals(few, size))
            for s in seeds
            for r in ("drsr", "srsr")
            for size in (small_capacity, capacity)
        ],
        "cache size",
        gpu=True,
    )
    return Sensitivity(labels, sizes)


def arrivals(share: float, capacity: int) -> int:
    """Return B_s for a share B_s / B of the cache, at least one sample."""
    return max(1, round(share * capacity))


class Superclasses(NamedTuple):
    """Runs of Fig. 10, of the model that is judged and of another one beside it.

    `by_network` says whether the judged model learns its features and the other one is linear on
    features that stay fixed, or the other way round.
    """

    judged: pd.DataFrame
    beside: pd.DataFrame
    by_network: bool


def superclasses(
    *,
    data: str,
    model: str,
    width: float,
    classes_per_client: int,
    rate: float,
    rounds: int,
    seeds: Sequence[int],
    beside_data: str,
    beside_model: str,
    beside_rate: float,
    beside_rules: Sequence[str],
    beside_seeds: Sequence[int],
    capacity: int,
    batch_size: int,
    theta: float,
    evaluate_every: int,
) -> Generator[Stage, pd.DataFrame, Superclasses]:
    """Plan notebook 15: the rules on superclasses, with a network and with a linear model.

    One of the two is judged by all rules, the other one stands beside it, with some of them. The
    linear model is trained on features of the images that the network sees.

    Raises
    ------
    ValueError
        If not exactly one of the two models is linear, the images are not the same, or DRSR or LAZY
        is not run with both.
    """
    if (model == "linear") == (beside_model == "linear"):
        raise ValueError(f"one of model={model!r} and beside_model={beside_model!r} must be linear")
    if data.removesuffix("-patches") != beside_data.removesuffix("-patches"):
        raise ValueError(f"data={data!r} and beside_data={beside_data!r} must be the same images")
    if missing := {"drsr", "lazy"} - set(beside_rules):
        raise ValueError(f"beside_rules={list(beside_rules)} must have {sorted(missing)}")
    base = SFLConfig(
        data=data,
        superclasses=True,
        model=model,
        width=width,
        local_rate=rate,
        rounds=rounds,
        capacity=capacity,
        batch_size=batch_size,
        theta=theta,
        classes_per_client=classes_per_client,
        evaluate_every=evaluate_every,
    )
    other = replace(base, data=beside_data, model=beside_model, local_rate=beside_rate)
    frames = []
    for config, chosen, rules, name in (
        (base, seeds, RULES, "judged"),
        (other, beside_seeds, beside_rules, "beside"),
    ):
        configs = [replace(config, rule=r, seed=s) for s in chosen for r in rules]
        frame = yield Stage(training.full_start, configs, name, gpu=True)
        frames.append(frame)
    return Superclasses(*frames, by_network=model != "linear")
