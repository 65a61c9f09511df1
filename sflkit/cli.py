"""The `sflkit` command: data sets, what is installed, and the commands that other packages add.

A package adds its commands by an entry point of the group "sflkit.commands" that names a Typer
application. In a clone the companion does so: it runs notebooks and draws figures.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import Annotated

import typer

import sflkit
from sflkit import installed, machine, paths

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    help="Executable companion to four papers on federated learning with streams, small caches "
    "and forgetting.",
)


runs = typer.Typer(help="Runs that are computed on another machine, and come back in a bundle.")
app.add_typer(runs, name="runs")


@app.callback(invoke_without_command=True)
def _main(
    version: Annotated[bool, typer.Option("--version", help="Print the version and stop.")] = False,
) -> None:
    if version:
        typer.echo(f"sflkit {sflkit.__version__}")
        raise typer.Exit()


@app.command()
def data(
    name: Annotated[
        list[str] | None, typer.Argument(help="data sets to fetch; none lists what is at hand")
    ] = None,
) -> None:
    """Fetch data sets, or list those at hand."""
    from sflkit import data
    from sflkit.data import catalogue, datasets

    if not name:
        for found, where in data.available().items():
            typer.echo(f"{found:<12} {where}")
    unknown = sorted(set(name or ()) - set(data.names()))
    if unknown:
        known = ", ".join(data.names())
        typer.echo(
            f"sflkit: no data set {', '.join(map(repr, unknown))}; there are: {known}", err=True
        )
        raise typer.Exit(2)
    missing = False
    for wanted in name or ():
        try:
            if wanted in catalogue.CLIENT_SETS:
                typer.echo(f"{wanted}: {datasets.obtain(wanted)}")
                continue
            found = data.load(wanted)
            typer.echo(
                f"{wanted}: {len(found.y_train)} + {len(found.y_test)} samples, {found.source}"
            )
        except (OSError, ValueError) as error:  # the next one may be reachable
            typer.echo(f"sflkit: {error}", err=True)
            missing = True
    if missing:
        raise typer.Exit(1)


@app.command()
def doctor() -> None:
    """Say what is installed and what is missing, which device and how many threads are used, and
    which data sets are at hand.
    """
    root = paths.clone_root()
    typer.echo(f"sflkit     {sflkit.__version__} at {sflkit.__path__[0]}")
    typer.echo(f"python     {sys.version.split()[0]} at {sys.executable}")
    for package in ("numpy", "torch", "pandas", "joblib", "papermill"):
        if version := installed.version(package):
            typer.echo(f"{package:<10} {version}")
    missing = installed.missing()
    for extra, requirements in missing.items():
        typer.echo(installed.told(extra, requirements))
    typer.echo(f"notebooks  {root / 'notebooks' if root else 'none here: clone the repository'}")
    try:
        bound = os.environ.get(machine.THREADS_VARIABLE) or "not set"
        typer.echo(f"threads    {machine.cores()} ({machine.THREADS_VARIABLE} {bound})")
    except ValueError as error:
        typer.echo(f"sflkit: {error}", err=True)
        raise typer.Exit(2) from None
    typer.echo(f"results    {paths.results_store()}\nfigures    {paths.figures()}")
    if missing.get(""):
        raise typer.Exit(1)
    import torch

    from sflkit import data

    on_gpu = machine.device().type == "cuda"
    typer.echo(f"device     {torch.cuda.get_device_name() if on_gpu else 'cpu'}")
    for name, where in data.available().items():
        typer.echo(f"data       {name}: {where}")


@runs.command("compute")
def compute_list(
    file: Annotated[Path, typer.Argument(help="the list that `sflkit runs missing` wrote")],
    minutes: Annotated[float, typer.Option(help="after which the bundle is there")],
    out: Annotated[Path, typer.Option(help="the bundle, a .tar.xz")],
    jobs: Annotated[int, typer.Option(min=1, max=1000, help="runs at a time")] = 1,
) -> None:
    """Compute what of a list fits into some minutes, the dearest first. Called again it goes on."""
    from sflkit.runs import lane

    with _refusals():
        lane.compute(
            lane.orders(paths.read(file)), out, minutes=minutes, jobs=jobs, echo=typer.echo
        )


@runs.command("take")
def take_bundle(
    bundle: Annotated[Path, typer.Argument(help="what `sflkit runs compute` wrote")],
    audited: Annotated[int, typer.Option(min=0, help="runs of each experiment to recompute")] = 2,
) -> None:
    """Check a bundle, recompute the first rounds of some runs, and file what is right."""
    from sflkit.runs import lane

    with _refusals():
        typer.echo(f"{len(lane.take(bundle, audited=audited))} runs are in {paths.results_store()}")


@contextlib.contextmanager
def _refusals() -> Iterator[None]:
    try:
        yield
    except (OSError, ValueError) as error:
        typer.echo(f"sflkit: {error}", err=True)
        raise typer.Exit(1) from None


def main() -> None:
    """Run the command with what other installed packages add to it."""
    for entry in metadata.entry_points(group="sflkit.commands"):
        added = entry.load()
        app.registered_commands += added.registered_commands
        for group in added.registered_groups:
            if group.name == "runs":
                runs.registered_commands += group.typer_instance.registered_commands
    app()


if __name__ == "__main__":
    main()
