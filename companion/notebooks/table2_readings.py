"""The readings of OSAFL's comparison that its text allows, and how many numbers of Table II each
one meets.

Source: OSAFL, Algorithms 2 and 6 to 10, Section V-A, Tables II and III; ERRATA 37, 38, 41 to 43,
67. The paper's text leaves open, or contradicts itself on, four things at once. A `Reading` is one
choice of each, and every choice is the same for all six rules:

- `norm`: the scale of Dataset-1's features, which the paper does not state.
- `buffer`: what stands for a client that never joined, see `BUFFERS`.
- `fednova`: which contributions M-FedNova uses, and by which step, see `FEDNOVA`.
- `local_round`: one step on all samples or one for each mini-batch.

A rule does not see all four, so that readings share runs: `configs` lists each once. One seed
chooses the reading that meets most of the printed numbers, and other seeds judge what it says of
the rules (`n33.dataset1`).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pandas as pd

from companion.judging.tables import paper_value
from companion.notebooks.osafl_shared import LABELS, MEASURES, by_arm, printed_table
from sflkit import checks
from sflkit.osafl.config import OSAFLConfig

# Buffer -> what stands in OSAFL's and in the baselines' buffers for a client that never joined.
BUFFERS = {
    "printed": ("literal", "literal"),
    "OSAFL without w/eta": ("zero", "literal"),
    "no rule with w/eta": ("zero", "zero"),
    "joined clients only": ("exclude", "exclude"),
}
# M-FedNova -> its rule, and whether the step has the local rate as a factor.
FEDNOVA = {
    "this round's": ("m_fednova", True),
    "this round's, without its rate": ("m_fednova", False),
    "latest": ("m_fednova_latest", True),
    "latest, without its rate": ("m_fednova_latest", False),
}
RULES_OF_TABLE = tuple(LABELS)
# What a number may differ by, beside twice the printed spread.
TOLERANCE = {"accuracy": 0.03, "loss": 0.15}
# The rounds after which Section V-B.1 names accuracies at K = 1.
CHECKPOINT_ROUND = {"CNN": 5, "SqueezeNet1": 30}


class Reading(NamedTuple):
    """One choice of what the paper leaves open; see the top of this module."""

    norm: float
    buffer: str = "OSAFL without w/eta"
    fednova: str = "latest, without its rate"
    local_round: str = "gradient"

    def __str__(self) -> str:
        more = "" if self.local_round == "gradient" else ", 32 steps"
        return f"scale {self.norm:g}, {self.buffer}, M-FedNova {self.fednova}{more}"


def star(
    norms: Sequence[float],
    buffers: Sequence[str] = tuple(BUFFERS),
    fednova: Sequence[str] = tuple(FEDNOVA),
) -> list[Reading]:
    """Return what is tried: these buffers and forms of M-FedNova at the first scale.

    At the other scales there is one reading, that of `Reading`'s defaults, with which the list
    begins. A local round is one step on all samples.
    """
    first = itertools.starmap(Reading, itertools.product(norms[:1], buffers, fednova))
    return list(dict.fromkeys([*map(Reading, norms[:1]), *first, *map(Reading, norms[1:])]))


def config(reading: Reading, rule: str, base: Mapping, *, seed: int, K: int = 1) -> OSAFLConfig:
    """Return the run of one rule of Table II under a reading.

    Parameters
    ----------
    reading : Reading
    rule : str
        One of the six of the table; "m_fednova" stands for whichever form the reading names.
    base : mapping
        The settings that all runs share, such as `osafl_shared.fcn_base` returns.
    seed, K : int

    Raises
    ------
    ValueError
        If the rule or a choice of the reading is unknown.
    """
    checks.choice("rule", rule, RULES_OF_TABLE)
    osafl, others = BUFFERS[checks.choice("buffer", reading.buffer, BUFFERS)]
    form, has_rate = FEDNOVA[checks.choice("fednova", reading.fednova, FEDNOVA)]
    never = osafl if rule == "osafl" else others
    if rule in ("m_fedavg", "m_fedprox") and never == "zero":
        never = "literal"  # the same for them, so that readings share a run
    if rule == "m_fednova":
        rule = form
        # A client that never joined has kappa_u = 0 and no part; this round's form has no buffer.
        never = "exclude" if never == "exclude" or form == "m_fednova" else "zero"
    shared = dict(base) | {"input_norm": reading.norm, "local_round": reading.local_round}
    found = OSAFLConfig(rule, never, seed=seed, top_k=K, **shared)
    if rule.startswith("m_fednova") and not has_rate:
        hyper = found.hyper
        found = replace(found, slowdown=round(hyper["slowdown"] / hyper["rate"], 6))
    return found


def configs(
    readings: Iterable[Reading],
    base: Mapping,
    seeds: Sequence[int],
    top_k: Sequence[int] = (1,),
    rules: Sequence[str] = RULES_OF_TABLE,
) -> list[OSAFLConfig]:
    """Return the runs of some readings, each once: one K, seed and reading after the other."""
    cases = itertools.product(top_k, seeds, readings, rules)
    return list(dict.fromkeys(config(one, r, base, seed=s, K=K) for K, s, one, r in cases))


def printed(K: int = 1) -> pd.DataFrame:
    """Return the twelve numbers of the FCN's column of Table II (K = 1) or III (K = 2).

    Returns
    -------
    DataFrame, one row per rule and what, "accuracy" or "loss"
        value, spread, and tolerance: twice the spread plus `TOLERANCE`.
    """
    table, cells = printed_table("FCN", [K]), {}
    for rule, what in itertools.product(RULES_OF_TABLE, TOLERANCE):
        value, spread = table[LABELS[rule]][f"{what}, K = {K}"]
        cells[rule, what] = value, spread, 2 * spread + TOLERANCE[what]
    index = pd.MultiIndex.from_tuples(cells, names=["rule", "what"])
    return pd.DataFrame([*cells.values()], index, ["value", "spread", "tolerance"])


def checkpoint_value(network: str, rule: str) -> float:
    """Return the accuracy that Section V-B.1 names for a rule at a network's checkpoint."""
    where = f"accuracy at round {CHECKPOINT_ROUND[network]} {network}"
    return paper_value("osafl", "osafl-fig4", f"{where} {LABELS[rule]}")


def grid_table(
    frame: pd.DataFrame, readings: Sequence[Reading], base: Mapping, *, seed: int
) -> pd.DataFrame:
    """Return how many of the twelve numbers of Table II each reading meets.

    Parameters
    ----------
    frame : DataFrame
        The runs of `configs(readings, base, [seed])`, in their order.
    readings, base, seed
        As for `configs`.

    Returns
    -------
    DataFrame, one row per reading
        The choices of the reading; "<rule> accuracy" and "<rule> loss", best accuracy and the loss
        of that round (0 and infinity for a run that diverged at once); `met`, the score, 0 to 12;
        `accuracies` and `losses`, its two parts; `distance`, the mean absolute difference from
        print of the accuracies. The best reading comes first.
    """
    asked, rows = printed(), []
    ends = frame.drop_duplicates("key", keep="last").fillna(
        {"best_accuracy": 0, "best_loss": np.inf}
    )
    of = dict(zip(configs(readings, base, [seed]), ends.to_dict("records"), strict=True))
    for reading in readings:
        own = {rule: of[config(reading, rule, base, seed=seed)] for rule in RULES_OF_TABLE}
        ours = pd.Series({(rule, what): own[rule][f"best_{what}"] for rule, what in asked.index})
        apart = (ours - asked["value"]).abs()
        met = (apart <= asked["tolerance"]).groupby(level=1).sum()
        row = reading._asdict() | {f"{rule} {what}": value for (rule, what), value in ours.items()}
        row |= {"met": met.sum(), "accuracies": met["accuracy"], "losses": met["loss"]}
        rows.append(row | {"distance": apart.xs("accuracy", level=1).mean()})
    order = {"by": ["met", "distance"], "ascending": [False, True]}
    return pd.DataFrame(rows).sort_values(**order, ignore_index=True)


def met(runs: pd.DataFrame, K: int) -> int:
    """Return how many of Table II's or III's twelve numbers the means over some seeds meet.

    Parameters
    ----------
    runs : DataFrame
        The six rules, with the columns `arm`, `K` and `seed`; the rows of K are taken.
    K : int
        1 or 2.
    """
    ours = {what: by_arm(runs, measure).loc[K].mean() for what, measure in MEASURES.items()}
    asked = printed(K).unstack("what")
    apart = (asked["value"] - pd.DataFrame(ours)).abs()
    return int(apart.le(asked["tolerance"]).to_numpy().sum())
