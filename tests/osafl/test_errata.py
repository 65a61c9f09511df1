"""OSAFL's counter-examples by hand."""

import math

import pytest

from companion.osafl import errata


def values(number, role="printed"):
    return [reading.value for reading in errata.EXAMPLES[number]().of(role)]


@pytest.mark.parametrize(
    ("number", "printed", "corrected"),
    [
        # A = 1 - 16 * 0.06^2 * 25; the loss rises from 1/2 to 9/8: 2 * (-5/8) / (1/2) / 0.36;
        # on the old data it falls from 1/2 to 1/8: 2 * (3/8) / (1/2) / 0.36
        (33, [-0.44, -2.5 / 0.36], [1.5 / 0.36]),
        # steps per J are as 1 / steps along the deadline: a fifth for five
        (34, [0.2], [5]),
        (40, [math.log2(100), 0.5], [7, 1]),
        # 1 - 35 / 2 with half of the clients absent
        (37, [-16.5], [1]),
        # 1 - 0.2 * 0.5 / 0.1
        (38, [0], [1]),
        (41, [4], [1]),
        # 0.2 * 35 against 0.01 * 20
        (44, [7], [0.2]),
        # 0.2, and 0.1 * 0.01 * 5 steps; 35 * 0.2
        (69, [0.2, 0.005], [7]),
    ],
)
def test_by_hand(number, printed, corrected):
    assert values(number) == pytest.approx(printed)
    assert values(number, "corrected") == pytest.approx(corrected)


def test_federated_averaging_s_bound_by_hand():
    """(26) of the whole run is 2 * (1/2) / 1 = 1; the sum of all w^2 is 1 / (1 - k), k < 1."""
    shown = errata.fedavg_bound()
    c = (1 - (1 - 0.0245) ** 10) / 0.245
    assert shown.of("printed")[0].value == pytest.approx(1)
    assert shown.of("printed")[0].needed == pytest.approx(1 / (1 - (1 - c) ** 2))


def test_which_loss_by_hand():
    # eta = 1e-3: A = 1 - 16e-6 / 4; decreases 1/2 and 1/4 times 2 over 1
    a = 1 - 4e-6
    assert values(66) == pytest.approx([1 / a])
    assert values(66, "corrected") == pytest.approx([0.5 / a])
