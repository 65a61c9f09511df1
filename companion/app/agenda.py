"""What the notebooks' plans ask for, and what of it is there.

A notebook's metadata name its plan, as "companion.osafl.plans.training:dataset1" does: a
generator function as in `companion.plans`, whose arguments are names of the notebook's
parameters. It is looked up by that name, so that this package imports no paper. Each plan is driven
as far as results are there; a stage that follows from missing ones is not known yet.
"""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import traceback
from collections.abc import Callable, Container, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from companion import plans
from companion.app import gate
from sflkit.results import shelf, store


class Wanted(NamedTuple):
    """A run that a plan asks for; `head` is what `store.describe` says of it."""

    key: str
    config: Any
    head: dict
    stage: plans.Stage
    book: gate.Notebook

    @property
    def text(self) -> str:
        """Notebook, stage and whatever of the config is not its default, in a line."""
        stage = f" ({self.stage.name})" if self.stage.name else ""
        return f"{self.book.name}{stage}: {in_short(self.config)}"


class Course:
    """The plan of one notebook, driven as far as its results go.

    Attributes
    ----------
    book : Notebook
    stages : list of (Stage, {key: Wanted})
        Those met so far; all but the last are complete.
    ended : bool
        Whether the plan has said all that it asks for.
    error : str
        What the plan raised, if it did; it goes no further then.
    """

    def __init__(self, book: gate.Notebook, profile: str, folder: Path):
        self.book = book
        self.stages: list[tuple[plans.Stage, dict[str, Wanted]]] = []
        self.ended = False
        self.error = ""
        self._folder = folder
        self._plan = begin(book, profile)

    def go_on(self, there: Container[str]) -> None:
        """Go on to the first stage that has a run which is not among the keys `there`."""
        while not self.ended and not self.error:
            runs = self.stages[-1][1] if self.stages else {}
            if not all(key in there for key in runs):
                return
            try:
                self._step()
            except Exception:
                self.error = traceback.format_exc()

    def _step(self) -> None:
        frame = None
        if self.stages:  # all of it is there, so nothing is computed
            frame = plans.frame_of(self.stages[-1][0], store=self._folder, progress=False)
        said = plans.next_stage(self._plan, frame)
        if not isinstance(said, plans.Stage):
            self.ended = True
            return
        runs = {}
        for config in said.configs:
            head = store.describe(said.run, config)
            runs[head["key"]] = Wanted(head["key"], config, head, said, self.book)
        self.stages.append((said, runs))

    def wanted(self) -> dict[str, Wanted]:
        """Return the runs of all stages met so far by key, in order."""
        return {key: run for _, runs in self.stages for key, run in runs.items()}


class Agenda:
    """The plans of some notebooks, and the results of a profile.

    Attributes
    ----------
    profile : str
    folder : Path
        Where the profile's results lie.
    courses : list of Course
        One per notebook that has a plan.
    without : list of Notebook
        Those that have none.
    records : dict
        The records of the complete results in `folder`, by key.
    damaged : dict
        What is wrong with the others there, by key.
    """

    def __init__(self, books: list[gate.Notebook], profile: str, folder: Path):
        self.profile = profile
        self.folder = folder
        self.courses = [Course(book, profile, folder) for book in books if book.plan]
        self.without = [book for book in books if not book.plan]
        self.records, self.damaged = shelf.survey(folder)
        self.go_on()

    def go_on(self) -> None:
        """Drive every plan as far as the records go."""
        for course in self.courses:
            course.go_on(self.records)

    def look_for(self, key: str) -> dict | None:
        """Return the record of a result that may have come since, and take note of it."""
        record = shelf.read_record(key, self.folder)
        if record is not None:
            self.records[key] = record
            self.damaged.pop(key, None)
        return record

    def missing(self) -> dict[str, Wanted]:
        """Return the runs that are asked for and not there, by key, in the notebooks' order."""
        return {
            key: run
            for course in self.courses
            for key, run in course.wanted().items()
            if key not in self.records
        }

    def users(self, key: str) -> Iterator[Course]:
        """Yield the courses that ask for a run."""
        return (course for course in self.courses if key in course.wanted())


def begin(book: gate.Notebook, profile: str) -> Any:
    """Return the generator of a notebook's plan with the parameters of a profile.

    Raises
    ------
    gate.GateError
        If the plan cannot be imported, answers with no generator, or has an argument that is no
        parameter of the notebook; the message names both. Also where a setting is not allowed.
    """
    function = _function(book)
    given = gate.values(book, profile)
    taken = {}
    for argument in inspect.signature(function).parameters.values():
        if argument.kind not in (argument.KEYWORD_ONLY, argument.POSITIONAL_OR_KEYWORD):
            raise _wrong(book, f"takes {argument}; its arguments must be keyword-only")
        if argument.name not in given:
            raise _wrong(book, f"takes {argument.name!r}, which is no parameter of the notebook")
        taken[argument.name] = given[argument.name]
    try:
        plan = function(**taken)
        plans.check_plan(plan)
    except Exception as error:
        raise _wrong(book, f"cannot begin: {type(error).__name__}: {error}") from None
    return plan


def _function(book: gate.Notebook) -> Callable:
    """Return the function that the notebook's metadata name, or raise GateError."""
    module, _, name = str(book.plan).partition(":")
    try:
        function = getattr(importlib.import_module(module), name)
    except Exception as error:
        raise _wrong(book, f"cannot be imported: {type(error).__name__}: {error}") from None
    if not callable(function):
        raise _wrong(book, f"must be a function, not {function!r}")
    return function


def _wrong(book: gate.Notebook, what: str) -> gate.GateError:
    return gate.GateError(f"{book.name}: its plan {book.plan} {what}")


def in_short(config: Any) -> str:
    """Return the fields of a config that differ from its class's defaults, the seed always."""
    said = [
        f"{field.name}={getattr(config, field.name)!r}"
        for field in dataclasses.fields(config)
        if field.name == "seed" or getattr(config, field.name) != field.default
    ]
    return ", ".join(said)
