"""The comparison's arms: one step size a rule, and runs by case."""

import numpy as np
import pandas as pd
import pytest

from companion.notebooks.osafl_shared import collect, scaled, step_name
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
