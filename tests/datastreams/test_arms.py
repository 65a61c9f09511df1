"""The training of arms: batches, projection, servers and weights of one's own."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch

from sflkit import federated
from sflkit.datastreams import arms as arms_module
from sflkit.datastreams.arms import Arms, mini_batches
from sflkit.datastreams.arrivals import mean_memory, memories
from sflkit.datastreams.strategies import client_importance
from sflkit.datastreams.training import run
from sflkit.federated import servers
from tests.datastreams.helpers import (
    CONFIG,
    HAND,
    Zero,
    federation,
    loss,
    random_federation,
)


def test_clients_without_weight_are_left_out(monkeypatch):
    fed = random_federation([5, 3, 7, 11], 2)
    config = replace(CONFIG, arms=("fresh", "historical", "uniform"), rates=(0.1,) * 3, rounds=1)
    calls, train = [], federated.local_sgd
    monkeypatch.setattr(
        federated, "local_sgd", lambda *a, **k: calls.append(len(k["rows"])) or train(*a, **k)
    )
    run(config, data=fed)
    monkeypatch.setattr(
        arms_module, "STACKED_NUMBERS", 100
    )  # 4 clients of 12 parameters: two arms a call
    run(config, data=fed)
    assert calls == [2 + 2 + 4, 2 + 2, 4]


def test_scaffold_knows_the_importance():
    # c = sum p_m c_m after every round, with the arm's own p and clients that miss rounds
    fed, config = (
        random_federation([5, 3, 7, 2], 2),
        replace(CONFIG, server="scaffold", arms=("uniform", "p_hist=0.9")),
    )
    p = np.stack([client_importance(arm, fed.sizes, fed.historical) for arm in config.arms])
    stored = memories(fed, rounds=6, seed=5)
    arms = Arms(config, fed, p, mean_memory(stored, 4))
    for t, memory in enumerate(stored, 1):
        arms.step(t, memory)
        for rule, shares in zip(arms.rules, p, strict=True):
            torch.testing.assert_close(
                rule.mean, sum(float(shares[m]) * c for m, c in rule.controls.items())
            )
    assert all(set(rule.controls) == {0, 1, 2, 3} for rule in arms.rules)


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


def test_projection_keeps_the_ball():
    fed = random_federation([5, 3, 7, 11], 2)
    config = replace(
        CONFIG, radius=0.05, rates=(0.008, 1.0)
    )  # the first arm gets there in small steps, the second at once
    p = np.stack([client_importance(arm, fed.sizes, fed.historical) for arm in config.arms])
    stored = memories(fed, rounds=6, seed=5)
    arms = Arms(config, fed, p, mean_memory(stored, 4))
    for t, memory in enumerate(stored, 1):
        arms.step(t, memory)
        slow, fast = (arms.params - arms.start).norm(dim=1).tolist()
        assert slow <= 0.05 * (1 + 1e-5) and fast == pytest.approx(0.05, rel=1e-5)
        assert t > 1 or slow < 0.04
    assert slow == pytest.approx(0.05, rel=1e-5)
    free = run(replace(config, radius=1e6), data=fed)
    pd.testing.assert_frame_equal(
        free, run(replace(config, radius=None), data=fed), check_exact=True
    )


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
    frame = run(
        CONFIG,
        data=fed,
        server=lambda config, shares: made.append(shares) or Doubled(shares, seen),
    )
    np.testing.assert_allclose(
        made, [client_importance(arm, fed.sizes, fed.historical) for arm in CONFIG.arms]
    )
    assert len(seen) == 2 * CONFIG.rounds and seen[0] == ([0, 1, 2, 3], 0.1)
    # the arms differ in prox, and each is what it is alone
    prox = run(CONFIG, data=fed, server=lambda config, shares: servers.FedProx(5 * shares.max()))
    for a, arm in enumerate(CONFIG.arms):
        alone = run(
            replace(CONFIG, arms=(arm,), rates=(0.1,)),
            data=fed,
            server=lambda config, shares: Doubled(shares, []),
        )
        same = frame[frame["arm"] == arm].reset_index(drop=True)
        pd.testing.assert_frame_equal(same, alone, rtol=1e-5)
        want = run(
            replace(CONFIG, arms=(arm,), rates=(0.1,), server="fedprox", prox=5 * made[a].max()),
            data=fed,
        )
        pd.testing.assert_frame_equal(
            prox[prox["arm"] == arm].reset_index(drop=True), want, rtol=1e-5
        )
    # one step from 0 by hand, as in test_one_round_by_hand, twice as far: logits +-0.15 (prox has
    # no effect in the first step)
    first = run(
        HAND,
        data=hand_federation(),
        model=Zero(1, 2),
        server=lambda config, shares: Doubled(shares, []),
    )
    assert first["loss_last"][0] == pytest.approx(loss(0.15), abs=1e-6)
    monkeypatch.setattr(Doubled, "local_options", lambda self, work: {"momentum": 0.9})
    with pytest.raises(ValueError, match="local_options of Doubled holds momentum"):
        run(CONFIG, data=fed, server=lambda config, shares: Doubled(shares, []))


def test_bad_weights():
    fed = random_federation([5, 3, 7, 11], 2)
    for weights, message in (
        (np.ones((6, 4)), r"weights of type ndarray must be a function \(round, client,"),
        (lambda t, m, ids, p: [1.0], r"weights\(round=1, client=0\) has shape \(1,\)"),
        (lambda t, m, ids, p: -np.ones(len(ids)), r"weights\(round=1, client=0\) holds -1.0"),
    ):
        with pytest.raises(ValueError, match=message):
            run(CONFIG, data=fed, weights=weights)


def hand_federation():
    """From 0, class 0 moves by (0.05, 0.025), class 1 by its negative (test_one_round_by_hand)."""
    return federation([[1], [3], [2], [5]], [1, 1, 0, 0], [2, 2], [True, False], [[1]], [0])


ONE = servers.FedAvg()


def test_a_server_must_return_parameters():
    class Mean(servers.FedAvg):
        def __call__(self, params, updates, weights=None, work=None):
            return super().__call__(params, updates, weights, work).mean()

    with pytest.raises(ValueError, match=r"rule Mean returned has shape \(\); it must be \(12,\)"):
        run(CONFIG, data=random_federation([5, 3, 7, 11], 2), server=Mean)


def test_a_server_must_correct_every_client():
    class First(servers.FedAvg):
        def local_options(self, work):
            return {"corrections": torch.zeros(1, 12)}

    message = r"what the server corrects has shape \(1, 12\); it must be \(4, 12\)"
    with pytest.raises(ValueError, match=message):
        run(CONFIG, data=random_federation([5, 3, 7, 11], 2), server=First)
