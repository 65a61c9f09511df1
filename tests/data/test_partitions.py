"""Dirichlet and Pachinko allocation."""

import hashlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sflkit.data import partitions

LABELS = np.array([0, 0, 0, 1, 1, 2])


def rng(seed=0):
    return np.random.default_rng(seed)


def digest(clients):
    return hashlib.sha256(b"|".join(ids.tobytes() for ids in clients)).hexdigest()[:16]


def test_partitions_are_the_published_ones():
    """Every published run of FDS and FATS rests on these draws; a rewrite must keep them."""
    fine = rng(1).integers(0, 100, 3000)
    assert digest(partitions.dirichlet(fine % 10, 25, 0.4, rng(2))) == "f4c451bdde8f7558"
    assert digest(partitions.pachinko(fine, fine // 5, 25, rng(3))) == "9034e541229afc2c"
    assert digest(partitions.pachinko(fine, fine, 70, rng(4), alpha=0.01)) == "4d626432c7e853cb"


def test_dirichlet_limits():
    labels = np.repeat([0, 1], [40, 60])
    # alpha -> infinity: shares 1/4 of each class, 10 and 15 samples a client.
    even = partitions.dirichlet(labels, 4, 1e12, rng())
    assert [np.bincount(labels[ids]).tolist() for ids in even] == [[10, 15]] * 4
    # alpha -> 0: a class has one owner.
    single = partitions.dirichlet(labels, 4, 1e-9, rng(), min_samples=0)
    counts = np.array([np.bincount(labels[ids], minlength=2) for ids in single])
    assert sorted(counts[:, 0]) == [0, 0, 0, 40] and sorted(counts[:, 1]) == [0, 0, 0, 60]


def test_dirichlet_shares_have_the_laws_variance():
    # A share of a symmetric Dirichlet law over M clients has mean 1/M and variance (1/M)(1 - 1/M) /
    # (M alpha + 1). M = 5, alpha = 0.4: 0.16 / 3 = 0.0533. 400 classes of 1000 samples give 2000
    # shares; their sample variance lies within 15 % (the standard error is about 4 %), while alpha
    # = 0.2 would give 0.08 and alpha = 0.8 would give 0.032.
    labels = np.repeat(np.arange(400), 1000)
    clients = partitions.dirichlet(labels, 5, 0.4, rng())
    shares = np.array([np.bincount(labels[ids], minlength=400) for ids in clients]) / 1000
    assert abs(shares.var() / (0.16 / 3) - 1) < 0.15


def test_dirichlet_fills_poor_clients_from_the_richest():
    # One class, one owner: 12 samples for 4 clients with at least 2. The owner gives 2 to each of
    # the three others, 6 are left.
    clients = partitions.dirichlet(np.zeros(12, int), 4, 1e-9, rng(), min_samples=2)
    assert sorted(map(len, clients)) == [2, 2, 2, 6]
    assert sorted(np.concatenate(clients)) == list(range(12))


@given(
    st.lists(st.integers(0, 4), min_size=12, max_size=60),
    st.integers(1, 12),
    st.floats(1e-6, 1e6),
    st.integers(0, 99),
)
@settings(max_examples=60)
def test_dirichlet_assigns_every_sample_once(labels, n_clients, alpha, seed):
    clients = partitions.dirichlet(labels, n_clients, alpha, rng(seed))
    assert len(clients) == n_clients and min(map(len, clients)) >= 1
    assert sorted(np.concatenate(clients).tolist()) == list(range(len(labels)))
    again = partitions.dirichlet(labels, n_clients, alpha, rng(seed))
    assert all(np.array_equal(a, b) for a, b in zip(clients, again, strict=True))


def test_pachinko_limits():
    # 2 coarse labels of 2 fine ones, 30 samples each, 3 clients of 40. Both parameters large: the
    # law of every leaf is 1/4, a client has 10 of each, give or take sampling (the last client
    # takes what is left).
    fine = np.repeat([0, 1, 2, 3], 30)
    even = np.array(
        [
            np.bincount(fine[ids], minlength=4)
            for ids in partitions.pachinko(fine, fine // 2, 3, rng(), alpha=1e9, beta=1e9)
        ]
    )
    assert np.abs(even - 10).max() <= 8 and even.sum(axis=0).tolist() == [30] * 4
    # Both towards 0: a client empties one leaf after another. 40 samples are one whole leaf and 10
    # of the second leaf of the same coarse label, since the other coarse label is entered only when
    # the first is pruned.
    first = partitions.pachinko(fine, fine // 2, 3, rng(), alpha=1e-9, beta=1e-9)[0]
    counts = np.bincount(fine[first], minlength=4)
    assert sorted(counts) == [0, 0, 10, 30] and len(set(np.flatnonzero(counts) // 2)) == 1


def test_pachinko_follows_coarse_then_fine():
    # alpha -> 0, beta -> infinity: a client holds one coarse label and its fine labels evenly. 2
    # clients, 2 coarse labels of 50 samples in 2 fine ones: 50 each, so a client takes a whole
    # coarse label, 25 of each fine label in it.
    fine = np.repeat([0, 1, 2, 3], 25)
    for seed in range(5):
        clients = partitions.pachinko(fine, fine // 2, 2, rng(seed), alpha=1e-9, beta=1e9)
        assert sorted(np.bincount(fine[ids], minlength=4).tolist() for ids in clients) == [
            [0, 0, 25, 25],
            [25, 25, 0, 0],
        ]


def test_pachinko_draws_as_one_by_one():
    """The law of the first client's counts by enumeration, with pruning: fine labels a, b (2 and 4
    samples), 3 of 6 drawn.

    beta large makes the law (1/2, 1/2). Until a is pruned (two draws of a) draws are fair; then
    only b is drawn. Two a: aab 1/4 (the third draw is certain), aba 1/8, baa 1/8, together 1/2. One
    a: abb, bab, bba 3/8. None: bbb 1/8."""
    fine = np.repeat([0, 1], [2, 4])
    n = 4000
    counts = np.zeros(3)
    generator = rng(5)
    for _ in range(n):
        first = partitions.pachinko(fine, np.zeros(6, int), 2, generator, beta=1e9)[0]
        counts[(fine[first] == 0).sum()] += 1
    expected = np.array([1 / 8, 3 / 8, 1 / 2])
    assert (np.abs(counts / n - expected) < 4 * np.sqrt(expected * (1 - expected) / n)).all()


def test_pachinko_renormalises_inside_the_coarse_label():
    # Coarse A has fine labels of 1 and 20 samples, coarse B one of 20; laws even. When A's single
    # sample is gone, A keeps the probability 1/2 (its other fine label takes all of it), so the
    # first client's share of A is 1/2 on average. Without the renormalisation inside A it would be
    # 1/3 from then on.
    fine = np.repeat([0, 1, 2], [1, 20, 20])
    generator = rng(6)
    first = [
        partitions.pachinko(fine, fine // 2, 4, generator, alpha=1e9, beta=1e9)[0]
        for _ in range(500)
    ]
    shares = [(fine[ids] < 2).mean() for ids in first]
    assert abs(np.mean(shares) - 1 / 2) < 0.03  # standard error 0.007


@given(
    st.lists(st.integers(0, 7), min_size=10, max_size=60),
    st.integers(1, 10),
    st.floats(1e-5, 1e4),
    st.floats(1e-5, 1e4),
    st.integers(0, 99),
)
@settings(max_examples=60)
def test_pachinko_assigns_every_sample_once_and_evenly(fine, n_clients, alpha, beta, seed):
    fine = np.array(fine)
    clients = partitions.pachinko(fine, fine // 3, n_clients, rng(seed), alpha=alpha, beta=beta)
    assert sorted(np.concatenate(clients).tolist()) == list(range(len(fine)))
    sizes = [len(ids) for ids in clients]
    assert max(sizes) - min(sizes) <= 1 and len(sizes) == n_clients


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: partitions.dirichlet(LABELS, 4, 1.0, rng(), min_samples=2), "n_clients=4 .* <= 3"),
        (lambda: partitions.pachinko(LABELS, LABELS, 7, rng()), "n_clients=7 .* <= 6"),
        (lambda: partitions.pachinko(LABELS, LABELS[:5], 2, rng()), "coarse has 5 labels, fine 6"),
        (
            lambda: partitions.pachinko(LABELS, [0, 0, 1, 1, 1, 1], 2, rng()),
            r"fine label 0 belongs to coarse labels \[0, 1\]",
        ),
    ],
)
def test_allocations_refuse(call, message):
    with pytest.raises(ValueError, match=message):
        call()
