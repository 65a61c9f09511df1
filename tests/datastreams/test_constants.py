"""The measured constants of the bound, by hand."""

from dataclasses import replace

import numpy as np
import pytest

from sflkit import models
from sflkit.datastreams import constants
from sflkit.datastreams.constants import estimate_constants, estimate_sigma0
from sflkit.datastreams.psi import estimate_c_ratio
from sflkit.federated import Task
from tests.datastreams.helpers import (
    Zero,
    federation,
    random_federation,
)


def test_constants_by_hand():
    # Zero model: loss ln 2. Client 0: x = 5, 1, y = 1; the first half of it is x = 5: gradient of
    # the two classes +-(5, 1)/2, norm sqrt(2 * 26 / 4) = sqrt 13. Client 1: x = 3, y = 0: norm
    # sqrt(2 * 10 / 4) = sqrt 5. One step of 0.1: D = 0.1 sqrt 13. Both losses fall, so B = ln 2,
    # and G is the start's sqrt 13.
    fed = federation([[5], [1], [3], [7]], [1, 1, 0, 0], [2, 1, 1], [True, True, False])
    got = estimate_constants(Task(Zero(1, 2)), fed, seed=0, fraction=0.5, steps=1)
    assert got == pytest.approx((np.log(2), 13**0.5, 0.1 * 13**0.5, 4, 4, 1), rel=1e-5)
    assert estimate_c_ratio(**got._asdict()) == pytest.approx((np.log(2) + 1) / 1.3, rel=1e-5)
    for bad in (
        dict(fraction=0),
        dict(fraction=1.1),
        dict(steps=0),
        dict(rate=0),
        dict(batch_size=0),
    ):
        name, value = next(iter(bad.items()))
        with pytest.raises(ValueError, match=f"{name}={value} must be"):
            estimate_constants(Task(Zero(1, 2)), fed, seed=0, **bad)
    with pytest.raises(ValueError, match="one of each kind"):
        estimate_constants(Task(Zero(1, 2)), replace(fed, historical=np.ones(3, bool)), seed=0)


def test_sigma0_by_hand():
    # Zero model, clients of three samples x with label y. Gradient of class 0 is (P(class 0) - [y =
    # 0]) (x, 1), of class 1 its negative, so squared norms are twice class 0's. The whole parts at
    # the start, P = 1/2: client 0, y = 1, 0, 0: (1, 1)/2, -(5, 1)/2, -(5, 1)/2, mean (-3, -1/3)/2:
    # (4, 4/3)/2, -(2, 2/3)/2 twice: 2 (4 + 4/9 + 2 (1 + 1/9))/3 = 40/9. After a vanishing training
    # the second model is the first: sigma_0 = sqrt(40/9). client 1, y = 1: (1, 1)/2, (3, 1)/2, (5,
    # 1)/2, mean (3, 1)/2: deviations -1, 0, 1 in x: 2 (1 + 0 + 1)/3 = 4/3.
    fed = federation(
        [[1], [5], [5], [1], [3], [5], [7]], [1, 0, 0, 1, 1, 1, 0], [3, 3, 1], [True, True, False]
    )
    task, options = Task(Zero(1, 2)), dict(seed=0, fraction=1, steps=1)
    assert estimate_sigma0(task, fed, rate=1e-6, **options) == pytest.approx(
        (40 / 9) ** 0.5, rel=1e-5
    )
    # the first sample alone, against the mean of the whole part: client 0's (4, 4/3)/2: 2 (4 + 4/9)
    assert estimate_sigma0(task, fed, rate=1e-6, max_samples=1, **options) == pytest.approx(
        (80 / 9) ** 0.5, rel=1e-5
    )

    # a real step, of rate 1: each sample takes the larger of its two deviations. x = 1, 5, 5 with y
    # = 1, 1, 0: class 0's mean gradient is (1 + 5 - 5, 1 + 1 - 1)/6, so class 0 moves by -(1, 1)/6
    # and class 1 by its negative.
    fed = federation([[1], [5], [5], [7]], [1, 1, 0, 0], [3, 1], [True, False])
    x, y, squares = np.array([[1.0, 1], [5, 1], [5, 1]]), np.array([1, 1, 0]), []
    for w in (np.zeros(2), -np.ones(2) / 6):
        g = (1 / (1 + np.exp(-2 * x @ w)) - (y == 0))[:, None] * x
        squares.append(2 * ((g - g.mean(0)) ** 2).sum(1))
    both = np.max(squares, axis=0)
    assert both.mean() > max(s.mean() for s in squares) + 1  # neither model has them all
    assert estimate_sigma0(task, fed, rate=1.0, **options) == pytest.approx(
        both.mean() ** 0.5, rel=1e-5
    )
    with pytest.raises(ValueError, match="max_samples=0"):
        estimate_sigma0(task, fed, max_samples=0, **options)


def test_sigma0_in_pieces(monkeypatch):
    fed, task = (
        random_federation([9, 7, 5], 2),
        Task(models.create("linear", input_shape=(3,), n_classes=3)),
    )
    want = estimate_sigma0(task, fed, seed=0, fraction=1, rate=0.5)
    monkeypatch.setattr(constants, "GRADIENT_NUMBERS", 2 * task.n_params)  # two samples at once
    assert (
        estimate_sigma0(task, fed, seed=0, fraction=1, rate=0.5)
        == pytest.approx(want, rel=1e-5)
        != 0
    )
