"""What is generated from results: the README's findings, tally of verdicts and picture, the
start page of the notebooks, the table of speeds in a guide, and VERDICTS.md.

The speed table is made from what `make bench` writes, data/results/bench/*.csv: one row per
workload and peer with its seconds per round, the ratio of the plain loop's seconds to its own, and
its share of the processor's measured peak.
"""

from __future__ import annotations

import functools
import textwrap
from collections.abc import Callable, Mapping
from pathlib import Path

import jinja2
import pandas as pd

from companion.app import findings, front_picture, gate, start_page, verdict_page
from companion.app.artefacts import DRAWINGS, PAPERS, as_cell, by_paper, paper_of
from companion.judging import tables
from companion.judging.claims import SETTINGS, VERDICTS
from sflkit import paths

WORKLOADS = {
    "W1": "W1: LeNet, 10 clients, 2 full-batch steps of 300",
    "W2": "W2: MLP 3168-512-256-100, 100 clients, 5 steps of 32",
    "W3": "W3: CNN of 1.7 M parameters, 5 of 300 clients, 10 steps of 10",
    "W4": "W4: logistic regression, 50 clients, 5 full-batch steps of 20",
}


def notebooks() -> str:
    """Return the table of notebooks with what each reproduces as Markdown, for a guide."""
    rows = [
        {
            "no.": book.number,
            "notebook": f"[{book.title}](../../notebooks/{book.path.name})",
            "reproduces": as_cell(book.artefacts) or "-",
            "minutes": f"{book.minutes:g}" if book.minutes else "-",
        }
        for book in gate.notebooks()
    ]
    return tables.markdown(pd.DataFrame(rows))


def verdicts() -> str:
    """Return the verdicts as text for a terminal."""
    rows = tables.all_verdicts()
    if rows.empty:
        return "no verdicts yet: `make figures` writes them"
    width = max(map(len, rows["artefact"]))
    return "\n".join(
        f"{row.artefact:<{width}}  {row.verdict:<17}  {row.setting:<8}  "
        + textwrap.shorten(row.claim, 90, placeholder=" …")
        for row in rows.itertuples()
    )


def bench() -> str:
    """Return the speed tables as Markdown, one per machine, thread count and torch."""
    files = sorted((gate.root() / "data" / "results" / "bench").glob("W*.csv"))
    if not files:
        return "No measurement yet: `make bench` writes it."
    rows = pd.concat(map(pd.read_csv, files))
    parts = [
        "Seconds of one federated round. The speedup is over a plain PyTorch loop, the median of "
        "measurements in turns (least to largest); Flower is measured after the others."
    ]
    for machine, part in rows.groupby(["processor", "threads", "torch"], sort=False):
        processor, threads, torch = machine
        parts.append(f"{processor}, {threads} thread{'' if threads == 1 else 's'}, torch {torch}:")
        shown = {
            "workload": part["workload"].map(WORKLOADS),
            "peer": part["peer"],
            "seconds": part["seconds"].map("{:.3g}".format),
            "speedup": [
                f"{row.speedup:.2f} ({row.speedup_min:.2f} to {row.speedup_max:.2f})"
                for row in part.itertuples()
            ],
            "share of sgemm": part["peak_share"].map("{:.1%}".format),
        }
        parts.append(tables.markdown(pd.DataFrame(shown)))
    return "\n\n".join(parts)


def pages() -> dict[Path, Callable[[str], str]]:
    """Return the pages that are generated, wholly or in part: page -> function (text) -> new text.

    Raises GateError outside a clone.
    """
    blocks = {
        "README.md": {"findings": findings.as_markdown, "verdicts": tally},
        "notebooks/README.md": {"index": start_page.index, "figures": start_page.gallery},
        "docs/guides/notebooks.md": {"notebooks": notebooks},
        "docs/guides/speed.md": {"bench": bench},
    }
    root = gate.root()
    made = {root / page: functools.partial(with_blocks, blocks=of) for page, of in blocks.items()}
    return {root / "VERDICTS.md": lambda _: verdict_page.verdict_page(tally()), **made}


def refresh_readme() -> list[Path]:
    """Bring picture, README, VERDICTS.md and the guides' tables up to date, and return the files
    that were not.

    Raises
    ------
    gate.GateError
        Outside a clone, or where a page lacks a block or a file behind it cannot be read.
    """
    made, page = pages(), paths.figures() / "overview.png"
    try:
        stale = [] if front_picture.is_current() else [front_picture.draw()]
        for page, make in made.items():
            text = page.read_text(encoding="utf-8") if page.is_file() else ""
            if (new := make(text)) != text:
                paths.write_atomic(page, new)
                stale.append(page)
    except (OSError, ValueError, jinja2.TemplateError) as error:
        raise gate.GateError(f"cannot refresh {page}: {error}") from None
    return stale


def with_blocks(text: str, blocks: Mapping[str, Callable[[], str]]) -> str:
    """Return a page with what stands between `<!-- name:begin -->` and `<!-- name:end -->` anew.

    Parameters
    ----------
    text : str
    blocks : mapping
        Name -> function that returns Markdown.

    Raises
    ------
    ValueError
        Unless each of the two marks is there once, in that order.
    """
    for name, content in blocks.items():
        begin, end = f"<!-- {name}:begin -->", f"<!-- {name}:end -->"
        if text.count(begin) != 1 or text.count(end) != 1 or text.index(begin) > text.index(end):
            raise ValueError(f"the text must hold {begin} and then {end}, once each")
        before, after = text.partition(begin)[0], text.partition(end)[2]
        text = f"{before}{begin}\n{content().strip()}\n{end}{after}"
    return text


def tally() -> str:
    """Return the table paper x verdict as Markdown, with how near to the papers' settings."""
    rows = tables.all_verdicts()
    if rows.empty:
        return "No verdicts yet: `make figures` writes them."
    used = [name for name in VERDICTS if (rows["verdict"] == name).any()]
    count = pd.crosstab(paper_of(rows), rows["verdict"]).reindex(list(by_paper(rows)), columns=used)
    full = rows[rows["ran"] & (rows["setting"] == "full")]
    drawn = rows["artefact"].isin(DRAWINGS) & (rows["verdict"] == "reproduced")
    settings = rows[rows["ran"]]["setting"].value_counts()
    page = verdict_page.pages().get_template("tally.md.j2")
    return page.render(
        claims=len(rows),
        settings={level: settings.get(level, 0) for level in SETTINGS},
        full=len(full),
        over_seeds=(full["n_seeds"].replace("", "0").astype(int) > 0).sum(),
        drawn=drawn.sum(),
        verdicts=used,
        papers={PAPERS[name]: list(count.loc[name]) for name in count.index},
        total=list(count.sum()),
    )
