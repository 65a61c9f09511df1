"""Learning from data streams: one round by hand, against a plain loop, pairing, schedules, limits,
bad values.
"""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from sflkit import federated, models
from sflkit.data.federations import Federation
from sflkit.datastreams import arms as datastreams_arms
from sflkit.datastreams import constants, importance, psi, strategies
from sflkit.datastreams.arms import Arms, initial, mini_batches
from sflkit.datastreams.arrivals import mean_memory, memories
from sflkit.datastreams.config import RATE_GRID, DataStreamsConfig
from sflkit.datastreams.constants import estimate_constants, estimate_sigma0
from sflkit.datastreams.training import best_rates, build, client_importance, run
from sflkit.federated import Task, servers
from sflkit.results import store
from sflkit.sfl.caches import FIFO, Lazy


def federation(x, y, sizes, historical, x_test=None, y_test=None, n_classes=2):
    """Consecutive rows to clients of the given sizes; by default every training sample is a test
    sample, of unequal weight.
    """
    x, y = np.asarray(x, np.float32), np.asarray(y, np.int64)
    x_test = x.copy() if x_test is None else np.asarray(x_test, np.float32)
    y_test = y.copy() if y_test is None else np.asarray(y_test, np.int64)
    clients = tuple(np.split(np.arange(sum(sizes)), np.cumsum(sizes)[:-1]))
    weights = np.arange(1.0, len(y_test) + 1)
    return Federation(
        "hand",
        x,
        y,
        clients,
        x_test,
        y_test,
        weights / weights.sum(),
        n_classes,
        np.array(historical),
        digest="0",
    )


def random_federation(sizes, n_historical, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(sum(sizes), 3))
    return federation(
        x, rng.integers(0, 3, sum(sizes)), sizes, np.arange(len(sizes)) < n_historical, n_classes=3
    )


class Zero(nn.Linear):
    def reset_parameters(self):
        nn.init.zeros_(self.weight)
        nn.init.zeros_(self.bias)


CONFIG = DataStreamsConfig(
    arms=("uniform", "p_hist=0.5"),
    rates=(0.1, 0.1),
    seed=5,
    n_clients=4,
    n_historical=2,
    rounds=6,
    local_steps=3,
    batch_size=2,
    evaluate_every=1,
)
HAND = replace(
    CONFIG,
    arms=("p_hist=0.25",),
    rates=(0.1,),
    n_clients=2,
    n_historical=1,
    rounds=2,
    local_steps=1,
    batch_size=9,
)


def loss(logit):
    """Cross-entropy of the test sample x = 1, y = 0 under logits +logit and -logit."""
    return np.log1p(np.exp(-2 * logit))


def test_one_round_by_hand():
    # Zero model, two classes: softmax (1/2, 1/2), gradient of class c (1/2 - [c = y]) (x, 1).
    # Historical client: (1, 1), (3, 1): mean gradient of class 0: (1, 1/2). Fresh client, one
    # sample a round: (2, 0) first: class 0: (-1, -1/2). p_hist = 1/4, and (5) gives (1/4, 3/4) in
    # each round, so (7): class 0 moves by -0.1 (1/4 - 3/4) (1, 1/2) = (0.05, 0.025), class 1 by its
    # negative: the logits of x = 1 are +-0.075.
    fed = federation([[1], [3], [2], [5]], [1, 1, 0, 0], [2, 2], [True, False], [[1]], [0])
    frame = run(HAND, federation=fed, model=Zero(1, 2))
    assert frame["loss_last"][0] == pytest.approx(loss(0.075), abs=1e-6)
    # theta-bar: theta^(1) = 0 after round 1, (theta^(1) + theta^(2)) / 2 after round 2 (q = 1/2,
    # 1/2)
    assert frame["loss"].tolist() == pytest.approx([np.log(2), loss(0.0375)], abs=1e-6)
    assert (
        frame["accuracy_last"][0] == 1.0
        and frame["round"].tolist() == [1, 2]
        and set(frame["p_hist"]) == {0.25}
    )
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
    frame = run(config, federation=fed, model=Zero(1, 2))
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


def plain_loop(config, fed, weights=None, memory=None, radius=None):
    """Algorithm 1 for one arm by torch.optim-like steps, lambda as one array and (5), (6) from
    sflkit.datastreams.importance.
    """
    options = dict(
        rounds=config.rounds, seed=config.seed, availability=config.availability, memory=memory
    )
    stored = memories(fed, **options, participation=config.participation)
    size = mean_memory(memories(fed, **options), fed.n_clients)
    p = client_importance(config.arms[0], fed, config.c_ratio)
    lam = np.zeros((config.rounds, fed.n_clients, len(fed.x)))
    for t, memory_ in enumerate(stored):
        for m, ids in memory_.items():
            lam[t, m, ids] = p[m] / size[m] if weights is None else weights(t + 1, m, ids, p[m])
    aggregation, q = importance.aggregation_weights(lam), importance.round_weights(lam)
    model = models.create("linear", input_shape=(3,), n_classes=3)
    start = initial(Task(model), config.seed)
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
        ({"participation": 3}, {"weights": skewed, "memory": lambda m, b: FIFO(4, b)}),
        ({}, {"memory": lambda m, b: FIFO(4, b)}),
    ],
)
def test_against_a_plain_loop(change, extra):
    fed = random_federation([5, 3, 7, 11], 2)
    config = replace(CONFIG, **{"arms": ("uniform",), "rates": (0.3,), "local_steps": 2, **change})
    frame = run(config, federation=fed, **extra)
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
    start = initial(Task(model), config.seed)
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
    assert run(config, federation=fed)["loss_last"][0] == pytest.approx(
        loss_of(model, fed), abs=1e-6
    )


@pytest.mark.parametrize("server", ["fedavg", "fedprox", "scaffold"])
def test_arms_are_paired(server, monkeypatch):
    fed = random_federation(
        [5, 3, 7, 2], 2
    )  # the last client has rounds without a sample, the first two none under "fresh"
    arms, rates = (
        ("uniform", "fresh", "historical", "ours", "p_hist=0.3", "uniform"),
        (0.1, 0.2, 0.3, 0.1, 0.1, 0.01),
    )
    config = replace(CONFIG, arms=arms, rates=rates, server=server)
    together = run(config, federation=fed)
    alone = [
        run(replace(config, arms=(arm,), rates=(rate,)), federation=fed)
        for arm, rate in zip(arms, rates, strict=True)
    ]
    for a, frame in enumerate(alone):
        pd.testing.assert_frame_equal(
            together.iloc[a::6].reset_index(drop=True), frame, rtol=1e-5, check_exact=False
        )
    assert together["loss_last"].round(4).nunique() > 30  # 36 rows that differ
    monkeypatch.setattr(
        datastreams_arms, "_STACKED_NUMBERS", 100
    )  # 4 clients of 12 parameters: calls of two arms
    pd.testing.assert_frame_equal(run(config, federation=fed), together, rtol=1e-5)


def test_same_seed_same_rows_and_another_seed_others():
    fed = random_federation([5, 3, 7, 11], 2)
    pd.testing.assert_frame_equal(
        run(CONFIG, federation=fed), run(CONFIG, federation=fed), check_exact=True
    )
    assert not run(replace(CONFIG, seed=6), federation=fed).equals(run(CONFIG, federation=fed))


def test_servers_and_their_limits():
    fed = random_federation([5, 3, 7, 11], 2)
    avg, prox0, prox, scaffold = (
        run(replace(CONFIG, **c), federation=fed)
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


def test_clients_without_weight_are_left_out(monkeypatch):
    fed = random_federation([5, 3, 7, 11], 2)
    config = replace(CONFIG, arms=("fresh", "historical", "uniform"), rates=(0.1,) * 3, rounds=1)
    calls, train = [], federated.local_sgd
    monkeypatch.setattr(
        federated, "local_sgd", lambda *a, **k: calls.append(len(a[2])) or train(*a, **k)
    )
    run(config, federation=fed)
    monkeypatch.setattr(
        datastreams_arms, "_STACKED_NUMBERS", 100
    )  # 4 clients of 12 parameters: two arms a call
    run(config, federation=fed)
    assert calls == [2 + 2 + 4, 2 + 2, 4]


def test_scaffold_knows_the_importance():
    # c = sum p_m c_m after every round, with the arm's own p and clients that miss rounds
    fed, config = (
        random_federation([5, 3, 7, 2], 2),
        replace(CONFIG, server="scaffold", arms=("uniform", "p_hist=0.9")),
    )
    p = np.stack([client_importance(arm, fed) for arm in config.arms])
    stored = memories(fed, rounds=6, seed=5)
    arms = Arms(config, fed, p, mean_memory(stored, 4), None, None)
    for t, memory in enumerate(stored, 1):
        arms.step(t, memory)
        for rule, shares in zip(arms.rules, p, strict=True):
            torch.testing.assert_close(
                rule.mean, sum(float(shares[m]) * c for m, c in rule.controls.items())
            )
    assert all(set(rule.controls) == {0, 1, 2, 3} for rule in arms.rules)


def test_importance_of_an_arm():
    fed = random_federation([5, 3, 7, 11], 2)
    np.testing.assert_allclose(client_importance("uniform", fed), np.array([5, 3, 7, 11]) / 26)
    np.testing.assert_allclose(
        client_importance("p_hist=0.5", fed), [5 / 16, 3 / 16, 7 / 36, 11 / 36]
    )
    np.testing.assert_allclose(
        client_importance("p_hist=1", fed), client_importance("historical", fed)
    )
    for c_ratio in (0.5, 2.0):
        np.testing.assert_allclose(
            client_importance("ours", fed, c_ratio),
            psi.minimize_psi([5, 3, 7, 11], [True, True, False, False], 1.0, c_ratio).p,
        )
        np.testing.assert_allclose(
            client_importance("fresh", fed, c_ratio), [0, 0, 7 / 18, 11 / 18]
        )


def test_mini_batches():
    whole = mini_batches(4, 4, 3, seed=0, client=1, t=1)
    assert len(whole) == 3 and all(pick.tolist() == [0, 1, 2, 3] for pick in whole)
    picks = np.array(
        [pick for t in range(1, 301) for pick in mini_batches(10, 4, 2, seed=0, client=1, t=t)]
    )
    assert picks.shape == (600, 4) and all(
        len(set(pick)) == 4 for pick in picks
    )  # without replacement
    assert (
        abs(np.bincount(picks.ravel()) - 240).max() < 5 * (600 * 0.4 * 0.6) ** 0.5
    )  # uniform: 5 standard deviations
    assert (picks[::2] != picks[1::2]).any(axis=1).mean() > 0.99  # each step draws anew
    assert not np.array_equal(mini_batches(10, 4, 2, 0, 2, 1), mini_batches(10, 4, 2, 0, 1, 1))
    np.testing.assert_array_equal(mini_batches(10, 4, 2, 0, 1, 1), picks[:2])


def test_arrivals_of_different_clients_are_spread():
    # 30 fresh clients of one sample over 5 rounds: not all in one round
    stored = memories(random_federation([3] + [1] * 30, 1), rounds=5, seed=0)
    assert min(len(memory) for memory in stored) > 1


def test_projection_keeps_the_ball():
    fed = random_federation([5, 3, 7, 11], 2)
    config = replace(
        CONFIG, radius=0.05, rates=(0.008, 1.0)
    )  # the first arm gets there in small steps, the second at once
    p = np.stack([client_importance(arm, fed) for arm in config.arms])
    stored = memories(fed, rounds=6, seed=5)
    arms = Arms(config, fed, p, mean_memory(stored, 4), None, None)
    for t, memory in enumerate(stored, 1):
        arms.step(t, memory)
        slow, fast = (arms.params - arms.start).norm(dim=1).tolist()
        assert slow <= 0.05 * (1 + 1e-5) and fast == pytest.approx(0.05, rel=1e-5)
        assert t > 1 or slow < 0.04
    assert slow == pytest.approx(0.05, rel=1e-5)
    free = run(replace(config, radius=1e6), federation=fed)
    pd.testing.assert_frame_equal(
        free, run(replace(config, radius=None), federation=fed), check_exact=True
    )


@pytest.mark.parametrize("length", [1, 2])
@pytest.mark.parametrize("n_fresh", [3, 20])
def test_intermittent_clients(length, n_fresh):
    fed = random_federation([4] * (2 + n_fresh), 2)
    stored = memories(fed, rounds=8, seed=1, availability=str(length))
    for m in range(2 + n_fresh):
        there = [t for t, memory in enumerate(stored) if m in memory]
        assert all(
            memory[m] is fed.clients[m] for memory in stored if m in memory
        )  # with all its samples
        if m < 2:
            assert there == list(range(8))
        else:
            assert there == list(range(there[0], min(there[0] + length, 8)))
    counts = [len(memory) - 2 for memory in stored]
    assert max(counts) - min(counts) <= length and sum(counts) >= n_fresh  # spread over the rounds
    others = memories(fed, rounds=8, seed=2, availability=str(length))
    assert n_fresh == 3 or [sorted(memory) for memory in others] != [
        sorted(memory) for memory in stored
    ]


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.integers(1, 30), min_size=2, max_size=6),
    st.integers(1, 12),
    st.integers(0, 5),
    st.data(),
)
def test_use_counts_and_importance(sizes, rounds, seed, data):
    # Section 5: historical samples are used T times, fresh ones once; (15): the clients' importance
    # is p, spread evenly
    n_historical = data.draw(st.integers(1, len(sizes) - 1))
    availability = data.draw(st.sampled_from(["stream", "1", "2"]))
    fed = random_federation(sizes, n_historical)
    stored = memories(fed, rounds=rounds, seed=seed, availability=availability)
    uses = np.zeros(len(fed.x), int)
    for memory in stored:
        for ids in memory.values():
            uses[ids] += 1
    cut = sum(sizes[:n_historical])
    assert (uses[:cut] == rounds).all()
    assert (uses[cut:] == 1).all() if availability != "2" else set(uses[cut:]) <= {1, 2}
    if availability == "stream":
        for m in range(n_historical, len(sizes)):
            batches = [len(memory.get(m, ())) for memory in stored]
            assert max(batches) - min(batches) <= 1
            np.testing.assert_array_equal(
                np.concatenate([memory[m] for memory in stored if m in memory]), fed.clients[m]
            )
    p = strategies.client_importance("fixed", sizes, fed.historical, p_hist=0.3)
    lam = np.zeros((rounds, len(sizes), len(fed.x)))
    size = mean_memory(stored, len(sizes))
    for t, memory in enumerate(stored):
        for m, ids in memory.items():
            lam[t, m, ids] = p[m] / size[m]
    shares = importance.relative_importance(lam)
    np.testing.assert_allclose(shares.sum(axis=1), p, rtol=1e-9)
    for m, ids in enumerate(fed.clients):
        np.testing.assert_allclose(shares[m, ids], p[m] / len(ids), rtol=1e-9)


def test_participation_draws_so_many_and_loses_what_arrives_meanwhile():
    fed = random_federation([5, 3, 12, 12], 2)
    stored = memories(fed, rounds=6, seed=0, participation=2, memory=lambda m, b: FIFO(12, b))
    assert {len(memory) for memory in stored} == {2} and len(
        {tuple(memory) for memory in stored}
    ) > 1
    held = 0
    for t, memory in enumerate(stored):
        if (
            2 in memory
        ):  # two samples arrive in each round, in which it is drawn: only those are kept
            held += 2
            assert len(memory[2]) == held and set(fed.clients[2][2 * t : 2 * t + 2]) <= set(
                memory[2].tolist()
            )
    assert 0 < held < 12
    everybody = memories(fed, rounds=6, seed=0, participation=4)
    assert all(list(memory) == [0, 1, 2, 3] for memory in everybody)


def test_memory_rule_is_used():
    fed, made = random_federation([5, 3, 12, 8], 2), []

    def lazy(client, arrivals):
        made.append((client, arrivals))
        return Lazy(arrivals, arrivals)

    stored = memories(fed, rounds=4, seed=0, memory=lazy)
    assert made == [(2, 3), (3, 2)]
    assert all(
        memory[2].tolist() == fed.clients[2][:3].tolist() for memory in stored
    )  # the first samples, kept for ever
    assert not run(CONFIG, federation=fed, memory=lazy).equals(run(CONFIG, federation=fed))
    with pytest.raises(ValueError, match=r"memory of client 3 has capacity=9; it must be <= 8"):
        run(CONFIG, federation=fed, memory=lambda m, b: FIFO(9, b))


def test_fresh_without_fresh_samples_stands_still():
    # one fresh client with one sample in three rounds: without it "fresh" neither moves nor counts
    # the round, (5) and (6)
    fed = federation([[1], [3], [2]], [1, 1, 0], [2, 1], [True, False], [[1]], [0])
    config = replace(HAND, arms=("fresh",), rounds=3, seed=1)
    there = [1 in memory for memory in memories(fed, rounds=3, seed=1)].index(True)
    frame = run(config, federation=fed, model=Zero(1, 2))
    assert frame["loss_last"].tolist() == pytest.approx(
        [np.log(2)] * there + [loss(0.15)] * (3 - there), abs=1e-6
    )
    assert frame["loss"].tolist() == pytest.approx([np.log(2)] * 3, abs=1e-6)


@pytest.mark.parametrize("server", ["fedavg", "scaffold"])
def test_divergence_stops_one_arm_only(server):
    fed = random_federation([5, 3, 7, 11], 2)
    config = replace(CONFIG, arms=("uniform", "uniform"), rates=(1e38, 0.1), server=server)
    frame = run(config, federation=fed)
    wild, tame = frame[frame["rate"] == 1e38], frame[frame["rate"] == 0.1].reset_index(drop=True)
    assert (
        wild["diverged"].iloc[-1]
        and wild["diverged"].is_monotonic_increasing
        and not tame["diverged"].any()
    )
    assert (
        wild[wild["diverged"]][["accuracy", "loss", "accuracy_last", "loss_last"]]
        .isna()
        .all(axis=None)
    )
    want = run(replace(config, arms=("uniform",), rates=(0.1,)), federation=fed)
    pd.testing.assert_frame_equal(tame, want, rtol=1e-5)
    assert run(replace(config, arms=("uniform",), rates=(1e38,)), federation=fed)["diverged"].iloc[
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
    assert RATE_GRID == pytest.approx(
        [0.000316228, 0.001, 0.00316228, 0.01, 0.0316228, 0.1], rel=1e-5
    )


def test_constants_by_hand():
    # Zero model: loss ln 2. Client 0: x = 5, 1, y = 1; the first half of it is x = 5: gradient of
    # the two classes +-(5, 1)/2, norm sqrt(2 * 26 / 4) = sqrt 13. Client 1: x = 3, y = 0: norm
    # sqrt(2 * 10 / 4) = sqrt 5. One step of 0.1: D = 0.1 sqrt 13. Both losses fall, so B = ln 2,
    # and G is the start's sqrt 13.
    fed = federation([[5], [1], [3], [7]], [1, 1, 0, 0], [2, 1, 1], [True, True, False])
    got = estimate_constants(Task(Zero(1, 2)), fed, seed=0, fraction=0.5, steps=1)
    assert got == pytest.approx((np.log(2), 13**0.5, 0.1 * 13**0.5, 4, 4, 1), rel=1e-5)
    assert psi.estimate_c_ratio(**got._asdict()) == pytest.approx((np.log(2) + 1) / 1.3, rel=1e-5)
    for bad in (
        dict(fraction=0),
        dict(fraction=1.1),
        dict(steps=0),
        dict(rate=0),
        dict(batch_size=0),
    ):
        with pytest.raises(ValueError, match=next(iter(bad))):
            estimate_constants(Task(Zero(1, 2)), fed, seed=0, **bad)
    with pytest.raises(ValueError, match="one of each kind"):
        estimate_constants(Task(Zero(1, 2)), replace(fed, historical=np.ones(3, bool)), seed=0)


def test_sigma0_by_hand():
    # Zero model, clients of three samples x with label y. Gradient of class 0 is (P(class 0) - [y =
    # 0]) (x, 1), of class 1 its negative, so squared norms are twice class 0's. The whole parts at
    # the start, P = 1/2: client 0, y = 1, 0, 0: (1, 1)/2, -(5, 1)/2, -(5, 1)/2, mean (-3, -1/3)/2:
    # (4, 4/3)/2, -(2, 2/3)/2 twice: 2 (4 + 4/9 + 2 (1 + 1/9))/3 = 40/9. After a vanishing training
    # the second model is the first: sigma_0 = sqrt(40/9). client 1, y = 1: (1, 1)/2, (3, 1)/2, (5,
    # 1)/2, mean (3, 1)/2: deviations -1, 0, 1 in x: 2 (1 + 0 + 1)/3 = 4/3.
    fed = federation(
        [[1], [5], [5], [1], [3], [5], [7]], [1, 0, 0, 1, 1, 1, 0], [3, 3, 1], [True, True, False]
    )
    task, options = Task(Zero(1, 2)), dict(seed=0, fraction=1, steps=1)
    assert estimate_sigma0(task, fed, rate=1e-6, **options) == pytest.approx(
        (40 / 9) ** 0.5, rel=1e-5
    )
    # the first sample alone, against the mean of the whole part: client 0's (4, 4/3)/2: 2 (4 + 4/9)
    assert estimate_sigma0(task, fed, rate=1e-6, max_samples=1, **options) == pytest.approx(
        (80 / 9) ** 0.5, rel=1e-5
    )

    # a real step, of rate 1: each sample takes the larger of its two deviations. x = 1, 5, 5 with y
    # = 1, 1, 0: class 0's mean gradient is (1 + 5 - 5, 1 + 1 - 1)/6, so class 0 moves by -(1, 1)/6
    # and class 1 by its negative.
    fed = federation([[1], [5], [5], [7]], [1, 1, 0, 0], [3, 1], [True, False])
    x, y, squares = np.array([[1.0, 1], [5, 1], [5, 1]]), np.array([1, 1, 0]), []
    for w in (np.zeros(2), -np.ones(2) / 6):
        g = (1 / (1 + np.exp(-2 * x @ w)) - (y == 0))[:, None] * x
        squares.append(2 * ((g - g.mean(0)) ** 2).sum(1))
    both = np.max(squares, axis=0)
    assert both.mean() > max(s.mean() for s in squares) + 1  # neither model has them all
    assert estimate_sigma0(task, fed, rate=1.0, **options) == pytest.approx(
        both.mean() ** 0.5, rel=1e-5
    )
    with pytest.raises(ValueError, match="max_samples=0"):
        estimate_sigma0(task, fed, max_samples=0, **options)


def test_sigma0_in_pieces(monkeypatch):
    fed, task = (
        random_federation([9, 7, 5], 2),
        Task(models.create("linear", input_shape=(3,), n_classes=3)),
    )
    want = estimate_sigma0(task, fed, seed=0, fraction=1, rate=0.5)
    monkeypatch.setattr(constants, "_GRADIENT_NUMBERS", 2 * task.n_params)  # two samples at once
    assert (
        estimate_sigma0(task, fed, seed=0, fraction=1, rate=0.5)
        == pytest.approx(want, rel=1e-5)
        != 0
    )


def test_natural_clients_do_not_use_n_historical():
    config = DataStreamsConfig(data="writers", n_clients=5, model="mlp")
    assert config.n_historical == 10  # as stored before, so that results keep their keys
    assert build(config).historical.tolist() == [True] + [False] * 4
    assert store.config_dict(config) == store.config_dict(replace(config, n_clients=11)) | {
        "n_clients": 5
    }


class Doubled(servers.FedAvg):
    """FedAvg that goes twice the way, with a proximal term of the arm's largest importance."""

    def __init__(self, p, seen):
        super().__init__(2.0)
        self.p, self.seen = p, seen

    def local_options(self, work):
        return {"prox": float(self.p.max())}

    def __call__(self, params, updates, weights=None, work=None):
        self.seen.append((work.clients.tolist(), work.rate))
        return super().__call__(params, updates, weights, work)


def test_own_server(monkeypatch):
    fed, made, seen = random_federation([5, 3, 7, 11], 2), [], []
    frame = run(CONFIG, federation=fed, server=lambda p: made.append(p) or Doubled(p, seen))
    np.testing.assert_allclose(made, [client_importance(arm, fed) for arm in CONFIG.arms])
    assert len(seen) == 2 * CONFIG.rounds and seen[0] == ([0, 1, 2, 3], 0.1)
    # the arms differ in prox, and each is what it is alone
    prox = run(CONFIG, federation=fed, server=lambda p: servers.FedProx(5 * p.max()))
    for a, arm in enumerate(CONFIG.arms):
        alone = run(
            replace(CONFIG, arms=(arm,), rates=(0.1,)),
            federation=fed,
            server=lambda p: Doubled(p, []),
        )
        same = frame[frame["arm"] == arm].reset_index(drop=True)
        pd.testing.assert_frame_equal(same, alone, rtol=1e-5)
        want = run(
            replace(CONFIG, arms=(arm,), rates=(0.1,), server="fedprox", prox=5 * made[a].max()),
            federation=fed,
        )
        pd.testing.assert_frame_equal(
            prox[prox["arm"] == arm].reset_index(drop=True), want, rtol=1e-5
        )
    # one step from 0 by hand, as in test_one_round_by_hand, twice as far: logits +-0.15 (prox has
    # no effect in the first step)
    hand = federation([[1], [3], [2], [5]], [1, 1, 0, 0], [2, 2], [True, False], [[1]], [0])
    first = run(HAND, federation=hand, model=Zero(1, 2), server=lambda p: Doubled(p, []))
    assert first["loss_last"][0] == pytest.approx(loss(0.15), abs=1e-6)
    monkeypatch.setattr(Doubled, "local_options", lambda self, work: {"momentum": 0.9})
    with pytest.raises(ValueError, match=r"local_options=\['momentum'\]"):
        run(CONFIG, federation=fed, server=lambda p: Doubled(p, []))


def test_real_federations(tmp_path):
    config = DataStreamsConfig(rounds=4, evaluate_every=3)
    frame = run(config)
    assert (
        frame["round"].tolist() == [3] * 4 + [4] * 4
        and frame["arm"].tolist() == list(config.arms) * 2
    )
    assert frame.attrs["data"]["size"] == 200 and frame[frame["arm"] == "uniform"]["p_hist"].iloc[
        0
    ] == pytest.approx(0.2)
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
    head = store.describe(run, natural)
    store.write_result(tmp_path, head, run(natural), threads=1, seconds=0.0)
    pd.testing.assert_frame_equal(
        store.read_result(head["key"], tmp_path)[0], run(natural), rtol=1e-6
    )


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"arms": ("uniform", "newest")}, "arms holds 'newest'"),
        ({"arms": ("uniform", "p_hist=1.5")}, "arms holds 'p_hist=1.5'"),
        ({"arms": ("uniform", "p_old=0.5")}, "arms holds 'p_old=0.5'"),
        ({"arms": ("uniform",)}, "one entry an arm"),
        ({"arms": (), "rates": ()}, "at least one"),
        ({"rates": (0.1, 0.0)}, "rates=0.0"),
        ({"n_historical": 4}, "n_historical=4 must be an integer >= 1 and <= 3"),
        ({"n_historical": 0}, "n_historical=0"),
        ({"n_historical": None}, "n_historical=None"),
        ({"n_clients": 1}, "n_clients=1"),
        ({"hist_fraction": 1.0}, "hist_fraction=1.0"),
        ({"rounds": 0}, "rounds=0"),
        ({"local_steps": 1.5}, "local_steps=1.5"),
        ({"batch_size": 0}, "batch_size=0"),
        ({"arms": ("uniform", "ours"), "c_ratio": None}, "c_ratio=None"),
        ({"server": "fedsgd"}, "server='fedsgd'"),
        ({"prox": -0.1}, "prox=-0.1"),
        ({"radius": 0.0}, "radius=0.0"),
        ({"radius": -1.0}, "radius=-1.0"),
        ({"participation": 0}, "participation=0"),
        ({"participation": 5}, "participation=5"),
        ({"availability": "3"}, "availability='3'"),
        ({"validation": 1.0}, "validation=1.0"),
        ({"data": "imagenet"}, "data='imagenet'"),
        ({"evaluate_every": 0}, "evaluate_every=0"),
        ({"seed": -1}, "seed=-1"),
    ],
)
def test_bad_config(change, message):
    with pytest.raises(ValueError, match=message):
        replace(CONFIG, **change)


def test_bad_weights():
    fed = random_federation([5, 3, 7, 11], 2)
    for weights, message in (
        (lambda t, m, ids, p: [1.0], r"weights\(round=1, client=0\) has shape \(1,\)"),
        (lambda t, m, ids, p: -np.ones(len(ids)), r"weights\(round=1, client=0\) holds -1.0"),
    ):
        with pytest.raises(ValueError, match=message):
            run(CONFIG, federation=fed, weights=weights)
