"""The video-caching task: Zipf law, Algorithm 5 against its transition law and a plain loop,
and samples.
"""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sflkit.osafl import video
from sflkit.osafl.video import (
    Catalogue,
    Users,
    catalogue,
    dataset_1,
    dataset_2,
    draw_users,
    request_files,
    request_matrix,
)

# two genres of three files; cosines in genre 0: (0,1) 0.6, (0,2) 0, (1,2) 0.8; in genre 1: (3,4) 1,
# (3,5) -1, (4,5) -1
FEATURES = [[1, 0], [3, 4], [0, 2], [1, 1], [2, 2], [-1, -1]]
SMALL = Catalogue(np.array(FEATURES), [[2, 0, 1], [3, 4, 5]], gamma=1.0, q=0.0)
PAIR = Users([[0.75, 0.25], [1.0, 0.0]], [0.5, 0.8])


def paper(seed=0, n_users=100):
    parts = np.random.default_rng(seed).spawn(3)
    return catalogue(rng=parts[0]), draw_users(n_users, 5, parts[1]), parts[2]


def test_zipf_mandelbrot_by_hand():
    # gamma = 1, q = 0: 1, 1/2, 1/3 over 11/6; gamma = 2, q = 1: 1/4, 1/9 over 13/36
    np.testing.assert_allclose(video.zipf_mandelbrot(3, 1, 0), [6 / 11, 3 / 11, 2 / 11])
    np.testing.assert_allclose(video.zipf_mandelbrot(2, 2, 1), [9 / 13, 4 / 13])
    np.testing.assert_allclose(video.zipf_mandelbrot(4, 0, 5), 0.25)  # gamma = 0: all alike
    np.testing.assert_allclose(video.zipf_mandelbrot(20, 1.2, 1e9), 0.05)  # a huge shift: nearly so
    assert video.zipf_mandelbrot(20, 2000, 0).sum() == 1
    # ERRATA 39: as printed, (f+q)^-gamma times the sum of (f'+q)^gamma, they add up to 627
    powers = (np.arange(1, 21) + 2.0) ** 1.2
    assert (powers.sum() / powers).sum() == pytest.approx(627, abs=0.5)


def test_similar_files_by_hand():
    files, law = SMALL.similar(1)
    assert (
        files[:, 0].tolist() == [1, 2, 1, 4, 3, 3] and (law == 1).all()
    )  # 5 has a tie at -1, which the first file wins
    files, law = SMALL.similar(2)
    assert files.tolist() == [[1, 2], [2, 0], [1, 0], [4, 5], [3, 5], [3, 4]]
    # file 0: e^0.6 : e^0; file 3: e^1 : e^-1; file 5: equal
    np.testing.assert_allclose(law[0], np.array([math.exp(0.6), 1]) / (math.exp(0.6) + 1))
    np.testing.assert_allclose(law[3, 0], math.e**2 / (math.e**2 + 1))
    np.testing.assert_allclose(law[5], 0.5)
    np.testing.assert_allclose(SMALL.similarity[1], [0.6, 1, 0.8])  # itself included, for Dataset-1


def test_request_matrix_by_hand():
    # genre 0 ranks 2, 0, 1 with 6/11, 3/11, 2/11; genre 1 ranks 3, 4, 5. With two genres leaving
    # always means the other one
    matrix = request_matrix(SMALL, PAIR, top_k=1)
    np.testing.assert_allclose(matrix[0, 0], np.array([0, 11, 0, 6, 3, 2]) / 22)
    np.testing.assert_allclose(matrix[0, 4], np.array([3, 2, 6, 11, 0, 0]) / 22)
    np.testing.assert_allclose(
        matrix[1, 2], [0, 0.8, 0, *(0.2 * np.array([6, 3, 2]) / 11)]
    )  # ERRATA 40: renormalised
    np.testing.assert_allclose(matrix.sum(axis=2), 1)


def test_leaving_a_genre_by_hand():
    users = Users([[0.5, 0.3, 0.2], [1.0, 0.0, 0.0]], [0.5, 0.5])
    # ERRATA 40: (0.5, 0.3, 0.2) without the first is (0, 0.6, 0.4), without the last (5/8, 3/8, 0);
    # nothing left: uniform
    np.testing.assert_allclose(users.elsewhere()[0, 0], [0, 0.6, 0.4])
    np.testing.assert_allclose(users.elsewhere()[0, 2], [0.625, 0.375, 0])
    np.testing.assert_allclose(users.elsewhere()[1], [[0, 0.5, 0.5], [1, 0, 0], [1, 0, 0]])


@pytest.mark.parametrize("top_k", [1, 2])
def test_requests_follow_the_law(top_k):
    # independent check of request_files: transition counts of long sequences against
    # request_matrix, first requests against preferences x popularity
    n = 4000
    requests = request_files(SMALL, PAIR, n, np.random.default_rng(1), top_k=top_k)
    law = request_matrix(SMALL, PAIR, top_k=top_k)
    for u in range(2):
        counts = np.zeros((6, 6))
        np.add.at(counts, (requests[u, :-1], requests[u, 1:]), 1)
        visits = counts.sum(axis=1, keepdims=True)
        assert (visits > 50).all() and (counts[law[u] == 0] == 0).all()
        z = (counts - visits * law[u]) / np.sqrt(np.maximum(visits * law[u] * (1 - law[u]), 1e-9))
        assert np.abs(z[(law[u] > 0) & (law[u] < 1)]).max() < 4
    many = Users(np.repeat(PAIR.preferences[:1], n, axis=0), np.full(n, 0.5))
    first = (
        np.bincount(request_files(SMALL, many, 1, np.random.default_rng(2))[:, 0], minlength=6) / n
    )
    expected = np.array([0.75 * 3, 0.75 * 2, 0.75 * 6, 0.25 * 6, 0.25 * 3, 0.25 * 2]) / 11
    assert (np.abs(first - expected) < 4 * np.sqrt(expected / n)).all()


@pytest.mark.parametrize("top_k", [1, 3, 19])
def test_against_a_plain_loop(top_k):
    # Algorithm 5 line by line, on the same uniforms, with nothing of the library but the
    # catalogue's data
    cat, users, _ = paper(n_users=6)
    got = request_files(cat, users, 120, np.random.default_rng(9), top_k=top_k)
    popularity = np.array([(r + cat.q) ** -cat.gamma for r in range(1, 21)])
    popularity /= popularity.sum()

    def pick(law, uniform):
        total = 0.0
        for i, share in enumerate(law):
            total += share
            if uniform < total:
                return i
        return len(law) - 1

    for u, child in enumerate(np.random.default_rng(9).spawn(6)):
        draws = child.random((120, 3))
        genre = pick(users.preferences[u], draws[0, 1])
        file = cat.order[genre][pick(popularity, draws[0, 2])]
        line = [file]
        for stay, which_genre, which_file in draws[1:]:
            if stay <= users.stick[u]:
                here = cat.features[file].astype(float)
                others = [f for f in range(20 * genre, 20 * genre + 20) if f != file]
                cosine = {
                    f: here
                    @ cat.features[f]
                    / np.linalg.norm(here)
                    / np.linalg.norm(cat.features[f])
                    for f in others
                }
                top = sorted(others, key=lambda f: -cosine[f])[:top_k]
                weights = np.array([math.exp(cosine[f]) for f in top])
                file = top[pick(weights / weights.sum(), which_file)]
            else:
                law = [0.0 if g == genre else p for g, p in enumerate(users.preferences[u])]
                genre = pick(np.array(law) / sum(law), which_genre)
                file = cat.order[genre][pick(popularity, which_file)]
            line.append(file)
        np.testing.assert_array_equal(got[u], line)


def test_limits_of_sticking():
    always = request_files(
        SMALL, Users([[0.5, 0.5]] * 50, [1.0] * 50), 40, np.random.default_rng(0)
    )
    assert (always // 3 == always[:, :1] // 3).all()
    # top 1 from file 0: 1, 2, 1, 2, ...
    started = always[always[:, 0] == 0]
    assert len(started) and (started[:, 1:] == np.tile([1, 2], 20)[:39]).all()
    never = request_files(SMALL, Users([[0.5, 0.5]] * 50, [0.0] * 50), 40, np.random.default_rng(0))
    assert (np.diff(never // 3, axis=1) != 0).all()


@settings(max_examples=25)
@given(st.integers(0, 10**6), st.integers(2, 4), st.integers(2, 6), st.data())
def test_properties_of_any_catalogue(seed, n_genres, per_genre, data):
    rng = np.random.default_rng(seed)
    top_k = data.draw(st.integers(1, per_genre - 1))
    cat = catalogue(
        rng.standard_normal((n_genres * per_genre, 7)),
        n_genres=n_genres,
        rng=np.random.default_rng(seed),
    )
    users = draw_users(
        3, n_genres, np.random.default_rng(seed), concentration=0.01
    )  # preferences that round to 0
    requests = request_files(cat, users, 30, np.random.default_rng(seed), top_k=top_k)
    law = request_matrix(cat, users, top_k=top_k)
    np.testing.assert_allclose(law.sum(axis=2), 1, atol=1e-9)
    for u in range(3):
        assert all(law[u, a, b] > 0 for a, b in itertools.pairwise(requests[u]))
    np.testing.assert_array_equal(
        requests, request_files(cat, users, 30, np.random.default_rng(seed), top_k=top_k)
    )
    more = draw_users(5, n_genres, np.random.default_rng(seed), concentration=0.01)
    np.testing.assert_array_equal(
        more.preferences[:3], users.preferences
    )  # a new user disturbs nobody
    np.testing.assert_array_equal(
        request_files(cat, more, 30, np.random.default_rng(seed), top_k=top_k)[:3], requests
    )


def test_dataset_1_by_hand():
    # requests 1, 3, 3 of user 0: samples (features of 1, label 3) and (features of 3, label 3)
    x, y = dataset_1(SMALL, PAIR, 0, [1, 3, 3])
    assert x.dtype == np.float32 and x.shape == (2, 2 + 2 + 3 + 70 + 1) and y.tolist() == [3, 3]
    np.testing.assert_allclose(x[0], [3, 4, 0.75, 0.25, 0.6, 1, 0.8, *[0] * 70, 0.5], rtol=1e-6)
    np.testing.assert_allclose(x[1], [1, 1, 0.75, 0.25, 1, 1, -1, *[1] * 70, 0.5], rtol=1e-6)


def test_datasets_of_the_paper():
    cat, users, rng = paper()
    requests = request_files(cat, users, 50, rng)
    x, y = dataset_1(cat, users, 3, requests[3])
    assert x.shape == (49, 3168) and 3168 * 32 == 101376 and np.isfinite(x).all()  # Table I
    np.testing.assert_array_equal(x[:, :3072], cat.features[requests[3, :-1]])
    np.testing.assert_array_equal(y, requests[3, 1:])
    assert math.ceil(math.log2(cat.n_files)) == 7  # ERRATA 40: bits of a label
    past, label = dataset_2(cat, requests[3])
    assert past.shape == (40, 10) and past.dtype == np.int64
    for i in range(40):
        np.testing.assert_array_equal(past[i], requests[3, i : i + 10])
        assert label[i] == requests[3, i + 10]
    for short in ([], [4]):
        assert dataset_1(cat, users, 0, short)[0].shape == (0, 3168)
    assert dataset_2(cat, requests[3, :10])[0].shape == (0, 10)
    assert dataset_2(cat, [], past=2)[1].shape == (0,)


def test_paper_users_and_features():
    cat, users, _ = paper(n_users=400)
    assert cat.order.shape == (5, 20) and not (cat.order == np.arange(100).reshape(5, 20)).all()
    assert 0.4 <= users.stick.min() < 0.42 and 0.88 < users.stick.max() <= 0.9
    # Dirichlet(0.3) over 5: mean 1/5, variance (1/5)(4/5) / (1.5 + 1) = 0.064
    assert np.abs(users.preferences.mean(axis=0) - 0.2).max() < 0.05
    assert users.preferences.var() == pytest.approx(0.064, rel=0.1)
    # the synthetic images have about CIFAR-100's moments: pixels 0.48 and 0.27, neighbours 0.94,
    # cosines 0.80 and 0.10
    images = cat.features.reshape(100, 3, 32, 32)
    assert images.min() >= 0 and images.max() <= 1 and images.dtype == np.float32
    assert images.mean() == pytest.approx(0.48, abs=0.05)
    assert images.std() == pytest.approx(0.27, abs=0.03)
    assert np.corrcoef(images[..., 1:].ravel(), images[..., :-1].ravel())[0, 1] == pytest.approx(
        0.94, abs=0.02
    )
    unit = cat.features / np.linalg.norm(cat.features, axis=1, keepdims=True)
    cosines = (unit @ unit.T)[~np.eye(100, dtype=bool)]
    assert cosines.mean() == pytest.approx(0.80, abs=0.05)
    assert cosines.std() == pytest.approx(0.10, abs=0.03)


def test_best_accuracy_is_in_the_papers_range():
    # the accuracy of a predictor that knows the law: with top 1 a little above the mean stick
    # probability 0.65, with top 2 about half of it; the paper's centralised model reaches 0.663 and
    # 0.343 with its own users
    cat, users, rng = paper()
    best = {}
    for top_k in (1, 2):
        requests = request_files(cat, users, 400, rng, top_k=top_k)
        law = request_matrix(cat, users, top_k=top_k).max(axis=2)
        best[top_k] = np.mean([law[u, requests[u]].mean() for u in range(100)])
    stick = users.stick.mean()
    assert best[1] == pytest.approx(stick, abs=0.02)
    assert best[2] == pytest.approx(0.51 * stick, abs=0.02)
