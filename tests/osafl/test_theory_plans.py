"""The plan of notebook 35: which runs, in which order, and what it refuses."""

import pandas as pd
import pytest

from sflkit.osafl import centralised
from sflkit.osafl.plans.static_vs_streaming import static_vs_streaming
from sflkit.results import plans

SETTINGS = dict(
    data="digits",
    model="mlp",
    hidden=8,
    arms=["frozen", "static", "time_varying"],
    seeds=[3, 4],
    episodes=10,
    n_clients=5,
    alpha=0.9,
    capacity_low=10,
    capacity_high=12,
    max_arrivals=5,
    arrival_low=0.3,
    arrival_high=0.8,
    batch_static=32,
    batch_stream=16,
    rate=0.1,
    decay=0.7,
)


def test_the_papers_pair_comes_first_seed_by_seed():
    plan = static_vs_streaming(**SETTINGS)
    stage = next(plan)
    assert stage.run is centralised.run
    assert [(c.arm, c.seed, c.batch_size) for c in stage.configs] == [
        ("static", 3, 32),
        ("time_varying", 3, 16),
        ("static", 4, 32),
        ("time_varying", 4, 16),
        ("frozen", 3, 16),
        ("frozen", 4, 16),
    ]
    # Appendix A's cuts at 10, 25, 50 and 75 of 100 episodes, and at 10, 20, 40, 60, 80, 90
    assert stage.configs[1].decay_at == (1, 2, 5, 8)
    assert stage.configs[0].decay_at == (1, 2, 4, 6, 8, 9)
    assert stage.configs[0].hidden == 8
    frame = pd.DataFrame({"seed": [3]})
    with pytest.raises(StopIteration) as end:
        plan.send(frame)
    assert end.value.value is frame


def test_hidden_0_is_the_networks_own():
    stage = next(static_vs_streaming(**SETTINGS | {"hidden": 0}))
    assert {c.hidden for c in stage.configs} == {None}


@pytest.mark.parametrize(
    "arms, match",
    [(["static"], "time_varying among"), (["static", "time_varying", "melted"], "melted")],
)
def test_what_it_refuses(arms, match):
    with pytest.raises(ValueError, match=match):
        next(static_vs_streaming(**SETTINGS | {"arms": arms}))


def test_a_driver_gets_the_frame_of_all_runs(tmp_path, monkeypatch):
    monkeypatch.setenv("SFLKIT_CACHE", str(tmp_path))
    small = SETTINGS | {"arms": ["static", "time_varying"], "seeds": [0], "episodes": 2}
    frame = plans.carry_out(static_vs_streaming(**small), jobs=1)
    assert set(frame["arm"]) == {"static", "time_varying"} and len(frame) == 4
