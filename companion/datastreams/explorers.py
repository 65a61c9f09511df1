"""Sliders over the importance of old data. Source: FDS, Section 5, Figs. 1 and 2."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from companion.widgets import SLIDER, picture
from sflkit.datastreams import psi
from sflkit.datastreams.strategies import RULES, client_importance, takes_value

if TYPE_CHECKING:  # both load when an explorer is called
    import ipywidgets
    from matplotlib.axes import Axes


def importance_explorer() -> ipywidgets.VBox:
    """Return sliders for c2/c1, N_hist/N, M_hist and M beside two pictures.

    On the left is the minimiser's p_hist over c2/c1, with the chosen point; on the right is psi
    (c0 = 0) of the strategies there, in units of the larger of c1 and c2. Sizes are equal within
    the two groups of clients. Source: FDS, Section 5, Figs. 1 and 2.
    """
    import ipywidgets
    import matplotlib.pyplot as plt

    def draw(ratio: float, share: float, n_historical: int, n_clients: int) -> None:
        historical = np.arange(n_clients) < n_historical
        n_fresh = n_clients - n_historical
        n = np.where(historical, share / n_historical, (1 - share) / n_fresh)
        _, (left, right) = plt.subplots(1, 2, figsize=(8.6, 3.2), width_ratios=(1.3, 1))
        _draw_minimiser(left, n, historical, ratio, share)
        _draw_strategies(right, n, historical, ratio)
        plt.show()

    controls = _controls()
    # There is at least one fresh client: the maximum of M_hist follows M, and the slider itself
    # cuts down a value above it.
    ipywidgets.dlink(
        (controls["n_clients"], "value"), (controls["n_historical"], "max"), lambda m: m - 1
    )
    return ipywidgets.VBox([*controls.values(), picture(draw, controls)])


def _controls() -> dict[str, Any]:
    from ipywidgets import FloatLogSlider, FloatSlider, IntSlider

    return {
        "ratio": FloatLogSlider(0.15, min=-3, max=2, step=0.05, description="c2/c1", **SLIDER),
        "share": FloatSlider(0.2, min=0.01, max=0.99, step=0.01, description="N_hist/N", **SLIDER),
        "n_historical": IntSlider(25, 1, 49, description="historical clients M_hist", **SLIDER),
        "n_clients": IntSlider(50, 2, 200, description="clients M", **SLIDER),
    }


def _draw_minimiser(
    ax: Axes, n: np.ndarray, historical: np.ndarray, ratio: float, share: float
) -> None:
    axis = np.geomspace(1e-3, 1e2, 201)
    n_fresh = int((~historical).sum())
    p_hist = psi.minimize_psi(n, historical, 1.0, ratio).p_hist
    leaves = (share / n_fresh) ** 0.5
    curve = [psi.equal_fresh_p_hist(share, n_fresh, r) for r in axis]
    ax.plot(axis, curve, color=RULES["ours"].look.color)
    ax.plot(ratio, p_hist, "o", color="#D55E00", markersize=8, zorder=4, clip_on=False)
    ax.axhline(share, color="gray", linestyle=":", linewidth=1)
    ax.set(
        xscale="log",
        ylim=(0, 1.03),
        xlabel="$c_2/c_1$",
        ylabel=r"$p^*_\mathrm{hist}$",
        title=f"$p^*_\\mathrm{{hist}}={p_hist:.3f}$; 1 up to $c_2/c_1={leaves:.3g}$",
    )


def _draw_strategies(ax: Axes, n: np.ndarray, historical: np.ndarray, ratio: float) -> None:
    c1, c2 = min(1.0, 1 / ratio), min(1.0, ratio)
    rules = {name: rule for name, rule in RULES.items() if not takes_value(name)}
    values = [
        psi.psi(client_importance(name, n, historical, c_ratio=ratio), n, historical, c1, c2)
        for name in rules
    ]
    labels = [rule.label for rule in rules.values()]
    colors = [rule.look.color if rule.look else "gray" for rule in rules.values()]
    ax.bar_label(ax.bar(labels, values, color=colors), fmt="%.3g")
    ax.set(ylabel=r"$\psi/\max(c_1,c_2)$", ylim=(0, 1.15 * max(values)))
