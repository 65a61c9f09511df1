"""Keys: equal configs have one, and two that differ have two."""

from __future__ import annotations

import dataclasses
import hashlib
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sflkit.runs.keys import canonical, config_dict, describe, key_of, result_key
from sflkit.sfl import training
from sflkit.sfl.config import SFLConfig

EXPERIMENT = "keys-probe"
RESULT_VERSION = 1


@dataclass(frozen=True)
class Inner:
    share: float = 0.5
    name: str | None = None


@dataclass(frozen=True)
class Other:
    share: float = 0.5
    name: str | None = None


@dataclass(frozen=True)
class Config:
    seed: int = 0
    rate: float = 0.1
    rounds: int | None = None
    both: int | float = 1
    train: bool = True
    rule: str = "a"
    rates: tuple[float, ...] = ()
    pair: tuple[int, float] = (1, 1.0)
    arms: tuple[str, ...] = ("x",)
    inner: Inner | Other | None = None
    options: dict[str, float] = dataclasses.field(default_factory=dict)


def run(config):
    raise NotImplementedError


small = st.integers(0, 3)
real = st.sampled_from([0.0, 0.5, 1.0, 1e-9, 2.0, 1e300])
word = st.sampled_from(["", "a", "1", "1.0", "x,y", '"', "null", "é"])
CONFIGS = st.builds(
    Config,
    seed=st.one_of(small, st.just(2**70)),
    rate=real,
    rounds=st.one_of(st.none(), small),
    both=st.one_of(small, real),
    train=st.booleans(),
    rule=word,
    rates=st.lists(real, max_size=3).map(tuple),
    pair=st.tuples(small, real),
    arms=st.lists(word, max_size=3).map(tuple),
    inner=st.one_of(st.none(), *(st.builds(c, real, word) for c in (Inner, Other))),
    options=st.dictionaries(word, real, max_size=2),
)


def disguised(value):
    """Return what equals a value and looks otherwise: another type, another order, -0.0."""
    if isinstance(value, bool) or value is None or isinstance(value, str):
        return value
    if isinstance(value, int):
        return np.int64(value) if value % 2 and value < 9 else float(value) if value < 9 else value
    if isinstance(value, float):
        return -0.0 if value == 0 else int(value) if value in (1, 2) else np.float64(value)
    if isinstance(value, tuple):
        return tuple(map(disguised, value))
    if isinstance(value, dict):
        return {name: disguised(value[name]) for name in reversed(value)}
    return dataclasses.replace(value, share=disguised(value.share))


@given(CONFIGS)
@settings(max_examples=60)
def test_equal_configs_have_one_key(config):
    fields = {f.name: getattr(config, f.name) for f in dataclasses.fields(config)}
    twin = Config(**{name: disguised(value) for name, value in fields.items()})
    assert twin == config
    assert result_key(run, twin) == result_key(run, config)
    assert canonical(config_dict(twin)) == canonical(config_dict(config))


@given(CONFIGS, CONFIGS)
@settings(max_examples=60)
def test_a_key_says_all_of_a_config(one, other):
    assert (result_key(run, one) == result_key(run, other)) == (one == other)


@given(CONFIGS, st.sampled_from(dataclasses.fields(Config)), CONFIGS)
@settings(max_examples=100)
def test_every_field_counts(config, field, other):
    changed = dataclasses.replace(config, **{field.name: getattr(other, field.name)})
    assert (result_key(run, changed) == result_key(run, config)) == (changed == config)


def test_a_key_by_hand(monkeypatch):
    """sha256 of the JSON text of experiment, version and config, 16 digits of it."""
    text = '["keys-probe",1,{"seed":3}]'

    @dataclass(frozen=True)
    class Three:
        seed: int = 3.0

    monkeypatch.setattr(training, "EXPERIMENT", EXPERIMENT)  # a run of this library
    monkeypatch.setattr(training, "RESULT_VERSION", RESULT_VERSION)
    digits = hashlib.sha256(text.encode()).hexdigest()[:16]
    assert result_key(training.run, Three()) == f"keys-probe/{digits}"


def test_experiment_and_version_count(monkeypatch):
    keys = {result_key(training.run, SFLConfig())}
    monkeypatch.setattr(training, "RESULT_VERSION", training.RESULT_VERSION + 1)
    keys.add(result_key(training.run, SFLConfig()))
    monkeypatch.setattr(training, "EXPERIMENT", "another")
    keys.add(result_key(training.run, SFLConfig()))
    assert len(keys) == 3


def test_a_field_that_came_later_leaves_the_key_while_it_has_its_first_value():
    @dataclass(frozen=True)
    class Before:
        seed: int = 0

    @dataclass(frozen=True)
    class After:
        LATER = {"width": 1.0}  # noqa: RUF012
        seed: int = 0
        width: float = 2.0

    assert result_key(training.run, After(width=1)) == result_key(training.run, Before())
    assert result_key(training.run, After()) != result_key(training.run, Before())


@pytest.mark.parametrize("seed", [1.5, -1, "1", None])
def test_a_seed_is_a_whole_number(seed):
    with pytest.raises(ValueError, match=r"seed=.* must be an integer >= 0"):
        config_dict(Config(seed=seed))


def test_a_record_says_its_own_key():
    head = describe(run, Config(seed=np.int32(5)))
    assert key_of(head) == head["key"] and head["config"]["seed"] == 5
