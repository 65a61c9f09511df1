"""Notebook 00: the drawings of the tour, one client's cache and images, and who took part when.

Source: SFL, Section III; FATS, Algorithm 3.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from companion.notebooks.sfl_shared import label, label_color

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def arrivals_and_caches(
    axes: Sequence[Axes], arrivals: ArrayLike, caches: Mapping[str, ArrayLike], long_term: ArrayLike
) -> None:
    """Draw what reaches one client, round by round, and what each of its caches then holds.

    Parameters
    ----------
    axes : sequence of Axes
        One for the arrivals, then one for each cache.
    arrivals : array (n_rounds, n_classes)
        Label counts of the arrivals.
    caches : mapping
        Name of a cache rule -> label counts of its cache, as `arrivals`.
    long_term : array (n_classes,)
        The stream's label shares in the long run, drawn as dashed lines.
    """
    held = np.flatnonzero(long_term)
    edges = np.cumsum(np.asarray(long_term)[held])[:-1]
    titles = {"what arrives": arrivals}
    titles |= {f"what {label(rule)} holds": counts for rule, counts in caches.items()}
    for ax, (title, counts) in zip(axes, titles.items(), strict=True):
        shares = np.asarray(counts)[:, held] / np.asarray(counts).sum(axis=1, keepdims=True)
        rounds = np.arange(1, len(shares) + 1)
        bottoms = np.cumsum(shares, axis=1) - shares
        for i, r in enumerate(held):
            bars = {"width": 1.0, "linewidth": 0, "color": label_color(r)}
            ax.bar(rounds, shares[:, i], bottom=bottoms[:, i], **bars)
            ax.text(
                rounds[-1] + 0.8, bottoms[-1, i] + shares[-1, i] / 2, str(r), ha="left", va="center"
            )
        for edge in edges:
            ax.axhline(edge, color="white", linewidth=2.6)
            ax.axhline(edge, color="black", linestyle="--", linewidth=1.2)
        ax.set(xlabel="round t", title=title, xlim=(0.5, len(shares) + 0.5), ylim=(0, 1))
        ax.grid(visible=False)
    axes[0].set_ylabel("share of the digits")


def image_grid(ax: Axes, images: ArrayLike, *, columns: int = 4) -> None:
    """Draw grey images (n, height, width), in rows of `columns`; those of an unfinished row go."""
    images = np.asarray(images)
    rows = len(images) // columns
    framed = np.pad(images[: rows * columns], ((0, 0), (2, 2), (2, 2)), constant_values=60)
    grid = framed.reshape(rows, columns, *framed.shape[1:])
    ax.imshow(np.block([list(row) for row in grid]), cmap="gray_r")
    ax.axis("off")
