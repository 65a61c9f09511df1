"""The site: broken links are found, errata keep their numbers, docstrings' tables are tables.

That nothing is wrong with what is committed is what `make site` says.
"""

from __future__ import annotations

import re

import pytest

from docs import conf, links, site
from tests.helpers import ROOT

PAGE = """<!DOCTYPE html><html><head><link rel="stylesheet" href="_static/a.css?v=1">
<script src="_static/a.js"></script></head><body id="top">
<h1 id="one">One</h1> {} <pre>&lt;a href=&quot;nowhere.html&quot;&gt;</pre>
<script>const text = '<a href="nowhere.html">';</script></body></html>"""


@pytest.fixture
def built(tmp_path):
    (tmp_path / "_static").mkdir()
    (tmp_path / "sub").mkdir()
    (tmp_path / "_static" / "a.css").write_text("body {background: url('a.png')}")
    (tmp_path / "_static" / "a.js").write_text("")
    (tmp_path / "sub" / "two.html").write_text('<p id="there">two</p><a name="old"></a>')

    def write(body):
        (tmp_path / "index.html").write_text(PAGE.format(body))
        return links.check(tmp_path)

    return write


@pytest.mark.parametrize(
    "body",
    [
        '<a href="#one">',
        '<a href="sub/two.html#there">',
        "<a href='sub/two.html#old'>",
        '<a href="sub/two.html?verdict=partly">',
        '<a href="https://example.org/x">',
        '<a href="mailto:a@example.org">',
        '<img src="data:image/png;base64,AA">',
        '<a title="a > b" href="#one">',
    ],
)
def test_what_leads_somewhere_passes(built, body):
    report = built(body)
    assert report.broken == [] and report.pages == 2 and report.links >= 2


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ('<a href="gone.html">', "leads nowhere"),
        ('<a href="../outside.html">', "leads nowhere"),
        ('<a href="#gone">', "leads to no place"),
        ('<a title="a > b" href="sub/two.html#gone">', "leads to no place"),
        ('<img src="gone.png">', "leads nowhere"),
        ('<script src="https://cdn.example.org/x.js"></script>', "from another host"),
        ('<img src="//example.org/x.png">', "from another host"),
        ('<link rel="stylesheet" href="https://example.org/x.css">', "from another host"),
        ('<iframe src="https://example.org"></iframe>', "from another host"),
    ],
)
def test_what_does_not_is_named(built, body, text):
    ((page, said),) = built(body).broken
    assert page == "index.html" and text in said


def test_every_erratum_keeps_its_number_and_its_words():
    errata = (ROOT / "ERRATA.md").read_text(encoding="utf-8")
    made = site.with_headings(errata)
    numbers = re.findall(r"^(\d+)\. \*\*", errata, re.M)
    assert re.findall(r"^\(erratum-(\d+)\)=\n### \1\. ", made, re.M) == numbers
    assert re.findall(r"^## .*", made, re.M) == re.findall(r"^## .*", errata, re.M)
    assert site.with_headings("3. **One.** a\n   b\n2. **Two**: c\n\n## Next\n") == (
        "(erratum-3)=\n### 3. One\n\na\nb\n\n(erratum-2)=\n### 2. Two\n\n: c\n\n## Next\n"
    )


def test_a_markdown_table_of_a_docstring_becomes_a_list_table():
    lines = "Text:\n\n| code | meaning |\n|------|---------|\n| `a`  | 2 * 3   |".split("\n")
    conf.as_rst(None, "module", "x", None, None, lines)
    head, cells = [".. list-table::", "   :header-rows: 1", ""], ["   * - code", "     - meaning"]
    cells += ["   * - `a`", r"     - 2 \* 3"]
    assert [line for line in lines[3:] if line] == [line for line in [*head, *cells] if line]
