"""Federations: sizes, order, test weights, the synthetic task, validation parts, and bad values."""

import tracemalloc
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sflkit import data
from sflkit.data import federations, natural, synthetic
from sflkit.data.files import write
from sflkit.randomness import generator
from tests.data.conftest import small


def rng(seed=0):
    return np.random.default_rng(seed)


@pytest.fixture
def by_hand():
    """Five samples of three classes; client 0 holds classes 0, 0, 1 and client 1 classes 1, 2."""
    source = data.Dataset.of(
        np.arange(10.0).reshape(5, 2), [0, 0, 1, 1, 2], np.zeros((6, 2)), [0, 0, 1, 2, 2, 2]
    )
    clients = [np.array([0, 1, 2]), np.array([4, 3])]
    historical = np.array([True, False])
    return federations._images(source, np.arange(5), clients, historical, "")


def test_label_weights_by_hand(by_hand):
    # Shares: client 0 (2/3, 1/3, 0), client 1 (0, 1/2, 1/2); mean (1/3, 5/12, 1/4). Test samples 2,
    # 1, 3: 1/6, 5/12, 1/12 each.
    np.testing.assert_allclose(
        by_hand.test_weights, [1 / 6, 1 / 6, 5 / 12, 1 / 12, 1 / 12, 1 / 12], rtol=1e-15
    )
    # The weighted accuracy is the mean over clients of the accuracy under their own label shares.
    right = np.array([1, 0, 1, 1, 0, 0])
    per_class = np.array([1 / 2, 1, 1 / 3])
    expected = np.mean([[2 / 3, 1 / 3, 0] @ per_class, [0, 1 / 2, 1 / 2] @ per_class])
    assert by_hand.test_weights @ right == pytest.approx(expected, rel=1e-14)
    assert by_hand.sizes.tolist() == [3, 2] and by_hand.n_clients == 2
    assert by_hand.input_shape == (2,)
    with pytest.raises(ValueError, match=r"y_test has no sample of the classes \[2\]"):
        x, y = np.ones((6, 1)), np.array([0, 1, 2, 0, 1, 2])
        federations.static((x, y, x[:2], y[:2]), n_clients=2, seed=0)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"clients": (np.array([0]), np.array([], int))}, r"clients=\[1\] hold no sample"),
        ({"clients": ()}, "at least one"),
        ({"clients": (np.array([0, 1]), np.array([5]))}, r"clients holds 5; .* >= 0 and <= 4"),
        ({"clients": (np.array([0, 1]), np.array([-1]))}, "clients holds -1"),
        ({"clients": (np.array([0, 1]), np.array([1]))}, "row 1 twice"),
        ({"x": np.full((5, 2), np.nan, np.float32)}, "x holds a value that is not finite"),
        ({"x_test": np.full((6, 2), -np.inf, np.float32)}, "x_test holds a value that is not"),
        ({"y": np.zeros(9, int)}, r"y has shape \(9,\)"),
        ({"y_test": np.zeros(5, int)}, r"y_test has shape \(5,\)"),
        ({"historical": np.array([True])}, r"historical has shape \(1,\)"),
        ({"historical": np.array([1, 0])}, "historical holds int64; it must hold bool"),
    ],
)
def test_what_does_not_fit_is_refused(by_hand, change, message):
    with pytest.raises(ValueError, match=message):
        replace(by_hand, **change)


@pytest.mark.parametrize("fraction", [0.05, 0.2, 0.5])
def test_images_split_first_and_then_distribute(fraction):
    options = {"n_clients": 9, "n_historical": 4, "hist_fraction": fraction}
    made = federations.data_streams("digits", seed=3, **options)
    assert made.sizes[:4].sum() == round(fraction * 1442) and made.sizes.min() >= 1
    assert made.historical.tolist() == [True] * 4 + [False] * 5
    assert sorted(np.concatenate(made.clients).tolist()) == list(range(1442))
    source = data.load("digits")
    shares = [np.bincount(source.y_train[ids], minlength=10) / len(ids) for ids in made.clients]
    tested = np.bincount(made.y_test, made.test_weights)
    np.testing.assert_allclose(tested, np.mean(shares, axis=0), rtol=1e-12)
    assert made.digest == source.digest and made.note == source.note
    again = federations.data_streams("digits", seed=3, **options)
    assert all(map(np.array_equal, made.clients, again.clients))
    assert again.x.pixels is made.x.pixels is source.x_train
    other = federations.data_streams("digits", seed=4, **options)
    assert not np.array_equal(made.clients[0], other.clients[0])
    # a larger historical part keeps the smaller
    more = federations.data_streams("digits", seed=3, **(options | {"hist_fraction": 0.6}))
    held = [set(np.concatenate(one.clients[:4]).tolist()) for one in (made, more)]
    assert held[0] < held[1]


def test_a_subset_is_called_one_and_numbered_anew():
    made = federations.data_streams(
        "digits", n_clients=5, n_historical=2, hist_fraction=0.3, seed=1, n_samples=100
    )
    assert made.x.shape == (100, 1, 28, 28)
    assert made.sizes[:2].sum() == 30 and made.sizes.sum() == 100
    assert made.note.startswith("random subset of 100 of 1,442 training samples")
    # Row i of the subset is an image of the data set with the same label.
    source = data.load("digits")
    pairs = zip(source.inputs("train"), source.y_train, strict=True)
    known = {image.tobytes(): label for image, label in pairs}
    assert all(known[image.tobytes()] == label for image, label in zip(made.x, made.y, strict=True))
    for ids in made.clients:
        assert made.x[ids].tobytes() == np.asarray(made.x)[ids].tobytes()


def test_a_federation_holds_bytes_and_of_a_subset_only_its_rows(folder):
    """What a federation of photographs keeps: one byte per value, not four, and no other image."""
    write(folder / "cifar10.npz", small(1000, 100, (32, 32, 3)))
    data.load("cifar10")
    tracemalloc.start()
    made = federations.static("cifar10", n_clients=5, seed=0, n_samples=50)
    held, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    image = 32 * 32 * 3
    assert made.x.pixels.nbytes == 50 * image
    # Besides the 50 images a few numbers per sample are held. The float32 of the 100 test images
    # alone would take four times this limit.
    assert held < 100 * image and peak < 100 * image


def test_cifar100_goes_by_pachinko(folder):
    write(folder / "cifar100.npz", small(1000, 100, (32, 32, 3), 100))
    made = federations.data_streams(
        "cifar100", n_clients=10, n_historical=4, hist_fraction=0.2, seed=0
    )
    # Pachinko: equal sizes inside each group, few of the 20 superclasses at a client (Dirichlet
    # 0.1).
    assert made.sizes[:4].tolist() == [50] * 4 and sorted(made.sizes[4:]) == [133] * 4 + [134] * 2
    assert np.mean([len(np.unique(made.y[ids] // 5)) for ids in made.clients]) < 15
    assert made.input_shape == (3, 32, 32)


@pytest.mark.parametrize(
    ("fraction", "sizes"), [(0.05, (1, 190)), (0.2, (4, 160)), (0.5, (10, 100))]
)
def test_logistic_sizes(fraction, sizes):
    made = federations.data_streams(
        "logistic", n_clients=11, n_historical=10, hist_fraction=fraction, seed=0
    )
    assert made.sizes.tolist() == [sizes[0]] * 10 + [sizes[1]]
    assert made.x.shape == (200, 20) and made.x.dtype == np.float32 and made.n_classes == 2
    assert set(made.y.tolist()) == {0, 1}
    assert len(made.y_test) == 2200 and "epsilon = 0.1" in made.note
    np.testing.assert_allclose(made.test_weights, 1 / 2200)


def test_logistic_follows_its_law():
    """x uniform on [-1, 1] (variance 1/3); E[y] = sigmoid(x theta); theta_m around theta_0 with
    variance epsilon^2.
    """
    (x,), (y,) = synthetic.logistic([40000], 7, "samples", 0.0)
    theta = generator(7, "data").standard_normal(20)
    assert np.abs(x).max() <= 1 and x.var() == pytest.approx(1 / 3, rel=0.01)
    p = 1 / (1 + np.exp(-x.astype(float) @ theta))
    # In ten bins of p the frequency of 1 is the mean p, within four standard errors.
    for low in np.arange(0, 1, 0.1):
        inside = (p >= low) & (p < low + 0.1)
        assert abs(y[inside].mean() - p[inside].mean()) < 4 * np.sqrt(0.25 / inside.sum())
    # The score of the labels along the client's own deviation: sum (y - sigmoid(x theta_0)) x has
    # expectation epsilon J xi, where J = E[p (1 - p) x x^T]; solving it gives back the deviation
    # that the client's generator drew.
    (_, xs), (_, ys) = synthetic.logistic([1, 200000], 7, "samples", 0.05)
    xs = xs.astype(float)
    p = 1 / (1 + np.exp(-xs @ theta))
    found = np.linalg.solve((xs * (p * (1 - p))[:, None]).T @ xs, xs.T @ (ys - p))
    drawn = 0.05 * generator(7, "data", 1).standard_normal(20)
    assert np.corrcoef(found, drawn)[0, 1] > 0.9


def test_logistic_grows_without_changing_what_was():
    options = {"n_historical": 3, "hist_fraction": 0.3, "seed": 5}
    few = federations.data_streams("logistic", n_clients=4, n_samples=20, **options)
    more = federations.data_streams("logistic", n_clients=5, n_samples=60, **options)
    for m in range(3):
        np.testing.assert_array_equal(few.x[few.clients[m]], more.x[more.clients[m]][:2])
    np.testing.assert_array_equal(few.x_test, more.x_test[:800])
    assert len(np.unique(more.x, axis=0)) == 60  # no two clients share a sample


def test_static_images_have_one_size():
    made = federations.static("digits", n_clients=20, seed=0)
    assert made.sizes.tolist() == [72] * 20 and made.historical.all()  # 1442 = 20 * 72 + 2
    made = federations.static("digits", n_clients=7, seed=0, samples_per_client=50, n_samples=400)
    assert made.sizes.tolist() == [50] * 7 and len(made.x) == 400
    even = federations.static("digits", n_clients=4, seed=0, alpha=1e9, samples_per_client=100)
    # A share of 0.1 of 100 draws has standard deviation 3.
    assert np.abs([np.bincount(even.y[ids], minlength=10) - 10 for ids in even.clients]).max() <= 15


def test_natural_clients_are_split_whole():
    everyone = natural.load("writers")
    made = federations.data_streams("writers", n_clients=None, hist_fraction=0.2, seed=0)
    assert made.n_clients == 60 and made.historical.tolist() == [True] * 12 + [False] * 48
    assert {tuple(ids) for ids in made.clients} == {tuple(ids) for ids in everyone.train}
    # Each client's test samples share 1/60 between them, and the accuracy is the mean over clients.
    sizes = np.array([len(ids) for ids in everyone.test])
    assert sorted(1 / made.test_weights / 60) == pytest.approx(sorted(np.repeat(sizes, sizes)))
    few = federations.data_streams(
        "writers", n_clients=10, hist_fraction=0.5, seed=0, n_samples=150
    )
    assert few.n_clients == 10 and few.historical.sum() == 5 and few.sizes.sum() <= 150
    assert few.note.startswith("10 of 60")
    # One more sample a client would break the limit.
    sizes = [len(ids) for ids in made.clients[:10]]
    assert np.minimum(sizes, few.sizes.max() + 1).sum() > 150
    # Who takes part and who is historical is drawn: another seed has another first client.
    options = {"n_clients": 10, "hist_fraction": 0.5}
    drawn = [federations.data_streams("writers", seed=s, **options).clients[0][0] for s in range(5)]
    assert len(set(drawn)) > 1
    one = federations.data_streams("writers", n_clients=2, hist_fraction=0.01, seed=0)
    assert one.historical.tolist() == [True, False]


def test_static_natural_clients_have_enough():
    able = sum(len(ids) >= 40 for ids in natural.load("writers").train)
    made = federations.static("writers", n_clients=None, seed=0, min_samples=40)
    assert made.n_clients == able < 60
    made = federations.static("plays", n_clients=8, seed=0, samples_per_client=100)
    assert made.sizes.tolist() == [100] * 8 and made.n_classes == 100
    assert made.x.dtype == np.int64 and made.input_shape == (80,)


def test_validation_by_hand(by_hand):
    # share 0.4: client 0 gives round(1.2) = 1 of 3, client 1 round(0.8) = 1 of 2; weights 1/2 each.
    split = federations.validation_split(by_hand, 0.4, rng())
    assert split.sizes.tolist() == [2, 1] and split.test_weights.tolist() == [0.5, 0.5]
    held = set(range(5)) - set(np.concatenate(split.clients).tolist())
    assert sorted(split.y_test) == sorted(by_hand.y[sorted(held)])
    assert {tuple(row) for row in split.x_test} == {tuple(by_hand.x[i]) for i in held}
    # share 0.9: round(2.7) = 3 would leave nothing, so 2 of 3 and 1 of 2: weights 1/4, 1/4, 1/2.
    weights = federations.validation_split(by_hand, 0.9, rng()).test_weights
    assert weights.tolist() == [0.25, 0.25, 0.5]
    lonely = replace(by_hand, clients=(np.array([0]), np.array([4])))
    with pytest.raises(ValueError, match="leaves no validation sample: clients hold 1 to 1"):
        federations.validation_split(lonely, 0.5, rng())


@given(st.floats(0.05, 0.95), st.integers(0, 50))
@settings(max_examples=25)
def test_validation_keeps_every_client_and_its_order(share, seed):
    made = federations.data_streams(
        "digits", n_clients=6, n_historical=3, hist_fraction=0.3, seed=seed
    )
    split = federations.validation_split(made, share, rng(seed))
    for before, after in zip(made.clients, split.clients, strict=True):
        assert len(after) == len(before) - min(len(before) - 1, int(np.rint(share * len(before))))
        assert [i for i in before if i in set(after.tolist())] == after.tolist()
    assert split.test_weights.sum() == pytest.approx(1)
    assert len(split.y_test) == made.sizes.sum() - split.sizes.sum()


def test_validation_of_text_is_its_end():
    made = federations.static("plays", n_clients=3, seed=0)
    split = federations.validation_split(made, 0.25, rng())
    for before, after in zip(made.clients, split.clients, strict=True):
        assert after.tolist() == before[: len(after)].tolist()
        assert len(after) == len(before) - round(0.25 * len(before))
    given_up = made.sizes.sum() - split.sizes.sum()
    assert given_up / 20 <= len(split.y_test) <= given_up / 20 + 6


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"data": "cifar"}, "data='cifar' must be one of 'logistic', 'digits'"),
        ({"n_historical": 5}, "n_historical=5"),
        ({"n_samples": 1443}, "n_samples=1443 .* <= 1442"),
        ({"n_samples": 20, "hist_fraction": 0.05}, "gives 1 historical samples to 2 clients"),
        ({"n_samples": 10, "hist_fraction": 0.8}, "gives 2 fresh samples to 3 clients"),
        # also where the data set does not use them
        ({"data": "logistic", "alpha": 0}, "alpha=0"),
        ({"data": "writers", "n_historical": -5}, "n_historical=-5"),
        ({"data": "plays", "epsilon": -0.1}, "epsilon=-0.1"),
        ({"data": "writers", "n_clients": 61}, "n_clients=61 .* <= 60"),
        ({"data": "writers", "n_samples": 3}, "n_samples=3 .* >= 5"),
    ],
)
def test_what_does_not_fit_together_is_refused(change, message):
    good = {"data": "digits", "n_clients": 5, "n_historical": 2, "hist_fraction": 0.5, "seed": 0}
    with pytest.raises(ValueError, match=message):
        federations.data_streams(**(good | change))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"data": "logistic"}, "data='logistic'"),
        ({"samples_per_client": 500}, "need 2500 samples; there are 1442"),
        ({"n_clients": 2000}, "n_clients=2000 .* <= 1442"),
        ({"data": "writers", "alpha": -1}, "alpha=-1"),
        ({"data": "writers", "min_samples": 9999}, "0 clients with at least 9999"),
        ({"data": "plays", "samples_per_client": 100, "n_samples": 499}, "n_samples=499 .* >= 500"),
    ],
)
def test_static_clients_that_do_not_fit_are_refused(change, message):
    with pytest.raises(ValueError, match=message):
        federations.static(**({"data": "digits", "n_clients": 5, "seed": 0} | change))
