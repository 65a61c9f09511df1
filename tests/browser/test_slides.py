"""The decks in a real browser, from disk and without a network: every slide fits its page."""

from __future__ import annotations

import subprocess
import sys

import pytest

from docs.slides import TITLES
from tests.helpers import ROOT


@pytest.fixture(scope="module")
def decks(browser):
    """The folder of the decks."""
    done = subprocess.run(
        [sys.executable, "-m", "docs.slides"], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return ROOT / "out" / "slides"


@pytest.mark.parametrize("paper", TITLES)
def test_every_slide_fits_and_nothing_is_missing(browser, decks, paper):
    context = browser.new_context(viewport={"width": 1280, "height": 720}, offline=True)
    tab, wrong = context.new_page(), []
    tab.on("console", lambda m: wrong.append(m.text) if m.type in ("error", "warning") else None)
    tab.on("pageerror", lambda error: wrong.append(str(error)))
    tab.on("requestfailed", lambda asked: wrong.append(asked.url))
    tab.goto((decks / f"{paper}.html").as_uri())
    tab.wait_for_function("window.Reveal && Reveal.isReady()")
    tab.evaluate("Reveal.configure({transition: 'none'})")
    sizes, letters = [], []
    letter = (
        "[...Reveal.getCurrentSlide().querySelectorAll('h1, h2, p, li')].map(e =>"
        " parseFloat(getComputedStyle(e).fontSize) * Reveal.getScale())"
    )
    slides = tab.evaluate("Reveal.getTotalSlides()")
    for _ in range(slides):
        size = "(s => [s.scrollWidth, s.scrollHeight])(Reveal.getCurrentSlide())"
        sizes.append(tab.evaluate(size))
        letters += tab.evaluate(letter)
        tab.evaluate("Reveal.next()")
    context.close()
    full = [n for n, (w, h) in enumerate(sizes, start=1) if w > 1280 or h > 720]
    assert 10 < slides <= 20 and full == [] and wrong == []
    assert min(letters) >= 24  # pixels of 720
