"""Sliders over what one client can do in a round. Source: OSAFL, problem (5)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from companion.widgets import SLIDER, picture

if TYPE_CHECKING:  # both load when an explorer is called
    from ipywidgets import VBox
    from matplotlib.axes import Axes

    from sflkit.osafl.devices import Allocation

_PARAMETERS_BITS = 33e6  # a million parameters


def resource_explorer() -> VBox:
    """Return sliders over what one client can do in a round: distance, payload, budget and start.

    The picture shows which powers and numbers of local steps fit, coloured by the lowest CPU
    frequency that meets the deadline (Lemma 2), with the exact answer and that of the alternation,
    which keeps the power it starts from. The client has middling hardware and no shadowing. Source:
    OSAFL, problem (5), ERRATA 34 and 35; `companion.osafl.evidence.resources`.
    """
    import ipywidgets
    import matplotlib.pyplot as plt

    from companion.osafl.evidence import resources as resource_evidence
    from companion.osafl.pictures import resources as resource_pictures
    from sflkit.osafl import allocation, alternation
    from sflkit.osafl.devices import Link

    def draw(distance: float, million: float, budget: float, start: float) -> None:
        link = Link(_PARAMETERS_BITS * million)
        client = resource_evidence.middling(distance, budget)
        most = client.max_tx_watt[0]
        power, steps = np.geomspace(1e-4, 1, 400) * most, np.linspace(0.02, 5, 100)
        at = alternation.Start(1.0, start)
        _, ax = plt.subplots(figsize=(8.4, 4.2))
        resource_pictures.fits(ax, resource_evidence.window(client, link, power, steps))
        _mark(ax, "exact", allocation.allocate(client, link), "*", "#D55E00", 17)
        found = allocation.allocate(client, link, "alternating", start=at)
        _mark(ax, "alternation", found, "o", "#56B4E9", 9)
        ax.axvline(start * most, color="#56B4E9", linestyle=":", linewidth=1.5)
        ax.set(xlim=(power[0], power[-1]), ylim=(0, 5.15))
        ax.legend(fontsize=9, loc="upper center", bbox_to_anchor=(0.5, 1.17), ncol=2)
        plt.show()

    controls = {
        "distance": ipywidgets.IntSlider(450, 10, 1000, 10, description="distance (m)", **SLIDER),
        "million": ipywidgets.FloatLogSlider(
            1.0, min=-1, max=1, step=0.05, description="million parameters", **SLIDER
        ),
        "budget": ipywidgets.FloatSlider(
            1.8, min=0.05, max=5, step=0.05, description="energy budget (J)", **SLIDER
        ),
        "start": ipywidgets.FloatLogSlider(
            0.3, min=-3, max=0, step=0.05, description="start p / p_max", **SLIDER
        ),
    }
    return ipywidgets.VBox([*controls.values(), picture(draw, controls)])


def _mark(ax: Axes, name: str, answer: Allocation, marker: str, color: str, size: int) -> None:
    """Draw one answer where it takes part, and say so in the legend where it does not."""
    place, label = (np.nan, np.nan), f"{name}: straggler"
    if answer.feasible[0]:
        place = (answer.tx_watt[0], answer.local_steps[0])
        label = f"{name}: {answer.local_steps[0]} steps, {answer.energy_j[0]:.3g} J"
    look = dict(color=color, markersize=size, markeredgecolor="white", linestyle="none")
    ax.plot(*place, marker, **look, label=label, clip_on=False, zorder=4)
