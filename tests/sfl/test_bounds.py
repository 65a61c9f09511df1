"""SFL's bounds: hand values, limits, and where ERRATA says they hold or fail."""

import math

import numpy as np
import pytest

from sflkit.sfl.bounds import (
    corollary2,
    drsr_discrepancy,
    fifo_discrepancy,
    lemma1,
    lemma2,
    srsr_discrepancy,
    srsr_discrepancy_limit,
    theorem1,
)
from sflkit.sfl.discrepancy import correlation_rounds, exact_discrepancy
from sflkit.sfl.streams import LabelStream, kl_markov_stream

SETTING = dict(
    loss_gap=1.0,
    rounds=4,
    local_steps=5,
    smoothness=10.0,
    local_rate=0.001,
    global_rate=1.0,
    n_classes=10,
    max_share=0.9,
    sigma_m2=1.0,
    sigma_g2=2.0,
    dissimilarity2=1.0,
    lambda2=[0.4, 0.2, 0.1, 0.1],
    n_clients=10,
)


def test_by_hand():
    assert fifo_discrepancy(10, 2, 0.02) == pytest.approx(5 / 10 * 0.02)
    assert fifo_discrepancy(3, 2, 0.02) == pytest.approx(0.02)  # min(5, 3) / 3
    assert drsr_discrepancy(20, 2.5, 0.02) == pytest.approx(6 / 20 * 0.02)
    assert drsr_discrepancy(1, 3, 0.04) == pytest.approx(0.04)  # ERRATA 8: printed 7 * 0.04
    # x = theta/M = 1/2, Gamma = 1: (2 - 1/4) / (3/2) = 7/6; limit 2 * 7/6 * 0.04 = 0.0933 (ERRATA
    # 6)
    assert srsr_discrepancy_limit(2, 1, 1, 0.04) == pytest.approx(7 / 75)
    # t = 1: (1/2)^2 = 1/4 of 2 * 0.5^2 stays, 3/4 of the limit has come
    assert srsr_discrepancy(1, 2, 1, 1, 0.04, share=0.5) == pytest.approx(
        0.25 * 0.5 + 0.75 * 7 / 75
    )


def test_limits():
    assert fifo_discrepancy(10**9, 3, 0.04) == pytest.approx(0, abs=1e-9)
    assert fifo_discrepancy(7, 0, 0.04) == pytest.approx(0.04 / 7)
    t = np.arange(1, 400)
    srsr = srsr_discrepancy(t, 10, 2 / 3, 1, 0.02, 0.3)
    assert srsr.shape == t.shape
    assert srsr[-1] == pytest.approx(srsr_discrepancy_limit(10, 2 / 3, 1, 0.02), rel=1e-6)
    assert srsr_discrepancy(5, 10, 0, 1, 0.02, 0.3) == pytest.approx(
        2 * 0.09
    )  # theta = 0: nothing moves
    assert (np.diff(drsr_discrepancy(t, 2, 0.02)) <= 0).all()
    assert (
        srsr_discrepancy(3, 1, 1, 1, 0.04, 0.1)
        == math.inf
        == srsr_discrepancy_limit(1, 1, 0.5, 0.04)
    )  # ERRATA 6
    assert srsr_discrepancy_limit(2, 1, 2000, 0.04) == math.inf  # 2^2000 exceeds a float
    assert srsr_discrepancy_limit(1, 1, 0, 0.04) == pytest.approx(
        0.08
    )  # 2 (1 - 0) / 1: twice the stream's own variance


def test_srsr_bound_rises_for_a_rare_class():
    # ERRATA 6: "decreases over t" fails for small pi: 2 * 0.02^2 = 0.0008 at the start, 2 * geo *
    # delta2 = 0.0195 in the end
    bound = srsr_discrepancy(
        np.arange(1, 200), 2, 2 / 3, 0, 0.0195 * (2 - 1 / 3) / 2 / (1 / 3), 0.02
    )
    assert bound[0] < bound[-1] and bound[-1] == pytest.approx(0.0195, rel=1e-3)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("temperature", [0.1, 1.0])
def test_bounds_hold_with_the_integrated_correlation(seed, temperature):
    stream = kl_markov_stream(
        n_clients=4,
        n_classes=6,
        classes_per_client=3,
        n_states=8,
        temperature=temperature,
        rng=np.random.default_rng(seed),
    )
    for m, theta in ((2, 2 / 3), (10, 2 / 3), (10, 1.0)):
        for t in (m, 3 * m, 60):
            gamma, delta2 = correlation_rounds(stream, max(t, m))
            assert (
                exact_discrepancy(stream, "fifo", t, cache_rounds=m)
                <= fifo_discrepancy(m, gamma, delta2) + 1e-12
            ).all()
            assert (
                exact_discrepancy(stream, "drsr", t, cache_rounds=m)
                <= drsr_discrepancy(t, gamma, delta2) + 1e-12
            ).all()
            for k, r in np.ndindex(stream.long_term.shape):
                bound = srsr_discrepancy(t, m, theta, gamma, delta2, stream.long_term[k, r])
                assert (
                    exact_discrepancy(stream, "srsr", t, cache_rounds=m, theta=theta)[k, r]
                    <= bound + 1e-12
                )


def test_prop2_fails_for_a_cache_that_starts_full():
    # ERRATA 5: pi = 0.02, cache full of that class (v_0 = 1), independent rounds, x = theta/M =
    # (2/3)/10. E = (1-x)^2t (v_0 - pi)^2 + x^2 sum_{j<t} (1-x)^2j C0, against the bound as printed
    # (start = 0) and as corrected.
    x, c0, share = (2 / 3) / 10, 0.02 * 0.98 / 30, 0.02
    for t, exact_printed in ((1, 0.8366), (40, 0.0039)):
        exact = (1 - x) ** (2 * t) * (1 - share) ** 2 + x**2 * c0 * (
            (1 - x) ** (2 * np.arange(t))
        ).sum()
        assert exact == pytest.approx(exact_printed, abs=2e-4)
        assert exact > srsr_discrepancy(t, 10, 2 / 3, 0, c0, share)
        assert exact <= srsr_discrepancy(t, 10, 2 / 3, 0, c0, share, start=1.0)


def test_prop2_fails_when_shares_are_normalised_by_the_current_size():
    # ERRATA 5: at t = 1 a cache normalised by its size has v = u, E = C0 = 0.04; the bound for M =
    # 10, theta = 2/3 is lower
    stream = LabelStream([[[0.3, 0.7], [0.7, 0.3]]], [[[0.5, 0.5], [0.5, 0.5]]])
    exact = exact_discrepancy(stream, "srsr_filled", 1, cache_rounds=10, theta=2 / 3)[0, 0]
    assert exact == pytest.approx(0.04)
    assert exact > srsr_discrepancy(1, 10, 2 / 3, 0, 0.04, share=0.05)
    assert exact_discrepancy(stream, "srsr", 1, cache_rounds=10, theta=2 / 3)[
        0, 0
    ] <= srsr_discrepancy(1, 10, 2 / 3, 0, 0.04, share=0.5)


def test_lemmas_by_hand():
    # R = 10, lambda^2 = 0.01, sigma_M^2 = 3, pi-bar = 0.5: 100 * 0.01 * 3 = 3 and 2 * 100 * 0.25 *
    # 3 = 150
    assert lemma1(n_classes=10, lambda2=0.01, sigma_m2=3, max_share=0.5) == pytest.approx((3, 150))
    # E = 2, eta_L = 0.1: 5*2*0.01*3 = 0.3; 30*4*0.01*150 = 180; 30*0.04*7 = 8.4; 30*0.04*2*5 = 12
    setting = dict(local_rate=0.1, local_steps=2, n_classes=10, max_share=0.5, lambda2=0.01)
    setting |= dict(sigma_m2=3, sigma_g2=7, dissimilarity2=1, grad_norm2=5)
    result = lemma2(**setting, smoothness=0.5)
    assert result[:5] == pytest.approx((0.3, 180, 8.4, 12, 200.7)) and result.feasible
    assert not lemma2(**setting, smoothness=1).feasible  # 0.1 > 1 / 16


@pytest.mark.parametrize(("steps", "exceeds"), [(6, False), (7, True), (20, True)])
def test_lemma2_lambda_term_alone_is_too_small(steps, exceeds):
    # ERRATA 11: a gradient deviation that stays the same all round moves the client by (E-1) eta_L
    # lambda R sigma after tau = E-1 steps, so its square is (E-1)^2 against the lambda term's 5E,
    # in units of eta_L^2 R^2 lambda^2 sigma^2
    nothing = dict.fromkeys(("sigma_g2", "dissimilarity2", "grad_norm2"), 0)
    one = dict.fromkeys(("local_rate", "n_classes", "max_share", "lambda2", "sigma_m2"), 1)
    term = lemma2(**nothing, **one, smoothness=1e-3, local_steps=steps).lambda_term
    assert ((steps - 1) ** 2 > term) is exceeds


def test_theorem1_by_hand():
    # eta_L E L = 0.05, c = 1/2 - 30 * 2 * 0.0025 = 0.35; spread R^2 pi^2 sigma_M^2 = 81
    bound = theorem1(**SETTING)
    assert bound.c == pytest.approx(0.35) and bound.feasible
    assert bound.vanishing == pytest.approx(1 / (0.35 * 0.001 * 5 * 4))
    assert bound.phi_g == pytest.approx(30 * 0.0025 * 2 / 0.35)
    assert bound.phi_m == pytest.approx(60 * 0.0025 * 81 / 0.35)
    assert bound.phi_l == pytest.approx((5e-6 * 5 * 100 + 3e-3 * 50 + 1) * 100 * 0.2 / 0.35)
    assert bound.total == pytest.approx(bound.vanishing + bound.phi_g + bound.phi_m + bound.phi_l)
    # ERRATA 9's example, c = 1/4: 48.6 printed, 0.648 dropped
    example = theorem1(**SETTING, c=0.25)
    assert (example.phi_m, example.phi_m_missing) == (pytest.approx(48.6), pytest.approx(0.648))


def test_theorem1_without_discrepancy_is_federated_averaging():
    still = theorem1(**{**SETTING, "lambda2": np.zeros(4)})
    assert still.phi_l == 0
    assert still.total == pytest.approx(still.vanishing + still.phi_g + still.phi_m)


def test_theorem1_step_size_with_the_root_in_the_right_place():
    # ERRATA 10: A^2 = 1, E = 5, L = 10: the printed limit 1/sqrt(60 * 2 * 50) exceeds 1/(8LE) =
    # 0.0025, which then binds; there c = 1/2 - 30 * 2 * 0.125^2 = -0.4375; the correct limit is
    # 1/(sqrt(120) * 50) = 0.001826
    bad = theorem1(**{**SETTING, "local_rate": 0.0025})
    assert bad.c == pytest.approx(-0.4375) and bad.total == math.inf and not bad.feasible
    assert theorem1(**{**SETTING, "local_rate": 0.00182}).feasible
    assert not theorem1(**{**SETTING, "local_rate": 0.00183}).feasible
    # for A^2 <= 1/15 the condition 1/(8LE) binds: sqrt(60 * 16/15) = 8
    assert theorem1(**{**SETTING, "dissimilarity2": 1 / 15 - 1e-9, "local_rate": 0.00249}).feasible
    assert not theorem1(**{**SETTING, "dissimilarity2": 0.0, "local_rate": 0.00251}).feasible
    assert not theorem1(
        **{**SETTING, "global_rate": 6.0}
    ).feasible  # eta eta_L = 0.006 > 1/(4EL) = 0.005
    assert not theorem1(**SETTING, c=0.36).feasible  # larger than the theorem admits


def test_corollary2_orders():
    # eta_L = 1/(sqrt(T) E), eta = sqrt(EK): vanishing * sqrt(EKT) and phi_g * T stop depending on T
    # and E
    def scaled(rounds, steps):
        rates = corollary2(rounds=rounds, local_steps=steps, n_clients=10)
        b = theorem1(
            **{
                **SETTING,
                "rounds": rounds,
                "local_steps": steps,
                "lambda2": np.full(rounds, 0.1),
                "local_rate": rates.local_rate,
                "global_rate": rates.global_rate,
                "smoothness": 0.1,
                "c": 0.25,
            }
        )
        assert b.feasible
        return (
            b.vanishing * math.sqrt(steps * 10 * rounds),
            b.phi_g * rounds,
            b.phi_m_missing * math.sqrt(10 * rounds / steps),
        )

    reference = scaled(1000, 2)
    for rounds, steps in ((4000, 2), (1000, 8), (100000, 5)):
        assert scaled(rounds, steps)[:2] == pytest.approx(reference[:2])
    # ERRATA 9: the dropped term is O(1/sqrt(KT)), slower than the O(1/T) stated for Phi_M
    b = [
        theorem1(
            **{
                **SETTING,
                "rounds": n,
                "lambda2": np.zeros(n),
                "smoothness": 0.1,
                "c": 0.25,
                **corollary2(rounds=n, local_steps=5, n_clients=10)._asdict(),
            }
        )
        for n in (100, 10000)
    ]
    assert b[0].phi_m / b[1].phi_m == pytest.approx(100)
    assert b[0].phi_m_missing / b[1].phi_m_missing == pytest.approx(10)
