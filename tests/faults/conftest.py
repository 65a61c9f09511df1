"""The fault table at the end of a session."""

from __future__ import annotations

from tests.faults import campaign


def pytest_terminal_summary(terminalreporter):
    if campaign.ROWS:
        terminalreporter.section("faults")
        terminalreporter.write_line(campaign.table())
