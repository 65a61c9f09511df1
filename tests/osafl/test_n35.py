"""Notebook 35: which runs, in which order, and what it refuses; scores and evidence."""

import pandas as pd
import pytest

from companion.claims import OSAFL as CLAIMS
from companion.judging.claims import Setting
from companion.notebooks import n35
from companion.notebooks.n35 import static_vs_streaming
from sflkit.osafl import centralised

SETTINGS = dict(
    data="digits",
    model="mlp",
    hidden=8,
    seeds=[3, 4],
    frozen_seeds=[5],
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


def test_pairs_are_run_seed_by_seed():
    plan = static_vs_streaming(**SETTINGS)
    stage = next(plan)
    assert stage.run is centralised.run
    assert [(c.arm, c.seed, c.batch_size) for c in stage.configs] == [
        ("static", 3, 32),
        ("time_varying", 3, 16),
        ("static", 4, 32),
        ("time_varying", 4, 16),
    ]
    # Appendix A's cuts at 10, 25, 50 and 75 of 100 episodes, and at 10, 20, 40, 60, 80, 90
    assert stage.configs[1].decay_at == (1, 2, 5, 8)
    assert stage.configs[0].decay_at == (1, 2, 4, 6, 8, 9)
    assert stage.configs[0].hidden == 8
    frame, other = pd.DataFrame({"seed": [3]}), pd.DataFrame({"seed": [5]})
    frozen = plan.send(frame).configs
    assert [(c.arm, c.seed) for c in frozen] == [("frozen", 5), ("time_varying", 5)]
    assert frozen[0].batch_size == frozen[1].batch_size == 16
    assert frozen[0].decay_at == frozen[1].decay_at
    with pytest.raises(StopIteration) as end:
        plan.send(other)
    assert end.value.value == (frame, other)


# --- evidence and pictures ------------------------------------------------------------------------


def invented(levels, seeds=(0, 1, 2), episodes=20):
    """Curves that stand at a level and move by `step` up and down: arm -> (level, step)."""
    rows = []
    for arm, (level, step) in levels.items():
        for seed in seeds:
            for t in range(1, episodes + 1):
                up = step * (t % 2)
                rows.append((arm, seed, t, level + up + 0.001 * seed, 1 - level, 3, 100 + t))
    columns = ["arm", "seed", "episode", "accuracy", "loss", "steps", "n_seen"]
    return pd.DataFrame(rows, columns=columns)


LEVELS = {
    "static": (0.9, 0.01),
    "static_matched": (0.89, 0.02),
    "frozen": (0.8, 0.0),
    "kept": (0.84, 0.02),
    "time_varying": (0.83, 0.02),
}


@pytest.fixture
def scores():
    return n35.scores(invented(LEVELS), 20, test_size=50)


def test_scores_by_hand(scores):
    """Static, seed 1: in the last tenth, episodes 19 and 20, it is 0.911 and 0.901. It moves by
    0.01 in every episode; half of 1 of 50 images is added.
    """
    row = scores.loc[1, "static"]
    assert row["accuracy"] == pytest.approx(0.906) and row["loss"] == pytest.approx(0.1)
    assert row["instability"] == pytest.approx(0.01 + 0.01)
    assert (row["best"], row["steps"], row["seen"]) == (pytest.approx(0.911), 60, 120)
    assert scores.loc[0, "frozen"]["instability"] == pytest.approx(0.01)
    table = n35.mean_scores(scores, ["frozen", "static"])
    assert list(table.index) == ["frozen stores", "static"]


def test_the_evidence_answers_every_part(scores):
    known = n35.evidence(scores, scores)
    verdict = CLAIMS["osafl-fig1"].judge(known["osafl-fig1"], setting=Setting("full"))
    assert verdict.verdict == "reproduced"
    assert set(known["osafl-fig1"]) == {part.key for part in CLAIMS["osafl-fig1"].parts}


def test_frozen_stores_are_judged_by_their_own_runs(scores):
    turned = LEVELS | {"frozen": LEVELS["time_varying"], "time_varying": LEVELS["frozen"]}
    others = n35.scores(invented(turned), 20, test_size=50)
    for frozen, verdict in ((scores, "reproduced"), (others, "not reproduced")):
        known = n35.evidence(scores, frozen)["osafl-frozen"]
        judged = CLAIMS["osafl-frozen"].judge(known, setting=Setting("full"))
        assert judged.verdict == verdict
