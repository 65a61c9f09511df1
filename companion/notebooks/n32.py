"""Notebook 32, the scores: what is computed, the evidence for its claims, pictures.

Source: OSAFL, Section III-B (score, Remark 2), Section IV, (21), (24) to (35), with ERRATA 31
and 32. Theorem 1 and Remark 4 are put to the test in `quadratics`. chi is 1 unless said otherwise.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd

from companion import figures
from companion.judging import tables
from companion.notebooks.quadratics import Conditions, Online
from sflkit.osafl.bounds import optimal_scores, score_objective
from sflkit.randomness import generator

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


Evidence = dict[str, Any]
NETWORKS = ("FCN", "SqueezeNet1", "CNN", "LSTM")


def paper_rates() -> dict[str, tuple[float, float]]:
    """Return the paper's (eta, eta~) for OSAFL by network."""
    return {
        name: tuple(
            tables.paper_value("osafl", "osafl", f"{kind} rate OSAFL {name}")
            for kind in ("local", "global")
        )
        for name in NETWORKS
    }


def six_updates() -> np.ndarray:
    """Return six updates in the plane that point into different directions, (6, 2)."""
    angles = np.deg2rad([0, 20, -35, 60, 130, 180])
    lengths = np.array([1.0, 0.8, 1.1, 0.7, 0.9, 0.6])
    return lengths[:, None] * np.stack([np.cos(angles), np.sin(angles)], axis=1)


# --- Remark 2: what the score costs ---------------------------------------------------------------


class Operations(NamedTuple):
    """Counted additions and multiplications of the scores.

    `of` maps (U, N) to the count, `slope` "N" and "U" to the power with which it grows.
    """

    of: dict[tuple[int, int], int]
    slope: dict[str, float]

    def over_formula(self) -> dict[str, float]:
        """Return the counts over 6 U N + 2 N."""
        return {f"{u} x {n}": count / (6 * u * n + 2 * n) for (u, n), count in self.of.items()}


def operations(rng: np.random.Generator) -> Operations:
    """Count the operations of the scores for growing U and N."""
    import torch
    from torch.utils.flop_counter import FlopCounterMode

    from sflkit.osafl.scores import osafl_scores

    reads = {torch.ops.aten.mv: math.prod, torch.ops.aten.linalg_vector_norm: math.prod}
    # a multiplication and an addition for every number read
    more = {
        op: lambda shape, *_, count=count, **__: 2 * count(shape) for op, count in reads.items()
    }
    grown = {
        "N": [(4, n) for n in (1000, 4000, 16_000, 64_000)],
        "U": [(u, 100) for u in (100, 400, 1600, 6400)],
    }
    counts, slope = {}, {}
    for name, sizes in grown.items():
        for users, size in sizes:
            with FlopCounterMode(display=False, custom_mapping=more) as counter:
                osafl_scores(torch.from_numpy(rng.normal(size=(users, size))))
            counts[users, size] = counter.get_total_flops()
        along = [math.log(size["UN".index(name)]) for size in sizes]
        slope[name] = np.polyfit(along, np.log([counts[size] for size in sizes]), 1)[0]
    return Operations(counts, slope)


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


class Terms(NamedTuple):
    """Terms 2 to 5 of (24), before the division by A, in a random round.

    `lost` is what the sum loses without noise, without shift and without skew, and what is left
    without all three; `by_hand` the same by the printed formula; `halved` the third, fourth and
    fifth term over those at half the local rate.
    """

    lost: np.ndarray
    by_hand: np.ndarray
    halved: np.ndarray


def terms(seed: int) -> Terms:
    """Return what becomes of the terms of (24), from the library and by the printed formula."""
    values = _random_round(generator(seed, "monte_carlo", 7), 5)
    score = np.linspace(0.2, 1, 5)

    def noise(**changed: Any) -> float:
        return score_objective(score, psi=0, **values | changed)

    none = {"sigma2": 0.0, "shift": 0.0, "skew": 0.0}
    lost = [*(noise() - noise(**{name: 0.0}) for name in none), noise(**none)]
    be, a, k = values["beta"] * values["rate"], values["alpha"], values["local_steps"]
    b = score**2 - 2 * score * values["similarity"] + 2 * values["similarity"] ** 2
    by_hand = [
        be * values["sigma2"] * (a * (values["global_rate"] * a * score**2 + 4 * be * k * b)).sum(),
        32 * be**2 * (a * b * values["shift"] * k**2).sum(),
        16 * values["rho2"] * be**2 * (a * values["skew"] * b * k**2).sum(),
        0.0,
    ]
    half = {"rate": values["rate"] / 2}
    tiny = {"global_rate": 1e-300}  # takes the second term away
    alone = [none | {name: values[name]} for name in none]
    whole = [noise(**one | tiny) for one in alone]
    halved = [noise(**one | tiny | half) for one in alone]
    return Terms(np.array(lost), np.array(by_hand), np.array(whole) / np.array(halved))


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


def solver_table(solved: pd.DataFrame) -> pd.DataFrame:
    """Return in how many problems (34) is the minimiser to 1e-6, by psi."""
    right = pd.DataFrame(
        {
            "psi": solved["psi"],
            "(34) as printed is right": solved["error as printed"] < 1e-6,
            "with psi in C_u it is right": solved["error with psi"] < 1e-6,
        }
    )
    return right.groupby("psi").sum().assign(problems=right.groupby("psi").size())


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


class OneClient(NamedTuple):
    """The surrogate (30) of a single client over its score.

    given has lambda = 0.8, free the lambda = score / 2 that makes the bound least.
    """

    score: np.ndarray
    given: np.ndarray
    free: np.ndarray

    @property
    def best(self) -> tuple[float, float]:
        """The scores at which `given` and `free` are least."""
        return tuple(float(self.score[np.argmin(v)]) for v in (self.given, self.free))


def one_client() -> OneClient:
    """Return the surrogate (30) of one client with five local steps."""
    axis = np.linspace(0, 1, 201)
    one = dict(beta=1.0, rate=0.02, global_rate=20.0, sigma2=1.0, alpha=[1.0], local_steps=5)
    one |= dict(shift=0.2, rho1=1.0, rho2=0.0, skew=0.0, psi=1.0)
    given = [score_objective([s], **one, similarity=[0.8]) for s in axis]
    free = [score_objective([s], **one, similarity=[s / 2]) for s in axis]
    return OneClient(axis, np.array(given), np.array(free))


# --- the verdicts ---------------------------------------------------------------------------------


class Found(NamedTuple):
    """Everything that notebook 32 computes, see the functions of the same names.

    `identical` are the scores of five equal updates; static, moving (`steady_walk`), walks
    (`random_walks`), conditions, online, special (`identical_clients`) and formulas (`formula_25`)
    come from `companion.notebooks.quadratics`.
    """

    identical: np.ndarray
    operations: Operations
    next_models: list[np.ndarray]
    solved: pd.DataFrame
    coefficients: dict[str, np.ndarray]
    one_client: OneClient
    static: pd.DataFrame
    conditions: Conditions
    online: Online
    moving: pd.DataFrame
    walks: np.ndarray
    special: pd.DataFrame
    formulas: np.ndarray
    terms: Terms


def evidence(found: Found) -> dict[str, Evidence]:
    """Return the evidence of notebook 32: artefact -> part -> what its rule takes."""
    medians = np.array([np.median(v) for v in found.coefficients.values()])
    special, a = found.special, found.conditions
    own = found.static[found.static["feasible"] & (found.static["loss"] == "(18)")]
    still = found.moving[found.moving["feasible"]]
    exact = np.append(still["exact"], found.walks[:, 0])
    return {
        "osafl-eq35": {
            "printed": (found.solved["error as printed"].to_numpy(), 1e-6),
            "about": (0.9, medians),
            "psi": (found.solved["error with psi"].to_numpy(), 1e-6),
        },
        "osafl-rem2": {
            "numbers_sent": tuple(found.next_models),
            "operations_in_n": found.operations.slope["N"],
            "operations_in_u": found.operations.slope["U"],
        },
        "osafl-thm1": {
            "conditions": bool((a.printed > 0).all() and a.example > 0),
            "static": (own["exact"].to_numpy(), own["bound"].to_numpy()),
            "online": (found.online.limits, found.online.measured),
            "moving": (still["exact"].to_numpy(), still["bound"].to_numpy()),
            "vanish": (found.terms.lost, found.terms.by_hand),
            "squared": (found.terms.halved, 4.0),
            "remark_3": bool((a.remark_3 > 0).all() and (a.remark_3 < 1).all()),
            "old_data": (exact, np.append(still["corrected"], found.walks[:, 1])),
        },
        "osafl-rem4": {
            "formula": (found.formulas[:, 1], found.formulas[:, 0]),
            "identical": (found.identical, 1.0),
            "boils_down": (special["(25)"].to_numpy(), special["(26)"].to_numpy()),
            "fedavg": (special["exact"].to_numpy(), special["(26)"].to_numpy()),
            "kept": (special["exact"].to_numpy(), special["(25)"].to_numpy()),
        },
    }


def notes(found: Found) -> dict[str, str]:
    """Return the causes that were found, by artefact."""
    low = min(np.quantile(v, 0.01) for v in found.coefficients.values())
    high = max(np.quantile(v, 0.99) for v in found.coefficients.values())
    above = (found.special["exact"] / found.special["(26)"]).max()
    return {
        "osafl-eq35": "C_u lacks psi in print (ERRATA 31), which alone makes the verdict. (21) has "
        "another letter in its denominator in our copy of the text (ERRATA 79), which may be the "
        f"copy's fault. The best score over lambda is {low:.2f} to {high:.2f}; lambda "
        "itself is arbitrary (ERRATA 32): no score is derived.",
        "osafl-rem2": "6 U N + 2 N additions and multiplications. The time is linear only while "
        "the updates fit into the processor's cache: 0.8 ns a number at 13 MB, 2.1 ns at 100 MB on "
        "one core of ours.",
        "osafl-thm1": "About the score-weighted loss (18). It fails for A <= 0 and, at every point "
        "of the grid, for moving data; with Remark 3's step size and each round's loss decrease on "
        "its own data it holds, but the decreases no longer telescope (ERRATA 33).",
        "osafl-rem4": f"(26) drops 1/A and is false, the exact mean is up to {above:.4f} of it "
        "(ERRATA 58).",
    }


def comparison_rows(found: Found) -> list[dict]:
    """Return ours and the paper's numbers for a table of `results.tables.comparison`."""
    own = found.static[found.static["feasible"] & (found.static["loss"] == "(18)")]
    still, special = found.moving[found.moving["feasible"]], found.special
    rows = [
        (f"operations of the scores, power of {name}", slope, 1.0)
        for name, slope in found.operations.slope.items()
    ]
    ratios = (
        ("largest exact mean over (24), data that stay", own["exact"] / own["bound"]),
        ("largest exact mean over (24), moving data", still["ratio"]),
        ("the same, decrease on the old data", still["exact"] / still["corrected"]),
        ("largest exact mean over (26)", special["exact"] / special["(26)"]),
        ("largest exact mean over (25)", special["exact"] / special["(25)"]),
    )
    rows += [(name, ratio.max(), "at most 1") for name, ratio in ratios]
    return [{"quantity": name, "ours": ours, "paper": paper} for name, ours, paper in rows]


LEVELS = np.linspace(0, 1, 401)  # of the distributions of best score over lambda


def score(
    updates: np.ndarray,
    scores: np.ndarray,
    coefficients: Mapping[str, np.ndarray],
    one: OneClient,
) -> Figure:
    """Draw the score in four panels.

    Six updates and their scores, the score over the angle, the distribution of the best score over
    lambda, and the surrogate (30) of one client. `coefficients` and `one` are those of `Found`.
    """
    import matplotlib.pyplot as plt

    fig, ((plane, curve), (spread, why)) = plt.subplots(2, 2, figsize=(9.6, 7.2))
    _plane(plane, updates, scores)
    angle = np.linspace(0, 180, 91)
    for i, chi in enumerate((1, 2, 10)):
        look = figures.series_style(None, i) | {"markevery": 15}
        value = (chi + np.cos(np.deg2rad(angle))) / (chi + 1)
        curve.plot(angle, value, **look, label=rf"$\chi={chi}$")
    curve.set(xlabel="angle to the average update (degrees)", ylabel="score", ylim=(0, 1.02))
    curve.set(xticks=range(0, 181, 45), title="score (21)")
    curve.legend()
    for i, (name, values) in enumerate(coefficients.items()):
        look = figures.series_style(None, i) | {"marker": "None"}
        spread.plot(np.quantile(values, LEVELS), LEVELS, **look, label=name)
    spread.axvline(0.9, color="black", linewidth=0.8)
    spread.set(xlabel=r"best score / $\lambda$ in random rounds", ylabel="share below")
    spread.set(xlim=(0.4, 1.01), ylim=(0, 1), title="the coefficient of (35)")
    spread.legend(loc="upper left", fontsize=9)
    why.plot(one.score, one.given, color="#0072B2", label=r"$\lambda=0.8$ given")
    look = dict(color="#D55E00", linestyle="--", label=r"$\lambda=\Delta/2$, the best one")
    why.plot(one.score, one.free, **look)
    why.plot(one.best[0], one.given.min(), "o", color="#0072B2")
    why.plot(one.best[1], one.free.min(), "s", color="#D55E00", clip_on=False, zorder=5)
    why.set(xlabel=r"score $\Delta$ of a single client", ylabel="surrogate (30)", xlim=(0, 1))
    why.set_title("what the bound really prefers")
    why.legend(fontsize=9)
    return fig


def _plane(ax: Axes, updates: np.ndarray, scores: np.ndarray) -> None:
    """Draw updates as arrows with their scores, their mean, and their score-weighted mean."""
    import matplotlib.pyplot as plt

    colours = plt.get_cmap("cividis")
    for d, s in zip(updates, scores, strict=True):
        arrow = dict(arrowstyle="-|>", color=colours(s), linewidth=2.2)
        ax.annotate("", d, (0, 0), arrowprops=arrow)
        place = d + 0.13 * d / np.linalg.norm(d)
        ax.text(*place, f"{s:.2f}", ha="center", va="center", fontsize=10)
    means = (
        (updates.mean(axis=0), "#D55E00", "average update"),
        ((scores[:, None] * updates).mean(axis=0), "#0072B2", "weighted by the scores"),
    )
    for vector, color, name in means:
        look = dict(color=color, linewidth=5, solid_capstyle="round", label=name, zorder=3)
        ax.plot(*np.stack([0 * vector, vector], axis=1), **look)
    ax.set(xlim=(-1.25, 1.75), ylim=(-0.95, 1.45), aspect="equal", xlabel=r"$d_1$", ylabel=r"$d_2$")
    ax.set_title(r"six updates and their scores, $\chi=1$")
    ax.legend(loc="upper right", fontsize=9)


def theorem1(static: pd.DataFrame, moving: pd.DataFrame) -> Figure:
    """Draw Theorem 1 against exact values, for data that stay and for data that move.

    The tables are those of `quadratics.static` and `quadratics.steady_walk`.
    """
    import matplotlib.pyplot as plt

    fig, (left, middle, right) = plt.subplots(1, 3, figsize=(12.0, 4.2))
    own = (static["score"] == "1") & (static["loss"] == "(18)") & (static["kappa"] == "5")
    for i, (product, line) in enumerate(static[own].groupby("product")):
        look = figures.series_style(None, i)
        left.plot(line["rate"], line["exact"], **look, label=rf"$\eta\tilde\eta={product:g}$")
        ok = line["feasible"] & (line["bound"] < np.inf)
        dotted = dict(color=look["color"], linestyle=":", marker=".")
        left.plot(line["rate"][ok], line["bound"][ok], **dotted)
    left.set(xscale="log", yscale="log", xlabel=r"local rate $\eta$")
    title = r"Theorem 1: $\Delta=1$, $\kappa=5$ (dotted: (24))"
    left.set(ylabel="mean squared gradient", title=title)
    left.set_ylim(top=15)
    left.legend(fontsize=8.5, loc="upper left")
    order = {"1/4": 0.25, "1/2": 0.5, "3/4": 0.75, "1": 1.0}
    usable = static[static["feasible"]]
    readings = {"(18)": "score-weighted loss (18)", "(3)": "true loss (3)"}
    for i, (reading, text) in enumerate(readings.items()):
        top = usable[usable["loss"] == reading].groupby("score")["ratio"].max()[list(order)]
        middle.plot(list(order.values()), top, **figures.series_style(None, i), label=text)
    middle.axhline(1, color="black", linewidth=1)
    middle.set(xlabel=r"score $\Delta$ of all clients", ylabel="largest exact / bound")
    middle.set(ylim=(0, None), xticks=list(order.values()), title="data that stay")
    middle.legend(fontsize=8.5)
    for i, ((kappa, rate), line) in enumerate(moving.groupby(["kappa", "rate"])):
        look = figures.series_style(None, i) | {"markevery": 4}
        name = rf"$\kappa={kappa}$, $\eta={rate}$"
        right.plot(line["product"], line["ratio"], **look, label=name)
    right.axhline(1, color="black", linewidth=1)
    right.set(xscale="log", yscale="log", xlabel=r"$\eta\tilde\eta$", ylabel="exact / bound")
    right.set_title("data that move")
    right.legend(fontsize=8.5)
    return fig


def remark4(special: pd.DataFrame) -> Figure:
    """Draw the exact mean over (26) and over (25); `special` is of `identical_clients`."""
    import matplotlib.pyplot as plt

    fig, axes = plt.subplots(1, 2, figsize=(9.6, 3.9))
    for ax, column in zip(axes, ("(26)", "(25)"), strict=True):
        for i, (kappa, line) in enumerate(special[special["product"] == 1.0].groupby("kappa")):
            look = figures.series_style(None, i) | {"markevery": 6}
            ratio = line["exact"] / line[column]
            ax.plot(line["fraction"] / 4, ratio, **look, label=rf"$\kappa={kappa}$")
        ax.axhline(1, color="black", linewidth=1)
        ax.set(xlabel=r"$\beta\eta\kappa$", ylabel="exact / bound", xlim=(0, 0.25))
        ax.set_title(f"{column}, $\\eta\\tilde\\eta=1/\\beta$")
    axes[0].legend(fontsize=9)
    axes[1].set_ylim(0, 1.05)
    return fig
