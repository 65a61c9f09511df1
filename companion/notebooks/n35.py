"""Notebook 35, static against streaming data: runs and evidence.

Source: OSAFL, Section I, Fig. 1, Appendix A.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any

import numpy as np
import pandas as pd

from companion.plans import Stage
from sflkit.osafl import centralised
from sflkit.osafl.centralised import CentralisedConfig

PAIR = ("static", "time_varying")  # the paper's
STORES = ("frozen", "time_varying")
NAMES = {
    "static": "static",
    "static_matched": "static, matched",
    "frozen": "frozen stores",
    "kept": "nothing removed",
    "time_varying": "time-varying",
}


def static_vs_streaming(
    *,
    seeds: list[int],
    frozen_seeds: list[int],
    batch_static: int,
    batch_stream: int,
    **shared: Any,
) -> Generator[Stage, pd.DataFrame, tuple[pd.DataFrame, pd.DataFrame]]:
    """Yield the runs of OSAFL's Figure 1, one per arm and seed, and those of frozen stores.

    Returns the runs of the paper's pair, and those of frozen and time-varying stores on others.

    Arguments are the parameters of notebook 35. `hidden` 0 means the network's own width. With
    other than 100 episodes the rates fall at the same shares of the run as in Appendix A.
    """
    shared["hidden"] = shared["hidden"] or None

    def config(arm: str, seed: int) -> CentralisedConfig:
        size = batch_static if arm == "static" else batch_stream
        own = centralised.appendix_a(arm, shared["episodes"]) | {"batch_size": size}
        return CentralisedConfig(arm=arm, seed=seed, **own, **shared)

    frames = []
    for name, arms, chosen in (("arms", PAIR, seeds), ("frozen stores", STORES, frozen_seeds)):
        configs = [config(arm, seed) for seed in chosen for arm in arms]
        frame = yield Stage(centralised.run, configs, name, gpu=shared["data"] != "digits")
        frames.append(frame)
    return frames[0], frames[1]


def scores(frame: pd.DataFrame, episodes: int, test_size: int) -> pd.DataFrame:
    """Return what is judged of each run, one row per seed and arm.

    Parameters
    ----------
    frame : DataFrame
        Rows of `centralised.run`: one per episode, arm and seed.
    episodes : int
    test_size : int
        Test images; half of one is added to `instability`, whose median can be 0 of a few hundred.

    Returns
    -------
    DataFrame
        Indexed by (seed, arm). accuracy and loss: means over the last tenth of the episodes;
        instability: median absolute change of the accuracy from one episode to the next, after the
        first quarter; best: best accuracy; steps: SGD steps; seen: different samples used.
    """
    by = ["seed", "arm"]
    late = frame[frame["episode"] > 0.9 * episodes].groupby(by)[["accuracy", "loss"]].mean()
    change = frame.groupby(by)["accuracy"].diff().abs()
    settled = frame.assign(change=change)[frame["episode"] > 0.25 * episodes]
    late["instability"] = settled.groupby(by)["change"].median() + 0.5 / test_size
    whole = {"best": ("accuracy", "max"), "steps": ("steps", "sum"), "seen": ("n_seen", "max")}
    return late.join(frame.groupby(by).agg(**whole))


def mean_scores(found: pd.DataFrame, arms: Sequence[str]) -> pd.DataFrame:
    """Return the means of `scores` over the seeds, one row per arm."""
    return found.groupby("arm").mean().loc[list(arms)].rename(index=NAMES).round(4)


def evidence(pair: pd.DataFrame, stores: pd.DataFrame) -> dict[str, dict[str, Any]]:
    """Return the evidence of `osafl-fig1` and `osafl-frozen` from `scores` of their runs."""
    accuracy, loss, instability = (
        pair[what].unstack("arm") for what in ("accuracy", "loss", "instability")
    )
    held = stores["accuracy"].unstack("arm")
    return {
        "osafl-fig1": {
            "accuracy": (accuracy["static"], accuracy["time_varying"]),
            "loss": (np.log(loss["time_varying"]), np.log(loss["static"])),
            "instability": (np.log(instability["time_varying"]), np.log(instability["static"])),
        },
        "osafl-frozen": {"accuracy": (held["time_varying"], held["frozen"])},
    }
