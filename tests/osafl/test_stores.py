"""FIFO stores: windows by hand, against a queue, laws of the draws, and bad input."""

import math

import numpy as np
import pytest

from sflkit.osafl.stores import Stores, draw_stores, fifo_windows


def test_stores_by_hand():
    # p = 1: every slot brings a sample, so that the window moves by E_u; p = 0: it stays
    windows = fifo_windows(Stores([10, 5], [3, 2], [1.0, 0.0]), 4, np.random.default_rng(0))
    assert windows[:, 0].tolist() == [[3, 13], [6, 16], [9, 19], [12, 22]]
    assert (windows[:, 1] == [0, 5]).all()
    # the window is what a queue that drops its oldest holds
    drawn = fifo_windows(Stores([7], [4], [0.5]), 30, np.random.default_rng(3))[:, 0]
    queue, next_sample = list(range(7)), 7
    for first, stop in drawn:
        for _ in range(stop - next_sample):
            queue = [*queue[1:], next_sample]
            next_sample += 1
        assert queue == list(range(first, stop))


def test_arrivals_are_binomial():
    windows = fifo_windows(
        Stores(np.full(50, 400), np.full(50, 20), np.full(50, 0.3)), 400, np.random.default_rng(0)
    )
    arrivals = np.diff(windows[..., 0], axis=0)
    n = arrivals.size  # mean 6, variance 20 * 0.3 * 0.7 = 4.2
    assert arrivals.mean() == pytest.approx(6, abs=4 * math.sqrt(4.2 / n))
    assert arrivals.var() == pytest.approx(4.2, rel=0.05)
    drawn = draw_stores(300, np.random.default_rng(1))
    assert 320 <= drawn.capacity.min() < 335 and 625 < drawn.capacity.max() <= 640
    np.testing.assert_array_equal(drawn.slots, np.ceil(32 * drawn.probability))
    assert drawn.slots.min() >= 10 and drawn.slots.max() <= 26
    few = draw_stores(10, np.random.default_rng(1))
    for a, b in zip(few, drawn):
        np.testing.assert_array_equal(a, b[:10])  # a new client disturbs nobody
    windows = [fifo_windows(some, 5, np.random.default_rng(2))[:, :10] for some in (few, drawn)]
    np.testing.assert_array_equal(*windows)
