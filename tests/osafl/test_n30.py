"""What notebook 30 computes about requests and stores; evidence can fail."""

import numpy as np
import pandas as pd
import pytest

from companion.claims import OSAFL as CLAIMS
from companion.judging.claims import Setting
from companion.notebooks import n30
from sflkit.osafl import video
from sflkit.randomness import generator


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


def test_counts_are_those_of_the_requests(world, simulated):
    for k, found in simulated.items():
        assert found.seen.sum() == 8 * 2999 and found.impossible == 0
        assert found.expected.sum() == pytest.approx(8 * 2999)
        stays, error, mean = found.tested["stay"]
        assert (np.abs(stays - mean) < 5 * error).all()
        n_left = 8 * 2999 - stays.sum()
        assert found.tested["rank"][0].sum() == n_left
        assert ("choice" in found.tested) == (k > 1)


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


def test_a_sample_stands_where_the_table_says(world):
    requests = video.request_files(*world, 50, generator(5, "requests"))[2]
    found = n30.samples(*world, 2, requests)
    assert found.features == 3168 and all(found.holds.values()) and found.rebuilt
    assert found.blocks["features"].sum() == 3168 and found.blocks["bits"].sum() == 101_376
    assert (found.past, found.label_bits) == (10, 7) and found.kept == {6: 64, 7: 100}
    other = n30.samples(*world, 3, requests)  # another user's taste, the same pictures
    assert other.holds["image"] and other.features == 3168


def test_the_ceiling_is_about_the_stick_probability(world):
    """With K = 1 a stayer is certain to be guessed, and who leaves is never the likeliest."""
    table = n30.ceilings([world], [1, 2])
    ceiling = table["ceiling, mean over seeds"]
    assert ceiling[1] == pytest.approx(world[1].stick.mean(), abs=0.02)
    assert ceiling[2] == pytest.approx(world[1].stick.mean() / 2, abs=0.05)
    assert table["paper: centralised FCN"].tolist() == [0.6630, 0.3419]


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
        verdict = CLAIMS[artefact].judge(parts[artefact], setting=Setting("full"))
        return {a.part.key: a.judged.answer for a in verdict.answers}[part]

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
