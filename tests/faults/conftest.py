"""The fault table at the end of a session."""

from __future__ import annotations

from pathlib import Path

from tests.faults import campaign

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items):
    """Let `make faults` find what lies here, by `-m faults`."""
    for item in items:
        if HERE in item.path.parents:
            item.add_marker("faults")


def pytest_terminal_summary(terminalreporter):
    if campaign.ROWS or campaign.WORDS:
        terminalreporter.section("faults")
    if campaign.ROWS:
        terminalreporter.write_line(campaign.table())
    if campaign.WORDS:
        terminalreporter.write_line(campaign.tally())
