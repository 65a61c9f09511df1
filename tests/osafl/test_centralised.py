"""Centralised SGD on changing data: arrivals by hand, arms against one another, limiting cases, and
bad input.
"""

from __future__ import annotations

import dataclasses

import numpy as np
import pandas as pd
import pytest
import torch

from sflkit import data, models
from sflkit.federated import Task
from sflkit.osafl.centralised import (
    ARMS,
    CentralisedConfig,
    Clients,
    appendix_a,
    arrivals,
    draw_clients,
    mini_batches,
    run,
)
from sflkit.randomness import generator

SMALL = CentralisedConfig(
    data="digits",
    model="linear",
    n_clients=5,
    episodes=8,
    capacity_low=20,
    capacity_high=30,
    batch_size=16,
    decay_at=(3, 5),
)
LABELS = data.load("digits").y_train


def small(**changes) -> CentralisedConfig:
    return dataclasses.replace(SMALL, **changes)


def compare(a: pd.DataFrame, b: pd.DataFrame) -> None:
    pd.testing.assert_frame_equal(a, b, check_exact=True)


@pytest.fixture(scope="module")
def frames():
    return {arm: run(small(arm=arm)) for arm in ARMS}


# --- arrivals and stores ------------------------------------------------------------------------


def test_arrivals_by_hand():
    # (36) with T = 10: (57 - 20) / 10 = 3.7 -> 3; (70 - 20) / 10 = 5 -> 5; (90 - 20) / 10 = 7,
    # above the most, 5; 9 / 10 -> 0
    assert arrivals([57, 70, 90, 29], [20, 20, 20, 20], 10).tolist() == [3, 5, 5, 0]
    assert arrivals([57, 70, 90, 29], [20, 20, 20, 20], 10, 4).tolist() == [3, 4, 4, 0]


def by_hand() -> Clients:
    # Two users. The first stores 3 of its rows 10..16 and gets 2 before episode 2 and 2 before
    # episode 3; the second stores 2 of its rows 20..24 and gets 1 before episode 3 only.
    windows = np.array([[[0, 3], [0, 2]], [[2, 5], [0, 2]], [[4, 7], [1, 3]]])
    return Clients(
        (np.arange(10, 17), np.arange(20, 25)),
        np.array([3, 2]),
        np.array([2, 1]),
        np.array([1.0, 0.5]),
        windows,
    )


def test_what_is_at_hand_by_hand():
    c = by_hand()
    # sample i lies at place i mod D_u: 13 (i = 3) and 14 (i = 4) at the places 0 and 1 of the first
    # store, 12 stays at place 2; then 15 (i = 5) at 2, 16 (i = 6) at 0, 14 stays at 1; in the
    # second store 22 (i = 2) takes the place 0 of 20
    assert [c.at_hand("time_varying", t).tolist() for t in (1, 2, 3)] == [
        [10, 11, 12, 20, 21],
        [13, 14, 12, 20, 21],
        [16, 14, 15, 22, 21],
    ]
    assert [c.at_hand("kept", t).tolist() for t in (1, 2, 3)] == [
        [10, 11, 12, 20, 21],
        [10, 11, 12, 13, 14, 20, 21],
        [10, 11, 12, 13, 14, 15, 16, 20, 21, 22],
    ]
    for t in (1, 2, 3):
        assert c.at_hand("frozen", t).tolist() == [10, 11, 12, 20, 21]
        assert (
            c.at_hand("static", t).tolist()
            == c.at_hand("static_matched", t).tolist()
            == [*range(10, 17), *range(20, 25)]
        )
    assert [c.renewed("time_varying", t) for t in (1, 2, 3)] == [0, 2 / 5, 3 / 5]
    assert [c.renewed("kept", t) for t in (1, 2, 3)] == [0, 2 / 7, 3 / 10]
    assert c.renewed("frozen", 3) == c.renewed("static", 3) == 0


@pytest.mark.parametrize("order", ["shuffled", "by_class"])
def test_drawn_clients(order):
    config = small(order=order, episodes=40, n_clients=8)
    c = draw_clients(config, LABELS)
    assert sorted(np.concatenate(c.samples)) == list(range(len(LABELS)))
    assert c.capacity.min() >= 20 and c.capacity.max() <= 30 and len(set(c.capacity)) > 1
    assert 0.3 <= c.probability.min() and c.probability.max() <= 0.8
    sizes = np.array([len(ids) for ids in c.samples])
    assert c.slots.tolist() == [min(int((n - d) / 40), 5) for n, d in zip(sizes, c.capacity)]
    assert c.slots.max() > 1
    assert (c.windows[0] == np.stack([np.zeros(8), c.capacity], axis=1)).all()
    assert (np.diff(c.windows, axis=2)[:, :, 0] == c.capacity).all()  # a store is always full
    came = np.diff(c.windows[:, :, 1], axis=0)
    assert (c.windows[-1, :, 1] <= sizes).all()  # nobody runs out
    assert all(set(came[:, u]) == {0, c.slots[u]} for u in range(8))  # together or not at all
    ordered = all((np.diff(LABELS[ids]) >= 0).all() for ids in c.samples)
    assert ordered == (order == "by_class")


def test_arrivals_have_their_probability():
    # 40 users x 2000 episodes; sd of a user's mean 0.5 / sqrt(2000) = 0.011, 5 of them
    c = draw_clients(
        small(n_clients=40, episodes=2001, capacity_low=6, capacity_high=9, max_arrivals=1),
        np.arange(200_000) % 10,
    )
    assert c.slots.tolist() == [1] * 40
    assert np.abs(np.diff(c.windows[:, :, 1], axis=0).mean(axis=0) - c.probability).max() < 0.056


def test_split_and_stores_are_those_of_the_seed():
    configs = SMALL, small(arm="static", batch_size=64, rate=1.0), small(seed=1)
    a, b, other = (draw_clients(config, LABELS) for config in configs)
    assert (a.windows == b.windows).all()
    assert all((p == q).all() for p, q in zip(a.samples, b.samples))
    assert not np.array_equal(a.capacity, other.capacity)
    assert all(len(p) != len(q) or (p != q).any() for p, q in zip(a.samples, other.samples))
    pattern = [
        np.diff(c.windows[:, :, 1], axis=0) > 0 for c in (a, other)
    ]  # who gets samples when, whatever their number
    assert (a.slots * other.slots > 0).all() and (pattern[0] != pattern[1]).any(axis=0).all()


# --- mini-batches -------------------------------------------------------------------------------


@pytest.mark.parametrize("arm", ARMS)
def test_an_episode_uses_no_sample_twice(arm):
    c = draw_clients(SMALL, LABELS)
    held = c.capacity.sum()
    for t in (1, 2, 8):
        batches, n = mini_batches(small(arm=arm), c, t)
        used = np.concatenate(batches)
        assert len(set(used)) == len(used) == (len(LABELS) if arm == "static" else held)
        assert set(used) <= set(c.at_hand(arm, t)) and n == len(c.at_hand(arm, t))
        sizes = [len(ids) for ids in batches]
        assert max(sizes) <= 16
        assert max(sizes) - min(sizes) <= 1
        assert len(sizes) == -(-len(used) // 16)
        if arm in ("frozen", "time_varying"):
            assert n == held


def test_arms_are_paired():
    c = draw_clients(SMALL, LABELS)
    for t in (1, 2, 8):
        frozen, moving = (
            np.concatenate(mini_batches(small(arm=arm), c, t)[0])
            for arm in ("frozen", "time_varying")
        )
        new = ~np.isin(moving, c.at_hand("frozen", t))
        assert (
            frozen[~new] == moving[~new]
        ).all()  # the same sample at the same place, unless it was pushed out
        assert new.any() == (t > 1) and not new.all()
        assert not np.isin(frozen[new], c.at_hand("time_varying", t)).any()
    one, two = (np.concatenate(mini_batches(SMALL, c, t)[0]) for t in (1, 2))
    assert not np.array_equal(one, two)


# --- runs ---------------------------------------------------------------------------------------


def test_frames(frames):
    c = draw_clients(SMALL, LABELS)
    held, came = c.capacity.sum(), np.diff(c.windows[:, :, 1].sum(axis=1), prepend=c.capacity.sum())
    for arm, f in frames.items():
        assert f["episode"].tolist() == list(range(1, 9))
        assert np.isfinite(f.drop(columns="episode")).all(axis=None)
        np.testing.assert_allclose(
            f["learning_rate"], [0.1, 0.1, 0.07, 0.07, 0.049, 0.049, 0.049, 0.049]
        )
        assert f["n_seen"].is_monotonic_increasing and f["n_seen"].iloc[0] == f["n_used"].iloc[0]
        assert (f["n_used"] == (len(LABELS) if arm == "static" else held)).all()
        assert (f["steps"] == np.ceil(f["n_used"] / 16)).all()
        assert f.attrs["data"]["test_size"] == len(data.load("digits").y_test)
    assert frames["frozen"]["n_seen"].tolist() == [held] * 8
    assert frames["time_varying"]["n_seen"].tolist() == (held + came.cumsum()).tolist()
    assert frames["kept"]["n_samples"].tolist() == (held + came.cumsum()).tolist()
    np.testing.assert_allclose(frames["time_varying"]["renewed"], came / held)
    np.testing.assert_allclose(frames["kept"]["renewed"], came / (held + came.cumsum()))
    assert frames["static_matched"]["n_seen"].iloc[-1] > 2 * held
    assert len({f["loss"].iloc[-1] for f in frames.values()}) == 5
    first = {arm: f["loss"].iloc[0] for arm, f in frames.items()}
    assert first["frozen"] == first["kept"] == first["time_varying"] != first["static_matched"]


def test_same_seed_same_answer(frames):
    compare(run(SMALL), frames["time_varying"])
    assert not np.allclose(run(small(seed=1))["loss"], frames["time_varying"]["loss"])


@pytest.mark.parametrize(
    "changes", [{"arrival_low": 0.0, "arrival_high": 0.0}, {"max_arrivals": 0}]
)
def test_without_arrivals_nothing_changes(changes, frames):
    moving, frozen, kept = (
        run(small(arm=arm, **changes)) for arm in ("time_varying", "frozen", "kept")
    )
    compare(moving, frozen)
    compare(kept, frozen)
    if "max_arrivals" not in changes:
        return
    compare(frozen, frames["frozen"])  # arrivals, taken or not, do not touch the first stores


def test_an_episode_is_plain_sgd():
    # the same steps, done here one by one
    config = small(arm="static", seed=1, episodes=2, batch_size=512)
    f = run(config)
    source, c = data.load("digits"), draw_clients(config, LABELS)
    x, y = torch.as_tensor(source.inputs("train")), torch.as_tensor(source.labels("train"))
    net = models.create("linear", input_shape=(1, 28, 28), n_classes=10)
    task = Task(net)
    net = task.build(task.init(int(generator(1, "model").integers(2**31))))
    for t in (1, 2):
        batches, _ = mini_batches(config, c, t)
        assert len(batches) == 3
        for ids in batches:
            net.zero_grad()
            torch.nn.functional.cross_entropy(net(x[ids]), y[ids]).backward()
            with torch.no_grad():
                for p in net.parameters():
                    p -= 0.1 * p.grad
    x, y = torch.as_tensor(source.inputs("test")), torch.as_tensor(source.labels("test"))
    with torch.inference_mode():
        loss = torch.nn.functional.cross_entropy(net(x), y)
    assert abs(float(loss) - f["loss"].iloc[-1]) < 1e-4 * float(loss)


def test_models():
    f = run(small(model="mlp", hidden=8, episodes=2))
    assert np.isfinite(f["loss"]).all()
    compare(
        f,
        run(
            small(episodes=2),
            model=models.create("mlp", input_shape=(1, 28, 28), n_classes=10, hidden=(8,)),
        ),
    )


def test_appendix_a():
    assert appendix_a("static") == {"batch_size": 512, "decay_at": (10, 20, 40, 60, 80, 90)}
    assert (
        appendix_a("frozen")
        == appendix_a("time_varying")
        == {"batch_size": 256, "decay_at": (10, 25, 50, 75)}
    )
    assert appendix_a("static_matched", 40)["decay_at"] == (4, 10, 20, 30)
    default = CentralisedConfig()
    assert default.decay_at == appendix_a("time_varying")["decay_at"] and default.batch_size == 256
    with pytest.raises(ValueError, match="arm='x' must be one of 'static'"):
        appendix_a("x")


def test_divergence_is_named():
    with pytest.raises(FloatingPointError, match="after episode 1; lower rate="):
        run(small(rate=1e38, episodes=2))


def test_refusals():
    with pytest.raises(ValueError, match="hidden=8 is no option of model 'linear'"):
        run(small(hidden=8))
    with pytest.raises(ValueError, match="n_clients=5"):  # 5 x 301 samples are more than digits has
        run(small(capacity_high=300))
    with pytest.raises(ValueError, match="arm='x'"):
        by_hand().at_hand("x", 1)
    with pytest.raises(ValueError, match="t=4"):
        by_hand().at_hand("kept", 4)
