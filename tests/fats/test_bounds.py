"""FATS's bounds: hand values, the substitutions of the proofs in exact arithmetic, limits, and
where the conditions hold.
"""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sflkit.fats.bounds import corollary6, lemma4, theorem5, theorem7
from sflkit.fats.stability import stability
from tests.fats.fats_cases import TABLE_2, sizes

# rho_S M N = 0.5 * 4 * 50 = 100 samples in T = 20 steps; Gamma = 9 / (2 * 8 * 100) = 9/1600, sqrt =
# 3/40
PROBLEM = dict(loss_gap=8.0, smoothness=2.0, grad_var=9.0, heterogeneity=1.5)
CLOSE = PROBLEM | dict(n_clients=4, samples_per_client=50, steps=20, rho_s=0.5, rho_c=0.25)
SETTING = CLOSE | dict(local_steps=5)
UNIT = dict.fromkeys(PROBLEM, 1)
POSITIVE = st.floats(0.01, 100)
PROBLEMS = st.fixed_dictionaries(
    dict.fromkeys(("loss_gap", "smoothness", "grad_var"), POSITIVE)
    | {"heterogeneity": st.floats(1, 50)}
)


def test_lemma4_by_hand():
    # eta = 0.01: 2*8/(0.01*20) = 80; 1e-4*4*9*5*(0.25*5*4 + 20)/100 = 0.018*25/100 = 0.0045;
    # 0.01*2*9*20/100 = 0.036
    bound = lemma4(**SETTING, rate=0.01)
    assert bound.value == pytest.approx(80 + 0.0045 + 0.036) and bound.feasible is True
    # (7) / eta: -1/2 + eta^2 * 4 * 1.5 * 20 + eta * 1.5 = 120 eta^2 + 1.5 eta - 0.5 = 0 at eta =
    # (sqrt(242.25) - 1.5) / 240
    edge = (math.sqrt(242.25) - 1.5) / 240
    assert lemma4(**SETTING, rate=edge * 0.9999).feasible
    assert not lemma4(**SETTING, rate=edge * 1.0001).feasible


@settings(max_examples=30)
@given(PROBLEMS, *(st.integers(1, most) for most in (9, 30, 9, 9, 99)))
def test_lemma4_in_clients_and_batches(problem, e, r, k, b, m):
    # (8) = (9): with K = rho_C E M / T and b = rho_S N / (rho_C E), here from the K and b of
    # `stability`
    rho, rate = stability(**sizes(k, e, r, m, 10, b)), 0.01
    run = dict(n_clients=m, samples_per_client=10, steps=e * r, rho_s=rho.rho_s, rho_c=rho.rho_c)
    value = lemma4(**problem, **run, local_steps=e, rate=rate).value
    noise = rate * problem["smoothness"] * problem["grad_var"] / (k * b)
    printed = 2 * problem["loss_gap"] / (rate * e * r)
    printed += noise * (1 + rate * problem["smoothness"] * e * (k + 1))
    assert value == pytest.approx(printed, rel=1e-9)


def test_theorem5_by_hand():
    # 3 sqrt(2 * 9 * 8 / 100) = 3.6; 2 * 8 * (5/20) * (0.25 * 4 * 5/20 + 1) = 5; eta = 1 / (2 * 3/40
    # * 20) = 1/3
    bound = theorem5(**SETTING)
    assert bound[:3] == pytest.approx((8.6, 1 / 3, 9 / 1600))
    # T >= 2 * 1.5 / (3/40) = 40; E/T < sqrt(9/1600 / 1.5) / 2 = 0.0306
    assert not bound.feasible
    assert not theorem5(**SETTING | {"steps": 39, "local_steps": 1}).feasible
    assert theorem5(**SETTING | {"steps": 40, "local_steps": 1}).feasible  # 0.025
    assert not theorem5(**SETTING | {"steps": 40, "local_steps": 2}).feasible  # 0.05


def test_theorem5_is_lemma4_at_its_step():
    # ERRATA 23 in exact arithmetic: loss_gap = 8, L = 2, G^2 = 9, rho_S M N = 225/4 make
    # sqrt(Gamma) = 1/10 rational
    drawn, t, e, rho_c, m = Fraction(225, 4), Fraction(20), 5, Fraction(1, 4), 4
    assert Fraction(9) / (2 * 8 * drawn) == Fraction(1, 100)
    eta = 1 / (2 * Fraction(1, 10) * t)
    nine = 2 * 8 / (eta * t) + eta**2 * 4 * 9 * e * (rho_c * e * m + t) / drawn
    nine += eta * 2 * 9 * t / drawn
    # sqrt(2 * 9 * 8 / drawn) = sqrt(64/25)
    ten = 3 * Fraction(8, 5) + 2 * 8 * e / t * (rho_c * m * e / t + 1)
    assert nine == ten
    setting = SETTING | {"rho_s": float(drawn) / 200}
    bound = theorem5(**setting)
    assert bound.value == pytest.approx(float(ten)) and bound.rate == pytest.approx(float(eta))
    assert lemma4(**setting, rate=bound.rate).value == pytest.approx(bound.value)


@settings(max_examples=30)
@given(PROBLEMS, st.integers(1, 50), st.integers(1, 60), *(st.floats(0.01, 1),) * 2)
def test_theorem5_against_lemma4(problem, e, r, rho_s, rho_c):
    run = dict(n_clients=7, samples_per_client=30.5, steps=e * r, rho_s=rho_s, rho_c=rho_c)
    setting = problem | run | dict(local_steps=e)
    bound = theorem5(**setting)
    lemma = lemma4(**setting, rate=bound.rate)
    assert bound.value == pytest.approx(lemma.value, rel=1e-9)
    assert lemma.feasible or not bound.feasible  # the theorem's conditions imply (7)


def test_the_balanced_step_is_sqrt2_larger():
    # ERRATA 23: with E = 1 and the middle term left out, a/eta + b eta is least, 2 sqrt(ab), at eta
    # = sqrt(a/b)
    bound = theorem5(**SETTING | {"local_steps": 1})
    a, b = 2 * 8 / 20, 2 * 9 * 20 / 100
    assert math.sqrt(a / b) == pytest.approx(math.sqrt(2) * bound.rate)
    assert 2 * math.sqrt(a * b) == pytest.approx(2 * math.sqrt(2) * math.sqrt(2 * 9 * 8 / 100))


@pytest.mark.parametrize(("row", "least"), [(0, 245), (4, 1183), (5, 3795)])
def test_the_papers_settings_have_too_few_rounds(row, least):
    # ERRATA 23: with unit constants R > 2 / sqrt(Gamma) = 2 sqrt(b K T), e.g. 2 sqrt(15000) = 244.9
    # for MNIST, where R = 30
    m, k, r, e, b, n = TABLE_2[row]
    rho = stability(**sizes(k, e, r, m, n / m, b))
    run = UNIT | dict(n_clients=m, samples_per_client=n / m, rho_s=rho.rho_s, rho_c=rho.rho_c)
    bound = theorem5(**run, steps=e * r, local_steps=e)
    assert not bound.feasible and 2 / math.sqrt(bound.gamma) == pytest.approx(least, abs=0.5)
    for rounds in (least - 1, least + 1):  # as many samples drawn in the whole run
        assert theorem5(**run, steps=e * rounds, local_steps=e).feasible is (rounds > least)


def test_corollary6_by_hand():
    # 4 * 3 * sqrt(2 * 8) / sqrt(100) = 4.8 in both cases; sqrt(Gamma) = 3/40, largest share
    # 0.030619, rho_C M = 1
    assert corollary6(**CLOSE, alpha=1).value == pytest.approx(4.8)
    assert corollary6(**CLOSE, c=0.5).value == pytest.approx(4.8)

    def feasible(steps=20, rho_c=0.25, **case):
        return corollary6(**CLOSE | dict(steps=steps, rho_c=rho_c), **case).feasible

    # alpha = 1: T >= max(40, 2 sqrt(1.5 * 1600/9) = 32.66, 1); alpha = 1/2: T >= 32.66^2 = 1066.67
    for alpha, edge in ((1, 40), (0.5, 1067)):
        assert feasible(edge, alpha=alpha) is True and feasible(edge - 1, alpha=alpha) is False
    # rho_C M = 100 binds at alpha = 1: T >= 100
    assert [feasible(t, 25.0, alpha=1) for t in (99, 100)] == [False, True]
    # c: below 0.030619, T >= 40, M < 4 * 2.25 * 2 * 8 * 0.5 / (9 * rho_C^2) * 50 = 400 / rho_C^2,
    # so rho_C < 10 with M = 4
    assert feasible(40, c=0.0306) and not feasible(40, c=0.0307) and not feasible(20, c=0.03)
    assert feasible(40, 9.99, c=0.03) and not feasible(40, 10.01, c=0.03)
    assert feasible(alpha=1e-9) is False  # (2 sqrt(lambda/Gamma))^(1/alpha) exceeds any float


@settings(max_examples=60)
@given(
    *(POSITIVE, st.floats(1, 5), st.floats(0.1, 1)),
    *(st.integers(1, 40), st.integers(1, 10**6), st.floats(0.01, 1)),
)
def test_corollary6_follows_from_theorem5(grad_var, heterogeneity, rho_c, e, rounds, rho_s):
    # wherever the corollary's conditions hold for the E at hand, its bound is above Theorem 5's
    steps = e * rounds
    common = dict(loss_gap=2, smoothness=0.5, grad_var=grad_var, heterogeneity=heterogeneity)
    common |= dict(n_clients=6, samples_per_client=5, steps=steps, rho_s=rho_s, rho_c=rho_c)
    theorem = theorem5(**common, local_steps=e)
    cases = [dict(c=e / steps)]
    if 1 < steps and e < steps:
        cases.append(dict(alpha=1 - math.log(e) / math.log(steps)))
    for case in cases:
        corollary = corollary6(**common, **case)
        assert not corollary.feasible or theorem.value <= corollary.value * (1 + 1e-9)


def test_corollary6_case_c_is_reached():
    # the implication above is not empty: Gamma = 1 / (0.5 * 2 * 15): E / T = 1/40 < 0.129, T = 400
    # >= 7.8, (0.5 * 6)^2 / 15 < 4
    common = dict(loss_gap=2, smoothness=0.5, grad_var=1, heterogeneity=1)
    common |= dict(n_clients=6, samples_per_client=5, steps=400, rho_s=0.5, rho_c=0.5)
    theorem, corollary = theorem5(**common, local_steps=10), corollary6(**common, c=1 / 40)
    assert theorem.feasible and corollary.feasible and theorem.value < corollary.value


def test_theorem7_by_hand():
    bound = theorem7(rho=0.25, requests=3, training_time=100)
    assert bound == (0.75, 3.0, 75.0, True)  # 3 * 1/4; 4 * 3 * 1/4; max(75, 3)
    # the look-ups outweigh: max(1.5, 3)
    assert theorem7(rho=0.25, requests=3, training_time=2).time == 3
    assert theorem7(rho=1.5, requests=2, training_time=10) == (1.0, 8.0, 20.0, False)
    assert theorem7(rho=0.5, requests=0) == (0, 0, 0, True)


@pytest.mark.parametrize("n", [1, 4, 9, 100, 5000])
def test_theorem7_holds_as_long_as_a_quarter_is_left(n):
    """ERRATA 59: one client, one step, b = 1, rho = 1/N. The i-th request hits with 1/(N - i + 1),
    which is at most 4/N = 4 rho while N - i + 1 >= N/4; sums keep that order.
    """
    left = np.arange(n, n / 4 - 1e-9, -1)
    expected = np.cumsum(1 / left)
    w = np.arange(1, len(left) + 1)
    allowed = [theorem7(rho=1 / n, requests=int(i)).recomputations for i in w]
    assert (expected <= np.array(allowed) * (1 + 1e-12)).all()


def test_what_does_not_go_together():
    with pytest.raises(ValueError, match="local_steps=21 must be an integer >= 1 and <= 20"):
        lemma4(**SETTING | {"local_steps": 21}, rate=0.1)
    for case in ({}, dict(alpha=0.5, c=0.1)):
        with pytest.raises(ValueError, match="exactly one must be given"):
            corollary6(**CLOSE, **case)
