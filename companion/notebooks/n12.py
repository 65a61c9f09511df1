"""Notebook 12, Fig. 4: the runs, what its claims take of them, and its pictures.

Source: SFL, Section VI. Accuracies are shares in the frames and per cent, or points of them, in
the pictures.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, NamedTuple

import pandas as pd

from companion import figures
from companion.notebooks import label_only, sfl_shared
from companion.notebooks.label_only import LabelOnlyConfig
from companion.notebooks.sfl_shared import (
    ALL_RULES,
    LATE,
    THROUGHOUT,
    WITH_STATIC_FULL,
    Evidence,
    difference,
    steps,
    window,
)
from companion.plans import Stage
from sflkit.sfl import training
from sflkit.sfl.caches import RULES
from sflkit.sfl.config import SFLConfig

if TYPE_CHECKING:
    from matplotlib.axes import Axes


# With caches that fill by appending only what that reading changes is run.
APPENDED = ("drsr", "fifo", "lazy")
LABELLED = ("full", "drsr", "srsr", "fifo", "lazy")


class Comparison(NamedTuple):
    """Runs of Fig. 4: one frame a panel, "a" and "b", with caches that are full at the start; panel
    (a) with caches that fill by appending; and those of labels alone.
    """

    full: dict[str, pd.DataFrame]
    append: pd.DataFrame
    labels: pd.DataFrame


def comparison(**given: Any) -> Generator[Stage, pd.DataFrame, Comparison]:
    """Plan notebook 12: the rules on two data sets, and with labels as the only difference.

    A label seed is a world and a path of its own.
    """
    p = SimpleNamespace(**given)
    labelled = LabelOnlyConfig(
        start="full", capacity=300, batch_size=150, theta=p.theta, rounds=p.label_rounds
    )
    labels = yield Stage(
        label_only.run,
        [replace(labelled, rule=r, seed=s, world=s) for s in p.label_seeds for r in LABELLED],
        "labels alone",
    )
    same = ("capacity", "batch_size", "theta", "classes_per_client", "evaluate_every")
    base = SFLConfig(**{name: given[name] for name in same})
    a = replace(base, data=p.data_a, model=p.model, local_rate=p.rate_a, rounds=p.rounds)
    b = replace(base, data=p.data_b, model=p.model_b, local_rate=p.rate_b, rounds=p.rounds_b)
    full = {}
    for panel, config, own in (("a", a, p.seeds), ("b", b, p.seeds_b)):
        full[panel] = yield Stage(
            training.full_start,
            [replace(config, rule=r, seed=s) for s in own for r in ALL_RULES],
            f"panel {panel}",
            gpu=True,
        )
    append = yield Stage(
        training.run,
        [replace(a, rule=r, seed=s) for s in p.seeds for r in APPENDED],
        "panel a, appending",
        gpu=True,
    )
    return Comparison(full, append, labels)


def comparison_evidence(found: Comparison) -> dict[str, Evidence]:
    """Return the evidence of notebook 12, artefact -> part -> what the rule takes."""
    late = {panel: window(frame, LATE) for panel, frame in found.full.items()}
    evidence = {f"sfl-fig4{panel}": _order(found, panel, late[panel]) for panel in late}
    gain = {
        panel: (score[["drsr", "srsr", "fifo"]].mean(axis=1) - score["lazy"]).to_numpy()
        for panel, score in late.items()
    }
    evidence["sfl-fig4b"]["gain"] = (gain["a"], gain["b"])
    whole = {panel: window(frame, THROUGHOUT) for panel, frame in found.full.items()}
    labels = window(found.labels, THROUGHOUT)
    evidence["sfl-throughout"] = {
        f"{rule} {panel}": difference(score, rule, "fifo")
        for panel, score in whole.items()
        for rule in ("drsr", "srsr")
    }
    evidence["sfl-throughout"] |= {
        f"labels {rule}": difference(labels, rule, "fifo") for rule in ("drsr", "srsr")
    }
    moves = steps(found.labels)
    evidence["sfl-throughout"]["labels steadier"] = difference(moves, "fifo", "drsr")
    early = {panel: window(frame, (0.0, 0.5)) for panel, frame in found.full.items()}
    evidence["sfl-speed"] = {
        f"{rule} {panel}": difference(score, rule, "lazy")
        for panel, score in early.items()
        for rule in ("drsr", "srsr", "fifo")
    }
    evidence["sfl-nearfull"] = {
        rule: difference(late["a"], rule, "full_refreshed") for rule in ("drsr", "srsr", "fifo")
    }
    return evidence


def gains_over_lazy(evidence: Mapping[str, Evidence]) -> str:
    """Say how large the gains behind `sfl-speed` are, beside the smallest that counts."""
    gains = [100 * gain.mean() for gain in evidence["sfl-speed"].values()]
    return (
        f"The gains over LAZY lie between {min(gains):.2g} and {max(gains):.2g} points, and less "
        "than half a point counts as none."
    )


def _order(found: Comparison, panel: str, late: pd.DataFrame) -> Evidence:
    """Return the evidence of one panel of Fig. 4."""
    loss = window(found.full[panel], LATE, "loss")
    order = {
        "drsr fifo": difference(late, "drsr", "fifo"),
        "srsr fifo": difference(late, "srsr", "fifo"),
        "fifo lazy": difference(late, "fifo", "lazy"),
        "drsr srsr": difference(late, "drsr", "srsr"),
        "full drsr": difference(late, "full_refreshed", "drsr"),
        "static drsr": difference(late, "full", "drsr"),
        "loss drsr lazy": difference(loss, "lazy", "drsr"),
    }
    if panel == "a":
        append = window(found.append, LATE)
        order["append drsr fifo"] = difference(append, "drsr", "fifo")
        order["append fifo lazy"] = difference(append, "fifo", "lazy")
    return order


def figure4(axes: Sequence[Axes], frame: pd.DataFrame, rules: Sequence[str]) -> pd.DataFrame:
    """Draw Fig. 4: left the accuracy of every rule over rounds, right late differences from FIFO.

    The last quarter of the left picture, where the curves lie on one another, is enlarged in it.

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
    how = {"rules": RULES, "interval": None, "labels": WITH_STATIC_FULL}
    figures.curves(axes[0], shown, "round", "accuracy", "rule", **how)
    axes[0].set(xlabel="round t", ylabel="test accuracy, %")
    lines = dict(zip(*reversed(axes[0].get_legend_handles_labels()), strict=True))
    names = [WITH_STATIC_FULL[rule] for rule in rules]
    axes[0].legend([lines[name] for name in names], names, ncols=2, fontsize=9, loc="lower right")
    end = shown["round"].max()
    part = axes[0].inset_axes([0.4, 0.33, 0.58, 0.4])
    figures.curves(part, shown[shown["round"] >= LATE[0] * end], "round", "accuracy", "rule", **how)
    part.legend().remove()
    part.set(xlabel="", ylabel="", xlim=(LATE[0] * end, end))
    part.tick_params(labelsize=8)
    part.set_title("the last quarter, enlarged", fontsize=8)
    late = window(frame, LATE)
    others = [rule for rule in rules if rule != "fifo"]
    sfl_shared.gains(axes[1], late.sub(late["fifo"], axis=0)[others], labels=WITH_STATIC_FULL)
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
        look = sfl_shared.line(rule) | {"linewidth": 1.4, "label": sfl_shared.label(rule)}
        axes[0].plot(rows["round"], 100 * rows["accuracy"], **look)
    inside = 100 * one[one["round"] > last / 4]["accuracy"]
    axes[0].set(
        xlabel="round t",
        ylabel="test accuracy, %",
        xlim=(last / 4, last),
        ylim=(inside.min() - 0.2, inside.max() + 0.2),
    )
    axes[0].legend(ncols=4, fontsize=9)
    whole = window(frame, THROUGHOUT)
    chosen = ["full", "drsr", "srsr", "lazy"]
    sfl_shared.gains(axes[1], whole.sub(whole["fifo"], axis=0)[chosen])
    axes[1].set(xlabel="minus FIFO, points, all rounds", title="mean accuracy, one dot a world")
    steps = 100 * sfl_shared.steps(frame)
    return {"one": one[["rule", "round", "accuracy"]], "throughout": whole, "steps": steps}
