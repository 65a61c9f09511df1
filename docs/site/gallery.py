"""The gallery: every figure by paper and number, with its verdict and what the paper prints."""

from __future__ import annotations

import io
from pathlib import Path

from companion.app.artefacts import PAPERS
from docs.site.records import OTHER, Artefact, Records
from docs.site.sources import Sources, page_of_claim, plain
from docs.site.verdicts import badge

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
        cards = "\n\n".join(_card(artefact) for artefact in figures)
        sources.add(
            f"gallery/{paper}.md",
            f"# {_TITLES[paper]}: {len(figures)} figures\n\n"
            "A figure leads to its claim, the numbers behind it, and the notebook that draws it.\n"
            f"\n::::{{grid}} 1 1 2 2\n:gutter: 3\n\n{cards}\n\n::::\n",
        )
        for artefact in figures:
            sources.add(f"gallery/small/{artefact.name}.png", small(sources.root / artefact.figure))
            sources.add(artefact.figure, (sources.root / artefact.figure).read_bytes())
    sources.add("gallery/index.md", _index(shown))


def small(file: Path) -> bytes:
    """Return a figure as a png of at most `_THUMB` pixels and 64 colours."""
    from PIL import Image

    with Image.open(file) as image:
        image = image.convert("RGB")
        image.thumbnail(_THUMB, reducing_gap=2.0)
        target = io.BytesIO()
        image.quantize(64, method=Image.Quantize.FASTOCTREE).save(target, "png")
    return target.getvalue()


def _index(shown: dict[str, list[Artefact]]) -> str:
    cards = "\n\n".join(
        f":::{{grid-item-card}} {_TITLES[paper]}\n:link: {paper}\n:link-type: doc\n"
        f":img-top: small/{figures[0].name}.png\n:img-alt: {_alt(figures[0])}\n"
        f":class-card: door\n\n{len(figures)} figures\n:::"
        for paper, figures in shown.items()
    )
    entries = "\n".join(shown)
    return (
        "# Gallery\n\nEvery figure that the notebooks draw, by paper and number, with the verdict "
        "on its claim and the numbers that the paper prints.\n\n"
        f"::::{{grid}} 1 2 2 2\n:gutter: 3\n\n{cards}\n\n::::\n\n"
        f"```{{toctree}}\n:hidden:\n\n{entries}\n```\n"
    )


def _card(artefact: Artefact) -> str:
    row = artefact.verdict
    if row is not None:
        link = f":link: ../{page_of_claim(artefact.name).removesuffix('.md')}\n:link-type: doc\n"
    elif artefact.notebook is not None:
        link = f":link: ../notebooks/{artefact.notebook.name}\n:link-type: doc\n"
    else:
        link = ""
    told = [badge(row.verdict)] if row is not None else []
    told.append(plain(artefact.caption))
    if row is not None and row.printed:
        told.append(f"**The paper prints:** {plain(row.printed)}")
    if artefact.notebook is not None:
        told.append(f"*Notebook {artefact.notebook.number}*")
    return (
        f":::{{grid-item-card}} {plain(artefact.label)}\n{link}"
        f":img-top: small/{artefact.name}.png\n:img-alt: {_alt(artefact)}\n:class-card: figure\n\n"
        + "\n\n".join(told)
        + "\n:::"
    )


def _alt(artefact: Artefact) -> str:
    return " ".join(artefact.caption.split()) or artefact.label
