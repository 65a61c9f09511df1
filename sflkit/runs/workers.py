"""The runs of a sweep, computed here or in joblib's workers: locks, results in place, failures.

A worker does not raise for a run that fails: it answers how each attempt ended.
"""

from __future__ import annotations

import contextlib
import functools
import os
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import BrokenExecutor
from pathlib import Path
from typing import Any, NamedTuple

import joblib

from sflkit import checks, machine, paths
from sflkit.runs import origin
from sflkit.runs.identity import code_of_config, own_code
from sflkit.runs.store import look, run_lock, write_result

_LOST = (
    "a worker process ended before this run did (killed, or out of memory?); the same call "
    "computes what is missing, with fewer jobs if memory was short"
)


class SweepError(RuntimeError):
    """Some runs of a sweep failed.

    `failures` holds the config and the traceback of each; every other run is in the store.
    """

    def __init__(self, failures: Sequence[tuple[Any, str]]):
        self.failures = list(failures)
        alike: dict[str, list] = {}
        for config, trace in self.failures:
            alike.setdefault(trace.strip().splitlines()[-1], []).append(config)
        lines = [
            f"  {first!r}: {why}" + (f"\n  and {len(rest)} more likewise" if rest else "")
            for why, (first, *rest) in alike.items()
        ]
        super().__init__(
            f"{len(self.failures)} of the runs failed, the others are stored:\n"
            + "\n".join(lines)
            + "\nThe first failure in full:\n"
            + self.failures[0][1]
        )

    def __reduce__(self):
        return SweepError, (self.failures,)  # an exception is rebuilt from its message otherwise


class Attempt(NamedTuple):
    """How the attempt at one run ended.

    `state` is "computed", "found" (complete already), "busy" (another process computes it),
    "failed" (`why` is the traceback) or "unwritable" (`why` says which file could not be written).
    """

    key: str
    state: str
    why: str = ""


class Task(NamedTuple):
    """What a worker needs besides the runs; it travels to other processes as a whole."""

    run: Callable
    given: dict[str, Any]
    store: Path
    threads: int
    sweep_pid: int

    def is_there(self, key: str) -> bool:
        """Return whether the store holds a complete result that the code in use here made."""
        there = look(key, self.store)
        of_any_code = self.store == paths.published()
        return there.complete and (of_any_code or origin.is_of_this_code(self.run, there.record))


# A config and what `describe` says of it.
Item = tuple[Any, dict]


def execute(task: Task, item: Item, wait: bool) -> Attempt:
    """Compute the result of one run in a worker; it does not raise for a run that fails.

    A run that another process computes is "busy", or waited for.
    """
    if os.getppid() == task.sweep_pid:
        die_with_parent(task.sweep_pid)
    os.environ[machine.THREADS_VARIABLE] = str(task.threads)
    config, head = item
    key = head["key"]
    lock = run_lock(key, task.store, wait=wait)
    try:
        lock.acquire()
        if task.is_there(key):
            return Attempt(key, "found")
        paths.check_writable(task.store)  # before a run takes hours for a result that finds no room
        if os.getpid() != task.sweep_pid:
            _check_code(task, config, head)
        start = time.perf_counter()
        frame = task.run(config, **task.given)
        seconds = time.perf_counter() - start
        write_result(task.store, head, frame, threads=task.threads, seconds=seconds)
        return Attempt(key, "computed")
    except TimeoutError as error:
        return Attempt(key, "busy") if not wait else Attempt(key, "failed", str(error))
    except paths.CannotWrite as error:
        return Attempt(key, "unwritable", str(error))
    except Exception:
        return Attempt(key, "failed", traceback.format_exc())
    finally:
        lock.release()


def _check_code(task: Task, config: Any, head: dict) -> None:
    """Raise RuntimeError where this process has imported other code of the user's than the sweep's
    did, which the key is made of: a file may have been edited in between.
    """
    here = own_code(task.run, task.given) | code_of_config(config)
    there = head.get("sources", {})
    if other := sorted(name for name in {*here, *there} if here.get(name) != there.get(name)):
        raise RuntimeError(
            f"{', '.join(other)} is other code in this worker than where the sweep was called: "
            "it was edited after it was imported there, or added to a registry there alone"
        )


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


def compute(
    task: Task,
    missing: dict[str, Item],
    jobs: int | None,
    progress: bool | None,
    description: str,
) -> int:
    """Compute what is missing, here or in workers; return how many runs were computed and not found
    since. SweepError is raised when all have ended.
    """
    from tqdm import tqdm

    paths.check_writable(task.store)
    workers = joblib.effective_n_jobs(jobs)
    task = task._replace(threads=max(1, task.threads // min(workers, len(missing))))
    pending = missing
    failures = {}
    computed = 0
    with (
        _own_threads(),
        tqdm(total=len(missing), desc=description, disable=not _show(progress), unit="run") as bar,
    ):
        # First what no other process is computing; then wait for the others, and compute what they
        # did not finish.
        for wait in (False, True):
            busy = {}
            calls = [joblib.delayed(execute)(task, item, wait) for item in pending.values()]
            try:
                for key, state, why in _parallel(jobs)(calls):
                    if state == "busy":
                        busy[key] = missing[key]
                        continue
                    if state in ("failed", "unwritable"):
                        failures[key] = why
                    computed += state == "computed"
                    bar.update()
            except _lost_workers() as error:
                failures |= {
                    key: _LOST for key in missing if key not in failures and not task.is_there(key)
                }
                raise _failed(missing, failures) from error
            if not busy:
                break
            pending = busy
    if failures:
        raise _failed(missing, failures)
    return computed


def _failed(missing: dict[str, Item], failures: dict[str, str]) -> SweepError:
    """Return the error that names the runs which failed, in the order of the configs."""
    return SweepError(
        [(config, failures[key]) for key, (config, _) in missing.items() if key in failures]
    )


def _lost_workers() -> tuple[type[Exception], ...]:
    """Return the errors by which joblib's back ends say that a worker process was killed."""
    distributed = sys.modules.get("distributed")
    killed = getattr(distributed, "KilledWorker", None)
    return (BrokenExecutor,) if killed is None else (BrokenExecutor, killed)


def checked_jobs(jobs: int | None) -> int | None:
    """Return a number of jobs, or None for joblib's own; ValueError unless it is >= 1."""
    if jobs is None:
        return None
    backend = type(joblib.parallel.get_active_backend()[0]).__name__
    if backend == "DaskDistributedBackend":  # its workers are not on this machine's cores
        return checks.integer("jobs", jobs, 1)
    return checks.workers("jobs", jobs)


@contextlib.contextmanager
def _own_threads() -> Iterator[None]:
    """Put SFLKIT_THREADS back in the end; workers that are threads set this process's own."""
    before = os.environ.get(machine.THREADS_VARIABLE)
    try:
        yield
    finally:
        os.environ.pop(machine.THREADS_VARIABLE, None)
        if before is not None:
            os.environ[machine.THREADS_VARIABLE] = before


def _parallel(jobs: int | None) -> joblib.Parallel:
    # Where the caller names no back end: threads. Training leaves the interpreter's lock, and
    # processes would load torch anew.
    options = {"n_jobs": jobs, "prefer": "threads", "batch_size": 1}
    ways = [{"return_as": "generator_unordered"}]  # not every back end hands over as they come
    if type(joblib.parallel.get_active_backend()[0]).__name__ == "LokyBackend":
        # From their first moment on: without a task they would wait five minutes for one. joblib
        # before 1.5 knows no such thing.
        early = {"initializer": die_with_parent, "initargs": (os.getpid(),)}
        ways = [early | ways[0], *ways]
    for way in ways:
        with contextlib.suppress(TypeError, ValueError):
            return joblib.Parallel(**options, **way)
    return joblib.Parallel(**options)


def _show(progress: bool | None) -> bool:
    if progress is not None:
        return progress
    # A Jupyter server names the notebook for its kernels; papermill and nbval do not, so their
    # outputs stay free of bars.
    return "SFLKIT_BATCH" not in os.environ and (
        sys.stderr.isatty() or "JPY_SESSION_NAME" in os.environ
    )
