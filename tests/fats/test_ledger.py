"""The book of requests: costs by hand."""

import pytest

from sflkit.fats.ledger import Cost, Entry, Ledger


def test_the_ledger_by_hand():
    # K = 3 slots, E = 2 steps, 5 parameters of 4 bytes: a round is 2 time steps, 3 client-rounds
    # and 60 bytes.
    ledger = Ledger(
        3, 2, 5, (Entry(1, -1, -1, 4, 0, 0.0), Entry(2, 3, 3, 4, 1, 0.5), Entry(1, 0, 0, 4, 4, 1.0))
    )
    assert ledger.recomputed == Cost(5, 10, 15, 300, 300)
    assert ledger.scratch == Cost(12, 24, 36, 720, 720)
    assert ledger.seconds == 1.5
    # work goes to the last entry that asked for some, also when one without any came after it
    worked = Ledger(3, 2, 5, (*ledger.entries[1::-1],)).worked(2, 1.0)
    assert worked.entries == (Entry(2, 3, 3, 4, 3, 1.5), ledger.entries[0])


def test_work_that_nobody_asked_for_is_refused():
    ledger = Ledger(3, 2, 5, (Entry(1, -1, -1, 4, 0, 0.0),))
    with pytest.raises(ValueError, match="rounds=1 cannot be booked: no request asked for any"):
        ledger.worked(1, 0.5)
    with pytest.raises(ValueError, match="local_steps=0 must be an integer >= 1"):
        Ledger(3, 0, 5)
