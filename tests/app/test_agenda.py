"""What notebooks' plans ask for: found by name, given a profile's parameters, driven as far as
results go.
"""

from __future__ import annotations

import json

import pytest

from companion import plans
from companion.app import gate
from companion.app.agenda import Agenda, begin, in_short
from sflkit import paths
from sflkit.results import attempts
from tests.helpers import ROOT


def agenda(profile=""):
    return Agenda(gate.select(), profile, paths.published())


def compute(runs):
    for run in runs:
        attempts.attempt(run.stage.run, [run.config], store=paths.published(), threads=1)


def test_a_plan_is_given_the_profiles_parameters_and_driven_as_far_as_results_go(planned):
    planned({"10": ("study", {"rounds": 4, "seeds": [1, 5, 3]})})
    found = agenda()
    (course,) = found.courses
    assert [stage.name for stage, _ in course.stages] == ["search"] and not course.ended
    wanted = list(course.wanted().values())
    assert [run.config.seed for run in wanted] == [1, 5, 3]
    assert {run.config.rounds for run in wanted} == {4}
    assert wanted[0].text == "10_probe (search): seed=1, rounds=4"
    compute(wanted[:2])
    for run in wanted[:2]:
        assert found.look_for(run.key)["config"]["seed"] == run.config.seed
    assert found.look_for(wanted[2].key) is None
    found.go_on()
    assert list(found.missing()) == [wanted[2].key] and len(course.stages) == 1
    # The last of the search: the second stage follows from its largest loss, 5.
    compute(wanted[2:])
    found.look_for(wanted[2].key)
    found.go_on()
    assert [run.config.seed for run in found.missing().values()] == [105, 106]
    assert course.stages[-1][0].name == "judge"
    compute(found.missing().values())
    again = agenda()  # as another process sees it
    assert again.courses[0].ended and not again.missing() and len(again.records) == 5


def test_what_several_notebooks_ask_for_is_missing_once(planned):
    planned({"10": ("rules", {"seeds": [0, 1]}), "12": ("rules", {"seeds": [1, 2]})})
    planned_runs = agenda()
    assert [run.config.seed for run in planned_runs.missing().values()] == [0, 1, 2]
    shared = list(planned_runs.missing())[1]
    assert [course.book.number for course in planned_runs.users(shared)] == ["10", "12"]


def test_a_notebook_without_a_plan_has_no_course(planned):
    planned({"10": ("", {}), "12": ("rules", {})})
    found = agenda()
    assert [book.number for book in found.without] == ["10"]
    assert [course.book.number for course in found.courses] == ["12"]


@pytest.mark.parametrize(
    ("plan", "message"),
    [
        (
            "misspelt",
            "10_probe: its plan queue_probe:misspelt takes 'round', which is no parameter",
        ),
        ("positional", r"10_probe: its plan .* takes \*seeds; its arguments must be keyword-only"),
        (
            "no_plan",
            r"10_probe: its plan .*:no_plan cannot begin: TypeError: plan=\[0, 1\] must be",
        ),
        ("absent", "10_probe: its plan .* cannot be imported: AttributeError: .*'absent'"),
        ("EXPERIMENT", "10_probe: its plan .* must be a function, not 'probe'"),
    ],
)
def test_what_cannot_be_a_plan_is_refused_by_name(planned, plan, message):
    planned({"10": (plan, {})})
    with pytest.raises(gate.GateError, match=message):
        agenda()


@pytest.mark.parametrize(
    ("plan", "message"),
    [
        ("nowhere.plans:study", "10_probe: its plan .* cannot be imported: ModuleNotFoundError"),
        ("queue_probe", "10_probe: plan='queue_probe' in the metadata must read module:function"),
        ("queue probe:study", "must read module:function"),
        (["queue_probe:study"], "must read module:function"),
    ],
)
def test_what_the_metadata_say_is_checked(planned, plan, message):
    clone = planned({"10": ("study", {})})
    path = clone / "notebooks" / "10_probe.ipynb"
    content = json.loads(path.read_text())
    content["metadata"]["sflkit"]["plan"] = plan
    path.write_text(json.dumps(content))
    with pytest.raises(gate.GateError, match=message):
        begin(gate.find("10"), "paper")


def test_settings_are_checked_as_for_a_run(planned):
    planned({"10": ("study", {"rounds": 0})})
    with pytest.raises(gate.GateError, match="rounds=0 is not allowed"):
        agenda()


def test_a_plan_that_raises_says_so_and_leaves_the_others_alone(planned):
    planned({"10": ("upset", {"seeds": [0]}), "12": ("rules", {"seeds": [0, 1]})})
    found = agenda()
    compute(found.missing().values())
    found = agenda()
    upset, rules = found.courses
    assert upset.error.endswith("LookupError: no rate was best\n") and not upset.ended
    assert "Traceback" in upset.error and "in upset" in upset.error  # which line it was
    assert rules.ended and not rules.error


def test_a_config_in_short_says_what_is_not_the_default(planned):
    planned({"10": ("rules", {})})
    import queue_probe

    assert in_short(queue_probe.Config()) == "seed=0"
    assert in_short(queue_probe.Config(2, rule="drsr")) == "seed=2, rule='drsr'"


@pytest.mark.parametrize("profile", ["", "small"])
def test_every_plan_of_this_repository_begins(profile, monkeypatch):
    monkeypatch.chdir(ROOT)
    for book in gate.notebooks():
        if book.plan:
            plan = begin(book, profile)
            assert isinstance(plans.next_stage(plan, None), plans.Stage | plans.Returned), book.name
            plan.close()


def test_every_notebook_that_reads_published_results_has_a_plan(monkeypatch):
    monkeypatch.chdir(ROOT)
    reading = [book for book in gate.notebooks() if "source" in book.parameters]
    assert reading and not [book.name for book in reading if not book.plan]
