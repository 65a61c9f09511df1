"""What several notebooks on SFL share: means over a window, the rules' looks, two explorers.

Source: SFL, Sections IV to VI. *Late* is the last quarter of the rounds, *throughout* all of them.
Scores are frames with one row a seed and one column a cache rule, so that differences are taken
seed by seed. How a cache rule is drawn and called stands in `sflkit.sfl.caches.RULES`; `line` and
`label` say it in matplotlib's words.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from companion.widgets import SLIDER, picture
from sflkit.intervals import mean_interval
from sflkit.registry import Look
from sflkit.sfl import bounds
from sflkit.sfl.caches import RULES
from sflkit.sfl.clients import Clients
from sflkit.sfl.config import SFLConfig

if TYPE_CHECKING:
    import ipywidgets
    from matplotlib.axes import Axes


ALL_RULES = ("full", "full_refreshed", "drsr", "srsr", "fifo", "lazy")

LATE = (0.75, 1.0)
THROUGHOUT = (0.0, 1.0)
Evidence = dict[str, Any]


def within(frame: pd.DataFrame, span: tuple[float, float], column: str, by: str) -> Any:
    """Return a column in a span of the rounds, grouped by seed and `by`.

    A span is (from, to) in shares of the rounds, without the first; (0.75, 1) is the last quarter.
    Rounds that were not evaluated are left out.
    """
    last = frame["round"].max()
    inside = (frame["round"] > span[0] * last) & (frame["round"] <= span[1] * last)
    return frame[inside].dropna(subset=[column]).groupby(["seed", by])[column]


def window(
    frame: pd.DataFrame, span: tuple[float, float], column: str = "accuracy", by: str = "rule"
) -> pd.DataFrame:
    """Return the mean of a column in a span, see `within`: one row a seed, one column a `by`."""
    return within(frame, span, column, by).mean().unstack(by)


def difference(scores: pd.DataFrame, a: str, b: str) -> np.ndarray:
    """Return a's scores minus b's, seed by seed, (n_seeds,)."""
    return (scores[a] - scores[b]).to_numpy()


def steps(frame: pd.DataFrame, span: tuple[float, float] = LATE, by: str = "rule") -> pd.DataFrame:
    """Return how much the accuracy moves from one evaluation to the next, as `window` does.

    The standard deviation of the differences of successive accuracies in the span.
    """
    groups = within(frame, span, "accuracy", by)
    return groups.agg(lambda values: np.diff(values).std(ddof=1)).unstack(by)


# six of Okabe and Ito's, two greys, Tol's olive (their yellow is too pale for a line) and indigo:
# safe for colour-blind readers
_COLORS = (
    *("#56B4E9", "#E69F00", "#009E73", "#999933", "#CC79A7", "#0072B2", "#D55E00"),
    *("#BBBBBB", "#7F7F7F", "#332288"),
)
_DARK = (5, 6, 8, 9)
_OTHER = Look("#56B4E9", (0, (6, 1, 1, 1, 1, 1)), "P")


def line(rule: str) -> dict[str, Any]:
    """Return matplotlib's keywords for the line of a cache rule, which has no marker.

    A rule without a look of its own gets one that no rule of the library has. Raises ValueError if
    no such rule is in `caches.RULES`.
    """
    look = RULES[rule].look or _OTHER
    return {"color": look.color, "linestyle": look.linestyle, "marker": "None"}


def label(rule: str) -> str:
    """Return what legends call a cache rule; ValueError if no such rule is in `caches.RULES`."""
    return RULES[rule].label


def gains(
    ax: Axes,
    scores: pd.DataFrame,
    *,
    smallest: float = 0.005,
    labels: Mapping[str, str] | None = None,
) -> None:
    """Draw differences in accuracy: a dot for each seed, the mean and its 95 % interval, in points.

    Parameters
    ----------
    scores : DataFrame
        One row a seed, one column a cache rule; differences of accuracies.
    smallest : float
        Half-width of the grey strip in which a difference around 0 is too small to see.
    labels : mapping, optional
        What the axis calls each rule, in place of the rules' own labels.
    """
    labels = labels or RULES.labels()
    ax.axvspan(-100 * smallest, 100 * smallest, color="0.9", zorder=0)
    ax.axvline(0, color="0.4", linewidth=1)
    for i, rule in enumerate(scores.columns):
        values = 100 * scores[rule].to_numpy()
        color = line(rule)["color"]
        ax.plot(values, np.full(len(values), i + 0.22), "o", color=color, alpha=0.45, markersize=3)
        if len(values) > 1:
            found = mean_interval(values)
            ax.plot([found.low, found.high], [i, i], color=color, linewidth=3)
        ax.plot(values.mean(), i, "|", color=color, markersize=14, markeredgewidth=3)
    ax.set_yticks(range(scores.shape[1]), [labels[rule] for rule in scores.columns])
    ax.set_ylim(scores.shape[1] - 0.5, -0.4)  # first rule on top, room for the dots under the last


def label_color(label: int) -> str:
    """Return the fill of a class; the ten colours repeat after ten classes."""
    return _COLORS[int(label) % len(_COLORS)]


def text_color(label: int) -> str:
    """Return black or white, whichever reads on `label_color(label)`."""
    return "white" if int(label) % len(_COLORS) in _DARK else "black"


def share_bars(
    ax: Axes,
    shares: ArrayLike,
    *,
    least: float = 0.06,
    at: ArrayLike | None = None,
    width: float = 0.8,
    hollow: bool = False,
) -> None:
    """Draw a stacked bar for each row of `shares` (n_bars, n_classes), at 0, 1, ... or `at`.

    The class is written in every part above `least`. A hollow bar has no colours: the paper's.
    """
    shares = np.asarray(shares)
    at = np.arange(len(shares)) if at is None else np.asarray(at)
    bottom = np.zeros(len(shares))
    for label in range(shares.shape[1]):
        part = shares[:, label]
        color = "white" if hollow else label_color(label)
        look = {"color": color, "edgecolor": "black", "linewidth": 0.5, "width": width}
        ax.bar(at, part, bottom=bottom, **look)
        for k in np.flatnonzero(part >= least):
            look = {"ha": "center", "va": "center", "fontsize": 8}
            look["color"] = "black" if hollow else text_color(label)
            ax.text(at[k], bottom[k] + part[k] / 2, str(label), **look)
        bottom += part


# FULL in Figs. 4 and 10, where it stands beside the one whose samples are renewed.
WITH_STATIC_FULL = RULES.labels() | {"full": "FULL (static)"}


def cache_explorer() -> ipywidgets.VBox:
    """Return sliders over the discrepancy and the composition of a cache.

    They set rule, B, B_s, theta, temperature and classes per client. Left: the discrepancy of four
    clients' caches, the chosen rule and FIFO on the same stream; right: what the cache of the first
    client holds, label by label, with the long-term shares dashed.
    """
    import ipywidgets
    import matplotlib.pyplot as plt

    n_classes, rounds = 6, 60

    @lru_cache(maxsize=16)  # a move of one slider asks for FIFO's path again
    def follow(config):
        clients = Clients(config, np.arange(n_classes).repeat(config.capacity), n_classes)
        shares = []
        for t in range(1, rounds + 1):
            clients.arrive(t)
            counts = clients.cached_counts()
            shares.append(counts / counts.sum(axis=1, keepdims=True))
        return clients.stream.long_term, np.stack(shares)

    def draw(rule, **settings):
        settings |= {"n_clients": 4, "n_classes": n_classes, "rounds": rounds, "train": False}
        _, (left, right) = plt.subplots(1, 2, figsize=(8.6, 3.0))
        time = np.arange(1, rounds + 1)
        for name in dict.fromkeys(("fifo", rule)):
            long_term, shares = follow(SFLConfig(rule=name, **settings))
            psi = ((shares - long_term) ** 2).sum(axis=(1, 2))
            left.plot(time, psi, label=label(name), **line(name))
        held = np.flatnonzero(long_term[0])
        right.stackplot(time, shares[:, 0, held].T, labels=[f"class {r}" for r in held])
        for edge in np.cumsum(long_term[0, held])[:-1]:
            right.axhline(edge, color="black", linestyle="--", linewidth=1)
        left.set(xlabel="round t", ylabel="discrepancy", ylim=(0, None))
        right.set(xlabel="round t", ylabel="share of the cache", ylim=(0, 1), xlim=(1, rounds))
        right.set_title(f"one client, {label(rule)}")
        left.legend()
        right.legend(loc="center left", bbox_to_anchor=(1, 0.5))
        plt.show()

    # FULL is no choice of a client: it knows the long-term shares.
    menu = [(rule.label, name) for name, rule in RULES.items() if "long_term" not in rule.options]
    whole, real = partial(ipywidgets.IntSlider, **SLIDER), partial(ipywidgets.FloatSlider, **SLIDER)
    controls = {
        "rule": ipywidgets.Dropdown(options=menu, value="drsr", description="rule"),
        "capacity": whole(300, 20, 600, 20, description="capacity B"),
        "batch_size": whole(150, 10, 300, 10, description="arrivals B_s"),
        "theta": real(2 / 3, min=0, max=1, step=0.05, description="theta (SRSR)"),
        "temperature": ipywidgets.FloatLogSlider(
            0.2, min=-2, max=1, step=0.1, description="temperature", **SLIDER
        ),
        "classes_per_client": whole(3, 1, n_classes, description="classes per client"),
        "seed": whole(0, 0, 20, description="seed"),
    }
    # no more arrivals than the cache holds
    ipywidgets.dlink((controls["capacity"], "value"), (controls["batch_size"], "max"))
    columns = list(controls.values())
    boxes = ipywidgets.HBox([ipywidgets.VBox(columns[:4]), ipywidgets.VBox(columns[4:])])
    return ipywidgets.VBox([boxes, picture(draw, controls)])


def discrepancy_explorer() -> ipywidgets.VBox:
    """Return sliders for Gamma, delta^2, M, theta and pi over the bounds.

    Those are the bounds of Propositions 1-3 and Corollary 1.
    """
    import ipywidgets
    import matplotlib.pyplot as plt

    t = np.unique(np.geomspace(1, 500, 80).astype(int))

    def draw(corr_rounds, deviation, cache_rounds, theta, share):
        delta2 = deviation**2
        _, ax = plt.subplots(figsize=(8.6, 3.4))
        limit = bounds.srsr_discrepancy_limit(cache_rounds, theta, corr_rounds, delta2)
        lines = {
            "fifo": np.full(len(t), bounds.fifo_discrepancy(cache_rounds, corr_rounds, delta2)),
            "srsr": bounds.srsr_discrepancy(t, cache_rounds, theta, corr_rounds, delta2, share),
            "drsr": bounds.drsr_discrepancy(t, corr_rounds, delta2),
        }
        for rule, bound in lines.items():
            ax.plot(t, bound, label=label(rule), **line(rule))
        ax.axhline(delta2, color="gray", linewidth=1, label="one round")
        shown = f"{limit:.2g}" if np.isfinite(limit) else "infinite (ERRATA 6)"
        ax.set(xscale="log", yscale="log", xlabel="round t", ylabel="bound on the discrepancy")
        ax.set_title(f"SRSR's limit: {shown}")
        ax.legend(loc="center left", bbox_to_anchor=(1, 0.5))
        plt.show()

    whole, real = partial(ipywidgets.IntSlider, **SLIDER), partial(ipywidgets.FloatSlider, **SLIDER)
    controls = {
        "corr_rounds": real(1.0, min=0, max=10, step=0.5, description="memory Gamma (rounds)"),
        "deviation": real(0.15, min=0.01, max=0.5, step=0.01, description="deviation delta"),
        "cache_rounds": whole(10, 1, 100, description="cache size M (rounds)"),
        "theta": real(2 / 3, min=0.05, max=1, step=0.05, description="theta (SRSR)"),
        "share": real(0.3, min=0.01, max=1, step=0.01, description="share pi (SRSR)"),
    }
    return ipywidgets.VBox([*controls.values(), picture(draw, controls)])
