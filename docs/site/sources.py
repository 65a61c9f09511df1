"""The clone's texts as Sphinx's sources: which page a file becomes, and links between pages.

The texts link to one another as files of the clone, so that they read well on a code host and in an
editor. On the site they lie elsewhere: a guide at guides/, the README as the start page, a module
as a page with line numbers. `Sources.rewrite` turns the links round, and a link that leads nowhere
becomes a problem with file and line.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path, PurePosixPath

import jinja2

from companion.app.artefacts import anchor
from companion.templates import environment

# The files that become pages under another name than their own.
PAGES = {
    "README.md": "index.md",
    "VERDICTS.md": "verdicts/index.md",
    "ERRATA.md": "errata.md",
    "notebooks/README.md": "notebooks/index.md",
    "data/README.md": "project/data.md",
}
# What folders that people link to have as their page.
FOLDERS = {
    "notebooks": PAGES["notebooks/README.md"],
    "notebooks/solutions": PAGES["notebooks/README.md"],
    "figures": "gallery/index.md",
    "sflkit": "api/index.md",
    "docs/labs": "labs/index.md",
    "docs/guides": "guides/index.md",
}
SHOWN_AS_TEXT = {".py", ".yaml", ".yml", ".toml", ".lock", ".cff", ".sh", ""}
COPIED = {".png", ".csv", ".json", ".svg"}
_FENCE = re.compile(r"^[ \t]*(`{3,}|~{3,})[^\n]*\n.*?^[ \t]*\1[`~]*[ \t]*$", re.M | re.S)
_CODE = re.compile(r"(?<!`)(`+)(?!`).+?(?<!`)\1(?!`)", re.S)
_LINK = re.compile(
    r"(?P<before>\]\(\s*|^[ ]{0,3}\[[^\]\n]+\]:[ ]+|<(?:img|a)\b[^>]*?\b(?:src|href)=\")"
    r"(?P<target>[^\s)\"<>]+)",
    re.M,
)
_TAG = re.compile(r"(<a\b[^>]*?\bhref=\")([^\"]+)")
_ERRATUM = re.compile(r"(?<![\w\[/])ERRATA (\d+)((?:(?:, | and )\d+)*)")


@dataclass(frozen=True, order=True)
class Problem:
    """Something that stops the build, at a line of a file of the clone."""

    file: str
    line: int
    text: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.text}"


class Sources:
    """What Sphinx is to read, collected before anything is written.

    Parameters
    ----------
    root : path
        The clone.
    claims : iterable of str
        The artefacts whose claims have a page of their own, such as "sfl-fig4a".

    Attributes
    ----------
    files : dict of str to str or bytes
        Content by path under Sphinx's source folder.
    origin : dict of str to str
        The file of the clone that a page was made from, by the page's path.
    problems : list of Problem
    code : set of str
        The files of the clone that a page links to as code.
    """

    def __init__(self, root: Path, claims: Iterable[str] = ()):
        self.root = root
        # by the id of the claim, and by the anchor of its block in VERDICTS.md
        self.claims = {key: page_of_claim(name) for name in claims for key in (name, anchor(name))}
        self.files: dict[str, str | bytes] = {}
        self.origin: dict[str, str] = {}
        self.problems: list[Problem] = []
        self.code: set[str] = set()

    def add(self, page: str, content: str | bytes, origin: str | None = None) -> None:
        """Add a page or file of the site."""
        self.files[page] = content
        if origin is not None:
            self.origin[page] = origin

    def add_text(self, file: str, text: str | None = None) -> None:
        """Add a Markdown file of the clone, as it stands or as `text`, with its links turned."""
        page = page_of(file)
        text = (self.root / file).read_text(encoding="utf-8") if text is None else text
        self.add(page, self.rewrite(text, file, page), file)

    def problem(self, file: str, needle: str, text: str) -> None:
        """Note what is wrong with a file of the clone, at its first line that holds `needle`."""
        self.problems.append(Problem(file, self.line(file, needle), text))

    def line(self, file: str, needle: str) -> int:
        """Return the number of the first line of a file that holds `needle`, or 1."""
        lines = (self.root / file).read_text(encoding="utf-8").splitlines()
        return next((i for i, found in enumerate(lines, start=1) if needle in found), 1)

    def rewrite(self, text: str, file: str, page: str, output: bool = False) -> str:
        """Return Markdown of the clone's `file` as it must read on the site's `page`.

        Links lead to pages, and errata and claims that are named become links; code stays as it
        is. Sphinx does not resolve links in the output of a cell, so that these lead to the pages
        as they are built.
        """
        kept: list[str] = []

        def keep(match: re.Match) -> str:
            claim = self.claims.get(match[0].strip("`"))
            linked = match.string[match.start() - 1 : match.start()] == "["
            if claim and not linked:
                there = relative(claim, page)
                kept.append(f"[{match[0]}]({as_built(there) if output else there})")
            else:
                kept.append(match[0])
            return f"\0{len(kept) - 1}\0"

        def turned(match: re.Match) -> str:
            target = self._target(match["target"], file, page, output)
            # Sphinx does not read a tag; it links to the page as it is built
            return match["before"] + (as_built(target) if match["before"][:2] == "<a" else target)

        text = _CODE.sub(keep, _FENCE.sub(keep, text))
        text = _LINK.sub(turned, text)
        if page != PAGES["ERRATA.md"]:
            text = link_errata(text, page)
        if output:
            text = _LINK.sub(lambda match: match["before"] + as_built(match["target"]), text)
        while "\0" in text:  # an inline code may hold a fence
            text = re.sub(r"\0(\d+)\0", lambda match: kept[int(match[1])], text)
        return text

    def rewrite_html(self, text: str, file: str, page: str) -> str:
        """Return HTML of the clone's `file` with its links as they must read on `page`."""

        def turned(match: re.Match) -> str:
            return match[1] + as_built(self._target(match[2], file, page, True))

        return _TAG.sub(turned, text)

    def _target(self, target: str, file: str, page: str, output: bool = False) -> str:
        """Return where a link of `file` leads on `page`; note a problem where it leads nowhere.

        Sphinx does not copy a figure to which only the output of a cell links, so that such a link
        leads to the page of the figure's claim.
        """
        if re.match(r"[a-z][a-z0-9+.-]*:", target) or target.startswith("#"):
            return target
        name, _, at = target.partition("#")
        path = os.path.normpath(PurePosixPath(file).parent / name)
        if path.startswith("..") or not (self.root / path).exists():
            self.problem(file, target, f"the link to {target} leads nowhere: there is no {path}")
            return target
        there = self._page_for(path, at)
        figure = PurePosixPath(path)
        if output and figure.parts[0] == "figures" and figure.stem in self.claims:
            there = self.claims[figure.stem], ""
        if there is None:
            why = "VERDICTS.md has no such block" if at else "link to a file in that folder"
            self.problem(file, target, f"the link to {target} has no page on the site: {why}")
            return target
        there, at = there
        return relative(there, page) + (f"#{at}" if at else "")

    def _page_for(self, path: str, at: str) -> tuple[str, str] | None:
        """Return page and anchor of a file or folder of the clone, or None if it has none."""
        if (self.root / path).is_dir():
            module = f"api/{path.replace('/', '.')}.rst" if path.startswith("sflkit") else None
            page = FOLDERS.get(path, module)
            return (page, "") if page else None
        if path == "VERDICTS.md" and at:
            return (self.claims[at], "") if at in self.claims else None
        if page := page_of(path):
            return page, at
        suffix = PurePosixPath(path).suffix
        if suffix in COPIED:
            self.files.setdefault(path, (self.root / path).read_bytes())
            return path, at
        if suffix in SHOWN_AS_TEXT:
            self.code.add(path)
            return code_page(path), ""
        return None

    def write(self, folder: Path) -> None:
        """Write all files that changed below `folder`, and delete what is no longer among them."""
        for name, content in self.files.items():
            path = folder / name
            data = content.encode("utf-8") if isinstance(content, str) else content
            if not path.is_file() or path.read_bytes() != data:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(data)
        for path in folder.rglob("*"):
            if path.is_file() and path.relative_to(folder).as_posix() not in self.files:
                path.unlink()


@cache
def templates() -> jinja2.Environment:
    """Return the templates of the pages that are written from records."""
    found = environment(Path(__file__).parent / "templates")
    found.filters |= {"plain": plain, "page_of_claim": page_of_claim, "badge": badge}
    return found


def badge(verdict: str) -> str:
    """Return a verdict as a coloured word."""
    return f'<span class="verdict {verdict.replace(" ", "-")}">{verdict}</span>'


def page_of(file: str) -> str | None:
    """Return the page that a file of the clone becomes, or None if it becomes none."""
    path = PurePosixPath(file)
    if file in PAGES:
        return PAGES[file]
    if path.parts[0] == "notebooks" and path.suffix == ".ipynb":
        return file
    if path.parts[0] == "docs" and len(path.parts) > 2 and path.suffix == ".md":
        return path.relative_to("docs").as_posix()
    if path.parent.as_posix() in (".", "docs") and path.suffix == ".md":
        return f"project/{path.stem.lower()}.md"
    return None


def page_of_claim(artefact: str) -> str:
    """Return the page of an artefact's claim."""
    return f"verdicts/{artefact}.md"


def code_page(file: str) -> str:
    """Return the page that shows a file of the clone with line numbers."""
    return f"code/{file.removesuffix('.py')}.md"


def as_built(target: str) -> str:
    """Return a link to a page's source as a link to the page that is built from it."""
    return re.sub(r"^(?![a-z]+:)([^#]*)\.(?:md|ipynb|rst)(?=#|$)", r"\1.html", target)


def relative(target: str, page: str) -> str:
    """Return the path from one page of the site to another."""
    return os.path.relpath(target, PurePosixPath(page).parent)


def link_errata(text: str, page: str) -> str:
    """Return `text` with each "ERRATA 12" as a link to that erratum."""
    there = relative(PAGES["ERRATA.md"], page)

    def linked(match: re.Match) -> str:
        more = re.sub(r"\d+", lambda n: f"[{n[0]}]({there}#erratum-{n[0]})", match[2])
        return f"[ERRATA {match[1]}]({there}#erratum-{match[1]}){more}"

    return _ERRATUM.sub(linked, text)


def plain(text: str) -> str:
    """Return a recorded text as Markdown that shows it as it is, but for code in backticks."""
    return re.sub(r"(`[^`]*`)|([\\*_<>\[\]|$#~])", lambda m: m[1] or f"\\{m[2]}", text)
