"""The errata: each with the claims that it decides, its places in the code, and notebook 91."""

from __future__ import annotations

import re
from collections import defaultdict

from companion.app import gate
from companion.app.artefacts import PAPERS
from docs.site.records import Records
from docs.site.sources import PAGES, Sources, code_page, page_of_claim

_FILE = "ERRATA.md"
_ITEM = re.compile(r"^(\d+)\. \*\*(.+?)\*\*", re.M | re.S)
_PLACE = re.compile(r"(?<![\w/(`])((?:sflkit|tests)/[\w/]+\.py)")
_BOOK = re.compile(r"\b(notebooks? )((?:\d\d(?:, | and )?)+)")
_CITED = re.compile(r"ERRATA (\d+(?:(?:, | and )\d+)*)")
_SHOWN = 4  # places in the code; the rest is a search away


def add(sources: Sources, records: Records) -> None:
    """Add the page of errata."""
    text = (sources.root / _FILE).read_text(encoding="utf-8")
    books = {book.number: book for book in gate.notebooks()}
    places = in_code(sources)
    claims = defaultdict(list)
    for artefact in records.judged:
        for number in filter(None, artefact.parts["erratum"].unique()):
            claims[number].append(artefact)
    runs = in_notebook(books["91"]) if "91" in books else {}
    head, *sections = re.split(r"^(?=## )", text, flags=re.M)
    blocks = [sources.rewrite(head.strip(), _FILE, PAGES[_FILE])]
    if "91" in books:
        blocks.append(
            f"[Notebook 91](notebooks/{books['91'].path.name}) runs them: the printed reading "
            "beside the corrected one."
        )
    for section in sections:
        heading, *items = re.split(r"^(?=\d+\. \*\*)", section, flags=re.M)
        blocks.append(heading.strip())
        for item in items:
            number = item.split(".")[0]
            blocks.append(_item(item, books, sources))
            more = [
                f"[{a.label} of {PAPERS[a.paper]}]({page_of_claim(a.name)})" for a in claims[number]
            ]
            lines = [f"It decides {', '.join(more)}."] if more else []
            lines += [f"In the code: {_places(places[number])}."] if places[number] else []
            lines += [f"[See it run]({runs[number]})."] if number in runs else []
            if lines:
                blocks.append("\n".join(lines))
    sources.add(PAGES[_FILE], "\n\n".join(blocks) + "\n", _FILE)


def in_code(sources: Sources) -> dict[str, list[tuple[str, int]]]:
    """Return file and line of each place in the library that names an erratum, by its number."""
    found = defaultdict(list)
    folders = [sources.root / name for name in ("sflkit", "companion")]
    for path in sorted(file for folder in folders for file in folder.rglob("*.py")):
        file = path.relative_to(sources.root).as_posix()
        for line, text in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
            for cited in _CITED.finditer(text):
                for number in re.findall(r"\d+", cited[1]):
                    found[number].append((file, line))
    sources.code.update(file for places in found.values() for file, _ in places)
    return found


def in_notebook(book: gate.Notebook) -> dict[str, str]:
    """Return the place in a notebook that runs an erratum, by the erratum's number.

    Such a place has a heading that reads "13 · Forgetting a sample".
    """
    found = {}
    for cell in book.content["cells"]:
        if cell["cell_type"] == "markdown":
            for heading in re.findall(r"^#+ (\d+ · .+)$", "".join(cell["source"]), re.M):
                anchor = re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")
                found[heading.split(" ")[0]] = f"notebooks/{book.path.name}#{anchor}"
    return found


def _item(item: str, books: dict[str, gate.Notebook], sources: Sources) -> str:
    """Return an erratum under a heading of its own, so that it keeps its number and has a link."""
    match = _ITEM.match(item)
    title = " ".join(match[2].split()).rstrip(".")
    body = re.sub(r"^ +", "", item[match.end() :].strip(), flags=re.M)

    def place(found: re.Match) -> str:
        if not (sources.root / found[1]).is_file():
            sources.problem(_FILE, found[1], f"there is no {found[1]}")
            return found[0]
        return f"[{found[1]}]({found[1]})"

    def notebooks(found: re.Match) -> str:
        return found[1] + re.sub(
            r"\d\d",
            lambda n: f"[{n[0]}](notebooks/{books[n[0]].path.name})" if n[0] in books else n[0],
            found[2],
        )

    body = sources.rewrite(_BOOK.sub(notebooks, _PLACE.sub(place, body)), _FILE, PAGES[_FILE])
    return f"(erratum-{match[1]})=\n### {match[1]}. {title}\n\n{body}"


def _places(places: list[tuple[str, int]]) -> str:
    links = [
        f'<a href="{code_page(file).removesuffix(".md")}.html#line-{line}">{file}, line {line}</a>'
        for file, line in places[:_SHOWN]
    ]
    more = len(places) - _SHOWN
    return ", ".join(links) + (f" and {more} more" if more > 0 else "")
