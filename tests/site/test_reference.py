"""Docstrings as reStructuredText, sources with line numbers, and the reference's contents."""

from __future__ import annotations

import inspect

from docs.site import reference
from docs.site.sources import Sources
from sflkit.sfl import caches
from tests.helpers import ROOT


def turned(text):
    lines = text.split("\n")
    reference.as_rst(None, "module", "x", None, None, lines)
    return "\n".join(lines)


def test_a_markdown_table_becomes_a_list_table():
    made = turned("Text:\n\n| code | meaning |\n|------|---------|\n| `a`  | 2 * 3   |\n\nMore.")
    assert made.split("\n") == [
        "Text:",
        "",
        "",
        ".. list-table::",
        "   :header-rows: 1",
        "",
        "   * - code",
        "     - meaning",
        "   * - `a`",
        r"     - 2 \* 3",
        "",
        "",
        "More.",
    ]


def test_a_source_is_shown_at_its_line():
    line = inspect.getsourcelines(caches.DRSR)[1]
    info = {"module": "sflkit.sfl.caches", "fullname": "DRSR"}
    assert reference.source_of("py", info) == f"../code/sflkit/sfl/caches.html#line-{line}"
    assert reference.source_of("py", {"module": "sflkit.sfl.caches", "fullname": "gone"}) is None
    assert reference.source_of("c", info) is None


def test_code_has_a_page_with_anchors():
    sources = Sources(ROOT)
    sources.code.add("sflkit/rounding.py")
    reference.add_code(sources)
    page = sources.files["code/sflkit/rounding.md"]
    lines = (ROOT / "sflkit" / "rounding.py").read_text(encoding="utf-8").splitlines()
    assert f'id="line-{len(lines)}"' in page and f'id="line-{len(lines) + 1}"' not in page
    assert page.splitlines()[6] == "# sflkit/rounding.py"
