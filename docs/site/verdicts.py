"""The verdict pages: a table of all claims that can be filtered, and a page for each claim."""

from __future__ import annotations

from typing import Any

import pandas as pd

from docs.site import records as recorded
from docs.site.records import Artefact, Records
from docs.site.sources import Sources, link_errata, plain
from sflkit.app import readme
from sflkit.results import tables
from sflkit.results.claims import told

_ROLES = {
    "paper": "What decided it",
    "corrected": "As corrected",
    "beyond": "Beyond the paper",
}


def add(sources: Sources, records: Records) -> None:
    """Add the table of verdicts and one page per claim."""
    for artefact in records.judged:
        sources.add(page_of_claim(artefact), claim_page(artefact))
        if artefact.figure:
            for suffix in (".png", ".pdf", ".csv"):
                file = artefact.figure.removesuffix(".png") + suffix
                if (sources.root / file).is_file():
                    sources.add(file, (sources.root / file).read_bytes())
    sources.add("verdicts/index.md", index(records))


def page_of_claim(artefact: Artefact) -> str:
    """Return the page of an artefact's claim."""
    return f"verdicts/{artefact.name}.md"


def badge(verdict: str) -> str:
    """Return a verdict as a coloured word."""
    return f'<span class="verdict {verdict.replace(" ", "-")}">{verdict}</span>'


def index(records: Records) -> str:
    """Return the page with the table of all claims."""
    rows = [
        (
            f"[{artefact.name}]({artefact.name}.md)",
            readme.PAPERS[artefact.paper],
            badge(artefact.verdict.verdict),
            artefact.verdict.setting,
            plain(artefact.verdict.claim),
        )
        for artefact in records.judged
    ]
    table = pd.DataFrame(rows, columns=["id", "paper", "verdict", "setting", "claim"])
    entries = "\n".join(artefact.name for artefact in records.judged)
    # `tables.markdown` would escape what is escaped already
    lines = ["| " + " | ".join(table.columns) + " |", "|---" * len(table.columns) + "|"]
    lines += ["| " + " | ".join(map(_cell, row)) + " |" for row in rows]
    return "\n\n".join(
        [
            "# Verdicts",
            "Every claim that we judge, and how it came out. A *full* setting is the paper's own, "
            "a *reduced* one says what differs, and a *stand-in* shows the mechanism on small "
            "data.",
            readme.tally(),
            "## All claims",
            "```{container} filterable\n" + "\n".join(lines) + "\n```",
            f"```{{toctree}}\n:hidden:\n:maxdepth: 1\n\n{entries}\n```",
        ]
    )


def claim_page(artefact: Artefact) -> str:
    """Return the page of one claim."""
    row, page = artefact.verdict, page_of_claim(artefact)
    differs = f": {plain(row.differs)}" if row.differs else ""
    seeds = f", {row.n_seeds} seeds" if row.n_seeds not in ("", "0") else ""
    blocks = [
        f"# {plain(artefact.label)} of {readme.PAPERS[artefact.paper]}",
        f"{badge(row.verdict)} at a *{row.setting}* setting{seeds}{differs}.",
        plain(row.claim),
        f"*{plain(row.source)}*",
    ]
    if artefact.figure:
        alt = " ".join(plain(artefact.caption).split())
        blocks.append(f"![{alt}](../{artefact.figure})")
        blocks.append(f"{plain(artefact.caption)}.".replace("..", "."))
    if row.note:
        blocks.append(plain(row.note))
    for role, heading in _ROLES.items():
        mine = [part for part in artefact.parts if part.role == role]
        if mine:
            blocks += [f"## {heading}", "\n".join(_part(part) for part in mine)]
    blocks += ["## What would have refuted it", plain(row.refuted_by)]
    blocks += _printed(artefact)
    blocks += ["## Look further", _links(artefact)]
    return link_errata("\n\n".join(blocks), page) + "\n"


def _part(part: Any) -> str:
    """Return a judged part as an item of a list, with the rule that judged it."""
    erratum = f" (ERRATA {part.erratum})" if part.erratum else ""
    sentence = told(
        plain(part.sentence) + erratum,
        plain(part.ours),
        plain(part.interval),
        f"**{part.answer}**",
        plain(part.hint),
    )
    rule = f" <span class='rule'>Rule: {plain(part.rule)}.</span>" if part.rule else ""
    return f"- {sentence}.{rule}"


def _printed(artefact: Artefact) -> list[str]:
    """Return what the paper prints: in words, and number by number where it was transcribed."""
    values = recorded.paper_values(artefact)
    if not artefact.verdict.printed and values.empty:
        return []
    blocks = ["## What the paper prints"]
    if artefact.verdict.printed:
        blocks.append(plain(artefact.verdict.printed))
    if len(values):
        blocks.append(tables.markdown(values.map(lambda value: plain(_number(value)))))
    return blocks


def _links(artefact: Artefact) -> str:
    links = []
    if artefact.notebook is not None:
        book = artefact.notebook
        links.append(f"- Notebook {book.number}: [{book.title}](../notebooks/{book.path.name})")
    if artefact.figure:
        base = f"../{artefact.figure.removesuffix('.png')}"
        links.append(
            f"- The figure [for print]({base}.pdf) and [the data that it draws]({base}.csv)"
        )
    links.append("- [All verdicts](index.md)")
    return "\n".join(links)


def _number(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def _cell(text: str) -> str:
    return " ".join(text.split())
