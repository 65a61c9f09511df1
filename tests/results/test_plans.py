"""Plans: stages one after the other, later ones chosen by earlier ones."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import pandas as pd
import pytest

from companion import plans
from companion.plans import Stage

EXPERIMENT = "plan-probe"
RESULT_VERSION = 1
CALLS: list[tuple[int, float]] = []


@dataclass(frozen=True)
class Config:
    seed: int = 0
    rate: float = 0.1


def run(config: Config) -> pd.DataFrame:
    """A run whose loss is least at rate 0.3, and which fails at rate 13."""
    CALLS.append((config.seed, config.rate))
    if config.rate == 13:
        raise ArithmeticError("diverged")
    return pd.DataFrame({"loss": [abs(config.rate - 0.3) + config.seed]})


class Found(NamedTuple):
    tried: pd.DataFrame
    found: pd.DataFrame


def study(*, rates, seeds):
    """Search a rate on seed 0, then run the best one on `seeds`."""
    tried = yield Stage(run, [Config(0, rate) for rate in rates], "search")
    best = tried.loc[tried["loss"].idxmin(), "rate"]
    found = yield Stage(run, [Config(seed, best) for seed in seeds], "judge", gpu=True)
    return Found(tried, found)


@pytest.fixture(autouse=True)
def store(tmp_path, monkeypatch):
    monkeypatch.setenv("SFLKIT_CACHE", str(tmp_path / "store"))
    CALLS.clear()
    return tmp_path / "store"


def test_a_later_stage_follows_from_an_earlier_one():
    answer = plans.carry_out(study(rates=[0.1, 0.25, 1.0], seeds=[10, 11]))
    assert isinstance(answer, Found)
    assert answer.tried["rate"].tolist() == [0.1, 0.25, 1.0]
    # |0.25 - 0.3| = 0.05 is the least of 0.2, 0.05 and 0.7, so 0.25 is judged
    assert answer.found[["seed", "rate"]].values.tolist() == [[10, 0.25], [11, 0.25]]
    assert CALLS == [(0, 0.1), (0, 0.25), (0, 1.0), (10, 0.25), (11, 0.25)]


def test_what_is_stored_or_published_is_not_run_again(store, tmp_path, monkeypatch):
    first = plans.carry_out(study(rates=[0.1, 0.25], seeds=[10]), jobs=2)
    again = plans.carry_out(study(rates=[0.1, 0.25], seeds=[10]))
    monkeypatch.setenv("SFLKIT_CACHE", str(tmp_path / "empty"))
    published = plans.carry_out(study(rates=[0.1, 0.25], seeds=[10]), published=store)
    assert len(CALLS) == 3
    for other in (again, published):
        pd.testing.assert_frame_equal(first.found, other.found, check_exact=True)


def test_a_stage_without_configs_gives_back_an_empty_frame():
    def nothing():
        frame = yield Stage(run, [])
        return frame

    frame = plans.carry_out(nothing())
    assert frame.empty and len(frame.columns) == 0 and CALLS == []
    assert frame.attrs == {"keys": [], "data": [], "sources": {}, "computed": 0, "reused": 0}


def test_a_plan_may_have_no_stage_and_configs_may_be_any_iterable():
    def no_stage():
        return 7
        yield

    def lazy():
        frame = yield Stage(run, (Config(seed) for seed in range(2)))
        return frame["seed"].tolist()

    assert plans.carry_out(no_stage()) == 7
    assert plans.carry_out(lazy()) == [0, 1]


def test_what_is_no_plan_is_refused_before_anything_runs():
    with pytest.raises(TypeError, match=r"must be a generator that yields stages; call it with"):
        plans.carry_out(study)
    with pytest.raises(TypeError, match=r"plan=\[\] must be a generator that yields stages$"):
        plans.carry_out([])
    spent = study(rates=[0.1], seeds=[1])
    plans.carry_out(spent)
    with pytest.raises(ValueError, match="study was begun before"):
        plans.carry_out(spent)


@pytest.mark.parametrize("said", [None, (run, [Config()]), Config()])
def test_a_yield_that_is_no_stage_is_named(said):
    def wrong():
        yield said

    with pytest.raises(TypeError, match=r"the plan .*wrong must yield Stage\(run, configs\), not"):
        plans.carry_out(wrong())
    assert CALLS == []
