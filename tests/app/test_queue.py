"""The queue of a profile: order, stages, and what a kill, a full disk or a second queue cost."""

from __future__ import annotations

import os
import random
import re
import resource
import signal
import subprocess
import sys
import time
from collections import Counter
from types import SimpleNamespace

import psutil
import pytest

from companion.app import gate, queue
from companion.app.agenda import Agenda
from sflkit import machine, paths
from sflkit.results import attempts, shelf, store, sweep

PAPER = [sys.executable, "-m", "sflkit.cli", "paper"]


def agenda():
    return Agenda(gate.select(), "", paths.published())


def waiting(jobs=1):
    said = []
    return queue.Queue(agenda(), jobs, 2, said.append), said


def paper(*arguments, **kwargs):
    return subprocess.run(
        [*PAPER, *arguments], capture_output=True, text=True, timeout=120, **kwargs
    )


def log(clone, word="end"):
    """What runs have said, as (rule, seed), in order."""
    file = clone / "log"
    lines = [line.split() for line in file.read_text().splitlines()] if file.exists() else []
    return [(rule, int(seed)) for said, rule, seed in lines if said == word]


def wait_for(condition, seconds=30.0):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "timed out"
        time.sleep(0.02)


# --- order


def test_the_cheapest_first_and_the_unknown_last(planned):
    planned({"10": ("lengths", {"seeds": [0, 1]}), "12": ("rules", {"seeds": [7], "rounds": 5})})
    line, _ = waiting()
    missing = list(line.agenda.missing().values())
    # nothing is known: the notebooks' order
    assert [run.config.rounds for run in line.order()] == [40, 10, 20, 5]
    # Another run of 20 rounds took 2 s, so 10 rounds are worth 1 s and 40 rounds 4 s. Nothing is
    # known of the runs of another experiment, here the one of 5 rounds.
    line.prices.learn(missing[2].head | {"seconds": 2.0})
    missing[3] = missing[3]._replace(head=missing[3].head | {"experiment": "another"})
    line.agenda.missing = lambda: {run.key: run for run in missing}
    assert [run.config.rounds for run in line.order()] == [10, 20, 40, 5]


def test_on_a_gpu_the_stages_marked_for_it_come_first(planned, monkeypatch):
    planned({"10": ("lengths", {"seeds": [0, 1]}), "12": ("rules", {"seeds": [7], "rounds": 5})})
    line, _ = waiting()
    for run in list(line.agenda.missing().values())[:3]:
        attempts.attempt(run.stage.run, [run.config], store=line.agenda.folder, threads=1)
    asked = []

    def device(kind):
        return lambda: asked.append(kind) or SimpleNamespace(type=kind)

    for kind, order in (("cpu", [5, 80, 80]), ("cuda", [80, 80, 5])):
        monkeypatch.setattr(machine, "device", device(kind))
        line, _ = waiting()
        line.prices.of = lambda head: head["config"]["rounds"]
        assert [run.config.rounds for run in line.order()] == order
        assert len(line.order()) == 3
    assert asked == ["cpu", "cuda"]  # once a queue


def test_without_marked_stages_nobody_asks_for_a_gpu(planned, monkeypatch):
    planned({"10": ("rules", {"seeds": [0]})})
    monkeypatch.setattr(machine, "device", lambda: pytest.fail("torch was loaded for nothing"))
    assert len(waiting()[0].order()) == 1


# --- whole queues


def test_all_stages_are_computed_and_nothing_twice(planned):
    clone = planned(
        {"10": ("study", {"seeds": [1, 4], "rounds": 40}), "12": ("lengths", {"seeds": [7]})}
    )
    done = paper("--jobs", "1")
    assert done.returncode == 0, done.stderr
    assert "0 results in" in done.stdout and "5 left, 5 unknown" in done.stdout
    assert "8 computed, 0 from elsewhere, 0 failed, 0 missing" in done.stdout
    assert 'redraw: make figures ONLY="10 12"' in done.stdout
    assert len(log(clone, "start")) == 8
    # 104 follows from the largest loss of the search, 4
    assert {("drsr", 104), ("drsr", 105), ("drsr", 7)} <= set(log(clone))
    frame, found = store.read_result(next(iter(agenda().records)), paths.published())
    assert set(frame["threads"]) == {2} and found["threads"] == 2  # all of them for the only job
    assert set(frame["nice"]) == {min(19, os.nice(0) + 10)}
    line, said = waiting()
    assert line.drain() == queue.Report([], [], {}, "") and not said
    assert queue.summary(line.agenda, line.report) == (
        "0 computed, 0 from elsewhere, 0 failed, 0 missing"
    )


def test_the_order_of_a_real_queue(planned):
    clone = planned({"10": ("rules", {"seeds": [0, 1, 2], "rounds": 5})})
    line, said = waiting()
    runs = list(line.agenda.missing().values())
    prices = {run.key: price for run, price in zip(runs, (9.0, 3.0, None), strict=True)}
    line.prices.of = lambda head: prices[head["key"]]
    report = line.drain()
    assert [seed for _, seed in log(clone)] == [1, 0, 2] and len(report.computed) == 3
    assert len(said) == 3 and re.search(
        r"10_probe \(drsr\): seed=1, rounds=5, rule='drsr'; 2 left", said[0]
    )


def test_what_a_sweep_has_left_is_copied_not_computed_again(planned):
    clone = planned({"10": ("study", {"seeds": [1, 4]})})
    import queue_probe

    configs = [
        queue_probe.Config(1, 3),
        queue_probe.Config(4, 3),
        queue_probe.Config(104, 3, "drsr"),
    ]
    sweep.run_many(queue_probe.run, configs, store=paths.results_store())
    line, _ = waiting()
    report = line.drain()
    assert len(report.found) == 3 and len(report.computed) == 1
    assert log(clone)[3:] == [("drsr", 105)] and not line.agenda.missing()
    assert len(shelf.survey(paths.published()).records) == 4


def test_what_was_copied_before_the_disk_was_full_is_in_the_report(planned, monkeypatch):
    planned({"10": ("study", {"seeds": [1, 4]})})
    import queue_probe

    configs = [queue_probe.Config(1, 3), queue_probe.Config(4, 3)]
    sweep.run_many(queue_probe.run, configs, store=paths.results_store())
    copies, take_over = [], shelf.take_over

    def one_fits(key, source, folder):
        if len(copies) == 1:
            raise paths.CannotWrite(28, "No space left on device", f"{key}.csv")
        copied = take_over(key, source, folder)
        if copied:
            copies.append(key)
        return copied

    monkeypatch.setattr(shelf, "take_over", one_fits)
    line, _ = waiting()
    report = line.drain()
    assert "No space left on device" in report.stopped
    assert len(report.found) == 1 and not report.computed


def test_failed_runs_and_plans_are_named_and_the_others_finish(planned, monkeypatch):
    planned({"10": ("rules", {"seeds": [0, 1]}), "12": ("upset", {"seeds": [0]})})
    monkeypatch.setenv("PROBE_FAILS", "drsr")
    done = paper("--jobs", "1")
    assert done.returncode == 1
    assert "1 computed, 0 from elsewhere, 2 failed, 2 missing" in done.stdout
    assert "failed: 10_probe (drsr): seed=1, rule='drsr'\n" in done.stdout
    assert "ArithmeticError: seed 1 diverged" in done.stdout
    assert "Traceback (most recent call last)" in done.stdout
    message = "the plan queue_probe:upset of 12_probe after 1 stages: LookupError: no rate was best"
    assert message in done.stdout
    assert 'redraw: make figures ONLY="12"' in done.stdout


def test_a_worker_that_dies_costs_its_run_alone(planned, monkeypatch):
    clone = planned(
        {"10": ("rules", {"seeds": [0]}), "12": ("rules", {"seeds": [1], "rule": "fifo"})}
    )
    monkeypatch.setenv("PROBE_DIES", "drsr")
    line, _ = waiting()
    report = line.drain()
    assert len(report.computed) == 1 and log(clone) == [("fifo", 1)]
    ((run, why),) = report.failed.values()
    assert run.config.rule == "drsr"
    assert why == "the process that computed it ended by signal 9; did memory run out?"


def test_a_config_that_cannot_travel_is_a_failed_run(planned, monkeypatch):
    planned({"10": ("rules", {"seeds": [0, 1]})})
    line, said = waiting()

    def refuse(self, module, run, configs):
        raise TypeError("cannot pickle it")

    monkeypatch.setattr(queue.Worker, "begin", refuse)
    report = line.drain()
    assert len(report.failed) == 2 and "cannot pickle it" in said[0]


# --- kills, second queues, full disks


def living(processes):
    return [p for p in processes if p.is_running() and p.status() != psutil.STATUS_ZOMBIE]


def test_kill_9_five_times_loses_nothing_and_repeats_only_what_was_in_flight(planned, monkeypatch):
    clone = planned({"10": ("study", {"seeds": list(range(14))})})
    monkeypatch.setenv("PROBE_SECONDS", "0.1")
    moment = random.Random(7)
    kept: dict[str, bytes] = {}
    folder = paths.published()
    for _ in range(5):
        begun = len(log(clone, "start"))
        process = subprocess.Popen([*PAPER, "--jobs", "2"], stdout=subprocess.DEVNULL)
        more = moment.randint(1, 3)
        wait_for(lambda: len(log(clone, "start")) >= begun + more or process.poll() is not None)  # noqa: B023
        time.sleep(moment.uniform(0, 0.2))
        workers = psutil.Process(process.pid).children(recursive=True)
        process.kill()
        process.wait()
        wait_for(lambda: not living(workers), 10)  # noqa: B023
        there = shelf.survey(folder).records
        assert kept.items() <= there.items()  # what was there is there, its digests and seconds too
        kept = there
    assert paper("--jobs", "2").returncode == 0
    assert kept.items() <= shelf.survey(folder).records.items()
    starts = Counter(log(clone, "start"))
    assert len(starts) == 16 and not agenda().missing()
    assert sum(starts.values()) <= 16 + 5 * 2  # two in flight at each kill
    assert not list(folder.rglob("*.tmp"))


@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_no_worker_outlives_the_queue(planned, end):
    clone = planned({"10": ("rules", {"seeds": [0, 1, 2]})})
    (clone / "hold").touch()
    process = subprocess.Popen(
        [*PAPER, "--jobs", "2"],
        stdout=subprocess.PIPE,
        text=True,
        # tests that run in the background of a shell inherit that SIGINT is ignored
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    wait_for(lambda: len(log(clone, "start")) == 2)
    workers = psutil.Process(process.pid).children(recursive=True)
    assert len(workers) >= 2
    process.send_signal(end)
    said, _ = process.communicate(timeout=90)
    wait_for(lambda: not living(workers), 10)
    if end == signal.SIGINT:
        assert process.returncode == 1 and "stopped: interrupted" in said
    missing = agenda().missing()
    assert len(missing) == 3 and not log(clone)
    assert not [key for key in missing if shelf.is_running(key, paths.published())]


def test_a_queue_ends_with_what_started_it(planned):
    clone = planned({"10": ("rules", {"seeds": [0]})})
    (clone / "hold").touch()
    starter = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    environment = {**os.environ, "SFLKIT_WATCH": str(starter.pid)}
    process = subprocess.Popen(PAPER, stdout=subprocess.DEVNULL, env=environment)
    wait_for(lambda: log(clone, "start"))
    workers = psutil.Process(process.pid).children(recursive=True)
    starter.kill()
    starter.wait()
    assert process.wait(timeout=10) == 1
    wait_for(lambda: not living(workers), 10)


def test_two_queues_share_the_work(planned, monkeypatch):
    clone = planned({"10": ("study", {"seeds": list(range(8))}), "12": ("rules", {"seeds": [20]})})
    monkeypatch.setenv("PROBE_SECONDS", "0.2")
    two = [subprocess.Popen([*PAPER, "--jobs", "1"], stdout=subprocess.PIPE, text=True)
           for _ in range(2)]  # fmt: skip
    said = [process.communicate(timeout=60)[0] for process in two]
    assert [process.returncode for process in two] == [0, 0], said
    assert max(Counter(log(clone, "start")).values()) == 1 and len(log(clone)) == 11
    computed = [int(re.search(r"(\d+) computed", text)[1]) for text in said]
    assert sum(computed) == 11 and min(computed) >= 1


def test_a_full_disk_stops_the_queue_with_the_files_name(planned, monkeypatch):
    clone = planned({"10": ("rules", {"seeds": [0, 1, 2, 9, 3]})})
    monkeypatch.setenv("PROBE_LARGE", "9")
    (large,) = [key for key, run in agenda().missing().items() if run.config.seed == 9]

    def little_room():  # enough for small results
        resource.setrlimit(resource.RLIMIT_FSIZE, (5_000_000, 5_000_000))

    done = paper("--jobs", "1", preexec_fn=little_room)
    assert done.returncode == 1
    file = paths.published() / f"{large}.csv"
    assert f"stopped: cannot write {file}: File too large; what is stored is whole" in done.stdout
    found = shelf.survey(paths.published())
    assert len(found.records) >= 1 and not found.damaged and f"{large}" not in found.records
    assert not list(paths.published().rglob("*.tmp"))
    assert "Traceback" not in done.stdout + done.stderr
    monkeypatch.delenv("PROBE_LARGE")
    line, _ = waiting()
    assert not line.drain().stopped and not line.agenda.missing()
    assert len(log(clone)) == 6  # only the run that was refused is computed again


def test_jobs_and_profiles_are_checked(planned):
    planned({"10": ("rules", {"seeds": [0]})})
    assert paper("--jobs", "0").returncode == 2
    done = paper(env={**os.environ, "SFLKIT_THREADS": "none"})
    assert done.returncode == 2 and "SFLKIT_THREADS='none' must be an integer" in done.stderr
    assert not paths.published().exists()
