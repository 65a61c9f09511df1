"""The settings of OSAFL's runs: printed rates, refusals, and the keys of published results."""

from __future__ import annotations

import pytest

from sflkit.osafl.config import OSAFLConfig
from sflkit.osafl.rules import RULES
from sflkit.registry import Rule


def test_hyper_parameters():
    assert OSAFLConfig(model="osafl_cnn").hyper == {"rate": 0.08, "global_rate": 22}
    assert OSAFLConfig(rule="m_fednova", preset="squeezenet1").hyper == {
        "rate": 0.03,
        "slowdown": 0.05,
    }
    assert OSAFLConfig(rule="fednova").hyper == OSAFLConfig(rule="genie").hyper == {"rate": 0.15}
    assert OSAFLConfig(rule="m_feddisco", dataset=2, model="char_rnn", a=0).hyper == {
        "rate": 0.5,
        "a": 0,
        "b": 0.1,
    }


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"mu": 0.1}, "mu=0.1 has no meaning for rule='osafl'"),
        ({"rule": "m_fedavg", "global_rate": 2.0}, "global_rate=2.0 has no"),
    ],
)
def test_config_refuses(changes, message):
    with pytest.raises(ValueError, match=message):
        OSAFLConfig(**changes)


def test_a_rule_without_printed_rates_asks_for_them(monkeypatch):
    monkeypatch.setattr(RULES, "_rules", dict(RULES.items()))  # the row goes again after this test
    RULES.add("mine", Rule(list, "My rule", options=("n_clients", "mu")))
    assert OSAFLConfig("mine", rate=0.1, mu=0.5).hyper == {"rate": 0.1, "mu": 0.5}
    with pytest.raises(ValueError, match="rate=None must be a number for rule='mine'"):
        _ = OSAFLConfig("mine", mu=0.5).hyper
    with pytest.raises(ValueError, match="mu=None must be a number for rule='mine'"):
        _ = OSAFLConfig("mine", rate=0.5).hyper
    with pytest.raises(ValueError, match=r"a=0.5 has no meaning for rule='mine'"):
        OSAFLConfig("mine", a=0.5)
