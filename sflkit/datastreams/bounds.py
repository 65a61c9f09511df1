"""Bounds of the data-streams paper: the generalisation error and the optimisation error of training
with weighted samples.

Source: FDS (Federated Learning for Data Streams), Theorems 4.1 and 4.3, Lemmas 4.2, B.1-B.3, B.5,
with the corrections of ERRATA 26 and 29. The order symbols of the text are replaced by the
constants of the proofs. By (9) the true error is at most the optimisation error plus twice the
generalisation error (Theorem 4.4); `datastreams_case` has that sum for Section 5.

================  ======================  ===========  =========================================================
code              symbol                  shape        meaning
================  ======================  ===========  =========================================================
loss_bound        B                       scalar       largest loss (Assumption 1)
diameter          D                       scalar       diameter of the parameter set (Assumption 2)
smoothness        L                       scalar       Lipschitz constant of the gradients (Assumption 4)
grad_bound        G = sqrt(2 L B)         scalar       bound on gradient norms (Lemma B.1)
sigma0            sigma_0                 scalar       root mean squared gradient noise of one sample, (10)
dissimilarity     zeta                    scalar       largest distance of two clients' gradients, (12)
sigma_bar         sigma-bar(lambda)       scalar       root of (17), gradient variability from round to round
pseudo_dim        Pdim(l o H)             scalar       pseudo-dimension of the hypotheses with the loss
q                 q^(t)                   (T,)         weights of the rounds, (6)
aggregation       p_m^(t)                 (T, M)       aggregation weights, (5)
p, target         p, alpha                (M,)         clients' importance as trained, and as wanted, on the simplex
losses            L_{P_m}(h)              (H, M)       risk of each hypothesis on each client's distribution
================  ======================  ===========  =========================================================
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from sflkit import checks
from sflkit.datastreams import importance


class Remark1(NamedTuple):
    """Bounds on sigma_0, (11), and on zeta, (13)."""

    sigma0: float
    dissimilarity: float


def gradient_bound(smoothness, loss_bound) -> float:
    """Return sqrt(2 L B), which bounds gradient norms of L-smooth losses in [0, B]. Source: FDS,
    Lemma B.1.

    The proof steps along the gradient and may leave the parameter set: the loss must be >= 0 on all
    of R^d, not only there."""
    return math.sqrt(
        2 * checks.real("smoothness", smoothness, 0) * checks.real("loss_bound", loss_bound, 0)
    )


def remark1(smoothness, loss_bound) -> Remark1:
    """Return the bounds 2 sqrt(2 L B) on sigma_0 and zeta. Source: FDS, Remark 1, Lemmas B.2 and
    B.3.
    """
    # ERRATA 26: (203) prints 2 sqrt(2) L B
    return Remark1(*[2 * gradient_bound(smoothness, loss_bound)] * 2)


class Lemma42(NamedTuple):
    """Effective and actual number of samples, and whether they agree."""

    effective: float
    samples: int
    attained: bool


def lemma42(sample_importance) -> Lemma42:
    """Return N_eff, its limit N, and whether N is reached.

    Source: FDS, Lemma 4.2. ERRATA 29: N is reached iff all samples of *all* clients have the same
    importance.

    Parameters
    ----------
    sample_importance : sequence of arrays, or one array
        p_{m,i} >= 0 of each client's samples; any positive total.
    """
    ragged = (
        sample_importance if isinstance(sample_importance, (list, tuple)) else [sample_importance]
    )
    parts = [checks.array("sample_importance", part, low=0).ravel() for part in ragged]
    flat = np.concatenate(parts) if parts else np.empty(0)
    effective = importance.effective_samples(flat)
    return Lemma42(effective, len(flat), math.isclose(effective, len(flat), rel_tol=1e-9))


def max_discrepancy(losses) -> float:
    """Return max over pairs of clients of disc(P_m, P_m') = max_h |L_{P_m}(h) - L_{P_m'}(h)|.
    Source: FDS, Section 4.2.

    losses : (n_hypotheses, n_clients), for a finite class of hypotheses.
    """
    losses = _losses(losses)
    return float((losses.max(axis=1) - losses.min(axis=1)).max())


def weighted_discrepancy(losses, target, p) -> float:
    """Return disc(P^(alpha), P^(p)) = max_h |sum_m (alpha_m - p_m) L_{P_m}(h)| of a finite class.
    Source: FDS, (165).
    """
    losses, (target, p) = _losses(losses), probability_pair(target, p)
    if losses.shape[1] != len(p):
        raise ValueError(
            f"losses has shape {losses.shape}; its second axis must have {len(p)} entries, one per client"
        )
    return float(np.abs(losses @ (target - p)).max())


def discrepancy_bound(max_disc, target, p) -> float:
    """Return ||alpha - p||_1 max disc(P_m, P_m'), which bounds `weighted_discrepancy`. Source: FDS,
    (172).

    Half of it bounds it too: as alpha - p sums to 0, the sum is ||alpha - p||_1 / 2 times a
    difference of two averages."""
    target, p = probability_pair(target, p)
    return checks.real("max_disc", max_disc, 0) * float(np.abs(target - p).sum())


class GeneralizationBound(NamedTuple):
    """Theorem 4.1's terms: mismatch of the distributions, and capacity against the effective number
    of samples.
    """

    discrepancy: float
    capacity: float
    total: float


def generalization_bound(
    *, loss_bound, pseudo_dim, n_samples, effective, discrepancy
) -> GeneralizationBound:
    """Return disc + 5 B sqrt(Pdim / N_eff) sqrt(1 + log(N / Pdim)).

    Source: FDS, Theorem 4.1 with the constants of (58). (42) on the way there is false by a factor
    4 in its exponent, but the result stands: Massart's lemma gives 2 B sqrt(2 log(2 tau) / N_eff)
    with tau <= (e N / Pdim)^Pdim, which is less.

    Raises
    ------
    ValueError
        Unless 1 < pseudo_dim < n_samples and 1 <= effective <= n_samples (Lemma 4.2).
    """
    loss_bound, discrepancy = (
        checks.real("loss_bound", loss_bound, 0),
        checks.real("discrepancy", discrepancy, 0),
    )
    n_samples = checks.integer("n_samples", n_samples, 2)
    pseudo_dim = checks.real("pseudo_dim", pseudo_dim, above=1, below=n_samples)
    effective = checks.real("effective", effective, 1 - 1e-9, n_samples * (1 + 1e-9))
    capacity = (
        5 * loss_bound * math.sqrt(pseudo_dim / effective * (1 + math.log(n_samples / pseudo_dim)))
    )
    return GeneralizationBound(discrepancy, capacity, discrepancy + capacity)


class DriftConstants(NamedTuple):
    """C1 and C2 of the optimisation bound."""

    c1: float
    c2: float


def drift_constants(*, smoothness, loss_bound, diameter, local_steps) -> DriftConstants:
    """Return C1 = G (5 G / 2 + L D sqrt(2 (1 - 1/E))) and C2 = 2 L^2 G^2 (1 - 1/E). Source: FDS,
    below (105).
    """
    diameter = checks.real("diameter", diameter, above=0)
    g, smoothness = gradient_bound(smoothness, loss_bound), float(smoothness)
    repeat = 1 - 1 / checks.integer("local_steps", local_steps, 1)
    return DriftConstants(
        g * (2.5 * g + smoothness * diameter * math.sqrt(2 * repeat)),
        2 * (smoothness * g) ** 2 * repeat,
    )


class OptimizationBound(NamedTuple):
    """Theorem 4.3's terms in (107) and the effective rate eta E they are for."""

    bias: float
    start: float
    variability: float
    drift: float
    total: float
    rate: float


def optimization_bound(
    *,
    sigma_bar,
    smoothness,
    loss_bound,
    diameter,
    local_steps,
    rounds,
    rate=None,
    first_weight=None,
) -> OptimizationBound:
    """Return sigma-bar D + q^(1) D^2 / (2 eta') + eta' sigma-bar^2 + eta' C1 + eta'^3 C2, with eta'
    = eta E.

    Source: FDS, Theorem 4.3, (107). (16) is its order; (108) drops that `start` grows with
    sigma-bar once sigma-bar > 1.

    Parameters
    ----------
    sigma_bar, smoothness, loss_bound, diameter : float
        >= 0, > 0, > 0, > 0.
    local_steps, rounds : int
        E, T >= 1.
    rate : float, optional
        Local step size eta > 0; by default the theorem's min(1, 1/sigma-bar) / (E sqrt(T)).
    first_weight : float, optional
        q^(1), the largest of the round weights, in [1/T, 1]; 1/T by default.
    """
    sigma_bar, diameter = (
        checks.real("sigma_bar", sigma_bar, 0),
        checks.real("diameter", diameter, above=0),
    )
    rounds = checks.integer("rounds", rounds, 1)
    c1, c2 = drift_constants(
        smoothness=smoothness, loss_bound=loss_bound, diameter=diameter, local_steps=local_steps
    )
    q1 = (
        1 / rounds
        if first_weight is None
        else checks.real("first_weight", first_weight, (1 - 1e-12) / rounds, 1)
    )
    effective = (
        min(1.0, 1 / sigma_bar if sigma_bar else 1.0) / math.sqrt(rounds)
        if rate is None
        else checks.real("rate", rate, above=0) * local_steps
    )
    start, drift = q1 * diameter**2 / (2 * effective), effective * c1 + effective**3 * c2
    terms = (sigma_bar * diameter, start, effective * sigma_bar**2, drift)
    return OptimizationBound(*terms, sum(terms), effective)


def sigma_bar2(gradients, q) -> float:
    """Return sum_t q_t max over points of ||sum_s q_s g_s - g_t||^2, the measured (17).

    Source: FDS, (17) and (72). Of one data set, and over the points given: a lower estimate of the
    supremum.

    Parameters
    ----------
    gradients : array (rounds, n_params) or (rounds, n_points, n_params)
        Gradient of the round's aggregated objective F^(t) at one or more points.
    q : array (rounds,)
        Round weights, on the simplex.
    """
    gradients, q = checks.array("gradients", gradients), checks.simplex("q", q)
    if gradients.ndim not in (2, 3) or len(gradients) != len(q) or gradients.size == 0:
        raise ValueError(
            f"gradients has shape {gradients.shape}; it must be ({len(q)}, n_points, n_params), rounds as in q"
        )
    gradients = gradients.reshape(len(q), -1, gradients.shape[-1])
    gaps = ((np.tensordot(q, gradients, axes=1) - gradients) ** 2).sum(axis=2)
    return float(q @ gaps.max(axis=1))


class SigmaBarBound(NamedTuple):
    """Lemma B.5's terms of the bound on sigma-bar^2: noise of the samples, and aggregation weights
    that move.
    """

    noise: float
    shift: float
    total: float


def sigma_bar2_bound(*, sigma0, dissimilarity, aggregation, q) -> SigmaBarBound:
    """Return 8 sigma_0^2 + 6 M (2 sigma_0^2 + zeta^2) sum_t q_t sum_m (p_m - p_m^(t))^2.

    Source: FDS, Lemma B.5, with the constants of (136), (140), (146); (128) hides the M and the
    sigma_0^2 of the second term.

    Parameters
    ----------
    sigma0, dissimilarity : float
        sigma_0, zeta >= 0.
    aggregation : array (rounds, n_clients)
        p_m^(t), rows on the simplex.
    q : array (rounds,)
        Round weights, on the simplex.
    """
    sigma0, dissimilarity = (
        checks.real("sigma0", sigma0, 0),
        checks.real("dissimilarity", dissimilarity, 0),
    )
    aggregation, q = checks.simplex("aggregation", aggregation, ndim=2), checks.simplex("q", q)
    if len(aggregation) != len(q):
        raise ValueError(
            f"aggregation has {len(aggregation)} rounds and q has {len(q)}; they must agree"
        )
    moved = float(q @ ((q @ aggregation - aggregation) ** 2).sum(axis=1))
    noise = 8 * sigma0**2
    shift = 6 * aggregation.shape[1] * (2 * sigma0**2 + dissimilarity**2) * moved
    return SigmaBarBound(noise, shift, noise + shift)


def _losses(losses) -> np.ndarray:
    losses = checks.array("losses", losses, ndim=2, low=0)
    if not losses.size:
        raise ValueError(
            f"losses has shape {losses.shape}; it needs at least one hypothesis and one client"
        )
    return losses


def probability_pair(target, p) -> tuple[np.ndarray, np.ndarray]:
    """Return both as arrays (n_clients,), or raise ValueError unless they lie on one simplex."""
    target, p = checks.simplex("target", target, tol=1e-6), checks.simplex("p", p, tol=1e-6)
    if len(target) != len(p):
        raise ValueError(
            f"target has {len(target)} entries and p has {len(p)}; they must agree, one per client"
        )
    return target, p
