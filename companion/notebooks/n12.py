"""Notebook 12, Fig. 4 and the map of headroom: the runs, and what its claims take of them.

Source: SFL, Section VI. Accuracies are shares.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, NamedTuple

import pandas as pd

from companion.notebooks.sfl_shared import (
    ALL_RULES,
    LATE,
    THROUGHOUT,
    Evidence,
    difference,
    window,
)
from companion.plans import Stage
from sflkit.intervals import mean_interval
from sflkit.sfl import training
from sflkit.sfl.config import SFLConfig


class Cell(NamedTuple):
    """A place on the map of headroom: where does FULL, with the long-term mix, end above FIFO?

    Fashion-MNIST, caches of 60, 200 rounds; temperature 0.2 is the paper's stream, 0.02 stays near
    a state for some 25 rounds.
    """

    model: str
    n_clients: int
    local_steps: int
    temperature: float
    common: bool = False
    cache_rounds: int = 2


# Cheapest first.
CELLS = (
    Cell("mlp", 1, 2, 0.02),
    Cell("lenet", 1, 2, 0.2),
    Cell("lenet", 1, 2, 0.02),
    Cell("mlp", 1, 10, 0.02),
    Cell("lenet", 2, 2, 0.02),
    Cell("mlp", 1, 40, 0.02),
    Cell("lenet", 1, 10, 0.2),
    Cell("lenet", 1, 10, 0.02),
    Cell("lenet", 1, 10, 0.02, cache_rounds=1),
    Cell("lenet", 1, 10, 0.02, cache_rounds=10),
    Cell("lenet", 10, 2, 0.02),
    Cell("lenet", 10, 2, 0.02, common=True),
    Cell("lenet", 2, 10, 0.02),
    Cell("lenet", 1, 40, 0.02),
    Cell("lenet", 10, 10, 0.02, common=True),
    Cell("lenet", 10, 40, 0.02, common=True),
)


def of_cell(cell: Cell, rules: Sequence[str], seeds: Sequence[int]) -> list[SFLConfig]:
    """Return the configs of some rules and seeds in a cell."""
    fields = cell._asdict()
    base = SFLConfig(
        data="fmnist",
        capacity=60,
        batch_size=60 // fields.pop("cache_rounds"),
        evaluate_every=5,
        **fields,
    )
    return [replace(base, rule=rule, seed=seed) for seed in seeds for rule in rules]


def rows_of(frame: pd.DataFrame, cell: Cell) -> pd.DataFrame:
    """Return the rows of a cell's runs."""
    fields = cell._asdict()
    fields["batch_size"] = 60 // fields.pop("cache_rounds")
    return frame[(frame[[*fields]] == pd.Series(fields)).all(axis=1)]


def leads(frame: pd.DataFrame) -> bool:
    """Say whether FULL ends above FIFO by its interval and a point: only there others are run."""
    gain = mean_interval(difference(window(frame, LATE), "full_refreshed", "fifo"))
    return gain.low > 0 and gain.mean >= 0.01


# Which rule ends above which.
ORDER = (("drsr", "fifo"), ("srsr", "fifo"), ("fifo", "lazy"))
# Without this lead there is nothing to gain by a better label mix.
HEADROOM = ("full_refreshed", "fifo")


class Comparison(NamedTuple):
    """Runs of notebook 12: Fig. 4 by panel, and the map of headroom on both sets of seeds."""

    panels: dict[str, pd.DataFrame]
    explored: pd.DataFrame
    fresh: pd.DataFrame


def comparison(**given: Any) -> Generator[Stage, pd.DataFrame, Comparison]:
    """Plan notebook 12: the rules on two data sets, and where FULL has something to win."""
    p = SimpleNamespace(**given)
    same = ("capacity", "batch_size", "theta", "classes_per_client", "evaluate_every")
    base = SFLConfig(**{name: given[name] for name in same})
    a = replace(base, data=p.data_a, model=p.model, local_rate=p.rate_a, rounds=p.rounds)
    b = replace(base, data=p.data_b, model=p.model_b, local_rate=p.rate_b, rounds=p.rounds_b)
    found = {}
    for panel, config, own in (("a", a, p.seeds), ("b", b, p.seeds_b)):
        found[panel] = yield Stage(
            training.full_start,
            [replace(config, rule=r, seed=s) for s in own for r in ALL_RULES],
            f"panel {panel}",
            gpu=True,
        )
    explored = yield Stage(
        training.full_start,
        [c for cell in CELLS[: p.cells] for c in of_cell(cell, HEADROOM, p.map_seeds)],
        "map of headroom",
    )
    won = [cell for cell in CELLS[: p.cells] if leads(rows_of(explored, cell))]
    rules = ("full_refreshed", "drsr", "srsr", "fifo")
    fresh = yield Stage(
        training.full_start,
        [c for cell in won[: p.fresh_cells] for c in of_cell(cell, rules, p.fresh_seeds)],
        "where FULL leads",
    )
    return Comparison(found, explored, fresh)


def comparison_evidence(found: Mapping[str, pd.DataFrame]) -> dict[str, Evidence]:
    """Return the evidence of notebook 12, artefact -> part -> what the rule takes."""
    late, whole, second = (
        {panel: window(frame, span) for panel, frame in found.items()}
        for span in (LATE, THROUGHOUT, (0.5, 1.0))
    )
    order = {
        panel: {f"{a} {b}": difference(score, a, b) for a, b in (*ORDER, HEADROOM)}
        for panel, score in late.items()
    }
    order["a"]["full drsr"] = difference(late["a"], "full_refreshed", "drsr")
    gain = {
        panel: (score[["drsr", "srsr", "fifo"]].mean(axis=1) - score["lazy"]).to_numpy()
        for panel, score in late.items()
    }
    order["b"]["gain"] = (gain["a"], gain["b"])
    return {
        "sfl-fig4a": order["a"],
        "sfl-fig4b": order["b"],
        "sfl-throughout": {
            f"{rule} {panel}": difference(score, rule, "fifo")
            for panel, score in whole.items()
            for rule in ("full_refreshed", "drsr", "srsr")
        },
        "sfl-speed": {
            f"{rule} {panel}": difference(score, rule, "lazy")
            for panel, score in second.items()
            for rule in ("drsr", "srsr", "fifo")
        },
        "sfl-nearfull": {
            rule: difference(late["a"], rule, "full_refreshed") for rule in ("drsr", "srsr", "fifo")
        },
    }
