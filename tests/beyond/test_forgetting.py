"""Forgetting from streaming caches: by hand, in the limit, as properties, and to the fraction."""

from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from companion.notebooks import cache_forgetting_proofs
from companion.notebooks.cache_forgetting import PROVED, Stream, dropped_reads, fill, never_arrived
from sflkit.fats import learning
from sflkit.fats.forgetting import forget_sample
from sflkit.fats.history import History, draw_history
from tests.fats.fats_cases import setup

ROUNDS, CAPACITY, EACH = 6, 6, 2


def streams(seed=0, n_clients=3):
    rng = np.random.default_rng(seed)
    arrival = np.concatenate([np.zeros(CAPACITY, int), np.repeat(np.arange(1, ROUNDS), EACH)])
    return [Stream(arrival, rng.integers(3, size=len(arrival))) for _ in range(n_clients)]


def world(rule="fifo", seed=0, batch_size=2):
    caches = fill(streams(seed), rule, capacity=CAPACITY, batch_size=EACH, rounds=ROUNDS, seed=seed)
    history = draw_history(
        n_clients=3,
        samples_per_client=[len(stream.arrival) for stream in caches.streams],
        clients_per_round=2,
        batch_size=batch_size,
        local_steps=2,
        rounds=ROUNDS,
        rng=np.random.default_rng(seed),
        held=caches.held,
    )
    return caches, history


def contents(held, rounds=3):
    """What a single client holds in each round."""
    return [np.flatnonzero((held.entered <= r) & (r < held.left)).tolist() for r in range(rounds)]


def test_fifo_and_lazy_caches_by_hand():
    """B = 2; samples 0 and 1 arrive in round 0, sample 2 in round 1, sample 3 in round 2.

    FIFO holds the two newest: {0, 1}, {1, 2}, {2, 3}. Without 2 the stream is 0, 1 | nothing | 3:
    {0, 1}, {0, 1}, {1, 3}. LAZY holds {0, 1} for ever; without 0 it takes 2 when it comes.
    """
    own = [Stream(np.array([0, 0, 1, 2]), np.zeros(4, int))]
    fifo, lazy = (fill(own, rule, capacity=2, batch_size=1, rounds=3) for rule in ("fifo", "lazy"))
    assert contents(fifo.held) == [[0, 1], [1, 2], [2, 3]]
    assert contents(fifo.without(0, 2).held) == [[0, 1], [0, 1], [1, 3]]
    assert contents(fifo.without(0, 2).without(0, 0).held) == [[1], [1], [1, 3]]
    assert contents(lazy.held) == [[0, 1]] * 3
    assert contents(lazy.without(0, 0).held) == [[1], [1, 2], [1, 2]]


def test_mini_batches_follow_the_cache_by_hand():
    """The FIFO cache above, b = 1: round 1 used sample 2 and round 2 sample 3.

    Without sample 2 round 1 would have held 0 in its place, so that its mini-batch becomes {0}; in
    round 2 sample 1 stands for 2, and {3} stays. The models from round 1 on are to be recomputed.
    """
    own = [Stream(np.array([0, 0, 1, 2]), np.zeros(4, int))]
    caches = fill(own, "fifo", capacity=2, batch_size=1, rounds=3)
    history = History.of([[0]] * 3, [[[[1]]], [[[2]]], [[[3]]]], [4], held=caches.held)
    after, first, kept = never_arrived(history, caches, 0, 2, np.random.default_rng(0))
    assert after.batches.ravel().tolist() == [1, 0, 3] and first == 1
    assert after.forgotten == {(0, 2)} == kept.missing and after.held is kept.held
    # Withheld, round 1 can only draw the other sample that was held then.
    withheld, at = forget_sample(history, 0, 2, np.random.default_rng(0), "minimal")
    assert withheld.batches.ravel().tolist() == [1, 1, 3] and at == (1, 0)


def test_a_place_that_stays_empty_is_filled_up():
    """Two samples from round 0 on, none arrives later: without 0 only 1 is left to draw."""
    caches = fill(
        [Stream(np.array([0, 0]), np.array([0, 1]))], "drsr", capacity=2, batch_size=2, rounds=1
    )
    history = History.of([[0]], [[[[0], [1]]]], [2], held=caches.held)
    after, first, _ = never_arrived(history, caches, 0, 0, np.random.default_rng(0))
    assert after.batches.ravel().tolist() == [1, 1] and first == 0
    whole = History.of([[0]], [[[[0, 1], [0, 1]]]], [2], held=caches.held)
    with pytest.raises(ValueError, match="client=0 would have 1 of its 2 samples left"):
        never_arrived(whole, caches, 0, 0, np.random.default_rng(0))


@pytest.mark.parametrize("rule", PROVED)
@pytest.mark.parametrize(
    "name", [n for n in cache_forgetting_proofs.CASES if n != "mini-batches of two"]
)
def test_both_readings_are_exact_for_every_rule(rule, name):
    found = cache_forgetting_proofs.distances(cache_forgetting_proofs.CASES[name], rule)
    assert (found.withheld, found.never_arrived) == (0, 0)


@pytest.mark.parametrize("rule", ["fifo", "reservoir"])
def test_larger_mini_batches_are_exact(rule):
    found = cache_forgetting_proofs.distances(
        cache_forgetting_proofs.CASES["mini-batches of two"], rule, "minimal"
    )
    assert (found.withheld, found.never_arrived) == (0, 0)


def test_a_history_that_does_not_know_the_caches_is_not_exact_by_hand():
    """M = 2, R = 2, one slot, one sample per step; FIFO holds {0, 1}, then {1, 2}; forget 0.

    Round 0 draws client 0 and sample 0 with probability 1/4. Its mini-batch is drawn again, from 1
    and 2 alike, although 2 has not arrived: 1/8 ends there and should be at 1. Later rounds agree.
    """
    assert cache_forgetting_proofs.distances(
        cache_forgetting_proofs.CASES["there from the start"], "fifo"
    ).unaware == Fraction(1, 8)


def test_the_printed_rule_is_not_exact_with_caches_either():
    found = cache_forgetting_proofs.distances(
        cache_forgetting_proofs.CASES["there from the start"], "fifo", "printed"
    )
    assert found.withheld > 0 == found.never_arrived


def test_replayed_with_its_own_dice_a_reservoir_has_the_law_without_the_sample():
    """Step (1): over many seeds, the replay holds each set as often as enumeration says.

    4000 seeds; each frequency within 4.5 standard errors of its probability.
    """
    own = (Stream(np.array([0, 0, 1, 2]), np.zeros(4, int)),)
    law = {
        tuple(map(tuple, contents(held))): p
        for p, held, _ in cache_forgetting_proofs.held_law(
            cache_forgetting_proofs.Case(
                (Stream(np.array([0, 1, 2]), np.zeros(3, int)),), 0, rounds=3
            ),
            "reservoir",
            replayed=False,
        )
    }
    found = Counter()
    n = 4000
    for seed in range(n):
        caches = fill(own, "reservoir", capacity=2, batch_size=2, rounds=3, seed=seed)
        replayed = contents(caches.without(0, 0).held)
        found[tuple(tuple(s - 1 for s in held) for held in replayed)] += 1
    assert set(found) == set(law) and sum(law.values()) == 1 and len(law) > 1
    for held, p in law.items():
        error = float(p * (1 - p) / n) ** 0.5
        assert abs(found[held] / n - float(p)) < 4.5 * error


@given(
    seed=st.integers(0, 300),
    rule=st.sampled_from(PROVED),
    client=st.integers(0, 2),
    sample=st.integers(0, CAPACITY + EACH * (ROUNDS - 1) - 1),
)
@settings(max_examples=40)
def test_what_never_arrived_leaves_no_trace_and_nothing_else_moves(seed, rule, client, sample):
    caches, history = world(rule, seed)
    after, first, kept = never_arrived(history, caches, client, sample, np.random.default_rng(seed))
    at = sum(len(stream.arrival) for stream in caches.streams[:client]) + sample
    assert kept.held.entered[at] == kept.held.left[at]  # in no round
    others = history.clients != client
    np.testing.assert_array_equal(after.clients, history.clients)
    np.testing.assert_array_equal(after.batches[others], history.batches[others])
    arrival = caches.streams[client].arrival[sample]
    np.testing.assert_array_equal(after.batches[:arrival], history.batches[:arrival])
    assert first is None or first >= arrival
    after.check_draws()
    twice = [never_arrived(history, caches, client, sample, np.random.default_rng(1)) for _ in "ab"]
    np.testing.assert_array_equal(twice[0].history.batches, twice[1].history.batches)


@given(seed=st.integers(0, 200), sample=st.integers(0, CAPACITY - 1))
@settings(max_examples=15)
def test_a_cache_with_room_for_all_is_the_first_use_of_fats(seed, sample):
    """Nothing takes the place of a sample where nothing was dropped: both readings start at the
    first use, and only mini-batches with the sample change."""
    arrival = np.zeros(CAPACITY, int)
    own = [Stream(arrival, np.zeros(CAPACITY, int))] * 3
    caches = fill(own, "fifo", capacity=CAPACITY, batch_size=CAPACITY, rounds=3)
    given = dict(n_clients=3, samples_per_client=CAPACITY, clients_per_round=2, batch_size=2)
    given |= dict(local_steps=2, rounds=3)
    history, plain = (
        draw_history(**given, rng=np.random.default_rng(seed), held=held)
        for held in (caches.held, None)
    )
    np.testing.assert_array_equal(history.batches, plain.batches)
    after, first, _ = never_arrived(history, caches, 0, sample, np.random.default_rng(seed))
    minimal, at = forget_sample(plain, 0, sample, np.random.default_rng(seed), "minimal")
    np.testing.assert_array_equal(after.batches, minimal.batches)
    assert first == (None if at is None else at[0])


def test_a_model_forgets_what_never_arrived():
    caches, history = world("drsr", batch_size=2)
    task, _, _, rng = setup()
    n = len(caches.streams[0].arrival)
    clients = [
        (rng.standard_normal((n, 3)).astype(np.float32), rng.integers(2, size=n)) for _ in range(3)
    ]
    state = learning.learn(task, clients, history, 0.1, start=task.init(0))
    r, slot = 2, 0
    client, sample = int(history.clients[r, slot]), int(history.batches[r, slot, 0, 0])
    found = never_arrived(history, caches, client, sample, rng)
    again = learning.learn(task, clients, found.history, 0.1, start=task.init(0))
    # the models stand up to the first round whose mini-batches changed
    same = [state.models[r].equal(again.models[r]) for r in range(ROUNDS + 1)]
    assert found.first <= r and same == [t <= found.first for t in range(ROUNDS + 1)]


def test_requests_follow_one_another_and_do_not_mix():
    caches, history = world("srsr")
    first = never_arrived(history, caches, 0, 1, np.random.default_rng(0))
    second = never_arrived(first.history, first.caches, 0, 9, np.random.default_rng(0))
    assert second.history.forgotten == {(0, 1), (0, 9)} == second.caches.missing
    withheld = forget_sample(history, 0, 1, np.random.default_rng(0)).history
    for wrong in (first.history, withheld, draw_history(**NO_CACHES)):
        with pytest.raises(ValueError, match=r"held=caches\.held"):
            never_arrived(wrong, caches, 0, 2, np.random.default_rng(0))


NO_CACHES = dict(
    n_clients=3,
    samples_per_client=16,
    clients_per_round=1,
    batch_size=1,
    local_steps=1,
    rounds=ROUNDS,
    rng=np.random.default_rng(0),
)


def test_what_is_not_proved_is_refused():
    for rule in ("full", "my_rule"):
        with pytest.raises(ValueError, match=f"rule='{rule}' must be one of 'fifo'.*withheld"):
            fill(streams(), rule, capacity=6, batch_size=2, rounds=ROUNDS)
    with pytest.raises(ValueError, match="at most capacity=6"):
        fill(
            [Stream(np.zeros(7, int), np.zeros(7, int))], "fifo", capacity=6, batch_size=2, rounds=1
        )


def test_dropped_reads_by_hand():
    """FIFO holds {0, 1}, {1, 2}, {2, 3}; b = 1 used 1, 2, 3. After round 2 only 1 is dropped.

    Recomputing from round 0 on reads 1, 2, 3, of which 1/3 are gone; from round 1 on none is.
    """
    own = [Stream(np.array([0, 0, 1, 2]), np.zeros(4, int))]
    caches = fill(own, "fifo", capacity=2, batch_size=1, rounds=3)
    history = History.of([[0]] * 3, [[[[1]]], [[[2]]], [[[3]]]], [4], held=caches.held)
    assert dropped_reads(history, 0) == pytest.approx(1 / 3)
    assert dropped_reads(history, 1) == 0
