"""The baselines: scaled steps by hand, and whom FedAvg draws."""

from fractions import Fraction

import numpy as np
import pytest
import torch

from sflkit.fats.enumeration import outcomes
from sflkit.fats.history import draw_history
from sflkit.fats.methods import draw_fedavg
from sflkit.fats.sgd import Fisher, fisher_sgd
from sflkit.federated import local_sgd
from tests.fats.fats_cases import SIZES, line, setup


def test_fisher_steps_by_hand():
    # y = 8, loss (w - 8)^2, w = 0; momentum 1/2, decay 3/4, damping 4, rate 1. Step 1: g = -16, m'
    # = -16, F' = 256, w = 16 / 260 = 4/65. Step 2: g = 2 (4/65 - 8) = -1032/65; m = -16/4 + g/2, m'
    # = m / (3/4); F = 256 * 3/16 + g^2/4, F' = F / (7/16).
    task, clients = line([(8,)])
    fisher = Fisher(rate=1.0, momentum=0.5, decay=0.75, damping=4.0)
    data, rows = clients[0], [[[0], [-1]], [[0], [0]], [[-1], [-1]]]  # one step, two, none
    w1 = 4 / 65
    g = 2 * (w1 - 8)
    w2 = w1 - (-4 + g / 2) / 0.75 / ((48 + g * g / 4) / (7 / 16) + 4)
    out = fisher_sgd(task, torch.zeros(1), data, rows, fisher)
    assert out[:, 0].tolist() == pytest.approx([w1, w2, 0.0], rel=1e-6)
    with pytest.raises(ValueError, match="params has shape"):
        fisher_sgd(task, torch.zeros(2, 1), data, rows, fisher)
    for bad in dict(rate=0.0), dict(momentum=1.0), dict(decay=-0.1), dict(damping=0.0):
        with pytest.raises(ValueError, match=next(iter(bad))):
            Fisher(**bad)


def test_heavily_damped_fisher_steps_are_plain_sgd():
    task, clients, _, _ = setup()
    data = tuple(map(np.concatenate, zip(*clients)))
    rows = [[range(6 * k, 6 * k + 4)] * 5 for k in range(4)]
    plain = local_sgd(task, task.init(0), rate=0.2, data=data, rows=rows)
    fisher = Fisher(rate=0.2 * 1e6, momentum=0.0, damping=1e6)
    damped = fisher_sgd(task, task.init(0), data, rows, fisher)
    assert torch.allclose(plain, damped, atol=1e-5)
    assert not torch.allclose(plain, task.init(0).expand(4, -1), atol=1e-2)


def test_fedavg_shares_fats_draws_where_no_client_repeats():
    sizes = SIZES | {"rounds": 300, "clients_per_round": 2}
    fats = draw_history(**sizes, rng=np.random.default_rng(3))
    fedavg = draw_fedavg(**sizes, rng=np.random.default_rng(3))
    same = np.diff(np.sort(fats.clients, axis=1), axis=1)[:, 0] > 0
    # two of four clients repeat with probability 1/4: 75 of 300 rounds, standard deviation 7.5
    assert 45 < (~same).sum() < 105
    assert (np.diff(np.sort(fedavg.clients, axis=1), axis=1) > 0).all()
    assert np.array_equal(fats.clients[same], fedavg.clients[same])
    assert np.array_equal(fats.batches[same], fedavg.batches[same])
    # one client per round never repeats: FATS and FedAvg draw the same
    one = SIZES | {"clients_per_round": 1}
    alone = [draw(**one, rng=np.random.default_rng(3)) for draw in (draw_history, draw_fedavg)]
    assert np.array_equal(alone[0].batches, alone[1].batches)


def test_fedavg_keeps_its_law_to_the_fraction():
    # Three clients with one sample each, two per round: 9 ordered pairs, of which 3 repeat and are
    # drawn again from 3 subsets. Each subset: 2/9 + 3/9 * 1/3 = 1/3.
    sizes = dict(n_clients=3, samples_per_client=1, clients_per_round=2, batch_size=1)

    def draw(rng):
        history = draw_fedavg(**sizes, local_steps=1, rounds=1, rng=rng)
        return tuple(sorted(history.clients[0].tolist()))

    law = {}
    for pair, p in outcomes(draw):
        law[pair] = law.get(pair, 0) + p
    assert law == {(0, 1): Fraction(1, 3), (0, 2): Fraction(1, 3), (1, 2): Fraction(1, 3)}
