"""The site in a real browser, read from disk and without a network.

It is built where `make site` builds it, so that what has not changed since is not built again, or
taken from the folder that $SFLKIT_SITE names.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.helpers import ROOT

PHONE = {"width": 390, "height": 844}
DESK = {"width": 1280, "height": 900}


@pytest.fixture(scope="module")
def site(browser):
    """The folder of the built site."""
    if built := os.environ.get("SFLKIT_SITE"):
        return Path(built).resolve()
    clean = {name: value for name, value in os.environ.items() if name != "SFLKIT_FIGURES"}
    done = subprocess.run(
        [sys.executable, "-m", "docs.site"], cwd=ROOT, env=clean, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return ROOT / "out" / "site"


@pytest.fixture
def visit(browser, site):
    """A function that opens a page of the site; what goes wrong is gathered in `visit.wrong`."""
    context = browser.new_context(viewport=DESK, offline=True)
    tab = context.new_page()
    wrong = []

    def request(asked):
        if not asked.url.startswith(("file:", "data:", "blob:")):
            wrong.append(f"{tab.url} asks for {asked.url}")

    def console(message):
        if message.type in ("error", "warning"):
            wrong.append(f"{tab.url} says {message.text}")

    tab.on("request", request)
    tab.on("console", console)
    tab.on("pageerror", lambda error: wrong.append(f"{tab.url} raises {error}"))
    tab.on("requestfailed", lambda asked: wrong.append(f"{tab.url} lacks {asked.url}"))

    def visit(page, viewport=DESK):
        tab.set_viewport_size(viewport)
        tab.goto((site / page).as_uri(), wait_until="load")
        return tab

    visit.wrong = wrong
    yield visit
    context.close()


def pages(site):
    found = [path.relative_to(site).as_posix() for path in site.rglob("*.html")]
    return sorted(page for page in found if not page.startswith("_"))


def test_every_page_loads_without_errors_offline_and_fits_a_phone(site, visit):
    found = pages(site)
    assert len(found) >= 150
    wide = {}
    for page in found:
        width = visit(page, PHONE).evaluate("document.documentElement.scrollWidth")
        if width > PHONE["width"]:
            wide[page] = width
    assert visit.wrong == []
    assert wide == {}


def test_formulas_are_set(visit):
    tab = visit("notebooks/11_sfl_discrepancy_bounds.html")
    tab.wait_for_function("document.querySelectorAll('mjx-container').length > 0")
    assert tab.locator("mjx-merror").count() == 0 and visit.wrong == []
