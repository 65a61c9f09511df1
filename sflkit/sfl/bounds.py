"""Bounds of the streaming-FL paper: how far caches are from streams, and how training converges.

Source: SFL, Propositions 1-3, Corollaries 1-2, Lemmas 1-2, Theorem 1, with the corrections of
ERRATA 5-11.

================  ==============  ================================================================
code              symbol          meaning
================  ==============  ================================================================
cache_rounds      M = B / B_s     rounds of arrivals the cache holds
corr_rounds       Gamma           rounds over which label shares are correlated (Assumption 1)
delta2            delta^2         largest autocovariance of a label share
theta             theta           SRSR's weight of new data
t                 t               round, counted from 1
lambda2           lambda_t^2      per-round bound on E[(v - pi)^2], (17)
n_classes         R               classes
max_share         pi-bar          largest long-term label share of any client
n_clients         K               clients
rounds            T               communication rounds
local_steps       E               full-batch gradient steps per round
local_rate        eta_L           step size of a client
global_rate       eta             step size of the server
smoothness        L               Lipschitz constant of the gradients
sigma_m2          sigma_M^2       bound on the squared label-wise gradient (Assumption 5)
sigma_g2          sigma_G^2       additive client dissimilarity (Assumption 4)
dissimilarity2    A^2             multiplicative client dissimilarity (Assumption 4)
================  ==============  ================================================================
"""

from __future__ import annotations

import math
from typing import Annotated, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from sflkit import checks
from sflkit.config import Count, NotNegative, Number, Positive, Share, checked

AtLeastOne = Annotated[float, Number(1)]
ShareAboveNone = Annotated[float, Number(high=1, above=0)]


@checked
def fifo_discrepancy(
    cache_rounds: AtLeastOne, corr_rounds: NotNegative, delta2: NotNegative
) -> float:
    """Return the bound min(2 Gamma + 1, M) delta^2 / M on E[(v - pi)^2] under FIFO.

    Source: SFL, Proposition 1, (9).

    Raises
    ------
    ValueError
        If cache_rounds < 1, corr_rounds < 0 or delta2 < 0.
    """
    return min(2 * corr_rounds + 1, cache_rounds) / cache_rounds * delta2


@checked
def srsr_discrepancy(
    t: ArrayLike,
    cache_rounds: AtLeastOne,
    theta: Share,
    corr_rounds: NotNegative,
    delta2: NotNegative,
    share: Share,
    start: Share = 0.0,
) -> float | np.ndarray:
    """Return the bound on E[(v_t - pi)^2] under SRSR after t rounds.

    Source: SFL, Proposition 2, (13), for v = counts / B. ERRATA 5: the printed pi^2 is (v_0 - pi)^2
    with v_0 = 0, an empty cache; `start` gives any other v_0.

    Parameters
    ----------
    t : int or int array
        Rounds, >= 1.
    cache_rounds, theta, corr_rounds, delta2 : float
        M >= 1, theta in [0, 1], Gamma >= 0, delta^2 >= 0.
    share, start : float
        pi and v_0 of the label, in [0, 1].

    Returns
    -------
    float, or array like t. Infinite for theta = M = 1 with Gamma > 0, where (13) divides by zero
    (ERRATA 6).

    Raises
    ------
    ValueError
        If an argument is out of range.
    """
    step = theta / cache_rounds
    forgotten = (1 - step) ** (2 * _rounds("t", t))
    limit = _srsr_limit(step, corr_rounds, delta2)
    # ERRATA 5: pi^2 in (13) holds for an empty start only
    bound = 2 * forgotten * (share - start) ** 2 + (1 - forgotten) * limit
    return bound if np.ndim(t) else float(bound)


@checked
def srsr_discrepancy_limit(
    cache_rounds: AtLeastOne, theta: ShareAboveNone, corr_rounds: NotNegative, delta2: NotNegative
) -> float:
    """Return the limit of `srsr_discrepancy` for t to infinity, with theta > 0.

    Source: SFL, Corollary 1. It is infinite for theta = M = 1 with Gamma > 0 (ERRATA 6).

    Raises
    ------
    ValueError
        If an argument is out of range; also for theta = 0, where nothing new is ever weighed.
    """
    return _srsr_limit(theta / cache_rounds, corr_rounds, delta2)


@checked
def drsr_discrepancy(
    t: ArrayLike, corr_rounds: NotNegative, delta2: NotNegative
) -> float | np.ndarray:
    """Return the bound min(2 Gamma + 1, t) delta^2 / t on E[(v_t - pi)^2] under DRSR.

    Source: SFL, Proposition 3, (15), with the cap min(., t) it lacks (ERRATA 8). `t` may be an int
    >= 1 or an array of them, and the answer has its form.

    Raises
    ------
    ValueError
        If an argument is out of range.
    """
    rounds = _rounds("t", t)
    # ERRATA 8: (15) has no cap, so that for t < 2 Gamma + 1 it exceeds delta^2; no average can
    bound = np.minimum(2 * corr_rounds + 1, rounds) / rounds * delta2
    return bound if np.ndim(t) else float(bound)


class Lemma1(NamedTuple):
    """Squared distances of gradients: real from virtual, and virtual from expected."""

    real_to_virtual: float
    virtual_to_expected: float


@checked
def lemma1(
    *, n_classes: Count, lambda2: NotNegative, sigma_m2: NotNegative, max_share: ShareAboveNone
) -> Lemma1:
    """Return R^2 lambda_t^2 sigma_M^2 and 2 R^2 pi-bar^2 sigma_M^2.

    Source: SFL, Lemma 1, (49) and (54) of the preprint. Raises ValueError for numbers out of range.
    """
    return Lemma1(n_classes**2 * lambda2 * sigma_m2, 2 * (n_classes * max_share) ** 2 * sigma_m2)


class Lemma2(NamedTuple):
    """The four terms of the local drift bound, their sum, and whether the step size allows it."""

    lambda_term: float
    share_term: float
    dissimilarity_term: float
    gradient_term: float
    total: float
    feasible: bool


@checked
def lemma2(
    *,
    smoothness: Positive,
    local_rate: Positive,
    local_steps: Count,
    n_classes: Count,
    max_share: ShareAboveNone,
    lambda2: NotNegative,
    sigma_m2: NotNegative,
    sigma_g2: NotNegative,
    dissimilarity2: NotNegative,
    grad_norm2: NotNegative,
) -> Lemma2:
    """Return the bound on E||w_{t,tau}^k - w_t||^2, a client's drift within a round, term by term.

    Source: SFL, Lemma 2, (18). ERRATA 11: the lambda term treats a deviation that is constant
    within the round as fresh noise, so it alone can be exceeded; the function returns what is
    printed. Raises ValueError for numbers out of range.
    """
    gaps = lemma1(n_classes=n_classes, lambda2=lambda2, sigma_m2=sigma_m2, max_share=max_share)
    square = (local_steps * local_rate) ** 2
    terms = (
        # ERRATA 11: (E-1)^2 can be reached where 5E is printed
        5 * local_steps * local_rate**2 * gaps.real_to_virtual,
        30 * square * gaps.virtual_to_expected,
        30 * square * sigma_g2,
        30 * square * (dissimilarity2 + 1) * grad_norm2,
    )
    return Lemma2(*terms, sum(terms), local_rate <= 1 / (8 * smoothness * local_steps))


class SFLConvergence(NamedTuple):
    """Theorem 1's terms.

    `total` is what the paper prints, and `phi_m_missing` what its proof drops on the way.
    `feasible` says whether the step sizes and c are such that the theorem speaks.
    """

    vanishing: float
    phi_g: float
    phi_m: float
    phi_l: float
    phi_m_missing: float
    total: float
    c: float
    feasible: bool


@checked
def theorem1(
    *,
    loss_gap: NotNegative,
    rounds: Count,
    local_steps: Count,
    smoothness: Positive,
    local_rate: Positive,
    global_rate: Positive,
    n_classes: Count,
    max_share: ShareAboveNone,
    sigma_m2: NotNegative,
    sigma_g2: NotNegative,
    dissimilarity2: NotNegative,
    lambda2: ArrayLike,
    n_clients: Count,
    c: Annotated[float, Number()] | None = None,
) -> SFLConvergence:
    """Return the bound on min_t E||grad f(w_t)||^2 and its parts.

    Source: SFL, Theorem 1, (19)-(22); `phi_m_missing` is the term 2 L eta eta_L R^2 pi-bar^2
    sigma_M^2 / (c K) that (88) of the preprint drops (ERRATA 9), reported beside `total`, not in
    it.

    Parameters
    ----------
    loss_gap : float
        f(w_0) - f(w*), >= 0.
    rounds, local_steps, n_classes, n_clients : int
        T, E, R, K, each >= 1.
    smoothness, local_rate, global_rate : float
        L, eta_L, eta, each > 0.
    max_share : float
        pi-bar in (0, 1].
    sigma_m2, sigma_g2, dissimilarity2 : float
        sigma_M^2, sigma_G^2, A^2, each >= 0.
    lambda2 : array (rounds,)
        Per-round bounds lambda_t^2 of rounds t = 1..T (ERRATA 8).
    c : float, optional
        The theorem's constant; by default the largest it admits, 1/2 - 30 (A^2 + 1) eta_L^2 E^2
        L^2.

    Returns
    -------
    SFLConvergence
        With c <= 0 every term and the total are infinite and feasible is False. `feasible` also
        asks for eta_L < 1 / (sqrt(60 (A^2+1)) E L) (ERRATA 10), eta_L <= 1/(8LE), eta eta_L <=
        1/(4EL) and c no larger than admitted.

    Raises
    ------
    ValueError
        For values out of range or lambda2 not of length `rounds`.
    """
    mean_lambda2 = _mean_lambda2(lambda2, rounds)
    drift = (local_rate * local_steps * smoothness) ** 2
    product = global_rate * local_rate
    largest_c = 0.5 - 30 * (dissimilarity2 + 1) * drift
    c = largest_c if c is None else c
    if c <= 0:
        return SFLConvergence(*(math.inf,) * 6, c, False)
    spread = (n_classes * max_share) ** 2 * sigma_m2
    factor = 5 * local_rate**2 * local_steps * smoothness**2
    factor = factor + 3 * product * smoothness * local_steps + 1
    terms = (
        loss_gap / (c * product * local_steps * rounds),
        30 * drift * sigma_g2 / c,
        60 * drift * spread / c,
        factor * n_classes**2 * sigma_m2 * mean_lambda2 / c,
    )
    # ERRATA 9: (88) drops this term, which decays more slowly than the O(1/T) that Corollary 2
    # states for Phi_M
    missing = 2 * smoothness * product * spread / (c * n_clients)
    # ERRATA 10: E L stands outside the root, else c > 0 does not follow
    root = math.sqrt(60 * (dissimilarity2 + 1))
    feasible = (
        c <= largest_c
        and local_rate * root * local_steps * smoothness < 1
        and 8 * smoothness * local_steps * local_rate <= 1
        and 4 * local_steps * smoothness * product <= 1
    )
    return SFLConvergence(*terms, missing, sum(terms), c, feasible)


class SFLRates(NamedTuple):
    """Step sizes of Corollary 2."""

    local_rate: float
    global_rate: float


@checked
def corollary2(*, rounds: Count, local_steps: Count, n_clients: Count) -> SFLRates:
    """Return the step sizes eta_L = 1 / (sqrt(T) E) and eta = sqrt(E K).

    With them Theorem 1 gives the orders of Corollary 2. Source: SFL, Corollary 2. Printed is
    eta_L = 1 / sqrt(T E), whose orders would be 1 / (E sqrt(K T)) and Phi_G = O(E / T), not the
    stated 1 / sqrt(E K T) and O(1 / T); as in ERRATA 10, E stands under the root by mistake.

    Raises
    ------
    ValueError
        Unless all are integers >= 1.
    """
    return SFLRates(1 / (math.sqrt(rounds) * local_steps), math.sqrt(local_steps * n_clients))


def _mean_lambda2(lambda2: ArrayLike, rounds: int) -> float:
    lambda2 = checks.array("lambda2", lambda2, low=0)
    return float(checks.shape("lambda2", lambda2, (rounds,), like="rounds").mean())


def _rounds(name: str, t: ArrayLike) -> np.ndarray:
    rounds = checks.array(name, t, low=1)
    if (rounds != np.floor(rounds)).any():
        raise ValueError(f"{name}={t!r} must be whole rounds, counted from 1")
    return rounds


def _srsr_limit(step: float, corr_rounds: float, delta2: float) -> float:
    if step == 1 and corr_rounds > 0:
        return math.inf  # ERRATA 6: (1 - step)^-Gamma divides by zero
    try:
        return (
            2 * ((1 - step) ** -corr_rounds - (1 - step) ** (corr_rounds + 1)) / (2 - step) * delta2
        )
    except OverflowError:
        return math.inf
