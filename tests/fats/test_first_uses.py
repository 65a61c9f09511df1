"""First uses against enumeration, formulas, and the library's own histories."""

from fractions import Fraction

import numpy as np
import pytest

from sflkit.fats.config import TABLE_2
from sflkit.fats.enumeration import outcomes
from sflkit.fats.first_uses import first_uses
from sflkit.fats.forgetting import forget_client, forget_sample
from sflkit.fats.history import draw_history
from tests.fats.fats_cases import serve_all

LAW = dict(
    n_clients=2, samples_per_client=3, clients_per_round=1, batch_size=1, local_steps=1, rounds=2
)


def law(run_):
    """Probabilities of the outcomes of run_(rng), as fractions."""
    found = {}
    for outcome, p in outcomes(run_):
        found[outcome] = found.get(outcome, Fraction(0)) + p
    return found


class Naming(np.random.Generator):
    """A generator that draws the requests which are named, and all else as another one does."""

    def __init__(self, rng, numbers):
        super().__init__(np.random.PCG64(0))
        self.rng, self.numbers, self.asked = rng, np.array([numbers]), False

    def integers(self, high, *args, **options):
        if self.asked:
            return self.rng.integers(high, *args, **options)
        self.asked = True  # of the requests, which `permuted` names
        return np.zeros(np.shape(high), dtype=np.int64)

    def permuted(self, drawn, axis):
        assert drawn.shape == self.numbers.shape
        return self.numbers


def law_of_first_uses(level, targets, streaming, sizes):
    """The law of `first_uses` in one history, for requests named in advance."""
    each = np.full(sizes["n_clients"], sizes["samples_per_client"])
    numbers = targets if level == "client" else [each[:k].sum() + i for k, i in targets]

    def run(rng):
        given = dict(level=level, n_requests=len(targets), streaming=streaming, runs=1)
        return tuple(first_uses(**given, rng=Naming(rng, numbers), **sizes)[0].tolist())

    return law(run)


@pytest.mark.parametrize(
    "targets, sizes",
    [
        ([(0, 0)], LAW),
        # two samples of one client: the second sees what is left of the first's mini-batches
        ([(0, 0), (0, 1), (1, 1)], LAW),
        ([(0, 1), (0, 0)], LAW | {"clients_per_round": 2, "rounds": 1, "local_steps": 2}),
        ([(0, 1), (1, 0)], LAW | {"samples_per_client": np.array([3, 2]), "local_steps": 2}),
        ([(0, 1), (0, 0)], LAW | {"samples_per_client": 4, "batch_size": 2, "rounds": 1}),
        ([(0, 1)], LAW | {"n_clients": 1, "batch_size": 2}),
        ([(0, 2), (0, 0), (0, 3)], LAW | {"n_clients": 1, "samples_per_client": 4}),
    ],
)
@pytest.mark.parametrize("streaming", [False, True])
def test_the_law_of_first_uses_of_samples_to_the_fraction(targets, sizes, streaming):
    steps, total = sizes["local_steps"], sizes["local_steps"] * sizes["rounds"]

    def library(rng):
        history = draw_history(**sizes, rng=rng)
        if not streaming:
            first = forget_sample(history, *(list(part) for part in zip(*targets)), rng).first
            return (total if first is None else first[0] * steps + first[1],)
        firsts = serve_all(history, targets, rng)[1]
        return tuple(total if first is None else first[0] * steps + first[1] for first in firsts)

    expected = law(library)
    assert law_of_first_uses("sample", targets, streaming, sizes) == expected
    assert len(expected) > 1 and sum(expected.values()) == 1


@pytest.mark.parametrize(
    "targets, n_clients, k", [([1], 3, 2), ([0, 1], 3, 2), ([2, 0], 3, 2), ([2, 0, 3], 4, 1)]
)
@pytest.mark.parametrize("streaming", [False, True])
def test_the_law_of_first_uses_of_clients_to_the_fraction(targets, n_clients, k, streaming):
    sizes = LAW | {"n_clients": n_clients, "clients_per_round": k, "samples_per_client": 1}

    def library(rng):
        history = draw_history(**sizes, rng=rng)
        if not streaming:
            first = forget_client(history, targets, rng).first
            return (2 if first is None else first,)
        return tuple(
            2 if first is None else first
            for first in serve_all(history, [(k, None) for k in targets], rng)[1]
        )

    assert law_of_first_uses("client", targets, streaming, sizes) == law(library)


def test_expected_unlearning_time_at_mnist_size():
    # A slot spares a client with q = 1 - 1/M, and the first e steps of it spare a sample with q +
    # (1 - b/N)^e / M; slots are independent, so P(first use >= r E + e) is a product, and E[T -
    # first] = T - sum over t = 1..T of P(first >= t).
    sizes, runs = TABLE_2["mnist"], 20000
    m, n, k, b, e, r = 300, 200, 5, 10, 10, 30
    t = np.arange(1, r * e + 1)
    spared = 1 - 1 / m + (1 - b / n) ** np.arange(e + 1) / m
    reach_sample = spared[e] ** (k * (t // e)) * spared[t % e] ** k
    reach_client = (1 - 1 / m) ** (k * ((t + e - 1) // e))
    for level, reach in ("sample", reach_sample), ("client", reach_client):
        rng = np.random.default_rng(1)
        time = r * e - first_uses(level=level, n_requests=1, runs=runs, rng=rng, **sizes)[:, 0]
        assert abs(time.mean() - (r * e - reach.sum())) < 4 * time.std() / np.sqrt(runs)
        # one request after another: exactness makes each the first one again, on a crowd smaller by
        # at most w of 60000 samples or 300 clients; chunks of histories are as good as all at once
        if level == "sample":
            asked = dict(level=level, n_requests=3, streaming=True, runs=runs)
            times = r * e - first_uses(**asked, rng=rng, **sizes)
            off = np.abs(times.mean(axis=0) - (r * e - reach.sum())).max()
            assert off < 4 * time.std() / np.sqrt(runs) + 0.5


def test_random_targets_are_different_and_uniform():
    # without hits nothing is drawn but targets and clients: with as many requests as samples less
    # one, one is spared
    sizes = LAW | {"rounds": 1, "n_requests": 1, "runs": 6000}
    first = first_uses(level="client", rng=np.random.default_rng(0), **sizes)
    # the one client drawn is the target with 1/2
    assert abs((first == 0).mean() - 0.5) < 4 * np.sqrt(0.25 / 6000)
    first = first_uses(level="sample", rng=np.random.default_rng(0), **sizes)
    assert abs((first == 0).mean() - 1 / 6) < 4 * np.sqrt(5 / 36 / 6000)
    same = dict(level="client", n_requests=5, runs=7, streaming=True, **TABLE_2["fmnist"])
    a, b = (first_uses(rng=np.random.default_rng(3), **same) for _ in range(2))
    assert np.array_equal(a, b) and a.shape == (7, 5) and a.max() <= 500


@pytest.mark.parametrize(
    "change, message",
    [
        (dict(n_requests=6), "n_requests=6 must be an integer >= 1 and <= 5"),
        (dict(level="client", n_requests=2), "n_requests=2"),
        (dict(samples_per_client=[3, 2, 1]), r"has shape \(3,\); it must be \(\) or \(2,\)"),
        (dict(batch_size=4), r"samples_per_client holds 3; entries must be .* >= 4"),
        (dict(n_requests=5), "client . has samples_per_client=3 samples"),
    ],
)
def test_bad_values_of_first_uses(change, message):
    good = LAW | dict(level="sample", n_requests=1, runs=1, rng=np.random.default_rng(0))
    with pytest.raises(ValueError, match=message):
        first_uses(**good | change)
