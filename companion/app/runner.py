"""Run a notebook without a person, through papermill.

Every run is written under a temporary name and renamed when complete, so that a killed run leaves
nothing that looks finished. A kernel dies with the process that started it (ipykernel polls its
parent); `die_with` does the same one level up, so that `kill -9` on any process of the chain make -
sflkit figures - Snakemake - sflkit run - kernel ends all that is below it. What surrounds a kernel,
such as the bound on the seconds of a cell, is in `kernels`; `regenerate` runs all notebooks of a
profile, and `refresh` executes notebooks in place.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import os
import platform
import re
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from companion.app import committed, gate
from companion.app.kernels import NotebookFailed, cell_seconds, watched
from companion.judging import seals
from sflkit import checks, machine, paths

# host:pid of whoever started us and would want us gone when it is gone; a bare pid is one of this
# host.
WATCH = "SFLKIT_WATCH"
# The package of a notebook's paper, by the first digit of its number.
PAPERS = {"1": "sfl", "2": "datastreams", "3": "osafl", "4": "fats"}
BEYOND = "beyond"  # what two papers make together, of which no paper knows
_THREAD_LIMITS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


def this_process() -> str:
    """Return what `die_with` of another process takes to watch this one: host:pid."""
    return f"{platform.node()}:{os.getpid()}"


def die_with(process: str | int | None) -> None:
    """End this process, without clean-up, within about a second of the end of `process`.

    `process` is a pid, or host:pid; where it is empty, nothing is watched. One of another host, as
    in the environment of a cluster job, cannot be watched from here and is ignored.

    Raises
    ------
    gate.GateError
        If `process` is of another form.
    """
    if not process:
        return
    match = re.fullmatch(r"(?:(.*):)?(\d+)", str(process))
    if not match:
        raise gate.GateError(
            f"{WATCH}={process!r} must read host:pid or pid; unset it unless you mean to end with "
            "that process"
        )
    if match[1] not in (None, platform.node()):
        return
    import psutil

    try:
        parent = psutil.Process(int(match[2]))
    except psutil.NoSuchProcess:
        os._exit(1)

    def watch() -> None:
        while True:
            try:
                if not parent.is_running() or parent.status() == psutil.STATUS_ZOMBIE:
                    os._exit(1)
            except psutil.NoSuchProcess:
                os._exit(1)
            time.sleep(0.5)

    threading.Thread(target=watch, daemon=True, name="die-with-parent").start()


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


def target(book: gate.Notebook, profile: str) -> Path:
    """Return where the executed copy of `book` goes."""
    return paths.out() / paths.check_profile(profile) / book.path.name


def stamp(book: gate.Notebook, profile: str) -> Path:
    """Return the file that says a run is complete.

    It holds the run's seconds, its parameters and the figure files it stands for.
    """
    return target(book, profile).with_suffix(".done.json")


def sources(name: str) -> list[str]:
    """Return what a notebook is made from besides its own file, as paths from the clone's root.

    That is the package of its own paper and the shared ones, and the numbers that its paper
    prints, which verdicts hang on. A notebook of no paper, such as the first, is made from all, and
    from ERRATA.md. Data sets and results are not among it.
    """
    own = PAPERS.get(name[0])
    others = {*PAPERS.values(), BEYOND} - {own} if own is not None else set()
    root = gate.root()
    files = [
        file.relative_to(root)
        for package in ("sflkit", "companion")
        for file in (root / package).rglob("*.py")
    ]
    files = [file for file in files if file.parts[1] not in others]
    printed = (root / "data" / "paper_values").glob("*.csv")
    files += [file.relative_to(root) for file in printed if file.stem.split("-")[0] not in others]
    if own is None and (root / "ERRATA.md").is_file():
        files.append(Path("ERRATA.md"))
    return sorted(map(str, files))


def made_from(book: gate.Notebook, values: dict[str, Any]) -> str:
    """Return the sha256 of what a run is made from: parameters, notebook and `sources`.

    Times of files say the same only as long as no clock jumps back.
    """
    digest = hashlib.sha256(json.dumps(values, sort_keys=True).encode())
    for file in (book.path, *(gate.root() / name for name in sources(book.name))):
        digest.update(hashlib.sha256(file.read_bytes()).digest())
    return digest.hexdigest()


def failure(book: gate.Notebook, profile: str) -> Path:
    """Return where the executed copy goes when a cell raised."""
    return target(book, profile).with_suffix(".failed.ipynb")


def run(
    book: gate.Notebook,
    profile: str = "quick",
    settings: Sequence[str] = (),
    publish: bool = False,
) -> Path:
    """Run `book` through the gate and papermill and return the executed copy.

    Only with `publish`, as `make figures` has it, is it the profile's run. Without, its copy is
    called `<name>.custom.ipynb` and its figures and verdicts go to `paths.drawn`, so that the
    published ones stay what they are.

    Raises
    ------
    gate.GateError
        Before a kernel starts, when a setting is not allowed, or when settings of one's own are to
        be published.
    NotebookFailed
        When a cell raised or took longer than `cell_seconds` (a run with settings of its own has no
        bound unless $SFLKIT_CELL_SECONDS sets one), or when the kernel died; the executed part is
        kept beside the target as `<name>.failed.ipynb`.
    """
    if settings and publish:
        raise gate.GateError(
            f"a run with -p {settings[0]} cannot be published; leave out -p, or --publish"
        )
    values = gate.resolve(book, profile, settings)
    limit = cell_seconds("custom" if settings else profile)
    check_out(profile)
    quietly(cores() if machine.THREADS_VARIABLE in os.environ else None)
    done = target(book, profile)
    if not publish:
        done = done.with_suffix(".custom.ipynb")
    mark = stamp(book, profile) if publish else None
    failed = failure(book, profile)
    for old in (failed, mark, *_left_over(done)):
        if old:
            old.unlink(missing_ok=True)
    began = time.time()
    source = made_from(book, values)  # before the run, in which somebody may edit
    with publishing(profile if publish else None):
        _execute(book, values, limit, done, failed)
    if mark:
        said = {
            "notebook": book.name,
            "profile": profile,
            "set": values,
            "made_from": source,
            **published(book, profile),
            "seconds": round(time.time() - began, 1),
        }
        paths.write_atomic(mark, json.dumps(said, indent=1))
    return done


def published(book: gate.Notebook, profile: str) -> dict[str, list[str]]:
    """Return what a notebook has published: artefacts with a figure, and those with a verdict."""
    folder = paths.figures(profile)
    tables = {name: seals.rows(folder / f"{name}.csv") for name in ("index", "verdicts")}
    drawn = [row["artefact"] for row in tables["index"] if row["notebook"] == book.name]
    judged = {row["artefact"] for row in tables["verdicts"]} & set(book.artefacts)
    return {"figures": sorted(drawn), "verdicts": sorted(judged)}


def check_out(profile: str) -> None:
    """Make sure that runs of a profile can be kept.

    Raises
    ------
    gate.GateError
        If its folder under `paths.out()` cannot be written; the message gives the reason.
    """
    try:
        paths.check_writable(paths.out() / paths.check_profile(profile))
    except paths.CannotWrite as error:
        raise gate.GateError(f"{error}; make it writable, or remove what lies there") from None


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
                book.path, part, values, progress_bar=False, cwd=book.path.parent, **options
            )
        os.replace(part, done)
    except (papermill.PapermillExecutionError, NotebookFailed) as error:
        if part.exists():
            os.replace(part, failed)
        text = str(error)
        if not isinstance(error, NotebookFailed):
            text = f"{book.name}, cell [{error.exec_count}]: {error.ename}: {error.evalue}"
        raise NotebookFailed(f"{text}\n  see {failed}") from None
    except OSError as error:
        raise NotebookFailed(f"{book.name}: cannot write {done}: {error.strerror}") from None
    finally:
        part.unlink(missing_ok=True)


def checked_jobs(jobs: int) -> int:
    """Return `jobs`, or raise GateError unless it is an integer >= 1."""
    try:
        return checks.workers("jobs", jobs)
    except ValueError as error:
        raise gate.GateError(str(error)) from None


@contextlib.contextmanager
def publishing(profile: str | None) -> Iterator[None]:
    """Say to the kernels that start inside whether they may write to the published figures.

    They may where a profile is given, whose figures are kept as the committed ones first, see
    `committed`.
    """
    if profile is not None:
        committed.keep(profile)
    before = os.environ.pop(paths.PUBLISH, None)
    if profile is not None:
        os.environ[paths.PUBLISH] = "1"
    try:
        yield
    finally:
        os.environ.pop(paths.PUBLISH, None)
        if before is not None:
            os.environ[paths.PUBLISH] = before


def quietly(threads: int | None) -> None:
    """Tell the kernels to come that nobody watches (no progress bars), and how many threads each
    may use.
    """
    os.environ["SFLKIT_BATCH"] = "1"
    if threads:
        os.environ[machine.THREADS_VARIABLE] = str(threads)
        for name in _THREAD_LIMITS:  # numpy's and torch's own pools, read when they load
            os.environ.setdefault(name, str(threads))


def _left_over(done: Path) -> list[Path]:
    """Return the parts that killed runs left, but not those of runs in progress."""
    import psutil

    name = re.escape(done.name.split(".")[0])
    parts = (
        (p, re.fullmatch(rf"{name}\..*part(\d+)\.ipynb", p.name)) for p in done.parent.iterdir()
    )
    return [p for p, match in parts if match and not psutil.pid_exists(int(match[1]))]
