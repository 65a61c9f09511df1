"""How far a profile's runs are: what `sflkit status` prints."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from companion.app.agenda import Agenda, Course, Wanted
from companion.app.prices import Prices, in_words, span
from companion.app.queue import last_line
from sflkit import paths
from sflkit.results import shelf

_HEAD = ("notebook", "done", "running", "missing", "later stages", "spent", "left")
_NAMED = 5  # results of one folder that are named


def table(agenda: Agenda) -> str:
    """Return a line per notebook and their total, in which a run that several share counts once.

    `spent` is the sum of the seconds in the records, `left` what the others will take one at a time
    (those that run now in full), by the seconds of runs like them; see `companion.app.prices`.
    """
    prices = Prices([agenda.folder, paths.results_store()])
    running = {key for key in agenda.missing() if shelf.is_running(key, agenda.folder)}
    rows = [_HEAD]
    for course in agenda.courses:
        counts = _counts(agenda, prices, running, course.wanted().values())
        rows.append((course.book.name, *counts[:3], _later(agenda, course), *counts[3:]))
    everything = {key: run for course in agenda.courses for key, run in course.wanted().items()}
    counts = _counts(agenda, prices, running, everything.values())
    rows.append(("total", *counts[:3], "", *counts[3:]))
    return _aligned(rows)


def remarks(agenda: Agenda, everything: bool = True) -> str:
    """Return what there is to say besides: notebooks without a plan, errors of plans, damaged
    results and, where the agenda holds `everything` that a profile names, results that no plan asks
    for. Nothing is deleted.
    """
    lines = []
    if agenda.without:
        numbers = ", ".join(book.number for book in agenda.without)
        lines.append(f"without a plan, so their runs are not listed here: {numbers}")
    lines += [
        f"failed: the plan {course.book.plan} of {course.book.name}: {last_line(course.error)}"
        for course in agenda.courses
        if course.error
    ]
    for key, wrong in agenda.damaged.items():
        lines.append(f"damaged, taken for missing: {agenda.folder / key}: {wrong}")
    if everything:
        lines += _orphans(agenda)
    return "\n".join(lines)


def _counts(
    agenda: Agenda, prices: Prices, running: set[str], runs: Iterable[Wanted]
) -> tuple[str, ...]:
    """Return numbers done, running and missing, seconds spent and seconds left, as text."""
    runs = list(runs)
    done = [run.key for run in runs if run.key in agenda.records]
    left = [run for run in runs if run.key not in agenda.records]
    busy = sum(run.key in running for run in left)
    spent = sum(float(agenda.records[key].get("seconds", 0.0)) for key in done)
    time = in_words([prices.of(run.head) for run in left]) if left else "-"
    return str(len(done)), str(busy), str(len(left) - busy), span(spent), time


def _later(agenda: Agenda, course: Course) -> str:
    """Return whether stages may follow that are not known yet, since missing runs decide them."""
    if course.ended:
        return "none"
    if course.error:
        return "error"
    name = course.stages[-1][0].name or f"stage {len(course.stages)}"
    return f"unknown after {name}"


def _orphans(agenda: Agenda) -> list[str]:
    """Return lines on results that no plan asks for, by folder, and on folders not judged yet."""
    wanted = {key for course in agenda.courses for key in course.wanted()}
    folders: dict[str, list[str]] = {}
    for key in agenda.records:
        if key not in wanted:
            experiment, _, name = key.partition("/")
            folders.setdefault(experiment, []).append(name)
    lines = []
    waiting: dict[str, list[str]] = {}  # why not judged yet -> folders
    for experiment, names in folders.items():
        why = _may_ask(agenda, experiment)
        if why:
            waiting.setdefault(why, []).append(f"{experiment} ({len(names)})")
            continue
        more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
        lines.append(
            f"wanted by no plan: {len(names)} results in {agenda.folder / experiment}: "
            f"{', '.join(names[:_NAMED])}{more}"
        )
    for why, experiments in waiting.items():
        lines.append(
            "results that no plan has asked for yet, though one still may: "
            f"{', '.join(experiments)}; {why}"
        )
    return lines


def _may_ask(agenda: Agenda, experiment: str) -> str:
    """Return which notebooks may ask for runs of an experiment beyond those known, and why.

    A plan with stages to come may ask for what it asked for already, and for any experiment of the
    package that it lies in, which gives its name to its experiments. A notebook without a plan that
    reads published results asks for runs that are listed nowhere.
    """
    modules = {
        _package(run.stage.run.__module__)
        for course in agenda.courses
        for run in course.wanted().values()
        if run.head["experiment"] == experiment
    }
    to_come = []
    for course in agenda.courses:
        asked = {run.head["experiment"] for run in course.wanted().values()}
        package = _package(str(course.book.plan).partition(":")[0])
        own = experiment in asked or package in modules or experiment.startswith(f"{package}-")
        if own and not course.ended:
            to_come.append(course.book.number)
    silent = [book.number for book in agenda.without if "source" in book.parameters]
    reasons = []
    if to_come:
        reasons.append(f"stages to come: {', '.join(to_come)}")
    if silent:
        reasons.append(f"no plan: {', '.join(silent)}")
    return "; ".join(reasons)


def _package(module: str) -> str:
    """Return the package that a module of this library lies in, such as osafl, else its own."""
    parts = module.split(".")
    return parts[1] if parts[0] == "sflkit" and len(parts) > 1 else parts[0]


def _aligned(rows: Sequence[Sequence[str]]) -> str:
    """Return rows of cells as lines of columns, numbers to the right."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    left = (0, 4)  # columns of words
    return "\n".join(
        "  ".join(
            cell.ljust(width) if i in left else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    )
