"""Checks what was built: every internal link leads somewhere, and nothing comes from elsewhere."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote

_IN_CSS = re.compile(r"(?:url\(\s*[\"']?|@import\s+[\"'])((?:https?:)?//[^\"')\s]+)")
_ELSEWHERE = re.compile(r"(?:[a-z][a-z0-9+.-]*:|//)", re.I)
_ONLY_NAMED = {"canonical", "next", "prev", "license"}  # a browser does not load them


class Report(NamedTuple):
    """How much was looked at, and what is wrong as (page, text)."""

    pages: int
    links: int
    broken: list[tuple[str, str]]


class _Page(HTMLParser):
    """What a page links to, what a browser loads for it, and its own anchors."""

    def __init__(self, file: Path):
        super().__init__()
        self.links: list[str] = []
        self.loads: list[str] = []
        self.anchors = {"", "top"}
        self.feed(file.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = {name: value or "" for name, value in attrs}
        self.anchors |= {found[name] for name in ("id", "name") if name in found}
        named = tag != "link" or _ONLY_NAMED & set(found.get("rel", "").split())
        self.loads += [found["src"]] if "src" in found else []
        if "href" in found:
            (self.links if named else self.loads).append(found["href"])


def check(site: Path) -> Report:
    """Look at every page and stylesheet below `site`."""
    site = site.resolve()
    files = [file for file in sorted(site.rglob("*.html")) if "_static" not in file.parts]
    pages = {file: _Page(file) for file in files}
    broken, links = [], 0
    for file, page in pages.items():
        inside = [target for target in page.links + page.loads if not _ELSEWHERE.match(target)]
        links += len(inside)
        wrong = {target: _wrong(target, file, site, pages) for target in inside}
        for target in page.loads:
            if _ELSEWHERE.match(target) and not target.startswith("data:"):
                wrong[target] = "is loaded from another host"
        name = file.relative_to(site).as_posix()
        broken += [(name, f"{target} {said}") for target, said in wrong.items() if said]
    for sheet in sorted(site.rglob("*.css")):
        found = _IN_CSS.findall(sheet.read_text(encoding="utf-8"))
        name = sheet.relative_to(site).as_posix()
        broken += [(name, f"{target} is loaded from another host") for target in found]
    return Report(len(pages), links, broken)


def _wrong(target: str, page: Path, site: Path, pages: dict[Path, _Page]) -> str:
    """Return what is wrong with an internal link, or nothing."""
    path, _, anchor = target.partition("#")
    path = unquote(path.partition("?")[0])
    file = (page.parent / path).resolve() if path else page
    file = file / "index.html" if file.is_dir() else file
    if not file.is_relative_to(site) or not file.is_file():
        return "leads nowhere"
    if file in pages and unquote(anchor) not in pages[file].anchors:
        return "leads to no place on its page"
    return ""
