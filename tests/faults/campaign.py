"""How much of the fault campaign is made, and what it found.

`make test` makes a bounded part, which is the same every time. `make faults N=100` makes all: of
each kind of kill 0.3 N to N, of full disks 0.5 N, 10 N corruptions of each kind of file, 0.4 N
times two writers of each, and every damaged call and file. The moments of kills and the places of
corruptions are drawn from a seed, $SFLKIT_SEED or 0.
"""

from __future__ import annotations

import collections
import contextlib
import os
import resource
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import psutil

N = int(os.environ.get("SFLKIT_FAULTS") or 0)
SHARE = 1 if N else 5  # every so many of the damaged calls
SEED = int(os.environ.get("SFLKIT_SEED") or 0)


class Row(NamedTuple):
    """One try of a kind of fault: whether it was survived, and the seconds to recover."""

    kind: str
    survived: bool
    seconds: float


ROWS: list[Row] = []
WORDS: dict[str, collections.Counter] = {}  # kind of damage -> how the calls ended
COLUMNS = ("good", "right", "vague", "silent", "other", "slow")


def tries(few: int, share: float = 1.0) -> range:
    """Return the tries of a kind: `few` in `make test`, `share` of N in the campaign."""
    return range(max(few, round(share * N)) if N else few)


def generator(kind: str, number: int) -> np.random.Generator:
    """Return the randomness of a try, which depends on no other."""
    return np.random.default_rng([SEED, number, *kind.encode()])


class Attempt:
    """A try that goes on, and when its recovery began."""

    def __init__(self) -> None:
        self.began = time.monotonic()

    def recover(self) -> None:
        """Say that the fault is over and recovery begins; otherwise all of the try counts as it."""
        self.began = time.monotonic()


@contextlib.contextmanager
def attempt(kind: str) -> Iterator[Attempt]:
    """Count a try, survived unless the block raises; its seconds are those of the recovery."""
    trial = Attempt()
    survived = False
    try:
        yield trial
        survived = True
    finally:
        ROWS.append(Row(kind, survived, time.monotonic() - trial.began))


def table() -> str:
    """Return the fault table: kind, tries, survived, worst seconds to recover."""
    lines = [f"{'kind':<44} {'tries':>6} {'survived':>8} {'worst seconds':>13}"]
    for kind in dict.fromkeys(row.kind for row in ROWS):
        rows = [row for row in ROWS if row.kind == kind]
        survived = sum(row.survived for row in rows)
        worst = max(row.seconds for row in rows)
        lines.append(f"{kind:<44} {len(rows):>6} {survived:>8} {worst:>13.1f}")
    return "\n".join(lines)


def count(kind: str, word: str, times: int = 1) -> None:
    """Count calls with a kind of damage by how they ended, one of `COLUMNS`."""
    assert word in COLUMNS
    WORDS.setdefault(kind, collections.Counter())[word] += times


def tally() -> str:
    """Return how the damaged calls ended, a line for each kind of damage and one for all.

    Good is an error that names what is wrong, right an answer that may be so; see
    `tests.faults.damaged_calls` for the other words.
    """
    lines = [f"{'kind of damage':<30} {'tried':>7}" + "".join(f"{word:>8}" for word in COLUMNS)]
    for kind, words in (WORDS | {"all": sum(WORDS.values(), collections.Counter())}).items():
        counts = "".join(f"{words[word]:>8}" for word in COLUMNS)
        lines.append(f"{kind:<30} {words.total():>7}{counts}")
    return "\n".join(lines)


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
