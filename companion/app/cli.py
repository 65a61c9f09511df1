"""The commands that a clone adds to `sflkit`. Exit codes: 0 done, 1 a notebook or a check failed,
2 refused before anything ran.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from companion.app import committed, gate, kernels, regenerate, runner
from companion.judging import seals
from sflkit import paths

if TYPE_CHECKING:
    from companion.app.agenda import Agenda

app = typer.Typer()
Profile = Annotated[
    str, typer.Option(help="quick (what the notebooks say) or one of notebooks/profiles.yaml")
]
Settings = Annotated[
    list[str] | None,
    typer.Option("-p", help="name=value, checked against the notebook; may be repeated"),
]
Jobs = Annotated[int, typer.Option(min=1, help="notebooks at a time; the cores are shared out")]
Only = Annotated[str, typer.Option(help='numbers, such as "10 12"; all when empty')]
Names = Annotated[
    list[str] | None, typer.Argument(help="numbers or names of notebooks; all when none is given")
]


@contextlib.contextmanager
def _exits() -> Iterator[None]:
    """Turn refusals into exit code 2 and failed notebooks into 1, with the message alone.

    What could not be written, on a disk that ran full for example, is a failure as well, and so is
    a damaged table, or a git that does not work.
    """
    failures = (
        gate.GateError,
        kernels.NotebookFailed,
        paths.CannotWrite,
        seals.DamagedTable,
        committed.GitFailed,
    )
    try:
        yield
    except failures as error:
        typer.echo(f"sflkit: {error}", err=True)
        raise typer.Exit(2 if isinstance(error, gate.GateError) else 1) from None


@app.command("list")
def list_notebooks() -> None:
    """List the notebooks, what they reproduce and how long the quick profile takes."""
    with _exits():
        for book in gate.notebooks():
            minutes = f"{book.minutes:g} min" if book.minutes else "-"
            typer.echo(
                f"{book.number}  {book.title}\n    {minutes:>8}  {', '.join(book.artefacts) or '-'}"
            )


@app.command()
def run(
    notebook: Annotated[str, typer.Argument(help="number, name or path")],
    profile: Profile = "quick",
    setting: Settings = None,
    publish: Annotated[
        bool, typer.Option("--publish", help="write to figures/, as `make figures` does")
    ] = False,
) -> None:
    """Run one notebook into out/<profile>/, after checking every setting."""
    began = time.time()
    with _exits():
        runner.die_with(os.environ.get(runner.WATCH))
        done = runner.run(gate.find(notebook), profile, tuple(setting or ()), publish)
        typer.echo(f"{done.name.split('.')[0]}: {time.time() - began:.0f} s -> {done}")
        if not publish:
            typer.echo(f"figures and verdicts of this run are in {paths.drawn(profile)}")


@app.command()
def figures(
    profile: Profile = "quick",
    jobs: Jobs = 2,
    only: Only = "",
    pdf: Annotated[
        bool, typer.Option("--pdf", help="draw each figure as a pdf as well, which git ignores")
    ] = False,
) -> None:
    """Bring the notebooks that a profile names up to date, several at a time, and the README's
    tables after them.
    """
    from companion.app import readme

    began = time.time()
    with _exits():
        runner.die_with(os.environ.get(runner.WATCH))
        _, left_out = gate.selection(profile, only)
        if left_out:
            typer.echo(
                f"not run, since notebooks/profiles.yaml says nothing of them for {profile!r}: "
                f"{', '.join(book.name for book in left_out)}"
            )
        # what is refused leaves no lock behind
        jobs = runner.checked_jobs(jobs)
        kernels.cell_seconds(profile)
        with regenerate.alone(profile, typer.echo):
            committed.keep(profile)
            done = regenerate.figures(profile, jobs, only, echo=typer.echo, pdf=pdf)
    fresh, already, failed, waiting, damaged = done
    folder = paths.figures(profile)
    typer.echo(
        f"{len(fresh)} run, {len(already)} up to date, {len(failed)} failed in "
        f"{time.time() - began:.0f} s; {len(list(folder.glob('*.png')))} figures and "
        f"{readme.count_verdicts(profile)} verdicts in {folder}"
    )
    if failed:
        typer.echo(f"sflkit: failed: {', '.join(failed)}", err=True)
    if waiting:
        typer.echo(f"sflkit: not run: {', '.join(waiting)}", err=True)
    if damaged:  # what README and VERDICTS.md say must not hang on it
        typer.echo("sflkit: README and VERDICTS.md stay: other notebooks' are damaged", err=True)
        raise typer.Exit(1)
    try:
        readme.refresh_readme()
    except gate.GateError as error:  # too late to be a refusal
        typer.echo(f"sflkit: {error}", err=True)
        raise typer.Exit(1) from None
    _report(profile)
    if failed or waiting:
        raise typer.Exit(1)


@app.command("compare")
def compare_figures(profile: Profile = "quick") -> None:
    """Compare figures and verdicts with the committed ones, and exit 1 where they differ by more
    than trained numbers may.
    """
    with _exits():
        gate.selection(profile)
        runner.check_out(profile)
        same = _report(profile)
    if not same:
        raise typer.Exit(1)


def _report(profile: str) -> bool:
    """Print how a profile's figures differ from the committed, and return whether they may."""
    from companion.app import compare

    with _exits():
        report = compare.compare(profile)
        typer.echo(compare.summary(report))
        compare.write_page(report)
    return report.as_committed


@app.command()
def paper(
    profile: Profile = "paper",
    jobs: Annotated[int, typer.Option(min=1, help="runs at a time; the cores are shared out")] = 2,
    only: Only = "",
) -> None:
    """Compute what the notebooks of a profile lack, the cheapest runs first, at low priority.

    It may be stopped at any moment; called again, it goes on. Two beside each other share the work.
    """
    from companion.app import queue
    from sflkit.results import origin

    with _exits():
        runner.die_with(os.environ.get(runner.WATCH))
        jobs = runner.checked_jobs(jobs)
        agenda = _agenda(profile, only)
        waiting = queue.Queue(agenda, jobs, runner.cores(), typer.echo)
    typer.echo(f"{len(agenda.records)} results in {agenda.folder}; {waiting.left()}")
    if origin.was_edited(origin.commit()):
        typer.echo(
            "sflkit/ or notebooks/ have uncommitted changes, as every result computed now will "
            "say; what is to be published should come from a commit"
        )
    try:
        report = waiting.drain()
    except KeyboardInterrupt:
        report = waiting.report._replace(stopped="interrupted")
    typer.echo(queue.summary(agenda, report))
    if report.failed or report.stopped or any(course.error for course in agenda.courses):
        raise typer.Exit(1)


@app.command()
def status(profile: Profile = "paper", only: Only = "") -> None:
    """Say which runs of a profile are done, running and missing, and how long they will take."""
    from companion.app import state

    with _exits():
        agenda = _agenda(profile, only)
        typer.echo(state.table(agenda))
        typer.echo(state.remarks(agenda, everything=not only.strip()))
    if any(course.error for course in agenda.courses):
        raise typer.Exit(1)


def _agenda(profile: str, only: str) -> Agenda:
    """Return the agenda of the notebooks that a profile names."""
    from companion.app.agenda import Agenda

    books, _ = gate.selection(profile, only)
    return Agenda(books, profile, paths.published(profile))


@app.command()
def verdicts(
    write_readme: Annotated[
        bool,
        typer.Option("--write-readme", help="Write README, picture, VERDICTS.md and guides anew."),
    ] = False,
    check: Annotated[
        bool, typer.Option("--check", help="Exit 1 unless these are up to date.")
    ] = False,
) -> None:
    """Print the verdict of every claim, or bring the README's tables up to date."""
    from companion.app import readme

    with _exits():
        gate.root()
        if check:
            current = readme.refresh_readme(check=True)
            state = "up to date" if current else "out of date: sflkit verdicts --write-readme"
            typer.echo(f"the README's tables are {state}")
            raise typer.Exit(0 if current else 1)
        if write_readme:
            readme.refresh_readme()
            typer.echo("README tables written")
        else:
            typer.echo(readme.verdicts())


@app.command()
def refresh(
    notebook: Names = None,
    jobs: Jobs = 1,
    links: Annotated[
        bool, typer.Option("--links", help="Only write the links to the neighbours anew.")
    ] = False,
) -> None:
    """Execute the committed notebooks and solutions in place with their own defaults, so that their
    outputs are current.
    """
    from companion.app.links import write
    from companion.app.refresh import refresh_all

    with _exits():
        if links:
            changed = [
                book.name for book in gate.select(" ".join(notebook or ())) if write(book.path)
            ]
            typer.echo(f"links written: {', '.join(changed) or 'all were current'}")
            return
        outcome = refresh_all(gate.select(" ".join(notebook or ())), jobs, echo=typer.echo)
    if not outcome:
        raise typer.Exit(1)
