"""Convergence bound and score of online-score-aided federated learning.

Source: OSAFL, Theorem 1, Remark 4, problem (31) and its solution (34), with ERRATA 31 to 33.

=============  =========  ===============================================================
code           symbol     meaning; arrays are over clients, (n_clients,)
=============  =========  ===============================================================
loss_decrease  -          E f(w^t | D^t) - E f(w^(t+1) | D^(t+1)) of the round; any sign
beta           beta       Lipschitz constant of the gradients
rate           eta        local step size
global_rate    eta-tilde  server step size
sigma2         sigma^2    variance of the stochastic gradients
alpha          alpha_u    aggregation weights, sum 1
score          Delta_u    scores, >= 0
similarity     lambda_u   shifted cosine similarity (21)
local_steps    kappa_u    local steps, >= 1
shift          Phi_u      squared gradient shift of the client's data between two rounds
                          (23)
skew           delta_u    distance of the client's label distribution from the global one
                          (22)
rho1, rho2     rho_1,     gradient dissimilarity (Assumption 3), rho_1 >= 1, rho_2 >= 0
               rho_2
psi            psi        weight of A in (28), >= 0
=============  =========  ===============================================================
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from sflkit import checks


class OSAFLBound(NamedTuple):
    """One round's term of (24), its A, and whether the theorem's step sizes hold and A > 0."""

    value: float
    a: float
    feasible: bool


def theorem1(
    *,
    loss_decrease: float,
    beta: float,
    rate: float,
    global_rate: float,
    sigma2: float,
    alpha: ArrayLike,
    score: ArrayLike,
    similarity: ArrayLike,
    local_steps: ArrayLike,
    shift: ArrayLike,
    rho1: float,
    rho2: float,
    skew: ArrayLike,
) -> OSAFLBound:
    """Return one round's term of the bound (24) on the mean of E||grad f(w^t)||^2 over the rounds.

    Source: OSAFL, Theorem 1. It is what the paper prints, not a safe bound: its proof drops a
    factor of up to 1 / (1 - 8 beta^2 eta^2 kappa^2) between (75) and (76), and (65) compares the
    losses of two data sets without a term for the drift (ERRATA 33). With similarity = score / 2
    instead of (21), which the proof allows, it is least at score 0, so that it does not justify the
    score (ERRATA 32).

    Parameters
    ----------
    loss_decrease : float
    beta, rate, global_rate : float
        > 0.
    sigma2, rho2 : float
        >= 0.
    rho1 : float
        >= 1.
    alpha : array (n_clients,)
        Sums to 1.
    score, similarity, shift, skew : array (n_clients,) or float
        >= 0.
    local_steps : array (n_clients,) or int
        Whole, >= 1; leave out clients that took no step.

    Returns
    -------
    OSAFLBound
        ERRATA 33: the printed conditions allow A <= 0, which bounds nothing; then value is inf.
        `feasible` asks for A > 0, eta eta-tilde <= 1 / beta and eta < 1 / (2 sqrt(2) beta kappa).

    Raises
    ------
    ValueError
        For values out of range or arrays of different lengths.
    """
    loss_decrease = checks.real("loss_decrease", loss_decrease)
    r = _Round(
        beta, rate, global_rate, sigma2, alpha, similarity, local_steps, shift, rho1, rho2, skew
    )
    a, noise = _terms(r, _clients("score", score, r.alpha))
    if a <= 0:
        # ERRATA 33: eta = 0.06, beta = 1, kappa = 5 meet the printed conditions and give A = -0.44.
        return OSAFLBound(math.inf, a, False)
    server_fits = r.rate * r.global_rate <= 1 / r.beta
    local_fits = r.rate * 2 * math.sqrt(2) * r.beta * r.local_steps.max() < 1
    value = (2 * loss_decrease / (r.rate * r.global_rate) + noise) / a
    return OSAFLBound(value, a, server_fits and local_fits)


def score_objective(score: ArrayLike, *, psi: float, **of_round: ArrayLike) -> float:
    """Return the surrogate (30) that the scores minimise: the noise terms of (24) minus psi A.

    Parameters
    ----------
    score : array (n_clients,) or float
        >= 0.
    psi : float
        >= 0.
    of_round
        beta, rate, global_rate, sigma2, alpha, similarity, local_steps, shift, rho1, rho2 and skew,
        as in `theorem1`.

    Raises
    ------
    ValueError
        As `theorem1`.
    """
    r = _Round(**of_round)
    a, noise = _terms(r, _clients("score", score, r.alpha))
    return noise - checks.real("psi", psi, 0) * a


def optimal_scores(*, psi: float, **of_round: ArrayLike) -> np.ndarray:
    """Return the scores that minimise (30) over scores >= 0, shape (n_clients,).

    Source: OSAFL, (34), with multiplier 0: the similarity is not negative, so that the constraint
    never binds and the "constant" of (35) is 0. The algorithm itself uses score = similarity, as
    the paper simulates it.

    Parameters
    ----------
    psi : float
        >= 0.
    of_round
        beta, rate, global_rate, sigma2, alpha, similarity, local_steps, shift, rho1, rho2 and skew,
        as in `theorem1`.

    Raises
    ------
    ValueError
        As `theorem1`.
    """
    r = _Round(**of_round)
    psi = checks.real("psi", psi, 0)
    drift = (r.beta * r.rate * r.local_steps) ** 2
    # ERRATA 31: the last term of C_u lacks psi in print
    pull = r.alpha * (
        8 * r.local_steps * (r.beta * r.rate) ** 2 * r.sigma2
        + (64 * r.shift + 32 * r.rho2 * r.skew + 32 * psi * r.rho1) * drift
    )
    brake = 2 * r.beta * r.rate * r.global_rate * r.sigma2 * r.alpha**2
    whole = brake + pull
    # Without noise, shift, skew and psi every score is optimal; the similarity is the limit.
    scores = np.where(whole > 0, pull / np.where(whole > 0, whole, 1.0), 1.0) * r.similarity
    if np.isnan(scores).any():
        k = int(np.isnan(scores).argmax())
        raise ValueError(
            f"local_steps={r.local_steps[k]}, shift={r.shift[k]} and skew={r.skew[k]} of client "
            f"{k} are too large to compute with"
        )
    return scores


@dataclass
class _Round:
    """The checked arguments of one round; every array has one entry per client."""

    beta: float
    rate: float
    global_rate: float
    sigma2: float
    alpha: ArrayLike
    similarity: ArrayLike
    local_steps: ArrayLike
    shift: ArrayLike
    rho1: float
    rho2: float
    skew: ArrayLike

    def __post_init__(self):
        self.alpha = checks.simplex("alpha", self.alpha)
        self.beta = checks.real("beta", self.beta, above=0)
        self.rate = checks.real("rate", self.rate, above=0)
        self.global_rate = checks.real("global_rate", self.global_rate, above=0)
        self.local_steps = _clients("local_steps", self.local_steps, self.alpha, low=1)
        if (self.local_steps != np.floor(self.local_steps)).any():
            raise ValueError(f"local_steps={self.local_steps} must be whole numbers >= 1")
        self.similarity = _clients("similarity", self.similarity, self.alpha)
        self.shift = _clients("shift", self.shift, self.alpha)
        self.skew = _clients("skew", self.skew, self.alpha)
        self.sigma2 = checks.real("sigma2", self.sigma2, 0)
        self.rho1 = checks.real("rho1", self.rho1, 1)
        self.rho2 = checks.real("rho2", self.rho2, 0)


def _clients(name: str, value: ArrayLike, alpha: np.ndarray, low: float = 0.0) -> np.ndarray:
    """Return `value` with one entry per client, each at least `low`."""
    out = checks.array(name, value, low=low)
    return np.broadcast_to(checks.shape(name, out, (), alpha.shape), alpha.shape)


def _terms(r: _Round, score: np.ndarray) -> tuple[float, float]:
    """Return A of (24), and the sum of its terms 2 to 5 before the division by A."""
    b = score**2 - 2 * score * r.similarity + 2 * r.similarity**2
    drift = (r.beta * r.rate * r.local_steps) ** 2
    gradients = (
        r.beta
        * r.rate
        * r.sigma2
        * (r.alpha * (r.global_rate * r.alpha * score**2 + 4 * r.beta * r.rate * r.local_steps * b))
    )
    data = r.alpha * b * (32 * r.shift + 16 * r.rho2 * r.skew) * drift
    return float(1 - 16 * r.rho1 * (r.alpha * drift * b).sum()), float((gradients + data).sum())
