"""Notebook 23, the theory of Section 4: what is computed, the evidence, pictures.

Source: FDS, Section 4, Corollaries 5.1 and 5.1', Lemmas 4.2, B.1 to B.3 and B.5, the example in the
proof of Theorem 4.3. The trainings are in `plane_problem`, the notation is that of
`sflkit.datastreams.bounds` and `case_study`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd

from companion import figures
from companion.notebooks import case_study
from companion.notebooks.plane_problem import STRATEGIES, Problem
from sflkit.datastreams import bounds, importance, psi
from sflkit.randomness import generator
from sflkit.sfl.caches import FIFO

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


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


Evidence = dict[str, Any]
KOLMOGOROV = 0.8687  # limit of sqrt(N) times the mean Kolmogorov-Smirnov distance
_STEEP = np.array([0.05, 0.1])  # L of the losses theta and 1 - theta on [0, 1], B = 1
# Opposite quadratics L |theta -+ 1|^2 / 2 for |theta| <= reach; the rarer one has the weight tilt.
_REACH = 1e-3
_TILT = 1e-3
_CURVE = 0.7
_QUAD_B = _CURVE * (1 + _REACH) ** 2 / 2


# --- Lemma 4.2 and Sections 4.2, 4.3 --------------------------------------------------------------


class Samples(NamedTuple):
    """N_eff and N of many weightings.

    Attributes
    ----------
    random, alike : array (2, n)
        N_eff and N of random weights and of equal ones.
    inside : dict
        Sizes of two clients of importance 1/2 each, with equal weights inside each -> `Lemma42`.
    off_by_little : bool
        Whether N_eff stays below N whenever one weight differs from all others.
    """

    random: np.ndarray
    alike: np.ndarray
    inside: dict[str, bounds.Lemma42]
    off_by_little: bool


def samples(rng: np.random.Generator) -> Samples:
    """Return N_eff of random, of equal, and of nearly equal weights."""
    random = [rng.exponential(1, rng.integers(2, 30)) ** rng.uniform(0, 3) for _ in range(500)]
    sizes = {"1 and 3": (1, 3), "2 and 2": (2, 2), "10 and 90": (10, 90)}
    inside = {
        name: bounds.lemma42([np.full(a, 0.5 / a), np.full(b, 0.5 / b)])
        for name, (a, b) in sizes.items()
    }
    drawn = zip(rng.integers(1, 500, 50), rng.exponential(1, 50), strict=True)
    alike = [bounds.lemma42(np.full(int(size), weight)) for size, weight in drawn]
    below = []
    factors = rng.integers(2, 500, 50), rng.choice([0.5, 0.999, 1.001, 3.0], 50)
    for size, factor in zip(*factors, strict=True):
        weight = np.ones(int(size))
        weight[0] *= factor
        found = bounds.lemma42(weight)
        below.append(found.effective < found.samples * (1 - 1e-12) and not found.attained)
    pairs = (
        [bounds.lemma42(w)[:2] for w in random],
        [(v.effective, v.samples) for v in alike],
    )
    return Samples(*(np.array(pair).T for pair in pairs), inside, all(below))


class Least(NamedTuple):
    """Bound (14) of Uniform, of random importances of samples, and where descent ends."""

    uniform: float
    random: np.ndarray
    ended: list[float]


def least_generalization(problem: Problem, rounds: int, rng: np.random.Generator) -> Least:
    """Look for an importance of samples with a lower bound (14) than that of equal importance.

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
    return Least(totals[0], np.array(totals[1:]), ended)


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


class Gradients(NamedTuple):
    """Squared gradients.

    Attributes
    ----------
    own, apart : array (n,)
        Of the logistic problem: a sample's gradient, and its distance from its client's.
    bowls : array (2, 20)
        The largest squared gradient of quadratics, and 2 L B, both measured on a grid.
    """

    own: np.ndarray
    apart: np.ndarray
    bowls: np.ndarray


def gradients(problem: Problem, rng: np.random.Generator) -> Gradients:
    """Return the squared gradients of the logistic problem and of random quadratics."""
    slopes = problem.sample_gradient
    away = slopes - problem.gradient[:, None]
    drawn = zip(rng.lognormal(0, 1, 20), rng.normal(0, 2, 20), strict=True)  # L and centre
    return Gradients(
        (slopes**2).sum(axis=-1).max(axis=2).ravel(),
        (away**2).sum(axis=-1).max(axis=2).ravel(),
        np.array([_bowl(steepness, centre) for steepness, centre in drawn]).T,
    )


def _bowl(steepness: float, centre: float) -> tuple[float, float]:
    """Return the largest squared gradient of a quadratic on [-1, 1], and 2 L B there."""
    away = np.linspace(-1, 1, 201) - centre
    losses = steepness * away**2 / 2
    return (((steepness * away) ** 2).max(), 2 * steepness * losses.max())


def gradient_table(problem: Problem, found: Gradients) -> pd.DataFrame:
    """Return squared gradients beside their bounds, for the logistic and for a linear loss."""
    limit = problem.smoothness * problem.loss_bound
    names = ["gradient (B.1)", "sample's from client's (B.2)", "two clients' (B.3)"]
    logistic = [found.own.max(), found.apart.max(), problem.zeta**2, problem.sigma0**2]
    return pd.DataFrame(
        {
            "logistic loss": logistic,
            "its bound": [2 * limit, 8 * limit, 8 * limit, 8 * limit],
            "linear loss on [0, 1]": [1.0, 1.0, 4.0, 1.0],
            "its bound, L = 0.05": [2 * 0.05, 8 * 0.05, 8 * 0.05, 8 * 0.05],
        },
        index=pd.Index([*names, "sigma_0 (Remark 1)"], name="squared"),
    )


def _gradient_evidence(problem: Problem, found: Gradients) -> dict[str, Evidence]:
    """Return the evidence of Lemmas B.1 to B.3 and of Remark 1."""
    limit, linear = problem.smoothness * problem.loss_bound, np.ones(2)  # theta and 1 - theta
    pair, quad = 8 * limit, 8 * _CURVE * _QUAD_B
    steep, far = (2 * _CURVE) ** 2, (2 * _CURVE * (1 - _TILT)) ** 2
    sigma02, zeta2 = problem.sigma0**2, problem.zeta**2
    own, apart = found.own, found.apart
    return {
        "ds-lemB1": {
            "everywhere": (
                np.r_[own, found.bowls[0]],
                np.r_[np.full(len(own), 2 * limit), found.bowls[1]],
            ),
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


def worked_example(rounds: Sequence[int] = (2000, 8000)) -> pd.DataFrame:
    """Return the paper's example of a lower bound: what is claimed, true, and simulated.

    The first sample is held for half of the rounds, with the weight q. The way from one minimiser
    to the other costs 1 / sqrt(T), which the extrapolation from two horizons (the second four times
    the first) takes out.
    """
    q = np.array([0.5, 0.6, 0.75, 0.9, 0.99])
    example = [case_study.lower_bound_example(weight) for weight in q]
    excess = [_simulated(q, T) for T in rounds]
    worked = pd.DataFrame(
        {
            "q": q,
            "(120) claims": [e.claimed for e in example],
            "true gap": [e.line_gap for e in example],
            "limit, formula": [e.limit_gap for e in example],
            "simulated": 2 * excess[1] - excess[0],
            "sigma_bar2": [e.sigma_bar2 for e in example],
        }
    )
    worked["limit/sigma_bar"] = worked["limit, formula"] / worked["sigma_bar2"] ** 0.5
    worked["limit/sigma_bar^4"] = worked["limit, formula"] / worked["sigma_bar2"] ** 2
    return worked


def _simulated(q: np.ndarray, rounds: int) -> np.ndarray:
    """Return the excess risk of the simulated algorithm for each weight of the first sample."""
    half = rounds // 2
    path = case_study.example_path(rounds, half)
    early, late = path[:half].mean(axis=0), path[half:].mean(axis=0)
    return np.array(
        [case_study.example_excess(weight * early + (1 - weight) * late, weight) for weight in q]
    )


def mended_example(horizons: Sequence[int] = (4000, 16000)) -> pd.DataFrame:
    """Return the error over sigma-bar when the first sample is held for T / (2 C) rounds only.

    Columns: C, weights (flat, falling, or half of the weight in the first rounds), q, `error /
    sigma_bar`, extrapolated as in `worked_example`, and the constant it should not fall below.
    """
    rows = []
    for largest in (2, 4, 8):
        repaired = case_study.repaired_lower_bound(largest)
        found: dict[str, list] = {}
        for rounds in horizons:
            first = rounds // (2 * largest)
            path, t = case_study.example_path(rounds, first), np.arange(rounds)
            late = 0.5 / (1 - repaired.held)
            profiles = {
                "flat": np.ones(rounds),
                "falling": 2 - 2 * t / rounds,
                "front": np.where(t < first, largest, late),
            }
            for name, weight in profiles.items():
                weight = weight / weight.sum()
                share = weight[:first].sum()
                # Half of it, as the two samples differ half of the time (repaired_lower_bound).
                error = case_study.example_excess(weight @ path, share) / 2
                found.setdefault(name, []).append((share, error))
        for name, ((_, coarse), (share, exact)) in found.items():
            spread = case_study.lower_bound_example(share).sigma_bar2 ** 0.5
            row = {"C": largest, "weights": name, "q": share}
            row["error / sigma_bar"] = (2 * exact - coarse) / spread
            rows.append(row | {"constant": repaired.constant})
    return pd.DataFrame(rows)


# --- Corollary 5.1 --------------------------------------------------------------------------------


class Corollary(NamedTuple):
    """What Corollary 5.1 gives where it can be broken.

    Attributes
    ----------
    general, appendix, printed : float
        Two clients at T = 1: Corollary 5.1', psi with the appendix's c0, psi as printed.
    leans : DataFrame
        Importance that leans to the wrong side by e, see `case_study.discrepancy_example`.
    random : array (2, 300)
        5.1' and psi with the appendix's c0, for random problems.
    """

    general: float
    appendix: float
    printed: float
    leans: pd.DataFrame
    random: np.ndarray


def corollary(rng: np.random.Generator) -> Corollary:
    """Return 5.1' and psi for two clients, for a lean to the wrong side, and at random."""
    small = {"loss_bound": 1.0, "pseudo_dim": 2, "max_disc": 1.0, "sigma0": 1.0, "diameter": 0.1}
    small |= {"rounds": 1, "smoothness": 0.01, "local_steps": 1}
    mask, p, counts = np.array([True, False]), np.array([1.0, 0.0]), np.array([100, 300])
    c = case_study.corollary51(**small, n_samples=400, n_fresh=1)
    appendix = psi.psi(p, counts, mask, c.c1, c.c2, c.c0)
    leans = pd.DataFrame(
        [
            {"e": e} | case_study.discrepancy_example(e, rounds=10**6, n_samples=10**8)._asdict()
            for e in (0.01, 0.03, 0.05, 0.08, 0.12, 0.2)
        ]
    )
    return Corollary(
        case_study.corollary51_general(p, counts, mask, **small).total,
        appendix,
        appendix - 2 * small["max_disc"],  # at T = 1 the two c0 differ by this alone
        leans,
        np.array([_random_corollary(rng) for _ in range(300)]).T,
    )


def _random_corollary(rng: np.random.Generator) -> tuple[float, float]:
    """Return 5.1' and psi with the appendix's c0 for a random problem."""
    size = int(rng.integers(2, 12))
    mask, counts = np.arange(size) < rng.integers(1, size), rng.integers(2, 1000, size)
    known = dict(
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
    c = case_study.corollary51(**known, n_samples=counts.sum(), n_fresh=int((~mask).sum()))
    whole = case_study.corollary51_general(p, counts, mask, **known).total
    return whole, psi.psi(p, counts, mask, c.c1, c.c2, c.c0)


# --- the verdicts ---------------------------------------------------------------------------------


class Found(NamedTuple):
    """Everything that notebook 23 computes, see the functions of the same names."""

    measured: pd.DataFrame
    samples: Samples
    least: Least
    gradients: Gradients
    thresholds: pd.DataFrame
    turns: pd.DataFrame
    worked: pd.DataFrame
    mended: pd.DataFrame
    corollary: Corollary


def evidence(problem: Problem, found: Found) -> dict[str, Evidence]:
    """Return the evidence of notebook 23: artefact -> part -> what its rule takes."""
    measured, kept = found.measured, found.samples
    inside = [(v.effective, v.samples) for v in kept.inside.values()]
    by_horizon = measured.pivot(index="T", columns="strategy", values="opt_bound")
    others = by_horizon.drop(columns="historical")
    least = found.least.uniform
    ended = least * (1 - 1e-9) <= min(found.least.ended) and max(found.least.ended) <= 1.01 * least
    below = {
        kind: measured[measured[f"{kind}_bound"] < problem.loss_bound] for kind in ("gen", "opt")
    }
    scaled, ratio = found.thresholds["sqrt(N_eff) eps_gen"], found.turns["ratio"]
    rest = _theorems(found, below)
    added = mini_batches(generator(10, "monte_carlo", 5))
    return {
        "ds-lem42": {
            "at most N": tuple(kept.random),
            "attained": tuple(np.array(inside, dtype=float).T),
            "all alike": tuple(kept.alike),
            "only then": kept.off_by_little,
        },
        "ds-uniform": {
            "uniform": (least, found.least.random),
            "nowhere lower": bool(ended),
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
            "bound": (below["gen"]["gen"], below["gen"]["gen_bound"]),
            "rate": (scaled.max() / scaled.min(), 1.1),
        },
        **_gradient_evidence(problem, found.gradients),
        "ds-lemB5": {
            "bound": (measured["sigma_bar2"], measured["lemma_b5"]),
            "order": (ratio.max(), 12.0),
            "order, M": ((ratio / found.turns["M"]).max(), 12.0),
            "needed, M": (ratio / found.turns["M"], ratio[0] / found.turns["M"][0]),
        },
        **rest,
    }


def _theorems(found: Found, below: Mapping[str, pd.DataFrame]) -> dict[str, Evidence]:
    """Return the evidence of Theorems 4.3 and 4.4 and of Corollary 5.1."""
    worked, mended, cor = found.worked, found.mended, found.corollary
    measured = found.measured
    return {
        "ds-thm43": {
            "upper": (below["opt"]["opt"], below["opt"]["opt_bound"]),
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
    }


def notes(problem: Problem, found: Found) -> dict[str, str]:
    """Return the causes that were found, by artefact."""
    table = found.measured
    factor = ((table["opt"] + 2 * table["gen"]) / table["true"]).min()
    limit = bounds.remark1(problem.smoothness, problem.loss_bound).sigma0
    return {
        "ds-lem42": "Its words, each sample has the same importance, are right; the formula after "
        "'i.e.' is too weak: sizes 1 and 3 with p = (1/2, 1/2) give 3, not 4 (ERRATA 29).",
        "ds-thm41": "With the proof's constant 5 B; a step of the proof is wrong, the result is "
        "not (ERRATA 53).",
        "ds-lemB1": "The proof steps to a point that may lie outside the parameter set, where "
        "Assumption 1 bounds nothing (ERRATA 55).",
        "ds-lemB2": "Lemma B.1 under Assumption 1 (ERRATA 55).",
        "ds-lemB3": "Lemma B.1 under Assumption 1 (ERRATA 55).",
        "ds-remark1": f"Lemma B.1 under Assumption 1 (ERRATA 55). Here sigma_0 = "
        f"{problem.sigma0:.3f}, zeta = {problem.zeta:.3f}, bound {limit:.3f}.",
        "ds-lemB5": "The proof's constants contain the number of clients M, which (128) drops "
        "(ERRATA 62).",
        "ds-thm43": "The upper bound holds. The example's gap is 2 q^2 (1-q)^2 / ((1+q)(2+q)), not "
        "6 q (1-q), and its error of the order sigma-bar^4 as q tends to 1; with the first sample "
        "held for T / (2C) rounds the order is sigma-bar (ERRATA 28).",
        "ds-thm44": f"The sum of (9) is at least {factor:.1f} times the true error.",
        "ds-cor51": "The - 2 max disc in c0 needs sqrt(x - 1) <= sqrt(x) - 1, and c0 lacks "
        "1/sqrt(T) (ERRATA 30). As printed psi is above every error since it exceeds sqrt(5) G D; "
        "once c0 falls with T, the - 2 max disc loses the true error.",
    }


_SIZE = (9.6, 4.0)
VARIABILITY = {  # column: name, colour, hatch
    "at_one": ("measured, one model", "#56B4E9", ".."),
    "sigma_bar2": ("measured, largest", "#0072B2", ""),
    "case_study": ("Section 5, (183)", "#E69F00", "//"),
    "lemma_b5": ("Lemma B.5", "#D55E00", "xx"),
}
TRUE_ERROR = {
    "true": (r"$\epsilon_\mathrm{true}$", "#0072B2", ""),
    "decomposition": (r"$\epsilon_\mathrm{opt}+2\epsilon_\mathrm{gen}$", "#56B4E9", ".."),
    "sum_bound": ("Theorem 4.4", "#009E73", "//"),
    "corollary": ("Corollary 5.1'", "#E69F00", "xx"),
    "psi": (r"$\psi$, appendix", "#D55E00", "\\\\"),
}


def _by_horizon(ax: Axes, table: pd.DataFrame, error: str, title: str, legend: tuple) -> None:
    """Draw an error of each strategy over the horizons, with its bound dotted."""
    for i, (strategy, part) in enumerate(table.groupby("strategy", sort=False)):
        look = figures.series_style(None, i)
        ax.plot(part["T"], part[error], **look, label=strategy.capitalize())
        ax.plot(
            part["T"], part[f"{error}_bound"], color=look["color"], linestyle=":", linewidth=1.2
        )
    name = rf"$\epsilon_\mathrm{{{error}}}$"
    ax.set(xscale="log", yscale="log", xlabel="rounds T", ylabel=name, title=title)
    horizons = sorted(set(table["T"]))
    ax.set_xticks(horizons, horizons)
    ax.minorticks_off()
    ax.legend(fontsize=9, loc=legend[0], bbox_to_anchor=legend[1], ncol=2)


def _grouped_bars(ax: Axes, last: pd.DataFrame, kinds: dict, width: float) -> None:
    """Draw a group of bars for each strategy, a bar for each column that `kinds` names."""
    place, middle = np.arange(len(STRATEGIES)), (len(kinds) - 1) / 2
    for i, (column, (name, color, hatch)) in enumerate(kinds.items()):
        height = last.loc[list(STRATEGIES), column].where(last[column] > 1e-12)
        look = dict(color=color, hatch=hatch, edgecolor="white", label=name)
        ax.bar(place + width * (i - middle), height, width - 0.01, **look)
    ax.set_xticks(place, [strategy.capitalize() for strategy in STRATEGIES])


def generalisation(table: pd.DataFrame, thresholds: pd.DataFrame) -> Figure:
    """Draw measured generalisation errors with Theorem 4.1's bound, and N_eff put to the test.

    The tables are those of `plane_problem.measure` and `thresholds`.
    """
    import matplotlib.pyplot as plt

    fig, (left, right) = plt.subplots(1, 2, figsize=_SIZE)
    title = "Theorem 4.1: measured, and bound (dotted)"
    _by_horizon(left, table, "gen", title, ("center left", (0, 0.52)))
    place = np.arange(len(thresholds))
    bars = (
        ("sqrt(N_eff) eps_gen", r"$\sqrt{N_\mathrm{eff}}\,\epsilon_\mathrm{gen}$", "#0072B2", ""),
        ("sqrt(N) eps_gen", r"$\sqrt{N}\,\epsilon_\mathrm{gen}$", "#E69F00", "//"),
    )
    for (column, name, color, hatch), shift in zip(bars, (-0.2, 0.2), strict=True):
        look = dict(color=color, hatch=hatch, edgecolor="white", label=name)
        right.bar(place + shift, thresholds[column], 0.38, **look)
    right.axhline(KOLMOGOROV, color="black", linewidth=1, linestyle="--")
    right.set_xticks(place, ["equal", "half\n5 times", "linear", "a tenth\n30 times"], fontsize=9)
    top = 1.25 * thresholds["sqrt(N) eps_gen"].max()
    right.set(title="thresholds; dashed: known limit", ylim=(0, top))
    right.legend(fontsize=9, ncol=2, loc="upper left")
    return fig


def variability(last: pd.DataFrame, turns: pd.DataFrame) -> Figure:
    """Draw the gradient variability of four strategies, and clients who train in turns.

    `last` are the rows of the longest horizon by strategy, `turns` is the answer of
    the function of that name.
    """
    import matplotlib.pyplot as plt

    fig, (left, right) = plt.subplots(1, 2, figsize=_SIZE)
    _grouped_bars(left, last, VARIABILITY, 0.2)
    title = f"Lemma B.5: T = {last['T'].iloc[0]}"
    left.set(yscale="log", ylabel=r"$\bar\sigma^2$", title=title, ylim=(1e-3, 300))
    left.legend(fontsize=8.5, ncol=2, loc="upper center")
    clients = turns["M"]
    right.plot(clients, turns["sigma_bar2"], color="#0072B2", marker="o", label=r"$\bar\sigma^2$")
    look = dict(color="#CC79A7", linestyle="--", label="12 times the printed bracket")
    right.plot(clients, 12 * turns["printed bracket"], **look)
    look = dict(color="black", linestyle=":", label="the proof's constants")
    right.plot(clients, turns["proof"], **look)
    right.set(xscale="log", yscale="log", xlabel="clients M", title="half of the clients in turn")
    right.legend(fontsize=9, loc="lower left")
    return fig


def optimisation(table: pd.DataFrame, worked: pd.DataFrame, mended: pd.DataFrame) -> Figure:
    """Draw measured optimisation errors with Theorem 4.3's bound, and the lower-bound example.

    The tables are those of `plane_problem.measure` and of `worked_example` and
    `mended_example`.
    """
    import matplotlib.pyplot as plt

    fig, (left, right) = plt.subplots(1, 2, figsize=_SIZE)
    title = "Theorem 4.3: measured, and bound (107) (dotted)"
    _by_horizon(left, table, "opt", title, ("center", (0.5, 0.6)))
    fine = [case_study.lower_bound_example(q) for q in np.linspace(0.5, 0.995, 100)]
    spread = np.array([e.sigma_bar2 for e in fine]) ** 0.5
    curves = (
        ("claimed", "claimed, (120)", dict(color="#CC79A7", linestyle="--")),
        ("limit_gap", "limit of the algorithm", dict(color="#0072B2")),
        ("line_gap", "true value of (120)", dict(color="black", linestyle=":")),
    )
    for field, name, look in curves:
        right.plot(spread, [getattr(e, field) for e in fine], **look, label=name)
    dots = dict(color="#0072B2", label="simulated")
    right.plot(worked["sigma_bar2"] ** 0.5, worked["simulated"], "o", **dots)
    at = np.array([case_study.lower_bound_example(q).sigma_bar2 ** 0.5 for q in mended["q"]])
    look = dict(color="#009E73", markersize=5, label="mended example, simulated")
    right.plot(at, 2 * mended["error / sigma_bar"] * at, "D", **look)
    right.set(xscale="log", yscale="log", xlabel=r"gradient variability $\bar\sigma$")
    right.set(ylabel="excess risk", title="the paper's example", ylim=(None, 300))
    right.set_xticks([0.5, 1, 2], ["0.5", "1", "2"])
    right.minorticks_off()
    right.legend(fontsize=9, loc="upper left")
    return fig


def true_error(last: pd.DataFrame) -> Figure:
    """Draw the true error of four strategies beside its bounds; `last` is as in `variability`."""
    import matplotlib.pyplot as plt

    fig, ax = plt.subplots(figsize=(8.6, 3.8))
    _grouped_bars(ax, last, TRUE_ERROR, 0.16)
    title = f"Theorem 4.4: measured (blue) and bounded, T = {last['T'].iloc[0]}"
    ax.set(yscale="log", ylabel="error", title=title)
    fig.legend(*ax.get_legend_handles_labels(), loc="outside right center", fontsize=9)
    return fig


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


def draw_corollary(leans: pd.DataFrame) -> Figure:
    """Draw the step of Corollary 5.1's derivation that fails, and where psi loses the true error.

    `leans` is that of `Corollary`.
    """
    import matplotlib.pyplot as plt

    fig, (left, right) = plt.subplots(1, 2, figsize=_SIZE)
    x = np.linspace(1, 6, 201)
    left.plot(x, np.sqrt(x - 1), color="#0072B2", label=r"needed: $\sqrt{x-1}$")
    left.plot(x, np.sqrt(x), color="black", linestyle=":", label=r"appendix: $\sqrt{x}$")
    look = dict(color="#CC79A7", linestyle="--", label=r"main text: $\sqrt{x}-1$")
    left.plot(x, np.sqrt(x) - 1, **look)
    left.plot(4, 1.5, "o", color="#0072B2", label=r"$\|n-p\|_1$ of the two clients")
    left.set(xlabel=r"$x=\sum_m p_m^2/n_m$", ylabel="in units of 2 max disc")
    left.set_title("Corollary 5.1: what its derivation needs")
    left.legend(fontsize=9)
    for column, name, look in (
        ("true_error", "true error", dict(color="#0072B2", marker="o")),
        ("appendix", r"$\psi$, appendix", dict(color="black", linestyle=":")),
        (
            "main_text",
            r"$\psi$, $-2\,\max$ disc and $1/\sqrt{T}$",
            dict(color="#CC79A7", linestyle="--"),
        ),
        (
            "printed",
            r"$\psi$, as printed, no $1/\sqrt{T}$",
            dict(color="#CC79A7", linestyle="-."),
        ),
    ):
        right.plot(leans["e"], leans[column], **look, label=name)
    right.set(xscale="log", yscale="log", xlabel="lean $e$ to the wrong side", ylabel="error")
    right.set(ylim=(None, 200), title=r"two clients, $T=10^6$, $N=10^8$")
    right.legend(fontsize=8.5, loc="upper left")
    return fig
