"""Valid calls of what keeps, judges and shows results."""

from __future__ import annotations

import numpy as np

from companion.judging import rules, tables
from companion.judging.claims import Part, Setting
from sflkit import randomness, rounding
from sflkit.results import intervals, sweep
from sflkit.sfl import cache_paths, caches
from sflkit.sfl.config import SFLConfig

FIRST = tables.paper_values("fats").iloc[0].to_dict()
SMALL = SFLConfig(train=False, rounds=2, n_clients=2, capacity=4, batch_size=2, data="digits")


CALLS = {
    "mean_interval": lambda: (
        intervals.mean_interval,
        {"sample": np.array([1.0, 2, 4]), "confidence": 0.9},
    ),
    "difference_interval": lambda: (
        intervals.difference_interval,
        {"x": np.array([1.0, 2]), "y": np.array([3.0, 5]), "confidence": 0.9, "paired": True},
    ),
    "runs_needed": lambda: (
        intervals.runs_needed,
        {"estimate": intervals.mean_interval([1.0, 2, 4]), "low": 0.5, "high": 1.5},
    ),
    "text": lambda: (
        intervals.text,
        {"sample": np.array([1.0, 2, 4]), "digits": 3, "confidence": 0.9},
    ),
    "Above": lambda: (
        rules.Above,
        {"smallest": 0.1, "paired": True, "scale": 1.0},
    ),
    "Near": lambda: (
        rules.Near,
        {"target": 0.5, "within": 0.1, "relative": False, "scale": 1.0},
    ),
    "Similar": lambda: (rules.Similar, {"within": 0.1, "paired": True}),
    "Equal": lambda: (rules.Equal, {"rtol": 1e-9, "atol": 1e-12}),
    "AtMost": lambda: (rules.AtMost, {"rtol": 1e-12}),
    "WithinErrors": lambda: (rules.WithinErrors, {"z": 4.0}),
    "Above.judge": lambda: (
        lambda evidence: rules.Above(0.1).judge(evidence),
        {"evidence": np.array([0.2, 0.3, 0.4])},
    ),
    "Setting": lambda: (Setting, {"level": "full", "differs": ""}),
    "run_many": lambda: (
        lambda **options: sweep.run_many(
            cache_paths.run,
            store=None,
            **options,
        ),
        {
            "configs": [
                SFLConfig(
                    train=False, rounds=2, n_clients=2, capacity=4, batch_size=2, data="digits"
                )
            ],
            "jobs": 1,
        },
    ),
    "largest_remainder": lambda: (
        rounding.largest_remainder,
        {"targets": np.array([1.5, 2.5]), "total": 4, "caps": np.array([5, 5])},
    ),
    "generator": lambda: (
        lambda seed, key: randomness.generator(seed, "cache", key),
        {"seed": 0, "key": 3},
    ),
    "model_seed": lambda: (randomness.model_seed, {"seed": 0}),
    "paper_value": lambda: (
        tables.paper_value,
        {"paper": "fats", "artefact": FIRST["artefact"], "quantity": FIRST["quantity"]},
    ),
    "Part": lambda: (
        Part,
        {"key": "a", "sentence": "It holds.", "rule": rules.Holds(), "role": "paper"},
    ),
    "run_many of a cache": lambda: (
        lambda **brought: sweep.run_many(cache_paths.run, [SMALL], store=None, jobs=1, **brought),
        {"cache": caches.FIFO},
    ),
}
