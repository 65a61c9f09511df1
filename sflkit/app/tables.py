"""The README's generated tables: notebooks (from their metadata) and verdicts (from figures/*/verdicts.csv)."""

from __future__ import annotations

import pandas as pd

from sflkit import paths, report
from sflkit.app import gate


def notebooks() -> str:
    """Return the table of notebooks as Markdown."""
    return report.markdown(pd.DataFrame(
        [(book.number, f"[{book.title}](notebooks/{book.path.name})", ", ".join(book.artefacts) or "-",
          f"{book.minutes:g}" if book.minutes else "-") for book in gate.notebooks()],
        columns=["no.", "notebook", "reproduces", "minutes"]))


def verdicts() -> str:
    """Return the verdicts as text for a terminal."""
    rows = report.all_verdicts()
    if rows.empty:
        return "no verdicts yet: `make figures` writes them"
    width = max(map(len, rows["artefact"]))
    return "\n".join(f"{row.artefact:<{width}}  {row.verdict:<14}  {row.profile:<6}  {row.claim}" for row in rows.itertuples())


def count_verdicts(profile: str) -> int:
    """Return how many verdicts a profile has."""
    file = paths.figures(profile) / "verdicts.csv"
    return len(pd.read_csv(file)) if file.is_file() else 0


def refresh_readme(check: bool = False) -> bool:
    """Bring the README's tables up to date and return whether they were; with `check` only look."""
    try:
        return report.refresh_readme(gate.root() / "README.md", check=check, blocks={"notebooks": notebooks})
    except (OSError, ValueError) as error:
        raise gate.GateError(f"cannot refresh the README's tables: {error}") from None
