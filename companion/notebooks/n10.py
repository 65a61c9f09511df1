"""Notebook 10, streams and caches: which caches are followed, what is measured, two drawings.

Source: SFL, Sections III to V, Figs. 1, 2, 3 and 5. Samples are squares whose colour and figure are
the label, so that nothing is lost in grey print; one square is one unit of the axes wide.
"""

from __future__ import annotations

import math
from collections.abc import Generator, Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from companion.notebooks.sfl_shared import label_color, text_color
from companion.plans import Stage
from sflkit.sfl import cache_paths, discrepancy
from sflkit.sfl.clients import Clients, make_stream
from sflkit.sfl.config import SFLConfig

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def streams_and_caches(
    *, seeds: list[int], rules: list[str], **settings: Any
) -> Generator[Stage, pd.DataFrame, pd.DataFrame]:
    """Notebook 10: every rule on every seed's streams."""
    same = "rounds n_clients classes_per_client n_states temperature capacity batch_size theta"
    own = {name: settings[name] for name in same.split()}
    rules = list(dict.fromkeys(rules))
    configs = [SFLConfig(train=False, rule=r, seed=s, **own) for r in rules for s in seeds]
    return (yield Stage(cache_paths.run, configs, "caches"))


Evidence = dict[str, Any]


def late_logs(frame: pd.DataFrame, seeds: list[int], first_full: int) -> dict:
    """Return what Fig. 5 is judged by, as logarithms, for the rules FIFO, SRSR and DRSR.

    Parameters
    ----------
    frame : DataFrame
        Of `run` for these rules and seeds.
    seeds : list of int
    first_full : int
        M, the round in which the cache is full for the first time.

    Returns
    -------
    dict
        "mean", "fluctuation" and "total": rule -> (n_seeds,) logarithms of the mean and of the
        standard deviation over the last half of the rounds, and of the sum over all rounds;
        "falls": log psi_t of DRSR (n_seeds, T - M), and log t.
    """
    psi = {
        rule: part.pivot(index="seed", columns="round", values="discrepancy").loc[seeds]
        for rule, part in frame.groupby("rule")
        if rule in ("fifo", "srsr", "drsr")
    }
    t = psi["drsr"].columns.to_numpy()
    late = {rule: table.to_numpy()[:, t > t[-1] // 2] for rule, table in psi.items()}
    filled = t > first_full
    return {
        "mean": {rule: np.log(values.mean(axis=1)) for rule, values in late.items()},
        "fluctuation": {rule: np.log(values.std(axis=1)) for rule, values in late.items()},
        "total": {rule: np.log(table.to_numpy().sum(axis=1)) for rule, table in psi.items()},
        "falls": (np.log(psi["drsr"].to_numpy()[:, filled]), np.log(t[filled])),
    }


def expected_totals(config: SFLConfig, seeds: Iterable[int]) -> dict[str, np.ndarray]:
    """Return rule -> (rounds,) accumulated discrepancy of FIFO, SRSR and DRSR, in expectation.

    It is the mean over the seeds' streams, for exact counts, that is without the noise of drawing
    B_s labels and without rounding. `config` names the stream's and the caches' settings.
    """
    how = {"cache_rounds": math.ceil(config.capacity / config.batch_size)}
    streams = [make_stream(replace(config, seed=seed), config.n_classes) for seed in seeds]

    def total(rule: str, **theta: float) -> np.ndarray:
        paths = [discrepancy.exact_path(s, rule, config.rounds, **how, **theta) for s in streams]
        return np.mean([path.sum(axis=(1, 2)).cumsum() for path in paths], axis=0)

    srsr = total("srsr_filled", theta=config.theta)
    return {"fifo": total("fifo"), "srsr": srsr, "drsr": total("drsr")}


def stream_evidence(
    config: SFLConfig, clients: Clients, frame: pd.DataFrame, seeds: Sequence[int]
) -> dict[str, Evidence]:
    """Return the evidence of Figs. 1, 3 and 5 and of C, artefact -> part -> what the rule takes.

    Parameters
    ----------
    config : SFLConfig
        Of the clients.
    clients : Clients
        Those of Figs. 1 and 3.
    frame : DataFrame
        Rows of the sweep over rules and `seeds`, with the columns discrepancy and accumulated.
    seeds : sequence of int
        "Throughout" is judged by the expectations on as many other streams: those of the next
        seeds, which no rule has seen.
    """
    logs = late_logs(frame, seeds, -(-config.capacity // config.batch_size))
    expected = expected_totals(config, [seed + len(seeds) for seed in seeds])
    others = np.stack([expected["srsr"], expected["fifo"]])
    by_labels = distances(config, seeds)
    return {
        "sfl-fig1": _wandering(config, clients),
        "sfl-fig3": {"apart": bool(distance(clients.stream.long_term) > 0.5)},
        "sfl-noniid": {"falls": (by_labels[:, 1:], by_labels[:, :-1])},
        "sfl-fig5a": {
            f"{what} {rule}": (logs[what]["fifo"], logs[what][rule])
            for what in ("mean", "fluctuation")
            for rule in ("srsr", "drsr")
        }
        | {"falls": logs["falls"]},
        "sfl-fig5b": {
            "fifo srsr": (logs["total"]["fifo"], logs["total"]["srsr"]),
            "srsr drsr": (logs["total"]["srsr"], logs["total"]["drsr"]),
            "throughout": (np.stack([expected["drsr"]] * 2), others),
        },
    }


def distance(shares: np.ndarray) -> float:
    """Return the mean total variation between two clients' `shares`, (n_clients, n_classes)."""
    return float(
        np.mean([np.abs(a - b).sum() / 2 for i, a in enumerate(shares) for b in shares[:i]])
    )


def distances(config: SFLConfig, seeds: Sequence[int]) -> np.ndarray:
    """Return `distance` of the long-term shares with 2 to all labels a client, (n_seeds, n_C)."""

    def of(seed: int, labels: int) -> float:
        one = replace(config, seed=seed, classes_per_client=labels)
        return distance(make_stream(one, config.n_classes).long_term)

    several = range(2, config.n_classes + 1)
    return np.array([[of(seed, labels) for labels in several] for seed in seeds])


def _wandering(config: SFLConfig, clients: Clients) -> dict[str, bool]:
    """Return whether rounds are off the long-term shares, alike, and right on average."""
    shares, long = clients.counts / config.batch_size, clients.stream.long_term
    off = np.abs(shares - long).max(axis=2)  # (rounds, clients)
    mean_off = np.abs(shares.mean(axis=0) - long).max(axis=1)
    return {
        "off": bool((off > 0.05).mean() > 0.5),
        "alike": bool((clients.stream.autocovariance(1).sum(axis=1) > 0).all()),
        "average": bool((mean_off < off.mean(axis=0)).all()),
    }


def squares(
    ax: Axes,
    labels: ArrayLike,
    *,
    x: float = 0.0,
    y: float = 0.0,
    columns: int = 6,
    new: ArrayLike = False,
    gone: ArrayLike = False,
) -> None:
    """Draw samples as squares in rows of `columns`, the first at the top left corner (x, y).

    `new` and `gone` are bool arrays (n,): samples with a thick frame, and samples crossed out.
    """
    from matplotlib.patches import Rectangle

    labels, side = np.asarray(labels, dtype=int), 0.88
    new, gone = (np.broadcast_to(flags, labels.shape) for flags in (new, gone))
    middle = {"ha": "center", "va": "center", "fontsize": 8, "zorder": 4}
    for i, label in enumerate(labels):
        left, bottom = x + i % columns, y - 1 - i // columns
        look = {"linewidth": 2.2 if new[i] else 0.6, "alpha": 0.45 if gone[i] else 1.0}
        look |= {"facecolor": label_color(label), "edgecolor": "black", "zorder": 3}
        ax.add_patch(Rectangle((left, bottom), side, side, **look))
        color = "black" if gone[i] else text_color(label)
        ax.text(left + side / 2, bottom + side / 2 - 0.03, str(label), color=color, **middle)
        if gone[i]:
            ends = [left, left + side], [bottom, bottom + side]
            ax.plot(*ends, color="black", linewidth=1.1, zorder=5)


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

    rows = max(-(-max(map(len, (*arrivals, *caches))) // columns), 1)
    pitch, middle = rows + 1.6, -rows / 2
    s1, s2, s3, server = 0.0, columns + 2.0, 2 * columns + 4.0, 2 * columns + 11.5

    def box(x, y, width, height, text, color="white"):
        look = {"facecolor": color, "edgecolor": "black", "linewidth": 1.0, "zorder": 2}
        look["boxstyle"] = "round,pad=0.12,rounding_size=0.25"
        ax.add_patch(FancyBboxPatch((x, y - height / 2), width, height, **look))
        ax.text(x + width / 2, y, text, ha="center", va="center", fontsize=8.5, zorder=4)

    def arrow(start, end, color="black"):
        look = {"arrowstyle": "-|>", "color": color, "linewidth": 1.3, "shrinkA": 0, "shrinkB": 0}
        ax.annotate("", end, start, arrowprops=look, zorder=1)

    bottom = -pitch * (len(caches) - 1) - rows
    centre = bottom / 2
    for k, (arrived, cached, fresh) in enumerate(zip(arrivals, caches, new, strict=True)):
        y = -pitch * k
        ax.text(s1 - 0.5, y + middle, f"client {k + 1}", ha="right", va="center", fontsize=9)
        top = y + middle + -(-len(arrived) // columns) / 2
        squares(ax, arrived, x=s1, y=top, columns=columns, new=True)
        box(s2 - 0.06, y + middle + 0.06, columns, rows + 0.1, "", "#F3F3F3")
        top = y + middle + -(-len(cached) // columns) / 2
        squares(ax, cached, x=s2, y=top, columns=columns, new=fresh)
        box(s3, y + middle, 4.6, 1.5, f"$E$ steps: $w_t \\to w_{{t+1}}^{k + 1}$", "#E8F1FA")
        arrow((s1 + columns + 0.1, y + middle), (s2 - 0.4, y + middle))
        arrow((s2 + columns + 0.25, y + middle), (s3 - 0.25, y + middle))
        arrow((s3 + 4.85, y + middle), (server - 0.25, centre + 0.35 * (y + middle - centre)))
    text = "server\n\n$w_{t+1} = w_t +$\n$\\eta$ mean$_k(w_{t+1}^k - w_t)$"
    box(server, centre, 5.4, 3.6, text, "#FDF0DD")
    turn, right, left = bottom - 1.0, server + 2.7, s3 + 2.3
    look = {"color": "#555555", "linestyle": "--", "linewidth": 1.3}
    ax.plot([right, right, left], [centre - 1.95, turn, turn], **look)
    arrow((left, turn), (left, bottom + rows / 2 - 0.95), color="#555555")
    place = {"ha": "center", "va": "top", "fontsize": 8.5}
    ax.text((left + right) / 2, turn - 0.35, "$w_{t+1}$ goes to every client", **place)
    for x, width, title in (
        (s1, columns, "$S_1$ streaming\ndata arrival"),
        (s2, columns, "$S_2$ local cache\nupdate (thick: new)"),
        (s3, 4.6, "$S_3$ local\nmodel update"),
    ):
        ax.text(x + width / 2, 0.9, title, ha="center", va="bottom", fontsize=10)
    ax.set(xlim=(s1 - 4.0, server + 5.9), ylim=(turn - 1.4, 2.9), aspect="equal")
    ax.axis("off")
