"""The pictures of FATS's notebook 40, drawn from what `evidence.exactness` returns.

Every function returns a figure; its numbers come from the arguments alone. The notation is that of
`sflkit.fats.history`.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from companion import figures
from companion.fats.evidence.exactness import FEDERATIONS, AnyHit, ByHand, Planned
from companion.fats.evidence.table_2 import NAMES
from sflkit.fats import forgetting, stability

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_BLUE, _ORANGE, _GREEN = "#0072B2", "#D55E00", "#009E73"


def by_hand(shares: ByHand) -> Figure:
    """Draw who trains on what before and after forgetting, as stacked bars with fractions."""
    import matplotlib.pyplot as plt

    samples = {
        "$a_0$": ("#56B4E9", "//"),
        "$a_1$": (_BLUE, ""),
        "$b_0$": ("#F0E442", ""),
        "$b_1$": ("#E69F00", ""),
    }
    clients = {"A": ("#56B4E9", "//"), "B": ("#E69F00", ""), "C": (_GREEN, "")}
    fig, axes = plt.subplots(1, 2, figsize=(9.8, 3.9), width_ratios=[4, 3])
    for ax, frame, looks in zip(axes, shares, (samples, clients), strict=True):
        bottom = np.zeros(frame.shape[1])
        for part, (color, hatch) in looks.items():
            height = frame.loc[part].to_numpy()
            look = {"color": color, "hatch": hatch, "edgecolor": "white", "width": 0.62}
            ax.bar(range(frame.shape[1]), height, bottom=bottom, **look)
            for i in np.flatnonzero(height):
                text = f"{part}  {Fraction(height[i]).limit_denominator(96)}"
                ax.text(
                    i, bottom[i] + height[i] / 2, text, ha="center", va="center", fontsize=10,
                    color="white" if color == _BLUE else "black",
                    bbox={"facecolor": color, "edgecolor": "none", "pad": 1.5},
                )  # fmt: skip
            bottom += height
        ax.set_xticks(range(frame.shape[1]), list(frame.columns), fontsize=9.5)
        ax.set_ylim(0, 1)
        ax.grid(False)
    axes[0].axhline(0.5, color="black", linestyle=":", linewidth=1.5, zorder=0)
    axes[0].set(
        ylabel="probability",
        title="forget a photo of client A: A has 3/8 with the printed rule, should have 1/2",
    )
    axes[1].set(title="forget client A of three")
    return fig


def distances(exact: pd.DataFrame, printed: Sequence, costs: pd.DataFrame) -> Figure:
    """Draw each rule's distance to retraining, and what it draws anew.

    Left all rules in tiny federations, in the middle the printed one at Table 2's sizes, right the
    samples that a request has drawn anew on average. Theorem 2 claims 0 in the first two.

    Parameters
    ----------
    exact : DataFrame
        `evidence.exactness.enumerated`.
    printed : list of Distance
        `evidence.exactness.printed_distances`.
    costs : DataFrame
        `evidence.exactness.rule_costs`.
    """
    import matplotlib.pyplot as plt

    fig, axes = plt.subplots(1, 3, figsize=(11, 4.4), width_ratios=[4, 3, 3])
    order = exact["printed"].astype(float).argsort().to_numpy()
    looks = {
        rule: (row.label, row.look.color, row.look.marker) for rule, row in forgetting.RULES.items()
    }
    looks = {"printed": looks.pop("printed")} | looks
    looks |= {"client": ("Algorithm 3 (client)", "#000000", "x")}
    for rule, (label, color, marker) in looks.items():
        place = np.arange(len(exact)) + {"exact": -0.2, "claim1": -0.35, "client": 0.2}.get(rule, 0)
        values = exact[rule].astype(float).to_numpy()[order]
        axes[0].plot(values, place, marker, color=color, label=label)
        if rule in costs:
            axes[2].plot(costs[rule], range(6), marker, color=color, markersize=8)
    for i, value in enumerate(exact["printed"].to_numpy()[order]):
        axes[0].annotate(
            str(value), (float(value), i), textcoords="offset points", xytext=(7, 0), va="center",
            fontsize=9,
        )  # fmt: skip
    counted = [", ".join(map(str, sizes)) for sizes in FEDERATIONS]
    axes[0].set_yticks(range(len(counted)), [counted[i] for i in order], fontsize=8.5)
    axes[0].set(ylabel="M, N, K, b, E, R", xlabel="TV to retraining", xlim=(-0.012, 0.25))
    axes[0].set_title("tiny federations, exact")
    fig.legend(*axes[0].get_legend_handles_labels(), loc="outside upper center", ncols=5)
    errors = [4 * d.error for d in printed]
    axes[1].barh(range(6), [d.value for d in printed], xerr=errors, color=_ORANGE, height=0.6)
    axes[1].plot(
        [0] * 6, range(6), "D", color="0.2", markerfacecolor="none", clip_on=False,
        label="the paper: 0",
    )  # fmt: skip
    axes[1].legend(loc="lower right")
    axes[1].set(xlabel="TV to retraining", title="as printed, Table 2's sizes")
    axes[2].set(xscale="log", xlabel="samples drawn anew", title="cost of a request")
    for ax in axes[1:]:
        ax.set_yticks(range(6), NAMES)
        ax.invert_yaxis()
    axes[2].tick_params(labelleft=False)
    return fig


def uses(rates: pd.DataFrame, rho: pd.DataFrame, exact: pd.DataFrame) -> Figure:
    """Draw how often samples and clients are used, against Lemma 1, and the exact distances."""
    import matplotlib.pyplot as plt

    fig, axes = plt.subplots(1, 3, figsize=(9.8, 3.4))
    axis = np.linspace(0, 1.2, 200)
    for ax, level, column in ((axes[0], "samples", "rho_s"), (axes[1], "clients", "rho_c")):
        limit = np.minimum(axis, 1)
        ax.plot(axis, limit, color="black", linestyle=":", label=r"Lemma 1: $\min\{\rho,1\}$")
        ax.plot(axis, 1 - np.exp(-axis), color=_BLUE, label=r"$1-e^{-\rho}$")
        handles = []
        for i, name in enumerate(NAMES):
            look = figures.series_style(None, i) | {"linestyle": "none", "markersize": 7}
            point = rho.loc[name, column], rates.loc[name, level]
            error = 4 * rates.loc[name, f"se {level}"]
            handles.append(ax.errorbar(*point, error, label=name, **look))
        ax.set(
            xlabel=rf"$\rho_{column[-1].upper()}$", title=f"{level}: share that was used",
            ylim=(0, 1.02), xlim=(0, 1.1),
        )  # fmt: skip
    axes[0].set_ylabel("probability of being used")
    axes[0].legend(handles=axes[0].lines[:2], fontsize=8.5, loc="upper left")
    axes[1].legend(handles=handles, fontsize=8.5, loc="upper left")
    tiny = pd.DataFrame([stability.stability(**sizes) for sizes in exact["setting"]])
    axes[2].plot([0, 1], [0, 1], color="black", linestyle=":", label=r"TV = $\min\{\rho,1\}$")
    for name, column, color, marker in (
        ("sample", "rho_s", _BLUE, "o"),
        ("client", "rho_c", "#E69F00", "s"),
    ):
        value = exact[f"TV {name}"].astype(float)
        axes[2].plot(
            tiny[column].clip(upper=1), value, marker, color=color, label=f"without a {name}"
        )
    axes[2].set(
        xlabel=r"$\min\{\rho,1\}$", title="tiny configurations: TV of learning",
        xlim=(0, 1.05), ylim=(0, 1.02),
    )  # fmt: skip
    axes[2].legend(fontsize=8.5, loc="upper left")
    return fig


def any_hit(hits: AnyHit, rho: pd.DataFrame) -> Figure:
    """Draw how likely it is that any of w requests hits, against the bound of Theorem 2."""
    import matplotlib.pyplot as plt

    w = np.arange(1, hits.simulated.shape[1] + 1)
    fig, axes = plt.subplots(1, 2, figsize=(9.6, 3.8))
    titles = "w samples of different clients", "w clients"
    for i, (ax, column, title) in enumerate(zip(axes, ("rho_s", "rho_c"), titles, strict=True)):
        colors = {"MNIST": _BLUE, "FEMNIST": _GREEN, "Shakespeare": _ORANGE}
        for name, color in colors.items():
            ax.plot(w, hits.exact[name][i], color=color, label=f"{name}, exact")
            bound = np.minimum(w * rho.loc[name, column], 1)
            label = "bound" if name == "MNIST" else None
            ax.plot(w, bound, color=color, linestyle=":", label=label)
        ax.errorbar(
            w, hits.simulated[i], 1.96 * hits.error[i], fmt="o", color="black", markersize=4,
            label="MNIST, simulated",
        )  # fmt: skip
        ax.set(xlabel="requests w", title=title, ylim=(0, 1.04))
    axes[0].set_ylabel("probability of any re-computation")
    axes[0].legend(fontsize=8.5, loc="lower right")
    return fig


def table_2(rho: pd.DataFrame, plans: Planned) -> Figure:
    """Draw the stability that Table 2 implies, and promises kept and broken by rounding."""
    import matplotlib.pyplot as plt

    fig, axes = plt.subplots(1, 3, figsize=(10.2, 3.6))
    for ax, bound, used, title in (
        (axes[0], "rho_s", "p_sample", "Table 2, samples"),
        (axes[1], "rho_c", "p_client", "Table 2, clients"),
    ):
        rows = np.arange(6)
        implied = r"$\rho$, implied by Table 2"
        ax.barh(rows - 0.19, rho[bound], height=0.36, color="#999999", label=implied)
        exact = "exact probability of use"
        ax.barh(rows + 0.19, rho[used], height=0.36, color=_BLUE, label=exact)
        ax.axvline(1, color="black", linewidth=1)
        ax.set(xlabel="stability", title=title, xlim=(0, 1.05), ylim=(5.6, -2.2))
        ax.set_yticks(range(6), NAMES if ax is axes[0] else [])
    corrected = r"$\rho_S$ with 50,000 images"
    axes[0].plot(
        plans.cifar["rho_s"], [1.81, 2.81], "D", color=_ORANGE, clip_on=False, label=corrected
    )
    axes[0].legend(fontsize=8.5, loc="upper left")
    bins = np.arange(0.7, 1.31, 0.02) + 1e-9  # a kept promise, 1, belongs to the left of the line
    for label, found, color in (
        ("rounded to the nearest", plans.nearest, _ORANGE),
        ("rounded down: plan", plans.down, _BLUE),
    ):
        ratio = (found[:, 2:] / found[:, :2]).max(axis=1)
        axes[2].hist(ratio.clip(0.71, 1.29), bins, color=color, alpha=0.75, label=label)
    axes[2].axvline(1, color="black", linewidth=1)
    axes[2].set(
        xlabel=r"realised / promised $\rho$", ylabel="promises", title="line 3 in whole numbers",
        ylim=(0, 1300),
    )  # fmt: skip
    axes[2].legend(fontsize=8.5, loc="upper left", frameon=True, framealpha=1)
    return fig
