"""The decks of slides: what is on them, and that they open without a network."""

from __future__ import annotations

import base64
import re

import nbformat
import pandas as pd
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from docs.slides import __main__ as slides
from docs.slides import deck
from tests.helpers import ROOT

PNG = base64.b64encode(b"no real picture").decode()


def markdown(source, *tags):
    return new_markdown_cell(source, metadata={"tags": list(tags)})


def code(source, *tags, pictures=0):
    outputs = [new_output("display_data", {"image/png": PNG}) for _ in range(pictures)]
    return new_code_cell(source, outputs=outputs, metadata={"tags": list(tags)})


@pytest.fixture
def books(tmp_path):
    cells = [
        markdown("# 10 · A question\n\n**Paper.** x\n\nWhat it is about.\n\nMore.", "title"),
        markdown("## The claim\n\n> A [claim](../ERRATA.md), see [this](https://x.org).", "answer"),
        code("secret = 1", "imports"),
        markdown("## A heading\n\nBefore the picture."),
        code("plt.show()", "figure", pictures=2),
        markdown("**What to see.** A line.\n\n## Next\n\nMore text."),
        code("explorer()", "widget", pictures=1),
        markdown("Deviations", "deviations"),
        markdown("## Exercise\n\nWhy?", "exercise"),
        code("check", "check"),
        markdown("## Verdicts\n\nOne line a claim."),
    ]
    book = new_notebook(cells=cells, metadata={"sflkit": {"artefacts": ["sfl-fig1", "sfl-none"]}})
    nbformat.write(book, tmp_path / "10_sfl_some.ipynb")
    return tmp_path


def test_tags_decide_what_is_on_which_slide(books, monkeypatch):
    known = pd.DataFrame({"artefact": ["sfl-fig1"], "verdict": ["reproduced"], "setting": ["full"]})
    monkeypatch.setattr(deck.tables, "all_verdicts", lambda: known)
    cells = deck.deck("sfl", books).cells
    shown = [
        (cell.metadata.slideshow.slide_type, cell.source.splitlines()[0] if cell.source else "png")
        for cell in cells
    ]
    assert shown == [
        ("slide", "# On the local cache update rules in streaming federated learning"),
        ("slide", "# 10 · A question"),
        ("subslide", "## The claim"),
        ("subslide", "## A heading"),
        ("subslide", "png"),
        ("subslide", "png"),
        ("-", "**What to see.** A line."),
        ("subslide", "## Next"),
        ("subslide", "## What came out"),
        ("subslide", "## Exercise"),
    ]
    assert cells[1].source == "# 10 · A question\n\nWhat it is about."
    assert cells[2].source.endswith("> A claim, see [this](https://x.org).")
    assert "Figure 1 | reproduced" in cells[8].source and "sfl-none" not in cells[8].source
    assert "secret" not in str(cells)


@pytest.mark.parametrize("paper", deck.PAPERS)
def test_decks_load_nothing_from_another_host(paper, tmp_path):
    pytest.importorskip("nbconvert")
    file = slides.write(paper, ROOT / "notebooks", tmp_path)
    text = file.read_text(encoding="utf-8")
    loaded = re.findall(r"<(?:script|link|img|iframe)[^>]+(?:src|href)=[\"']([^\"']+)", text)
    assert [place for place in loaded if re.match(r"(?:https?:)?//", place)] == []
    assert not re.search(r"@import|import .* from ['\"]http", text)
    assert {"reveal/dist/reveal.js", "mathjax/tex-svg.js"} <= set(loaded)
    assert text.count("<section") > 20 and file.stat().st_size < 20_000_000


def test_what_the_decks_load_lies_beside_them(tmp_path):
    for _, package, _, _ in slides.ASSETS:
        if slides.find_spec(package) is None:
            pytest.skip(f"{package} is not installed; requirements.lock has it")
    slides.copy_assets(tmp_path)
    for place in ("reveal/dist/reveal.js", "reveal/dist/reveal.css", "reveal/dist/theme/white.css",
                  "reveal/plugin/notes/notes.js", "mathjax/tex-svg.js"):  # fmt: skip
        assert (tmp_path / place).stat().st_size > 1000
    # the theme's own letters lie beside it too
    theme = (tmp_path / "reveal/dist/theme/white.css").read_text(encoding="utf-8")
    assert not re.search(r"url\(['\"]?https?:", theme)


def test_a_missing_package_is_named(monkeypatch, tmp_path):
    monkeypatch.setattr(slides, "find_spec", lambda name: None)
    with pytest.raises(ModuleNotFoundError, match="slides need sphinx-revealjs"):
        slides.copy_assets(tmp_path)
