"""The notebooks as pages: their committed outputs as they stand, their links turned.

A browser that reads the site has no kernel. Where a cell's output is a live widget, a sentence says
how to get it; the picture of the same thing that every explorer has beside it stays.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

from companion.app import documents, gate
from companion.app.artefacts import PAPERS
from docs.site.records import OTHER, Records
from docs.site.sources import PAGES, Sources, templates

KERNEL = "python3"
_README = "notebooks/README.md"
_LIVE = "application/vnd.jupyter.widget-view+json"
_NO_KERNEL = (
    "*The explorer itself needs a running kernel: open this notebook with `make lab`. "
    "A picture of the same thing stands beside it.*"
)
_PAPERS = {  # the first digit of a notebook's number
    "0": ("Start here", "A walk through all four papers, for which you need nothing beforehand."),
    "1": ("sfl", "What a small cache should keep of a stream, and what that does to training."),
    "2": ("ds", "How much old data should count beside new data."),
    "3": (
        "osafl",
        "Who can take part when energy and time are short, and whom to trust.",
    ),
    "4": ("fats", "How to forget a person exactly, and what it costs to be able to."),
    "9": ("Across the papers", "All verdicts, all errata, what no paper has, and your own data."),
}


def add(sources: Sources, records: Records) -> None:
    """Add the index of notebooks, the notebooks and their solutions."""
    books = gate.notebooks()
    solutions = sorted((sources.root / "notebooks" / "solutions").glob("*.ipynb"))
    worksheets = sorted((sources.root / "notebooks" / "worksheets").glob("*.ipynb"))
    for path in [*(book.path for book in books), *solutions, *worksheets]:
        file = path.relative_to(sources.root).as_posix()
        try:
            content = documents.read_notebook(path)
        except gate.GateError as error:
            sources.problem(file, "", str(error))
            continue
        check_kernel(sources, file, content)
        sources.add(file, json.dumps(page(content, file, sources), ensure_ascii=False), file)
    text = index(sources.root, books, [path.stem for path in solutions], records)
    sources.add(PAGES[_README], sources.rewrite(text, _README, PAGES[_README]), _README)


def check_kernel(sources: Sources, file: str, content: dict[str, Any]) -> None:
    """Note a problem if a notebook asks for another kernel than the one that everybody has."""
    kernel = content["metadata"].get("kernelspec", {}).get("name")
    if kernel != KERNEL:
        sources.problem(
            file,
            f'"name": "{kernel}"',
            f"the notebook names the kernel {kernel!r}; it must be {KERNEL!r}, which every "
            "installation has",
        )


def page(content: dict[str, Any], file: str, sources: Sources) -> dict[str, Any]:
    """Return a notebook as Sphinx is to read it."""
    cells = []
    for cell in content["cells"]:
        metadata = dict(cell["metadata"])
        tags = list(metadata.get("tags", []))
        hidden = metadata.get("jupyter", {})
        tags += ["hide-input"] if hidden.get("source_hidden") else []
        tags += ["hide-output"] if hidden.get("outputs_hidden") else []
        cell = {**cell, "metadata": {**metadata, "tags": tags}}
        if cell["cell_type"] == "markdown":
            cell["source"] = sources.rewrite(_joined(cell["source"]), file, file)
        else:
            cell["outputs"] = [_output(out, file, sources) for out in cell.get("outputs", [])]
        cells.append(cell)
    return {**content, "cells": cells}


def _output(output: dict[str, Any], file: str, sources: Sources) -> dict[str, Any]:
    data = dict(output.get("data", {}))
    if not data:
        return output
    if _LIVE in data:
        data = {"text/markdown": _NO_KERNEL}
    elif "text/markdown" in data:
        # a rule between two claims is fine in a notebook, but not in the middle of Sphinx's page
        text = re.sub(r"^---+[ \t]*$", "<hr>", _joined(data["text/markdown"]), flags=re.M)
        data = {**data, "text/markdown": sources.rewrite(text, file, file, output=True)}
    elif "text/html" in data:
        html = sources.rewrite_html(_joined(data["text/html"]), file, file)
        data = {**data, "text/html": html}
    return {**output, "data": data}


def index(root: Path, books: list[gate.Notebook], solutions: list[str], records: Records) -> str:
    """Return the page of notebooks: the learning paths, then all of them by paper."""
    text = (root / _README).read_text(encoding="utf-8") if (root / _README).is_file() else ""
    paths = re.search(r"^## Learning paths$.*?(?=^## |\Z)", text, re.M | re.S)
    parts = []
    for digit, (name, about) in _PAPERS.items():
        mine = [(book, _told(book, records)) for book in books if book.number.startswith(digit)]
        if mine:
            parts.append({"name": PAPERS.get(name, name), "about": about, "books": mine})
    page = templates().get_template("notebooks.md.j2")
    paths = paths[0].strip() if paths else ""
    worksheets = [path.stem for path in sorted((root / "notebooks/worksheets").glob("*.ipynb"))]
    return page.render(paths=paths, parts=parts, solutions=solutions, worksheets=worksheets)


def _told(book: gate.Notebook, records: Records) -> str:
    """Return a notebook's minutes and how its claims came out, in brackets."""
    found = Counter(
        artefact.verdict.verdict
        for artefact in records.judged
        if artefact.notebook is not None
        and artefact.notebook.name == book.name
        and artefact.paper != OTHER
    )
    told = ", ".join(f"{count} {verdict}" for verdict, count in found.items())
    minutes = f"{book.minutes:g} min" if book.minutes else ""
    rest = "; ".join(text for text in (minutes, told) if text)
    return f" ({rest})" if rest else ""


def _joined(source: str | list[str]) -> str:
    return source if isinstance(source, str) else "".join(source)
