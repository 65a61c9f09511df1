"""The blocks of notebooks/README.md, on which JupyterLab opens: where each figure and table is.

`index` names them in a line a paper; `gallery` shows them with picture, verdict and notebook.
"""

from __future__ import annotations

from typing import Any

from companion.app import gate, verdict_page
from companion.app.artefacts import (
    PAPERS,
    anchor,
    full_name,
    name_of,
    ordered,
    paper_of,
    papers_of,
    short_name,
)
from companion.judging import tables

_WIDTH = 300  # pixels of a thumbnail
_KINDS = ("Figure", "Table", "Algorithm", "Proposition", "Lemma", "Theorem", "Corollary")


def _books() -> dict[str, gate.Notebook]:
    return {name: book for book in gate.notebooks() for name in book.artefacts}


def _by_paper() -> dict[str, list[Any]]:
    """Return the rows of the verdicts by paper, figures first, as `artefacts.ordered` has them."""
    rows = tables.all_verdicts()
    return {paper: ordered(rows[paper_of(rows) == paper]) for paper in papers_of(rows)}


def index() -> str:
    """Return a table paper x kind whose numbers lead to the notebooks."""
    books = _books()
    lines = ["| | figures | tables | statements |", "|---|---|---|---|"]
    for paper, rows in _by_paper().items():
        cells: dict[str, list[str]] = {}
        for row in rows:
            kind, _, number = name_of(row.artefact).partition(" ")
            if kind not in _KINDS or row.artefact not in books or ", " in number:
                continue
            place = {"Figure": "figures", "Table": "tables"}.get(kind, "statements")
            shown = short_name(row.artefact) if place == "statements" else number
            cells.setdefault(place, []).append(f"[{shown}]({books[row.artefact].path.name})")
        found = (" ".join(cells.get(name, [])) for name in ("figures", "tables", "statements"))
        lines.append(f"| **{PAPERS[paper]}** | {' | '.join(found)} |")
    return "\n".join(lines)


def gallery() -> str:
    """Return the figures and tables of each paper as pictures, with their verdicts."""
    books, parts = _books(), []
    for paper, rows in _by_paper().items():
        lines = [f"### {PAPERS[paper]}", "", "| | |", "|---|---|"]
        for row in rows:
            drawn = gate.root() / "figures" / f"{row.artefact}.png"
            kind = name_of(row.artefact).partition(" ")[0]
            if kind in ("Figure", "Table") and row.artefact in books and drawn.is_file():
                lines.append(_line(row, books[row.artefact].path.name))
        parts.append("\n".join(lines))
    return "\n\n".join(parts)


def _line(row: Any, book: str) -> str:
    """Return a picture that leads to its notebook, and what there is to say of it in a line."""
    name, short = full_name(row.artefact), verdict_page.in_short().get(row.artefact, "")
    picture = (
        f'<a href="{book}"><img src="../figures/{row.artefact}.png" width="{_WIDTH}" '
        f'alt="{name}"></a>'
    )
    verdict = f"[{row.verdict}](../VERDICTS.md#{anchor(row.artefact)})"
    return f"| {picture} | **{name}**, {verdict}<br>{short}<br>[notebook {book[:2]}]({book}) |"
