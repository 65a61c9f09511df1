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
"""

from __future__ import annotations

import math
from typing import Annotated, NamedTuple

from sflkit import checks
from sflkit.config import Count, Number, Positive, settings


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


@settings
class _Setting:
    """The constants of a problem and a run that Theorem 5 and Corollary 6 share."""

    loss_gap: Positive
    smoothness: Positive
    grad_var: Positive
    heterogeneity: Annotated[float, Number(1)]
    n_clients: Count
    samples_per_client: Annotated[float, Number(1)]
    steps: Count
    rho_s: Positive
    rho_c: Positive

    @property
    def drawn(self) -> float:
        return self.rho_s * self.n_clients * self.samples_per_client

    @property
    def gamma(self) -> float:
        return self.grad_var / (self.smoothness * self.loss_gap * self.drawn)

    @property
    def scale(self) -> float:
        """The square root of L G^2 loss_gap / (rho_S M N), the unit of the stability cost."""
        return math.sqrt(self.smoothness * self.grad_var * self.loss_gap / self.drawn)

    @property
    def largest_share(self) -> float:
        """The E / T that the statements allow at most."""
        return math.sqrt(self.gamma / self.heterogeneity) / 2

    @property
    def long_enough(self) -> bool:
        """Whether T >= 2 lambda / sqrt(Gamma)."""
        return self.steps * math.sqrt(self.gamma) >= 2 * self.heterogeneity


def lemma4(
    *,
    loss_gap: float,
    smoothness: float,
    grad_var: float,
    heterogeneity: float,
    local_steps: int,
    n_clients: int,
    samples_per_client: float,
    steps: int,
    rho_s: float,
    rho_c: float,
    rate: float,
) -> Bound:
    """Return the bound (9) on the mean squared gradient for any step size.

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

    Returns
    -------
    Bound
        `feasible` is condition (7).

    Raises
    ------
    ValueError
        For values out of range.
    """
    loss_gap = checks.real("loss_gap", loss_gap, 0)
    grad_var = checks.real("grad_var", grad_var, 0)
    smoothness = checks.real("smoothness", smoothness, above=0)
    heterogeneity = checks.real("heterogeneity", heterogeneity, 1)
    n_clients = checks.integer("n_clients", n_clients, 1)
    steps = checks.integer("steps", steps, 1)
    rho_s = checks.real("rho_s", rho_s, above=0)
    drawn = rho_s * n_clients * checks.real("samples_per_client", samples_per_client, 1)
    rho_c = checks.real("rho_c", rho_c, above=0)
    local_steps = checks.integer("local_steps", local_steps, 1, steps)
    rate = checks.real("rate", rate, above=0)
    drift = rho_c * local_steps * n_clients + steps
    value = (
        2 * loss_gap / (rate * steps)
        + (rate * smoothness) ** 2 * grad_var * local_steps * drift / drawn
        + rate * smoothness * grad_var * steps / drawn
    )
    # (7) divided by eta
    curvature = (rate * smoothness) ** 2 * heterogeneity * local_steps * (local_steps - 1)
    return Bound(value, -0.5 + curvature + rate * heterogeneity * smoothness / 2 < 0)


def theorem5(
    *,
    loss_gap: float,
    smoothness: float,
    grad_var: float,
    heterogeneity: float,
    local_steps: int,
    n_clients: int,
    samples_per_client: float,
    steps: int,
    rho_s: float,
    rho_c: float,
) -> Theorem5:
    """Return the bound (10), which is (9) at the step size eta = 1 / (L sqrt(Gamma) T).

    It is the sum of a stability cost that stays, and a term of order E / T. Source: FATS, Theorem
    5. ERRATA 23: sqrt(2) times this step would balance the first and last terms of (9), for 2
    sqrt(2) in place of 3.

    Parameters
    ----------
    loss_gap, grad_var : float
        > 0.
    others
        As in `lemma4`.

    Returns
    -------
    Theorem5
        `feasible` asks for T >= 2 lambda / sqrt(Gamma) and E / T < sqrt(Gamma / lambda) / 2, that
        is for R > 2 sqrt(lambda / Gamma) rounds: with unit constants 245 for the sizes that the
        paper gives MNIST, where R = 30.

    Raises
    ------
    ValueError
        For values out of range.
    """
    setting = _Setting(
        loss_gap, smoothness, grad_var, heterogeneity, n_clients, samples_per_client, steps,
        rho_s, rho_c,
    )  # fmt: skip
    local_steps = checks.integer("local_steps", local_steps, 1, setting.steps)
    share = local_steps / setting.steps
    clients = setting.rho_c * setting.n_clients * share + 1
    value = 3 * setting.scale + setting.smoothness * setting.loss_gap * share * clients
    rate = 1 / (setting.smoothness * math.sqrt(setting.gamma) * setting.steps)
    feasible = setting.long_enough and share < setting.largest_share
    return Theorem5(value, rate, setting.gamma, feasible)


def corollary6(
    *,
    loss_gap: float,
    smoothness: float,
    grad_var: float,
    heterogeneity: float,
    n_clients: int,
    samples_per_client: float,
    steps: int,
    rho_s: float,
    rho_c: float,
    alpha: float | None = None,
    c: float | None = None,
) -> Bound:
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
    setting = _Setting(
        loss_gap, smoothness, grad_var, heterogeneity, n_clients, samples_per_client, steps,
        rho_s, rho_c,
    )  # fmt: skip
    if (alpha is None) == (c is None):
        raise ValueError(f"alpha={alpha!r}, c={c!r}: exactly one must be given")
    drawn_clients = setting.rho_c * setting.n_clients  # K R
    if c is None:
        alpha = checks.real("alpha", alpha, high=1, above=0)
        # E / T; the condition T >= x^(1/alpha) is x T^-alpha <= 1, which cannot overflow.
        share = setting.steps**-alpha
        fits = share <= setting.largest_share and drawn_clients * share <= 1
    else:
        c = checks.real("c", c, high=1, above=0)
        # M < 4 lambda^2 L loss_gap rho_S N / (G^2 rho_C^2), times M and with Gamma
        few_clients = drawn_clients**2 * setting.gamma < 4 * setting.heterogeneity**2
        fits = c < setting.largest_share and few_clients
    return Bound(4 * setting.scale, setting.long_enough and fits)


def theorem7(*, rho: float, requests: int, training_time: float = 1.0) -> Theorem7:
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
    rho = checks.real("rho", rho, above=0)
    requests = checks.integer("requests", requests, 0)
    training_time = checks.real("training_time", training_time, above=0)
    capped = min(rho, 1.0)
    time = max(capped * requests * training_time, float(requests))
    return Theorem7(min(1.0, rho * requests), 4 * requests * capped, time, rho <= 1)
