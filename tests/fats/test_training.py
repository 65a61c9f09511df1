"""The FATS run against its parts, and the histories without training against enumeration, formulas
and the library's own.
"""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
import torch

from sflkit.data.federations import Federation
from sflkit.fats.config import TABLE_2, FATSConfig
from sflkit.fats.enumeration import outcomes
from sflkit.fats.first_uses import first_uses
from sflkit.fats.forgetting import forget_client, forget_sample, forget_stream
from sflkit.fats.history import draw_history
from sflkit.fats.methods import METHODS
from sflkit.fats.training import choose_requests, run
from sflkit.fats.unlearning import forget, learn
from sflkit.federated import Task, evaluate
from sflkit.models import create
from sflkit.randomness import generator

TINY = FATSConfig(
    data="digits",
    model="linear",
    seed=2,
    n_requests=2,
    n_clients=6,
    clients_per_round=2,
    batch_size=3,
    local_steps=2,
    rounds=5,
    rate=0.1,
    test_size=50,
)
LAW = dict(
    n_clients=2, samples_per_client=3, clients_per_round=1, batch_size=1, local_steps=1, rounds=2
)


def federation(seed=0, n_clients=6, each=8):
    rng = np.random.default_rng(seed)
    n, n_test = n_clients * each, 80
    x = rng.standard_normal((n + n_test, 4)).astype(np.float32)
    y = (x[:, 0] > 0).astype(np.int64) + (x[:, 1] > 0)
    return Federation(
        "made",
        x[:n],
        y[:n],
        tuple(np.arange(n).reshape(n_clients, each)),
        x[n:],
        y[n:],
        np.full(n_test, 1 / n_test),
        3,
        np.ones(n_clients, dtype=bool),
    )


def law(run_):
    """Probabilities of the outcomes of run_(rng), as fractions."""
    found = {}
    for outcome, p in outcomes(run_):
        found[outcome] = found.get(outcome, Fraction(0)) + p
    return found


@pytest.mark.parametrize(
    "targets, sizes",
    [
        ([(0, 0)], LAW),
        (
            [(0, 0), (0, 1), (1, 1)],
            LAW,
        ),  # two samples of one client: the second sees what is left of the first's mini-batches
        ([(0, 1), (0, 0)], LAW | {"clients_per_round": 2, "rounds": 1, "local_steps": 2}),
        ([(0, 1), (1, 0)], LAW | {"samples_per_client": np.array([3, 2]), "local_steps": 2}),
        ([(0, 1), (0, 0)], LAW | {"samples_per_client": 4, "batch_size": 2, "rounds": 1}),
        ([(0, 1)], LAW | {"n_clients": 1, "batch_size": 2}),
        ([(0, 2), (0, 0), (0, 3)], LAW | {"n_clients": 1, "samples_per_client": 4}),
    ],
)
@pytest.mark.parametrize("streaming", [False, True])
def test_the_law_of_first_uses_of_samples_to_the_fraction(targets, sizes, streaming):
    steps, total = sizes["local_steps"], sizes["local_steps"] * sizes["rounds"]

    def library(rng):
        history = draw_history(**sizes, rng=rng)
        if not streaming:
            first = forget_sample(history, *(list(part) for part in zip(*targets)), rng).first
            return (total if first is None else first[0] * steps + first[1],)
        firsts = forget_stream(history, targets, rng).first
        return tuple(total if first is None else first[0] * steps + first[1] for first in firsts)

    def ours(rng):
        return tuple(
            first_uses(
                level="sample",
                n_requests=len(targets),
                streaming=streaming,
                runs=1,
                targets=[targets],
                rng=rng,
                **sizes,
            )[0].tolist()
        )

    expected = law(library)
    assert law(ours) == expected and len(expected) > 1 and sum(expected.values()) == 1


@pytest.mark.parametrize(
    "targets, n_clients, k", [([1], 3, 2), ([0, 1], 3, 2), ([2, 0], 3, 2), ([2, 0, 3], 4, 1)]
)
@pytest.mark.parametrize("streaming", [False, True])
def test_the_law_of_first_uses_of_clients_to_the_fraction(targets, n_clients, k, streaming):
    sizes = LAW | {"n_clients": n_clients, "clients_per_round": k, "samples_per_client": 1}

    def library(rng):
        history = draw_history(**sizes, rng=rng)
        if not streaming:
            first = forget_client(history, targets, rng).first
            return (2 if first is None else first,)
        return tuple(
            2 if first is None else first
            for first in forget_stream(history, [(k, None) for k in targets], rng).first
        )

    def ours(rng):
        return tuple(
            first_uses(
                level="client",
                n_requests=len(targets),
                streaming=streaming,
                runs=1,
                targets=[targets],
                rng=rng,
                **sizes,
            )[0].tolist()
        )

    assert law(ours) == law(library)


def test_expected_unlearning_time_at_mnist_size():
    # A slot spares a client with q = 1 - 1/M, and the first e steps of it spare a sample with q +
    # (1 - b/N)^e / M; slots are independent, so P(first use >= r E + e) is a product, and E[T -
    # first] = T - sum over t = 1..T of P(first >= t).
    sizes, runs = TABLE_2["mnist"], 20000
    m, n, k, b, e, r = 300, 200, 5, 10, 10, 30
    t = np.arange(1, r * e + 1)
    spared = 1 - 1 / m + (1 - b / n) ** np.arange(e + 1) / m
    reach_sample = spared[e] ** (k * (t // e)) * spared[t % e] ** k
    reach_client = (1 - 1 / m) ** (k * ((t + e - 1) // e))
    for level, reach in ("sample", reach_sample), ("client", reach_client):
        rng = np.random.default_rng(1)
        time = r * e - first_uses(level=level, n_requests=1, runs=runs, rng=rng, **sizes)[:, 0]
        assert abs(time.mean() - (r * e - reach.sum())) < 4 * time.std() / np.sqrt(runs)
        # one request after another: exactness makes each the first one again, on a crowd smaller by
        # at most w of 60000 samples or 300 clients; chunks of histories are as good as all at once
        if level == "sample":
            times = r * e - first_uses(
                level=level, n_requests=3, streaming=True, runs=runs, rng=rng, **sizes
            )
            assert (
                np.abs(times.mean(axis=0) - (r * e - reach.sum())).max()
                < 4 * time.std() / np.sqrt(runs) + 0.5
            )


def test_random_targets_are_different_and_uniform():
    # without hits nothing is drawn but targets and clients: with as many requests as samples less
    # one, one is spared
    sizes = dict(
        n_clients=2,
        samples_per_client=3,
        clients_per_round=1,
        batch_size=1,
        local_steps=1,
        rounds=1,
    )
    first = first_uses(
        level="client", n_requests=1, runs=6000, rng=np.random.default_rng(0), **sizes
    )
    assert abs((first == 0).mean() - 0.5) < 4 * np.sqrt(
        0.25 / 6000
    )  # the one client drawn is the target with 1/2
    first = first_uses(
        level="sample", n_requests=1, runs=6000, rng=np.random.default_rng(0), **sizes
    )
    assert abs((first == 0).mean() - 1 / 6) < 4 * np.sqrt(5 / 36 / 6000)
    same = dict(level="client", n_requests=5, runs=7, streaming=True, **TABLE_2["fmnist"])
    a, b = (first_uses(rng=np.random.default_rng(3), **same) for _ in range(2))
    assert np.array_equal(a, b) and a.shape == (7, 5) and a.max() <= 500


@pytest.mark.parametrize(
    "change, message",
    [
        (dict(level="round"), "level='round'"),
        (dict(n_requests=6), "n_requests=6"),
        (dict(runs=0), "runs=0"),
        (dict(level="client", n_requests=2), "n_requests=2"),
        (dict(samples_per_client=[3, 2, 1]), "samples_per_client"),
        (dict(batch_size=4), "samples_per_client"),
        (dict(targets=[[(0, 3)]]), "samples that these have"),
        (dict(targets=[[(0, 0), (0, 0)]], n_requests=2), "twice"),
        (dict(targets=[[(0, 0), (0, 1), (0, 2)]], n_requests=3), "client 0"),
        (dict(targets=[0]), "targets has shape"),
        (dict(streaming=1), "streaming=1"),
        (dict(rng=0), "rng=0"),
    ],
)
def test_bad_values_of_first_uses(change, message):
    with pytest.raises(ValueError, match=message):
        first_uses(
            **LAW
            | dict(level="sample", n_requests=1, runs=1, rng=np.random.default_rng(0))
            | change
        )


@pytest.mark.parametrize("level", ["sample", "client"])
def test_a_run_is_learning_request_recovery(level):
    config, made = replace(TINY, level=level), federation()
    frame = run(config, federation=made)
    # the same from the parts
    task = Task(create("linear", input_shape=(4,), n_classes=3))
    start = task.init(int(generator(2, "model").integers(2**31)))
    rng = generator(2, "participation")
    history = draw_history(
        n_clients=6,
        samples_per_client=8,
        clients_per_round=2,
        batch_size=3,
        local_steps=2,
        rounds=5,
        rng=rng,
    )
    clients = [(made.x[ids], made.y[ids]) for ids in made.clients]
    chosen = generator(2, "test_set").permutation(80)[:50]
    x, y = made.x_test[chosen].copy(), made.y_test[chosen].copy()
    before = learn(task, clients, history, 0.1, start=start)
    after = forget(task, clients, before, choose_requests(config, made.sizes), rng)
    learning, recovery = frame[frame.phase == "learning"], frame[frame.phase == "recovery"]
    assert learning["round"].tolist() == learning.model_round.tolist() == [1, 2, 3, 4, 5]
    for rows, state in (learning, before), (recovery, after):
        for model_round, loss, accuracy in zip(rows.model_round, rows.loss, rows.accuracy):
            assert evaluate(task, state.models[model_round], x, y) == (loss, accuracy)
    n = after.ledger.recomputed.rounds
    assert n > 0 and recovery["round"].tolist() == list(range(5, 6 + n))
    assert recovery.model_round.tolist() == list(range(5 - n, 6))
    last = frame.iloc[-1]
    assert (last.unlearning_rounds, last.unlearning_steps, last.scratch_steps, last.forgotten) == (
        n,
        2 * n,
        10,
        2,
    )
    assert last.unlearning_bytes == 2 * n * 2 * 4 * task.n_params and last.unlearning_seconds > 0
    assert frame.attrs["data"] == {
        "name": "made",
        "digest": "",
        "size": 48,
        "note": "",
        "test_size": 50,
    }


def test_methods_share_model_and_requests_and_differ_in_recovery():
    frames = {m: run(replace(TINY, method=m), federation=federation()) for m in METHODS}
    frs, fr2 = frames["frs"], frames["fr2"]
    assert frs[:5].equals(fr2[:5]) and not np.allclose(frs.loss[6:], fr2.loss[6:])
    for frame in frs, fr2:  # from the start again
        assert frame.model_round.tolist() == [1, 2, 3, 4, 5, 0, 1, 2, 3, 4, 5]
        assert frame.unlearning_steps.iloc[-1] == frame.scratch_steps.iloc[-1] == 10
    assert frs.loss[5] == fr2.loss[5]
    assert (
        len({choose_requests(replace(TINY, method=m), federation().sizes)[0] for m in METHODS}) == 1
    )


@pytest.mark.parametrize("interval", [0, 2])
def test_streams_of_requests(interval):
    config = replace(
        TINY, method="frs", level="client", n_requests=3, streaming=True, interval=interval
    )
    frame = run(config, federation=federation())
    if interval == 0:  # each request falls back to the start and is served whole
        assert frame.model_round.tolist() == [1, 2, 3, 4, 5] + 3 * [0, 1, 2, 3, 4, 5]
        assert frame.unlearning_steps.iloc[-1] == 30
    else:  # two rounds of recovery, then the next request, which sends it back again
        assert frame.model_round.tolist() == [1, 2, 3, 4, 5, 0, 1, 2, 0, 1, 2, 0, 1, 2, 3, 4, 5]
        assert frame.unlearning_steps.iloc[-1] == 18
    assert (
        frame.scratch_steps.iloc[-1] == 30
        and frame.requests.iloc[-1] == frame.forgotten.iloc[-1] == 3
    )


def test_a_request_that_hits_nothing_changes_nothing():
    made, config = federation(n_clients=40), replace(TINY, n_clients=40, n_requests=1, rounds=2)
    frame = run(config, federation=made)
    k, s = choose_requests(config, made.sizes)[0]
    history = draw_history(
        n_clients=40,
        samples_per_client=8,
        clients_per_round=2,
        batch_size=3,
        local_steps=2,
        rounds=2,
        rng=generator(2, "participation"),
    )
    assert history.first_use(k, s) is None  # by this seed
    assert (
        frame.phase.tolist() == ["learning", "learning", "recovery"]
        and frame.unlearning_steps.iloc[-1] == 0
    )
    assert (
        frame.accuracy.iloc[-1] == frame.accuracy.iloc[-2]
        and frame.loss.iloc[-1] == frame.loss.iloc[-2]
    )


def test_evaluations_can_be_rarer_and_the_request_earlier():
    full = run(replace(TINY, level="client", request_round=4), federation=federation())
    rare = run(
        replace(TINY, level="client", request_round=4, evaluate_every=3), federation=federation()
    )
    assert rare.model_round.iloc[-1] == 4 and rare.model_round[:2].tolist() == [3, 4]
    columns = [c for c in full if c != "unlearning_seconds"]
    kept = full.merge(rare[["phase", "round"]])
    assert kept[columns].equals(rare[columns]) and full["scratch_steps"].iloc[-1] == 8


def test_runs_on_data_that_come_with_the_install():
    frame = run(
        replace(TINY, rounds=30, level="client", clients_per_round=4, local_steps=5, batch_size=10)
    )
    assert frame.accuracy[29] > 0.8 and frame.accuracy.iloc[-1] > 0.8  # ten digits: chance is 0.1
    assert frame.attrs["data"]["name"] == "digits" and len(frame.attrs["data"]["digest"]) == 64


def test_without_training_by_hand():
    config = FATSConfig(
        train=False,
        samples_per_client=200,
        n_requests=3,
        runs=50,
        seed=4,
        request_round=20,
        checkpoint_every=7,
    )
    first = first_uses(
        level="sample", n_requests=3, runs=50, rng=generator(4, "monte_carlo"), **TABLE_2["mnist"]
    )
    frame = run(config)
    for row, (t,) in zip(frame.itertuples(), first):
        assert (row.hits, row.steps) == ((1, 200 - t) if t < 200 else (0, 0))
        assert row.replayed_steps == ((20 - t // 10 // 7 * 7) * 10 if t < 200 else 0)
    assert (
        0 < frame.hits.sum() < 50
        and (frame.scratch_steps == 200).all()
        and (frame.replayed_steps >= frame.steps).all()
    )
    stream = run(replace(config, streaming=True, request_round=None, level="client"))
    first = first_uses(
        level="client",
        n_requests=3,
        streaming=True,
        runs=50,
        rng=generator(4, "monte_carlo"),
        **TABLE_2["mnist"],
    )
    assert (stream.steps == (300 - first).sum(axis=1)).all() and (
        stream.hits == (first < 300).sum(axis=1)
    ).all()
    assert (stream.scratch_steps == 900).all()
    for method in "frs", "fr2":
        frame = run(replace(config, method=method, streaming=True))
        assert (
            (frame.steps == 600).all() and (frame.scratch_steps == 600).all() and len(frame) == 50
        )


def test_requests_are_those_that_can_be_served():
    # clients with 3, 4 and 5 samples and b = 3 can forget 0, 1 and 2 of them: 3 in all
    sizes, seen = np.array([3, 4, 5]), set()
    for seed in range(60):
        chosen = choose_requests(replace(TINY, seed=seed, n_requests=3), sizes)
        assert sorted(k for k, s in chosen) == [1, 2, 2] and len(set(chosen)) == 3
        seen |= set(chosen)
    assert seen == {(k, s) for k in (1, 2) for s in range(sizes[k])}
    with pytest.raises(ValueError, match="n_requests=4 must be at most 3"):
        choose_requests(replace(TINY, n_requests=4), sizes)
    with pytest.raises(ValueError, match="n_requests=3 must be below 3"):
        choose_requests(replace(TINY, n_requests=3, level="client"), sizes)


@pytest.mark.parametrize(
    "change, message",
    [
        (dict(method="sgd"), "method='sgd'"),
        (dict(level="round"), "level='round'"),
        (dict(rule="best"), "rule='best'"),
        (dict(data="logistic"), "data='logistic'"),
        (dict(n_requests=0), "n_requests=0"),
        (dict(seed=-1), "seed=-1"),
        (dict(rounds=2.5), "rounds=2.5"),
        (dict(request_round=6), "request_round=6"),
        (dict(rate=0.0), "rate=0.0"),
        (dict(interval=2), "interval=2"),
        (dict(train=1), "train=1"),
        (dict(samples_per_client=2), "samples_per_client=2"),
        (dict(train=False), "samples_per_client=None"),
        (dict(train=False, n_clients=None, level="client"), "n_clients=None"),
        (
            dict(train=False, method="frs", clients_per_round=7, level="client"),
            "clients_per_round=7",
        ),
        (dict(fisher_momentum=1.0), "fisher_momentum=1.0"),
        (dict(n_samples=0), "n_samples=0"),
    ],
)
def test_bad_values(change, message):
    with pytest.raises(ValueError, match=message):
        replace(TINY, **change)


def test_equal_configs_are_equal():
    assert replace(TINY, rounds=5.0, samples_per_client=None) == TINY and isinstance(
        replace(TINY, rounds=5.0).rounds, int
    )


def test_a_start_of_ones_own():
    start = torch.zeros(15)
    frame = run(replace(TINY, method="frs"), federation=federation(), start=start)
    assert frame.loss[5] == pytest.approx(np.log(3))  # all scores equal
