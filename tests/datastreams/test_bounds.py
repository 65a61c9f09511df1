"""Bounds on both errors: hand values, limits, enumeration, and where the print fails (ERRATA)."""

import math
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from companion.notebooks.case_study import sigma_bar2_case_study
from sflkit.datastreams.bounds import (
    discrepancy_bound,
    drift_constants,
    generalization_bound,
    gradient_bound,
    lemma42,
    max_discrepancy,
    optimization_bound,
    remark1,
    sigma_bar2,
    sigma_bar2_bound,
    weighted_discrepancy,
)
from sflkit.datastreams.importance import effective_samples


def test_gradient_bounds_by_hand():
    assert gradient_bound(2, 4) == 4  # sqrt(2 * 2 * 4)
    assert remark1(2, 4) == (8, 8)
    # ERRATA 26: 2 sqrt(2 L B) = 8, printed 2 sqrt(2) L B = 22.6
    assert remark1(2, 4).sigma0 != pytest.approx(2 * math.sqrt(2) * 8)
    # a quadratic L theta^2 / 2 on [-1, 1] reaches it: gradient L, B = L/2, sqrt(2 L L/2) = L
    assert gradient_bound(3, 1.5) == 3
    # a linear loss on [0, 1] is L-smooth for every L > 0 with B = 1 and gradient 1: it is negative
    # outside, Lemma B.1 fails
    assert gradient_bound(1e-4, 1) < 1


def test_lemma42_and_its_equality_case():
    assert lemma42([[1, 1], [1]]) == (pytest.approx(3), 3, True)
    # ERRATA 29: sizes 1 and 3 with p = (1/2, 1/2), equal inside each client: 1 / (1/4 + 3/36) = 3 <
    # 4
    assert lemma42([[1 / 2], [1 / 6, 1 / 6, 1 / 6]]) == (pytest.approx(3), 4, False)
    assert lemma42(np.ones((2, 5))).attained and lemma42([0.2, 0.2]).samples == 2


@given(st.integers(0, 2**32 - 1))
@settings(max_examples=25)
def test_n_eff_lies_between_one_and_n(seed):
    w = np.random.default_rng(seed).integers(0, 4, 6) + np.array([1, 0, 0, 0, 0, 0])
    exact = Fraction(int(w.sum()) ** 2, int((w**2).sum()))
    found = lemma42(w)
    assert found.effective == pytest.approx(float(exact)) and 1 <= exact <= 6
    assert found.attained is (exact == 6)


def test_discrepancies_by_hand():
    losses = [[0.0, 1.0, 0.5], [0.2, 0.2, 0.9]]  # two hypotheses, three clients
    assert max_discrepancy(losses) == 1
    # alpha - p = (0.5, -0.25, -0.25): |-0.25 - 0.125| = 0.375 and |0.1 - 0.05 - 0.225| = 0.175
    assert weighted_discrepancy(losses, [0.75, 0.25, 0], [0.25, 0.5, 0.25]) == pytest.approx(0.375)
    assert discrepancy_bound(1.0, [0.75, 0.25, 0], [0.25, 0.5, 0.25]) == pytest.approx(1)
    assert weighted_discrepancy(losses, [0.2, 0.3, 0.5], [0.2, 0.3, 0.5]) == 0


@given(st.integers(0, 2**32 - 1))
@settings(max_examples=30)
def test_discrepancy_bound_is_twice_what_is_needed(seed):
    rng = np.random.default_rng(seed)
    losses, (target, p) = rng.random((5, 4)), rng.dirichlet(np.ones(4), 2)
    exact, bound = (
        weighted_discrepancy(losses, target, p),
        discrepancy_bound(max_discrepancy(losses), target, p),
    )
    assert exact <= bound / 2 + 1e-12
    # two clients reach the half: |a - p| (1, -1) on losses (0, 1)
    assert (
        weighted_discrepancy([[0, 1]], [1, 0], [0, 1])
        == 1
        == discrepancy_bound(1, [1, 0], [0, 1]) / 2
    )


def test_generalization_bound_by_hand():
    # N / Pdim = e^3: 5 * 2 * sqrt(4 / 25 * (1 + 3)) = 8, plus disc 0.5
    bound = generalization_bound(
        loss_bound=2, pseudo_dim=100 / math.e**3, n_samples=100, effective=25, discrepancy=0.5
    )
    assert bound.capacity == pytest.approx(10 * math.sqrt(100 / math.e**3 / 25 * 4))
    assert bound.total == pytest.approx(bound.capacity + 0.5) and bound.discrepancy == 0.5
    worse = generalization_bound(
        loss_bound=2, pseudo_dim=100 / math.e**3, n_samples=100, effective=5, discrepancy=0.5
    )
    assert worse.capacity == pytest.approx(bound.capacity * math.sqrt(5))


@pytest.mark.parametrize(
    "sample_importance", [(1,) * 12, (4, 1, 1, 1, 1, 1, 1, 1, 1), (5, 5, 1, 1)]
)
def test_generalization_bound_holds_for_thresholds(sample_importance):
    # 0-1 loss of thresholds on N uniform points: VC dimension 1, so 2 is a fair Pdim; sup |F -
    # weighted empirical F| is a weighted Kolmogorov distance. The bound exceeds it by far,
    # Massart's version 2 sqrt(2 log(2 (N+1)) / N_eff) less so.
    w = np.array(sample_importance) / sum(sample_importance)
    x, rng = None, np.random.default_rng(0)
    gaps = []
    for _ in range(400):
        x = rng.random(len(w))
        order = np.argsort(x)
        steps = np.concatenate([[0], np.cumsum(w[order])])
        gaps.append(max(np.abs(steps[1:] - x[order]).max(), np.abs(steps[:-1] - x[order]).max()))
    effective = effective_samples(w)
    massart = 2 * math.sqrt(2 * math.log(2 * (len(w) + 1)) / effective)
    bound = generalization_bound(
        loss_bound=1, pseudo_dim=2, n_samples=len(w), effective=effective, discrepancy=0
    )
    assert np.mean(gaps) < massart < bound.total


def test_hoeffding_step_of_the_proof_is_false():
    # (42), one sample of importance 1 and |l - l'| = 1: P(|+-1| >= 1) = 1, printed 2 exp(-2) =
    # 0.27; the right exponent is N_eff rho^2 / 2 (a range of 2 p, not p): 2 exp(-1/2) = 1.21
    assert 2 * math.exp(-2) < 1 <= 2 * math.exp(-1 / 2)


def test_optimization_bound_by_hand():
    # G = sqrt(2 * 0.25 * 2) = 1, E = 2: sqrt(2 (1 - 1/2)) = 1; C1 = 2.5 + 0.25 * 2 = 3; C2 = 2 / 16
    # / 2 = 1/16
    assert drift_constants(
        smoothness=0.25, loss_bound=2, diameter=2, local_steps=2
    ) == pytest.approx((3, 1 / 16))
    # sigma = 1/2, T = 16: eta' = 1/4; bias 1; start (1/16) 4 / (1/2) = 1/2; (1/4)(1/4); 3/4 +
    # 1/64/16
    setting = dict(smoothness=0.25, loss_bound=2, diameter=2, local_steps=2, rounds=16)
    bound = optimization_bound(sigma_bar=0.5, **setting)
    assert bound[:4] == pytest.approx((1, 0.5, 1 / 16, 0.75 + 1 / 1024)) and bound.rate == 0.25
    assert bound.total == pytest.approx(sum(bound[:4]))
    # sigma = 2: eta' = 1/8, so that the start doubles; (108) has it constant
    wide = optimization_bound(sigma_bar=2, **setting)
    assert wide.rate == 0.125
    assert wide.start == pytest.approx(1)
    assert wide.variability == pytest.approx(0.5)
    same = optimization_bound(sigma_bar=0.5, **setting, rate=1 / 8, first_weight=1 / 8)
    assert same.rate == 0.25 and same.start == pytest.approx(2 * bound.start)


def test_optimization_bound_is_gradient_descents_for_one_step_and_no_variability():
    # E = 1, sigma = 0: D^2 / (2 eta T) + 5/2 G^2 eta, and only the bias survives T to infinity
    bound = optimization_bound(
        sigma_bar=0, smoothness=2, loss_bound=1, diameter=3, local_steps=1, rounds=100
    )
    assert bound.total == pytest.approx(9 / 2 / 10 + 2.5 * 4 / 10) and bound.bias == 0
    late = optimization_bound(
        sigma_bar=0.3, smoothness=2, loss_bound=1, diameter=3, local_steps=5, rounds=10**12
    )
    assert late.total == pytest.approx(late.bias, rel=1e-4) and late.bias == pytest.approx(0.9)


def test_sigma_bar_by_hand():
    # q = (1/4, 3/4), gradients 0 and 4: mean 3, 1/4 * 9 + 3/4 * 1 = 3
    assert sigma_bar2([[0.0], [4.0]], [0.25, 0.75]) == pytest.approx(3)
    # a second point with twice the difference takes the maximum: 12
    assert sigma_bar2([[[0.0], [0.0]], [[4.0], [8.0]]], [0.25, 0.75]) == pytest.approx(12)
    assert sigma_bar2(np.ones((5, 3, 2)), np.full(5, 0.2)) == 0


def test_lemma_b5_by_hand():
    # q = (1/2, 1/2), p^(1) = (1, 0), p^(2) = (0, 1): p = (1/2, 1/2), sum of squares 1/2 in both
    # rounds
    bound = sigma_bar2_bound(sigma0=1, dissimilarity=3, aggregation=[[1, 0], [0, 1]], q=[0.5, 0.5])
    assert bound == pytest.approx((8, 6 * 2 * (2 + 9) / 2, 8 + 66))
    assert sigma_bar2_bound(
        sigma0=2, dissimilarity=9, aggregation=[[0.3, 0.7]] * 4, q=[0.25] * 4
    ) == pytest.approx((32, 0, 32))


@pytest.mark.parametrize(
    ("p", "q"), [((0.3, 0.7), (0.25,) * 4), ((0.5, 0.5), (0.4, 0.3, 0.2, 0.1))]
)
@pytest.mark.parametrize("moving", [False, True])
def test_lemma_b5_against_enumeration(p, q, moving):
    # two fresh clients with one sample a round; gradients centre_m +- 1 whatever theta is: sigma_0
    # = 1, zeta = 2
    rounds, centres = 4, np.array([0.0, 2.0])
    aggregation = np.tile(p, (rounds, 1))
    if moving:
        aggregation[0] = aggregation[0][::-1]
    values = []
    for signs in product((-1, 1), repeat=2 * rounds):
        gradients = (aggregation * (centres + np.reshape(signs, (rounds, 2)))).sum(
            axis=1, keepdims=True
        )
        values.append(sigma_bar2(gradients, q))
    exact = np.mean(values)
    assert exact <= sigma_bar2_bound(sigma0=1, dissimilarity=2, aggregation=aggregation, q=q).total
    if not moving and q[0] == 0.25:
        # independent clients: (1 - 1/T) sum p_m^2 sigma_0^2, a factor M_fresh T / (T - 1) below
        # (183)
        assert exact == pytest.approx(0.75 * (0.09 + 0.49))
        bound = sigma_bar2_case_study([0, *p], [True, False, False], 1)
        assert bound == pytest.approx(2 * 0.58) and exact <= bound


def test_two_samples_differ_by_twice_the_variance():
    # ERRATA 30, (182): gradients +-1 (sigma_0^2 = 1) of two rounds with b samples each, E
    # (difference of means)^2 = 2 / b
    for b, expected in ((1, Fraction(2)), (2, Fraction(1)), (3, Fraction(2, 3))):
        squares = [
            Fraction(sum(s[:b]) - sum(s[b:]), b) ** 2 for s in product((-1, 1), repeat=2 * b)
        ]
        assert sum(squares) / len(squares) == expected
    # nevertheless the difference from the mean of T rounds, which contains the round itself, stays
    # below 1 even for b = 1
    squares = [(Fraction(sum(s), 3) - s[0]) ** 2 for s in product((-1, 1), repeat=3)]
    assert sum(squares) / len(squares) == Fraction(2, 3)
