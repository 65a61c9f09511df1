"""Stability and plans: hand values, the paper's Table 2, and promises kept."""

import math
import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sflkit.fats.enumeration import (
    retrained_law,
    total_variation,
)
from sflkit.fats.stability import plan, stability
from tests.fats.fats_cases import TABLE_2, TINY, drawn, sizes


def test_stability_by_hand():
    # M = N = K = 2, b = E = R = 1: a slot hits with 1/2 * 1/2, so 1 - (3/4)^2 = 7/16 (ERRATA 19);
    # client 1 - (1/2)^2
    assert stability(**sizes(2)) == pytest.approx((1 / 2, 1, 7 / 16, 3 / 4))
    # E = 2, R = 2, K = 1, N = 4, b = 1, M = 2: a slot hits with (1 - 9/16)/2 = 7/32
    assert stability(**sizes(1, 2, 2, n=4)) == pytest.approx((4 / 8, 1, 1 - (25 / 32) ** 2, 3 / 4))
    # one client, full batches: certain
    assert stability(**sizes(1, 1, 3, m=1, n=3, b=3)) == (3, 3, 1, 1)


@pytest.mark.parametrize(
    "setting",
    [sizes(*case) for case in TINY[:-1]] + [sizes(1, 2, 1, n=3, b=2), sizes(2, 1, 1, m=3)],
)
def test_lemma1_distance_is_the_involvement_probability(setting):
    # ERRATA 20: TV of learning with and without a sample or a client is the chance that it was
    # used, at most rho
    law, result = drawn(setting), stability(**setting)
    for request, exact, bound in (
        ((0, 0), result.p_sample, result.rho_s),
        ((0, None), result.p_client, result.rho_c),
    ):
        used = sum(p for p, history in law.values() if history.first_use(*request) is not None)
        assert total_variation(law, retrained_law([request], **setting)) == used
        assert float(used) == pytest.approx(exact) and exact <= bound + 1e-12


def test_stability_of_table_2():
    table = {
        "rho_c": (0.5, 0.833, 0.417, 0.833, 0.492, 0.909),
        "p_client": (0.394, 0.566, 0.341, 0.566, 0.389, 0.597),
        "rho_s": (0.25, 0.417, 0.417, 0.833, 0.431, 0.979),
        "p_sample": (0.182, 0.284, 0.238, 0.419, 0.253, 0.452),
    }
    results = [stability(**sizes(k, e, r, m, n / m, b)) for m, k, r, e, b, n in TABLE_2]
    for field, printed in table.items():
        found = [getattr(result, field) for result in results]
        np.testing.assert_allclose(found, printed, atol=5.1e-4)
    # ERRATA 19, 20: one batch sequence for a client drawn twice would lower p_sample a little
    one = [
        1 - (1 - (1 - (1 - 1 / m) ** k) * (1 - (1 - b * m / n) ** e)) ** r
        for m, k, r, e, b, n in TABLE_2
    ]
    np.testing.assert_allclose(one, (0.1812, 0.2834, 0.2375, 0.4182, 0.2526, 0.4503), atol=5.1e-5)
    assert all(low < result.p_sample for low, result in zip(one, results))


def test_stability_per_client():
    # ERRATA 21: bKT/(M N_k) = 10 * 5 * 300 / (300 N_k) = 50 / N_k: 1, 1/4, 1/12 for 50, 200, 600
    # samples
    each = np.tile([50, 200, 600], 100)
    result = stability(**sizes(5, 10, 30, m=300, n=each, b=10))
    np.testing.assert_allclose(result.rho_s[:3], [1, 0.25, 1 / 12])
    assert result.p_sample.shape == (300,)
    assert (result.p_sample <= result.rho_s).all()
    assert isinstance(result.p_client, float)
    with pytest.raises(ValueError, match="50"):
        stability(**sizes(m=300, n=each, b=51))


def asked(rho_s, rho_c, m, n, e, r):
    ask = dict(rho_s=rho_s, rho_c=rho_c, n_clients=m, samples_per_client=n)
    return plan(**ask, local_steps=e, rounds=r)


def test_plan_by_hand():
    # M = 40, R = 4, E = 5, N = 100: K = floor(0.5 * 40/4) = 5, b = floor(0.3 * 4000/(5 * 20)) = 12
    assert asked(0.3, 0.5, 40, 100, 5, 4) == (5, 12, 0.3, 0.5)
    assert asked(0.299, 0.599, 40, 100, 5, 4)[:2] == (5, 11)
    # ERRATA 22: M = 20, R = 2, E = 5, N = 10 asked for (0.05, 0.05): K = 0.5 rounds up to 1, b =
    # rho_S N / (rho_C E) = 2, which has (0.1, 0.1); down, K = 0, and one client has 2 / 20
    assert stability(**sizes(1, 5, 2, m=20, n=10, b=2))[:2] == (0.1, 0.1)
    with pytest.raises(ValueError, match=r"rho_c=0\.05 .* must be at least 0\.1: one client"):
        asked(0.05, 0.05, 20, 10, 5, 2)
    # M = 40, R = 1: 0.02 * 40 = 0.8 clients; the least is 1/40
    with pytest.raises(ValueError, match=r"rho_c=0\.02 .* at least 0\.025: one client"):
        asked(0.5, 0.02, 40, 100, 1, 1)
    # M = 40, N = 100, E = 5, R = 4 and K = 5: b = 1 has 5 * 20 / 4000
    with pytest.raises(ValueError, match=r"rho_s=0\.01 .*clients_per_round=5, .* at least 0\.025"):
        asked(0.01, 0.5, 40, 100, 5, 4)
    # 29/100 is not representable: 0.29 * 100 = 28.999999999999996, yet 29 clients keep the promise
    assert asked(1, 0.29, 100, 29, 1, 1).clients_per_round == 29
    # a mini-batch is never larger than a client
    assert asked(1, 0.1, 10, 7, 1, 1) == (1, 7, 0.1, 0.1)
    for size in (True, [True, True]):
        with pytest.raises(
            ValueError, match=r"^samples_per_client=.*True.* must be numbers of sam"
        ):
            asked(1, 1, 2, size, 1, 1)
    # the smallest client counts: b = floor(0.5 * 2 * 20 / (1 * 4)) = 5
    assert asked(0.5, 1, 2, [20, 99], 2, 2).batch_size == 5


@pytest.mark.parametrize("row", TABLE_2)
def test_plan_finds_table_2(row):
    m, k, r, e, b, n = row
    result = stability(**sizes(k, e, r, m, n / m, b))
    ask = dict(n_clients=m, samples_per_client=n / m, local_steps=e, rounds=r)
    assert plan(rho_s=result.rho_s, rho_c=result.rho_c, **ask) == (k, b, result.rho_s, result.rho_c)


@settings(max_examples=150)
@given(
    st.floats(0.001, 1), st.floats(0.001, 1), *(st.integers(1, most) for most in (60, 40, 6, 12))
)
def test_plan_keeps_its_promise_or_says_the_least(rho_s, rho_c, m, n, e, r):
    ask = dict(n_clients=m, samples_per_client=n, local_steps=e, rounds=r)
    try:
        k, b, got_s, got_c = plan(rho_s=rho_s, rho_c=rho_c, **ask)
    except ValueError as refused:
        if "no plan is feasible" in str(refused):
            # too many rounds for M clients, or one client per round and b = 1 are too much
            assert r > m or e * r > m * n
            return
        assert r <= m
        least = float(re.search(r"at least (\S+\d)", str(refused))[1])
        if str(refused).startswith("rho_c"):
            assert rho_c < least == r / m
        else:
            assert rho_s < least <= (math.floor(rho_c * m / r) + 1) * e * r / (m * n)
        return
    result = stability(**sizes(k, e, r, m, n, b))
    assert (got_s, got_c) == (result.rho_s, result.rho_c) and got_s <= rho_s and got_c <= rho_c
    assert stability(**sizes(k + 1, e, r, m, n, 1)).rho_c > rho_c
    assert b == n or stability(**sizes(k, e, r, m, n, b + 1)).rho_s > rho_s
    assert plan(rho_s=got_s, rho_c=got_c, **ask) == (k, b, got_s, got_c)


def test_no_plan_at_all():
    with pytest.raises(ValueError, match=r"no plan is feasible: one client per round makes 1\.333"):
        asked(1, 1, 3, 100, 1, 4)
    with pytest.raises(ValueError, match=r"no plan is feasible, even"):
        asked(1, 1, 4, 2, 3, 4)
