"""The cells that hold the self-checking exercises: put once, current, and harmless when run."""

from __future__ import annotations

import nbformat
import pytest

from companion import teaching
from companion.teaching import cells
from tests.helpers import ROOT

BOOKS = {path.stem[:2]: path for path in sorted((ROOT / "notebooks").glob("*.ipynb"))}


def test_cells_are_put_behind_the_exercise_and_only_once():
    cell = nbformat.v4.new_markdown_cell
    book = nbformat.v4.new_notebook(cells=[cell("a", metadata={"tags": ["exercise"]}), cell("b")])
    for number in ("10", "11", "11"):  # another text takes the place of the first
        cells.put(book, teaching.EXERCISES[number])
        assert [c.id for c in book.cells[1:3]] == [cells.TASK, cells.CHECK] and len(book.cells) == 4
    assert book.cells[2].source == cells.code(teaching.EXERCISES["11"])
    nbformat.validate(book)


@pytest.mark.parametrize("name", teaching.EXERCISES)
def test_the_cell_runs_unanswered_and_prints_what_is_committed(name):
    exercise = teaching.EXERCISES[name]
    *head, last = cells.code(exercise).splitlines()
    space: dict = {}
    exec("\n".join(head), space)
    assert str(eval(last, space)) == exercise.judge(None).text
    assert f"solutions/{name}_self_check.py" in cells.task(exercise)
    assert max(map(len, cells.code(exercise).splitlines())) <= 100


@pytest.mark.parametrize("name", teaching.EXERCISES)
def test_the_notebooks_hold_what_the_exercises_say(name):
    sources = {cell.id: cell.source for cell in nbformat.read(BOOKS[name], as_version=4).cells}
    exercise = teaching.EXERCISES[name]
    assert sources[cells.TASK] == cells.task(exercise), "run `sflkit refresh --links`"
    assert sources[cells.CHECK] == cells.code(exercise)
