"""Enumeration: all outcomes and their probabilities, and the printed rule's distance."""

import itertools
from fractions import Fraction

import numpy as np
import pytest

from sflkit.fats import enumeration
from sflkit.fats.enumeration import (
    drawn_law,
    forgotten_law,
    outcomes,
    printed_rule_distance,
    restarted_law,
    retrained_law,
    total_variation,
)
from sflkit.fats.forgetting import RULES
from tests.fats.fats_cases import TABLE_2, drawn, printed_reference, serve, sizes


def test_outcomes_are_all_and_add_up():
    law = {}
    for result, p in outcomes(lambda rng: tuple(rng.integers([2, 3])) + (int(rng.integers(5, 6)),)):
        law[result] = law.get(result, 0) + p
    assert law == {(i, j, 5): Fraction(1, 6) for i in range(2) for j in range(3)}
    with pytest.raises(NotImplementedError, match="random"):
        list(outcomes(lambda rng: rng.random()))


def test_training_again_from_the_start_by_hand():
    """Two clients of two samples, one draw, one step, one sample: four histories of 1/4 each.

    Forgetting a_0 hits one of them. Drawn again from the start, its 1/4 goes to a_1 (1/8), b_0 and
    b_1 (1/16 each): client 0 has 1/4 + 1/8 = 3/8, but 1/2 after retraining, a distance of 1/8. With
    the client kept its 1/4 goes to a_1, which has 1/2 then: distance 0 (ERRATA 15).
    """
    law, goal = drawn_law(**sizes()), retrained_law([(0, 0)], **sizes())
    again = restarted_law(law, 0, 0)
    assert sorted(p for p, _ in again.values()) == [
        Fraction(*s) for s in ((5, 16), (5, 16), (3, 8))
    ]
    assert total_variation(again, goal) == Fraction(1, 8)
    assert total_variation(restarted_law(law, 0, 0, keep_clients=True), goal) == 0
    assert all(h.forgotten == {(0, 0)} for _, h in again.values())


@pytest.mark.parametrize(
    "k, e, r, n, printed",
    [
        (1, 1, 2, 2, (7, 64)),
        (1, 2, 1, 2, (3, 16)),
        (1, 2, 2, 2, (39, 256)),
        (2, 1, 1, 3, (11, 144)),
    ],
)
def test_training_again_with_the_same_clients_is_exact(k, e, r, n, printed):
    """With other clients one round is off by half the mean of |P(hit) - 1 + (1 - 1/N)^(E n)|.

    n ~ Binomial(K, 1/2) are the client's slots. With K = 2 and N = 3 the hit has 1 - (5/6)^2 =
    11/36, and the terms for n = 0, 1, 2 are 11, -1 and -9 times 1/36, on average 22/144.
    """
    setting = sizes(k=k, e=e, r=r, n=n)
    law = drawn_law(**setting)
    kept = restarted_law(law, 0, 0, keep_clients=True)
    assert sum(p for p, _ in kept.values()) == 1
    goal = retrained_law([(0, 0)], **setting)
    assert total_variation(retrained_law([(0, 0, 1)], **setting), goal) == 0  # at any time
    assert total_variation(kept, goal) == 0
    assert total_variation(restarted_law(law, 0, 0), goal) == Fraction(*printed)
    with pytest.raises(ValueError, match="sample"):
        restarted_law(law, 0, n)


def test_too_many_outcomes_stop(monkeypatch):
    monkeypatch.setattr(enumeration, "MAX_OUTCOMES", 7)
    with pytest.raises(ValueError, match="more than 7"):
        list(outcomes(lambda rng: rng.integers(8)))
    assert len(list(outcomes(lambda rng: rng.integers(7)))) == 7


def test_drawn_law_by_hand():
    # clients of 2 and 3 samples, b = 2: client 0 has one mini-batch, client 1 has three; 1/2 * 1 or
    # 1/2 * 1/3 a slot
    law = drawn_law(**sizes(k=2, n=[2, 3], b=2))
    slot = {(0, (0, 1)): Fraction(1, 2)} | {
        (1, batch): Fraction(1, 6) for batch in itertools.combinations(range(3), 2)
    }
    expected = {(x, y): p * q for (x, p), (y, q) in itertools.product(slot.items(), repeat=2)}
    ours = {
        tuple((int(c), tuple(map(int, b[0]))) for c, b in zip(h.clients[0], h.batches[0])): p
        for p, h in law.values()
    }
    assert ours == expected


@pytest.mark.parametrize("request_", [(0, 0), (1, None), (0, 1, 1)])
@pytest.mark.parametrize("rule", RULES)
def test_sharing_enumerations_changes_nothing(request_, rule):
    law, each = drawn(sizes(1, 2, 2)), {}
    for p, history in law.values():
        for (after, _), q in outcomes(lambda rng, h=history: serve(h, request_, rng, rule)):
            key = enumeration.history_key(after)
            each[key] = (each.get(key, (0, None))[0] + p * q, after)
    shared = forgotten_law(law, request_, rule)
    assert {key: p for key, (p, _) in each.items()} == {key: p for key, (p, _) in shared.items()}


@pytest.mark.parametrize(
    ("row", "value"), list(zip(TABLE_2, (0.015, 0.018, 0.0275, 0.036, 0.013, 0.004)))
)
def test_printed_rule_at_the_papers_sizes(row, value):
    # ERRATA 13, to its digits
    m, k, r, e, b, n = row
    estimate = printed_rule_distance(
        **sizes(k, e, r, m, n / m, b), repeats=4000, rng=np.random.default_rng(1)
    )
    assert estimate.value == pytest.approx(value, abs=5e-4 + 4 * estimate.error)
    assert estimate.error < 3e-4


@pytest.mark.parametrize(("k", "e", "r"), [(1, 1, 1), (2, 1, 2), (2, 2, 2)])
def test_printed_rule_distance_against_the_exact_sum(k, e, r):
    estimate = printed_rule_distance(**sizes(k, e, r, m=3, n=4, b=2), rng=np.random.default_rng(2))
    assert abs(estimate.value - printed_reference(3, 4, 2, k, e, r)) < 4 * estimate.error
