"""The first rounds of a run, computed anew and compared with what is said of them.

- Integers, words and what follows from counts alone (`COUNTED`) must be equal, the latter in the
  seven digits that are kept: who took part, which samples came, which were kept.
- Trained numbers may differ by `TOLERANCE`, as a share of what is above 1, since another processor
  adds in another order.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd

TOLERANCE = 0.005  # one test image of the smallest test set, 300, may be told otherwise
WHOLE_SECONDS = 2.0
# Floats that no model enters, and those that only a clock does.
COUNTED = {"discrepancy", "square", "p_hist", "rate", "learning_rate", "renewed", "mean_kappa"}
TIMED = {"unlearning_seconds"}
DIGITS = 2e-6  # the most by which two numbers that round to the same seven digits differ


def last_round(run: Callable, record: dict, rounds: int) -> int:
    """Return the round after which an audit stops a run; 0 where it is recomputed whole.

    So is a run of at most `WHOLE_SECONDS`, or without rounds to stop after. The first evaluation is
    reached where that comes later than `rounds`.
    """
    stops = "stop_after" in inspect.signature(run).parameters
    if record["seconds"] <= WHOLE_SECONDS or not stops:
        return 0
    config = record["config"]
    total = config.get("request_round") or config.get("rounds") or config["episodes"]
    return min(max(rounds, config.get("evaluate_every", 1)), total)


def begun(run: Callable, config: Any, last: int) -> pd.DataFrame:
    """Return the rows of a run until a round; of all where that is 0."""
    return run(config, **({"stop_after": last} if last else {}))


def until(frame: pd.DataFrame, last: int) -> pd.DataFrame:
    """Return the rows of a result until a round; all where that is 0."""
    if last:
        frame = frame[frame.filter(["round", "episode"]).iloc[:, 0] <= last]
    return frame.reset_index(drop=True)


def differences(frame: pd.DataFrame, published: pd.DataFrame) -> tuple[str, dict[str, float], bool]:
    """Compare the columns of a published run with those of the recomputed one.

    Returns
    -------
    str
        What differs, in words; "" where nothing does by more than is allowed.
    dict
        Trained column -> the largest difference; inf where one of two numbers is missing.
    bool
        Whether only trained numbers differ, and had begun to at the evaluation before.
    """
    if len(frame) != len(published) or not set(published) <= set(frame):
        return f"{frame.shape} rows and columns in place of {published.shape}", {}, False
    wrong, first, counted = [], len(published), False
    trained = pd.DataFrame(index=published.index)
    for name in published.columns.difference(TIMED, sort=False):
        ours, theirs = frame[name], published[name]
        is_trained = theirs.dtype.kind == "f" and name not in COUNTED
        if is_trained:
            gap = (ours - theirs).abs() / theirs.abs().clip(lower=1)
            trained[name] = gap.mask(ours.isna() != theirs.isna(), np.inf)
            bad = trained[name] > TOLERANCE
        elif theirs.dtype.kind == "f":
            bad = ~np.isclose(ours, theirs, rtol=DIGITS, atol=1e-12, equal_nan=True)
        else:
            bad = ours != theirs
        if np.any(bad):
            row = int(np.argmax(bad))
            wrong.append(f"{name} is {ours[row]} in place of {theirs[row]} in row {row + 1}")
            first, counted = min(first, row), counted or not is_trained
    before = trained[:first].max(axis=1).dropna()
    drifts = bool(wrong) and not counted and len(before) > 0 and before.iloc[-1] > DIGITS
    return "; ".join(wrong), trained.max().fillna(0.0).to_dict(), bool(drifts)
