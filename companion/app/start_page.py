"""The blocks of notebooks/README.md, on which JupyterLab opens: where each figure and table is.

`index` names them in a line a paper; `gallery` shows them with picture, verdict and notebook.
"""

from __future__ import annotations

from typing import Any

from companion.app import gate
from companion.app.artefacts import PAPERS, anchor, by_paper, full_name, name_of, says, short_name
from companion.judging import tables

_WIDTH = 300  # pixels of a thumbnail
_COLUMNS = {"Figure": "figures", "Table": "tables"}
_STATEMENTS = ("Algorithm", "Proposition", "Lemma", "Theorem", "Corollary")
_PLACES = ("figures", "tables", "statements")


def index() -> str:
    """Return a table paper x kind whose numbers lead to the notebooks.

    A table stands further down in its notebook, so that a square beside it leads to its picture.
    """
    books, figures = gate.by_artefact(), gate.root() / "figures"
    lines = [f"| | {' | '.join(_PLACES)} |", "|---|---|---|---|"]
    for paper, rows in by_paper(tables.all_verdicts()).items():
        cells: dict[str, list[str]] = {name: [] for name in _PLACES}
        for artefact in (row.artefact for row in rows if row.artefact in books):
            kind, _, number = name_of(artefact).partition(" ")
            if ", " not in number and kind in (*_COLUMNS, *_STATEMENTS):
                shown = number if kind in _COLUMNS else short_name(artefact)
                link = f"[{shown}]({books[artefact].path.name})"
                if kind == "Table" and (figures / f"{artefact}.png").is_file():
                    link += f" [▣](../figures/{artefact}.png)"
                cells[_COLUMNS.get(kind, "statements")].append(link)
        lines.append(f"| **{PAPERS[paper]}** | {' | '.join(map(' '.join, cells.values()))} |")
    return "\n".join(lines)


def gallery() -> str:
    """Return the figures and tables of each paper as pictures, with their verdicts."""
    books, parts, figures = gate.by_artefact(), [], gate.root() / "figures"
    for paper, rows in by_paper(tables.all_verdicts()).items():
        lines = [f"### {PAPERS[paper]}", "", "| | |", "|---|---|"]
        lines += [
            _line(row, books[row.artefact].path.name)
            for row in rows
            if name_of(row.artefact).partition(" ")[0] in _COLUMNS
            and row.artefact in books
            and (figures / f"{row.artefact}.png").is_file()
        ]
        parts.append("\n".join(lines))
    return "\n\n".join(parts)


def _line(row: Any, book: str) -> str:
    """Return a picture that leads to its notebook, and what there is to say of it in a line."""
    name, short = full_name(row.artefact), says(row.artefact)
    picture = (
        f'<a href="{book}"><img src="../figures/{row.artefact}.png" width="{_WIDTH}" '
        f'alt="{name}"></a>'
    )
    verdict = f"[{row.verdict}](../VERDICTS.md#{anchor(row.artefact)})"
    return f"| {picture} | **{name}**, {verdict}<br>{short}<br>[notebook {book[:2]}]({book}) |"
