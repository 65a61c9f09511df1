import numpy as np
import pandas as pd
import pytest

from sflkit.fats.evidence.unlearning import mean_curves


def runs(n_seeds):
    """Return accuracies as `clocked` does: seed s has 0.1 (s + 1) at times 1 and 2."""
    rows = [
        ("learning", time, "digits", "sample", seed, method, 0.1 * (seed + 1))
        for seed in range(n_seeds)
        for method in ("fats", "frs")
        for time in (1, 2)
    ]
    columns = ["phase", "clock", "data", "level", "seed", "method", "accuracy"]
    return pd.DataFrame(rows, columns=columns)


def test_curves_by_hand():
    # 0.1, 0.2, 0.3: standard error 0.1 / sqrt(3), and Student's 4.3027 with two degrees of freedom
    found = mean_curves(runs(3))
    assert len(found) == 4 and "seed" not in found
    assert found["mean"].to_numpy() == pytest.approx(0.2)
    half = 4.302653 * 0.1 / np.sqrt(3)
    assert found["low"].to_numpy() == pytest.approx(0.2 - half)
    assert found["high"].to_numpy() == pytest.approx(0.2 + half)


def test_more_seeds_are_no_more_rows_and_missing_values_are_left_out():
    many = runs(50)
    assert len(mean_curves(many)) == len(mean_curves(runs(2)))
    gone = (many["seed"] == 49) | ((many["method"] == "frs") & (many["clock"] == 2))
    found = mean_curves(many.assign(accuracy=many["accuracy"].mask(gone)))
    assert found[["method", "clock"]].to_numpy().tolist() == [["fats", 1], ["fats", 2], ["frs", 1]]
    assert found["mean"].to_numpy() == pytest.approx(2.5)  # of 0.1 to 4.9


def test_one_seed_has_no_interval():
    assert np.isinf(mean_curves(runs(1))[["low", "high"]]).all(axis=None)
