"""The two cells of a notebook that hold its self-checking exercise: the task, and the check.

They stand behind the cell tagged `exercise`. Their text comes from the exercise alone;
`sflkit refresh` writes it, with `--links` without executing anything.
"""

from __future__ import annotations

from typing import Any

from companion.teaching.exercise import Exercise

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


def put(content: Any, exercise: Exercise) -> None:
    """Write both cells into `content`, nbformat's NotebookNode, which is changed in place.

    A notebook without a cell tagged `exercise` stays as it is.
    """
    import nbformat

    cells = {cell.id: cell for cell in content.cells}
    tags = [cell.metadata.get("tags", []) for cell in content.cells]
    places = [place for place, said in enumerate(tags) if "exercise" in said]
    if CHECK not in cells and places:
        cells[TASK] = nbformat.v4.new_markdown_cell(id=TASK)
        cells[CHECK] = nbformat.v4.new_code_cell(id=CHECK, metadata={"tags": [CHECK]})
        content.cells[places[-1] + 1 : places[-1] + 1] = [cells[TASK], cells[CHECK]]
    if CHECK in cells:
        cells[TASK].source, cells[CHECK].source = task(exercise), code(exercise)
