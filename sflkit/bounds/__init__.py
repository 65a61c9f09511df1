"""Bounds of the four papers, one module a paper; everything is importable from here."""

from sflkit.bounds.sfl import (
    Lemma1,
    Lemma2,
    SFLConvergence,
    SFLRates,
    drsr_discrepancy,
    fifo_discrepancy,
    lemma1,
    lemma2,
    sfl_convergence,
    sfl_rates,
    srsr_discrepancy,
    srsr_discrepancy_limit,
)

__all__ = [
    "Lemma1",
    "Lemma2",
    "SFLConvergence",
    "SFLRates",
    "drsr_discrepancy",
    "fifo_discrepancy",
    "lemma1",
    "lemma2",
    "sfl_convergence",
    "sfl_rates",
    "srsr_discrepancy",
    "srsr_discrepancy_limit",
]
