"""A headless Chromium for tests, or the reason why there is none."""

from __future__ import annotations

import shutil

import pytest


@pytest.fixture(scope="session")
def browser():
    """Chromium: the system's, else the one that playwright has downloaded."""
    api = pytest.importorskip(
        "playwright.sync_api",
        reason="playwright is not installed: .venv/bin/pip install -e .[browser]",
    )
    found = next(filter(None, map(shutil.which, ("chromium", "chromium-browser"))), None)
    with api.sync_playwright() as playwright:
        try:
            # as root, as in a container, Chromium has no sandbox to start
            chromium = playwright.chromium.launch(executable_path=found, args=["--no-sandbox"])
        except api.Error as error:
            pytest.skip(
                "no Chromium: apt-get install chromium, or .venv/bin/playwright install chromium "
                f"({str(error).splitlines()[0]})"
            )
        yield chromium
        chromium.close()
