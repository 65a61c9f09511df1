"""The decks of slides: what is on them, and that they open without a network."""

from __future__ import annotations

import re

import pytest

from docs import slides
from tests.helpers import ROOT


@pytest.mark.parametrize("paper", slides.TITLES)
def test_a_slide_is_a_headline_and_a_picture(paper, tmp_path):
    text = slides.write(paper, ROOT / "figures", tmp_path).read_text(encoding="utf-8")
    sections = re.findall(r"<section>(.*?)</section>", text)
    assert 12 <= len(sections) <= slides.MOST
    for section in sections[1:-1]:
        assert section.count("<h2>") == section.count("<b>") == section.count("<img") == 1
        assert (tmp_path / re.search(r'data-src="(.+?)"', section)[1]).is_file()


def test_decks_load_nothing_from_another_host(tmp_path):
    text = slides.write("sfl", ROOT / "figures", tmp_path).read_text(encoding="utf-8")
    loaded = re.findall(r"<(?:script|link|img|iframe)[^>]+(?:src|href)=[\"']([^\"']+)", text)
    assert loaded and [place for place in loaded if re.match(r"(?:https?:)?//", place)] == []
    pytest.importorskip("sphinx_revealjs")
    slides.copy_reveal(tmp_path)
    for place in loaded:
        assert (tmp_path / place).stat().st_size > 500, place
    # the theme's own letters lie beside it too
    theme = (tmp_path / "reveal/dist/theme/white.css").read_text(encoding="utf-8")
    assert not re.search(r"url\(['\"]?https?:", theme)
