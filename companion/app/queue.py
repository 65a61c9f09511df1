"""The queue of a profile: whatever the notebooks' plans lack, computed cheapest first.

Results go to the folder of the profile (`paths.published`), at first as files of their own, so that
a kill at any moment costs the runs in flight, and at the end into the tracked archives. Each run
holds a lock that dies with its process: a second queue beside shares the work, and a sweep over the
same runs with that folder as its store does as well. A plan goes on to its next stage as soon as
the runs that it waits for are there, whoever computed them. What a sweep has left in
`paths.results_store()` is copied, not computed again.
"""

from __future__ import annotations

import multiprocessing.connection
import time
from collections.abc import Callable
from typing import Any, NamedTuple

from companion.app.agenda import Agenda, Wanted
from companion.app.prices import Prices, in_words, span
from companion.app.workers import Worker, WorkerDied
from sflkit import machine, paths
from sflkit.results import attempts, shelf

LOOK_AGAIN = 1.0  # seconds until a run that another process computes is looked for again


class Report(NamedTuple):
    """What became of a queue: keys of the runs computed here and of those that came from elsewhere,
    what went wrong with each failed run, and why it stopped early ("" if it did not).
    """

    computed: list[str]
    found: list[str]
    failed: dict[str, tuple[Wanted, str]]
    stopped: str


class Queue:
    """Runs of an agenda in `jobs` processes that share `threads` threads."""

    def __init__(self, agenda: Agenda, jobs: int, threads: int, echo: Callable[[str], Any] = print):
        self.agenda = agenda
        self.report = Report([], [], {}, "")
        self.prices = Prices([agenda.folder, paths.results_store()])
        self._jobs = jobs
        self._threads = max(1, threads // jobs)
        self._echo = echo
        self._idle: list[Worker] = []
        self._busy: dict[Worker, list[Wanted]] = {}
        self._away: dict[str, float] = {}  # run of another process -> when to look again
        self._looked_up: set[str] = set()  # runs that were looked for in paths.results_store()
        self._gpu: bool | None = None

    def drain(self) -> Report:
        """Compute until nothing is missing that could be computed, and say what became of it.

        However this ends, no worker outlives it.
        """
        shelf.clear_left_over(self.agenda.folder)
        try:
            self._take_over()
            while self._start() or self._busy or self._waits():
                self._listen()
        finally:
            for worker in (*self._idle, *self._busy):
                worker.end()
            shelf.clear_left_over(self.agenda.folder)
        if not self.report.stopped:
            self._pack()
        return self.report

    def _pack(self) -> None:
        """Publish what was computed from a commit; the rest stays in files of its own."""
        try:
            shelf.pack(self.agenda.folder)
        except (paths.CannotWrite, ValueError) as error:
            self._stop(str(error))

    def order(self) -> list[Wanted]:
        """Return the missing runs in the order in which they are computed.

        On a GPU those of the stages marked for it come first; then the cheapest; a run of unknown
        price comes last.
        """
        missing = self.agenda.missing()
        prices = {key: self.prices.of(run.head) for key, run in missing.items()}
        return sorted(
            (run for key, run in missing.items() if key not in self.report.failed),
            key=lambda run: (
                not (run.stage.gpu and self._has_gpu()),
                prices[run.key] is None,
                prices[run.key] or 0.0,
            ),
        )

    def _start(self) -> bool:
        """Give batches to workers while there are both; return whether any began."""
        began = False
        while len(self._busy) < self._jobs and not self.report.stopped:
            batch = self._next()
            if not batch:
                break
            worker = self._idle.pop() if self._idle else Worker(self.agenda.folder, self._threads)
            self._busy[worker] = batch
            began = True
            module = str(batch[0].book.plan).partition(":")[0]
            try:
                worker.begin(module, batch[0].stage.run, [run.config for run in batch])
            except Exception as error:
                self._free(worker)
                for run in batch:
                    self._fail(run, f"it cannot be sent to another process: {error!r}")
        return began

    def _next(self) -> list[Wanted]:
        """Return the run to compute next, or nothing where none is free."""
        in_flight = {run.key for batch in self._busy.values() for run in batch}
        now = time.monotonic()
        free = [
            run
            for run in self.order()
            if run.key not in in_flight and self._away.get(run.key, 0.0) <= now
        ]
        return free[:1]

    def _waits(self) -> bool:
        """Return whether runs of other processes are all that is left to wait for."""
        return not self.report.stopped and bool(self.order())

    def _listen(self) -> None:
        """Take the answers that are there; wait for one, or for runs of others."""
        pause = LOOK_AGAIN if self._away else None
        if not self._busy:
            time.sleep(LOOK_AGAIN)
            return
        pipes = {worker.pipe: worker for worker in self._busy}
        for pipe in multiprocessing.connection.wait(list(pipes), pause):
            worker = pipes[pipe]
            batch = self._busy[worker]
            try:
                answer = worker.answer()
            except WorkerDied as error:
                del self._busy[worker]
                worker.end()
                answer = str(error)
            else:
                self._free(worker)
            if isinstance(answer, str):
                answer = [attempts.Attempt(run.key, "failed", answer) for run in batch]
            runs = {run.key: run for run in batch}
            for attempt in answer:
                self._note(runs[attempt.key], attempt)

    def _free(self, worker: Worker) -> None:
        del self._busy[worker]
        self._idle.append(worker)

    def _note(self, run: Wanted, attempt: attempts.Attempt) -> None:
        """Take note of how the attempt at a run ended."""
        if attempt.state == "busy":
            if not self._away:
                self._echo(f"{_now()}  other processes compute as well; their runs are waited for")
            self._away[run.key] = time.monotonic() + LOOK_AGAIN
            return
        self._away.pop(run.key, None)
        if attempt.state == "failed":
            self._fail(run, attempt.why)
        elif attempt.state == "unwritable":
            self._stop(attempt.why)
        else:
            self._done(run, attempt.state == "computed")

    def _done(self, run: Wanted, here: bool) -> None:
        """Take note of a result that has come from a worker or another process, and go on."""
        if not self._take_note(run, here):
            self._fail(run, "its result is gone, or was altered, right after it was written")
            return
        self.agenda.go_on()
        self._take_over()
        if here:
            seconds = span(self.agenda.records[run.key]["seconds"])
            self._echo(f"{_now()}  {seconds:>6}  {run.text}; {self.left()}")

    def _take_note(self, run: Wanted, here: bool) -> bool:
        """Take note of a result; return whether it is there."""
        record = self.agenda.look_for(run.key)
        if record is None:
            return False
        (self.report.computed if here else self.report.found).append(run.key)
        self.prices.learn(record)
        return True

    def left(self) -> str:
        """Return how many runs are missing and how long they will take, in words."""
        prices = [self.prices.of(run.head) for run in self.agenda.missing().values()]
        return f"{len(prices)} left, {in_words(prices, self._jobs)}"

    def _fail(self, run: Wanted, why: str) -> None:
        self.report.failed[run.key] = (run, why)
        self._echo(f"{_now()}  FAILED {run.text}: {last_line(why)}")

    def _stop(self, why: str) -> None:
        if not self.report.stopped:
            self.report = self.report._replace(stopped=why)
            self._echo(f"{_now()}  {why}; no further run is started")

    def _take_over(self) -> None:
        """Copy what a sweep has left in `paths.results_store()`, also of the stages that follow."""
        source = paths.results_store()
        while not self.report.stopped:
            new = [r for r in self.agenda.missing().values() if r.key not in self._looked_up]
            self._looked_up.update(run.key for run in new)
            came = 0
            for run in new:
                try:
                    copied = shelf.take_over(run.key, source, self.agenda.folder)
                except paths.CannotWrite as error:
                    self._stop(str(error))
                    return
                if copied:
                    self._take_note(run, here=False)
                    came += 1
            if not came:
                return
            self.agenda.go_on()

    def _has_gpu(self) -> bool:
        """Return whether torch sees a GPU; asked once, and only where a stage is marked for one."""
        if self._gpu is None:
            marked = any(run.stage.gpu for run in self.agenda.missing().values())
            if not marked:
                return False
            self._gpu = machine.device().type == "cuda"
        return self._gpu


def summary(agenda: Agenda, report: Report) -> str:
    """Return what is said when a queue has ended: what came, what failed, and how to redraw."""
    lines = [
        f"{len(report.computed)} computed, {len(report.found)} from elsewhere, "
        f"{len(report.failed)} failed, {len(agenda.missing())} missing"
    ]
    for key, (run, why) in report.failed.items():
        lines.append(f"failed: {run.text}\n    {key}: {last_line(why)}")
    if report.failed:
        first = next(iter(report.failed.values()))[1]
        lines.append(f"the first failure in full:\n{first.rstrip()}")
    for course in agenda.courses:
        if course.error:
            lines.append(
                f"failed: the plan {course.book.plan} of {course.book.name} after "
                f"{len(course.stages)} stages: {last_line(course.error)}\n{course.error.rstrip()}"
            )
    if report.stopped:
        lines.append(f"stopped: {report.stopped}; what is stored is whole, call again to go on")
    came = {
        course.book.number
        for key in (*report.computed, *report.found)
        for course in agenda.users(key)
    }
    if came:
        lines.append(f'redraw: make figures ONLY="{" ".join(sorted(came))}"')
    return "\n".join(lines)


def last_line(trace: str) -> str:
    """Return what a traceback ends with."""
    return (trace.strip().splitlines() or [""])[-1]


def _now() -> str:
    return time.strftime("%H:%M:%S")
