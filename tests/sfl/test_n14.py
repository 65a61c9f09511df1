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


def test_lemma_2_is_always_looser_than_one_line():
    one_line, second_term = n14.looseness()
    assert (second_term / one_line).min() > 60


def test_the_coin_is_above_the_printed_bound_and_below_the_mended_one():
    found = n14.coin_in_a_cache()
    first, last = found.iloc[0], found.iloc[-1]
    assert (first["t"], first["true"]) == (1, 0.25)
    assert last["true"] == pytest.approx(1 / 32, rel=0.01)
    assert last["true"] > last["bound"]
    assert (found["true"] <= found["mended"]).all()


def test_corollary_2_has_the_stated_orders_with_the_corrected_step_size_only(case):
    orders = n14.corollary2_orders(case)
    for term in ("vanishing", "phi_g", "phi_m"):
        np.testing.assert_allclose(orders.slopes["corrected"][term], orders.stated[term], atol=1e-3)
    # with 1 / sqrt(T E) they grow like E, since eta_L^2 E^2 = E / T
    assert orders.slopes["printed"]["phi_g"][1] == pytest.approx(1.0, abs=1e-3)
    left = orders.totals.set_index(["rule", "eta_L"])["kept"]
    assert left["drsr", "corrected"] < 0.1 < left["fifo", "corrected"]
