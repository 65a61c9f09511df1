"""Runs, each computed once: `run_many` computes what is missing and reads the rest.

`keys` names a run by all that decides its numbers, `identity` says what counts of a user's own
code, `store` keeps results and `archive` those that are published, `lane` carries them between
machines."""

from sflkit.runs.sweep import Complete, DamagedResult, MissingResult, run_many
from sflkit.runs.workers import SweepError

__all__ = ["Complete", "DamagedResult", "MissingResult", "SweepError", "run_many"]
