"""A rule's one step size, and runs told apart by case.

Source: OSAFL, Section V-B, Appendix D-B. The step size is the server's where a rule has one, else
the local rate (`step_name`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pandas as pd

from sflkit import checks
from sflkit.osafl.config import OSAFLConfig
from sflkit.osafl.rules import RULES

# The options of `RULES` that are a step size of the server; no rule has two of them.
SERVER_STEPS = ("global_rate", "slowdown")


def step_name(rule: str) -> str:
    """Return which field of the config is the step size of `rule`.

    Raises
    ------
    ValueError
        If `rule` is not in `RULES`.
    """
    options = RULES[rule].options
    return next((name for name in SERVER_STEPS if name in options), "rate")


def scaled(config: OSAFLConfig, factor: float = 1.0) -> OSAFLConfig:
    """Return the config with `factor` times its rule's step size, which is then explicit.

    Raises
    ------
    ValueError
        If `factor` is not a number > 0.
    """
    name = step_name(checks.instance("config", config, OSAFLConfig).rule)
    return replace(config, **{name: config.hyper[name] * checks.real("factor", factor, above=0)})


def collect(
    frame: pd.DataFrame, plan: Mapping[tuple, OSAFLConfig], names: Sequence[str]
) -> pd.DataFrame:
    """Return the rows of every case of `plan`, with the parts of the case as further columns.

    Parameters
    ----------
    frame : DataFrame
        Results of `sweep.run_many(run, plan.values())`.
    plan : mapping
        The config of each case, which is a tuple as long as `names`. Several cases may share a
        config.
    names : sequence of str
        What the columns are called.

    Raises
    ------
    ValueError
        If the frame does not hold the runs of the plan.
    """
    runs = [run for _, run in frame.drop_duplicates(["key", "round"]).groupby("key", sort=False)]
    configs = dict.fromkeys(plan.values())
    if len(runs) != len(configs):
        raise ValueError(
            f"frame holds {len(runs)} runs; the plan has {len(configs)} different configs"
        )
    run_of = dict(zip(configs, runs, strict=True))
    return pd.concat(
        [
            run_of[config].assign(**dict(zip(names, case, strict=True)))
            for case, config in plan.items()
        ],
        ignore_index=True,
    )
