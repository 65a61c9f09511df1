"""Declared configs: what a field allows is said once, and a refusal is one line."""

from __future__ import annotations

import pickle
from dataclasses import FrozenInstanceError, asdict, replace
from typing import Annotated

import numpy as np
import pytest
from pydantic import model_validator

from sflkit.config import Count, Flag, NotNegative, Number, OneOf, Positive, Seed, Share, settings
from sflkit.registry import Registry, Rule
from sflkit.results.store import config_dict

RULES = Registry("cache rule", {"fifo": Rule(list, "FIFO"), "drsr": Rule(list, "DRSR")})


@settings
class Example:
    """A config with a field of every kind."""

    rule: Annotated[str, OneOf(RULES)] = "drsr"
    seed: Seed = 0
    rounds: Count = 200
    rate: Positive = 0.1
    mu: NotNegative = 0.0
    theta: Share = 2 / 3
    decay: Annotated[float, Number(0, below=1)] = 0.9
    train: Flag = True
    limit: Count | None = None
    rates: tuple[Positive, ...] = (0.1,)
    name: str = "x"

    @model_validator(mode="after")
    def _agree(self) -> Example:
        if self.limit is not None and self.limit > self.rounds:
            raise ValueError(f"limit={self.limit} must be at most rounds={self.rounds}")
        return self


def test_defaults_values_and_copies():
    config = Example(rounds=5, theta=0.5)
    assert (config.rounds, config.theta, config.rule) == (5, 0.5, "drsr")
    assert replace(config, rounds=6) == Example(rounds=6, theta=0.5)
    assert hash(config) == hash(Example(rounds=5, theta=0.5))
    assert pickle.loads(pickle.dumps(config)) == config
    assert asdict(config)["rates"] == (0.1,)


def test_a_config_is_frozen():
    with pytest.raises((FrozenInstanceError, AttributeError)):
        Example().rounds = 3


@pytest.mark.parametrize("five", [5, 5.0, np.int32(5), np.float64(5), np.uint8(5)])
def test_whole_numbers_of_any_kind_are_one_config_with_one_result(five):
    config = Example(rounds=five, rate=five, rates=[five])
    assert config == Example(rounds=5, rate=5.0, rates=(5.0,))
    assert (
        type(config.rounds) is int and type(config.rate) is float and type(config.rates[0]) is float
    )
    assert config_dict(config) == config_dict(Example(rounds=5, rate=5.0, rates=(5.0,)))


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"rounds": 0}, "rounds=0 must be an integer >= 1"),
        ({"rounds": "7"}, "rounds='7' must be an integer >= 1"),
        ({"rounds": True}, "rounds=True must be an integer >= 1"),
        ({"rounds": 1.5}, "rounds=1.5 must be an integer >= 1"),
        ({"rounds": None}, "rounds=None must be an integer >= 1"),
        ({"seed": -1}, "seed=-1 must be an integer >= 0"),
        ({"rate": 0}, "rate=0 must be a finite number > 0"),
        ({"rate": "0.1"}, "rate='0.1' must be a finite number > 0"),
        ({"rate": True}, "rate=True must be a finite number > 0"),
        ({"rate": float("nan")}, "rate=nan must be a finite number > 0"),
        ({"mu": -0.5}, "mu=-0.5 must be a finite number >= 0"),
        ({"theta": 1.5}, "theta=1.5 must be a finite number >= 0 and <= 1"),
        ({"decay": 1}, "decay=1 must be a finite number >= 0 and < 1"),
        ({"train": 1}, "train=1 must be one of False, True"),
        ({"rule": "lifo"}, "rule='lifo' must be one of 'fifo', 'drsr'"),
        ({"rule": ["fifo"]}, "rule=['fifo'] must be one of 'fifo', 'drsr'"),
        ({"limit": 0}, "limit=0 must be an integer >= 1"),
        ({"limit": 300}, "limit=300 must be at most rounds=200"),
        ({"rates": (0.1, -2)}, "rates entry=-2 must be a finite number > 0"),
        ({"name": 3}, "name=3 is refused: input should be a valid string"),
        ({"ruond": 3}, "ruond is no field of Example; its fields are rule, seed, rounds"),
        (
            {"rounds": 0, "rate": 0},
            "rounds=0 must be an integer >= 1; rate=0 must be a finite number > 0",
        ),
    ],
)
def test_refusals_are_one_line(fields, message):
    with pytest.raises(ValueError) as error:
        Example(**fields)
    assert str(error.value).startswith(message) and "\n" not in str(error.value)
    assert type(error.value) is ValueError


def test_a_rule_added_later_is_allowed():
    RULES.add("later", Rule(list, "Later"))
    assert Example(rule="later").rule == "later"


def test_a_field_without_default_must_be_given():
    @settings
    class Needs:
        seed: Seed

    with pytest.raises(ValueError, match="seed of Needs must be given"):
        Needs()
    assert Needs(3).seed == 3
