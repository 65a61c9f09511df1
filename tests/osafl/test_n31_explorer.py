"""The explorer of what one client can do in a round, moved like a reader would."""

import numpy as np
import pytest

from companion.notebooks import n31


def test_the_resource_explorer_draws_what_fits(monkeypatch):
    import matplotlib.pyplot as plt

    from sflkit.osafl import allocation, alternation, channels
    from sflkit.osafl.devices import Devices, Link

    drawn = []
    monkeypatch.setattr(plt, "show", lambda: drawn.append(plt.gcf().axes))
    distance, million, budget, start = n31.resource_explorer().children[:-1]
    client = Devices(channels.snr_per_watt(450), 160 * 101376 * 32.5, 1.8, 1.4e9, 10**-0.5)
    exact = allocation.allocate(client, Link(33e6))
    kept = allocation.allocate(client, Link(33e6), "alternating", start=alternation.Start(1.0, 0.3))
    star, circle, line = drawn[0][0].lines
    assert star.get_xydata()[0] == pytest.approx((exact.tx_watt[0], 5))
    assert exact.local_steps[0] == 5
    assert (
        circle.get_xydata()[0] == pytest.approx((0.3 * 10**-0.5, kept.local_steps[0]))
        and kept.feasible[0]
    )  # ERRATA 35
    assert (
        line.get_xdata() == pytest.approx([0.3 * 10**-0.5] * 2) and len(drawn[0]) == 2
    )  # with a colour bar: something fits
    start.value = 1.0  # all of the power breaks the budget
    assert np.isnan(drawn[-1][0].lines[1].get_xdata()).all()
    assert "straggler" in drawn[-1][0].lines[1].get_label()
    budget.value, million.value = 0.05, 10.0
    distance.value = 1000
    assert (
        len(drawn) == 5 and len(drawn[-1]) == 1 and "straggler" in drawn[-1][0].lines[0].get_label()
    )  # nothing fits
    plt.close("all")
