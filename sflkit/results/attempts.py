"""Runs computed in this process: locks, results in place.

What a worker of a sweep does with its share of the runs. It does not raise for a run that fails: it
answers how each attempt ended.
"""

from __future__ import annotations

import functools
import os
import threading
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import filelock

from sflkit import machine, paths
from sflkit.results.store import is_complete, run_lock, write_result


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


# A config and what `describe` says of it.
Item = tuple[Any, dict]


def execute(task: Task, item: Item, wait: bool) -> Attempt:
    """Compute the result of one run in a worker.

    A run that another process computes is "busy", or waited for.
    """
    if os.getppid() == task.sweep_pid:
        die_with_parent(task.sweep_pid)
    os.environ[machine.THREADS_VARIABLE] = str(task.threads)
    config, head = item
    key = head["key"]
    try:
        lock = run_lock(key, task.store, wait=wait)
        lock.acquire()
    except filelock.Timeout:
        return Attempt(key, "busy")
    except OSError as error:
        return Attempt(key, "unwritable", f"cannot lock {task.store / key}: {error}")
    try:
        if is_complete(key, task.store):
            return Attempt(key, "found")
        paths.check_writable(task.store)  # before a run takes hours for a result that finds no room
        start = time.perf_counter()
        frame = task.run(config, **task.given)
        seconds = time.perf_counter() - start
        write_result(task.store, head, frame, threads=task.threads, seconds=seconds)
        return Attempt(key, "computed")
    except paths.CannotWrite as error:
        return Attempt(key, "unwritable", str(error))
    except Exception:
        return Attempt(key, "failed", traceback.format_exc())
    finally:
        lock.release()


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
