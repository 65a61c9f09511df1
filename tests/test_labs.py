"""The lab plans and the glossary: 90 minutes each, commands that run, names that exist."""

from __future__ import annotations

import ast
import os
import re
import shlex
import subprocess
import sys

import pandas as pd
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


# What the answers say -> the judged part that says it, and its number's place in the words.
SAID = {
    "sfl": {
        "sfl-fig5b/fifo srsr": "FIFO adds up about {:.1f} times as much as SRSR",
        "sfl-fig5b/srsr drsr": "SRSR about {:.0f} times as much as DRSR",
        "sfl-fig4a/drsr fifo": "ahead of FIFO by {:.2f} points",
        "sfl-fig4a/fifo lazy": "ahead of LAZY by about {:.1f} points",
    },
    "osafl": {
        "osafl-fig3/CNN_over_SqueezeNet1": "by some {:.0f},",
        "osafl-fig3/LSTM_over_CNN": "{:.0f} and 15 points",
        "osafl-fig3/FCN_over_LSTM": "and {:.0f} points",
        "osafl-fig1/accuracy": "ahead of the changing one by {:.1f} points",
        "osafl-frozen/accuracy": "than changing ones, by {:.1f} points",
    },
    "datastreams": {
        "ds-tab2/ours, Historical": "about {:.0f} points below",
    },
    "fats": {
        "fats-alg2/tiny": "the distance is up to {:.1f}",
    },
}


@pytest.mark.parametrize("lab", SAID)
def test_the_answers_are_those_of_the_published_runs(lab):
    parts = pd.read_csv(ROOT / "figures" / "parts.csv", dtype=str).fillna("")
    ours = dict(zip(parts["artefact"] + "/" + parts["part"], parts["ours"], strict=True))
    text = (ROOT / "docs" / "labs" / "answers" / f"{lab}.md").read_text(encoding="utf-8")
    for part, words in SAID[lab].items():
        number = abs(float(re.findall(r"[-+]?\d[\d.]*", ours[part])[-1]))
        assert words.format(number) in text, (part, ours[part])


@pytest.mark.slow
def test_the_answers_are_those_of_the_labs_own_command(tmp_path):
    """Prediction 1 of SFL: the fall of each sum with independent rounds."""
    command = [sys.executable, "-m", "sflkit.cli", "run", "10", "-p", "temperature=100.0"]
    environment = os.environ | {"SFLKIT_FIGURES": str(tmp_path)}
    subprocess.run(command, cwd=ROOT, env=environment, check=True, capture_output=True)
    sums = [
        pd.read_csv(folder / "sfl-fig5b.csv").groupby("rule")["mean"].last()
        for folder in (ROOT / "figures", tmp_path)
    ]
    fall = 100 * (1 - sums[1] / sums[0])
    text = (ROOT / "docs" / "labs" / "answers" / "sfl.md").read_text(encoding="utf-8")
    said = re.search(r"falls by (\d+) %, SRSR's by (\d+) % and DRSR's by (\d+) %", text)
    found = [fall["fifo"], fall["srsr"], fall["drsr"]]
    assert [int(number) for number in said.groups()] == [round(number) for number in found]


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
