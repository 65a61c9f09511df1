"""FATS's sampling history: the law before and after forgetting to the fraction, what each rule may
touch, and what is refused.
"""

import itertools
from collections import Counter
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sflkit.fats.enumeration import (
    forgotten_law,
    retrained_law,
    total_variation,
)
from sflkit.fats.forgetting import EXACT, RULES, forget_client, forget_sample
from sflkit.fats.history import History, draw_batches, draw_clients, draw_history
from sflkit.registry import Rule
from tests.fats.fats_cases import TINY, drawn, printed_reference, serve, serve_all, sizes, small


def distance(requests, rule="exact", **law):
    """TV of forgetting the requests one after another from learning on the rest; every law must add
    up to 1.
    """
    after = drawn(law)
    for request in requests:
        after = forgotten_law(after, request, rule)
        assert sum(p for p, _ in after.values()) == 1
    return total_variation(after, retrained_law(requests, **law))


A, B, TWO = (0, 0), (0, 1), [(0, 0), (1, 1)]
SERVED = [([B], sizes(*case)) for case in TINY] + [(TWO, sizes(*case)) for case in TINY]
SERVED += [([A, (0, 2)], sizes(k, e, r, n=3)) for k, e, r in TINY if k < 2 or r < 2]
SERVED += [
    ([A, (2, None)], sizes(1, 1, 2, m=3)),
    ([(2, None), A], sizes(2, 1, 1, m=3)),
    ([A, (0, None)], sizes(1, 2, 1, m=2)),  # the samples, then the client that had them
    ([(0, None), (2, None)], sizes(2, 1, 2, m=3, n=1)),
    ([(1, 2), A], sizes(2, 1, 1, n=[2, 4], b=1)),
    ([(1, 2), (1, 0)], sizes(1, 1, 2, n=[2, 4], b=2)),
]


@pytest.mark.parametrize("rule", sorted(EXACT))
@pytest.mark.parametrize(("requests", "setting"), SERVED)
def test_forgetting_is_exact_one_after_another(requests, setting, rule):
    assert distance(requests, rule, **setting) == 0


@pytest.mark.parametrize(("k", "e", "r"), TINY)
def test_forgetting_a_client_is_exact(k, e, r):
    # ERRATA 17; b = 1 of 1 sample where 2 would be many outcomes
    assert distance([(1, None)], **sizes(k, e, r, m=3, n=1)) == 0
    if (k, e, r) != (2, 2, 2):
        assert distance([(1, None)], **sizes(k, e, r)) == 0


@pytest.mark.parametrize(("k", "e", "r"), [case for case in TINY if case != (2, 2, 2)])
def test_the_printed_rule_is_not(k, e, r):
    value = distance([(0, 1)], "printed", **sizes(k, e, r))
    assert value == printed_reference(2, 2, 1, k, e, r) > 0


def test_the_printed_rule_misses_by_what_errata_13_says():
    for e, r in itertools.product((1, 2), repeat=2):
        assert distance([(0, 0)], "printed", **sizes(1, e, r)) == Fraction(1, 8)
    assert distance([(0, 0)], "printed", **sizes(1, 1, 2, m=3, n=3, b=2)) == Fraction(16, 81)
    assert printed_reference(3, 3, 2, 1, 1, 2) == Fraction(16, 81)
    assert distance([(0, 0)], "printed", **sizes(2)) == Fraction(7, 64)
    assert distance([(0, 0), (0, 1)], "printed", **sizes(1, 1, 2, n=3)) == Fraction(19, 96)
    assert printed_reference(2, 2, 1, 2, 2, 2) == Fraction(59, 512)


@pytest.mark.parametrize("rule", sorted(EXACT))
@pytest.mark.parametrize(
    ("client", "sample", "setting"),
    [
        (0, [0, 2], sizes(2, 1, 1, n=3)),
        ([0, 1], [0, 1], sizes(2, 2, 1)),
        ([0, 1], [0, 0], sizes(1, 1, 2)),
        (1, [1, 3], sizes(1, 2, 1, n=[2, 4], b=2)),
    ],
)
def test_several_samples_at_once_are_exact(client, sample, setting, rule):
    single = [(k, s) for k, s in zip(np.broadcast_to(client, np.shape(sample)).tolist(), sample)]
    after = forgotten_law(drawn(setting), (client, sample), rule)
    assert total_variation(after, retrained_law(single, **setting)) == 0


def test_several_clients_at_once_are_exact():
    setting = sizes(2, 1, 2, m=3, n=1)
    after = forgotten_law(drawn(setting), ([0, 2], None))
    assert total_variation(after, retrained_law([(0, None), (2, None)], **setting)) == 0


@pytest.mark.parametrize("steps_done", range(5))
def test_a_request_during_the_run_is_exact(steps_done):
    setting = sizes(1, 2, 2)
    law, goal = drawn(setting), retrained_law([(0, 0)], **setting)
    for rule in EXACT:
        assert total_variation(forgotten_law(law, (0, 0, steps_done), rule), goal) == 0
    # before the first step nothing has run, so the printed rule is exact; once a round has begun it
    # draws that one's clients again after a hit: printed_reference gives 1/8 for R = 1 as for R = 2
    printed = total_variation(forgotten_law(law, (0, 0, steps_done), "printed"), goal)
    assert printed == (0 if steps_done == 0 else Fraction(1, 8))
    clients = forgotten_law(law, (1, None, steps_done))
    assert total_variation(clients, retrained_law([(1, None)], **setting)) == 0


def test_exact_rule_by_hand():
    h, seen = small(), set()
    for seed in range(40):
        after, first = forget_sample(h, 0, 1, np.random.default_rng(seed))
        assert first == (0, 1)
        # ERRATA 13: the affected round keeps its clients; before the hit nothing moves, nor do
        # other clients' slots
        assert np.array_equal(after.clients[0], h.clients[0])
        assert np.array_equal(after.batches[0, :, 0], h.batches[0, :, 0])
        assert np.array_equal(after.batches[0, 2], h.batches[0, 2])
        seen |= {(slot, *after.batches[0, slot, 1]) for slot in (0, 1)} | {(9, *after.clients[1])}
        assert after.remaining(0).tolist() == [0, 2, 3, 4, 5]
        assert after.samples_left.tolist() == [5, 5, 5]
    # all 10 pairs of the five samples left turn up in both slots of the client, and many client
    # triples in the later round
    counts = Counter(what for what, *_ in seen)
    assert counts[0] > 8 < counts[1] and counts[9] > 15


def test_minimal_rule_by_hand():
    h = small()
    after, first = forget_sample(h, 0, 1, np.random.default_rng(0), "minimal")
    assert first == (0, 1)
    np.testing.assert_array_equal(after.clients, h.clients)
    changed = (after.batches != h.batches).any(axis=-1)
    assert np.argwhere(changed).tolist() == [[0, 1, 1], [1, 0, 0], [1, 0, 1]]
    # the partner of sample 1 stays
    for at, kept in (((0, 1, 1), 2), ((1, 0, 0), 3), ((1, 0, 1), 0)):
        assert kept in after.batches[at] and 1 not in after.batches[at]


def test_claim_1s_operator_by_hand():
    """Of the seven mini-batches of client 0 the three with sample 1 are drawn anew, as a whole."""
    h, partners = small(), set()
    for seed in range(60):
        after, first = forget_sample(h, 0, 1, np.random.default_rng(seed), "claim1")
        assert first == (0, 1) and np.array_equal(after.clients, h.clients)
        new = (after.batches != h.batches).any(axis=-1)
        places = {(0, 1, 1), (1, 0, 0), (1, 0, 1)}
        assert set(map(tuple, np.argwhere(new).tolist())) == places
        partners.add(tuple(after.batches[0, 1, 1].tolist()))
    # any of the ten pairs of the five samples left, also those without the old partner 2
    assert partners == set(itertools.combinations((0, 2, 3, 4, 5), 2))


def test_printed_rule_by_hand():
    h = small()
    # hit in mid-round: the round's clients stay
    after, first = forget_sample(h, 0, 1, np.random.default_rng(0), "printed")
    assert first == (0, 1)
    np.testing.assert_array_equal(after.clients[0], h.clients[0])
    np.testing.assert_array_equal(after.batches[0, :, 0], h.batches[0, :, 0])
    rounds = {
        tuple(forget_sample(h, 0, 2, np.random.default_rng(seed), "printed").history.clients[0])
        for seed in range(40)
    }
    assert len(rounds) > 15  # sample 2 is used at a round's start: its clients are drawn again


def test_several_clients_hit_in_one_round_each_from_its_own_step_on():
    h = small()  # sample 4 of client 0 at (0, 0), slot 1; sample 2 of client 1 at (0, 1), slot 2
    after, first = forget_sample(h, [0, 1], [4, 2], np.random.default_rng(0))
    assert first == (0, 0)
    np.testing.assert_array_equal(after.batches[0, 2, 0], h.batches[0, 2, 0])
    assert not (after.batches[0, 1] == 4).any() and not (after.batches[0, 2] == 2).any()


def test_request_during_the_run_by_hand():
    h, rng = small(), np.random.default_rng(0)
    # sample 4 of client 1 is first used at step 3: known after 3 steps, it costs nothing; after 4
    # it does
    for done, first in ((0, None), (3, None), (4, (1, 1))):
        after, got = forget_sample(h, 1, 4, rng, steps_done=done)
        assert got == first and after.first_use(1, 4) is None
        np.testing.assert_array_equal(after.batches[:, :, 0], h.batches[:, :, 0])
    # client 2 is drawn in round 1 only, which has begun once 3 steps are done
    for done, first in ((2, None), (3, 1), (None, 1)):
        after, got = forget_client(h, 2, rng, steps_done=done)
        assert got == first and 2 not in after.clients
        np.testing.assert_array_equal(after.batches[0], h.batches[0])
    with pytest.raises(ValueError, match="steps_done=5"):
        forget_sample(h, 0, 1, rng, steps_done=5)


@st.composite
def settings_and_requests(draw):
    m, b = draw(st.integers(2, 5)), draw(st.integers(1, 3))
    each = draw(st.lists(st.integers(b + 2, b + 6), min_size=m, max_size=m))
    setting = dict(samples_per_client=each, n_clients=m, batch_size=b)
    setting |= {
        name: draw(st.integers(1, 4)) for name in ("clients_per_round", "local_steps", "rounds")
    }
    samples = [(k, s) for k in range(m) for s in range(2)]
    items = draw(st.lists(st.sampled_from(samples), max_size=5, unique=True))
    items += [(k, None) for k in draw(st.lists(st.integers(0, m - 2), max_size=1))]
    return setting, items, draw(st.integers(0, 2**32)), draw(st.sampled_from(list(RULES)))


@settings(max_examples=120)
@given(settings_and_requests())
def test_properties_of_every_rule(case):
    setting, items, seed, rule = case
    history = draw_history(**setting, rng=np.random.default_rng(seed))
    rng = np.random.default_rng(seed)
    for client, sample in items:
        before = history
        copies = history.clients.copy(), history.batches.copy(), history.forgotten
        state = rng.bit_generator.state
        history, first = serve(before, (client, sample), rng, rule)
        np.testing.assert_array_equal(before.clients, copies[0])  # the input is untouched
        np.testing.assert_array_equal(before.batches, copies[1])
        assert before.forgotten == copies[2]
        assert history.forgotten == before.forgotten | {(client, sample)}
        assert first == before.first_use(client, sample)
        start = history.rounds if first is None else first if sample is None else first[0]
        np.testing.assert_array_equal(history.batches[:start], before.batches[:start])
        np.testing.assert_array_equal(history.clients[:start], before.clients[:start])
        if first is None:
            assert rng.bit_generator.state == state  # nothing was drawn
        assert history.batches.shape == before.batches.shape  # ERRATA 45: K and b stay
        # whole and valid: the public constructor checks order, range and that nothing forgotten is
        # in use
        again = History.of(
            history.clients, history.batches, history.samples_per_client, history.forgotten
        )
        np.testing.assert_array_equal(again.samples_left, history.samples_left)
        np.testing.assert_array_equal(again.first, history.first)
    for k in range(history.n_clients):
        assert len(history.remaining(k)) == history.samples_left[k]
    assert history.forgotten == set(items)


def test_an_empty_request_changes_nothing():
    h, rng = small(), np.random.default_rng(0)
    for after, first in (
        forget_sample(h, [], [], rng),
        forget_sample(h, 0, [], rng, "printed"),
        forget_client(h, [], rng),
    ):
        assert first is None and after.forgotten == frozenset() and after.batches is h.batches


REFUSED = {  # of a history that has forgotten sample 1 of client 0, and client 2
    "sample=1 of client=0 is forgotten already": (0, 1),
    "forgotten already, with its whole client": (2, 1),
    "client=2 is forgotten already": (2, None),
    "named twice": ([0, 0], None),
    "client=3 .*<= 2": (3, 0),
    "forget_client": ([0, 1], [2, None]),
    "as many": ([0, 1], [2, 3, 4]),
    "at least one client must be left": ([0, 1], None),
    "client=1 would have 1 of its 5 samples left; .*at most 3": (1, [0, 1, 2, 3]),
}


@pytest.mark.parametrize("words", REFUSED)
def test_refused_requests_leave_everything_as_it_was(words):
    rng = np.random.default_rng(0)
    history, _ = serve_all(small(), [(0, 1), (2, None)], rng)
    before, state = (history.clients.copy(), history.batches.copy()), rng.bit_generator.state
    with pytest.raises(ValueError, match=words):
        serve(history, REFUSED[words], rng)
    assert rng.bit_generator.state == state and history.forgotten == {(0, 1), (2, None)}
    for now, then in zip((history.clients, history.batches), before):
        np.testing.assert_array_equal(now, then)
    with pytest.raises(ValueError, match="forget_client forgets a whole client"):
        forget_sample(history, 0, None, rng)


# rules of one's own


@pytest.fixture
def rules(monkeypatch):
    """The registry, as it was again after the test."""
    monkeypatch.setattr(RULES, "_rules", dict(RULES._rules))
    return RULES


def same_clients(hit, rng):
    """On a hit, keep all clients of the run and draw all mini-batches again (ERRATA 15)."""
    left = hit.left
    if hit.step == left.steps:
        return left
    return replace(left, batches=draw_batches(left, left.clients, left.local_steps, rng))


def test_a_rule_of_ones_own_is_enumerated_like_the_others(rules):
    rules.add("same_clients", Rule(same_clients, "all clients stay"))
    for setting in (sizes(1, 1, 2), sizes(2, 1, 1), sizes(1, 2, 1, n=3, b=2)):
        assert distance([(0, 1)], "same_clients", **setting) == 0


def coupling(hit, rng):
    """Draw clients and mini-batches of each hit round again, and of no other (ERRATA 14)."""
    left = hit.left
    clients, batches = left.clients.copy(), left.batches.copy()
    used = (clients == 0) & (batches == 0).any(axis=(2, 3))
    again = used.any(axis=1)
    clients[again] = draw_clients(left, clients[again].shape, rng)
    batches[again] = draw_batches(left, clients[again], left.local_steps, rng)
    return replace(left, clients=clients, batches=batches)


def test_the_coupling_in_the_proof_of_claim_2_is_not_exact(rules):
    rules.add("coupling", Rule(coupling, "hit rounds again"))
    settings = [sizes(1, e, r) for e, r in ((1, 1), (1, 2), (2, 1), (2, 2))]
    values = [distance([(0, 0)], "coupling", **setting) for setting in settings]
    assert values == [Fraction(1, 8), Fraction(9, 64), Fraction(3, 16), Fraction(57, 256)]
    several = sizes(1, 1, 2, m=3, n=3, b=2)
    assert distance([(0, 0)], "coupling", **several) == Fraction(160, 729)


def test_a_rule_that_does_not_forget_is_refused(rules):
    rules.add("lazy", Rule(lambda hit, rng: hit.left, "forgets nothing"))
    history, rng = small(), np.random.default_rng(0)
    with pytest.raises(ValueError, match=r"rule='lazy' must not leave \(client, sample\)=\(0, 1\)"):
        forget_sample(history, 0, 1, rng, "lazy")
    # what was never used needs no repair
    assert forget_sample(history, 0, 5, rng, "lazy").first is None


def test_masks_are_refused_and_an_index_means_nothing():
    """`forget_client` of a masked array forgot the client under the mask."""
    history, rng = small(), np.random.default_rng(0)
    masked = np.ma.array([0, 1], mask=[True, False])
    for call in (
        lambda: forget_client(history, masked, rng),
        lambda: forget_client(history, np.ma.masked, rng),
        lambda: forget_sample(history, masked, [2, 3], rng),
        lambda: forget_sample(history, 1, masked, rng),
    ):
        with pytest.raises(ValueError, match=r"(client|sample) has masked entries"):
            call()
    clients, samples = pd.Series([0, 1], index=[1, 0]), pd.Series([5, 3], index=[9, 8])
    after = forget_sample(history, clients, samples, rng).history
    assert after.forgotten == {(0, 5), (1, 3)}
    with pytest.raises(ValueError, match="client=9223372036854775813 must be"):
        forget_client(history, np.array([2**63 + 5], dtype=np.uint64), rng)
