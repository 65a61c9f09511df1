"""Strategies by name: their importance by hand, the one table of them, strategies of one's own."""

import numpy as np
import pytest

from sflkit.datastreams import strategies
from sflkit.datastreams.config import DataStreamsConfig
from sflkit.datastreams.psi import minimize_psi
from sflkit.datastreams.strategies import RULES, client_importance, parse_arm
from sflkit.datastreams.training import run
from sflkit.registry import Registry, Rule
from tests.datastreams.helpers import CONFIG, FOUR, TWO, random_federation


def test_strategies_by_hand():
    n = [1, 2, 3, 4]  # historical 1 and 3: n_hist = 0.4
    np.testing.assert_allclose(client_importance("uniform", n, FOUR), [0.1, 0.2, 0.3, 0.4])
    np.testing.assert_allclose(client_importance("historical", n, FOUR), [0.25, 0, 0.75, 0])
    np.testing.assert_allclose(client_importance("fresh", n, FOUR), [0, 1 / 3, 0, 2 / 3])
    np.testing.assert_allclose(
        client_importance("p_hist=0.8", n, FOUR), [0.2, 0.2 / 3, 0.6, 0.4 / 3]
    )
    np.testing.assert_array_equal(
        client_importance("ours", n, FOUR, c_ratio=0.7), minimize_psi(n, FOUR, 1, 0.7).p
    )
    np.testing.assert_allclose(
        client_importance("p_hist=0.4", n, FOUR), client_importance("uniform", n, FOUR)
    )
    for share in (0.0, 0.2, 0.5, 0.8, 1.0):
        assert client_importance(f"p_hist={share}", n, FOUR)[FOUR].sum() == pytest.approx(share)


def test_arms_are_names_or_shares():
    assert [parse_arm(name) for name in ("fresh", "ours")] == [("fresh", None), ("ours", None)]
    assert parse_arm("p_hist=0.25") == ("p_hist", 0.25) and parse_arm("p_hist=1") == ("p_hist", 1.0)


def with_own(monkeypatch, **rows):
    monkeypatch.setattr(strategies, "RULES", Registry("strategy", {**RULES, **rows}))


def test_a_strategy_of_ones_own_is_one_row(monkeypatch):
    def equal(n, historical):
        return np.full(len(n), 1 / len(n))

    def tilted(n, historical, tilted, c_ratio):
        p = np.where(historical, 1 + tilted * c_ratio, 1.0)
        return p / p.sum()

    with pytest.raises(ValueError, match="arms holds 'equal'"):
        DataStreamsConfig(arms=("equal",), rates=(0.1,))
    options = ("tilted", "c_ratio")
    with_own(
        monkeypatch, equal=Rule(equal, "Equal"), tilted=Rule(tilted, "Tilted", options=options)
    )
    np.testing.assert_allclose(client_importance("equal", [1, 2, 3, 4], FOUR), 0.25)
    by_hand = np.array([2, 1, 2, 1]) / 6  # 1 + 0.5 * 2 for the historical clients
    np.testing.assert_allclose(
        client_importance("tilted=0.5", [1, 2, 3, 4], FOUR, c_ratio=2.0), by_hand
    )
    with pytest.raises(ValueError, match="c_ratio=None must be a finite number"):
        DataStreamsConfig(arms=("tilted=0.5",), rates=(0.1,), c_ratio=None)
    config = DataStreamsConfig(**{**vars(CONFIG), "arms": ("equal", "uniform"), "rounds": 1})
    frame = run(config, data=random_federation([5, 3, 7, 11], 2))
    assert frame["p_hist"].tolist() == pytest.approx([0.5, 8 / 26])


@pytest.mark.parametrize(
    ("p", "message"),
    [
        ([0.5, 0.6], "p of 'own' must sum to 1"),
        ([-0.5, 1.5], "p of 'own' holds -0.5"),
        ([0.5, 0.25, 0.25], "p of 'own' has shape .3,.; it must be .2,., as n"),
        ("all", "p of 'own'='all' must be an array of numbers"),
    ],
)
def test_what_an_own_strategy_must_return(p, message, monkeypatch):
    with_own(monkeypatch, own=Rule(lambda n, historical: p, "Own"))
    with pytest.raises(ValueError, match=message):
        client_importance("own", [1, 1], TWO)
