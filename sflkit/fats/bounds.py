"""Bounds of FATS: how well a stable algorithm learns, and how much it recomputes to forget.

Source: FATS, Lemma 4, Theorem 5, Corollary 6, Theorem 7, with ERRATA 23. The flags `feasible` say
whether a statement's own conditions hold. The values are returned either way, since the paper's
settings break the conditions (ERRATA 23).

==================  ================  ============================================================
code                symbol            meaning
==================  ================  ============================================================
loss_gap            F(theta_0) - F*   loss at the start above its minimum
smoothness          L                 Lipschitz constant of the gradients (Assumption 1)
grad_var            G^2               bound on b times the variance of a mini-batch gradient
                                      (Assumption 2)
heterogeneity       lambda            bound on the gradient dissimilarity, >= 1 (Assumption 3)
local_steps         E                 steps per round
n_clients           M                 clients
samples_per_client  N                 samples of a client (a mean is fine)
steps               T = R E           steps of the run
rho_s, rho_c        rho_S, rho_C      stability towards a sample, a client; above 1 they no longer
                                      bound anything
rate                eta               step size
gamma               Gamma             G^2 / (L loss_gap rho_S M N), dimensionless
drawn               rho_S M N         b K T, the samples drawn in the whole run
==================  ================  ============================================================

A number out of its range, which its annotation says, raises ValueError.
"""

from __future__ import annotations

import math
from typing import Annotated, NamedTuple

from sflkit import checks
from sflkit.config import Count, NotNegative, Number, Positive, Whole, checked

AtLeastOne = Annotated[float, Number(1)]
ShareAboveNone = Annotated[float, Number(high=1, above=0)]


class Bound(NamedTuple):
    """A bound on the mean squared gradient over the T steps, and whether its conditions hold."""

    value: float
    feasible: bool


class Theorem5(NamedTuple):
    """Theorem 5's bound, its step size, Gamma, and whether its conditions hold."""

    value: float
    rate: float
    gamma: float
    feasible: bool


class Theorem7(NamedTuple):
    """Bounds on what w requests cost, and whether they say anything (rho <= 1)."""

    probability: float
    recomputations: float
    time: float
    feasible: bool


@checked
def lemma4(
    *,
    loss_gap: NotNegative,
    smoothness: Positive,
    grad_var: NotNegative,
    heterogeneity: AtLeastOne,
    local_steps: Count,
    n_clients: Count,
    samples_per_client: AtLeastOne,
    steps: Count,
    rho_s: Positive,
    rho_c: Positive,
    rate: Positive,
) -> Bound:
    """Return the bound (9) on the mean squared gradient for any step size.

    Source: FATS, Lemma 4; (9) is (8) with K = rho_C E M / T and K b = rho_S M N / T. `feasible` is
    condition (7).

    Raises
    ------
    ValueError
        For values out of range, or local_steps above steps.
    """
    checks.integer("local_steps", local_steps, 1, steps)
    drawn = rho_s * n_clients * samples_per_client
    drift = rho_c * local_steps * n_clients + steps
    value = (
        2 * loss_gap / (rate * steps)
        + (rate * smoothness) ** 2 * grad_var * local_steps * drift / drawn
        + rate * smoothness * grad_var * steps / drawn
    )
    # (7) divided by eta
    curvature = (rate * smoothness) ** 2 * heterogeneity * local_steps * (local_steps - 1)
    return Bound(value, -0.5 + curvature + rate * heterogeneity * smoothness / 2 < 0)


@checked
def theorem5(
    *,
    loss_gap: Positive,
    smoothness: Positive,
    grad_var: Positive,
    heterogeneity: AtLeastOne,
    local_steps: Count,
    n_clients: Count,
    samples_per_client: AtLeastOne,
    steps: Count,
    rho_s: Positive,
    rho_c: Positive,
) -> Theorem5:
    """Return the bound (10), which is (9) at the step size eta = 1 / (L sqrt(Gamma) T).

    It is the sum of a stability cost that stays, and a term of order E / T. Source: FATS, Theorem
    5. ERRATA 23: sqrt(2) times this step would balance the first and last terms of (9), for 2
    sqrt(2) in place of 3.

    `feasible` asks for T >= 2 lambda / sqrt(Gamma) and E / T < sqrt(Gamma / lambda) / 2, that is
    for R > 2 sqrt(lambda / Gamma) rounds: with unit constants 245 for the sizes that the paper
    gives MNIST, where R = 30.

    Raises
    ------
    ValueError
        For values out of range, or local_steps above steps.
    """
    checks.integer("local_steps", local_steps, 1, steps)
    drawn = rho_s * n_clients * samples_per_client
    gamma, cost = _gamma_and_cost(loss_gap, smoothness, grad_var, drawn)
    share = local_steps / steps
    value = 3 * cost + smoothness * loss_gap * share * (rho_c * n_clients * share + 1)
    long_enough, largest_share = _conditions(gamma, heterogeneity, steps)
    rate = 1 / (smoothness * math.sqrt(gamma) * steps)
    return Theorem5(value, rate, gamma, long_enough and share < largest_share)


@checked
def corollary6(
    *,
    loss_gap: Positive,
    smoothness: Positive,
    grad_var: Positive,
    heterogeneity: AtLeastOne,
    n_clients: Count,
    samples_per_client: AtLeastOne,
    steps: Count,
    rho_s: Positive,
    rho_c: Positive,
    alpha: ShareAboveNone | None = None,
    c: ShareAboveNone | None = None,
) -> Bound:
    """Return 4 G sqrt(L loss_gap / (rho_S M N)), the stability cost that both choices of E end at.

    Source: FATS, Corollary 6. The two cases differ in their conditions only: `alpha` is E = T^(1 -
    alpha), `c` is E = c T; exactly one is given. `feasible` is False where c >= sqrt(Gamma /
    lambda) / 2.

    Raises
    ------
    ValueError
        For values out of range, or unless exactly one of alpha and c is given.
    """
    if (alpha is None) == (c is None):
        raise ValueError(f"alpha={alpha!r}, c={c!r}: exactly one must be given")
    drawn = rho_s * n_clients * samples_per_client
    gamma, cost = _gamma_and_cost(loss_gap, smoothness, grad_var, drawn)
    long_enough, largest_share = _conditions(gamma, heterogeneity, steps)
    drawn_clients = rho_c * n_clients  # K R
    if c is None:
        # E / T; the condition T >= x^(1/alpha) is x T^-alpha <= 1, which cannot overflow.
        share = steps**-alpha
        fits = share <= largest_share and drawn_clients * share <= 1
    else:
        # M < 4 lambda^2 L loss_gap rho_S N / (G^2 rho_C^2), times M and with Gamma
        fits = c < largest_share and drawn_clients**2 * gamma < 4 * heterogeneity**2
    return Bound(4 * cost, long_enough and fits)


def _gamma_and_cost(
    loss_gap: float, smoothness: float, grad_var: float, drawn: float
) -> tuple[float, float]:
    """Return Gamma, and the unit of the stability cost, sqrt(L G^2 loss_gap / (rho_S M N))."""
    cost = math.sqrt(smoothness * grad_var * loss_gap / drawn)
    return grad_var / (smoothness * loss_gap * drawn), cost


def _conditions(gamma: float, heterogeneity: float, steps: int) -> tuple[bool, float]:
    """Return whether T >= 2 lambda / sqrt(Gamma), and the E / T that is allowed at most."""
    return steps * math.sqrt(gamma) >= 2 * heterogeneity, math.sqrt(gamma / heterogeneity) / 2


@checked
def theorem7(
    *, rho: Positive, requests: Annotated[int, Whole(0)], training_time: Positive = 1.0
) -> Theorem7:
    """Return what w requests for samples (rho = rho_S) or clients (rho = rho_C) cost at most.

    Source: FATS, Theorem 2 for the probability w rho of any recomputation, Section 5.3.1 for the
    expected number of recomputations 4 w min(rho, 1), Theorem 7 for the order max(min(rho, 1) w
    training_time, w) of the expected time, where the look-up of a request counts 1, as does a unit
    of `training_time`, that of training from the start, and the constant is left out. Above rho = 1
    every request may cost a training, and `feasible` is False. The number presumes that a part of
    the data stays: for one step with b = 1 on 100 samples of one client, all but one forgotten in
    turn, it is 3.96, the exact one 4.19.

    Raises
    ------
    ValueError
        For values out of range.
    """
    capped = min(rho, 1.0)
    time = max(capped * requests * training_time, float(requests))
    return Theorem7(min(1.0, rho * requests), 4 * requests * capped, time, rho <= 1)
