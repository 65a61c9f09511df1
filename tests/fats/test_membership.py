"""Membership before and after forgetting: a federation on which the right answers are known
exactly, and the parts by hand.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from sflkit.data.federations import Federation
from sflkit.fats import attacks, membership
from sflkit.fats.config import MembershipConfig
from sflkit.fats.history import draw_history
from sflkit.fats.learning import forget, learn, request, resume
from sflkit.fats.membership import build, run, shadow_attack, split
from sflkit.fats.methods import METHODS, draw_fedavg
from sflkit.federated import Task
from sflkit.models import create
from sflkit.randomness import generator
from sflkit.runs import sweep

# clients of 9 samples: 6 trained on, of which 2 are forgotten, and 3 unseen
TINY = MembershipConfig(
    data="digits",
    model="linear",
    n_clients=4,
    samples_per_client=9,
    clients_per_round=2,
    batch_size=3,
    local_steps=2,
    rounds=4,
    rate=0.1,
    n_shadows=1,
    repeats=5,
    levels=("sample", "client"),
    forget_share=0.34,
)
BY_HEART = replace(TINY, clients_per_round=3, local_steps=4, rounds=10, rate=0.3)
# calls member what has a probability above exp(-0.05) = 0.95 for its label
SURE = attacks.LossThreshold(0.05)


def federation(n_clients=8, each=9):
    """One input of its own for every sample (row i is 9 at place i), labels 0 and 1 in turn, in
    clients that go by row.
    """
    n = n_clients * each
    x, y = 9 * np.eye(n, dtype=np.float32), np.arange(n) % 2
    clients, everyone = tuple(np.arange(n).reshape(n_clients, each)), np.ones(n_clients, bool)
    return Federation("made", x, y, clients, x[:2], y[:2], np.full(2, 0.5), 2, everyone)


def rows_of(x):
    return set(np.argmax(x, 1).tolist())


@pytest.mark.parametrize("level", ["sample", "client"])
def test_a_split_has_no_row_twice(level):
    made = federation()
    parts = split(TINY, made, level)
    assert [len(ids) for ids in parts.clients] == [6] * 4
    assert all(set(ids) <= set(made.clients[k]) for k, ids in enumerate(parts.clients))
    groups = parts.forgotten, parts.kept, parts.unseen
    rows = np.concatenate(groups)
    assert len(set(rows.tolist())) == len(rows) and rows.max() < 4 * 9  # the pool: clients 4 to 7
    assert set(np.concatenate(groups[:2])) == set(np.concatenate(parts.clients))
    if level == "sample":  # a third of 6 at each of 4 clients, and all that was kept aside
        assert parts.requests == [(k, i) for k in range(4) for i in range(2)]
        assert len(parts.unseen) == 4 * 3
        assert parts.forgotten.tolist() == [parts.clients[k][i] for k, i in parts.requests]
    else:  # a third of 4 clients is one
        ((k, sample),) = parts.requests
        assert sample is None and parts.forgotten.tolist() == parts.clients[k].tolist()
        assert set(parts.unseen) == set(made.clients[k]) - set(parts.clients[k])


def test_splits_are_random_and_the_same_for_both_levels():
    made = federation()
    samples, clients = (
        [split(replace(TINY, seed=seed), made, level) for seed in range(40)]
        for level in ("sample", "client")
    )
    assert set(np.concatenate([parts.forgotten for parts in samples])) == set(range(36))
    assert {parts.requests[0] for parts in clients} == {(k, None) for k in range(4)}
    assert np.array_equal(np.stack(clients[0].clients), np.stack(samples[0].clients))


def test_a_mini_batch_is_left():
    parts = split(replace(TINY, forget_share=0.9), federation(), "sample")
    # 0.9 * 6 = 5, but b = 3 must stay
    assert len(parts.forgotten) == 4 * 3 and len(parts.kept) == 4 * 3


def test_members_are_certain_before_and_gone_after(monkeypatch):
    """Every sample has an input of its own, so its column of the weights moves only if it is
    trained on.

    Learnt by heart, a trained sample has a loss near 0. One never used has nearly the first model's
    (the common bias moves too): weights and biases in +-1/sqrt(72) give logits at most 20/sqrt(72)
    = 2.36 apart, a probability of 0.91 and a loss of 0.09. So the attack is right about every
    sample before; afterwards it calls nobody a member, accuracy and precision are 1/2."""
    monkeypatch.setattr(membership, "shadow_attack", lambda *given: SURE)
    for mirror in (False, True):
        frame = run(replace(BY_HEART, mirror=mirror), data=federation())
        frame = frame[frame.attack == "shadow"].set_index(["level", "state"])
        # 8 forgotten and 12 unseen samples; 6 and 3 of a client, of whom 3 make pairs
        for level, n in ("sample", 8), ("client", 3):
            before = frame.loc[level, "before"]
            assert (before.accuracy, before.precision, before.silent, before.fit) == (1, 1, 0, 1)
            assert (before.whole_accuracy, before.whole_precision, before.pairs) == (1, 1, n)
            assert before.n == n
            for method in METHODS:
                after = frame.loc[level, method]
                assert (after.accuracy, after.precision, after.silent) == (0.5, 0.5, 1), method
                assert (after.whole_accuracy, after.whole_precision) == (0.5, 0.5)
                assert method == "fr2" or after.fit == 1  # its scaled steps are too small here


def test_the_attacker_has_other_peoples_samples(monkeypatch):
    made, seen = federation(), []

    def watched(train_shadow, pool_x, pool_y, **options):
        seen.append((rows_of(pool_x), options["n_train"]))
        return SURE

    monkeypatch.setattr(attacks, "shadow_attack", watched)
    shadow_attack(TINY, build(TINY, made))
    parts = split(TINY, made, "sample")
    ((pool, n_train),) = seen
    assert pool == set(range(36, 72)) and n_train == 24  # as many as the target trains on
    assert not pool & set(np.concatenate([parts.forgotten, parts.kept, parts.unseen]).tolist())


def test_a_run_from_its_parts(monkeypatch):
    made = federation()
    monkeypatch.setattr(membership, "shadow_attack", lambda *given: SURE)
    frame = run(TINY, data=made).set_index(["level", "state", "attack"])
    task = Task(create("linear", input_shape=(72,), n_classes=2))
    sizes = TINY.sizes | {"n_clients": 4, "samples_per_client": 6}
    parts, start = split(TINY, made, "client"), task.init(0)
    clients = [(made.x[i], made.y[i]) for i in parts.clients]
    rng, again = generator(0, "participation"), generator(0, "participation", 1)
    before = learn(task, clients, draw_history(rng=rng, **sizes), 0.1, start=start)
    fedavg = draw_fedavg(rng=again, **sizes)
    state = learn(task, clients, fedavg, 0.1, start=start, method="fr2", rounds=1)
    states = {
        "before": before,
        "fats": forget(task, clients, before, parts.requests, rng),
        "fr2": resume(task, clients, request(state, parts.requests, again), until=4),
    }
    groups = [(made.x[rows], made.y[rows]) for rows in (parts.forgotten, parts.unseen)]
    for name, state in states.items():
        predict = attacks.predictor(task, state.params)
        draws = dict(repeats=5, rng=generator(0, "bootstrap"))
        found = attacks.evaluate_attack(SURE, predict, *groups, **draws)
        row = frame.loc["client", name, "shadow"]
        shown = (found.accuracy, found.precision_std, found.silent, 3)
        assert (row.accuracy, row.precision_std, row.silent, row.n) == shown
        trained = np.concatenate([parts.kept, parts.forgotten]) if name == "before" else parts.kept
        assert row.fit == (predict(made.x[trained]).argmax(1) == made.y[trained]).mean()
        assert row.test == (predict(groups[1][0]).argmax(1) == groups[1][1]).mean()
        simple = attacks.LossThreshold(
            attacks.losses(predict(made.x[trained]), made.y[trained]).mean()
        )
        called = [(simple.score(predict(x), y) > 0.5).mean() for x, y in groups]
        if name == "before":  # a mean over resampled sets is near the figure of all samples
            found = frame.loc["client", name, "loss"].accuracy
            assert abs(found - (1 + called[0] - called[1]) / 2) < 0.35


def test_rows_depend_on_the_seed_and_on_nothing_beside():
    # one client a round, who learns what he draws at once: the shares of right answers tell the
    # draws
    made, config = federation(each=30), replace(TINY, rate=0.3, rounds=10, clients_per_round=1)
    shown = ["accuracy", "fit", "test"]
    full = run(config, data=made)
    assert run(config, data=made).equals(full)
    assert not run(replace(config, seed=1), data=made)[shown].equals(full[shown])
    full = full.set_index(["level", "state", "attack"])
    for methods, level in (("fr2",), "client"), (("fats",), "client"), (("frs", "fats"), "sample"):
        part = run(replace(config, methods=methods, levels=(level,)), data=made)
        part = part.set_index(full.index.names)
        assert len(part) == 2 * (1 + len(methods)) and part.equals(full.loc[part.index])


def test_false_labels_are_the_populations():
    made, config = federation(100, 40), replace(TINY, noise=0.5)
    noisy = build(config, made)
    # half of the labels are drawn anew from two classes: a quarter is wrong
    assert abs((noisy.y != made.y).mean() - 0.25) < 4 * np.sqrt(0.25 * 0.75 / 4000)
    assert np.array_equal(build(replace(config, seed=5), made).y, noisy.y)
    assert not np.array_equal(build(replace(config, population_seed=5), made).y, noisy.y)
    assert np.array_equal(build(TINY, made).y, made.y)


def test_a_sweep_trains_the_shadows_once(tmp_path, monkeypatch):
    trained, real = [], membership.shadow_attack
    configs = [replace(TINY, seed=seed, methods=("fats",), levels=("sample",)) for seed in range(3)]
    # the shared attack is the one that the config alone gives
    alone = run(configs[2], data=build(configs[2]))

    def watched(config, made):
        trained.append(config)
        return real(config, made)

    monkeypatch.setattr(membership, "shadow_attack", watched)
    membership._shared.cache_clear()
    frame = sweep.run_many(run, configs, store=tmp_path, jobs=2, progress=False)
    assert len(trained) == 1 and frame.attrs["computed"] == 3 and len(frame) == 3 * 2 * 2
    stored = frame[frame.seed == 2][list(alone)].reset_index(drop=True)
    pd.testing.assert_frame_equal(
        stored, alone, rtol=1e-6, atol=0, check_dtype=False
    )  # results are stored to 7 digits
    assert sweep.run_many(run, configs, store=tmp_path, progress=False).attrs["reused"] == 3
    run(replace(configs[0], repeats=7, forget_share=0.5))
    assert len(trained) == 1
    run(replace(configs[0], population_seed=1))
    assert len(trained) == 2


@pytest.mark.parametrize(
    "level, change, message",
    [
        ("sample", dict(forget_share=0.1), "6 trained samples"),
        ("sample", dict(batch_size=6), "batch_size=6"),
        ("client", dict(clients_per_round=4), "clients_per_round=4"),
        ("client", dict(forget_share=0.8), "leaves 1 of 4"),
        ("round", {}, "level='round'"),
    ],
)
def test_bad_splits(level, change, message):
    with pytest.raises(ValueError, match=message):
        split(replace(TINY, **change), federation(), level)


@pytest.mark.parametrize("level", ["sample", "client"])
def test_a_mirrored_split_swaps_forgotten_and_unseen(level):
    made = federation()
    plain, mirror = (split(replace(TINY, mirror=m), made, level) for m in (False, True))
    assert plain.members.tolist() == mirror.others.tolist()
    assert plain.others.tolist() == mirror.members.tolist()
    assert plain.requests == mirror.requests and len(plain.members) == len(plain.others)
    for parts in plain, mirror:
        assert set(parts.members) <= set(parts.forgotten) and set(parts.others) <= set(parts.unseen)
        assert sorted(parts.members // 9) == sorted(parts.others // 9)  # of the same clients


def test_a_network_of_ones_own_is_attacked():
    def net(input_shape, n_classes):
        return create("linear", input_shape=input_shape, n_classes=n_classes)

    named = run(TINY, data=federation())
    assert run(replace(TINY, model="mlp"), data=federation(), model=net).equals(named)
