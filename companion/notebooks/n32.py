"""Notebook 32, the scores: what is computed, the evidence for its claims.

Source: OSAFL, Section III-B (score, Remark 2), Section IV, (21), (24) to (35), with ERRATA 31
and 32. Theorem 1 and Remark 4 are put to the test in `quadratics`. chi is 1 unless said otherwise.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd

from companion.notebooks.quadratics import noise_terms
from sflkit.osafl.bounds import optimal_scores, score_objective
from sflkit.randomness import generator

Evidence = dict[str, Any]


# --- Remark 2: what the score costs ---------------------------------------------------------------


def operations(rng: np.random.Generator) -> dict[str, pd.Series]:
    """Count the additions and multiplications of the scores for growing N and U.

    Returns
    -------
    dict
        "N" and "U" -> the counts, by (U, N), while this one grows.
    """
    import torch
    from torch.utils.flop_counter import FlopCounterMode

    from sflkit.osafl.scores import osafl_scores

    reads = {torch.ops.aten.mv: math.prod, torch.ops.aten.linalg_vector_norm: math.prod}
    # a multiplication and an addition for every number read
    more = {
        op: lambda shape, *_, count=count, **__: 2 * count(shape) for op, count in reads.items()
    }

    def count(users: int, size: int) -> int:
        with FlopCounterMode(display=False, custom_mapping=more) as counter:
            osafl_scores(torch.from_numpy(rng.normal(size=(users, size))))
        return counter.get_total_flops()

    grown = {
        "N": [(4, n) for n in (1000, 4000, 16_000, 64_000)],
        "U": [(u, 100) for u in (100, 400, 1600, 6400)],
    }
    return {
        name: pd.Series(
            [count(*size) for size in sizes], pd.MultiIndex.from_tuples(sizes, names=["U", "N"])
        )
        for name, sizes in grown.items()
    }


def slope(counts: pd.Series, name: str) -> float:
    """Return the power of "N" or "U" with which some counts of `operations` grow."""
    return float(np.polyfit(np.log(counts.index.get_level_values(name)), np.log(counts), 1)[0])


def next_models(rng: np.random.Generator, dimension: int) -> list[np.ndarray]:
    """Return OSAFL's next models for the same d_u of six clients, after other local steps.

    It is given neither samples nor labels.
    """
    from sflkit.federated.servers import LocalWork
    from sflkit.osafl.rules import OSAFL

    d, model = rng.normal(size=(6, dimension)), rng.normal(size=dimension)
    found = []
    for steps in (np.array([1, 2, 3, 4, 5, 1]), np.array([5, 5, 1, 1, 2, 3])):
        work = LocalWork(np.arange(6), steps, 0.1)
        found.append(OSAFL(6, 20.0)(model, -0.1 * steps[:, None] * d, work=work))
    return found


# --- Theorem 1: what becomes of its terms ---------------------------------------------------------


def terms(seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return what becomes of terms 2 to 5 of (24), before the division by A, in a random round.

    Returns
    -------
    lost, by_hand : array (4,)
        What the sum loses without noise, without shift and without skew, and what is left without
        all three; the same by the printed formula.
    halved : array (3,)
        The third, fourth and fifth term over those at half the local rate.
    """
    values = _random_round(generator(seed, "monte_carlo", 7), 5)
    score = np.linspace(0.2, 1, 5)

    def noise(**changed: Any) -> float:
        return score_objective(score, psi=0, **values | changed)

    none = {"sigma2": 0.0, "shift": 0.0, "skew": 0.0}
    lost = [*(noise() - noise(**{name: 0.0}) for name in none), noise(**none)]
    by_hand = np.append(noise_terms(values, score), 0.0)
    half = {"rate": values["rate"] / 2}
    tiny = {"global_rate": 1e-300}  # takes the second term away
    alone = [none | {name: values[name]} for name in none]
    whole = [noise(**one | tiny) for one in alone]
    halved = [noise(**one | tiny | half) for one in alone]
    return np.array(lost), by_hand, np.array(whole) / np.array(halved)


# --- (34) and (35): from the bound to the score ---------------------------------------------------


def against_solver(seed: int, problems: int, n_clients: int = 4) -> pd.DataFrame:
    """Minimise the surrogate (30) by cvxpy for random rounds and compare with (34).

    The surrogate is stated term by term, with cvxpy parameters for the coefficients (disciplined
    parametrised programming), so that it is compiled once.

    Returns
    -------
    DataFrame
        psi; "error with psi" and "error as printed", how far (34) with and without psi in C_u is
        from the minimiser; "status" of the solver.
    """
    import cvxpy as cp

    n, x = n_clients, cp.Variable(n_clients, name="score")
    square, b_weight, b_times = (
        cp.Parameter(n, nonneg=True, name=name)
        for name in ("server noise", "of B", "of B, times lambda")
    )
    squares = cp.sum_squares(cp.multiply(square, x)) + cp.sum_squares(cp.multiply(b_weight, x))
    problem = cp.Problem(cp.Minimize(squares - 2 * b_times @ x), [x >= 0])
    rows = []
    for i in range(problems):
        psi = (0.0, 0.5, 1.0, 4.0)[i % 4]
        values = _random_round(generator(seed, "monte_carlo", 1, i), n)
        of_square, of_b = _coefficients(values, psi)
        scale = (of_square + of_b).max()  # the minimiser does not change, the stopping rule gains
        square.value, b_weight.value = np.sqrt(of_square / scale), np.sqrt(of_b / scale)
        b_times.value = of_b / scale * values["similarity"]
        tight = dict(tol_gap_abs=1e-13, tol_gap_rel=1e-13, tol_feas=1e-13)
        problem.solve(solver="CLARABEL", **tight)
        errors = [
            np.abs(optimal_scores(**values, psi=weight) - x.value).max() for weight in (psi, 1.0)
        ]
        rows.append((psi, *errors, problem.status))
    return pd.DataFrame(rows, columns=["psi", "error with psi", "error as printed", "status"])


def _random_round(r: np.random.Generator, n: int) -> dict[str, Any]:
    """Draw everything that the surrogate (30) of a round takes, but for psi."""
    return dict(
        beta=r.uniform(0.2, 2),
        rate=r.uniform(0.01, 0.05),
        global_rate=r.uniform(1, 30),
        sigma2=r.uniform(0, 4),
        alpha=r.dirichlet(np.ones(n)),
        similarity=r.uniform(0, 1, n),
        local_steps=r.integers(1, 6, n),
        shift=r.uniform(0, 2, n),
        rho1=r.uniform(1, 3),
        rho2=r.uniform(0, 3),
        skew=r.uniform(0, 1, n),
    )


def _coefficients(values: Mapping[str, Any], psi: float) -> tuple[np.ndarray, np.ndarray]:
    """Return the factors of Delta^2 and of B in (30), (n_clients,) each."""
    a, k, be = values["alpha"], values["local_steps"], values["beta"] * values["rate"]
    of_square = be * values["sigma2"] * values["global_rate"] * a**2
    of_b = 4 * be**2 * values["sigma2"] * a * k + 32 * be**2 * a * values["shift"] * k**2
    of_b = of_b + 16 * values["rho2"] * be**2 * a * values["skew"] * k**2
    return of_square, of_b + psi * 16 * values["rho1"] * be**2 * a * k**2


def coefficients(seed: int, rates: Mapping[str, tuple[float, float]]) -> dict[str, np.ndarray]:
    """Return the best score over lambda for 200 random rounds of 100 clients, by network.

    beta is the largest that Theorem 1 allows at these rates, 1 / (eta eta~).
    """
    found = {}
    for i, (name, (rate, global_rate)) in enumerate(rates.items()):
        rounds = []
        for j in range(200):
            r, users = generator(seed, "monte_carlo", 2, i, j), 100
            lam = r.uniform(0.05, 1, users)
            best = optimal_scores(
                beta=1 / (rate * global_rate),
                rate=rate,
                global_rate=global_rate,
                sigma2=r.uniform(0, 4),
                alpha=np.full(users, 0.01),
                similarity=lam,
                local_steps=r.integers(1, 6, users),
                shift=r.uniform(0, 2, users),
                rho1=r.uniform(1, 3),
                rho2=r.uniform(0, 3),
                skew=r.uniform(0, 1, users),
                psi=r.uniform(0.1, 4),
            )
            rounds.append(best / lam)
        found[name] = np.concatenate(rounds)
    return found


# --- the verdicts ---------------------------------------------------------------------------------


def evidence(found: SimpleNamespace) -> dict[str, Evidence]:
    """Return the evidence of notebook 32: artefact -> part -> what its rule takes.

    `found` has what the functions of this module and of `quadratics` return, by their names, and
    `identical`, the scores of five equal updates.
    """
    medians = np.array([np.median(v) for v in found.coefficients.values()])
    special, a = found.identical_clients, found.conditions
    lost, by_hand, halved = found.terms
    own = found.static[found.static["feasible"] & (found.static["loss"] == "(18)")]
    still = found.steady_walk[found.steady_walk["feasible"]]
    exact = np.append(still["exact"], found.random_walks[:, 0])
    return {
        "osafl-eq35": {
            "printed": (found.against_solver["error as printed"].to_numpy(), 1e-6),
            "about": (0.9, medians),
            "psi": (found.against_solver["error with psi"].to_numpy(), 1e-6),
        },
        "osafl-rem2": {
            "numbers_sent": tuple(found.next_models),
            "operations_in_n": slope(found.operations["N"], "N"),
            "operations_in_u": slope(found.operations["U"], "U"),
        },
        "osafl-thm1": {
            "conditions": bool((a.printed > 0).all() and a.example > 0),
            "static": (own["exact"].to_numpy(), own["bound"].to_numpy()),
            "online": (found.online.limits, found.online.measured),
            "moving": (still["exact"].to_numpy(), still["bound"].to_numpy()),
            "vanish": (lost, by_hand),
            "squared": (halved, 4.0),
            "remark_3": bool((a.remark_3 > 0).all() and (a.remark_3 < 1).all()),
            "old_data": (exact, np.append(still["corrected"], found.random_walks[:, 1])),
        },
        "osafl-rem4": {
            "formula": (found.formula_25[:, 1], found.formula_25[:, 0]),
            "identical": (found.identical, 1.0),
            "boils_down": (special["(25)"].to_numpy(), special["(26)"].to_numpy()),
            "fedavg": (special["exact"].to_numpy(), special["(26)"].to_numpy()),
            "kept": (special["exact"].to_numpy(), special["(25)"].to_numpy()),
        },
    }
