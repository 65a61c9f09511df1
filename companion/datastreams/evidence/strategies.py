"""What notebook 21 shows beside its runs: the lines of the tables, predictions, and limits.

Source: FDS (Federated Learning for Data Streams), Sections 5 and 6, Appendices C.6 and D, Tables 2
to 5, Fig. 3, (204).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from companion import story
from companion.datastreams import plans
from companion.datastreams.claims import CLAIMS
from companion.datastreams.claims.training import (
    BASELINES,
    FIGURES,
    PRINTED,
    TABLES,
    artefact_of,
    percent,
)
from companion.datastreams.evidence import training as evidence
from companion.datastreams.evidence.algorithm import algorithm_evidence, table1_evidence
from companion.judging.claims import Page, Setting
from companion.judging.rules import Judged
from companion.judging.tables import markdown, paper_value
from sflkit.datastreams import psi, training
from sflkit.datastreams.config import DataStreamsConfig
from sflkit.datastreams.strategies import client_importance
from sflkit.randomness import generator
from sflkit.results.store import config_dict

SHOWN = ("Fresh", "Historical", "Uniform", "Ours", "Optimal")
FULL = Setting("full", "the algorithm and the networks themselves")


def claims_before() -> Page:
    """Return the claims of notebook 21 as it shows them before its run.

    The lines of Tables 2, 4 and 5 claim the same of one data set and share each. They are a table
    of what the paper prints, with the claims themselves folded behind it.
    """
    printed = pd.DataFrame(
        {
            "data": row,
            "old samples": percent(f),
            "p_hist of Ours": PRINTED[row, f][0],
            **dict(zip(SHOWN, PRINTED[row, f][1:], strict=True)),
        }
        for row in plans.ROWS
        for f in TABLES
    )
    lines = CLAIMS.before(*(artefact_of(row, f) for f in (0.2, 0.05, 0.5) for row in plans.ROWS))
    return Page(
        f"{CLAIMS.before('ds-alg1', 'ds-tab1')}\n\n---\n\n"
        "**The lines of Tables 2, 4 and 5.** On every line Ours is at least as good as the best of "
        "Fresh, Historical and Uniform, and working only with new data is not optimal. A line is "
        "refuted where Ours ends more than half a point below one of the three, or Fresh is as "
        "good as any share of the historical clients. An order counts from half of the printed "
        "difference on. The paper prints these accuracies in %:\n\n"
        f"{markdown(printed)}\n\n"
        "<details><summary>The claims of the lines one by one, with their rules</summary>\n\n"
        f"{lines}\n\n</details>\n\n---\n\n"
        f"{CLAIMS.before('ds-fig3', *FIGURES, 'ds-optimal', 'ds-outperforms', 'ds-reuse')}"
    )


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


def lines_of_the_tables() -> pd.DataFrame:
    """Return ratio, reported p_hist, the minimiser of psi and Table 3's reading of each line."""
    return pd.DataFrame(
        {
            "line": f"{row}, {percent(f)}",
            "c2/c1": plans.RATIOS[row][f],
            "reported p_hist": paper_value("datastreams", TABLES[f], f"{row} p_hist"),
            "minimiser": round(plans.minimiser(row, f), 4),
            "Ours (Table 3)": plans.readings(row, f).get("Ours (Table 3)", "")[7:],
        }
        for row in plans.ROWS
        for f in TABLES
    )


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


def mean_accuracies(scores: evidence.Scores) -> pd.DataFrame:
    """Return mean accuracies in per cent, a row per line, and the best share of the grid.

    The ends of the grid are left out: they are Fresh and Historical.
    """
    means = {f"{row}, {percent(f)}": 100 * score.mean() for (row, f), score in scores.items()}
    table = pd.DataFrame(means).T.round(1).drop(columns=["p_hist=0", "p_hist=1"])
    table["best p_hist of the grid"] = [evidence.best_share(score) for score in scores.values()]
    return table.astype(object).fillna("")


def lines_at_a_glance(scores: evidence.Scores) -> pd.DataFrame:
    """Return the differences that decide each line, in points, with intervals and answers.

    The rules are those of the claims; the last column's is that of `ds-optimal`, line by line.
    """
    rows = {}
    for (row, f), score in scores.items():
        known = evidence.table_evidence(row, f, scores, scores)
        cells = dict.fromkeys([f"Ours − {name}" for name in BASELINES], "the same")
        for part in CLAIMS[artefact_of(row, f)].parts:
            if part.key.startswith("ours, "):
                judged = part.rule.judge(known[part.key])
                cells[f"Ours − {part.key.removeprefix('ours, ')}"] = _cell(judged)
            elif part.key == "only new data":
                cells["Optimal − Fresh"] = _cell(part.rule.judge(known[part.key]))
        cells["Ours − Optimal, at most 1 below"] = _cell(evidence.near_optimal(score))
        rows[f"{row}, {percent(f)}"] = cells
    return pd.DataFrame(rows).T


def _cell(judged: Judged) -> str:
    return f"{judged.ours.removesuffix(' points')} {judged.interval} {judged.answer}"


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
    for f, table in TABLES.items():
        for row in plans.ROWS:
            printed = _printed(table) if row == "synthetic" else {}
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


def _printed(table: str) -> dict[str, tuple[float, float]]:
    """Return value and half width of the synthetic line as shares, by strategy."""
    return {
        name: tuple(
            paper_value("datastreams", table, f"synthetic {name.lower()}{part}") / 100
            for part in ("", " half width")
        )
        for name in SHOWN
    }
