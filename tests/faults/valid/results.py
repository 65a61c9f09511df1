"""Valid calls of what keeps results."""

from __future__ import annotations

import numpy as np

from sflkit import intervals, randomness, rounding
from sflkit.runs import sweep
from sflkit.sfl import cache_paths, caches
from sflkit.sfl.config import SFLConfig

SMALL = SFLConfig(train=False, rounds=2, n_clients=2, capacity=4, batch_size=2, data="digits")


CALLS = {
    "mean_interval": lambda: (
        intervals.mean_interval,
        dict(sample=np.array([1.0, 2, 4]), confidence=0.9),
    ),
    "difference_interval": lambda: (
        intervals.difference_interval,
        dict(x=np.array([1.0, 2]), y=np.array([3.0, 5]), confidence=0.9, paired=True),
    ),
    "runs_needed": lambda: (
        intervals.runs_needed,
        dict(estimate=intervals.mean_interval([1.0, 2, 4]), low=0.5, high=1.5),
    ),
    "text": lambda: (intervals.text, dict(sample=np.array([1.0, 2, 4]), digits=3, confidence=0.9)),
    "run_many": lambda: (
        lambda **options: sweep.run_many(cache_paths.run, store=None, **options),
        dict(
            configs=[
                SFLConfig(
                    train=False, rounds=2, n_clients=2, capacity=4, batch_size=2, data="digits"
                )
            ],
            jobs=1,
        ),
    ),
    "largest_remainder": lambda: (
        rounding.largest_remainder,
        dict(targets=np.array([1.5, 2.5]), total=4, caps=np.array([5, 5])),
    ),
    "generator": lambda: (
        lambda seed, purpose, key: randomness.generator(seed, purpose, key),
        dict(seed=0, purpose="cache", key=3),
    ),
    "model_seed": lambda: (randomness.model_seed, dict(seed=0)),
    "run_many of a cache": lambda: (
        lambda **brought: sweep.run_many(cache_paths.run, [SMALL], store=None, jobs=1, **brought),
        dict(cache=caches.FIFO),
    ),
}
