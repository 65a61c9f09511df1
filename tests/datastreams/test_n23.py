"""The examples of notebook 23, by hand, and evidence that can fail."""

import numpy as np
import pytest

from companion.claims import DATASTREAMS as CLAIMS
from companion.judging.claims import Setting
from companion.notebooks import n23, plane_problem
from sflkit.randomness import generator
from tests.invented import answers


@pytest.fixture(scope="module")
def problem():
    sizes = dict(n_clients=3, n_historical=1, n_old=40, batch=2, pool=30, radius=10.0, grid=9)
    return plane_problem.draw(generator(1, "data"), **sizes)


@pytest.fixture(scope="module")
def found(problem):
    rng = generator(1, "monte_carlo")
    return n23.Found(
        plane_problem.measure(problem, [12, 48], 2, 20, generator(1, "stream")),
        n23.samples(rng),
        n23.least_generalization(problem, 48, rng),
        n23.gradients(problem, rng),
        n23.thresholds(rng, 400, 200),
        n23.turns(),
        n23.worked_example((500, 2000)),
        n23.mended_example((1000, 4000)),
        n23.corollary(rng),
    )


def test_effective_samples_of_two_clients(found):
    """Weights (1/2, 1/6, 1/6, 1/6) have the squares 1/4 + 3/36 = 1/3, so N_eff = 3 of N = 4."""
    effective, sizes = found.samples["attained"]  # of 1 and 3, 2 and 2, 10 and 90 samples
    # ten times 1/20 and ninety times 1/180: 1 / (10/400 + 90/32400) = 36
    assert effective == pytest.approx([3, 4, 36]) and sizes.tolist() == [4, 4, 100]


def test_clients_in_turn(found):
    """The gradients of the two rounds are 1/2 and -1/2: variability 1/4.

    p_m is 1/M, and p_m^(t) is 2/M or 0: each of the M differences is 1/M in both rounds. With q =
    1/2 for each round the bracket is 2 * 1/2 * M / M^2 = 1/M.
    """
    table = found.turns
    assert table["sigma_bar2"].to_numpy() == pytest.approx(np.full(len(table), 0.25))
    assert table["printed bracket"].to_numpy() == pytest.approx(1 / table["M"].to_numpy())


def test_equal_weights_give_the_known_limit_and_unequal_ones_follow_n_eff(found):
    scaled = found.thresholds["sqrt(N_eff) eps_gen"].to_numpy()
    assert scaled == pytest.approx(np.full(4, 0.8687), rel=0.1)
    assert found.thresholds["sqrt(N) eps_gen"].iloc[-1] > 2


def test_the_simulated_example_meets_the_formula(found):
    """At q = 1/2 the formula 2 q^2 (1 - q)^2 / (1 + q) is 1/12."""
    first = found.worked.iloc[0]
    assert first["limit, formula"] == pytest.approx(1 / 12)
    assert first["simulated"] == pytest.approx(1 / 12, rel=0.02)
    assert (found.mended["error / sigma_bar"] >= 0.99 * found.mended["constant"]).all()


def test_uniform_is_least_and_psi_with_the_appendix_s_constant_is_above(found):
    uniform, random, _ = found.least
    assert uniform <= random.min() + 1e-12
    assert (found.corollary.random[0] <= found.corollary.random[1]).all()
    assert found.corollary.appendix - found.corollary.printed == pytest.approx(2)


def test_what_mini_batches_add_by_hand():
    """T = 1 and 2: the output holds no noise of the last round, and one round's at T = 2.

    There a mini-batch's noise gets the step 1 / sqrt(2) and is one of two models: half of its
    variance times (1 / (2 sqrt(2)))^2 is a quarter of the bound.
    """
    table = n23.mini_batches(generator(1, "monte_carlo"), (1, 2, 400))
    one, two, long = table.itertuples()
    assert one.exact == one.simulated == 0
    assert two.exact == pytest.approx(two.bound / 4)
    assert abs(two.simulated - two.exact) < 4 * two.standard_error
    assert 0.9 * long.bound < long.exact < long.bound == pytest.approx(two.bound / 200)


def test_samples_that_stay_are_uniform_by_their_weights_alone():
    weights = n23.stays(generator(1, "monte_carlo"), 5)
    tau = (weights > 0).sum(axis=0)
    assert tau.max() > 5 and 1 in tau  # no arrival prolongs a stay, the last one arrives at the end
    found, expected = n23.equal_importance(weights)
    assert found == pytest.approx(expected)
    found, expected = n23.equal_importance((weights > 0).astype(float))
    assert found.max() > 1.2 and found.min() < 0.3  # whoever stays longer counts more
    once = n23.stays(generator(1, "monte_carlo"), 0)
    # used in one round, with the weight 1
    assert set(np.unique(once)) == {0, 1} and ((once > 0).sum(axis=0) <= 1).all()


def test_the_evidence_is_judged_and_can_fail(problem, found):
    good = n23.evidence(problem, found)
    corrected = ("ds-lem42", "ds-lemB2", "ds-lemB3", "ds-remark1", "ds-lemB5")
    for artefact in corrected:
        verdict = CLAIMS[artefact].judge(good[artefact], setting=Setting("full"))
        assert verdict.verdict == "corrected", artefact
    measured = found.measured.assign(true=99.0, sigma_bar2=9.0)
    assert answers(CLAIMS["ds-lemB1"], good["ds-lemB1"]) == {"everywhere": "yes"}
    worse = found._replace(measured=measured, turns=found.turns.assign(ratio=found.turns["M"] ** 2))
    bad = n23.evidence(problem, worse)
    assert answers(CLAIMS["ds-thm44"], bad["ds-thm44"]) == {"decomposition": "no"}
    assert answers(CLAIMS["ds-lemB5"], bad["ds-lemB5"])["needed, M"] in (
        "no",
        "partly",
    )  # of several M


def test_weights_of_a_single_round_are_stationary():
    """One round: a = rate, and p has one entry, so that free and stationary weights agree.

    The least of a^2 (p^2 / n_old + (1 - p)^2) is a^2 / (n_old + 1), at p = n_old / (n_old + 1).
    """
    free, fixed = n23.stationary_evidence(rounds=1, rate=0.5, n_old=4)["example"]
    np.testing.assert_allclose(free, 0.25 / 5, rtol=1e-6)
    np.testing.assert_allclose(fixed, 0.99 * 0.25 / 5, rtol=1e-6)
