"""Exercises that check themselves, one for each notebook.

    from companion import teaching
    teaching.check("10", my_function)

says whether the function does what the exercise of notebook 10 asks for. A wrong answer is told
which property fails, on which call, with a hint; the solution is never shown, and no right number
is stored. The solutions lie in notebooks/solutions/.
"""

from __future__ import annotations

from typing import Any

from companion.teaching import across, cells, datastreams, fats, osafl, own_data, sfl
from companion.teaching.exercise import Exercise, Feedback
from sflkit import checks

EXERCISES: dict[str, Exercise] = {
    exercise.notebook: exercise
    for exercise in sorted(
        (
            thing
            for module in (sfl, datastreams, osafl, fats, across, own_data)
            for thing in vars(module).values()
            if isinstance(thing, Exercise)
        ),
        key=lambda exercise: exercise.notebook,
    )
}

__all__ = ["EXERCISES", "Exercise", "Feedback", "cells", "check"]


def check(exercise: str, answer: Any) -> Feedback:
    """Judge an answer by the properties that every right one has.

    Parameters
    ----------
    exercise : str
        The number of the notebook, such as "10".
    answer : function or class
        As the exercise asks for. None stands for no answer yet.

    Returns
    -------
    Feedback
        Shown at the end of a cell it is a text. Its `state` is "right", "wrong", "wrong type" or
        "not answered", `passed` is the short form for a lecturer's script, and `failed` names
        the first property that fails. An error that the answer raises counts as a wrong answer.

    Raises
    ------
    ValueError
        If there is no such exercise; the message lists those that there are.
    """
    return EXERCISES[checks.choice("exercise", exercise, EXERCISES)].judge(answer)
