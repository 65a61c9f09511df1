"""How much of the fault campaign is made, and what its tests share.

`make test` makes a bounded part, which is the same every time. `make faults N=100` makes all: of
each kind of kill 0.3 N to N, of full disks 0.5 N, 10 N corruptions of each kind of file, 0.4 N
times two writers of each, and every damaged call and file. The moments of kills and the places of
corruptions are drawn from a seed, $SFLKIT_SEED or 0.
"""

from __future__ import annotations

import contextlib
import os
import resource
import subprocess
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import psutil

N = int(os.environ.get("SFLKIT_FAULTS") or 0)
SHARE = 1 if N else 5  # every so many of the damaged calls
SEED = int(os.environ.get("SFLKIT_SEED") or 0)


def tries(few: int, share: float = 1.0) -> range:
    """Return the tries of a kind: `few` in `make test`, `share` of N in the campaign."""
    return range(max(few, round(share * N)) if N else few)


def generator(kind: str, number: int) -> np.random.Generator:
    """Return the randomness of a try, which depends on no other."""
    return np.random.default_rng([SEED, number, *kind.encode()])


def kill(process: subprocess.Popen, seconds: float) -> None:
    """Kill a process with SIGKILL after some seconds, and wait until all that it started is gone.

    Fails where something it started is alive half a minute later.
    """
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(seconds)
    below = []
    with contextlib.suppress(psutil.NoSuchProcess):
        below = psutil.Process(process.pid).children(recursive=True)
    process.kill()
    process.wait()
    _, left = psutil.wait_procs(below, timeout=30)
    assert not [p for p in left if p.is_running() and p.status() != psutil.STATUS_ZOMBIE]


def limit(bytes_left: int) -> None:
    """Let no file of this process and its children grow beyond some bytes, from now on."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (bytes_left, bytes_left))


@contextlib.contextmanager
def room(bytes_left: int) -> Iterator[None]:
    """Let no file of this process grow beyond some bytes, as on a disk that is full."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (bytes_left, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def contents(folder: Path) -> dict[str, bytes]:
    """Return all files below a folder, without the locks."""
    return {
        str(file.relative_to(folder)): file.read_bytes()
        for file in sorted(folder.rglob("*"))
        if file.is_file() and ".locks" not in file.parts
    }


def damaged(content: bytes, rng: np.random.Generator) -> bytes:
    """Return a file's bytes as a failing disk may give them back: other than they were."""
    out = bytearray(content)
    place = int(rng.integers(len(out)))
    kind = rng.integers(5)
    if kind == 0:
        return bytes(out[:place])
    if kind == 1:
        out[place] ^= 1 << int(rng.integers(8))
    elif kind == 2:  # a block of zeros
        length = int(rng.integers(1, 512))
        out[place : place + length] = bytes(len(out[place : place + length]))
    elif kind == 3:  # a block from elsewhere in the file
        length, start = int(rng.integers(1, 512)), int(rng.integers(len(out)))
        block = out[start : start + length]
        out[place : place + len(block)] = block
    else:
        out += rng.bytes(int(rng.integers(1, 512)))
    return bytes(out) if bytes(out) != content else bytes(out[:-1])
