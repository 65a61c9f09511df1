"""The map of when the papers are right: differences seed by seed within groups of runs."""

import pandas as pd
import pytest

from companion.notebooks import n92
from sflkit.runs.keys import config_dict

RUNS = pd.DataFrame(
    [
        # data, rule, seed -> late accuracy; the first data set gains 1, 2 and 3 points by hand
        *[("a", "fifo", s, 0.5) for s in (1, 2, 3)],
        *[("a", "drsr", s, 0.5 + s / 100) for s in (1, 2, 3)],
        ("b", "fifo", 1, 0.5),
        ("b", "drsr", 1, 0.9),
    ],
    columns=["data", "rule", "seed", "accuracy"],
)


def invented(experiment):
    configs = RUNS.drop(columns="accuracy").assign(
        model="linear", capacity=4, batch_size=2, local_rate=0.1, rounds=4, theta=2 / 3, world=-1
    )
    configs.index = [f"key{i}" for i in range(len(RUNS))]
    early = pd.DataFrame({"key": configs.index, "round": 1, "accuracy": 0.0})
    late = pd.DataFrame({"key": configs.index, "round": 4, "accuracy": RUNS["accuracy"]})
    return pd.concat([early, late], ignore_index=True), configs


def test_differences_are_taken_seed_by_seed_and_few_seeds_are_left_out(monkeypatch):
    monkeypatch.setattr(n92, "_published", invented)
    monkeypatch.setattr(n92, "_streams", lambda: [])
    monkeypatch.setattr(n92, "_osafl", lambda: [])
    (row,) = n92.effects().itertuples()
    assert (row.paper, row.where, row.n) == ("SFL", "a, linear, B = 4, 2 new", 3)
    # Student's interval of 1, 2, 3: 2 ± 4.3027 / sqrt(3)
    assert (row.mean, row.high - row.mean) == pytest.approx((2, 2.4841), abs=1e-4)


def test_published_effects_have_their_seeds():
    found = n92.effects()
    assert set(found["paper"]) == {"SFL", "data streams", "OSAFL"}
    assert (found["n"] >= n92.LEAST_SEEDS).all() and (found["low"] <= found["high"]).all()


def test_the_maps_own_runs_differ_from_the_published_ones_in_one_field():
    plan = n92.map_runs()
    sizes, horizons = next(plan), plan.send(None)
    for stage, experiment, field, fixed in (
        (
            sizes,
            "sfl-training-full-start",
            "capacity",
            {"data": "traffic600", "model": "linear", "batch_size": 150},
        ),
        (horizons, "datastreams-training", "rounds", {"data": "logistic", "hist_fraction": 0.2}),
    ):
        _, own = n92._published(experiment)
        for name, value in fixed.items():
            own = own[own[name].eq(value)]
        free = {
            field,
            "seed",
            "rule",
            "arms",
            "rates",
            "evaluate_every",
            "c_ratio",
            "validation",
            "theta",
        }
        for config in map(config_dict, stage.configs):
            for name in set(config) - free:
                values = [
                    config[name],
                    *own.get(name, ()),
                ]  # one that came later leaves records as they are
                assert pd.Series(values).dropna().nunique() <= 1, name
