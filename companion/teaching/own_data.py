"""The exercise of notebook 93: a cache rule of the reader's own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from companion.teaching.exercise import Exercise, Form


def _cache_of(answer: Callable) -> Callable:
    """Return a function that feeds a new cache and returns what it held after each round."""

    def run(capacity: int, batch_size: int, rounds: list) -> list:
        cache = answer(capacity, batch_size)
        held = []
        for ids, labels in rounds:
            cache.update(ids.copy(), labels.copy(), np.random.default_rng(len(held)))
            held.append((cache.ids, cache.labels))
        return held

    return run


def _read_contents(value: Any, args: tuple) -> list:
    for pair in value:
        for name, array in zip(("ids", "labels"), pair, strict=True):
            if not (isinstance(array, np.ndarray) and array.dtype.kind == "i" and array.ndim == 1):
                raise TypeError(f"a cache whose {name} are no vector of integers")
    return [(ids.tolist(), labels.tolist()) for ids, labels in value]


balanced = Exercise(
    "93",
    "a cache rule of your own that keeps the labels in balance",
    "Write a class `Balanced`, built as `Balanced(capacity, batch_size)` and best derived from "
    "`sflkit.sfl.caches.Cache`, whose method `take(ids, labels, rng)` gets one round of arrivals "
    "and calls `self.keep(ids, labels)` with what stays. The cache should hold as many samples as "
    "it can, and of each label as many as of every other, as far as there are such samples among "
    "what it held and what arrives.",
    "Balanced(capacity, batch_size)",
    Form("a cache with ids, labels and update(ids, labels, rng)", _read_contents),
    adapt=_cache_of,
    a="a class",
)


def _streams(rng):
    for capacity, batch_size, labels in ((6, 3, 2), (12, 5, 3), (10, 10, 4)):
        rounds, at = [], 0
        for t in range(6):
            mix = np.roll(np.array([0.7, *np.full(labels - 1, 0.3 / (labels - 1))]), t // 2)
            rounds.append((np.arange(at, at + batch_size), rng.choice(labels, batch_size, p=mix)))
            at += batch_size
        yield capacity, batch_size, rounds


@balanced.must(hint="How many samples may stay?")
def there_is_room_for_all_it_holds(f, rng):
    "The cache never holds more samples than its capacity."
    return all(len(ids) <= s[0] for s in _streams(rng) for ids, _ in f(*s))


@balanced.must(hint="Keep the two arrays together when you pick from them.")
def it_holds_only_what_arrived(f, rng):
    "Every sample in the cache arrived, is held once and has its own label."
    for stream in _streams(rng):
        known: dict = {}
        for (ids, labels), (new_ids, new_labels) in zip(f(*stream), stream[2], strict=True):
            known |= dict(zip(new_ids.tolist(), new_labels.tolist(), strict=True))
            if len(set(ids)) < len(ids) or [known.get(i) for i in ids] != labels:
                return False
    return True


@balanced.must(hint="Leave no room empty while there are samples at hand.")
def no_room_is_wasted(f, rng):
    "The cache is full as soon as enough samples have arrived."
    for stream in _streams(rng):
        arrived = np.cumsum([len(ids) for ids, _ in stream[2]])
        if any(
            len(ids) < min(stream[0], n) for (ids, _), n in zip(f(*stream), arrived, strict=True)
        ):
            return False
    return True


@balanced.must(hint="Take away from the label that has most, one sample at a time.")
def labels_are_in_balance(f, rng):
    """No label has two samples more than another one of which a sample was at hand and had to
    leave."""
    for stream in _streams(rng):
        before: dict = {}
        for (ids, labels), (new_ids, new_labels) in zip(f(*stream), stream[2], strict=True):
            at_hand = before | dict(zip(new_ids.tolist(), new_labels.tolist(), strict=True))
            before = dict(zip(ids, labels, strict=True))
            left = {label for i, label in at_hand.items() if i not in before}
            if any(labels.count(label) + 1 < max(map(labels.count, labels)) for label in left):
                return False
    return True
