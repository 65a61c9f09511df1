"""Arrays in other dresses at every call: the answer is that of the valid call, or a good error.

`make test` makes every fifth of these calls, `make faults` all.
"""

from __future__ import annotations

import copy
import warnings

import numpy as np
import pytest
import torch

from tests.faults import campaign, dressed_calls


@pytest.fixture(scope="module")
def outcomes():
    found = []
    for case in list(dressed_calls.cases())[:: campaign.SHARE]:
        how = dressed_calls.outcome(case)
        if how.word == "slow":  # a first import, or a busy machine; what hangs, hangs again
            how = dressed_calls.outcome(case)
        campaign.count(case.kind, how.word)
        found.append((case, how))
    return found


def test_there_are_enough_and_always_the_same():
    cases = list(dressed_calls.cases())
    assert len(cases) >= 1400 and {case.kind for case in cases} == set(dressed_calls.KINDS)
    assert cases == list(dressed_calls.cases())


def test_every_answer_is_right_and_every_error_good(outcomes):
    bad = [
        f"{how.word}: {case}: {how.said}"
        for case, how in outcomes
        if how.word not in ("good", "right")
    ]
    assert not bad, "\n".join(bad)


@pytest.mark.parametrize(
    ("kind", "wrong"),
    [
        ("crossed indices", lambda a, b: a + b),
        ("masked arrays", lambda a, b: a.sum() + b.sum()),
        ("reused buffers", lambda a, b: a),
        ("read-only arrays", lambda a, b: a.sort()),
        ("shared arrays", lambda a, b: a.__iadd__(b)),
    ],
)
def test_a_door_that_is_wrong_is_found(monkeypatch, kind, wrong):
    """Each kind fails at a function without any check."""
    values = {"a": [3.0, 1.0, 2.0], "b": [3.0, 1.0, 2.0]}
    options = {name: dressed_calls.np.array(value) for name, value in values.items()}
    monkeypatch.setitem(dressed_calls.CALLS, "wrong", lambda: (wrong, options))
    found = [case for case in dressed_calls.cases() if case[:2] == (kind, "wrong")]
    assert found and {dressed_calls.outcome(case).word for case in found} - {"right", "good"}


NUMBERS = [
    (call, name)
    for call, make in dressed_calls.CALLS.items()
    for name, value in make()[1].items()
    if isinstance(value, (int, float, np.number)) and not isinstance(value, bool)
    if call != "resume"  # every state that it returns has a name of its own, drawn anew
]


def said(call, name, value):
    """Return everything that a call answers to a number, or that it refuses it."""
    torch.manual_seed(0)
    function, options = dressed_calls.CALLS[call]()
    options = copy.deepcopy(options) | {name: value}
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            answer = function(**options)
        except (ValueError, TypeError) as error:
            return name in str(error)
    return dressed_calls.said_by((answer, getattr(function, "__self__", None)))


def test_a_number_is_one_number_in_any_type():
    """What a check returned is computed with, not the number of four digits that was given."""
    bad = []
    for call, name in NUMBERS[:: campaign.SHARE]:
        narrow = np.float16(dressed_calls.CALLS[call]()[1][name])
        if np.isfinite(narrow) and said(call, name, narrow) != said(call, name, float(narrow)):
            bad.append((call, name))
    assert len(NUMBERS) > 300 and not bad
