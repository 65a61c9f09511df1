"""What is kept of an array is a copy, so that a buffer may be filled again for the next round; no
mask is lost on the way, and no index counts.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from sflkit.datastreams import importance, psi
from sflkit.federated.servers import LocalWork, Scaffold, mean_update, weighted_average
from sflkit.osafl import video
from sflkit.osafl.devices import Devices
from sflkit.sfl.caches import Full
from sflkit.sfl.sampling import SampleSource
from sflkit.sfl.streams import LabelStream

HALF = np.full((1, 2, 2), 0.5)
RNG = np.random.default_rng(0)
FILES = video.catalogue(n_files=10, n_genres=2, rng=RNG)
KEPT = {
    "Devices": (np.array([1.0, 2.0]), lambda a: Devices(a, a, a, a, a).snr_per_watt),
    "LabelStream": (HALF, lambda a: LabelStream(a, a).transition),
    "Full": (HALF[0, 0], lambda a: Full(10, a).shares),
    "Scaffold": (HALF[0, 0], lambda a: Scaffold(2, a).shares),
    "LocalWork clients": (np.array([3, 1]), lambda a: LocalWork(a, [1, 1], 0.1).clients),
    "dataset_2": (np.array([3, 1]), lambda a: video.dataset_2(FILES, a, past=1)[1]),
    "dataset_1": (
        np.array([3, 1]),
        lambda a: video.dataset_1(FILES, video.draw_users(1, 2, RNG), 0, a)[1],
    ),
    "LocalWork steps": (np.array([3, 1]), lambda a: LocalWork([0, 1], a, 0.1).steps),
}


@pytest.mark.parametrize("name", KEPT)
def test_a_buffer_that_is_filled_again_changes_nothing(name):
    right, make = KEPT[name]
    buffer = right.copy()
    kept = make(buffer)
    buffer[:] = 7
    np.testing.assert_array_equal(kept, right[-len(kept) :])


MASKED = np.ma.array([[1.0, 2], [3, 4]], mask=[[True, False], [False, False]])
HISTORICAL = np.ma.array([True, False], mask=[True, False])


@pytest.mark.parametrize(
    ("name", "call"),
    [
        ("updates", lambda: weighted_average(MASKED)),
        ("updates", lambda: mean_update(np.zeros(2), MASKED)),
        ("updates", lambda: Scaffold(2)(HALF[0, 0], MASKED, work=LocalWork([0, 1], [1, 1], 0.1))),
        ("counts", lambda: SampleSource([0, 1, 1], RNG).draw(MASKED.astype(int)[0])),
        ("historical", lambda: psi.minimize_psi([1, 2], HISTORICAL, 1, 1)),
        ("historical", lambda: importance.gradient_noise(HALF[0, 0], HISTORICAL)),
    ],
)
def test_no_mask_is_lost(name, call):
    with pytest.raises(ValueError, match=f"{name} has masked entries"):
        call()


def test_the_rows_of_a_table_are_no_names():
    """SCAFFOLD went through a table's columns and took their names for the clients' updates."""
    updates, work = np.array([[1.0, 2], [3, 4]]), LocalWork([0, 1], [1, 1], 0.1)
    expected = Scaffold(2)(np.zeros(2), updates, work=work)
    found = Scaffold(2)(np.zeros(2), pd.DataFrame(updates, [1, 0], [1, 0]), work=work)
    np.testing.assert_array_equal(found, expected)
