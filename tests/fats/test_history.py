"""Sampling histories: what is drawn, when it is first used, and what no history can be."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sflkit.fats.enumeration import (
    outcomes,
)
from sflkit.fats.forgetting import forget_client
from sflkit.fats.history import History, draw_history, subsets
from tests.fats.fats_cases import sizes, small


@pytest.mark.parametrize(("size", "n"), [(1, 1), (3, 1), (3, 2), (4, 3), (4, 4), (5, 2)])
def test_subsets_are_uniform(size, n):
    law = {}
    for picks, p in outcomes(lambda rng: subsets(np.array([size]), n, rng)):
        law[tuple(picks[0])] = law.get(tuple(picks[0]), 0) + p
    assert law == dict.fromkeys(
        itertools.combinations(range(size), n), Fraction(1, math.comb(size, n))
    )


def test_first_use_by_hand():
    h = small()
    used = {(0, 1): (0, 1), (0, 3): (0, 1), (1, 3): (1, 0), (1, 4): (1, 1), (0, 5): None}
    assert {target: h.first_use(*target) for target in used} == used
    steps = {(0, 1): 1, (0, 3): 1, (1, 3): 2, (1, 4): 3, (0, 5): 4}  # r E + e with E = 2; T = 4
    assert {target: h.first_step(*target) for target in steps} == steps
    assert (h.first_use(0), h.first_use(1), h.first_use(2)) == (0, 0, 1)
    found = h.n_clients, h.rounds, h.clients_per_round, h.local_steps, h.batch_size, h.steps
    assert found == (3, 2, 3, 2, 2, 4)


def test_histories_cannot_be_written_to():
    h = draw_history(**sizes(2, 2, 2), rng=np.random.default_rng(0))
    after = forget_client(h, 0, np.random.default_rng(0)).history
    for values in (
        h.clients,
        h.batches,
        h.samples_per_client,
        after.clients,
        after.batches,
        h.kept,
        h.offsets,
    ):
        with pytest.raises(ValueError, match="read-only"):
            values[0] = 0
    with pytest.raises(AttributeError, match="forgotten"):
        h.forgotten = frozenset({(0, 0)})


def test_bad_sizes():
    rng = np.random.default_rng(0)
    with pytest.raises(ValueError, match=r"batch_size=3 must be at most 2, the .* client 0 has"):
        draw_history(**sizes(2, 2, 2, b=3), rng=rng)


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        (([[0]], [[[0]]], [2]), r"shapes must be .* are \(1, 1\), \(1, 1, 1\), \(1,\)"),
        (([[1]], [[[[0]]]], [2]), r"clients must lie in 0\.\.0, as samples_per_client has 1"),
        (([[0]], [[[[2]]]], [2]), "samples of their slot"),
        (([[0]], [[[[1, 0]]]], [2]), "ascending"),
        (([[0]], [[[[0, 0]]]], [2]), "none twice"),
        (([[0]], [[[[0]]]], [2], {(0, 0)}), "still in use"),
        (([[0]], [[[[0]]]], [2, 2], {(0, None)}), "still in use"),
        (([[0]], [[[[0]]]], [2], {(0, None)}), "must be left"),
        (([[0]], [[[[0, 1]]]], [3, 3], {(1, 0), (1, 1)}), "keep batch_size=2"),
        (([[0]], [[[[0]]]], [2], {(0, 2)}), "sample=2"),
    ],
)
def test_histories_that_cannot_be(fields, words):
    with pytest.raises(ValueError, match=words):
        History.of(*fields)


@st.composite
def histories(draw):
    n_clients = draw(st.integers(1, 5))
    batch_size = draw(st.integers(1, 3))
    each = draw(st.lists(st.integers(batch_size, 6), min_size=n_clients, max_size=n_clients))
    names = ("clients_per_round", "local_steps", "rounds")
    setting = {name: draw(st.integers(1, 4)) for name in names}
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    return draw_history(
        n_clients=n_clients, samples_per_client=each, batch_size=batch_size, rng=rng, **setting
    )


@settings(max_examples=60)
@given(histories())
def test_the_look_up_is_the_first_use_that_a_search_finds(history):
    e = history.local_steps
    for client, size in enumerate(history.samples_per_client):
        rounds = np.flatnonzero((history.clients == client).any(axis=1))
        assert history.first_use(client) == (int(rounds[0]) if len(rounds) else None)
        for sample in range(size):
            held = (history.batches == sample).any(axis=3)  # (R, K, E)
            used = held & (history.clients == client)[:, :, None]
            steps = [r * e + step for r, _, step in np.argwhere(used)]
            assert history.first_step(client, sample) == min(steps, default=history.steps)
            first = history.first_use(client, sample)
            assert first == (divmod(min(steps), e) if steps else None)


def test_what_stays_is_shared_and_nothing_is_copied():
    history = draw_history(**sizes(1, 1, 1, m=9, n=3), rng=np.random.default_rng(0))
    idle = next(k for k in range(9) if history.first_use(k) is None)
    after = forget_client(history, idle, np.random.default_rng(0)).history
    assert after.batches is history.batches and after.first is history.first
    assert after.forgotten == {(idle, None)} and not history.forgotten
    assert after.samples_left[idle] == 0 and history.samples_left[idle] == 3


def test_what_is_left_by_hand():
    history = small().without([(0, 1), (2, None), (2, 3)])  # a sample goes with its client
    assert history.forgotten == {(0, 1), (2, None)}
    assert history.samples_left.tolist() == [5, 5, 0]
    assert history.remaining(0).tolist() == [0, 2, 3, 4, 5] and not len(history.remaining(2))
