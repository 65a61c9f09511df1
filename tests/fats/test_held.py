"""Clients that are caches: drawing from what they held, and withholding a sample from training."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sflkit.fats.enumeration import drawn_law, forgotten_law, retrained_law, total_variation
from sflkit.fats.forgetting import RULES, forget_client, forget_sample
from sflkit.fats.history import Held, History, draw_batches, draw_history
from sflkit.fats.methods import FRS
from sflkit.registry import Rule
from tests.fats.fats_cases import sizes

# Client 0 holds a window of three samples that moves by one in every round, client 1 three samples.
WINDOWS = Held(np.array([0, 0, 0, 1, 2, 3, 0, 0, 0]), np.array([1, 2, 3, 4, 4, 4, 4, 4, 4]))


def draw(seed=0, held=WINDOWS, k=2, e=2, b=2, n=(6, 3)):
    given = sizes(k=k, e=e, r=4, n=list(n), b=b)
    return draw_history(**given, rng=np.random.default_rng(seed), held=held)


@given(seed=st.integers(0, 1000), k=st.integers(1, 3), e=st.integers(1, 3), n=st.integers(3, 6))
@settings(max_examples=25)
def test_a_cache_that_holds_everything_changes_no_bit(seed, k, e, n):
    """Drawing, and then forgetting by every rule, take the same numbers of the same generator."""
    given = sizes(k=k, e=e, r=3, m=3, n=n, b=2)
    all_of_it = Held(np.zeros(3 * n, dtype=int), np.full(3 * n, 3))
    plain, kept = (
        draw_history(**given, rng=np.random.default_rng(seed), held=h) for h in (None, all_of_it)
    )
    np.testing.assert_array_equal(plain.batches, kept.batches)
    for forget in (
        *(lambda h, rng, rule=rule: forget_sample(h, 0, 1, rng, rule) for rule in RULES),
        lambda h, rng: forget_client(h, 1, rng),
    ):
        one, two = (forget(h, np.random.default_rng(seed)) for h in (plain, kept))
        assert one.first == two.first
        np.testing.assert_array_equal(one.history.clients, two.history.clients)
        np.testing.assert_array_equal(one.history.batches, two.history.batches)


@given(seed=st.integers(0, 1000), sample=st.integers(0, 5), rule=st.sampled_from(list(RULES)))
@settings(max_examples=40)
def test_every_mini_batch_holds_what_its_client_held_then(seed, sample, rule):
    history = draw(seed)
    after, first = forget_sample(history, 0, sample, np.random.default_rng(seed), rule)
    for h, gone in ((history, None), (after, sample)):
        for r, slot in np.ndindex(h.clients.shape):
            held = {max(r, 0), r + 1, r + 2} - {gone} if h.clients[r, slot] == 0 else {0, 1, 2}
            assert set(h.batches[r, slot].ravel().tolist()) <= held
    assert first is None or first[0] <= sample <= first[0] + 2


@pytest.mark.parametrize("rule", ["exact", "minimal"])
@pytest.mark.parametrize("k, e", [(1, 1), (2, 1), (1, 2)])
def test_withholding_is_exact_given_what_was_held(k, e, rule):
    held = Held(np.array([0, 0, 1, 0]), np.array([1, 2, 2, 2]))  # {0, 1}, then {1, 2}; {0} twice
    given = sizes(k=k, e=e, r=2, n=[3, 1])
    for sample in range(3):
        law = drawn_law(**given, held=held)
        goal = retrained_law([(0, sample)], **given, held=held)
        assert total_variation(forgotten_law(law, (0, sample), rule), goal) == 0
    gone = retrained_law([(0, None)], **given, held=held)
    assert total_variation(forgotten_law(drawn_law(**given, held=held), (0, None)), gone) == 0


def test_what_does_not_fit_is_refused(monkeypatch):
    with pytest.raises(ValueError, match=r"client=0 would hold 3 samples in round 0.*batch_size=4"):
        draw(held=Held(np.append(WINDOWS.entered, 0), np.append(WINDOWS.left, 4)), b=4, n=(6, 4))
    with pytest.raises(ValueError, match="client=0 would hold 2 samples in round 2"):
        forget_sample(draw(b=3), 0, 4, np.random.default_rng(0))
    for bad in (Held([1], [0]), WINDOWS._replace(left=WINDOWS.left + 1)):
        with pytest.raises(ValueError, match="held must hold one number for each of 9 samples"):
            draw(held=bad)
    batches = np.array([[[[0]]], [[[0]]], [[[2]]], [[[3]]]])
    with pytest.raises(ValueError, match="sample=0 of client=0 in round 1"):
        History.of([[0]] * 4, batches, [6, 3], held=WINDOWS)
    with pytest.raises(ValueError, match="rounds=None"):
        draw_batches(draw(), np.zeros((2, 1), int), 1, np.random.default_rng(0))
    with pytest.raises(ValueError, match="held must be None for FedAvg"):
        FRS().repaired(draw(), np.random.default_rng(0))
    monkeypatch.setattr(RULES, "_rules", dict(RULES._rules))

    def all_samples(hit, rng):
        whole = replace(hit.left, held=None)
        return replace(hit.left, batches=draw_batches(whole, whole.clients, 2, rng))

    RULES.add("all_samples", Rule(all_samples, "all samples"))
    with pytest.raises(ValueError, match="did not hold then"):
        forget_sample(draw(), 0, 2, np.random.default_rng(1), "all_samples")
