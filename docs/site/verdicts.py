"""The verdict pages: a table of all claims that can be filtered, and a page for each claim."""

from __future__ import annotations

from typing import Any

from companion.app import readme, verdict_page
from companion.app.artefacts import PAPERS
from companion.judging import tables
from docs.site.records import Artefact, Records, paper_values
from docs.site.sources import PAGES, Sources, page_of, page_of_claim, plain, relative, templates

_INDEX = PAGES["VERDICTS.md"]


def add(sources: Sources, records: Records) -> None:
    """Add the table of verdicts and one page per claim."""
    for artefact in records.judged:
        sources.add(page_of_claim(artefact.name), claim_page(sources, artefact))
    sources.add(_INDEX, index(sources, records))


def index(sources: Sources, records: Records) -> str:
    """Return the page with the table of all claims."""
    guide = relative(page_of("docs/guides/verdicts.md"), _INDEX)
    page = templates().get_template("verdicts.md.j2")
    return page.render(guide=guide, tally=readme.tally(), judged=records.judged, papers=PAPERS)


def claim_page(sources: Sources, artefact: Artefact) -> str:
    """Return the page of one claim: what VERDICTS.md says of it, and what there is besides."""
    values = paper_values(artefact)
    text = (
        templates()
        .get_template("claim.md.j2")
        .render(
            artefact=artefact,
            paper=PAPERS[artefact.paper],
            block=verdict_page.block(artefact.verdict, artefact.parts, artefact.notebook),
            values=tables.markdown(values.map(_shown)) if len(values) else "",
        )
    )
    # written as if it stood at the clone's root, where VERDICTS.md stands
    text = text.replace(f"[the figure]({artefact.figure})", "[the figure](#the-figure)")
    return sources.rewrite(text, "VERDICTS.md", page_of_claim(artefact.name))


def _shown(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else plain(str(value))
