"""The FATS run against its parts, and the histories without training against enumeration, formulas
and the library's own.
"""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch
from torch import nn

from sflkit.data import federations, load
from sflkit.fats.config import TABLE_2, FATSConfig
from sflkit.fats.first_uses import first_uses
from sflkit.fats.history import draw_history
from sflkit.fats.learning import forget, learn
from sflkit.fats.methods import METHODS
from sflkit.fats.training import choose_requests, run
from sflkit.federated import Task, evaluate
from sflkit.models import create
from sflkit.randomness import generator
from tests.fats.fats_cases import TINY_RUN, federation, sizes


@pytest.mark.parametrize("level", ["sample", "client"])
def test_a_run_is_learning_request_recovery(level):
    config, made = replace(TINY_RUN, level=level), federation()
    frame = run(config, data=made)
    # the same from the parts
    task = Task(create("linear", input_shape=(4,), n_classes=3))
    start = task.init(int(generator(2, "model").integers(2**31)))
    rng = generator(2, "participation")
    history = draw_history(**sizes(2, 2, 5, m=6, n=8, b=3), rng=rng)
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
    n = after.recomputed.rounds
    assert n > 0 and recovery["round"].tolist() == list(range(5, 6 + n))
    assert recovery.model_round.tolist() == list(range(5 - n, 6))
    names = ["unlearning_rounds", "unlearning_steps", "unlearning_bytes"]
    last = frame.iloc[-1]
    assert last[names].tolist() == [n, 2 * n, 2 * n * 2 * 4 * task.n_params]
    assert (last.scratch_steps, last.forgotten) == (10, 2) and last.unlearning_seconds > 0
    found = dict(name="made", digest="", size=48, note="", test_size=50)
    assert frame.attrs["data"] == found


def test_methods_share_model_and_requests_and_differ_in_recovery():
    frames = {m: run(replace(TINY_RUN, method=m), data=federation()) for m in METHODS}
    frs, fr2 = frames["frs"], frames["fr2"]
    assert frs[:5].equals(fr2[:5]) and not np.allclose(frs.loss[6:], fr2.loss[6:])
    for frame in frs, fr2:  # from the start again
        assert frame.model_round.tolist() == [1, 2, 3, 4, 5, 0, 1, 2, 3, 4, 5]
        assert frame.unlearning_steps.iloc[-1] == frame.scratch_steps.iloc[-1] == 10
    assert frs.loss[5] == fr2.loss[5]
    asked = [choose_requests(replace(TINY_RUN, method=m), federation().sizes) for m in METHODS]
    assert asked[0] == asked[1] == asked[2]


@pytest.mark.parametrize("interval", [0, 2])
def test_streams_of_requests(interval):
    config = replace(
        TINY_RUN, method="frs", level="client", n_requests=3, streaming=True, interval=interval
    )
    frame = run(config, data=federation())
    if interval == 0:  # each request falls back to the start and is served whole
        assert frame.model_round.tolist() == [1, 2, 3, 4, 5] + 3 * [0, 1, 2, 3, 4, 5]
        assert frame.unlearning_steps.iloc[-1] == 30
    else:  # two rounds of recovery, then the next request, which sends it back again
        assert frame.model_round.tolist() == [1, 2, 3, 4, 5, 0, 1, 2, 0, 1, 2, 0, 1, 2, 3, 4, 5]
        assert frame.unlearning_steps.iloc[-1] == 18
    assert frame.scratch_steps.iloc[-1] == 30
    assert frame.requests.iloc[-1] == frame.forgotten.iloc[-1] == 3


def test_a_request_that_hits_nothing_changes_nothing():
    made, config = federation(n_clients=40), replace(TINY_RUN, n_clients=40, n_requests=1, rounds=2)
    frame = run(config, data=made)
    k, s = choose_requests(config, made.sizes)[0]
    drawn = draw_history(**sizes(2, 2, 2, m=40, n=8, b=3), rng=generator(2, "participation"))
    assert drawn.first_use(k, s) is None  # by this seed
    assert frame.phase.tolist() == ["learning", "learning", "recovery"]
    assert frame.unlearning_steps.iloc[-1] == 0
    assert frame[["accuracy", "loss"]].iloc[-1].equals(frame[["accuracy", "loss"]].iloc[-2])


def test_evaluations_can_be_rarer_and_the_request_earlier():
    early = replace(TINY_RUN, level="client", request_round=4)
    full = run(early, data=federation())
    rare = run(replace(early, evaluate_every=3), data=federation())
    assert rare.model_round.iloc[-1] == 4 and rare.model_round[:2].tolist() == [3, 4]
    columns = [c for c in full if c != "unlearning_seconds"]
    kept = full.merge(rare[["phase", "round"]])
    assert kept[columns].equals(rare[columns]) and full["scratch_steps"].iloc[-1] == 8


def test_learning_goes_on_while_requests_come():
    config = replace(TINY_RUN, rounds=12, request_round=4, level="client", method="frs")
    stream = replace(config, streaming=True, interval=4, n_requests=3)
    frame = run(stream, data=federation())
    learnt, made = frame[frame["phase"] == "learning"], frame[frame["phase"] == "recovery"]
    assert learnt["model_round"].tolist() == [1, 2, 3, 4]
    # FRS begins anew at each request: 4 rounds until the next one comes, all 12 after the last.
    by_request = made.groupby("requests")["model_round"].agg(["min", "max"])
    assert by_request.to_numpy().tolist() == [[0, 4], [0, 4], [0, 12]]
    kept = run(replace(stream, method="fats"), data=federation())
    kept = kept[kept["phase"] == "recovery"].groupby("requests")["model_round"].agg(["min", "max"])
    assert kept["max"].iloc[-1] == 12
    assert (kept["max"] == np.minimum(kept["min"] + 4, 12)).iloc[:-1].all()
    # Two clients a request: four leave at two requests.
    pairs = run(replace(stream, n_requests=4, per_request=2), data=federation())
    assert pairs.groupby("requests")["forgotten"].max().tolist() == [0, 2, 4]
    # Without an interval the rounds after the request are left out.
    assert run(config, data=federation())["model_round"].max() == 4


def test_runs_on_data_that_come_with_the_install():
    longer = dict(rounds=30, clients_per_round=4, local_steps=5, batch_size=10)
    frame = run(replace(TINY_RUN, level="client", **longer))
    assert frame.accuracy[29] > 0.8 and frame.accuracy.iloc[-1] > 0.8  # ten digits: chance is 0.1
    assert frame.attrs["data"]["name"] == "digits" and len(frame.attrs["data"]["digest"]) == 64


def test_without_training_by_hand():
    asked = dict(n_requests=3, runs=50)
    config = FATSConfig(train=False, samples_per_client=200, seed=4, request_round=20, **asked)
    config = replace(config, checkpoint_every=7)

    def first(**how):
        rng = generator(4, "monte_carlo")
        return first_uses(**asked, **how, rng=rng, **TABLE_2["mnist"])

    frame = run(config)
    for row, (t,) in zip(frame.itertuples(), first(level="sample")):
        assert (row.hits, row.steps) == ((1, 200 - t) if t < 200 else (0, 0))
        assert row.replayed_steps == ((20 - t // 10 // 7 * 7) * 10 if t < 200 else 0)
    assert 0 < frame.hits.sum() < 50
    assert (frame.scratch_steps == 200).all()
    assert (frame.replayed_steps >= frame.steps).all()
    stream = run(replace(config, streaming=True, request_round=None, level="client"))
    steps = first(level="client", streaming=True)
    assert (stream.steps == (300 - steps).sum(axis=1)).all()
    assert (stream.hits == (steps < 300).sum(axis=1)).all()
    assert (stream.scratch_steps == 900).all()
    for method in "frs", "fr2":
        frame = run(replace(config, method=method, streaming=True))
        assert (frame[["steps", "scratch_steps"]] == 600).all(axis=None) and len(frame) == 50


def test_requests_are_those_that_can_be_served():
    # clients with 3, 4 and 5 samples and b = 3 can forget 0, 1 and 2 of them: 3 in all
    sizes, seen = np.array([3, 4, 5]), set()
    for seed in range(60):
        chosen = choose_requests(replace(TINY_RUN, seed=seed, n_requests=3), sizes)
        assert sorted(k for k, s in chosen) == [1, 2, 2] and len(set(chosen)) == 3
        seen |= set(chosen)
    assert seen == {(k, s) for k in (1, 2) for s in range(sizes[k])}
    with pytest.raises(ValueError, match="n_requests=4 must be at most 3"):
        choose_requests(replace(TINY_RUN, n_requests=4), sizes)
    with pytest.raises(ValueError, match="n_requests=3 must be below 3"):
        choose_requests(replace(TINY_RUN, n_requests=3, level="client"), sizes)


def test_a_start_of_ones_own():
    start = torch.zeros(15)
    frame = run(replace(TINY_RUN, method="frs"), data=federation(), start=start)
    assert frame.loss[5] == pytest.approx(np.log(3))  # all scores equal


def test_runs_that_share_their_learning_equal_runs_that_learn_alone():
    # `federation` is given to the runs that learn alone; the others share by config.
    config = replace(TINY_RUN, seed=0, n_clients=20, rounds=4, rate=0.05)
    made = federations.static("digits", n_clients=20, seed=0, min_samples=100)
    for method in METHODS:
        for changes in ({"level": "client"}, {"streaming": True, "interval": 2}):
            case = replace(config, method=method, **changes)
            shared, alone = run(case), run(case, data=made)
            seconds = ["unlearning_seconds"]
            assert shared.drop(columns=seconds).equals(alone.drop(columns=seconds))


def test_own_arrays_are_dealt_as_the_config_says():
    digits = load("digits")
    parts = digits.inputs("train"), digits.y_train, digits.inputs("test"), digits.y_test
    config = replace(TINY_RUN, data="digits", n_clients=4, samples_per_client=10)
    own, named = (
        run(c, **g) for c, g in ((replace(config, data="mnist"), {"data": parts}), (config, {}))
    )
    columns = named.columns.drop("unlearning_seconds")
    pd.testing.assert_frame_equal(own[columns], named[columns], check_exact=True)


class Net(nn.Sequential):
    """A linear model, made from what an experiment hands to a class."""

    def __init__(self, input_shape, n_classes):
        super().__init__(nn.Flatten(), nn.Linear(int(np.prod(input_shape)), n_classes))


def net(input_shape, n_classes):
    return create("linear", input_shape=input_shape, n_classes=n_classes)


@pytest.mark.parametrize("own", [Net, net, net((4,), 3)], ids=["class", "function", "network"])
def test_networks_of_ones_own(own):
    frame, named = (run(TINY_RUN, data=federation(), model=model) for model in (own, None))
    shown = [name for name in frame if name != "unlearning_seconds"]
    assert frame[shown].equals(named[shown])


def test_what_is_no_network_is_refused():
    batch_norm = nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3))
    own = r"model='cnn' must be a torch\.nn\.Module, or a class or function"
    for model, message in ("cnn", own), (batch_norm, "the model has buffers"):
        with pytest.raises(ValueError, match=message):
            run(TINY_RUN, data=federation(), model=model)
