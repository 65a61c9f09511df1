"""What notebooks 33 and 34 show beside their verdicts: steps, limits and tables.

Source: OSAFL, Section V-B, Tables II to V, Appendix D-B. The runs are those of
`companion.osafl.plans.training`, the evidence for the verdicts is in `evidence.training`, and what
is said with them in `evidence.remarks`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
import pandas as pd

from companion import story
from companion.judging.tables import paper_values
from companion.osafl.measures import as_printed, best, best_loss, by_arm
from companion.osafl.printed import LABELS
from sflkit.osafl.clients import ceiling, ceiling_of_strangers
from sflkit.osafl.config import OSAFLConfig
from sflkit.osafl.rules import RULES
from sflkit.results.store import config_dict

# What Tables II to V print of a rule.
MEASURES = {"accuracy": best, "loss": best_loss}
# Their rows: what we call a rule -> the paper's name in data/paper_values.
PAPER_ROWS = {"centralised SGD": "SGD"} | {
    LABELS[rule]: LABELS[rule]
    for rule in ("osafl", "m_fedavg", "m_afa_cd", "m_fednova", "m_fedprox", "m_feddisco")
}


def printed_steps(base: Mapping[str, Any]) -> pd.DataFrame:
    """Return the rates that the paper prints, one row per rule, and how far each rule moves.

    The last column is the longest step of the model, in multiples of a gradient that all clients
    share: what OSAFL does with scores of 1, and the others with the largest number of local steps.

    Parameters
    ----------
    base : mapping
        Fields of `OSAFLConfig` that name the network, `plans.fcn_base` or `plans.lstm_base`.
    """
    words = {"rate": "local rate", "global_rate": "server rate"}
    rows = {}
    for rule, name in LABELS.items():
        config = OSAFLConfig(rule, **base)
        rows[name] = {words.get(key, key): f"{value:g}" for key, value in config.hyper.items()}
        rows[name]["longest step"] = f"{longest_step(config):g}"
    table = pd.DataFrame(rows).T.fillna("")
    last = ["longest step"]
    return table[[*table.columns.drop(last), *last]].rename_axis("rule")


def longest_step(config: OSAFLConfig) -> float:
    """Return how far a federated rule moves the model if all clients share one gradient.

    In multiples of that gradient: OSAFL with scores of 1, and the rules that keep models with the
    largest number of local steps, without M-FedProx's pull.
    """
    given = config.hyper
    if config.rule == "osafl":
        return given["rate"] * given["global_rate"]
    if config.rule == "m_afa_cd":
        return given["global_rate"]
    return given["rate"] * config.max_steps * given.get("slowdown", 1.0)


def ceilings(
    base: Mapping[str, Any], top_k: Iterable[int], seeds: Iterable[int]
) -> dict[int, pd.Series]:
    """Return, by K, the accuracy by seed of one who knows every user's law."""
    return {
        K: pd.Series({s: _limit(ceiling, OSAFLConfig(seed=s, top_k=K, **base)) for s in seeds})
        for K in top_k
    }


def _limit(limit: Callable[[OSAFLConfig], float], config: OSAFLConfig) -> float:
    """Return a limit of a world, which needs its images, from those that are published."""
    return story.kept(limit.__name__, config_dict(config), lambda: limit(config))


def two_ceilings(
    base: Mapping[str, Any], top_k: Iterable[int], seeds: Iterable[int]
) -> dict[int, pd.DataFrame]:
    """Return, by K, a table by seed: who knows every user's law, and who sees the last file only.

    The columns are `user` and `file`, as `evidence.training.dataset2` takes them.
    """
    limits = {"user": ceiling, "file": ceiling_of_strangers}
    return {
        K: pd.DataFrame(
            {
                name: {s: _limit(limit, OSAFLConfig(seed=s, top_k=K, **base)) for s in seeds}
                for name, limit in limits.items()
            }
        )
        for K in top_k
    }


def participation(tables: pd.DataFrame, n_clients: int) -> str:
    """Say how many clients are stragglers and how many ever take part, the genie left out."""
    runs = tables[tables["arm"] != "genie"]
    share, joined = runs["stragglers"].mean() / n_clients, runs["joined"].max()
    return (
        f"In a round {share:.0%} of the clients are stragglers on average, and at most {joined} of "
        f"{n_clients} ever take part."
    )


def printed_table(artefact: str, network: str) -> dict[str, dict[str, tuple[float, float]]]:
    """Return a table of the paper as `sheets.table` takes it.

    Parameters
    ----------
    artefact : {"osafl-tab2", "osafl-tab3", "osafl-tab4", "osafl-tab5"}
    network : str
        A column of the table, such as "FCN".

    Returns
    -------
    dict
        Name of a rule, in the paper's order -> "accuracy" or "loss" -> number and printed spread.
    """
    values = paper_values("osafl").set_index(["artefact", "quantity"])["value"].astype(float)
    return {
        name: {
            what: tuple(
                values[artefact, f"test {what} {said} {network}{end}"] for end in ("", ", spread")
            )
            for what in MEASURES
        }
        for name, said in PAPER_ROWS.items()
    }


def our_table(runs: pd.DataFrame) -> dict[str, dict[str, np.ndarray]]:
    """Return best accuracies and the losses of those rounds, one a seed, by the paper's rows.

    `runs` has one K, and the columns arm and seed.
    """
    found = {what: as_printed(by_arm(runs, measure)) for what, measure in MEASURES.items()}
    names = RULES.labels() | {"genie": "centralised SGD"}
    return {
        names[arm]: {what: found[what][arm].dropna().to_numpy() for what in MEASURES}
        for arm in found["accuracy"]
    }
