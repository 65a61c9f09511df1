"""The plans of notebooks 33 and 34 driven with invented runs, for the tests of both."""

import numpy as np
import pandas as pd

from companion.notebooks import osafl_shared, table2_readings
from sflkit.osafl.config import OSAFLConfig

ONE = {
    "hidden": [8],
    "n_clients": 20,
    "rounds": 8,
    "seeds": [10, 11, 12, 13],
    "features": "synthetic",
    "input_norm": 10.0,
    "allocator": "alternating",
    "genie_steps": 3,
    "test_size": 200,
    "few": 2,
    "norms": [5.0, 10.0],
    "scan_seeds": [0],
    "cnn_rounds": 0,
    "cnn_seeds": [20, 21, 22],
    "squeezenet1_rounds": 0,
    "squeezenet1_seeds": [23, 24],
    "networks": ["FCN"],
    "column_seeds": [40, 41, 42],
    "reading_norms": [5.0, 10.0],
    "reading_rounds": 8,
    "reading_buffers": list(table2_readings.BUFFERS),
    "reading_fednova": list(table2_readings.FEDNOVA),
    "reading_top_k": [1, 2],
    "reading_seed": 100,
    "reading_seeds": [205, 206, 207],
    "reading_test_size": 300,
    "score_seeds": [204, 205, 206, 207],
    "step_rounds": 5,
    "step_norms": [5.0, 10.0],
    "step_printed": [5.0],
    "step_rules": ["m_feddisco", "m_fednova"],
    "step_seeds": [305, 306, 307],
    "step_few": 2,
    "step_fcn_rules": ["osafl"],
    "step_fcn_rounds": 8,
    "genie_curve": [3, 10],
}
TWO = {
    "layers": 3,
    "hidden": 8,
    "embedding": 8,
    "n_clients": 20,
    "rounds": 40,
    "seeds": [10, 11, 12],
    "genie_seeds": [20, 21],
    "top_k": [1, 2],
    "minibatches": 4,
    "capacity": [320, 640],
    "allocator": "alternating",
    "genie_steps": 3,
    "test_size": 200,
    "fcn_hidden": [8],
    "fcn_genie_steps": 3,
    "features": "synthetic",
    "input_norm": 10.0,
}


def invented(config, key):
    """A run whose accuracy rises to a level of its rule and step; nothing is trained."""
    level = {"osafl": 0.6, "genie": 0.65, "m_fednova": 0.1}.get(config.rule, 0.4)
    if config.never_joined == "literal" and config.rule in ("osafl", "m_afa_cd"):
        level = 0.05
    step = config.hyper[osafl_shared.step_name(config.rule)]
    printed = OSAFLConfig(config.rule, model=config.model, dataset=config.dataset).hyper
    off = abs(
        np.log2(step / printed[osafl_shared.step_name(config.rule)]) - 1
    )  # best at twice the step
    level = level - 0.02 * off + 0.001 * (config.seed % 5)
    curve = level * (1 - 0.8 ** np.arange(1, config.rounds + 1))
    return pd.DataFrame(
        {
            "key": key,
            "seed": config.seed,
            "round": np.arange(1, config.rounds + 1),
            "accuracy": curve,
            "loss": 2 + 2 * (1 - curve),
            "best_accuracy": np.maximum.accumulate(curve),
            "best_loss": 2 + 2 * (1 - curve),
            "mean_score": 0.7,
            "diverged": False,
        }
    )


def drive(plan):
    """Carry out a plan with invented runs; return its stages by name, and what it returns."""
    stages, given = {}, None
    while True:
        try:
            stage = plan.send(given)
        except StopIteration as end:
            return stages, end.value
        stages.setdefault(stage.name, []).extend(stage.configs)
        frames = [invented(config, f"{stage.name}{i}") for i, config in enumerate(stage.configs)]
        given = pd.concat(frames, ignore_index=True) if frames else pd.DataFrame()
        given.attrs = {"keys": [f"{stage.name}{i}" for i in range(len(frames))]}
