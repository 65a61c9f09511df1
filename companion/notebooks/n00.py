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

    from sflkit.fats.history import History


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


def participation(ax: Axes, history: History, client: int) -> None:
    """Draw who takes part in each round of a history, and what forgetting `client` recomputes.

    A square is a client in a round. Those of `client` are filled with another colour, and all
    rounds from its first one on, which are trained anew without it, have a shaded background.
    Clients and rounds are counted from 0, as in `History`.
    """
    first = history.first_use(client)
    rounds = np.repeat(np.arange(len(history.clients)), history.clients_per_round)
    others = history.clients.ravel() != client
    ax.plot(rounds[others], history.clients.ravel()[others], "s", color="0.55", markersize=5)
    ax.plot(rounds[~others], history.clients.ravel()[~others], "s", color="#D55E00", markersize=7)
    ax.axhline(client, color="#D55E00", linewidth=1, zorder=0)
    if first is not None:
        ax.axvspan(first - 0.5, len(history.clients) - 0.5, color="#56B4E9", alpha=0.2, linewidth=0)
        ax.text(first, history.n_clients - 0.3, " trained anew", ha="left", va="bottom")
        ax.text(first - 1, history.n_clients - 0.3, "kept ", ha="right", va="bottom")
    ax.set(xlabel="round", ylabel="client", xlim=(-0.7, len(history.clients) - 0.3))
    ax.set_ylim(-0.8, history.n_clients + 1)
    ax.yaxis.get_major_locator().set_params(integer=True)
    ax.grid(visible=False)
