"""Bounds of FATS: how well a stable algorithm learns, and how much it recomputes to forget.

Source: FATS, Lemma 4, Theorem 5, Corollary 6, Theorem 7, with ERRATA 23. The flags `feasible` say
whether a statement's own conditions hold; the values are returned either way, since the paper's
settings break them (ERRATA 23).

==================  ================  ======================================================================
code                symbol            meaning
==================  ================  ======================================================================
loss_gap            F(theta_0) - F*   loss at the start above its minimum
smoothness          L                 Lipschitz constant of the gradients (Assumption 1)
grad_var            G^2               bound on b times the variance of a mini-batch gradient (Assumption 2)
heterogeneity       lambda            bound on the gradient dissimilarity, >= 1 (Assumption 3)
local_steps         E                 steps a round
n_clients           M                 clients
samples_per_client  N                 samples of a client (a mean is fine)
steps               T = R E           steps of the run
rho_s, rho_c        rho_S, rho_C      stability towards a sample, a client; above 1 they no longer bound anything
rate                eta               step size
gamma               Gamma             G^2 / (L loss_gap rho_S M N), dimensionless
==================  ================  ======================================================================
"""

from __future__ import annotations

import math
from typing import NamedTuple

from sflkit import checks


class FATSBound(NamedTuple):
    """A bound on the mean squared gradient over the T steps, and whether its conditions hold."""

    value: float
    feasible: bool


class FATSTheorem5(NamedTuple):
    """Theorem 5's bound, its step size, Gamma, and whether its conditions hold."""

    value: float
    rate: float
    gamma: float
    feasible: bool


class FATSTheorem7(NamedTuple):
    """Bounds on what w requests cost, and whether they say anything (rho <= 1)."""

    probability: float
    recomputations: float
    time: float
    feasible: bool


def lemma4(
    *,
    loss_gap,
    smoothness,
    grad_var,
    heterogeneity,
    local_steps,
    n_clients,
    samples_per_client,
    steps,
    rho_s,
    rho_c,
    rate,
) -> FATSBound:
    """Return the bound (9) on the mean squared gradient for any step size; feasible is condition
    (7).

    Source: FATS, Lemma 4; (9) is (8) with K = rho_C E M / T and K b = rho_S M N / T.

    Parameters
    ----------
    loss_gap, grad_var : float
        >= 0.
    smoothness, rho_s, rho_c, rate : float
        > 0.
    heterogeneity : float
        >= 1.
    local_steps, n_clients, steps : int
        E in [1, T], M >= 1, T >= 1.
    samples_per_client : float
        N >= 1.

    Raises
    ------
    ValueError
        For values out of range.
    """
    loss_gap, grad_var = checks.real("loss_gap", loss_gap, 0), checks.real("grad_var", grad_var, 0)
    smoothness, heterogeneity = (
        checks.real("smoothness", smoothness, above=0),
        checks.real("heterogeneity", heterogeneity, 1),
    )
    n_clients, drawn, steps, rho_c = _sizes(n_clients, samples_per_client, steps, rho_s, rho_c)
    local_steps, rate = (
        checks.integer("local_steps", local_steps, 1, steps),
        checks.real("rate", rate, above=0),
    )
    value = (
        2 * loss_gap / (rate * steps)
        + (rate * smoothness) ** 2
        * grad_var
        * local_steps
        * (rho_c * local_steps * n_clients + steps)
        / drawn
        + rate * smoothness * grad_var * steps / drawn
    )
    # (7) divided by eta
    curvature = (rate * smoothness) ** 2 * heterogeneity * local_steps * (local_steps - 1)
    return FATSBound(value, -0.5 + curvature + rate * heterogeneity * smoothness / 2 < 0)


def theorem5(
    *,
    loss_gap,
    smoothness,
    grad_var,
    heterogeneity,
    local_steps,
    n_clients,
    samples_per_client,
    steps,
    rho_s,
    rho_c,
) -> FATSTheorem5:
    """Return the bound (10) at eta = 1 / (L sqrt(Gamma) T): a stability cost that stays, and a term
    of order E / T.

    Source: FATS, Theorem 5. ERRATA 23: sqrt(2) times this step would balance the first and last
    terms of (9), for 2 sqrt(2) in place of 3. `feasible` asks for T >= 2 lambda / sqrt(Gamma) and E
    / T < sqrt(Gamma / lambda) / 2, that is for R > 2 sqrt(lambda / Gamma) rounds: with unit
    constants 245 for the sizes that the paper gives MNIST, where R = 30.

    Parameters are those of `lemma4`, with loss_gap and grad_var > 0. Raises ValueError for values
    out of range."""
    loss_gap, smoothness, grad_var, heterogeneity = _constants(
        loss_gap, smoothness, grad_var, heterogeneity
    )
    n_clients, drawn, steps, rho_c = _sizes(n_clients, samples_per_client, steps, rho_s, rho_c)
    local_steps = checks.integer("local_steps", local_steps, 1, steps)
    gamma, share = grad_var / (smoothness * loss_gap * drawn), local_steps / steps
    stability_cost = 3 * math.sqrt(smoothness * grad_var * loss_gap / drawn)
    value = stability_cost + smoothness * loss_gap * share * (rho_c * n_clients * share + 1)
    feasible = _long_enough(steps, heterogeneity, gamma) and share < _largest_share(
        gamma, heterogeneity
    )
    return FATSTheorem5(value, 1 / (smoothness * math.sqrt(gamma) * steps), gamma, feasible)


def corollary6(
    *,
    loss_gap,
    smoothness,
    grad_var,
    heterogeneity,
    n_clients,
    samples_per_client,
    steps,
    rho_s,
    rho_c,
    alpha=None,
    c=None,
) -> FATSBound:
    """Return 4 G sqrt(L loss_gap / (rho_S M N)), the stability cost that both choices of E end at.

    Source: FATS, Corollary 6. The two cases differ in their conditions only: `alpha` is E = T^(1 -
    alpha), `c` is E = c T.

    Parameters
    ----------
    alpha : float in (0, 1], optional
    c : float in (0, 1], optional
        Exactly one of the two is given. feasible is False where c >= sqrt(Gamma / lambda) / 2.
    others
        As in `theorem5`.

    Raises
    ------
    ValueError
        For values out of range, or unless exactly one of alpha and c is given.
    """
    loss_gap, smoothness, grad_var, heterogeneity = _constants(
        loss_gap, smoothness, grad_var, heterogeneity
    )
    n_clients, drawn, steps, rho_c = _sizes(n_clients, samples_per_client, steps, rho_s, rho_c)
    if (alpha is None) == (c is None):
        raise ValueError(f"alpha={alpha!r}, c={c!r}: exactly one must be given")
    gamma = grad_var / (smoothness * loss_gap * drawn)
    feasible = _long_enough(steps, heterogeneity, gamma)
    if c is None:
        alpha = checks.real("alpha", alpha, high=1, above=0)
        share = (
            steps**-alpha
        )  # E / T; T >= x^(1/alpha) reads x T^-alpha <= 1, which cannot overflow
        feasible = (
            feasible
            and share <= _largest_share(gamma, heterogeneity)
            and rho_c * n_clients * share <= 1
        )
    else:
        c = checks.real("c", c, high=1, above=0)
        # M < 4 lambda^2 L loss_gap rho_S N / (G^2 rho_C^2), times M and with Gamma
        few_clients = (rho_c * n_clients) ** 2 * gamma < 4 * heterogeneity**2
        feasible = feasible and c < _largest_share(gamma, heterogeneity) and few_clients
    return FATSBound(4 * math.sqrt(smoothness * grad_var * loss_gap / drawn), feasible)


def theorem7(*, rho, requests, training_time=1.0) -> FATSTheorem7:
    """Return what w requests for samples (rho = rho_S) or clients (rho = rho_C) cost at most.

    Source: FATS, Theorem 2 for the probability w rho of any recomputation, Section 5.3.1 for the
    expected number of recomputations 4 w min(rho, 1), Theorem 7 for the order max(min(rho, 1) w
    training_time, w) of the expected time, where the look-up of a request counts 1 and the constant
    is left out. The number presumes that a part of the data stays: for one step with b = 1 on 100
    samples of one client, all but one forgotten in turn, it is 3.96, the exact one 4.19.

    Parameters
    ----------
    rho : float
        > 0; above 1 every request may cost a training, and feasible is False.
    requests : int
        w >= 0.
    training_time : float
        Cost of training from the start, > 0, in look-ups.

    Raises
    ------
    ValueError
        For values out of range.
    """
    rho, requests = checks.real("rho", rho, above=0), checks.integer("requests", requests, 0)
    training_time, capped = checks.real("training_time", training_time, above=0), min(rho, 1.0)
    time = max(capped * requests * training_time, float(requests))
    return FATSTheorem7(min(1.0, rho * requests), 4 * requests * capped, time, rho <= 1)


def _constants(loss_gap, smoothness, grad_var, heterogeneity) -> tuple:
    loss_gap, smoothness = (
        checks.real("loss_gap", loss_gap, above=0),
        checks.real("smoothness", smoothness, above=0),
    )
    return (
        loss_gap,
        smoothness,
        checks.real("grad_var", grad_var, above=0),
        checks.real("heterogeneity", heterogeneity, 1),
    )


def _sizes(n_clients, samples_per_client, steps, rho_s, rho_c) -> tuple:
    """Return M, rho_S M N = b K T (samples drawn in the whole run), T and rho_C."""
    n_clients, steps = checks.integer("n_clients", n_clients, 1), checks.integer("steps", steps, 1)
    drawn = (
        checks.real("rho_s", rho_s, above=0)
        * n_clients
        * checks.real("samples_per_client", samples_per_client, 1)
    )
    return n_clients, drawn, steps, checks.real("rho_c", rho_c, above=0)


def _long_enough(steps: int, heterogeneity: float, gamma: float) -> bool:
    return steps * math.sqrt(gamma) >= 2 * heterogeneity


def _largest_share(gamma: float, heterogeneity: float) -> float:
    return math.sqrt(gamma / heterogeneity) / 2
