"""The case study and the worked example: hand values, psi against the general corollary, ERRATA."""

import math
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from companion.notebooks import case_study
from companion.notebooks.case_study import lower_bound_example, sigma_bar2_case_study
from sflkit.datastreams.bounds import (
    drift_constants,
    gradient_bound,
    optimization_bound,
    sigma_bar2,
)
from sflkit.datastreams.psi import minimize_psi, psi

HISTORICAL = np.array([True, True, False])


PROBLEM = case_study.CaseStudy(
    loss_bound=2.0,
    pseudo_dim=4.0,
    max_disc=0.3,
    sigma0=1.5,
    diameter=2.0,
    rounds=16,
    smoothness=0.25,
    local_steps=2,
)


# the example of Theorem 4.3: l(.; 1) and l(.; 2) on [-1, 1]^2, (109) and (110)
def loss(theta, z):
    a, b = theta
    return (
        (a + 1) ** 2 + (a + b + 1) ** 2 / 2 if z == 1 else (a - 1) ** 2 / 2 + (a + b - 1) ** 2 / 2
    )


def gradient(theta, z):
    a, b = theta
    return (2 * (a + 1) + a + b + 1, a + b + 1) if z == 1 else (a - 1 + a + b - 1, a + b - 1)


def test_case_study_sums_over_fresh_clients_only():
    # ERRATA 30: (M - M_hist) * (0.3^2 + 0.1^2) * sigma_0^2 = 2 * 0.1 * 4
    assert sigma_bar2_case_study([0.6, 0.3, 0.1], [True, False, False], 2) == pytest.approx(0.8)
    assert sigma_bar2_case_study([0.5, 0.5, 0], HISTORICAL, 2) == 0  # the Historical strategy


# Corollary 5.1.
def test_corollary_by_hand():
    # c0 = (C1 + D^2/2)/sqrt(T) + C2/T^1.5 = (3 + 2)/4 + (1/16)/64; c1 = 1.5 * sqrt(9) * (2 + 2/4) =
    # 11.25
    c = PROBLEM.corollary51(n_samples=400, n_fresh=9)
    assert c.c0 == pytest.approx(1.25 + 1 / 1024) and c.c1 == pytest.approx(11.25)
    assert c.c2 == pytest.approx(20 * math.sqrt(1 + math.log(100)) / 10 + 0.6)
    # n = alpha = p: no discrepancy, N_eff = N
    counts = [100, 100, 200]
    bound = PROBLEM.corollary51_general([0.25, 0.25, 0.5], counts, HISTORICAL)
    assert bound[:4] == pytest.approx((c.c0, 1.5 * 2.5 * 0.5, 0, 2 * math.sqrt(1 + math.log(100))))
    # p = (1, 0, 0): ||n - p||_1 = 1.5
    other = PROBLEM.corollary51_general([1, 0, 0], counts, HISTORICAL)
    assert other.discrepancy == pytest.approx(2 * 0.3 * 1.5)


@given(st.integers(0, 2**32 - 1))
@settings(max_examples=30)
def test_psi_is_never_below_the_general_corollary(seed):
    rng = np.random.default_rng(seed)
    counts, p = rng.integers(10, 200, 3), rng.dirichlet(np.ones(3))
    c = PROBLEM.corollary51(n_samples=counts.sum(), n_fresh=1)
    general = PROBLEM.corollary51_general(p, counts, HISTORICAL)
    assert general.total <= psi(p, counts, HISTORICAL, c.c1, c.c2, c.c0) * (1 + 1e-12)
    best = minimize_psi(counts, HISTORICAL, c.c1, c.c2)
    assert PROBLEM.corollary51_general(best.p, counts, HISTORICAL).total <= best.value + c.c0 + 1e-9


def test_constant_of_the_main_text_fails():
    # ERRATA 30: with "-2 max disc" in c0 psi would use sqrt(x - 1) <= sqrt(x) - 1; x = 4: 1.732 >
    # 1. Two clients, n = (1/4, 3/4), p = (1, 0): x = 1/n_1 = 4, ||p - n||_1 = 1.5 <= sqrt(3), but >
    # sqrt(4) - 1 = 1
    assert abs(1 - 0.25) + abs(0 - 0.75) == 1.5 and math.sqrt(3) > 1.5 > math.sqrt(4) - 1


@pytest.mark.parametrize("q", [0.5, 0.6, 0.75, 0.9, 0.99])
def test_lower_bound_example(q):
    # ERRATA 28, with theta_1 and s = theta_1 + theta_2: q (theta_1 + 1)^2 + (1-q)/2 (theta_1 - 1)^2
    # has slope (1+q) theta_1 - (1 - 3q), curvature 1 + q; the s part has minimum s = 1 - 2q and
    # curvature 1. On theta_2 = 0 both quadratics share theta_1: (1+q) (b-a)^2 / (2 (2+q)) with b -
    # a = (1 - 2q) - (1-3q)/(1+q) = 2q(1-q)/(1+q).
    example = lower_bound_example(q)

    def risk(theta):
        return q * loss(theta, 1) + (1 - q) * loss(theta, 2)

    slope = np.dot([q, 1 - q], [gradient(example.minimizer, 1), gradient(example.minimizer, 2)])
    np.testing.assert_allclose(slope, 0, atol=1e-14)
    least = risk(example.minimizer)
    line = min(risk((a, 0.0)) for a in np.linspace(-1, 1, 4001))
    assert line - least == pytest.approx(example.line_gap, abs=5e-7)
    assert risk((1 - 2 * q, 0.0)) - least == pytest.approx(example.limit_gap, abs=1e-12)
    assert example.line_gap <= example.limit_gap < example.claimed / 10
    # (115)-(117): the gradients differ by (theta_1 + 5, 2), 40 at theta_1 = 1, an equality, and z_1
    # != z_2 half of the time
    corners = [np.subtract(gradient(c, 1), gradient(c, 2)) for c in product((-1.0, 1.0), repeat=2)]
    assert max(d @ d for d in corners) * q * (1 - q) / 2 == pytest.approx(example.sigma_bar2)
    both = [[gradient(c, z) for c in product((-1.0, 1.0), repeat=2)] for z in (1, 2)]
    assert sigma_bar2(both, [q, 1 - q]) / 2 == pytest.approx(example.sigma_bar2)


def test_lower_bound_example_has_another_order():
    # ERRATA 28's numbers: 0.0333 and 0.0833 at q = 1/2 against 1.5; gap / sigma^2 from 0.0067 to
    # 0.0002
    half, late = lower_bound_example(0.5), lower_bound_example(0.99)
    assert half.line_gap == pytest.approx(1 / 30)
    assert half.limit_gap == pytest.approx(1 / 12)
    assert half.claimed == 1.5
    assert half.line_gap / half.sigma_bar2 == pytest.approx(0.0067, abs=5e-5)
    assert late.line_gap / late.sigma_bar2 == pytest.approx(0.0002, abs=5e-5)
    # order sigma^4: gap / sigma^4 tends to 2 / (2 * 3) / 400 as q tends to 1
    assert lower_bound_example(1 - 1e-9).line_gap / lower_bound_example(
        1 - 1e-9
    ).sigma_bar2 ** 2 == pytest.approx(1 / 1200)


def simulate(rounds, steps):
    """Algorithm 1, M = 1, C = 1: sample 1 for half of the rounds, then sample 2; full gradients,
    projected; averaged output.
    """
    theta, mean, rate = (0.0, 0.0), np.zeros(2), 1 / math.sqrt(rounds)
    for t in range(rounds):
        mean += np.array(theta) / rounds
        a, b = theta
        for _ in range(steps):
            g = gradient((a, b), 1 if t < rounds / 2 else 2)
            a, b = a - rate * g[0], b - rate * g[1]
        theta = (min(max(a, -1.0), 1.0), min(max(b, -1.0), 1.0))
    return mean, rate


def test_example_simulated():
    example, steps, gaps = lower_bound_example(0.5), 5, []
    for rounds in (4000, 16000):
        mean, rate = simulate(rounds, steps)
        gaps.append(
            (loss(mean, 1) + loss(mean, 2)) / 2
            - (loss(example.minimizer, 1) + loss(example.minimizer, 2)) / 2
        )
    # the way from one minimiser to the other takes of the order sqrt(T) rounds, so the error halves
    # when T is fourfold
    assert 2 * gaps[1] - gaps[0] == pytest.approx(example.limit_gap, abs=1e-4)
    assert abs(gaps[1] - example.limit_gap) < 2e-3
    gap = gaps[1]
    # the upper bound holds: B = 8.5 at (1, 1), L = 2 + sqrt 2, D = sqrt 8; given the samples
    # sigma^2 is 40 q (1-q) = 10
    bound = optimization_bound(
        sigma_bar=math.sqrt(10),
        smoothness=2 + math.sqrt(2),
        loss_bound=8.5,
        diameter=math.sqrt(8),
        local_steps=steps,
        rounds=rounds,
        rate=rate,
    )
    assert example.line_gap <= gap <= bound.total
    assert math.hypot(*gradient((1.0, 1.0), 1)) <= gradient_bound(2 + math.sqrt(2), 8.5)


def test_the_path_is_the_simulation_above():
    path = case_study.example_path(400, 200)
    np.testing.assert_allclose(path.mean(axis=0), simulate(400, 5)[0], rtol=1e-12)
    half = lower_bound_example(0.5)
    excess = [(loss(t, 1) + loss(t, 2)) / 2 for t in ((0.3, -0.2), half.minimizer)]
    assert case_study.example_excess((0.3, -0.2), 0.5) == pytest.approx(excess[0] - excess[1])


@pytest.mark.parametrize("largest", [1.0, 2.0, 8.0])
def test_the_mended_lower_bound_holds_for_every_admissible_weight(largest):
    """At q = 1/2 the expected error is 1/24 and sigma-bar sqrt(5): C = 1 allows nothing else."""
    found = case_study.repaired_lower_bound(largest)
    assert found.held == 1 / (2 * largest) and found.constant > 0
    if largest == 1:
        assert found.constant == pytest.approx(1 / 24 / math.sqrt(5))
    for q in np.linspace(found.held, 0.5, 101):
        at = lower_bound_example(q)
        ratio = (q * (1 - q)) ** 1.5 / math.sqrt(20) / (1 + q)
        assert at.limit_gap / 2 / math.sqrt(at.sigma_bar2) == pytest.approx(ratio)
        assert ratio >= found.constant - 1e-15


def test_the_discrepancy_example_by_hand():
    """For large N and T psi is 2 disc sqrt(x), less 2 disc in the main text, with x - 1 = 4 e^2 /
    (n_1 n_2) and disc nearly 2; the losses are nearly linear with slope 1, so that the error is
    nearly (n_2 - n_1) 2 = 4 e.
    """
    e = 0.05
    found = case_study.discrepancy_example(e, rounds=10**6, n_samples=10**10)
    root = math.sqrt(1 + 4 * e**2 / (0.25 - e**2))
    assert found.true_error == pytest.approx(4 * e, rel=0.05)
    assert found.appendix == pytest.approx(4 * root, abs=0.03)
    assert found.main_text == pytest.approx(4 * (root - 1), abs=0.03)
    assert found.main_text < found.true_error < found.appendix < found.printed


def test_what_does_not_fall_with_T_covers_every_error():
    """ERRATA 30: C1 + C3 >= 5 G^2 / 2 + D^2 / 2 >= sqrt(5) G D, and no error exceeds G D."""
    rng = np.random.default_rng(0)
    for _ in range(200):
        smooth, bound, size = rng.lognormal(0, 2, 3)
        drift = drift_constants(
            smoothness=smooth, loss_bound=bound, diameter=size, local_steps=int(rng.integers(1, 9))
        )
        whole = drift.c1 + size**2 / 2
        assert whole >= math.sqrt(5) * gradient_bound(smooth, bound) * size * (1 - 1e-12)
