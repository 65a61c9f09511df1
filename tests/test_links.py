"""Every link of a text that people read leads somewhere, on a code host and in JupyterLab."""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path
from urllib.parse import unquote

import pytest

from tests.helpers import ROOT

TEXTS = sorted(
    path
    for pattern in ("*.md", "docs/**/*.md", "data/*.md", "notebooks/**/*.[mi]*")
    for path in ROOT.glob(pattern)
    if ".ipynb_checkpoints" not in path.parts
)
_FENCE = re.compile(r"^(`{3,}|~{3,}).*?^\1", re.M | re.S)
_LINK = re.compile(r"\]\(([^)\s]+)\)|<(?:a|img)\b[^>]*?(?:href|src)=\"([^\"]+)\"")


@cache
def told(path: Path) -> str:
    """What a file says to a reader: Markdown, or a notebook's Markdown cells and outputs."""
    text = path.read_text(encoding="utf-8")
    if path.suffix != ".ipynb":
        return text
    said = []
    for cell in json.loads(text)["cells"]:
        if cell["cell_type"] == "markdown":
            said.append("".join(cell["source"]))
        for output in cell.get("outputs", []):
            said.append("".join(output.get("data", {}).get("text/markdown", "")))
    return "\n\n".join(said)


@cache
def anchors(path: Path) -> frozenset[str]:
    """The anchors of a file's headings that a code host and JupyterLab both make.

    A code host takes lower case, drops punctuation and puts hyphens for spaces; JupyterLab puts
    hyphens for spaces and nothing else.
    """
    headings = re.findall(r"^#{1,6} (.+?)\s*$", _FENCE.sub("", told(path)), re.M)
    hosts = {re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-") for text in headings}
    return frozenset(hosts & {text.replace(" ", "-") for text in headings})


def broken(path: Path) -> list[str]:
    found = []
    text = re.sub(r"`[^`\n]*`", "", _FENCE.sub("", told(path)))
    for target in {a or b for a, b in _LINK.findall(text)}:
        if re.match(r"[a-z]+:", target):  # another host, or an attachment
            continue
        file, _, anchor = unquote(target).partition("#")
        there = (path.parent / file).resolve() if file else path
        if not there.exists() or (there.is_dir() and path.suffix == ".ipynb"):
            found.append(target)
        elif there.is_dir() and path.parts[-2:] == ("notebooks", "README.md"):
            found.append(f"{target} is a folder, which JupyterLab does not open as a page")
        elif anchor and anchor not in anchors(there):
            found.append(target)
    return sorted(found)


@pytest.mark.parametrize("path", TEXTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_somewhere(path):
    assert broken(path) == []


def test_a_broken_link_would_be_found(tmp_path):
    other = tmp_path / "other.md"
    other.write_text("# One\n\n## two-words\n\n## Two words\n")
    page = tmp_path / "page.md"
    page.write_text(
        "[a](other.md#two-words) [b](other.md#One) [c](gone.md) [d](https://example.org)"
    )
    assert broken(page) == ["gone.md", "other.md#One"]
