"""The pictures of FATS's notebooks 40 and 41, drawn from what `evidence` and `rates` return.

Every function returns a figure; its numbers come from the arguments alone. The notation is that of
`sflkit.fats.history`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from sflkit.fats import bounds, forgetting, stability
from sflkit.fats.evidence import FEDERATIONS, NAMES, AnyHit, ByHand, Planned
from sflkit.fats.rates import Case, Problem, Trained
from sflkit.results import figures

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_BLUE, _ORANGE, _GREEN = "#0072B2", "#D55E00", "#009E73"
_LEVELS = {"sample": ("rho_s", _BLUE), "client": ("rho_c", _ORANGE)}


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


def distances(exact: pd.DataFrame, printed: Sequence) -> Figure:
    """Draw the distance to retraining: all rules in tiny federations, the printed one at Table 2's
    sizes."""
    import matplotlib.pyplot as plt

    fig, axes = plt.subplots(1, 2, figsize=(11, 4.9), width_ratios=[3, 2])
    order = exact["printed"].astype(float).argsort().to_numpy()
    looks = {
        rule: (row.label, row.look.color, row.look.marker) for rule, row in forgetting.RULES.items()
    }
    looks = {"printed": looks.pop("printed")} | looks
    looks |= {"client": ("Algorithm 3 (client)", "#000000", "x")}
    for rule, (label, color, marker) in looks.items():
        place = np.arange(len(exact)) + {"exact": -0.2, "client": 0.2}.get(rule, 0)
        values = exact[rule].astype(float).to_numpy()[order]
        axes[0].plot(values, place, marker, color=color, label=label)
    for i, value in enumerate(exact["printed"].to_numpy()[order]):
        axes[0].annotate(
            str(value), (float(value), i), textcoords="offset points", xytext=(7, 0), va="center",
            fontsize=9,
        )  # fmt: skip
    words = "{} clients × {} photos, draws {} a round, batch {}, {}, {}"
    counted = [
        words.format(m, n, k, b, f"{e} step" + "s" * (e > 1), f"{r} round" + "s" * (r > 1))
        for m, n, k, b, e, r in FEDERATIONS
    ]
    axes[0].set_yticks(range(len(counted)), [counted[i] for i in order], fontsize=8.5)
    axes[0].set(xlabel="TV to retraining", xlim=(-0.012, 0.25))
    axes[0].set_title("exact fractions, tiny federations")
    axes[0].legend(fontsize=8.5, loc="upper left", bbox_to_anchor=(0.06, 1))
    errors = [4 * d.error for d in printed]
    axes[1].barh(range(6), [d.value for d in printed], xerr=errors, color=_ORANGE, height=0.6)
    axes[1].set_yticks(range(6), NAMES)
    axes[1].invert_yaxis()
    axes[1].set(xlabel="TV to retraining", title="printed rule, Table 2's sizes")
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


# --- notebook 41 ----------------------------------------------------------------------------------


def lemma4(cases: Mapping[int, Case], trained: Mapping[int, Trained], hard: pd.DataFrame) -> Figure:
    """Draw the mean squared gradient and Lemma 4 over the step size, and how tight it can be."""
    import matplotlib.pyplot as plt

    fig, axes = plt.subplots(1, 2, figsize=(9.8, 3.9))
    fine = {"linewidth": 0.8, "alpha": 0.6, "linestyle": (0, (1, 3))}
    for (e, case), color in zip(cases.items(), (_BLUE, _ORANGE), strict=True):
        found, order = trained[e], case.rates.argsort()
        ok, x = found.feasible[order], case.rates[order]
        value, bound = case.exact[order], found.bound[order]
        axes[0].plot(x[ok], value[ok], color=color, label=f"E = {e}, exact")
        axes[0].plot(x[ok], bound[ok], color=color, linestyle=":", label=f"E = {e}, Lemma 4")
        for line in (value, bound):
            axes[0].plot(x[~ok], line[~ok], color=color, **fine)
        axes[0].errorbar(
            case.rates[0], found.simulated, 4 * found.error, fmt="o", color=color, markersize=7,
            label=f"E = {e}, trained",
        )  # fmt: skip
    axes[0].set(
        xscale="log", yscale="log", xlabel=r"step size $\eta$", ylabel="mean squared gradient",
        title="noisy problem, known constants",
    )  # fmt: skip
    axes[0].legend(fontsize=8, ncol=2, loc="upper center")
    axes[0].set_ylim(top=axes[0].get_ylim()[1] * 8)
    for i, (e, part) in enumerate(hard.groupby("E")):
        look = figures.series_style(None, i) | {"marker": "None"}
        ok, x, ratio = part["feasible"], part["eta E"], part["ratio"]
        axes[1].plot(x[ok], ratio[ok], **look, label=f"E = {e}")
        axes[1].plot(x[~ok], ratio[~ok], color=look["color"], **fine)
    axes[1].axhline(1, color="black", linewidth=1)
    axes[1].set(
        xlabel=r"$\eta E$", ylabel="value / bound", title="disagreeing clients", ylim=(0.4, 1.6),
        xlim=(0, 0.3),
    )  # fmt: skip
    axes[1].legend(fontsize=8.5)
    return fig


def theorem5(problem: Problem, conditions: pd.DataFrame) -> Figure:
    """Draw Theorem 5 over T with rho held, and the rounds that it asks for."""
    import matplotlib.pyplot as plt

    steps = np.unique(np.geomspace(10, 1e8, 120).astype(int))
    held = _held(problem)
    unit = np.sqrt(
        held["smoothness"] * held["grad_var"] * held["loss_gap"]
        / (0.5 * held["n_clients"] * held["samples_per_client"])
    )  # fmt: skip
    fig, axes = plt.subplots(1, 2, figsize=(9.2, 3.7))
    for i, (label, local) in enumerate(
        (
            ("E = 1", np.ones(len(steps), dtype=int)),
            (r"$E=T^{1/2}$", np.maximum(1, np.sqrt(steps).astype(int))),
            (r"$E=T/200$", np.maximum(1, steps // 200)),
        )
    ):
        found = [
            bounds.theorem5(**held, local_steps=int(e), steps=int(t))
            for e, t in zip(local, steps, strict=True)
        ]
        value, ok = np.array([f.value for f in found]), np.array([f.feasible for f in found])
        look = figures.series_style(None, i) | {"marker": "None", "linestyle": "-"}
        axes[0].plot(steps, np.where(ok, value, np.nan), **look, label=label)
        axes[0].plot(steps, value, color=look["color"], linestyle=(0, (1, 3)), linewidth=0.9)
    for factor, line, label in (
        (3, "--", "cost of stability (factor 3)"),
        (4, ":", "Corollary 6 (factor 4)"),
    ):
        axes[0].axhline(factor * unit, color="black", linestyle=line, linewidth=1, label=label)
    axes[0].set(
        xscale="log", xlabel="steps T", ylabel="bound on mean squared gradient",
        title=r"Theorem 5 with $\rho_S=\rho_C=0.5$", ylim=(0, 10 * unit),
    )  # fmt: skip
    axes[0].legend(fontsize=8.5, loc="upper right", frameon=True, framealpha=0.9)
    rows = np.arange(6)
    axes[1].barh(rows - 0.19, conditions["R"], height=0.36, color=_BLUE, label="rounds in Table 2")
    needed, label = conditions["R needed"], "asked for by Theorem 5"
    axes[1].barh(rows + 0.19, needed, height=0.36, color=_ORANGE, label=label)
    axes[1].set_yticks(range(6), conditions["setting"])
    axes[1].set(
        xscale="log", xlabel="rounds R", title="its condition, with unit constants",
        ylim=(5.6, -1.9), xlim=(10, 1e4),
    )  # fmt: skip
    axes[1].legend(fontsize=8.5, loc="upper right")
    return fig


def corollary6_over_rho_c(problem: Problem, rho: np.ndarray) -> np.ndarray:
    """Return Corollary 6's cost of stability over rho_C, which does not move it."""
    held = _held(problem)
    return np.array(
        [bounds.corollary6(**held | {"rho_c": p}, alpha=1, steps=10**6).value for p in rho]
    )


def corollary6(problem: Problem, checked: pd.DataFrame) -> Figure:
    """Draw the cost of stability over rho_S, M and rho_C, and Theorem 5 over Corollary 6."""
    import matplotlib.pyplot as plt

    fig, axes = plt.subplots(1, 2, figsize=(9.2, 3.5))
    rho, held = np.geomspace(0.01, 1, 60), _held(problem)
    for i, m in enumerate((200, 2000, 20_000)):
        look = figures.series_style(None, i) | {"marker": "None"}
        value = [
            bounds.corollary6(**held | {"n_clients": m, "rho_s": p}, alpha=1, steps=10**6).value
            for p in rho
        ]
        axes[0].plot(rho, value, **look, label=rf"over $\rho_S$, M = {m}")
    other = corollary6_over_rho_c(problem, rho)
    label = rf"over $\rho_C$, M = {held['n_clients']}"
    axes[0].plot(rho, other, color="gray", linewidth=1, label=label)
    axes[0].set(
        xscale="log", yscale="log", xlabel=r"$\rho_S$ or $\rho_C$",
        ylabel="cost of stability (factor 4)", title="Corollary 6",
    )  # fmt: skip
    axes[0].legend(fontsize=8.5)
    for label, column, color in (
        (r"$E=T^{1-\alpha}$", "alpha holds", _BLUE),
        (r"$E=cT$", "c holds", _ORANGE),
    ):
        part = checked[checked[column]]
        axes[1].hist(
            part["theorem"] / part["corollary"], np.linspace(0.74, 1.01, 28), color=color,
            histtype="step", linewidth=1.8, label=label,
        )  # fmt: skip
    axes[1].axvline(1, color="black", linewidth=1)
    axes[1].set(
        xlabel="Theorem 5 / Corollary 6", ylabel="random settings", yscale="log",
        title="where the conditions hold",
    )  # fmt: skip
    axes[1].legend(fontsize=8.5)
    return fig


def theorem7(
    exact: Mapping[str, np.ndarray],
    measured: Mapping[str, tuple],
    rho: stability.Stability,
    one: Mapping[str, np.ndarray],
) -> Figure:
    """Draw what w requests cost at MNIST's sizes, and what one costs over rho.

    `exact` and `measured` are MNIST's of `rates.request_costs` and `rates.serve`, `one` is
    `rates.over_rho`.
    """
    import matplotlib.pyplot as plt

    fig, axes = plt.subplots(1, 3, figsize=(10.8, 3.8))
    for level, (column, color) in _LEVELS.items():
        _one_level(axes, level, color, exact, measured, getattr(rho, column))
    axes[0].set(
        xlabel="requests w", ylabel="re-computations", yscale="log",
        title="MNIST's sizes: how often",
    )  # fmt: skip
    axes[0].legend(fontsize=8, loc="lower right")
    axes[1].axhline(1, color="black", linewidth=1, label="training again (FRS)")
    axes[1].set(
        xlabel="requests w", ylabel="recomputed steps / T", title="MNIST's sizes: how much",
        ylim=(0, None),
    )  # fmt: skip
    axes[1].legend(fontsize=8, loc="upper left")
    smooth = np.linspace(0.01, 1, 50)
    limit = 1 - (1 - np.exp(-smooth)) / smooth
    axes[2].plot(smooth, limit, color="gray", linestyle=":", label=r"$1-(1-e^{-\rho})/\rho$")
    for name, at, look, color, label in (
        ("client", one["K"] / 10, "s-", _ORANGE, r"over $\rho_C$ (K = 1..10)"),
        ("sample", one["b"] / 40, "o-", _BLUE, r"over $\rho_S$ (b = 5..40)"),
    ):
        axes[2].plot(at, one[name], look, color=color, label=label)
    order = r"Theorem 7: order $\rho$"
    axes[2].plot(smooth, smooth, color="black", linestyle=":", linewidth=1, label=order)
    axes[2].set(xlabel=r"$\rho$", ylabel="recomputed steps / T", title="one request", ylim=(0, 1))
    axes[2].legend(fontsize=8, loc="upper left")
    return fig


def _one_level(
    axes: Sequence[Axes],
    level: str,
    color: str,
    exact: Mapping[str, np.ndarray],
    measured: Mapping[str, tuple],
    rho: float,
) -> None:
    """Draw number and time of requests for samples or clients: exact, simulated, bound."""
    w = np.arange(1, len(exact[level]) + 1)
    dots = {"fmt": "o", "color": color, "markersize": 4}
    axes[0].plot(w, exact[level], color=color, label=f"{level}s, exact")
    axes[0].errorbar(w, measured[level][0], 1.96 * measured[level][1], **dots)
    bound = rf"bound $4w\rho_{level[0].upper()}$"
    axes[0].plot(w, 4 * w * min(rho, 1), color=color, linestyle=":", label=bound)
    axes[1].plot(w, exact[f"{level}_time"], color=color, label=f"{level}s, one by one")
    time, error = measured[f"{level}_time"]
    axes[1].errorbar(w, time, 1.96 * error, **dots)
    once = exact[f"{level}_once_time"]
    axes[1].plot(w, once, color=color, linestyle="--", label=f"{level}s, at once")
    time, error = measured[f"{level}_once_time"]
    axes[1].errorbar(w[-1], time, 1.96 * error, **dots | {"fmt": "s"})


def _held(problem: Problem) -> dict[str, float]:
    """Return the problem's constants with rho_S = rho_C = 1/2."""
    lam = problem.heterogeneity
    return {**problem.constants, "heterogeneity": lam, "rho_s": 0.5, "rho_c": 0.5}
