"""Self-checking exercises: right answers pass, wrong ones are told which property fails."""

from __future__ import annotations

import re
import runpy

import numpy as np
import pytest

from companion import teaching
from companion.teaching.exercise import Exercise, Form, number, vector, whole
from tests.helpers import ROOT
from tests.teaching.wrong_answers import WRONG

every = pytest.mark.parametrize("name", teaching.EXERCISES)


def solution(name):
    path = ROOT / "notebooks" / "solutions" / f"{name}_self_check.py"
    return runpy.run_path(str(path))["answer"], path.read_text(encoding="utf-8")


@every
def test_the_solution_has_every_property(name):
    said = teaching.check(name, solution(name)[0])
    assert said.passed and said.state == "right" and said.failed == "", said


@every
def test_wrong_answers_are_refused_by_the_property_that_they_lack(name):
    assert len(WRONG[name]) >= 3
    for failed, answer in WRONG[name]:
        said = teaching.check(name, answer)
        assert (said.state, said.failed) == ("wrong", failed), f"{answer}: {said}"
        (held,) = [p for p in teaching.EXERCISES[name].properties if p.name == failed]
        assert held.says in said.text and f"Hint: {held.hint}" in said.text
        assert teaching.EXERCISES[name].call.partition("(")[0] in said.text.partition("seen:")[2]


@every
def test_no_answer_yet_is_no_error(name):
    said = teaching.check(name, None)
    assert said.state == "not answered" and not said.passed
    assert teaching.EXERCISES[name].call in said.text and str(said) == said.text == repr(said)


@every
def test_a_wrong_type_is_told_what_is_expected(name):
    exercise = teaching.EXERCISES[name]
    answers = [7, "text", [1.0], lambda *, x: x, lambda *a: "text", lambda *a: [[1.0]]]
    if exercise.a == "a class":
        answers = [7, "text", lambda capacity, batch_size: None, dict, type("Empty", (), {})]
    for answer in answers:
        said = teaching.check(name, answer)
        assert said.state == "wrong type" or isinstance(answer, type), said
        assert not said.passed
        if said.state == "wrong type":
            assert f"expects {exercise.expects}." in said.text


def test_every_wrong_answer_belongs_to_an_exercise_and_every_property_refuses_one():
    assert set(WRONG) == set(teaching.EXERCISES)
    idle = [
        f"{name}: {held.name}"
        for name, exercise in teaching.EXERCISES.items()
        for held in exercise.properties
        if held.name not in {failed for failed, _ in WRONG[name]}
    ]
    assert idle == []


def test_there_is_one_exercise_for_each_notebook():
    books = {path.stem[:2] for path in (ROOT / "notebooks").glob("*.ipynb")}
    assert set(teaching.EXERCISES) == books
    assert list(teaching.EXERCISES) == sorted(teaching.EXERCISES)


def test_an_unknown_exercise_is_refused_with_the_list():
    with pytest.raises(ValueError, match="exercise='46' must be one of '00', '10', '11'"):
        teaching.check("46", None)


def test_an_error_in_the_answer_is_shown_with_the_call():
    said = teaching.check("10", lambda shares, arrived, t: 1 / 0)
    assert said.failed == "the first round is all there is"
    assert re.search(r"remember\(\[0., 0., 0.\], \[.*\], 1\) raised ZeroDivisionError", said.text)


def test_an_answer_cannot_change_what_it_is_judged_by():
    def greedy(shares, arrived, t):
        arrived[:] = 0
        return arrived

    assert teaching.check("10", greedy).failed == "the first round is all there is"


def test_forms_read_what_numpy_and_torch_give():
    torch = pytest.importorskip("torch")
    assert number.read(np.float32(2), ()) == number.read(torch.tensor(2.0), ()) == 2
    assert whole.read(3.0, ()) == 3
    assert vector("", integers=True).read([], ()).tolist() == []
    assert vector("").read((1, 2), ()).tolist() == [1, 2]


def test_a_property_that_cannot_compute_with_an_answer_does_not_hold():
    one = Exercise("99", "inverse", "Write it.", "inverse(x)", Form("a number", number.read))

    @one.must(hint="Not 0.")
    def it_inverts(f, rng):
        "One over it."
        return 1 / f(2) == 2

    assert one.judge(lambda x: 0).failed == "it inverts" and one.judge(lambda x: 1 / x).passed
