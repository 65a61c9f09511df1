"""What learning costs, computed: FATS's Lemma 4, Theorem 5, Corollary 6 and Remark 2.

The notation is that of `sflkit.fats.history` and `sflkit.fats.bounds`.

The problem whose constants are known: client k has the loss a_k |theta|^2 / 2 - <theta, xi> for
each of its samples xi, which add up to 0; half of the clients have a_k = 1/2, half 3/2. Then the
gradient of the mean loss is theta, L = 3/2, and E|theta|^2 follows an exact recursion.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from companion.notebooks.fats_shared import KEYWORDS, TINY, Sizes
from sflkit.fats import bounds, stability
from sflkit.fats.expected_time import sample_time
from sflkit.fats.history import draw_history
from sflkit.randomness import generator

GRAD_VAR = 4.0  # G^2
LOSS_GAP = 0.5  # |theta_0| = 1
LONG = 4000  # rounds of the clients that disagree


# --- Lemma 4 on problems with known constants -----------------------------------------------------


class Trained(NamedTuple):
    """Mean squared gradient of training at Theorem 5's rate, its error, and lambda as seen."""

    simulated: float
    error: float
    heterogeneity: float


class Problem(NamedTuple):
    """The noisy problem at sizes without E: half of the clients have a_k = 1/2, half 3/2."""

    sizes: dict[str, int]

    @property
    def curvature(self) -> np.ndarray:
        """The a_k, (M,)."""
        return np.tile([0.5, 1.5], self.sizes["n_clients"] // 2)

    @property
    def constants(self) -> dict[str, float]:
        """Lemma 4's constants but for lambda, and M and N."""
        own = {name: self.sizes[name] for name in ("n_clients", "samples_per_client")}
        return {"loss_gap": LOSS_GAP, "smoothness": 1.5, "grad_var": GRAD_VAR} | own

    @property
    def heterogeneity(self) -> float:
        """lambda where all clients stand at one point, as with E = 1."""
        return float((self.curvature**2).mean() / self.curvature.mean() ** 2)

    def setting(self, local_steps: int) -> dict[str, Any]:
        """Return the arguments that Lemma 4 and Theorem 5 share, without lambda."""
        rho = stability.stability(**self.sizes, local_steps=local_steps)
        steps = local_steps * self.sizes["rounds"]
        return {
            **self.constants, "local_steps": local_steps, "steps": steps,
            "rho_s": rho.rho_s, "rho_c": rho.rho_c,
        }  # fmt: skip

    def theorem5(self, local_steps: int) -> bounds.Theorem5:
        """Return Theorem 5 for the problem with lambda as at one point."""
        return bounds.theorem5(**self.setting(local_steps), heterogeneity=self.heterogeneity)

    @property
    def held(self) -> dict[str, float]:
        """The constants and lambda with rho_S = rho_C = 1/2."""
        return {**self.constants, "heterogeneity": self.heterogeneity, "rho_s": 0.5, "rho_c": 0.5}

    def corollary6(self, **other: float) -> float:
        """Return Corollary 6's cost of stability (alpha = 1) as `held`, but for `other`."""
        return bounds.corollary6(**self.held | other, alpha=1, steps=10**6).value


def exact_means(
    curvature: np.ndarray, sizes: Sizes, rates: Sequence[float], local_steps: int
) -> np.ndarray:
    """Return the exact mean squared gradient over all steps, for each step size.

    With q_k = 1 - eta a_k the second moment after i steps of a round is (mean(q^i)^2 + Var(q^i)/K)
    times that at its start, plus eta^2 V / K sum_{j<i} mean(q^2j), V = G^2/b (N - b)/(N - 1).
    """
    k, b, n = (sizes[key] for key in ("clients_per_round", "batch_size", "samples_per_client"))
    e, means = local_steps, []
    for rate in rates:
        q = (1 - rate * curvature[:, None]) ** np.arange(e + 1)
        kept = q.mean(axis=0) ** 2 + q.var(axis=0) / k
        variance = GRAD_VAR / b * (n - b) / (n - 1)
        noise = np.append(0, np.cumsum((q**2).mean(axis=0))[:-1])
        added = rate**2 * variance / k * noise
        second, summed = 2 * LOSS_GAP, 0.0
        for _ in range(sizes["rounds"]):
            summed += (second * kept + added)[:e].sum()
            second = second * kept[e] + added[e]
        means.append(summed / (e * sizes["rounds"]))
    return np.array(means)


def over_rates(problem: Problem, local_steps: int, heterogeneity: float) -> pd.DataFrame:
    """Return the exact mean squared gradient and Lemma 4 at Theorem 5's step and at 25 others.

    Columns: value and feasible, Lemma 4's bound and condition (7), rate and exact.
    """
    theorem = problem.theorem5(local_steps).rate
    rates = np.append(theorem, np.geomspace(theorem / 8, 0.9 / local_steps, 25))
    setting = problem.setting(local_steps) | {"heterogeneity": heterogeneity}
    lemma = pd.DataFrame([bounds.lemma4(**setting, rate=rate) for rate in rates])
    exact = exact_means(problem.curvature, problem.sizes, rates, local_steps)
    return lemma.assign(rate=rates, exact=exact)


def simulated(
    problem: Problem, local_steps: int, *, seed: int, dimension: int, paths: int
) -> tuple[float, float, float]:
    """Train on histories of the library; return the mean squared gradient, its error, and lambda.

    The rounds of a history are independent, so that one long one is cut into `paths`. lambda is the
    largest that was seen, or for one local step that of the problem.
    """
    sizes, e, rate = problem.sizes, local_steps, problem.theorem5(local_steps).rate
    m, n, k, b, rounds = (sizes[key] for key in (*KEYWORDS[:4], "rounds"))
    noise = generator(seed, "data").normal(size=(m, n, dimension))
    noise -= noise.mean(axis=1, keepdims=True)
    noise *= np.sqrt(GRAD_VAR / (noise**2).sum(axis=2).mean(axis=1))[:, None, None]
    rng = generator(seed, "batches", e)
    history = draw_history(**sizes | {"rounds": rounds * paths}, local_steps=e, rng=rng)
    clients = history.clients.reshape(paths, rounds, k)
    batches = history.batches.reshape(paths, rounds, k, e, b)
    theta, summed = np.full((paths, dimension), dimension**-0.5), np.zeros(paths)
    spread = 1.0 if e > 1 else problem.heterogeneity
    for r in range(rounds):
        local = np.repeat(theta[:, None], k, axis=1)
        a = problem.curvature[clients[:, r], None]
        drawn = noise[clients[:, r, :, None, None], batches[:, r]].mean(axis=3)
        for i in range(e):
            summed += (local.mean(axis=1) ** 2).sum(axis=1)
            if e > 1:
                apart = ((a * local) ** 2).sum(axis=2).mean(axis=1)
                together = ((a * local).mean(axis=1) ** 2).sum(axis=1)
                spread = max(spread, float((apart / together).max()))
            local = local - rate * (a * local - drawn[:, :, i])
        theta = local.mean(axis=1)
    means = summed / (rounds * e)
    return float(means.mean()), float(means.std(ddof=1) / len(means) ** 0.5), spread


def disagreeing() -> pd.DataFrame:
    """Return the value over the bound of Lemma 4 for clients that pull in opposite directions.

    Three of five have a_k = 1, two -1, full batches and one client a round, so that F = theta^2/10
    and lambda are exact. One row per E and rate: E, "eta E", value, bound, feasible, lambda, ratio.
    """
    rows, pull = [], np.array([1.0, 1.0, 1.0, -1.0, -1.0])
    for e in (1, 2, 5, 20, 100):
        sizes = dict(TINY, n_clients=5, samples_per_client=1, local_steps=e, rounds=LONG)
        rho = stability.stability(**sizes)
        for rate in np.geomspace(0.002 / e, 0.3 / e, 60):
            q = (1 - rate * pull[:, None]) ** np.arange(e + 1)
            own = pull[:, None] * q[:, :e]
            positive = (own.mean(axis=0) > 0).all()
            spread = ((own**2).mean(axis=0) / own.mean(axis=0) ** 2).max() if positive else np.inf
            factor = (q**2).mean(axis=0)
            sums = factor[:e].sum() * ((1 - factor[e] ** LONG) / (1 - factor[e]))
            bound = bounds.lemma4(
                loss_gap=0.1, smoothness=1.0, grad_var=0.0, heterogeneity=min(spread, 1e12),
                local_steps=e, n_clients=5, samples_per_client=1, steps=LONG * e,
                rho_s=rho.rho_s, rho_c=rho.rho_c, rate=rate,
            )  # fmt: skip
            value = 0.2**2 * sums / (LONG * e)
            rows.append((e, rate * e, value, bound.value, bound.feasible, spread))
    found = pd.DataFrame(rows, columns=["E", "eta E", "value", "bound", "feasible", "lambda"])
    return found.assign(ratio=found["value"] / found["bound"])


def eight_and_nine(seed: int) -> np.ndarray:
    """Return (8), computed from K and b, and (9), from rho_S and rho_C, in 200 random settings."""
    rng, pairs = generator(seed, "monte_carlo", 1), []
    for _ in range(200):
        e, r, k, b, m, n = (int(v) for v in rng.integers(1, 20, size=6))
        sizes = dict(zip(KEYWORDS, (m, n + b, k, b, e, r), strict=True))
        rho = stability.stability(**sizes)
        gap, big_l, g2, rate = rng.uniform(0.1, 5, size=4)
        drift = (rate * big_l) ** 2 * g2 * e * (k + 1) / (k * b)
        eight = 2 * gap / (rate * e * r) + drift + rate * big_l * g2 / (k * b)
        nine = bounds.lemma4(
            loss_gap=gap, smoothness=big_l, grad_var=g2, heterogeneity=1.0, local_steps=e,
            n_clients=m, samples_per_client=n + b, steps=e * r,
            rho_s=rho.rho_s, rho_c=rho.rho_c, rate=rate,
        )  # fmt: skip
        pairs.append((eight, nine.value))
    return np.array(pairs).T


# --- Theorem 5, Corollary 6 and Remark 2 ----------------------------------------------------------


def random_settings(seed: int) -> pd.DataFrame:
    """Return Theorem 5, Lemma 4 at its step and both cases of Corollary 6 in random settings."""
    rng, rows = generator(seed, "monte_carlo", 2), []
    for _ in range(20_000):
        e, m, samples = (int(rng.integers(1, high)) for high in (41, 50, 200))
        total = e * int(np.exp(rng.uniform(0, 14)))
        gap, big_l, g2 = np.exp(rng.uniform(-3, 3, size=3))
        common = {
            "loss_gap": gap, "smoothness": big_l, "grad_var": g2,
            "heterogeneity": 1 + rng.exponential(), "n_clients": m, "samples_per_client": samples,
            "steps": total, "rho_s": rng.uniform(0.01, 1), "rho_c": rng.uniform(0.01, 1),
        }  # fmt: skip
        theorem = bounds.theorem5(**common, local_steps=e)
        lemma = bounds.lemma4(**common, local_steps=e, rate=theorem.rate)
        with_c = bounds.corollary6(**common, c=e / total)
        alpha = 1 - np.log(e) / np.log(total) if 1 < total and e < total else 1.0
        with_alpha = bounds.corollary6(**common, alpha=alpha)
        rows.append((theorem.value, lemma.value, theorem.feasible, lemma.feasible, with_c.value,
                     with_c.feasible, with_alpha.feasible and e < total))  # fmt: skip
    columns = ["theorem", "lemma", "theorem holds", "lemma holds", "corollary", "c holds"]
    return pd.DataFrame(rows, columns=[*columns, "alpha holds"])


def shared_steps(problem: Problem, local_steps: Sequence[int]) -> pd.DataFrame:
    """Return the exact mean at Theorem 5's step for K b = 20 with K from 1 to 20 (Remark 2).

    There are 8000 clients with 600 samples, so that rho_C stays below 1.
    """
    rows, many = [], {"n_clients": 8000, "samples_per_client": 600}
    for e in local_steps:
        for k in (1, 2, 4, 5, 10, 20):
            each = {"clients_per_round": k, "batch_size": 20 // k}
            wide = Problem(problem.sizes | many | each)
            mean = exact_means(wide.curvature, wide.sizes, [wide.theorem5(e).rate], e)[0]
            rows.append((e, wide.setting(e)["rho_c"], mean))
    return pd.DataFrame(rows, columns=["E", "rho_C", "exact"])


def longer_training() -> pd.DataFrame:
    """Return error and unlearning time over rho_S, from 0.01 to 1000 (Remark 3).

    Ten clients with ten samples, of whom two a round use one sample a step: rho_S grows with the
    rounds. One row per rho_S, with the columns rho_S, R, "stability cost" (the first term of (10)),
    exact (mean squared gradient at Theorem 5's step) and time (mean share of a training that is
    repeated for one sample).
    """
    rows = []
    for rounds in (1, 5, 50, 500, 5_000, 50_000):
        sizes = dict(zip(KEYWORDS[:4], (10, 10, 2, 1), strict=True)) | {"rounds": rounds}
        found = Problem(sizes)
        theorem, rho = found.theorem5(1), found.setting(1)["rho_s"]
        mean = exact_means(found.curvature, sizes, [theorem.rate], 1)[0]
        cost = 3 * 1.5 * LOSS_GAP * theorem.gamma**0.5
        rows.append((rho, rounds, cost, mean, sample_time(**sizes, local_steps=1) / rounds))
    return pd.DataFrame(rows, columns=["rho_S", "R", "stability cost", "exact", "time"])
