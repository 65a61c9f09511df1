"""The pictures of SFL's Lemmas 1 and 2, Theorem 1 and Corollary 2.

Each function draws into two or three axes that it is given. Rules have their usual looks, bounds
are dotted, and a printed bound that fails is dashed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from companion.sfl.evidence.convergence import (
    HORIZONS,
    SHOWN,
    Case,
    Coin,
    Found,
    Measured,
    Orders,
    flat_problem,
)
from companion.sfl.pictures import shared as pictures
from sflkit.sfl import bounds

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_BOUND: dict[str, Any] = {"color": "black", "linestyle": ":"}
_PRINTED: dict[str, Any] = {"color": "#CC79A7", "linestyle": "--"}
# Where the three rules lie on one another: those below are wider, so that all are seen.
_WIDTHS = dict(zip(SHOWN, (5.0, 3.0, 1.2), strict=True))


def lemma1(axes: Sequence[Axes], case: Case, found: Measured, bound: dict[str, np.ndarray]) -> None:
    """Draw the two gaps of Lemma 1, measured and bounded, over rounds."""
    for rule, look in SHOWN.items():
        style, name = pictures.line(look), pictures.label(look)
        axes[0].plot(case.t, found.worst(rule, "real_to_virtual"), **style, label=name)
        axes[0].plot(case.t, bound[rule][:, 0], color=style["color"], linewidth=1, linestyle=":")
        wide = style | {"linewidth": _WIDTHS[rule]}
        axes[1].plot(case.t, found.worst(rule, "virtual_to_expected"), **wide, label=name)
    axes[0].plot([], [], color="0.3", linewidth=1, linestyle=":", label="bounds")
    axes[1].axhline(bound["drsr"][0, 1], **_BOUND, label="bound (all rules)")
    axes[0].set(xlabel="round t", ylabel="squared length", yscale="log")
    axes[0].set_title(r"real to virtual gradient, $\mathbb{E}\|g-\hat g\|^2$")
    axes[1].set(xlabel="round t", yscale="log")
    axes[1].set_title(r"virtual to expected, $\mathbb{E}\|\hat g-\nabla f^k\|^2$")
    axes[0].set_ylim(bottom=axes[0].get_ylim()[0] / 6)
    axes[0].legend(ncols=2, loc="lower left")
    axes[1].legend(loc="center right")


def lemma2(axes: Sequence[Axes], case: Case, found: Measured, bound: np.ndarray) -> None:
    """Draw the drift within a round beside its bounds, and that of a wrong label mix alone.

    `bound` (rounds,) is Lemma 2's for DRSR.
    """
    config = case.config
    for rule, look in SHOWN.items():
        text = f"{pictures.label(look)}, measured"
        axes[0].plot(case.t, found.worst(rule, "drift"), **pictures.line(look), label=text)
    axes[0].plot(case.t, bound, **_BOUND, label="Lemma 2 (DRSR)")
    simple = (config.local_steps - 1) ** 2 * config.local_rate**2
    text = r"one line: $(E-1)^2\eta_L^2\sigma_M^2$"
    axes[0].axhline(simple, color="gray", linewidth=1, label=text)
    axes[0].set(xlabel="round t", ylabel="squared drift", yscale="log")
    axes[0].set_title(f"drift, E = {config.local_steps}")
    axes[0].legend(loc="center right", bbox_to_anchor=(1, 0.7))
    steps = np.arange(1, 21)
    axes[1].plot(steps, (steps - 1) ** 2, color="#0072B2", label="drift by a label error alone")
    axes[1].plot(steps, 5 * steps, **_BOUND, label=r"$\lambda$ term of Lemma 2")
    axes[1].set(xlabel="local steps E", ylabel=r"in units of $\eta_L^2R^2\lambda_t^2\sigma_M^2$")
    axes[1].set(title="two opposite classes", xticks=[1, 5, 10, 15, 20])
    axes[1].legend()


def theorem1(axes: Sequence[Axes], found: Found) -> None:
    """Draw Theorem 1's terms over rounds, and what was measured beside its total."""
    _terms(axes[0], found.terms, {"phi_m_missing": "dropped term"})
    axes[0].set(xlabel="rounds T", ylabel="squared gradient length", title="terms of the bound")
    t = found.case.t
    for rule, look in SHOWN.items():
        text = f"{pictures.label(look)}, measured"
        wide = pictures.line(look) | {"linewidth": _WIDTHS[rule]}
        axes[1].plot(t, found.smallest[rule], **wide, label=text)
    axes[1].plot(t, found.totals["drsr"], **_BOUND, label="Theorem 1 (DRSR)")
    axes[1].axhline(1, color="gray", linewidth=1, label=r"$\sigma_M^2$: always true")
    axes[1].set(yscale="log", xlabel="rounds T", title="training, measured")
    axes[1].legend(loc="center left", bbox_to_anchor=(1, 0.5))


def coin(axes: Sequence[Axes], found: Coin) -> None:
    """Draw the coin in a cache of two: at the largest step, and at a small one.

    Left the true value is above the printed bound; right it stays above every bound if the cache
    is never refreshed.
    """
    for ax, s, title in zip(axes, (1.0, 0.03), ("largest step", "step 0.03"), strict=True):
        total = found.bound[s]["total"]
        ax.plot(found.t, found.true[s], color="#0072B2", label="true value")
        ax.plot(found.t, found.never_refreshed[s], color="#009E73", label="never refreshed")
        ax.plot(found.t, total, **_PRINTED, label="bound as printed")
        some = total + found.bound[s]["phi_m_missing"]
        ax.plot(found.t, some, color="#E69F00", linestyle="-.", label="with the dropped term")
        ax.plot(found.t, found.completed[s], **_BOUND, label="with E times it")
        ax.set(xscale="log", yscale="log", xlabel="rounds T", title=f"a coin, M = 2: {title}")
    axes[0].set_ylabel("squared gradient length")
    axes[1].legend(loc="center left", bbox_to_anchor=(1, 0.5), title="both panels")


def corollary2(axes: Sequence[Axes], case: Case, found: Orders) -> dict[str, np.ndarray]:
    """Draw the terms over rounds under the corrected step sizes, and what E does under both."""
    _terms(axes[0], found.curves, {"phi_m_missing": "dropped term"}, slopes=True)
    axes[0].plot(HORIZONS, found.curves["drsr"]["total"], color="black", label="total, DRSR")
    axes[0].set(xlabel="rounds T", ylabel="squared gradient length")
    axes[0].set_title("corrected step sizes, E = 4, K = 10, L = 0.1")
    axes[0].legend(ncols=2, loc="lower left", fontsize=8)
    rounds, many = 100_000, np.array([1, 2, 4, 8, 16, 32])
    zeros, drawn = np.zeros(rounds), {}
    for name, look in (("printed", _PRINTED), ("corrected", {"color": "#0072B2"})):
        rates = 1 / np.sqrt(rounds * many) if name == "printed" else 1 / (np.sqrt(rounds) * many)
        over = []
        for e, rate in zip(many, rates, strict=True):
            how = {"rounds": rounds, "local_steps": int(e), "n_clients": 10, "lambda2": zeros}
            how |= {"local_rate": rate, "global_rate": np.sqrt(10 * e)}
            over.append(bounds.theorem1(**flat_problem(case), **how))
        for term, marker, text in (
            ("vanishing", "o", "vanishing"),
            ("phi_g", "^", r"$\Phi_G$, $\Phi_M$"),
        ):
            values = np.array([getattr(b, term) for b in over])
            drawn[f"{name} {term}"] = values / values[0]
            label = f"{text}, {name}"
            axes[1].plot(many, drawn[f"{name} {term}"], **look, marker=marker, label=label)
    axes[1].plot(many, many**-0.5, **_BOUND, label=r"stated: $E^{-1/2}$ and constant")
    axes[1].plot(many, np.ones(len(many)), **_BOUND)
    axes[1].set(xscale="log", yscale="log", xlabel="local steps E", ylabel="relative to E = 1")
    axes[1].set_title("what E does, T = 100 000, L = 0.1")
    axes[1].legend(loc="upper left")
    axes[1].set_ylim(top=4000)
    return drawn


def _terms(
    ax: Axes, curves: dict[str, Any], extra: dict[str, str], *, slopes: bool = False
) -> None:
    """Draw Phi_L of each rule, and the other terms, which are the same for all, in grey."""
    for rule, look in SHOWN.items():
        text = rf"$\Phi_L$, {pictures.label(look)}"
        ax.plot(HORIZONS, curves[rule]["phi_l"], **pictures.line(look), label=text)
    names = {"vanishing": "vanishing", "phi_m": r"$\Phi_M$", **extra, "phi_g": r"$\Phi_G$"}
    slope = {"vanishing": "-1/2", "phi_m": "-1", "phi_m_missing": "-1/2", "phi_g": "-1"}
    for (column, text), line in zip(names.items(), ("-", "--", ":", "-."), strict=True):
        label = f"{text}, slope {slope[column]}" if slopes else text
        look = {"color": "gray", "linestyle": line, "linewidth": 1.2}
        ax.plot(HORIZONS, curves["drsr"][column], **look, label=label)
    ax.set(xscale="log", yscale="log")
    ax.legend(ncols=2, loc="lower left", fontsize=8)
    ax.set_ylim(bottom=ax.get_ylim()[0] / 60)
