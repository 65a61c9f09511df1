"""The measured constants of the bound, by hand."""

from dataclasses import replace

import numpy as np
import pytest

from sflkit.datastreams.constants import estimate_constants
from sflkit.datastreams.psi import estimate_c_ratio
from sflkit.federated import Task
from tests.datastreams.helpers import Zero, federation


def test_constants_by_hand():
    # Zero model: loss ln 2. Client 0: x = 5, 1, y = 1; the first half of it is x = 5: gradient of
    # the two classes +-(5, 1)/2, norm sqrt(2 * 26 / 4) = sqrt 13. Client 1: x = 3, y = 0: norm
    # sqrt(2 * 10 / 4) = sqrt 5. One step of 0.1: D = 0.1 sqrt 13. Both losses fall, so B = ln 2,
    # and G is the start's sqrt 13.
    fed = federation([[5], [1], [3], [7]], [1, 1, 0, 0], [2, 1, 1], [True, True, False])
    got = estimate_constants(Task(Zero(1, 2)), fed, seed=0, fraction=0.5, steps=1)
    assert got == pytest.approx((np.log(2), 13**0.5, 0.1 * 13**0.5, 4, 4, 1), rel=1e-5)
    assert estimate_c_ratio(**got._asdict()) == pytest.approx((np.log(2) + 1) / 1.3, rel=1e-5)
    with pytest.raises(ValueError, match="one of each kind"):
        estimate_constants(Task(Zero(1, 2)), replace(fed, historical=np.ones(3, bool)), seed=0)
