"""FDS's counter-examples by hand."""

import math
from itertools import product

import pytest

from companion.datastreams import errata


def values(number, role="printed"):
    return [reading.value for reading in errata.EXAMPLES[number]().of(role)]


@pytest.mark.parametrize(
    ("number", "printed", "corrected"),
    [
        # (0.7 + sqrt(21 / 200)) / (0.4 * 1.9) = 1.347; 2 sqrt(2) * 0.02, and 2 sqrt(2 * 0.02)
        (26, [2 * math.sqrt(2) * 0.02, (0.7 + math.sqrt(0.105)) / 0.76], [0.4]),
        # ten rounds of 20 old samples and 20 new ones: 200 / 220
        (27, [200 / 220], [1 / 2]),
        # 1 / (1/4 + 3/36) = 3
        (29, [3], [4]),
        # |0.6| + |0.1| + |0.5|, and half of it
        (54, [1.2], [0.6]),
        # D = 2, T = 10^4, eta' = 1 / (4 * 100): 4 / 200 and 4 * 400 / 20000
        (56, [0.02], [0.08]),
        # 12 / 1000, and 12
        (62, [0.012], [12]),
    ],
)
def test_by_hand(number, printed, corrected):
    assert values(number) == pytest.approx(printed)
    assert values(number, "corrected") == pytest.approx(corrected)


def test_the_variability_of_ten_clients_against_all_signs_of_three():
    """The example counts ten clients by binomials; the same sum over all 64 signs of three."""
    squares = []
    for signs in product((-1, 1), repeat=6):
        squares.append((sum(signs[:3]) / 3 - sum(signs[3:]) / 3) ** 2 / 4)
    # (1 - 1/2) * 3 * (1/3)^2 = 1/6, as the corrected formula says for three
    assert sum(squares) / 64 == pytest.approx(1 / 6)
    assert errata.fresh_factor().readings[0].needed == pytest.approx(1 / 20)


def test_the_gap_of_the_lower_bound_by_hand():
    # (1 + q) (b - a)^2 / (2 (2 + q)) with q = 1/2, a = -1/3, b = 0: 1.5 / 9 / 5 = 1/30
    assert values(28) == pytest.approx([1 / 30], abs=1e-6)
