"""Sliders over whether forgetting is exact, and over what it costs.

Source: FATS, Algorithm 2, Theorem 7, Fig. 3.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from companion.widgets import SLIDER, picture
from sflkit.fats.methods import METHODS

if TYPE_CHECKING:
    import ipywidgets


def exactness_explorer() -> ipywidgets.VBox:
    """Return sliders over a tiny federation, whose histories are all enumerated.

    They set M, N, K and b; there is one round of one step. Left: the distance to retraining after
    the first client's first sample is forgotten, by rule. Right: how often that client is drawn,
    once at least, before and after. Source: FATS, Algorithm 2, with ERRATA 13 and 16.
    """
    import ipywidgets
    import matplotlib.pyplot as plt

    from sflkit.fats import enumeration
    from sflkit.fats.forgetting import RULES

    def drawn(law: enumeration.Law) -> float:
        return float(sum(p for p, history in law.values() if (history.clients == 0).any()))

    def draw(clients: int, samples: int, slots: int, batch: int) -> None:
        sizes = {"n_clients": clients, "samples_per_client": samples, "clients_per_round": slots,
                 "batch_size": min(batch, samples - 1), "local_steps": 1, "rounds": 1}  # fmt: skip
        law = enumeration.drawn_law(**sizes)
        goal = enumeration.retrained_law([(0, 0)], **sizes)
        after = {rule: enumeration.forgotten_law(law, (0, 0), rule) for rule in RULES}
        distances = {rule: enumeration.total_variation(of, goal) for rule, of in after.items()}
        _, (left, right) = plt.subplots(1, 2, figsize=(8.6, 3.2))
        looks = [RULES[rule].look.color for rule in RULES]
        heights = [float(distance) for distance in distances.values()]
        bars = left.bar(list(RULES), heights, color=looks)
        left.bar_label(bars, [str(d) for d in distances.values()])
        left.set(ylabel="TV to retraining", ylim=(0, 0.25))
        shares = {
            "learned": law,
            "printed": after["printed"],
            "exact": after["exact"],
            "retrained": goal,
        }
        right.bar(list(shares), [drawn(of) for of in shares.values()],
                  color=["#999999", looks[1], looks[0], "#999999"])  # fmt: skip
        right.axhline(drawn(goal), color="black", linestyle=":")
        right.set(ylabel="probability that A is drawn", ylim=(0, 1))
        plt.show()

    controls = {
        "clients": ipywidgets.IntSlider(2, 2, 4, description="clients M", **SLIDER),
        "samples": ipywidgets.IntSlider(2, 2, 4, description="photos N of each", **SLIDER),
        "slots": ipywidgets.IntSlider(1, 1, 2, description="draws K", **SLIDER),
        "batch": ipywidgets.IntSlider(1, 1, 3, description="mini-batch b, below N", **SLIDER),
    }
    return ipywidgets.VBox([*controls.values(), picture(draw, controls)])


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
