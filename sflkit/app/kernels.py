"""What surrounds a kernel that runs a notebook: options for nbclient, bounds on waiting, and one
error for all that goes wrong.

A cell may take `cell_seconds`; without a bound a kernel that hangs would hold up everything behind
it for ever. A reply that lies unread in the client's queue is looked for every second, see
`_patient_manager`."""

from __future__ import annotations

import contextlib
import functools
import os
import sys
import time
from queue import Empty

from sflkit.app import gate

CELL_SECONDS = "SFLKIT_CELL_SECONDS"  # how long one cell may take, 0 for ever
_QUICK_CELL_SECONDS = 900  # no cell of the quick profile takes a minute on two cores
_START_SECONDS = 120
_LOOK_AGAIN_SECONDS = 1.0
_OPTIONS = {
    "kernel_name": "python3",
    "extra_arguments": ["--log-level=ERROR"],  # it warns of plain sockets on the loopback device
    # the outputs are in; an interpreter with torch takes 1 to 3 s to put itself away
    "shutdown_kernel": "immediate",
    "iopub_timeout": 60,  # outputs of a busy machine come late,
    "raise_on_iopub_timeout": True,  # but none may be missing
}


class NotebookFailed(RuntimeError):
    """A cell raised or took too long, or its kernel died (the message names notebook and cell), or
    Snakemake broke down.
    """


def cell_seconds(profile: str) -> int | None:
    """Return after how many seconds a cell counts as hung: $SFLKIT_CELL_SECONDS, else 900 for the
    quick profile; None: never.

    Raises gate.GateError when the variable holds no integer >= 0; 0 stands for None.
    """
    value = integer_from_environment(CELL_SECONDS, 0)
    if value is not None:
        return value or None
    return _QUICK_CELL_SECONDS if profile == "quick" else None


def integer_from_environment(name: str, low: int) -> int | None:
    """Return the integer in an environment variable, None when it is empty; GateError below `low`
    or when it is no integer.
    """
    text = os.environ.get(name, "").strip()
    if not text:
        return None
    if not text.isdecimal() or int(text) < low:
        raise gate.GateError(f"{name}={text!r} must be an integer >= {low}")
    return int(text)


@contextlib.contextmanager
def watched(name: str, limit: int | None):
    """Hand out nbclient's options for the notebook `name`, and turn what goes wrong with it into
    NotebookFailed.

    `limit` is what a cell may take, in seconds; None has no bound.
    """
    with without_slow_grammar():
        from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError

    cells = 0

    def count(cell, cell_index):
        nonlocal cells
        cells += 1

    try:
        yield _OPTIONS | {
            "kernel_manager_class": _patient_manager(),
            "on_cell_execute": count,
            "timeout": limit,
            "startup_timeout": _START_SECONDS,
        }
    except CellExecutionError as error:
        raise NotebookFailed(f"{name}, cell [{cells}]: {error.ename}: {error.evalue}") from None
    except CellTimeoutError as error:
        late = "its outputs did not arrive" if "IOPub" in str(error) else f"no end after {limit} s"
        raise NotebookFailed(
            f"{name}, cell [{cells}]: {late}; {CELL_SECONDS} sets another bound, 0 none"
        ) from None
    except (
        AssertionError,
        RuntimeError,
    ) as error:  # nbclient fails an assertion when a kernel is silent between two cells
        if not cells:
            raise NotebookFailed(
                f"{name}: the kernel did not start within {_START_SECONDS} s: {error}"
            ) from None
        if not isinstance(error, AssertionError | DeadKernelError):
            raise
        raise NotebookFailed(
            f"{name}, cell [{cells}]: the kernel died or fell silent; did memory run out?"
        ) from None


@contextlib.contextmanager
def without_slow_grammar():
    """Keep nbformat's jsonschema from building a grammar of international addresses: a second, and
    of no use here.
    """
    name = "rfc3987_syntax"  # jsonschema does without it where it is not installed
    blocked = name not in sys.modules
    if blocked:
        sys.modules[name] = None
    try:
        yield
    finally:
        if blocked:
            sys.modules.pop(name, None)


@functools.cache
def _patient_manager() -> type:
    """Return nbclient's kernel manager, with clients that look for messages every second.

    pyzmq waits for the edge of a file descriptor, and now and then that edge is missed: the reply
    is there, the kernel is idle, and nbclient waits for ever."""
    import nbclient
    import nbformat

    class PatientManager(nbclient.NotebookClient(nbformat.v4.new_notebook()).kernel_manager_class):
        def client(self, **kwargs):
            client = super().client(**kwargs)
            for channel in (client.shell_channel, client.iopub_channel):
                channel.get_msg = functools.partial(_look_often, channel.get_msg)
            return client

    return PatientManager


async def _look_often(get_message, timeout: float | None = None):
    """Return the next message of a channel; raises queue.Empty after `timeout` seconds (None:
    never).
    """
    end = None if timeout is None else time.monotonic() + timeout
    while True:
        left = (
            _LOOK_AGAIN_SECONDS
            if end is None
            else max(0.0, min(_LOOK_AGAIN_SECONDS, end - time.monotonic()))
        )
        try:
            return await get_message(timeout=left)
        except Empty:
            if end is not None and time.monotonic() >= end:
                raise
