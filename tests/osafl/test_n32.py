"""What notebook 32 computes about the score: its cost, the solver, and one client by hand."""

from types import SimpleNamespace

import numpy as np
import pytest

from companion.claims import OSAFL as CLAIMS
from companion.judging.claims import Setting
from companion.notebooks import n32, quadratics
from sflkit.osafl.scores import osafl_scores
from sflkit.randomness import generator
from tests.invented import answers


@pytest.fixture(scope="module")
def found():
    problem = quadratics.draw(generator(4, "data"), 3, 4)
    rng = generator(4, "monte_carlo")
    return SimpleNamespace(
        identical=osafl_scores(np.ones((5, 4))),
        operations=n32.operations(rng),
        next_models=n32.next_models(rng, 4),
        against_solver=n32.against_solver(4, 8),
        coefficients=n32.coefficients(4, {"CNN": (0.08, 22.0)}),
        static=quadratics.static(problem, 20, 1.0),
        conditions=quadratics.conditions(rng),
        online=quadratics.online(problem, 20, 5, 1.0, rng),
        steady_walk=quadratics.steady_walk(20),
        random_walks=quadratics.random_walks(problem, 1.0, rng),
        identical_clients=quadratics.identical_clients(20),
        formula_25=quadratics.formula_25(4, 10),
        terms=n32.terms(4),
    )


def test_terms_vanish_and_go_with_the_square_of_the_rate(found):
    lost, by_hand, halved = found.terms
    np.testing.assert_allclose(lost, by_hand, rtol=1e-9, atol=1e-12)
    assert (by_hand[:3] > 0).all() and by_hand[3] == 0
    np.testing.assert_allclose(halved, 4.0)
    parts = n32.evidence(found)["osafl-thm1"]
    wrong = parts | {"vanish": (lost, 2 * by_hand)}
    right = answers(CLAIMS["osafl-thm1"], parts)
    assert right["vanish"] == right["squared"] == "yes"
    assert answers(CLAIMS["osafl-thm1"], wrong)["vanish"] != "yes"


def test_the_scores_read_every_number_three_times(found):
    """The mean, the product with it and the length: 3 U N numbers, each multiplied and added; and
    the length of the mean, 2 N.
    """
    for name, counts in found.operations.items():
        assert [*counts] == [6 * u * n + 2 * n for u, n in counts.index]
        assert n32.slope(counts, name) == pytest.approx(1, abs=0.01)


def test_osafl_asks_for_nothing_but_the_updates(found):
    assert np.allclose(*found.next_models, rtol=1e-12)


def test_34_is_the_minimiser_with_psi_and_as_printed_for_psi_1_alone(found):
    assert (found.against_solver["error with psi"] < 1e-6).all()
    as_printed = found.against_solver["error as printed"] < 1e-6
    assert set(found.against_solver.loc[as_printed, "psi"]) == {1.0}
    assert set(found.against_solver["status"]) == {"optimal"}


def test_the_evidence_is_judged_and_can_fail(found):
    good = n32.evidence(found)
    verdicts = {
        name: CLAIMS[name].judge(parts, setting=Setting("full")).verdict
        for name, parts in good.items()
    }
    assert verdicts["osafl-rem2"] == "reproduced" and verdicts["osafl-eq35"] == "corrected"
    broken = {
        "static": found.static.assign(exact=found.static["bound"] * 2),
        "identical": np.full(5, 0.9),
        "random_walks": found.random_walks[:, ::-1],
    }
    bad = n32.evidence(SimpleNamespace(**vars(found) | broken))
    for artefact, part in (
        ("osafl-thm1", "static"),
        ("osafl-thm1", "old_data"),
        ("osafl-rem4", "identical"),
    ):
        assert answers(CLAIMS[artefact], bad[artefact])[part] in ("no", "partly"), part
