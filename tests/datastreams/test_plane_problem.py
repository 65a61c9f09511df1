"""The problem of notebook 23: what is known of it, and its training."""

import functools

import numpy as np
import pytest
import torch

from companion.notebooks import plane_problem
from sflkit import federated
from sflkit.randomness import generator

SIZES = {"n_clients": 3, "n_historical": 1, "n_old": 40, "batch": 2, "pool": 30}


def drawn(radius=3.0, **sizes):
    return plane_problem.draw(generator(1, "data"), radius=radius, grid=9, **SIZES | sizes)


def test_losses_lie_below_their_bound_and_gradients_have_the_mean_that_is_said():
    problem = drawn()
    assert problem.sample_loss.max() <= problem.loss_bound
    assert problem.loss_bound == pytest.approx(np.log(1 + np.exp(3)))
    assert problem.diameter == 6 and (np.linalg.norm(problem.grid, axis=1) <= 3 + 1e-9).all()
    assert problem.gradient == pytest.approx(problem.sample_gradient.mean(axis=1))
    # L = 1/4 and |z| <= 1: gradients are shorter than 1, so two differ by less than 2
    assert 0 < problem.zeta < 2 and 0 < problem.sigma0 < 2
    assert problem.counts(7).tolist() == [40, 14, 14]
    with pytest.raises(ValueError, match="n_historical=3"):
        drawn(n_historical=3)


def test_one_step_from_the_origin_goes_along_the_mean_of_z():
    """At theta = 0 the slope is 1/2, so that a step leads to step * sum_m p_m sum_i held z / 2."""
    problem = drawn()
    p, held = np.array([0.5, 0.3, 0.2]), np.full((2, 1, 3, 30), 1 / 30)
    mean, last = plane_problem.train(problem, p, held, 0.1, 1)
    expected = 0.1 * p @ problem.z.mean(axis=1) / 2
    assert last == pytest.approx(np.stack([expected] * 2)) and (mean == 0).all()


def test_the_iterate_stays_in_the_disc():
    problem = drawn(radius=1.0)
    held = np.full((1, 5, 3, 30), 1 / 30)
    _, last = plane_problem.train(problem, np.array([1.0, 0, 0]), held, 1000.0, 1)
    assert np.linalg.norm(last) <= 1 + 1e-12


def test_measured_errors_are_those_of_the_bounds():
    table = plane_problem.measure(drawn(10.0), [12, 48], 2, 40, generator(1, "stream"))
    assert table["strategy"].tolist() == [*plane_problem.STRATEGIES] * 2
    assert (table["true"] <= table["opt"] + 2 * table["gen"]).all()
    assert (table["sigma_bar2"] <= table["lemma_b5"]).all()
    assert (table[["opt", "gen", "true"]] >= 0).all(axis=None)
    fresh = table[table["strategy"] != "historical"]
    off = (fresh["at_one"] - fresh["at_one_exact"]).abs() / fresh["at_one_error"]
    assert off.max() < 4
    historical = table[table["strategy"] == "historical"]
    assert historical["sigma_bar2"].max() < 1e-20 and (historical["p_hist"] == 1).all()


def test_the_library_s_engine_trains_the_same():
    problem, p, w = drawn(10.0), np.array([0.5, 0.3, 0.2]), torch.zeros(2)
    held = np.random.default_rng(0).multinomial(2, np.full(30, 1 / 30), (1, 10, 3)) / 2
    task = federated.Task(
        torch.nn.Sequential(torch.nn.Linear(2, 1, bias=False), torch.nn.Flatten(0)),
        functools.partial(torch.nn.functional.soft_margin_loss, reduction="none"),
    )
    for now in held[0]:
        batches = [[(problem.x[m], problem.y[m], now[m])] * 2 for m in range(3)]
        local = federated.local_sgd(task, w, batches, 0.5, backend="pool")
        w = torch.as_tensor(p, dtype=torch.float32) @ local
    assert w.numpy() == pytest.approx(plane_problem.train(problem, p, held, 0.5, 2)[1][0], abs=1e-5)


def test_a_small_set_is_refused():
    with pytest.raises(ValueError, match=r"radius=0\.05.*outside the set"):
        plane_problem.measure(drawn(radius=0.05), [4], 1, 2, generator(1, "stream"))
