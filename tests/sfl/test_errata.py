"""SFL's counter-examples by hand."""

import math

import pytest

from companion.notebooks import n14
from companion.sfl import errata


def values(number, role="printed"):
    return [reading.value for reading in errata.EXAMPLES[number]().of(role)]


@pytest.mark.parametrize(
    ("number", "printed", "corrected"),
    [
        # half of 300 and two thirds of 150; (1 - 1/3) of 300 and two thirds of 150
        (1, 150 + 100, 200 + 100),
        # client 1: gradients -2, -1.6; client 2: 6, 4.8; sums 3.6 and -10.8, mean -3.6; rate 0.1
        (2, -3.6, -0.36),
        # 7 * 0.04, and the variance of one round
        (8, 0.28, 0.04),
        # eta_L = 1/400, E L = 50: 1/2 - 60 * (1/8)^2
        (10, -0.4375, 0.5 - 60 * (0.999 / math.sqrt(120)) ** 2),
        # Phi_G T is as (eta_L E)^2 T: E / 1 with the root, 1 without
        (50, 4, 1),
    ],
)
def test_by_hand(number, printed, corrected):
    assert values(number) == pytest.approx([printed])
    assert values(number, "corrected") == pytest.approx([corrected])


def test_the_coin_s_step_sizes_are_those_of_the_theorem():
    # eta eta_L is at most 1/(4EL), and the round's step is E times it for a tiny eta_L
    for local_steps, local_rate, global_rate in ((1, 1e-4, 2500.0), (50, 1e-6, 5000.0)):
        assert n14.bound(3, local_steps, local_rate, global_rate).feasible
        assert n14.step_of(local_steps, local_rate, global_rate) == pytest.approx(0.25, rel=1e-4)
    # then the squared gradient tends to 1/32 for two rounds in the cache (tests of `coin`)
    assert errata.coin_gradient().readings[0].needed == pytest.approx(1 / 32, rel=1e-4)
    # and is never below 1/12 where the first two coins stay (item 74)
    assert errata.kept_samples().readings[0].needed >= 1 / 12
