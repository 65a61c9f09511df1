"""From runs to evidence: windows by hand, spread within worlds, exact gaps, whole plans."""

import numpy as np
import pandas as pd
import pytest

from sflkit.results import plans, rules
from sflkit.results.claims import NotRun
from sflkit.sfl import label_only
from sflkit.sfl.claims import CLAIMS
from sflkit.sfl.discrepancy import exact_discrepancy
from sflkit.sfl.evidence import training as evidence
from sflkit.sfl.plans import training as sfl_plans

# Two rules, two seeds, four rounds; round 2 was not evaluated.
ROUNDS = pd.DataFrame(
    {
        "seed": np.repeat([0, 1], 8),
        "rule": np.tile(np.repeat(["drsr", "fifo"], 4), 2),
        "round": np.tile([1, 2, 3, 4], 4),
        "accuracy": [0.1, np.nan, 0.5, 0.7, 0.1, np.nan, 0.3, 0.3]
        + [0.2, np.nan, 0.4, 0.8, 0.2, np.nan, 0.2, 0.6],
    }
)


def test_window_by_hand():
    # The last half is rounds 3 and 4: drsr (0.6, 0.6), fifo (0.3, 0.4).
    score = evidence.window(ROUNDS, (0.5, 1.0))
    np.testing.assert_allclose(score["drsr"], [0.6, 0.6])
    np.testing.assert_allclose(evidence.difference(score, "drsr", "fifo"), [0.3, 0.2])
    # Of all rounds, the one that was not evaluated does not count: (0.1 + 0.5 + 0.7) / 3.
    whole = evidence.window(ROUNDS, evidence.THROUGHOUT)
    assert whole.loc[0, "drsr"] == pytest.approx(1.3 / 3)


def test_steps_by_hand():
    # drsr of seed 0: steps 0.4, 0.2 with standard deviation 0.2 / sqrt(2).
    moves = evidence.steps(ROUNDS, (0.0, 1.0))
    assert moves.loc[0, "drsr"] == pytest.approx(0.2 / np.sqrt(2))


def test_spread_is_that_within_a_world():
    # Worlds at 0.2 and 0.8, paths 0.1 above and below: what is left is +-0.1, and not the worlds.
    rows = pd.DataFrame(
        {
            "world": [0, 0, 1, 1],
            "seed": ["0/0", "0/1", "1/0", "1/1"],
            "round": 1,
            "accuracy": [0.1, 0.3, 0.7, 0.9],
        }
    )
    curves = evidence.path_curves(rows, evidence.THROUGHOUT)
    np.testing.assert_allclose(curves[:, 0], [-0.1, 0.1, -0.1, 0.1])


def test_exact_gap_is_zero_between_equal_weights_and_falls_with_time():
    sizes = {"batch_size": 30, "capacity": 300, "rounds": 40}
    same = evidence.exact_gap(3, 0.5, 0.5, span=(0.0, 1.0), start="full", **sizes)
    assert same == 0
    early, late = (
        evidence.exact_gap(3, 0.1, 2 / 3, span=span, start="full", **sizes)
        for span in ((0.0, 0.5), (0.9, 1.0))
    )
    assert early > 0 and late > 0
    append = evidence.exact_gap(3, 0.1, 2 / 3, span=(0.0, 0.5), start="append", **sizes)
    assert append < early


def test_exact_psi_starts_at_the_variance_of_one_state():
    # DRSR with B = B_s: after one round it holds the mean of u_0 and u_1.
    stream = label_only.make_stream(label_only.LabelOnlyConfig(world=5))
    (psi,) = evidence.exact_psi(5, "drsr", [1], theta=0.5, batch_size=10, capacity=10, start="full")
    assert psi == pytest.approx(exact_discrepancy(stream, weights=[0.5, 0.5]).sum())


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SFLKIT_RESULTS", str(tmp_path_factory.mktemp("results")))
        yield


def judged(evidence_of):
    """Every part takes its evidence; the verdict itself is noise at these sizes."""
    for artefact, known in evidence_of.items():
        claim = CLAIMS[artefact]
        assert set(known) == {part.key for part in claim.parts}
        for part in claim.parts:
            if not isinstance(known[part.key], NotRun):
                assert part.rule.judge(known[part.key]).answer in rules.ANSWERS


def test_comparison(store):
    plan = sfl_plans.comparison(
        data_a="digits", data_b="digits", model="linear", rate_a=0.1, rate_b=0.1, rounds=8,
        rounds_b=0, seeds=[0, 1], capacity=20, batch_size=10, theta=2 / 3, classes_per_client=3,
        evaluate_every=1, label_seeds=[0, 1], label_rounds=12,
    )  # fmt: skip
    found = plans.carry_out(plan)
    judged(evidence.comparison_evidence(found))
    # One data set in both panels: the gain cannot differ.
    gain = evidence.comparison_evidence(found)["sfl-fig4b"]["gain"]
    np.testing.assert_array_equal(*gain)


def test_sensitivity(store):
    plan = sfl_plans.sensitivity(
        data="digits", model="linear", rate=0.1, rounds=8, seeds=[0, 1], capacity=40,
        small_capacity=20, few=0.1, many=0.5, theta=0.5, thetas=[0.1, 1.0], evaluate_every=1,
        worlds=[0, 1], paths_of_each=[0, 1, 2], label_capacity=40, label_rounds=12,
    )  # fmt: skip
    found = plans.carry_out(plan)
    sizes = {"few": 4, "many": 20}
    known = evidence.arrival_evidence(found.labels, sizes, 0.5)
    known |= evidence.theta_evidence(found.labels, sizes, [0.1, 1.0], 0.5, 40)
    known |= evidence.size_evidence(found.sizes, 20, 40, 8)
    judged(known)
    assert isinstance(known["sfl-fig7"]["round 200 drsr"], NotRun)
    assert found.labels["key"].nunique() == 2 * 3 * 2 * 4  # worlds, paths, sizes, arms


def test_superclasses(store):
    plan = sfl_plans.superclasses(
        data="digits", model="linear", width=1.0, classes_per_client=2, rate=0.1, rounds=10,
        seeds=[0, 1], capacity=20, batch_size=10, theta=0.5, evaluate_every=1,
    )  # fmt: skip
    judged({"sfl-fig10": evidence.superclass_evidence(plans.carry_out(plan))})
