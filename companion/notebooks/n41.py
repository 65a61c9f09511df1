"""Notebook 41, FATS's Lemma 4 to Theorem 7: the evidence and the pictures.

Source: FATS, Sections 4 and 5.3. `learning_costs` computes what learning costs, `unlearning_costs`
what forgetting costs. The notation is that of `sflkit.fats.bounds`. Every picture's numbers come
from its arguments alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd

from companion import figures
from companion.notebooks.fats_shared import KEYWORDS, Sizes
from companion.notebooks.learning_costs import Case, Problem, Trained, few_samples, one_jump
from companion.notebooks.unlearning_costs import LookUps, nearly_all, over_rho
from sflkit.fats import bounds, stability

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


class Rates(NamedTuple):
    """All that notebook 41 has found, as `learning_costs` and `unlearning_costs` return it."""

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
            "flat": round(found.looked_up.slope, 9),
            "right": found.looked_up.agrees,
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
        (f"mean squared gradient, E = {e}, trained | Lemma 4", trained.simulated, trained.bound[0])
        for e, trained in found.trained.items()
    ]
    rows += [
        (f"rounds in Table 2, {row.setting} | asked for by Theorem 5", row.R, row[3])
        for row in found.conditions.itertuples()
    ]
    rows += [
        (f"{row.setting}, {w} {row.level}s one by one: re-computations | bound", row[4], row[5])
        for row in costs.itertuples()
    ]
    return [dict(zip(("quantity", "ours", "paper"), row, strict=True)) for row in rows]


_BLUE, _ORANGE = "#0072B2", "#D55E00"
_LEVELS = {"sample": ("rho_s", _BLUE), "client": ("rho_c", _ORANGE)}


def lemma4(cases: Mapping[int, Case], trained: Mapping[int, Trained], hard: pd.DataFrame) -> Figure:
    """Draw the mean squared gradient and Lemma 4 over the step size, and how tight it can be."""
    import matplotlib.pyplot as plt

    fig, axes = plt.subplots(1, 2, figsize=(9.8, 3.9))
    fine = {"linewidth": 0.8, "alpha": 0.6, "linestyle": (0, (1, 3))}
    for (e, case), color in zip(cases.items(), (_BLUE, _ORANGE), strict=True):
        found, order = trained[e], case.rates.argsort()
        ok, x = found.feasible[order], case.rates[order]
        value, bound = case.exact[order], found.bound[order]
        axes[0].plot(x[ok], value[ok], color=color, label=f"E = {e}, exact")
        axes[0].plot(x[ok], bound[ok], color=color, linestyle=":", label=f"E = {e}, Lemma 4")
        for line in (value, bound):
            axes[0].plot(x[~ok], line[~ok], color=color, **fine)
        axes[0].errorbar(
            case.rates[0], found.simulated, 4 * found.error, fmt="o", color=color, markersize=7,
            label=f"E = {e}, trained",
        )  # fmt: skip
    axes[0].set(
        xscale="log", yscale="log", xlabel=r"step size $\eta$", ylabel="mean squared gradient",
        title="noisy problem, known constants",
    )  # fmt: skip
    axes[0].legend(fontsize=8, ncol=2, loc="upper center")
    axes[0].set_ylim(top=axes[0].get_ylim()[1] * 30)
    for i, (e, part) in enumerate(hard.groupby("E")):
        look = figures.series_style(None, i) | {"marker": "None"}
        ok, x, ratio = part["feasible"], part["eta E"], part["ratio"]
        axes[1].plot(x[ok], ratio[ok], **look, label=f"E = {e}")
        axes[1].plot(x[~ok], ratio[~ok], color=look["color"], **fine)
    axes[1].axhline(1, color="black", linewidth=1)
    axes[1].set(
        xlabel=r"$\eta E$", ylabel="value / bound", title="disagreeing clients", ylim=(0.4, 1.6),
        xlim=(0, 0.3),
    )  # fmt: skip
    axes[1].legend(fontsize=8.5)
    return fig


def theorem5(problem: Problem, conditions: pd.DataFrame) -> Figure:
    """Draw Theorem 5 over T with rho held, and the rounds that it asks for."""
    import matplotlib.pyplot as plt

    steps = np.unique(np.geomspace(10, 1e8, 120).astype(int))
    held = _held(problem)
    unit = np.sqrt(
        held["smoothness"] * held["grad_var"] * held["loss_gap"]
        / (0.5 * held["n_clients"] * held["samples_per_client"])
    )  # fmt: skip
    fig, axes = plt.subplots(1, 2, figsize=(9.2, 3.7))
    for i, (label, local) in enumerate(
        (
            ("E = 1", np.ones(len(steps), dtype=int)),
            (r"$E=T^{1/2}$", np.maximum(1, np.sqrt(steps).astype(int))),
            (r"$E=T/200$", np.maximum(1, steps // 200)),
        )
    ):
        found = [
            bounds.theorem5(**held, local_steps=int(e), steps=int(t))
            for e, t in zip(local, steps, strict=True)
        ]
        value, ok = np.array([f.value for f in found]), np.array([f.feasible for f in found])
        look = figures.series_style(None, i) | {"marker": "None", "linestyle": "-"}
        axes[0].plot(steps, np.where(ok, value, np.nan), **look, label=label)
        axes[0].plot(steps, value, color=look["color"], linestyle=(0, (1, 3)), linewidth=0.9)
    for factor, line, label in (
        (3, "--", "cost of stability (factor 3)"),
        (4, ":", "Corollary 6 (factor 4)"),
    ):
        axes[0].axhline(factor * unit, color="black", linestyle=line, linewidth=1, label=label)
    axes[0].set(
        xscale="log", xlabel="steps T", ylabel="bound on mean squared gradient",
        title=r"Theorem 5 with $\rho_S=\rho_C=0.5$", ylim=(0, 10 * unit),
    )  # fmt: skip
    axes[0].legend(fontsize=8.5, loc="lower center", ncols=2)  # where no curve is
    rows = np.arange(6)
    axes[1].barh(rows - 0.19, conditions["R"], height=0.36, color=_BLUE, label="rounds in Table 2")
    needed, label = conditions["R needed"], "asked for by Theorem 5"
    axes[1].barh(rows + 0.19, needed, height=0.36, color=_ORANGE, label=label)
    axes[1].set_yticks(range(6), conditions["setting"])
    axes[1].set(
        xscale="log", xlabel="rounds R", title="its condition, with unit constants",
        ylim=(5.6, -1.9), xlim=(10, 1e4),
    )  # fmt: skip
    axes[1].legend(fontsize=8.5, loc="upper right")
    return fig


def corollary6_over_rho_c(problem: Problem, rho: np.ndarray) -> np.ndarray:
    """Return Corollary 6's cost of stability over rho_C, which does not move it."""
    held = _held(problem)
    return np.array(
        [bounds.corollary6(**held | {"rho_c": p}, alpha=1, steps=10**6).value for p in rho]
    )


def corollary6(problem: Problem, checked: pd.DataFrame, over_rho_c: np.ndarray) -> Figure:
    """Draw the cost of stability over rho_S, M and rho_C, and Theorem 5 over Corollary 6.

    `over_rho_c` is `corollary6_over_rho_c` at 60 places from 0.01 to 1.
    """
    import matplotlib.pyplot as plt

    fig, axes = plt.subplots(1, 2, figsize=(9.2, 3.5))
    rho, held = np.geomspace(0.01, 1, 60), _held(problem)
    for i, m in enumerate((200, 2000, 20_000)):
        look = figures.series_style(None, i) | {"marker": "None"}
        value = [
            bounds.corollary6(**held | {"n_clients": m, "rho_s": p}, alpha=1, steps=10**6).value
            for p in rho
        ]
        axes[0].plot(rho, value, **look, label=rf"over $\rho_S$, M = {m}")
    label = rf"over $\rho_C$, M = {held['n_clients']}"
    axes[0].plot(rho, over_rho_c, color="gray", linewidth=1, label=label)
    axes[0].set(
        xscale="log", yscale="log", xlabel=r"$\rho_S$ or $\rho_C$",
        ylabel="cost of stability (factor 4)", title="Corollary 6",
    )  # fmt: skip
    axes[0].legend(fontsize=8.5)
    for label, column, color in (
        (r"$E=T^{1-\alpha}$", "alpha holds", _BLUE),
        (r"$E=cT$", "c holds", _ORANGE),
    ):
        part = checked[checked[column]]
        axes[1].hist(
            part["theorem"] / part["corollary"], np.linspace(0.74, 1.01, 28), color=color,
            histtype="step", linewidth=1.8, label=label,
        )  # fmt: skip
    axes[1].axvline(1, color="black", linewidth=1)
    axes[1].set(
        xlabel="Theorem 5 / Corollary 6", ylabel="random settings", yscale="log",
        title="where the conditions hold",
    )  # fmt: skip
    axes[1].legend(fontsize=8.5)
    return fig


def theorem7(
    exact: Mapping[str, np.ndarray],
    measured: Mapping[str, tuple],
    rho: stability.Stability,
    one: Mapping[str, np.ndarray],
) -> Figure:
    """Draw what w requests cost at MNIST's sizes, and what one costs over rho.

    `exact` and `measured` are MNIST's of `unlearning_costs.request_costs` and `serve`, `one` is
    `over_rho` there.
    """
    import matplotlib.pyplot as plt

    fig, axes = plt.subplots(1, 3, figsize=(10.8, 3.8))
    for level, (column, color) in _LEVELS.items():
        _one_level(axes, level, color, exact, measured, getattr(rho, column))
    axes[0].set(
        xlabel="requests w", ylabel="re-computations", yscale="log",
        title="MNIST's sizes: how often",
    )  # fmt: skip
    axes[0].legend(fontsize=8, loc="lower right")
    axes[1].axhline(1, color="black", linewidth=1, label="training again (FRS)")
    axes[1].set(
        xlabel="requests w", ylabel="recomputed steps / T", title="MNIST's sizes: how much",
        ylim=(0, None),
    )  # fmt: skip
    axes[1].legend(fontsize=8, loc="upper left")
    smooth = np.linspace(0.01, 1, 50)
    limit = 1 - (1 - np.exp(-smooth)) / smooth
    axes[2].plot(smooth, limit, color="gray", linestyle=":", label=r"$1-(1-e^{-\rho})/\rho$")
    for name, at, look, color, label in (
        ("client", one["K"] / 10, "s-", _ORANGE, r"over $\rho_C$ (K = 1..10)"),
        ("sample", one["b"] / 40, "o-", _BLUE, r"over $\rho_S$ (b = 5..40)"),
    ):
        axes[2].plot(at, one[name], look, color=color, label=label)
    order = r"Theorem 7: order $\rho$"
    axes[2].plot(smooth, smooth, color="black", linestyle=":", linewidth=1, label=order)
    axes[2].set(xlabel=r"$\rho$", ylabel="recomputed steps / T", title="one request", ylim=(0, 1))
    axes[2].legend(fontsize=8, loc="upper left")
    return fig


def _one_level(
    axes: Sequence[Axes],
    level: str,
    color: str,
    exact: Mapping[str, np.ndarray],
    measured: Mapping[str, tuple],
    rho: float,
) -> None:
    """Draw number and time of requests for samples or clients: exact, simulated, bound."""
    w = np.arange(1, len(exact[level]) + 1)
    dots = {"fmt": "o", "color": color, "markersize": 4}
    axes[0].plot(w, exact[level], color=color, label=f"{level}s, exact")
    axes[0].errorbar(w, measured[level][0], 1.96 * measured[level][1], **dots)
    bound = rf"bound $4w\rho_{level[0].upper()}$"
    axes[0].plot(w, 4 * w * min(rho, 1), color=color, linestyle=":", label=bound)
    axes[1].plot(w, exact[f"{level}_time"], color=color, label=f"{level}s, one by one")
    time, error = measured[f"{level}_time"]
    axes[1].errorbar(w, time, 1.96 * error, **dots)
    once = exact[f"{level}_once_time"]
    axes[1].plot(w, once, color=color, linestyle="--", label=f"{level}s, at once")
    time, error = measured[f"{level}_once_time"]
    axes[1].errorbar(w[-1], time, 1.96 * error, **dots | {"fmt": "s"})


def _held(problem: Problem) -> dict[str, float]:
    """Return the problem's constants with rho_S = rho_C = 1/2."""
    lam = problem.heterogeneity
    return {**problem.constants, "heterogeneity": lam, "rho_s": 0.5, "rho_c": 0.5}
