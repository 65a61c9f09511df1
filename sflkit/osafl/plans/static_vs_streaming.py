"""Which runs notebook 35 needs, for the notebook and for the queue (`sflkit.results.plans`)."""

from __future__ import annotations

from collections.abc import Generator

import pandas as pd

from sflkit import checks
from sflkit.osafl import centralised
from sflkit.results.plans import Stage


def static_vs_streaming(
    *,
    data: str,
    model: str,
    hidden: int,
    arms: list[str],
    seeds: list[int],
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
) -> Generator[Stage, pd.DataFrame, pd.DataFrame]:
    """Yield the runs of OSAFL's Figure 1, one per arm and seed, and return their frame.

    Arguments are the parameters of notebook 35. `hidden` 0 means the network's own width. With
    other than 100 episodes the rates fall at the same shares of the run as in Appendix A. The
    paper's two arms come first, seed by seed, so that a queue that is cut leaves whole pairs.

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
    order = [(arm, seed) for group in (judged, added) for seed in seeds for arm in group]
    configs = []
    for arm, seed in order:
        size = batch_static if arm == "static" else batch_stream
        own = centralised.appendix_a(arm, episodes) | {"batch_size": size}
        configs.append(centralised.CentralisedConfig(arm=arm, seed=seed, **own, **shared))
    return (yield Stage(centralised.run, configs, "arms", gpu=data != "digits"))
