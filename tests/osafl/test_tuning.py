"""The comparison's arms: one step size a rule."""

from companion.notebooks.osafl_shared import scaled
from sflkit.osafl.config import OSAFLConfig
from sflkit.osafl.rules import RULES


def test_each_rule_has_one_step_size():
    server = {"osafl": "global_rate", "m_afa_cd": "global_rate"}
    server |= dict.fromkeys(("m_fednova", "m_fednova_latest"), "slowdown")
    for rule, name in (dict.fromkeys(RULES, "rate") | server).items():
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
