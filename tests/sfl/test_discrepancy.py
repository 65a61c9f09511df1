"""Monte Carlo of the discrepancy with real caches, and the synthetic problem behind the convergence
theory.
"""

from dataclasses import asdict, replace

import numpy as np
import pandas as pd
import pytest

from companion.notebooks import n10, toy_problem
from companion.notebooks.toy_problem import SyntheticConfig
from sflkit.sfl import discrepancy
from sflkit.sfl.config import SFLConfig
from sflkit.sfl.discrepancy import DiscrepancyConfig, exact_discrepancy


@pytest.mark.parametrize("rule", discrepancy.RULES)
def test_caches_agree_with_the_exact_expectation(rule):
    config = DiscrepancyConfig(
        rule=rule, seed=3, n_clients=2, cache_rounds=4, rounds=12, repeats=150
    )
    stream = discrepancy.make_stream(config)
    pooled = discrepancy.pool(discrepancy.run(config).assign(**asdict(config)))
    theta = {"theta": config.theta} if rule.startswith("srsr") else {}
    for t in (4, 8, 12):
        at_t = pooled[pooled["round"] == t]
        part, psi = at_t[at_t["client"] >= 0], at_t[at_t["client"] < 0]
        exact = exact_discrepancy(stream, rule, t, cache_rounds=4, **theta)
        assert psi["mean"].item() == pytest.approx(part["mean"].sum())
        assert abs(psi["mean"].item() - exact.sum()) <= 4 * psi["standard_error"].item()
        exact = exact[part["client"], part["label"]]
        assert (np.abs(part["mean"] - exact) <= 4 * part["standard_error"]).all()


def test_blanks_start_the_printed_recursion_from_zero():
    # round 1: v = (theta / M) u exactly, with theta = 1 and M = 2 half the cache is blank, so (v -
    # pi)^2 = (u/2 - pi)^2; 60 arrivals on the 1/60 grid: all of them enter a cache of 120, so
    # nothing is rounded
    config = DiscrepancyConfig(
        rule="srsr", n_clients=1, batch_size=60, cache_rounds=2, theta=1.0, rounds=1, repeats=400
    )
    stream = discrepancy.make_stream(config)
    expected = np.einsum(
        "s,sr->r", stream.stationary[0], (stream.short_term[0] / 2 - stream.long_term[0]) ** 2
    )
    pooled = discrepancy.pool(discrepancy.run(config).assign(**asdict(config))).query("client >= 0")
    assert (
        np.abs(pooled["mean"] - expected[pooled["label"]]) <= 4 * pooled["standard_error"]
    ).all()


def test_pooling_two_parts_equals_one_mean():
    config = DiscrepancyConfig(rule="fifo", n_clients=1, rounds=3, repeats=7)
    parts = [replace(config, part=p) for p in (0, 1)]
    frames = [discrepancy.run(c).assign(**asdict(c)) for c in parts]
    pooled = discrepancy.pool(pd.concat(frames))
    assert (pooled["repeats"] == 14).all()
    np.testing.assert_allclose(
        pooled["mean"], (frames[0]["discrepancy"] + frames[1]["discrepancy"]) / 2
    )


def test_gradient_is_bounded_and_smooth():
    rng = np.random.default_rng(0)
    w, v, x = rng.normal(scale=10, size=(3, 500, 2))
    g, h = toy_problem.gradient(w, x), toy_problem.gradient(v, x)
    assert (np.linalg.norm(g, axis=1) < 1).all()  # sigma_M = 1
    assert (np.linalg.norm(g - h, axis=1) <= np.linalg.norm(w - v, axis=1)).all()  # L = 1
    step = 1e-6 * np.array([1.0, 0.0])  # against finite differences of the loss

    def loss(at):
        return np.sqrt(1 + ((at - x) ** 2).sum(axis=1))

    np.testing.assert_allclose((loss(w + step) - loss(w - step)) / 2e-6, g[:, 0], atol=1e-8)


def test_one_class_one_client_follows_a_plain_loop():
    # one class: v = pi = 1, so g = g^; the caches hold the same draws as the loop below, which
    # knows nothing of labels
    config = SyntheticConfig(
        rule="fifo",
        n_clients=1,
        n_classes=1,
        classes_per_client=1,
        batch_size=4,
        cache_rounds=2,
        rounds=3,
        local_steps=2,
        local_rate=0.1,
        global_rate=2.0,
        repeats=1,
    )
    frame = toy_problem.run(config)
    assert (frame["real_to_virtual"] < 1e-30).all()
    points = toy_problem.make_points(config)[0]
    pick = toy_problem.generator(config.seed, "samples", config.part)
    w, cache = np.array([3.0, 2.0]), np.empty(0, dtype=int)
    for t in range(3):
        cache = np.concatenate([cache, pick.integers(50, size=4)])[-8:]
        assert frame["grad_norm2"][t] == pytest.approx(
            (toy_problem.gradient(w, points).mean(axis=0) ** 2).sum()
        )
        first = toy_problem.gradient(w, points[cache]).mean(axis=0)
        second = toy_problem.gradient(w - 0.1 * first, points[cache]).mean(axis=0)
        assert frame["drift"][t] == pytest.approx(0.01 * (first**2).sum())
        w = w - 2.0 * 0.1 * (first + second)


def test_full_knowledge_has_no_label_gap_and_training_descends():
    config = SyntheticConfig(
        rounds=25, repeats=3, n_clients=2, n_states=1
    )  # one state: the stream never leaves pi
    frame = toy_problem.run(config)
    assert (frame["real_to_virtual"] < 1e-30).all()
    assert frame["grad_norm2"].iloc[-1] < frame["grad_norm2"].iloc[0] / 2
    assert toy_problem.loss_gap(config) > 0


@pytest.mark.parametrize("rule", ["fifo", "srsr", "srsr_filled", "drsr", "lazy"])
def test_the_path_is_the_exact_discrepancy_of_every_round(rule):
    stream = discrepancy.make_stream(DiscrepancyConfig(seed=5, n_clients=2))
    option = {"theta": 0.5} if rule.startswith("srsr") else {}
    path = discrepancy.exact_path(stream, rule, 12, cache_rounds=4, **option)
    late = [exact_discrepancy(stream, rule, t, cache_rounds=4, **option) for t in range(4, 13)]
    np.testing.assert_allclose(path[3:], late, rtol=1e-12, atol=1e-15)
    if rule in ("fifo", "srsr_filled", "lazy"):  # they hold all rounds so far, as DRSR does
        early = discrepancy.exact_path(stream, "drsr", 4, cache_rounds=4)
        np.testing.assert_allclose(path[:4], early, rtol=1e-12, atol=1e-15)


def test_what_figure_5_is_judged_by():
    """Two seeds, four rounds, M = 1: the last half is rounds 3 and 4."""
    values = {"fifo": [4, 4, 4, 2], "srsr": [4, 2, 2, 1], "drsr": [4, 2, 4 / 3, 1]}
    frame = pd.DataFrame(
        [
            {"rule": rule, "seed": seed, "round": t, "discrepancy": factor * value}
            for rule, row in values.items()
            for seed, factor in ((10, 1.0), (11, 2.0))
            for t, value in enumerate(row, start=1)
        ]
    )
    found = n10.late_logs(frame, [10, 11], first_full=1)
    np.testing.assert_allclose(np.exp(found["mean"]["fifo"]), [3, 6])
    np.testing.assert_allclose(np.exp(found["fluctuation"]["srsr"]), [0.5, 1])
    np.testing.assert_allclose(np.exp(found["total"]["drsr"]), [25 / 3, 50 / 3])
    curves, x = found["falls"]  # psi_t = 4 / t: slope -1 on logarithms
    np.testing.assert_allclose(np.diff(curves, axis=1) / np.diff(x), -1, rtol=1e-12)


def test_expected_totals_of_the_three_rules_grow():
    config = SFLConfig(train=False, rounds=30, n_clients=3, seed=10, rule="drsr", temperature=0.2)
    totals = n10.expected_totals(config, [10, 11])
    assert set(totals) == {"fifo", "srsr", "drsr"} and totals["drsr"].shape == (30,)
    assert (np.diff(totals["drsr"]) > 0).all()


def test_clients_come_nearer_to_each_other_with_more_labels():
    """Two clients without a common label are 1 apart; (3/4, 1/4) and (1/2, 1/2) are 1/4 apart."""
    assert n10.distance(np.eye(2)) == 1
    three = np.array([[0.75, 0.25, 0], [0.5, 0.5, 0], [0, 0, 1]])
    assert n10.distance(three) == pytest.approx((0.25 + 1 + 1) / 3)
    found = n10.distances(SFLConfig(train=False, n_clients=4), [0, 1])
    assert found.shape == (2, 9) and (found[:, 0] > 5 * found[:, -1]).all()
