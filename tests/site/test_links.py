"""The check of what was built: links that lead nowhere, and what comes from another host."""

from __future__ import annotations

import pytest

from docs.site import __main__ as command
from docs.site import links
from docs.site.sources import Sources

PAGE = """<!DOCTYPE html><html><head><link rel="stylesheet" href="_static/a.css?v=1">
<script src="_static/a.js"></script></head><body id="top">
<h1 id="one">One</h1> {} <pre>&lt;a href=&quot;nowhere.html&quot;&gt;</pre>
<script>const text = '<a href="nowhere.html">';</script></body></html>"""


@pytest.fixture
def site(tmp_path):
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
def test_what_leads_somewhere_passes(site, body):
    report = site(body)
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
def test_what_does_not_is_named(site, body, text):
    ((page, _, said),) = site(body).broken
    assert page == "index.html" and text in said


def test_a_problem_of_a_page_is_found_in_the_file_that_it_was_made_from(tmp_path):
    (tmp_path / "README.md").write_text("# Title\n\nSee [it](docs/guides/data.md#gone).\n")
    sources = Sources(tmp_path)
    sources.add("index.md", "", "README.md")
    found = command.located("index.html", "guides/data.html#gone", "no place", sources)
    assert (found.file, found.line) == ("README.md", 3)
    made = command.located("verdicts/index.html", "x.html", "nowhere", sources)
    assert (made.file, made.line) == ("verdicts/index.html", 1)
