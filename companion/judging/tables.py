"""Verdicts in files, tables ours beside paper, and the papers' transcribed numbers.

In figures/<profile>/, verdicts.csv has one row per artefact and parts.csv one row per part of its
claim. Both are written under a lock, so that notebooks may run side by side.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from companion.judging import seals
from companion.judging.claims import SETTINGS, Claims, Page, Setting, Verdict, check_declared
from sflkit import checks, paths
from sflkit.results.intervals import mean_interval
from sflkit.results.origin import commit, device, versions

# --- verdicts and tables --------------------------------------------------------------------------


def record(verdict: Verdict, *, folder: Path | str | None = None) -> Path:
    """Put a verdict into verdicts.csv and its parts into parts.csv; return the former.

    The folder is `paths.drawn(profile)` unless given; where that is not the folder of the published
    verdicts, a line says so. Raises ValueError where the claim was not declared, or the profile is
    no id.
    """
    folder = paths.drawn(verdict.profile) if folder is None else Path(folder)
    _put(verdict, folder)
    say_if_unpublished(folder / "verdicts.csv", verdict.profile)
    return folder / "verdicts.csv"


def _put(verdict: Verdict, folder: Path) -> None:
    """Write the rows of a verdict; see `record`."""
    check_declared(verdict)
    profile = paths.check_profile(verdict.profile)
    claim = verdict.claim
    row = {
        "artefact": verdict.artefact,
        "verdict": verdict.verdict,
        "setting": verdict.setting.level,
        "differs": verdict.setting.differs,
        "claim": claim.text,
        "source": claim.source,
        "refuted_by": claim.refuted_by,
        "printed": claim.printed,
        "n_seeds": verdict.n_seeds,
        "profile": profile,
        "note": verdict.note,
    }
    parts = _part_rows(verdict)
    row[seals.SEAL] = seals.seal(row, parts)
    with paths.lock(folder / "verdicts.csv"):
        seals.upsert_rows(folder / "parts.csv", verdict.artefact, parts)
        seals.upsert_rows(folder / "verdicts.csv", verdict.artefact, [row])


def judge(
    claims: Claims,
    evidence: Mapping[str, Mapping[str, Any]],
    *,
    setting: Setting | Mapping[str, Setting],
    profile: str,
    notes: Mapping[str, str] | None = None,
) -> Page:
    """Judge claims by their evidence, record the verdicts and return them as a notebook's page.

    Claims of which nothing was run are named in one line at its end. Where the verdicts are written
    is said once, see `record`.

    Parameters
    ----------
    claims : Claims
        Where they are declared.
    evidence : mapping
        Artefact -> what `Claim.judge` takes.
    setting : Setting, or a mapping artefact -> Setting
        How far the run is from the paper's.
    profile : str
        See `record`.
    notes : mapping, optional
        Artefact -> a cause that was found, or a deviation.

    Raises
    ------
    ValueError
        If an artefact is not declared, or has no setting; as `Claim.judge` and `record`. Nothing
        is recorded then.
    """
    folder = paths.drawn(profile)
    settings = dict.fromkeys(evidence, setting) if isinstance(setting, Setting) else setting
    notes = {} if notes is None else notes
    if unknown := (set(settings) | set(notes)) - set(claims):
        raise ValueError(f"{claims.paper} declares no {sorted(unknown)}")
    if without := [artefact for artefact in evidence if artefact not in settings]:
        raise ValueError(f"setting={sorted(settings)} has none for {without}")
    verdicts = [
        claims[artefact].judge(
            known, setting=settings[artefact], profile=profile, note=notes.get(artefact, "")
        )
        for artefact, known in evidence.items()
    ]
    # Only when all are judged, so that a bad one leaves the last run's verdicts together.
    for verdict in verdicts:
        _put(verdict, folder)
    not_run = [verdict.artefact for verdict in verdicts if not verdict.was_run]
    pages = [str(verdict) for verdict in verdicts if verdict.was_run]
    if evidence:
        say_if_unpublished(folder / "verdicts.csv", profile)
    if not_run:
        pages.append(f"**Not run in this profile:** {', '.join(not_run)}")
    return Page("\n\n---\n\n".join(pages))


def all_verdicts(root: Path | str | None = None) -> pd.DataFrame:
    """Return the recorded verdicts, one row per artefact: that of the run nearest to the paper's.

    The column `ran` says whether anything was run for it.

    A row that was run counts before one that was not, a `full` setting before a `reduced` one and
    that before a `stand-in`, and the paper profile before the quick one.

    Raises
    ------
    seals.DamagedTable
        If a row, or its parts, are not what was recorded.
    """
    root = paths.figures_root() if root is None else Path(root)
    rows = []
    for file in sorted(root.glob("*/verdicts.csv")):
        if wrong := seals.verdict_damages(file.parent):
            raise seals.DamagedTable(
                f"{wrong[0]}; `sflkit figures --profile {file.parent.name}` mends it"
            )
        parts = seals.read_table(file.parent / "parts.csv")
        ran = set(parts.loc[parts["answer"] != "not run", "artefact"])
        found = seals.read_table(file).to_dict("records")
        rows += [row | {"ran": row["artefact"] in ran} for row in found]
    rank = {"paper": 0, "quick": 1}
    rows.sort(
        key=lambda row: (
            seals.natural_key(row["artefact"]),
            not row["ran"],
            SETTINGS.index(row["setting"]) if row["setting"] in SETTINGS else len(SETTINGS),
            rank.get(row["profile"], 2),
        )
    )
    return (
        pd.DataFrame(rows, columns=[*seals.COLUMNS["verdicts.csv"], "ran"])
        .astype({"ran": bool})
        .drop_duplicates("artefact")
        .reset_index(drop=True)
    )


def all_parts(root: Path | str | None = None) -> pd.DataFrame:
    """Return the judged parts of the rows of `all_verdicts`, in their order."""
    root = paths.figures_root() if root is None else Path(root)
    tables = {}
    frames = []
    for row in all_verdicts(root).itertuples():
        file = root / row.profile / "parts.csv"
        if file not in tables:
            tables[file] = seals.read_table(file) if file.is_file() else pd.DataFrame()
        table = tables[file]
        if len(table):
            frames.append(table[table["artefact"] == row.artefact])
    return pd.concat(
        [pd.DataFrame(columns=list(seals.COLUMNS["parts.csv"])), *frames], ignore_index=True
    )


def comparison(rows: Iterable[Mapping]) -> pd.DataFrame:
    """Return the table quantity | ours | paper | difference.

    Each row is a mapping with quantity, ours and paper. Ours is a number, one number per seed
    (shown as mean +- half of the 95 % interval) or text, and paper a number, text or None.
    """
    columns = ["quantity", "ours", "paper", "difference"]
    return pd.DataFrame([_comparison_row(row) for row in rows], columns=columns)


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

    Raises ValueError on an unknown paper, and on a number without a source.
    """
    file = _printed(paper, "paper", [p for p in _printed_files() if "-fig" not in p.stem])
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
    table = table[
        table["artefact"] == checks.choice("artefact", artefact, sorted(set(table["artefact"])))
    ]
    return float(
        table.set_index("quantity")["value"][checks.choice("quantity", quantity, table["quantity"])]
    )


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
    file = _printed(figure, "figure", [p for p in _printed_files() if "-fig" in p.stem])
    table = pd.read_csv(file, comment="#")
    said = dict(re.findall(r"^# (\w+): *(\S.*)$", file.read_text(encoding="utf-8"), re.MULTILINE))
    if missing := [name for name in ("source", "error", "axes") if name not in said]:
        raise ValueError(f"{file.name} has no line '# {missing[0]}: ...'")
    if not np.isfinite(table.drop(columns=["panel", "series"]).to_numpy(float)).all():
        raise ValueError(f"{file.name} holds a value that is no finite number")
    table.attrs.update(said)
    return table


def _printed_files() -> list[Path]:
    return sorted(paths.paper_values().glob("*.csv"))


def _printed(name: str, what: str, files: list[Path]) -> Path:
    """Return the one of `files` that is called `name`."""
    known = {file.stem: file for file in files}
    if name not in known:
        there = ", ".join(map(repr, known)) or f"the tables in {paths.paper_values()}: none"
        raise ValueError(f"{what}={name!r} must be one of {there}")
    return known[name]


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


def say_if_unpublished(file: Path, profile: str) -> None:
    """Print where a file was written that is not among the published ones."""
    if file.parent == paths.out() / "figures" / profile:
        where = file.relative_to(paths.out().parent)
        print(f"{where} written; what is published in figures/ stays as it is")


# --- helpers --------------------------------------------------------------------------------------


def _part_rows(verdict: Verdict) -> list[dict]:
    return [
        {
            "artefact": verdict.artefact,
            "part": answer.part.key,
            "role": answer.part.role,
            "erratum": answer.part.erratum or "",
            "sentence": answer.part.sentence,
            "rule": answer.part.rule.words,
            "answer": answer.judged.answer,
            "ours": answer.judged.ours,
            "interval": answer.judged.interval,
            "n_seeds": answer.judged.n_seeds,
            "hint": answer.judged.hint,
            "size": answer.judged.size,
            "levels": answer.judged.levels,
        }
        for answer in verdict.answers
    ]


def _comparison_row(row: Mapping) -> dict:
    paper = row.get("paper")
    value, text = _shown(row["ours"])
    number = isinstance(paper, int | float | np.number) and not isinstance(paper, bool)
    difference = ""
    if number and value is not None and math.isfinite(value) and math.isfinite(paper):
        # as many digits as the two numbers are shown with
        digits = 3 - math.floor(math.log10(max(abs(value), abs(paper), 1e-300)))
        difference = f"{round(value - paper, digits) + 0.0:+.3g}"
    return {
        "quantity": row["quantity"],
        "ours": text,
        "paper": f"{paper:.4g}" if number else paper or "not stated",
        "difference": difference,
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
