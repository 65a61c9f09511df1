"""Keyed generators: repeatable, apart from one another, and the published ones."""

from __future__ import annotations

import numpy as np
import pytest

from sflkit import randomness


def test_keyed_generators_are_repeatable_and_apart():
    keys = [
        (0, "stream"),
        (1, "stream"),
        (0, "cache"),
        (0, "stream", 0),
        (0, "stream", 0, 0),
        (0, "stream", 1),
        (0, "stream", 0, 1),
    ]
    draws = [randomness.generator(*key).integers(2**62) for key in keys]
    assert draws == [randomness.generator(*key).integers(2**62) for key in keys]
    assert len(set(draws)) == len(draws)
    assert (
        randomness.generator(0, "cache", np.int64(3)).random()
        == randomness.generator(0, "cache", 3).random()
    )


def test_the_place_of_a_purpose_is_part_of_published_numbers():
    assert randomness.PURPOSES[:5] == ("stream", "arrivals", "samples", "cache", "test_set")
    expected = np.random.default_rng(np.random.SeedSequence(7, spawn_key=(3, 2, 5))).random()
    assert randomness.generator(7, "cache", 2, 5).random() == expected


def test_the_first_model_depends_on_the_seed_only():
    seeds = [randomness.model_seed(seed) for seed in range(20)]
    assert len(set(seeds)) == 20 and all(0 <= seed < 2**31 for seed in seeds)
    assert seeds[3] == int(randomness.generator(3, "model").integers(2**31))
    with pytest.raises(ValueError, match="seed=-1 must be an integer >= 0"):
        randomness.model_seed(-1)


def test_large_numbers_are_keys_of_their_own_and_small_ones_as_they_were():
    def first(*key):
        return randomness.generator(*key).integers(2**62)

    big = 2**32
    assert first(0, "data", big) != first(0, "data", 0, 1)
    assert first(0, "data", big + 5, 1) != first(0, "data", 5, 1, 1)
    # a seed of five words would end in the place of the purpose
    assert first(7 + (1 << 128), "stream") != first(7, "arrivals", 0)
    keys = [(big,), (big, 0), (0, big), (big + 1,), (2**64,), (10**400,)]
    assert len({first(0, "data", *key) for key in keys}) == len(keys)
    assert first(0, "data", big) == first(0, "data", big)
    for seed, *key in ((0,), (2**128 - 1, big - 1), (12, 0, 1)):  # every published draw
        sequence = np.random.SeedSequence(seed, spawn_key=(8, *key))
        assert first(seed, "data", *key) == np.random.default_rng(sequence).integers(2**62)
