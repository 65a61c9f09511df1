"""Patch features: a case by hand, limits, what they are fitted on, and the data set around them."""

import numpy as np
import pytest

from sflkit import data, paths
from sflkit.data import federations, patches
from sflkit.data.files import write
from tests.data.conftest import small

PHOTOGRAPHS = np.random.default_rng(3).integers(0, 256, (23, 14, 14, 3), np.uint8)
RECIPE = patches.Recipe(words=7, patches=500)


def test_by_hand():
    """Windows of 1 x 2 pixels would do, but windows are square: 2 x 2 on an image of 3 x 3.

    At stride 1 there are 2 x 2 windows, one per quadrant. The image is 8 in its upper left pixel
    and 0 elsewhere. Window (0, 0) holds 8, 0, 0, 0: mean 2, deviations 6, -2, -2, -2, variance
    (36 + 3 * 4) / 4 = 12. With 4 added the root is 4, so that the patch is 1.5, -0.5, -0.5, -0.5.
    All other windows are constant and become 0. Take no whitening, the mean (0.5, 0, 0, 0), and
    the words (1, 0, 0, 0) and (0, 0, 0.6, 0.8), with threshold 0.25.
    Word 1 answers window (0, 0) by 1.5 - 0.5 = 1, which is 0.75 above the threshold, and the three
    others by -0.5, which is 0.25 above on the negative side. Word 2 answers window (0, 0) by
    -0.7, which is 0.45 above on the negative side, and the others by 0.
    """
    image = np.zeros((1, 3, 3), np.uint8)
    image[0, 0, 0] = 8
    recipe = patches.Recipe(words=2, side=2, stride=1, contrast=4.0, threshold=0.25)
    encoder = patches.Encoder(
        recipe,
        mean=np.array([0.5, 0, 0, 0]),
        whitening=np.eye(4),
        words=np.array([[1, 0, 0, 0], [0, 0, 0.6, 0.8]]),
    )
    # Per quadrant: both words' positive answers, then both words' negative ones.
    expected = [[0.75, 0, 0, 0.45]] + [[0, 0, 0.25, 0]] * 3
    np.testing.assert_allclose(
        patches.encode(image, encoder), [np.concatenate(expected)], rtol=1e-6, atol=1e-7
    )


def test_zca_by_hand():
    """Four points (+-2, 0), (0, +-1) have the covariance diag(2, 1/2): the roots are 1.5 and 1
    with 1/4 and 1/2 added, in turn; a shift goes into the mean."""
    points = np.array([[2, 0], [-2, 0], [0, 1], [0, -1]]) + [3.0, -5.0]
    for added, roots in ((0.25, (1.5, np.sqrt(0.75))), (0.5, (np.sqrt(2.5), 1.0))):
        mean, matrix = patches.zca(points, added)
        np.testing.assert_allclose(mean, [3, -5])
        np.testing.assert_allclose(matrix, np.diag(1 / np.array(roots)), atol=1e-12)


@pytest.mark.parametrize("level", [0, 77, 255])
def test_a_constant_image_has_the_features_of_empty_patches(level):
    encoder = patches.fit(PHOTOGRAPHS, RECIPE)
    image = np.full((1, 14, 14, 3), level, np.uint8)
    # 5 x 5 windows at stride 2, of which 2 + 3 in each direction; every window is the zero patch.
    answer = encoder.words @ encoder.whitening @ (0 - encoder.mean)
    sides = np.maximum(np.concatenate([answer, -answer]) - RECIPE.threshold, 0)
    expected = np.concatenate([n * sides for n in (4, 6, 6, 9)])
    np.testing.assert_allclose(patches.encode(image, encoder)[0], expected, rtol=1e-4, atol=1e-5)


def test_whitened_patches_have_unit_covariance_and_words_unit_length():
    encoder = patches.fit(PHOTOGRAPHS, RECIPE)
    assert encoder.words.shape == (7, 108)
    np.testing.assert_allclose(np.linalg.norm(encoder.words, axis=1), 1)
    drawn = np.random.default_rng(0).normal(size=(4000, 5)) @ np.diag([1, 2, 3, 4, 5.0])
    mean, matrix = patches.zca(drawn, 0.0)
    np.testing.assert_allclose(np.cov((drawn - mean) @ matrix, rowvar=False), np.eye(5), atol=1e-2)


@pytest.mark.parametrize("chunk", [1, 4, 23, 100])
def test_chunks_do_not_matter(chunk):
    whole = patches.compute(PHOTOGRAPHS[:15], PHOTOGRAPHS[15:], RECIPE)
    for a, b in zip(
        whole, patches.compute(PHOTOGRAPHS[:15], PHOTOGRAPHS[15:], RECIPE, chunk=chunk), strict=True
    ):
        assert a.dtype == b.dtype == np.float32
        np.testing.assert_allclose(a, b, atol=2e-5)


def test_only_training_images_are_fitted():
    train, test = patches.compute(PHOTOGRAPHS[:15], PHOTOGRAPHS[15:], RECIPE)
    again, fewer = patches.compute(PHOTOGRAPHS[:15], PHOTOGRAPHS[19:], RECIPE)
    assert np.array_equal(train, again)
    np.testing.assert_allclose(test[4:], fewer, atol=2e-5)
    np.testing.assert_allclose(train.mean(axis=0), 0, atol=1e-5)
    spread = train.std(axis=0)
    assert np.all((abs(spread - 1) < 1e-4) | (spread == 0)) and (spread > 0).mean() > 0.5
    assert abs(test.std(axis=0) - 1).max() > 0.01


@pytest.fixture
def photographs(folder):
    """Write photographs, in a file of another time whenever it is called."""

    def anew(seed=0):
        write(folder / "cifar10.npz", small(shape=(32, 32, 3), seed=seed))

    anew()
    return anew


def test_features_are_made_once_and_belong_to_their_images(photographs, monkeypatch):
    assert data.available()["cifar10-patches"].endswith("cifar10.npz")
    assert "cifar100-patches" not in data.available()
    first = data.load("cifar10-patches")
    assert first.x_train.shape == (20, 2400) and first.x_test.shape == (10, 2400)
    assert first.input_shape == (2400,) and first.x_train.dtype == np.float32
    assert first.y_train.tolist() == data.load("cifar10").y_train.tolist()
    assert "300 random patches" in first.note and "subset: 20 training" in first.note
    assert first.lazy_inputs("train") is first.x_train  # as they are
    assert first.inputs("train").flags.writeable and not first.x_train.flags.writeable
    assert first is data.load("cifar10-patches")
    (file,) = paths.data().iterdir()

    with monkeypatch.context() as patch:
        patch.setattr(patches, "compute", lambda *images: 1 / 0)
        photographs()
        again = data.load("cifar10-patches")
    assert again is not first and again.digest == first.digest
    assert np.array_equal(again.x_test, first.x_test)

    file.unlink()
    photographs()
    assert data.load("cifar10-patches").digest == first.digest  # made anew, to the last bit
    photographs(seed=1)
    other = data.load("cifar10-patches")
    assert other.digest != first.digest and not np.array_equal(other.x_train, first.x_train)
    assert len(list(paths.data().iterdir())) == 2


def test_superclasses_and_pachinko_stay(folder):
    arrays = small(400, 100, (32, 32, 3), 100)
    write(folder / "cifar100.npz", arrays)
    loaded = data.load("cifar100-patches")
    assert loaded.x_train.shape == (400, 1200)
    assert loaded.with_coarse_labels().y_train.tolist() == arrays["y_train_coarse"].tolist()
    options = dict(n_clients=4, n_historical=2, hist_fraction=0.2, seed=1)
    pictures = federations.data_streams("cifar100", **options)
    features = federations.data_streams("cifar100-patches", **options)
    pairs = zip(pictures.clients, features.clients, strict=True)
    assert all(np.array_equal(a, b) for a, b in pairs)
    (folder / "cifar100.npz").unlink()
    with pytest.raises(data.DataUnavailableError, match=r"Put cifar100\.npz into"):
        data.load("cifar100-patches", download=False)
