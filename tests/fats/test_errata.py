"""FATS's counter-examples by hand."""

import math
from fractions import Fraction

import pytest

from companion.fats import errata


def values(number, role="printed"):
    return [reading.value for reading in errata.EXAMPLES[number]().of(role)]


@pytest.mark.parametrize(
    ("number", "printed"),
    [
        # one history of four is hit; half of its 1/4 goes to the other client: 1/8. Two requests
        # with three samples and two rounds: ERRATA 13
        (13, [Fraction(1, 8), Fraction(19, 96)]),
        (14, [Fraction(1, 8)]),
        (15, [Fraction(1, 8)]),
        # a hit at the second of two steps has probability 2/3 * 1/3, and its model has seen the
        # sample
        (18, [Fraction(2, 9)]),
        (19, [Fraction(3, 8)]),
        # b K T / (M N) = 2 / 4
        (20, [Fraction(1, 2)]),
        # 60,000 samples; 5 * 30 / 100
        (21, [60_000, 1.5]),
        # two of 40 clients in each of four rounds
        (22, [0.2]),
        # 1/100 + ... + 1/2
        (59, [sum(Fraction(1, k) for k in range(2, 101))]),
    ],
)
def test_by_hand(number, printed):
    assert values(number) == pytest.approx([float(value) for value in printed], rel=1e-12)


@pytest.mark.parametrize("number", [13, 14, 15, 16, 18])
def test_what_is_corrected_is_exact_to_the_fraction(number):
    assert set(values(number, "corrected")) == {0.0}


def test_the_rounds_that_theorem_5_asks_for():
    # Gamma = 1 / (rho_S M N) = 1 / (b K T) = 1 / 15000
    reading = errata.too_few_rounds().of("printed")[0]
    assert reading.needed == pytest.approx(2 * math.sqrt(15_000))


def test_the_smallest_sets_that_allow_the_spread():
    """64 samples a side do not, with what rounding leaves open: the variance is d (1/128 - d)."""
    above = 0.00095
    least = 100 * math.sqrt(above * (1 / 128 - above) * 100 / 99)
    shown = errata.attack_grid()
    assert least > shown.readings[0].needed > shown.of("corrected")[0].value
