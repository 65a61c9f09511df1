"""What OSAFL's comparison runs: every rule at the printed rates, and every rule with its step size
chosen by one search.

Source: OSAFL, Section V-B, Tables II to V, Appendix D-B; ERRATA 37, 38, 44. The printed server
steps differ by orders of magnitude: with the FCN, OSAFL moves by eta eta-tilde = 7 times a mean of
gradients and M-AFA-CD by 0.2 times. Which rule is better and which step is larger cannot be told
apart then. So each rule also runs at the best multiple of its one step size: the server's where it
has one, else the local rate (`step_name`). The best is the one with the least loss over the last
quarter of a short run; a multiple at the end of the grid, or one that is no better than a constant
guess, is refused, and the grid grows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

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
    name = step_name(checks.instance("config", config, OSAFLConfig).rule)
    return replace(config, **{name: config.hyper[name] * checks.real("factor", factor, above=0)})


class Choice(NamedTuple):
    """What a search chose for one rule.

    Attributes
    ----------
    factor : float
        Of the rule's one step size.
    loss : float
        Its logarithm, mean over the last quarter of the rounds.
    refused : str
        Why the rule is not compared at this factor: "edge" (a longer or shorter step might be
        better still), "guess" (no better than a prediction that is always the same), or "".
    """

    factor: float
    loss: float
    refused: str


def choose(losses: Mapping[float, float], guess: float) -> Choice:
    """Return the factor with the least loss, and whether it may be compared.

    Parameters
    ----------
    losses : mapping
        Factor -> `measures.late_log_loss` of its run, at least three factors; of equally good ones
        the smaller wins.
    guess : float
        The loss of a constant guess, `clients.constant_guess`, in nats.

    Raises
    ------
    ValueError
        For fewer than three factors, or a guess that is no number > 0.
    """
    guess = checks.real("guess", guess, above=0)
    grid = sorted(checks.instance("losses", losses, Mapping))
    if len(grid) < 3:
        raise ValueError(f"losses holds the factors {grid}; there must be three at least")
    factor = min(grid, key=lambda factor: losses[factor])
    edge = "edge" if factor in (grid[0], grid[-1]) else ""
    refused = edge if losses[factor] < np.log(guess) else "guess"
    return Choice(factor, float(losses[factor]), refused)


def grown(grid: Iterable[float], choice: Choice, low: float, high: float) -> list[float]:
    """Return the factors that a search still has to try after `choice` was refused.

    The grid grows by half the smallest or twice the largest factor, on the side where the best one
    lies; where nothing beats a constant guess, towards longer steps. It ends at `low` and `high`,
    both included.
    """
    if not choice.refused:
        return []
    grid = sorted(grid)
    shorter = choice.refused == "edge" and choice.factor == grid[0]
    factor = grid[0] / 2 if shorter else grid[-1] * 2
    return [factor] if low <= factor <= high else []


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
