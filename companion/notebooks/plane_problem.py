"""Logistic regression in the plane: a problem that meets every assumption of Section 4.

Source: FDS, Section 4, Assumptions 1 to 5, Algorithm 1, Section 5 (stationary weights). The loss of
a sample is log(1 + exp(-z . theta)) with z = x y, |x| <= 1 and y = +-1; theta lies in a disc. Each
client's distribution is the uniform one on its own pool of points, so that every true risk,
gradient and discrepancy is a finite sum. Suprema over the parameter set are taken over a grid,
which makes them slightly too small.

| code            | symbol    | shape       | meaning                                           |
|-----------------|-----------|-------------|---------------------------------------------------|
| z               | z = x y   | (M, I, 2)   | each client's pool of I points                    |
| held            |           | (R, T, M, I)| share of each point in a memory, by run and round |
| p               | p         | (M,)        | clients' importance                               |
| n               | alpha = n | (M,)        | clients' shares of the samples                    |
| sigma0, zeta    |           |             | gradient noise, dissimilarity of clients          |
| max_disc        | max disc  |             | largest discrepancy of two clients                |

"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd

from companion.notebooks.case_study import CaseStudy, sigma_bar2_case_study
from sflkit import checks
from sflkit.datastreams import bounds, importance, psi, strategies

_TRAINING = ("smoothness", "loss_bound", "diameter", "rounds", "local_steps")
STRATEGIES = ("uniform", "historical", "fresh", "ours")


class Problem(NamedTuple):
    """Clients, their points, and everything about them that the bounds take.

    Besides the notation of the module: x (M, I, 2) and y (M, I) are the points and their labels,
    n_old and batch the samples in the memory of a historical and of a fresh client, grid (G, 2)
    points of the parameter set, sample_loss (M, I, G), sample_gradient (M, I, G, 2), risk (M, G)
    and gradient (M, G, 2) of each client's distribution there.
    """

    historical: np.ndarray
    n_old: int
    batch: int
    radius: float
    x: np.ndarray
    y: np.ndarray
    grid: np.ndarray
    sample_loss: np.ndarray
    sample_gradient: np.ndarray
    risk: np.ndarray
    gradient: np.ndarray

    smoothness = 0.25  # L of the logistic loss
    pseudo_dim = 2  # the loss falls with z . theta, and the z . theta have dimension 2

    @property
    def z(self) -> np.ndarray:
        """The points times their labels, (M, I, 2)."""
        return self.x * self.y[..., None]

    @property
    def diameter(self) -> float:
        """D of the parameter set."""
        return 2 * self.radius

    @property
    def loss_bound(self) -> float:
        """B, the largest loss on the parameter set."""
        return float(np.logaddexp(0, self.radius))

    @property
    def sigma0(self) -> float:
        """sigma_0, the root of the largest mean squared distance of a sample's gradient."""
        away = ((self.sample_gradient - self.gradient[:, None]) ** 2).sum(axis=-1)
        return float(away.max(axis=2).mean(axis=1).max() ** 0.5)

    @property
    def zeta(self) -> float:
        """zeta, the largest distance of two clients' gradients."""
        apart = ((self.gradient[:, None] - self.gradient[None]) ** 2).sum(axis=-1)
        return float(apart.max() ** 0.5)

    @property
    def max_disc(self) -> float:
        """The largest discrepancy of two clients' distributions."""
        return bounds.max_discrepancy(self.risk.T)

    def case_study(self, rounds: int, local_steps: int) -> CaseStudy:
        """Return what Corollary 5.1 knows of a training on this problem."""
        own = {"rounds": rounds, "local_steps": local_steps}
        names = [name for name in CaseStudy._fields if name not in own]
        return CaseStudy(**own, **{name: getattr(self, name) for name in names})

    def counts(self, rounds: int) -> np.ndarray:
        """Return how many samples each client sees in so many rounds, (M,)."""
        return np.where(self.historical, self.n_old, self.batch * rounds)


def draw(
    rng: np.random.Generator,
    *,
    n_clients: int,
    n_historical: int,
    n_old: int,
    batch: int,
    radius: float,
    pool: int,
    grid: int,
) -> Problem:
    """Draw the clients' points, which are uniform on the unit disc, and their labels.

    Parameters
    ----------
    rng : Generator
    n_clients, n_historical : int
        M and M_hist < M.
    n_old, batch : int
        Samples in the memory of a historical and of a fresh client.
    radius : float
        Of the parameter set.
    pool : int
        Points of a client's distribution.
    grid : int
        Points on a side of the grid over the parameter set.

    Raises
    ------
    ValueError
        If there is no fresh client.
    """
    checks.integer("n_historical", n_historical, 1, n_clients - 1)
    centre = rng.normal(0, 0.6, 2)
    true_theta = centre + rng.normal(0, 0.5, (n_clients, 2))  # clients differ, as in D.1.1
    angle = rng.uniform(0, 2 * np.pi, (n_clients, pool))
    length = np.sqrt(rng.uniform(0, 1, (n_clients, pool)))
    x = np.stack([length * np.cos(angle), length * np.sin(angle)], axis=-1)
    chance = 1 / (1 + np.exp(-np.einsum("mid,md->mi", x, true_theta)))
    y = np.where(rng.uniform(size=chance.shape) < chance, 1.0, -1.0)
    side = np.linspace(-radius, radius, grid)
    points = np.stack(np.meshgrid(side, side), axis=-1).reshape(-1, 2)
    points = points[(points**2).sum(axis=1) <= radius**2 + 1e-9]
    z = x * y[..., None]
    margin = z @ points.T
    loss = np.logaddexp(0, -margin)
    slope = -z[:, :, None, :] / (1 + np.exp(margin))[..., None]
    historical = np.arange(n_clients) < n_historical
    means = loss.mean(axis=1), slope.mean(axis=1)
    return Problem(historical, n_old, batch, radius, x, y, points, loss, slope, *means)


def measure(
    problem: Problem,
    horizons: Sequence[int],
    local_steps: int,
    repeats: int,
    rng: np.random.Generator,
) -> pd.DataFrame:
    """Train every strategy on the same data sets, and return errors and bounds.

    Historical clients draw their samples once, fresh ones draw new ones in each round and forget
    them. Weights are the stationary ones of Section 5, so that q^(t) = 1 / T and p_m^(t) = p_m.

    `horizons` are numbers of rounds T, `local_steps` is E, and `repeats` is R, that of independent
    data sets; `rng` draws the samples.

    Returns
    -------
    DataFrame
        A row per horizon and strategy: T, strategy, p_hist, N_eff; sigma_bar2 (measured), lemma_b5
        and case_study (its bounds), at_one, at_one_error, at_one_exact (at one model: measured, its
        standard error, exact); opt, gen, true (the three errors) and opt_bound, gen_bound,
        sum_bound, corollary, psi (bounds on them).

    Raises
    ------
    ValueError
        If a minimiser of the risk lies outside the parameter set.
    """
    rows, old_ones = [], problem.historical
    for rounds in horizons:
        held, counts = _memories(problem, rounds, repeats, rng), problem.counts(rounds)
        known = problem.case_study(rounds, local_steps)
        of_training = {name: getattr(known, name) for name in _TRAINING}
        c = known.corollary51(counts.sum(), n_fresh=int((~old_ones).sum()))
        tried = {s: strategies.client_importance(s, counts, old_ones) for s in STRATEGIES[:-1]}
        tried["ours"] = psi.minimize_psi(counts, old_ones, c.c1, c.c2).p
        for strategy, p in tried.items():
            row = {"T": rounds, "strategy": strategy, "p_hist": p[old_ones].sum()}
            row["N_eff"] = importance.client_effective_samples(p, counts)
            row |= _variability(problem, p, held)
            opt = bounds.optimization_bound(sigma_bar=row["sigma_bar2"] ** 0.5, **of_training)
            mean, _ = train(problem, p, held, opt.rate / local_steps, local_steps)
            row |= _errors(problem, p, held, mean, opt)
            row["corollary"] = known.corollary51_general(p, counts, old_ones).total
            row["psi"] = psi.psi(p, counts, old_ones, c.c1, c.c2, c.c0)
            rows.append(row)
    return pd.DataFrame(rows)


def train(
    problem: Problem, p: np.ndarray, held: np.ndarray, step: float, local_steps: int
) -> tuple[np.ndarray, np.ndarray]:
    """Run Algorithm 1 with full batches and projection on R data sets at once.

    Returns
    -------
    mean, last : array (R, 2)
        The averaged output and the last iterate.
    """
    z = problem.z
    repeats, rounds, n_clients, _ = held.shape
    theta, mean = np.zeros((repeats, 2)), np.zeros((repeats, 2))
    for t in range(rounds):
        mean += theta / rounds
        local = np.repeat(theta[:, None], n_clients, axis=1)  # (R, M, 2)
        for _ in range(local_steps):
            slope = held[:, t] / (1 + np.exp(np.einsum("mid,rmd->rmi", z, local)))
            local += step * np.einsum("rmi,mid->rmd", slope, z)
        theta = np.einsum("m,rmd->rd", p, local)
        norm = np.maximum(np.linalg.norm(theta, axis=1), 1e-12)
        theta *= np.minimum(1, problem.radius / norm)[:, None]
    return mean, theta


def _memories(problem: Problem, rounds: int, repeats: int, rng: np.random.Generator) -> np.ndarray:
    """Draw the shares of the points in all memories, (R, T, M, I)."""
    old_ones = problem.historical
    pool = problem.x.shape[1]
    even = np.full(pool, 1 / pool)
    held = np.zeros((repeats, rounds, len(old_ones), pool))
    old = rng.multinomial(problem.n_old, even, (repeats, int(old_ones.sum())))
    held[:, :, old_ones] = old[:, None] / problem.n_old
    size = (repeats, rounds, int((~old_ones).sum()))
    held[:, :, ~old_ones] = rng.multinomial(problem.batch, even, size) / problem.batch
    return held


def _variability(problem: Problem, p: np.ndarray, held: np.ndarray) -> dict[str, float]:
    """Return the gradient variability, at its largest and at one model, and bounds on it."""
    repeats, rounds = held.shape[:2]
    fresh = ~problem.historical
    q = np.full(rounds, 1 / rounds)
    slopes = problem.sample_gradient
    at_grid = np.einsum("m,rtmi,migd->rtgd", p, held, slopes, optimize=True)
    largest = np.array([bounds.sigma_bar2(g, q) for g in at_grid])
    origin = np.abs(problem.grid).sum(axis=1).argmin()
    at_one = np.array([bounds.sigma_bar2(g, q) for g in at_grid[:, :, origin]])
    away = slopes[:, :, origin] - problem.gradient[:, None, origin]
    spread = (away**2).sum(axis=-1).mean(axis=1)
    lemma = bounds.sigma_bar2_bound(
        sigma0=problem.sigma0,
        dissimilarity=problem.zeta,
        aggregation=np.tile(p, (rounds, 1)),
        q=q,
    )
    exact = (1 - 1 / rounds) * (p[fresh] ** 2 * spread[fresh]).sum() / problem.batch
    return {
        "sigma_bar2": largest.mean(),
        "lemma_b5": lemma.total,
        "case_study": sigma_bar2_case_study(p, problem.historical, problem.sigma0),
        "at_one": at_one.mean(),
        "at_one_error": at_one.std(ddof=1) / repeats**0.5,
        "at_one_exact": exact,
    }


def _errors(
    problem: Problem,
    p: np.ndarray,
    held: np.ndarray,
    mean: np.ndarray,
    opt: bounds.OptimizationBound,
) -> dict[str, float]:
    """Return the three errors of the averaged output `mean` (R, 2), and what bounds two of them."""
    pool = problem.x.shape[1]
    counts = problem.counts(held.shape[1])
    n = counts / counts.sum()
    weights = p[:, None] * held.mean(axis=1)  # (R, M, I): p_{m,i} of each point
    target = np.broadcast_to(n[:, None] / pool, weights.shape)
    final = np.logaddexp(0, -np.einsum("mid,rd->rmi", problem.z, mean))
    gap = np.abs(np.einsum("rmi,mig->rg", target - weights, problem.sample_loss)).max(axis=1)
    gen = bounds.generalization_bound(
        loss_bound=problem.loss_bound,
        pseudo_dim=problem.pseudo_dim,
        n_samples=counts.sum(),
        effective=importance.client_effective_samples(p, counts),
        discrepancy=bounds.weighted_discrepancy(problem.risk.T, n, p),
    )
    least = [_least_risk(problem, mass) for mass in (weights, target)]
    return {
        "opt": ((weights * final).sum(axis=(1, 2)) - least[0]).mean(),
        "opt_bound": opt.total,
        "gen": gap.mean(),
        "gen_bound": gen.total,
        "true": ((target * final).sum(axis=(1, 2)) - least[1]).mean(),
        "sum_bound": opt.total + 2 * gen.total,
    }


def _least_risk(problem: Problem, mass: np.ndarray) -> np.ndarray:
    """Return the least weighted risk of each data set, (R,), by Newton's method."""
    z, point = problem.z, np.zeros((len(mass), 2))
    for _ in range(12):
        chance = 1 / (1 + np.exp(np.einsum("mid,rd->rmi", z, point)))
        slope = np.einsum("rmi,rmi,mid->rd", mass, chance, z)
        curve = np.einsum("rmi,mid,mie->rde", mass * chance * (1 - chance), z, z)
        point = point + np.linalg.solve(curve, slope[..., None])[..., 0]
    if np.abs(slope).max() > 1e-9 or np.linalg.norm(point, axis=1).max() > problem.radius:
        raise ValueError(
            f"radius={problem.radius}, n_old={problem.n_old}, batch={problem.batch}: a minimiser "
            "is outside the set; enlarge one"
        )
    return (mass * np.logaddexp(0, -np.einsum("mid,rd->rmi", z, point))).sum(axis=(1, 2))
