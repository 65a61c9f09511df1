"""Checks what was built: every internal link leads somewhere, and nothing comes from elsewhere."""

from __future__ import annotations

import html
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote

_TAG = re.compile(r"<([a-zA-Z][a-zA-Z0-9]*)\b((?:[^>\"']|\"[^\"]*\"|'[^']*')*)>")
_ATTRIBUTE = re.compile(r"([a-zA-Z-]+)\s*=\s*(?:\"([^\"]*)\"|'([^']*)')")
_SCRIPT = re.compile(r"(<script\b[^>]*>).*?</script>|<style\b.*?</style>|<!--.*?-->", re.S)
_IN_CSS = re.compile(r"(?:url\(\s*[\"']?|@import\s+[\"'])((?:https?:)?//[^\"')\s]+)")
_ELSEWHERE = re.compile(r"(?:[a-z][a-z0-9+.-]*:|//)", re.I)


class Page(NamedTuple):
    """What a page links to, each with whether the browser loads it, and its own anchors."""

    targets: list[tuple[str, bool]]
    anchors: set[str]


@dataclass
class Report:
    """What was found: how much was looked at, and what is wrong as (page, target, text)."""

    pages: int = 0
    links: int = 0
    broken: list[tuple[str, str, str]] = field(default_factory=list)


def check(site: Path) -> Report:
    """Look at every page and stylesheet below `site`."""
    pages = {
        page.resolve(): _read(page)
        for page in sorted(site.rglob("*.html"))
        if "_static" not in page.relative_to(site).parts
    }
    report = Report(pages=len(pages))
    for page, (targets, _) in pages.items():
        name = page.relative_to(site.resolve()).as_posix()
        for target, loads in targets:
            if _ELSEWHERE.match(target):
                if loads and not target.startswith("data:"):
                    report.broken.append((name, target, f"loads {target} from another host"))
                continue
            report.links += 1
            if wrong := _wrong(target, page, site.resolve(), pages):
                report.broken.append((name, target, wrong))
    for sheet in sorted(site.rglob("*.css")):
        for found in _IN_CSS.finditer(sheet.read_text(encoding="utf-8")):
            name = sheet.relative_to(site).as_posix()
            report.broken.append((name, found[1], f"loads {found[1]} from another host"))
    return report


def _wrong(target: str, page: Path, site: Path, pages: dict[Path, Page]) -> str:
    """Return what is wrong with an internal link, or nothing."""
    path, _, anchor = target.partition("#")
    path = unquote(path.partition("?")[0])
    file = (page.parent / path).resolve() if path else page
    if file.is_dir():
        file = file / "index.html"
    if not file.is_relative_to(site) or not file.is_file():
        return f"the link to {target} leads nowhere"
    if anchor and file in pages and unquote(anchor) not in pages[file].anchors:
        return f"the link to {target} leads to no place on its page"
    return ""


def _read(page: Path) -> Page:
    """Return where a page's links lead, and the places on it that a link may lead to."""
    text = _SCRIPT.sub(lambda match: match[1] or "", page.read_text(encoding="utf-8"))
    targets, anchors = [], {"top"}
    for tag in _TAG.finditer(text):
        attributes = {
            found[1].lower(): html.unescape(found[2] or found[3] or "")
            for found in _ATTRIBUTE.finditer(tag[2])
        }
        anchors |= {attributes[name] for name in ("id", "name") if name in attributes}
        if "src" in attributes:
            targets.append((attributes["src"], True))
        if "href" in attributes:
            named = {"canonical", "next", "prev", "license"} & set(
                attributes.get("rel", "").split()
            )
            targets.append((attributes["href"], tag[1].lower() == "link" and not named))
    return Page(targets, anchors)
