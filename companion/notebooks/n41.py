"""Notebook 41, FATS's Lemma 4 to Theorem 7: the evidence.

Source: FATS, Sections 4 and 5.3. `learning_costs` computes what learning costs, `unlearning_costs`
what forgetting costs. The notation is that of `sflkit.fats.bounds`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from companion.notebooks.fats_shared import KEYWORDS, Sizes
from companion.notebooks.learning_costs import LONG, Problem, Trained, eight_and_nine
from companion.notebooks.unlearning_costs import busiest_devices, nearly_all, over_rho
from sflkit.fats import bounds, stability


def learning(
    problem: Problem,
    rates: Mapping[int, pd.DataFrame],
    trained: Mapping[int, Trained],
    hard: pd.DataFrame,
    checked: pd.DataFrame,
    *,
    seed: int,
) -> dict[str, dict[str, Any]]:
    """Return the evidence on Lemma 4 and Theorem 5, by artefact and part.

    The arguments are those of notebook 41's cells: of `learning_costs`, and what was trained by E.
    """
    # Tight: one parabola, one local step, eta just below 1 / L.
    jump = (1 - 0.001 ** (2 * LONG)) / (1 - 0.001**2) / LONG
    jump_bound = bounds.lemma4(
        loss_gap=0.5, smoothness=1.0, grad_var=0.0, heterogeneity=1.0, local_steps=1, n_clients=1,
        samples_per_client=1, steps=LONG, rho_s=LONG, rho_c=LONG, rate=0.999,
    )  # fmt: skip
    eight, nine = eight_and_nine(seed)
    holds = pd.concat([frame[frame["feasible"]] for frame in rates.values()])
    pulled = hard[hard["feasible"]]
    simulated, run = [], []
    for e, found in trained.items():
        exact = rates[e]["exact"][0]  # at Theorem 5's rate
        simulated.append((found.simulated, found.error, exact))
        theorem = bounds.theorem5(**problem.setting(e), heterogeneity=found.heterogeneity)
        if theorem.feasible:
            run.append((exact, theorem.value))
    return {
        "fats-lem4": {
            "algebra": (nine, eight),
            "noisy": (holds["exact"].to_numpy(), holds["value"].to_numpy()),
            "disagreeing": (
                np.array([*pulled["value"], jump]),
                np.array([*pulled["bound"], jump_bound.value]),
            ),
            "simulated": tuple(np.transpose(simulated)),
        },
        "fats-thm5": {
            "substitution": (checked["theorem"].to_numpy(), checked["lemma"].to_numpy()),
            "implies_7": tuple(
                checked[name].astype(float).to_numpy() for name in ("theorem holds", "lemma holds")
            ),
            "run": tuple(np.transpose(run)),
        },
    }


def remark2(shared: pd.DataFrame) -> dict[str, Any]:
    """Return the evidence on Remark 2; `shared` is `learning_costs.shared_steps`."""
    varied = shared.groupby("E")["exact"].agg(["max", "min"])
    # What Algorithm 1 plans for rho_S = 0.4 at rho_C = rho_S / E and at half of it.
    sizes = {"n_clients": 1000, "samples_per_client": 20, "local_steps": 2, "rounds": 100}
    whole, half = (stability.plan(rho_s=0.4, rho_c=rho_c, **sizes).rho_s for rho_c in (0.2, 0.1))
    return {
        "exact": ((varied["max"] / varied["min"]).to_numpy(), 1.05),
        "enough_samples": {
            "at rho_S / E": abs(whole - 0.4) < 1e-9,
            "not at half of it": half < 0.39,
        },
    }


def remark3(longer: pd.DataFrame) -> dict[str, Any]:
    """Return the evidence on Remark 3; `longer` is `learning_costs.longer_training`."""
    exact, time = longer["exact"].to_numpy(), longer["time"].to_numpy()
    return {
        "falls": (exact[1:], exact[:-1]),
        "small": (exact[-1], exact[0] / 100),
        "efficient": (time[:-1], time[1:]),
    }


def corollary6(problem: Problem, checked: pd.DataFrame) -> dict[str, Any]:
    """Return the evidence on Corollary 6; `checked` is `learning_costs.random_settings`."""
    slopes = []
    for key, ends in (
        ("rho_s", (0.01, 1.0)),
        ("n_clients", (10, 1000)),
        ("samples_per_client", (10, 1000)),
        ("rho_c", (0.01, 1.0)),
    ):
        low, high = (problem.corollary6(**{key: value}) for value in ends)
        slopes.append(np.log(high / low) / np.log(ends[1] / ends[0]))
    held = {name: checked[checked[f"{name} holds"]] for name in ("alpha", "c")}
    cases = {
        f"{name}_case": (part["theorem"].to_numpy(), part["corollary"].to_numpy())
        for name, part in held.items()
    }
    return cases | {"order": (np.array(slopes), np.array([-0.5, -0.5, -0.5, 0.0]))}


def theorem7(
    exact: Mapping[str, Mapping[str, np.ndarray]],
    measured: Mapping[str, tuple],
    quarter: Mapping[str, np.ndarray],
    sizes: Mapping[str, Sizes],
) -> dict[str, Any]:
    """Return the evidence on Theorem 7.

    The arguments are of `unlearning_costs`: `request_costs` of all settings, `serve` of MNIST's,
    and `quarter_left`.
    """
    rho = {name: stability.stability(**each) for name, each in sizes.items()}
    w = np.arange(1, len(exact["MNIST"]["client"]) + 1)
    four = {
        level: np.stack([4 * w * min(getattr(rho[name], column), 1) for name in exact])
        for level, column in (("sample", "rho_s"), ("client", "rho_c"))
    }
    found = exact.values()
    simulated = []
    for name, (mean, error) in measured.items():
        all_of_it = np.atleast_1d(exact["MNIST"][name])[-np.size(mean) :]
        simulated.append((np.atleast_1d(mean), np.atleast_1d(error), all_of_it))
    one, last = over_rho(sizes["MNIST"]), nearly_all()
    return {
        "clients": (np.stack([x["client"] for x in found]), four["client"]),
        "samples": (np.stack([x["sample"] for x in found]), four["sample"]),
        "time": (
            np.stack([x[f"{level}_time"] for level in four for x in found]),
            np.concatenate(list(four.values())),
        ),
        "direction": {
            "rises with rho_S": bool((np.diff(one["sample"]) > 0).all()),
            "rises with rho_C": bool((np.diff(one["client"]) > 0).all()),
        },
        "simulated": tuple(np.concatenate(side) for side in zip(*simulated, strict=True)),
        "nearly_all": (last["exact"].to_numpy(), last["4 w rho"].to_numpy()),
        "quarter_clients": tuple(quarter["clients"].T),
        "quarter_samples": tuple(quarter["samples"].T),
    }


def space(variant: Mapping[str, list], sizes: Mapping[str, Sizes], *, seed: int) -> dict[str, Any]:
    """Return the evidence on Section 5.3.2; `variant` is `unlearning_costs.low_memory`."""
    m, n, k, batch, e, r = np.array([[s[key] for key in KEYWORDS] for s in sizes.values()]).T
    rho_s, rho_c = batch * k * r * e / (m * n), k * r / m
    printed, kept = (np.array(of, dtype=float) for of in variant.values())
    return {
        "device": (np.array(list(busiest_devices(sizes, seed=seed).values())), r),
        "identities": (
            np.concatenate([batch, r * k]),
            np.concatenate([rho_s * n / (rho_c * e), rho_c * m]),
        ),
        "variant": (printed, 0.0),
        "variant_kept": (kept, 0.0),
        "kept_clients": (r * k, m),
    }
