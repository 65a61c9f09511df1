"""What notebook 21 shows beside its verdicts: the tables beside the paper's, predictions, limits.

Source: FDS (Federated Learning for Data Streams), Sections 5 and 6, Appendices C.6 and D, Tables 2
to 5, Fig. 3, (204).
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from companion import sheets, story
from companion.datastreams import plans
from companion.datastreams.evidence import training as evidence
from companion.datastreams.evidence.algorithm import algorithm_evidence, table1_evidence
from companion.datastreams.printed import FIGURES, TABLES, artefact_of, percent, rivals
from companion.judging.claims import Setting
from companion.judging.tables import paper_value
from sflkit.datastreams import psi, training
from sflkit.datastreams.config import DataStreamsConfig
from sflkit.datastreams.strategies import client_importance
from sflkit.randomness import generator
from sflkit.results.intervals import mean_interval
from sflkit.results.store import config_dict

SHOWN = ("Fresh", "Historical", "Uniform", "Ours", "Optimal")
FULL = Setting("full", "the algorithm and the networks themselves")


def table1() -> str:
    """Return the numbers of parameters and sizes, ours and the paper's, as a printed table."""
    names = {
        "lstm": "Shakespeare as a stacked LSTM",
        "rnn": "Shakespeare as a stacked plain RNN",
        "sizes": "synthetic: clients, samples",
    }
    rows = {
        names.get(name, name): [", ".join(f"{n:.0f}" for n in np.atleast_1d(side)) for side in pair]
        for name, pair in table1_evidence().items()
    }
    return pd.DataFrame(rows, index=["ours", "the paper's"]).T.to_string()


def estimated_shares(
    cases: Mapping[tuple[str, float], plans.Case], rates: Sequence[float], seed: int
) -> pd.DataFrame:
    """Return the p_hist that the heuristic's own ratio gives, a row per line, a column per rate.

    C.6 measures B, G and D on the first tenth of each historical client's samples, D after a brief
    training whose rate is not stated (ERRATA 68): `rates` are those that are tried.
    """
    rows = {}
    for (row, f), case in cases.items():
        config = replace(case.config, seed=seed)
        settings = config_dict(config) | {"brief rates": list(rates)}
        rows[f"{row}, {percent(f)}"] = story.kept(
            "estimated p_hist", settings, lambda config=config: _estimated(config, rates)
        )
    return pd.DataFrame.from_dict(rows, orient="index", columns=list(rates)).sort_index(axis=1)


def _estimated(config: DataStreamsConfig, rates: Sequence[float]) -> list[float]:
    """Return the p_hist that the heuristic's ratio gives on a federation, by rate."""
    from sflkit import federated, models
    from sflkit.datastreams.constants import estimate_constants

    data = training.build(config)
    given = {name: getattr(config, name) for name in ("hidden", "padding")}
    options = {name: value for name, value in given.items() if value is not None}
    shapes = dict(input_shape=data.input_shape, n_classes=data.n_classes)
    task = federated.Task(models.create(config.model, **shapes, **options))
    shares = []
    for rate in rates:
        constants = estimate_constants(task, data, seed=config.seed, rate=rate)
        ratio = psi.estimate_c_ratio(**constants._asdict())
        p = client_importance("ours", data.sizes, data.historical, c_ratio=ratio)
        shares.append(float(p[data.historical].sum()))
    return shares


@functools.cache
def printed_cells(row: str, fraction: float) -> dict[str, tuple[float, float]]:
    """Return number and half width that a line of Tables 2, 4, 5 prints, in %, by strategy."""
    return {
        name: tuple(
            paper_value("datastreams", TABLES[fraction], f"{row} {name.lower()}{part}")
            for part in ("", " half width")
        )
        for name in SHOWN
    }


def cells(score: pd.DataFrame) -> dict[str, np.ndarray]:
    """Return our cells of a line of the tables, in %, a value for each seed, by strategy.

    Optimal is `evidence.optimal`: no seed chooses the share that it judges.
    """
    ours = {name: score[name].to_numpy() for name in SHOWN[:-1]} | {
        "Optimal": evidence.optimal(score)
    }
    return {name: 100 * sample for name, sample in ours.items()}


def both_iterates(
    averaged: Mapping[str, Mapping], last: Mapping[str, Mapping], paper: Mapping[str, Mapping]
) -> pd.DataFrame:
    """Return a table of the paper with both readings of ours: four lines for each of its rows.

    The averaged output of Algorithm 1, the last iterate, the paper, and the difference of each from
    the paper. The arguments are those of `sheets.table`.
    """
    mean, end = (sheets.table(ours, paper, corner="data") for ours in (averaged, last))
    both = mean.loc[(slice(None), sheets.DIFFERENCE), :] + ",  "
    both += end.loc[(slice(None), sheets.DIFFERENCE), :]
    lines = {}
    for row in paper:
        lines[row, "averaged"] = mean.loc[(row, sheets.OURS)]
        lines[row, "last iterate"] = end.loc[(row, sheets.OURS)]
        lines[row, sheets.PAPER] = mean.loc[(row, sheets.PAPER)]
        lines[row, "differences"] = both.loc[(row, sheets.DIFFERENCE)]
    return pd.DataFrame(lines).T.rename_axis(mean.index.names)


def table_sheet(fraction: float, scores: evidence.Scores, last: evidence.Scores) -> pd.DataFrame:
    """Return one of Tables 2, 4, 5 in its own rows and columns: ours, paper, difference.

    Our p_hist is the minimiser of psi at the printed ratio.
    """
    rows = [row for row, share in scores if share == fraction]
    paper = {row: printed_cells(row, fraction) for row in rows}
    ours = ({row: cells(of[row, fraction]) for row in rows} for of in (scores, last))
    found = both_iterates(*ours, paper)
    share = {
        row: {"p*hist": paper_value("datastreams", TABLES[fraction], f"{row} p_hist")}
        for row in rows
    }
    mine = {row: {"p*hist": plans.minimiser(row, fraction)} for row in rows}
    shares = sheets.table(mine, share, digits=2)["p*hist"]
    line_of = {"averaged": sheets.OURS, "differences": sheets.DIFFERENCE, "paper": sheets.PAPER}
    column = [shares.get((row, line_of.get(line)), "") for row, line in found.index]
    found.insert(0, "p*hist", column)
    return found


def differences(scores: evidence.Scores, last: evidence.Scores) -> pd.DataFrame:
    """Return the printed differences of strategies beside ours, in points.

    Returns
    -------
    DataFrame
        row, fraction, pair (such as "Ours - Fresh"), paper, and for "averaged" and "last": mean,
        low, high. Ours is not compared with the strategy that it is.
    """
    rows = []
    for (row, f), score in scores.items():
        pairs = [("Ours", name) for name in rivals(row, f)] + [("Optimal", "Ours")]
        print_of = printed_cells(row, f)
        both = {"averaged": cells(score), "last": cells(last[row, f])}
        for first, second in pairs:
            line = {"row": row, "fraction": f, "pair": f"{first} − {second}"}
            line["paper"] = round(print_of[first][0] - print_of[second][0], 1)
            for name, of in both.items():
                found = mean_interval(of[first] - of[second])
                line |= {name: found.mean, f"{name} low": found.low, f"{name} high": found.high}
            rows.append(line)
    return pd.DataFrame(rows)


def readings_compared(
    scores: evidence.Scores, last: evidence.Scores, found: pd.DataFrame
) -> pd.DataFrame:
    """Return how near each reading of the tables, averaged or last, comes to the print.

    `found` is the answer of `differences`. A printed difference above 0 is *seen* where our whole
    interval is above 0.
    """
    table = {}
    said = found[found["paper"] > 0]
    for name, of in (("averaged", scores), ("last", last)):
        away = np.array(
            [
                cells(score)[cell].mean() - value
                for line, score in of.items()
                for cell, (value, _) in printed_cells(*line).items()
            ]
        )
        table[name] = {
            "cells": len(away),
            "cells within 1 point of print": int((np.abs(away) <= 1).sum()),
            "mean distance, points": round(float(np.abs(away).mean()), 1),
            "printed differences above 0": len(said),
            "seen": int((said[f"{name} low"] > 0).sum()),
            "reversed": int((said[f"{name} high"] < 0).sum()),
            "median size, % of print": round(100 * (said[name] / said["paper"]).median()),
        }
    return pd.DataFrame(table)


def other_readings(scores: evidence.Scores, last: evidence.Scores) -> pd.DataFrame:
    """Return accuracies in % of the readings of Ours, where there are several (ERRATA 25, 26)."""
    rows = {}
    for (row, f), score in scores.items():
        names = [name for name in score if name.startswith("Ours")]
        for kind, of in (("averaged", score), ("last iterate", last[row, f])):
            if len(names) > 1:
                means = {name: 100 * of[name].mean() for name in ("Uniform", *names)}
                rows[f"{row}, {percent(f)}", kind] = means
    return pd.DataFrame(rows).T.round(1).astype(object).fillna("")


def gap_sheet(scores: evidence.Scores, last: evidence.Scores) -> pd.DataFrame:
    """Return the gaps to Optimal that Section 6 prints for Fig. 3, in points: both readings."""
    paper = {
        name: {
            percent(f): tuple(
                paper_value(
                    "datastreams", "ds-fig3", f"gap {name.lower()} to optimal at {percent(f)}{part}"
                )
                for part in ("", " half width")
            )
            for f in TABLES
        }
        for name in ("Historical", "Uniform")
    }

    def ours(of: evidence.Scores) -> dict[str, dict[str, np.ndarray]]:
        gap = evidence.gaps(of)
        return {
            name: {percent(f): 100 * sample for (n, f), sample in gap.items() if n == name}
            for name in paper
        }

    return both_iterates(ours(scores), ours(last), paper)


def predicted_gaps(row: str = "CIFAR-10") -> pd.DataFrame:
    """Return psi above its minimum (in units of c1) beside the gaps of accuracy that Fig. 3 prints.

    For the reported ratio of the line and equal sizes inside each group.
    """
    rows = {}
    for f in TABLES:
        n, old = _two_groups(f)
        ratio = plans.RATIOS[row][f]
        least = psi.minimize_psi(n, old, 1, ratio)
        line = {"p* of psi": least.p_hist}
        for name in ("historical", "uniform"):
            above = psi.psi(client_importance(name, n, old), n, old, 1, ratio) - least.value
            line[f"psi, {name}"] = above
        for name in ("historical", "uniform"):
            quantity = f"gap {name} to optimal at {100 * f:g} %"
            line[f"paper's gap, {name}"] = paper_value("datastreams", "ds-fig3", quantity)
        rows[f] = line
    return pd.DataFrame(rows).T.rename_axis("N_hist/N")


def peak_of_uniforms_gap(ratio: float) -> float:
    """Return the share N_hist / N at which Uniform is farthest above the minimum of psi."""
    shares = np.linspace(0.01, 0.99, 99)
    above = []
    for f in shares:
        n, old = _two_groups(f)
        above.append(psi.psi(n, n, old, 1, ratio) - psi.minimize_psi(n, old, 1, ratio).value)
    return float(shares[np.argmax(above)])


def best_possible_accuracy() -> pd.DataFrame:
    """Return the accuracy that even the true model has on the synthetic task.

    Labels are drawn from a logistic law, so that nobody can be right in more than the mean of
    max(p, 1 - p). Over 2000 clients with 1000 points each, for both readings of the dimension and
    three spreads of the clients' weights.
    """
    printed = max(
        paper_value("datastreams", table, "synthetic optimal") for table in TABLES.values()
    )
    rows = []
    for d in (20, 21):
        rng = generator(0, "data", d)
        common, own = rng.standard_normal((2000, d)), rng.standard_normal((2000, d))
        x = rng.uniform(-1, 1, (d, 1000))
        for spread in (0.0, 0.1, 0.5):
            best = 100 * (1 / (1 + np.exp(-np.abs((common + spread * own) @ x)))).mean(axis=1)
            low, high = np.quantile(best, [0.025, 0.975])
            rows.append(
                {
                    "d": d,
                    "epsilon": spread,
                    "best possible accuracy, %": f"{best.mean():.1f}",
                    "95 % of the clients in": f"{low:.1f} to {high:.1f}",
                    f"share that allows the printed {printed} %": (
                        f"{100 * (best >= printed).mean():.1f} %"
                    ),
                }
            )
    return pd.DataFrame(rows)


def all_evidence(scores: evidence.Scores, last: evidence.Scores) -> dict[str, dict[str, Any]]:
    """Return the evidence on all artefacts of notebook 21, artefact -> part -> what a rule takes.

    Parameters
    ----------
    scores, last : mapping
        `evidence.all_scores` of the averaged output and of the last iterate.
    """
    found = {"ds-alg1": algorithm_evidence(), "ds-tab1": table1_evidence()}
    for f in TABLES:
        for row in plans.ROWS:
            printed = {}
            if row == "synthetic":
                found_cells = printed_cells(row, f).items()
                printed = {name: (value / 100, half / 100) for name, (value, half) in found_cells}
            found[artefact_of(row, f)] = evidence.table_evidence(row, f, scores, last, printed)
    found["ds-fig3"] = evidence.fig3_evidence(scores)
    found |= {figure: evidence.figure_evidence(figure, scores) for figure in FIGURES}
    found["ds-optimal"] = evidence.optimal_evidence(scores)
    found["ds-outperforms"] = evidence.outperforms_evidence(scores)
    found["ds-reuse"] = evidence.reuse_evidence(scores)
    return found


def settings_of(runs: plans.Strategies) -> dict[str, Setting]:
    """Return the setting of each artefact of notebook 21."""
    cases = runs.cases
    ran = {
        artefact_of(row, f): [cases[row, f]] if (row, f) in cases else []
        for f in TABLES
        for row in plans.ROWS
    }
    for figure, row in {"ds-fig3": "CIFAR-10", **FIGURES}.items():
        ran[figure] = [case for (name, _), case in cases.items() if name == row]
    ran["ds-optimal"] = ran["ds-outperforms"] = list(cases.values())
    ran["ds-reuse"] = [case for case in cases.values() if case.fraction == 0.05]
    found = {artefact: evidence.setting(some, runs.found) for artefact, some in ran.items()}
    return found | {"ds-alg1": FULL, "ds-tab1": FULL}


def _two_groups(fraction: float) -> tuple[np.ndarray, np.ndarray]:
    """Return shares of samples (50,) and who is historical: two groups of 25 equal clients."""
    n = np.repeat([fraction / 25, (1 - fraction) / 25], 25)
    return n, np.arange(50) < 25
