"""The caches of a streaming-FL run without any learning: what Fig. 5 of SFL is drawn from.

`sflkit.sfl.training.run` keeps accuracy, loss and label counts of each round. Here only the
discrepancy of each round is kept, so that the results behind the published figures stay small
enough to be tracked.
"""

from __future__ import annotations

from collections.abc import Callable

import pandas as pd

from sflkit.sfl import training
from sflkit.sfl.config import SFLConfig
from sflkit.sfl.streams import LabelStream

EXPERIMENT = "sfl-caches"
RESULT_VERSION = training.RESULT_VERSION


def run(
    config: SFLConfig,
    *,
    cache: Callable | None = None,
    stream: LabelStream | Callable | None = None,
    stop_after: int | None = None,
) -> pd.DataFrame:
    """Follow one cache rule for T rounds.

    Parameters
    ----------
    config : SFLConfig
        Its `train` must be False, so that nobody expects a model.
    cache, stream : optional
        Your own rule and stream, as of `training.run`.
    stop_after : int, optional
        The round after which the run ends, as of `training.run`.

    Returns
    -------
    DataFrame, one row per round
        round (from 1) and discrepancy psi_t.

    Raises
    ------
    ValueError
        If config.train is True, or as `training.run`.
    """
    if config.train:
        raise ValueError(
            "train=True must be False here: cache_paths follows the caches only; "
            "sflkit.sfl.training.run trains"
        )
    return training.run(config, cache=cache, stream=stream, stop_after=stop_after)[
        ["round", "discrepancy"]
    ]
