"""Notebook 14, SFL's convergence theory on a problem that meets every assumption.

Source: SFL, Section V and its supplement, with ERRATA 9, 52 and 74. The problem is `toy_problem`.
In the pictures rules have their usual looks, bounds are dotted, and a printed bound that fails is
dashed.

Theorem 1's counter-example is one client with one class and a fair coin in place of a sample. The
loss of a round's sample is h(w) + c w / 2, where c = 1 or -1 is the round's coin and h has
curvature 1 for |w| <= 1/2 and slope 1/2 or less beyond. Then L = sigma_M = 1, sigma_G = A =
lambda_t = 0, and the long-term loss is h. With the coins of M rounds in the cache, E local steps
move the model by w <- (1 - a) w - a n, where n is the cache's mean of c / 2. From w_0 = 1/2 the
model stays in [-1/2, 1/2], so that this is exact and grad f(w) = w.

| code         | symbol     | shape          | meaning                                             |
|--------------|------------|----------------|-----------------------------------------------------|
| exact2       | lambda_t^2 | (rounds,)      | exact error of the label mix, largest of all        |
| bounded2     | lambda_t^2 | (max horizon,) | the same as Propositions 1 to 3 bound it            |
| HORIZONS     | T          | (n_horizons,)  | numbers of rounds at which a bound is drawn         |
| step         | a          |                | what a round moves, (1 - (1 - eta_L)^E) eta, (0, 1] |
| cache_rounds | M          |                | rounds in the cache, B / B_s                        |
| refreshed    |            |                | True: the last M rounds (FIFO); False: the first M  |
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd

from companion.notebooks import sfl_shared, toy_problem
from companion.notebooks.toy_problem import SyntheticConfig
from companion.plans import Stage
from sflkit.randomness import generator
from sflkit.sfl import bounds, discrepancy, streams
from sflkit.sfl.discrepancy import exact_discrepancy

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def convergence(*, parts: int, **settings: Any) -> Generator[Stage, pd.DataFrame, pd.DataFrame]:
    """Notebook 14: three rules on the problem that meets every assumption."""
    config = SyntheticConfig(classes_per_client=settings["n_classes"], **settings)
    runs = [replace(config, rule=r, part=p) for r in toy_problem.RULES for p in range(parts)]
    return (yield Stage(toy_problem.run, runs, "training"))


def squared_gradient(
    rounds: int, step: float, cache_rounds: int, *, refreshed: bool = True
) -> np.ndarray:
    """Return E||grad f(w_t)||^2 = E[w_t^2] for t = 0, ..., rounds - 1, exactly, shape (rounds,).

    While the cache fills, it holds every coin so far. The model is a weighted sum of the coins and
    of w_0, so its second moment is (1 - a)^(2t) / 4 plus a quarter of the sum of squared weights.

    Parameters
    ----------
    rounds, cache_rounds : int
        T, M >= 1.
    step : float
        a in (0, 1].
    refreshed : bool
        Whether new coins replace old ones once the cache is full.
    """
    weights = np.zeros(rounds)  # of coin s in w_t
    moments = np.empty(rounds)
    for t in range(rounds):
        moments[t] = (1 - step) ** (2 * t) / 4 + (weights**2).sum() / 4
        held = min(t + 1, cache_rounds)
        first = t + 1 - held if refreshed else 0
        weights *= 1 - step
        weights[first : first + held] -= step / held
    return moments


def step_of(local_steps: int, local_rate: float, global_rate: float) -> float:
    """Return a = eta (1 - (1 - eta_L)^E), what a round moves: E local steps and the server's."""
    return global_rate * (1 - (1 - local_rate) ** local_steps)


def bound(
    rounds: int, local_steps: int, local_rate: float, global_rate: float
) -> bounds.SFLConvergence:
    """Return Theorem 1's bound on the least of the first `rounds` squared gradients.

    The loss gap is h(1/2) - h(0) = 1/8.
    """
    return bounds.theorem1(
        loss_gap=0.125,
        rounds=rounds,
        local_steps=local_steps,
        smoothness=1.0,
        local_rate=local_rate,
        global_rate=global_rate,
        n_classes=1,
        max_share=1.0,
        sigma_m2=1.0,
        sigma_g2=0.0,
        dissimilarity2=0.0,
        lambda2=np.zeros(rounds),
        n_clients=1,
    )


Evidence = dict[str, Any]
# The three rules as the problem runs them, and whose looks and labels they have.
SHOWN = {"fifo": "fifo", "srsr_filled": "srsr", "drsr": "drsr"}
MEASURED = ["real_to_virtual", "virtual_to_expected", "drift", "grad_norm2"]
HORIZONS = np.unique(np.geomspace(10, 10_000, 25).round().astype(int))  # 100 among them
TERMS = ("vanishing", "phi_g", "phi_m", "phi_l")
SIZES = {"local_steps": 4, "n_clients": 10}  # E and K of what is said about Corollary 2


class Case:
    """The problem of a config, its stream, and the bounds that belong to them.

    Raises ValueError if the step sizes of `config` are too large for Theorem 1.
    """

    def __init__(self, config: SyntheticConfig):
        self.config = config
        self.stream = discrepancy.make_stream(config)
        self.max_share = float(self.stream.long_term.max())
        self.gamma, self.delta2 = discrepancy.correlation_rounds(self.stream, window=400)
        self.t = np.arange(1, config.rounds + 1)
        self.start = self.theorem1(1, [0.0])
        if not self.start.feasible:
            raise ValueError(
                f"local_rate={config.local_rate}, global_rate={config.global_rate}, "
                f"local_steps={config.local_steps}: Theorem 1 asks for local_rate < 0.125 / "
                "local_steps and global_rate * local_rate <= 0.25 / local_steps here"
            )

    @property
    def problem(self) -> dict[str, float]:
        """The constants of the problem, as `bounds` calls them."""
        return {
            "smoothness": toy_problem.SMOOTHNESS,
            "sigma_m2": toy_problem.SIGMA_M2,
            "sigma_g2": toy_problem.SIGMA_G2,
            "dissimilarity2": toy_problem.DISSIMILARITY2,
            "n_classes": self.config.n_classes,
            "max_share": self.max_share,
        }

    def theorem1(self, rounds: int, lambda2: Any) -> Any:
        """Return `bounds.theorem1` of the problem at its step sizes."""
        config = self.config
        return bounds.theorem1(
            **self.problem,
            local_steps=config.local_steps,
            local_rate=config.local_rate,
            global_rate=config.global_rate,
            loss_gap=toy_problem.loss_gap(config),
            n_clients=config.n_clients,
            rounds=rounds,
            lambda2=lambda2,
        )

    @cached_property
    def exact2(self) -> dict[str, np.ndarray]:
        """The exact lambda_t^2 of each rule over the rounds; equal until the cache is full."""
        size, how = self.config.cache_rounds, {"cache_rounds": self.config.cache_rounds}
        mean = np.array([exact_discrepancy(self.stream, "drsr", s, **how).max() for s in self.t])
        full = exact_discrepancy(self.stream, "fifo", size, **how).max()
        how["theta"] = self.config.theta
        srsr = [exact_discrepancy(self.stream, "srsr_filled", s, **how).max() for s in self.t]
        return {
            "drsr": mean,
            "fifo": np.where(self.t < size, mean, full),
            "srsr_filled": np.array(srsr),
        }

    @cached_property
    def bounded2(self) -> dict[str, np.ndarray]:
        """The bounds of Propositions 1 to 3 over many rounds; equal until the cache is full."""
        size = self.config.cache_rounds
        t = np.arange(1, HORIZONS[-1] + 1)
        drsr = bounds.drsr_discrepancy(t, self.gamma, self.delta2)
        prop1 = bounds.fifo_discrepancy(size, self.gamma, self.delta2)
        fifo = np.where(t < size, drsr, prop1)
        later = bounds.srsr_discrepancy(
            np.maximum(t - size, 1),
            size,
            self.config.theta,
            self.gamma,
            self.delta2,
            share=0.0,
            start=prop1**0.5,  # v_M obeys Prop. 1
        )
        return {"drsr": drsr, "fifo": fifo, "srsr_filled": np.where(t <= size, fifo, later)}


class Measured(NamedTuple):
    """What was measured: means over paths by rule, round and client; and rule -> pivoted table."""

    frame: pd.DataFrame
    by_rule: dict[str, pd.DataFrame]

    def worst(self, rule: str, column: str) -> pd.Series:
        """Return a column's largest value over the clients, by round."""
        return self.by_rule[rule][column].max(axis=1)


def measured(frame: pd.DataFrame) -> Measured:
    """Average the rows of a sweep of `toy_problem.run` over its paths."""
    mean = frame.groupby(["rule", "round", "client"])[MEASURED].mean().reset_index()
    names = toy_problem.RULES
    by_rule = {r: mean[mean["rule"] == r].pivot(index="round", columns="client") for r in names}
    return Measured(mean, by_rule)


# --- Lemmas 1 and 2 -------------------------------------------------------------------------------


class Opposite(NamedTuple):
    """Two classes with opposite gradients, FIFO with M = 10.

    `lambda2` is the exact error of the mix, `gap2` and `error` the mean of |g - g^|^2 over many
    caches and its standard error, `allowed` what Lemma 1 allows.
    """

    lambda2: float
    gap2: float
    error: float
    allowed: float


def opposite_classes(seed: int, n_caches: int = 4000) -> Opposite:
    """Fill many caches with two classes whose gradients are 1 and -1, where Lemma 1 is tight."""
    stream = streams.LabelStream([[[0.3, 0.7], [0.7, 0.3]]], [[[0.8, 0.2], [0.2, 0.8]]])
    lambda2 = float(exact_discrepancy(stream, "fifo", 10, cache_rounds=10).max())
    many = discrepancy.repeat_clients(stream, n_caches)
    arrivals = many.sample(10, 10, generator(seed, "monte_carlo"), exact=True)
    held = arrivals.sum(axis=0)  # what FIFO's caches hold then
    gap2 = (held @ [1, -1] / held.sum(axis=1) - stream.long_term[0] @ [1, -1]) ** 2
    error = gap2.std(ddof=1) / len(gap2) ** 0.5
    allowed = bounds.lemma1(n_classes=2, lambda2=lambda2, sigma_m2=1.0, max_share=0.5)
    return Opposite(lambda2, gap2.mean(), error, allowed.real_to_virtual)


def lemma1_bounds(case: Case) -> dict[str, np.ndarray]:
    """Return rule -> the two bounds of Lemma 1 over the rounds, (rounds, 2)."""
    how = {"n_classes": case.config.n_classes, "sigma_m2": 1.0, "max_share": case.max_share}
    return {
        rule: np.array([bounds.lemma1(lambda2=value, **how) for value in case.exact2[rule]])
        for rule in SHOWN
    }


def lemma2_bounds(case: Case, found: Measured) -> dict[str, np.ndarray]:
    """Return rule -> Lemma 2's bound over the rounds, (rounds,), with the measured gradient."""
    how = {"local_rate": case.config.local_rate, "local_steps": case.config.local_steps}
    return {
        rule: np.array(
            [
                bounds.lemma2(**case.problem, **how, lambda2=l2, grad_norm2=g2).total
                for l2, g2 in zip(case.exact2[rule], found.worst(rule, "grad_norm2"), strict=True)
            ]
        )
        for rule in SHOWN
    }


def drift_by_labels(case: Case, two: Opposite) -> pd.DataFrame:
    """Return the drift that a wrong label mix alone causes, beside Lemma 2, by local steps E.

    Columns: E, drift, "lambda term" and "Lemma 2 / one-liner"; the one-liner is
    (E - 1)^2 eta_L^2 sigma_M^2.
    """
    each = np.array([2, 4, 6, 7, 10, 20])
    rate = case.config.local_rate
    terms = [
        bounds.lemma2(
            smoothness=1.0,
            local_rate=rate,
            local_steps=int(e),
            n_classes=2,
            max_share=0.5,
            lambda2=two.lambda2,
            sigma_m2=1.0,
            sigma_g2=0.0,
            dissimilarity2=0.0,
            grad_norm2=0.0,
        )
        for e in each
    ]
    return pd.DataFrame(
        {
            "E": each,
            # constant gradients: E - 1 equal steps
            "drift": (each - 1) ** 2 * rate**2 * 4 * two.lambda2,
            "lambda term": [x.lambda_term for x in terms],
            "Lemma 2 / one-liner": [x.total for x in terms] / ((each - 1) ** 2 * rate**2),
        }
    )


# --- Theorem 1 ------------------------------------------------------------------------------------


def terms_over_rounds(case: Case) -> dict[str, pd.DataFrame]:
    """Return rule -> the terms of Theorem 1 at HORIZONS."""
    lam = case.bounded2
    return {
        rule: pd.DataFrame([case.theorem1(int(n), lam[rule][:n]) for n in HORIZONS])
        for rule in SHOWN
    }


def totals_over_rounds(case: Case) -> dict[str, np.ndarray]:
    """Return rule -> Theorem 1's total over the measured rounds, with the exact lambda_t^2."""
    return {
        rule: np.array([case.theorem1(int(n), case.exact2[rule][:n]).total for n in case.t])
        for rule in SHOWN
    }


def kept(terms: dict[str, pd.DataFrame]) -> pd.DataFrame:
    """Return Phi_L at T = 100 and T = 10000, and what is kept of it, one row a rule."""
    at = [int(np.flatnonzero(HORIZONS == n)[0]) for n in (100, 10_000)]
    ends = {rule: frame["phi_l"].to_numpy()[at] for rule, frame in terms.items()}
    return pd.DataFrame(
        [
            {"rule": rule, "Phi_L at T = 100": a, "at T = 10000": b, "kept": b / a}
            for rule, (a, b) in ends.items()
        ]
    )


class Coin(NamedTuple):
    """The coin in a cache of M = 2, E = 50, step size s -> values over `t`.

    Attributes
    ----------
    t : array (n,)
    true, never_refreshed : dicts of arrays (n,)
        The least E||grad f||^2 so far, exactly; and that of a cache that keeps its first samples.
    bound : dict of DataFrames
        Theorem 1's terms.
    completed : dict of arrays (n,)
        The printed total with E times the dropped term.
    """

    t: np.ndarray
    true: dict[float, np.ndarray]
    never_refreshed: dict[float, np.ndarray]
    bound: dict[float, pd.DataFrame]
    completed: dict[float, np.ndarray]


def coin_in_a_cache(local_steps: int = 50, rate: float = 1e-4) -> Coin:
    """Follow the coin for the step sizes eta eta_L = s / (4 E L), s = 1, 0.3, 0.1 and 0.03."""
    t = np.unique(np.geomspace(1, 3000, 40).astype(int))
    found = Coin(t, {}, {}, {}, {})
    for s in (1.0, 0.3, 0.1, 0.03):
        global_rate = s / (4 * local_steps * rate)
        step = step_of(local_steps, rate, global_rate)
        for kept_forever, values in ((False, found.true), (True, found.never_refreshed)):
            moments = squared_gradient(t[-1], step, 2, refreshed=not kept_forever)
            values[s] = np.minimum.accumulate(moments)[t - 1]
        rows = [bound(int(n), local_steps, rate, global_rate) for n in t]
        found.bound[s] = pd.DataFrame(rows)
        dropped = local_steps * found.bound[s]["phi_m_missing"]
        found.completed[s] = (found.bound[s]["total"] + dropped).to_numpy()
    return found


# --- Corollary 2 ----------------------------------------------------------------------------------


class Orders(NamedTuple):
    """Corollary 2's orders at L = 0.1, E = 4, K = 10.

    `stated` and `slopes` (name of the rates -> term) hold exponents in T, E and K; `curves` is
    rule -> Theorem 1's terms at HORIZONS, `totals` a frame of totals by rule and rates.
    """

    stated: dict[str, tuple]
    slopes: dict[str, dict[str, list[float]]]
    curves: dict[str, pd.DataFrame]
    totals: pd.DataFrame

    def table(self) -> pd.DataFrame:
        """Return the exponents as a table, one row a term and axis."""
        return pd.DataFrame(
            [
                {
                    "term": term,
                    "slope in": axis,
                    "stated": round(self.stated[term][i], 4) if term in self.stated else "-",
                    "printed eta_L": round(self.slopes["printed"][term][i], 4) + 0.0,
                    "corrected eta_L": round(self.slopes["corrected"][term][i], 4) + 0.0,
                }
                for term in (*self.stated, "phi_m_missing")
                for i, axis in enumerate("TEK")
            ]
        )


def flat_problem(case: Case) -> dict[str, float]:
    """Return the problem with L = 0.1 in place of 1, as for a flatter loss, and c = 1/4."""
    gap = toy_problem.loss_gap(case.config)
    return case.problem | {"loss_gap": gap, "smoothness": 0.1, "c": 0.25}


def corollary2_orders(case: Case) -> Orders:
    """Return the orders of Theorem 1's terms under Corollary 2's step sizes, as printed and not."""
    rounds = 100_000
    lam = bounds.drsr_discrepancy(np.arange(1, 4 * rounds + 1), case.gamma, case.delta2)
    falls = np.log(lam.mean() / lam[:rounds].mean()) / np.log(4)  # of (1/T) sum lambda_t^2
    orders = ((-0.5, -0.5, -0.5), (-1, 0, 0), (-1, 0, 0), (falls, 0, 0))
    slopes = {name: _slopes(case, name, rounds, lam) for name in ("printed", "corrected")}
    curves, totals = {}, []
    for rule in SHOWN:
        rows = _under_corollary2(case, rule)
        curves[rule] = rows[rows["rates"] == "corrected"]
        for name, part in rows.set_index("T").groupby("rates", sort=False):
            ends = part.loc[100], part.loc[10_000]
            mended = [end["total"] + SIZES["local_steps"] * end["phi_m_missing"] for end in ends]
            totals.append(
                {
                    "rule": rule,
                    "eta_L": name,
                    "T = 100": ends[0]["total"],
                    "T = 10000": ends[1]["total"],
                    "kept": ends[1]["total"] / ends[0]["total"],
                    "with E times dropped": mended[1] / mended[0],
                }
            )
    stated = dict(zip(TERMS, orders, strict=True))
    return Orders(stated, slopes, curves, pd.DataFrame(totals))


def _rates(name: str, rounds: int, local_steps: int, n_clients: int) -> dict[str, float]:
    """Return Corollary 2's step sizes, "printed" or "corrected" (ERRATA 50)."""
    sizes = {"rounds": rounds, "local_steps": local_steps, "n_clients": n_clients}
    rates = bounds.corollary2(**sizes)._asdict()
    if name == "printed":
        rates["local_rate"] = 1 / np.sqrt(rounds * local_steps)
    return rates


def _slopes(case: Case, name: str, rounds: int, lam: np.ndarray) -> dict[str, list[float]]:
    """Return term -> exponents in T, E and K: from one point to that with four times as many."""
    base = {"rounds": rounds} | SIZES
    found = {}
    for key in ("base", *base):
        point = base | ({key: base[key] * 4} if key in base else {})
        lambda2 = lam[: point["rounds"]]
        how = flat_problem(case) | point | _rates(name, **point)
        found[key] = bounds.theorem1(**how, lambda2=lambda2)
        if not found[key].feasible:
            raise ValueError(f"Theorem 1 does not allow the {name} step sizes at {point}")
    return {
        term: [
            np.log(getattr(found[key], term) / getattr(found["base"], term)) / np.log(4)
            for key in base
        ]
        for term in (*TERMS, "phi_m_missing")
    }


def _under_corollary2(case: Case, rule: str) -> pd.DataFrame:
    """Return Theorem 1's terms at HORIZONS under both step sizes."""
    rows = []
    for name in ("printed", "corrected"):
        for n in map(int, HORIZONS):
            point = {"rounds": n} | SIZES
            how = flat_problem(case) | point | _rates(name, **point)
            bound = bounds.theorem1(**how, lambda2=case.bounded2[rule][:n])
            # The printed ones are too large while T < 16 E^2 K L^2.
            if not bound.feasible and not (name == "printed" and n < 26):
                raise ValueError(f"Theorem 1 does not allow the {name} step sizes at {point}")
            rows.append({"rates": name, "T": n, **bound._asdict()})
    return pd.DataFrame(rows)


# --- evidence -------------------------------------------------------------------------------------


class Found(NamedTuple):
    """All that notebook 14 computes, in its order."""

    case: Case
    measured: Measured
    two: Opposite
    lemma1: dict[str, np.ndarray]
    drift: pd.DataFrame
    terms: dict[str, pd.DataFrame]
    totals: dict[str, np.ndarray]
    coin: Coin
    orders: Orders

    @property
    def smallest(self) -> dict[str, pd.Series]:
        """Rule -> the least squared gradient so far, the worst client's, by round."""
        return {rule: self.measured.worst(rule, "grad_norm2").cummin() for rule in SHOWN}

    @property
    def worst(self) -> float:
        """The largest ratio of a squared gradient to the printed bound of Theorem 1."""
        ratios = [self.smallest[rule].to_numpy() / self.totals[rule] for rule in SHOWN]
        ratios.append((self.coin.true[1.0] / self.coin.bound[1.0]["total"]).to_numpy())
        return max(float(ratio.max()) for ratio in ratios)


def looseness() -> tuple[np.ndarray, np.ndarray]:
    """Return (E - 1)^2 and Lemma 2's second term, over many E, R and R pi-bar >= 1."""
    sides = np.meshgrid(np.arange(2, 101), np.arange(1, 21), [1, 1.5, 3, 10])
    largest = np.minimum(sides[2], sides[1]) ** 2
    return (sides[0] - 1.0) ** 2, 60 * sides[0] ** 2 * largest


def evidence(found: Found) -> dict[str, Evidence]:
    """Return the evidence of notebook 14, artefact -> part -> what the rule takes."""
    config, by_rule = found.case.config, found.measured.by_rule
    # all rules agree until the cache is full
    later = {"fifo": 0, "srsr_filled": config.cache_rounds, "drsr": config.cache_rounds}
    lemma1: Evidence = {
        f"{gap} {look}": tuple(
            np.broadcast_arrays(
                by_rule[rule][column].to_numpy()[later[rule] :],
                found.lemma1[rule][later[rule] :, [i]],
            )
        )
        for i, (gap, column) in enumerate(zip(("first", "second"), MEASURED[:2], strict=True))
        for rule, look in SHOWN.items()
    }
    lemma1["tight"] = (found.two.gap2, found.two.error, found.two.allowed)
    steps = (config.local_steps - 1) ** 2 * config.local_rate**2 * toy_problem.SIGMA_M2
    lemma2 = {
        "drift": (np.stack([by_rule[rule]["drift"].to_numpy() for rule in SHOWN]), steps),
        "implied": looseness(),
        "label error": (found.drift["drift"].to_numpy(), found.drift["lambda term"].to_numpy()),
    }
    return {
        "sfl-lem1": lemma1,
        "sfl-lem2": lemma2,
        "sfl-thm1": _theorem1_evidence(found, later),
        "sfl-cor2": _corollary2_evidence(found.orders),
    }


def _theorem1_evidence(found: Found, later: dict[str, int]) -> Evidence:
    smallest, tossed = found.smallest, found.coin
    completed = np.concatenate(list(tossed.completed.values()))
    return {
        "inequality": (found.worst, 1.0),
        "training": (
            np.concatenate([smallest[rule].to_numpy()[later[rule] :] for rule in SHOWN]),
            np.concatenate([found.totals[rule][later[rule] :] for rule in SHOWN]),
        ),
        "E times": (np.concatenate(list(tossed.true.values())), completed),
        "never refreshed": (np.concatenate(list(tossed.never_refreshed.values())), completed),
    }


def _corollary2_evidence(orders: Orders) -> Evidence:
    left = orders.totals.set_index(["rule", "eta_L"])
    printed, corrected = orders.slopes["printed"], orders.slopes["corrected"]
    stated = orders.stated
    evidence: Evidence = {t: (np.subtract(printed[t], stated[t]), 0.05) for t in stated}
    evidence |= {f"{t}, corrected": (np.array(corrected[t]), np.array(stated[t])) for t in stated}
    return evidence | {
        "drsr": (left.loc[("drsr", "printed"), "kept"], 0.1),
        "drsr, corrected": (left.loc[("drsr", "corrected"), "kept"], 0.1),
        "dropped": (printed["phi_m_missing"][0] + 1, 0.05),
        "drsr, dropped": (left.loc["drsr", "with E times dropped"].to_numpy(), 0.1),
    }


_BOUND: dict[str, Any] = {"color": "black", "linestyle": ":"}
_PRINTED: dict[str, Any] = {"color": "#CC79A7", "linestyle": "--"}
# Where the three rules lie on one another: those below are wider, so that all are seen.
_WIDTHS = dict(zip(SHOWN, (5.0, 3.0, 1.2), strict=True))


def lemma1(axes: Sequence[Axes], case: Case, found: Measured, bound: dict[str, np.ndarray]) -> None:
    """Draw the two gaps of Lemma 1, measured and bounded, over rounds."""
    for rule, look in SHOWN.items():
        style, name = sfl_shared.line(look), sfl_shared.label(look)
        axes[0].plot(case.t, found.worst(rule, "real_to_virtual"), **style, label=name)
        axes[0].plot(case.t, bound[rule][:, 0], color=style["color"], linewidth=1, linestyle=":")
        wide = style | {"linewidth": _WIDTHS[rule]}
        axes[1].plot(case.t, found.worst(rule, "virtual_to_expected"), **wide, label=name)
    axes[0].plot([], [], color="0.3", linewidth=1, linestyle=":", label="bounds")
    axes[1].axhline(bound["drsr"][0, 1], **_BOUND, label="bound (all rules)")
    axes[0].set(xlabel="round t", ylabel="squared length", yscale="log")
    axes[0].set_title(r"real to virtual gradient, $\mathbb{E}\|g-\hat g\|^2$")
    axes[1].set(xlabel="round t", yscale="log")
    axes[1].set_title(r"virtual to expected, $\mathbb{E}\|\hat g-\nabla f^k\|^2$")
    axes[0].set_ylim(bottom=axes[0].get_ylim()[0] / 6)
    axes[0].legend(ncols=2, loc="lower left")
    axes[1].legend(loc="center right")


def lemma2(axes: Sequence[Axes], case: Case, found: Measured, bound: np.ndarray) -> None:
    """Draw the drift within a round beside its bounds, and that of a wrong label mix alone.

    `bound` (rounds,) is Lemma 2's for DRSR.
    """
    config = case.config
    for rule, look in SHOWN.items():
        text = f"{sfl_shared.label(look)}, measured"
        axes[0].plot(case.t, found.worst(rule, "drift"), **sfl_shared.line(look), label=text)
    axes[0].plot(case.t, bound, **_BOUND, label="Lemma 2 (DRSR)")
    simple = (config.local_steps - 1) ** 2 * config.local_rate**2
    text = r"one line: $(E-1)^2\eta_L^2\sigma_M^2$"
    axes[0].axhline(simple, color="gray", linewidth=1, label=text)
    axes[0].set(xlabel="round t", ylabel="squared drift", yscale="log")
    axes[0].set_title(f"drift, E = {config.local_steps}")
    axes[0].legend(loc="center right", bbox_to_anchor=(1, 0.7))
    steps = np.arange(1, 21)
    axes[1].plot(steps, (steps - 1) ** 2, color="#0072B2", label="drift by a label error alone")
    axes[1].plot(steps, 5 * steps, **_BOUND, label=r"$\lambda$ term of Lemma 2")
    axes[1].set(xlabel="local steps E", ylabel=r"in units of $\eta_L^2R^2\lambda_t^2\sigma_M^2$")
    axes[1].set(title="two opposite classes", xticks=[1, 5, 10, 15, 20])
    axes[1].legend()


def theorem1(axes: Sequence[Axes], found: Found) -> None:
    """Draw Theorem 1's terms over rounds, and what was measured beside its total."""
    _terms(axes[0], found.terms, {"phi_m_missing": "dropped term"})
    axes[0].set(xlabel="rounds T", ylabel="squared gradient length", title="terms of the bound")
    t = found.case.t
    for rule, look in SHOWN.items():
        text = f"{sfl_shared.label(look)}, measured"
        wide = sfl_shared.line(look) | {"linewidth": _WIDTHS[rule]}
        axes[1].plot(t, found.smallest[rule], **wide, label=text)
    axes[1].plot(t, found.totals["drsr"], **_BOUND, label="Theorem 1 (DRSR)")
    axes[1].axhline(1, color="gray", linewidth=1, label=r"$\sigma_M^2$: always true")
    axes[1].set(yscale="log", xlabel="rounds T", title="training, measured")
    axes[1].legend(loc="center left", bbox_to_anchor=(1, 0.5))


def coin(axes: Sequence[Axes], found: Coin) -> None:
    """Draw the coin in a cache of two: at the largest step, and at a small one.

    Left the true value is above the printed bound; right it stays above every bound if the cache
    is never refreshed.
    """
    for ax, s, title in zip(axes, (1.0, 0.03), ("largest step", "step 0.03"), strict=True):
        total = found.bound[s]["total"]
        ax.plot(found.t, found.true[s], color="#0072B2", label="true value")
        ax.plot(found.t, found.never_refreshed[s], color="#009E73", label="never refreshed")
        ax.plot(found.t, total, **_PRINTED, label="bound as printed")
        some = total + found.bound[s]["phi_m_missing"]
        ax.plot(found.t, some, color="#E69F00", linestyle="-.", label="with the dropped term")
        ax.plot(found.t, found.completed[s], **_BOUND, label="with E times it")
        ax.set(xscale="log", yscale="log", xlabel="rounds T", title=f"a coin, M = 2: {title}")
    axes[0].set_ylabel("squared gradient length")
    axes[1].legend(loc="center left", bbox_to_anchor=(1, 0.5), title="both panels")


def corollary2(axes: Sequence[Axes], case: Case, found: Orders) -> dict[str, np.ndarray]:
    """Draw the terms over rounds under the corrected step sizes, and what E does under both."""
    _terms(axes[0], found.curves, {"phi_m_missing": "dropped term"}, slopes=True)
    axes[0].plot(HORIZONS, found.curves["drsr"]["total"], color="black", label="total, DRSR")
    axes[0].set(xlabel="rounds T", ylabel="squared gradient length")
    axes[0].set_title("corrected step sizes, E = 4, K = 10, L = 0.1")
    axes[0].legend(ncols=2, loc="lower left", fontsize=8)
    rounds, many = 100_000, np.array([1, 2, 4, 8, 16, 32])
    zeros, drawn = np.zeros(rounds), {}
    for name, look in (("printed", _PRINTED), ("corrected", {"color": "#0072B2"})):
        rates = 1 / np.sqrt(rounds * many) if name == "printed" else 1 / (np.sqrt(rounds) * many)
        over = []
        for e, rate in zip(many, rates, strict=True):
            how = {"rounds": rounds, "local_steps": int(e), "n_clients": 10, "lambda2": zeros}
            how |= {"local_rate": rate, "global_rate": np.sqrt(10 * e)}
            over.append(bounds.theorem1(**flat_problem(case), **how))
        for term, marker, text in (
            ("vanishing", "o", "vanishing"),
            ("phi_g", "^", r"$\Phi_G$, $\Phi_M$"),
        ):
            values = np.array([getattr(b, term) for b in over])
            drawn[f"{name} {term}"] = values / values[0]
            label = f"{text}, {name}"
            axes[1].plot(many, drawn[f"{name} {term}"], **look, marker=marker, label=label)
    axes[1].plot(many, many**-0.5, **_BOUND, label=r"stated: $E^{-1/2}$ and constant")
    axes[1].plot(many, np.ones(len(many)), **_BOUND)
    axes[1].set(xscale="log", yscale="log", xlabel="local steps E", ylabel="relative to E = 1")
    axes[1].set_title("what E does, T = 100 000, L = 0.1")
    axes[1].legend(loc="upper left")
    axes[1].set_ylim(top=4000)
    return drawn


def _terms(
    ax: Axes, curves: dict[str, Any], extra: dict[str, str], *, slopes: bool = False
) -> None:
    """Draw Phi_L of each rule, and the other terms, which are the same for all, in grey."""
    for rule, look in SHOWN.items():
        text = rf"$\Phi_L$, {sfl_shared.label(look)}"
        ax.plot(HORIZONS, curves[rule]["phi_l"], **sfl_shared.line(look), label=text)
    names = {"vanishing": "vanishing", "phi_m": r"$\Phi_M$", **extra, "phi_g": r"$\Phi_G$"}
    slope = {"vanishing": "-1/2", "phi_m": "-1", "phi_m_missing": "-1/2", "phi_g": "-1"}
    for (column, text), line in zip(names.items(), ("-", "--", ":", "-."), strict=True):
        label = f"{text}, slope {slope[column]}" if slopes else text
        look = {"color": "gray", "linestyle": line, "linewidth": 1.2}
        ax.plot(HORIZONS, curves["drsr"][column], **look, label=label)
    ax.set(xscale="log", yscale="log")
    ax.legend(ncols=2, loc="lower left", fontsize=8)
    ax.set_ylim(bottom=ax.get_ylim()[0] / 60)
