"""What a config allows, and that published results keep their keys."""

from dataclasses import replace

import pytest

from sflkit.datastreams.config import DataStreamsConfig
from sflkit.datastreams.training import EXPERIMENT, build, run
from sflkit.federated import servers
from sflkit.registry import Registry, Rule
from sflkit.runs import archive
from sflkit.runs.keys import config_dict, result_key
from tests.datastreams.helpers import CONFIG
from tests.helpers import ROOT


def test_published_results_keep_their_keys():
    records = archive.read(EXPERIMENT, ROOT / "data/results").records.values()
    changed = [
        record["key"]
        for record in records
        if result_key(run, DataStreamsConfig(**record["config"])) != record["key"]
    ]
    assert len(records) >= 18 and not changed


def test_every_registered_server_is_allowed(monkeypatch):
    assert {"fedavg", "fedprox", "scaffold"} <= set(servers.RULES)
    for name in servers.RULES:
        assert replace(CONFIG, server=name).server == name
    rows = {**servers.RULES, "mine": Rule(servers.FedAvg, "Mine")}
    monkeypatch.setattr(servers, "RULES", Registry("server rule", rows))
    assert replace(CONFIG, server="mine").server == "mine"


def test_natural_clients_do_not_use_n_historical():
    config = DataStreamsConfig(data="writers", n_clients=5, model="mlp")
    assert config.n_historical == 10  # as stored before, so that results keep their keys
    assert build(config).historical.tolist() == [True] + [False] * 4
    assert config_dict(config) == config_dict(replace(config, n_clients=11)) | {"n_clients": 5}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"arms": ("uniform", "newest")}, "arms holds 'newest'"),
        ({"arms": ("uniform", "p_hist=1.5")}, "arms holds 'p_hist=1.5'"),
        ({"arms": ("uniform", "p_old=0.5")}, "arms holds 'p_old=0.5'"),
        ({"arms": ("uniform", "p_hist")}, "arms holds 'p_hist'"),
        ({"arms": ("uniform", 3)}, "arms entry=3 must be text"),
        ({"arms": ("uniform",)}, "one entry per arm"),
        ({"arms": (), "rates": ()}, "at least one"),
        ({"n_historical": 4}, "n_historical=4 must be an integer >= 1 and <= 3"),
        ({"n_historical": 0}, "n_historical=0"),
        ({"n_historical": None}, "n_historical=None"),
        ({"hist_fraction": 1.0}, "hist_fraction=1.0"),
        ({"arms": ("uniform", "ours"), "c_ratio": None}, "c_ratio=None"),
        ({"participation": 0}, "participation=0"),
        ({"participation": 5}, "participation=5"),
        ({"availability": 1}, "availability=1 must be one of 'stream', '1', '2'"),
        ({"rate": 0.1}, "rate is no field of DataStreamsConfig; its fields are arms, rates"),
    ],
)
def test_bad_config(change, message):
    with pytest.raises(ValueError, match=message):
        replace(CONFIG, **change)
