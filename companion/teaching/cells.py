"""The two cells of a notebook that hold its self-checking exercise: the task, and the check.

They stand behind the cell tagged `exercise`. Their text comes from the exercise alone, so that
`python -m companion.teaching.cells` brings all notebooks up to date, and a second call changes
nothing. Nothing is executed: what an unanswered exercise prints is known.
"""

from __future__ import annotations

import json
from pathlib import Path

from companion.teaching import EXERCISES
from companion.teaching.exercise import Exercise
from sflkit import paths

TASK = "check-task"  # ids of the two cells
CHECK = "check"


def task(exercise: Exercise) -> str:
    """Return the Markdown of the cell that says what to write."""
    solution = f"solutions/{exercise.notebook}_self_check.py"
    return (
        f"### Check yourself: {exercise.title}\n\n{exercise.task}\n\n"
        f"Write it in a cell of your own, put its name in place of `None` below, and run the cell. "
        f"It says which property your answer lacks, with a hint. A solution is in "
        f"[{solution}]({solution})."
    )


def code(exercise: Exercise) -> str:
    """Return the source of the cell that checks; it is harmless while nobody has answered."""
    name = exercise.call.partition("(")[0]
    return (
        "from companion import teaching\n\n"
        f"answer = None  # put {name} here, once you have written it\n"
        f'teaching.check("{exercise.notebook}", answer)'
    )


def put(notebook: dict, exercise: Exercise) -> bool:
    """Write both cells into a notebook; return whether that changed it.

    Parameters
    ----------
    notebook : dict
        The content of an ipynb file, changed in place. Its code cells are numbered anew where it
        was executed from top to bottom.
    exercise : Exercise

    Raises
    ------
    ValueError
        If no cell is tagged `exercise`.
    """
    before = json.dumps(notebook)
    cells = [cell for cell in notebook["cells"] if cell.get("id") not in (TASK, CHECK)]
    places = [i for i, cell in enumerate(cells) if "exercise" in _tags(cell)]
    if not places:
        raise ValueError(f"notebook {exercise.notebook} has no cell with the tag 'exercise'")
    executed = all(cell["execution_count"] for cell in cells if cell["cell_type"] == "code")
    said = exercise.judge(None).text
    output = {
        "data": {"text/plain": _lines(said)},
        "execution_count": None,
        "metadata": {},
        "output_type": "execute_result",
    }
    cells[places[-1] + 1 : places[-1] + 1] = [
        {"cell_type": "markdown", "id": TASK, "metadata": {}, "source": _lines(task(exercise))},
        {
            "cell_type": "code",
            "execution_count": None,
            "id": CHECK,
            "metadata": {"tags": [CHECK]},
            "outputs": [output] if executed else [],
            "source": _lines(code(exercise)),
        },
    ]
    if executed:
        _number(cells)
    notebook["cells"] = cells
    return json.dumps(notebook) != before


def write(book: Path) -> bool:
    """Bring the cells of a notebook's file up to date; return whether the file changed."""
    text = book.read_text(encoding="utf-8")
    notebook = json.loads(text)
    put(notebook, EXERCISES[book.stem[:2]])
    new = json.dumps(notebook, indent=1, ensure_ascii=False, sort_keys=True) + "\n"
    if new != text:
        paths.write_atomic(book, new)
    return new != text


def main() -> None:
    """Bring the cells of all notebooks of the clone up to date."""
    root = paths.clone_root()
    books = sorted((root / "notebooks").glob("[0-9][0-9]_*.ipynb")) if root else []
    changed = [book.stem for book in books if book.stem[:2] in EXERCISES and write(book)]
    print(f"exercises written: {', '.join(changed) or 'all were current'}")


def _number(cells: list[dict]) -> None:
    """Number the code cells, as if they had been executed from top to bottom."""
    executed = (cell for cell in cells if cell["cell_type"] == "code")
    for count, cell in enumerate(executed, start=1):
        cell["execution_count"] = count
        for output in cell["outputs"]:
            if "execution_count" in output:
                output["execution_count"] = count


def _tags(cell: dict) -> list[str]:
    return cell["metadata"].get("tags", [])


def _lines(text: str) -> list[str]:
    return text.splitlines(keepends=True)


if __name__ == "__main__":
    main()
