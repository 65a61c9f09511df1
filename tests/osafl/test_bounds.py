"""OSAFL's Theorem 1 and its score: hand values, Remark 4, cvxpy, and where ERRATA says it fails."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sflkit.osafl.bounds import optimal_scores, score_objective, theorem1

ONE = dict(
    beta=1.0,
    rate=0.1,
    global_rate=2.0,
    sigma2=3.0,
    alpha=[1.0],
    similarity=[1.0],
    local_steps=[2],
    shift=[0.25],
    rho1=1.0,
    rho2=2.0,
    skew=[0.5],
)


def draw(rng, n=4):
    """A random round of n clients."""
    return dict(
        beta=rng.uniform(0.2, 2),
        rate=rng.uniform(0.01, 0.05),
        global_rate=rng.uniform(1, 30),
        sigma2=rng.uniform(0, 4),
        alpha=rng.dirichlet(np.ones(n)),
        similarity=rng.uniform(0, 1, n),
        local_steps=rng.integers(1, 6, n),
        shift=rng.uniform(0, 2, n),
        rho1=rng.uniform(1, 3),
        rho2=rng.uniform(0, 3),
        skew=rng.uniform(0, 1, n),
    )


def test_by_hand():
    # B = 0.25 - 2 * 0.5 + 2 = 1.25; (beta eta kappa)^2 = 0.04; A = 1 - 16 * 0.04 * 1.25 = 0.2 2 *
    # 0.1 / 0.2 = 1; 0.1 * 3 * (2 * 0.25 + 4 * 0.1 * 2 * 1.25) = 0.45; 32 * 0.25 * 0.05 = 0.4; 16 *
    # 2 * 0.5 * 0.05 = 0.8
    bound = theorem1(loss_decrease=0.1, score=[0.5], **ONE)
    assert bound == pytest.approx((2.65 / 0.2, 0.2, True))
    # (30) drops the loss and the division: 1.65 - 4 * 0.2
    assert score_objective([0.5], psi=4.0, **ONE) == pytest.approx(0.85)


def test_two_clients_by_hand():
    # alpha = 1/4, 3/4; scores = similarities = 1 and 1/2, so B = 1 and 1/4; kappa = 1 and 4; eta
    # beta = 0.1 A = 1 - 16 * 0.01 * (1/4 + 3/4 * 16 / 4) = 1 - 0.16 * 3.25 = 0.48 noise 0.1 * (10 *
    # (1/16 + 9/64) + 0.4 * (1/4 + 3/4 * 4 / 4)) = 0.1 * (2.03125 + 0.4) = 0.243125; no shift, no
    # skew
    two = dict(alpha=[0.25, 0.75], similarity=[1, 0.5], local_steps=[1, 4], shift=0, rho2=0, skew=0)
    setting = ONE | two | dict(global_rate=10, sigma2=1)
    bound = theorem1(loss_decrease=0.0, score=[1, 0.5], **setting)
    assert (bound.value, bound.a) == pytest.approx((0.243125 / 0.48, 0.48))
    assert not bound.feasible  # eta = 0.1 > 1 / (2 sqrt(2) * 4) = 0.088


def test_remark4_is_federated_averaging():
    # score = similarity = 1, equal steps, same data: B = 1, and value * A is (26), whose last sum
    # has Phi only. The paper then leaves out the factor 1/A > 1, which makes (26) smaller than
    # (25): it does not follow.
    beta, rate, global_rate, sigma2, kappa, alpha = (
        0.7,
        0.05,
        3.0,
        2.0,
        4,
        np.array([0.2, 0.3, 0.5]),
    )
    shift, decrease = np.array([0.1, 0.0, 0.4]), 0.3
    own = dict(beta=beta, rate=rate, global_rate=global_rate, sigma2=sigma2, alpha=alpha)
    own |= dict(local_steps=kappa, shift=shift, rho1=1.0, rho2=0.0, skew=0.0)
    bound = theorem1(loss_decrease=decrease, score=1.0, similarity=1.0, **own)
    fedavg = (
        2 * decrease / (rate * global_rate)
        + beta * rate * sigma2 * sum(a * (global_rate * a + 4 * beta * rate * kappa) for a in alpha)
        + 32 * (beta * rate * kappa) ** 2 * sum(a * p for a, p in zip(alpha, shift))
    )
    assert bound.a == pytest.approx(1 - 16 * (beta * rate * kappa) ** 2) and bound.feasible
    assert bound.value * bound.a == pytest.approx(fedavg) and bound.value > fedavg


def test_limits():
    quiet = {**ONE, "sigma2": 0.0, "shift": 0.0, "rho2": 0.0}
    # no noise, no drift: 2 * decrease / (eta eta-tilde) / A; a score and similarity of 0 leave A =
    # 1 (and nothing of theta)
    assert theorem1(loss_decrease=0.1, score=0.0, **{**quiet, "similarity": 0.0}) == pytest.approx(
        (1.0, 1.0, True)
    )
    assert theorem1(loss_decrease=0.0, score=1.0, **quiet).value == 0
    # eta to 0 with eta eta-tilde fixed: A to 1, and what remains is 2 * decrease / (eta eta-tilde)
    # + beta eta eta-tilde sigma^2
    small = theorem1(loss_decrease=0.1, score=1.0, **{**ONE, "rate": 1e-7, "global_rate": 2e6})
    assert small.value == pytest.approx(1 + 0.2 * 3) and small.a == pytest.approx(1)


def test_printed_conditions_allow_a_negative_a():
    # ERRATA 33: eta = 0.06 < 1 / (2 sqrt(2) * 5) = 0.0707; A = 1 - 16 * 0.0036 * 25 = -0.44
    bound = theorem1(loss_decrease=0.1, score=1.0, **{**ONE, "rate": 0.06, "local_steps": [5]})
    assert bound.a == pytest.approx(-0.44) and not bound.feasible and bound.value == math.inf
    zero = theorem1(loss_decrease=0.1, score=1.0, **{**ONE, "rate": 0.25, "local_steps": [1]})
    assert (zero.value, zero.a, zero.feasible) == (math.inf, 0.0, False)
    # the factor that (76) drops, at 0.99 of the printed limit of eta: 1 / (1 - 0.99^2) = 50
    assert 1 / (1 - 8 * (0.99 / (2 * math.sqrt(2))) ** 2) == pytest.approx(50.25, abs=0.01)


def test_theorem_as_printed_has_a_counter_example():
    # ERRATA 33: (65) compares f^t with f^(t+1) without a drift term. One client, one exact step of
    # 1/2 from w = 1 on f^t = w^2/2 reaches 1/2; the next data set has f^(t+1) = (w - 2)^2 / 2 =
    # 1.125, where (65) claims at most 1/2 - 1/2 + 1/8 = 0.125.
    w, product = 1.0, 0.5
    reached = w - product * w
    after = (reached - 2) ** 2 / 2
    assert after == pytest.approx(1.125)
    assert w**2 / 2 - product * w**2 + product**2 * w**2 / 2 == pytest.approx(0.125)
    # with the theorem's conditions met, its round (78) then puts the squared gradient, 1, below a
    # negative number
    still = dict(rate=0.2, global_rate=2.5, sigma2=0, local_steps=1, shift=0, rho2=0, skew=0)
    bound = theorem1(loss_decrease=w**2 / 2 - after, score=1, **ONE | still)
    assert bound.feasible and bound.value == pytest.approx(-2.5 / 0.36) and bound.value < w**2


@settings(max_examples=30)
@given(st.integers(0, 10**6))
def test_similarity_is_free_in_the_theorem(seed):
    # ERRATA 32: 2 B = (score - 2 lambda)^2 + score^2 >= score^2, with equality at lambda = score /
    # 2: there the bound is smallest over lambda, and it falls with the score down to 0
    rng = np.random.default_rng(seed)
    r = {**draw(rng), "rate": 1e-3}
    score = rng.uniform(0, 1, 4)
    best = theorem1(loss_decrease=1.0, score=score, **{**r, "similarity": score / 2})
    assert best.value <= theorem1(loss_decrease=1.0, score=score, **r).value + 1e-12
    assert (
        theorem1(loss_decrease=1.0, score=score / 3, **{**r, "similarity": score / 6}).value
        <= best.value
    )


@settings(max_examples=40)
@given(st.integers(0, 10**6), st.sampled_from([0.0, 0.5, 1.0, 4.0]))
def test_no_other_score_is_better(seed, psi):
    rng = np.random.default_rng(seed)
    r = {**draw(rng), "psi": psi}
    scores = optimal_scores(**r)
    assert scores.shape == (4,)
    assert (scores >= 0).all()
    assert (scores <= r["similarity"] + 1e-12).all()
    least = score_objective(scores, **r)
    for scale in (1e-3, 1e-1, 1.0):
        other = np.maximum(scores + scale * rng.standard_normal(4), 0)
        assert score_objective(other, **r) >= least - 1e-12 * abs(least)


def test_optimal_scores_against_cvxpy():
    cp = pytest.importorskip("cvxpy")
    rng, worse = np.random.default_rng(0), []
    for psi in (0.0, 1.0, 4.0) * 4:
        r = draw(rng)
        alpha, lam, k = r["alpha"], r["similarity"], r["local_steps"]
        x, eta, beta, ones = cp.Variable(4), r["rate"], r["beta"], np.ones(4)
        b = cp.square(x) - 2 * cp.multiply(lam, x) + 2 * lam**2
        noise = (
            beta
            * eta
            * r["sigma2"]
            * (
                r["global_rate"] * cp.sum(cp.multiply(alpha**2, cp.square(x)))
                + 4 * beta * eta * (cp.multiply(alpha * k, b) @ ones)
            )
        )
        data = (beta * eta) ** 2 * (
            cp.multiply(alpha * k**2 * (32 * r["shift"] + 16 * r["rho2"] * r["skew"]), b) @ ones
        )
        a = 1 - 16 * r["rho1"] * (beta * eta) ** 2 * (cp.multiply(alpha * k**2, b) @ ones)
        problem = cp.Problem(cp.Minimize(noise + data - psi * a), [x >= 0])
        problem.solve(solver=cp.CLARABEL, tol_gap_abs=1e-12, tol_gap_rel=1e-12, tol_feas=1e-12)
        ours = optimal_scores(**r, psi=psi)
        np.testing.assert_allclose(ours, x.value, atol=1e-6)
        value = score_objective(ours, **r, psi=psi)
        assert value == pytest.approx(problem.value, rel=1e-9, abs=1e-10)
        # ERRATA 31: C_u as printed, with 1 in the place of psi, is the minimiser for psi = 1 only
        printed = score_objective(optimal_scores(**r, psi=1.0), **r, psi=psi)
        if psi == 1:
            assert printed == value
        else:
            worse.append(printed - value)
    assert min(worse) > 1e-9


def test_optimal_score_limits():
    r = {**ONE, "psi": 0.0}
    still = {**r, "sigma2": 0.0, "shift": 0.0, "rho2": 0.0}
    assert optimal_scores(**still) == pytest.approx(
        [1.0]
    )  # nothing to weigh: the limit as psi falls to 0
    assert optimal_scores(**{**still, "psi": 3.0}) == pytest.approx(
        [1.0]
    )  # no noise, no brake: the similarity itself
    # by hand: C = 8 * 2 * 0.01 * 3 + (64 * 0.25 + 32 * 2 * 0.5 + 32 * 2) * 0.04 = 0.48 + 4.48;
    # brake 2 * 0.1 * 2 * 3 = 1.2
    assert optimal_scores(**{**r, "psi": 2.0}) == pytest.approx([4.96 / 6.16])
    assert optimal_scores(**{**r, "similarity": [0.0]}) == 0
    # huge server steps make gradient noise dominate: the score falls to 0
    assert optimal_scores(**{**r, "global_rate": 1e12})[0] < 1e-10
