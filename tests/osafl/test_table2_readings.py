"""The grid of readings: which runs a reading needs, and how many printed numbers it meets."""

import numpy as np
import pandas as pd
import pytest

from companion.notebooks import table2_readings
from companion.notebooks.table2_readings import Reading

BASE = {"model": "osafl_fcn", "rounds": 2, "capacity_low": 320}


def test_a_reading_says_what_every_rule_does():
    def of(rule, *choices):
        found = table2_readings.config(Reading(*choices), rule, BASE, seed=3)
        return found.rule, found.never_joined, found.slowdown

    assert of("osafl", 40.0) == ("osafl", "zero", None)
    assert of("m_afa_cd", 40.0) == ("m_afa_cd", "literal", None)
    assert of("osafl", 40.0, "printed") == ("osafl", "literal", None)
    assert of("m_fedavg", 40.0, "joined clients only") == ("m_fedavg", "exclude", None)
    # the present model stands for them in both, so that the two readings share a run
    assert of("m_fedavg", 40.0, "no rule with w/eta") == of("m_fedavg", 40.0, "printed")
    # the FCN's tau = 0.1 and eta = 0.01: without eta the step is 100 times as long
    assert of("m_fednova", 40.0) == ("m_fednova_latest", "zero", 10.0)
    assert of("m_fednova", 40.0, "printed", "latest") == ("m_fednova_latest", "zero", None)
    assert of("m_fednova", 40.0, "printed", "this round's") == ("m_fednova", "exclude", None)
    steps = Reading(8.0, local_round="minibatches")
    one = table2_readings.config(steps, "osafl", BASE, seed=3, K=2)
    assert (one.input_norm, one.local_round, one.seed, one.top_k) == (8.0, "minibatches", 3, 2)
    assert (
        str(steps) == "scale 8, OSAFL without w/eta, M-FedNova latest, without its rate, 32 steps"
    )
    with pytest.raises(ValueError, match="buffer='nothing' must be one of"):
        of("osafl", 40.0, "nothing")
    with pytest.raises(ValueError, match="rule='genie' must be one of"):
        of("genie", 40.0)


def test_readings_share_their_runs():
    # of a scale and local round: OSAFL 3, M-FedAvg and M-FedProx 2, M-AFA-CD and M-FedDisco 3;
    # M-FedNova 2 forms with 2 steps, the latest one also over the joined clients: 6
    tried = table2_readings.star([40.0])
    assert len(tried) == 16 and len(table2_readings.configs(tried, BASE, [1])) == 19
    assert len(table2_readings.configs(tried, BASE, [1, 2], [1, 2])) == 4 * 19
    # at another scale one reading more, and the list begins with that reading at the first
    more = table2_readings.star([40.0, 28.0])
    assert more == [*tried, Reading(28.0)] and more[0] == Reading(40.0)


def test_print_and_its_tolerance():
    table = table2_readings.printed()
    assert table.loc[("osafl", "accuracy"), :].tolist() == pytest.approx([0.6608, 0.0013, 0.0326])
    assert table.loc[("m_fedprox", "loss"), :].tolist() == pytest.approx([2.6504, 0.0215, 0.193])
    assert table2_readings.printed(2).loc[("m_afa_cd", "accuracy"), "value"] == 0.0447


def runs_of(readings, change):
    """Every run of some readings, as printed but for `change`: config -> accuracy and loss."""
    asked, frames = table2_readings.printed()["value"], []
    for i, one in enumerate(table2_readings.configs(readings, BASE, [3])):
        rule = one.rule.removesuffix("_latest")
        pair = change.get((rule, one.input_norm), (asked[rule, "accuracy"], asked[rule, "loss"]))
        frame = pd.DataFrame([(0.0, 9.0), pair], columns=["best_accuracy", "best_loss"])
        frames.append(frame.assign(key=f"run{i}"))
    return pd.concat(frames, ignore_index=True)


def test_the_score_by_hand():
    cell, other = Reading(40.0), Reading(28.0)
    # OSAFL 0.033 above print misses its 0.0326, its loss 0.18 above meets 0.1818; one diverged
    change = {("osafl", 28.0): (0.6938, 2.2049), ("m_fedavg", 28.0): (np.nan, np.nan)}
    tried = [other, cell]
    table = table2_readings.grid_table(runs_of(tried, change), tried, BASE, seed=3)
    assert table["norm"].tolist() == [40.0, 28.0]
    assert table.loc[0, ["met", "distance"]].tolist() == [12, 0]
    row = table.iloc[1]
    assert (row["met"], row["accuracies"], row["losses"]) == (9, 4, 5)
    assert row["m_fedavg accuracy"] == 0 and row["m_fedavg loss"] == np.inf
    assert row["distance"] == pytest.approx((0.033 + 0.6281) / 6)
    with pytest.raises(ValueError, match="argument 2 is shorter"):  # runs of another reading
        table2_readings.grid_table(runs_of([cell], {}), tried, BASE, seed=3)


def test_means_over_seeds_meet_print_or_not():
    """Seeds 0.02 to either side of print meet it in the mean; M-FedAvg's loss 0.3 above misses."""
    asked = table2_readings.printed(2)["value"]
    rows = [
        (rule, 2, seed, asked[rule, "accuracy"] + by, asked[rule, "loss"] + 0.2 * late)
        for rule in table2_readings.RULES_OF_TABLE
        for seed, by, late in ((0, 0.02, rule == "m_fedavg"), (1, -0.02, rule == "m_fedavg"))
    ]
    runs = pd.DataFrame(rows, columns=["arm", "K", "seed", "best_accuracy", "best_loss"])
    assert table2_readings.met(runs, 2) == 12  # 0.2 is within 0.15 and twice 0.0443
    worse = runs.assign(best_loss=runs["best_loss"] + 0.1 * (runs["arm"] == "m_fedavg"))
    assert table2_readings.met(worse, 2) == 11
