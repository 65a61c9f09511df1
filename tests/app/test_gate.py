"""The gate: nothing wrong reaches a kernel, and the message says what would have been right."""

from __future__ import annotations

import nbformat
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from companion.app import cli, gate
from sflkit import paths
from tests.helpers import PARAMETERS, write_notebook


@pytest.fixture
def no_kernel(monkeypatch):
    """Any attempt to execute a notebook fails the test."""
    import papermill

    def refuse(*args, **kwargs):
        pytest.fail("a kernel would have started")

    monkeypatch.setattr(papermill, "execute_notebook", refuse)


def sflkit(*args):
    return CliRunner().invoke(cli.app, list(args))


def test_reads_names_types_ranges_and_meanings():
    found = gate.read_parameters(PARAMETERS)
    assert list(found) == ["rounds", "rate", "seeds", "rule", "label", "flag", "source"]
    assert found["rounds"] == gate.Parameter(
        "rounds", "int", 3, "communication rounds T", ("[", 1.0, 5000.0, "]"), ()
    )
    assert found["rule"].choices == ("fifo", "drsr") and found["rule"].text == "cache rule"
    assert found["flag"].interval is None and found["flag"].text == "take tracked results"
    assert found["seeds"].allowed == "list[int], each in [0, 1000]"


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("rounds = 3  # rounds", "each line must read"),
        ("rounds: int = 3", "each line must read"),
        ("rounds: int = 3  # in [1, 5]", "`; meaning` follows it"),
        ("rounds: int = 3  # in [1, five]; rounds", "cannot read the range"),
        ("rounds: int = 3  # in [5, 1]; rounds", "cannot lie in"),
        ("rounds: int = 30  # in [1, 5]; rounds", "rounds=30 is not allowed"),
        ("rounds: int = True  # rounds", "rounds=True is not allowed"),
        ("rounds: int = 2 * 3  # rounds", "must be a literal"),
        ("rounds: int = 3  # rounds\nrounds: int = 4  # rounds", "is there twice"),
        ("rounds: dict = {}  # rounds", "allowed are int, float"),
        ("rule: str = 'a'  # in [1, 5]; rule", "cannot lie in"),
        ("rule: str = 'a'  # in {'b', 'c'}; rule", "rule='a' is not allowed"),
    ],
)
def test_refuses_cells_outside_the_grammar(line, complaint):
    with pytest.raises(gate.GateError, match=complaint):
        gate.read_parameters(line)


@given(
    st.integers(-100, 100),
    st.integers(0, 50),
    st.integers(-300, 300),
    st.sampled_from("[("),
    st.sampled_from("])"),
)
def test_intervals_hold_exactly_what_they_say(low, width, value, left, right):
    parameter = gate.Parameter("p", "int", None, "a parameter", (left, low, low + width, right))
    inside = value in range(low + (left == "("), low + width + (right == "]"))
    if inside:
        assert parameter.check(value) == value
        assert parameter.parse(str(value)) == value
        assert gate.Parameter("p", "list[int]", None, "t", parameter.interval).check([value]) == [
            value
        ]
    else:
        with pytest.raises(gate.GateError, match=f"^p={value} is not allowed: int, in "):
            parameter.check(value)


def test_texts_are_read_as_literals():
    found = gate.read_parameters(PARAMETERS)
    assert found["rate"].parse("1e-3") == 1e-3
    assert found["seeds"].parse("[3, 4]") == [3, 4]
    assert found["rule"].parse("fifo") == found["rule"].parse("'fifo'") == "fifo"
    assert found["label"].parse("7") == "7"  # for a str plain text does, also of digits


def begun(given):
    """Begin notebook 10 with parameters as papermill gives them; return what it then has."""
    from papermill.translators import PythonTranslator

    cell = PythonTranslator.codify(given)
    values = {name: one.default for name, one in gate.find("10").parameters.items()}
    exec(cell, values)
    values["In"] = ["", PARAMETERS, cell]
    gate.take(gate.find("10"), values)
    return values


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"seeds": [0, 1]}, {"seeds": [0, 1]}),
        ({"seeds": (0, 1)}, {"seeds": [0, 1]}),  # papermill writes a tuple as text
        ({"rate": "1e-2"}, {"rate": 0.01}),  # YAML 1.1 reads 1e-2 as text
        ({"rate": 1}, {"rate": 1.0}),
        ({"rounds": "5"}, {"rounds": 5}),
        ({"label": "7", "rule": "fifo"}, {"label": "7", "rule": "fifo"}),
    ],
)
def test_what_papermill_gives_is_taken(clone, given, expected):
    found = begun(given)
    assert {name: found[name] for name in expected} == expected


def test_numbers_of_numpy_are_taken_as_pythons(clone):
    values = {"seeds": np.array([0, 1]), "rate": np.float64(0.5), "rounds": np.int64(3)}
    gate.take(gate.find("10"), values)
    assert values == {"seeds": [0, 1], "rate": 0.5, "rounds": 3}
    assert [type(one) for one in values["seeds"]] == [int, int] and type(values["rounds"]) is int
    values = {"seeds": (0, np.int64(1))}
    gate.take(gate.find("10"), values)
    assert values["seeds"] == [0, 1] and type(values["seeds"][1]) is int


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (
            {"seeds": "[0, 1]"},
            r"^seeds='\[0, 1\]' is text; it must be list\[int\], each in \[0, 1000\] \(one run "
            r'each\), with papermill -y "seeds: \[0, 1\]"$',
        ),
        ({"seeds": 0}, r'^seeds=0 is no list; .* -y "seeds: \[0, 1\]"$'),
        ({"seeds": [0, 5000]}, r"^seeds=\[0, 5000\] is not allowed: .* each in \[0, 1000\]"),
        ({"rate": None}, r"^rate=None is not allowed: float, in \(0, 1\]"),
        ({"rate": 2.0}, r"^rate=2.0 is not allowed"),
        ({"rounds": True}, r"^rounds=True is not allowed"),
        ({"flag": "yes"}, r"^flag='yes' is not allowed: bool"),
        ({"rule": "fiffo"}, r"^rule='fiffo' is not allowed: str, in"),
        ({"sedes": 0}, r"^no parameter 'sedes'; did you mean 'seeds'\? 10_first has: rounds, "),
        ({"zzz": 0}, r"^no parameter 'zzz'. 10_first has: rounds, "),
    ],
)
def test_what_papermill_gives_is_refused_by_the_parameters_name(clone, given, said):
    with pytest.raises(ValueError, match=said):
        begun(given)


def test_profile_then_settings(clone):
    book = gate.find("10")
    assert gate.resolve(book) == {}
    assert gate.resolve(book, "paper") == {"rounds": 4, "rate": 1e-3}
    assert gate.resolve(book, "paper", ["rounds=50"]) == {"rounds": 50, "rate": 1e-3}
    assert gate.resolve(gate.find("12"), "paper") == {}  # the cell's own


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"paper:\n  10: {rounds: 1}\n", ", paper, 10, [key]: Input should be a valid string"),
        (b"paper:\n  '10': 3\n", ", paper, 10: Input should be a valid dict"),
        (b"paper:\n  '10': {rounds: 4\n", " cannot be read: while parsing a flow mapping"),
        (b"paper:\n  '10':\n    rounds: \xff\n", " cannot be read: 'utf-8' codec"),
        (b"'../x': {}\n", ", ../x, [key]: String should match pattern"),
        (b"paper:\n  '10': {label: !!python/object:os.system x}\n", " cannot be read: could not"),
    ],
)
def test_what_is_wrong_with_the_profiles_is_said(clone, no_kernel, content, said):
    (clone / "notebooks" / "profiles.yaml").write_bytes(content)
    result = sflkit("run", "10", "--profile", "paper")
    assert result.exit_code == 2 and isinstance(result.exception, SystemExit)
    assert f"notebooks/profiles.yaml{said}" in result.stderr


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b'{"cells": [\n\n', " cannot be read: Expecting value: line 3 column 1"),
        (b'{"cells":\n "\xff"}', " cannot be read: 'utf-8' codec can't decode byte 0xff"),
        (b'{"cells": [{}], "metadata": {}}', ", cells, 0, cell_type: Field required"),
        (b'{"cells": [], "metadata": {"sflkit": 3}}', ", metadata, sflkit: Input should be"),
        (b"[" * 100_000, " cannot be read: maximum recursion depth"),
    ],
)
def test_what_is_wrong_with_a_notebook_is_said_by_line(clone, no_kernel, content, said):
    (clone / "notebooks" / "10_first.ipynb").write_bytes(content)
    for arguments in (("list",), ("run", "10"), ("figures",), ("refresh", "10")):
        result = sflkit(*arguments)
        assert result.exit_code == 2 and isinstance(result.exception, SystemExit)
        assert f"notebooks/10_first.ipynb{said}" in result.stderr


@pytest.mark.parametrize("value", ["{rounds: '4'}", "{rate: 1e-3}", "{rownds: 4}"])
def test_profiles_are_held_to_the_notebooks_parameters(clone, no_kernel, value):
    (clone / "notebooks" / "profiles.yaml").write_text(f"paper:\n  '10': {value}\n")
    assert sflkit("run", "10", "--profile", "paper").exit_code == 2


def test_one_parameters_cell(clone):
    path = write_notebook(clone / "notebooks" / "13_third.ipynb")
    content = nbformat.read(path, as_version=4)
    content.cells[3].metadata.tags = ["parameters"]
    nbformat.write(content, path)
    with pytest.raises(gate.GateError, match="has 2 cells tagged"):
        _ = gate.find("13").parameters


@pytest.mark.parametrize(
    "name", ["10", "first", "10_first", "10_first.ipynb", "notebooks/10_first.ipynb"]
)
def test_a_notebook_has_many_names(clone, name):
    assert gate.find(name).name == "10_first"


def test_selection(clone):
    assert [b.number for b in gate.select("")] == ["10", "12"]
    assert [b.number for b in gate.select("12, 10 12")] == ["12", "10"]
    assert gate.find("10").title == "Example" and gate.find("10").artefacts == ["x-fig1"]


@pytest.mark.parametrize(
    "arguments", [("list",), ("run", "10"), ("figures",), ("refresh",), ("verdicts",)]
)
def test_outside_a_clone_it_says_where_notebooks_come_from(monkeypatch, no_kernel, arguments):
    monkeypatch.setattr(paths, "clone_root", lambda start=None: None)
    result = sflkit(*arguments)
    assert result.exit_code == 2
    assert "come with sflkit's repository" in result.stderr
