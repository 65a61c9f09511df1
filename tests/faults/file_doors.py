"""The library's files: how each is written and read, and what may lie in its place instead.

A door writes a file in an empty folder, of one of several contents, and reads it: its reader
returns what the file holds, or raises an error that names it.

| kind                                    | in place of a file           | right to read       |
|-----------------------------------------|------------------------------|---------------------|
| symbolic link                           | the file, elsewhere          | what the file holds |
| hard link                               | the file, with a second name | what the file holds |
| link to itself, link to nowhere         |                              | nothing             |
| pipe, device (/dev/zero), folder        |                              | nothing             |
| nested brackets                         | 200,000 in one another       | nothing             |
| items of no bytes                       | an npz of 3 * 10^9 of them   | nothing             |
| empty                                   | a file of no bytes           | nothing             |

What is written over any of these is right where the reader then finds it; under a second name the
file is there either as it was or as it is now.
"""

from __future__ import annotations

import contextlib
import dataclasses
import io
import os
import signal
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from companion import figures, shelf
from companion.claims import SFL
from companion.judging import tables
from companion.judging.claims import Setting
from sflkit import paths
from sflkit.data import catalogue, files, own
from sflkit.fats import learning, state
from sflkit.runs import store, sums
from sflkit.runs.keys import describe, result_key
from sflkit.sfl import cache_paths
from sflkit.sfl.config import SFLConfig
from tests.fats.fats_cases import setup
from tests.faults.damaged_calls import Outcome

TINY = SFLConfig(train=False, rounds=3, n_clients=3, capacity=4, batch_size=2)
SECONDS = 5  # after which a reader counts as hanging


class Door(NamedTuple):
    """A kind of file: `write(folder, content)`, for contents 0, 1, 2; `read(folder)`; its name."""

    name: str
    file: str
    write: Callable[[Path, int], Any]
    read: Callable[[Path], Any]


def write_state(folder: Path, content: int) -> None:
    """Write the state of a seed."""
    task, clients, history, _ = setup(content)
    learning.learn(task, clients, history, 0.3, start=task.init(0), path=folder / "state.npz")


def write_result(folder: Path, content: int) -> None:
    """Write a run's rows; the record is the same for all."""
    head = describe(cache_paths.run, TINY)
    frame = pd.DataFrame({"round": [1, 2], "loss": [content + 0.5, 0.25]})
    with store.run_lock(KEY, folder):  # as sweeps do
        store.write_result(folder, head, frame, threads=1, seconds=1.0)


KEY = result_key(cache_paths.run, TINY)


def read_result(folder: Path) -> Any:
    """Return rows of that run, or raise what a sweep says of it."""
    found = store.look(KEY, folder)
    if found.wrong or found.record is None:
        raise ValueError(f"{KEY}: {found.wrong or 'there is none'}")
    return store.read_result(KEY, folder)[0].to_csv()


def publish(folder: Path, content: int) -> None:
    """Add runs to an archive, as many as the content says."""
    for seed in range(content):
        head = describe(cache_paths.run, dataclasses.replace(TINY, seed=seed))
        frame = pd.DataFrame({"round": [1, 2], "loss": [seed + 0.5, 0.25]})
        with store.run_lock(head["key"], folder / "runs"):
            store.write_result(folder / "runs", head, frame, threads=1, seconds=1.0)
        shelf.publish([head["key"]], folder / "runs", folder)


SPEC = catalogue.SPECS["mnist"]


def write_data(folder: Path, content: int) -> None:
    """Write a small data set of images, as a download does."""
    x = np.full((8, *SPEC.shape), content, np.uint8)
    y = np.arange(8)
    with paths.lock(folder / "mnist.npz", folder=folder):
        files.write(folder / "mnist.npz", {"x_train": x, "y_train": y, "x_test": x, "y_test": y})


def write_csv(folder: Path, content: int) -> None:
    """Write a user's table."""
    text = f"a,label\n{content},x\n1,y\n"
    paths.write_atomic(folder / "own.csv", text)


def write_npz(folder: Path, content: int) -> None:
    """Write a user's arrays."""
    np.savez(folder / "own.npz", x=np.full((2, 1), float(content)), y=np.array(["a", "b"]))


def draw(folder: Path, content: int, artefact: str = "sfl-fig2") -> None:
    """Save a figure; its lines are those of the content."""
    fig, ax = plt.subplots(figsize=(2, 2))
    ax.plot([0, content])
    data = [[0.0, float(content)]]
    figures.save_figure(fig, artefact, data=data, parameters={"rounds": content}, folder=folder)
    plt.close(fig)


def judge(folder: Path, content: int) -> None:
    """Record a verdict."""
    judged = SFL["sfl-fig2"].judge({"mixes": content != 1}, setting=Setting("full"))
    tables.record(judged, folder=folder)


def published(folder: Path) -> dict[str, bytes]:
    """Return the files of a folder of figures, or raise what is said of them."""
    if found := list(sums.damages(folder)):
        raise ValueError(str(found))
    names = [path.name for path in folder.iterdir() if path.suffix in (".png", ".csv", ".json")]
    return {name: (folder / name).read_bytes() for name in sorted(names)}


def write_digests(folder: Path, content: int) -> None:
    """Write a file and its digest."""
    (folder / "data.csv").write_text(f"{content}")
    sums.put(folder, ["data.csv"])


def read_digests(folder: Path) -> Any:
    """Return the file's digest, or raise what is said of it."""
    if found := list(sums.damages(folder)):
        raise ValueError(str(found))
    return sums.read(folder)


def state_of(folder: Path) -> Any:
    """Return what the state of a folder holds."""
    found = state.load(folder / "state.npz")
    drawn = found.history.batches.tolist(), found.history.forgotten
    return found.params.tolist(), *drawn, found.status, found.owed, found.log


def table_of(name: str) -> Callable[[Path], Any]:
    """Return a reader of a user's table."""

    def read(folder: Path) -> Any:
        found = own.read(folder / name)
        return found.x.tolist(), found.y.tolist()

    return read


def data_of(folder: Path) -> Any:
    """Return the images of a data set."""
    return {name: a.tolist() for name, a in files.read(folder / "mnist.npz", SPEC).items()}


def rows_of(folder: Path) -> Any:
    """Return the rows of the published runs."""
    found = shelf.survey(folder)
    if found.damaged or not found.records:
        raise ValueError(f"{EXPERIMENT}: {found.damaged or 'there is none'}")
    return {key: store.read_result(key, folder)[0].to_csv() for key in found.records}


EXPERIMENT = KEY.partition("/")[0]
DOORS = [
    Door("a state", "state.npz", write_state, state_of),
    Door("rows of a result", f"{KEY}.csv", write_result, read_result),
    Door("record of a result", f"{KEY}.json", write_result, read_result),
    Door("published rows", f"{EXPERIMENT}.csv.xz", publish, rows_of),
    Door("published records", f"{EXPERIMENT}.jsonl.xz", publish, rows_of),
    Door("a data set", "mnist.npz", write_data, data_of),
    Door("a picture", "sfl-fig2.png", draw, published),
    Door("numbers of a picture", "sfl-fig2.csv", draw, published),
    Door("a passport", "sfl-fig2.json", draw, published),
    Door("verdicts", "verdicts.csv", judge, published),
    Door("parts of verdicts", "parts.csv", judge, published),
    Door("digests", "SHA256SUMS", write_digests, read_digests),
]
# What users write themselves: it is read only.
OWN = [
    Door("a table of one's own", "own.csv", write_csv, table_of("own.csv")),
    Door("arrays of one's own", "own.npz", write_npz, table_of("own.npz")),
]


def _symbolic(file: Path) -> None:
    elsewhere = file.parent / "elsewhere"
    elsewhere.mkdir()
    os.replace(file, elsewhere / file.name)
    file.symlink_to(elsewhere / file.name)


def _in_place(make: Callable[[Path], Any]) -> Callable[[Path], None]:
    def replace(file: Path) -> None:
        file.unlink()
        make(file)

    return replace


def _no_bytes() -> bytes:
    """Return an npz whose arrays are 3 * 10^9 items without bytes."""
    header = io.BytesIO()
    form = {"descr": "|S0", "fortran_order": False, "shape": (3 * 10**9,)}
    np.lib.format.write_array_header_1_0(header, form)
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        for name in ("x", "y", "status", "digests", "x_train", "y_train", "x_test", "y_test"):
            archive.writestr(f"{name}.npy", header.getvalue())
    return content.getvalue()


SAME: dict[str, Callable[[Path], None]] = {
    "symbolic link": _symbolic,
    "hard link": lambda file: os.link(file, file.parent / "second-name"),
}
OTHER: dict[str, Callable[[Path], None]] = {
    "link to itself": _in_place(lambda file: file.symlink_to(file)),
    "link to nowhere": _in_place(lambda file: file.symlink_to(file.parent / "nowhere" / "x")),
    "pipe": _in_place(os.mkfifo),
    "device": _in_place(lambda file: file.symlink_to("/dev/zero")),
    "folder": _in_place(Path.mkdir),
    "nested brackets": lambda file: file.write_bytes(b"[" * 200_000 + b"]" * 200_000),
    "items of no bytes": lambda file: file.write_bytes(_no_bytes()),
    "empty": lambda file: file.write_bytes(b""),
}
KINDS = SAME | OTHER


@contextlib.contextmanager
def patience() -> Iterator[None]:
    """Raise TimeoutError in a block that takes longer than it should, as where it hangs."""

    def late(*_: Any) -> None:
        raise TimeoutError("it hangs")

    old = signal.signal(signal.SIGALRM, late)
    signal.alarm(SECONDS)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, old)


def names(error: Exception, door: Door) -> bool:
    """Return whether an error says of which file it is: by its name, or by the key of its run."""
    return any(name in str(error) for name in (Path(door.file).name, KEY, EXPERIMENT))


def read(door: Door, kind: str, folder: Path) -> Outcome:
    """Write a file, put something else in its place, read it; return how that ended."""
    folder.mkdir(parents=True)
    door.write(folder, 1)
    right = door.read(folder)
    KINDS[kind](folder / door.file)
    return _ended(door, lambda: door.read(folder), lambda found: kind in SAME and found == right)


def write(door: Door, kind: str, folder: Path) -> Outcome:
    """Write a file, put something else in its place, write another content over it."""
    folder.mkdir(parents=True)
    door.write(folder, 1)
    (folder.parent / "new").mkdir()
    door.write(folder.parent / "new", 2)
    new = door.read(folder.parent / "new")
    file = folder / door.file
    old = file.read_bytes()
    KINDS[kind](file)
    second = {"symbolic link": file.parent / "elsewhere" / file.name}.get(
        kind, file.parent / "second-name"
    )

    def is_right(_: Any) -> bool:
        if door.read(folder) != new:
            return False
        left = second.read_bytes() if kind in SAME else file.read_bytes()
        return left in (file.read_bytes(), old)

    return _ended(door, lambda: door.write(folder, 2), is_right)


def _ended(door: Door, act: Callable[[], Any], is_right: Callable[[Any], bool]) -> Outcome:
    try:
        with patience():
            found = act()
            return Outcome("right" if is_right(found) else "silent", repr(found)[:200], 0.0)
    except (ValueError, OSError) as error:
        if isinstance(error, TimeoutError):
            return Outcome("slow", str(error), SECONDS)
        return Outcome("good" if names(error, door) else "vague", str(error), 0.0)
    except Exception as error:
        return Outcome("other", f"{type(error).__name__}: {error}", 0.0)
