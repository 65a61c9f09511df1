"""Sliders over what one client can do in a round. Source: OSAFL, problem (5)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sflkit.results.widgets import SLIDER, picture

if TYPE_CHECKING:
    from ipywidgets import VBox


def resource_explorer() -> VBox:
    """Return sliders over what one client can do in a round: distance, payload, budget and start.

    The picture shows which powers and numbers of local steps fit, coloured by the lowest CPU
    frequency that meets the deadline (Lemma 2), with the exact answer and that of the alternation,
    which keeps the power it starts from. The client has middling hardware and no shadowing. Source:
    OSAFL, problem (5), ERRATA 34 and 35; `sflkit.osafl.devices`."""
    import ipywidgets
    import matplotlib.pyplot as plt
    import numpy as np
    from matplotlib.colors import LogNorm

    from sflkit.osafl import allocation, alternation, channels
    from sflkit.osafl.devices import Devices, Link, costs

    cycles = 160 * 101376 * 32.5  # 32.5 cycles per bit
    max_cpu = 1.4e9
    max_tx = 10**-0.5  # 25 dBm
    power = np.geomspace(1e-4, 1, 400) * max_tx
    steps = np.linspace(0.02, 5, 250)[:, None]
    levels = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1400]

    def draw(distance: float, million: float, budget: float, start: float) -> None:
        link = Link(33e6 * million)
        client = Devices(channels.snr_per_watt(distance), cycles, budget, max_cpu, max_tx)
        many = Devices(np.full(len(power), client.snr_per_watt), cycles, budget, max_cpu, max_tx)
        with np.errstate(divide="ignore"):
            cpu = alternation.lemma2(many, link, steps, power)
        spent = costs(many, link, steps, np.maximum(cpu, 0), power)
        fits = (cpu > 0) & (cpu <= max_cpu) & (spent.compute_j + spent.uplink_j <= budget)
        exact = allocation.allocate(client, link)
        found = allocation.allocate(
            client, link, "alternating", start=alternation.Start(1.0, start)
        )
        _, ax = plt.subplots(figsize=(6.8, 3.6))
        if fits.any():
            shown = ax.contourf(
                power,
                steps[:, 0],
                np.where(fits, cpu / 1e6, np.nan),
                levels=levels,
                norm=LogNorm(1, 1400),
                cmap="cividis",
                extend="min",
            )
            plt.colorbar(shown, ax=ax, label="CPU frequency f (MHz)", format="%g", ticks=levels)
        marks = (("exact", exact, "*", "#D55E00", 17), ("alternation", found, "o", "#56B4E9", 9))
        for name, answer, marker, color, size in marks:
            place = (np.nan, np.nan)
            label = f"{name}: straggler"
            if answer.feasible[0]:
                place = (answer.tx_watt[0], answer.local_steps[0])
                label = f"{name}: {answer.local_steps[0]} steps, {answer.energy_j[0]:.3g} J"
            ax.plot(
                *place,
                marker,
                color=color,
                markersize=size,
                markeredgecolor="white",
                linestyle="none",
                label=label,
                clip_on=False,
                zorder=4,
            )
        ax.axvline(start * max_tx, color="#56B4E9", linestyle=":", linewidth=1.5)
        ax.set(
            xscale="log",
            xlim=(power[0], power[-1]),
            ylim=(0, 5.15),
            xlabel="transmit power p (W)",
            ylabel=r"local steps $\kappa$",
        )
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
