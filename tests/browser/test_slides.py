"""The decks in a real browser, from disk and without a network: every slide fits its page."""

from __future__ import annotations

import subprocess
import sys

import pytest

from docs.slides.deck import PAPERS
from tests.helpers import ROOT


@pytest.fixture(scope="module")
def decks(browser):
    """The folder of the decks."""
    done = subprocess.run(
        [sys.executable, "-m", "docs.slides"], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return ROOT / "out" / "slides"


@pytest.mark.parametrize("paper", PAPERS)
def test_every_slide_fits_and_nothing_is_missing(browser, decks, paper):
    context = browser.new_context(viewport={"width": 1280, "height": 800}, offline=True)
    tab, wrong = context.new_page(), []
    tab.on("console", lambda m: wrong.append(m.text) if m.type in ("error", "warning") else None)
    tab.on("pageerror", lambda error: wrong.append(str(error)))
    tab.on("requestfailed", lambda asked: wrong.append(asked.url))
    tab.goto((decks / f"{paper}.html").as_uri())
    tab.wait_for_function("window.Reveal && Reveal.isReady()")
    tab.wait_for_function("MathJax.startup && MathJax.startup.promise")
    tab.evaluate("MathJax.startup.promise")
    tab.evaluate("Reveal.configure({transition: 'none'})")
    sizes = []
    slides = tab.evaluate("Reveal.getTotalSlides()")
    for _ in range(slides):
        size = "(s => [s.scrollWidth, s.scrollHeight])(Reveal.getCurrentSlide())"
        sizes.append(tab.evaluate(size))
        tab.evaluate("Reveal.next()")
    context.close()
    full = [n for n, (w, h) in enumerate(sizes, start=1) if w > 1200 or h > 750]
    assert slides >= 40 and full == [] and wrong == []


def test_on_a_phone_letters_are_as_large_as_text(browser, decks):
    context = browser.new_context(
        viewport={"width": 390, "height": 844}, is_mobile=True, has_touch=True, offline=True
    )
    tab = context.new_page()
    tab.goto((decks / "sfl.html").as_uri())
    tab.wait_for_function("window.Reveal && Reveal.isReady()")
    tab.evaluate("Reveal.slide(1, 1)")
    letter = "parseFloat(getComputedStyle(Reveal.getCurrentSlide().querySelector('p')).fontSize)"
    seen = tab.evaluate(f"{letter} * Reveal.getScale()")
    context.close()
    assert seen >= 14  # pixels of the screen
