"""The cells that hold the self-checking exercises: put once, current, and harmless when run."""

from __future__ import annotations

import copy
import json
import shutil
import subprocess
import sys

import pytest

from companion import teaching
from companion.teaching import cells
from tests.helpers import ROOT

# Notebooks that have no such cells yet.
PENDING: list[str] = []
BOOKS = {path.stem[:2]: path for path in sorted((ROOT / "notebooks").glob("*.ipynb"))}


def a_notebook(executed=True):
    def cell(kind, tag, count=None):
        both = {"cell_type": kind, "id": tag, "metadata": {"tags": [tag]}, "source": [tag]}
        more = {"execution_count": count if executed else None, "outputs": []}
        return both | more if kind == "code" else both

    order = [
        cell("code", "run", 1), cell("markdown", "exercise"), cell("code", "provenance", 2),
    ]  # fmt: skip
    return {"cells": order, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}


@pytest.mark.parametrize("executed", [True, False])
def test_cells_are_put_behind_the_exercise_and_only_once(executed):
    notebook = a_notebook(executed)
    assert cells.put(notebook, teaching.EXERCISES["10"])
    ids = [cell["id"] for cell in notebook["cells"]]
    assert ids == ["run", "exercise", cells.TASK, cells.CHECK, "provenance"]
    counts = [c["execution_count"] for c in notebook["cells"] if c["cell_type"] == "code"]
    assert counts == ([1, 2, 3] if executed else [None] * 3)
    before = copy.deepcopy(notebook)
    assert not cells.put(notebook, teaching.EXERCISES["10"]) and notebook == before
    assert cells.put(notebook, teaching.EXERCISES["11"])  # another text takes their place
    assert len(notebook["cells"]) == 5


def test_a_notebook_without_an_exercise_is_refused():
    notebook = a_notebook()
    notebook["cells"].pop(1)
    with pytest.raises(ValueError, match="notebook 10 has no cell with the tag 'exercise'"):
        cells.put(notebook, teaching.EXERCISES["10"])


@pytest.mark.parametrize("name", teaching.EXERCISES)
def test_the_cell_runs_unanswered_and_prints_what_is_committed(name):
    exercise = teaching.EXERCISES[name]
    *head, last = cells.code(exercise).splitlines()
    space: dict = {}
    exec("\n".join(head), space)
    assert str(eval(last, space)) == exercise.judge(None).text
    assert f"solutions/{name}_self_check.py" in cells.task(exercise)
    assert max(map(len, cells.code(exercise).splitlines())) <= 100


@pytest.mark.parametrize("name", [name for name in teaching.EXERCISES if name not in PENDING])
def test_the_notebooks_hold_what_the_exercises_say(name, tmp_path):
    copied = tmp_path / BOOKS[name].name
    copied.write_text(BOOKS[name].read_text(encoding="utf-8"), encoding="utf-8")
    assert not cells.write(copied), "run `python -m companion.teaching.cells`"


def test_written_files_are_notebooks(tmp_path):
    import nbformat

    book = tmp_path / "10_some.ipynb"
    book.write_text(json.dumps(a_notebook()), encoding="utf-8")
    assert cells.write(book) and not cells.write(book)
    content = nbformat.read(book, as_version=4)
    nbformat.validate(content)
    assert nbformat.writes(content) + "\n" == book.read_text(encoding="utf-8")


def test_the_command_changes_nothing_where_all_is_current(clone):
    for path in (clone / "notebooks").glob("*.ipynb"):
        path.unlink()
    shutil.copy(BOOKS["93"], clone / "notebooks")
    command = [sys.executable, "-m", "companion.teaching.cells"]
    done = subprocess.run(command, cwd=clone, capture_output=True, text=True)
    assert done.returncode == 0 and "all were current" in done.stdout, done.stderr
