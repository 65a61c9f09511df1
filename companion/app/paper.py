"""The published runs: `make paper` computes what the notebooks' plans lack, `sflkit status` says.

A notebook's metadata name its plan, as "companion.notebooks.n33:dataset1" does: a generator
function as in `companion.plans`, whose arguments are names of the notebook's parameters. Each plan
is driven as far as its runs lie in `paths.published()`. `compute` takes the incomplete stage that
costs least, hands it to `sweep.run_many`, and goes on until no plan lacks anything. A run is at
first a file of its own and is packed into the tracked archives at the end, so that a kill costs the
runs in flight; a second call beside it shares the work, since every run has a lock.

What a run will cost is told by the median seconds of the published runs of its experiment.
"""

from __future__ import annotations

import importlib
import inspect
import math
import traceback
from collections import defaultdict
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from statistics import median
from typing import Any

import joblib

from companion import plans, shelf, story
from companion.app import gate
from sflkit import machine, paths
from sflkit.runs import SweepError, lane, sweep
from sflkit.runs.keys import describe


class Course:
    """The plan of one notebook, driven as far as its results go.

    Attributes
    ----------
    book : Notebook
    stage : Stage or None
        The last one met.
    runs : dict
        Config and description (`describe`) of that stage's runs by key.
    wanted : dict
        The same of all stages met so far; all but the last are complete.
    ended : bool
        Whether the plan has said all that it asks for.
    error : str
        What the plan or its runs raised; it goes no further then.
    """

    def __init__(self, book: gate.Notebook):
        self.book = book
        self.stage: plans.Stage | None = None
        self.runs: dict[str, tuple[Any, dict]] = {}
        self.wanted: dict[str, tuple[Any, dict]] = {}
        self.ended = False
        self.error = ""
        self._plan = begin(book)

    def __str__(self) -> str:
        stage = f" ({self.stage.name})" if self.stage and self.stage.name else ""
        return self.book.name + stage

    def go_on(self, there: Container[str]) -> None:
        """Go on to the first stage that has a run which is not among the keys `there`."""
        while not self.ended and not self.error and all(key in there for key in self.runs):
            try:
                self._step()
            except Exception:
                self.error = traceback.format_exc()

    def _step(self) -> None:
        frame = None
        if self.stage is not None:  # all of it is there, so nothing is computed
            frame = plans.frame_of(self.stage, store=paths.published(), progress=False)
        said = plans.next_stage(self._plan, frame)
        if not isinstance(said, plans.Stage):
            self.ended = True
            return
        self.stage = said
        heads = ((config, describe(said.run, config)) for config in said.configs)
        self.runs = {head["key"]: (config, head) for config, head in heads}
        self.wanted |= self.runs

    def missing(self, there: Container[str]) -> list[str]:
        """Return the keys of this stage's runs that are not among those `there`."""
        return [] if self.ended else [key for key in self.runs if key not in there]

    def compute(self, keys: Sequence[str], jobs: int) -> None:
        """Compute runs of this stage, in the order of their keys, or take them over from a sweep.

        Raises paths.CannotWrite where the folder cannot be written; another error is noted.
        """
        folder = paths.published()
        for key in keys:
            shelf.take_over(key, paths.results_store(), folder)
        configs = [self.runs[key][0] for key in keys]
        try:
            with joblib.parallel_config(backend="loky"):
                how = {"store": folder, "jobs": jobs, "description": str(self)}
                sweep.run_many(self.stage.run, configs, **how)
        except paths.CannotWrite:
            raise
        except SweepError as error:
            self.error = str(error)
        except Exception:
            self.error = traceback.format_exc()


def courses(books: Iterable[gate.Notebook], there: Container[str]) -> list[Course]:
    """Return the plans of the notebooks that have one, driven as far as the keys `there` go.

    Raises gate.GateError as `begin`.
    """
    found = [Course(book) for book in books if book.plan]
    for course in found:
        course.go_on(there)
    return found


def compute(books: Sequence[gate.Notebook], jobs: int, echo: Callable[[str], Any] = print) -> bool:
    """Compute what the plans of some notebooks lack, the cheapest stage first.

    On a GPU the stages that are marked for one come before all others. Returns whether all is there
    in the end; `echo` is told of each stage, of what failed and which figures to redraw.

    Raises
    ------
    gate.GateError
        If a plan cannot begin.
    paths.CannotWrite
        If the disk is full or the folder cannot be written; what is stored is whole.
    """
    folder = paths.published()
    shelf.clear_left_over(folder)
    records = shelf.survey(folder).records
    before = set(records)
    found = courses(books, records)
    echo(f"{len(records)} results in {folder}; {_left(found, records, jobs)}")
    while waiting := [c for c in found if not c.error and c.missing(records)]:
        course = min(waiting, key=lambda c: _turn(c, records))
        keys = course.missing(records)
        echo(f"{course}: {in_words([course.runs[key][1] for key in keys], records, jobs)}")
        course.compute(keys, jobs)
        came = ((key, shelf.read_record(key, folder)) for key in keys)
        records |= {key: record for key, record in came if record is not None}
        for other in found:
            other.go_on(records)
    shelf.pack(folder)
    new = records.keys() - before
    echo(f"{len(new)} runs came; {_left(found, records, jobs)}")
    for course in found:
        if course.error:
            echo(f"failed: {course}, {course.book.plan}: {course.error.rstrip()}")
    if redraw := " ".join(course.book.number for course in found if new & course.wanted.keys()):
        echo(f'redraw: make figures ONLY="{redraw}"')
    return not any(course.error for course in found)


def missing(books: Iterable[gate.Notebook], gpu: bool = False) -> str:
    """Return the list of the runs that the next stages of some notebooks lack, for `runs compute`.

    With `gpu` it is those of stages that are marked for one. Raises gate.GateError as `begin`.
    """
    records = shelf.survey(paths.published()).records
    prices, found = prices_of(records), {}
    for course in courses(books, records):
        for key in course.missing(records) if not gpu or course.stage.gpu else ():
            config, head = course.runs[key]
            price = prices.get(head["experiment"])
            found[key] = lane.Order(course.stage.run, config, key, price)
    return lane.as_list(found.values())


def _turn(course: Course, records: Mapping[str, dict]) -> tuple[bool, float]:
    """Return by what stages are ordered: those for a GPU first, where there is one; then seconds,
    a stage of unknown price last.
    """
    prices = prices_of(records)
    heads = (course.runs[key][1] for key in course.missing(records))
    seconds = sum(prices.get(head["experiment"], math.inf) for head in heads)
    return not (course.stage.gpu and machine.device().type == "cuda"), seconds


def _left(found: Iterable[Course], records: Mapping[str, dict], jobs: int = 1) -> str:
    wanted = {key: head for course in found for key, (_, head) in course.wanted.items()}
    left = [head for key, head in wanted.items() if key not in records]
    return f"missing are {in_words(left, records, jobs)}" if left else "none is missing"


def status(books: Sequence[gate.Notebook]) -> tuple[str, bool]:
    """Return how far the runs of some notebooks are, a line each, and whether every plan works.

    A run that several notebooks share counts once in the total. Below stand errors of plans and
    damaged results. Nothing is written or deleted. Raises gate.GateError as `begin`.
    """
    records, damaged = shelf.survey(paths.published())
    found = courses(books, records)
    lines = []
    for course in found:
        done = sum(key in records for key in course.wanted)
        later = "" if course.ended else "; then an error" if course.error else "; then more stages"
        lines.append(f"{course.book.name}: {done} done, {_left([course], records)}{later}")
    lines.append(f"total: {_left(found, records)}")
    for course in found:
        if course.error:
            last = course.error.strip().splitlines()[-1]
            lines.append(f"failed: the plan {course.book.plan} of {course}: {last}")
    for key, wrong in damaged.items():
        lines.append(f"damaged, taken for missing: {paths.published() / key}: {wrong}")
    return "\n".join(lines), not any(course.error for course in found)


def prices_of(records: Mapping[str, dict]) -> dict[str, float]:
    """Return the median seconds of a run by experiment."""
    seen = defaultdict(list)
    for record in records.values():
        seen[record["experiment"]].append(record["seconds"])
    return {experiment: median(seconds) for experiment, seconds in seen.items()}


def in_words(heads: Sequence[dict], records: Mapping[str, dict], jobs: int = 1) -> str:
    """Return how many runs there are and how many minutes they will take, `jobs` at a time."""
    prices = prices_of(records)
    known = [prices[head["experiment"]] for head in heads if head["experiment"] in prices]
    words = f"{len(heads)} runs"
    if known:
        words += f", about {sum(known) / 60 / jobs:.0f} minutes"
    if unknown := len(heads) - len(known):
        words += f", {unknown} of unknown length"
    return words


def begin(book: gate.Notebook, profile: str = "", settings: Sequence[str] = ()) -> Any:
    """Return the generator of a notebook's plan with its own parameters, or with other settings.

    Raises
    ------
    gate.GateError
        If the plan cannot be imported, answers with no generator, or has an argument that is no
        parameter of the notebook; the message names both. Also where a setting is not allowed.
    """
    given = gate.values(book, profile, settings)
    module, _, name = str(book.plan).partition(":")
    try:
        function = getattr(importlib.import_module(module), name)
        takes = inspect.signature(function).parameters.values()
        names = [taken.name for taken in takes if taken.kind is not taken.VAR_KEYWORD]
        if unknown := [name for name in names if name not in given]:
            raise TypeError(f"it takes {unknown[0]!r}, which is no parameter of the notebook")
        if len(names) < len(takes):  # it takes all that decide a published number
            names = list(filter(story.decides, given))
        plan = function(**{name: given[name] for name in names})
        plans.check_plan(plan)
    except Exception as error:
        raise gate.GateError(
            f"{book.name}: its plan {book.plan} cannot begin: {type(error).__name__}: {error}"
        ) from None
    return plan
