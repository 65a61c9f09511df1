"""What every rule and network of every registry keeps: one list for all, your own rows included.

Caches hold what arrived, servers do not mind the order of their clients, forgetting leaves no
trace, and networks start from their seed and learn.
"""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from sflkit import models
from sflkit.fats import forgetting
from sflkit.fats.history import draw_history
from sflkit.federated import LocalWork, Task, evaluate, local_sgd, servers
from sflkit.osafl import rules
from sflkit.sfl import caches
from sflkit.sfl.clients import make_cache
from sflkit.sfl.config import SFLConfig

# --- cache rules ------------------------------------------------------------------------------


def cache_of(rule, capacity, batch_size):
    """A cache as the rule's row in the registry says; FULL aims at equal shares of four labels."""
    config = SFLConfig(rule=rule, capacity=capacity, batch_size=batch_size, train=False)
    return make_cache(config, np.full(4, 0.25))


@pytest.mark.parametrize("rule", sorted(caches.RULES))
@settings(max_examples=25)
@given(batch_size=st.integers(1, 12), data=st.data())
def test_a_cache_holds_what_arrived(rule, batch_size, data):
    capacity = batch_size * data.draw(st.integers(1, 5)) + data.draw(st.integers(0, 3))
    rounds = data.draw(st.lists(st.lists(st.integers(0, 3), max_size=batch_size), max_size=12))
    cache, again = (cache_of(rule, capacity, batch_size) for _ in range(2))
    rng, same = (np.random.default_rng(7) for _ in range(2))
    offered = {}
    for r, labels in enumerate(rounds):
        ids = np.arange(len(labels)) + 100 * r
        offered.update(zip(ids.tolist(), labels, strict=True))
        given_labels = np.array(labels, dtype=int)
        before = ids.copy(), given_labels.copy(), cache.ids
        cache.update(ids, given_labels, rng)
        again.update(ids.tolist(), labels, same)  # as lists
        assert (ids == before[0]).all() and (given_labels == before[1]).all()  # input untouched
        assert labels or cache.ids.tolist() == before[2].tolist()  # nothing came
        np.testing.assert_array_equal(cache.ids, again.ids)  # the same seed, the same cache
        held = cache.ids.tolist()
        assert len(cache) == len(held) == len(set(held)) <= capacity
        assert [offered[i] for i in held] == cache.labels.tolist()
        assert cache.label_counts(4).sum() == len(cache)
        if not rule.startswith("full"):  # all room is used
            assert len(cache) == min(capacity, len(offered))


@pytest.mark.parametrize("rule", caches.RULES)
def test_a_refused_round_leaves_the_cache(rule):
    rng = np.random.default_rng(0)
    cache = cache_of(rule, 8, 4)
    cache.update([1, 2, 3, 4], [0, 1, 2, 3], rng)
    before = cache.ids.tolist()
    for ids, labels in (([1, 2], [0]), ([1], [-1]), ([1], [10**12]), ([1.5], [0])):
        with pytest.raises(ValueError, match=r"ids|labels"):
            cache.update(ids, labels, rng)
    full = rule.startswith("full")
    many = ([9], [4]) if full else (np.arange(9), np.zeros(9, int))
    with pytest.raises(ValueError, match="below that" if full else "capacity=8"):
        cache.update(*many, rng)
    assert cache.ids.tolist() == before


# --- server rules -----------------------------------------------------------------------------

N, SIZE = 6, 30
GIVEN = dict(n_clients=N, sizes=np.arange(1, N + 1), global_rate=2.0, chi=1.0, mu=0.9, slowdown=0.5)
GIVEN |= dict(a=0.2, b=0.1, shares=np.full(N, 1 / N))
TABLES = {"": servers.RULES, "osafl ": rules.RULES}
SERVERS = [table + name for table, rows in TABLES.items() for name in rows if name != "genie"]


def server(name, never_joined="exclude"):
    """A rule as its row in its registry says."""
    row = (rules.RULES if name.startswith("osafl ") else servers.RULES)[name.removeprefix("osafl ")]
    given = GIVEN | {"never_joined": never_joined}
    return row.build(**{option: given[option] for option in row.options if option in given})


def rounds(seed, n_rounds=8):
    """Random participation, with steps 0 among it in OSAFL's rules, updates and weights."""
    rng = np.random.default_rng(seed)
    for _ in range(n_rounds):
        clients = rng.permutation(np.flatnonzero(rng.random(N) < 0.5))
        if len(clients):
            steps = rng.integers(0, 4, len(clients))
            updates = 0.1 * rng.standard_normal((len(clients), SIZE))
            yield updates, rng.random(len(clients)) + 0.1, LocalWork(clients, steps, 0.1)


@pytest.mark.parametrize("name", SERVERS)
def test_a_server_does_not_mind_order_or_kind_and_writes_to_nothing(name):
    one, two, three = (server(name) for _ in range(3))
    a = b = start = np.linspace(-1, 1, SIZE)
    c = torch.tensor(a)
    for updates, weights, work in rounds(2):
        turn = np.argsort(work.clients)
        turned = LocalWork(work.clients[turn], work.steps[turn], work.rate)
        kept = a.copy(), updates.copy(), weights.copy()
        new = one(a, updates, weights, work)
        for value, copied in zip((a, updates, weights), kept):
            np.testing.assert_array_equal(value, copied)
        a, b = new, two(b, updates[turn], weights[turn], turned)
        c = three(c, torch.tensor(updates), torch.tensor(weights), work)
        assert isinstance(a, np.ndarray) and isinstance(c, torch.Tensor)
    np.testing.assert_allclose(b, a, rtol=1e-12)
    np.testing.assert_allclose(c.numpy(), a, rtol=1e-12)
    assert not np.allclose(a, start)


@pytest.mark.parametrize("name", [name for name in SERVERS if name.startswith("osafl ")])
def test_a_round_that_nobody_joins_leaves_the_model(name):
    rule, w = server(name, "literal"), np.linspace(-1, 1, SIZE)
    nobody = np.zeros((0, SIZE)), np.zeros(0), LocalWork([], [], 0.1)
    idle = np.full((2, SIZE), 9.0), np.ones(2), LocalWork([3, 1], [0, 0], 0.1)
    for first in (None, next(rounds(1))):
        w = rule(w, *first) if first else w
        for updates, weights, work in (nobody, idle):
            np.testing.assert_array_equal(rule(w, updates, weights, work), w)


@pytest.mark.parametrize("name", [name for name in SERVERS if name.startswith("osafl ")])
def test_all_readings_of_who_never_joined_agree_once_all_have(name):
    rng = np.random.default_rng(5)
    work = LocalWork(np.arange(N), np.full(N, 2), 0.1)
    first = 0.1 * rng.standard_normal((N, SIZE)), rng.random(N) + 0.1, work
    ends = []
    for never_joined in rules.NEVER_JOINED:
        rule, w = server(name, never_joined), np.linspace(-1, 1, SIZE)
        for updates, weights, work in (first, *rounds(1)):
            w = rule(w, updates, weights, work)
        ends.append(w)
    np.testing.assert_allclose(ends[1:], [ends[0]] * 2, rtol=1e-12, atol=1e-14)


# --- forgetting rules -------------------------------------------------------------------------


@pytest.mark.parametrize("rule", sorted(forgetting.RULES))
@settings(max_examples=25)
@given(seed=st.integers(0, 10**6), sample=st.integers(0, 4))
def test_forgetting_leaves_no_trace_and_nothing_older_moves(rule, seed, sample):
    sizes = dict(n_clients=3, samples_per_client=5, clients_per_round=2, batch_size=2)
    before = draw_history(**sizes, local_steps=2, rounds=4, rng=np.random.default_rng(seed))
    kept = copy.deepcopy((before.clients, before.batches))
    found, again = (
        forgetting.forget_sample(before, 1, sample, np.random.default_rng(seed), rule)
        for _ in range(2)
    )
    after, first = found
    np.testing.assert_array_equal(after.batches, again.history.batches)  # the same dice
    assert after.forgotten == {(1, sample)} and after.batches.shape == before.batches.shape
    assert not ((after.clients == 1)[:, :, None, None] & (after.batches == sample)).any()
    after.check_draws()
    untouched = before.rounds if first is None else first[0]
    for now, then in ((after.clients, before.clients), (after.batches, before.batches)):
        np.testing.assert_array_equal(now[:untouched], then[:untouched])
    np.testing.assert_array_equal(before.clients, kept[0])
    np.testing.assert_array_equal(before.batches, kept[1])


# --- networks ---------------------------------------------------------------------------------

# Shape and options of a small network, where an image of 28 x 28 does not fit or takes long.
SMALL = {
    "mobilenetv2": ((1, 28, 28), {"width": 0.25}),
    "vgg16": ((3, 32, 32), {"width": 0.125}),
    "char_rnn": ((12,), {"vocabulary": 9, "hidden": 24}),
    "char_mlp": ((12,), {"vocabulary": 9, "hidden": 24}),
    "osafl_fcn": ((20,), {"hidden": (8, 6)}),
    "osafl_cnn": ((3077,), {"channels": (4, 5), "hidden": 12}),
    "osafl_squeezenet1": ((3077,), {}),
    "osafl_lstm": ((6,), {"embedding": 5, "hidden": 12, "layers": 2}),
}
RATES = {"vgg16": 0.01, "osafl_squeezenet1": 0.02, "osafl_lstm": 1.0}


@pytest.mark.parametrize("name", models.NETWORKS)
def test_a_network_starts_from_its_seed_and_learns(name):
    shape, options = SMALL.get(name, ((1, 28, 28), {}))
    model = models.create(name, input_shape=shape, n_classes=3, **options)
    assert not list(model.buffers())
    template, task = copy.deepcopy(model), Task(model)
    with torch.no_grad():
        for p in template.parameters():
            p.fill_(7.0)
    w = task.init(0)
    assert torch.equal(w, Task(template).init(0)) and not torch.equal(w, task.init(1))
    g, y = torch.Generator().manual_seed(0), torch.arange(6) % 3
    if len(shape) == 1 and shape[0] < 20:  # text
        x = torch.randint(0, 3 if name == "osafl_lstm" else 9, (6, *shape), generator=g)
        x[:, -1 if name == "osafl_lstm" else -2] = y  # the answer stands near the end
    else:
        x = torch.randn(3, *shape, generator=g)[y] + 0.1 * torch.randn(6, *shape, generator=g)
    trained = local_sgd(task, w, [[(x, y)] * 40], RATES.get(name, 0.1))[0]
    assert evaluate(task, trained, x, y).loss < 0.8 * evaluate(task, w, x, y).loss
