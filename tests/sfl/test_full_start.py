"""Caches that hold B samples before round 1: their weights, and that training runs do the same."""

from dataclasses import replace

import numpy as np
import pytest

from companion.notebooks.n13 import full_start_weights
from sflkit.randomness import generator
from sflkit.sfl import caches
from sflkit.sfl.clients import Clients
from sflkit.sfl.config import SFLConfig
from sflkit.sfl.discrepancy import exact_discrepancy, rule_weights
from sflkit.sfl.streams import LabelStream, kl_markov_stream
from sflkit.sfl.training import full_start, run

LABELS = np.arange(10).repeat(500)
CONFIG = SFLConfig(seed=2, n_clients=3, capacity=60, batch_size=20, rounds=8, train=False)


def theta_of(rule):
    return {"theta": 0.4} if rule == "srsr" else {}


def test_weights_by_hand():
    # M = 3. FIFO after two rounds: a third each of the two and of the start. SRSR, theta = 0.6: the
    # step is 0.2, so after two rounds 0.2 of the newest, 0.2 * 0.8 of the one before, 0.64 of
    # the start. DRSR: five rounds' worth of samples seen, three of them at the start.
    weigh = {rule: full_start_weights(rule, 2, cache_rounds=3) for rule in ("fifo", "drsr", "lazy")}
    np.testing.assert_allclose(weigh["fifo"], [1 / 3, 1 / 3, 1 / 3])
    np.testing.assert_allclose(weigh["drsr"], [1 / 5, 1 / 5, 3 / 5])
    np.testing.assert_allclose(weigh["lazy"], [0, 0, 1])
    srsr = full_start_weights("srsr", 2, cache_rounds=3, theta=0.6)
    np.testing.assert_allclose(srsr, [0.2, 0.16, 0.64])


@pytest.mark.parametrize("rule", ["fifo", "lazy", "drsr", "srsr"])
@pytest.mark.parametrize("t", [0, 1, 2, 3, 7])
def test_weights_add_up_and_round_0_is_the_start(rule, t):
    a = full_start_weights(rule, t, cache_rounds=3, **theta_of(rule))
    assert a.shape == (t + 1,) and (a >= 0).all() and a.sum() == pytest.approx(1)
    if t == 0:
        assert a.tolist() == [1]


def test_fifo_forgets_the_start_after_m_rounds():
    a = full_start_weights("fifo", 9, cache_rounds=3)
    np.testing.assert_allclose(a[:3], rule_weights("fifo", 9, cache_rounds=3))
    assert not a[3:].any()


def test_small_theta_is_slow_from_a_full_start_only():
    # Fig. 8(a): B_s = B / 10, t = 20. By appending both thetas start from the mean of ten rounds.
    stream = kl_markov_stream(
        n_clients=10, n_classes=10, classes_per_client=3, n_states=10, temperature=0.2,
        rng=generator(0, "stream"),
    )  # fmt: skip
    full, append = (
        {theta: exact_discrepancy(stream, weights=weigh(theta)).sum() for theta in (0.1, 2 / 3)}
        for weigh in (
            lambda theta: full_start_weights("srsr", 20, cache_rounds=10, theta=theta),
            lambda theta: rule_weights("srsr_filled", 20, cache_rounds=10, theta=theta),
        )
    )
    assert full[0.1] > 3 * full[2 / 3]
    assert append[0.1] < 2 * append[2 / 3]


@pytest.mark.parametrize("rule", ["fifo", "lazy", "drsr", "srsr"])
def test_caches_follow_their_weights(rule):
    # One client whose state changes by a fixed ring, with exact counts on the grid of B_s: then
    # v_t is known exactly, up to the rounding of whole samples.
    short_term = np.array([[[0.5, 0.5], [0.25, 0.75], [1.0, 0.0]]])
    stream = LabelStream(short_term, [np.roll(np.eye(3), 1, axis=1)], start=0)
    config = replace(CONFIG, rule=rule, n_clients=1, exact_counts=True, **theta_of(rule))
    clients = Clients(config, np.arange(2).repeat(500), 2, stream=stream, start="full")
    states = [0, 1, 2] * 3
    for t in range(config.rounds + 1):
        if t:
            clients.arrive(t)
        if rule == "fifo" and 0 < t < 3:
            continue  # which samples of the start go first is chance
        a = full_start_weights(rule, t, cache_rounds=3, **theta_of(rule))
        expected = sum(w * short_term[0, s] for w, s in zip(a, states[t::-1], strict=True))
        shares = clients.cached_counts()[0] / config.capacity
        assert np.abs(shares - expected).max() <= 1 / config.capacity + 1e-9


def test_all_rules_start_full_and_see_the_same_arrivals():
    frames = {}
    for rule in caches.RULES:
        clients = Clients(replace(CONFIG, rule=rule), LABELS, 10, start="full")
        assert clients.cached_counts().sum(axis=1).tolist() == [60] * 3
        frames[rule] = clients.counts
        clients.arrive(1)
    assert all((counts == frames["fifo"]).all() for counts in frames.values())


def test_no_sample_of_the_start_comes_again_at_once():
    clients = Clients(replace(CONFIG, rule="fifo"), LABELS, 10, start="full")
    before = [set(cache.ids.tolist()) for cache in clients.caches]
    clients.arrive(1)
    for cache, first in zip(clients.caches, before, strict=True):
        assert len(set(cache.ids[-20:].tolist()) & first) == 0


def test_lazy_learns_from_the_start_alone_and_append_is_as_before():
    lazy = full_start(replace(CONFIG, rule="lazy"))
    assert lazy["discrepancy"].nunique() == 1
    assert full_start(replace(CONFIG, rule="fifo"))["count_0"].sum() >= 0
    appended = run(replace(CONFIG, rule="fifo"))
    held = appended.filter(like="count_").sum(axis=1)
    assert held.tolist() == [60, 120] + [180] * 6
