"""What is kept of an array is a copy, so that a buffer may be filled again for the next round."""

from __future__ import annotations

import numpy as np
import pytest

from sflkit.federated.aggregation import LocalWork
from sflkit.federated.servers import Scaffold
from sflkit.osafl.devices import Devices
from sflkit.sfl.caches import Full
from sflkit.sfl.streams import LabelStream

HALF = np.full((1, 2, 2), 0.5)
KEPT = {
    "Devices": (np.array([1.0, 2.0]), lambda a: Devices(a, a, a, a, a).snr_per_watt),
    "LabelStream": (HALF, lambda a: LabelStream(a, a).transition),
    "Full": (HALF[0, 0], lambda a: Full(10, a).shares),
    "Scaffold": (HALF[0, 0], lambda a: Scaffold(2, a).shares),
    "LocalWork clients": (np.array([3, 1]), lambda a: LocalWork(a, [1, 1], 0.1).clients),
    "LocalWork steps": (np.array([3, 1]), lambda a: LocalWork([0, 1], a, 0.1).steps),
}


@pytest.mark.parametrize("name", KEPT)
def test_a_buffer_that_is_filled_again_changes_nothing(name):
    right, make = KEPT[name]
    buffer = right.copy()
    kept = make(buffer)
    buffer[:] = 7
    np.testing.assert_array_equal(kept, right)
