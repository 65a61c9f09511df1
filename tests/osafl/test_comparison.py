"""What notebooks 33 and 34 show beside their verdicts, on invented runs."""

import numpy as np
import pytest

from companion.notebooks import n33, n34, osafl_shared
from companion.notebooks.osafl_shared import at_k
from sflkit.osafl.clients import ceiling
from sflkit.osafl.config import OSAFLConfig
from sflkit.osafl.networks import SIZES
from tests.osafl.test_plans import ONE, TWO, drive

FULL = SIZES["FCN"].options["hidden"]


@pytest.fixture(scope="module")
def one():
    return drive(n33.dataset1(**ONE))[1]


@pytest.fixture(scope="module")
def two():
    return drive(n34.dataset2(**TWO))[1]


def test_the_longest_steps_by_hand():
    base = osafl_shared.fcn_base(FULL, 100, 100, "synthetic", 10.0, "none", 1, 9)
    table = osafl_shared.printed_steps(base)
    # OSAFL 0.2 * 35, the models' rules five steps at 0.15 or 0.1, M-FedNova slowed down by 0.1
    expected = {"OSAFL": "7", "M-FedAvg": "0.75", "M-AFA-CD": "0.2", "M-FedNova": "0.005"}
    expected |= {"M-FedProx": "0.5", "M-FedDisco": "0.75"}
    assert table["longest step"].to_dict() == expected
    assert table.columns[-1] == "longest step"
    assert table.loc["M-FedProx", "mu"] == "0.9" and table.loc["OSAFL", "mu"] == ""


def test_tables_stand_beside_the_papers(one, two):
    paper = osafl_shared.printed_table("osafl-tab3", "FCN")
    assert list(paper)[:2] == ["centralised SGD", "OSAFL"]
    assert paper["OSAFL"]["accuracy"] == (0.3384, 0.0010)
    assert paper["centralised SGD"]["loss"] == (2.4209, 0.0169)
    ours = osafl_shared.our_table(at_k(one.read.runs, 2))
    assert set(ours) == set(paper) - {"centralised SGD"}
    # invented: 0.6, less 0.02 at the printed step, 1 - 0.8^8 of it after 8 rounds; a seed each
    level = (0.58 + 0.001 * np.array([0, 1, 2])) * (1 - 0.8**8)
    np.testing.assert_allclose(ours["OSAFL"]["accuracy"], level)
    with_genie = osafl_shared.our_table(at_k(two.tables, 1))
    assert set(with_genie) == set(paper)
    # the paper's M-AFA-CD is the one with the printed buffer
    assert with_genie["M-AFA-CD"]["accuracy"].max() < 0.1


def test_the_limits_are_those_of_the_requests():
    base = n34.lstm_base(1, 8, 8, 5, 4, 4, [30, 40]) | {"allocator": "none", "test_size": 200}
    (limits,) = n34.two_ceilings(base, [1], [3, 4]).values()
    assert list(limits.columns) == ["user", "file"] and list(limits.index) == [3, 4]
    assert ((limits["file"] <= limits["user"]) & (limits["user"] < 1)).all()
    assert n33.ceilings(base, [3, 4]).tolist() == limits["user"].tolist()
    harder = n34.two_ceilings(base, [2], [3, 4])[2]["user"]
    assert (harder < limits["user"]).all()  # two similar files are harder to tell apart than one


def test_who_knows_the_law_is_right_as_often_as_expected():
    """Of 4000 requests of five users: within four standard errors, 4 sqrt(1/4 / 4000) = 0.032."""
    config = OSAFLConfig(seed=3, n_clients=5, rounds=1, allocator="none", test_size=4000)
    right = n33.right_on_test(config)
    assert 0 < abs(right - ceiling(config)) < 0.032
    few = n33.right_on_test(OSAFLConfig(seed=3, n_clients=5, rounds=1, test_size=10))
    assert few * 10 == round(few * 10)  # two requests of each user
