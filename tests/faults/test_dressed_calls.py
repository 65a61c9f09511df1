"""Arrays in other dresses at every call: the answer is that of the valid call, or a good error.

`make test` makes all of what a caller meets first, and every fifth of the other calls; `make
faults` makes all.
"""

from __future__ import annotations

import pytest

from tests.faults import campaign, dressed_calls


@pytest.fixture(scope="module")
def outcomes():
    found = []
    first = ("masked arrays", "reused buffers", "shared arrays", "crossed indices")
    for number, case in enumerate(dressed_calls.cases()):
        if case.kind not in first and number % campaign.SHARE:
            continue
        how = dressed_calls.outcome(case)
        if how.word == "slow":  # a first import, or a busy machine; what hangs, hangs again
            how = dressed_calls.outcome(case)
        found.append((case, how))
    return found


def test_there_are_enough_and_always_the_same():
    cases = list(dressed_calls.cases())
    assert len(cases) >= 2000 and {case.kind for case in cases} == set(dressed_calls.KINDS)
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
