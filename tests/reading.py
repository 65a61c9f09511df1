"""How a notebook reads: how much of its page is code, prose and figures, and what cannot be read.

`python -m tests.reading [NN ...]` prints a table. Heights are those of a page that is 960 pixels
wide, in rendered lines of 20 pixels: a line of code is one line (longer than 120 characters: two),
prose is wrapped at 110 characters, a row of a table is one and a half lines for each 110
characters, and a figure is as high as its pixels, scaled down to 960 where it is wider. Cells whose
source is folded show none, and folded details show their first line.
"""

from __future__ import annotations

import base64
import json
import math
import re
import struct
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import NamedTuple

from tests.helpers import ROOT

LINE, WIDTH, CODE, PROSE = 20, 960, 120, 110


class Reading(NamedTuple):
    """Shares of the rendered page, and the worst of what a reader meets.

    `code`, `prose`, `figure` and `table` (with all other outputs) add up to 1; `longest` is in
    lines, `narrowest` in pixels (None without a figure), `cut` lists table cells that end in "...".
    `first` counts the lines above the first picture and `words` those of Markdown cells.
    """

    code: float
    prose: float
    figure: float
    table: float
    lines: int
    longest: int
    narrowest: int | None
    cut: list[str]
    first: float
    words: int


def measure(path: Path) -> Reading:
    """Measure a committed notebook, with its outputs."""
    heights = dict.fromkeys(("code", "prose", "figure", "table"), 0.0)
    longest, widths, cut, first, words = 0, [], [], None, 0
    for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            words += len(re.sub(r"\]\([^)]*\)", "]", source).split())
            heights["prose"] += _prose(source)
            for width, height in _linked(source, path.parent):
                first = sum(heights.values()) if first is None else first
                heights["figure"] += height * min(1, WIDTH / width) / LINE + 1
            continue
        if not cell["metadata"].get("jupyter", {}).get("source_hidden"):
            shown = _wrapped(source, CODE)
            heights["code"] += shown + 1
            longest = max(longest, shown)
        for output in cell["outputs"]:
            data = output.get("data") or {"text/plain": output.get("text", "")}
            data = {
                kind: "".join(text) for kind, text in data.items() if isinstance(text, str | list)
            }
            if "image/png" in data:
                width, height = png_size(data["image/png"])
                widths.append(width)
                first = sum(heights.values()) if first is None else first
                heights["figure"] += height * min(1, WIDTH / width) / LINE + 1
            elif "text/markdown" in data:
                heights["prose"] += _prose(data["text/markdown"])
            elif "text/html" in data:
                rows = _Table(data["text/html"])
                heights["table"] += 1.5 * sum(
                    math.ceil(sum(map(len, r)) / PROSE) for r in rows.rows
                )
                cut += rows.cut
            else:
                heights["table"] += _wrapped(data["text/plain"], PROSE) + 0.5
                cut += re.findall(
                    r".{0,40}\.\.\.(?=\s{2}|$)", data["text/plain"], flags=re.MULTILINE
                )
    total = sum(heights.values())
    shares = {name: height / total for name, height in heights.items()}
    return Reading(
        **shares,
        lines=round(total),
        longest=longest,
        narrowest=min(widths, default=None),
        cut=cut,
        first=total if first is None else first,
        words=words,
    )


def outputs(path: Path) -> str:
    """Return all texts that a committed notebook's outputs show."""
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    found = [
        output.get("data") or {"text": output.get("text", "")}
        for cell in cells
        for output in cell.get("outputs", [])
    ]
    return "\n".join(
        "".join(text)
        for data in found
        for kind, text in data.items()
        if kind.startswith("text") and isinstance(text, str | list)
    )


def png_size(text: str) -> tuple[int, int]:
    """Return width and height of a png in base64, in pixels."""
    return struct.unpack(">II", base64.b64decode(text[:64])[16:24])


def _linked(text: str, folder: Path) -> list[tuple[int, int]]:
    """Return width and height of the pictures that Markdown links to, in pixels."""
    files = re.findall(r"!\[[^\]]*\]\(([^)]+\.png)\)", text)
    return [struct.unpack(">II", (folder / file).read_bytes()[16:24]) for file in files]


def _wrapped(text: str, width: int) -> int:
    return sum(max(1, math.ceil(len(line) / width)) for line in text.rstrip("\n").split("\n"))


def _prose(text: str) -> float:
    """Return the lines of Markdown: a heading is two, a row of a table one and a half."""
    lines = 1.0
    folded = 1
    while folded:  # from the innermost outwards
        inner = r"<details>((?!<details>).)*?</details>"
        text, folded = re.subn(inner, "details", text, flags=re.DOTALL)
    for block in re.split(r"\n\s*\n", text.strip()):
        rows = block.split("\n")
        if rows[0].startswith("|"):
            lines += 1.5 * sum(
                math.ceil(len(r) / PROSE) for r in rows if not re.match(r"\|\s*:?-", r)
            )
            continue
        for row in rows:
            plain = re.sub(r"\]\([^)]*\)", "]", row)
            lines += 2 if row.startswith("#") else math.ceil(len(plain) / PROSE)
        lines += 0.6
    return lines


class _Table(HTMLParser):
    """The texts of an HTML table's cells, row by row, and those that are cut."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.rows: list[list[str]] = []
        self._in_cell = False
        self.feed(html)

    def handle_starttag(self, tag, attrs):
        if tag == "tr":
            self.rows.append([])
        elif tag in ("td", "th"):
            self.rows[-1].append("")
            self._in_cell = True

    def handle_endtag(self, tag):
        if tag in ("td", "th"):
            self._in_cell = False

    def handle_data(self, data):
        if self._in_cell:
            self.rows[-1][-1] += data

    @property
    def cut(self) -> list[str]:
        return [
            cell[-60:] for row in self.rows for cell in row if cell.rstrip().endswith(("...", "…"))
        ]


def main(numbers: list[str]) -> None:
    """Print a table of the notebooks with these numbers, of all where none is given."""
    print(
        "no.  code  prose  figure  table  lines  longest cell  narrowest figure  cut cells  "
        "px to first picture  words"
    )
    for path in sorted((ROOT / "notebooks").glob("*.ipynb")):
        if not numbers or path.stem[:2] in numbers:
            r = measure(path)
            shares = f"{r.code:4.0%}  {r.prose:5.0%}  {r.figure:6.0%}  {r.table:5.0%}"
            worst = f"{r.longest:12}  {r.narrowest or '-':>16}  {len(r.cut):9}"
            worst += f"  {r.first * LINE:19.0f}  {r.words:5}"
            print(f"{path.stem[:2]}   {shares}  {r.lines:5}  {worst}")


if __name__ == "__main__":
    main(sys.argv[1:])
