"""What surrounds a kernel that runs a notebook: options for nbclient, bounds on waiting, and one
error for all that goes wrong.

A cell may take `cell_seconds`; without a bound a kernel that hangs would hold up everything behind
it for ever. A reply that lies unread in the client's queue is looked for every second, see
`_patient_manager`.
"""

from __future__ import annotations

import contextlib
import functools
import os
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from queue import Empty
from typing import Any

from companion.app import gate
from sflkit import paths

CELL_SECONDS = "SFLKIT_CELL_SECONDS"  # how long one cell may take, 0 for ever
_CELL_SECONDS = 900  # no cell takes a minute on two cores where published runs are read
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
    """A cell raised or took too long, or its kernel died.

    The message names notebook and cell.
    """


def cell_seconds(bounded: bool = True) -> int | None:
    """Return after how many seconds a cell counts as hung; None stands for never.

    That is what $SFLKIT_CELL_SECONDS says (0 stands for never), else 900, or never where a cell may
    compute as long as it takes, which is not `bounded`.

    Raises
    ------
    gate.GateError
        If the variable holds anything but an integer >= 0.
    """
    text = os.environ.get(CELL_SECONDS, "").strip()
    if not text:
        return _CELL_SECONDS if bounded else None
    if not text.isdecimal():
        raise gate.GateError(f"{CELL_SECONDS}={text!r} must be an integer >= 0")
    return int(text) or None


@contextlib.contextmanager
def watched(name: str, limit: int | None) -> Iterator[dict[str, Any]]:
    """Hand out nbclient's options for a notebook, and turn what goes wrong with it into one error.

    Parameters
    ----------
    name : str
        What the error calls the notebook.
    limit : int or None
        What a cell may take, in seconds; None has no bound.

    Raises
    ------
    NotebookFailed
        From within the `with` block.
    """
    from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError

    cells = 0

    def count(cell: Any, cell_index: int) -> None:
        nonlocal cells
        cells += 1

    try:
        yield _OPTIONS | {
            "extra_arguments": [*_OPTIONS["extra_arguments"]],
            "kernel_manager_class": _patient_manager(),
            "on_cell_execute": count,
            "timeout": limit,
            "startup_timeout": _START_SECONDS,
        }
    except CellExecutionError as error:
        raise NotebookFailed(f"{name}, cell [{cells}]: {error.ename}: {error.evalue}") from None
    except CellTimeoutError:
        raise NotebookFailed(
            f"{name}, cell [{cells}]: no end after {limit} s, or its outputs did not arrive; "
            f"{CELL_SECONDS} sets another bound, 0 none"
        ) from None
    # nbclient fails an assertion when a kernel is silent between two cells
    except (AssertionError, RuntimeError) as error:
        if not cells:
            raise NotebookFailed(
                f"{name}: the kernel did not start within {_START_SECONDS} s: {error}{_no_home()}"
            ) from None
        if not isinstance(error, AssertionError | DeadKernelError):
            raise
        raise NotebookFailed(
            f"{name}, cell [{cells}]: the kernel died or fell silent; did memory run out?"
        ) from None


def _no_home() -> str:
    """Return what is wrong with the folder that a kernel cannot start without, and what to set."""
    home = Path(os.environ.get("IPYTHONDIR") or Path.home() / ".ipython")
    try:
        paths.check_writable(home / "profile_default")
    except paths.CannotWrite as error:
        return f"; {error}; set IPYTHONDIR to a folder that can be written"
    return ""


@functools.cache
def _patient_manager() -> type:
    """Return nbclient's kernel manager, with clients that look for messages every second.

    pyzmq waits for the edge of a file descriptor, and now and then that edge is missed: the reply
    is there, the kernel is idle, and nbclient waits for ever. This can go when a release of pyzmq
    or jupyter_client says that its asynchronous sockets miss no edge, and many runs of all
    notebooks on a busy machine without it have shown no hang.
    """
    import nbclient
    import nbformat

    class PatientManager(nbclient.NotebookClient(nbformat.v4.new_notebook()).kernel_manager_class):
        def client(self, **kwargs: Any) -> Any:
            client = super().client(**kwargs)
            for channel in (client.shell_channel, client.iopub_channel):
                channel.get_msg = functools.partial(_look_often, channel.get_msg)
            return client

    return PatientManager


async def _look_often(get_message: Callable[..., Awaitable], timeout: float | None = None) -> Any:
    """Return the next message of a channel; raise queue.Empty after `timeout` seconds (None:
    never).
    """
    end = None if timeout is None else time.monotonic() + timeout
    while True:
        wait = _LOOK_AGAIN_SECONDS
        if end is not None:
            wait = max(0.0, min(wait, end - time.monotonic()))
        try:
            return await get_message(timeout=wait)
        except Empty:
            if end is not None and time.monotonic() >= end:
                raise
