"""Sliders over what forgetting costs. Source: FATS, Theorem 7, Fig. 3."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sflkit.fats.methods import METHODS
from sflkit.results.widgets import SLIDER, picture

if TYPE_CHECKING:
    import ipywidgets


def unlearning_explorer() -> ipywidgets.VBox:
    """Return sliders for rho_S, rho_C and the requests w, over what forgetting costs on average.

    The left picture shows the mean unlearning time in trainings over w, served one after another
    and at once, with the order of Theorem 7; the right one the mean number of re-computations of w
    requests in a row, beside the bound 4 w rho. Both take the limits of many clients, many rounds
    and small mini-batches, in which a use comes at a uniform time and a request hits with
    probability 1 - exp(-rho). Source: FATS, Theorem 7, Fig. 3.
    """
    import ipywidgets
    import matplotlib.pyplot as plt
    import numpy as np

    from sflkit.fats import bounds

    # A training in look-ups: FEMNIST's T, so many that the bound's second part, w look-ups, hardly
    # shows.
    steps = 7000
    axis = np.arange(1, 21)

    def mean_time(rho):
        return 1 + np.expm1(-rho) / rho

    def draw(rho_s, rho_c, requests):
        _, (left, right) = plt.subplots(1, 2, figsize=(8.6, 3.4), width_ratios=(1.3, 1))
        levels = (("samples", rho_s, "#0072B2"), ("clients", rho_c, "#D55E00"))
        for i, (level, rho, color) in enumerate(levels):
            found = [bounds.theorem7(rho=rho, requests=int(w), training_time=steps) for w in axis]
            lines = {
                "one by one": (axis * mean_time(rho), "-"),
                "at once": (mean_time(axis * rho), "--"),
                "order of Theorem 7": ([b.time / steps for b in found], ":"),
            }
            for name, (values, line) in lines.items():
                left.plot(axis, values, color=color, linestyle=line, label=f"{level}, {name}")
                left.plot(
                    requests, values[requests - 1], "o", color=color, markersize=6, clip_on=False
                )
            bars = right.bar(
                [3 * i, 3 * i + 1],
                [-requests * np.expm1(-rho), found[requests - 1].recomputations],
                color=[color, "lightgray"],
                edgecolor=color,
            )
            right.bar_label(bars, fmt="%.3g")
        again = f"training again, once ({METHODS['frs'].label})"
        left.axhline(1, color="black", linewidth=1, label=again)
        left.set(
            xlabel="requests w",
            ylabel="unlearning time / training",
            ylim=(0, None),
            xticks=[1, 5, 10, 15, 20],
        )
        left.legend(fontsize=7, loc="upper left")
        right.set_xticks([0, 1, 3, 4], ["samples", r"$4w\rho_S$", "clients", r"$4w\rho_C$"])
        right.set(ylabel="re-computations", title=f"{requests} in a row")
        plt.show()

    controls = {
        "rho_s": ipywidgets.FloatSlider(
            0.43, min=0.01, max=1, step=0.01, description="rho_S (samples)", **SLIDER
        ),
        "rho_c": ipywidgets.FloatSlider(
            0.49, min=0.01, max=1, step=0.01, description="rho_C (clients)", **SLIDER
        ),
        "requests": ipywidgets.IntSlider(10, 1, 20, description="requests w", **SLIDER),
    }
    return ipywidgets.VBox([*controls.values(), picture(draw, controls)])
