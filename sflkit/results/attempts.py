"""Runs computed in this process: locks, batches, results in place.

What a worker of a sweep does with its share of the runs (`execute`), and what a queue does that
chooses the order of its runs itself (`attempt`). Neither raises for a run that fails: each answers
how its attempt ended.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import os
import threading
import time
import traceback
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import filelock
import pandas as pd

from sflkit import machine, paths
from sflkit.results.store import describe, is_complete, run_lock, write_result


class Outcome(NamedTuple):
    """What became of one run of a batch: its frame, or the error that ended it."""

    frame: pd.DataFrame | None
    error: Exception | None = None


class Attempt(NamedTuple):
    """How the attempt at one run ended.

    `state` is "computed", "found" (complete already), "busy" (another process computes it),
    "failed" (`why` is the traceback) or "unwritable" (`why` says which file could not be written).
    """

    key: str
    state: str
    why: str = ""


class Task(NamedTuple):
    """What a worker needs besides its batch; it travels to other processes as a whole."""

    run: Callable
    run_stacked: Callable | None
    given: dict[str, Any]
    store: Path
    threads: int
    sweep_pid: int
    make_room: Callable[[], None] | None = None


# A config and what `describe` says of it.
Item = tuple[Any, dict]


def attempt(
    run: Callable[..., pd.DataFrame],
    configs: Sequence[Any],
    *,
    store: Path | str,
    threads: int,
    make_room: Callable[[], None] | None = None,
) -> list[Attempt]:
    """Compute runs in this process, those that are neither complete in `store` nor busy elsewhere.

    This is for those who choose the order of runs themselves; nothing is waited for. Several
    configs, which must have one `batch_key` that is not None, run as one batch.

    Parameters
    ----------
    run, configs
        As for `run_many`.
    store : path
        Folder of the results.
    threads : int
        Threads that the runs may use together; SFLKIT_THREADS of this process is set to it.
    make_room : function, optional
        Called where a result cannot be written, as on a full disk; then it is tried once more.

    Returns
    -------
    list of Attempt
        One per config, in no particular order.

    Raises
    ------
    TypeError, ValueError
        If `run` or a config is not as `run_many` describes.
    """
    task = Task(run, stacked_run(run), {}, Path(store), threads, os.getpid(), make_room)
    return execute(task, [(config, describe(run, config)) for config in configs], wait=False)


def batch_key(run: Callable, config: Any) -> Any:
    """Return what the configs of one batch share, or None where the run of `config` goes alone."""
    return None if stacked_run(run) is None else inspect.getmodule(run).stack_key(config)


def stacked_run(run: Callable) -> Callable | None:
    """Return the function that runs batches for `run`, if its module offers one: `run_stacked`."""
    return getattr(inspect.getmodule(run), f"{run.__name__}_stacked", None)


def execute(task: Task, batch: list[Item], wait: bool) -> list[Attempt]:
    """Compute the results of a batch in a worker.

    A run that another process computes is "busy", or waited for.
    """
    if os.getppid() == task.sweep_pid:
        die_with_parent(task.sweep_pid)
    os.environ[machine.THREADS_VARIABLE] = str(task.threads)
    answers = []
    mine = []
    with contextlib.ExitStack() as locks:
        # Locks are taken in one order everywhere, so that no two workers ever wait for each other.
        for config, head in sorted(batch, key=lambda item: item[1]["key"]):
            key = head["key"]
            try:
                lock = run_lock(key, task.store, wait=wait)
                lock.acquire()
                locks.callback(lock.release)
                if is_complete(key, task.store):
                    answers.append(Attempt(key, "found"))
                else:
                    mine.append((config, head))
            except filelock.Timeout:
                answers.append(Attempt(key, "busy"))
            except OSError as error:
                answers.append(
                    Attempt(key, "unwritable", f"cannot lock {task.store / key}: {error}")
                )
            except Exception:
                answers.append(Attempt(key, "failed", traceback.format_exc()))
        answers += _compute_and_write(task, mine)
    return answers


def _compute_and_write(task: Task, mine: list[Item]) -> Iterator[Attempt]:
    """Compute the runs whose locks this worker holds, and write each result."""
    done = _run_all(task, [config for config, _ in mine])
    for (_, head), (outcome, seconds, together) in zip(mine, done, strict=True):
        try:
            if outcome.error is not None:
                raise outcome.error
            record = head | {"stacked": together} if together > 1 else head
            _write(task, record, outcome.frame, seconds)
            yield Attempt(head["key"], "computed")
        except paths.CannotWrite as error:
            yield Attempt(head["key"], "unwritable", str(error))
        except Exception:
            yield Attempt(head["key"], "failed", traceback.format_exc())


def _write(task: Task, record: dict, frame: pd.DataFrame | None, seconds: float) -> None:
    """Write a result; where the disk is full, make room and try once more."""
    try:
        write_result(task.store, record, frame, threads=task.threads, seconds=seconds)
    except paths.CannotWrite:
        if task.make_room is None:
            raise
        task.make_room()
        write_result(task.store, record, frame, threads=task.threads, seconds=seconds)


def _run_all(task: Task, configs: list) -> Iterator[tuple[Outcome, float, int]]:
    """Yield of each config its outcome, its seconds (in a batch: an equal share), and how many ran
    in its batch.
    """
    if len(configs) > 1:
        start = time.perf_counter()
        try:
            outcomes = _checked_outcomes(task.run_stacked(configs, **task.given), len(configs))
        except Exception as error:  # one may be at fault for all: alone, each answers for itself
            warnings.warn(
                f"a batch of {len(configs)} runs failed, each now runs alone: {error!r}",
                stacklevel=2,
            )
        else:
            seconds = (time.perf_counter() - start) / len(configs)
            yield from ((outcome, seconds, len(configs)) for outcome in outcomes)
            return
    for config in configs:
        start = time.perf_counter()
        try:
            outcome = Outcome(task.run(config, **task.given))
        except Exception as error:
            outcome = Outcome(None, error)
        yield outcome, time.perf_counter() - start, 1


def _checked_outcomes(answer: Iterable[Outcome], count: int) -> list[Outcome]:
    """Return what `run_stacked` answered, or raise where it is not one Outcome per config."""
    outcomes = list(answer)
    if len(outcomes) != count:
        raise ValueError(f"run_stacked gave {len(outcomes)} results for {count} configs")
    for outcome in outcomes:
        if not isinstance(outcome, Outcome):
            raise TypeError(f"run_stacked gave a {type(outcome).__name__}, not an attempts.Outcome")
    return outcomes


@functools.cache
def die_with_parent(parent: int) -> None:
    """End this worker process when the sweep that started it was killed: an orphan would go on
    computing and hold its lock.
    """

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(0.5)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
