"""What several modules on data streams share: the lines of Tables 2, 4 and 5, what they print, both
readings of their scores.

Source: FDS (Federated Learning for Data Streams), Tables 1 to 5, (204).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

import pandas as pd

from companion import sheets
from companion.judging.claims import NotRun, Undecided
from companion.judging.tables import paper_value
from sflkit import federated, models
from sflkit.data.federations import Federation
from sflkit.datastreams import psi
from sflkit.datastreams.constants import estimate_constants
from sflkit.datastreams.strategies import client_importance

ROWS = ("synthetic", "CIFAR-10", "CIFAR-100", "FEMNIST", "Shakespeare")
BASELINES = ("Fresh", "Historical", "Uniform")
TABLES = {0.05: "ds-tab4", 0.2: "ds-tab2", 0.5: "ds-tab5"}  # by N_hist / N
# Historical clients of Section 6; elsewhere their share of the clients is N_hist / N.
HISTORICAL = {"synthetic": 10, "CIFAR-10": 25, "CIFAR-100": 25}
VALIDATION = 0.2  # share of every client's samples that choose the rate
SHOWN = (*BASELINES, "Ours", "Optimal")


@cache
def printed(artefact: str, quantity: str) -> float:
    """Return a number of the paper."""
    return paper_value("datastreams", artefact, quantity)


def reported_ratio(row: str, fraction: float) -> float:
    """Return the c2 / c1 that a line of the tables reports."""
    return printed(TABLES[fraction], f"{row} c2/c1")


def reported_share(row: str, fraction: float) -> float:
    """Return the p_hist that a line of the tables reports."""
    return printed(TABLES[fraction], f"{row} p_hist")


def n_fresh(row: str, fraction: float) -> int:
    """Return the paper's number of fresh clients."""
    clients = int(printed("ds-tab1", f"{row} clients"))
    return clients - HISTORICAL.get(row, round(fraction * clients))


def minimising_share(row: str, fraction: float) -> float:
    """Return the p_hist that minimises psi at the reported ratio and the paper's clients."""
    return psi.equal_fresh_p_hist(fraction, n_fresh(row, fraction), reported_ratio(row, fraction))


def ratio_by_table3(
    row: str, fraction: float, n_samples: int | None = None, rounding: float = 0.0
) -> float:
    """Return (204) with Table 3's constants and Table 1's number of samples, unless one is given.

    `rounding` is added to B and taken from G and D.
    """
    b, d, g, diameter = (printed("ds-c2c1", f"{row} {q}") for q in ("B", "parameters d", "G", "D"))
    return psi.estimate_c_ratio(
        loss_bound=b + rounding,
        n_params=int(d),
        n_samples=n_samples or int(printed("ds-tab1", f"{row} samples")),
        grad_bound=g - rounding,
        diameter=diameter - rounding,
        n_fresh=n_fresh(row, fraction),
    )


@cache
def printed_cells(row: str, fraction: float) -> dict[str, tuple[float, float]]:
    """Return number and half width that a line of Tables 2, 4, 5 prints, in %, by strategy."""
    return {
        name: tuple(
            printed(TABLES[fraction], f"{row} {name.lower()}{part}") for part in ("", " half width")
        )
        for name in SHOWN
    }


def estimated_share(
    data: Federation, model: str, options: Mapping[str, Any], **of_constants: Any
) -> tuple[float, float, Any]:
    """Return the ratio c2/c1 of (204) here, the p_hist that it gives, and the constants.

    `options` are those of the model, `of_constants` go to `estimate_constants`.
    """
    shapes = dict(input_shape=data.input_shape, n_classes=data.n_classes)
    task = federated.Task(models.create(model, **shapes, **options))
    constants = estimate_constants(task, data, **of_constants)
    ratio = psi.estimate_c_ratio(**constants._asdict())
    p = client_importance("ours", data.sizes, data.historical, c_ratio=ratio)
    return ratio, float(p[data.historical].sum()), constants


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


def both_readings(averaged: Mapping[str, Any], last: Mapping[str, Any]) -> dict[str, Any]:
    """Return evidence by part under both readings, as `EveryReading` takes it.

    A part that nothing was run for, or that a reading leaves undecided, stays as it is.
    """
    found = {}
    for key, known in averaged.items():
        either = (known, last[key])
        stays = [one for one in either if isinstance(one, NotRun | Undecided)]
        found[key] = stays[0] if stays else dict(zip(("averaged", "last"), either, strict=True))
    return found
