"""Plans: which runs a notebook needs, once for the notebook and for `make paper`.

A plan is a generator. It yields a `Stage` at a time, is given back the frame of that stage's runs,
and may choose the configs of its next stage by it, such as rates by the runs of a search. What it
returns is what the notebook draws and judges:

    def dataset1(*, rounds, seeds):
        tried = yield Stage(training.run, searched(rounds), "search")
        found = yield Stage(training.run, judged(rounds, seeds, best_rate(tried)), "rules")
        return Dataset1(tried, found)

    runs = plans.carry_out(dataset1(rounds=rounds, seeds=seeds), jobs=jobs, published=published)

The arguments of a plan are keyword-only and have the names of the notebook's parameters; a plan
that takes `**given` gets all that decide a published number, as `story.given` returns them. The
notebook's metadata names the plan, so that `sflkit paper` can drive the same generator with the
parameters of a profile. A plan computes nothing itself, and what it yields depends only on its
arguments and on the frames that it was given: then every driver meets the same stages.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Generator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import pandas as pd

from sflkit.data import catalogue
from sflkit.runs import sweep

Result = TypeVar("Result")


class Stage(NamedTuple):
    """Runs of a plan that do not wait for each other.

    `run` and `configs` are what `sweep.run_many` takes; `name` says in a word or two what the stage
    is for; `gpu` marks runs that a machine with a GPU computes first.
    """

    run: Callable[..., pd.DataFrame]
    configs: list
    name: str = ""
    gpu: bool = False


def carry_out(
    plan: Generator[Stage, pd.DataFrame, Result],
    *,
    jobs: int | None = None,
    published: Path | str | Sequence[Path | str] | None = None,
    progress: bool | None = None,
) -> Result:
    """Compute the stages of a plan one after the other and return what the plan returns.

    Each stage goes through `sweep.run_many`, which computes only what no folder holds yet. A stage
    without configs runs nothing and gives back `no_runs()`, a frame without rows and columns: the
    notebook's parameters may leave a part out.

    Parameters
    ----------
    plan : generator
        A generator function's answer, such as `dataset1(rounds=3, seeds=[0])`, not begun yet.
    jobs, published, progress
        See `sweep.run_many`.

    Raises
    ------
    TypeError
        If `plan` is no generator, or yields anything but a Stage.
    ValueError
        If the generator was begun before: a plan is carried out once.
    TypeError, ValueError, SweepError
        As `sweep.run_many`. A stage with failed runs ends the plan; its other runs are stored.
    """
    check_plan(plan)
    given = None
    while isinstance(stage := next_stage(plan, given), Stage):
        given = frame_of(stage, jobs=jobs, published=published, progress=progress)
    return stage.value


class Returned(NamedTuple):
    """The end of a plan: what its generator returned."""

    value: Any


def check_plan(plan: Any) -> None:
    """Raise TypeError or ValueError, as `carry_out`, unless `plan` is a generator yet to begin."""
    if not inspect.isgenerator(plan):
        hint = "; call it with its parameters" if inspect.isgeneratorfunction(plan) else ""
        raise TypeError(f"plan={plan!r} must be a generator that yields stages{hint}")
    if inspect.getgeneratorstate(plan) != inspect.GEN_CREATED:
        raise ValueError(f"the plan {plan.__qualname__} was begun before; call its function anew")


def next_stage(plan: Generator, given: pd.DataFrame | None) -> Stage | Returned:
    """Give a plan the frame of its stage (None before the first) and return what it says next.

    Raises TypeError if that is no Stage.
    """
    try:
        said = plan.send(given)
    except StopIteration as end:
        return Returned(end.value)
    if not isinstance(said, Stage):
        raise TypeError(
            f"the plan {plan.__qualname__} must yield Stage(run, configs), "
            f"not {type(said).__name__} {said!r}"
        )
    return said._replace(configs=list(said.configs))


def frame_of(stage: Stage, **options: Any) -> pd.DataFrame:
    """Return the frame of a stage's runs; `options` are those of `sweep.run_many`."""
    if not stage.configs:
        return no_runs()
    return sweep.run_many(stage.run, stage.configs, description=stage.name, **options)


def no_runs() -> pd.DataFrame:
    """Return what a stage without configs gives back: no rows, no columns, the usual `attrs`."""
    frame = pd.DataFrame()
    frame.attrs = {"keys": [], "data": [], "sources": {}, "computed": 0, "reused": 0}
    return frame


def data_remarks(*frames: pd.DataFrame) -> str:
    """Return what a setting must say of the data behind some runs, such as a subset.

    It is "" where the data are complete and faithful, as far as is known.
    """
    records = [record for frame in frames for record in frame.attrs.get("data", [])]
    return "; ".join(dict.fromkeys(filter(None, map(catalogue.remark, records))))
