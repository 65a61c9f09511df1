"""What this process may use of the machine: threads, cores and a GPU.

The environment variable `SFLKIT_THREADS` bounds the threads of all work in the process. It is read
here and nowhere else, so that one setting holds for training, for sweeps and for notebooks. torch
is imported inside the functions that need it, since modules without torch ask for cores, too.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from sflkit import checks

if TYPE_CHECKING:
    import torch

THREADS_VARIABLE = "SFLKIT_THREADS"
DEVICES = ("auto", "cpu", "cuda")


def thread_bound() -> int | None:
    """Return the number in the environment variable `SFLKIT_THREADS`, or None where it is not set.

    Raises
    ------
    ValueError
        If the variable holds anything but an integer >= 1.
    """
    text = os.environ.get(THREADS_VARIABLE, "").strip()
    if not text:
        return None
    if not text.isdecimal() or int(text) < 1:
        raise ValueError(f"{THREADS_VARIABLE}={text!r} must be an integer >= 1")
    return int(text)


def cores() -> int:
    """Return how many threads all work of this process may use together.

    That is the number in `SFLKIT_THREADS`, else the number of cores this process may run on.

    Raises
    ------
    ValueError
        See `thread_bound`.
    """
    return thread_bound() or checks.process_cores()


def thread_count(threads: int | None = None) -> int:
    """Return how many threads a computation with torch gets.

    Parameters
    ----------
    threads : int, optional
        The number that the caller asks for; torch's own number unless given. `SFLKIT_THREADS`
        bounds either. A number above the cores of this process is used as it is, with a warning.

    Raises
    ------
    ValueError
        If `threads` is no integer >= 1, or as `thread_bound`.
    """
    if threads is None:
        import torch

        count = torch.get_num_threads()
    else:
        count = checks.workers("threads", threads)
    return min(count, thread_bound() or count)


def device(name: str = "auto") -> torch.device:
    """Return the device to compute on.

    Parameters
    ----------
    name : {"auto", "cpu", "cuda"}
        "auto" is the GPU where torch sees one, else the processor.

    Raises
    ------
    ValueError
        If `name` is another word, or "cuda" where torch sees no GPU.
    """
    import torch

    checks.choice("device", name, DEVICES)
    if name == "cuda" and not torch.cuda.is_available():
        raise ValueError("device='cuda' but torch sees no GPU; use 'cpu' or 'auto'")
    return torch.device("cuda" if name != "cpu" and torch.cuda.is_available() else "cpu")
