"""What the README says works: its Python blocks run as they stand, its tables are current, its links lead somewhere."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest
from conftest import ROOT
from typer.testing import CliRunner

from sflkit.app import cli, tables

FILE = ROOT / "README.md"
TEXT = FILE.read_text(encoding="utf-8") if FILE.is_file() else ""
# Every block fenced as ```python is run, on its own, in this order; what should not be run is fenced otherwise.
BLOCKS = [(TEXT[:match.start()].count("\n") + 2, match[1]) for match in re.finditer(r"^```python\n(.*?)^```$", TEXT, re.M | re.S)]


def test_it_has_python_to_run_and_names_the_two_commands():
    assert len(BLOCKS) >= 3, "bring your own stream, cache rule and model are shown in ten lines each"
    assert "make figures" in TEXT and "make test" in TEXT


@pytest.mark.parametrize(("line", "block"), BLOCKS, ids=[f"line{line}" for line, _ in BLOCKS])
def test_python_blocks_run(line, block, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    exec(compile("\n" * (line - 1) + block, str(FILE), "exec"), {"__name__": "__main__"})


def test_tables_are_current(monkeypatch):
    monkeypatch.delenv("SFLKIT_FIGURES", raising=False)  # the tracked figures, not the scratch folder of the tests
    monkeypatch.chdir(ROOT)
    assert tables.refresh_readme(check=True), "run `sflkit verdicts --write-readme`"


def test_links_lead_somewhere():
    links = re.findall(r"\]\((?!https?:|#|mailto:)([^)#]+)", TEXT)
    assert [link for link in links if not (ROOT / link).exists()] == []


def test_commands_it_shows_exist():
    for command in set(re.findall(r"^(?:\$ )?sflkit ([a-z]+)", TEXT, re.M)):
        assert CliRunner().invoke(cli.app, [command, "--help"]).exit_code == 0, command
    for target in set(re.findall(r"^(?:\$ )?make ([a-z]+)", TEXT, re.M)):
        assert re.search(rf"^{target}:", (ROOT / "Makefile").read_text(encoding="utf-8"), re.M), target


def test_importing_the_package_is_quick_and_light():
    code = "import sys, sflkit; print(*sorted(m for m in ('numpy', 'pandas', 'torch') if m in sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip() == ""
