"""Drawings that several notebooks share: samples, a round of learning, and the rules' looks.

Samples are squares whose colour and figure are the label, so that nothing is lost in grey print.
Units are the axes' own: one square is one unit wide. How a cache rule is drawn and called stands in
`sflkit.sfl.caches.RULES`; `line` and `label` say it in matplotlib's words.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from sflkit import checks
from sflkit.registry import Look
from sflkit.results.intervals import mean_interval
from sflkit.sfl.caches import RULES

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

# seven of Okabe and Ito's, two greys and Tol's indigo: safe for colour-blind readers
_COLORS = (
    "#56B4E9",
    "#E69F00",
    "#009E73",
    "#F0E442",
    "#CC79A7",
    "#0072B2",
    "#D55E00",
    "#BBBBBB",
    "#7F7F7F",
    "#332288",
)


_DARK = (5, 6, 8, 9)
_GAP = 0.12
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
    return _COLORS[checks.integer("label", int(label), 0) % len(_COLORS)]


def text_color(label: int) -> str:
    """Return black or white, whichever reads on `label_color(label)`."""
    return "white" if int(label) % len(_COLORS) in _DARK else "black"


def squares(
    ax: Axes,
    labels: ArrayLike,
    *,
    x: float = 0.0,
    y: float = 0.0,
    columns: int = 6,
    new: ArrayLike | None = None,
    gone: ArrayLike | None = None,
    fontsize: float = 8,
) -> None:
    """Draw samples as squares in rows of `columns`, the first at the top left corner (x, y).

    Parameters
    ----------
    labels : int array (n,)
    new, gone : bool arrays (n,), optional
        Samples with a thick frame, and samples crossed out.
    """
    from matplotlib.patches import Rectangle

    labels = np.asarray(labels, dtype=int)
    new, gone = (
        np.zeros(len(labels), bool) if flags is None else np.asarray(flags, bool)
        for flags in (new, gone)
    )
    for i, label in enumerate(labels):
        left, bottom = x + i % columns, y - 1 - i // columns
        side = 1 - _GAP
        ax.add_patch(
            Rectangle(
                (left, bottom),
                side,
                side,
                facecolor=label_color(label),
                edgecolor="black",
                linewidth=2.2 if new[i] else 0.6,
                alpha=0.45 if gone[i] else 1.0,
                zorder=3,
            )
        )
        ax.text(
            left + side / 2,
            bottom + side / 2 - 0.03,
            str(label),
            ha="center",
            va="center",
            fontsize=fontsize,
            color="black" if gone[i] else text_color(label),
            zorder=4,
        )
        if gone[i]:
            ax.plot(
                [left, left + side], [bottom, bottom + side], color="black", linewidth=1.1, zorder=5
            )


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
    shares = checks.array("shares", shares, ndim=2, low=0.0)
    at = np.arange(len(shares)) if at is None else np.asarray(at)
    bottom = np.zeros(len(shares))
    for label in range(shares.shape[1]):
        part = shares[:, label]
        color = "white" if hollow else label_color(label)
        look = {"color": color, "edgecolor": "black", "linewidth": 0.5, "width": width}
        ax.bar(at, part, bottom=bottom, **look)
        for k in np.flatnonzero(part >= least):
            ax.text(
                at[k],
                bottom[k] + part[k] / 2,
                str(label),
                ha="center",
                va="center",
                fontsize=8,
                color="black" if hollow else text_color(label),
            )
        bottom += part


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


def sfl_round(
    ax: Axes, arrivals: Sequence, caches: Sequence, new: Sequence, *, columns: int = 6
) -> None:
    """Draw the three stages of a round of SFL.

    They are arrivals (S1), caches after the update (S2), and local models with the server (S3).

    Parameters
    ----------
    arrivals, caches : per client an int array of labels
    new : per client a bool array, which cached samples arrived in this round
    """
    from matplotlib.patches import FancyBboxPatch

    if not len(arrivals) == len(caches) == len(new) or not len(arrivals):
        raise ValueError(
            f"arrivals, caches and new have {len(arrivals)}, {len(caches)} and {len(new)} clients; "
            "they need the same number, at least 1"
        )
    rows = max(-(-max(map(len, (*arrivals, *caches))) // columns), 1)
    pitch, middle = rows + 1.6, -rows / 2
    s1, s2, s3, server = 0.0, columns + 2.0, 2 * columns + 4.0, 2 * columns + 11.5

    def box(x, y, width, height, text, color="white"):
        ax.add_patch(
            FancyBboxPatch(
                (x, y - height / 2),
                width,
                height,
                boxstyle="round,pad=0.12,rounding_size=0.25",
                facecolor=color,
                edgecolor="black",
                linewidth=1.0,
                zorder=2,
            )
        )
        ax.text(x + width / 2, y, text, ha="center", va="center", fontsize=8.5, zorder=4)

    def arrow(start, end, bend=0.0, color="black"):
        ax.annotate(
            "",
            end,
            start,
            arrowprops={
                "arrowstyle": "-|>",
                "color": color,
                "linewidth": 1.3,
                "shrinkA": 0,
                "shrinkB": 0,
                "connectionstyle": f"arc3,rad={bend}",
            },
            zorder=1,
        )

    bottom = -pitch * (len(caches) - 1) - rows
    centre = bottom / 2
    for k, (arrived, cached, fresh) in enumerate(zip(arrivals, caches, new, strict=True)):
        y = -pitch * k
        ax.text(s1 - 0.5, y + middle, f"client {k + 1}", ha="right", va="center", fontsize=9)
        top = y + middle + -(-len(arrived) // columns) / 2
        squares(ax, arrived, x=s1, y=top, columns=columns, new=np.ones(len(arrived), bool))
        box(s2 - 0.06, y + middle + 0.06, columns, rows + 0.1, "", "#F3F3F3")
        squares(
            ax,
            cached,
            x=s2,
            y=y + middle + -(-len(cached) // columns) / 2,
            columns=columns,
            new=fresh,
        )
        box(s3, y + middle, 4.6, 1.5, f"$E$ steps: $w_t \\to w_t^{k + 1}$", "#E8F1FA")
        arrow((s1 + columns + 0.1, y + middle), (s2 - 0.4, y + middle))
        arrow((s2 + columns + 0.25, y + middle), (s3 - 0.25, y + middle))
        arrow((s3 + 4.85, y + middle), (server - 0.25, centre + 0.35 * (y + middle - centre)))
    box(
        server,
        centre,
        5.4,
        3.6,
        "server\n\n$w_{t+1} = w_t +$\n$\\eta$ mean$_k(w_t^k - w_t)$",
        "#FDF0DD",
    )
    turn = bottom - 1.0
    ax.plot(
        [server + 2.7, server + 2.7, s3 + 2.3],
        [centre - 1.95, turn, turn],
        color="#555555",
        linestyle="--",
        linewidth=1.3,
    )
    arrow((s3 + 2.3, turn), (s3 + 2.3, bottom + rows / 2 - 0.95), color="#555555")
    ax.text(
        (s3 + 2.3 + server + 2.7) / 2,
        turn - 0.35,
        "$w_{t+1}$ goes to every client",
        ha="center",
        va="top",
        fontsize=8.5,
    )
    for x, width, title in (
        (s1, columns, "$S_1$ streaming\ndata arrival"),
        (s2, columns, "$S_2$ local\ncache update"),
        (s3, 4.6, "$S_3$ local\nmodel update"),
    ):
        ax.text(x + width / 2, 0.9, title, ha="center", va="bottom", fontsize=10)
    ax.set(xlim=(s1 - 4.0, server + 5.9), ylim=(turn - 1.4, 2.9), aspect="equal")
    ax.axis("off")
