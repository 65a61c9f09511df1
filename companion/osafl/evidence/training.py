"""From runs to the evidence of OSAFL's claims: artefact -> part -> what the part's rule takes.

The claims are in `companion.claims`, the runs in `companion.osafl.plans.training`, the
numbers taken from a run in `companion.osafl.measures`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pandas as pd

from companion.claims import OSAFL
from companion.judging.claims import NotRun
from companion.osafl.measures import (
    area,
    as_printed,
    at_k,
    at_round,
    best,
    best_loss,
    between,
    by_arm,
    late_log_loss,
    loss_plateau,
    plateau,
)
from companion.osafl.plans.training import Dataset1, Dataset2
from companion.osafl.printed import BASELINES, CHECKPOINT_ROUND

Evidence = dict[str, Any]
PAPER_ROUNDS = 100  # the claims about plateaus and whole tables are about so many
ROUND = 40  # at which Section V-B.2 reads Fig. 6
LSTM_LAYERS = 3
# CPU minutes of a run until the checkpoint, and over all rounds.
MINUTES = {"CNN": (0.7, 14), "SqueezeNet1": (7, 23)}

_NO_FEW = "few = 0 leaves out the printed buffer"


def dataset1(found: Dataset1, known: pd.Series) -> dict[str, Evidence]:
    """Return the evidence of notebook 33's trained claims.

    Parameters
    ----------
    found : Dataset1
    known : Series
        Accuracy of one who knows every user's law, K = 1, by seed of the buffers.
    """
    read = {K: at_k(found.read.runs, K) for K in (1, 2)}
    evidence = {
        "osafl-tab2": _table(read[1], 1),
        "osafl-tab3": _table(read[2], 2),
        "osafl-fig4": _curves(read, area),
        "osafl-score": _scores(found),
        "osafl-fig5": _curves(read, late_log_loss, falls=True),
        "osafl-saturation": _saturation(read),
        "osafl-genie": _genie(found),
        "osafl-alg2": _printed_buffer(found.buffers, known),
        "osafl-alg9": _mafacd(found.buffers),
    }
    for network, runs in found.checkpoints.items():
        evidence[f"osafl-{network.lower()}"] = _checkpoint(network, runs) | _column(
            network, found.columns[network]
        )
    return evidence


def dataset2(found: Dataset2, layers: int) -> dict[str, Evidence]:
    """Return the evidence of notebook 34's trained claims.

    Parameters
    ----------
    found : Dataset2
    layers : int
        Of the LSTM; fewer than three do not judge Tables IV and V and Figure 6.
    """
    evidence: dict[str, Evidence] = {"osafl-fig6": {}, "osafl-datasets": {}}
    deep = layers >= LSTM_LAYERS
    reason = f"an LSTM of {layers} layer has no plateau to leave; the paper's has {LSTM_LAYERS}"
    for K in (1, 2):
        runs = at_k(found.tables, K)
        why = reason if not deep else _missing(K, runs)
        evidence["osafl-fig6"] |= _round_40(runs, K, why)
        evidence[f"osafl-tab{3 + K}"] = _lstm_table(runs, why)
        gap = _gap(at_k(found.features, K), at_k(found.names, K), K, deep)
        evidence["osafl-datasets"] |= gap
    return evidence


# --- Dataset-1 ------------------------------------------------------------------------------------


def _table(runs: pd.DataFrame, K: int) -> Evidence:
    keys = [*(f"best_{rule}" for rule in BASELINES), "fails"]
    if why := _missing(K, runs):
        return dict.fromkeys(keys, NotRun(why))
    found = by_arm(runs, best)
    pairs = [(found["osafl"], found[rule]) for rule in BASELINES]
    return dict(zip(keys, [*pairs, (found["osafl"] / 2, found["m_afa_cd"])], strict=True))


def _curves(tables: Mapping[int, pd.DataFrame], measure: Callable, falls: bool = False) -> Evidence:
    evidence: Evidence = {}
    for K, runs in tables.items():
        why = _missing(K, runs)
        ends = None if why else by_arm(runs, measure)
        for rule in BASELINES:
            pair = NotRun(why) if why else (ends["osafl"], ends[rule])
            evidence[f"K{K}_{rule}"] = pair[::-1] if falls and not why else pair
    return evidence


def _scores(found: Dataset1) -> Evidence:
    """The evidence on what the score adds, under the reading that is judged."""
    runs = at_k(found.read.runs, 1)
    if why := _missing(1, runs):
        return {"printed": NotRun(why)}
    return {"printed": (by_arm(runs, area)["osafl"], by_arm(found.read.no_score, area)["printed"])}


def _saturation(tables: Mapping[int, pd.DataFrame]) -> Evidence:
    evidence: Evidence = {}
    for K in (1, 2):
        keys = [f"{what}_K{K}" for what in ("osafl", "loss", "fednova_plateau", "fednova")]
        if why := _missing(K, tables[K]) or _short(tables[K]):
            evidence |= dict.fromkeys(keys, NotRun(why))
        else:
            reached = by_arm(tables[K], plateau)
            loss = by_arm(tables[K], loss_plateau)["osafl"]
            level = by_arm(tables[K], between(0.75, 1))["osafl"]
            nova = (by_arm(tables[K], best)["m_fednova"], level)
            found = (reached["osafl"], loss, reached["m_fednova"], nova)
            evidence |= dict(zip(keys, found, strict=True))
    return evidence | _convergence(tables[1])


def _convergence(runs: pd.DataFrame) -> Evidence:
    rising = ("m_fedavg", "m_fedprox", "m_feddisco")
    if why := _missing(1, runs) or _short(runs):
        return dict.fromkeys([*(f"rising_{rule}" for rule in rising), "afa_flat"], NotRun(why))
    before, after = by_arm(runs, between(0.75, 0.875)), by_arm(runs, between(0.875, 1))
    late, early = by_arm(runs, between(0.75, 1)), by_arm(runs, between(0.04, 0.25))
    return {
        **{f"rising_{rule}": (after[rule], before[rule]) for rule in rising},
        "afa_flat": (late["m_afa_cd"], early["m_afa_cd"]),
    }


def _genie(found: Dataset1) -> Evidence:
    """The race with centralised SGD at every number of steps a round, which decides it."""
    evidence: Evidence = {}
    for K in (1, 2):
        runs, genie = at_k(found.read.runs, K), at_k(found.genie, K)
        keys = (f"K{K}_osafl", f"K{K}_baseline")
        if why := _missing(K, runs) or _missing(K, genie):
            evidence |= dict.fromkeys(keys, NotRun(why))
            continue
        steps = by_arm(genie.assign(arm=genie["steps"]), area)
        ours = by_arm(runs, area)
        strongest = ours[list(BASELINES)].mean().idxmax()
        for key, rule in zip(keys, ("osafl", strongest), strict=True):
            evidence[key] = {f"{n} steps": (steps[n], ours[rule]) for n in steps}
    return evidence


def _printed_buffer(buffers: pd.DataFrame, known: pd.Series) -> Evidence:
    ends = by_arm(buffers, best)
    evidence: Evidence = {"without": (ends["osafl"], known.loc[ends.index] / 2)}
    if "osafl_printed" not in ends:
        return evidence | {"printed_buffer": NotRun(_NO_FEW)}
    printed = ends["osafl_printed"].dropna()
    return evidence | {"printed_buffer": (printed, ends["osafl"].loc[printed.index])}


def _mafacd(runs: pd.DataFrame) -> Evidence:
    found = by_arm(runs, best)
    return {
        "fails": (found["osafl"] / 2, found["m_afa_cd_printed"]),
        "loss": by_arm(runs, best_loss)["m_afa_cd_printed"],
        "accuracy": found["m_afa_cd_printed"],
        "repaired": (found["m_afa_cd"], found["osafl"] / 2),
    }


def _checkpoint(network: str, runs: pd.DataFrame) -> Evidence:
    """The evidence of the round that Section V-B names."""
    at = CHECKPOINT_ROUND[network]
    if not len(runs) or runs["round"].max() < at:
        keys = [*(f"ahead_{rule}" for rule in BASELINES), "value"]
        return dict.fromkeys(keys, NotRun(_price(network, at, "", 18 * MINUTES[network][0])))
    found = by_arm(runs, at_round(at))
    evidence: Evidence = {f"ahead_{rule}": (found["osafl"], found[rule]) for rule in BASELINES}
    return evidence | {"value": found["osafl"]}


def _column(network: str, runs: pd.DataFrame) -> Evidence:
    """The evidence of a network's column of the tables, under the reading."""
    parts = OSAFL[f"osafl-{network.lower()}"].parts
    level = [part.key for part in parts if part.key.startswith("level_")]
    evidence: Evidence = {}
    for K in (1, 2):
        keys = [f"K{K}_{rule}" for rule in BASELINES]
        keys += ["plateau", "fednova_plateau", *level] if K == 1 else []
        part = at_k(runs, K)
        if not len(part) or part["round"].max() < PAPER_ROUNDS:
            why = _price(network, PAPER_ROUNDS, f" with K = {K}", 18 * MINUTES[network][1])
            evidence |= dict.fromkeys(keys, NotRun(why))
            continue
        found = by_arm(part, best)
        pairs = [(found["osafl"], found[rule]) for rule in BASELINES]
        if K == 1:
            reached = by_arm(part, plateau)
            end = by_arm(part, between(0.75, 1))["osafl"]
            pairs += [reached["osafl"], reached["m_fednova"]]
            pairs += [(found[key.removeprefix("level_")], end) for key in level]
        evidence |= dict(zip(keys, pairs, strict=True))
    return evidence


# --- Dataset-2 ------------------------------------------------------------------------------------


def _round_40(runs: pd.DataFrame, K: int, why: str) -> Evidence:
    rising = [rule for rule in BASELINES if rule != "m_afa_cd"]
    keys = [f"K{K}_ahead_{rule}" for rule in BASELINES]
    keys += [f"K{K}_rises_{rule}" for rule in rising] + [f"K{K}_flat_m_afa_cd"]
    if why:
        return dict.fromkeys(keys, NotRun(why))
    there, early, late = (
        as_printed(by_arm(runs, what))
        for what in (at_round(ROUND), between(0, 0.25), between(0.75, 1))
    )
    ahead = [(there["osafl"], there[rule]) for rule in BASELINES]
    moved = [(late[rule], early[rule]) for rule in (*rising, "m_afa_cd")]
    return dict(zip(keys, [*ahead, *moved], strict=True))


def _lstm_table(runs: pd.DataFrame, why: str) -> Evidence:
    keys = [*(f"best_{rule}" for rule in BASELINES), "factor", "losses", "fails"]
    if why:
        return dict.fromkeys(keys, NotRun(why))
    found, losses = (as_printed(by_arm(runs, what)) for what in (best, best_loss))
    second = found[list(BASELINES)].mean().idxmax()
    evidence = {f"best_{rule}": (found["osafl"], found[rule]) for rule in BASELINES}
    evidence["factor"] = np.log(found["osafl"] / found[second])
    evidence["losses"] = np.log(losses[second] / losses["osafl"])
    return evidence | {"fails": (found["osafl"] / 2, found["m_afa_cd"])}


def _gap(features: pd.DataFrame, names: pd.DataFrame, K: int, deep: bool) -> Evidence:
    why = _missing(K, names) or ("" if deep else "short training of small networks compares steps")
    if why:
        return {f"K{K}_gap": NotRun(why)}
    return {f"K{K}_gap": (by_arm(features, best)["genie"], by_arm(names, best)["genie"])}


# --- helpers --------------------------------------------------------------------------------------


def _price(network: str, rounds: int, how: str, minutes: float) -> str:
    """Say that a network was not trained, and what six rules on three seeds cost."""
    costs = f"{minutes / 60:.1f} CPU hours" if minutes > 90 else f"{minutes:.0f} CPU minutes"
    return f"{network} was not trained for {rounds} rounds{how} under the reading judged ({costs})"


def _missing(K: int, runs: pd.DataFrame) -> str:
    return "" if len(runs) else _no_runs(K)


def _no_runs(K: int) -> str:
    return f"nothing was run with K = {K} under the reading that is judged"


def _short(runs: pd.DataFrame) -> str:
    rounds = int(runs["round"].max())
    return "" if rounds >= PAPER_ROUNDS else f"{rounds} rounds are fewer than {PAPER_ROUNDS}"
