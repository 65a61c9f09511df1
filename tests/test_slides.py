"""The decks of slides: what is on them, and that they open without a network."""

from __future__ import annotations

import re

import pytest

from docs import slides
from tests.helpers import ROOT


@pytest.mark.parametrize("paper", slides.TITLES)
def test_a_slide_is_a_headline_and_a_picture(paper, tmp_path):
    shown = slides.slides(paper, ROOT / "figures")
    assert 10 <= len(shown) <= slides.MOST - 2
    text = slides.write(paper, ROOT / "figures", tmp_path).read_text(encoding="utf-8")
    sections = re.findall(r"<section>(.*?)</section>", text)
    assert len(sections) == len(shown) + 2
    for section, slide in zip(sections[1:-1], shown):
        assert section.count("<h2>") == section.count("<img") == 1
        assert slide["verdict"] in section and (tmp_path / "figures" / slide["picture"]).is_file()


def test_decks_load_nothing_from_another_host(tmp_path):
    text = slides.write("sfl", ROOT / "figures", tmp_path).read_text(encoding="utf-8")
    loaded = re.findall(r"<(?:script|link|img|iframe)[^>]+(?:src|href)=[\"']([^\"']+)", text)
    assert loaded and [place for place in loaded if re.match(r"(?:https?:)?//", place)] == []
    pytest.importorskip("sphinx_revealjs")
    slides.copy_assets(tmp_path)
    for place in loaded:
        assert (tmp_path / place).stat().st_size > 500, place
    # the theme's own letters lie beside it too
    theme = (tmp_path / "reveal/dist/theme/white.css").read_text(encoding="utf-8")
    assert not re.search(r"url\(['\"]?https?:", theme)


def test_what_is_missing_or_unknown_is_named(monkeypatch, tmp_path):
    with pytest.raises(ValueError, match="paper='x' must be one of 'sfl'"):
        slides.slides("x", tmp_path)
    monkeypatch.setattr(slides, "find_spec", lambda name: None)
    with pytest.raises(ModuleNotFoundError, match="slides need sphinx-revealjs"):
        slides.copy_assets(tmp_path)
