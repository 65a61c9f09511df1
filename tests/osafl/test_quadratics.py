"""Exact recursions of OSAFL's Theorem 1, against hand calculation and simulation."""

import numpy as np
import pytest

from companion.notebooks import quadratics
from sflkit.randomness import generator


def problem(n_clients=3, dimension=4):
    return quadratics.draw(generator(2, "data"), n_clients, dimension)


def test_clients_are_as_far_from_their_mean_as_said():
    found = problem(5)
    assert found.centres.mean(axis=0) == pytest.approx(np.zeros(4))
    assert (found.centres**2).sum(axis=1).mean() == pytest.approx(1)
    assert np.linalg.norm(found.start) == pytest.approx(3)
    assert found.curvature.max() == 1 and found.alpha.sum() == pytest.approx(1)


def test_one_round_of_one_step_without_noise_by_hand():
    """T = 1: the mean squared gradient is that at the start, |sum_u alpha a_u (w0 - m_u)|^2."""
    found = problem()
    table = quadratics.static(found, 1, 0.0).query("score == '1' and loss == '(18)'")
    weight = found.alpha * found.curvature
    gradient = (weight[:, None] * (found.start - found.centres)).sum(axis=0)
    assert table["exact"].to_numpy() == pytest.approx(np.full(len(table), gradient @ gradient))
    with_noise = quadratics.static(found, 1, 5.0).query("score == '1' and loss == '(18)'")
    assert with_noise["exact"].to_numpy() == pytest.approx(table["exact"].to_numpy())


def test_the_exact_recursion_is_the_mean_of_simulations():
    """Fixed scores 1 are what `online` has where a single client agrees with itself."""
    one = np.ones(1)
    alone = quadratics.Problem(one, np.full((1, 4), 0.5), np.full(4, 1.5), one)
    simulated = quadratics.online(alone, 30, 400, 2.0, generator(2, "monte_carlo"), rate=0.1)
    training = quadratics.Training(alone, np.ones(1, int), 0.1, 0.2, 2.0)
    exact, _ = quadratics._exact(training, np.ones(1), np.ones(1), 30)
    error = simulated.measured.std(ddof=1) / 400**0.5
    assert abs(simulated.measured.mean() - exact) < 4 * error
    assert np.isfinite(simulated.limits).all()


def test_a_walker_stays_behind_by_the_pace_over_the_step():
    """With one local step the pull is 1: e = (1 - s) e - 1 has the solution e = -1 / s."""
    table = quadratics.steady_walk(20).query("kappa == 1")
    assert table["exact"].to_numpy() == pytest.approx(1 / table["product"].to_numpy() ** 2)
    assert (table["exact"] > table["bound"]).all() and (table["exact"] <= table["corrected"]).all()


def test_data_that_stand_still_are_no_walk():
    """With moves of size 0 the corrected terms are those of data that stay, summed by rounds."""
    found = problem()
    score, training = np.ones(3), quadratics.Training(found, np.ones(3, int), 0.01, 0.5, 1.0)
    walk = quadratics._walk(training, score, np.zeros((40, 3, 4)))
    exact, bound = quadratics._exact(training, score, found.alpha, 40)
    assert walk.mean(axis=0) == pytest.approx([exact, bound.value])


def test_random_walks_lie_below_the_corrected_bound():
    walks = quadratics.random_walks(problem(), 1.0, generator(2, "monte_carlo"))
    assert len(walks) > 50 and (walks[:, 0] <= walks[:, 1]).all()


def test_identical_clients_by_hand():
    """One step with product 1 leads to the minimum at once: the mean over T rounds is 1 / T, and
    (26) is 2 (1/2) / T = 1 / T as well.
    """
    table = quadratics.identical_clients(8).query("kappa == 1 and product == 1")
    assert table["exact"].to_numpy() == pytest.approx(np.full(len(table), 1 / 8))
    assert table["(26)"].to_numpy() == pytest.approx(np.full(len(table), 1 / 8))
    assert (table["(25)"] > table["(26)"]).all()


def test_formula_25_is_24_with_scores_1():
    assert quadratics.formula_25(2, 20)[:, 0] == pytest.approx(quadratics.formula_25(2, 20)[:, 1])


def test_remark_3_keeps_a_positive_and_the_printed_conditions_do_not():
    found = quadratics.conditions(generator(2, "monte_carlo"))
    assert (found.remark_3 > 0).all() and (found.remark_3 < 1).all()
    # 1 - 16 * 0.06^2 * 25 * ((1 - 1)^2 + 1) = -0.44
    assert (found.printed <= 0).any() and found.example == pytest.approx(-0.44)
