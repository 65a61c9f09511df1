"""Bad input from valid calls: it is refused with its name, value and range, or may be given."""

from __future__ import annotations

import pytest

from tests.faults import damaged_calls
from tests.faults.valid import CALLS


def test_there_are_enough_and_always_the_same():
    cases = list(damaged_calls.damaged())
    assert len(cases) >= 12000
    assert list(map(str, cases)) == list(map(str, damaged_calls.damaged()))


@pytest.mark.parametrize("name", CALLS)
def test_an_argument_is_refused_or_may_be_as_it_is(name):
    function, options = CALLS[name]()
    function(**options)  # the call is valid
    bad = []
    for case in damaged_calls.damaged(name):
        found = damaged_calls.outcome(case)
        if found.word == "slow":  # a busy machine; what hangs, hangs again
            found = damaged_calls.outcome(case)
        if found.word not in ("good", "right"):
            bad.append(f"{found.word}: {case}: {found.said}")
    assert not bad, "\n".join(bad)
