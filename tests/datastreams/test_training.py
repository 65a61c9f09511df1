"""Learning from data streams: one round by hand, a plain loop, pairing, divergence, real data."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch
from torch import nn

from sflkit import models
from sflkit.data import load
from sflkit.datastreams import arms as arms_module
from sflkit.datastreams import importance
from sflkit.datastreams.arms import mini_batches
from sflkit.datastreams.arrivals import mean_memory, memories
from sflkit.datastreams.config import DataStreamsConfig
from sflkit.datastreams.strategies import client_importance
from sflkit.datastreams.training import best_rates, build, run
from sflkit.federated import Task, servers
from sflkit.randomness import model_seed
from sflkit.runs import store
from sflkit.runs.keys import describe
from sflkit.sfl.caches import FIFO
from tests.datastreams.helpers import (
    CONFIG,
    HAND,
    Zero,
    federation,
    loss,
    random_federation,
)


def test_one_round_by_hand():
    # Zero model, two classes: softmax (1/2, 1/2), gradient of class c (1/2 - [c = y]) (x, 1).
    # Historical client: (1, 1), (3, 1): mean gradient of class 0: (1, 1/2). Fresh client, one
    # sample a round: (2, 0) first: class 0: (-1, -1/2). p_hist = 1/4, and (5) gives (1/4, 3/4) in
    # each round, so (7): class 0 moves by -0.1 (1/4 - 3/4) (1, 1/2) = (0.05, 0.025), class 1 by its
    # negative: the logits of x = 1 are +-0.075.
    fed = federation([[1], [3], [2], [5]], [1, 1, 0, 0], [2, 2], [True, False], [[1]], [0])
    frame = run(HAND, data=fed, model=Zero(1, 2))
    assert frame["loss_last"][0] == pytest.approx(loss(0.075), abs=1e-6)
    # theta-bar: theta^(1) = 0 after round 1, (theta^(1) + theta^(2)) / 2 after round 2 (q = 1/2,
    # 1/2)
    assert frame["loss"].tolist() == pytest.approx([np.log(2), loss(0.0375)], abs=1e-6)
    assert frame["accuracy_last"][0] == 1.0
    assert frame["round"].tolist() == [1, 2]
    assert set(frame["p_hist"]) == {0.25}
    assert frame.attrs["data"] == {
        "name": "hand",
        "digest": "0",
        "size": 4,
        "test_size": 1,
        "note": "",
    }


@pytest.mark.parametrize("seed", range(4))
def test_round_without_a_sample_and_q_by_hand(seed):
    # The fresh client has one sample for two rounds: mean memory 1/2, lambda = p / (1/2) = 3/2. In
    # its round (5) has 1/4 against 3/2, i.e. (1/7, 6/7), and (6) q = (7/4) / 2 = 7/8; alone the
    # historical client has weight 1 and q = 1/8. Step from 0: class 0 moves by -0.1 (h - f) (1,
    # 1/2): logit of x = 1 is 0.15 (f - h).
    fed = federation([[1], [3], [2]], [1, 1, 0], [2, 1], [True, False], [[1]], [0])
    config = replace(HAND, seed=seed)
    first = 1 in memories(fed, rounds=2, seed=seed)[0]
    frame = run(config, data=fed, model=Zero(1, 2))
    logit = 0.15 * (6 - 1) / 7 if first else -0.15
    assert frame["loss_last"][0] == pytest.approx(loss(logit), abs=1e-6)
    assert frame["loss"][1] == pytest.approx(
        loss(logit * (1 / 8 if first else 7 / 8)), abs=1e-6
    )  # theta^(1) = 0


def loss_of(model, fed):
    losses = nn.functional.cross_entropy(
        model(torch.tensor(fed.x_test)), torch.tensor(fed.y_test), reduction="none"
    )
    return float(fed.test_weights @ losses.detach().numpy())


def plain_loop(config, fed, weights=None, cache=None, radius=None):
    """Algorithm 1 for one arm by torch.optim-like steps, lambda as one array and (5), (6) from
    sflkit.datastreams.importance.
    """
    options = dict(
        rounds=config.rounds, seed=config.seed, availability=config.availability, cache=cache
    )
    stored = memories(fed, **options, participation=config.participation)
    size = mean_memory(memories(fed, **options), fed.n_clients)
    p = client_importance(config.arms[0], fed.sizes, fed.historical, c_ratio=config.c_ratio)
    lam = np.zeros((config.rounds, fed.n_clients, len(fed.x)))
    for t, memory_ in enumerate(stored):
        for m, ids in memory_.items():
            lam[t, m, ids] = p[m] / size[m] if weights is None else weights(t + 1, m, ids, p[m])
    aggregation, q = importance.aggregation_weights(lam), importance.round_weights(lam)
    model = models.create("linear", input_shape=(3,), n_classes=3)
    start = Task(model).init(model_seed(config.seed))
    theta, averaged = start.clone(), torch.zeros_like(start)
    x, y = torch.tensor(fed.x), torch.tensor(fed.y)
    for t, memory_ in enumerate(stored):
        averaged += float(q[t]) * theta
        delta = torch.zeros_like(theta)
        for m, ids in memory_.items():
            if not aggregation[t, m]:
                continue
            torch.nn.utils.vector_to_parameters(theta.clone(), model.parameters())
            for pick in mini_batches(
                len(ids), config.batch_size, config.local_steps, config.seed, m, t + 1
            ):
                model.zero_grad()
                losses = nn.functional.cross_entropy(
                    model(x[ids[pick]]), y[ids[pick]], reduction="none"
                )
                share = torch.tensor(lam[t, m, ids[pick]] / lam[t, m].sum(), dtype=torch.float32)
                (len(ids) / len(pick) * (share * losses).sum()).backward()  # line 9
                with torch.no_grad():
                    for w in model.parameters():
                        w -= config.rates[0] * w.grad
            delta += float(aggregation[t, m]) * (
                torch.nn.utils.parameters_to_vector(model.parameters()).detach() - theta
            )
        theta = theta + delta
        if radius and (theta - start).norm() > radius:
            theta = start + (theta - start) / (theta - start).norm() * radius
    out = []
    for w in (averaged, theta):
        torch.nn.utils.vector_to_parameters(w.clone(), model.parameters())
        logits = model(torch.tensor(fed.x_test))
        out += [loss_of(model, fed), fed.test_weights @ (logits.argmax(1).numpy() == fed.y_test)]
    return out


def skewed(t, m, ids, p):
    """Weights that differ inside a memory and over rounds, 0 for one client."""
    return p * (1.0 + ids % 3) * t if m != 1 else np.zeros(len(ids))


@pytest.mark.parametrize(
    ("change", "extra"),
    [
        ({}, {}),
        ({"batch_size": 100}, {}),
        ({"availability": "1", "arms": ("ours",), "c_ratio": 0.8}, {}),
        ({"availability": "2"}, {}),
        ({"participation": 2}, {}),
        ({"radius": 0.1, "rates": (0.5,)}, {}),
        ({"batch_size": 3}, {"weights": skewed}),
        ({"participation": 3}, {"weights": skewed, "cache": lambda m, b: FIFO(4, b)}),
        ({}, {"cache": lambda m, b: FIFO(4, b)}),
    ],
)
def test_against_a_plain_loop(change, extra):
    fed = random_federation([5, 3, 7, 11], 2)
    config = replace(CONFIG, **{"arms": ("uniform",), "rates": (0.3,), "local_steps": 2, **change})
    frame = run(config, data=fed, **extra)
    assert not config.radius or (
        plain_loop(config, fed) != plain_loop(config, fed, radius=config.radius)
    )  # it binds
    want = plain_loop(config, fed, radius=config.radius, **extra)
    last = frame.iloc[-1]
    got = [last["loss"], last["accuracy"], last["loss_last"], last["accuracy_last"]]
    assert got == pytest.approx(want, abs=2e-6)


def test_uniform_in_one_round_is_fedavg_by_size():
    # T = 1: the fresh clients' samples all arrive at once and everybody is like a historical client
    fed, config = (
        random_federation([5, 3, 7, 11], 2),
        replace(CONFIG, arms=("uniform",), rates=(0.3,), rounds=1, batch_size=100),
    )
    model = models.create("linear", input_shape=(3,), n_classes=3)
    start = Task(model).init(model_seed(config.seed))
    new = torch.zeros_like(start)
    for ids in fed.clients:
        torch.nn.utils.vector_to_parameters(start.clone(), model.parameters())
        optimiser = torch.optim.SGD(model.parameters(), lr=0.3)
        for _ in range(config.local_steps):
            optimiser.zero_grad()
            nn.functional.cross_entropy(
                model(torch.tensor(fed.x[ids])), torch.tensor(fed.y[ids])
            ).backward()
            optimiser.step()
        new += len(ids) / 26 * torch.nn.utils.parameters_to_vector(model.parameters()).detach()
    torch.nn.utils.vector_to_parameters(new, model.parameters())
    assert run(config, data=fed)["loss_last"][0] == pytest.approx(loss_of(model, fed), abs=1e-6)


@pytest.mark.parametrize("server", servers.RULES)
def test_arms_are_paired(server, monkeypatch):
    fed = random_federation(
        [5, 3, 7, 2], 2
    )  # the last client has rounds without a sample, the first two none under "fresh"
    arms, rates = (
        ("uniform", "fresh", "historical", "ours", "p_hist=0.3", "uniform"),
        (0.1, 0.2, 0.3, 0.1, 0.1, 0.01),
    )
    config = replace(CONFIG, arms=arms, rates=rates, server=server)
    together = run(config, data=fed)
    alone = [
        run(replace(config, arms=(arm,), rates=(rate,)), data=fed)
        for arm, rate in zip(arms, rates, strict=True)
    ]
    for a, frame in enumerate(alone):
        pd.testing.assert_frame_equal(
            together.iloc[a::6].reset_index(drop=True), frame, rtol=1e-5, check_exact=False
        )
    assert together["loss_last"].round(4).nunique() > 30  # 36 rows that differ
    monkeypatch.setattr(
        arms_module, "STACKED_NUMBERS", 100
    )  # 4 clients of 12 parameters: calls of two arms
    pd.testing.assert_frame_equal(run(config, data=fed), together, rtol=1e-5)


def test_same_seed_same_rows_and_another_seed_others():
    fed = random_federation([5, 3, 7, 11], 2)
    pd.testing.assert_frame_equal(run(CONFIG, data=fed), run(CONFIG, data=fed), check_exact=True)
    assert not run(replace(CONFIG, seed=6), data=fed).equals(run(CONFIG, data=fed))


def test_servers_and_their_limits():
    fed = random_federation([5, 3, 7, 11], 2)
    avg, prox0, prox, scaffold = (
        run(replace(CONFIG, **c), data=fed)
        for c in (
            {},
            {"server": "fedprox", "prox": 0.0},
            {"server": "fedprox", "prox": 5.0},
            {"server": "scaffold"},
        )
    )
    pd.testing.assert_frame_equal(prox0, avg, check_exact=True)
    assert (prox["loss_last"] != avg["loss_last"]).all()
    first = avg["round"] == 1
    assert (
        scaffold[first]["loss_last"] == avg[first]["loss_last"]
    ).all()  # control variates start at 0
    assert (scaffold[~first]["loss_last"] != avg[~first]["loss_last"]).all()


def test_fresh_without_fresh_samples_stands_still():
    # one fresh client with one sample in three rounds: without it "fresh" neither moves nor counts
    # the round, (5) and (6)
    fed = federation([[1], [3], [2]], [1, 1, 0], [2, 1], [True, False], [[1]], [0])
    config = replace(HAND, arms=("fresh",), rounds=3, seed=1)
    there = [1 in memory for memory in memories(fed, rounds=3, seed=1)].index(True)
    frame = run(config, data=fed, model=Zero(1, 2))
    assert frame["loss_last"].tolist() == pytest.approx(
        [np.log(2)] * there + [loss(0.15)] * (3 - there), abs=1e-6
    )
    assert frame["loss"].tolist() == pytest.approx([np.log(2)] * 3, abs=1e-6)


@pytest.mark.parametrize("server", servers.RULES)
def test_divergence_stops_one_arm_only(server):
    fed = random_federation([5, 3, 7, 11], 2)
    config = replace(CONFIG, arms=("uniform", "uniform"), rates=(1e38, 0.1), server=server)
    frame = run(config, data=fed)
    wild, tame = frame[frame["rate"] == 1e38], frame[frame["rate"] == 0.1].reset_index(drop=True)
    assert wild["diverged"].iloc[-1]
    assert wild["diverged"].is_monotonic_increasing
    assert not tame["diverged"].any()
    assert (
        wild[wild["diverged"]][["accuracy", "loss", "accuracy_last", "loss_last"]]
        .isna()
        .all(axis=None)
    )
    want = run(replace(config, arms=("uniform",), rates=(0.1,)), data=fed)
    pd.testing.assert_frame_equal(tame, want, rtol=1e-5)
    assert run(replace(config, arms=("uniform",), rates=(1e38,)), data=fed)["diverged"].iloc[
        -1
    ]  # nobody is left


def test_best_rates():
    rows = [
        ("a", 0.1, 0.7, 0.5),
        ("a", 0.1, 0.9, 0.5),
        ("a", 0.01, 0.9, 0.6),
        ("a", 0.01, 0.8, 0.6),  # 0.8 against 0.85
        ("b", 0.1, 0.7, 0.5),
        ("b", 0.01, 0.7, 0.4),  # a tie, smaller loss
        ("c", 0.1, 1.0, 0.1),
        ("c", 0.1, np.nan, np.nan),
        ("c", 0.01, 0.2, 3.0),
    ]  # one seed diverged
    frame = pd.DataFrame(rows, columns=["arm", "rate", "accuracy", "loss"]).assign(round=5)
    early = frame.assign(round=1, accuracy=1 - frame["accuracy"])
    assert best_rates(pd.concat([early, frame])) == {"a": 0.01, "b": 0.01, "c": 0.01}


def test_real_federations(tmp_path):
    config = DataStreamsConfig(rounds=4, evaluate_every=3)
    frame = run(config)
    assert frame["round"].tolist() == [3] * 4 + [4] * 4
    assert frame["arm"].tolist() == list(config.arms) * 2
    assert frame.attrs["data"]["size"] == 200
    assert frame[frame["arm"] == "uniform"]["p_hist"].iloc[0] == pytest.approx(0.2)
    held_out = build(replace(config, validation=0.25))
    assert held_out.sizes.sum() + len(held_out.y_test) == 200  # the training samples, divided
    assert run(replace(config, validation=0.25)).attrs["data"]["size"] == held_out.sizes.sum()
    natural = replace(
        config,
        data="writers",
        n_clients=6,
        n_historical=None,
        hist_fraction=0.34,
        availability="1",
        model="mlp",
        hidden=(5,),
        rounds=2,
    )
    assert run(natural)["loss"].notna().all()
    head = describe(run, natural)
    store.write_result(tmp_path, head, run(natural), threads=1, seconds=0.0)
    pd.testing.assert_frame_equal(
        store.read_result(head["key"], tmp_path)[0], run(natural), rtol=1e-6
    )


def test_own_arrays_are_dealt_as_the_config_says():
    digits = load("digits")
    parts = digits.inputs("train"), digits.y_train, digits.inputs("test"), digits.y_test
    config = DataStreamsConfig(
        data="digits", model="linear", n_clients=4, n_historical=2, rounds=2, n_samples=80
    )
    own = run(replace(config, data="mnist"), data=parts)
    pd.testing.assert_frame_equal(own, run(config), check_exact=True)
    assert own.attrs["data"]["name"] == "own arrays"
