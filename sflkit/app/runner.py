"""Run notebooks without a person: one by one through papermill, all of them through Snakemake.

Every run is written under a temporary name and renamed when complete, so that a killed run leaves
nothing that looks finished. A kernel dies with the process that started it (ipykernel polls its
parent); `die_with` does the same one level up, so that `kill -9` on any process of the chain make -
sflkit figures - Snakemake - sflkit run - kernel ends all that is below it. What surrounds a kernel,
such as the bound on the seconds of a cell, is in `kernels`; `refresh` executes notebooks in place.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import os
import platform
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from sflkit import checks, machine, paths
from sflkit.app import committed, gate
from sflkit.app.kernels import NotebookFailed, cell_seconds, watched
from sflkit.results import seals

# host:pid of whoever started us and would want us gone when it is gone; a bare pid is one of this
# host.
WATCH = "SFLKIT_WATCH"
# The package of a notebook's paper, by the first digit of its number.
PAPERS = {"1": "sfl", "2": "datastreams", "3": "osafl", "4": "fats"}
BEYOND = "beyond"  # what two papers make together, of which no paper knows
_THREAD_LIMITS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


class Progress(NamedTuple):
    """What `figures` did.

    Attributes
    ----------
    fresh, already, failed : list of str
        Names of notebooks that ran, were up to date, and failed.
    waiting : list of str
        Names of those that did not run, as page 90 does not after a failure.
    damaged : list of seals.Damage
        What is damaged and comes from none of the notebooks; it is left as it is.
    """

    fresh: list[str]
    already: list[str]
    failed: list[str]
    waiting: list[str]
    damaged: list[seals.Damage]


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
    files = [_relative(file) for file in (root / "sflkit").rglob("*.py")]
    files = [file for file in files if file.parts[1] not in others]
    printed = (root / "data" / "paper_values").glob("*.csv")
    files += [_relative(file) for file in printed if file.stem not in others]
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


@contextlib.contextmanager
def alone(profile: str, echo: Callable[[str], Any] = print) -> Iterator[None]:
    """Let no other `sflkit figures` of this clone work inside `with`; wait for one that does.

    Two Snakemakes at once take each other's half-done outputs for left-overs and delete them. The
    operating system drops the lock when this process dies.

    Raises
    ------
    gate.GateError
        If the folder of runs cannot be written.
    """
    import filelock

    check_out(profile)
    where = paths.out()
    now = paths.lock("figures", wait=False, folder=where / ".locks")
    try:
        now.acquire()
    except filelock.Timeout:
        echo("another `sflkit figures` is at work in this clone; waiting for its end")
        now.acquire(timeout=-1)
    try:
        yield
    finally:
        now.release()


def figures(
    profile: str = "quick", jobs: int = 2, only: str = "", echo: Callable[[str], Any] = print
) -> Progress:
    """Bring the notebooks that a profile names up to date, `jobs` at a time.

    The cores are shared out: each notebook gets cores / jobs threads. A failed notebook does not
    stop the others. A notebook whose figures or verdicts are damaged is not up to date; `echo` is
    given a line per damaged file. What is damaged of other notebooks stays as it is.

    Raises
    ------
    gate.GateError
        Before anything starts, when a setting is not allowed or the profile names none of the
        notebooks.
    NotebookFailed
        Before anything starts, when a table has damaged lines of which nobody knows whether these
        notebooks write them; or when Snakemake itself ended with an error while no notebook failed.
    """
    jobs = checked_jobs(jobs)
    books, _ = gate.selection(profile, only)
    cell_seconds(profile)
    check_out(profile)
    for book in books:  # all settings are checked before anything starts
        gate.resolve(book, profile)
    before = {book.name: _replaced(stamp(book, profile)) for book in books}
    old = {book.name: _replaced(failure(book, profile)) for book in books}
    again, damaged = _mended(books, profile, echo)
    command = _snakemake(books, profile, jobs, again)
    environment = {**os.environ, WATCH: this_process()}
    code = subprocess.run([*command, "--quiet", "all"], env=environment, check=False).returncode
    missing = [b for b in books if not stamp(b, profile).is_file()]
    failed = [b.name for b in missing if _replaced(failure(b, profile)) not in (None, old[b.name])]
    waiting = [b.name for b in missing if b.name not in failed]
    if code and not failed:  # the stamps are old ones, or there are none
        left = f"; not run: {', '.join(waiting)}" if waiting else ", though no notebook failed"
        raise NotebookFailed(
            f"Snakemake ended with exit code {code}{left}:\n" + _what_is_wrong(command, environment)
        )
    fresh = [
        b.name for b in books if b not in missing and _replaced(stamp(b, profile)) != before[b.name]
    ]
    already = [b.name for b in books if b not in missing and b.name not in fresh]
    return Progress(fresh, already, failed, waiting, damaged)


def _mended(
    books: list[gate.Notebook], profile: str, echo: Callable[[str], Any]
) -> tuple[list[gate.Notebook], list[seals.Damage]]:
    """Say what is damaged of what is published; return the notebooks that must make it anew, and
    the damage that none of them mends.

    Rows of theirs that cannot be trusted are taken out of the tables, see `seals`. Rows of other
    notebooks stay, for nobody would write them again.
    """
    folder = paths.figures(profile)
    names = {book.name for book in books}
    again = {}
    ours, left = [], []
    for damage in seals.damages(folder):
        makers = [
            book
            for book in gate.notebooks()
            if book.name == damage.notebook or damage.artefact in book.artefacts
        ]
        selected = [book for book in makers if book.name in names]
        again |= {book.name: book for book in selected}
        stray = not makers and damage.wrong == seals.NO_ROW
        mends = bool(selected) or stray or (not makers and _are_all(names, profile))
        if selected:
            said = f"made anew by {selected[0].name}"
        elif stray:
            said = "of no notebook; delete it"
        elif not mends:
            said = _way_out(damage, makers, profile)
        elif damage.artefact:
            said = "of none of these notebooks"
        else:
            said = "lost rows are made anew by their notebooks"
        (ours if mends else left).append(damage)
        echo(f"damaged: {damage}; {said}")
    if any(not damage.artefact for damage in left):
        raise NotebookFailed("nothing was run, since lines of a table are damaged; see above")
    seals.mend(folder, ours)
    return [book for book in books if book.name in again or is_lost(book, profile)], left


def _are_all(names: set[str], profile: str) -> bool:
    """Whether no other notebook of a profile draws or judges anything."""
    return all(b.name in names for b in gate.selection(profile)[0] if b.artefacts)


def _way_out(damage: seals.Damage, makers: list[gate.Notebook], profile: str) -> str:
    """Return how to mend what comes from none of the notebooks that are to run."""
    folder = damage.file.parent
    files = [damage.file]
    if damage.file.name in ("verdicts.csv", "parts.csv"):  # a digest is of rows of both
        files = [folder / "verdicts.csv", folder / "parts.csv"]
    elif not makers or damage.wrong == seals.NO_ROW:
        files = [folder / "index.csv"]
    named = "" if profile == "quick" else f" PROFILE={profile}"
    only = f" ONLY={makers[0].number}" if makers else ""
    return (
        f"left as it is; `git checkout -- {' '.join(map(str, files))}` or "
        f"`make figures{named}{only}` mends it"
    )


def _snakemake(
    books: list[gate.Notebook], profile: str, jobs: int, again: list[gate.Notebook]
) -> list[str]:
    """Return the command that brings notebooks up to date, less what it is to say.

    Those in `again` run although nothing that they depend on has changed.
    """
    each = max(1, cores() // jobs)
    lost = [str(_relative(target(book, profile))) for book in again]
    return [
        *(sys.executable, "-m", "snakemake"),
        *("--snakefile", str(gate.root() / "Snakefile")),
        *("--directory", str(gate.root())),
        *("--cores", str(jobs * each)),
        "--nolock",
        "--rerun-incomplete",
        "--keep-going",
        *(["--forcerun", *lost] if lost else []),
        *("--config", f"profile={profile}", f"threads={each}"),
        f"only={' '.join(b.number for b in books)}",
    ]


def _what_is_wrong(command: list[str], environment: dict[str, str]) -> str:
    """Return the last lines that Snakemake says of its own trouble, which it keeps to itself when
    told to be quiet.
    """
    again = subprocess.run(
        [*command, "--dry-run", "--quiet", "progress"],
        env=environment,
        check=False,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    if not again.returncode:
        return _cut_records() or "a dry run finds no cause; see above"
    return "\n".join(again.stdout.splitlines()[-12:])


def _cut_records() -> str:
    """Say which of Snakemake's records of jobs a full disk has cut, and remove these."""
    cut = []
    for file in (gate.root() / ".snakemake" / "metadata").rglob("*"):
        try:
            file.is_dir() or json.loads(file.read_bytes())
        except ValueError:
            cut.append(str(file))
            file.unlink(missing_ok=True)
    if not cut:
        return ""
    return (
        f"it could not write {', '.join(cut)}: is the disk full, or a file too large for a limit? "
        "Make room and call again"
    )


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


def is_lost(book: gate.Notebook, profile: str) -> bool:
    """Whether a finished run published figures or verdicts that are gone, or was made from other
    sources than those of now.

    A stamp that cannot be read, or that a release before 0.2 wrote, says nothing, and so the run is
    lost.
    """
    mark = stamp(book, profile)
    if not mark.is_file():
        return False
    now = published(book, profile)
    try:
        said = json.loads(mark.read_text(encoding="utf-8"))
        gone = any(not set(said[name]) <= set(there) for name, there in now.items())
        return gone or said["made_from"] != made_from(book, gate.resolve(book, profile))
    except (ValueError, KeyError, TypeError):
        return True


def _replaced(file: Path) -> tuple[int, int] | None:
    """Return what changes when a file is replaced, whatever the clock says; None without a file."""
    try:
        found = file.stat()
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns


def _left_over(done: Path) -> list[Path]:
    """Return the parts that killed runs left, but not those of runs in progress."""
    import psutil

    parts = done.parent.glob(f"{done.name.split('.')[0]}.*part*.ipynb")
    return [p for p in parts if not psutil.pid_exists(int(p.name.split(".part")[1].split(".")[0]))]


def _relative(path: Path) -> Path:
    return path.relative_to(gate.root())
