"""Exact numbers behind the pictures and verdicts of Propositions 1 to 3, derived by hand."""

import numpy as np
import pytest

from companion.notebooks import n11
from sflkit.sfl import bounds, streams


@pytest.fixture(scope="module")
def case():
    """One client, two labels; the share is 0.3 or 0.7 and stays with probability 0.8."""
    stream = streams.LabelStream([[[0.3, 0.7], [0.7, 0.3]]], [[[0.8, 0.2], [0.2, 0.8]]])
    return n11.Case(stream, cache_rounds=2, theta=0.5, rounds=5, sizes=[1, 2, 4])


def test_a_stream_of_two_speeds_by_hand():
    """rho(1) = 0.96 * 0.2 + 0.04 * 0.999 = 0.23196, rho(2) = 0.96 * 0.04 + 0.04 * 0.998001 =
    0.07832; the mean of three rounds has the variance (3 + 2 (2 rho(1) + rho(2))) / 9."""
    found = n11.two_speeds((1, 3, 1000))
    expected = (3 + 4 * 0.23196 + 2 * 0.07832004) / 9
    assert found["exact"].tolist()[:2] == pytest.approx([1.0, expected])
    assert (found["exact"] <= found["bound"] + 1e-12).all()


def test_curves_of_a_case_by_hand(case):
    """Variance 0.04, correlation 0.6^tau. FIFO holds one round, then two: 0.04 (1 + 0.6) / 2. SRSR
    from an empty cache holds v_1 = u_1 / 4: (1/4)^2 0.04 + (3/4)^2 pi^2."""
    np.testing.assert_allclose(case.fifo[:, 0], [0.04, 0.032, 0.032, 0.032, 0.032])
    np.testing.assert_allclose(case.fifo_by_size[:2, 0], [0.04, 0.032])
    assert case.srsr[0, 0] == pytest.approx(0.0625 * 0.04 + 0.5625 * 0.25)
    np.testing.assert_allclose(case.drsr[:2], case.fifo[:2])  # the mean of all rounds so far
    assert (case.fifo[1:] <= case.fifo_bound(2) + 1e-12).all()


def test_the_long_run_and_the_way_to_it(case):
    limit = n11.long_run(case)
    # independent of the start, theta = 1 and M = 2: a_j = 2^-(j+1), so that with rho = 0.6^tau the
    # variance is 0.04 (a / (2 - a)) (1 + 0.6 (1 - a)) / (1 - 0.6 (1 - a)), a = 1/2
    assert limit.exact[-1, 0] == pytest.approx(0.04 / 3 * 1.3 / 0.7, rel=1e-6)
    assert (limit.exact <= limit.bound[:, None]).all()
    assert all((np.diff(bound) < 0).all() for bound in limit.falling)
    pace = n11.speed(case, limit.exact)
    assert pace.settled[0].max() > pace.settled[-1].max()
    path, at = pace.paths[-1, :, 0], pace.settled[-1, 0]
    assert abs(path[at - 1] / limit.exact[-1, 0] - 1) <= 0.1  # settled from that round on
    assert abs(path[at - 2] / limit.exact[-1, 0] - 1) > 0.1


def test_evidence_compares_each_value_with_its_own_bound(case):
    import pandas as pd

    columns = ["rule", "cache_rounds", "round", "client", "label", "mean", "standard_error"]
    none = pd.DataFrame(columns=columns)
    limit = n11.long_run(case)
    pace = n11.speed(case, limit.exact)
    found = n11.evidence(case, none, n11.two_speeds(), limit, pace)
    values, bound = found["sfl-prop1"]["every size"]
    assert values.shape == bound.shape == (2, 2)  # M = 2 and 4; M = 1 has its variance as bound
    assert bound[1, 0] == pytest.approx(bounds.fifo_discrepancy(4, case.gamma, case.delta2))
    values, bound = found["sfl-prop3"]["bound"]
    assert values.shape == bound.shape == (9, 2) and (values <= bound + 1e-12).all()
    assert found["sfl-theta"]["lower"] is True
