"""Declared configs: what a field allows is said once, and a refusal is one line."""

from __future__ import annotations

import copy
import inspect
import pickle
import subprocess
import sys
from dataclasses import FrozenInstanceError, asdict, replace
from typing import Annotated

import numpy as np
import pytest
from distributed.protocol import pickle as travel
from pydantic import field_validator, model_validator

from sflkit.config import (
    Count,
    Flag,
    NotNegative,
    Number,
    OneOf,
    Positive,
    Seed,
    Share,
    checked,
    settings,
)
from sflkit.fats.config import FATSConfig
from sflkit.registry import Registry, Rule
from sflkit.runs.keys import config_dict
from sflkit.sfl.config import SFLConfig

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
    hidden: Count | tuple[Count, ...] | None = None
    channels: tuple[Count, Count] = (32, 64)
    names: tuple[str, ...] = ()
    second_rule: Annotated[str, OneOf(RULES)] | None = None

    @field_validator("name", mode="after")
    @classmethod
    def _not_shouted(cls, name: str) -> str:
        if name.isupper():
            raise ValueError(f"name={name!r} must not be in capitals")
        return name

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
    assert copy.deepcopy(config) == copy.copy(config) == config
    assert asdict(config)["rates"] == (0.1,)
    assert Example("fifo", 3) == Example(rule="fifo", seed=3)
    assert list(inspect.signature(Example).parameters)[:3] == ["rule", "seed", "rounds"]


def test_defaults_are_values_like_any_other():
    @settings
    class Sloppy:
        rate: Positive = 1
        widths: tuple[Count, ...] = (2.0,)

    assert type(Sloppy().rate) is float and type(Sloppy().widths[0]) is int
    assert repr(Sloppy()) == repr(Sloppy(rate=1.0, widths=(2,)))

    @settings
    class Wrong:
        rate: Positive = -1.0

    with pytest.raises(ValueError, match=r"rate=-1.0 must be a finite number > 0"):
        Wrong()


@pytest.mark.parametrize("entries", [(3, 4), [3, 4], np.array([3, 4]), np.array([3.0, 4.0])])
def test_tuples_may_be_given_as_lists_and_arrays(entries):
    config = Example(hidden=entries, channels=entries, rates=entries)
    assert config == Example(hidden=(3, 4), channels=(3, 4), rates=(3.0, 4.0))
    assert type(config.hidden) is tuple and type(config.hidden[0]) is int


def test_values_of_numpy_that_are_no_numbers():
    config = Example(train=np.bool_(False), rule=np.array(["fifo"])[0])
    assert config == Example(train=False, rule="fifo")
    assert type(config.train) is bool and type(config.rule) is str


def test_a_config_is_frozen():
    with pytest.raises((FrozenInstanceError, AttributeError)):
        Example().rounds = 3


@pytest.mark.parametrize("five", [5, 5.0, np.int32(5), np.float64(5), np.uint8(5)])
def test_whole_numbers_of_any_kind_are_one_config_with_one_result(five):
    config = Example(rounds=five, rate=five, rates=[five])
    assert config == Example(rounds=5, rate=5.0, rates=(5.0,))
    assert type(config.rounds) is int
    assert type(config.rate) is float
    assert type(config.rates[0]) is float
    assert config_dict(config) == config_dict(Example(rounds=5, rate=5.0, rates=(5.0,)))


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"rounds": 0}, "rounds=0 must be an integer >= 1"),
        ({"rounds": True}, "rounds=True must be an integer >= 1"),
        ({"rate": 0}, "rate=0 must be a finite number > 0"),
        ({"theta": 1.5}, "theta=1.5 must be a finite number >= 0 and <= 1"),
        ({"train": 1}, "train=1 must be one of False, True"),
        ({"rule": "lifo"}, "rule='lifo' must be one of 'fifo', 'drsr'"),
        ({"limit": 300}, "limit=300 must be at most rounds=200"),
        ({"rates": (0.1, -2)}, "rates entry=-2 must be a finite number > 0"),
        ({"rates": 0.1}, "rates=0.1 must be a tuple or a list"),
        ({"rates": {0.1}}, "rates={0.1} must be a list or a tuple; a set has no order"),
        ({"name": 3}, "name=3 must be text"),
        ({"name": "X"}, "name='X' must not be in capitals"),
        ({"names": ("a", 3)}, "names entry=3 must be text"),
        *(
            ({"hidden": value}, f"hidden={value!r} must be an integer >= 1 or a tuple or a list")
            for value in (0, True, "64", 1.5)
        ),
        ({"hidden": (3, 0)}, "hidden entry=0 must be an integer >= 1"),
        ({"channels": (4,)}, "channels=(4,) must be a tuple with more entries"),
        ({"channels": (4, 5, 6)}, "channels=(4, 5, 6) must be a tuple with fewer entries"),
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
    for jargon in ("Input should", "validation", "pydantic", "<field>"):
        assert jargon.lower() not in str(error.value).lower()


def test_own_data_in_a_config_are_sent_to_run():
    own = "; your own is for run(config, data=...), where it takes one"
    arrays = (np.zeros((600, 20)), np.zeros(600, int))
    for config, told in ((SFLConfig, own), (FATSConfig, own)):
        with pytest.raises(ValueError, match=r"^data=") as error:
            config(data=arrays)
        message = str(error.value)
        assert message.endswith(told) and "\n" not in message and len(message) < 500
    with pytest.raises(ValueError, match=r"must be one of [^;]*$"):
        SFLConfig(data="fminst")


GROWING = Registry("cache rule", {"fifo": Rule(list, "FIFO")})


@settings
class Growing:
    rule: Annotated[str, OneOf(GROWING)] = "fifo"


def test_a_rule_added_later_is_allowed():
    GROWING.add("later", Rule(list, "Later"))
    assert Growing(rule="later").rule == "later"


def test_a_field_without_default_must_be_given():
    @settings
    class Needs:
        seed: Seed

    with pytest.raises(ValueError, match="seed of Needs must be given"):
        Needs()
    assert Needs(3).seed == 3


def test_values_by_place():
    @settings
    class Two:
        seed: Seed = 0
        rounds: Count = 1

    with pytest.raises(
        ValueError, match=r"^9 is one value too many for Two; its 2 fields, .* seed, r"
    ):
        Two(1, 2, 9)
    with pytest.raises(ValueError, match=r"^seed is one value too many for Two"):
        Two(1, seed=1)
    with pytest.raises(ValueError, match=r"^seed=-1 must be an integer >= 0"):
        Two(-1)


def test_subclasses_declared_and_plain():
    @settings
    class More(Example):
        extra: Count = 1

    class Plain(Example):
        pass

    assert More(extra=2.0).extra == 2 and replace(More(rounds=5), extra=3).rounds == 5
    assert More() != Example() and Plain(rounds=3).rounds == 3
    with pytest.raises(ValueError, match=r"^extra=0 must be an integer >= 1$"):
        More(extra=0)
    with pytest.raises(ValueError, match="limit=300 must be at most rounds=200"):
        More(limit=300)
    with pytest.raises(ValueError, match=r"nope is no field of More; .* extra$"):
        More(nope=1)
    with pytest.raises(ValueError, match="nope is no field of Plain"):
        replace(Plain(), nope=1)


@pytest.mark.parametrize("kind", [int, float | None, tuple[bool, ...]])
def test_a_bare_number_is_refused_at_the_declaration(kind):
    class Bare:
        field: kind

    Bare.__annotations__ = {"field": kind}
    with pytest.raises(TypeError, match=r"field of Bare is a bare (int|float|bool); say what it"):
        settings(Bare)


def test_a_config_of_a_script_travels_by_value(tmp_path):
    """What Dask and loky do with a class of `__main__`: another process rebuilds it."""
    script = tmp_path / "script.py"
    script.write_text(
        "import sys\n"
        "from distributed.protocol import pickle as travel\n"
        "from sflkit.config import Count, OneOf, settings\n"
        "from sflkit.registry import Registry, Rule\n"
        "from typing import Annotated\n"
        "RULES = Registry('rule', {'a': Rule(list, 'A')})\n"
        "@settings\n"
        "class Mine:\n"
        "    rounds: Count = 2\n"
        "    rule: Annotated[str, OneOf(RULES)] | None = 'a'\n"
        "open(sys.argv[1], 'wb').write(travel.dumps((Mine, Mine(rounds=3))))\n"
    )
    subprocess.run([sys.executable, script, tmp_path / "mine"], check=True)
    cls, config = travel.loads((tmp_path / "mine").read_bytes())
    assert config == cls(rounds=3) and config.rule == "a"
    with pytest.raises(ValueError, match=r"^rounds=0 must be an integer >= 1$"):
        cls(rounds=0)


@checked
def counted(rule: Annotated[str, OneOf(RULES)], n: Count, *, share: Share | None = None, **more):
    return rule, n, share, more


def test_a_function_takes_its_arguments_as_its_annotations_say():
    assert counted("fifo", 5.0, share=np.float32(0.5), x="y") == ("fifo", 5, 0.5, {"x": "y"})
    assert type(counted("fifo", np.int8(5))[1]) is int and counted("fifo", 5, share=None)[2] is None
    assert list(inspect.signature(counted).parameters) == ["rule", "n", "share", "more"]
    for call, message in (
        (lambda: counted("lru", 5), "rule='lru' must be one of 'fifo', .*"),
        (lambda: counted("fifo", n=0), "n=0 must be an integer >= 1"),
        (lambda: counted("fifo", None), "n=None must be an integer >= 1"),
        (lambda: counted("fifo", 1, share=2), "share=2 must be a finite number >= 0 and <= 1"),
    ):
        with pytest.raises(ValueError, match=f"^{message}$"):
            call()
    with pytest.raises(TypeError, match="missing"):
        counted("fifo")
