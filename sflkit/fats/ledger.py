"""What forgetting cost: rounds, local steps, client-rounds and bytes recomputed, against retraining
from scratch.

Source: FATS, Sections 5.3.1 and 6.1.3 (unlearning time in time steps).

==============  ========  ======================================================================================
code            symbol    meaning
==============  ========  ======================================================================================
rounds          R         communication rounds
steps           T = R E   time steps, of which a round has E (the paper's unlearning time)
client_rounds   K R       times that a slot received the global model and sent its own
client_steps    K R E     gradients of a mini-batch
bytes_down, up            4 bytes a parameter and client-round, each way
==============  ========  ======================================================================================
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

from sflkit import checks


class Cost(NamedTuple):
    """What a number of rounds costs; fields of the table above."""

    rounds: int
    steps: int
    client_rounds: int
    client_steps: int
    bytes_down: int
    bytes_up: int


class Entry(NamedTuple):
    """One request, or several served together. `first`, `start` are -1 where no round that had run
    is affected.
    """

    requests: int  # samples and clients forgotten
    first: int  # round of the first use
    # round that recomputing starts with: that of the nearest stored model at or before `first`
    start: int
    scratch: int  # rounds that retraining from scratch runs, if it is served to its end
    rounds: int  # rounds recomputed until now
    seconds: float  # that they took, without evaluation


@dataclass(frozen=True)
class Ledger:
    """The book of all requests; it never changes, every booking returns a new one.

    A recomputed round counts with all its slots, also those whose client forgets nothing: only
    global models are stored, so their local models have to be made again. What a killed process had
    recomputed but not saved is not in the book.

    Parameters
    ----------
    clients_per_round, local_steps, n_params : int
        K, E, and the length of the parameter vector.
    entries : tuple of Entry
    """

    clients_per_round: int
    local_steps: int
    n_params: int
    entries: tuple[Entry, ...] = ()

    def __post_init__(self):
        for name in ("clients_per_round", "local_steps", "n_params"):
            checks.integer(name, getattr(self, name), 1)

    def cost(self, rounds: int) -> Cost:
        """Return what `rounds` rounds cost."""
        slots = self.clients_per_round * rounds
        size = 4 * self.n_params * slots
        return Cost(rounds, rounds * self.local_steps, slots, slots * self.local_steps, size, size)

    recomputed = property(
        lambda self: self.cost(sum(e.rounds for e in self.entries)),
        doc="Cost of all requests so far.",
    )
    scratch = property(
        lambda self: self.cost(sum(e.scratch for e in self.entries)),
        doc="Cost of retraining from scratch (FRS), if each entry were served to its end.",
    )
    seconds = property(
        lambda self: sum(e.seconds for e in self.entries), doc="Seconds of all recomputed rounds."
    )

    def booked(self, entry: Entry) -> Ledger:
        """Return the ledger with one more entry."""
        return replace(self, entries=(*self.entries, entry))

    def worked(self, rounds: int, seconds: float) -> Ledger:
        """Return the ledger with rounds added to the last entry that asked for any."""
        at = max(i for i, entry in enumerate(self.entries) if entry.start >= 0)
        entry = self.entries[at]._replace(
            rounds=self.entries[at].rounds + rounds, seconds=self.entries[at].seconds + seconds
        )
        return replace(self, entries=(*self.entries[:at], entry, *self.entries[at + 1 :]))

    def frame(self):
        """Return the entries with their costs as a pandas DataFrame, one row each; `scratch_<cost>`
        is FRS's.
        """
        import pandas as pd

        costs = [
            self.cost(e.rounds)._asdict()
            | {f"scratch_{k}": v for k, v in self.cost(e.scratch)._asdict().items()}
            for e in self.entries
        ]
        rows = [
            {"requests": e.requests, "first": e.first, "start": e.start, "seconds": e.seconds} | c
            for e, c in zip(self.entries, costs)
        ]
        return pd.DataFrame(rows)
