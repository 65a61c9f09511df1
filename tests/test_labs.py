"""The lab plans and the glossary: 90 minutes each, commands that run, names that exist."""

from __future__ import annotations

import ast
import json
import os
import re
import shlex
import subprocess
import sys

import pandas as pd
import pytest

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


# Edits that a worksheet suggests -> what it prints then, with the number that the answers say.
EDITS = {
    "sfl": [
        ((), "FIFO's is 124.8 times mine"),
        ((("1 / t ", "2 / 3 "),), "FIFO's is 1.0 times mine"),
        ((("1 / t ", "float(t == 1) "),), "FIFO's is 0.3 times mine"),
    ],
    "osafl": [
        ((), "[-1.0, 0.0] scores [1. 1. 1. 0.]"),
        ((), "[0.0, 1.0] scores [0.974 0.974 0.974 0.658]"),
        ((("chi=1.0", "chi=3.0"),), "[-1.0, 0.0] scores [1.  1.  1.  0.5]"),
    ],
    "datastreams": [
        ((), "at 0.15: 0.452"),
        ((("p[~historical] ** 2", "p ** 2"),), "at 0.15: 0.311"),
        (
            (
                ("np.arange(50) < 25", "np.arange(225) < 25"),
                ("0.2 / 25, 0.8 / 25", "0.2 / 25, 0.8 / 200"),
            ),
            "at 0.15: 0.277",
        ),
    ],
    "fats": [
        ((), "from never having had it: 0"),
        ((("client = target[0]", "client = one_round(rng, target)[0]"),), "had it: 1/12"),
        ((("one_round(rng, target) for _ in range(hit", "history[_] for _ in range(hit"),), "1/36"),
        ((("others[int(rng.integers(len(others)))])", "1)"),), "had it: 1/8"),
    ],
}


# What says that the algorithm as it stands there is the library's.
SAME = {
    "sfl": "DRSR in 200 of 200",
    "osafl": "the same scores in 200 cases",
    "datastreams": "the same in 100 cases",
    "fats": "distance from never having had it: 0",
}


@pytest.mark.parametrize("lab", EDITS)
def test_a_worksheet_prints_what_the_answers_say(lab, capsys):
    """Also with the edits that it suggests, and not before a guess is written."""
    book = json.loads((ROOT / "notebooks" / "worksheets" / f"{lab}.ipynb").read_text("utf-8"))
    cells = ["".join(cell["source"]) for cell in book["cells"] if cell["cell_type"] == "code"]
    with pytest.raises(AssertionError, match="write your guess"):
        exec("\n".join(cells), {})
    answers = (ROOT / "docs" / "labs" / "answers" / f"{lab}.md").read_text(encoding="utf-8")
    (said,) = (part for part in answers.split("\n\n") if part.startswith("*Worksheet.*"))
    for edits, printed in EDITS[lab]:
        code = "\n".join(cells).replace("my_guess = None", "my_guess = 1")
        for old, new in edits:
            assert code.count(old) == 1, old
            code = code.replace(old, new)
        exec(code, {})
        shown = capsys.readouterr().out
        assert printed in shown and (edits or SAME[lab] in shown)
        number = re.findall(r"\d[\d./]*\d|\d", printed.replace("mine", ""))[-1]
        assert number in said, number


def command(folder, lab, index):
    """Run the command number `index` of a lab; its figures go to a folder."""
    text = (ROOT / "docs" / "labs" / f"{lab}.md").read_text(encoding="utf-8")
    line = shlex.split(re.findall(r"^sflkit (run .+)$", text, re.M)[index])
    environment = os.environ | {"SFLKIT_FIGURES": str(folder)}
    program = [sys.executable, "-m", "sflkit.cli", *line]
    subprocess.run(program, cwd=ROOT, env=environment, check=True, capture_output=True)
    return line


def answers_of(lab):
    return (ROOT / "docs" / "labs" / "answers" / f"{lab}.md").read_text(encoding="utf-8")


@pytest.mark.slow
def test_sums_of_independent_rounds_fall_as_the_answers_say(tmp_path):
    assert command(tmp_path, "sfl", 1)[-1] == "temperature=100.0"
    sums = [
        pd.read_csv(folder / "sfl-fig5b.csv").groupby("rule")["mean"].last()
        for folder in (ROOT / "figures", tmp_path)
    ]
    fall = 100 * (1 - sums[1] / sums[0])
    said = re.search(
        r"falls by (\d+) %, SRSR's by (\d+) % and DRSR's by (\d+) %", answers_of("sfl")
    )
    found = [fall["fifo"], fall["srsr"], fall["drsr"]]
    assert [int(number) for number in said.groups()] == [round(number) for number in found]


@pytest.mark.slow
def test_stragglers_hang_on_the_start_as_the_answers_say(tmp_path):
    """Prediction 1 of OSAFL: clients that are left out in at least half of the rounds."""
    assert command(tmp_path, "osafl", 1)[-1] == "tx_share=1.0"
    for network in ("SqueezeNet1", "FCN"):
        shares = [
            left_out(tmp_path, f"1.0 {network}"),
            left_out(ROOT / "figures", f"0.3 {network}"),
        ]
        words = "{:.1f} % in place of {:.1f} %".format(*shares)
        assert words in answers_of("osafl")


def left_out(folder, kind):
    """Return the per cent of the clients that are out in at least half of the rounds."""
    table = pd.read_csv(folder / "osafl-fig3.csv").set_index("table").iloc[:, 0]
    return 100 * (1 - table[kind].iloc[50])


def test_stragglers_that_could_have_taken_part():
    """Three in five: one minus the exact allocation's share of those that are left out."""
    table = pd.read_csv(ROOT / "figures" / "osafl-fig3.csv").set_index("table").iloc[:, 0]
    out = (1 - table).groupby(table.index.str.split(" ").str[0]).sum()
    assert abs(1 - out["exact"] / out["0.3"] - 3 / 5) < 0.05
    assert "about three in five could have done a whole step" in answers_of("osafl")


@pytest.mark.slow
def test_the_minimiser_moves_with_the_clients_as_the_answers_say(tmp_path):
    assert command(tmp_path, "datastreams", 1)[-1] == "n_clients=225"
    table = pd.read_csv(tmp_path / "ds-fig1.csv").query("table == 'sweep' and fraction == 0.2")
    (moved,) = table[(table["ratio"] - 0.15).abs() < 1e-9]["p_hist"]
    assert f"at 0.15 from 0.452 to {moved:.3f}" in answers_of("datastreams")


@pytest.mark.slow
def test_strategies_on_the_synthetic_task_as_the_answers_say(tmp_path):
    assert command(tmp_path, "datastreams", 2)[-1] == "rows=['synthetic']"
    (row,) = pd.read_csv(tmp_path / "ds-tab2.csv").iloc[:1].to_dict("records")
    ends = {
        name: float(row[name].split()[0]) for name in ("Fresh", "Historical", "Uniform", "Ours")
    }
    text = answers_of("datastreams")
    assert ends["Ours"] == ends["Uniform"] > ends["Fresh"] > ends["Historical"]
    assert f"about {ends['Uniform'] - ends['Historical']:.0f} points below" in text
    assert abs(ends["Uniform"] - ends["Fresh"] - 1.5) < 0.2 and "one and a half points" in text


def test_what_the_archive_adds_as_the_answers_say():
    """Prediction 3 of data streams: notebook 93 as it is published."""
    table = pd.read_csv(ROOT / "figures" / "own-archive.csv").set_index(["rule", "p_hist"])
    gains = 100 * (
        table["accuracy"].groupby("rule").max() - table["accuracy"].xs(0, level="p_hist")
    )
    assert f"FIFO gains about {['no', 'one', 'two'][round(gains['fifo'])]} points" in answers_of(
        "datastreams"
    )
    assert gains["drsr"] == 0 and gains.idxmax() == "lazy"


def test_costs_and_accuracies_of_fats_as_the_answers_say():
    draws, M = 5 * 30, 300
    used = 1 - (1 - 1 / M) ** draws
    rounds = [1 - (1 - 1 / M) ** (5 * r) for r in range(1, 31)]  # a first use by round r
    text = answers_of("fats")
    assert f"= {used:.3f}, and" in text and f"done again is {sum(rounds) / 30:.3f}" in text
    assert f"= {(290 / 300) ** draws:.3f}" in text
    notebook = (ROOT / "notebooks" / "44_fats_tradeoff.ipynb").read_text(encoding="utf-8")
    ends = {
        share: re.search(rf"0\.5 +{share} +(0\.\d+)", notebook).group(1) for share in ("1.0", "0.2")
    }
    assert f"falls from {ends['1.0']} at rho_C = 1 to {ends['0.2']} at rho_C = 0.2" in text


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
