"""FATS's sampling history: the law before and after forgetting to the fraction, what each rule may
touch, and what is refused.
"""

import itertools
import math
import re
import time
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sflkit.fats import enumeration
from sflkit.fats.enumeration import (
    drawn_law,
    forgotten_law,
    outcomes,
    printed_rule_distance,
    retrained_law,
    total_variation,
)
from sflkit.fats.forgetting import RULES, forget_client, forget_sample, forget_stream
from sflkit.fats.history import History, draw_batches, draw_clients, draw_history, subsets
from sflkit.fats.stability import plan, stability

TINY = list(itertools.product((1, 2), (1, 2), (1, 2)))  # K, E, R
# M, K, R, E, b, all samples: Table 2
TABLE_2 = [
    (300, 5, 30, 10, 10, 60_000),
    (300, 5, 50, 10, 10, 60_000),
    (600, 5, 50, 10, 10, 60_000),
    (600, 10, 50, 10, 10, 60_000),
    (3556, 5, 350, 20, 10, 811_586),
    (660, 20, 30, 100, 60, 3_678_451),
]


def sizes(k=1, e=1, r=1, m=2, n=2, b=1):
    return dict(
        n_clients=m,
        samples_per_client=n,
        clients_per_round=k,
        batch_size=b,
        local_steps=e,
        rounds=r,
    )


def distance(requests, rule="exact", **law):
    """TV of forgetting the requests one after another from learning on the rest; every law must add
    up to 1.
    """
    after = drawn(law)
    for request in requests:
        after = forgotten_law(after, request, rule)
        assert sum(p for p, _ in after.values()) == 1
    return total_variation(after, retrained_law(requests, **law))


LAWS = {}


def drawn(setting):
    """The law of drawing, enumerated once for each setting."""
    key = str(setting)
    if key not in LAWS:
        LAWS[key] = drawn_law(**setting)
        assert sum(p for p, _ in LAWS[key].values()) == 1
    return LAWS[key]


def printed_reference(m, n, b, k, e, r):
    """The printed rule's TV by hand (ERRATA 13): half the mean of |sum over rounds| over the slots
    n_r ~ Binomial(K, 1/M).
    """
    a, unhit = 1 - Fraction(b, n), (1 - Fraction(b, n * m)) ** k
    weights = [
        math.comb(k, i) * Fraction(1, m) ** i * (1 - Fraction(1, m)) ** (k - i)
        for i in range(k + 1)
    ]
    total = Fraction(0)
    for slots in itertools.product(range(k + 1), repeat=r):
        excess = sum(a ** (e * sum(slots[:i])) * (a ** slots[i] - unhit) for i in range(r))
        total += math.prod(weights[i] for i in slots) * abs(excess)
    return total / 2


# the law of drawing


def test_outcomes_are_all_and_add_up():
    law = {}
    for result, p in outcomes(lambda rng: tuple(rng.integers([2, 3])) + (int(rng.integers(5, 6)),)):
        law[result] = law.get(result, 0) + p
    assert law == {(i, j, 5): Fraction(1, 6) for i in range(2) for j in range(3)}
    with pytest.raises(NotImplementedError, match="random"):
        list(outcomes(lambda rng: rng.random()))


def test_too_many_outcomes_stop(monkeypatch):
    monkeypatch.setattr(enumeration, "MAX_OUTCOMES", 7)
    with pytest.raises(ValueError, match="more than 7"):
        list(outcomes(lambda rng: rng.integers(8)))
    assert len(list(outcomes(lambda rng: rng.integers(7)))) == 7


@pytest.mark.parametrize(("size", "n"), [(1, 1), (3, 1), (3, 2), (4, 3), (4, 4), (5, 2)])
def test_subsets_are_uniform(size, n):
    law = {}
    for picks, p in outcomes(lambda rng: subsets(np.array([size]), n, rng)):
        law[tuple(picks[0])] = law.get(tuple(picks[0]), 0) + p
    assert law == dict.fromkeys(
        itertools.combinations(range(size), n), Fraction(1, math.comb(size, n))
    )


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


# the law after forgetting


@pytest.mark.parametrize(("k", "e", "r"), TINY)
@pytest.mark.parametrize("rule", ["exact", "minimal"])
def test_forgetting_a_sample_is_exact(k, e, r, rule):
    assert distance([(0, 1)], rule, **sizes(k, e, r)) == 0


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


@pytest.mark.parametrize("rule", ["exact", "minimal"])
@pytest.mark.parametrize(
    ("k", "e", "r"), [case for case in TINY if case not in ((2, 2, 2), (2, 1, 2))]
)
def test_two_deletions_in_a_row_are_exact(k, e, r, rule):
    assert distance([(0, 0), (0, 2)], rule, **sizes(k, e, r, n=3)) == 0
    assert distance([(0, 0), (1, 1)], rule, **sizes(k, e, r)) == 0


@pytest.mark.parametrize("rule", ["exact", "minimal"])
def test_two_deletions_in_a_row_two_slots_two_rounds(rule):
    assert distance([(0, 0), (1, 1)], rule, **sizes(2, 1, 2)) == 0
    assert distance([(0, 0), (1, 1)], rule, **sizes(2, 2, 2)) == 0


@pytest.mark.parametrize("rule", ["exact", "minimal"])
def test_samples_and_clients_in_a_row_are_exact(rule):
    assert distance([(0, 0), (2, None)], rule, **sizes(1, 1, 2, m=3)) == 0
    assert distance([(2, None), (0, 0)], rule, **sizes(2, 1, 1, m=3)) == 0
    assert (
        distance([(0, 0), (0, None)], rule, **sizes(1, 2, 1, m=2)) == 0
    )  # the samples, then the client that had them
    assert distance([(0, None), (2, None)], rule, **sizes(2, 1, 2, m=3, n=1)) == 0
    assert distance([(1, 2), (0, 0)], rule, **sizes(2, 1, 1, n=[2, 4], b=1)) == 0
    assert distance([(1, 2), (1, 0)], rule, **sizes(1, 1, 2, n=[2, 4], b=2)) == 0


@pytest.mark.parametrize("rule", ["exact", "minimal"])
@pytest.mark.parametrize(("client", "sample", "setting"), [
    (0, [0, 2], sizes(2, 1, 1, n=3)),
    ([0, 1], [0, 1], sizes(2, 2, 1)),
    ([0, 1], [0, 0], sizes(1, 1, 2)),
    (1, [1, 3], sizes(1, 2, 1, n=[2, 4], b=2)),
])  # fmt: skip
def test_several_samples_at_once_are_exact(client, sample, setting, rule):
    single = [(k, s) for k, s in zip(np.broadcast_to(client, np.shape(sample)).tolist(), sample)]
    after = forgotten_law(drawn(setting), (client, sample), rule)
    assert total_variation(after, retrained_law(single, **setting)) == 0


def test_several_clients_at_once_are_exact():
    after = forgotten_law(drawn(sizes(2, 1, 2, m=3, n=1)), ([0, 2], None))
    assert (
        total_variation(after, retrained_law([(0, None), (2, None)], **sizes(2, 1, 2, m=3, n=1)))
        == 0
    )


@pytest.mark.parametrize("steps_done", range(5))
def test_a_request_during_the_run_is_exact(steps_done):
    setting = sizes(1, 2, 2)
    law, goal = drawn(setting), retrained_law([(0, 0)], **setting)
    for rule in ("exact", "minimal"):
        assert total_variation(forgotten_law(law, (0, 0, steps_done), rule), goal) == 0
    # before the first step nothing has run, so the printed rule is exact; once a round has begun it
    # draws that one's clients again after a hit: printed_reference gives 1/8 for R = 1 as for R = 2
    printed = total_variation(forgotten_law(law, (0, 0, steps_done), "printed"), goal)
    assert printed == (0 if steps_done == 0 else Fraction(1, 8))
    clients = forgotten_law(law, (1, None, steps_done))
    assert total_variation(clients, retrained_law([(1, None)], **setting)) == 0


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


def serve(history, request, rng, rule="exact"):
    client, sample, *steps_done = request
    done = steps_done[0] if steps_done else None
    if sample is None:
        return forget_client(history, client, rng, steps_done=done)
    return forget_sample(history, client, sample, rng, rule, steps_done=done)


def variant(setting, change):
    """TV of a rule that this test makes up, for forgetting sample 0 of client 0: change(history,
    hit rounds, rng) -> draws.
    """
    law, base = {}, drawn(setting)
    for p, history in base.values():
        hits = np.flatnonzero(
            ((history.batches == 0).any(axis=(2, 3)) & (history.clients == 0)).any(axis=1)
        )
        unused = np.broadcast_to(
            np.arange(history.batch_size), history.batches.shape
        )  # by client 1, so that nothing is hit
        blank = History.of(np.ones_like(history.clients), unused, history.samples_per_client, {(0, 0)})

        def run(rng, history=history, hits=hits, blank=blank):
            return (
                change(history, hits, blank, rng)
                if len(hits)
                else (history.clients, history.batches)
            )

        for (clients, batches), q in outcomes(run):
            key = clients.tobytes(), batches.tobytes()
            law[key] = (law.get(key, (0,))[0] + p * q, None)
    assert sum(p for p, _ in law.values()) == 1
    return total_variation(law, retrained_law([(0, 0)], **setting))


def redraw(history, hits, blank, rng, rounds):
    clients, batches = history.clients.copy(), history.batches.copy()
    clients[rounds] = draw_clients(blank.crowd, clients[rounds].shape, rng)
    batches[rounds] = draw_batches(blank.crowd, clients[rounds], *batches.shape[2:], rng)
    return clients, batches


def test_other_readings_of_the_paper_are_not_exact():
    # ERRATA 14: the coupling of Claim 2 redraws clients and mini-batches of each hit round and of
    # no other
    def coupling(history, hits, blank, rng):
        return redraw(history, hits, blank, rng, hits)

    values = [variant(sizes(1, e, r), coupling) for e, r in ((1, 1), (1, 2), (2, 1), (2, 2))]
    assert values == [Fraction(1, 8), Fraction(9, 64), Fraction(3, 16), Fraction(57, 256)]
    assert variant(sizes(1, 1, 2, m=3, n=3, b=2), coupling) == Fraction(160, 729)

    # ERRATA 15: the low-memory variant of Section 5.3.2 draws everything again on a hit
    def restart(history, hits, blank, rng):
        return redraw(history, hits, blank, rng, slice(None))

    values = [variant(sizes(1, e, r), restart) for e, r in ((1, 1), (1, 2), (2, 1), (2, 2))]
    assert values == [Fraction(1, 8), Fraction(7, 64), Fraction(3, 16), Fraction(39, 256)]

    # and with the same clients it is exact, as ERRATA 15 advises
    def same_clients(history, hits, blank, rng):
        return history.clients, draw_batches(
            blank.crowd, history.clients, *history.batches.shape[2:], rng
        )

    assert [variant(sizes(k, e, 2), same_clients) for k, e in ((1, 1), (1, 2), (2, 1))] == [0, 0, 0]


@pytest.mark.parametrize(
    ("row", "value"), list(zip(TABLE_2, (0.015, 0.018, 0.0275, 0.036, 0.013, 0.004)))
)
def test_printed_rule_at_the_papers_sizes(row, value):
    # ERRATA 13, to its digits
    m, k, r, e, b, n = row
    estimate = printed_rule_distance(
        **sizes(k, e, r, m, n / m, b), repeats=4000, rng=np.random.default_rng(1)
    )
    assert (
        estimate.value == pytest.approx(value, abs=5e-4 + 4 * estimate.error)
        and estimate.error < 3e-4
    )


@pytest.mark.parametrize(("k", "e", "r"), [(1, 1, 1), (2, 1, 2), (2, 2, 2)])
def test_printed_rule_distance_against_the_exact_sum(k, e, r):
    estimate = printed_rule_distance(**sizes(k, e, r, m=3, n=4, b=2), rng=np.random.default_rng(2))
    assert abs(estimate.value - printed_reference(3, 4, 2, k, e, r)) < 4 * estimate.error


# stability and plans


def test_stability_by_hand():
    # M = N = K = 2, b = E = R = 1: a slot hits with 1/2 * 1/2, so 1 - (3/4)^2 = 7/16 (ERRATA 19);
    # client 1 - (1/2)^2
    assert stability(**sizes(2)) == pytest.approx((1 / 2, 1, 7 / 16, 3 / 4))
    # E = 2, R = 2, K = 1, N = 4, b = 1, M = 2: a slot hits with (1 - 9/16)/2 = 7/32
    assert stability(**sizes(1, 2, 2, n=4)) == pytest.approx((4 / 8, 1, 1 - (25 / 32) ** 2, 3 / 4))
    assert stability(**sizes(1, 1, 3, m=1, n=3, b=3)) == (
        3,
        3,
        1,
        1,
    )  # one client, full batches: certain


@pytest.mark.parametrize(
    "setting",
    [sizes(*case) for case in TINY[:-1]] + [sizes(1, 2, 1, n=3, b=2), sizes(2, 1, 1, m=3)],
)
def test_lemma1_distance_is_the_involvement_probability(setting):
    # ERRATA 20: TV of learning with and without a sample or a client is the chance that it was
    # used, at most rho
    law, result = drawn(setting), stability(**setting)
    for request, exact, bound in (
        ((0, 0), result.p_sample, result.rho_s),
        ((0, None), result.p_client, result.rho_c),
    ):
        used = sum(p for p, history in law.values() if history.first_use(*request) is not None)
        assert total_variation(law, retrained_law([request], **setting)) == used
        assert float(used) == pytest.approx(exact) and exact <= bound + 1e-12


def test_stability_of_table_2():
    rho_c, p_client = (
        (0.5, 0.833, 0.417, 0.833, 0.492, 0.909),
        (0.394, 0.566, 0.341, 0.566, 0.389, 0.597),
    )
    rho_s, p_sample = (
        (0.25, 0.417, 0.417, 0.833, 0.431, 0.979),
        (0.182, 0.284, 0.238, 0.419, 0.253, 0.452),
    )
    results = [stability(**sizes(k, e, r, m, n / m, b)) for m, k, r, e, b, n in TABLE_2]
    for field, printed in (
        ("rho_c", rho_c),
        ("p_client", p_client),
        ("rho_s", rho_s),
        ("p_sample", p_sample),
    ):
        np.testing.assert_allclose(
            [getattr(result, field) for result in results], printed, atol=5.1e-4
        )
    # ERRATA 19, 20: one batch sequence for a client drawn twice would lower p_sample a little
    one = [
        1 - (1 - (1 - (1 - 1 / m) ** k) * (1 - (1 - b * m / n) ** e)) ** r
        for m, k, r, e, b, n in TABLE_2
    ]
    np.testing.assert_allclose(one, (0.1812, 0.2834, 0.2375, 0.4182, 0.2526, 0.4503), atol=5.1e-5)
    assert all(low < result.p_sample for low, result in zip(one, results))


def test_stability_per_client():
    # ERRATA 21: bKT/(M N_k) = 10 * 5 * 300 / (300 N_k) = 50 / N_k: 1, 1/4, 1/12 for 50, 200, 600
    # samples
    each = np.tile([50, 200, 600], 100)
    result = stability(**sizes(5, 10, 30, m=300, n=each, b=10))
    np.testing.assert_allclose(result.rho_s[:3], [1, 0.25, 1 / 12])
    assert (
        result.p_sample.shape == (300,)
        and (result.p_sample <= result.rho_s).all()
        and isinstance(result.p_client, float)
    )
    with pytest.raises(ValueError, match="50"):
        stability(**sizes(m=300, n=each, b=51))


def test_recompute_rate_is_the_exact_one():
    # each history says of every sample and client whether forgetting it would recompute; MNIST's
    # sizes, 40 histories
    setting, rng = sizes(5, 10, 30, 300, 200, 10), np.random.default_rng(3)
    histories = [draw_history(**setting, rng=rng) for _ in range(40)]
    exact = stability(**setting)
    for rates, p in (
        ([(h.draws.first_steps < h.steps).mean() for h in histories], exact.p_sample),
        ([(h.first_round < h.rounds).mean() for h in histories], exact.p_client),
    ):
        error = np.std(rates, ddof=1) / math.sqrt(len(rates))
        assert abs(np.mean(rates) - p) < 4 * error and error < 0.005
    # and forgetting agrees with the look-up
    h = histories[0]
    for k in range(0, 300, 7):
        assert (forget_sample(h, k, 5, rng).first is None) is (h.first_step(k, 5) == h.steps)


def test_plan_by_hand():
    # M = 40, R = 4, E = 5, N = 100: K = floor(0.5 * 40/4) = 5, b = floor(0.3 * 4000/(5 * 20)) = 12
    assert plan(
        rho_s=0.3, rho_c=0.5, n_clients=40, samples_per_client=100, local_steps=5, rounds=4
    ) == (5, 12, 0.3, 0.5)
    assert plan(
        rho_s=0.299, rho_c=0.599, n_clients=40, samples_per_client=100, local_steps=5, rounds=4
    )[:2] == (5, 11)
    # ERRATA 22: M = 20, R = 2, E = 5, N = 10 asked for (0.05, 0.05): K = 0.5 rounds up to 1, b =
    # rho_S N / (rho_C E) = 2, which has (0.1, 0.1); down, K = 0 and the nearest plan is K = 1, b =
    # floor(0.05 * 200 / 10) = 1
    nearest = stability(**sizes(1, 5, 2, m=20, n=10, b=2))
    assert (nearest.rho_s, nearest.rho_c) == (0.1, 0.1)
    with pytest.raises(
        ValueError,
        match=r"rho_c=0\.05 .* is rho_s=0\.05, rho_c=0\.1 \(clients_per_round=1, batch_size=1\)",
    ):
        plan(rho_s=0.05, rho_c=0.05, n_clients=20, samples_per_client=10, local_steps=5, rounds=2)
    # M = 40, R = 1: 0.02 * 40 = 0.8 clients; the least is 1/40
    with pytest.raises(ValueError, match=r"rho_c=0\.02 .*rho_c=0\.025 "):
        plan(rho_s=0.5, rho_c=0.02, n_clients=40, samples_per_client=100, local_steps=1, rounds=1)
    # T = 10, M N = 700: K = 1, b = 28 has (0.4, 0.2), off by 0.6 + 0.1233; K = 2, b = 28 has (0.8,
    # 0.4), off by 0.2 + 0.3233; K = 3, b = 23 has (0.9857, 0.6), off by 0.0143 + 0.5233: a larger K
    # than asked can be nearer
    with pytest.raises(
        ValueError, match=r"is rho_s=0\.8, rho_c=0\.4 \(clients_per_round=2, batch_size=28\)"
    ):
        plan(rho_s=1, rho_c=0.0767, n_clients=25, samples_per_client=28, local_steps=2, rounds=5)
    # T = 51, M N = 476: b = 1 has 0.107, off by 0.093, b = 2 has 0.214, off by 0.014, both with K =
    # 1
    with pytest.raises(ValueError, match=r"\(clients_per_round=1, batch_size=2\)"):
        plan(rho_s=0.2, rho_c=0.6, n_clients=28, samples_per_client=17, local_steps=3, rounds=17)
    # 29/100 is not representable: 0.29 * 100 = 28.999999999999996, yet 29 clients keep the promise
    assert (
        plan(
            rho_s=1, rho_c=0.29, n_clients=100, samples_per_client=29, local_steps=1, rounds=1
        ).clients_per_round
        == 29
    )
    # a mini-batch is never larger than a client
    assert plan(
        rho_s=1, rho_c=0.1, n_clients=10, samples_per_client=7, local_steps=1, rounds=1
    ) == (1, 7, 0.1, 0.1)
    # the smallest client counts: b = floor(0.5 * 2 * 20 / (1 * 4)) = 5
    assert (
        plan(
            rho_s=0.5, rho_c=1, n_clients=2, samples_per_client=[20, 99], local_steps=2, rounds=2
        ).batch_size
        == 5
    )


@pytest.mark.parametrize("row", TABLE_2)
def test_plan_finds_table_2(row):
    m, k, r, e, b, n = row
    result = stability(**sizes(k, e, r, m, n / m, b))
    ask = dict(n_clients=m, samples_per_client=n / m, local_steps=e, rounds=r)
    assert plan(rho_s=result.rho_s, rho_c=result.rho_c, **ask) == (k, b, result.rho_s, result.rho_c)


def assert_none_is_nearer(named, rho_s, rho_c, m, n, e, r):
    """Of all pairs K, b whose stabilities are at most 1, none is nearer to what was asked than
    `named`.
    """
    k, b = np.meshgrid(np.arange(1, m // r + 1), np.arange(1, n + 1))
    got_s, got_c = b * k * e * r / (m * n), k * r / m
    distance = (abs(got_s - rho_s) + abs(got_c - rho_c))[got_s <= 1]
    assert max(named) <= 1 and abs(named[0] - rho_s) + abs(named[1] - rho_c) == pytest.approx(
        distance.min(), abs=1e-12
    )


@settings(max_examples=150, deadline=None)
@given(
    st.floats(0.001, 1), st.floats(0.001, 1), *(st.integers(1, most) for most in (60, 40, 6, 12))
)
def test_plan_keeps_its_promise_or_names_one_that_it_can_keep(rho_s, rho_c, m, n, e, r):
    ask = dict(n_clients=m, samples_per_client=n, local_steps=e, rounds=r)
    try:
        k, b, got_s, got_c = plan(rho_s=rho_s, rho_c=rho_c, **ask)
    except ValueError as refused:
        assert repr(rho_s) in str(refused) and repr(rho_c) in str(refused)
        near = re.search(
            r"is rho_s=(\S+), rho_c=(\S+) \(clients_per_round=(\d+), batch_size=(\d+)\)",
            str(refused),
        )
        if near is None:
            assert r > m or r * e > m * n
        else:
            named = float(near[1]), float(near[2])
            assert plan(rho_s=named[0], rho_c=named[1], **ask) == (
                int(near[3]),
                int(near[4]),
                *named,
            )
            assert_none_is_nearer(named, rho_s, rho_c, m, n, e, r)
        return
    result = stability(**sizes(k, e, r, m, n, b))
    assert (got_s, got_c) == (result.rho_s, result.rho_c) and got_s <= rho_s and got_c <= rho_c
    assert stability(**sizes(k + 1, e, r, m, n, 1)).rho_c > rho_c
    assert b == n or stability(**sizes(k, e, r, m, n, b + 1)).rho_s > rho_s
    assert plan(rho_s=got_s, rho_c=got_c, **ask) == (k, b, got_s, got_c)


def test_the_nearest_plan_by_brute_force():
    # asked for so little that K or b would be 0 nearly always
    rng, refused = np.random.default_rng(5), 0
    for _ in range(400):
        m, n, e, r = (int(rng.integers(1, most)) for most in (60, 40, 6, 12))
        rho_s, rho_c = (float(x) for x in rng.choice([0.01, 0.1, 1], 2) * rng.random(2))
        try:
            plan(
                rho_s=rho_s, rho_c=rho_c, n_clients=m, samples_per_client=n, local_steps=e, rounds=r
            )
        except ValueError as error:
            near = re.search(
                r"is rho_s=(\S+), rho_c=(\S+) \(clients_per_round=(\d+), batch_size=(\d+)\)",
                str(error),
            )
            assert (near is None) == (r > m or r * e > m * n)
            if near:
                refused += 1
                assert_none_is_nearer((float(near[1]), float(near[2])), rho_s, rho_c, m, n, e, r)
                assert stability(**sizes(int(near[3]), e, r, m, n, int(near[4])))[:2] == (
                    float(near[1]),
                    float(near[2]),
                )
    assert refused > 200


def test_stabilities_out_of_range_name_the_value_and_the_nearest_plan():
    ask = dict(
        n_clients=40, samples_per_client=100, local_steps=5, rounds=4
    )  # rho_C = K/10, rho_S = b K/200
    for rho_s, rho_c, bad, near in (
        (1.5, 0.5, r"rho_s=1\.5 must be above 0 and at most 1", (1.0, 0.5, 5, 40)),  # as 1
        (0.3, -2.0, r"rho_c=-2\.0 must be above 0 and at most 1", (0.3, 0.1, 1, 60)),  # as 0
        (
            0.0,
            1.01,
            r"rho_s=0\.0 must.*; rho_c=1\.01 must",
            (0.05, 1.0, 10, 1),
        ),  # (0, 1): K = 10, b = 1 is off by 0.05
    ):
        with pytest.raises(ValueError, match=bad) as refused:
            plan(rho_s=rho_s, rho_c=rho_c, **ask)
        assert "is rho_s={!r}, rho_c={!r} (clients_per_round={}, batch_size={})".format(
            *near
        ) in str(refused.value)
    with pytest.raises(ValueError, match=r"rho_s=2\.0 .*no plan is feasible"):
        plan(rho_s=2.0, rho_c=0.5, n_clients=3, samples_per_client=100, local_steps=1, rounds=4)


@pytest.mark.parametrize("change", [
    dict(rho_s=0), dict(rho_c=0), dict(rho_s=1.01), dict(rho_c=1.01), dict(rho_s=math.nan), dict(n_clients=0), dict(rounds=0),
    dict(samples_per_client=0), dict(local_steps=1.5), dict(samples_per_client=[3, 4]),
])  # fmt: skip
def test_bad_plans(change):
    with pytest.raises(ValueError, match=next(iter(change))):
        plan(
            **{
                **dict(
                    rho_s=0.5,
                    rho_c=0.5,
                    n_clients=40,
                    samples_per_client=100,
                    local_steps=5,
                    rounds=4,
                ),
                **change,
            }
        )


def test_no_plan_at_all():
    with pytest.raises(ValueError, match="rounds must be at most 3"):
        plan(rho_s=1, rho_c=1, n_clients=3, samples_per_client=100, local_steps=1, rounds=4)
    with pytest.raises(ValueError, match="at most 8"):
        plan(rho_s=1, rho_c=1, n_clients=4, samples_per_client=2, local_steps=3, rounds=4)


# what each rule may touch


def small():
    """Two rounds of three slots, two steps, b = 2; sample 1 of client 0 is first used in round 0,
    step 1, by slot 1.
    """
    clients = [[0, 0, 1], [0, 1, 2]]
    batches = [
        [[[0, 2], [0, 3]], [[2, 4], [1, 2]], [[0, 1], [1, 2]]],
        [[[1, 3], [0, 1]], [[2, 3], [0, 4]], [[0, 1], [0, 1]]],
    ]
    return History.of(clients, batches, [6, 5, 5])


def test_first_use_by_hand():
    h = small()
    assert (h.first_use(0, 1), h.first_use(0, 3), h.first_use(1, 3), h.first_use(1, 4), h.first_use(0, 5)) == (
        (0, 1), (0, 1), (1, 0), (1, 1), None,
    )  # fmt: skip
    assert (h.first_use(0), h.first_use(1), h.first_use(2)) == (0, 0, 1)
    assert (h.n_clients, h.rounds, h.clients_per_round, h.local_steps, h.batch_size, h.steps) == (
        3,
        2,
        3,
        2,
        2,
        4,
    )


def test_exact_rule_by_hand():
    h, seen = small(), set()
    for seed in range(40):
        after, first = forget_sample(h, 0, 1, np.random.default_rng(seed))
        assert first == (0, 1)
        np.testing.assert_array_equal(
            after.clients[0], h.clients[0]
        )  # ERRATA 13: the affected round keeps its clients
        np.testing.assert_array_equal(
            after.batches[0, :, 0], h.batches[0, :, 0]
        )  # before the hit nothing moves
        np.testing.assert_array_equal(
            after.batches[0, 2], h.batches[0, 2]
        )  # nor do other clients' slots
        seen |= {
            ("slot 0", *after.batches[0, 0, 1]),
            ("slot 1", *after.batches[0, 1, 1]),
            ("round 1", *after.clients[1]),
        }
        assert after.remaining(0).tolist() == [0, 2, 3, 4, 5] and after.samples_left.tolist() == [
            5,
            5,
            5,
        ]
    # all 10 pairs of the five samples left turn up in both slots of the client, and many client
    # triples in the later round
    assert (
        sum(name == "slot 0" for name, *_ in seen) > 8 < sum(name == "slot 1" for name, *_ in seen)
    )
    assert sum(name == "round 1" for name, *_ in seen) > 15


def test_minimal_rule_by_hand():
    h = small()
    after, first = forget_sample(h, 0, 1, np.random.default_rng(0), "minimal")
    assert first == (0, 1)
    np.testing.assert_array_equal(after.clients, h.clients)
    changed = (after.batches != h.batches).any(axis=-1)
    assert np.argwhere(changed).tolist() == [[0, 1, 1], [1, 0, 0], [1, 0, 1]]
    for at, kept in (
        ((0, 1, 1), 2),
        ((1, 0, 0), 3),
        ((1, 0, 1), 0),
    ):  # the partner of sample 1 stays
        assert kept in after.batches[at] and 1 not in after.batches[at]


def test_printed_rule_by_hand():
    h = small()
    after, first = forget_sample(
        h, 0, 1, np.random.default_rng(0), "printed"
    )  # hit in mid-round: the round's clients stay
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


@settings(max_examples=120, deadline=None)
@given(settings_and_requests())
def test_properties_of_every_rule(case):
    setting, items, seed, rule = case
    history = draw_history(**setting, rng=np.random.default_rng(seed))
    rng = np.random.default_rng(seed)
    for client, sample in items:
        before, copies = (
            history,
            (history.clients.copy(), history.batches.copy(), history.forgotten),
        )
        state = rng.bit_generator.state
        history, first = serve(before, (client, sample), rng, rule)
        np.testing.assert_array_equal(before.clients, copies[0])  # the input is untouched
        np.testing.assert_array_equal(before.batches, copies[1])
        assert before.forgotten == copies[2] and history.forgotten == before.forgotten | {
            (client, sample)
        }
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
        np.testing.assert_array_equal(again.draws.first_steps, history.draws.first_steps)
        np.testing.assert_array_equal(again.first_round, history.first_round)
    for k in range(history.n_clients):
        assert len(history.remaining(k)) == history.samples_left[k]
    start = draw_history(**setting, rng=np.random.default_rng(seed))
    once, firsts = forget_stream(start, items, np.random.default_rng(seed), rule)
    np.testing.assert_array_equal(
        once.batches, history.batches
    )  # the same seed gives the same answer, as a stream too
    np.testing.assert_array_equal(once.clients, history.clients)
    assert len(firsts) == len(items) and once.forgotten == history.forgotten == set(items)


def test_an_empty_request_changes_nothing():
    h, rng = small(), np.random.default_rng(0)
    for after, first in (
        forget_sample(h, [], [], rng),
        forget_sample(h, 0, [], rng, "printed"),
        forget_client(h, [], rng),
    ):
        assert first is None and after.forgotten == frozenset() and after.batches is h.batches
    assert forget_stream(h, [], rng) == (h, ())


# what is refused


@pytest.mark.parametrize(("call", "words"), [
    (lambda h, rng: forget_sample(h, 0, 1, rng), "sample=1 of client=0 is forgotten already"),
    (lambda h, rng: forget_sample(h, 2, 1, rng), "forgotten already, with its whole client"),
    (lambda h, rng: forget_client(h, 2, rng), "client=2 is forgotten already"),
    (lambda h, rng: forget_client(h, [0, 0], rng), "named twice"),
    (lambda h, rng: forget_sample(h, 0, [2, 2], rng), "named twice"),
    (lambda h, rng: forget_sample(h, 3, 0, rng), "client=3 .*<= 2"),
    (lambda h, rng: forget_sample(h, -1, 0, rng), "client=-1"),
    (lambda h, rng: forget_sample(h, 1, 5, rng), "sample=5 .*<= 4"),
    (lambda h, rng: forget_sample(h, 1, 0.5, rng), "sample=0.5"),
    (lambda h, rng: forget_sample(h, True, 0, rng), "client=True"),
    (lambda h, rng: forget_sample(h, 0, None, rng), "forget_client"),
    (lambda h, rng: forget_sample(h, [0, 1], [2, None], rng), "forget_client"),
    (lambda h, rng: forget_sample(h, [0, 1], [2, 3, 4], rng), "as many"),
    (lambda h, rng: forget_client(h, 3, rng), "client=3"),
    (lambda h, rng: forget_client(h, [0, 1], rng), "client=1 is the last one"),
    (lambda h, rng: forget_sample(h, 1, [0, 1, 2, 3], rng), "batch_size=2, so that at most 3 of its 5"),
    (lambda h, rng: forget_sample(h, 0, 2, rng, "exakt"), "'exakt' must be one of 'exact', 'printed', 'minimal'"),
    (lambda h, rng: forget_sample(h, 0, 2, 7), "rng=7"),
    (lambda h, rng: forget_sample(h, 0, 2, rng, steps_done=-1), "steps_done=-1"),
    (lambda h, rng: forget_stream(h, [(0, 2), (1, 3), (0, 2)], rng), "sample=2 of client=0 is forgotten already"),
    (lambda h, rng: forget_stream(h, [(0, 2), (0, None), (1, None)], rng), "client=1 is the last one"),
    (lambda h, rng: forget_stream(h, [(0, 2), 5], rng), "request=5"),
    (lambda h, rng: forget_stream(h, [(0, 2)], rng, "all"), "'all'"),
])  # fmt: skip
def test_refused_requests_leave_everything_as_it_was(call, words):
    rng = np.random.default_rng(0)
    history = forget_stream(small(), [(0, 1), (2, None)], rng).history
    before = (
        history.clients.copy(),
        history.batches.copy(),
        history.samples_left.copy(),
        history.forgotten,
    )
    state = rng.bit_generator.state
    with pytest.raises(ValueError, match=words):
        call(history, rng)
    assert rng.bit_generator.state == state and history.forgotten == before[3] == {
        (0, 1),
        (2, None),
    }
    for now, then in zip((history.clients, history.batches, history.samples_left), before):
        np.testing.assert_array_equal(now, then)


def test_histories_cannot_be_written_to():
    h = draw_history(**sizes(2, 2, 2), rng=np.random.default_rng(0))
    after = forget_client(h, 0, np.random.default_rng(0)).history
    for values in (
        h.clients,
        h.batches,
        h.samples_left,
        h.samples_per_client,
        after.clients,
        after.batches,
        after.samples_left,
    ):
        with pytest.raises(ValueError, match="read-only"):
            values[0] = 0
    with pytest.raises(AttributeError):
        h.forgotten = frozenset({(0, 0)})


@pytest.mark.parametrize("change", [
    dict(n_clients=0), dict(clients_per_round=0), dict(batch_size=0), dict(batch_size=3), dict(rounds=1.5),
    dict(local_steps=True), dict(samples_per_client=0), dict(samples_per_client=[2, 2, 2]), dict(samples_per_client=2.5),
    dict(rng=3),
])  # fmt: skip
def test_bad_sizes(change):
    with pytest.raises(ValueError, match=next(iter(change))):
        draw_history(**{**sizes(2, 2, 2), "rng": np.random.default_rng(0), **change})


def test_the_client_that_is_too_small_is_named():
    with pytest.raises(
        ValueError, match=r"batch_size=5 must be at most 4, the samples that client 1 has"
    ):
        draw_history(**sizes(n=[9, 4], b=5), rng=np.random.default_rng(0))


@pytest.mark.parametrize(("fields", "words"), [
    (([[0]], [[[0]]], [2]), "shapes"),
    (([[1]], [[[[0]]]], [2]), "0..0"),
    (([[0]], [[[[2]]]], [2]), "samples of its slot"),
    (([[0]], [[[[1, 0]]]], [2]), "ascending"),
    (([[0]], [[[[0, 0]]]], [2]), "none twice"),
    (([[0]], [[[[0]]]], [2], {(0, 0)}), "still in use"),
    (([[0]], [[[[0]]]], [2, 2], {(0, None)}), "still in use"),
    (([[0]], [[[[0]]]], [2], {(0, None)}), "must be left"),
    (([[0]], [[[[0, 1]]]], [3, 3], {(1, 0), (1, 1)}), "at least batch_size=2"),
    (([[0]], [[[[0]]]], [2], {(0, 2)}), "sample=2"),
])  # fmt: skip
def test_histories_that_cannot_be(fields, words):
    with pytest.raises(ValueError, match=words):
        History.of(*fields)


# speed


def test_speed_at_femnist_size():
    rng, setting = np.random.default_rng(0), sizes(5, 20, 350, 3556, 228, 10)
    draws, looks = [], []
    for _ in range(3):
        start = time.perf_counter()
        history = draw_history(**setting, rng=rng)
        draws.append(time.perf_counter() - start)
    unused = [k for k in range(3556) if history.first_use(k, 0) is None][:50]
    for k in unused:
        start = time.perf_counter()
        history, first = forget_sample(history, k, 0, rng)
        looks.append(time.perf_counter() - start)
        assert first is None
    assert min(draws) < 0.5 and np.median(looks) < 1e-3
