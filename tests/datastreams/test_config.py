"""What a config allows, and that published results keep their keys."""

from dataclasses import replace

from sflkit.datastreams.config import DataStreamsConfig
from sflkit.datastreams.training import build
from sflkit.federated import servers
from sflkit.registry import Registry, Rule
from sflkit.runs.keys import config_dict
from tests.datastreams.helpers import CONFIG


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
