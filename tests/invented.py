"""Runs that nobody computed: what tests of evidence share, to see which way a claim is judged."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Generator, Mapping
from typing import Any

import numpy as np
import pandas as pd

from companion import plans
from companion.judging.claims import Claim, Setting
from sflkit.runs.keys import canonical, config_dict, result_key


def drive(plan: Generator, invented: Callable[[plans.Stage, Any], pd.DataFrame]) -> Any:
    """Carry out a plan with invented runs and return what the plan returns.

    `invented(stage, config)` gives the rows of one run; fields of its config and its key become
    columns, as in a sweep.
    """
    given = None
    while isinstance(stage := plans.next_stage(plan, given), plans.Stage):
        runs = [
            invented(stage, config).assign(**_columns(config), key=result_key(stage.run, config))
            for config in stage.configs
        ]
        given = pd.concat(runs, ignore_index=True) if runs else plans.no_runs()
    return stage.value


def _columns(config: Any) -> dict[str, Any]:
    return {
        name: canonical(value) if isinstance(value, list | dict) else value
        for name, value in config_dict(config).items()
    }


def noise(config: Any, size: int) -> np.ndarray:
    """Return noise of a few thousandths, (size,), that no two configs share."""
    return 0.002 * np.random.default_rng(zlib.crc32(repr(config).encode())).standard_normal(size)


def swapped(frame: pd.DataFrame, column: str, a: Any, b: Any) -> pd.DataFrame:
    """Return the frame in which two arms, or two other values of a column, change their places."""
    return frame.assign(**{column: frame[column].replace({a: b, b: a})})


def answers(claim: Claim, evidence: Mapping[str, Any]) -> dict[str, str]:
    """Return part -> answer of a claim that is judged by some evidence."""
    verdict = claim.judge(evidence, setting=Setting("full"))
    return {answer.part.key: answer.judged.answer for answer in verdict.answers}
