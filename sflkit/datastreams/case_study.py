"""The case study of the data-streams paper: historical and fresh clients, psi's constants, and the
lower-bound example.

Source: FDS (Federated Learning for Data Streams), Section 5, Corollaries 5.1 and 5.1', (183), and
the example in the proof of Theorem 4.3, with the corrections of ERRATA 28 and 30. The notation is
that of `datastreams`; besides:

================  ======================  ===========  =========================================================
code              symbol                  shape        meaning
================  ======================  ===========  =========================================================
counts            N_m                     (M,)         samples of each client over all rounds; N is their sum
historical        m <= M_hist             (M,)         bool mask of the historical clients
n_fresh           M - M_hist              scalar       fresh clients
rounds            T                       scalar       communication rounds
local_steps       E                       scalar       full-batch gradient steps a round
max_disc          max disc(P_m, P_m')     scalar       largest discrepancy of two clients (`max_discrepancy`)
================  ======================  ===========  =========================================================
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from sflkit import checks
from sflkit.datastreams import importance
from sflkit.datastreams.bounds import (
    discrepancy_bound,
    drift_constants,
    generalization_bound,
    probability_pair,
)


def sigma_bar2_case_study(p, historical, sigma0) -> float:
    """Return sigma_0^2 (M - M_hist) sum over fresh clients of p_m^2, the bound on sigma-bar^2 of
    Section 5.

    Source: FDS, (183). ERRATA 30: the sum must run over the fresh clients only. (182) on the way
    fails for one sample a round, but the result holds at any one parameter: the mean over the
    rounds shares the noise of its own round."""
    noise = importance.gradient_noise(p, historical)
    return (checks.real("sigma0", sigma0, 0) * noise) ** 2 * int((~np.asarray(historical)).sum())


class PsiConstants(NamedTuple):
    """The constants of psi."""

    c0: float
    c1: float
    c2: float


def corollary51(
    *,
    loss_bound,
    pseudo_dim,
    n_samples,
    max_disc,
    sigma0,
    n_fresh,
    diameter,
    rounds,
    smoothness,
    local_steps,
) -> PsiConstants:
    """Return psi's constants c0, c1, c2; psi(p, n, historical, c1, c2, c0) bounds the true error
    for alpha = n.

    Source: FDS, Corollary 5.1, (20)-(22), C1, C2 of (105), C3 = D^2/2, its value for sigma-bar <=
    1."""
    # ERRATA 30: c0 without "-2 max disc", which would need sqrt(x - 1) <= sqrt(x) - 1, and divided
    # by sqrt(T)
    c0, c1 = _optimization_part(
        smoothness, loss_bound, diameter, local_steps, rounds, sigma0, n_fresh
    )
    capacity = generalization_bound(
        loss_bound=loss_bound,
        pseudo_dim=pseudo_dim,
        n_samples=n_samples,
        effective=n_samples,
        discrepancy=0.0,
    ).capacity
    return PsiConstants(c0, c1, 2 * capacity + 2 * checks.real("max_disc", max_disc, 0))


class TrueErrorBound(NamedTuple):
    """The general corollary's terms: vanishing with T, gradient variability, wrong target, too few
    effective samples.
    """

    vanishing: float
    variability: float
    discrepancy: float
    capacity: float
    total: float


def corollary51_general(
    p,
    counts,
    historical,
    *,
    target=None,
    loss_bound,
    pseudo_dim,
    max_disc,
    sigma0,
    diameter,
    rounds,
    smoothness,
    local_steps,
) -> TrueErrorBound:
    """Return the bound on the true error for any target alpha, term by term.

    Source: FDS, Corollary 5.1', (157); Theorem 4.4 for the two groups of Section 5.

    Parameters
    ----------
    p : array (n_clients,)
        Relative importance, on the simplex.
    counts : int array (n_clients,)
        Samples N_m >= 1 of each client over all rounds.
    historical : bool array (n_clients,)
    target : array (n_clients,), optional
        alpha, on the simplex; counts / N by default, for which psi with `corollary51`'s constants
        is never smaller.
    loss_bound, pseudo_dim, max_disc, sigma0, diameter, rounds, smoothness, local_steps
        As in the table above; max_disc is the largest discrepancy of two clients.
    """
    counts = checks.array("counts", counts, ndim=1, low=1)
    target, p = probability_pair(counts / counts.sum() if target is None else target, p)
    effective = importance.client_effective_samples(p, counts)
    noise = importance.gradient_noise(p, historical)
    n_fresh = int((~np.asarray(historical)).sum())
    vanishing, c1 = _optimization_part(
        smoothness, loss_bound, diameter, local_steps, rounds, sigma0, n_fresh
    )
    generalization = generalization_bound(
        loss_bound=loss_bound,
        pseudo_dim=pseudo_dim,
        n_samples=counts.sum(),
        effective=effective,
        discrepancy=discrepancy_bound(max_disc, target, p),
    )
    terms = (vanishing, c1 * noise, 2 * generalization.discrepancy, 2 * generalization.capacity)
    return TrueErrorBound(*terms, sum(terms))


class LowerBoundExample(NamedTuple):
    """The two-sample problem behind Theorem 4.3's lower bound; see `lower_bound_example`."""

    minimizer: tuple[float, float]
    line_gap: float
    limit_gap: float
    sigma_bar2: float
    claimed: float


def lower_bound_example(q) -> LowerBoundExample:
    """Return the exact quantities of the example when the sample held first has weight q and the
    other 1 - q.

    Source: FDS, (109)-(125). ERRATA 28: (120) claims a gap of 6 q (1 - q); it is 2 q^2 (1-q)^2 /
    ((1+q)(2+q)), so that the example shows an error of order sigma-bar^4, neither sigma-bar^2 as in
    (125) nor sigma-bar as in the theorem.

    Parameters
    ----------
    q : float
        In [0.5, 1): the round weights do not increase.

    Returns
    -------
    LowerBoundExample
        minimizer of q l(.; 1) + (1-q) l(.; 2), (119); line_gap, the smallest excess loss on the
        line theta_2 = 0, (120); limit_gap, that of the algorithm's limit (1 - 2q, 0); sigma_bar2,
        (115)-(117) with equality; claimed, (120) as printed.
    """
    q = checks.real("q", q, 0.5, below=1)
    first = (1 - 3 * q) / (1 + q)
    square = 2 * (q * (1 - q)) ** 2 / (1 + q)
    return LowerBoundExample(
        (first, 1 - 2 * q - first), square / (2 + q), square, 20 * q * (1 - q), 6 * q * (1 - q)
    )


def _optimization_part(
    smoothness, loss_bound, diameter, local_steps, rounds, sigma0, n_fresh
) -> tuple[float, float]:
    # first two terms of (157), and the factor of the third
    rounds = checks.integer("rounds", rounds, 1)
    c1, c2 = drift_constants(
        smoothness=smoothness, loss_bound=loss_bound, diameter=diameter, local_steps=local_steps
    )
    vanishing = (c1 + diameter**2 / 2) / math.sqrt(rounds) + c2 / math.sqrt(rounds**3)
    fresh = math.sqrt(checks.integer("n_fresh", n_fresh, 1))
    return vanishing, checks.real("sigma0", sigma0, 0) * fresh * (diameter + 2 / math.sqrt(rounds))
