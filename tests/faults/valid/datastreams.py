"""Valid calls of the data-streams paper's package."""

from __future__ import annotations

import numpy as np

from sflkit.data import federations
from sflkit.datastreams import arrivals, bounds, config, constants, importance, psi, strategies
from sflkit.federated import Task
from sflkit.models import tabular

mask, n = np.array([True, False, False]), np.array([5.0, 3.0, 2.0])
of_samples = np.array([[[1.0, 2], [3, 4]], [[1, 1], [0, 1]]])
p = np.array([0.5, 0.3, 0.2])
problem = dict(smoothness=1.0, loss_bound=1.0, diameter=1.0, local_steps=2)

clients = federations.data_streams(
    "digits", n_clients=4, n_historical=2, n_samples=80, seed=0, hist_fraction=0.3
)

CALLS = {
    "psi": lambda: (psi.psi, dict(p=n / 10, n=n, historical=mask, c1=1.0, c2=1.0, c0=0.5)),
    "minimize_psi": lambda: (psi.minimize_psi, dict(n=n, historical=mask, c1=1.0, c2=2.0)),
    "client_importance": lambda: (
        strategies.client_importance,
        dict(arm="ours", n=n, historical=mask, c_ratio=1.0),
    ),
    "memory_importance": lambda: (
        importance.memory_importance,
        dict(n=n, historical=mask, rounds=4),
    ),
    "optimization_bound": lambda: (
        bounds.optimization_bound,
        dict(
            sigma_bar=1.0,
            smoothness=1.0,
            loss_bound=1.0,
            diameter=1.0,
            local_steps=2,
            rounds=100,
            rate=0.3,
            first_weight=0.5,
        ),
    ),
    "aggregation_weights": lambda: (importance.aggregation_weights, dict(weights=of_samples)),
    "round_weights": lambda: (importance.round_weights, dict(weights=of_samples)),
    "relative_importance": lambda: (importance.relative_importance, dict(weights=of_samples)),
    "effective_samples": lambda: (importance.effective_samples, dict(weights=p)),
    "client_effective_samples": lambda: (importance.client_effective_samples, dict(p=p, counts=n)),
    "gradient_noise": lambda: (importance.gradient_noise, dict(p=p, historical=mask)),
    "sample_weights": lambda: (importance.sample_weights, dict(p=p, memory=n)),
    "equal_fresh_p_hist": lambda: (
        psi.equal_fresh_p_hist,
        dict(n_hist=0.5, n_fresh=4, c_ratio=0.5),
    ),
    "estimate_c_ratio": lambda: (
        psi.estimate_c_ratio,
        dict(loss_bound=1.0, n_params=10, n_samples=100, grad_bound=1.0, diameter=1.0, n_fresh=5),
    ),
    "parse_arm": lambda: (strategies.parse_arm, dict(arm="p_hist=0.5")),
    "gradient_bound": lambda: (bounds.gradient_bound, dict(smoothness=1.0, loss_bound=1.0)),
    "remark1": lambda: (bounds.remark1, dict(smoothness=1.0, loss_bound=1.0)),
    "lemma42": lambda: (bounds.lemma42, dict(sample_importance=np.full((2, 3), 1 / 6))),
    "max_discrepancy": lambda: (bounds.max_discrepancy, dict(losses=np.ones((3, 2)))),
    "weighted_discrepancy": lambda: (
        bounds.weighted_discrepancy,
        dict(losses=np.arange(6.0).reshape(2, 3), target=p, p=p[::-1].copy()),
    ),
    "discrepancy_bound": lambda: (
        bounds.discrepancy_bound,
        dict(max_disc=0.5, target=p, p=p[::-1].copy()),
    ),
    "generalization_bound": lambda: (
        bounds.generalization_bound,
        dict(loss_bound=1.0, pseudo_dim=5.0, n_samples=100, effective=50.0, discrepancy=0.1),
    ),
    "drift_constants": lambda: (bounds.drift_constants, dict(problem)),
    "sigma_bar2": lambda: (
        bounds.sigma_bar2,
        dict(gradients=np.arange(12.0).reshape(2, 3, 2), q=np.full(2, 0.5)),
    ),
    "sigma_bar2_bound": lambda: (
        bounds.sigma_bar2_bound,
        dict(sigma0=1.0, dissimilarity=1.0, aggregation=np.full((2, 3), 1 / 3), q=np.full(2, 0.5)),
    ),
    "DataStreamsConfig": lambda: (
        config.DataStreamsConfig,
        dict(
            arms=("ours", "uniform"),
            seed=0,
            rounds=5,
            rates=(0.1, 0.2),
            c_ratio=1.0,
            n_clients=4,
            n_historical=2,
            hist_fraction=0.3,
            participation=2,
            availability="stream",
        ),
    ),
    "fixed": lambda: (strategies.fixed, dict(n=n / 10, historical=mask, p_hist=0.4)),
    "takes_value": lambda: (strategies.takes_value, dict(name="ours")),
    "memories": lambda: (
        lambda **options: arrivals.memories(clients, **options),
        dict(rounds=4, seed=0, availability="stream", participation=2),
    ),
    "estimate_constants": lambda: (
        lambda **options: constants.estimate_constants(
            Task(tabular.linear(clients.input_shape, 10)), clients, **options
        ),
        dict(seed=0, fraction=0.5, steps=1, rate=0.1, batch_size=2),
    ),
}

two = np.array([0.5, 0.5])
BEYOND = {
    "client_effective_samples": dict(p=(two,)),
    "gradient_noise": dict(p=(two,)),
    "weighted_discrepancy": dict(p=(two,), target=(two,)),
    "discrepancy_bound": dict(p=(two,), target=(two,)),
    "psi": dict(p=(np.array([0.5, 0.6, 0.1]), two), historical=(mask & False, mask | True)),
    "minimize_psi": dict(
        n=(np.array([1e-320, 1e300, 1.0]),), historical=(mask & False, mask | True)
    ),
    "generalization_bound": dict(pseudo_dim=(100.0, 1.0), effective=(101.0, 0.9)),
    "optimization_bound": dict(first_weight=(0.009,)),
    "aggregation_weights": dict(weights=(of_samples * [[[1.0]], [[0.0]]],)),
    "client_importance": dict(arm=("Ours", "p_hist", "p_hist=1.1", "p_old=0.5", "uniform=1")),
    "parse_arm": dict(
        arm=("p_hist", "p_hist=", "p_hist=x", "p_hist=nan", "p_hist=-0.1", "fresh=1")
    ),
    "sample_weights": dict(p=(two,), memory=(np.array([1.0, 1.5, 1.0]),)),
    "DataStreamsConfig": dict(
        arms=(("ours", "p_hist=1.5"), ("ours",)),
        rates=((0.1,),),
        n_historical=(4,),
        participation=(5,),
        hist_fraction=(1.0,),
    ),
}
