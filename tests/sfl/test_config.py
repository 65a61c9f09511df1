"""The settings of SFL's runs: the keys of published results, and what is refused."""

from dataclasses import replace

import numpy as np
import pytest

from companion.notebooks import toy_problem
from companion.notebooks.toy_problem import SyntheticConfig
from sflkit.runs.keys import result_key
from sflkit.sfl import cache_paths, discrepancy, training
from sflkit.sfl.config import SFLConfig
from sflkit.sfl.discrepancy import DiscrepancyConfig

EXPERIMENTS = {
    "sfl-training-full-start": (training.full_start, SFLConfig),
    "sfl-caches": (cache_paths.run, SFLConfig),
    "sfl-discrepancy": (discrepancy.run, DiscrepancyConfig),
    "sfl-toy-problem": (toy_problem.run, SyntheticConfig),
}


@pytest.mark.parametrize(("run", "config"), EXPERIMENTS.values(), ids=EXPERIMENTS)
def test_numpys_numbers_and_whole_floats_are_one_config_with_one_key(run, config):
    for rate in ("theta", "temperature"):
        one = config(**{rate: 1})
        for same in (1.0, np.float64(1), np.int64(1)):
            assert config(**{rate: same}) == one
            assert result_key(run, config(**{rate: same})) == result_key(run, one)
    assert result_key(run, config(rounds=np.float64(7))) == result_key(run, config(rounds=7))


def test_fields_that_must_agree():
    with pytest.raises(ValueError, match="batch_size=31 must be an integer >= 1 and <= 30"):
        SFLConfig(capacity=30, batch_size=31)
    with pytest.raises(ValueError, match="classes_per_client=3 must be an integer >= 1 and <= 2"):
        SFLConfig(train=False, n_classes=2)
    assert SFLConfig(n_classes=2).classes_per_client == 3  # with training the data set says
    with pytest.raises(ValueError, match="batch_size=150 must be an integer >= 1 and <= 100"):
        replace(SFLConfig(), capacity=100)
