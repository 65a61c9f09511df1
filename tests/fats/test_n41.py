"""What notebook 41 shows and judges: limits, closed forms, and the library's own simulation."""

import numpy as np
import pytest

from companion.notebooks import learning_costs, unlearning_costs
from sflkit.fats import expected_time
from sflkit.fats.history import draw_history
from sflkit.randomness import generator

SMALL = dict(n_clients=12, samples_per_client=6, clients_per_round=2, batch_size=2, rounds=5)
TINY = SMALL | {"local_steps": 3}


def test_request_costs_against_the_expected_times():
    costs, steps = unlearning_costs.request_costs(TINY, 4), 15
    of_clients = {key: TINY[key] for key in ("n_clients", "clients_per_round", "local_steps")}
    for w in (1, 4):
        for kind, in_turn in (("_time", True), ("_once_time", False)):
            exact = expected_time.client_time(
                **of_clients, rounds=5, requests=w, one_by_one=in_turn
            )
            assert costs[f"client{kind}"][w - 1] == pytest.approx(exact / steps, rel=1e-12)
    assert costs["sample_time"][0] == pytest.approx(expected_time.sample_time(**TINY) / steps)
    assert costs["sample_once_time"][0] == pytest.approx(costs["sample_time"][0], rel=1e-12)


def test_simulated_requests_cost_what_was_computed():
    measured = unlearning_costs.serve(TINY, np.random.default_rng(0), repeats=600, requests=3)
    exact = unlearning_costs.request_costs(TINY, 3)
    for name, (mean, error) in measured.items():
        z = np.abs(mean - (exact[name] if np.ndim(mean) else exact[name][-1])) / error
        assert np.max(z) < 4.5, name


def test_the_exact_mean_of_one_step_is_the_start():
    # |theta_0| = 1, so that with T = 1 the mean squared gradient is 1, whatever the rate
    sizes = SMALL | {"rounds": 1}
    np.testing.assert_allclose(
        learning_costs.exact_means(np.array([0.5, 1.5]), sizes, [0.1, 0.7], 1), 1
    )


def test_the_exact_mean_by_hand():
    """Two rounds of one step, a = 1 for all: 1, then (1 - eta)^2 + eta^2 V / K, V = 4/2 * 4/5."""
    sizes = SMALL | {"rounds": 2}
    (mean,) = learning_costs.exact_means(np.ones(12), sizes, [0.5], 1)
    assert mean == pytest.approx((1 + 0.25 + 0.25 * 1.6 / 2) / 2)


def test_training_follows_the_exact_mean():
    large = dict(n_clients=2000, samples_per_client=30, clients_per_round=5, batch_size=5)
    problem = learning_costs.Problem(large | {"rounds": 350})
    assert problem.heterogeneity == pytest.approx(1.25) and problem.theorem5(1).feasible
    short = learning_costs.Problem(SMALL | {"rounds": 8})
    for e in (1, 2):
        found = learning_costs.Trained(
            *learning_costs.simulated(short, e, seed=1, dimension=5, paths=300)
        )
        exact = learning_costs.over_rates(short, e, found.heterogeneity)["exact"]
        assert abs(found.simulated - exact[0]) < 4.5 * found.error


def test_nearly_all_by_hand():
    table = unlearning_costs.nearly_all()
    assert table["exact"][0] == pytest.approx(sum(1 / k for k in range(2, 11)))
    assert table["4 w rho"][1] == pytest.approx(3.96)


def test_a_quarter_left_keeps_the_bound():
    found = unlearning_costs.quarter_left({"small": TINY})
    assert all((pairs[:, 0] <= pairs[:, 1]).all() and len(pairs) for pairs in found.values())


def test_a_look_up_answers_as_a_search_and_reads_as_much_in_any_history():
    found = unlearning_costs.look_ups(generator(0, "requests"))
    assert found.agrees
    # the client's number of samples, where its samples begin in the table, the first step
    assert list(found.table["read by a look-up"]) == [3, 3, 3]
    assert abs(found.slope) < 1e-12


def test_a_search_reads_every_draw():
    reads, history = [0], draw_history(**TINY, rng=np.random.default_rng(0))
    unlearning_costs.uses_of(unlearning_costs.counted(history, reads), 7, 3)
    # every slot's client, R K of them, and every draw, R K E b
    assert reads == [5 * 2 + 5 * 2 * 3 * 2]


def test_the_variant_is_exact_with_the_clients_kept():
    found = unlearning_costs.low_memory()
    assert all(found["printed"]) and not any(found["clients kept"])
