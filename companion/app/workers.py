"""Processes that compute runs for the queue, one batch at a time.

A worker is a fresh process, not a fork: what libraries read when they load, such as the number of
threads, is its own. It ends with the process that started it, by whatever end that came to, and
leaves Ctrl-C to it. One that dies costs the batch it was computing and nothing else.
"""

from __future__ import annotations

import importlib
import multiprocessing
import os
import pickle
import signal
import traceback
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from companion.app import runner
from sflkit.results import attempts

NICE = 10  # added to the priority that the queue itself runs at


class WorkerDied(RuntimeError):
    """A worker's process ended while it was computing."""


class Worker:
    """A process that computes runs into `folder` with `threads` threads, and the pipe to it."""

    def __init__(self, folder: Path, threads: int):
        # Read by numpy's and torch's own pools when they load in the process.
        runner.quietly(threads)
        context = multiprocessing.get_context("spawn")
        self.pipe, theirs = context.Pipe()
        self._process = context.Process(
            target=work, args=(theirs, runner.this_process(), str(folder), threads)
        )
        self._process.start()
        theirs.close()  # so that the pipe ends when the process does

    def begin(self, module: str, run: Callable, configs: Sequence[Any]) -> None:
        """Start to compute `configs`, after an import of the plan's `module`.

        The import brings in rules that it adds to a registry. Raises whatever pickle does where
        `run` or the configs cannot travel to another process.
        """
        order = pickle.dumps((module, run, list(configs)))
        try:
            self.pipe.send_bytes(order)
        except OSError:  # it died while idle; `answer` says so
            return

    def answer(self) -> list[attempts.Attempt] | str:
        """Return what became of the batch, or the traceback of what kept it from starting.

        Waits for it. Raises WorkerDied if the process ended.
        """
        try:
            return self.pipe.recv()
        except (EOFError, OSError):
            self._process.join(5)
            code = self._process.exitcode
            how = f"by signal {-code}" if code is not None and code < 0 else f"with code {code}"
            hint = "; did memory run out?" if code == -signal.SIGKILL else ""
            raise WorkerDied(f"the process that computed it ended {how}{hint}") from None

    def end(self) -> None:
        """End the process at once, also in the middle of a run, and wait until it is gone."""
        self.pipe.close()
        self._process.terminate()
        self._process.join(5)
        if self._process.is_alive():
            self._process.kill()
            self._process.join()


def work(pipe: Connection, queue: str, folder: str, threads: int) -> None:
    """Compute what comes through `pipe` until it is closed; the life of a worker's process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    runner.die_with(queue)
    if hasattr(os, "nice"):
        os.nice(NICE)
    while True:
        try:
            order = pipe.recv_bytes()
        except (EOFError, OSError):
            return
        pipe.send(_compute(order, Path(folder), threads))


def _compute(order: bytes, folder: Path, threads: int) -> list[attempts.Attempt] | str:
    try:
        module, run, configs = pickle.loads(order)
        importlib.import_module(module)
        return attempts.attempt(run, configs, store=folder, threads=threads)
    except Exception:
        return traceback.format_exc()
