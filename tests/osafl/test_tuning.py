"""The comparison's arms: one step size a rule, and the search's choice."""

import numpy as np
import pandas as pd
import pytest

from companion.osafl.tuning import Choice, choose, collect, grown, scaled, step_name
from sflkit.osafl.config import OSAFLConfig
from sflkit.osafl.rules import RULES


def test_each_rule_has_one_step_size():
    server = {"osafl": "global_rate", "m_afa_cd": "global_rate"}
    server |= dict.fromkeys(("m_fednova", "m_fednova_latest"), "slowdown")
    assert {rule: step_name(rule) for rule in RULES} == dict.fromkeys(RULES, "rate") | server
    for rule in RULES:
        name = step_name(rule)
        before = OSAFLConfig(rule=rule, model="osafl_cnn")
        after = scaled(before, 4)
        assert getattr(after, name) == 4 * before.hyper[name]
        assert {k: v for k, v in after.hyper.items() if k != name} == {
            k: v for k, v in before.hyper.items() if k != name
        }
    assert scaled(OSAFLConfig(model="osafl_fcn"), 0.25).hyper == {
        "rate": 0.2,
        "global_rate": 35 * 0.25,
    }
    assert (
        scaled(OSAFLConfig(rule="fednova", preset="lstm")).rate
        == RULES["m_fedavg"].presets["lstm"]["rate"]
    )


def test_the_least_loss_wins_and_edges_and_guesses_are_refused():
    guess = np.exp(1.5)  # a constant guess has a loss whose logarithm is 1.5
    assert choose({1: 1.0, 2: 0.8, 4: 0.9}, guess) == Choice(2, 0.8, "")
    assert choose({4: 0.9, 2: 0.8, 1: 0.8}, guess) == Choice(1, 0.8, "edge")  # the smaller first
    assert choose({1: 1.0, 2: 0.8, 4: 0.7}, guess) == Choice(4, 0.7, "edge")
    assert choose({1: 1.9, 2: 1.6, 4: 1.7}, guess) == Choice(2, 1.6, "guess")
    assert choose({1: 1.9, 2: 1.7, 4: 1.6}, guess).refused == "guess"


def test_a_refused_grid_grows_on_the_side_of_the_best():
    grid = [0.5, 1, 2]
    assert grown(grid, Choice(1, 0.0, ""), 0.01, 100) == []
    assert grown(grid, Choice(2, 0.0, "edge"), 0.01, 100) == [4]
    assert grown(grid, Choice(0.5, 0.0, "edge"), 0.01, 100) == [0.25]
    assert grown(grid, Choice(1, 0.0, "guess"), 0.01, 100) == [4]  # towards longer steps
    assert grown(grid, Choice(2, 0.0, "edge"), 0.01, 4) == [4]  # both ends are included
    assert grown(grid, Choice(2, 0.0, "edge"), 0.01, 3) == []


def runs(curves):
    """One run a curve of accuracies."""
    return pd.concat(
        [
            pd.DataFrame(
                {"key": f"run{i}", "round": np.arange(1, len(curve) + 1), "accuracy": curve}
            )
            for i, curve in enumerate(curves)
        ],
        ignore_index=True,
    )


def test_collect_names_every_case():
    a, b = OSAFLConfig("m_fedavg"), OSAFLConfig("osafl")
    plan = {("printed", 1): a, ("tuned", 1): b, ("tuned", 2): a}
    frame = runs([(0.1, 0.2), (0.3, 0.4)])
    found = collect(
        pd.concat([frame, frame[frame["key"] == "run0"]]), plan, ("rates", "arm")
    )  # rows again, as run_many has them
    got = [(c, x["accuracy"].tolist()) for c, x in found.groupby(["rates", "arm"], sort=False)]
    assert got == [
        (("printed", 1), [0.1, 0.2]),
        (("tuned", 1), [0.3, 0.4]),
        (("tuned", 2), [0.1, 0.2]),
    ]
    with pytest.raises(ValueError, match="1 runs; the plan has 2"):
        collect(frame[frame["key"] == "run0"], plan, ("rates", "arm"))


@pytest.mark.parametrize(
    "bad", [lambda: scaled(OSAFLConfig(), 0), lambda: choose({1: 0.5, 2: 0.4}, 4.0)]
)
def test_bad_input(bad):
    with pytest.raises(ValueError, match=r"factor=0|three at least"):
        bad()
