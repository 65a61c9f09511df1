"""The lab plans and the glossary: 90 minutes each, commands that run, names that exist."""

from __future__ import annotations

import ast
import re
import shlex

import pytest

from companion import teaching
from companion.app import gate
from tests.helpers import ROOT

LABS = sorted((ROOT / "docs" / "labs").glob("*.md"))
GLOSSARY = ROOT / "docs" / "glossary.md"
each = pytest.mark.parametrize("path", LABS, ids=lambda path: path.stem)


@each
def test_every_question_has_an_answer(path):
    text = path.read_text(encoding="utf-8")
    questions = text.partition("## Questions")[2]
    answers = (path.parent / "answers" / path.name).read_text(encoding="utf-8")
    assert "Answers for the lecturer" not in text, "they stand on a page of their own"
    asked = re.findall(r"^(\d+)\. ", questions, re.M)
    assert asked == re.findall(r"^(\d+)\. ", answers, re.M) and len(asked) >= 6
    for name in re.findall(r"^\*(.+?)\.\* ", answers, re.M):
        assert name.lower() in text.partition("## Questions")[0].lower(), name


@each
def test_the_gate_takes_every_command_of_a_lab(path):
    lines = re.findall(r"sflkit run [^\n`]+", path.read_text(encoding="utf-8"))
    assert len(lines) >= 3
    for line in lines:
        if "..." in line:  # a place for the reader's own file
            continue
        _, _, number, *options = shlex.split(line)
        settings = [value for value in options if value != "-p"]
        gate.resolve(gate.find(number), "", settings)


@pytest.mark.parametrize(
    "path",
    [*LABS, *(ROOT / "docs" / "labs" / "answers").glob("*.md")],
    ids=lambda path: str(path.stem),
)
def test_links_lead_somewhere_and_exercises_exist(path):
    text = path.read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([^)#\s]+)\)", text):
        assert (path.parent / target).exists(), target
    for number in re.findall(r'teaching\.check\("(\d\d)"', text):
        assert number in teaching.EXERCISES


def names_in_the_code():
    found = set()
    for path in (ROOT / "sflkit").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Name):
                found.add(node.id)
            elif isinstance(node, ast.arg):
                found.add(node.arg)
            elif isinstance(node, ast.Attribute):
                found.add(node.attr)
            elif isinstance(node, ast.FunctionDef):
                found.add(node.name)
    return found


def test_the_glossary_names_what_the_code_has():
    text = GLOSSARY.read_text(encoding="utf-8")
    names = {n for n in re.findall(r"`([a-zA-Z_]\w*)`", text)} - {"False"}
    assert len(names) > 60
    assert names - names_in_the_code() == set()
