"""Who holds which samples when: schedules, participation, use counts, memories of one's own."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sflkit.datastreams import importance
from sflkit.datastreams.arrivals import mean_memory, memories
from sflkit.datastreams.strategies import client_importance
from sflkit.datastreams.training import run
from sflkit.sfl.caches import FIFO, Lazy
from tests.datastreams.helpers import (
    CONFIG,
    random_federation,
)


def test_arrivals_of_different_clients_are_spread():
    # 30 fresh clients of one sample over 5 rounds: not all in one round
    stored = memories(random_federation([3] + [1] * 30, 1), rounds=5, seed=0)
    assert min(len(memory) for memory in stored) > 1


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


@settings(max_examples=40)
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
    p = client_importance("p_hist=0.3", sizes, fed.historical)
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
    stored = memories(fed, rounds=6, seed=0, participation=2, cache=lambda m, b: FIFO(12, b))
    assert {len(memory) for memory in stored} == {2}
    assert len({tuple(memory) for memory in stored}) > 1
    held = 0
    for t, memory in enumerate(stored):
        if (
            2 in memory
        ):  # two samples arrive in each round, in which it is drawn: only those are kept
            held += 2
            assert len(memory[2]) == held
            assert set(fed.clients[2][2 * t : 2 * t + 2]) <= set(memory[2].tolist())
    assert 0 < held < 12
    everybody = memories(fed, rounds=6, seed=0, participation=4)
    assert all(list(memory) == [0, 1, 2, 3] for memory in everybody)


def test_memory_rule_is_used():
    fed, made = random_federation([5, 3, 12, 8], 2), []

    def lazy(client, arrivals):
        made.append((client, arrivals))
        return Lazy(arrivals, arrivals)

    stored = memories(fed, rounds=4, seed=0, cache=lazy)
    assert made == [(2, 3), (3, 2)]
    assert all(
        memory[2].tolist() == fed.clients[2][:3].tolist() for memory in stored
    )  # the first samples, kept for ever
    assert not run(CONFIG, data=fed, cache=lazy).equals(run(CONFIG, data=fed))
    with pytest.raises(ValueError, match=r"memory of client 3: capacity=9 must be .* <= 8"):
        run(CONFIG, data=fed, cache=lambda m, b: FIFO(9, b))


def test_a_class_of_memory_has_room_for_one_round():
    # FIFO with room for what arrives at once is the default of the paper
    fed = random_federation([5, 3, 12, 8], 2)
    for mine, default in zip(
        memories(fed, rounds=4, seed=0, cache=FIFO), memories(fed, rounds=4, seed=0), strict=True
    ):
        assert mine.keys() == default.keys()
        assert all(mine[m].tolist() == default[m].tolist() for m in mine)


class Kept:
    """A memory with nothing but the protocol; `answer` turns all that arrived into what is held."""

    def __init__(self, answer, capacity=None):
        self.answer, self.seen = answer, []
        if capacity is not None:
            self.capacity = capacity

    @property
    def ids(self):
        return self.answer(self.seen)

    def update(self, ids, labels, rng):
        self.seen += ids.tolist()


def test_any_object_with_the_protocol_is_a_memory():
    fed = random_federation([5, 3, 12, 8], 2)
    stored = memories(fed, rounds=4, seed=0, cache=lambda m, most: Kept(np.array))
    assert stored[-1][2].tolist() == fed.clients[2].tolist()
    # with availability "2" the samples arrive twice, and may be held twice
    twice = memories(fed, rounds=4, seed=0, availability="2", cache=lambda m, b: Kept(np.array))
    assert max(len(memory.get(2, ())) for memory in twice) in (12, 24)


SHARED = Kept(np.array)


@pytest.mark.parametrize(
    ("memory", "message"),
    [
        (FIFO(4, 2), r"finished object.*def make\(client, most\): return FIFO"),
        (3, r"cache=3 must be a class, .* or a function \(client, most\)"),
        (lambda m, most: None, r"lacks ids, update; see sflkit\.datastreams\.arrivals\.Memory"),
        (lambda m, most: SHARED, "one Kept object for client 2 and client 3"),
        (lambda m, most: Kept(lambda seen: [0]), r"client 2 holds rows \[0\] more often than"),
        (lambda m, most: Kept(lambda seen: seen[:1] * 2), "more often than they arrived there"),
        (lambda m, most: Kept(np.array, 1), r"memory of client 2 holds 3 rows; .* capacity=1"),
        (lambda m, most: Kept(lambda seen: 1.5 * np.array(seen)), "2 holds .*must be integers"),
        (lambda m, most: Kept(lambda seen: [seen]), r"client 2 has shape \(1, \d\)"),
    ],
)
def test_bad_memories(memory, message):
    fed = random_federation([5, 3, 12, 8], 2)
    with pytest.raises(ValueError, match=message):
        memories(fed, rounds=4, seed=0, cache=memory)
