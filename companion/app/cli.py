"""The commands that a clone adds to `sflkit`. Exit codes: 0 done, 1 a notebook or a check failed,
2 refused before anything ran.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator
from typing import Annotated

import typer

from companion.app import gate, kernels, refresh, runner
from companion.judging import recorded
from sflkit import paths

app = typer.Typer()
runs = typer.Typer()
app.add_typer(runs, name="runs")
Profile = Annotated[
    str, typer.Option(help="small, or another of notebooks/profiles.yaml; empty: published sizes")
]
Settings = Annotated[
    list[str] | None,
    typer.Option("-p", help="name=value, checked against the notebook; may be repeated"),
]
Jobs = Annotated[int, typer.Option(min=1, max=1000, help="at a time; the cores are shared out")]
Only = Annotated[str, typer.Option(help='numbers, such as "10 12"; all when empty')]
Force = Annotated[bool, typer.Option("--force", help="Also notebooks of which nothing changed.")]
Names = Annotated[
    list[str] | None, typer.Argument(help="numbers or names of notebooks; all when none is given")
]


@contextlib.contextmanager
def _exits() -> Iterator[None]:
    """Turn refusals into exit code 2 and failed notebooks into 1, with the message alone.

    What could not be written, on a disk that ran full for example, is a failure as well, and so is
    a damaged table.
    """
    try:
        yield
    except gate.GateError as error:
        typer.echo(f"sflkit: {error}", err=True)
        raise typer.Exit(2) from None
    except (kernels.NotebookFailed, paths.CannotWrite, recorded.DamagedTable) as error:
        typer.echo(f"sflkit: {error}", err=True)
        raise typer.Exit(1) from None


@app.command("list")
def list_notebooks() -> None:
    """List the notebooks, what they reproduce and how long they take from published runs."""
    with _exits():
        for book in gate.notebooks():
            minutes = f"{book.minutes:g} min" if book.minutes else "-"
            drawn = ", ".join(book.artefacts) or "-"
            typer.echo(f"{book.number}  {book.title}\n    {minutes:>8}  {drawn}")


@app.command()
def run(
    notebook: Annotated[str, typer.Argument(help="number or name of a committed notebook")],
    profile: Profile = "",
    setting: Settings = None,
) -> None:
    """Run one notebook into a folder of its own under out/, with sizes of your own, after checking
    every setting.
    """
    began = time.time()
    with _exits():
        done = runner.run(gate.find(notebook), profile, tuple(setting or ()), typer.echo)
    typer.echo(f"{done.name.split('.')[0]}: {time.time() - began:.0f} s -> {done}")
    drawn = paths.out() / "figures" if profile else done.parent / "figures"
    typer.echo(f"its figures are in {os.environ.get('SFLKIT_FIGURES') or drawn}")


@app.command()
def compare(
    first: Annotated[str, typer.Argument(help="a run such as 10-1, or published")],
    second: Annotated[str, typer.Argument(help="another run of the same notebook")],
) -> None:
    """Lay two runs of a notebook side by side: settings that differ, figures, means."""
    from companion.app import compare

    with _exits():
        typer.echo(f"side by side in {compare.write(first, second)}")


@app.command()
def figures(
    jobs: Jobs = 2,
    only: Only = "",
    pdf: Annotated[
        bool, typer.Option("--pdf", help="Write each figure as a pdf into out/figures as well.")
    ] = False,
    force: Force = False,
) -> None:
    """Execute the notebooks in place from published runs, several at a time, and write the pages
    that tell of them. A notebook of which nothing changed is left as it is.
    """
    from companion.app import check, readme

    began = time.time()
    with _exits():
        if pdf:
            os.environ["SFLKIT_PDF"] = "1"
        books, folder = gate.select(only), paths.figures()
        for damage in [] if only else recorded.drop_damaged(folder):
            typer.echo(f"{damage}; filled anew")
        force = force or pdf
        done = refresh.refresh_all(books, jobs, echo=typer.echo, solutions=False, force=force)
        readme.refresh_readme()
        typer.echo(check.in_short(check.damages()))
    typer.echo(f"{len(books)} notebooks in {time.time() - began:.0f} s; figures in {folder}")
    if not done:
        raise typer.Exit(1)


@app.command("paper")
def compute_published(jobs: Jobs = 2, only: Only = "") -> None:
    """Compute published runs that the notebooks lack, the cheapest stage first, at low priority.

    It may be stopped at any moment; called again, it goes on. Two beside each other share the work.
    """
    from companion.app import paper
    from sflkit.runs import origin

    with _exits():
        books = gate.select(only)
        runner.cores()  # refuses a wrong number of threads
        if hasattr(os, "nice"):
            os.nice(10)
        if origin.was_edited(origin.commit()):
            typer.echo(
                "sflkit/, companion/ or notebooks/ have uncommitted changes: what is computed now "
                "says so, and is not published"
            )
        try:
            complete = paper.compute(books, jobs, typer.echo)
        except KeyboardInterrupt:
            typer.echo("stopped; what is stored is whole, call again to go on")
            complete = False
    if not complete:
        raise typer.Exit(1)


@runs.command("missing")
def missing_runs(
    more: Names = None,
    only: Only = "",
    gpu: Annotated[bool, typer.Option("--gpu", help="only those marked for a GPU")] = False,
) -> None:
    """List the published runs that the notebooks lack, with keys and prices, for `runs compute`."""
    from companion.app import paper

    with _exits():
        typer.echo(paper.missing(gate.select(" ".join([only, *(more or [])])), gpu), nl=False)


@app.command("status")
def published_status(only: Only = "") -> None:
    """Say which published runs are done and missing, and how long these may take.

    Exit code 1 where what is published is damaged, see `sflkit check`.
    """
    from companion.app import check, paper

    with _exits():
        text, works = paper.status(gate.select(only))
        typer.echo(text)
        damaged = check.damages()
        typer.echo(check.in_short(damaged))
    if damaged or not works:
        raise typer.Exit(1)


@app.command("check")
def check_published() -> None:
    """Check that what is published is whole: runs, figures, verdicts, the papers' numbers, pages.

    Exit code 1 on any damage, with file, what is wrong and the way out.
    """
    from companion.app import check

    began = time.time()
    with _exits():
        found = check.damages()
        for damage in found:
            typer.echo(damage)
    typer.echo(f"{check.in_short(found)} ({time.time() - began:.1f} s)")
    if found:
        raise typer.Exit(1)


@app.command("audit")
def audit_runs(
    notebook: Names = None,
    runs: Annotated[int, typer.Option(min=0, help="published runs, picked at random")] = 20,
    rounds: Annotated[int, typer.Option(min=1, help="first rounds of each")] = 10,
    seed: Annotated[int, typer.Option(min=0, help="another one picks other runs")] = 0,
) -> None:
    """Recompute the first rounds of published runs and compare them with what is published."""
    from companion import audit

    audit.as_published()
    with _exits():
        books = gate.select(" ".join(notebook or ()))
        asked = {run.key: run for book in books for run in audit.published_runs(book)}
        asked = list(asked.values())
        findings = []
        for run in audit.pick(asked, runs, seed):
            findings.append(audit.check(run, rounds))
            typer.echo(audit.said(findings[-1]))
    typer.echo(audit.line(findings, asked))
    if any(finding.state == "differs" for finding in findings):
        raise typer.Exit(1)


@app.command()
def verdicts(
    write_readme: Annotated[
        bool,
        typer.Option("--write-readme", help="Write README, picture, VERDICTS.md and guides anew."),
    ] = False,
) -> None:
    """Print the verdict of every claim, or bring the README's tables up to date."""
    from companion.app import readme

    with _exits():
        gate.root()
        if write_readme:
            readme.refresh_readme()
            typer.echo("README tables written")
        else:
            typer.echo(readme.verdicts())


@app.command("refresh")
def refresh_notebooks(
    notebook: Names = None,
    jobs: Jobs = 1,
    links: Annotated[
        bool, typer.Option("--links", help="Only write links and exercises anew.")
    ] = False,
    force: Force = False,
) -> None:
    """Execute the committed notebooks and solutions in place with their own defaults, so that their
    outputs are current. A notebook of which nothing changed is left as it is.
    """
    from companion.app.links import write

    with _exits():
        books = gate.select(" ".join(notebook or ()))
        if links:
            changed = [book.name for book in books if write(book.path)]
            typer.echo(f"written: {', '.join(changed) or 'all were current'}")
            return
        outcome = refresh.refresh_all(books, jobs, echo=typer.echo, force=force)
    if not outcome:
        raise typer.Exit(1)
