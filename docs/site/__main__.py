"""`python -m docs.site`: the site from what is committed, into out/site. `make site` calls it.

Exit codes: 0 built, 1 something is wrong with what is committed, and every problem is named with
file and line.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from companion.app import gate
from docs.site import errata, gallery, links, notebooks, records, reference, verdicts
from docs.site.sources import Problem, Sources, templates
from sflkit import paths

# What stands below the title of the start page: where everything lies in the clone.
_DOORS = (
    ("Notebooks", "notebooks"),
    ("All figures", "figures"),
    ("All verdicts", "VERDICTS.md"),
    ("Errata", "ERRATA.md"),
    ("Teaching", "docs/labs"),
    ("Guides", "docs/guides"),
    ("API reference", "sflkit"),
)
# Sections whose index is made here where nobody wrote one.
_SECTIONS = {
    "labs": ("Teaching", "Lab plans and what else a lecturer needs."),
    "guides": ("Guides", "How to use the library, clusters and your own data."),
    "project": ("The project", "How it changes, and how to change it."),
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Build the site and return the exit code."""
    options = _options(arguments)
    began = time.monotonic()
    sources = collect(gate.root())
    if sources.problems:
        return _refuse(sources.problems)
    pages = options.out.with_name(f"{options.out.name}-sources")
    sources.write(pages)
    if code := _sphinx(pages, options):
        print("site: not built; Sphinx names what is wrong above", file=sys.stderr)
        return code
    _drop_stale(options.out, sources)
    report = links.check(options.out)
    if report.broken:
        return _refuse(sorted({located(*found, sources) for found in report.broken}))
    print(
        f"site: {report.pages} pages without a warning, {report.links} internal links of which "
        f"none is broken, {time.monotonic() - began:.0f} s; open {options.out / 'index.html'}"
    )
    return 0


def collect(root: Path) -> Sources:
    """Return all that Sphinx is to read, and what is wrong with it."""
    found = records.read(root)
    sources = Sources(root, [artefact.name for artefact in found.judged])
    sources.problems += found.problems
    texts = [*root.glob("*.md"), *(root / "docs").rglob("*.md"), root / "data" / "README.md"]
    for path in sorted(texts):
        file = path.relative_to(root).as_posix()
        # answers for the lecturer stay in the clone, off the page that a class reads
        if file not in ("README.md", "VERDICTS.md", "ERRATA.md") and "answers" not in path.parts:
            sources.add_text(file)
    notebooks.add(sources, found)
    verdicts.add(sources, found)
    gallery.add(sources, found)
    errata.add(sources, found)
    reference.add(sources)
    sections = [name for name in _SECTIONS if _add_section(name, sources)]
    sources.add_text("README.md", _start(root, sections))
    reference.add_code(sources)
    sources.problems.sort()
    return sources


def _start(root: Path, sections: list[str]) -> str:
    """Return the README with what a start page has besides: where everything lies."""
    text = (root / "README.md").read_text(encoding="utf-8")
    doors = " · ".join(f"[{name}]({target})" for name, target in _DOORS if (root / target).exists())
    title, _, rest = text.partition("\n")
    page = templates().get_template("start.md.j2")
    return page.render(title=title, doors=doors, rest=rest, sections=sections)


def _add_section(name: str, sources: Sources) -> bool:
    """Add the index of a section unless somebody wrote one; return whether it has any page."""
    pages = [page for page in sources.files if page.startswith(f"{name}/")]
    if pages and f"{name}/index.md" not in pages:
        title, about = _SECTIONS[name]
        entries = sorted(page.removeprefix(f"{name}/") for page in pages)
        page = templates().get_template("section.md.j2")
        page = page.render(title=title, about=about, entries=entries)
        sources.add(f"{name}/index.md", page)
    return bool(pages)


def _sphinx(pages: Path, options: argparse.Namespace) -> int:
    from sphinx.cmd.build import main as sphinx

    doctrees = options.out.with_name(f"{options.out.name}-doctrees")
    settings = ["-b", "html", "-q", "-W", "--keep-going", "-j", str(options.jobs)]
    folders = ["-c", str(gate.root() / "docs"), "-d", str(doctrees), str(pages), str(options.out)]
    return sphinx([*settings, *folders])


def _drop_stale(site: Path, sources: Sources) -> None:
    """Delete pages whose source is gone; Sphinx leaves them."""
    built = {Path(name).with_suffix(".html").as_posix() for name in sources.files}
    for page in site.rglob("*.html"):
        name = page.relative_to(site).as_posix()
        if name not in built | {"search.html", "genindex.html", "py-modindex.html"}:
            if not name.startswith(("_", ".")):
                page.unlink()


def located(page: str, target: str, text: str, sources: Sources) -> Problem:
    """Return a problem of a built page at the line of the file that the page was made from."""
    for suffix in (".md", ".ipynb", ".rst"):
        source = Path(page).with_suffix(suffix).as_posix()
        if origin := sources.origin.get(source):
            path, _, anchor = target.partition("#")
            needle = f"#{anchor}" if anchor else Path(path).stem
            return Problem(origin, sources.line(origin, needle), f"{text} (page {page})")
    return Problem(page, 1, text)


def _refuse(problems: Sequence[Problem]) -> int:
    for problem in problems:
        print(problem, file=sys.stderr)
    count = f"{len(problems)} problem{'' if len(problems) == 1 else 's'}"
    print(f"site: not built, {count}", file=sys.stderr)
    return 1


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m docs.site", description=__doc__)
    parser.add_argument("--out", type=Path, default=paths.out() / "site", help="folder of the site")
    parser.add_argument("--jobs", type=int, default=1, help="processes that Sphinx may use")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
