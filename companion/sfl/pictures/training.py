"""The pictures of SFL's training figures: Figs. 4, 6, 7, 8 and 10.

Each function draws into axes that it is given and returns the numbers that it drew, which
`companion.figures.save_figure` keeps beside the figure. Accuracies are shares in the frames
and per cent, or points of them, in the pictures.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from companion import figures, sheets
from companion.sfl.evidence import training as evidence
from companion.sfl.pictures import shared as pictures
from sflkit.sfl.caches import RULES

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Arms = Mapping[tuple[str, str, float], pd.DataFrame]
# FULL in Figs. 4 and 10, where it stands beside the one whose samples are renewed.
_LABELS = RULES.labels() | {"full": "FULL (static)"}
# Whose curve of the paper is whose: its FULL renews its samples (ERRATA 85).
PRINTED_AS = {"full_refreshed": "FULL"} | {
    r: RULES[r].label for r in ("drsr", "srsr", "fifo", "lazy")
}
_DISCREPANCY = r"expected discrepancy $\mathbb{E}\,\psi_t$"
_THETA_COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")


def figure4(axes: Sequence[Axes], frame: pd.DataFrame, rules: Sequence[str]) -> pd.DataFrame:
    """Draw Fig. 4: left the accuracy of every rule over rounds, right late differences from FIFO.

    Parameters
    ----------
    axes : two Axes
    frame : DataFrame
        Rows of a sweep over rules and seeds.
    rules : sequence of str
        In the order of the right picture.

    Returns
    -------
    DataFrame
        Mean, std and count of the accuracies in per cent, by rule and round.
    """
    shown = frame.dropna(subset="accuracy")[["rule", "seed", "round", "accuracy"]]
    shown = shown.assign(accuracy=100 * shown["accuracy"])
    figures.curves(
        axes[0], shown, "round", "accuracy", "rule", rules=RULES, interval=None, labels=_LABELS
    )
    axes[0].set(xlabel="round t", ylabel="test accuracy, %")
    axes[0].legend(ncols=2, fontsize=9)
    late = evidence.window(frame, evidence.LATE)
    others = [rule for rule in rules if rule != "fifo"]
    pictures.gains(axes[1], late.sub(late["fifo"], axis=0)[others], labels=_LABELS)
    axes[1].set(xlabel="minus FIFO, points", title="last quarter, a dot a seed, bars 95 %")
    return shown.groupby(["rule", "round"])["accuracy"].agg(["mean", "std", "count"]).reset_index()


def labels_alone(axes: Sequence[Axes], frame: pd.DataFrame, seed: int) -> dict[str, pd.DataFrame]:
    """Draw rules that differ in labels only: left one world over rounds, right all worlds.

    Parameters
    ----------
    axes : two Axes
    frame : DataFrame
        Rows of a sweep of `label_only.run` over rules and seeds.
    seed : int
        Whose curves are drawn, from a quarter of the rounds on.
    """
    one = frame[frame["seed"] == seed]
    last = int(one["round"].max())
    for rule in ("lazy", "fifo", "srsr", "drsr"):
        rows = one[one["rule"] == rule]
        look = pictures.line(rule) | {"linewidth": 1.4, "label": pictures.label(rule)}
        axes[0].plot(rows["round"], 100 * rows["accuracy"], **look)
    inside = 100 * one[one["round"] > last / 4]["accuracy"]
    axes[0].set(
        xlabel="round t",
        ylabel="test accuracy, %",
        xlim=(last / 4, last),
        ylim=(inside.min() - 0.2, inside.max() + 0.2),
    )
    axes[0].legend(ncols=4, fontsize=9)
    whole = evidence.window(frame, evidence.THROUGHOUT)
    chosen = ["full", "drsr", "srsr", "lazy"]
    pictures.gains(axes[1], whole.sub(whole["fifo"], axis=0)[chosen])
    axes[1].set(xlabel="minus FIFO, points, all rounds", title="mean accuracy, one dot a world")
    steps = 100 * evidence.steps(frame)
    return {"one": one[["rule", "round", "accuracy"]], "throughout": whole, "steps": steps}


def over_paths(
    ax: Axes, arms: Mapping[str, pd.DataFrame], looks: Sequence[Mapping]
) -> pd.DataFrame:
    """Draw Figs. 6 and 8: the mean accuracy of some arms, and one standard deviation around it.

    Parameters
    ----------
    ax : Axes
    arms : mapping
        What the legend calls an arm -> rows of `evidence.arm`.
    looks : sequence of mappings
        Matplotlib's keywords for the line of each arm.

    Returns
    -------
    DataFrame
        arm, round, mean and std, in per cent. The std is that over the paths of a world, the root
        of its mean square over worlds.
    """
    drawn = []
    for (name, rows), look in zip(arms.items(), looks, strict=True):
        mean = 100 * rows.groupby("round")["accuracy"].mean()
        std = _spread(rows)
        ax.plot(mean.index, mean, label=name, **look)
        ax.fill_between(mean.index, mean - std, mean + std, color=look["color"], alpha=0.18, lw=0)
        drawn.append(
            pd.DataFrame({"arm": name, "round": mean.index, "mean": mean.to_numpy(), "std": std})
        )
    ax.set(xlabel="round t", ylabel="test accuracy, %")
    ax.legend(loc="upper right")
    return pd.concat(drawn, ignore_index=True)


def arrivals(
    axes: np.ndarray, arms: Arms, sizes: Mapping[str, int], theta: float, how: Mapping[str, Any]
) -> dict[str, np.ndarray]:
    """Draw what Fig. 6 rests on: above the spread of the accuracy, below the discrepancy.

    The spread is that of `over_paths`, smoothed over five rounds.

    Parameters
    ----------
    axes : array of Axes (2, 2)
        A column for few and one for many arrivals.
    arms : mapping
        (few or many, rule, theta) -> rows of `evidence.arm`.
    sizes : mapping
        few or many -> B_s.
    theta : float
        SRSR's weight.
    how : mapping
        worlds, capacity and rounds.
    """
    worlds, at = how["worlds"], _some_rounds(how["rounds"])
    drawn = {}
    for column, (name, n) in zip(axes.T, sizes.items(), strict=True):
        for rule in ("drsr", "srsr"):
            look = pictures.line(rule) | {"label": pictures.label(rule)}
            spread = _spread(arms[name, rule, theta])
            calm = pd.Series(spread).rolling(5, center=True, min_periods=1).mean()
            column[0].plot(np.arange(1, len(calm) + 1), calm, **look)
            exact = _exact(worlds, rule, at, theta, n, how["capacity"], "full")
            column[1].plot(at, exact, **look)
            drawn[f"spread {name} {rule}"] = spread
            drawn[f"psi {name} {rule}"] = np.stack([at, exact])
        column[0].set_title(f"{name} arrivals: $B_s$ = {n} of B = {how['capacity']}")
        column[1].set_xlabel("round t")
    axes[0, 0].set(ylabel="spread of the accuracy\nover paths, points", ylim=(0, None))
    axes[1, 0].set(ylabel=_DISCREPANCY, ylim=(0, None))
    axes[0, 1].legend()
    return drawn


def weights(
    axes: np.ndarray,
    arms: Arms,
    sizes: Mapping[str, int],
    thetas: Sequence[float],
    theta: float,
    how: Mapping[str, Any],
) -> dict[str, np.ndarray]:
    """Draw what Fig. 8 rests on: above SRSR's discrepancy by theta, below the accuracy.

    Arguments are those of `arrivals`, and `thetas`, SRSR's weights. Accuracies are shown less
    DRSR's. Dotted lines are caches that fill by appending.
    """
    worlds, at = how["worlds"], _some_rounds(how["rounds"])
    drawn = {}
    for column, (name, n) in zip(axes.T, sizes.items(), strict=True):
        drsr = arms[name, "drsr", theta].groupby("round")["accuracy"].mean()
        for value, color in zip(thetas, _THETA_COLORS, strict=False):
            for start, line in (("full", "-"), ("append", ":")):
                exact = _exact(worlds, "srsr", at, value, n, how["capacity"], start)
                text = f"θ = {value:.2g}" if start == "full" else None
                column[0].plot(at, exact, line, color=color, label=text)
                drawn[f"psi {name} {value:.3g} {start}"] = exact
            mean = arms[name, "srsr", value].groupby("round")["accuracy"].mean()
            column[1].plot(mean.index, 100 * (mean - drsr), color=color)
            drawn[f"accuracy {name} {value:.3g}"] = mean.to_numpy()
        column[1].axhline(0, color="0.4", linewidth=1)
        column[0].set_title(f"{name} arrivals: $B_s$ = {n} of B = {how['capacity']}")
        column[1].set_xlabel("round t")
    axes[0, 1].plot([], [], ":", color="0.3", label="fills by appending")
    axes[0, 0].set(ylabel=_DISCREPANCY, ylim=(0, None))
    axes[1, 0].set(ylabel="accuracy minus\nDRSR's, points")
    axes[0, 1].legend(fontsize=9)
    return drawn | {"rounds": at}


def _spread(rows: pd.DataFrame) -> np.ndarray:
    """Return the root of the mean variance over the paths of a world, in points, by round."""
    curves = 100 * evidence.path_curves(rows, evidence.THROUGHOUT)
    return np.sqrt((curves**2).sum(axis=0) / (len(curves) - rows["world"].nunique()))


def _some_rounds(rounds: int) -> np.ndarray:
    return np.unique(np.linspace(1, rounds, 25).astype(int))


def _exact(
    worlds: Sequence[int],
    rule: str,
    at: np.ndarray,
    theta: float,
    batch_size: int,
    capacity: int,
    start: str,
) -> np.ndarray:
    """Return a rule's expected discrepancy in the rounds `at`, mean over the worlds."""
    how = {"theta": theta, "batch_size": batch_size, "capacity": capacity, "start": start}
    return np.mean([evidence.exact_psi(w, rule, at, **how) for w in worlds], axis=0)


def figure7(
    axes: Sequence[Axes], frame: pd.DataFrame, printed: Mapping[int, float]
) -> pd.DataFrame:
    """Draw Fig. 7: DRSR and SRSR over rounds, a panel a cache size, with the printed accuracies.

    Parameters
    ----------
    axes : two Axes
        For the small and the large cache.
    frame : DataFrame
        Rows of a sweep over rules, seeds and capacities.
    printed : mapping
        B -> the paper's accuracy at round 200, a share; which rule's it does not say.

    Returns
    -------
    DataFrame
        Mean, std and count of the accuracy in per cent, by rule, capacity and round.
    """
    shown = frame.dropna(subset="accuracy")
    shown = shown.assign(accuracy=100 * shown["accuracy"])
    band = 0.95 if shown["seed"].nunique() >= 4 else None
    for ax, letter, (size, part) in zip(axes, "ab", shown.groupby("capacity"), strict=True):
        look = {"rules": RULES, "interval": band}
        figures.curves(ax, part, "round", "accuracy", "rule", **look)
        ax.set(xlabel="round t", ylabel="test accuracy, %", ylim=(0, 100))
        ax.set_title(f"Figure 7({letter}): B = {size}, $B_s$ = {part['batch_size'].iloc[0]}")
        if size in printed:
            value = {"paper": 100 * printed[size]}
            sheets.printed_marks(ax, 200, value, {"paper": "black"})
            ax.annotate(
                f"{value['paper']:.0f}", (200, value["paper"]), (7, 5), textcoords="offset points"
            )
        sheets.explain_marks(ax, marks=True, loc="lower right")
    groups = shown.groupby(["rule", "capacity", "round"])["accuracy"]
    return groups.agg(["mean", "std", "count"]).reset_index()


def figure10(ax: Axes, frame: pd.DataFrame) -> pd.DataFrame:
    """Draw Fig. 10: the accuracy of every rule over rounds, and the authors' curves dashed.

    Parameters
    ----------
    ax : Axes
    frame : DataFrame
        Rows of a sweep over rules and seeds. Only the rules in it are drawn, of both.

    Returns
    -------
    DataFrame
        Ours: mean, std and count of the accuracy in per cent, by rule and round.
    """
    shown = frame.dropna(subset="accuracy")[["rule", "seed", "round", "accuracy"]]
    shown = shown.assign(accuracy=100 * shown["accuracy"])
    last = int(shown["round"].max())
    look = {"rules": RULES, "labels": _LABELS, "interval": None}
    figures.curves(ax, shown, "round", "accuracy", "rule", **look)
    for line in ax.lines:  # a rule's own dashes would be taken for the paper's
        line.set_linestyle("-")
    ran = {PRINTED_AS[rule]: rule for rule in PRINTED_AS if rule in set(shown["rule"])}
    colors = {name: pictures.line(rule)["color"] for name, rule in ran.items()}
    sheets.authors_curves(ax, "sfl-fig10", "a", colors, scale=100, within=(0, last))
    ax.set(xlabel="round t", ylabel="test accuracy, %", xlim=(0, last), ylim=(5, 50))
    sheets.explain_marks(ax, curves=True, ncols=2, fontsize=9, loc="lower right")
    return shown.groupby(["rule", "round"])["accuracy"].agg(["mean", "std", "count"]).reset_index()


def gains_over_lazy(ax: Axes, score: pd.DataFrame, printed: Mapping[str, float]) -> None:
    """Draw each rule's accuracy minus LAZY's, and the difference that the paper's curves have.

    Parameters
    ----------
    ax : Axes
    score : DataFrame
        One row a seed, one column a rule; shares.
    printed : mapping
        "FULL", "DRSR" and so on -> the paper's accuracy, a share. Static FULL has none.
    """
    rules = [rule for rule in RULES if rule in score and rule != "lazy"]
    pictures.gains(ax, score.sub(score["lazy"], axis=0)[rules], labels=_LABELS)
    known = {
        rule: 100 * (printed[PRINTED_AS[rule]] - printed["LAZY"])
        for rule in rules
        if rule in PRINTED_AS
    }
    colors = {rule: pictures.line(rule)["color"] for rule in known}
    sheets.printed_marks(ax, known, {rule: rules.index(rule) for rule in known}, colors)
    sheets.explain_marks(ax, marks=True, loc="best", fontsize=9)
    ax.set(xlabel="minus LAZY, points")
