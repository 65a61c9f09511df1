"""The gallery: every figure by paper and number, with its verdict and what the paper prints."""

from __future__ import annotations

import io
from pathlib import Path

from companion.app.artefacts import PAPERS
from docs.site.records import OTHER, Records
from docs.site.sources import Sources, templates

_THUMB = (760, 560)  # pixels; twice what a card shows, for screens with small ones
_TITLES = {**PAPERS, OTHER: "The tour, and beyond the papers"}


def add(sources: Sources, records: Records) -> None:
    """Add the gallery's pages, one per paper, with small copies of the figures."""
    shown = {
        paper: figures
        for paper in _TITLES
        if (figures := [artefact for artefact in records.of(paper) if artefact.figure])
    }
    for paper, figures in shown.items():
        page = templates().get_template("gallery.md.j2")
        page = page.render(title=_TITLES[paper], figures=figures)
        sources.add(f"gallery/{paper}.md", page)
        for artefact in figures:
            sources.add(f"gallery/small/{artefact.name}.png", small(sources.root / artefact.figure))
            sources.add(artefact.figure, (sources.root / artefact.figure).read_bytes())
    index = templates().get_template("gallery_index.md.j2").render(shown=shown, titles=_TITLES)
    sources.add("gallery/index.md", index)


def small(file: Path) -> bytes:
    """Return a figure as a png of at most `_THUMB` pixels and 64 colours."""
    from PIL import Image

    with Image.open(file) as image:
        image = image.convert("RGB")
        image.thumbnail(_THUMB, reducing_gap=2.0)
        target = io.BytesIO()
        image.quantize(64, method=Image.Quantize.FASTOCTREE).save(target, "png")
    return target.getvalue()
