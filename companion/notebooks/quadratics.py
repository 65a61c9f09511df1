"""Theorem 1 of OSAFL on problems whose constants and means are known exactly.

Source: OSAFL, Section IV, Theorem 1, (18), (24) to (26), Remarks 3 and 4, with the corrections of
ERRATA 33 and 58. Client u has the loss f_u(w) = a_u |w - m_u|^2 / 2 and gradient noise of variance
sigma^2. Updates are linear in w, so that mean and variance of the model, and with them the expected
squared gradient and the loss, follow by an exact recursion as long as scores are fixed.

| code            | symbol           | shape | meaning                                          |
|-----------------|------------------|-------|--------------------------------------------------|
| curvature       | a_u              | (U,)  | at most 1, so that beta = 1                      |
| centres         | m_u              | (U, N)| the clients' minimisers                          |
| score           | Delta_u          | (U,)  | weights of the updates, also the similarity here |
| kappa           | kappa_u          | (U,)  | local steps                                      |
| rate            | eta              |       | local rate                                       |
| product         | eta eta~         |       | local times server rate                          |
| weight, of_loss | alpha_u Delta_u  | (U,)  | weights of the step, and of the loss (18)        |
| pulls           |                  | (U,)  | a round's mean move is sum of pulls * (m_u - w)  |
| rho1, skew      | rho_1, delta_u   |       | gradient dissimilarity; rho_2 is 1               |

"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise, product
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from sflkit.osafl import bounds
from sflkit.randomness import generator

_ALONE = {"alpha": [1.0], "score": [1.0], "similarity": [1.0], "rho1": 1.0, "rho2": 0.0}


class Problem(NamedTuple):
    """Clients with quadratic losses, and where training starts; see the module."""

    curvature: np.ndarray
    centres: np.ndarray
    start: np.ndarray
    alpha: np.ndarray

    @property
    def kappas(self) -> dict[str, np.ndarray]:
        """The numbers of local steps that are tried."""
        n = len(self.alpha)
        return {"1": np.ones(n, int), "5": np.full(n, 5), "mixed": 1 + np.arange(n) % 5}

    @property
    def fixed_scores(self) -> dict[str, np.ndarray]:
        """The scores that are tried."""
        n = len(self.alpha)
        even = {"1": 1.0, "3/4": 0.75, "1/2": 0.5, "1/4": 0.25}
        tried = {name: np.full(n, value) for name, value in even.items()}
        return tried | {"mixed": np.linspace(0.2, 1, n)}

    def minimum(self, of_loss: np.ndarray, centres: np.ndarray) -> tuple[float, np.ndarray]:
        """Return curvature and minimiser of the loss with the weights `of_loss`."""
        total = (of_loss * self.curvature).sum()
        return total, (of_loss * self.curvature) @ centres / total

    def loss(
        self, of_loss: np.ndarray, centres: np.ndarray, place: np.ndarray, variance: float = 0.0
    ) -> float:
        """Return the expected loss with these weights, of a model with this mean and variance."""
        away = ((place - centres) ** 2).sum(axis=1) + variance
        return 0.5 * (of_loss * self.curvature * away).sum()

    def dissimilarity(self, total: float, least: np.ndarray, centres: np.ndarray) -> dict[str, Any]:
        """Return rho_1, rho_2 and delta_u, from |x + y|^2 <= 2 |x|^2 + 2 |y|^2."""
        apart = ((least - centres) ** 2).sum(axis=1)
        rho1 = max(1.0, 2 * (self.curvature**2).max() / total**2)
        return {"rho1": rho1, "rho2": 1.0, "skew": 2 * self.curvature**2 * apart}


class Training(NamedTuple):
    """A problem, kappa, eta and eta eta~, and the variance sigma^2 of the gradients' noise."""

    problem: Problem
    kappa: np.ndarray
    rate: float
    step: float
    sigma2: float

    def bound(self, score: np.ndarray, **measured: Any) -> bounds.OSAFLBound:
        """Return (24) for these quadratics (beta = 1) and scores, given what was `measured`."""
        return bounds.theorem1(
            beta=1.0,
            rate=self.rate,
            global_rate=self.step / self.rate,
            sigma2=self.sigma2,
            alpha=self.problem.alpha,
            score=score,
            similarity=score,
            local_steps=self.kappa,
            **measured,
        )

    def moments(self, score: np.ndarray) -> tuple[np.ndarray, float, float]:
        """Return how a round moves the model: keep * w + pulls @ centres, and the noise it adds."""
        weight, shrink = self.problem.alpha * score, 1 - self.rate * self.problem.curvature
        pull = weight * ((1 - shrink**self.kappa) / (self.rate * self.kappa))
        pairs = zip(shrink, self.kappa, strict=True)
        own = np.array([(a ** (2 * np.arange(k))).sum() / k**2 for a, k in pairs])
        noise = self.step**2 * (weight**2 * own).sum() * self.sigma2
        return self.step * pull, 1 - self.step * pull.sum(), noise


def draw(rng: np.random.Generator, n_clients: int, dimension: int) -> Problem:
    """Draw the clients' minimisers, at a mean squared distance of 1 from their mean, the origin.

    Curvatures go from 1/2 to 1, and training starts at the distance 3.
    """
    curvature = np.linspace(0.5, 1, n_clients)
    centres = rng.normal(size=(n_clients, dimension))
    centres -= centres.mean(axis=0)
    centres /= np.sqrt((centres**2).sum(axis=1).mean())
    start = np.full(dimension, 3 / dimension**0.5)
    return Problem(curvature, centres, start, np.full(n_clients, 1 / n_clients))


# --- data that stay -------------------------------------------------------------------------------


def static(problem: Problem, rounds: int, sigma2: float) -> pd.DataFrame:
    """Return exact mean squared gradient and bound (24) for fixed scores, over a grid of settings.

    Returns
    -------
    DataFrame
        score, kappa (names), rate, product, loss ("(18)" or "(3)", whose gradient is meant), exact,
        bound, feasible, A, ratio (exact over bound).
    """
    rates, products = np.geomspace(0.001, 0.1, 7), (0.1, 0.5, 1.0)
    rows = []
    for (label, score), (name, kappa) in product(
        problem.fixed_scores.items(), problem.kappas.items()
    ):
        for rate, step in product(rates, products):
            for reading in ("(18)", "(3)"):
                of_loss = problem.alpha * (score if reading == "(18)" else 1)
                training = Training(problem, kappa, rate, step, sigma2)
                exact, bound = _exact(training, score, of_loss, rounds)
                found = (exact, bound.value, bound.feasible, bound.a)
                rows.append((label, name, rate, step, reading, *found))
    columns = ["score", "kappa", "rate", "product", "loss", "exact", "bound", "feasible", "A"]
    frame = pd.DataFrame(rows, columns=columns)
    return frame.assign(ratio=frame["exact"] / frame["bound"])


def _exact(
    training: Training, score: np.ndarray, of_loss: np.ndarray, rounds: int
) -> tuple[float, bounds.OSAFLBound]:
    """Return the exact mean squared gradient of the loss with the weights `of_loss`, and (24)."""
    problem, centres = training.problem, training.problem.centres
    pulls, keep, noise = training.moments(score)
    total, least = problem.minimum(of_loss, centres)
    place, variance, summed, loss = problem.start, 0.0, 0.0, []
    for t in range(rounds + 1):
        loss.append(problem.loss(of_loss, centres, place, variance))
        if t < rounds:
            summed += total**2 * (((place - least) ** 2).sum() + variance)
            place, variance = keep * place + pulls @ centres, keep**2 * variance + noise
    decrease = (loss[0] - loss[-1]) / rounds
    apart = problem.dissimilarity(total, least, centres)
    return summed / rounds, training.bound(score, loss_decrease=decrease, shift=0.0, **apart)


class Conditions(NamedTuple):
    """A of (24) within the printed conditions, with Remark 3's step size, and in one example.

    The example is eta = 0.06, kappa = 5, beta = rho_1 = 1, eta~ = 10.
    """

    printed: np.ndarray
    remark_3: np.ndarray
    example: float


def conditions(rng: np.random.Generator) -> Conditions:
    """Return A, which must be positive, for random settings that the paper allows."""
    alone = _ALONE | {"shift": 0.0, "skew": 0.0, "loss_decrease": 0.1}
    printed, remark_3 = [], []
    for _ in range(5000):
        kappa, beta = int(rng.integers(1, 11)), np.exp(rng.uniform(-2, 2))
        rate = rng.uniform(0, 1) / (2 * 2**0.5 * beta * kappa)
        server = rng.uniform(0.05, 1) / (beta * rate)
        own = dict(beta=beta, rate=rate, global_rate=server, sigma2=1.0, local_steps=kappa)
        printed.append(bounds.theorem1(**alone | own).a)
    for _ in range(2000):  # eta < 1 / (4 beta sqrt(rho_1 sum alpha kappa^2 B))
        users = int(rng.integers(1, 8))
        kappa, beta = rng.integers(1, 11, users), np.exp(rng.uniform(-2, 2))
        rho1, score = rng.uniform(1, 3), rng.uniform(0, 1, users)
        lam, share = rng.uniform(0, 1, users), rng.dirichlet(np.ones(users))
        of_b = (share * kappa**2 * ((score - lam) ** 2 + lam**2)).sum()
        rate = rng.uniform(0, 1) * (1 / (4 * beta * np.sqrt(rho1 * of_b)))
        own = dict(beta=beta, rate=rate, global_rate=1.0, sigma2=1.0, local_steps=kappa, rho1=rho1)
        own |= dict(alpha=share, score=score, similarity=lam)
        remark_3.append(bounds.theorem1(**alone | own).a)
    own = dict(beta=1.0, rate=0.06, global_rate=10.0, sigma2=0.0, local_steps=5)
    example = bounds.theorem1(**alone | own).a
    return Conditions(np.array(printed), np.array(remark_3), example)


# --- the algorithm's own scores -------------------------------------------------------------------


class Online(NamedTuple):
    """Simulated trainings with the scores of the algorithm, by path, (n_paths,) each.

    `measured` is the mean squared gradient of the score-weighted loss (18), `limits` the mean of
    (24), infinite where A or the step sizes fail in a round.
    """

    measured: np.ndarray
    limits: np.ndarray


class _Past(NamedTuple):
    """What a round of `online` leaves: its scores, loss, squared gradient, rho_1 and delta_u."""

    score: np.ndarray
    loss: float
    gradient2: float
    rho1: float
    skew: np.ndarray


def online(
    problem: Problem,
    rounds: int,
    paths: int,
    sigma2: float,
    rng: np.random.Generator,
    *,
    rate: float = 0.005,
    step: float = 0.2,
) -> Online:
    """Simulate trainings whose scores follow the noisy updates, each round with its own (18).

    `step` is eta eta~; clients do one to five local steps.
    """
    training = Training(problem, problem.kappas["mixed"], rate, step, sigma2)
    histories = [_simulated(training, rounds, rng) for _ in range(paths)]
    rho1 = max(past.rho1 for history in histories for past in history)
    measured, limits = [], []
    for history in histories:
        terms = []
        for now, later in pairwise(history):
            own = dict(loss_decrease=now.loss - later.loss, skew=now.skew, shift=0.0)
            terms.append(training.bound(now.score, rho1=rho1, rho2=1.0, **own))
        measured.append(np.mean([now.gradient2 for now in history[:-1]]))
        limits.append(np.mean([term.value for term in terms]))
    return Online(np.array(measured), np.array(limits))


def _simulated(training: Training, rounds: int, rng: np.random.Generator) -> list[_Past]:
    """Train once with the algorithm's own scores."""
    from sflkit.osafl.scores import osafl_scores  # it loads torch

    problem, kappa, rate, step, sigma2 = training
    curvature, centres = problem.curvature, problem.centres
    w, history = problem.start.copy(), []
    deviation = (sigma2 / len(w)) ** 0.5
    for _ in range(rounds + 1):
        local = np.repeat(w[None], len(curvature), axis=0)
        for i in range(kappa.max()):
            noise = rng.normal(size=local.shape) * deviation
            moves = np.where(i < kappa, 1.0, 0.0)[:, None]
            local -= rate * moves * (curvature[:, None] * (local - centres) + noise)
        d = (w - local) / (rate * kappa[:, None])
        score = osafl_scores(d)
        of_loss = problem.alpha * score
        total, least = problem.minimum(of_loss, centres)
        apart = problem.dissimilarity(total, least, centres)
        gradient2 = total**2 * ((w - least) ** 2).sum()
        loss = problem.loss(of_loss, centres, w)
        history.append(_Past(score, loss, gradient2, apart["rho1"], apart["skew"]))
        w = w - step * of_loss @ d
    return history


# --- data that move -------------------------------------------------------------------------------


def steady_walk(rounds: int) -> pd.DataFrame:
    """Return exact and bound for one client whose target moves by 1 per round.

    The model starts where it stays, at a constant distance behind. `bound` is (24) as printed,
    `corrected` takes each round's loss decrease on the data that the round was trained on; the
    other columns are kappa, rate, product, exact, feasible and ratio (exact over bound).
    """
    rows = []
    for kappa, rate, step in product((1, 5), (0.01, 0.03), np.geomspace(0.02, 1, 18)):
        pull, summed, on_old = (1 - (1 - rate) ** kappa) / (rate * kappa), 0.0, 0.0
        lag = first = -1 / (step * pull)
        for _ in range(rounds):
            summed += lag**2
            on_old += (lag**2 - ((1 - step * pull) * lag) ** 2) / 2
            lag = (1 - step * pull) * lag - 1.0  # the target has moved on
        own = dict(beta=1.0, rate=rate, global_rate=step / rate, sigma2=0.0, local_steps=kappa)
        bound, repaired = (
            bounds.theorem1(loss_decrease=decrease / rounds, shift=1.0, skew=0.0, **own, **_ALONE)
            for decrease in ((first**2 - lag**2) / 2, on_old)
        )
        exact = summed / rounds
        rows.append((kappa, rate, step, exact, bound.value, bound.feasible, repaired.value))
    columns = ["kappa", "rate", "product", "exact", "bound", "feasible", "corrected"]
    frame = pd.DataFrame(rows, columns=columns)
    return frame.assign(ratio=frame["exact"] / frame["bound"])


def random_walks(problem: Problem, sigma2: float, rng: np.random.Generator) -> np.ndarray:
    """Return exact mean squared gradient and corrected bound on random walks, (n_walks, 2).

    The targets of all clients walk for 60 rounds, with noisy gradients and fixed scores; walks on
    which the theorem's step sizes fail are left out.
    """
    n_clients, dimension = problem.centres.shape
    shaken = rng.normal(size=(60, n_clients, dimension)) / dimension**0.5  # mean square 1
    walks = []
    scores = [problem.fixed_scores[label] for label in ("1", "1/2", "mixed")]
    rates, steps, speeds = (0.002, 0.01, 0.03), (0.1, 0.5, 1.0), (0.1, 1.0)
    for score, kappa, rate, step, speed in product(
        scores, problem.kappas.values(), rates, steps, speeds
    ):
        found = _walk(Training(problem, kappa, rate, step, sigma2), score, speed * shaken)
        if np.isfinite(found).all():
            walks.append(found.mean(axis=0))
    return np.array(walks)


def _walk(training: Training, score: np.ndarray, moves: np.ndarray) -> np.ndarray:
    """Return exact squared gradient and corrected term of (24), inf where it fails, per round."""
    problem, weight = training.problem, training.problem.alpha * score
    pulls, keep, noise = training.moments(score)
    targets, place, variance, found = problem.centres.copy(), problem.start, 0.0, []
    for move in moves:
        total, least = problem.minimum(weight, targets)
        after, spread = keep * place + pulls @ targets, keep**2 * variance + noise
        # before and after the round, on the round's own data
        decrease = problem.loss(weight, targets, place, variance)
        decrease -= problem.loss(weight, targets, after, spread)
        shift = problem.curvature**2 * (move**2).sum(axis=1)
        apart = problem.dissimilarity(total, least, targets)
        bound = training.bound(score, loss_decrease=decrease, shift=shift, **apart)
        gradient2 = total**2 * (((place - least) ** 2).sum() + variance)
        found.append((gradient2, bound.value if bound.feasible else np.inf))
        targets, place, variance = targets + move, after, spread
    return np.array(found)


# --- Remark 4 -------------------------------------------------------------------------------------


def identical_clients(rounds: int) -> pd.DataFrame:
    """Return exact, (26) and (25) for identical clients, one parabola without noise.

    Columns: kappa, fraction (eta as a share of 1 / (4 beta kappa)), product, exact, (26), (25),
    feasible.
    """
    rows = []
    grid = product((1, 2, 5, 10), np.linspace(0.02, 0.98, 25), (0.1, 0.5, 0.9, 1.0))
    for kappa, fraction, step in grid:
        rate = fraction / (4 * kappa)
        pull = (1 - (1 - rate) ** kappa) / (rate * kappa)
        factor = (1 - step * pull) ** 2
        exact = (1 - factor**rounds) / (1 - factor) / rounds  # mean of |w^t|^2, |w^0| = 1
        decrease = (1 - factor**rounds) / 2 / rounds
        own = dict(beta=1.0, rate=rate, global_rate=step / rate, sigma2=0.0, local_steps=kappa)
        bound = bounds.theorem1(loss_decrease=decrease, shift=0.0, skew=0.0, **own, **_ALONE)
        found = (exact, 2 * decrease / step, bound.value, bound.feasible)
        rows.append((kappa, fraction, step, *found))
    columns = ["kappa", "fraction", "product", "exact", "(26)", "(25)", "feasible"]
    return pd.DataFrame(rows, columns=columns)


def noise_terms(v: Mapping[str, Any], score: np.ndarray | float) -> np.ndarray:
    """Return what noise, shift and skew add to (24) as printed, before the division by A, (3,).

    `v` names the arguments of `bounds.theorem1`.
    """
    be, a, k, lam = v["beta"] * v["rate"], v["alpha"], v["local_steps"], v["similarity"]
    b = score**2 - 2 * score * lam + 2 * lam**2
    return np.array(
        [
            be * v["sigma2"] * (a * (v["global_rate"] * a * score**2 + 4 * be * k * b)).sum(),
            32 * be**2 * (a * b * v["shift"] * k**2).sum(),
            16 * v["rho2"] * be**2 * (a * v["skew"] * b * k**2).sum(),
        ]
    )


def formula_25(seed: int, problems: int = 200, users: int = 5) -> np.ndarray:
    """Return (25) as printed and (24) with all scores 1 for random rounds, (n_problems, 2)."""
    pairs = []
    for i in range(problems):
        r = generator(seed, "monte_carlo", 5, i)
        v = dict(
            beta=r.uniform(0.2, 2),
            rate=r.uniform(0.001, 0.02),
            global_rate=r.uniform(1, 20),
            sigma2=r.uniform(0, 4),
            rho1=r.uniform(1, 2),
            rho2=r.uniform(0, 3),
            alpha=r.dirichlet(np.ones(users)),
            similarity=r.uniform(0, 1, users),
            skew=r.uniform(0, 1, users),
            local_steps=r.integers(1, 6, users),
            shift=r.uniform(0, 2, users),
        )
        be, a, k = v["beta"] * v["rate"], v["alpha"], v["local_steps"]
        b = 1 - 2 * v["similarity"] + 2 * v["similarity"] ** 2
        a_tilde = 1 - 16 * v["rho1"] * be**2 * (a * k**2 * b).sum()
        noise, shift, skew = noise_terms(v, 1.0)
        inside = 2 * 0.3 / (v["rate"] * v["global_rate"]) + noise + shift + skew
        bound = bounds.theorem1(loss_decrease=0.3, score=1.0, **v)
        pairs.append((inside / a_tilde, bound.value))
    return np.array(pairs)
