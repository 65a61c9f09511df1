"""Bad options and parameters: refused before anything runs, with exit code 2 and their name.

`make test` makes every fifth of the damaged settings, `make faults` all of them; the command lines
are few and all made.
"""

from __future__ import annotations

import functools
import time

import pytest
import typer
from typer.testing import CliRunner

from companion.app import cli, gate
from sflkit import cli as library
from tests.faults import damaged_commands
from tests.faults.campaign import SHARE
from tests.helpers import ROOT

COMMAND = typer.Typer()  # what `sflkit` is in a clone
COMMAND.registered_commands = [*library.app.registered_commands, *cli.app.registered_commands]


@pytest.mark.parametrize("option", [*damaged_commands.OPTIONS, "nonsense", "data set"])
def test_command_lines_are_refused(clone, option):
    cases = [line for name, line in damaged_commands.commands() if name == option]
    assert len(cases) >= 5
    for line in cases:
        began = time.monotonic()
        done = CliRunner().invoke(COMMAND, line)
        said = done.output.replace("--", "")
        assert done.exit_code == 2, (line, done.exit_code, done.output, done.exception)
        words = [line[-1], *line[-1].split()]
        assert option.removeprefix("--") in said or any(repr(w) in said for w in words), line
        assert "Traceback" not in said and time.monotonic() - began < 5
    assert not (clone / "out").exists() and not (clone / "figures").exists()


def test_settings_are_refused_or_right(monkeypatch):
    monkeypatch.chdir(ROOT)
    monkeypatch.setattr(gate, "profiles", functools.cache(gate.profiles))  # read once
    cases = list(damaged_commands.settings(gate.notebooks()))
    assert len(cases) >= 2000
    assert [case[1:] for case in cases] == [
        case[1:] for case in damaged_commands.settings(gate.notebooks())
    ]
    wrong = []
    refused = 0
    for book, name, text in cases[::SHARE]:
        began = time.monotonic()
        try:
            values = gate.resolve(book, "", [f"{name}={text}"])
        except gate.GateError as error:
            refused += 1
            if name.strip() not in str(error):
                wrong.append((book.name, name, text, f"not named: {error}"))
        except Exception as error:
            wrong.append((book.name, name, text, f"{type(error).__name__}: {error}"))
        else:
            parameter = book.parameters[name.strip()]
            if not damaged_commands.is_right(parameter, values.get(name, parameter.default)):
                wrong.append((book.name, name, text, f"accepted: {values}"))
        if time.monotonic() - began > 1:
            wrong.append((book.name, name, text, "slow"))
    assert not wrong
    assert refused > 0.5 * len(cases[::SHARE])
