"""Verdicts in files, tables ours beside paper, and the papers' transcribed numbers.

In figures/, verdicts.csv has one row per artefact and parts.csv one row per part of its
claim. Both are written under a lock, so that notebooks may run side by side.
"""

from __future__ import annotations

import math
import platform
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from importlib import metadata
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from companion.judging import recorded
from companion.judging.claims import (
    Answer,
    Claims,
    Page,
    Run,
    Setting,
    Verdict,
    check_declared,
    nearest,
)
from sflkit import checks, paths
from sflkit.intervals import mean_interval
from sflkit.runs.origin import device

# How the parameters of this process differ from the published ones; `story.begin` fills it.
explored: list[str] = []


# --- verdicts and tables --------------------------------------------------------------------------


def record(verdict: Verdict, *, folder: Path | str | None = None) -> Path:
    """Put a verdict into verdicts.csv and its parts into parts.csv; return the former.

    The folder is `paths.drawn()` unless given. Raises ValueError where the claim was not declared.
    """
    folder = paths.drawn() if folder is None else Path(folder)
    check_declared(verdict)
    claim = verdict.claim
    row = {
        "artefact": verdict.artefact,
        "verdict": verdict.verdict,
        "setting": verdict.setting.level,
        "differs": verdict.setting.words,
        "claim": claim.text,
        "source": claim.source,
        "refuted_by": claim.refuted_by,
        "printed": claim.printed,
        "n_seeds": verdict.n_seeds,
        "note": verdict.note,
    }
    parts = [
        {
            "artefact": verdict.artefact,
            "part": answer.part.key,
            "role": answer.part.role,
            "erratum": answer.part.erratum or "",
            "sentence": answer.part.sentence,
            "rule": answer.part.rule.words,
            **asdict(answer.judged),
        }
        for answer in verdict.answers
    ]
    rows = {"parts.csv": parts, "verdicts.csv": [row]}
    recorded.put_rows(folder, verdict.artefact, rows)
    return folder / "verdicts.csv"


def judge(
    claims: Claims,
    evidence: Mapping[str, Mapping[str, Any] | Sequence[Run]],
    *,
    setting: Setting | Mapping[str, Setting] = MappingProxyType({}),
    notes: Mapping[str, str] | None = None,
) -> Page:
    """Judge claims by their evidence, record the verdicts and return them as a notebook's page.

    Claims of which nothing was run are named in one line at its end. Where the verdicts are written
    is said once. With `explored` parameters nothing is judged, and the page says so.

    Parameters
    ----------
    claims : Claims
        Where they are declared.
    evidence : mapping
        Artefact -> what `Claim.judge` takes, or several runs. Of these the nearest to the paper
        judges, with its own setting; what the others found stands below it and decides nothing.
    setting : Setting, or a mapping artefact -> Setting
        How far the run is from the paper's.
    notes : mapping, optional
        Artefact -> a cause that was found, or a deviation.

    Raises
    ------
    ValueError
        If an artefact is not declared, has no setting, or has several runs and a setting of another
        run than the one that judges; as `Claim.judge` and `record`. Nothing is recorded then.
    """
    if explored:
        return Page(
            f"**No verdict**, since {'; '.join(explored)}. Those of the published runs are in "
            "[VERDICTS](../VERDICTS.md)."
        )
    folder = paths.drawn()
    several = {name: runs for name, runs in evidence.items() if not isinstance(runs, Mapping)}
    evidence = dict(evidence) | {name: nearest(runs).evidence for name, runs in several.items()}
    nearer = {name: nearest(runs).setting for name, runs in several.items()}
    if isinstance(setting, Setting):
        setting = dict.fromkeys(set(evidence) - set(several), setting)
    for name, one in nearer.items():
        if setting.get(name, one) != one:
            raise ValueError(f"setting of {name} is that of another run than the nearest, {one}")
    settings = {**setting, **nearer}
    notes = {} if notes is None else notes
    if unknown := (set(settings) | set(notes)) - set(claims):
        raise ValueError(f"{claims.paper} declares no {sorted(unknown)}")
    if without := [artefact for artefact in evidence if artefact not in settings]:
        raise ValueError(f"setting={sorted(settings)} has none for {without}")
    verdicts = [
        claims[artefact].judge(known, setting=settings[artefact], note=notes.get(artefact, ""))
        for artefact, known in evidence.items()
    ]
    # Only when all are judged, so that a bad one leaves the last run's verdicts together.
    for verdict in verdicts:
        record(verdict, folder=folder)
    not_run = [verdict.artefact for verdict in verdicts if not verdict.was_run]
    pages = [
        "\n\n".join([str(verdict), *_looked_at(verdict, several.get(verdict.artefact, ()))])
        for verdict in verdicts
        if verdict.was_run
    ]
    if evidence:
        say_if_unpublished(folder / "verdicts.csv")
    if not_run:
        pages.append(f"**Not run:** {', '.join(not_run)}")
    return Page("\n\n".join(pages))


def all_verdicts(root: Path | str | None = None) -> pd.DataFrame:
    """Return the recorded verdicts, one row per artefact; `root` is `paths.figures()` by default.

    The column `ran` says whether anything was run for it.

    Raises
    ------
    recorded.DamagedTable
        If a table is not what was recorded.
    """
    folder = paths.figures() if root is None else Path(root)
    parts = all_parts(folder)
    ran = set(parts.loc[parts["answer"] != "not run", "artefact"])
    table = recorded.read_table(folder / "verdicts.csv")
    return table.assign(ran=table["artefact"].isin(ran))


def all_parts(root: Path | str | None = None) -> pd.DataFrame:
    """Return the judged parts of the rows of `all_verdicts`, in their order."""
    folder = paths.figures() if root is None else Path(root)
    return recorded.read_table(folder / "parts.csv")


def comparison(rows: Iterable[Mapping]) -> pd.DataFrame:
    """Return the table quantity | ours | paper | difference | share of the paper's.

    Each row is a mapping with quantity, ours and paper. Ours is a number, one number per seed
    (shown as mean +- half of the 95 % interval) or text, and paper a number, text or None.
    """
    columns = ["quantity", "ours", "paper", "difference", "share"]
    return pd.DataFrame([_comparison_row(row) for row in rows], columns=columns)


def markdown(frame: pd.DataFrame) -> str:
    """Return a frame of texts and numbers as a Markdown table."""

    def line(cells: Iterable) -> str:
        texts = [re.sub(r"\s+", " ", str(cell)).replace("|", "\\|") for cell in cells]
        return "| " + " | ".join(texts) + " |"

    rule = "|" + "---|" * len(frame.columns)
    return "\n".join([line(frame.columns), rule, *map(line, frame.itertuples(index=False))])


def paper_values(paper: str) -> pd.DataFrame:
    """Return the numbers transcribed from a paper: artefact, quantity, value, source.

    Raises ValueError on an unknown paper, and on a number without a source.
    """
    file = _printed(paper, "paper", curves=False)
    table = pd.read_csv(file)
    without = table["source"].isna() | (table["source"].astype(str).str.strip() == "")
    if without.any():
        row = table[without].iloc[0]
        raise ValueError(f"{file.name}: {row['artefact']}, {row['quantity']!r} has no source")
    return table


def paper_value(paper: str, artefact: str, quantity: str) -> float:
    """Return one transcribed number.

    Raises ValueError on an unknown paper, artefact or quantity, and where a number of the paper has
    no source.
    """
    table = paper_values(paper)
    checks.choice("artefact", artefact, sorted(set(table["artefact"])))
    found = table[table["artefact"] == artefact].set_index("quantity")["value"]
    return float(found[checks.choice("quantity", quantity, found.index)])


def paper_curve(figure: str) -> pd.DataFrame:
    """Return the authors' own curves of a figure, digitised from its vector graphic.

    Parameters
    ----------
    figure : str
        Such as "sfl-fig10".

    Returns
    -------
    DataFrame
        panel, series, x, y, one row per point (bars have low and high too). Its `attrs` hold
        source, error (of the reading) and axes (what x and y are), as texts.

    Raises
    ------
    ValueError
        If there are no curves of the figure, they have no source or error, or hold a value that is
        no finite number.
    """
    file = _printed(figure, "figure", curves=True)
    table = pd.read_csv(file, comment="#")
    said = dict(re.findall(r"^# (\w+): *(\S.*)$", file.read_text(encoding="utf-8"), re.MULTILINE))
    if missing := [name for name in ("source", "error", "axes") if name not in said]:
        raise ValueError(f"{file.name} has no line '# {missing[0]}: ...'")
    if not np.isfinite(table.drop(columns=["panel", "series"]).to_numpy(float)).all():
        raise ValueError(f"{file.name} holds a value that is no finite number")
    table.attrs.update(said)
    return table


def _printed(name: str, what: str, *, curves: bool) -> Path:
    """Return the file of that name among those that hold curves, or numbers."""
    files = sorted(paths.paper_values().glob("*.csv"))
    known = {file.stem: file for file in files if ("-fig" in file.stem) == curves}
    return known[checks.choice(what, name, known)]


def provenance() -> str:
    """Return one line that says with what a notebook was executed: versions and device.

    With which sources is not said here: `companion.app.fingerprints` executes a notebook again when
    one of them changes, so that it is those of the commit that holds the notebook.
    """
    return " · ".join([*(f"{name} {said}" for name, said in versions_at_hand().items()), device()])


def versions_at_hand() -> dict[str, str]:
    """Return the versions of what numbers and figures depend on, whether it is loaded or not."""
    found = {"sflkit": "", "python": platform.python_version()}
    for name in ("sflkit", "numpy", "pandas", "scipy", "torch", "matplotlib"):
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            found[name] = "not installed"
    return found


def say_if_unpublished(file: Path) -> None:
    """Print where a file was written that is not among the published ones."""
    explored = (paths.out() / "figures", paths.out() / "runs")
    if any(file.is_relative_to(folder) for folder in explored):
        where = file.relative_to(paths.out().parent)
        print(f"{where} written; what is published in figures/ stays as it is")


# --- helpers --------------------------------------------------------------------------------------


def _looked_at(verdict: Verdict, runs: Sequence[Run]) -> list[str]:
    """Return what the runs that do not judge found of a claim, as Markdown."""
    told = []
    for run in runs:
        if run is nearest(runs):
            continue
        mine = [part for part in verdict.claim.parts if part.key in run.evidence]
        lines = [
            f"- {Answer(part, part.rule.judge(run.evidence[part.key])).sentence}" for part in mine
        ]
        heading = f"Looked at, decides nothing ({run.setting.level}: {run.setting.words}):"
        told.append("\n".join([heading, "", *lines]))
    return told


def _comparison_row(row: Mapping) -> dict:
    paper = row.get("paper")
    value, text = _shown(row["ours"])
    number = isinstance(paper, int | float | np.number) and not isinstance(paper, bool)
    difference = share = ""
    if number and value is not None and math.isfinite(value) and math.isfinite(paper):
        # as many digits as the two numbers are shown with
        digits = 3 - math.floor(math.log10(max(abs(value), abs(paper), 1e-300)))
        difference = f"{round(value - paper, digits) + 0.0:+.3g}"
        share = f"{100 * value / paper:.0f} %" if paper else ""
    return {
        "quantity": row["quantity"],
        "ours": text,
        "paper": f"{paper:.4g}" if number else paper or "not stated",
        "difference": difference,
        "share": share,
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
