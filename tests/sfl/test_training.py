"""The streaming-FL run: against a plain loop, limits, pairing, bad values."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch

from sflkit import data, models
from sflkit.randomness import generator
from sflkit.sfl import sampling
from sflkit.sfl.caches import RULES
from sflkit.sfl.clients import Clients, make_stream
from sflkit.sfl.config import SFLConfig
from sflkit.sfl.training import run

TINY = SFLConfig(
    rule="drsr",
    seed=3,
    data="digits",
    model="linear",
    n_clients=3,
    n_states=4,
    capacity=20,
    batch_size=10,
    rounds=6,
    test_size=100,
)


def test_against_a_plain_federated_loop():
    config = replace(TINY, rule="fifo", global_rate=0.5)
    frame = run(config)
    digits = data.load("digits")
    clients = Clients(config, digits.y_train, 10)
    x, y = torch.as_tensor(digits.inputs("train")), torch.as_tensor(digits.labels("train"))
    shares = clients.stream.long_term.mean(axis=0)
    test = sampling.draw_test_set(
        digits.y_test, shares, config.test_size, generator(config.seed, "test_set")
    )
    xt, yt = (
        torch.as_tensor(digits.inputs("test", test)),
        torch.as_tensor(digits.labels("test", test)),
    )
    model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(784, 10))
    from sflkit.federated import Task

    start = Task(models.create("linear", input_shape=(1, 28, 28), n_classes=10)).init(
        int(generator(config.seed, "model").integers(2**31))
    )
    torch.nn.utils.vector_to_parameters(start, model.parameters())
    for t in range(1, config.rounds + 1):
        clients.arrive(t)
        server = torch.nn.utils.parameters_to_vector(model.parameters()).detach().clone()
        local = []
        for cache in clients.caches:
            torch.nn.utils.vector_to_parameters(server.clone(), model.parameters())
            optimiser = torch.optim.SGD(model.parameters(), lr=config.local_rate)
            for _ in range(config.local_steps):
                optimiser.zero_grad()
                torch.nn.functional.cross_entropy(model(x[cache.ids]), y[cache.ids]).backward()
                optimiser.step()
            local.append(torch.nn.utils.parameters_to_vector(model.parameters()).detach().clone())
        # (5)-(6): Delta_k = (w_k - w) / eta_L and w + eta eta_L mean(Delta) = w + eta (mean(w_k) -
        # w)
        server = server + 0.5 * (torch.stack(local).mean(0) - server)
        torch.nn.utils.vector_to_parameters(server, model.parameters())
        with torch.inference_mode():
            loss = torch.nn.functional.cross_entropy(model(xt), yt).item()
            accuracy = (model(xt).argmax(1) == yt).float().mean().item()
        assert frame.loss[t - 1] == pytest.approx(loss, abs=1e-5)
        assert frame.accuracy[t - 1] == pytest.approx(accuracy, abs=1e-6)


def test_columns_and_discrepancy_by_definition():
    frame = run(TINY)
    assert frame["round"].tolist() == list(range(1, 7))
    np.testing.assert_allclose(frame.accumulated, frame.discrepancy.cumsum())
    clients = Clients(TINY, data.load("digits").y_train, 10)
    for t in range(1, 7):
        clients.arrive(t)
    v = np.stack([np.bincount(c.labels, minlength=10) / len(c) for c in clients.caches])
    assert frame.discrepancy.iloc[-1] == pytest.approx(((v - clients.stream.long_term) ** 2).sum())
    assert frame.filter(like="count_").iloc[-1].sum() == 3 * 20
    assert frame.filter(like="count_").iloc[0].sum() == 3 * 10
    assert frame.attrs["data"]["name"] == "digits" and len(frame.attrs["data"]["digest"]) == 64


def test_a_cache_as_large_as_the_stream_makes_all_rules_equal():
    config = replace(TINY, capacity=60, rounds=6)
    reference = run(replace(config, rule="fifo"))
    for rule in ("srsr", "drsr", "lazy", "reservoir"):
        frame = run(replace(config, rule=rule))
        pd.testing.assert_frame_equal(frame, reference, rtol=1e-5, atol=1e-6)


def test_rules_are_paired_and_full_knows_the_long_term():
    runs = {
        rule: run(replace(TINY, rule=rule, train=False, rounds=40, capacity=200, batch_size=100))
        for rule in RULES
    }
    # all rules that append see the same arrivals in round 1
    assert len({runs[r].discrepancy[0] for r in ("fifo", "srsr", "drsr", "lazy", "reservoir")}) == 1
    # FULL is pi rounded to 1/B: at most 1/B off per class and client, 3 clients of 3 classes
    assert (runs["full"].discrepancy <= 9 / 200**2).all()
    assert (runs["full_refreshed"].discrepancy <= 9 / 200**2).all()
    assert (
        runs["drsr"].accumulated.iloc[-1]
        < runs["srsr"].accumulated.iloc[-1]
        < runs["fifo"].accumulated.iloc[-1]
    )


def test_training_does_not_change_the_caches():
    for rule in set(RULES) - {
        "reservoir"
    }:  # which picks by position in the round, and that order is the data set's own
        trained, bare = run(replace(TINY, rule=rule)), run(replace(TINY, rule=rule, train=False))
        assert bare.accuracy.isna().all() and trained.accuracy.notna().all()
        np.testing.assert_array_equal(trained.filter(like="count_"), bare.filter(like="count_"))
        np.testing.assert_array_equal(trained.discrepancy, bare.discrepancy)


def test_same_config_same_numbers_and_a_new_client_disturbs_nobody():
    pd.testing.assert_frame_equal(run(TINY), run(TINY), check_exact=True)
    assert not run(TINY).equals(run(replace(TINY, seed=4)))
    labels = data.load("digits").y_train
    few, more = (Clients(replace(TINY, n_clients=n), labels, 10) for n in (3, 4))
    for t in range(1, 6):
        few.arrive(t), more.arrive(t)
    for a, b in zip(few.caches, more.caches, strict=False):
        np.testing.assert_array_equal(a.ids, b.ids)


def test_evaluate_every():
    frame = run(replace(TINY, evaluate_every=4))
    assert frame.accuracy.notna().tolist() == [False, False, False, True, False, True]


def test_exact_counts_follow_the_short_term_shares():
    config = replace(
        TINY, exact_counts=True, batch_size=100, capacity=100, rule="fifo", train=False, rounds=5
    )
    clients = Clients(config, np.arange(10).repeat(100), 10)
    shares = clients.counts / 100
    assert all(
        (shares[t, k] == clients.stream.short_term[k]).all(axis=1).any()
        for t in range(5)
        for k in range(3)
    )


def test_the_real_size_of_the_test_set_is_recorded():
    assert run(replace(TINY, test_size=50)).attrs["data"]["test_size"] == 50
    assert (
        run(replace(TINY, test_size=5000)).attrs["data"]["test_size"] < 360
    )  # all that digits has


def test_bad_runs():
    with pytest.raises(ValueError, match="classes_per_client=11"):
        replace(TINY, classes_per_client=11, train=False)
    with pytest.raises(ValueError, match="classes_per_client=11"):
        run(replace(TINY, classes_per_client=11))
    with pytest.raises(ValueError, match="'vgg' must be one of"):
        run(replace(TINY, model="vgg"))
    with pytest.raises(FloatingPointError, match="after round"):
        run(replace(TINY, local_rate=1e38, rounds=30))


def test_common_clients_have_the_first_ones_states_and_one_path():
    config = SFLConfig(n_clients=3, common=True, exact_counts=True, capacity=60, batch_size=30)
    stream, alone = (make_stream(c, 10) for c in (config, replace(config, common=False)))
    assert (stream.short_term == alone.short_term[:1]).all()
    counts = stream.sample(50, 30, np.random.default_rng(0), exact=True)
    assert (counts == counts[:, :1]).all()
    assert (counts != alone.sample(50, 30, np.random.default_rng(0), exact=True)).any()
