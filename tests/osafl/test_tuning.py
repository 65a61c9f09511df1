"""The comparison's arms: one step size a rule, the search's choice, and what the tables list."""

import numpy as np
import pandas as pd
import pytest

from sflkit.osafl import training
from sflkit.osafl.config import OSAFLConfig
from sflkit.osafl.rules import RULES
from sflkit.osafl.tuning import best_factors, by_arm, collect, scaled, search, step_name, summary


def test_each_rule_has_one_step_size():
    server = {"osafl": "global_rate", "m_fednova": "slowdown", "m_afa_cd": "global_rate"}
    assert {rule: step_name(rule) for rule in RULES} == dict.fromkeys(RULES, "rate") | server
    for rule in RULES:
        name = step_name(rule)
        before = OSAFLConfig(rule=rule, model="osafl_cnn")
        after = scaled(before, 4)
        assert getattr(after, name) == 4 * before.hyper[name]
        assert {k: v for k, v in after.hyper.items() if k != name} == {
            k: v for k, v in before.hyper.items() if k != name
        }
    assert scaled(OSAFLConfig(model="osafl_fcn"), 0.25).hyper == {
        "rate": 0.2,
        "global_rate": 35 * 0.25,
    }
    assert (
        scaled(OSAFLConfig(rule="fednova", preset="lstm")).rate
        == RULES["m_fedavg"].presets["lstm"]["rate"]
    )


def test_search_covers_rules_and_factors():
    configs = search(
        [OSAFLConfig(rule, seed=7, rounds=5) for rule in ("osafl", "m_fedavg")], (0.5, 2)
    )
    assert [(c.rule, c.global_rate or c.rate, c.seed, c.rounds) for c in configs] == [
        ("osafl", 17.5, 7, 5),
        ("osafl", 70.0, 7, 5),
        ("m_fedavg", 0.075, 7, 5),
        ("m_fedavg", 0.3, 7, 5),
    ]


def runs(curves):
    """One run a curve of accuracies; None: diverged."""
    parts = []
    for i, curve in enumerate(curves):
        accuracy = pd.Series([np.nan if a is None else a for a in curve], dtype=float)
        diverged = np.array([a is None for a in curve])
        best = accuracy.cummax().ffill()
        parts.append(
            pd.DataFrame(
                {
                    "key": f"run{i}",
                    "round": np.arange(1, len(curve) + 1),
                    "accuracy": accuracy,
                    "loss": 1 - accuracy,
                    "best_accuracy": best,
                    "best_loss": 1 - best,
                    "diverged": diverged,
                    "rule": "osafl",
                    "never_joined": "exclude",
                    "seed": i,
                    "top_k": 1,
                    "model": "mlp",
                }
            )
        )
    return pd.concat(parts, ignore_index=True)


def test_best_factor_by_the_last_quarter():
    # last quarter of 4 rounds: the last. A peak before it, and a diverged end, do not win.
    frame = runs(
        [
            (0.9, 0.9, 0.9, 0.2),
            (0.1, 0.2, 0.3, 0.4),
            (0.5, 0.9, None, None),
            (0.1, 0.1, 0.1, 0.3),
            (0.1, 0.1, 0.1, 0.3),
            (0, 0, 0, 0.1),
        ]
    )
    assert best_factors(frame, 2, (0.5, 1, 2)) == [1, 0.5]
    # of 8 rounds the last two: (0.4 + 0.2) / 2 < (0.3 + 0.4) / 2; an unevaluated round does not
    # count as 0
    frame = runs([(0, 0, 0, 0, 0, 0, 0.4, 0.2), (0, 0, 0, 0, 0, 0, np.nan, 0.35)])
    assert best_factors(frame, 1, (1, 2)) == [2]
    with pytest.raises(ValueError, match="2 different runs; 1 arms at 3 factors need 3"):
        best_factors(frame, 1, (1, 2, 3))


def test_summary_by_hand():
    table = summary(
        runs([(0.1, 0.7, 0.6, 0.65), (0.2, 0.3, None, None), (None, None, None, None)]), target=0.6
    )
    assert table["best"].tolist() == [0.7, 0.3, 0.0]
    np.testing.assert_allclose(table["best_loss"], [0.3, 0.7, np.nan])
    np.testing.assert_allclose(table["final"], [0.65, np.nan, np.nan])
    np.testing.assert_allclose(table["final_loss"], [0.35, np.nan, np.nan])
    assert table["to_target"].tolist() == [2, np.inf, np.inf]
    np.testing.assert_allclose(table["diverged_at"], [np.nan, 3, 1])
    assert table["seed"].tolist() == [0, 1, 2] and table.index.tolist() == ["run0", "run1", "run2"]


def test_summary_at_the_edges():
    frame = runs([(0.2, 0.5)])
    assert summary(frame, target=0.5)["to_target"].tolist() == [2]  # at the target is there
    frame.loc[1, ["diverged", "accuracy", "loss"]] = [
        True,
        np.nan,
        60.0,
    ]  # a diverged loss may be a number: it is no result
    assert summary(frame, target=0.5)[["final", "final_loss"]].isna().all(axis=None)


def test_collect_names_every_case():
    a, b = OSAFLConfig("m_fedavg"), OSAFLConfig("osafl")
    plan = {("printed", 1): a, ("tuned", 1): b, ("tuned", 2): a}
    frame = runs([(0.1, 0.2), (0.3, 0.4)])
    found = collect(
        pd.concat([frame, frame[frame["key"] == "run0"]]), plan, ("rates", "arm")
    )  # rows again, as run_many has them
    got = [(c, x["accuracy"].tolist()) for c, x in found.groupby(["rates", "arm"], sort=False)]
    assert got == [
        (("printed", 1), [0.1, 0.2]),
        (("tuned", 1), [0.3, 0.4]),
        (("tuned", 2), [0.1, 0.2]),
    ]
    with pytest.raises(ValueError, match="1 runs; the plan has 2"):
        collect(frame[frame["key"] == "run0"], plan, ("rates", "arm"))


def test_by_arm():
    listed = pd.DataFrame(
        {
            "seed": [0, 1, 0, 1, 0],
            "arm": list("aabba"),
            "K": [1, 1, 1, 1, 2],
            "best": [1, 2, 3, 4, 5],
        }
    )
    table = by_arm(listed, "best", K=1)
    assert table.to_dict() == {"a": {0: 1, 1: 2}, "b": {0: 3, 1: 4}}


def test_summary_of_real_runs():
    config = OSAFLConfig(
        "m_fedavg",
        n_clients=4,
        rounds=3,
        minibatches=4,
        capacity_low=40,
        capacity_high=50,
        test_size=40,
        hidden=(8,),
    )
    frame, names = training.run(config), ("rule", "never_joined", "seed", "top_k", "model")
    row = summary(
        frame.assign(key="a", **{name: getattr(config, name) for name in names}), target=1
    ).loc["a"]
    assert (
        row["best"] == frame["accuracy"].max()
        and row["to_target"] == np.inf
        and np.isnan(row["diverged_at"])
    )


@pytest.mark.parametrize(
    "bad", [lambda: scaled(OSAFLConfig(), 0), lambda: summary(runs([(0.1,)]), 1.5)]
)
def test_bad_input(bad):
    with pytest.raises(ValueError, match=r"factor=0|target=1\.5"):
        bad()
