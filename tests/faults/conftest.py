"""The fault table at the end of a session."""

from __future__ import annotations

from tests.faults import campaign


def pytest_terminal_summary(terminalreporter):
    if campaign.ROWS or campaign.WORDS:
        terminalreporter.section("faults")
    if campaign.ROWS:
        terminalreporter.write_line(campaign.table())
    if campaign.WORDS:
        terminalreporter.write_line(campaign.tally())
