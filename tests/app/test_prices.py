"""Prices of runs, from the seconds of finished ones."""

from __future__ import annotations

import json

import pytest

from companion.app.prices import Prices, in_words, span


def head(seed=0, experiment="probe", **config):
    key = f"{experiment}/{seed} {config}"
    return {"key": key, "experiment": experiment, "config": {"seed": seed, **config}}


@pytest.fixture
def folder(tmp_path):
    """Six finished runs: (rule, rounds, seed, seconds)."""
    rows = [
        ("fifo", 10, 0, 1.0),
        ("fifo", 10, 1, 3.0),
        ("fifo", 10, 2, 8.0),
        ("drsr", 10, 0, 10.0),
        ("drsr", 20, 0, 26.0),
        ("srsr", 40, 0, 40.0),
    ]
    (tmp_path / "probe").mkdir()
    for i, (rule, rounds, seed, seconds) in enumerate(rows):
        record = head(seed, rule=rule, rounds=rounds) | {"seconds": seconds, "key": f"probe/{i}"}
        (tmp_path / "probe" / f"{i}.json").write_text(json.dumps(record))
    (tmp_path / "probe" / "broken.json").write_text("{")
    (tmp_path / "probe" / "odd.json").write_text('{"config": 3, "key": "probe/odd"}')
    return tmp_path


def test_the_same_config_but_for_the_seed(folder):
    prices = Prices([folder])
    assert prices.of(head(9, rule="fifo", rounds=10)) == 3.0  # the median of 1, 3 and 8


def test_the_nearest_config_scaled_by_its_length(folder):
    prices = Prices([folder])
    # Nearest to (drsr, 40) are those that share one field: drsr at 10 rounds (10 s, times 4), drsr
    # at 20 (26 s, times 2), srsr at 40 (40 s): the median of 40, 52 and 40.
    assert prices.of(head(rule="drsr", rounds=40)) == 40.0
    # Nearest to (lazy, 20) is drsr at 20 alone.
    assert prices.of(head(rule="lazy", rounds=20)) == 26.0


def test_the_experiments_median_and_the_unknown(folder):
    prices = Prices([folder])
    # No field in common: the median of 1, 3, 8, 10, 26, 40, unscaled.
    assert prices.of(head(rule="lazy", rounds=7)) == 9.0
    assert prices.of(head(experiment="another", rule="fifo", rounds=10)) is None
    assert Prices([folder / "nowhere"]).of(head(rule="fifo", rounds=10)) is None


def test_a_record_that_is_learnt_twice_counts_once(folder):
    """Of 1, 3 and 8 seconds the median is 3, also where the last was in the folder before."""
    prices = Prices([folder])
    known = head(2, rule="fifo", rounds=10) | {"seconds": 8.0, "key": "probe/2"}
    for _ in range(3):
        prices.learn(known)
    assert prices.of(head(9, rule="fifo", rounds=10)) == 3.0


def test_a_result_in_two_folders_counts_once(folder):
    assert Prices([folder, folder]).of(head(rule="fifo", rounds=10)) == 3.0


def test_what_is_learnt_counts_from_then_on(folder):
    prices = Prices([folder])
    assert prices.of(head(experiment="another", rule="fifo", rounds=20)) is None
    prices.learn(head(experiment="another", rule="fifo", rounds=10) | {"seconds": 2.0})
    assert prices.of(head(experiment="another", rule="fifo", rounds=20)) == 4.0
    prices.learn(head(3, experiment="another", rule="fifo", rounds=20) | {"seconds": 7.0})
    assert prices.of(head(experiment="another", rule="fifo", rounds=20)) == 7.0
    prices.learn({"experiment": "another"})  # says nothing
    assert prices.of(head(experiment="another", rule="fifo", rounds=20)) == 7.0


def test_in_words():
    assert in_words([]) == "about 0.0 s"
    assert in_words([3.0, None, 5.0, None], jobs=2) == "about 5.0 s + 2 unknown"
    assert in_words([3.0, 5.0], jobs=1) == "about 8.0 s"
    assert in_words([None]) == "1 unknown"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.04, "0.0 s"), (9.94, "9.9 s"), (9.96, "10 s"), (99.4, "99 s"), (99.6, "2 min"),
     (99.4 * 60, "99 min"), (99.6 * 60, "1.7 h"), (36000, "10.0 h")],
)  # fmt: skip
def test_spans(seconds, text):
    assert span(seconds) == text
