"""The verdict pages: a table of all claims that can be filtered, and a page for each claim."""

from __future__ import annotations

from typing import Any

from companion.app import readme, verdict_page
from companion.app.artefacts import PAPERS
from companion.judging import tables
from docs.site.records import Artefact, Records, paper_values
from docs.site.sources import PAGES, Sources, page_of, page_of_claim, plain, relative

_INDEX = PAGES["VERDICTS.md"]


def add(sources: Sources, records: Records) -> None:
    """Add the table of verdicts and one page per claim."""
    for artefact in records.judged:
        sources.add(page_of_claim(artefact.name), claim_page(sources, artefact))
    sources.add(_INDEX, index(sources, records))


def badge(verdict: str) -> str:
    """Return a verdict as a coloured word."""
    return f'<span class="verdict {verdict.replace(" ", "-")}">{verdict}</span>'


def index(sources: Sources, records: Records) -> str:
    """Return the page with the table of all claims."""
    lines = ["| claim | paper | verdict | setting | what it says |", "|---|---|---|---|---|"]
    lines += [
        f"| [{plain(artefact.label)}]({artefact.name}.md) | {PAPERS[artefact.paper]} "
        f"| {badge(artefact.verdict.verdict)} | {artefact.verdict.setting} "
        f"| {' '.join(plain(artefact.verdict.claim).split())} |"
        for artefact in records.judged
    ]
    entries = "\n".join(artefact.name for artefact in records.judged)
    guide = relative(page_of("docs/guides/verdicts.md"), _INDEX)
    return "\n\n".join(
        [
            "# Verdicts",
            "Every claim that we judge, and how it came out. A *full* setting is the paper's own, "
            "a *reduced* one says what differs, and a *stand-in* shows the mechanism on "
            f"other data or a smaller network. [How claims are judged]({guide}) explains the "
            "verdicts.",
            readme.tally(),
            "## All claims",
            "```{container} filterable\n" + "\n".join(lines) + "\n```",
            f"```{{toctree}}\n:hidden:\n:maxdepth: 1\n\n{entries}\n```",
        ]
    )


def claim_page(sources: Sources, artefact: Artefact) -> str:
    """Return the page of one claim: what VERDICTS.md says of it, and what there is besides."""
    row = artefact.verdict
    blocks = [
        f"# {plain(artefact.label)} of {PAPERS[artefact.paper]}",
        f"{badge(row.verdict)} at a *{row.setting}* setting",
        verdict_page.block(row, artefact.parts, artefact.notebook),
    ]
    if artefact.figure:
        caption = plain(" ".join(artefact.caption.split()))
        base = artefact.figure.removesuffix(".png")
        blocks += [
            "## The figure",
            f"![{caption}]({artefact.figure})",
            f"{caption}. Get [the data that it draws]({base}.csv).",
        ]
    refuted = plain(row.refuted_by).rstrip(".")
    blocks += ["## What would have refuted it", f"{refuted[:1].upper()}{refuted[1:]}."]
    values = paper_values(artefact)
    if len(values):
        blocks += ["## The paper's numbers", tables.markdown(values.map(_shown))]
    blocks.append("[All verdicts](VERDICTS.md)")
    # written as if it stood at the clone's root, where VERDICTS.md stands
    text = "\n\n".join(blocks).replace(
        f"[the figure]({artefact.figure})", "[the figure](#the-figure)"
    )
    return sources.rewrite(f"{text}\n", "VERDICTS.md", page_of_claim(artefact.name))


def _shown(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else plain(str(value))
