"""VERDICTS.md: one block for every claim, under the number that its paper gives it.

A block has the claim, the verdict, a bottom line, every judged part as a short sentence with its
numbers, and links to the figure and the notebook. A reader finds it by searching for "Figure 4a
(SFL)" or for the artefact's id, and from the contents at the top.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import pandas as pd

from companion.app import gate
from companion.app.artefacts import (
    PAPERS,
    STATEMENTS,
    anchor,
    group_of,
    heading,
    name_of,
    ordered,
    paper_of,
    papers_of,
)
from companion.judging import tables

_SETTINGS = {
    "full": "A full setting",
    "reduced": "A reduced setting",
    "stand-in": "A stand-in, which shows the mechanism and says little about the paper's numbers",
}
_LEADS = {
    "yes": "Holds.",
    "no": "Fails.",
    "partly": "Holds in part.",
    "no visible effect": "No visible effect.",
    "open": "Open.",
    "not run": "Not run.",
}
# How the answers are counted in a bottom line: for one part, for several.
_COUNTED = {
    "yes": ("holds", "hold"),
    "no": ("fails", "fail"),
    "partly": ("holds in part", "hold in part"),
    "no visible effect": ("shows no visible effect", "show no visible effect"),
    "open": ("is open", "are open"),
    "not run": ("was not run", "were not run"),
}
_SYMBOLS = set("alpha beta chi delta epsilon eta kappa lambda mu phi psi rho sigma theta".split())
_ROLES = {"paper": "", "corrected": "As corrected:", "beyond": "Beyond the paper:"}
_NUMBER = r"[-+]?(?:\d[\d.]*(?:e[-+]?\d+)?|inf)"
# What rules found, in their words -> the same as part of a sentence.
_WORDS = (
    (
        rf"largest value / bound ({_NUMBER})",
        r"the largest ratio of the two sides is \1, where 1 is the limit",
    ),
    (rf"largest difference ({_NUMBER})", r"the largest difference is \1"),
    (rf"largest \|z\| ({_NUMBER})", r"the largest deviation is \1 standard errors"),
    (r"^(\d+) of (\d+) hold, not: (.*)$", r"\1 of \2 hold; it fails for \3"),
    (rf"^log variance ratio ({_NUMBER})", r"the logarithm of the variance ratio is \1"),
    (rf"^({_NUMBER}) \(log\)", r"the logarithm of the ratio is \1"),
)


def verdict_page(tally: str) -> str:
    """Return VERDICTS.md; `tally` is the table paper x verdict."""
    rows = tables.all_verdicts()
    parts = tables.all_parts()
    books = {name: book for book in gate.notebooks() for name in book.artefacts}
    papers = {key: rows[paper_of(rows) == key] for key in papers_of(rows)}
    blocks = [
        "# Verdicts",
        "This page has a block for every claim that we judge: the claim, the verdict, the numbers "
        "that decided it, and links to the figure and the notebook. To find one, search the page "
        'for its number and paper, such as "Figure 4a (SFL)" or "Table 2 (Data streams)". What '
        "the verdicts mean is said in [a guide](docs/guides/verdicts.md). The page is generated "
        "from the tables beside the figures by `sflkit verdicts --write-readme`.",
        tally,
        *(_contents(PAPERS.get(key, key), mine) for key, mine in papers.items()),
    ]
    for key, mine in papers.items():
        blocks.append(f"## {PAPERS.get(key, key)}")
        for row in ordered(mine):
            judged = parts[parts["artefact"] == row.artefact]
            blocks.append(f"### {heading(row.artefact)}")
            blocks.append(block(row, judged, books.get(row.artefact)))
    return "\n\n".join(blocks) + "\n"


def _contents(paper: str, rows: pd.DataFrame) -> str:
    """Return a paper's part of the contents: a line per kind with links and verdicts."""
    lines: dict[str, list[str]] = {}
    for row in ordered(rows):
        group = group_of(row.artefact)
        name = name_of(row.artefact)
        if group != STATEMENTS:
            name = name.partition(" ")[2]
        link = f"[{name}](#{anchor(row.artefact)})"
        lines.setdefault(group, []).append(f"{link} {row.verdict}")
    items = "\n".join(f"- {group}: {' · '.join(links)}" for group, links in lines.items())
    return f"**{paper}**\n\n{items}"


def block(row: Any, parts: pd.DataFrame, book: gate.Notebook | None) -> str:
    """Return what there is to say of a verdict, without a heading; links are those of the root.

    Parameters
    ----------
    row : named tuple
        A row of `tables.all_verdicts`.
    parts : DataFrame
        The rows of `tables.all_parts` of that claim.
    book : Notebook or None
        The notebook that judges it.
    """
    lines = [
        f"**Claim** ({row.source}). {row.claim}",
        f"**Verdict: {row.verdict}.** {bottom_line(row.verdict, parts)}",
    ]
    if row.note:
        lines.append(f"**Remark.** {_sentence(row.note)}")
    for role, title in _ROLES.items():
        chosen = parts[parts["role"] == role]
        if len(chosen):
            items = _items(chosen, row.n_seeds)
            lines.append(f"{title}\n\n{items}" if title else items)
    if row.printed:
        lines.append(f"**The paper prints** {row.printed.rstrip('.')}.")
    lines.append(f"**Setting.** {_setting(row)}")
    if links := _links(row, book):
        lines.append(links)
    return "\n\n".join(lines)


def bottom_line(verdict: str, parts: pd.DataFrame) -> str:
    """Return in a sentence how many parts of the claim hold, and what mends the others."""
    answers = parts.loc[parts["role"] == "paper", "answer"]
    counts, n = answers.value_counts(), len(answers)
    told = [
        f"{counts[answer]} {words[int(counts[answer] > 1)]}"
        for answer, words in _COUNTED.items()
        if answer in counts
    ]
    if n == 1:
        line = f"The claim has one part, which {_COUNTED[answers.iloc[0]][0]}"
    elif set(answers) == {"not run"}:
        line = f"{'Neither' if n == 2 else 'None'} of the claim's {n} parts was run"
    elif len(counts) == 1:
        everyone = "Both" if n == 2 else f"All {n}"
        line = f"{everyone} parts of the claim {_COUNTED[answers.iloc[0]][1]}"
    else:
        line = f"Of the claim's {n} parts {_joined(told)}"
    if verdict == "corrected":
        errata = sorted({int(number) for number in parts["erratum"] if number})
        line += f"; what fails as printed holds as corrected by {_errata(errata)}"
    return line + "."


def _errata(numbers: Iterable[int]) -> str:
    return f"[ERRATA](ERRATA.md) {_joined(list(map(str, numbers)))}"


def _items(parts: pd.DataFrame, n_seeds: str) -> str:
    """Return some parts as a list; those that were not run for one reason stand below it."""
    missing = parts["answer"] == "not run"
    lines = [f"- {part_sentence(part, n_seeds)}" for part in parts[~missing].itertuples()]
    for reason, group in parts[missing].groupby("ours", sort=False):
        lines.append(f"- **Not run**, since {reason}:")
        lines += [f"  - {_sentence(part.sentence)}" for part in group.itertuples()]
    return "\n".join(lines)


def part_sentence(part: Any, n_seeds: str) -> str:
    """Return a judged part as a short sentence with its answer and its numbers.

    Such as "**Holds.** FIFO ends above LAZY: +1.31 points, 95 % interval from 0.857 to 1.77." The
    number of its seeds is told where it is not the claim's, `n_seeds`.
    """
    erratum = f" (ERRATA {part.erratum})" if part.erratum else ""
    found, lead = _in_words(part.ours), _LEADS[part.answer]
    if part.interval:
        low, high = re.fullmatch(r"\[(.*), (.*)\]", part.interval).groups()
        if part.answer == "no visible effect" and float(low) * float(high) > 0:
            lead = "Too small to count."
        found += f", 95 % interval from {low} to {high}"
        if part.n_seeds != n_seeds:
            found += f" ({part.n_seeds} seeds)"
    text = f"{lead}** {_sentence(part.sentence + erratum).rstrip('.')}"
    text = f"**{text}{': ' + found if found else ''}."
    return f"{text} {_sentence(part.hint)}" if part.hint else text


def _in_words(ours: str) -> str:
    """Return what a rule found as part of a sentence; large numbers are written out."""
    for pattern, words in _WORDS:
        ours = re.sub(pattern, words, ours)
    return re.sub(r"\d[\d.]*e\+\d+", lambda found: f"{float(found[0]):,.0f}", ours)


def _setting(row: Any) -> str:
    if row.verdict == "not run" or row.differs == "nothing was run":
        return "None: nothing was run."
    text = _SETTINGS.get(row.setting, row.setting)
    if row.differs:
        text += f": {row.differs.rstrip('.')}"
    if row.n_seeds not in ("", "0") and "seeds" not in row.differs:
        text += f"; {row.n_seeds} seeds"
    return f"{text}."


def _links(row: Any, book: gate.Notebook | None) -> str:
    links = []
    figure = f"figures/{row.profile}/{row.artefact}.png"
    if (gate.root() / figure).is_file():
        links.append(f"[the figure]({figure})")
    if book:
        links.append(f"[notebook {book.number}](notebooks/{book.path.name})")
    return f"See {' and '.join(links)}." if links else ""


def _sentence(text: str) -> str:
    """Return a text with a capital letter at its beginning and a full stop at its end.

    A symbol, such as b or rho, stays as it is.
    """
    text = text.strip()
    word = re.match(r"(a|[a-z]{2,})(?=[ ,:'])", text)
    first = text[:1].upper() if word and word[0] not in _SYMBOLS else text[:1]
    return first + text[1:] + ("" if text.endswith((".", ":", "?")) else ".")


def _joined(words: Iterable[str]) -> str:
    *first, last = words
    return f"{', '.join(first)} and {last}" if first else last
