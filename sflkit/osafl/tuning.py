"""What OSAFL's comparison runs: every rule at the printed rates, and every rule with its step size
chosen by one search.

Source: OSAFL, Section V-B, Tables II to V, Appendix D-B; ERRATA 37, 38, 44. The printed server
steps differ by orders of magnitude: with the FCN, OSAFL moves by eta eta-tilde = 7 times a mean of
gradients and M-AFA-CD by 0.2 times. Which rule is better and which step is larger cannot be told
apart then. So each rule also runs at the best of the same multiples of its one step size: the
server's where it has one, else the local rate (`step_name`)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np
import pandas as pd

from sflkit import checks
from sflkit.osafl.config import OSAFLConfig
from sflkit.osafl.rules import RULES

# The options of `RULES` that are a step size of the server; no rule has two of them.
SERVER_STEPS = ("global_rate", "slowdown")


def step_name(rule: str) -> str:
    """Return which field of the config is the step size of `rule` that the search varies.

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
    name = step_name(config.rule)
    return replace(config, **{name: config.hyper[name] * checks.real("factor", factor, above=0)})


def search(arms: Iterable[OSAFLConfig], factors: Sequence[float]) -> list[OSAFLConfig]:
    """Return the runs of a search: every arm at every factor, the factors of an arm together."""
    return [scaled(arm, factor) for arm in arms for factor in factors]


def best_factors(frame: pd.DataFrame, n_arms: int, factors: Sequence[float]) -> list[float]:
    """Return each arm's factor with the highest mean accuracy over the last quarter of the rounds.

    Parameters
    ----------
    frame : DataFrame
        Results of the search's runs, as `sweep.run_many` returns them. A diverged round counts as
        accuracy 0, and a round that was not evaluated does not count.
    n_arms : int
        Number of arms, in the order of `search`.
    factors : sequence of float
        As in the search, all different; of equally good ones the first wins.

    Raises
    ------
    ValueError
        If the frame does not hold one run for every arm and factor.
    """
    n_arms = checks.integer("n_arms", n_arms, 1)
    last = frame[frame["round"] > 0.75 * frame["round"].max()]
    last = last[last["accuracy"].notna() | last["diverged"]]
    score = last["accuracy"].fillna(0).groupby(last["key"], sort=False).mean()
    if len(score) != n_arms * len(factors):
        raise ValueError(
            f"frame holds {len(score)} different runs; {n_arms} arms at {len(factors)} factors "
            f"need {n_arms * len(factors)}"
        )
    return [factors[i] for i in score.to_numpy().reshape(-1, len(factors)).argmax(axis=1)]


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
        config, such as a rule whose best factor is 1.
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


def summary(frame: pd.DataFrame, target: float) -> pd.DataFrame:
    """Return one row per run: what the paper's tables list, and how the run ended.

    Parameters
    ----------
    frame : DataFrame
        Results of `training.run` with the columns of the config and `key`, as `sweep.run_many`
        returns them.
    target : float
        Accuracy in [0, 1].

    Returns
    -------
    DataFrame, index `key`
        rule, never_joined, seed, top_k, model; best and best_loss (0 and NaN if no round was
        finite), final and final_loss (of the last round; NaN if diverged); to_target, the first
        round at or above the target (infinite if there is none); diverged_at, the first round of
        the diverged end (NaN if there is none).
    """
    checks.real("target", target, 0, 1)
    rows = {}
    for key, run in frame.groupby("key", sort=False):
        last = run.iloc[-1]
        reached = run.loc[run["accuracy"] >= target, "round"]
        row = {name: last[name] for name in ("rule", "never_joined", "seed", "top_k", "model")}
        rows[key] = row | {
            "best": np.nan_to_num(last["best_accuracy"]),
            "best_loss": last["best_loss"],
            "final": last["accuracy"],
            "final_loss": last["loss"] if not last["diverged"] else np.nan,
            "to_target": reached.min() if len(reached) else np.inf,
            "diverged_at": run.loc[run["diverged"], "round"].min(),
        }
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis("key")


def by_arm(listed: pd.DataFrame, what: str, **where: object) -> pd.DataFrame:
    """Return a column of `summary` as a table with one row per seed and one column per arm.

    Parameters
    ----------
    listed : DataFrame
        Rows of `summary` with a further column `arm`.
    what : str
        The column.
    **where
        Only rows whose column of that name has that value are used.
    """
    for name, value in where.items():
        listed = listed[listed[name] == value]
    return listed.pivot(index="seed", columns="arm", values=what)
