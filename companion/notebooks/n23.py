"""Notebook 23, the theory of Section 4: what is computed, and the evidence.

Source: FDS, Section 4, Corollaries 5.1 and 5.1', Lemmas 4.2, B.1 to B.3 and B.5, the example in the
proof of Theorem 4.3. The trainings are in `plane_problem`, the notation is that of
`sflkit.datastreams.bounds` and `case_study`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from companion.notebooks import case_study
from companion.notebooks.plane_problem import Problem
from sflkit.datastreams import bounds, importance, psi
from sflkit.randomness import generator
from sflkit.sfl.caches import FIFO

Evidence = dict[str, Any]


def descend_generalization(
    losses: np.ndarray, counts: np.ndarray, capacity: float, start: np.ndarray
) -> float:
    """Return the bound (14) where Powell's method ends from some importance of the clients.

    The samples of a client weigh the same. The bound is max_h |sum_m (n_m - p_m) L_{P_m}(h)| +
    capacity sqrt(sum_m p_m^2 / N_m), for the target alpha = n; p is the softmax of the search's
    variables. Source: FDS, Theorem 4.1.

    Parameters
    ----------
    losses : array (n_hypotheses, n_clients)
        Risks >= 0.
    counts : array (n_clients,)
        N_m > 0.
    capacity : float
        >= 0, the second term's factor.
    start : array (n_clients,)
        Logarithms of the importance to begin with, up to a constant.
    """
    from scipy.optimize import minimize

    target = counts / counts.sum()

    def bound(logs: np.ndarray) -> float:
        p = np.exp(logs - logs.max())
        p /= p.sum()
        return np.abs(losses @ (target - p)).max() + capacity * np.sqrt((p**2 / counts).sum())

    return float(minimize(bound, start, method="Powell", options={"maxiter": 40}).fun)


_STEEP = np.array([0.05, 0.1])  # L of the losses theta and 1 - theta on [0, 1], B = 1
# Opposite quadratics L |theta -+ 1|^2 / 2 for |theta| <= reach; the rarer one has the weight tilt.
_REACH = 1e-3
_TILT = 1e-3
_CURVE = 0.7
_QUAD_B = _CURVE * (1 + _REACH) ** 2 / 2


# --- Lemma 4.2 and Sections 4.2, 4.3 --------------------------------------------------------------


def samples(rng: np.random.Generator) -> Evidence:
    """Return the evidence on Lemma 4.2: N_eff and N of random, of equal and of other weights.

    *attained* are two clients of importance 1/2 each, with equal weights inside each, of 1 and 3, 2
    and 2, 10 and 90 samples; *only then* says whether N_eff stays below N whenever one weight
    differs from all others.
    """
    random = [rng.exponential(1, rng.integers(2, 30)) ** rng.uniform(0, 3) for _ in range(500)]
    drawn = zip(rng.integers(1, 500, 50), rng.exponential(1, 50), strict=True)
    weights = {
        "at most N": random,
        "attained": [[np.full(m, 0.5 / m) for m in pair] for pair in ((1, 3), (2, 2), (10, 90))],
        "all alike": [np.full(int(size), weight) for size, weight in drawn],
    }
    below = []
    factors = rng.integers(2, 500, 50), rng.choice([0.5, 0.999, 1.001, 3.0], 50)
    for size, factor in zip(*factors, strict=True):
        found = bounds.lemma42(np.r_[factor, np.ones(int(size) - 1)])
        below.append(found.effective < found.samples * (1 - 1e-12) and not found.attained)
    pairs = {key: np.array([bounds.lemma42(w)[:2] for w in ws]).T for key, ws in weights.items()}
    return {key: tuple(pair) for key, pair in pairs.items()} | {"only then": all(below)}


def least_generalization(
    problem: Problem, rounds: int, rng: np.random.Generator
) -> tuple[float, np.ndarray, list[float]]:
    """Return bound (14) of Uniform, of random importances of samples, and where descent ends.

    Descent runs over the clients' importance p = softmax(v), with equal weights inside a client.
    """
    counts = problem.counts(rounds)
    n = counts / counts.sum()
    terms = {
        "loss_bound": problem.loss_bound,
        "pseudo_dim": problem.pseudo_dim,
        "n_samples": int(counts.sum()),
    }
    totals = []
    for trial in range(200):
        weight = np.ones(counts.sum())  # the first is Uniform
        if trial > 0:
            weight = rng.exponential(1, counts.sum()) ** rng.uniform(0, 2)
            weight *= np.repeat(rng.exponential(1, len(counts)) ** rng.uniform(0, 2), counts)
        p = np.add.reduceat(weight, np.r_[0, counts.cumsum()[:-1]]) / weight.sum()
        disc = bounds.weighted_discrepancy(problem.risk.T, n, p)
        effective = importance.effective_samples(weight)
        bound = bounds.generalization_bound(**terms, effective=effective, discrepancy=disc)
        totals.append(bound.total)
    capacity = bounds.generalization_bound(**terms, effective=1.0, discrepancy=0.0).capacity
    starts = (rng.normal(0, 1, len(counts)) for _ in range(5))
    ended = [descend_generalization(problem.risk.T, counts, capacity, start) for start in starts]
    return totals[0], np.array(totals[1:]), ended


def stays(rng: np.random.Generator, kept: int, rounds: int = 30) -> np.ndarray:
    """Return the weights 1 / tau of samples that FIFO caches of `kept` samples hold for tau rounds.

    In each round one sample arrives at each of 5 clients, or none, at random; tau is the number of
    rounds that a sample is held. With `kept` = 0 a memory holds what has just arrived, for one
    round and with the weight 1. Source: FDS, Section 4.2.

    Returns
    -------
    array (rounds, 5, rounds)
        Of the sample that arrives in a round, 0 where it is not held.
    """
    held = np.zeros((rounds, 5, rounds))
    for m in range(5):
        cache = FIFO(max(kept, 1), 1)
        for t in range(rounds):
            arrived = [t] if rng.random() < 0.8 else []
            cache.update(arrived, [0] * len(arrived), rng)
            held[t, m, cache.ids if kept else arrived] = 1
    tau = held.sum(axis=0)
    return np.divide(held, tau, out=held, where=tau > 0)


def equal_importance(weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return p_{m,i} N of all samples that have a weight, and 1 for each."""
    used = weights.sum(axis=0) > 0
    found = importance.relative_importance(weights)[used] * used.sum()
    return found, np.ones_like(found)


def mini_batches(
    rng: np.random.Generator, horizons: Sequence[int] = (10, 100, 400), repeats: int = 100_000
) -> pd.DataFrame:
    """Return what mini-batches add to the optimisation error of a quadratic: exact and simulated.

    One client holds 25 numbers with the mean 0 throughout. Its loss is half of the mean squared
    distance of theta from them, and its one local step takes two of them, without replacement, at
    the rate 1 / sqrt(T). The output averages theta^(1), ..., theta^(T), so that what round s adds
    to it has the variance of a mini-batch's mean, `noise`, times its weight squared.

    Returns
    -------
    DataFrame, one row per horizon
        T; exact; simulated and standard_error of `repeats` trainings, less the same without
        mini-batches; bound, noise / (2 T), since no weight exceeds 1 / T.
    """
    n, size = 25, 2
    held = rng.normal(size=n)
    held -= held.mean()
    noise = held.var() * (n - size) / (size * (n - 1))
    rows = []
    for rounds in horizons:
        fade = 1 - rounds**-0.5
        weight = (1 - fade ** np.arange(rounds)) / rounds
        theta, mean = np.ones(repeats), np.zeros(repeats)
        whole, whole_mean = 1.0, 0.0  # with all samples in every step
        for _ in range(rounds):
            mean, whole_mean = mean + theta / rounds, whole_mean + whole / rounds
            first = rng.integers(n, size=repeats)
            second = (first + rng.integers(1, n, size=repeats)) % n
            theta = fade * theta + (1 - fade) * (held[first] + held[second]) / size
            whole *= fade
        extra = (mean**2 - whole_mean**2) / 2
        row = {"T": rounds, "exact": noise / 2 * (weight**2).sum(), "simulated": extra.mean()}
        row["standard_error"] = extra.std(ddof=1) / repeats**0.5
        rows.append(row | {"bound": noise / (2 * rounds)})
    return pd.DataFrame(rows)


# --- Lemmas B.1 to B.3, Remark 1 ------------------------------------------------------------------


def gradients(
    problem: Problem, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return squared gradients of the logistic problem and of random quadratics.

    Of the logistic problem a sample's gradient and its distance from its client's, (n,) each; of
    the quadratics the largest one and 2 L B, both measured on a grid, (2, 20).
    """
    slopes = problem.sample_gradient
    own, apart = (
        (away**2).sum(axis=-1).max(axis=2).ravel()
        for away in (slopes, slopes - problem.gradient[:, None])
    )
    steepness, centre = rng.lognormal(0, 1, 20), rng.normal(0, 2, 20)
    away = np.linspace(-1, 1, 201)[:, None] - centre
    largest, loss = ((steepness * away) ** 2).max(axis=0), (steepness * away**2 / 2).max(axis=0)
    return own, apart, np.array([largest, 2 * steepness * loss])


def _gradient_evidence(
    problem: Problem, own: np.ndarray, apart: np.ndarray, bowls: np.ndarray
) -> dict[str, Evidence]:
    """Return the evidence of Lemmas B.1 to B.3 and of Remark 1."""
    limit, linear = problem.smoothness * problem.loss_bound, np.ones(2)  # theta and 1 - theta
    pair, quad = 8 * limit, 8 * _CURVE * _QUAD_B
    steep, far = (2 * _CURVE) ** 2, (2 * _CURVE * (1 - _TILT)) ** 2
    sigma02, zeta2 = problem.sigma0**2, problem.zeta**2
    return {
        "ds-lemB1": {
            "everywhere": (np.r_[own, bowls[0]], np.r_[np.full(len(own), 2 * limit), bowls[1]])
        },
        "ds-lemB2": {
            "on the set": (linear, 8 * _STEEP),
            "everywhere": (np.r_[apart, far], np.r_[np.full(len(apart), pair), quad]),
        },
        "ds-lemB3": {
            "on the set": (4 * linear, 8 * _STEEP),
            "everywhere": (np.array([zeta2, steep]), np.array([pair, quad])),
        },
        "ds-remark1": {
            "on the set": (np.r_[linear, 4 * linear], np.r_[8 * _STEEP, 8 * _STEEP]),
            "everywhere": (
                np.array([sigma02, zeta2, _CURVE**2, steep]),
                np.array([pair, pair, quad, quad]),
            ),
        },
    }


# --- Theorem 4.1 and Lemma B.5 --------------------------------------------------------------------


def thresholds(rng: np.random.Generator, number: int = 2000, repeats: int = 500) -> pd.DataFrame:
    """Return the error of thresholds on [0, 1] for four weightings of `number` uniform points.

    With the 0-1 loss the generalisation error is the Kolmogorov-Smirnov distance of the weighted
    empirical distribution; columns: weights, N_eff, eps_gen, and that times sqrt(N_eff) and
    sqrt(N).
    """
    profiles = {
        "equal": np.ones(number),
        "half of them 5 times": np.where(np.arange(number) % 2, 5.0, 1.0),
        "linear": np.arange(1.0, number + 1),
        "a tenth of them 30 times": np.where(np.arange(number) % 10, 1.0, 30.0),
    }
    rows = []
    for name, weight in profiles.items():
        points = rng.uniform(size=(repeats, number))
        order = points.argsort(axis=1)
        ranked = np.take_along_axis(points, order, axis=1)
        upper = (weight / weight.sum())[order].cumsum(axis=1)
        lower = np.concatenate([np.zeros((repeats, 1)), upper[:, :-1]], axis=1)
        distance = np.maximum(upper - ranked, ranked - lower).max(axis=1)
        effective = importance.effective_samples(weight)
        row = {"weights": name, "N_eff": effective, "eps_gen": distance.mean()}
        row["sqrt(N_eff) eps_gen"] = effective**0.5 * distance.mean()
        row["sqrt(N) eps_gen"] = number**0.5 * distance.mean()
        rows.append(row)
    return pd.DataFrame(rows)


def turns() -> pd.DataFrame:
    """Return the variability when half of M clients train in even and half in odd rounds.

    Gradients are +-1/2, so that zeta = 1 and sigma_0 = 0. The printed bracket of (128) lacks a
    factor M; `proof` is the bound with the proof's constants.
    """
    rows = []
    for clients in 2 ** np.arange(1, 11):
        first = np.arange(clients) < clients // 2
        alternate = np.stack([first, ~first]) * 2.0 / clients  # p^(t) of an odd and an even round
        slopes = alternate @ np.where(first, 0.5, -0.5)
        value = bounds.sigma_bar2(slopes[:, None], [0.5, 0.5])
        proof = bounds.sigma_bar2_bound(
            sigma0=0.0, dissimilarity=1.0, aggregation=alternate, q=[0.5, 0.5]
        )
        bracket = 0.5 * ((alternate.mean(axis=0) - alternate) ** 2).sum()
        row = {"M": clients, "sigma_bar2": value, "printed bracket": bracket}
        rows.append(row | {"ratio": value / bracket, "proof": proof.total})
    return pd.DataFrame(rows)


# --- Theorem 4.3: the lower bound -----------------------------------------------------------------


def _excesses(
    rounds: int, first: int, profiles: Mapping[Any, np.ndarray]
) -> dict[Any, tuple[float, float]]:
    """Return, by profile of the rounds' weights, the first sample's weight and the excess risk.

    The first sample is held for so many rounds.
    """
    path, found = case_study.example_path(rounds, first), {}
    for name, profile in profiles.items():
        weight = profile / profile.sum()
        q = weight[:first].sum()
        found[name] = q, case_study.example_excess(weight @ path, q)
    return found


def worked_example(rounds: Sequence[int] = (2000, 8000)) -> pd.DataFrame:
    """Return the paper's example of a lower bound: what is claimed, true, and simulated.

    The first sample is held for half of the rounds, with the weight q. The way from one minimiser
    to the other costs 1 / sqrt(T), which the extrapolation from two horizons (the second four times
    the first) takes out.
    """
    q = np.array([0.5, 0.6, 0.75, 0.9, 0.99])
    excess = []
    for T in rounds:
        profiles = {one: np.repeat([one, 1 - one], T // 2) for one in q}
        excess.append(np.array([error for _, error in _excesses(T, T // 2, profiles).values()]))
    example = pd.DataFrame([case_study.lower_bound_example(weight) for weight in q])
    worked = pd.DataFrame(
        {
            "q": q,
            "(120) claims": example["claimed"],
            "true gap": example["line_gap"],
            "limit, formula": example["limit_gap"],
            "simulated": 2 * excess[1] - excess[0],
            "sigma_bar2": example["sigma_bar2"],
        }
    )
    worked["limit/sigma_bar"] = worked["limit, formula"] / worked["sigma_bar2"] ** 0.5
    worked["limit/sigma_bar^4"] = worked["limit, formula"] / worked["sigma_bar2"] ** 2
    return worked


def mended_example(horizons: Sequence[int] = (4000, 16000)) -> pd.DataFrame:
    """Return the error over sigma-bar when the first sample is held for T / (2 C) rounds only.

    Columns: C, weights (flat, falling, or half of the weight in the first rounds), q, `error /
    sigma_bar`, extrapolated as in `worked_example`, and the constant it should not fall below.
    """
    rows = []
    for largest in (2, 4, 8):
        repaired, found = case_study.repaired_lower_bound(largest), []
        for rounds in horizons:
            first, t = rounds // (2 * largest), np.arange(rounds)
            late = 0.5 / (1 - repaired.held)
            profiles = {
                "flat": np.ones(rounds),
                "falling": 2 - 2 * t / rounds,
                "front": np.where(t < first, largest, late),
            }
            found.append(_excesses(rounds, first, profiles))
        for name, (share, exact) in found[1].items():
            spread = case_study.lower_bound_example(share).sigma_bar2 ** 0.5
            # Half of it, as the two samples differ half of the time (repaired_lower_bound).
            error = (2 * exact - found[0][name][1]) / 2
            row = {"C": largest, "weights": name, "q": share, "error / sigma_bar": error / spread}
            rows.append(row | {"constant": repaired.constant})
    return pd.DataFrame(rows)


# --- Corollary 5.1 --------------------------------------------------------------------------------


def corollary(rng: np.random.Generator) -> SimpleNamespace:
    """Return what Corollary 5.1 gives where it can be broken.

    `general`, `appendix` and `printed` are, for two clients at T = 1, Corollary 5.1', psi with the
    appendix's c0, and psi as printed; `leans` is a frame of importances that lean to the wrong side
    by e, see `case_study.discrepancy_example`; `random` (2, 300) is 5.1' and psi with the
    appendix's c0 for random problems.
    """
    small = case_study.CaseStudy(
        1.0, 2, max_disc=1.0, sigma0=1.0, diameter=0.1, rounds=1, smoothness=0.01, local_steps=1
    )
    mask, p, counts = np.array([True, False]), np.array([1.0, 0.0]), np.array([100, 300])
    c = small.corollary51(400, n_fresh=1)
    appendix = psi.psi(p, counts, mask, c.c1, c.c2, c.c0)
    leans = pd.DataFrame(
        [
            {"e": e} | case_study.discrepancy_example(e, rounds=10**6, n_samples=10**8)._asdict()
            for e in (0.01, 0.03, 0.05, 0.08, 0.12, 0.2)
        ]
    )
    return SimpleNamespace(
        general=small.corollary51_general(p, counts, mask).total,
        appendix=appendix,
        printed=appendix - 2 * small.max_disc,  # at T = 1 the two c0 differ by this alone
        leans=leans,
        random=np.array([_random_corollary(rng) for _ in range(300)]).T,
    )


def _random_corollary(rng: np.random.Generator) -> tuple[float, float]:
    """Return 5.1' and psi with the appendix's c0 for a random problem."""
    size = int(rng.integers(2, 12))
    mask, counts = np.arange(size) < rng.integers(1, size), rng.integers(2, 1000, size)
    known = case_study.CaseStudy(
        loss_bound=rng.lognormal(),
        pseudo_dim=rng.uniform(1.1, 3.9),
        max_disc=rng.lognormal(),
        sigma0=rng.lognormal(),
        diameter=rng.lognormal(),
        rounds=int(rng.integers(1, 2000)),
        smoothness=rng.lognormal(),
        local_steps=int(rng.integers(1, 9)),
    )
    p = rng.dirichlet(np.full(size, rng.choice([0.3, 1.0, 30.0])))
    c = known.corollary51(counts.sum(), n_fresh=int((~mask).sum()))
    whole = known.corollary51_general(p, counts, mask).total
    return whole, psi.psi(p, counts, mask, c.c1, c.c2, c.c0)


# --- the verdicts ---------------------------------------------------------------------------------


class Found(NamedTuple):
    """Everything that notebook 23 computes, see the functions of the same names."""

    measured: pd.DataFrame
    samples: Evidence
    least: tuple[float, np.ndarray, list[float]]
    gradients: tuple[np.ndarray, np.ndarray, np.ndarray]
    thresholds: pd.DataFrame
    turns: pd.DataFrame
    worked: pd.DataFrame
    mended: pd.DataFrame
    corollary: SimpleNamespace


def evidence(problem: Problem, found: Found) -> dict[str, Evidence]:
    """Return the evidence of notebook 23: artefact -> part -> what its rule takes."""
    measured, worked, mended, cor = found.measured, found.worked, found.mended, found.corollary
    by_horizon = measured.pivot(index="T", columns="strategy", values="opt_bound")
    others = by_horizon.drop(columns="historical")
    least, random, ended = found.least
    gen, opt = (measured[measured[f"{kind}_bound"] < problem.loss_bound] for kind in ("gen", "opt"))
    scaled, ratio = found.thresholds["sqrt(N_eff) eps_gen"], found.turns["ratio"]
    added = mini_batches(generator(10, "monte_carlo", 5))
    return {
        "ds-lem42": found.samples,
        "ds-uniform": {
            "uniform": (least, random),
            "nowhere lower": bool(least * (1 - 1e-9) <= min(ended) and max(ended) <= 1.01 * least),
            "historical": tuple(np.broadcast_arrays(by_horizon[["historical"]], others)),
        },
        "ds-stays": {
            "once": equal_importance(stays(generator(10, "monte_carlo", 3), 0)),
            "kept": equal_importance(stays(generator(10, "monte_carlo", 4), 8)),
        },
        "ds-minibatch": {
            "simulated": (added["simulated"], added["standard_error"], added["exact"]),
            "vanishes": (added["simulated"] + 4 * added["standard_error"], added["bound"]),
        },
        "ds-thm41": {
            "bound": (gen["gen"], gen["gen_bound"]),
            "rate": (scaled.max() / scaled.min(), 1.1),
        },
        **_gradient_evidence(problem, *found.gradients),
        "ds-lemB5": {
            "bound": (measured["sigma_bar2"], measured["lemma_b5"]),
            "order": (ratio.max(), 12.0),
            "order, M": ((ratio / found.turns["M"]).max(), 12.0),
            "needed, M": (ratio / found.turns["M"], ratio[0] / found.turns["M"][0]),
        },
        "ds-thm43": {
            "upper": (opt["opt"], opt["opt_bound"]),
            "gap": (worked["(120) claims"], worked["true gap"]),
            "order": (0.5 * worked["limit/sigma_bar"].iloc[0], worked["limit/sigma_bar"]),
            "mended": (mended["constant"] * (1 - 1e-3), mended["error / sigma_bar"]),
        },
        "ds-thm44": {
            "decomposition": (measured["true"], measured["opt"] + 2 * measured["gen"]),
        },
        "ds-cor51": {
            "derivation": (cor.general, cor.printed),
            "derivation, corrected": tuple(cor.random),
            "error, corrected": (cor.leans["true_error"], cor.leans["appendix"]),
        },
        "ds-stationary": stationary_evidence(),
    }


def stationary_evidence(rounds: int = 20, rate: float = 0.2, n_old: int = 4) -> dict[str, Any]:
    """Return the least true errors in the example of footnote 3: weights free, and stationary.

    One old client has `n_old` samples for all rounds and a fresh one has one a round, all drawn
    around the minimiser 0 with variance 1; the loss is (w - x)^2 / 2, and the start is 0. A step
    moves w to (1 - rate) w + rate (p_t h + (1 - p_t) y_t), so that the output is sum_t a_t (p_t h
    + (1 - p_t) y_t), with the expected squared error (sum a_t p_t)^2 / n_old + sum a_t^2 (1 -
    p_t)^2.
    """
    from scipy import optimize

    age = np.arange(rounds)[::-1]  # steps that follow the one of round t
    last = rate * (1 - rate) ** age
    mean = (1 - (1 - rate) ** (age + 1)) / rounds  # of the iterates after each round
    free, fixed = [], []
    for a in (mean, last):

        def error(p, a=a):
            return (a @ p) ** 2 / n_old + (a**2) @ (1 - p) ** 2

        def of_one(p, error=error):
            return error(np.full(rounds, p))

        one = optimize.minimize_scalar(of_one, bounds=(0, 1), options={"xatol": 1e-10})
        start = np.full(rounds, one.x)
        all_of = optimize.minimize(error, start, bounds=[(0, 1)] * rounds, tol=1e-14)
        fixed.append(one.fun)
        free.append(all_of.fun)
    return {"example": (np.array(free), 0.99 * np.array(fixed))}
