"""Exact numbers behind the pictures and verdicts of SFL's convergence theory, derived by hand."""

import numpy as np
import pytest

from companion.notebooks import n14
from companion.notebooks.toy_problem import SyntheticConfig

SETTINGS = {
    "n_clients": 2,
    "n_classes": 3,
    "classes_per_client": 3,
    "batch_size": 30,
    "cache_rounds": 3,
    "rounds": 8,
    "local_steps": 5,
    "local_rate": 0.01,
    "global_rate": 5.0,
    "repeats": 2,
}


@pytest.fixture(scope="module")
def case():
    return n14.Case(SyntheticConfig(**SETTINGS))


def test_step_sizes_that_theorem_1_does_not_allow_are_refused():
    with pytest.raises(ValueError, match=r"global_rate=50\.0, local_steps=5: Theorem 1 asks"):
        n14.Case(SyntheticConfig(**SETTINGS | {"global_rate": 50.0}))


def test_all_rules_agree_until_the_cache_is_full(case):
    for errors in (case.exact2, case.bounded2):
        for rule in ("fifo", "srsr_filled"):
            np.testing.assert_allclose(errors[rule][:2], errors["drsr"][:2])
        assert errors["fifo"][-1] > errors["drsr"][-1]
    assert len(set(case.exact2["fifo"][2:])) == 1  # waiting does not help FIFO


def test_two_opposite_classes_make_lemma_1_tight():
    """The share is 0.3 or 0.7 with correlation 0.6^tau, so that the mean of ten rounds has the
    variance lambda^2 = 0.04 / 10 (1 + 2 sum_k (1 - k / 10) 0.6^k); Lemma 1 allows 4 lambda^2."""
    k = np.arange(1, 10)
    lambda2 = 0.004 * (1 + 2 * ((1 - k / 10) * 0.6**k).sum())
    found = n14.opposite_classes(seed=0)
    assert found.lambda2 == pytest.approx(lambda2)
    assert found.allowed == pytest.approx(4 * lambda2)
    assert abs(found.gap2 - found.allowed) < 4 * found.error


def test_a_label_error_drifts_beyond_its_term_from_seven_steps_on(case):
    """In units of eta_L^2 R^2 lambda^2 sigma_M^2 the drift is (E - 1)^2 and the term 5 E."""
    two = n14.opposite_classes(seed=0, n_caches=10)
    found = n14.drift_by_labels(case, two)
    unit = 0.01**2 * 4 * two.lambda2
    np.testing.assert_allclose(found["drift"] / unit, (found["E"] - 1) ** 2)
    np.testing.assert_allclose(found["lambda term"] / unit, 5 * found["E"])
    assert found["E"][found["drift"] > found["lambda term"]].min() == 7


def test_lemma_2_is_always_looser_than_one_line():
    one_line, second_term = n14.looseness()
    assert (second_term / one_line).min() > 60


def test_the_coin_is_above_the_printed_bound_and_a_cache_kept_for_ever_above_a_twelfth():
    found = n14.coin_in_a_cache()
    assert found.t[0] == 1 and all(values[0] == 0.25 for values in found.true.values())
    assert found.true[1.0][-1] == pytest.approx(1 / 32, rel=0.01)
    assert found.true[1.0][-1] > found.bound[1.0]["total"].iloc[-1]
    for s, bound in found.completed.items():
        assert (found.true[s] <= bound).all()
        assert found.never_refreshed[s].min() >= 1 / 12 - 1e-12
    assert found.never_refreshed[0.03][-1] > found.completed[0.03][-1]


def test_corollary_2_has_the_stated_orders_with_the_corrected_step_size_only(case):
    orders = n14.corollary2_orders(case)
    for term in ("vanishing", "phi_g", "phi_m"):
        np.testing.assert_allclose(orders.slopes["corrected"][term], orders.stated[term], atol=1e-3)
    # with 1 / sqrt(T E) they grow like E, since eta_L^2 E^2 = E / T
    assert orders.slopes["printed"]["phi_g"][1] == pytest.approx(1.0, abs=1e-3)
    table = orders.table()
    assert len(table) == 15 and table["stated"].tolist()[-3:] == ["-"] * 3
    left = orders.totals.set_index(["rule", "eta_L"])["kept"]
    assert left["drsr", "corrected"] < 0.1 < left["fifo", "corrected"]
