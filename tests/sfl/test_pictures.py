"""Explorers and bars of the notebooks: the numbers that they draw, by hand."""

import matplotlib
import numpy as np
import pytest

matplotlib.use("Agg")


from companion.notebooks import n20, sfl_shared
from sflkit.sfl import cache_paths, training
from sflkit.sfl.config import SFLConfig


def test_the_discrepancy_explorer_draws_the_three_bounds(monkeypatch):
    import matplotlib.pyplot as plt

    from sflkit.sfl import bounds

    drawn = []
    monkeypatch.setattr(plt, "show", lambda: drawn.append(plt.gca()))
    controls = {
        child.description.split()[0]: child
        for child in sfl_shared.discrepancy_explorer().children[:-1]
    }
    assert list(controls) == ["memory", "deviation", "cache", "theta", "share"] and len(drawn) == 1
    fifo, srsr, drsr, one_round = drawn[0].lines
    # Proposition 1 at Gamma = 1, delta^2 = 0.15^2, M = 10: min(2 + 1, 10) * 0.0225 / 10
    assert fifo.get_ydata() == pytest.approx(3 * 0.0225 / 10)
    assert one_round.get_ydata() == pytest.approx([0.0225] * 2)
    t = drsr.get_xdata()
    np.testing.assert_allclose(
        drsr.get_ydata(), np.minimum(3, t) * 0.0225 / t
    )  # Proposition 3, with the cap of ERRATA 8
    np.testing.assert_allclose(
        srsr.get_ydata(), bounds.srsr_discrepancy(t, 10, 2 / 3, 1.0, 0.15**2, 0.3)
    )
    controls["cache"].value = 1
    controls["theta"].value = 1.0
    assert len(drawn) == 3 and drawn[-1].get_title() == "SRSR's limit: infinite (ERRATA 6)"
    plt.close("all")


def test_the_importance_explorer_draws_the_minimiser(monkeypatch):
    import matplotlib.pyplot as plt

    drawn = []
    monkeypatch.setattr(plt, "show", lambda: drawn.append(plt.gcf().axes))
    ratio, share, n_historical, n_clients = n20.importance_explorer().children[:-1]
    left, right = drawn[0]
    curve, point, level = left.lines
    # 25 + 25 clients, c2/c1 = 0.15, N_hist/N = 0.2: p_hist = 0.4522, reported as 0.45; the curve
    # starts at 1 and ends at 0.2
    assert point.get_xydata()[0] == pytest.approx([0.15, 0.4522], abs=5e-5)
    assert level.get_ydata() == [0.2, 0.2]
    assert curve.get_ydata()[[0, -1]] == pytest.approx([1, 0.2], abs=1e-3)
    assert np.interp(0.15, *curve.get_data()) == pytest.approx(
        0.4522, abs=0.005
    )  # the point lies on the curve
    fresh, historical, uniform, ours = [bar.get_height() for bar in right.patches]
    # by hand, c1 = 1: 1/5 + 0.15/sqrt(0.8), 0.15/sqrt(0.2), 0.8/5 + 0.15
    assert (fresh, historical, uniform) == pytest.approx(
        (0.2 + 0.15 / 0.8**0.5, 0.15 / 0.2**0.5, 0.31)
    )
    assert ours < 0.31
    share.value = 0.8  # 0.15 < sqrt(0.8 / 25): fresh clients are out
    assert drawn[-1][0].lines[1].get_ydata()[0] == 1
    n_clients.value = (
        10  # fewer clients than were historical: the slider follows, one fresh client stays
    )
    assert (n_historical.value, n_historical.max) == (9, 9)
    ratio.value = 100.0
    assert [bar.get_height() for bar in drawn[-1][1].patches][2] == pytest.approx(
        0.01 * 0.2 + 1
    )  # Uniform, c1 = 0.01, c2 = 1
    plt.close("all")


def test_caches_alone_have_the_discrepancy_of_a_full_run():
    config = SFLConfig(rule="srsr", rounds=6, capacity=20, batch_size=10, n_clients=3, train=False)
    frame = cache_paths.run(config)
    assert frame.columns.tolist() == ["round", "discrepancy"]
    assert frame.equals(training.run(config)[["round", "discrepancy"]])
    with pytest.raises(ValueError, match="train=True"):
        cache_paths.run(SFLConfig())
