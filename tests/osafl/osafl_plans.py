"""The plans of notebooks 33 and 34 driven with invented runs, for the tests of both."""

import numpy as np
import pandas as pd

from companion.notebooks import table2_readings
from tests import invented

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
    "cnn_rounds": 5,
    "cnn_seeds": [20, 21, 22],
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


def run(config):
    """A run whose accuracy rises to a level of its rule; nothing is trained."""
    level = {"osafl": 0.58, "genie": 0.63, "m_fednova": 0.08}.get(config.rule, 0.38)
    if config.never_joined == "literal" and config.rule in ("osafl", "m_afa_cd"):
        level = 0.03
    rounds = np.arange(1, config.rounds + 1)
    curve = (level + 0.001 * (config.seed % 5)) * (1 - 0.8**rounds)
    frame = pd.DataFrame({"round": rounds, "accuracy": curve, "loss": 4 - 2 * curve})
    frame = frame.assign(best_accuracy=curve, best_loss=4 - 2 * curve, mean_score=0.7)
    return frame.assign(diverged=False)


def drive(plan):
    """Carry out a plan with invented runs; return its stages by name, and what it returns."""
    stages = {}

    def recorded(stage, config):
        stages.setdefault(stage.name, []).append(config)
        return run(config)

    found = invented.drive(plan, recorded)
    return stages, found
