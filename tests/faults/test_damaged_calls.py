"""Bad input from valid calls: nothing hangs, nothing answers wrongly without a word.

`make test` makes every fifth of the damaged calls, `make faults` all of them.
"""

from __future__ import annotations

import collections

import pytest

from tests.faults import campaign, damaged_calls
from tests.faults.campaign import SHARE
from tests.faults.valid import CALLS

# Answers to NaN that are right, as the docstrings say: the model of a run that diverged is
# measured, and seen by the updates that it makes; inputs are not searched for NaN.
SAID = {
    ("weighted_average", "updates"),
    ("mean_update", "updates"),
    ("local_sgd", "batches"),
    ("local_sgd of rows", "data"),
    ("one step", "x"),
    ("fisher_sgd", "data"),
    ("learn of clients", "x"),
    ("FedAvg()", "updates"),
    ("FedAvg() of tensors", "updates"),
    ("Scaffold()", "updates"),
    ("evaluate", "params"),
    ("evaluate", "x"),
}


@pytest.fixture(scope="module")
def outcomes():
    cases = list(damaged_calls.damaged())
    found = [(case, damaged_calls.outcome(case)) for case in cases[::SHARE]]
    again = [  # a busy machine is slow now and then; what hangs, hangs again
        (case, damaged_calls.outcome(case) if how.word == "slow" else how) for case, how in found
    ]
    for case, how in again:
        right = how.word == "answer" or is_said(case, how)
        campaign.count("a damaged argument", "right" if right else how.word)
    return again


def is_said(case, how):
    return how.word == "silent" and (case.call, case.argument) in SAID


def test_there_are_enough_and_always_the_same():
    cases = list(damaged_calls.damaged())
    assert len(cases) >= 2000
    assert list(map(str, cases)) == list(map(str, damaged_calls.damaged()))


@pytest.mark.parametrize("name", CALLS)
def test_the_calls_are_valid(name):
    function, options = CALLS[name]()
    function(**options)


def test_no_answer_is_wrong_without_a_word(outcomes):
    silent = [
        f"{case}: {found.said}"
        for case, found in outcomes
        if found.word == "silent" and not is_said(case, found)
    ]
    assert not silent


def test_nothing_hangs(outcomes):
    assert not [str(case) for case, found in outcomes if found.word == "slow"]


def test_no_error_but_those_of_bad_arguments(outcomes):
    other = [f"{case}: {found.said}" for case, found in outcomes if found.word == "other"]
    assert not other


def test_messages_name_the_argument(outcomes):
    words = collections.Counter(found.word for _, found in outcomes)
    vague = [f"{case}: {found.said}" for case, found in outcomes if found.word == "vague"]
    assert len(vague) <= 0.01 * sum(words.values()), vague
