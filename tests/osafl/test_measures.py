"""What is judged of a run: numbers worked out by hand."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from companion.notebooks import n33, osafl_shared
from companion.notebooks.osafl_shared import WORST_LOSS, by_arm


def run(accuracies, losses=None, seed=0, arm="osafl"):
    """One run; an accuracy None is diverged, NaN was not evaluated."""
    values = pd.Series([np.nan if a is None else a for a in accuracies], dtype=float)
    best = values.cummax().ffill()
    return pd.DataFrame(
        {
            "K": 1,
            "seed": seed,
            "arm": arm,
            "round": np.arange(1, len(values) + 1),
            "accuracy": values,
            "loss": 1 - values if losses is None else losses,
            "best_accuracy": best,
            "best_loss": 1 - best,
            "diverged": [a is None for a in accuracies],
        }
    )


def test_best_and_its_loss():
    assert osafl_shared.best(run((0.1, 0.7, 0.6))) == 0.7
    assert osafl_shared.best_loss(run((0.1, 0.7, 0.6))) == pytest.approx(0.3)
    never = run((None, None))
    assert osafl_shared.best(never) == 0 and osafl_shared.best_loss(never) == WORST_LOSS


def test_area_counts_diverged_rounds_as_0_and_leaves_out_what_was_not_evaluated():
    assert n33.area(run((0.2, 0.4, None, None))) == pytest.approx(0.15)
    assert n33.area(run((0.2, np.nan, 0.4, 0.6))) == pytest.approx(0.4)


def test_late_log_loss_is_the_mean_of_logarithms_over_the_last_quarter():
    # of 8 rounds the last two
    curve = run((0.5,) * 8, losses=[9, 9, 9, 9, 9, 9, 2, 8])
    assert n33.late_log_loss(curve) == pytest.approx(np.log(4))
    ended = run((0.5,) * 6 + (None, None), losses=[1.0] * 8)
    assert n33.late_log_loss(ended) == pytest.approx(np.log(WORST_LOSS))


def test_shares_of_the_rounds():
    curve = run(np.arange(1, 9) / 10)
    assert osafl_shared.between(0.75, 1)(curve) == pytest.approx(0.75)  # rounds 7 and 8
    assert osafl_shared.between(0, 0.25)(curve) == pytest.approx(0.15)
    assert osafl_shared.at_round(3)(curve) == pytest.approx(0.3)


def test_plateau_by_hand():
    # ten rounds rise by 0.1, thirty stay at 1: the last quarter's mean is 1; the mean of five
    # rounds reaches 0.98 first in rounds 10 to 14, whose middle is round 12 (9 to 13: 0.98 as well,
    # since (0.9 + 4) / 5 = 0.98)
    curve = run(np.r_[np.arange(1, 11) / 10, np.ones(30)])
    assert n33.plateau(curve, share=0.979) == 11
    assert n33.plateau(curve, share=0.99) == 12
    assert n33.plateau(curve, share=1, window=1) == 10
    # a constant run is there at once
    assert n33.plateau(run((0.3,) * 20)) == 3


def test_plateau_of_the_loss_by_hand():
    # the loss falls from 10 to 1 in ten rounds and stays: 1 is 0.98 of a mean of 1.0204 at most,
    # and rounds 9 to 13 have (2 + 4) / 5 = 1.2, rounds 10 to 14 have 1
    curve = run((0.5,) * 40, losses=np.r_[np.arange(10, 0, -1), np.ones(30)])
    assert n33.loss_plateau(curve) == 12
    assert n33.loss_plateau(curve, share=1 / 1.21) == 11
    assert n33.loss_plateau(curve, share=1, window=1) == 10
    # a constant loss is there at once, and so is one that only rises
    assert n33.loss_plateau(run((0.5,) * 20, losses=[2.0] * 20)) == 3
    assert n33.loss_plateau(run((0.5,) * 20, losses=np.arange(1.0, 21))) == 3


@given(losses=st.lists(st.floats(0.1, 10), min_size=20, max_size=40), power=st.integers(-9, 9))
def test_the_plateau_of_the_loss_does_not_depend_on_its_unit(losses, power):
    curve = run((0.5,) * len(losses), losses=np.array(losses))
    scaled = curve.assign(loss=curve["loss"] * 2.0**power)  # powers of two round nothing
    np.testing.assert_equal(n33.loss_plateau(scaled), n33.loss_plateau(curve))


def test_no_plateau_where_no_window_gets_there():
    # the last six of 24 rounds have the mean 4 / 6, and no five of them are below 4 / 5
    ends = [9.0] * 18 + [0.0, 1.0, 1.0, 1.0, 1.0, 0.0]
    assert np.isnan(n33.loss_plateau(run((0.5,) * 24, losses=ends)))


def test_by_arm():
    frame = pd.concat(
        [run((0.1, 0.3), seed=s, arm=a) for s in (4, 5) for a in ("osafl", "m_fedavg")]
        + [run((0.9, 0.5), seed=4, arm="genie"), run((0.2, 0.7), seed=5, arm="genie")]
    )
    table = by_arm(frame, osafl_shared.best).loc[1]
    assert table["genie"].to_dict() == {4: 0.9, 5: 0.7}
    assert table["osafl"].to_dict() == table["m_fedavg"].to_dict() == {4: 0.3, 5: 0.3}
