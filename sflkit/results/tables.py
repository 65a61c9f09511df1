"""Verdicts in files, tables ours beside paper, and the papers' transcribed numbers.

A table of figures/<profile>/ has one row per artefact and is written under a lock, so that
notebooks may run side by side.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from sflkit import checks, paths
from sflkit.results.intervals import mean_interval
from sflkit.results.store import commit, device, versions
from sflkit.results.verdicts import Verdict

_VERDICT_COLUMNS = [
    "artefact",
    "verdict",
    "claim",
    "rule",
    "ours",
    "interval",
    "paper",
    "n_seeds",
    "profile",
    "note",
]


# --- verdicts and tables --------------------------------------------------------------------------


def record(
    verdict: Verdict, profile: str | None = None, *, folder: Path | str | None = None
) -> Path:
    """Put a verdict into figures/<profile>/verdicts.csv, one row per artefact; return the file.

    `profile` is the verdict's own unless given. Raises ValueError where it is no id.
    """
    profile = paths.check_profile(verdict.profile if profile is None else profile)
    verdict = replace(verdict, profile=profile)
    folder = paths.figures(verdict.profile) if folder is None else Path(folder)
    with paths.lock(folder / "verdicts.csv"):
        upsert_row(
            folder / "verdicts.csv", {name: asdict(verdict)[name] for name in _VERDICT_COLUMNS}
        )
    return folder / "verdicts.csv"


def all_verdicts(root: Path | str | None = None) -> pd.DataFrame:
    """Return the recorded verdicts of all profiles, one row per artefact.

    The paper profile's verdict counts before the quick one's, where it was run.
    """
    root = paths.figures_root() if root is None else Path(root)
    rows = [
        row
        for file in sorted(root.glob("*/verdicts.csv"))
        for row in read_table(file).to_dict("records")
    ]
    rank = {"paper": 0, "quick": 1}
    rows.sort(
        key=lambda row: (
            natural_key(row["artefact"]),
            row["verdict"] == "not run",
            rank.get(row["profile"], 2),
        )
    )
    return (
        pd.DataFrame(rows, columns=_VERDICT_COLUMNS)
        .drop_duplicates("artefact")
        .reset_index(drop=True)
    )


def comparison(rows: Iterable[Verdict | Mapping]) -> pd.DataFrame:
    """Return the table quantity | ours | paper | difference | verdict.

    Each row is a `Verdict`, or a dict with quantity, ours, paper and perhaps verdict. There, ours
    is a number, one number per seed (shown as mean +- half of the 95 % interval) or text, and paper
    a number, text or None.
    """
    return pd.DataFrame(
        [_comparison_row(row) for row in rows],
        columns=["quantity", "ours", "paper", "difference", "verdict"],
    )


def markdown(frame: pd.DataFrame) -> str:
    """Return a frame of texts and numbers as a Markdown table."""

    def line(cells: Iterable) -> str:
        texts = [re.sub(r"\s+", " ", str(cell)).replace("|", "\\|") for cell in cells]
        return "| " + " | ".join(texts) + " |"

    return "\n".join(
        [
            line(frame.columns),
            "|" + "---|" * len(frame.columns),
            *map(line, frame.itertuples(index=False)),
        ]
    )


def paper_values(paper: str) -> pd.DataFrame:
    """Return the numbers transcribed from a paper: artefact, quantity, value, source.

    Raises ValueError on an unknown paper.
    """
    file = paths.paper_values() / f"{paper}.csv"
    if not file.is_file():
        known = sorted(p.stem for p in file.parent.glob("*.csv"))
        there = ", ".join(map(repr, known)) or f"the tables in {file.parent}: none"
        raise ValueError(f"paper={paper!r} must be one of {there}")
    return pd.read_csv(file)


def paper_value(paper: str, artefact: str, quantity: str) -> float:
    """Return one transcribed number.

    Raises ValueError on an unknown paper, artefact or quantity.
    """
    table = paper_values(paper)
    table = table[
        table["artefact"] == checks.choice("artefact", artefact, sorted(set(table["artefact"])))
    ]
    return float(
        table.set_index("quantity")["value"][checks.choice("quantity", quantity, table["quantity"])]
    )


def provenance(profile: str = "quick") -> str:
    """Return one line that says what produced the numbers: versions, commit, profile, device.

    Raises ValueError on a profile that is no id.
    """
    found = versions()
    others = [f"{name} {found[name]}" for name in found if name != "sflkit"]
    first = [
        f"sflkit {found['sflkit']}",
        f"commit {commit()}",
        f"profile {paths.check_profile(profile)}",
    ]
    return " · ".join([*first, *others, device()])


def natural_key(text: str) -> tuple:
    """Return a sort key that puts sfl-fig2 before sfl-fig10."""
    return tuple(int(part) if part.isdigit() else part for part in re.split(r"(\d+)", text))


# --- helpers --------------------------------------------------------------------------------------


def _comparison_row(row: Verdict | Mapping) -> dict:
    if isinstance(row, Verdict):
        return {
            "quantity": row.claim,
            "ours": row.ours,
            "paper": row.paper,
            "difference": "",
            "verdict": row.verdict,
        }
    paper = row.get("paper")
    value, text = _shown(row["ours"])
    number = isinstance(paper, int | float | np.number) and not isinstance(paper, bool)
    difference = ""
    if number and value is not None:
        # as many digits as the two numbers are shown with
        digits = 3 - math.floor(math.log10(max(abs(value), abs(paper), 1e-300)))
        difference = f"{round(value - paper, digits) + 0.0:+.3g}"
    return {
        "quantity": row["quantity"],
        "ours": text,
        "paper": f"{paper:.4g}" if number else paper or "not stated",
        "difference": difference,
        "verdict": row.get("verdict", ""),
    }


def _shown(ours: str | ArrayLike) -> tuple[float | None, str]:
    """Return our number (None for a text) and how a table shows it."""
    if isinstance(ours, str):
        return None, ours
    if np.ndim(ours) == 0:
        return float(ours), f"{ours:.4g}"
    estimate = mean_interval(ours)
    half = f" ± {estimate.high - estimate.mean:.2g}" if estimate.n > 1 else " (one seed)"
    return estimate.mean, f"{estimate.mean:.4g}{half}"


def read_table(file: Path) -> pd.DataFrame:
    """Return a table of figures/<profile>/ as texts."""
    return pd.read_csv(file, dtype=str, keep_default_na=False)


def upsert_row(file: Path, row: Mapping) -> None:
    """Replace the artefact's row in a sorted table; the caller holds the lock."""
    row = {name: str(value) for name, value in row.items()}
    rows = {r["artefact"]: r for r in read_table(file).to_dict("records")} if file.is_file() else {}
    rows[row["artefact"]] = row
    table = pd.DataFrame(
        [rows[artefact] for artefact in sorted(rows, key=natural_key)], columns=list(row)
    ).fillna("")
    paths.write_atomic(file, table.to_csv(index=False, lineterminator="\n"))
