"""Bounds on the generalisation and the optimisation error of training with weighted samples.

Source: FDS (Federated Learning for Data Streams), Theorems 4.1 and 4.3, Lemmas 4.2, B.1-B.3, B.5,
with the corrections of ERRATA 26 and 29.

Where the text has order symbols, here are the constants of the proofs. By (9) the true error is at
most the optimisation error plus twice the generalisation error (Theorem 4.4); the companion's
`case_study` has that sum for Section 5.

| code          | symbol            | shape  | meaning                                             |
|---------------|-------------------|--------|-----------------------------------------------------|
| loss_bound    | B                 |        | largest loss (Assumption 1)                         |
| diameter      | D                 |        | diameter of the parameter set (Assumption 2)        |
| smoothness    | L                 |        | Lipschitz constant of the gradients (Assumption 4)  |
| grad_bound    | G = sqrt(2 L B)   |        | bound on gradient norms (Lemma B.1)                 |
| sigma0        | sigma_0           |        | root mean square noise of a sample's gradient, (10) |
| dissimilarity | zeta              |        | largest distance of two clients' gradients, (12)    |
| sigma_bar     | sigma-bar(lambda) |        | root of (17), variability between rounds            |
| pseudo_dim    | Pdim(l o H)       |        | pseudo-dimension of hypotheses with the loss        |
| q             | q^(t)             | (T,)   | weights of the rounds, (6)                          |
| aggregation   | p_m^(t)           | (T, M) | aggregation weights, (5)                            |
| p, target     | p, alpha          | (M,)   | clients' importance as trained, and as wanted       |
| losses        | L_{P_m}(h)        | (H, M) | risk of each hypothesis at each client              |
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Annotated, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from sflkit import checks
from sflkit.config import Count, NotNegative, Positive, Whole, checked
from sflkit.datastreams import importance


class Remark1(NamedTuple):
    """Bounds on sigma_0, (11), and on zeta, (13)."""

    sigma0: float
    dissimilarity: float


@checked
def gradient_bound(smoothness: NotNegative, loss_bound: NotNegative) -> float:
    """Return sqrt(2 L B), which bounds the gradient norms of L-smooth losses in [0, B].

    The proof steps along the gradient and may leave the parameter set. The loss must therefore be
    >= 0 on all of R^d, not only there. Source: FDS, Lemma B.1.

    Parameters
    ----------
    smoothness, loss_bound : float
        L and B, >= 0.

    Raises
    ------
    ValueError
        If one of them is negative or not finite.
    """
    return math.sqrt(2 * smoothness * loss_bound)


def remark1(smoothness: float, loss_bound: float) -> Remark1:
    """Return 2 sqrt(2 L B), which bounds both sigma_0 and zeta.

    Parameters and errors as `gradient_bound`. Source: FDS, Remark 1, Lemmas B.2 and B.3.
    """
    # ERRATA 26: (203) prints 2 sqrt(2) L B.
    bound = 2 * gradient_bound(smoothness, loss_bound)
    return Remark1(sigma0=bound, dissimilarity=bound)


class Lemma42(NamedTuple):
    """Effective and actual number of samples, and whether they agree."""

    effective: float
    samples: int
    attained: bool


def lemma42(sample_importance: Sequence[ArrayLike] | np.ndarray) -> Lemma42:
    """Return N_eff, its limit N, and whether N is reached.

    Source: FDS, Lemma 4.2. ERRATA 29: N is reached iff all samples of *all* clients have the same
    importance.

    Parameters
    ----------
    sample_importance : sequence of arrays, or one array
        p_{m,i} >= 0 of each client's samples; any positive total.

    Raises
    ------
    ValueError
        If an entry is negative, or none is positive.
    """
    ragged = (
        sample_importance if isinstance(sample_importance, (list, tuple)) else [sample_importance]
    )
    parts = [checks.array("sample_importance", part, low=0).ravel() for part in ragged]
    flat = np.concatenate(parts) if parts else np.empty(0)
    if not flat.any():
        raise ValueError("sample_importance must hold an entry > 0")
    effective = importance.effective_samples(flat)
    return Lemma42(effective, len(flat), math.isclose(effective, len(flat), rel_tol=1e-9))


def max_discrepancy(losses: ArrayLike) -> float:
    """Return the largest discrepancy of two clients.

    That is the maximum over pairs of disc(P_m, P_m') = max_h |L_{P_m}(h) - L_{P_m'}(h)|. Source:
    FDS, Section 4.2.

    Parameters
    ----------
    losses : array (n_hypotheses, n_clients)
        Risks >= 0 of a finite class of hypotheses.

    Raises
    ------
    ValueError
        If a risk is negative, or there is no hypothesis or no client.
    """
    losses = _losses(losses)
    return float((losses.max(axis=1) - losses.min(axis=1)).max())


def weighted_discrepancy(losses: ArrayLike, target: ArrayLike, p: ArrayLike) -> float:
    """Return disc(P^(alpha), P^(p)) = max_h |sum_m (alpha_m - p_m) L_{P_m}(h)| of a finite class.

    Source: FDS, (165).

    Parameters
    ----------
    losses : array (n_hypotheses, n_clients)
        Risks >= 0.
    target, p : array (n_clients,)
        alpha and p, on the simplex.

    Raises
    ------
    ValueError
        If the shapes do not agree, a risk is negative, or a vector is off the simplex.
    """
    losses = _losses(losses)
    target, p = probability_pair(target, p)
    checks.shape("losses", losses, (len(losses), len(p)), like="p")
    return float(np.abs(losses @ (target - p)).max())


def discrepancy_bound(max_disc: float, target: ArrayLike, p: ArrayLike) -> float:
    """Return ||alpha - p||_1 max disc(P_m, P_m'), which bounds `weighted_discrepancy`.

    Half of it is a bound as well: since alpha - p sums to 0, the weighted sum of losses is
    ||alpha - p||_1 / 2 times a difference of two averages. Source: FDS, (172).

    Parameters
    ----------
    max_disc : float
        Largest discrepancy of two clients, >= 0.
    target, p : array (n_clients,)
        alpha and p, on the simplex.

    Raises
    ------
    ValueError
        If a vector is off the simplex, the lengths differ, or `max_disc` is negative.
    """
    target, p = probability_pair(target, p)
    return checks.real("max_disc", max_disc, 0) * float(np.abs(target - p).sum())


class GeneralizationBound(NamedTuple):
    """The terms of Theorem 4.1.

    discrepancy is the mismatch of the distributions, capacity what the hypotheses can fit against
    the effective number of samples.
    """

    discrepancy: float
    capacity: float
    total: float


@checked
def generalization_bound(
    *,
    loss_bound: NotNegative,
    pseudo_dim: float,
    n_samples: Annotated[int, Whole(2)],
    effective: float,
    discrepancy: NotNegative,
) -> GeneralizationBound:
    """Return disc + 5 B sqrt(Pdim / N_eff) sqrt(1 + log(N / Pdim)), term by term.

    (42) on the way to it is false by a factor 4 in its exponent, but the result stands: Massart's
    lemma gives 2 B sqrt(2 log(2 tau) / N_eff) with tau <= (e N / Pdim)^Pdim, which is less. Source:
    FDS, Theorem 4.1 with the constants of (58).

    Parameters
    ----------
    loss_bound, discrepancy : float
        B and disc, >= 0.
    pseudo_dim : float
        Pdim, with 1 < Pdim < N.
    n_samples : int
        N >= 2.
    effective : float
        N_eff, in [1, N] (Lemma 4.2).

    Raises
    ------
    ValueError
        If an argument is out of range.
    """
    pseudo_dim = checks.real("pseudo_dim", pseudo_dim, above=1, below=n_samples)
    effective = checks.real("effective", effective, 1 - 1e-9, n_samples * (1 + 1e-9))
    spread = math.sqrt(pseudo_dim / effective * (1 + math.log(n_samples / pseudo_dim)))
    capacity = 5 * loss_bound * spread
    return GeneralizationBound(discrepancy, capacity, discrepancy + capacity)


class DriftConstants(NamedTuple):
    """C1 and C2 of the optimisation bound."""

    c1: float
    c2: float


@checked
def drift_constants(
    *, smoothness: NotNegative, loss_bound: NotNegative, diameter: Positive, local_steps: Count
) -> DriftConstants:
    """Return C1 = G (5 G / 2 + L D sqrt(2 (1 - 1/E))) and C2 = 2 L^2 G^2 (1 - 1/E).

    Source: FDS, below (105).

    Parameters
    ----------
    smoothness, loss_bound : float
        L and B, >= 0.
    diameter : float
        D > 0.
    local_steps : int
        E >= 1.

    Raises
    ------
    ValueError
        If an argument is out of range.
    """
    g, repeat = gradient_bound(smoothness, loss_bound), 1 - 1 / local_steps
    return DriftConstants(
        c1=g * (2.5 * g + smoothness * diameter * math.sqrt(2 * repeat)),
        c2=2 * (smoothness * g) ** 2 * repeat,
    )


class OptimizationBound(NamedTuple):
    """The terms of Theorem 4.3 in (107), their total, and the effective rate eta E of them."""

    bias: float
    start: float
    variability: float
    drift: float
    total: float
    rate: float


@checked
def optimization_bound(
    *,
    sigma_bar: NotNegative,
    smoothness: float,
    loss_bound: float,
    diameter: Positive,
    local_steps: Count,
    rounds: Count,
    rate: float | None = None,
    first_weight: float | None = None,
) -> OptimizationBound:
    """Return sigma-bar D + q^(1) D^2 / (2 eta') + eta' sigma-bar^2 + eta' C1 + eta'^3 C2.

    Here eta' = eta E. (16) is the order of this sum; (108) drops that the second term, `start`,
    grows with sigma-bar once sigma-bar > 1. Source: FDS, Theorem 4.3, (107).

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

    Raises
    ------
    ValueError
        If an argument is out of range.
    """
    c1, c2 = drift_constants(
        smoothness=smoothness, loss_bound=loss_bound, diameter=diameter, local_steps=local_steps
    )
    if first_weight is None:
        first_weight = 1 / rounds
    q1 = checks.real("first_weight", first_weight, (1 - 1e-12) / rounds, 1)
    if rate is None:
        effective = min(1.0, 1 / sigma_bar if sigma_bar else 1.0) / math.sqrt(rounds)
    else:
        effective = checks.real("rate", rate, above=0) * local_steps
    start = q1 * diameter**2 / (2 * effective)
    drift = effective * c1 + effective**3 * c2
    terms = (sigma_bar * diameter, start, effective * sigma_bar**2, drift)
    return OptimizationBound(*terms, sum(terms), effective)


def sigma_bar2(gradients: ArrayLike, q: ArrayLike) -> float:
    """Return sum_t q_t max over points of ||sum_s q_s g_s - g_t||^2, the measured (17).

    It is of one data set, and over the points given only, and so a lower estimate of the supremum.
    Source: FDS, (17) and (72).

    Parameters
    ----------
    gradients : array (rounds, n_params) or (rounds, n_points, n_params)
        Gradient of the round's aggregated objective F^(t) at one or more points.
    q : array (rounds,)
        Round weights, on the simplex.

    Raises
    ------
    ValueError
        If the shapes do not fit, or `q` is off the simplex.
    """
    gradients = checks.array("gradients", gradients)
    q = checks.simplex("q", q)
    if gradients.ndim not in (2, 3) or len(gradients) != len(q) or gradients.size == 0:
        raise ValueError(
            f"gradients has shape {gradients.shape}; it must be ({len(q)}, n_points, n_params), "
            "rounds as in q"
        )
    gradients = gradients.reshape(len(q), -1, gradients.shape[-1])
    gaps = ((np.tensordot(q, gradients, axes=1) - gradients) ** 2).sum(axis=2)
    return float(q @ gaps.max(axis=1))


class SigmaBarBound(NamedTuple):
    """The terms of Lemma B.5's bound on sigma-bar^2.

    noise is that of the samples, shift comes from aggregation weights that move.
    """

    noise: float
    shift: float
    total: float


@checked
def sigma_bar2_bound(
    *, sigma0: NotNegative, dissimilarity: NotNegative, aggregation: ArrayLike, q: ArrayLike
) -> SigmaBarBound:
    """Return 8 sigma_0^2 + 6 M (2 sigma_0^2 + zeta^2) sum_t q_t sum_m (p_m - p_m^(t))^2.

    (128) hides the M and the sigma_0^2 of the second term. Source: FDS, Lemma B.5, with the
    constants of (136), (140), (146).

    Parameters
    ----------
    sigma0, dissimilarity : float
        sigma_0, zeta >= 0.
    aggregation : array (rounds, n_clients)
        p_m^(t), rows on the simplex.
    q : array (rounds,)
        Round weights, on the simplex.

    Raises
    ------
    ValueError
        If an argument is out of range, a row is off the simplex, or the rounds do not agree.
    """
    aggregation = checks.simplex("aggregation", aggregation, ndim=2)
    q = checks.simplex("q", q)
    checks.shape("q", q, (len(aggregation),), like="aggregation")
    moved = float(q @ ((q @ aggregation - aggregation) ** 2).sum(axis=1))
    noise = 8 * sigma0**2
    shift = 6 * aggregation.shape[1] * (2 * sigma0**2 + dissimilarity**2) * moved
    return SigmaBarBound(noise, shift, noise + shift)


def _losses(losses: ArrayLike) -> np.ndarray:
    losses = checks.array("losses", losses, ndim=2, low=0)
    if not losses.size:
        raise ValueError(
            f"losses has shape {losses.shape}; it needs at least one hypothesis and one client"
        )
    return losses


def probability_pair(target: ArrayLike, p: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    """Return both as arrays (n_clients,), or raise ValueError unless they lie on one simplex."""
    target = checks.simplex("target", target, tol=importance.SIMPLEX_TOL)
    p = checks.simplex("p", p, tol=importance.SIMPLEX_TOL)
    checks.shape("target", target, p.shape, like="p")
    return target, p
