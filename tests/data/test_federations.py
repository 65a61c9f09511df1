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


def rng(seed=0):
    return np.random.default_rng(seed)


@pytest.fixture
def by_hand():
    """Five samples of three classes; client 0 holds classes 0, 0, 1 and client 1 classes 1, 2."""
    y, y_test = np.array([0, 0, 1, 1, 2]), np.array([0, 0, 1, 2, 2, 2])
    clients = (np.array([0, 1, 2]), np.array([4, 3]))
    weights = federations._label_weights(y, clients, y_test, 3)
    return federations.Federation(
        "hand",
        np.arange(10.0, dtype=np.float32).reshape(5, 2),
        y,
        clients,
        np.zeros((6, 2), np.float32),
        y_test,
        weights,
        3,
        np.array([True, False]),
    )


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
    assert by_hand.sizes.tolist() == [3, 2]
    assert by_hand.n_clients == 2
    assert by_hand.input_shape == (2,)
    with pytest.raises(ValueError, match=r"y_test has no sample of the classes \[2\]"):
        federations._label_weights(
            np.array([0, 2]), (np.array([0]), np.array([1])), np.array([0, 1]), 3
        )


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"clients": (np.array([0]), np.array([], int))}, r"clients=\[1\] hold no sample"),
        ({"clients": ()}, "at least one"),
        ({"clients": (np.array([0, 1]), np.array([5]))}, r"rows 0 to 5 .* \[0, 4\]"),
        ({"clients": (np.array([0, 1]), np.array([-1]))}, "rows -1"),
        ({"clients": (np.array([0, 1]), np.array([1]))}, "row 1 twice"),
        ({"y": np.array([0, 1, 2])}, "one label per sample"),
        ({"y_test": np.array([0, 0, 1, 2, 2, 3])}, r"y_test holds int64 0 to 3; .*\[0, 2\]"),
        ({"y": np.zeros(5)}, "y holds float64"),
        ({"test_weights": np.full(6, 0.2)}, "test_weights must sum to 1"),
        ({"test_weights": np.full(5, 0.2)}, r"test_weights \(5,\)"),
        ({"historical": np.array([True])}, r"historical bool \(1,\)"),
        ({"historical": np.array([1, 0])}, "historical int64"),
        ({"x": np.full((5, 2), np.nan, np.float32)}, "x holds a value that is not finite"),
        ({"x_test": np.full((6, 2), -np.inf, np.float32)}, "x_test holds a value that is not"),
    ],
)
def test_what_does_not_fit_is_refused(by_hand, change, message):
    with pytest.raises(ValueError, match=message):
        replace(by_hand, **change)


@pytest.mark.parametrize("fraction", [0.05, 0.2, 0.5])
def test_images_split_first_and_then_distribute(fraction):
    made = federations.data_streams(
        "digits", n_clients=9, n_historical=4, hist_fraction=fraction, seed=3
    )
    assert made.sizes[:4].sum() == round(fraction * 1442)
    assert made.sizes.sum() == 1442
    assert made.sizes.min() >= 1
    assert made.historical.tolist() == [True] * 4 + [False] * 5
    assert sorted(np.concatenate(made.clients).tolist()) == list(range(1442))
    source = data.load("digits")
    np.testing.assert_array_equal(made.x[17], source.inputs("train", [17])[0])
    shares = np.mean(
        [np.bincount(source.y_train[ids], minlength=10) / len(ids) for ids in made.clients], axis=0
    )
    np.testing.assert_allclose(np.bincount(made.y_test, made.test_weights), shares, rtol=1e-12)
    assert made.digest == source.digest and made.note == source.note
    again = federations.data_streams(
        "digits", n_clients=9, n_historical=4, hist_fraction=fraction, seed=3
    )
    assert all(map(np.array_equal, made.clients, again.clients))
    assert again.x.pixels is made.x.pixels is source.x_train
    other = federations.data_streams(
        "digits", n_clients=9, n_historical=4, hist_fraction=fraction, seed=4
    )
    assert not np.array_equal(made.clients[0], other.clients[0])


def test_a_larger_historical_part_keeps_the_smaller():
    made = [
        federations.data_streams("digits", n_clients=6, n_historical=3, hist_fraction=f, seed=0)
        for f in (0.1, 0.4)
    ]
    parts = [set(np.concatenate(one.clients[:3]).tolist()) for one in made]
    assert parts[0] < parts[1]


def test_a_subset_is_called_one_and_numbered_anew():
    made = federations.data_streams(
        "digits", n_clients=5, n_historical=2, hist_fraction=0.3, seed=1, n_samples=100
    )
    assert made.x.shape == (100, 1, 28, 28)
    assert made.sizes[:2].sum() == 30
    assert made.sizes.sum() == 100
    assert made.note.startswith("random subset of 100 of 1,442 training samples")
    # Row i of the subset is an image of the data set with the same label.
    source = data.load("digits")
    known = {
        image.tobytes(): label
        for image, label in zip(source.inputs("train"), source.y_train, strict=True)
    }
    assert all(known[image.tobytes()] == label for image, label in zip(made.x, made.y, strict=True))


@pytest.mark.parametrize("n_samples", [None, 300])
def test_inputs_of_clients_are_those_of_the_data_set_to_the_last_bit(n_samples):
    made = federations.static("digits", n_clients=5, seed=2, n_samples=n_samples)
    whole = np.asarray(made.x)
    source = data.load("digits").inputs("train")
    assert len(made.x) == len(made.y) == (n_samples or 1442) == len(whole)
    rows = {image.tobytes() for image in source}
    for ids in made.clients:
        x = made.x[ids]
        assert x.dtype == np.float32 and x.flags.c_contiguous and x.flags.writeable
        assert x.tobytes() == whole[ids].tobytes()
        assert {image.tobytes() for image in x} <= rows
    if n_samples is None:
        assert whole.tobytes() == source.tobytes()
    assert np.asarray(made.x_test).tobytes() == data.load("digits").inputs("test").tobytes()


def test_a_federation_holds_bytes_and_of_a_subset_only_its_rows(tmp_path, monkeypatch):
    """What a federation of photographs keeps: one byte per value, not four, and no other image."""
    rng = np.random.default_rng(0)
    arrays = {
        "x_train": rng.integers(0, 256, (1000, 32, 32, 3), np.uint8),
        "y_train": np.arange(1000) % 10,
        "x_test": rng.integers(0, 256, (100, 32, 32, 3), np.uint8),
        "y_test": np.arange(100) % 10,
    }
    write(tmp_path / "cifar10.npz", arrays)
    monkeypatch.setenv("SFLKIT_DATA", str(tmp_path))
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


def test_label_skew_grows_as_alpha_falls():
    def spread(alpha):
        made = federations.data_streams(
            "digits", n_clients=10, n_historical=5, hist_fraction=0.5, seed=0, alpha=alpha
        )
        return np.mean(
            [np.bincount(made.y[ids], minlength=10).max() / len(ids) for ids in made.clients]
        )

    # A client of an even mix has 10 % of each class, one of a single class 100 %.
    assert spread(1e6) < 0.2 < spread(0.4) < spread(0.05)


def test_cifar100_goes_by_pachinko(tmp_path, monkeypatch):
    n = 1000
    fine = np.arange(n) % 100
    arrays = {
        "x_train": np.zeros((n, 32, 32, 3), np.uint8),
        "y_train": fine,
        "y_train_coarse": fine // 5,
        "x_test": np.zeros((100, 32, 32, 3), np.uint8),
        "y_test": np.arange(100),
        "y_test_coarse": np.arange(100) // 5,
    }
    write(tmp_path / "cifar100.npz", arrays)
    monkeypatch.setenv("SFLKIT_DATA", str(tmp_path))
    made = federations.data_streams(
        "cifar100", n_clients=10, n_historical=4, hist_fraction=0.2, seed=0
    )
    # Pachinko: equal sizes inside each group, few of the 20 superclasses at a client (Dirichlet
    # 0.1).
    assert made.sizes[:4].tolist() == [50] * 4 and sorted(made.sizes[4:]) == [133] * 4 + [134] * 2
    assert np.mean([len(np.unique(made.y[ids] // 5)) for ids in made.clients]) < 15
    assert made.input_shape == (3, 32, 32)


def test_logistic_sizes():
    for fraction, historical, fresh in ((0.05, 1, 190), (0.2, 4, 160), (0.5, 10, 100)):
        made = federations.data_streams(
            "logistic", n_clients=11, n_historical=10, hist_fraction=fraction, seed=0
        )
        assert made.sizes.tolist() == [historical] * 10 + [fresh]
        assert made.x.shape == (200, 20)
        assert made.x.dtype == np.float32
        assert set(made.y.tolist()) == {0, 1}
        assert made.n_classes == 2
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
    small = federations.data_streams(
        "logistic", n_clients=4, n_historical=3, hist_fraction=0.3, seed=5, n_samples=20
    )
    large = federations.data_streams(
        "logistic", n_clients=5, n_historical=3, hist_fraction=0.3, seed=5, n_samples=60
    )
    for m in range(3):
        np.testing.assert_array_equal(small.x[small.clients[m]], large.x[large.clients[m]][:2])
    np.testing.assert_array_equal(small.x_test, large.x_test[:800])
    assert len(np.unique(large.x, axis=0)) == 60  # no two clients share a sample


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
    assert few.n_clients == 10
    assert few.historical.sum() == 5
    assert 10 <= few.sizes.sum() <= 150
    assert few.note.startswith("10 of 60")
    # One more sample a client would break the limit.
    sizes = [len(ids) for ids in made.clients[:10]]
    assert np.minimum(sizes, few.sizes.max() + 1).sum() > 150
    # Who takes part and who is historical is drawn: another seed has another first client.
    drawn = [
        federations.data_streams("writers", n_clients=10, hist_fraction=0.5, seed=s).clients[0][0]
        for s in range(5)
    ]
    assert len(set(drawn)) > 1
    one = federations.data_streams("writers", n_clients=2, hist_fraction=0.01, seed=0)
    assert one.historical.tolist() == [True, False]


def test_static_natural_clients_have_enough():
    able = sum(len(ids) >= 40 for ids in natural.load("writers").train)
    assert (
        federations.static("writers", n_clients=None, seed=0, min_samples=40).n_clients == able < 60
    )
    made = federations.static("plays", n_clients=8, seed=0, samples_per_client=100)
    assert made.sizes.tolist() == [100] * 8
    assert made.n_classes == 100
    assert made.x.dtype == np.int64
    assert made.input_shape == (80,)
    with pytest.raises(ValueError, match=r"n_samples=799 .* >= 800"):
        federations.static("plays", n_clients=8, seed=0, samples_per_client=100, n_samples=799)
    with pytest.raises(ValueError, match="0 clients with at least 9999 training samples"):
        federations.static("writers", n_clients=None, seed=0, min_samples=9999)


def test_validation_by_hand(by_hand):
    # share 0.4: client 0 gives round(1.2) = 1 of 3, client 1 round(0.8) = 1 of 2; weights 1/2 each.
    split = federations.validation_split(by_hand, 0.4, rng())
    assert split.sizes.tolist() == [2, 1] and split.test_weights.tolist() == [0.5, 0.5]
    held = set(range(5)) - set(np.concatenate(split.clients).tolist())
    assert sorted(split.y_test) == sorted(by_hand.y[sorted(held)])
    assert {tuple(row) for row in split.x_test} == {tuple(by_hand.x[i]) for i in held}
    # share 0.9: round(2.7) = 3 would leave nothing, so 2 of 3 and 1 of 2: weights 1/4, 1/4, 1/2.
    assert federations.validation_split(by_hand, 0.9, rng()).test_weights.tolist() == [
        0.25,
        0.25,
        0.5,
    ]
    lonely = replace(by_hand, clients=(np.array([0]), np.array([4])))
    with pytest.raises(ValueError, match="leaves no validation sample: clients hold 1 to 1"):
        federations.validation_split(lonely, 0.5, rng())
    for share in (0.0, 1.0, np.nan):
        with pytest.raises(ValueError, match="share"):
            federations.validation_split(by_hand, share, rng())


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
        ({"n_clients": 2000}, "n_clients=2000 must be at most the 1442 samples"),
        ({"data": "writers", "alpha": -1}, "alpha=-1"),
    ],
)
def test_static_clients_that_do_not_fit_are_refused(change, message):
    with pytest.raises(ValueError, match=message):
        federations.static(**({"data": "digits", "n_clients": 5, "seed": 0} | change))
