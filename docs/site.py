"""`python -m docs.site`: the site from what is committed, into out/site. `make site` calls it.

Nothing is executed, no notebook and no figure is made anew. Sphinx reads a copy of the clone's
texts that lie as they do there, so that their links hold; a link that leads nowhere, or any other
warning, stops the build, and `links` looks at what was built. Exit code 1 where something is wrong.
"""

from __future__ import annotations

import argparse
import re
import shutil
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from pkgutil import iter_modules

import sflkit
from docs import links
from sflkit import paths

_TEXTS = ("docs", "notebooks", "figures", "data/README.md", "LICENSE", "CITATION.cff")
# Pages that lead to others: name, title, what lies below; a file with a title is one on its own.
_SECTIONS = {
    "teaching": ("Teaching", "docs/labs/*\ndocs/glossary"),
    "guides": ("Guides", "docs/guides/*"),
    "project": (
        "The project",
        "CONTRIBUTING\nCHANGELOG\nSECURITY\ndocs/changed_rules\ndata/README",
    ),
}
_START = (
    "Figures and notebooks <notebooks/README>\nVERDICTS\nErrata <ERRATA>\nteaching\nguides\n"
    "API reference <api>\nproject"
)
_API = "API reference\n=============\n\n.. autosummary::\n   :toctree: api\n   :recursive:\n\n"
_NOTEBOOKS = "[0-9]*\nsolutions/*\nworksheets/*"


def main(arguments: Sequence[str] | None = None) -> int:
    """Build the site and return the exit code."""
    from sphinx.cmd.build import main as sphinx

    options, began, root = _options(arguments), time.monotonic(), paths.clone_root()
    if root is None:
        print("no texts here: call it inside the clone", file=sys.stderr)
        return 2
    site, pages = options.out, options.out.with_name(f"{options.out.name}-sources")
    lay_out(root, pages)
    shutil.rmtree(site, ignore_errors=True)  # pages of texts that are gone
    doctrees = site.with_name(f"{site.name}-doctrees")
    settings = ["-b", "html", "-q", "-W", "--keep-going", "-j", str(options.jobs)]
    if sphinx([*settings, "-c", str(root / "docs"), "-d", str(doctrees), str(pages), str(site)]):
        print("site: not built; Sphinx names what is wrong above", file=sys.stderr)
        return 1
    shutil.copyfile(site / "README.html", site / "index.html")
    found = links.check(site)
    for page, wrong in found.broken:
        print(f"{page}: {wrong}", file=sys.stderr)
    if found.broken:
        print(f"site: {len(found.broken)} broken links", file=sys.stderr)
        return 1
    print(
        f"site: {found.pages} pages without a warning, {found.links} internal links of which none "
        f"is broken, {time.monotonic() - began:.0f} s; open {site / 'index.html'}"
    )
    return 0


def lay_out(root: Path, pages: Path) -> None:
    """Copy the clone's texts to `pages`, with tables of contents and the anchors of errata."""
    shutil.rmtree(pages, ignore_errors=True)
    pages.mkdir(parents=True)
    for path in [*root.glob("*.md"), *(root / name for name in _TEXTS)]:
        copy = pages / path.relative_to(root)
        copy.parent.mkdir(exist_ok=True)
        if path.is_dir():
            shutil.copytree(path, copy, ignore=shutil.ignore_patterns(".*", "__pycache__"))
        else:
            shutil.copy2(path, copy)
    modules = "".join(f"   {one.name}\n" for one in iter_modules(sflkit.__path__, "sflkit."))
    (pages / "api.rst").write_text(_API + modules, encoding="utf-8")
    for name, (title, below) in _SECTIONS.items():
        (pages / f"{name}.md").write_text(f"# {title}\n{_toctree(below)}", encoding="utf-8")
    start, index, errata = (pages / f"{n}.md" for n in ("README", "notebooks/README", "ERRATA"))
    with start.open("a", encoding="utf-8") as text:
        text.write(_toctree(_START, hidden=True))
    # Sphinx does not read a tag; it links to the page as it is built
    text = re.sub(r"(<a href=\"[^\":]+)\.ipynb", r"\1.html", index.read_text(encoding="utf-8"))
    index.write_text(text + _toctree(_NOTEBOOKS, hidden=True), encoding="utf-8")
    text = errata.read_text(encoding="utf-8")
    errata.write_text(with_headings(text), encoding="utf-8")


def with_headings(errata: str) -> str:
    """Return ERRATA.md with a heading for each item, so that it keeps its number and has an anchor.

    Markdown counts the items of a list on, whatever their numbers.
    """

    def heading(item: re.Match) -> str:
        title = " ".join(item[2].split()).rstrip(".")
        body = re.sub(r"^ +", "", item[3], flags=re.M).strip()
        return f"(erratum-{item[1]})=\n### {item[1]}. {title}\n\n{body}\n\n"

    item = re.compile(r"^(\d+)\. \*\*(.+?)\*\*(.*?)(?=^\d+\. \*\*|^#|\Z)", re.M | re.S)
    return item.sub(heading, errata)


def _toctree(below: str, hidden: bool = False) -> str:
    how = ":hidden:\n" if hidden else ""
    return f"\n```{{toctree}}\n:glob:\n:maxdepth: 1\n{how}\n{below}\n```\n"


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m docs.site", description=__doc__)
    parser.add_argument("--out", type=Path, default=paths.out() / "site", help="folder of the site")
    parser.add_argument("--jobs", type=int, default=1, help="processes that Sphinx may use")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
