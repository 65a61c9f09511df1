"""What a deck shows of a paper's notebooks: one notebook whose cells say on which slide they are.

The tags of a notebook's cells decide, so that nothing has to be kept up to date by hand:

| tag                    | on the slides                                               |
|------------------------|-------------------------------------------------------------|
| `title`                | a new column: the heading and the first paragraph           |
| `answer`               | below it                                                    |
| code with a picture    | the picture, without the code; several pictures, as many    |
| untagged Markdown      | its heading begins a slide; text before the heading stays   |
|                        | with the picture before it                                  |
| `exercise`             | the question, last                                          |
| everything else        | left out, `widget` too; a table of the recorded verdicts    |
|                        | stands for the section on verdicts                          |

Links to other files lose their target, since a deck is read away from the clone.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import nbformat
import pandas as pd
from nbformat import NotebookNode

from companion.app.artefacts import name_of
from companion.judging import tables

PAPERS = {
    "sfl": ("1", "On the local cache update rules in streaming federated learning"),
    "datastreams": ("2", "Federated learning for data streams"),
    "osafl": ("3", "Online-score-aided federated learning"),
    "fats": ("4", "Communication efficient and provable federated unlearning"),
}
_LINK = re.compile(r"(?<!!)\[([^\]]+)\]\((?!https?://)[^)]*\)")
_HEADING = re.compile(r"^(?=#{1,4} )", re.MULTILINE)
_LONGEST = 700  # characters of text on a slide


def deck(paper: str, folder: Path) -> NotebookNode:
    """Return the deck of a paper from the notebooks in `folder`.

    Raises
    ------
    ValueError
        If there is no such paper, or none of its notebooks is there.
    """
    if paper not in PAPERS:
        raise ValueError(f"paper={paper!r} must be one of {', '.join(map(repr, PAPERS))}")
    digit, title = PAPERS[paper]
    books = sorted(folder.glob(f"{digit}[0-9]_*.ipynb"))
    if not books:
        raise ValueError(f"{folder} has no notebook of {paper}")
    verdicts = tables.all_verdicts().set_index("artefact")
    about = (
        f"# {title}\n\nWhat the executable companion found, notebook by notebook.\n\n"
        "Arrow right: the next notebook. Arrow down: deeper into this one. Esc: all slides."
    )
    cells = [_text(about, "slide")]
    for book in books:
        cells += _slides(nbformat.read(book, as_version=4), verdicts)
    for number, cell in enumerate(cells):
        cell.id = f"slide-{number}"
    return nbformat.v4.new_notebook(cells=cells, metadata={"title": title})


def _slides(notebook: NotebookNode, verdicts: pd.DataFrame) -> Iterator[NotebookNode]:
    """Yield the cells of one notebook's slides."""
    last: list[NotebookNode] = []
    for cell in notebook.cells:
        tags = cell.metadata.get("tags", [])
        if "title" in tags:
            yield _text(_opening(cell.source), "slide")
        elif "answer" in tags:
            yield _text(_cut(cell.source), "subslide")
        elif cell.cell_type == "code" and "widget" not in tags:
            for output in cell.outputs:
                if "image/png" in output.get("data", {}):
                    yield _picture(output.data["image/png"])
        elif "exercise" in tags:
            last = [_text(_cut(cell.source), "subslide")]
        elif cell.cell_type == "markdown" and not tags and "check" not in cell.get("id", ""):
            yield from _sections(cell.source)
    yield from _verdicts(notebook.metadata.get("sflkit", {}).get("artefacts", []), verdicts)
    yield from last


def _sections(source: str) -> Iterator[NotebookNode]:
    """Yield a Markdown cell in parts: a heading begins a slide, what comes before it stays."""
    for part in filter(str.strip, _HEADING.split(source)):
        if part.startswith("## Verdicts"):
            continue
        yield _text(_cut(part), "subslide" if part.startswith("#") else "-")


def _verdicts(artefacts: list[str], verdicts: pd.DataFrame) -> Iterator[NotebookNode]:
    rows = [
        {"claim": name_of(name), "verdict": verdicts.loc[name, "verdict"],
         "setting": verdicts.loc[name, "setting"]}
        for name in artefacts
        if name in verdicts.index
    ]  # fmt: skip
    for start in range(0, len(rows), 10):
        table = tables.markdown(pd.DataFrame(rows[start : start + 10]))
        yield _text(f"## What came out\n\n{table}", "subslide")


def _opening(source: str) -> str:
    """Return the heading and the first paragraph that says more than what is reproduced."""
    heading, *paragraphs = source.split("\n\n")
    said = [text for text in paragraphs if not text.startswith(("**Paper", "**Artefacts", "←"))]
    return _cut("\n\n".join([heading, *said[:1]]))


def _cut(source: str) -> str:
    """Return the first paragraphs, as many as fit on a slide; links lose their targets."""
    blocks = _LINK.sub(r"\1", source.strip()).split("\n\n")
    kept, length = blocks[:1], len(blocks[0])
    for block in blocks[1:]:
        length += len(block)
        if length > _LONGEST and len(kept) > 1:
            break
        kept.append(block)
    return "\n\n".join(kept)


def _text(source: str, slide: str) -> NotebookNode:
    return nbformat.v4.new_markdown_cell(source, metadata={"slideshow": {"slide_type": slide}})


def _picture(png: str) -> NotebookNode:
    output = nbformat.v4.new_output("display_data", {"image/png": png})
    metadata = {"slideshow": {"slide_type": "subslide"}}
    return nbformat.v4.new_code_cell("", outputs=[output], metadata=metadata, execution_count=None)
