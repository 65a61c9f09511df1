"""Valid calls of the data-streams paper's package."""

from __future__ import annotations

import numpy as np

from sflkit.datastreams import bounds, config, importance, psi, strategies

mask, n = np.array([True, False, False]), np.array([5.0, 3.0, 2.0])
of_samples = np.array([[[1.0, 2], [3, 4]], [[1, 1], [0, 1]]])
p = np.array([0.5, 0.3, 0.2])
constants = {"smoothness": 1.0, "loss_bound": 1.0, "diameter": 1.0, "local_steps": 2}

CALLS = {
    "psi": lambda: (
        psi.psi,
        {"p": n / 10, "n": n, "historical": mask, "c1": 1.0, "c2": 1.0, "c0": 0.5},
    ),
    "minimize_psi": lambda: (psi.minimize_psi, {"n": n, "historical": mask, "c1": 1.0, "c2": 2.0}),
    "client_importance": lambda: (
        strategies.client_importance,
        {"arm": "ours", "n": n, "historical": mask, "c_ratio": 1.0},
    ),
    "memory_importance": lambda: (
        importance.memory_importance,
        {"n": n, "historical": mask, "rounds": 4},
    ),
    "optimization_bound": lambda: (
        bounds.optimization_bound,
        {
            "sigma_bar": 1.0,
            "smoothness": 1.0,
            "loss_bound": 1.0,
            "diameter": 1.0,
            "local_steps": 2,
            "rounds": 100,
            "rate": 0.3,
        },
    ),
    "aggregation_weights": lambda: (
        importance.aggregation_weights,
        {"weights": of_samples},
    ),
    "round_weights": lambda: (
        importance.round_weights,
        {"weights": of_samples},
    ),
    "relative_importance": lambda: (
        importance.relative_importance,
        {"weights": of_samples},
    ),
    "effective_samples": lambda: (importance.effective_samples, {"weights": p}),
    "client_effective_samples": lambda: (
        importance.client_effective_samples,
        {"p": p, "counts": n},
    ),
    "gradient_noise": lambda: (importance.gradient_noise, {"p": p, "historical": mask}),
    "sample_weights": lambda: (importance.sample_weights, {"p": p, "memory": n}),
    "equal_fresh_p_hist": lambda: (
        psi.equal_fresh_p_hist,
        {"n_hist": 0.5, "n_fresh": 4, "c_ratio": 0.5},
    ),
    "estimate_c_ratio": lambda: (
        psi.estimate_c_ratio,
        {
            "loss_bound": 1.0,
            "n_params": 10,
            "n_samples": 100,
            "grad_bound": 1.0,
            "diameter": 1.0,
            "n_fresh": 5,
        },
    ),
    "parse_arm": lambda: (strategies.parse_arm, {"arm": "p_hist=0.5"}),
    "gradient_bound": lambda: (bounds.gradient_bound, {"smoothness": 1.0, "loss_bound": 1.0}),
    "remark1": lambda: (bounds.remark1, {"smoothness": 1.0, "loss_bound": 1.0}),
    "lemma42": lambda: (bounds.lemma42, {"sample_importance": np.full((2, 3), 1 / 6)}),
    "max_discrepancy": lambda: (bounds.max_discrepancy, {"losses": np.ones((3, 2))}),
    "weighted_discrepancy": lambda: (
        bounds.weighted_discrepancy,
        {"losses": np.arange(6.0).reshape(2, 3), "target": p, "p": p[::-1].copy()},
    ),
    "discrepancy_bound": lambda: (
        bounds.discrepancy_bound,
        {"max_disc": 0.5, "target": p, "p": p[::-1].copy()},
    ),
    "generalization_bound": lambda: (
        bounds.generalization_bound,
        {
            "loss_bound": 1.0,
            "pseudo_dim": 5.0,
            "n_samples": 100,
            "effective": 50.0,
            "discrepancy": 0.1,
        },
    ),
    "drift_constants": lambda: (bounds.drift_constants, dict(constants)),
    "sigma_bar2": lambda: (
        bounds.sigma_bar2,
        {"gradients": np.arange(12.0).reshape(2, 3, 2), "q": np.full(2, 0.5)},
    ),
    "sigma_bar2_bound": lambda: (
        bounds.sigma_bar2_bound,
        {
            "sigma0": 1.0,
            "dissimilarity": 1.0,
            "aggregation": np.full((2, 3), 1 / 3),
            "q": np.full(2, 0.5),
        },
    ),
    "DataStreamsConfig": lambda: (
        config.DataStreamsConfig,
        {"arms": ("ours", "uniform"), "seed": 0, "rounds": 5, "rates": (0.1, 0.2)},
    ),
    "fixed": lambda: (
        strategies.fixed,
        {"n": n / 10, "historical": mask, "p_hist": 0.4},
    ),
    "takes_value": lambda: (strategies.takes_value, {"name": "ours"}),
}
