"""Notebook 15, Fig. 10: the superclasses of CIFAR-100.

Source: SFL, supplement. Accuracies are shares.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, NamedTuple

import pandas as pd

from companion.notebooks.sfl_shared import Evidence, difference, window
from companion.plans import Stage
from sflkit.data import catalogue
from sflkit.sfl import training
from sflkit.sfl.caches import RULES
from sflkit.sfl.config import SFLConfig

# Where the paper's curves are read: rounds 20 to 200 and 540 to 600 of 600, in shares of them.
EARLY, LAST = (0.0, 1 / 3), (0.9, 1.0)


class Superclasses(NamedTuple):
    """Runs of Fig. 10, of the model that is judged and of another one that is drawn beside it."""

    judged: pd.DataFrame
    beside: pd.DataFrame


def superclasses(**given: Any) -> Generator[Stage, pd.DataFrame, Superclasses]:
    """Plan notebook 15: all rules with the model that is judged, some with the one beside it.

    Raises ValueError if the two do not see images of the same data set, or features of them, or no
    round is evaluated where the paper's early accuracies are read.
    """
    p = SimpleNamespace(**given)
    if p.evaluate_every > EARLY[1] * p.rounds:
        raise ValueError(
            f"evaluate_every={p.evaluate_every} must be at most a third of rounds={p.rounds}"
        )
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
        (base, p.seeds, p.rules, "judged"),
        (other, p.beside_seeds, p.beside_rules, "beside"),
    ):
        configs = [replace(config, rule=r, seed=s) for s in chosen for r in rules]
        frame = yield Stage(training.full_start, configs, name, gpu=True)
        frames.append(frame)
    return Superclasses(*frames)


def superclass_evidence(judged: pd.DataFrame) -> Evidence:
    """Return the evidence of Fig. 10, by the means over the two windows."""
    early, late = (
        window(judged, span)
        .drop(columns="full", errors="ignore")
        .rename(columns={"full_refreshed": "full"})
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
