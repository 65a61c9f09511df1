"""Notebook 34, Dataset-2: which runs, and the evidence of its claims.

Source: OSAFL, Section V-B, Tables IV and V, Figs. 6 and 8.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from companion.judging.claims import NotRun
from companion.notebooks.osafl_shared import (
    BASELINES,
    FCN_SETTINGS,
    LABELS,
    Evidence,
    at_round,
    best,
    best_loss,
    between,
    by_arm,
    fcn_base,
    ran,
    scaled,
)
from companion.plans import Stage
from sflkit.osafl.config import OSAFLConfig
from sflkit.osafl.networks import SIZES

ROUND = 40  # at which Section V-B.2 reads Fig. 6
# What stands in a rule's buffer for a client that never joined: M-AFA-CD's is as printed, which is
# what the paper's numbers show (ERRATA 38).
NEVER_JOINED = dict.fromkeys(LABELS, "exclude") | {"m_afa_cd": "literal", "genie": "exclude"}


class Dataset2(NamedTuple):
    """What notebook 34 draws and judges.

    All are frames of runs with the columns `arm`, `K` and `seed`: `tables` has the rules and
    centralised SGD with the LSTM, and `features` and `names` centralised SGD on Dataset-1 and
    Dataset-2 once more, with seeds of its own.
    """

    tables: pd.DataFrame
    features: pd.DataFrame
    names: pd.DataFrame


def dataset2(**given: Any) -> Generator[Stage, pd.DataFrame, Dataset2]:
    """Yield the stages of notebook 34; see its parameters."""
    p = SimpleNamespace(**given)
    base = lstm_base(**{name: given[name] for name in LSTM_SETTINGS})
    own = {"hidden": p.fcn_hidden, "genie_steps": p.fcn_genie_steps}
    dense = fcn_base(*(own.get(name, given[name]) for name in FCN_SETTINGS))

    def cases(base: Mapping, rules: Iterable[str], seeds: Iterable[int]) -> list[OSAFLConfig]:
        return [
            scaled(OSAFLConfig(rule, NEVER_JOINED[rule], seed=seed, top_k=K, **base))
            for K in p.top_k
            for seed in seeds
            for rule in rules
        ]

    tables = yield from ran(cases(base, NEVER_JOINED, p.seeds), "LSTM")
    features = yield from ran(cases(dense, ["genie"], p.genie_seeds), "Dataset-1")
    names = yield from ran(cases(base, ["genie"], p.genie_seeds), "Dataset-2")
    return Dataset2(tables, features, names)


# Fields of the config and parameters of notebook 34.
LSTM_SETTINGS = (
    "layers hidden embedding capacity n_clients rounds minibatches allocator genie_steps test_size"
).split()


def lstm_base(
    *, layers: int, hidden: int, embedding: int, capacity: tuple[int, int], **more: Any
) -> dict:
    """Return the settings that the LSTM's runs share; the payload is that of our full network.

    `capacity` is that of the smallest and of the largest store.
    """
    size = SIZES["LSTM"]
    stores = dict(zip(("capacity_low", "capacity_high"), capacity, strict=True))
    base = {"dataset": 2, "model": size.model} | stores | more
    given = {"layers": layers, "hidden": hidden, "embedding": embedding}
    if given != size.options:
        base |= given | {"payload_bits": float(size.payload_bits)}
    return base


def evidence(found: Dataset2) -> dict[str, Evidence]:
    """Return the evidence of notebook 34's trained claims at its published parameters."""
    nearer = NotRun("the reading that Table II chose was not run on Dataset-2 (6 CPU hours)")
    ends, losses, there, early, late = (
        by_arm(found.tables, measure)
        for measure in (best, best_loss, at_round(ROUND), between(0, 0.25), between(0.75, 1))
    )
    features, names = (by_arm(one, best)["genie"] for one in (found.features, found.names))
    figure: Evidence = {"reading": nearer}
    parts: dict[str, Evidence] = {"osafl-fig6": figure, "osafl-datasets": {}}
    for K in (1, 2):
        for rule in BASELINES:
            figure[f"K{K}_ahead_{rule}"] = there["osafl"][K], there[rule][K]
            what = "flat" if rule == "m_afa_cd" else "rises"
            figure[f"K{K}_{what}_{rule}"] = late[rule][K], early[rule][K]
        own, lost = ends.loc[K], losses.loc[K]
        second = own[list(BASELINES)].mean().idxmax()
        parts[f"osafl-tab{3 + K}"] = {
            **{f"best_{rule}": (own["osafl"], own[rule]) for rule in BASELINES},
            "factor": np.log(own["osafl"] / own[second]),
            "losses": np.log(lost[second] / lost["osafl"]),
            "fails": (own["osafl"] / 2, own["m_afa_cd"]),
            "reading": nearer,
        }
        parts["osafl-datasets"][f"K{K}_gap"] = features[K], names[K]
    return parts
