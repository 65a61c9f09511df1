"""The picture of who took part, and of what forgetting trains anew."""

import matplotlib

matplotlib.use("agg")
import matplotlib.pyplot as plt
import numpy as np
import pytest

from companion.notebooks import n00
from sflkit.fats.history import draw_history


@pytest.mark.parametrize("client", [0, 4])
def test_all_rounds_from_the_first_use_on_are_shaded(client):
    rng = np.random.default_rng(1)
    sizes = {"n_clients": 6, "samples_per_client": 5, "clients_per_round": 2}
    history = draw_history(**sizes, batch_size=2, local_steps=1, rounds=9, rng=rng)
    first = history.first_use(client)
    fig, ax = plt.subplots()
    n00.participation(ax, history, client)
    others, own = ax.lines[:2]
    assert len(others.get_xdata()) + len(own.get_xdata()) == 9 * 2
    assert set(own.get_ydata()) == {client} and client not in others.get_ydata()
    assert own.get_xdata().min() == first
    (shade,) = ax.patches
    assert shade.get_x() == first - 0.5 and shade.get_x() + shade.get_width() == 8.5
    plt.close(fig)
