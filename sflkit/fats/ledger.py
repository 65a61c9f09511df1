"""What forgetting cost: rounds, local steps, client-rounds and bytes recomputed, against retraining
from scratch.

Source: FATS, Sections 5.3.1 and 6.1.3 (unlearning time in time steps).

==============  =========  =====================================================================
code            symbol     meaning
==============  =========  =====================================================================
rounds          R          communication rounds
steps           T = R E    time steps, of which a round has E (the paper's unlearning time)
client_rounds   K R        times that a slot received the global model and sent its own
bytes_down, up  4 P K R    4 bytes per parameter and client-round, each way
==============  =========  =====================================================================
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
    bytes_down: int
    bytes_up: int


class Entry(NamedTuple):
    """One request, or several served together.

    Attributes
    ----------
    requests : int
        Samples and clients to forget.
    first : int
        Round of the first use, -1 if no round that had run is affected.
    start : int
        Round that recomputing starts with, that of the nearest stored model at or before `first`;
        -1 if nothing is recomputed.
    scratch : int
        Rounds that retraining from scratch runs, if it is served to its end.
    rounds : int
        Rounds recomputed until now.
    seconds : float
        Seconds that they took, without evaluation.
    """

    requests: int
    first: int
    start: int
    scratch: int
    rounds: int
    seconds: float


@dataclass(frozen=True)
class Ledger:
    """The book of all requests. It never changes: every booking returns a new one.

    A recomputed round counts with all its slots, also those whose client forgets nothing: only
    global models are stored, so that their local models have to be made again. What a killed
    process had recomputed but not saved is not in the book.

    Parameters
    ----------
    clients_per_round, local_steps, n_params : int
        K, E, and the length P of the parameter vector, each >= 1.
    entries : tuple of Entry

    Raises
    ------
    ValueError
        If a size is out of range.
    """

    clients_per_round: int
    local_steps: int
    n_params: int
    entries: tuple[Entry, ...] = ()

    def __post_init__(self):
        for name in ("clients_per_round", "local_steps", "n_params"):
            checks.integer(name, getattr(self, name), 1)

    @property
    def recomputed(self) -> Cost:
        """Cost of all requests so far."""
        return self.cost(sum(entry.rounds for entry in self.entries))

    @property
    def scratch(self) -> Cost:
        """Cost of retraining from scratch (FRS), if each entry were served to its end."""
        return self.cost(sum(entry.scratch for entry in self.entries))

    @property
    def seconds(self) -> float:
        """Seconds of all recomputed rounds."""
        return sum(entry.seconds for entry in self.entries)

    def cost(self, rounds: int) -> Cost:
        """Return what `rounds` rounds cost; raises ValueError for a number that is not >= 0."""
        rounds = checks.integer("rounds", rounds, 0)
        slots = self.clients_per_round * rounds
        size = 4 * self.n_params * slots
        return Cost(rounds, rounds * self.local_steps, slots, size, size)

    def booked(self, entry: Entry) -> Ledger:
        """Return the ledger with one more entry."""
        return replace(self, entries=(*self.entries, entry))

    def worked(self, rounds: int, seconds: float) -> Ledger:
        """Return the ledger with rounds added to the last entry that asked for any.

        Raises
        ------
        ValueError
            If no entry has asked for rounds, or `rounds` or `seconds` is no number >= 0.
        """
        rounds = checks.integer("rounds", rounds, 0)
        seconds = checks.real("seconds", seconds, 0)
        at = max((i for i, entry in enumerate(self.entries) if entry.start >= 0), default=None)
        if at is None:
            raise ValueError(f"rounds={rounds} cannot be booked: no request asked for any")
        old = self.entries[at]
        new = old._replace(rounds=old.rounds + rounds, seconds=old.seconds + seconds)
        return replace(self, entries=(*self.entries[:at], new, *self.entries[at + 1 :]))
