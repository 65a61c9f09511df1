"""The page of errata: numbers, links to the code and to the notebook that runs them."""

from __future__ import annotations

import json

import pytest

from companion.app import gate
from docs.site import errata
from docs.site.records import Records
from docs.site.sources import Sources

TEXT = """# Errata

Introduction, with [a link](README.md).

## SFL

7. **A title over
   two lines.** The text has `code`. *We* mend it. [tests/sfl/test_caches.py, notebook 10]
49. **Another.** No place.
"""


@pytest.fixture
def sources(clone):
    (clone / "ERRATA.md").write_text(TEXT)
    (clone / "tests" / "sfl").mkdir(parents=True)
    (clone / "tests" / "sfl" / "test_caches.py").write_text('"""Tests."""\n')
    for path in (clone / "sflkit").rglob("*.py"):
        path.unlink()
    (clone / "sflkit" / "one.py").write_text("x = 1\ny = 2  # ERRATA 7 and 49: why\n")
    return Sources(clone)


def page(sources):
    errata.add(sources, Records([]))
    return sources.files["errata.md"]


def test_an_erratum_keeps_its_number_and_leads_to_tests_notebook_and_code(sources):
    # a Markdown list that jumps from 7 to 49 would be numbered 7, 8
    made = page(sources)
    assert "(erratum-7)=\n### 7. A title over two lines\n" in made
    assert "(erratum-49)=\n### 49. Another\n\nNo place." in made
    assert (
        "The text has `code`. *We* mend it. [[tests/sfl/test_caches.py]"
        "(code/tests/sfl/test_caches.md), notebook [10](notebooks/10_first.ipynb)]"
    ) in made
    place = '<a href="code/sflkit/one.html#line-2">sflkit/one.py, line 2</a>'
    assert made.count(f"In the code: {place}.") == 2
    assert "[a link](index.md)" in made and sources.problems == []
    assert sources.code == {"sflkit/one.py", "tests/sfl/test_caches.py"}


def test_a_test_that_is_gone_is_named(sources):
    (sources.root / "tests" / "sfl" / "test_caches.py").unlink()
    page(sources)
    ((file, line, text),) = [(p.file, p.line, p.text) for p in sources.problems]
    assert (file, line, text) == ("ERRATA.md", 8, "there is no tests/sfl/test_caches.py")


def test_it_leads_to_where_the_notebook_runs_it(sources):
    file = sources.root / "notebooks" / "12_second.ipynb"
    content = json.loads(file.read_text())
    content["cells"][0]["source"] = "# 12 · Title\n\n### 7 · A cache, full\n\nText."
    file.write_text(json.dumps(content))
    # the anchor that GitHub and MyST give to that heading: letters and hyphens, two for " · "
    assert errata.in_notebook(gate.find("12")) == {
        "12": "notebooks/12_second.ipynb#12--title",
        "7": "notebooks/12_second.ipynb#7--a-cache-full",
    }
