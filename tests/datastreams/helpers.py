"""What several tests of data streams build on: small problems, federations and configs."""

from dataclasses import replace

import numpy as np
from torch import nn

from sflkit.data.federations import Federation
from sflkit.datastreams.config import DataStreamsConfig

TWO = np.array([True, False])


FOUR = np.array([True, False, True, False])


def two_groups(n_hist, m_hist=25, m_fresh=25):
    """Fractions of clients of equal size within each group, and the mask."""
    historical = np.arange(m_hist + m_fresh) < m_hist
    return np.where(historical, n_hist / m_hist, (1 - n_hist) / m_fresh), historical


def random_problem(rng, size=None):
    size = size or int(rng.integers(2, 12))
    historical = np.zeros(size, dtype=bool)
    historical[rng.permutation(size)[: rng.integers(1, size)]] = True
    return rng.lognormal(0, 1, size), historical


def federation(x, y, sizes, historical, x_test=None, y_test=None, n_classes=2):
    """Consecutive rows to clients of the given sizes; by default every training sample is a test
    sample, of unequal weight.
    """
    x, y = np.asarray(x, np.float32), np.asarray(y, np.int64)
    x_test = x.copy() if x_test is None else np.asarray(x_test, np.float32)
    y_test = y.copy() if y_test is None else np.asarray(y_test, np.int64)
    clients = tuple(np.split(np.arange(sum(sizes)), np.cumsum(sizes)[:-1]))
    weights = np.arange(1.0, len(y_test) + 1)
    return Federation(
        "hand",
        x,
        y,
        clients,
        x_test,
        y_test,
        weights / weights.sum(),
        n_classes,
        np.array(historical),
        digest="0",
    )


def random_federation(sizes, n_historical, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(sum(sizes), 3))
    return federation(
        x, rng.integers(0, 3, sum(sizes)), sizes, np.arange(len(sizes)) < n_historical, n_classes=3
    )


class Zero(nn.Linear):
    def reset_parameters(self):
        nn.init.zeros_(self.weight)
        nn.init.zeros_(self.bias)


CONFIG = DataStreamsConfig(
    arms=("uniform", "p_hist=0.5"),
    rates=(0.1, 0.1),
    seed=5,
    n_clients=4,
    n_historical=2,
    rounds=6,
    local_steps=3,
    batch_size=2,
    evaluate_every=1,
)


HAND = replace(
    CONFIG,
    arms=("p_hist=0.25",),
    rates=(0.1,),
    n_clients=2,
    n_historical=1,
    rounds=2,
    local_steps=1,
    batch_size=9,
)


def loss(logit):
    """Cross-entropy of the test sample x = 1, y = 0 under logits +logit and -logit."""
    return np.log1p(np.exp(-2 * logit))
