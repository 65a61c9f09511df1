"""The published runs: which plans ask for them, in what order they are computed, what a second call
costs, and what `sflkit status` says.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from types import SimpleNamespace

import psutil
import pytest
from typer.testing import CliRunner

from companion import plans, shelf
from companion.app import cli, gate, paper
from sflkit import machine, paths
from sflkit.runs import store, sweep
from tests.helpers import ROOT

PAPER = [sys.executable, "-m", "sflkit.cli", "paper"]


@pytest.fixture
def log(planned):
    """What runs have said, as (rule, seed), in order."""

    def said(word="end"):
        file = paths.clone_root() / "log"
        lines = [line.split() for line in file.read_text().splitlines()] if file.exists() else []
        return [(rule, int(seed)) for what, rule, seed in lines if what == word]

    return said


def compute(only=""):
    """Compute in this process; return whether all is there and what was said."""
    said = []
    return paper.compute(gate.select(only), 1, said.append), "\n".join(said)


def there():
    return shelf.survey(paths.published()).records


def command(*arguments, **kwargs):
    return subprocess.run(
        [*PAPER, *arguments], capture_output=True, text=True, timeout=120, **kwargs
    )


def status(*arguments, code=0):
    result = CliRunner().invoke(cli.app, ["status", *arguments])
    assert result.exit_code == code, result.output
    return result.stdout


def wait_for(condition, seconds=30.0):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "timed out"
        time.sleep(0.02)


# --- plans


def test_a_plan_is_given_the_notebooks_parameters_and_driven_as_far_as_results_go(planned):
    planned({"10": ("study", {"rounds": 4, "seeds": [1, 5, 3]})})
    (course,) = paper.courses(gate.select(), [])
    assert course.stage.name == "search" and not course.ended
    assert [config.seed for config, _ in course.runs.values()] == [1, 5, 3]
    assert {config.rounds for config, _ in course.runs.values()} == {4}
    keys = course.missing([])
    course.compute(keys[:2], 1)
    course.go_on(there())
    assert course.missing(there()) == keys[2:] and course.stage.name == "search"
    # The last of the search: the second stage follows from its largest loss, 5.
    course.compute(keys[2:], 1)
    course.go_on(there())
    assert [config.seed for config, _ in course.runs.values()] == [105, 106]
    assert course.stage.name == "judge" and len(course.wanted) == 5
    course.compute(course.missing(there()), 1)
    (again,) = paper.courses(gate.select(), there())  # as another process sees it
    assert again.ended and not again.missing(there())


@pytest.mark.parametrize(
    ("plan", "message"),
    [
        ("misspelt", "TypeError: it takes 'round', which is no parameter of the notebook"),
        ("no_plan", r"TypeError: plan=\[0, 1\] must be a generator"),
        ("absent", "AttributeError: .*'absent'"),
        ("EXPERIMENT", "TypeError: 'probe' is not a callable"),
    ],
)
def test_what_cannot_be_a_plan_is_refused_by_name(planned, plan, message):
    planned({"10": (plan, {})})
    with pytest.raises(gate.GateError, match=f"10_probe: its plan .* cannot begin: {message}"):
        paper.courses(gate.select(), [])


def test_what_is_missing_is_a_list_for_another_machine(planned):
    planned({"10": ("study", {"rounds": 4, "seeds": [1, 5]}), "12": ("study", {"seeds": [7]})})

    def missing(*words):
        result = CliRunner().invoke(cli.app, ["runs", "missing", *words])
        assert result.exit_code == 0, result.output
        return json.loads(result.stdout)["runs"]

    course = paper.courses(gate.select("10"), [])[0]
    said = missing("--only", "10")
    assert [run["key"] for run in said] == course.missing([])
    assert {(run["run"], run["class"]) for run in said} == {
        ("paper_probe:run", "paper_probe:Config")
    }
    assert said[1]["config"] == {"seed": 5, "rounds": 4, "rule": "fifo"}
    assert {run["seconds"] for run in said} == {None}  # nothing is known yet
    course.compute(course.missing([])[:1], 1)
    (left,) = missing("--only", "10")
    assert left["key"] == said[1]["key"] and left["seconds"] >= 0
    assert len(missing("10", "12")) == 2 and missing("--gpu") == []


@pytest.mark.parametrize("profile", ["", "small"])
def test_every_plan_of_this_repository_begins(profile, monkeypatch):
    monkeypatch.chdir(ROOT)
    for book in gate.notebooks():
        if book.plan:
            plan = paper.begin(book, profile)
            assert isinstance(plans.next_stage(plan, None), plans.Stage | plans.Returned), book.name
            plan.close()


def test_every_notebook_that_reads_published_runs_has_a_plan(monkeypatch):
    monkeypatch.chdir(ROOT)
    reading = [book for book in gate.notebooks() if {"source", "jobs"} <= set(book.parameters)]
    assert reading and not [book.name for book in reading if not book.plan]


# --- order


def test_the_cheapest_stage_comes_first_by_the_median_of_its_experiment(planned, log, monkeypatch):
    planned(
        {"10": ("rules", {"seeds": [0, 1, 2]}), "12": ("rules", {"seeds": [7], "rule": "fifo"})}
    )
    seconds = {str(n): {"experiment": "probe", "seconds": s} for n, s in enumerate((9, 300, 120))}
    assert paper.prices_of(seconds) == {"probe": 120}
    monkeypatch.setattr(paper, "prices_of", lambda _: {"probe": 120.0})
    _, said = compute()
    assert log() == [("fifo", 7), ("drsr", 0), ("drsr", 1), ("drsr", 2)]
    assert said.splitlines()[1:3] == [
        "12_probe (fifo): 1 runs, about 2 minutes",
        "10_probe (drsr): 3 runs, about 6 minutes",
    ]


def test_on_a_gpu_the_stages_marked_for_it_come_first(planned, monkeypatch):
    for number, (kind, first) in enumerate((("cpu", "10_probe"), ("cuda", "12_probe"))):
        seeds = {"seeds": [number]}
        planned({"10": ("rules", seeds), "12": ("on_gpu", seeds)})
        monkeypatch.setattr(machine, "device", lambda kind=kind: SimpleNamespace(type=kind))
        assert compute()[1].splitlines()[1].startswith(first)


# --- whole calls


def test_all_stages_are_computed_and_nothing_twice(planned, log):
    planned({"10": ("study", {"seeds": [1, 4], "rounds": 40}), "12": ("lengths", {"seeds": [7]})})
    done = command("--jobs", "1")
    assert done.returncode == 0, done.stderr
    assert "missing are 5 runs, 5 of unknown length" in done.stdout
    assert "7 runs came; none is missing" in done.stdout
    assert 'redraw: make figures ONLY="10 12"' in done.stdout
    # 104 follows from the largest loss of the search, 4
    assert {("drsr", 104), ("drsr", 105)} <= set(log()) and len(log("start")) == 7
    key = next(iter(there()))
    frame, found = store.read_result(key, paths.published())
    assert set(frame["threads"]) == {2} and found["threads"] == 2  # all of them for the only job
    assert set(frame["nice"]) == {min(19, os.nice(0) + 10)}
    complete, said = compute()
    assert complete and "0 runs came; none is missing" in said and "redraw" not in said


def test_what_several_notebooks_ask_for_is_computed_once(planned, log):
    planned({"10": ("rules", {"seeds": [0, 1]}), "12": ("rules", {"seeds": [1, 2]})})
    assert compute()[0]
    assert sorted(log("start")) == [("drsr", 0), ("drsr", 1), ("drsr", 2)]


def test_what_a_sweep_has_left_is_copied_not_computed_again(planned, log):
    planned({"10": ("study", {"seeds": [1, 4]})})
    import paper_probe

    left = [(1, 3), (4, 3), (104, 3, "drsr")]
    configs = [paper_probe.Config(*values) for values in left]
    sweep.run_many(paper_probe.run, configs, store=paths.results_store())
    assert compute()[0] and log()[3:] == [("drsr", 105)] and len(there()) == 4


def test_failed_runs_and_plans_are_named_and_the_others_finish(planned, monkeypatch):
    planned({"10": ("rules", {"seeds": [0, 1]}), "12": ("upset", {"seeds": [0]})})
    monkeypatch.setenv("PROBE_FAILS", "drsr")
    done = command("--jobs", "1")
    assert done.returncode == 1
    assert "1 runs came; missing are 2 runs" in done.stdout
    assert "failed: 10_probe (drsr), paper_probe:rules: 2 of the runs failed" in done.stdout
    assert "ArithmeticError: seed 1 diverged" in done.stdout
    assert "failed: 12_probe (first), paper_probe:upset: Traceback" in done.stdout
    assert "LookupError: no rate was best" in done.stdout
    assert 'redraw: make figures ONLY="12"' in done.stdout


@pytest.mark.slow
def test_a_worker_that_dies_costs_its_stage_alone(planned, log, monkeypatch):
    planned(
        {"10": ("rules", {"seeds": [0, 1]}), "12": ("rules", {"seeds": [1, 2], "rule": "fifo"})}
    )
    monkeypatch.setenv("PROBE_DIES", "drsr")
    done = command("--jobs", "2")
    assert done.returncode == 1 and sorted(log()) == [("fifo", 1), ("fifo", 2)]
    assert "a worker process ended before this run did (killed, or out of memory?)" in done.stdout


# --- ends, second calls; tests/faults kills it


def living(processes):
    return [p for p in processes if p.is_running() and p.status() != psutil.STATUS_ZOMBIE]


@pytest.mark.slow
@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGTERM])
def test_no_worker_outlives_the_call(planned, log, end):
    clone = planned({"10": ("rules", {"seeds": [0, 1, 2]})})
    (clone / "hold").touch()
    process = subprocess.Popen(
        [*PAPER, "--jobs", "2"],
        stdout=subprocess.PIPE,
        text=True,
        # tests that run in the background of a shell inherit that SIGINT is ignored
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    wait_for(lambda: len(log("start")) == 2)
    workers = psutil.Process(process.pid).children(recursive=True)
    assert len(workers) >= 2
    process.send_signal(end)
    said, _ = process.communicate(timeout=30)
    wait_for(lambda: not living(workers), 10)
    if end == signal.SIGINT:
        assert process.returncode == 1 and "stopped; what is stored is whole" in said
    assert not there() and not log()


# --- status


def test_done_and_missing(planned):
    planned({"10": ("rules", {"seeds": [0, 1]}), "12": ("rules", {"seeds": [1, 2, 3]})})
    compute("10")
    assert status().splitlines()[:-1] == [
        "10_probe: 2 done, none is missing",
        "12_probe: 1 done, missing are 2 runs, about 0 minutes; then more stages",
        "total: missing are 2 runs, about 0 minutes",  # what both share counts once
    ]
