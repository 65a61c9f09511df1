"""What is generated in a notebook: its exercise, and the line that leads to its neighbours.

The line is made from the file names in `notebooks/`, stands below the title and in a cell of its
own at the end. `sflkit refresh` writes both (with `--links` nothing is executed).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from companion import teaching
from sflkit import paths

INDEX = "[all notebooks](README.md)"
TAG = "links"
_NAMES = {"sfl": "SFL", "ds": "data streams:", "osafl": "OSAFL", "fats": "FATS"}


def line(book: Path) -> str:
    """Return the line for the notebook `book`, whose neighbours lie in its folder."""
    books = sorted(book.parent.glob("[0-9][0-9]_*.ipynb"))
    place = books.index(book)
    parts = [INDEX]
    if place > 0:
        parts.insert(0, f"← {_link(books[place - 1])}")
    if place + 1 < len(books):
        parts.append(f"{_link(books[place + 1])} →")
    return " · ".join(parts)


def _link(book: Path) -> str:
    number, paper, *words = book.stem.split("_")
    return f"[{' '.join([number, _NAMES.get(paper, paper), *words])}]({book.name})"


def put(content: Any, book: Path) -> None:
    """Write exercise and line of `book` into `content`, nbformat's NotebookNode, in place.

    A notebook without a title cell, and one that is no numbered notebook, such as a solution, stays
    as it is.
    """
    import nbformat

    titles = [cell for cell in content.cells if "title" in cell.metadata.get("tags", [])]
    if not titles or not book.stem[:2].isdigit() or book.parent.name != "notebooks":
        return
    text = line(book)
    kept = [row for row in titles[0].source.splitlines() if INDEX not in row]
    titles[0].source = "\n".join([*kept, "", text] if kept[-1] else [*kept, text])
    last = content.cells[-1]
    if TAG not in last.metadata.get("tags", []):
        last = nbformat.v4.new_markdown_cell(id=TAG, metadata={"tags": [TAG]})
        content.cells.append(last)
    last.source = text
    if exercise := teaching.EXERCISES.get(book.stem[:2]):
        teaching.cells.put(content, exercise)


def write(book: Path) -> bool:
    """Bring what is generated in the file `book` up to date; return whether it changed."""
    import nbformat

    content = nbformat.read(book, as_version=4)
    put(content, book)
    text = nbformat.writes(content) + "\n"
    changed = text != book.read_text(encoding="utf-8")
    if changed:
        paths.write_atomic(book, text)
    return changed
