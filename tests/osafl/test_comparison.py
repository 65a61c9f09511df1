"""What notebooks 33 and 34 show beside their verdicts, on invented runs."""

import numpy as np
import pandas as pd
import pytest

from companion.osafl import tuning
from companion.osafl.evidence import comparison
from companion.osafl.plans import training as plans
from sflkit.osafl.networks import SIZES
from tests.osafl.test_plans import ONE, TWO, drive

FULL = SIZES["FCN"].options["hidden"]
BASE = plans.fcn_base([8], 20, 8, "synthetic", 10.0, "alternating", 3, 200)


@pytest.fixture(scope="module")
def one():
    return drive(plans.dataset1(**ONE))[1]


@pytest.fixture(scope="module")
def two():
    return drive(plans.dataset2(**TWO))[1]


def test_the_longest_steps_by_hand():
    base = plans.fcn_base(FULL, 100, 100, "synthetic", 10.0, "none", 1, 9)
    table = comparison.printed_steps(base)
    # OSAFL 0.2 * 35, the models' rules five steps at 0.15 or 0.1, M-FedNova slowed down by 0.1
    expected = {"OSAFL": "7", "M-FedAvg": "0.75", "M-AFA-CD": "0.2", "M-FedNova": "0.005"}
    expected |= {"M-FedProx": "0.5", "M-FedDisco": "0.75"}
    assert table["longest step"].to_dict() == expected
    assert table.columns[-1] == "longest step"
    assert table.loc["M-FedProx", "mu"] == "0.9" and table.loc["OSAFL", "mu"] == ""


def test_participation_leaves_the_genie_out():
    runs = pd.DataFrame(
        {"arm": ["osafl", "osafl", "genie"], "stragglers": [3, 1, 0], "joined": [2, 3, 0]}
    )
    said = comparison.participation(runs, 4)
    # a share of all rounds, and the largest number of all runs
    assert said.startswith("In a round 50% of the clients are stragglers on average,")
    assert said.endswith("and at most 3 of 4 ever take part.")


def test_tables_stand_beside_the_papers(one):
    table = comparison.paper_table(one.tables, plans.TABLE, "FCN", 2)
    assert table.loc["OSAFL", ("accuracy", "paper")] == "0.3384"
    assert table.loc["centralised SGD", ("loss", "paper")] == "2.421"
    assert table.loc["M-AFA-CD, printed buffer", ("accuracy", "paper")] == "0.0447"
    assert table.loc["M-AFA-CD", ("accuracy", "paper")] == "not stated"
    other = comparison.paper_table(
        one.tables[one.tables["K"] == 1].assign(K=5), ["osafl"], "FCN", 5
    )
    assert other.loc["OSAFL", ("loss", "paper")] == "not stated"


def test_equal_steps_has_both_steps_and_the_rule_without_scores(one):
    table = comparison.equal_steps(one, 1, BASE)
    assert table.index.name == "K = 1, 2 seeds"
    assert table.loc["OSAFL", "the search took"] == "2 times the server rate"
    steps = table[["longest step: printed", "longest step: tuned"]]
    assert steps.loc["OSAFL"].tolist() == ["7", "14"]
    assert steps.loc["FedNova"].tolist() == ["0.75", "1.5"]  # five steps at M-FedAvg's rate
    # a refused rule took no step, and a reader must not take the one that was tried for a tuned one
    refused = table.loc["M-FedNova"]
    assert refused["the search took"].startswith("none (best of those tried: ")
    assert refused[["longest step: tuned", "tuned: best", "tuned: mean"]].tolist() == [""] * 3
    assert table.loc["FedNova", "printed: best"] == "" and table.loc["FedNova", "tuned: best"]
    # OSAFL's level is 0.6 - 0.02 |log2(1) - 1| + 0.001 seed, at 8 rounds 1 - 0.8^8 of it
    level = np.mean([0.58, 0.581]) * (1 - 0.8**8)
    assert table.loc["OSAFL", "printed: best"].startswith(f"{level:.3f}")
    assert table.loc["OSAFL without scores", "printed: mean"]


def test_without_what_is_beyond_the_tables_there_is_a_table_and_a_line():
    found = drive(plans.dataset1(**ONE | {"few": 0}))[1]
    assert "OSAFL without scores" in comparison.equal_steps(found, 1, BASE).index
    said = comparison.bottom_line_1(found, 1, BASE, judged=True)
    assert "leads by" in said and "scores" not in said and "too small" not in said


def tuned_to(one, arm):
    """Tuned OSAFL has 0.501 and 0.5011, and `arm` 0.55: 4.9 points more."""
    tuned = one.tuned.copy()
    for rule, shift in (("osafl", 0.0), (arm, 0.05)):
        for seed in (10, 11):
            rows = (tuned["arm"] == rule) & (tuned["seed"] == seed)
            tuned.loc[rows, "best_accuracy"] = 0.5 + shift + 0.0001 * seed * (rule == "osafl")
    return comparison.bottom_line_1(one._replace(tuned=tuned), 1, BASE, judged=False)


def test_a_lead_that_tuning_takes_away_is_called_one_that_does_not_outlast_it(one):
    """As printed OSAFL leads by 0.2 (1 - 0.8^8) with every seed."""
    said = tuned_to(one, "m_fedavg")
    assert "OSAFL leads by 16.6 points" in said  # 0.58 and 0.38 times 1 - 0.8^8
    assert "is M-FedAvg with 55.0 %: OSAFL lies 4.9 points behind" in said
    assert "So the lead at the printed steps does not outlast tuning." in said
    assert said.endswith("[VERDICTS](../VERDICTS.md).") and "too small" in said
    # 7 / 0.2 of the rules that are compared, without M-FedNova; all took twice their step
    assert "The longest printed step is 35 times the shortest. After tuning it is 35 times" in said


def test_a_rule_that_the_paper_does_not_have_decides_nothing_about_its_baselines(one):
    said = tuned_to(one, "fednova")
    assert "FedNova, which is not in the paper, reaches 55.0 %: OSAFL lies 4.9 points beh" in said
    assert "does not outlast tuning" not in said
    assert "So OSAFL keeps a lead when no rule is held back by its step." in said


def test_a_lead_that_stays_and_one_that_is_open_are_told_apart(one):
    kept = comparison.bottom_line_1(one, 1, BASE, judged=True)
    assert "So OSAFL keeps a lead when no rule is held back by its step." in kept
    tuned = one.tuned.copy()
    rows = (tuned["arm"] == "osafl") & (tuned["seed"] == 10)
    tuned.loc[rows, "best_accuracy"] = 0.3
    open_ = comparison.bottom_line_1(one._replace(tuned=tuned), 1, BASE, judged=True)
    assert "neither leads nor lags by more than chance allows" in open_
    assert "So nothing shows that the lead is more than one of step length." in open_


def test_what_scores_add_is_said_once_where_the_search_kept_the_step(one):
    both = comparison.bottom_line_1(one, 1, BASE, judged=True)
    assert "rises by 0.6 points" in both and "tuned step" in both
    # both measures are named, and whose intervals these are
    assert "the best accuracy rises by 0.9 points" in both
    assert "the mean accuracy over the rounds rises by 0.6 points" in both
    assert "The intervals are those of the differences seed by seed" in both
    same = one._replace(chosen=one.chosen | {"osafl": tuning.Choice(1.0, 1.0, "")})
    once = comparison.bottom_line_1(same, 1, BASE, judged=True)
    assert "at OSAFL's printed step, which the search kept." in once and "tuned step" not in once


def test_the_bottom_line_of_dataset_2_has_both_limits(two):
    known = {
        K: pd.DataFrame({"user": {10: 0.7 / K}, "file": {10: 0.6 / K}}, index=[10]) for K in (1, 2)
    }
    said = comparison.bottom_line_2(two, known, judged=False)
    assert "law is right in 70.0 %" in said and "last file in 30.0 %" in said
    assert "OSAFL leads by 20.0 points (95 % interval 20.0 to 20.0 points over 3 seeds)" in said
    assert "too shallow" in said
    assert "too shallow" not in comparison.bottom_line_2(two, known, judged=True)


def test_the_limits_are_those_of_the_requests():
    base = plans.lstm_base(1, 8, 8, 5, 4, 4, [30, 40]) | {"allocator": "none", "test_size": 200}
    (limits,) = comparison.two_ceilings(base, [1], [3, 4]).values()
    assert list(limits.columns) == ["user", "file"] and list(limits.index) == [3, 4]
    assert ((limits["file"] <= limits["user"]) & (limits["user"] < 1)).all()
    own = comparison.ceilings(base, [1, 2], [3, 4])
    assert own[1].tolist() == limits["user"].tolist()
    assert (own[2] < own[1]).all()  # two similar files are harder to tell apart than one
