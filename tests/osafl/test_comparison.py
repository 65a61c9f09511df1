"""What notebooks 33 and 34 show beside their verdicts, on invented runs."""

import numpy as np
import pandas as pd
import pytest

from companion.notebooks import n33, n34, osafl_shared
from sflkit.osafl.clients import ceiling, ceiling_of_strangers
from sflkit.osafl.config import OSAFLConfig
from sflkit.osafl.networks import SIZES
from tests.osafl.osafl_plans import ONE, TWO, drive

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
    paper = osafl_shared.printed_table("FCN")
    assert list(paper)[:2] == ["centralised SGD", "OSAFL"]
    assert list(paper["OSAFL"])[::3] == ["accuracy, K = 1", "loss, K = 2"]
    assert paper["OSAFL"]["accuracy, K = 2"] == (0.3384, 0.0010)
    assert paper["centralised SGD"]["loss, K = 2"] == (2.4209, 0.0169)
    assert osafl_shared.printed_table("LSTM")["OSAFL"]["accuracy, K = 1"] == (0.4037, 0.0159)
    marks = osafl_shared.printed_marks("FCN", "accuracy", 1)
    assert set(marks) == {"genie", *osafl_shared.LABELS}
    assert (marks["osafl"], marks["genie"], marks["m_afa_cd"]) == (0.6608, 0.6630, 0.0566)
    assert osafl_shared.printed_marks("LSTM", "loss", 2)["osafl"] == 3.3061
    ours = osafl_shared.our_table(one.runs)
    assert set(ours) == set(paper) - {"centralised SGD"}
    # invented: 0.58, 1 - 0.8^8 of it after 8 rounds; a seed each
    level = (0.58 + 0.001 * np.array([0, 1, 2])) * (1 - 0.8**8)
    np.testing.assert_allclose(ours["OSAFL"]["accuracy, K = 2"], level)
    with_genie = osafl_shared.our_table(pd.concat([one.runs, one.genie]))
    assert set(with_genie) == set(paper) and not len(with_genie["centralised SGD"]["loss, K = 2"])
    assert set(osafl_shared.our_table(two.tables)) == set(paper)


def test_the_limits_are_those_of_the_requests():
    small = dict(layers=1, hidden=8, embedding=8, n_clients=5, rounds=4, minibatches=4)
    base = n34.lstm_base(**small, capacity=[30, 40], allocator="none", test_size=200)
    runs = {K: [OSAFLConfig(seed=s, top_k=K, **base) for s in (3, 4)] for K in (1, 2)}
    user, file = (
        {K: np.mean([limit(config) for config in own]) for K, own in runs.items()}
        for limit in (ceiling, ceiling_of_strangers)
    )
    assert file[1] <= user[1] < 1 and file[2] <= user[2]
    assert n33.ceilings(base, [3, 4]).mean() == pytest.approx(user[1])
    # two similar files are harder to tell apart than one
    assert user[2] < user[1]


def test_who_knows_the_law_is_right_as_often_as_expected():
    """Of 4000 requests of five users: within four standard errors, 4 sqrt(1/4 / 4000) = 0.032."""
    config = OSAFLConfig(seed=3, n_clients=5, rounds=1, allocator="none", test_size=4000)
    right = n33.right_on_test(config)
    assert 0 < abs(right - ceiling(config)) < 0.032
    few = n33.right_on_test(OSAFLConfig(seed=3, n_clients=5, rounds=1, test_size=10))
    assert few * 10 == round(few * 10)  # two requests of each user
