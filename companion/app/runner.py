"""Run a notebook without a person, through papermill.

Every run is written under a temporary name and renamed when complete, so that a killed run leaves
nothing that looks finished. A kernel dies with the process that started it (ipykernel polls its
parent). What surrounds a kernel, such as the bound on the seconds of a cell, is in `kernels`;
`refresh` executes notebooks in place.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import logging
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from companion.app import compare, gate
from companion.app.kernels import NotebookFailed, cell_seconds, watched
from sflkit import machine, paths

_THREAD_LIMITS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


def cores() -> int:
    """Return how many threads all our work may use together, see `machine.cores`.

    Raises
    ------
    gate.GateError
        If SFLKIT_THREADS holds anything but an integer >= 1.
    """
    try:
        return machine.cores()
    except ValueError as error:
        raise gate.GateError(str(error)) from None


def check_writable(folder: Path) -> None:
    """Raise GateError where nothing can be written to a folder."""
    try:
        paths.check_writable(folder)
    except paths.CannotWrite as error:
        raise gate.GateError(f"{error}; make it writable, or remove what lies there") from None


def run(
    book: gate.Notebook,
    profile: str = "",
    settings: Sequence[str] = (),
    echo: Callable[[str], Any] = print,
) -> Path:
    """Run `book` through the gate and papermill and return the executed copy.

    Every run has a folder of its own, such as out/runs/10-1, with its settings and figures, so that
    neither the published ones nor those of another run are overwritten; `compare` lays two side by
    side. With a profile the copy lies in out/<profile> and the figures in out/figures. With
    settings of its own the copy says in its first line which they are. `echo` is told at once where
    it will be, and a terminal shows the progress.

    Raises
    ------
    gate.GateError
        Before a kernel starts, when a setting is not allowed, the notebook's plan refuses the
        settings together, or the copy cannot be kept.
    NotebookFailed
        When a cell raised or took longer than `cell_seconds` (a run with sizes of its own has no
        bound unless $SFLKIT_CELL_SECONDS sets one), or when the kernel died; the executed part is
        kept beside the target as `<name>.failed.ipynb`.
    """
    values = gate.resolve(book, profile, settings)
    limit = cell_seconds(bounded=not values)
    check_writable(paths.out() / (profile or "runs"))
    _check_plan(book, profile, settings)
    done = (paths.out() / profile if profile else _new_folder(book)) / book.path.name
    failed = done.with_suffix(".failed.ipynb")
    quietly(cores() if machine.THREADS_VARIABLE in os.environ else None)
    failed.unlink(missing_ok=True)
    echo(f"{book.name} -> {done.parent}")
    where: dict[str, str | None] = {paths.PUBLISH: None}
    if not profile:
        said = {"notebook": book.name, "settings": gate.values(book, settings=settings)}
        paths.write_atomic(done.parent / compare.SETTINGS, json.dumps(said, indent=1))
        where["SFLKIT_FIGURES"] = os.environ.get("SFLKIT_FIGURES") or str(done.parent / "figures")
    with environment(**where):
        _execute(book, values, limit, done, failed)
    return done


def _check_plan(book: gate.Notebook, profile: str, settings: Sequence[str]) -> None:
    """Raise GateError where the plan of a notebook refuses its settings together."""
    if not (book.plan and (profile or settings)):
        return
    from companion import plans
    from companion.app import paper

    try:
        plans.next_stage(paper.begin(book, profile, settings), None)
    except gate.GateError:
        raise
    except ValueError as error:
        raise gate.GateError(f"{book.name}: {error}") from None


def _new_folder(book: gate.Notebook) -> Path:
    """Make the next free folder for a run of a notebook, out/runs/<number>-<n>."""
    for n in itertools.count(1):
        folder = paths.out() / "runs" / f"{book.number}-{n}"
        with contextlib.suppress(FileExistsError):
            folder.mkdir()
            return folder
    raise AssertionError("there is always a next number")


@contextlib.contextmanager
def environment(**values: str | None) -> Iterator[None]:
    """Set variables of the environment for the kernels that start inside; None unsets one."""

    def put(those: dict[str, str | None]) -> None:
        for name, value in those.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value

    before = {name: os.environ.get(name) for name in values}
    put(values)
    try:
        yield
    finally:
        put(before)


def _say_settings(file: Path, book: gate.Notebook, values: dict[str, Any]) -> None:
    """Write into the first line of an executed copy that its text tells of other settings."""
    import nbformat

    content = nbformat.read(file, as_version=4)
    said = ", ".join(
        f"`{name} = {value!r}` in place of `{book.parameters[name].default!r}`"
        for name, value in values.items()
    )
    words = (
        f"**Run with {said}.** The text tells of the published settings; the tables and figures "
        "below are of these."
    )
    content.cells.insert(0, nbformat.v4.new_markdown_cell(words, metadata={"tags": ["settings"]}))
    nbformat.write(content, file)


def _execute(
    book: gate.Notebook, values: dict[str, Any], limit: int | None, done: Path, failed: Path
) -> None:
    """Execute `book` with `values` into `done`, or into `failed` where a cell raised."""
    import papermill

    # It warns of parameters that its own inspection overlooks.
    logging.getLogger("papermill").setLevel(logging.ERROR)
    part = done.with_suffix(f".part{os.getpid()}.ipynb")
    done.parent.mkdir(parents=True, exist_ok=True)
    try:
        with watched(book.name, limit) as options:
            options |= {"start_timeout": options["startup_timeout"]}  # papermill's name for it
            papermill.execute_notebook(
                book.path,
                part,
                values,
                progress_bar=sys.stderr.isatty(),
                cwd=book.path.parent,
                **options,
            )
        if values:
            _say_settings(part, book, values)
        os.replace(part, done)
    except (papermill.PapermillExecutionError, NotebookFailed) as error:
        if part.exists():
            os.replace(part, failed)
        text = str(error)
        if not isinstance(error, NotebookFailed):
            text = f"{book.name}, cell [{error.exec_count}]: {error.ename}: {error.evalue}"
        raise NotebookFailed(f"{text}\n  see {failed}") from None
    except OSError as error:
        where = error.filename or done  # Jupyter's own files lie in HOME
        raise NotebookFailed(f"{book.name}: cannot use {where}: {error.strerror}") from None
    finally:
        part.unlink(missing_ok=True)


def quietly(threads: int | None) -> None:
    """Tell the kernels to come that nobody watches (no progress bars), and how many threads each
    may use.
    """
    os.environ["SFLKIT_BATCH"] = "1"
    if threads:
        os.environ[machine.THREADS_VARIABLE] = str(threads)
        for name in _THREAD_LIMITS:  # numpy's and torch's own pools, read when they load
            os.environ.setdefault(name, str(threads))
