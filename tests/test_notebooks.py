"""The anatomy of the committed notebooks, so that a reader finds each thing where the last notebook
had it.
"""

from __future__ import annotations

import itertools
import json
import math
import re

import pytest

from companion import story
from companion.app import gate, links, refresh
from tests.helpers import ROOT

ORDER = (
    *("title", "answer", "imports", "parameters", "validate", "run", "figure", "table", "verdict"),
    *("how", "try", "widget", "deviations", "exercise", "check", "audit", "provenance", "links"),
)
MIDDLE = ("run", "figure", "table", "how", "try", "widget")  # these may repeat and alternate
OPTIONAL = ("table", "verdict", "how", "try", "widget", "check", "audit")
GENERAL = ("00", "90", "91", "92", "93")  # they show no figure of a paper
FIRST_PICTURE = 30  # lines of 20 pixels from the top: it is seen without scrolling
MOST_WORDS = 1215
BOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
SOLUTIONS = sorted((ROOT / "notebooks" / "solutions").glob("*.ipynb"))
name_of = pytest.mark.parametrize("path", BOOKS, ids=lambda path: path.stem)
any_of = pytest.mark.parametrize(
    "path", [*BOOKS, *SOLUTIONS], ids=lambda path: f"{path.parent.name}-{path.stem}"
)


def cells_of(path):
    return json.loads(path.read_text(encoding="utf-8"))["cells"]


def tags(cell):
    return cell["metadata"].get("tags", [])


def section(cell):
    return next((tag for tag in tags(cell) if tag in ORDER), None)


def code(path):
    return [cell for cell in cells_of(path) if cell["cell_type"] == "code"]


def source(cell):
    return "".join(cell["source"])


def texts(cell):
    """What the outputs of a cell show as text."""
    found = [o.get("data") or {"text": o.get("text", "")} for o in cell.get("outputs", [])]
    return "\n".join("".join(t) for d in found for kind, t in d.items() if kind.startswith("text"))


def lines(text):
    """How many lines a text fills on a page."""
    return sum(max(1, math.ceil(len(line) / 110)) for line in text.splitlines())


def is_folded(cell):
    return cell["metadata"].get("jupyter", {}).get("source_hidden", False)


def above_first_picture(path):
    """How many lines stand above the first picture of a notebook."""
    total = 0
    for cell in cells_of(path):
        before, picture, _ = source(cell).partition("![")
        total += 0 if is_folded(cell) else lines(before)
        if picture or any("image/png" in o.get("data", {}) for o in cell.get("outputs", [])):
            return total
        total += lines(texts(cell))
    return total


@name_of
def test_sections_come_in_order(path):
    cells = cells_of(path)
    # the errata's notebook has two cells for each of them
    assert 12 <= len(cells) <= (40 if path.stem[:2] != "91" else 200)
    found = [section(cell) for cell in cells if section(cell)]
    once = [name for name in ORDER if name not in (*MIDDLE, *OPTIONAL)]
    assert [name for name in once if found.count(name) != 1] == [], "not there exactly once"
    assert max(found.count(name) for name in ("verdict", "check", "audit")) <= 1
    fixed = [name for name in found if name not in (*MIDDLE, "verdict")]
    assert fixed == sorted(fixed, key=ORDER.index)
    assert found.index("validate") < found.index("run") < found.index("figure")
    assert found[:2] == ["title", "answer"] and found[-2:] == ["provenance", "links"]
    for cell in cells:
        assert sum(tag in ORDER for tag in tags(cell)) <= 1
        assert set(tags(cell)) <= {*ORDER, "nbval-ignore-output", refresh.FOLDED}


@name_of
def test_the_papers_figure_comes_first(path):
    """The answer and the paper's figure stand in the first screen, then the verdict, how it works
    in plain calls, and something to try.
    """
    assert above_first_picture(path) <= FIRST_PICTURE
    if path.stem[:2] in GENERAL:
        return
    order = [section(cell) for cell in cells_of(path) if section(cell) in (*MIDDLE, "verdict")]
    first = [order.index(name) for name in ("run", "figure", "verdict", "how", "try")]
    assert first == sorted(first), order
    assert order.count("verdict") == 1


@name_of
def test_prose_is_short(path):
    prose = (source(cell) for cell in cells_of(path) if cell["cell_type"] == "markdown")
    words = len(re.sub(r"\]\([^)]*\)", "]", "\n".join(prose)).split())
    assert words <= (MOST_WORDS if path.stem[:2] != "91" else 6000)


@name_of
def test_the_answer_is_one_sentence_with_two_numbers_at_most(path):
    (answer,) = (source(cell) for cell in cells_of(path) if section(cell) == "answer")
    said = answer.partition("\n\n")[0]
    assert len(said.split()) <= 40 and not re.search(r"[.?!]\W*\s+\W*[A-Z]", said), said
    assert len(re.findall(r"\d+\.\d+", said)) <= 2, said


@name_of
def test_numbers_of_the_answer_stand_below(path):
    """A number that the answer says is one that an output of the notebook shows."""
    (answer,) = (source(cell) for cell in cells_of(path) if section(cell) == "answer")
    shown = "\n".join(map(texts, cells_of(path)))
    said = re.findall(r"(?<![\w.$])\d+\.\d+", re.sub(r"\]\([^)]*\)|\$[^$]*\$", "]", answer))
    assert [number for number in said if not re.search(rf"(?<![\d.]){number}", shown)] == []


@name_of
def test_links_lead_to_the_neighbours(path):
    """The line is generated: `sflkit refresh --links` writes it without executing anything."""
    expected = links.line(path)
    last = cells_of(path)[-1]
    assert section(last) == "links" and source(last) == expected
    assert source(cells_of(path)[0]).splitlines()[-1] == expected


@name_of
def test_a_visible_cell_is_short(path):
    longest = max(source(cell).count("\n") + 1 for cell in code(path) if not is_folded(cell))
    assert longest <= 40, "fold the cell (tag hide-input), or move its code into the library"


@name_of
def test_a_widget_is_a_section_of_its_own_with_a_static_picture(path):
    cells = cells_of(path)
    for before, cell in itertools.pairwise(cells):
        if section(cell) == "widget":
            assert before["cell_type"] == "markdown" and "## " in source(before), "no heading"
            # the menus over all verdicts show a table in place of a picture
            static = {"image/png", "text/markdown"}
            assert any(static & set(output.get("data", {})) for output in cell["outputs"])


@name_of
def test_every_claim_of_the_notebook_has_its_verdict(path):
    cells = [cell for cell in cells_of(path) if section(cell) == "verdict"]
    shown = "".join(
        "".join(output["data"].get("text/markdown", ""))
        for cell in cells
        for output in cell["outputs"]
        if "data" in output
    )
    missing = [
        name
        for name in gate.Notebook(path).artefacts
        if not re.search(rf"(?<![\w-]){re.escape(name)}(?![\w-])", shown)
    ]
    assert missing == [], "every artefact of the metadata is judged, or named as not run"


@name_of
def test_the_gate_reads_the_parameters_in_every_profile(path):
    book = gate.Notebook(path)
    for profile in gate.profiles():
        gate.resolve(book, profile)
    if "source" in book.parameters:
        assert book.parameters["source"].default == "published"
        assert book.parameters["source"].choices == story.SOURCES


@name_of
def test_the_published_parameters_are_those_of_the_cell(path):
    """`make figures` writes them; a changed cell is an experiment until it is called again."""
    book = gate.Notebook(path)
    values = {name: parameter.default for name, parameter in book.parameters.items()}
    assert book.name in story.published_parameters() and story.changes(book.name, values) == []
    begun = [f'story.begin("{book.name}", globals())' in source(cell) for cell in code(path)]
    assert sum(begun) == 1


def test_each_artefact_has_one_notebook():
    owners = [artefact for path in BOOKS for artefact in gate.Notebook(path).artefacts]
    assert sorted(owners) == sorted(set(owners))


@any_of
def test_executed_without_errors_and_cleaned(path):
    """nbval passes a stripped notebook without comparing anything, so unexecuted ones are refused
    here.
    """
    cells = code(path)
    assert [cell["execution_count"] for cell in cells] == list(range(1, len(cells) + 1)), (
        "run `sflkit refresh`"
    )
    assert not [o for cell in cells for o in cell["outputs"] if o["output_type"] == "error"]
    assert not [o for cell in cells for o in cell["outputs"] if o.get("name") == "stderr"], (
        "warnings or bars"
    )
    import nbformat

    content = nbformat.read(path, as_version=4)
    nbformat.validate(content)
    before = nbformat.writes(content)
    assert nbformat.writes(refresh.clean(content)) == before, "run `sflkit refresh`"


@any_of
def test_small_and_free_of_local_paths(path):
    assert path.stat().st_size < 1_000_000
    for cell in code(path):
        for output in cell["outputs"]:
            shown = {
                k: v
                for k, v in (output.get("data") or {"text": output.get("text")}).items()
                if not k.startswith("image")
            }
            found = re.search(
                rf"({re.escape(str(ROOT))}|(?<![\w.])/(home|root|Users|tmp)/).*", json.dumps(shown)
            )
            assert not found, f"{source(cell)[:60]!r} shows the path {found[0][:80]}"


@name_of
def test_exercise_has_a_solution(path):
    assert [s for s in SOLUTIONS if s.stem[:2] == path.stem[:2]], (
        f"notebooks/solutions/{path.stem[:2]}_*.ipynb is missing"
    )
