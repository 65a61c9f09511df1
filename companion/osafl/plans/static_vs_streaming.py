"""Which runs notebook 35 needs, for the notebook and for `make paper` (`companion.plans`)."""

from __future__ import annotations

from collections.abc import Generator
from typing import NamedTuple

import pandas as pd

from companion.plans import Stage
from sflkit import checks
from sflkit.osafl import centralised


class StaticVsStreaming(NamedTuple):
    """The runs of Fig. 1's arms, and those of frozen and time-varying stores on other seeds."""

    arms: pd.DataFrame
    frozen: pd.DataFrame


def static_vs_streaming(
    *,
    data: str,
    model: str,
    hidden: int,
    arms: list[str],
    seeds: list[int],
    frozen_seeds: list[int],
    episodes: int,
    n_clients: int,
    alpha: float,
    capacity_low: int,
    capacity_high: int,
    max_arrivals: int,
    arrival_low: float,
    arrival_high: float,
    batch_static: int,
    batch_stream: int,
    rate: float,
    decay: float,
) -> Generator[Stage, pd.DataFrame, StaticVsStreaming]:
    """Yield the runs of OSAFL's Figure 1, one per arm and seed, and those of frozen stores.

    Arguments are the parameters of notebook 35. `hidden` 0 means the network's own width. With
    other than 100 episodes the rates fall at the same shares of the run as in Appendix A. The
    paper's two arms come first, seed by seed, so that a sweep that is cut leaves whole pairs.

    Raises
    ------
    ValueError
        If an arm is unknown or named twice, or the paper's two are not both there.
    """
    for arm in arms:
        checks.choice("arms", arm, centralised.ARMS)
    if len(set(arms)) < len(arms) or not {"static", "time_varying"} <= set(arms):
        raise ValueError(
            f"arms={arms} must be different ones, and static and time_varying among them"
        )
    shared = {
        "data": data,
        "model": model,
        "hidden": hidden or None,
        "episodes": episodes,
        "n_clients": n_clients,
        "alpha": alpha,
        "capacity_low": capacity_low,
        "capacity_high": capacity_high,
        "max_arrivals": max_arrivals,
        "arrival_low": arrival_low,
        "arrival_high": arrival_high,
        "rate": rate,
        "decay": decay,
    }
    judged = ["static", "time_varying"]
    added = [arm for arm in arms if arm not in judged]

    def config(arm: str, seed: int) -> centralised.CentralisedConfig:
        size = batch_static if arm == "static" else batch_stream
        own = centralised.appendix_a(arm, episodes) | {"batch_size": size}
        return centralised.CentralisedConfig(arm=arm, seed=seed, **own, **shared)

    order = [(arm, seed) for group in (judged, added) for seed in seeds for arm in group]
    stores = [(arm, seed) for seed in frozen_seeds for arm in ("frozen", "time_varying")]
    frames = []
    for pairs, name in ((order, "arms"), (stores, "frozen stores")):
        configs = [config(arm, seed) for arm, seed in pairs]
        frame = yield Stage(centralised.run, configs, name, gpu=data != "digits")
        frames.append(frame)
    return StaticVsStreaming(*frames)
