"""Checks what was built: every internal link leads somewhere, and nothing comes from elsewhere."""

from __future__ import annotations

import html
import re
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from urllib.parse import unquote

_TAG = re.compile(r"<([a-zA-Z][a-zA-Z0-9]*)\b((?:[^>\"']|\"[^\"]*\"|'[^']*')*)>")
_ATTRIBUTE = re.compile(r"([a-zA-Z-]+)\s*=\s*(?:\"([^\"]*)\"|'([^']*)')")
_SCRIPT = re.compile(r"(<script\b[^>]*>).*?</script>|<style\b.*?</style>|<!--.*?-->", re.S)
_IN_CSS = re.compile(r"(?:url\(\s*[\"']?|@import\s+[\"'])((?:https?:)?//[^\"')\s]+)")
_ELSEWHERE = re.compile(r"(?:[a-z][a-z0-9+.-]*:|//)", re.I)


@dataclass
class Report:
    """What was found: how much was looked at, and what is wrong as (page, target, text)."""

    pages: int = 0
    links: int = 0
    broken: list[tuple[str, str, str]] = field(default_factory=list)


def check(site: Path) -> Report:
    """Look at every page and stylesheet below `site`."""
    report = Report()
    for page in sorted(site.rglob("*.html")):
        if "_static" in page.relative_to(site).parts:
            continue
        report.pages += 1
        _check_page(page, site, report)
    for sheet in sorted(site.rglob("*.css")):
        for found in _IN_CSS.finditer(sheet.read_text(encoding="utf-8")):
            name = sheet.relative_to(site).as_posix()
            report.broken.append((name, found[1], f"loads {found[1]} from another host"))
    return report


def _check_page(page: Path, site: Path, report: Report) -> None:
    name = page.relative_to(site).as_posix()
    for tag, attributes in _tags(page):
        for attribute in ("href", "src", "data", "poster"):
            target = attributes.get(attribute)
            if target is None or target.startswith("data:"):
                continue
            loads = attribute != "href" or (tag == "link" and _is_loaded(attributes))
            if _ELSEWHERE.match(target):
                if loads:
                    report.broken.append((name, target, f"loads {target} from another host"))
                continue
            if attribute == "data" and tag != "object":
                continue
            report.links += 1
            if wrong := _wrong(target, page, site):
                report.broken.append((name, target, wrong))


def _is_loaded(attributes: dict[str, str]) -> bool:
    return not {"canonical", "next", "prev", "license"} & set(attributes.get("rel", "").split())


def _wrong(target: str, page: Path, site: Path) -> str:
    """Return what is wrong with an internal link, or nothing."""
    path, _, anchor = target.partition("#")
    path = unquote(path.partition("?")[0])
    file = (page.parent / path).resolve() if path else page.resolve()
    if file.is_dir():
        file = file / "index.html"
    if not file.is_relative_to(site.resolve()) or not file.is_file():
        return f"the link to {target} leads nowhere"
    if anchor and file.suffix == ".html" and unquote(anchor) not in _anchors(file):
        return f"the link to {target} leads to no place on its page"
    return ""


@cache
def _anchors(page: Path) -> frozenset[str]:
    return frozenset(
        attributes[name]
        for _, attributes in _tags(page)
        for name in ("id", "name")
        if name in attributes
    ) | {"top"}


@cache
def _tags(page: Path) -> list[tuple[str, dict[str, str]]]:
    text = _SCRIPT.sub(lambda match: match[1] or "", page.read_text(encoding="utf-8"))
    return [
        (
            tag[1].lower(),
            {
                found[1].lower(): html.unescape(found[2] or found[3] or "")
                for found in _ATTRIBUTE.finditer(tag[2])
            },
        )
        for tag in _TAG.finditer(text)
    ]
