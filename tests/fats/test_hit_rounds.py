"""The law of the hit round by hand, in its limits, and against enumeration."""

from fractions import Fraction

import pytest

from companion.notebooks.hit_rounds import (
    expected,
    expected_share,
    hit_law,
    mean_after,
    rounds_back,
    slot_spared,
)
from sflkit.fats.enumeration import drawn_law

TINY = dict(
    n_clients=2, samples_per_client=2, clients_per_round=1, batch_size=1, local_steps=1, rounds=2
)


def test_the_law_by_hand():
    # Two clients with two samples, one slot, one mini-batch of one: a sample is used with
    # probability 1/4 a round, so first in round 0 with 1/4, in round 1 with 3/16, never with 9/16.
    assert hit_law([(0, 1)], **TINY).tolist() == [1 / 4, 3 / 16, 9 / 16]
    # Both samples of client 0 are used when it is drawn: as the whole client, 1/2, 1/4, 1/4.
    both, whole = hit_law([(0, 0), (0, 1)], **TINY), hit_law([(0, None)], **TINY)
    assert both.tolist() == whole.tolist() == [1 / 2, 1 / 4, 1 / 4]
    # One of three samples, b = 2 of 3, E = 2: client 0 spares it with (1/3)^2 = 1/9, so that a slot
    # spares it with 1/2 + 1/18 = 5/9.
    sizes = dict(n_clients=2, samples_per_client=3, batch_size=2, local_steps=2)
    assert slot_spared([(0, 0)], **sizes) == pytest.approx(5 / 9, rel=1e-15)
    # Recomputed: all of 2 rounds with 1/4, one with 3/16, none with 9/16, on average 11/32 of all.
    assert expected_share(hit_law([(0, 1)], **TINY)) == 11 / 32


def test_the_limits():
    assert hit_law([], **TINY).tolist() == [0, 0, 1]
    everybody = hit_law([(0, None), (1, None)], **TINY)
    assert everybody.tolist() == [1, 0, 0]
    many = hit_law([(0, 1)], **TINY | {"clients_per_round": 10_000})
    assert many[0] == pytest.approx(1, abs=1e-12) and many[1:].max() < 1e-12
    rare = hit_law([(0, 1)], **TINY | {"n_clients": 10**6, "samples_per_client": 1000})
    assert rare[-1] == pytest.approx(1, abs=1e-8)


@pytest.mark.parametrize("changes", [{}, {"clients_per_round": 2}, {"local_steps": 2}])
@pytest.mark.parametrize("targets", [[(0, 1)], [(0, 0), (1, 1)], [(1, None)], [(0, 0), (1, None)]])
def test_the_law_against_all_histories(changes, targets):
    sizes = TINY | changes
    counted = [Fraction(0)] * (sizes["rounds"] + 1)
    for p, history in drawn_law(**sizes).values():
        uses = [history.first_use(*target) for target in targets]
        rounds = [use[0] if isinstance(use, tuple) else use for use in uses if use is not None]
        counted[min(rounds, default=sizes["rounds"])] += p
    assert hit_law(targets, **sizes) == pytest.approx([float(p) for p in counted], rel=1e-14)


def test_scores_of_a_path_by_hand():
    path = [0.1, 0.5, 0.4, 0.8]
    # Goal 0.45: reached after 1 round from 0, at once from 1, after 1 from 2, at once from 3.
    assert rounds_back(path, 0.45).tolist() == [1, 0, 1, 0]
    assert rounds_back(path, 0.9).tolist() == [3, 2, 1, 0]  # until recomputing is finished
    assert rounds_back([path, path], [0.45, 0.9]).tolist() == [[1, 0, 1, 0], [3, 2, 1, 0]]
    # Two rounds from each start; the last model stays.
    assert mean_after(path, 2) == pytest.approx([0.3, 0.45, 0.6, 0.8])
    assert mean_after(path, 1) == pytest.approx(path)
    law = [0.5, 0.25, 0.0, 0.25]
    assert expected(law, path) == pytest.approx(0.05 + 0.125 + 0.2)
    assert expected([0, 0, 0, 1], path) == 0.8  # nothing is hit: nothing falls


def test_huge_sizes_end_in_a_law():
    """2**62 slots wrapped around and gave a law of NaN; a batch of 2**30 never ended."""
    sizes = dict(n_clients=4, samples_per_client=6, clients_per_round=3, batch_size=2)
    sizes |= dict(local_steps=3, rounds=5)
    law = hit_law([(0, 1)], **sizes | dict(clients_per_round=2**62))
    assert law.tolist() == [1.0, 0, 0, 0, 0, 0]
    half = dict(samples_per_client=2**31 - 2, batch_size=2**30 - 1, local_steps=1)
    spared = slot_spared([(0, 0), (0, 1)], n_clients=1, **half)
    assert spared == pytest.approx(0.25, rel=1e-8)
