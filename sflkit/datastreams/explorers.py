"""Sliders over the importance of old data. Source: FDS, Section 5, Figs. 1 and 2."""

from __future__ import annotations

from sflkit.results.widgets import SLIDER


def importance_explorer():
    """Return sliders for c2/c1, N_hist/N, M_hist and M, over the historical clients' importance and
    psi of the strategies.

    Left: p_hist of the minimiser over c2/c1 with the chosen point; right: psi (c0 = 0) of the four
    strategies there, in units of the larger of c1 and c2. Sizes are equal within the two groups.
    Source: FDS, Section 5, Figs. 1 and 2."""
    import ipywidgets
    import matplotlib.pyplot as plt
    import numpy as np

    from sflkit.datastreams import psi, strategies

    axis = np.geomspace(1e-3, 1e2, 201)

    def draw(ratio, share, n_historical, n_clients):
        historical, n_fresh = np.arange(n_clients) < n_historical, n_clients - n_historical
        n = np.where(historical, share / n_historical, (1 - share) / n_fresh)
        c1, c2 = min(1.0, 1 / ratio), min(1.0, ratio)
        p = {
            name: strategies.client_importance(name, n, historical)
            for name in ("fresh", "historical", "uniform")
        }
        p["ours"] = psi.minimize_psi(n, historical, c1, c2).p
        p_hist, leaves = float(p["ours"][historical].sum()), (share / n_fresh) ** 0.5
        _, (left, right) = plt.subplots(1, 2, figsize=(8.6, 3.2), width_ratios=(1.3, 1))
        left.plot(axis, [psi.equal_fresh_p_hist(share, n_fresh, r) for r in axis], color="#0072B2")
        left.plot(ratio, p_hist, "o", color="#D55E00", markersize=8, zorder=4, clip_on=False)
        left.axhline(share, color="gray", linestyle=":", linewidth=1)
        left.set(
            xscale="log",
            ylim=(0, 1.03),
            xlabel="$c_2/c_1$",
            ylabel=r"$p^*_\mathrm{hist}$",
            title=f"$p^*_\\mathrm{{hist}}={p_hist:.3f}$; 1 up to $c_2/c_1={leaves:.3g}$",
        )
        values = [psi.psi(p[name], n, historical, c1, c2) for name in p]
        bars = right.bar(
            [name.capitalize() for name in p],
            values,
            color=["#E69F00", "#009E73", "#56B4E9", "#0072B2"],
        )
        right.bar_label(bars, fmt="%.3g")
        right.set(ylabel=r"$\psi/\max(c_1,c_2)$", ylim=(0, 1.15 * max(values)))
        plt.show()

    controls = {
        "ratio": ipywidgets.FloatLogSlider(
            0.15, min=-3, max=2, step=0.05, description="c2/c1", **SLIDER
        ),
        "share": ipywidgets.FloatSlider(
            0.2, min=0.01, max=0.99, step=0.01, description="N_hist/N", **SLIDER
        ),
        "n_historical": ipywidgets.IntSlider(
            25, 1, 49, description="historical clients M_hist", **SLIDER
        ),
        "n_clients": ipywidgets.IntSlider(50, 2, 200, description="clients M", **SLIDER),
    }
    # at least one fresh client; the maximum follows M, and a value above it is cut down by the
    # slider itself
    ipywidgets.dlink(
        (controls["n_clients"], "value"), (controls["n_historical"], "max"), lambda m: m - 1
    )
    return ipywidgets.VBox([*controls.values(), ipywidgets.interactive_output(draw, controls)])
