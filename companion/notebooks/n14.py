"""Notebook 14, SFL's convergence theory on a problem that meets every assumption.

Source: SFL, Section V and its supplement, with ERRATA 9, 52 and 74. The problem is `toy_problem`.

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
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from companion.notebooks import toy_problem
from companion.notebooks.toy_problem import SyntheticConfig
from companion.plans import Stage
from sflkit.sfl import bounds, discrepancy
from sflkit.sfl.discrepancy import exact_path


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
        self.loss_gap = toy_problem.loss_gap(config)
        self.start = self.theorem1([0.0])
        if not self.start.feasible:
            raise ValueError(
                f"local_rate={config.local_rate}, global_rate={config.global_rate}, "
                f"local_steps={config.local_steps}: Theorem 1 asks for local_rate < 0.125 / "
                "local_steps and global_rate * local_rate <= 0.25 / local_steps here"
            )

    @property
    def problem(self) -> dict[str, float]:
        """The constants of the problem, as `bounds` calls them."""
        return toy_problem.CONSTANTS | {
            "n_classes": self.config.n_classes,
            "max_share": self.max_share,
        }

    def theorem1(self, lambda2: Sequence[float] | np.ndarray) -> bounds.SFLConvergence:
        """Return `bounds.theorem1` of the problem at its step sizes, after len(lambda2) rounds."""
        names = ("local_steps", "local_rate", "global_rate", "n_clients")
        return bounds.theorem1(
            **self.problem,
            **{name: getattr(self.config, name) for name in names},
            loss_gap=self.loss_gap,
            rounds=len(lambda2),
            lambda2=lambda2,
        )

    @cached_property
    def exact2(self) -> dict[str, np.ndarray]:
        """The exact lambda_t^2 of each rule over the rounds; equal until the cache is full."""
        size, rounds = self.config.cache_rounds, self.config.rounds
        thetas = {rule: self.config.theta if rule == "srsr_filled" else None for rule in SHOWN}
        return {
            rule: exact_path(self.stream, rule, rounds, cache_rounds=size, theta=theta).max((1, 2))
            for rule, theta in thetas.items()
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


def by_client(mean: pd.DataFrame, rule: str, column: str) -> pd.DataFrame:
    """Return a column of the means over paths, a row a round and a column a client."""
    return mean[mean["rule"] == rule].pivot(index="round", columns="client", values=column)


def coin_in_a_cache(local_steps: int = 50, rate: float = 1e-4) -> pd.DataFrame:
    """Follow the coin in a cache of M = 2 for Theorem 1's largest step, eta eta_L = 1 / (4 E L).

    Returns the rounds t, the true least squared gradient and its bound; `mended` is the printed
    bound with E times the term that the proof drops (ERRATA 9).
    """
    t = np.unique(np.geomspace(1, 3000, 40).astype(int))
    global_rate = 1 / (4 * local_steps * rate)
    moments = squared_gradient(t[-1], step_of(local_steps, rate, global_rate), 2)
    terms = pd.DataFrame([bound(int(n), local_steps, rate, global_rate) for n in t])
    mended = terms["total"] + local_steps * terms["phi_m_missing"]
    true = np.minimum.accumulate(moments)[t - 1]
    return pd.DataFrame({"t": t, "true": true, "bound": terms["total"], "mended": mended})


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


def corollary2_orders(case: Case) -> Orders:
    """Return the orders of Theorem 1's terms under Corollary 2's step sizes, as printed and not."""
    rounds = 100_000
    lam = bounds.drsr_discrepancy(np.arange(1, 4 * rounds + 1), case.gamma, case.delta2)
    falls = np.log(lam.mean() / lam[:rounds].mean()) / np.log(4)  # of (1/T) sum lambda_t^2
    orders = ((-0.5, -0.5, -0.5), (-1, 0, 0), (-1, 0, 0), (falls, 0, 0))
    slopes = {name: _slopes(case, name, rounds, lam) for name in ("printed", "corrected")}
    rows = pd.concat(_under_corollary2(case, rule) for rule in SHOWN)
    rows["mended"] = rows["total"] + SIZES["local_steps"] * rows["phi_m_missing"]
    first, last = (
        rows[rows["T"] == n].set_index(["rule", "rates"])[["total", "mended"]]
        for n in (100, 10_000)
    )
    totals = pd.DataFrame({"T = 100": first["total"], "T = 10000": last["total"]})
    kept = (last / first).set_axis(["kept", "with E times dropped"], axis=1)
    terms = rows[rows["rates"] == "corrected"].drop(columns="mended")
    curves = {
        rule: part.drop(columns="rule").reset_index(drop=True)
        for rule, part in terms.groupby("rule")
    }
    totals = totals.join(kept).reset_index().rename(columns={"rates": "eta_L"})
    return Orders(dict(zip(TERMS, orders, strict=True)), slopes, curves, totals)


def flat_bound(case: Case, name: str, lambda2: np.ndarray, **sizes: int) -> bounds.SFLConvergence:
    """Return Theorem 1's bound under Corollary 2's rates, "printed" or "corrected" (ERRATA 50).

    The problem has L = 0.1 in place of 1, as for a flatter loss, and c = 1/4.
    """
    sizes = {"rounds": len(lambda2)} | SIZES | sizes
    rates = bounds.corollary2(**sizes)._asdict()
    rounds, local_steps, n_clients = sizes.values()
    if name == "printed":
        rates["local_rate"] = 1 / np.sqrt(rounds * local_steps)
    flat = case.problem | {"loss_gap": case.loss_gap, "smoothness": 0.1, "c": 0.25}
    found = bounds.theorem1(**flat, **sizes, **rates, lambda2=lambda2)
    # The printed rates are too large while T < 16 E^2 K L^2.
    if not found.feasible and (name == "corrected" or rounds >= 0.16 * local_steps**2 * n_clients):
        raise ValueError(f"Theorem 1 does not allow the {name} step sizes at {sizes}")
    return found


def _slopes(case: Case, name: str, rounds: int, lam: np.ndarray) -> dict[str, list[float]]:
    """Return term -> exponents in T, E and K: from one point to that with four times as many."""
    base = {"rounds": rounds} | SIZES
    points = {"base": base} | {key: base | {key: 4 * n} for key, n in base.items()}
    found = {
        key: flat_bound(case, name, lam[: point["rounds"]], **point)
        for key, point in points.items()
    }
    return {
        term: [
            np.log(getattr(found[key], term) / getattr(found["base"], term)) / np.log(4)
            for key in base
        ]
        for term in TERMS
    }


def _under_corollary2(case: Case, rule: str) -> pd.DataFrame:
    """Return Theorem 1's terms at HORIZONS under both step sizes."""
    rows = [
        {"rule": rule, "rates": name, "T": n}
        | flat_bound(case, name, case.bounded2[rule][:n])._asdict()
        for name in ("printed", "corrected")
        for n in map(int, HORIZONS)
    ]
    return pd.DataFrame(rows)


# --- evidence -------------------------------------------------------------------------------------


class Found(NamedTuple):
    """All that notebook 14 judges; `mean` has the means over paths by rule, round and client."""

    case: Case
    mean: pd.DataFrame
    lemma1: dict[str, np.ndarray]
    totals: dict[str, np.ndarray]
    coin: pd.DataFrame
    orders: Orders

    @property
    def smallest(self) -> dict[str, pd.Series]:
        """Rule -> the least squared gradient so far, the worst client's, by round."""
        return {r: by_client(self.mean, r, "grad_norm2").max(axis=1).cummin() for r in SHOWN}

    @property
    def worst(self) -> float:
        """The largest ratio of a squared gradient to the printed bound of Theorem 1."""
        ratios = [self.smallest[rule].to_numpy() / self.totals[rule] for rule in SHOWN]
        return max(
            float(ratio.max()) for ratio in (*ratios, self.coin["true"] / self.coin["bound"])
        )


def looseness() -> tuple[np.ndarray, np.ndarray]:
    """Return (E - 1)^2 and Lemma 2's second term, over many E, R and R pi-bar >= 1."""
    sides = np.meshgrid(np.arange(2, 101), np.arange(1, 21), [1, 1.5, 3, 10])
    largest = np.minimum(sides[2], sides[1]) ** 2
    return (sides[0] - 1.0) ** 2, 60 * sides[0] ** 2 * largest


def evidence(found: Found) -> dict[str, Evidence]:
    """Return the evidence of notebook 14, artefact -> part -> what the rule takes."""
    config, smallest = found.case.config, found.smallest
    # all rules agree until the cache is full
    later = {"fifo": 0, "srsr_filled": config.cache_rounds, "drsr": config.cache_rounds}
    gaps = {
        f"{gap} {look}": np.broadcast_arrays(
            by_client(found.mean, rule, column).to_numpy()[later[rule] :],
            found.lemma1[rule][later[rule] :, [i]],
        )
        for i, (gap, column) in enumerate(zip(("first", "second"), MEASURED[:2], strict=True))
        for rule, look in SHOWN.items()
    }
    steps = (config.local_steps - 1) ** 2 * config.local_rate**2  # sigma_M^2 = 1
    stated = found.orders.stated
    printed, corrected = (found.orders.slopes[name] for name in ("printed", "corrected"))
    left = found.orders.totals.set_index(["rule", "eta_L"]).loc["drsr"]
    orders: Evidence = {t: (np.subtract(printed[t], stated[t]), 0.05) for t in stated}
    orders |= {f"{t}, corrected": (np.array(corrected[t]), np.array(stated[t])) for t in stated}
    return {
        "sfl-lem1": {part: tuple(pair) for part, pair in gaps.items()},
        "sfl-lem2": {
            "drift": (np.stack([by_client(found.mean, r, "drift") for r in SHOWN]), steps),
            "implied": looseness(),
        },
        "sfl-thm1": {
            "inequality": (found.worst, 1.0),
            "training": tuple(
                np.concatenate([np.asarray(of[rule])[later[rule] :] for rule in SHOWN])
                for of in (smallest, found.totals)
            ),
        },
        "sfl-cor2": orders
        | {
            "drsr": (left.loc["printed", "kept"], 0.1),
            "drsr, corrected": (left.loc["corrected", "kept"], 0.1),
            "drsr, dropped": (left["with E times dropped"].to_numpy(), 0.1),
        },
    }
