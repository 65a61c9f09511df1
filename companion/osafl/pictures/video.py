"""Pictures of notebook 30: the law of the requests, a store over time, the size of a sample.

Source: OSAFL, Appendix D-A (Algorithm 5), Fig. 2, Table I. What is drawn comes from
`companion.osafl.evidence.video`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from companion import figures
from companion.osafl.evidence.video import FLOAT_BITS, Example, Frequencies, Sample

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def law(
    popularity: np.ndarray, printed: np.ndarray, found: Frequencies, user: int, title: str
) -> tuple[Figure, dict[str, Any]]:
    """Draw popularity in a genre, one user's law, and simulated beside exact frequencies.

    Parameters
    ----------
    popularity, printed : array (n_ranks,)
        Normalised, and (80) as printed.
    found : Frequencies
    user : int
        Whose law is drawn.
    title : str
        Of the law.

    Returns
    -------
    fig : Figure
    drawn : dict
        What it draws, for `figures.save_figure`.
    """
    import matplotlib.pyplot as plt

    fig, (left, middle, right) = plt.subplots(1, 3, figsize=(12.2, 4.0))
    ranks = np.arange(1, len(popularity) + 1)
    sum_of = f"(80) as printed: sum {printed.sum():.0f}"
    left.plot(ranks, printed, **figures.series_style(None, 1), label=sum_of)
    left.plot(ranks, popularity, **figures.series_style(None, 0), label="normalised: sum 1")
    left.axhline(1, color="black", linewidth=0.8)
    left.set(yscale="log", xlabel="rank of a file in its genre", ylabel="probability")
    left.set(title="popularity", xticks=[1, 5, 10, 15, 20])
    left.set_ylim(top=left.get_ylim()[1] * 8)
    left.legend(fontsize=9, loc="upper right")
    own = found.law[user]
    flat = dict(norm="log", interpolation="nearest", origin="lower")
    image = middle.imshow(np.where(own > 0, own, np.nan), **flat)
    middle.set(xlabel="next file", ylabel="last file", title=title)
    middle.set_xticks(range(0, 101, 20))
    middle.set_yticks(range(0, 101, 20))
    middle.grid(visible=False)
    fig.colorbar(image, ax=middle, label="probability", shrink=0.9)
    exact = found.law[found.big]
    share = found.seen[found.big] / (found.expected[found.big] / exact)
    dots = dict(s=5, alpha=0.3, color="#0072B2", edgecolors="none", rasterized=True)
    right.scatter(exact, share, **dots)
    low = 0.5 * exact.min()
    right.plot([low, 1], [low, 1], color="black", linewidth=1)
    right.set(xscale="log", yscale="log", xlabel="exact probability")
    right.set(ylabel="simulated frequency", title="all users' transitions")
    drawn = {"popularity": popularity, "law": own, "simulated": np.stack([exact, share])}
    return fig, drawn


def store(example: Example, paths: pd.DataFrame, user: int) -> Figure:
    """Draw one user's most and least frequent files over the rounds, and the distance of stores.

    `paths` has the columns seed, round, distance and what, a row per seed and round.
    """
    import matplotlib.pyplot as plt

    panels = [["top", "far"], ["least", "far"]]
    sizes = dict(width_ratios=[1.5, 1], height_ratios=[1.7, 1])
    fig, axes = plt.subplot_mosaic(panels, figsize=(10.4, 4.6), **sizes)
    rounds = len(example.shares) - 1
    names = ("most", "second", "second least", "least")
    for i, file in enumerate([*example.top, *example.least]):
        ax = axes["top" if i < 2 else "least"]
        look = figures.series_style(None, i) | {"linestyle": "-"}
        every = max(1, rounds // 10)
        label = f"{names[i]}: file {file}"
        ax.plot(100 * example.shares[:, file], label=label, markevery=every, **look)
        dotted = dict(color=look["color"], linestyle=":", linewidth=1.6)
        ax.axhline(100 * example.long_run[file], **dotted)
    for ax in (axes["top"], axes["least"]):
        ax.set(xlim=(0, rounds), ylim=(0, 1.05 * ax.get_ylim()[1]), ylabel="share (%)")
        ax.legend(fontsize=9, loc="center left", bbox_to_anchor=(1, 0.5))
    axes["top"].set(title=f"Figure 2: user {user}, store of {example.size} samples", xticklabels=[])
    axes["least"].set(xlabel="round")
    far = axes["far"]
    figures.curves(far, paths, "round", "distance", "what")
    far.set(xlabel="round", ylabel="distance to the first store", ylim=(0, None), xlim=(0, rounds))
    far.set_title("total variation, mean over users")
    return fig


def sample(found: Sample) -> Figure:
    """Draw the blocks of a sample of Dataset-1, and the bytes of the smallest and largest store."""
    import matplotlib.pyplot as plt

    fig, (left, right) = plt.subplots(1, 2, figsize=(10.4, 3.6), width_ratios=[1.3, 1])
    table = found.blocks
    left.barh(range(len(table)), table["features"], color="#0072B2")
    left.set_yticks(range(len(table)), table["block"], fontsize=9)
    for i, (size, begin) in enumerate(zip(table["features"], table["from"], strict=True)):
        left.text(size * 1.2, i, f"{size}  (from {begin})", va="center", fontsize=9)
    left.set(xscale="log", xlabel="number of features", xlim=(0.5, 1e5), ylim=(4.6, -0.6))
    left.set_title(f"Dataset-1: {found.features} features")
    _bytes(right, {"Dataset-1": found.features * FLOAT_BITS, "Dataset-2": found.label_bits})
    return fig


def _bytes(ax: Axes, bits: dict[str, int]) -> None:
    for count, shift, color in ((320, -0.18, "#56B4E9"), (640, 0.18, "#D55E00")):
        size = [count * each / 8 for each in bits.values()]
        look = dict(width=0.34, color=color, log=True, label=f"{count} samples")
        ax.bar(np.arange(2) + shift, size, **look)
    ax.legend(fontsize=9)
    ax.set_xticks(range(2), bits)
    ax.grid(axis="x", visible=False)
    ax.set(ylabel="bytes of a store", ylim=(10, 1e8), title="smallest and largest store")
