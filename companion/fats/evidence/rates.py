"""From what notebook 41 found to the evidence of FATS's Lemma 4 to Theorem 7.

`convergence` computes what learning costs, `unlearning_costs` what forgetting costs, and
`companion.claims` judges both.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from companion.fats.evidence.convergence import Case, Problem, Trained, few_samples, one_jump
from companion.fats.evidence.table_2 import KEYWORDS, Sizes
from companion.fats.evidence.unlearning_costs import LookUps, nearly_all, over_rho
from sflkit.fats import bounds, stability


class Rates(NamedTuple):
    """All that notebook 41 has found, as `convergence` and `unlearning_costs` return it."""

    problem: Problem
    cases: dict[int, Case]
    trained: dict[int, Trained]
    hard: pd.DataFrame
    formulas: np.ndarray
    conditions: pd.DataFrame
    checked: pd.DataFrame
    shared: pd.DataFrame
    longer: pd.DataFrame
    exact: dict[str, dict[str, np.ndarray]]
    measured: dict[str, tuple[np.ndarray, np.ndarray]]
    quarter: dict[str, np.ndarray]
    busiest: dict[str, int]
    variant: dict[str, list]
    looked_up: LookUps


def evidence(found: Rates, sizes: Mapping[str, Sizes]) -> dict[str, dict[str, Any]]:
    """Return the evidence of the claims of notebook 41, by artefact and part."""
    return {
        **_learning(found),
        **_corollary(found),
        "fats-thm7": _requests(found, sizes),
        "fats-lookup": {
            "flat": round(found.looked_up.look_slope, 9),
            "right": found.looked_up.agrees,
            "search": found.looked_up.search_slope,
        },
        "fats-space": _space(found, sizes),
    }


def _learning(found: Rates) -> dict[str, dict[str, Any]]:
    pairs = [(found.cases[e], trained) for e, trained in found.trained.items()]
    hard = found.hard[found.hard["feasible"]]
    jump, jump_bound = one_jump()
    checked, run = found.checked, []
    for case, trained in pairs:
        theorem = bounds.theorem5(**case.setting, heterogeneity=trained.heterogeneity)
        if theorem.feasible:
            run.append((case.exact[0], theorem.value))
    eight, nine = found.formulas
    return {
        "fats-lem4": {
            "algebra": (nine, eight),
            "noisy": (
                np.concatenate([case.exact[trained.feasible] for case, trained in pairs]),
                np.concatenate([trained.bound[trained.feasible] for _, trained in pairs]),
            ),
            "disagreeing": (
                np.array([*hard["value"], jump]), np.array([*hard["bound"], jump_bound.value])
            ),
            "simulated": tuple(
                np.array([(t.simulated, t.error, case.exact[0]) for case, t in pairs]).T
            ),
        },
        "fats-thm5": {
            "substitution": (checked["theorem"].to_numpy(), checked["lemma"].to_numpy()),
            "implies_7": tuple(
                checked[name].astype(float).to_numpy() for name in ("theorem holds", "lemma holds")
            ),
            "run": tuple(np.transpose(run)),
            "table_2": {row.setting: bool(row.feasible) for row in found.conditions.itertuples()},
        },
    }  # fmt: skip


def _corollary(found: Rates) -> dict[str, dict[str, Any]]:
    shared, longer, checked, reached = found.shared, found.longer, found.checked, few_samples()
    varied = shared.groupby("E")["exact"].agg(["max", "min"])
    constants, slopes = found.problem.constants, []
    held = dict(constants, heterogeneity=found.problem.heterogeneity, rho_s=0.5, rho_c=0.5)
    for key, ends in (
        ("rho_s", (0.01, 1.0)),
        ("n_clients", (10, 1000)),
        ("samples_per_client", (10, 1000)),
        ("rho_c", (0.01, 1.0)),
    ):
        low, high = (bounds.corollary6(**held | {key: v}, steps=10**6, alpha=1).value for v in ends)
        slopes.append(np.log(high / low) / np.log(ends[1] / ends[0]))
    cases = {
        name: tuple(
            checked.loc[checked[f"{name} holds"], c].to_numpy() for c in ("theorem", "corollary")
        )
        for name in ("alpha", "c")
    }
    return {
        "fats-rem2": {
            "exact": ((varied["max"] / varied["min"]).to_numpy(), 1.05),
            "enough_samples": {
                "at rho_S / E": abs(reached[1.0].rho_s - 0.4) < 1e-9,
                "not at half of it": reached[0.5].rho_s < 0.39,
            },
        },
        "fats-rem3": {
            "falls": (longer["exact"].to_numpy()[1:], longer["exact"].to_numpy()[:-1]),
            "small": (longer["exact"].iloc[-1], longer["exact"].iloc[0] / 100),
            "efficient": (longer["time"].to_numpy()[:-1], longer["time"].to_numpy()[1:]),
        },
        "fats-cor6": {
            "alpha_case": cases["alpha"],
            "c_case": cases["c"],
            "order": (np.array(slopes), np.array([-0.5, -0.5, -0.5, 0.0])),
        },
    }


def _requests(found: Rates, sizes: Mapping[str, Sizes]) -> dict[str, Any]:
    rho = {name: stability.stability(**each) for name, each in sizes.items()}
    w = np.arange(1, len(found.exact["MNIST"]["client"]) + 1)
    four = {
        level: np.stack([4 * w * min(getattr(rho[name], column), 1) for name in found.exact])
        for level, column in (("sample", "rho_s"), ("client", "rho_c"))
    }
    exact = found.exact.values()
    simulated = [
        (np.atleast_1d(mean), np.atleast_1d(error),
         np.atleast_1d(found.exact["MNIST"][name])[-np.size(mean) :])
        for name, (mean, error) in found.measured.items()
    ]  # fmt: skip
    one, last = over_rho(sizes["MNIST"]), nearly_all()
    return {
        "clients": (np.stack([x["client"] for x in exact]), four["client"]),
        "samples": (np.stack([x["sample"] for x in exact]), four["sample"]),
        "time": (
            np.stack([x[f"{level}_time"] for level in four for x in exact]),
            np.concatenate(list(four.values())),
        ),
        "direction": {
            "rises with rho_S": bool((np.diff(one["sample"]) > 0).all()),
            "rises with rho_C": bool((np.diff(one["client"]) > 0).all()),
        },
        "simulated": tuple(np.concatenate(side) for side in zip(*simulated, strict=True)),
        "nearly_all": (last["exact"].to_numpy(), last["4 w rho"].to_numpy()),
        "quarter_clients": tuple(found.quarter["clients"].T),
        "quarter_samples": tuple(found.quarter["samples"].T),
    }


def _space(found: Rates, sizes: Mapping[str, Sizes]) -> dict[str, Any]:
    columns = np.array([[s[key] for key in KEYWORDS] for s in sizes.values()]).T
    m, n, k, batch, e, r = columns
    rho_s, rho_c = batch * k * r * e / (m * n), k * r / m
    printed, kept = (np.array(of, dtype=float) for of in found.variant.values())
    return {
        "device": (np.array([found.busiest[name] for name in sizes]), r),
        "identities": (
            np.concatenate([batch, r * k]),
            np.concatenate([rho_s * n / (rho_c * e), rho_c * m]),
        ),
        "variant": (printed, 0.0),
        "variant_kept": (kept, 0.0),
        "kept_clients": (r * k, m),
    }


def notes(found: Rates) -> dict[str, str]:
    """Return what stands below each verdict of notebook 41."""
    shared = found.shared
    varied = shared.groupby("E")["exact"].agg(lambda mean: mean.max() / mean.min()).max()
    low, high = shared["rho_C"].min(), shared["rho_C"].max()
    return {
        "fats-lem4": "Tight for one quadratic and eta = 1/L. With noise and E > 1 no finite lambda "
        "exists; the largest seen is used (ERRATA 64).",
        "fats-thm5": "Its conditions ask for more rounds than Table 2 has, 245 against 30 for "
        "MNIST with unit constants; the balanced step would be sqrt(2) larger (ERRATA 23).",
        "fats-rem2": f"rho_C from {low:.3g} to {high:.3g}; the exact mean varies by "
        f"{100 * (varied - 1):.2g} % at most.",
        "fats-cor6": "Conditions as in Theorem 5.",
        "fats-thm7": "Generous at Table 2's sizes, and rising in rho, against Section 6.2.4 "
        "(ERRATA 46). When nearly all data are forgotten the number grows like ln N against a "
        "constant, 4.19 against 3.96; it holds while a quarter is left (ERRATA 59).",
        "fats-lookup": "The table is an array with the first step of every sample and the first "
        "round of every client.",
        "fats-space": "The variant's distances as printed: "
        f"{', '.join(map(str, found.variant['printed']))}. With the clients kept the server stores "
        "R K = rho_C M <= M numbers more, so that O(M + d) stands (ERRATA 15).",
    }


def numbers(found: Rates, costs: pd.DataFrame) -> list[dict[str, Any]]:
    """Return the rows of notebook 41's table, ours beside the paper's; `costs` is `costs_table`."""
    w = len(found.exact["MNIST"]["client"])
    rows = [
        {
            "quantity": f"mean squared gradient, E = {e}, trained | Lemma 4",
            "ours": trained.simulated,
            "paper": trained.bound[0],
        }
        for e, trained in found.trained.items()
    ]
    rows += [
        {
            "quantity": f"rounds in Table 2, {row.setting} | asked for by Theorem 5",
            "ours": row.R,
            "paper": row[3],
        }
        for row in found.conditions.itertuples()
    ]
    return rows + [
        {
            "quantity": f"{row.setting}, {w} {row.level}s one by one: re-computations | bound",
            "ours": row[4],
            "paper": row[5],
        }
        for row in costs.itertuples()
    ]
