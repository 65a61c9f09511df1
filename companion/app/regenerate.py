"""Bring the figures of a profile up to date: all its notebooks through Snakemake.

Snakemake decides by the files that a notebook depends on; what it cannot know is added here:
figures that are damaged or gone, settings that changed, and who else is at work in this clone.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from companion.app import gate
from companion.app.kernels import NotebookFailed, cell_seconds
from companion.app.runner import (
    WATCH,
    check_out,
    checked_jobs,
    cores,
    failure,
    made_from,
    published,
    stamp,
    target,
    this_process,
)
from companion.figures import PDF
from companion.judging import seals
from sflkit import paths


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
    profile: str = "quick",
    jobs: int = 2,
    only: str = "",
    echo: Callable[[str], Any] = print,
    pdf: bool = False,
) -> Progress:
    """Bring the notebooks that a profile names up to date, `jobs` at a time.

    The cores are shared out: each notebook gets cores / jobs threads. A failed notebook does not
    stop the others. A notebook whose figures or verdicts are damaged is not up to date; `echo` is
    given a line per damaged file. What is damaged of other notebooks stays as it is. With `pdf`,
    figures are drawn as pdf files as well, and a notebook that lacks one of these is run again.

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
    environment = {**os.environ, WATCH: this_process()}
    if pdf:
        environment[PDF] = "1"
        again = [book for book in books if book in again or _lacks_pdf(book, profile)]
    command = _snakemake(books, profile, jobs, again)
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


def _lacks_pdf(book: gate.Notebook, profile: str) -> bool:
    """Return whether a figure of a notebook has not been drawn as a pdf."""
    folder = paths.figures(profile)
    pngs = [folder / f"{artefact}.png" for artefact in book.artefacts]
    return any(png.is_file() and not png.with_suffix(".pdf").is_file() for png in pngs)


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


def _snakemake(
    books: list[gate.Notebook], profile: str, jobs: int, again: list[gate.Notebook]
) -> list[str]:
    """Return the command that brings notebooks up to date, less what it is to say.

    Those in `again` run although nothing that they depend on has changed.
    """
    each = max(1, cores() // jobs)
    lost = [str(target(book, profile).relative_to(gate.root())) for book in again]
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
        return (
            "a dry run finds no cause; see above. Is the disk full, or a file too large for a "
            "limit? Snakemake does not say so of its own records, in .snakemake"
        )
    return "\n".join(again.stdout.splitlines()[-12:])
