"""What notebook 30 computes about requests and stores; evidence can fail."""

import numpy as np
import pandas as pd
import pytest

from companion.claims import OSAFL as CLAIMS
from companion.notebooks import n30
from sflkit.osafl import video
from sflkit.randomness import generator
from tests.invented import answers


@pytest.fixture(scope="module")
def world():
    cat = video.catalogue(None, gamma=1.2, q=2.0, rng=generator(5, "data"))
    return cat, video.draw_users(8, cat.n_genres, generator(5, "data", 1))


@pytest.fixture(scope="module")
def simulated(world):
    return {k: n30.frequencies(*world, 3000, generator(5, "requests", k), top_k=k) for k in (1, 2)}


def test_the_printed_popularity_is_off_by_its_squared_normaliser(world):
    """With weights w and Xi = 1 / sum w in print: sum of w / (1 / sum(1 / w)), by (80)."""
    printed = n30.printed_popularity(world[0], 1.2, 2.0)
    weights = (np.arange(1, 21) + 2.0) ** -1.2
    assert printed.sum() == pytest.approx(weights.sum() * (1 / weights).sum())
    assert printed / printed.sum() == pytest.approx(world[0].popularity)


def test_counts_are_those_of_the_requests(simulated):
    for k, found in simulated.items():
        stays, error, mean = found.tested["stay"]
        assert (np.abs(stays - mean) < 5 * error).all() and found.impossible == 0
        assert found.tested["rank"][0].sum() == 8 * 2999 - stays.sum()
        seen, error, mean = found.tested["transition"]
        assert (np.abs(seen - mean) < 5 * error).all() and (mean >= 100).all()
        assert found.share == pytest.approx(seen * found.exact / mean)
        assert ("choice" in found.tested) == (k > 1)


def test_who_leaves_is_counted_by_hand(monkeypatch):
    """Genres of two files; user 0 leaves genre 0 for 1, twice, and comes back once; ranks of the
    files found: file 2 is genre 1's favourite, file 1 genre 0's second.
    """
    order = np.array([[0, 1], [2, 3]])
    cat = video.Catalogue(np.eye(4) + 0.1, order, gamma=1.0, q=0.0)
    users = video.Users(np.array([[0.5, 0.5]]), np.array([0.4]))
    asked = np.array([[0, 2, 1, 2, 3, 3]])
    monkeypatch.setattr(video, "request_files", lambda *args, **kwargs: asked)
    monkeypatch.setattr(n30, "_OFTEN", -1)
    tested = n30.frequencies(cat, users, 6, None, top_k=1).tested
    assert tested["stay"][0].tolist() == [2] and tested["stay"][2].tolist() == [pytest.approx(2.0)]
    assert tested["genre"][0].tolist() == [1, 2]  # found: genre 0 once, genre 1 twice
    assert tested["genre"][2] == pytest.approx([1, 2])  # of two genres there is one other
    assert tested["rank"][0].tolist() == [2, 1]
    assert tested["rank"][2] == pytest.approx([2, 1])  # weights 1 and 1/2 of three


def test_the_long_run_stays_where_it_is(world):
    law = video.request_matrix(*world, top_k=2)
    settled = n30.long_run(law)
    assert settled.sum(axis=1) == pytest.approx(np.ones(8))
    assert (settled[:, None] @ law)[:, 0] == pytest.approx(settled, abs=1e-9)


def test_a_store_is_a_window_over_the_requests():
    """Requests 0 0 1 2 2, windows [0, 2) and [2, 5): two of file 0; one of file 1, two of 2."""
    shares = n30._shares(np.array([0, 0, 1, 2, 2]), np.array([[0, 2], [2, 5]]), 4)
    assert shares.tolist() == [[2, 0, 0, 0], [0, 1, 2, 0]]
    top, least = n30._extremes(np.array([0.1, 0.0, 0.5, 0.4]))
    assert top.tolist() == [2, 3] and least.tolist() == [3, 0]


def test_a_store_is_followed_from_its_beginning(world):
    means, example = n30.movements(*world, 60, 5, top_k=1, user=2)
    assert example.shares.shape == (61, 100)
    assert example.shares.sum(axis=1) == pytest.approx(np.ones(61))
    assert example.shares[0, example.top[0]] == example.shares[0].max()
    assert 0 < means["top 2"] < means["first share"] < 1


def test_a_sample_has_the_blocks_of_the_table(world):
    """The five blocks by Appendix D; where each stands is tested with `video.dataset_1`."""
    requests = video.request_files(*world, 50, generator(5, "requests"))[2]
    found = n30.samples(*world, 2, requests)
    assert found.features == 3168 and found.rebuilt
    assert found.blocks["features"].tolist() == [3072, 5, 20, 70, 1]
    assert found.blocks["from"].tolist() == [0, 3072, 3077, 3097, 3167]
    assert found.blocks["bits"].sum() == 101_376
    assert found.label_bits == 7 and found.kept == {6: 64, 7: 100}


def test_the_ceiling_is_about_the_stick_probability(world):
    """With K = 1 a stayer is certain to be guessed, and who leaves is never the likeliest."""
    assert n30.ceiling(*world, 1) == pytest.approx(world[1].stick.mean(), abs=0.02)
    assert n30.ceiling(*world, 2) == pytest.approx(world[1].stick.mean() / 2, abs=0.05)


def test_the_evidence_is_judged_and_can_fail(world, simulated):
    cat, users = world
    requests = video.request_files(cat, users, 50, generator(5, "requests"))[2]
    sample = n30.samples(cat, users, 2, requests)
    one, _ = n30.movements(cat, users, 60, 5, top_k=1, user=2)
    moved = pd.DataFrame([one, one | {"top 2": one["top 2"] + 0.01}])
    printed = n30.printed_popularity(cat, 1.2, 2.0)
    good = n30.evidence(simulated, printed, moved, sample, 100)
    assert set(good) == {"osafl-alg5", "osafl-fig2", "osafl-tab1"}

    def answer(parts, artefact, part):
        return answers(CLAIMS[artefact], parts[artefact])[part]

    assert answer(good, "osafl-alg5", "stay") == "yes"
    assert answer(good, "osafl-alg5", "printed_law") == "no"
    tested = simulated[1].tested
    seen, error, mean = tested["stay"]
    off = simulated[1]._replace(tested=tested | {"stay": (seen + 9 * error, error, mean)})
    small = sample._replace(rebuilt=False, features=3167)
    bad = n30.evidence({1: off}, printed, moved, small, 100)
    assert answer(bad, "osafl-alg5", "stay") in ("no", "partly")
    assert answer(bad, "osafl-alg5", "choice") == "not run"
    assert answer(bad, "osafl-tab1", "one") == answer(bad, "osafl-tab1", "features") == "no"
