"""Notebook 15, Fig. 10: the superclasses of CIFAR-100.

Source: SFL, supplement. Accuracies are shares in the frames and per cent, or points of them, in
the pictures.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from dataclasses import replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, NamedTuple

import pandas as pd

from companion import figures, sheets
from companion.notebooks import sfl_shared
from companion.notebooks.sfl_shared import ALL_RULES, WITH_STATIC_FULL, Evidence, difference, window
from companion.plans import Stage
from sflkit.data import catalogue
from sflkit.sfl import training
from sflkit.sfl.caches import RULES
from sflkit.sfl.config import SFLConfig

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class Superclasses(NamedTuple):
    """Runs of Fig. 10, of the model that is judged and of another one that is drawn beside it."""

    judged: pd.DataFrame
    beside: pd.DataFrame


def superclasses(**given: Any) -> Generator[Stage, pd.DataFrame, Superclasses]:
    """Plan notebook 15: all rules with the model that is judged, some with the one beside it.

    Raises ValueError if the two do not see images of the same data set, or features of them.
    """
    p = SimpleNamespace(**given)
    if catalogue.stored_as(p.data) != catalogue.stored_as(p.beside_data):
        raise ValueError(
            f"data={p.data!r} and beside_data={p.beside_data!r} must be of the same data set"
        )
    same = "data model width rounds capacity batch_size theta classes_per_client evaluate_every"
    base = SFLConfig(
        superclasses=True, local_rate=p.rate, **{name: given[name] for name in same.split()}
    )
    other = replace(base, data=p.beside_data, model=p.beside_model, local_rate=p.beside_rate)
    frames = []
    for config, chosen, rules, name in (
        (base, p.seeds, ALL_RULES, "judged"),
        (other, p.beside_seeds, p.beside_rules, "beside"),
    ):
        configs = [replace(config, rule=r, seed=s) for s in chosen for r in rules]
        frame = yield Stage(training.full_start, configs, name, gpu=True)
        frames.append(frame)
    return Superclasses(*frames)


# --- notebook 15 ----------------------------------------------------------------------------------


# Where the paper's curves are read: rounds 20 to 200 and 540 to 600 of 600, in shares of them.
EARLY, LAST = (0.0, 1 / 3), (0.9, 1.0)


def superclass_evidence(judged: pd.DataFrame) -> Evidence:
    """Return the evidence of Fig. 10, by the means over the two windows."""
    early, late = (
        window(judged, span).drop(columns="full").rename(columns={"full_refreshed": "full"})
        for span in (EARLY, LAST)
    )
    pairs = [(rule, "lazy") for rule in ("full", "drsr", "srsr", "fifo")]
    pairs += [
        ("full", "fifo"),
        ("full", "drsr"),
        ("drsr", "srsr"),
        ("drsr", "fifo"),
        ("srsr", "fifo"),
    ]
    found = {f"{a} {b}": difference(late, a, b) for a, b in pairs}
    leads = {f"early {a} fifo": difference(early, a, "fifo") for a in ("full", "drsr", "srsr")}
    return found | leads


# Whose curve of the paper is whose: its FULL renews its samples (ERRATA 85).
PRINTED_AS = {"full_refreshed": "FULL"} | {
    r: RULES[r].label for r in ("drsr", "srsr", "fifo", "lazy")
}


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
    look = {"rules": RULES, "labels": WITH_STATIC_FULL, "interval": None}
    figures.curves(ax, shown, "round", "accuracy", "rule", **look)
    for line in ax.lines:  # a rule's own dashes would be taken for the paper's
        line.set_linestyle("-")
    ran = {PRINTED_AS[rule]: rule for rule in PRINTED_AS if rule in set(shown["rule"])}
    colors = {name: sfl_shared.line(rule)["color"] for name, rule in ran.items()}
    sheets.authors_curves(ax, "sfl-fig10", "a", colors, scale=100, within=(0, last))
    ax.set(xlabel="round t", ylabel="test accuracy, %", xlim=(0, last), ylim=(5, 50))
    small = dict(fontsize=8, handlelength=1.4, columnspacing=0.8)
    sheets.explain_marks(ax, curves=True, ncols=2, loc="lower right", **small)
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
    sfl_shared.gains(ax, score.sub(score["lazy"], axis=0)[rules], labels=WITH_STATIC_FULL)
    known = {
        rule: 100 * (printed[PRINTED_AS[rule]] - printed["LAZY"])
        for rule in rules
        if rule in PRINTED_AS
    }
    colors = {rule: sfl_shared.line(rule)["color"] for rule in known}
    sheets.printed_marks(ax, known, {rule: rules.index(rule) for rule in known}, colors)
    where = dict(loc="upper right", bbox_to_anchor=(1, 0.88))  # between two rows
    sheets.explain_marks(ax, marks=True, fontsize=9, **where)
    ax.set(xlabel="minus LAZY, points")
