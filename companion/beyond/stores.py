"""OSAFL on the caches of SFL: what the stores hold, beside what their users ask for in the long
run.

OSAFL's clients keep a FIFO store, which follows every whim of its user. A DRSR cache of the same
size holds the labels in the shares of everything that has arrived. `osafl.training.run` takes such
a cache by `cache=`; here is the distance that explains what it changes.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from sflkit import checks
from sflkit.osafl import video
from sflkit.osafl.clients import Samples, world
from sflkit.osafl.config import OSAFLConfig
from sflkit.sfl.caches import RULES


def long_term_shares(config: OSAFLConfig) -> np.ndarray:
    """Return how often each user asks for each file in the long run, (n_clients, n_files).

    It is the stationary law of the user's Markov chain of requests. Raises ValueError for another
    object than a config.
    """
    checks.instance("config", config, OSAFLConfig)
    w = world(config)
    law = video.request_matrix(w.catalogue, w.users, top_k=config.top_k)
    n = law.shape[1]
    # pi (P - I) = 0 with sum 1, as one least-squares system per user; every chain is irreducible.
    system = np.concatenate([law.swapaxes(1, 2) - np.eye(n), np.ones((len(law), 1, n))], axis=1)
    goal = np.append(np.zeros(n), 1.0)
    shares = np.stack([np.linalg.lstsq(one, goal, rcond=None)[0] for one in system])
    return np.clip(shares, 0, None) / np.clip(shares, 0, None).sum(axis=1, keepdims=True)


def discrepancy(config: OSAFLConfig, rule: str) -> pd.DataFrame:
    """Return the discrepancy of what the stores hold from the long-term shares.

    Source: SFL, Section IV-C, sum over labels of (v - pi)^2, here its mean over the clients.

    Parameters
    ----------
    config : OSAFLConfig
        Only what decides requests and stores matters.
    rule : str
        A name in `sfl.caches.RULES` whose class is built as (capacity, batch_size).

    Returns
    -------
    DataFrame
        One row per round: round (from 1), discrepancy.
    """
    samples = Samples(config, "cpu", RULES[rule].build)
    goal = long_term_shares(config)
    rows = []
    for t in range(1, config.rounds + 1):
        counts = samples.label_counts(t)
        shares = counts / counts.sum(axis=1, keepdims=True)
        rows.append({"round": t, "discrepancy": ((shares - goal) ** 2).sum(axis=1).mean()})
    return pd.DataFrame(rows)
