"""Projection onto the simplex by hand, and descent that ends where the exact minimiser is."""

import numpy as np
import pytest

from companion.datastreams.descent import (
    descend_each,
    descend_generalization,
    descend_psi,
    project_simplex,
)
from sflkit.datastreams.psi import minimize_psi


def test_projections_by_hand():
    # (0.6, 0.6): subtract 0.1. (2, 0): subtract 1 from the first, the other stays at 0.
    # (0.5, 0.5, -1): the last is cut, and the others already add up to 1.
    np.testing.assert_allclose(project_simplex([0.6, 0.6]), [0.5, 0.5])
    np.testing.assert_allclose(project_simplex([2, 0]), [1, 0])
    np.testing.assert_allclose(project_simplex([0.5, 0.5, -1]), [0.5, 0.5, 0])


def test_the_projection_is_the_nearest_point():
    rng = np.random.default_rng(0)
    for _ in range(50):
        point = rng.normal(0, 1, 6)
        nearest = project_simplex(point)
        assert nearest.min() >= 0 and nearest.sum() == pytest.approx(1, abs=1e-12)
        others = rng.dirichlet(np.ones(6), 200)
        assert ((others - point) ** 2).sum(axis=1).min() >= ((nearest - point) ** 2).sum() - 1e-12


@pytest.mark.parametrize("ratio", [0.05, 0.5, 5.0])
def test_descent_gets_near_the_exact_minimum_and_not_below(ratio):
    rng = np.random.default_rng(1)
    n, historical = rng.lognormal(0, 1, 8), np.arange(8) < 3
    exact = minimize_psi(n, historical, 1.0, ratio)
    found = min(
        (descend_psi(n, historical, 1.0, ratio, length=step) for step in (0.5, 0.05, 0.005)),
        key=lambda one: one.value,
    )
    assert 1 - 1e-12 <= found.value / exact.value < 1.02
    assert found.p.sum() == pytest.approx(1, abs=1e-9)


def test_many_descents_at_once_are_those_one_by_one():
    rng, historical = np.random.default_rng(3), np.arange(5) < 2
    n = rng.dirichlet(np.ones(5), 4)
    c1, c2 = rng.uniform(0.1, 1, (2, 4))
    one = [
        descend_psi(*given, length=0.05).value
        for given in zip(n, [historical] * 4, c1, c2, strict=True)
    ]
    np.testing.assert_allclose(descend_each(n, historical, c1, c2, 0.05), one, rtol=1e-6)


def test_the_minimum_stays_the_minimum():
    n, historical = np.array([1.0, 2.0, 3.0]), np.array([True, False, False])
    exact = minimize_psi(n, historical, 1.0, 2.0)
    again = descend_psi(n, historical, 1.0, 2.0, start=exact.p, steps=5)
    assert again.value == pytest.approx(exact.value, rel=1e-12)


def test_uniform_is_where_the_generalization_bound_is_least():
    """At p = n the discrepancy is 0 and sum p^2 / N is 1 / N; elsewhere both are larger."""
    counts, rng = np.array([10, 30, 60]), np.random.default_rng(2)
    losses = rng.uniform(0, 1, (20, 3))
    for _ in range(3):
        ended = descend_generalization(losses, counts, 2.0, rng.normal(0, 1, 3))
        assert 0.2 - 1e-12 <= ended <= 0.2 * 1.01
    with pytest.raises(ValueError, match="start"):
        descend_generalization(losses, counts, 2.0, np.zeros(2))
