"""Descent ends where the exact minimisers are: that of psi, and that of the bound (14)."""

import numpy as np

from companion.notebooks import n20, n23
from sflkit.datastreams.psi import minimize_psi


def test_descent_gets_near_the_exact_minimum_and_not_below():
    rng, ratios = np.random.default_rng(1), np.array([0.05, 0.5, 5.0])
    n, historical = rng.dirichlet(np.ones(8), len(ratios)), np.arange(8) < 3
    ended = [
        n20.descend_each(n, historical, np.ones(3), ratios, step) for step in (0.5, 0.05, 0.005)
    ]
    exact = [
        minimize_psi(one, historical, 1.0, c2).value for one, c2 in zip(n, ratios, strict=True)
    ]
    found = np.min(ended, axis=0) / exact
    assert (found >= 1 - 1e-12).all() and (found < 1.02).all()


def test_uniform_is_where_the_generalization_bound_is_least():
    """At p = n the discrepancy is 0 and sum p^2 / N is 1 / N; elsewhere both are larger."""
    counts, rng = np.array([10, 30, 60]), np.random.default_rng(2)
    losses = rng.uniform(0, 1, (20, 3))
    for _ in range(3):
        ended = n23.descend_generalization(losses, counts, 2.0, rng.normal(0, 1, 3))
        assert 0.2 - 1e-12 <= ended <= 0.2 * 1.01
