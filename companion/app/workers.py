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
import tempfile
import traceback
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import IO, Any

from companion.app import runner
from sflkit.results import attempts, store

NICE = 10  # added to the priority that the queue itself runs at
RESERVED = 4_000_000  # bytes on the disk that each worker holds; a result is far smaller


class WorkerDied(RuntimeError):
    """A worker's process ended while it was computing."""


class Reserve:
    """Room on the disk of `folder`, held while a run computes and given up for its result.

    So a run that began is stored, even where others fill the disk meanwhile. The file that holds
    the room has no name and goes with its process.
    """

    def __init__(self, folder: Path):
        self._folder = folder
        self._file: IO[bytes] | None = None

    def fill(self, size: int = RESERVED) -> None:
        """Hold `size` bytes, if not held already. Raises OSError where there is no room."""
        if self._file is not None:
            return
        self._folder.mkdir(parents=True, exist_ok=True)
        file = tempfile.TemporaryFile(dir=self._folder, buffering=0)
        try:
            # Random, since a file system may keep zeros in no room at all.
            block = os.urandom(size)
            while block:
                block = block[file.write(block) :]
        except OSError:
            file.close()
            raise
        self._file = file

    def release(self) -> None:
        """Give the room up."""
        if self._file is not None:
            self._file.close()
            self._file = None


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
    reserve = Reserve(Path(folder))
    while True:
        try:
            order = pipe.recv_bytes()
        except (EOFError, OSError):
            return
        pipe.send(_compute(order, Path(folder), threads, reserve))


def _compute(
    order: bytes, folder: Path, threads: int, reserve: Reserve
) -> list[attempts.Attempt] | str:
    try:
        module, run, configs = pickle.loads(order)
        importlib.import_module(module)
        try:
            reserve.fill()
        except OSError as error:
            keys = [store.result_key(run, config) for config in configs]
            why = f"cannot write {folder / keys[0]}.csv: {error.strerror}"
            return [attempts.Attempt(key, "unwritable", why) for key in keys]
        return attempts.attempt(
            run, configs, store=folder, threads=threads, make_room=reserve.release
        )
    except Exception:
        return traceback.format_exc()
