"""Bounds of the four papers, one module a paper; everything is importable from here."""

from sflkit.bounds.datastreams import (
    discrepancy_bound,
    drift_constants,
    generalization_bound,
    gradient_bound,
    lemma42,
    max_discrepancy,
    optimization_bound,
    remark1,
    sigma_bar2,
    sigma_bar2_bound,
    weighted_discrepancy,
)
from sflkit.bounds.datastreams_case import corollary51, corollary51_general, lower_bound_example, sigma_bar2_case_study
from sflkit.bounds.fats import fats_corollary6, fats_lemma4, fats_theorem5, fats_theorem7
from sflkit.bounds.osafl import osafl_optimal_scores, osafl_score_objective, osafl_theorem1
from sflkit.bounds.sfl import (
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
    "corollary51", "corollary51_general", "discrepancy_bound", "drift_constants", "drsr_discrepancy", "fats_corollary6",
    "fats_lemma4", "fats_theorem5", "fats_theorem7", "fifo_discrepancy", "generalization_bound", "gradient_bound",
    "lemma1", "lemma2", "lemma42", "lower_bound_example", "max_discrepancy", "optimization_bound",
    "osafl_optimal_scores", "osafl_score_objective", "osafl_theorem1", "remark1", "sfl_convergence", "sfl_rates",
    "sigma_bar2", "sigma_bar2_bound", "sigma_bar2_case_study", "srsr_discrepancy", "srsr_discrepancy_limit",
    "weighted_discrepancy",
]
