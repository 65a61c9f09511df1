"""The caches of a streaming-FL run without any learning: what Fig. 5 of SFL is drawn from.

`sflkit.sfl.training.run` keeps accuracy, loss and label counts a round; here only the per-slot
discrepancy is kept, so that the results behind the published figures stay small enough to be
tracked."""

from __future__ import annotations

import pandas as pd

from sflkit.sfl import training
from sflkit.sfl.config import SFLConfig

EXPERIMENT = "sfl-caches"


RESULT_VERSION = training.RESULT_VERSION


def run(config: SFLConfig) -> pd.DataFrame:
    """Follow one cache rule for T rounds and return round (from 1) and discrepancy psi_t, one row a
    round.

    The config's `train` must be False, so that nobody expects a model; raises ValueError otherwise.
    """
    if config.train:
        raise ValueError(
            "train=True must be False here: sfl_caches follows the caches only; sflkit.sfl.training.run trains"
        )
    return training.run(config)[["round", "discrepancy"]]
