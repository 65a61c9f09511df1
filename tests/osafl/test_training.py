"""The OSAFL run: its world, stores and mini-batches against direct computation, limiting cases,
divergence, and bad input.
"""

from __future__ import annotations

import dataclasses
from typing import ClassVar

import numpy as np
import pandas as pd
import pytest
import torch
from torch import nn

from companion.notebooks.osafl_shared import fcn_base
from sflkit import models
from sflkit.federated import FedAvg, Scaffold, Task, arrays, local_sgd
from sflkit.osafl import clients, rules, training, video
from sflkit.osafl import clients as osafl_clients
from sflkit.osafl.clients import Samples, ceiling, ceiling_of_strangers, local_steps, world
from sflkit.osafl.config import OSAFLConfig
from sflkit.osafl.devices import Link
from sflkit.osafl.rules import RULES
from sflkit.osafl.training import run
from sflkit.sfl import caches

SMALL = OSAFLConfig(
    n_clients=6,
    rounds=4,
    minibatches=4,
    minibatch=5,
    capacity_low=30,
    capacity_high=60,
    test_size=100,
    max_steps=3,
    genie_steps=3,
    payload_bits=2e7,
    input_norm=None,
)


def small(**changes) -> OSAFLConfig:
    return dataclasses.replace(SMALL, **changes)


def net() -> nn.Module:
    return nn.Sequential(nn.Linear(3168, 8), nn.ReLU(), nn.Linear(8, 100))


def compare(a: pd.DataFrame, b: pd.DataFrame) -> None:
    pd.testing.assert_frame_equal(a, b, check_exact=True)


@pytest.fixture(scope="module")
def frames():
    return {rule: run(small(rule=rule), model=net()) for rule in RULES}


@pytest.mark.parametrize("rule", RULES)
def test_every_rule(frames, rule):
    f = frames[rule]
    assert f["round"].tolist() == [1, 2, 3, 4] and not f["diverged"].any()
    assert np.isfinite(f[["accuracy", "loss", "best_accuracy", "best_loss"]]).all(axis=None)
    assert (f["best_accuracy"] == f["accuracy"].cummax()).all()
    first = f["accuracy"].argmax()
    assert f["best_loss"].iloc[-1] == f["loss"].iloc[first]
    if rule != "genie":
        assert (f["participants"] + f["stragglers"] == 6).all()
        assert f["joined"].is_monotonic_increasing
        assert 0 < f["participants"].sum() < 24 and f["mean_kappa"].between(1, 3).all()
    assert f["mean_score"].notna().any() == (rule == "osafl")
    assert f.attrs["data"]["test_size"] == 100


def test_rules_are_paired_and_repeatable(frames):
    columns = ["participants", "stragglers", "mean_kappa", "joined"]
    for rule in list(RULES)[1:-1]:
        compare(frames[rule][columns], frames["osafl"][columns])
        assert not np.allclose(frames[rule]["loss"], frames["osafl"]["loss"], rtol=1e-6)
    compare(run(small(rule="m_feddisco"), model=net()), frames["m_feddisco"])
    assert not np.allclose(
        run(small(rule="m_feddisco", seed=1), model=net())["loss"], frames["m_feddisco"]["loss"]
    )


def test_prox_of_zero_is_fedavg(frames):
    compare(run(small(rule="m_fedprox", mu=0.0, rate=0.15), model=net()), frames["m_fedavg"])


def test_one_client_fedavg_is_the_genie():
    # one client, one step a round; mini-batch and genie's batch come from other generators, so a
    # step takes the whole store
    options = dict(
        n_clients=1,
        capacity_low=30,
        capacity_high=30,
        minibatches=6,
        max_steps=1,
        allocator="none",
        genie_steps=1,
    )
    a, b = (run(small(rule=rule, **options), model=net()) for rule in ("m_fedavg", "genie"))
    np.testing.assert_allclose(a["loss"], b["loss"], rtol=1e-5)
    assert (a["joined"].tolist(), b["joined"].tolist()) == ([1] * 4, [0] * 4)


def test_one_minibatch_is_one_gradient():
    a, b = (
        run(small(minibatches=1, minibatch=20, local_round=kind), model=net())
        for kind in ("gradient", "minibatches")
    )
    compare(a, b)
    assert not np.allclose(run(small(local_round="minibatches"), model=net())["loss"], a["loss"])


def test_a_payload_too_large_for_all():
    f = run(small(payload_bits=1e12), model=net())
    assert (f["stragglers"] == 6).all()
    assert f["mean_kappa"].isna().all()
    assert f["loss"].nunique() == 1
    assert f["joined"].max() == 0


def test_literal_start_is_reported_as_diverged():
    # the share of clients that never join, from the allocation: |1 - 35 share| > 1 by ERRATA 37
    config = small(n_clients=12, rounds=30, never_joined="literal", payload_bits=1e9, max_steps=1)
    never = (local_steps(config, config.payload_bits) == 0).all(axis=0).mean()
    assert 0.2 < never < 0.9
    f = run(config, model=net())
    start = int(f["diverged"].argmax())
    assert f["diverged"].iloc[start:].all() and 0 < start < 20
    assert f["accuracy"].iloc[start:].isna().all() and np.isfinite(f["best_accuracy"].iloc[-1])
    # the loss of a linear growth of the weights: within the tail it leaves float32, and the model
    # stays
    assert f["loss"].iloc[start] > 10 * np.log(100) and f["loss"].iloc[-3:].isna().all()
    for never in ("exclude", "zero"):
        assert not run(dataclasses.replace(config, never_joined=never, rounds=4), model=net())[
            "diverged"
        ].any()


def test_m_afa_cd_with_the_printed_buffer_answers_every_request_alike():
    """Notebook 33 at small sizes: a model that is pulled to zero gives all files nearly the
    same probability and always names one of them, so that its accuracy is that file's share.
    """
    config = OSAFLConfig(
        "m_afa_cd",
        "literal",
        seed=30,
        top_k=1,
        **fcn_base([32], 20, 5, "synthetic", 5.0, "alternating", 10, 500),
    )
    learner = training.Learner(config)
    for t in range(1, 6):
        learner.step(t)
    x, y = Samples(config, torch.device("cpu")).test()
    with torch.no_grad():
        outputs = learner.task.build(learner.params)(x)
    named = outputs.argmax(1)
    assert len(named.unique()) == 1
    loss, accuracy = learner.evaluate()
    assert accuracy == pytest.approx(float((y == named[0]).double().mean()))
    assert 0.02 < accuracy < 0.1  # a file that is asked for more often than one in a hundred
    assert loss == pytest.approx(np.log(100), abs=0.01)


def test_diverging_local_steps_are_reported():
    f = run(small(rule="m_fedavg", rate=1e30), model=net())
    assert f["diverged"].all() and f[["accuracy", "loss", "best_accuracy"]].isna().all(axis=None)


@pytest.mark.parametrize("options", [{"rule": "osafl"}, {"rule": "m_fedavg"}, {"server": FedAvg}])
def test_a_round_asks_once_whether_the_updates_are_finite(options, monkeypatch):
    asked, ask = [], arrays.first_not_finite
    for module in (arrays, training):
        monkeypatch.setattr(
            module, "first_not_finite", lambda rows: asked.append(len(rows)) or ask(rows)
        )
    server = options.pop("server", None)
    run(small(**options), model=net(), server=server)
    assert sum(n > 1 for n in asked) == SMALL.rounds


def test_the_diverged_tail_by_hand():
    # ln 100 = 4.6, so that the limit is 46: a spike that comes back is no divergence; a tail is,
    # from its first evaluated round
    loss = [4.0, 90.0, 3.0, np.nan, 50.0, np.nan, np.inf]
    accuracy = [0.3, 0.01, 0.2, np.nan, 0.9, np.nan, 0.5]
    f = training.with_best(
        pd.DataFrame({"round": range(1, 8), "accuracy": accuracy, "loss": loss}), 100
    )
    assert f["diverged"].tolist() == [False] * 4 + [True] * 3
    assert f["best_accuracy"].tolist() == [0.3] * 7 and f["best_loss"].tolist() == [4.0] * 7
    assert f["accuracy"].isna().tolist() == [False, False, False, True, True, True, True]
    g = pd.DataFrame(
        {
            "round": [1, 2, 3, 4],
            "accuracy": [np.nan, 0.1, 0.4, 0.4],
            "loss": [np.nan, 5.0, 3.0, 2.0],
        }
    )
    g = training.with_best(g, 100)
    assert not g["diverged"].any()
    assert g["best_loss"].tolist()[1:] == [5.0, 3.0, 3.0]
    assert np.isnan(g["best_loss"][0])


@pytest.mark.parametrize("user", [0, 5])
def test_inputs_are_those_of_dataset_1(user):
    s = Samples(SMALL, "cpu")
    w = s.world
    x, y = video.dataset_1(w.catalogue, w.users, user, w.requests[user])
    at = np.array([7, 3, 7, 12])  # the label of sample i is request i + 1
    before, after = w.requests[user][at], w.requests[user][at + 1]
    xs, shares, weights, sizes = s.table(np.full((1, 4), user), at[None] + 1)
    assert (
        sizes == len(xs)
        and s.input_shape == (3168,)
        and len(xs) == len(shares) == len(weights) == len(set(before))
    )
    for row, file in enumerate(np.unique(before)):
        assert np.array_equal(xs[row], x[at[before == file][0]])
        assert weights[row] == (before == file).sum()
        counts = np.bincount(after[before == file], minlength=100)
        np.testing.assert_allclose(shares[row] * weights[row], counts, rtol=1e-6)
        assert set(y[at[before == file]]) == set(np.flatnonzero(counts))


def test_standardised_inputs():
    # over all users and files every column that varies has mean 0 and one variance, and the squared
    # norms average input_norm^2
    s, raw = Samples(small(input_norm=7.0), "cpu"), Samples(SMALL, "cpu")
    users, files = np.indices((6, 100)).reshape(2, -1, 1)
    every = [x.inputs(users[:, 0], files).numpy() for x in (s, raw)]
    varies = every[1].std(axis=0) > 1e-6
    np.testing.assert_allclose((every[0].astype(float) ** 2).sum(axis=1).mean(), 49, rtol=1e-4)
    np.testing.assert_allclose(every[0].mean(axis=0), 0, atol=1e-4)
    np.testing.assert_allclose(every[0].std(axis=0)[varies], 7 / np.sqrt(varies.sum()), rtol=1e-3)
    for column in (0, 3074, 3150, 3167):  # an affine map of the raw column
        assert np.corrcoef(every[0][:, column], every[1][:, column])[0, 1] > 0.9999


def test_the_genie_learns_the_requests():
    f = run(
        small(
            rule="genie",
            rounds=4,
            minibatches=20,
            capacity_low=250,
            capacity_high=300,
            input_norm=20.0,
            genie_steps=40,
        ),
        model=nn.Sequential(nn.Linear(3168, 32), nn.ReLU(), nn.Linear(32, 100)),
    )
    assert f["accuracy"].iloc[-1] > 0.4  # against 1/100 by chance


def test_inputs_are_those_of_dataset_2():
    s = Samples(small(dataset=2), "cpu")
    x, y = video.dataset_2(s.world.catalogue, s.world.requests[3])
    xs, ys, weights, _ = s.table(np.full((1, 1), 3), np.array([[25, 11, 25]]) + 10)
    assert weights is None
    assert s.input_shape == (10,) and xs.dtype == torch.int64
    assert [(*a, b) for a, b in zip(xs.tolist(), ys.tolist())] == [
        (*x[i], y[i]) for i in (25, 11, 25)
    ]


def test_loss_by_hand():
    # outputs (0, ln 3): shares (1/4, 3/4). Target (1/2, 1/2): -(ln 1/4 + ln 3/4) / 2; label 1: -ln
    # 3/4.
    outputs, half = torch.tensor([[0.0, np.log(3.0)]]), torch.tensor([[0.5, 0.5]])
    np.testing.assert_allclose(
        osafl_clients.loss(outputs, half), -(np.log(1 / 4) + np.log(3 / 4)) / 2, rtol=1e-6
    )
    np.testing.assert_allclose(
        osafl_clients.loss(outputs, torch.tensor([1])), -np.log(3 / 4), rtol=1e-6
    )


def test_merged_samples_give_the_gradient_of_all():
    s = Samples(SMALL, "cpu")
    user, at = 0, np.arange(5, 40)
    x, y = video.dataset_1(s.world.catalogue, s.world.users, user, s.world.requests[user])
    xs, ys, weights, _ = s.table(np.full((1, 1), user), at[None])
    merged = xs, ys, torch.from_numpy(weights)
    every = torch.from_numpy(x[at - 1]), torch.from_numpy(y[at - 1])
    w = Task(net()).init(0)
    assert len(merged[0]) < len(every[0]) == merged[2].sum() and (merged[1] < 1).any()
    got, want = (
        local_sgd(Task(net(), osafl_clients.loss), w, [[merged]], 0.1),
        local_sgd(Task(net()), w, [[every]], 0.1),
    )
    torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("dataset", [1, 2])
def test_mini_batches_come_from_the_store(dataset, monkeypatch):
    s = Samples(small(dataset=dataset), "cpu")
    past = {1: 1, 2: 10}[dataset]
    seen, table = [], s.table
    monkeypatch.setattr(s, "table", lambda users, at: seen.append((users, at)) or table(users, at))
    for t in (1, 4):
        s.local_data(np.arange(6), np.array([3, 1, 2, 3, 3, 2]), t)
        users, at = seen.pop()
        assert users.ravel().tolist() == [0] * 3 + [1] + [2] * 2 + [3] * 3 + [4] * 3 + [5] * 2
        assert at.shape == (14, 20) and all(len(set(row)) == 20 for row in at)
        first, end = s.world.windows[t - 1].T[:, users] + past
        assert (first <= at).all() and (at < end).all()
        assert not np.array_equal(at[0], at[1])
    assert s.world.windows[-1, :, 1].max() + past == s.world.requests.shape[1]


def test_genie_draws_from_all_stores(monkeypatch):
    s = Samples(small(minibatches=50, capacity_low=250, capacity_high=260), "cpu")
    seen, table = [], s.table
    monkeypatch.setattr(s, "table", lambda users, at: seen.append((users, at)) or table(users, at))
    s.union_data(3, 2)
    for users, at in zip(*seen[0], strict=True):
        assert set(users) == set(range(6)) and len(set(zip(users, at, strict=True))) == 250
        first, end = s.world.windows[2].T[:, users] + 1
        assert (first <= at).all() and (at < end).all() and np.bincount(users).max() < 100
    assert not np.array_equal(*seen[0][1])


def test_label_counts_and_test_set():
    s = Samples(small(test_size=20), "cpu")
    first, end = s.world.windows[1, 2]
    assert (
        s.label_counts(2)[2].tolist()
        == np.bincount(s.world.requests[2][first + 1 : end + 1], minlength=100).tolist()
    )
    x, y = s.test()
    assert x.shape == (20, 3168) and len(y) == 20
    shares = [4, 4, 3, 3, 3, 3]  # 20 of 6 users
    labels = [s.world.test_requests[u][1 : 1 + n] for u, n in enumerate(shares)]
    assert y.tolist() == np.concatenate(labels).tolist()
    np.testing.assert_array_equal(
        x[4], video.dataset_1(s.world.catalogue, s.world.users, 1, s.world.test_requests[1])[0][0]
    )


def test_groups_fit_the_memory(monkeypatch):
    # 3 steps of 20 samples of 3168 numbers: 760 kB a client; 2 MB hold two of them
    s = Samples(SMALL, "cpu")
    monkeypatch.setattr(clients, "BYTES_PER_CALL", 2_000_000)
    parts = s.groups(np.arange(6), np.full(6, 3))
    assert np.concatenate(parts).tolist() == list(range(6))
    assert max(map(len, parts)) <= 3
    assert len(parts) > 1
    whole = run(small(rule="m_fedavg", rounds=2), model=net())
    monkeypatch.setattr(clients, "BYTES_PER_CALL", 2**28)
    np.testing.assert_allclose(
        whole["loss"], run(small(rule="m_fedavg", rounds=2), model=net())["loss"], rtol=1e-5
    )


def test_local_steps_follow_the_allocation():
    assert (local_steps(small(allocator="none"), 1e6) == 3).all()
    joint, bigger = (local_steps(small(n_clients=60), bits) for bits in (5e6, 5e7))
    alternating = local_steps(small(n_clients=60, allocator="alternating"), 5e7)
    assert (joint == 0).mean() < (bigger == 0).mean() and (joint >= bigger).all()
    assert (alternating <= bigger).all() and (
        alternating < bigger
    ).any()  # joint takes the most steps that fit
    assert (joint[0] != joint[1]).any() and joint.max() == 3
    assert Link(1.0).max_steps == OSAFLConfig().max_steps == 5
    cheap = local_steps(
        small(n_clients=60, dataset=2), 5e6
    )  # a sample of 7 bits costs no cycles to speak of
    assert (cheap >= joint).all()


def test_ceiling_is_the_best_predictors_accuracy():
    # simulated: the most likely next request of each test sample against what came, over many
    # samples
    config = small(n_clients=20, test_size=20_000)
    w = world(config)
    law = video.request_matrix(w.catalogue, w.users, top_k=1)
    hits = (
        np.take_along_axis(law.argmax(axis=2), w.test_requests[:, :-1], axis=1)
        == w.test_requests[:, 1:]
    )
    assert abs(hits.mean() - ceiling(config)) < 4 * 0.5 / np.sqrt(hits.size)


def test_strangers_name_the_likeliest_file_over_all_users():
    # simulated: for each last file the label that follows it most often in many other requests of
    # the same users, tried on the test requests
    config = small(n_clients=20, test_size=20_000)
    w = world(config)
    asked = world(small(n_clients=20, test_size=400_000)).test_requests
    follows = np.zeros((100, 100))
    np.add.at(follows, (asked[:, :-1].ravel(), asked[:, 1:].ravel()), 1)
    guess = follows.argmax(axis=1)
    hits = guess[w.test_requests[:, :-1]] == w.test_requests[:, 1:]
    assert abs(hits.mean() - ceiling_of_strangers(config)) < 4 * 0.5 / np.sqrt(hits.size)


@pytest.mark.parametrize(("n_clients", "top_k"), [(1, 5), (20, 1)])
def test_strangers_know_as_much_of_one_user_or_where_all_stay_with_the_same_file(n_clients, top_k):
    # K = 1: whoever stays takes the one most similar file, with probability 0.4 at least, and no
    # file elsewhere is as likely; so the likeliest file is the same for all users
    config = small(n_clients=n_clients, top_k=top_k)
    assert ceiling_of_strangers(config) == pytest.approx(ceiling(config))


def test_strangers_know_less_where_users_differ():
    # K = 15 spreads staying so thin that a popular file elsewhere may be likelier, for some users
    config = small(n_clients=20, top_k=15)
    assert ceiling_of_strangers(config) < ceiling(config) - 0.001


def test_dataset_2_runs_with_a_recurrent_net():
    config = small(dataset=2, model="char_rnn", rounds=2, rate=0.5)
    net = models.create("char_rnn", input_shape=(10,), n_classes=100, hidden=8, layers=1)
    f = run(config, model=net)
    assert np.isfinite(f["loss"]).all() and config.hyper["global_rate"] == 35
    assert f["joined"].iloc[-1] > 0


def test_a_world_is_shared_by_the_rules():
    assert world(small(rule="m_fedavg", rate=0.5)) is world(small(rule="genie"))
    assert world(small(seed=1)) is not world(SMALL)


def test_a_run_takes_the_rule_from_the_config():
    config = OSAFLConfig(global_rate=7.0, chi=2.0, never_joined="zero")
    made = training.make_rule(config, np.ones(100))
    assert (made.never_joined, made.global_rate, made.chi) == ("zero", 7.0, 2.0)
    assert isinstance(training.make_rule(OSAFLConfig("genie"), np.ones(100)), rules.Genie)


# --- server rules of one's own ----------------------------------------------------------------


class Mean(FedAvg):
    """A server rule as a reader writes it: FedAvg at half the rate, and a record of its calls."""

    calls: ClassVar[list] = []

    def __call__(self, params, updates, weights=None, work=None):
        self.calls.append((len(work.clients), weights))
        return params + 0.5 * updates.mean(0)


def test_a_class_and_a_function_make_the_same_run():
    Mean.calls.clear()
    by_class = run(small(rule="m_fedavg"), server=Mean, model=net())
    assert len(Mean.calls) == (by_class["participants"] > 0).sum() > 0
    assert [n for n, _ in Mean.calls] == by_class.loc[
        by_class["participants"] > 0, "participants"
    ].tolist()
    assert all(weights is None for _, weights in Mean.calls)
    seen = []

    def make(config, shares):
        seen.append((config, shares))
        return Mean()

    compare(run(small(rule="m_fedavg"), server=make, model=net()), by_class)
    config, shares = seen[0]
    capacity = world(config).stores.capacity
    np.testing.assert_allclose(shares, capacity / capacity.sum())


def test_a_server_of_ones_own_that_is_the_tables_rule(frames):
    # the same object, whether the table or the caller makes it; M-FedDisco also asks for weights
    def make(config, shares):
        return rules.MFedDisco(config.n_clients)

    compare(run(small(rule="m_feddisco"), server=make, model=net()), frames["m_feddisco"])


def test_scaffold_gets_its_corrections_in_every_group(monkeypatch):
    # 2 MB hold two clients (see test_groups_fit_the_memory), so that the participants' corrections
    # have to be split among several calls
    config = small(rule="m_fedavg", allocator="none", rounds=3)

    def make(config, shares):
        return Scaffold(config.n_clients, shares)

    whole = run(config, server=make, model=net())
    monkeypatch.setattr(clients, "BYTES_PER_CALL", 2_000_000)
    np.testing.assert_allclose(
        run(config, server=make, model=net())["loss"], whole["loss"], rtol=1e-5
    )
    plain = run(config, server=FedAvg, model=net())
    assert plain["loss"][0] == pytest.approx(whole["loss"][0], rel=1e-6)  # no corrections yet
    assert plain["loss"][2] != pytest.approx(whole["loss"][2], rel=1e-6)


def test_what_a_server_returns_is_checked():
    class Short(FedAvg):
        def __call__(self, params, updates, weights=None, work=None):
            return params[:5]

    with pytest.raises(ValueError, match=r"returned has shape \(5,\)"):
        run(small(allocator="none"), server=Short, model=net())


def test_a_fifo_cache_is_the_store():
    """The limiting case: SFL's FIFO of the store's size holds what the store holds, to the bit."""
    for changes in ({}, {"rule": "m_feddisco"}, {"rule": "genie"}):
        compare(run(small(**changes)), run(small(**changes), cache=caches.FIFO))


def test_caches_by_hand():
    """A cache that never changes holds the D_u samples of the start; its local batches are theirs.

    Arrivals are those of the stores: the samples from the window's old end to its new one.
    """
    seen = []

    class Noting(caches.Lazy):
        def update(self, ids, labels, rng):
            seen.append((ids, labels))
            super().update(ids, labels, rng)

    s = Samples(SMALL, "cpu", Noting)
    w = s.world
    for u in range(6):
        own = seen[5 * u : 5 * u + 5]  # the start and four rounds
        size, ends = w.stores.capacity[u], w.windows[:, u, 1]
        assert own[0][0].tolist() == list(range(size))
        for t in range(4):
            before = size if t == 0 else ends[t - 1]
            assert own[t + 1][0].tolist() == list(range(before, ends[t]))
        assert all((w.requests[u][ids + s.past] == labels).all() for ids, labels in own)
        for t in range(1, 5):
            assert s.stored(u, t).tolist() == list(range(s.past, size + s.past))
    assert not (s.label_counts(4) == Samples(SMALL, "cpu").label_counts(4)).all()


@pytest.mark.parametrize("rule", ["drsr", "reservoir", "lazy"])
def test_every_cache_rule_keeps_what_arrived_within_its_size(rule):
    s = Samples(SMALL, "cpu", caches.RULES[rule].build)
    for u in range(6):
        for t in range(1, 5):
            held = s.stored(u, t) - s.past
            assert len(set(held.tolist())) == len(held) == s.world.stores.capacity[u]
            assert 0 <= held.min() and held.max() < s.world.windows[t - 1, u, 1]
    compare(run(SMALL, cache=caches.RULES[rule].build), run(SMALL, cache=caches.RULES[rule].build))


def test_a_cache_that_no_local_round_can_draw_from_is_refused():
    class Newest(caches.Cache):
        def take(self, ids, labels, rng):
            self.keep(ids, labels)

    with pytest.raises(ValueError, match=r"cache of client 0 holds \d+ samples in round 1.* 20"):
        run(SMALL, cache=Newest)
