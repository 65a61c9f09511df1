"""Notebook 40, exactness counted out: enumerations, simulations, evidence.

Source: FATS, Algorithms 1 to 3, Lemma 1, Theorem 2, Table 2. The notation is that of
`sflkit.fats.history`. Distances are total variations, as fractions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from math import comb
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from companion import story
from companion.judging import tables
from companion.notebooks.fats_shared import KEYWORDS, NAMES, TINY, Sizes
from sflkit.fats import enumeration, stability
from sflkit.fats.forgetting import RULES
from sflkit.fats.history import draw_history
from sflkit.randomness import generator

# The federations that are enumerated: M, N, K, b, E, R.
FEDERATIONS = (
    *((2, 2, k, 1, e, r) for k in (1, 2) for e in (1, 2) for r in (1, 2)),
    *((2, 3, 1, 1, 1, 1), (2, 3, 1, 2, 1, 2), (3, 3, 1, 2, 1, 2), (3, 2, 2, 1, 1, 1)),
    *((3, 3, 1, 1, 2, 1), (2, 3, 2, 2, 1, 1), (3, 2, 1, 1, 2, 2)),
)
LIVE = 1000  # larger federations come from the published table, unless all is to be computed
# CIFAR has so many training images; Table 2 counts the 10,000 test images as well.
CIFAR_TRAINING = 50_000
IMAGES = {"MNIST": 60_000, "FashionM": 60_000, "Cifar-10": 50_000, "Cifar-100": 50_000}


# --- tiny federations, every history --------------------------------------------------------------


def enumerated(federations: Sequence[tuple[int, ...]] = FEDERATIONS) -> pd.DataFrame:
    """Return one row per federation (M, N, K, b, E, R), all its histories enumerated.

    Columns: M, N, K, b, E, R, the number of histories, whether all are equally likely ("uniform");
    the distance to retraining after forgetting the first sample by each rule ("printed", "exact",
    "minimal", "claim1") and the first client ("client"); the distance of the laws with and
    without the sample and the client ("TV sample", "TV client") and the probability that they were
    used ("involved sample", "involved client"); the sizes ("setting").
    """
    rows = []
    for sizes in federations:
        m, n, k, b, e, r = sizes
        setting = dict(zip(KEYWORDS, sizes, strict=True))
        number = (m * comb(n, b) ** e) ** (k * r)

        def make(setting: dict[str, int] = setting, number: int = number) -> dict[str, str]:
            found = _enumerated(setting, number)
            return {name: str(value) for name, value in found.items()}  # JSON has no fractions

        texts = make() if number <= LIVE else story.kept("enumerated federation", setting, make)
        found = {name: Fraction(text) for name, text in texts.items()}
        found |= {"histories": int(found["histories"]), "uniform": bool(found["uniform"])}
        rows.append(dict(zip("MNKbER", sizes, strict=True)) | found | {"setting": setting})
    return pd.DataFrame(rows)


def _enumerated(setting: dict[str, int], number: int) -> dict[str, Fraction]:
    """Return the columns of `enumerated` of a federation with that number of histories."""
    law = enumeration.drawn_law(**setting)
    uniform = {p for p, _ in law.values()} == {Fraction(1, number)}
    found = {"histories": Fraction(len(law)), "uniform": Fraction(uniform)}
    for request, name in (((0, 0), "sample"), ((0, None), "client")):
        less = enumeration.retrained_law([request], **setting)
        found[f"TV {name}"] = enumeration.total_variation(law, less)
        used = (p for p, h in law.values() if h.first_use(*request) is not None)
        found[f"involved {name}"] = Fraction(sum(used))
        rules = {rule: rule for rule in RULES} if name == "sample" else {"client": "exact"}
        for column, rule in rules.items():
            after = enumeration.forgotten_law(law, request, rule)
            found[column] = enumeration.total_variation(after, less)
    return found


def two_requests() -> dict[str, Fraction]:
    """Return the distance to retraining after two requests in a row, by rule and for clients."""
    samples = dict(TINY, samples_per_client=3, rounds=2)
    clients = dict(TINY, n_clients=3, samples_per_client=1, clients_per_round=2, rounds=2)
    cases = {rule: (rule, samples, [(0, 0), (0, 1)]) for rule in RULES}
    cases["client"] = ("exact", clients, [(0, None), (2, None)])
    found = {}
    for name, (rule, setting, requests) in cases.items():
        law = enumeration.drawn_law(**setting)
        for request in requests:
            law = enumeration.forgotten_law(law, request, rule)
        goal = enumeration.retrained_law(requests, **setting)
        found[name] = enumeration.total_variation(law, goal)
    return found


def restart_distances() -> dict[str, Fraction]:
    """Return the distance to retraining of the two readings of which model a restart loads.

    One client of three samples makes two steps with b = 1; a model is the list of samples that it
    has seen. After a hit at the second step "printed" loads the model after that step, as lines 4-6
    of Algorithm 1 say, and "from before" the one that it started from. Source: FATS, ERRATA 18.
    """
    sizes = dict(TINY, n_clients=1, samples_per_client=3, local_steps=2)
    laws: dict[str, dict[tuple, tuple]] = {"printed": {}, "from before": {}}
    for p, history in enumeration.drawn_law(**sizes).values():
        steps, first = tuple(history.batches.ravel().tolist()), history.first_use(0, 0)
        for name, law in laws.items():
            if first is None:
                models = [steps]
            elif first == (0, 0):  # the round begins with the global model, whatever is loaded
                models = [(one, other) for one in (1, 2) for other in (1, 2)]
            else:
                models = [(*(steps if name == "printed" else steps[:1]), new) for new in (1, 2)]
            for model in models:
                law[model] = (law.get(model, (0,))[0] + p / len(models), None)
    goal = {(one, other): (Fraction(1, 4), None) for one in (1, 2) for other in (1, 2)}
    return {name: enumeration.total_variation(law, goal) for name, law in laws.items()}


def without_several(exact: pd.DataFrame) -> dict[str, np.ndarray]:
    """Return distances of the laws without w samples or clients, and w rho.

    For "samples" and "clients" an array (cases, 2); w is 1, and 2 where enough samples are left.
    """
    found: dict[str, list] = {"samples": [], "clients": []}
    for row in exact.itertuples():
        rho = stability.stability(**row.setting)
        law = enumeration.drawn_law(**row.setting)
        for level, leaving, left, share in (
            ("samples", [(0, 0), (1, 0), (0, 1)], row.N - 2 - row.b, rho.rho_s),
            ("clients", [(0, None), (1, None)], row.M - 2 - 1, rho.rho_c),
        ):
            for w in range(1, len(leaving) + min(left, 0)):
                goal = enumeration.retrained_law(leaving[:w], **row.setting)
                distance = enumeration.total_variation(law, goal)
                found[level].append((float(distance), w * share))
    return {level: np.array(pairs) for level, pairs in found.items()}


# --- Table 2's sizes, simulated and by formula ----------------------------------------------------


def printed_distances(
    sizes: Mapping[str, Sizes], *, seed: int, repeats: int
) -> list[enumeration.Distance]:
    """Return the distance of Algorithm 2 as printed at each of the sizes, with its error.

    The published numbers where they are there, since a million draws take half a minute.
    """

    def make() -> list[list[float]]:
        rngs = [generator(seed, "monte_carlo", i) for i in range(len(sizes))]
        found = (
            enumeration.printed_rule_distance(**each, rng=rng, repeats=repeats)
            for each, rng in zip(sizes.values(), rngs, strict=True)
        )
        return [list(distance) for distance in found]

    settings = {"sizes": {name: dict(each) for name, each in sizes.items()}}
    settings |= {"seed": seed, "repeats": repeats}
    found = story.kept("distance of Algorithm 2 as printed", settings, make)
    return [enumeration.Distance(*pair) for pair in found]


def used_shares(
    table: pd.DataFrame, *, seed: int, repeats: int, repeats_large: int
) -> pd.DataFrame:
    """Return which share of samples and clients simulated histories of Table 2's sizes use.

    Samples are split as equally as whole numbers allow. Columns: the means "samples" and "clients",
    their standard errors "se ...", the exact probabilities "p ...", and the number of histories,
    `repeats` or, for the two large sets, `repeats_large`. The published table where it is there.
    """
    settings = {"table": table.to_dict(orient="index"), "seed": seed}
    settings |= {"repeats": repeats, "repeats_large": repeats_large}

    def make() -> pd.DataFrame:
        rates = {}
        for i, (name, row) in enumerate(table.iterrows()):
            rng = generator(seed, "monte_carlo", 10, i)
            each = np.diff(np.linspace(0, row.samples, row.M + 1).astype(int))
            values = (int(row.M), each, *(int(row[key]) for key in ("K", "b", "E", "R")))
            setting = dict(zip(KEYWORDS, values, strict=True))
            offsets, found = np.cumsum(each) - each, []
            for _ in range(repeats if row.samples < 100_000 else repeats_large):
                history = draw_history(**setting, rng=rng)
                used = np.zeros(row.samples, dtype=bool)
                used[offsets[history.clients][:, :, None, None] + history.batches] = True
                found.append((used.mean(), np.isin(np.arange(row.M), history.clients).mean()))
            expected = stability.stability(**setting)
            target = np.average(expected.p_sample, weights=each), expected.p_client
            means, n = np.mean(found, axis=0), len(found)
            rates[name] = [*means, *(np.std(found, axis=0, ddof=1) / n**0.5), *target, n]
        columns = ["samples", "clients", "se samples", "se clients", "p samples", "p clients"]
        return pd.DataFrame(rates, index=[*columns, "histories"]).T

    return story.kept("share that simulated histories use", settings, make)


class AnyHit(NamedTuple):
    """The probability that any of w requests hits: exact by setting, and simulated for MNIST.

    exact[name] is (2, w), for samples and clients, as are the simulated mean and its error.
    """

    exact: dict[str, np.ndarray]
    simulated: np.ndarray
    error: np.ndarray


def any_hit(sizes: Mapping[str, Sizes], *, seed: int, repeats: int, requests: int) -> AnyHit:
    """Return how likely it is that any of 1 to w requests causes a re-computation.

    Requests are for different clients, or for samples of different clients. Source: FATS,
    Theorem 2.
    """
    w, exact = np.arange(1, requests + 1), {}
    for name, s in sizes.items():
        spared = (1 - s["batch_size"] / s["samples_per_client"]) ** s["local_steps"]
        slots = s["clients_per_round"] * s["rounds"]
        shares = np.stack([w / s["n_clients"] * (1 - spared), w / s["n_clients"]])
        exact[name] = 1 - (1 - shares) ** slots
    setting = {key: int(value) for key, value in sizes["MNIST"].items()}
    rng, found = generator(seed, "requests"), []
    for _ in range(repeats):
        history = draw_history(**setting, rng=rng)
        asked = rng.permutation(setting["n_clients"])[:requests]
        photo = rng.integers(setting["samples_per_client"], size=requests)
        hit = [
            [history.first_use(k, s) is not None for k, s in zip(asked, photo, strict=True)],
            [history.first_use(k) is not None for k in asked],
        ]
        found.append(np.logical_or.accumulate(hit, axis=1))
    error = np.std(found, axis=0, ddof=1) / repeats**0.5
    # none or all of the histories
    return AnyHit(exact, np.mean(found, axis=0), np.maximum(error, 1 / repeats))


# --- Table 2 and line 3 of Algorithm 1 ------------------------------------------------------------


def planned(sizes: Mapping[str, Sizes]) -> pd.DataFrame:
    """Return what line 3 of Algorithm 1 plans at each of the sizes, a row each."""
    return pd.DataFrame([_plan(each) for each in sizes.values()], index=list(sizes))


def cifar(sizes: Mapping[str, Sizes]) -> pd.DataFrame:
    """Return rho and whether line 3 gives Table 2's K and b with CIFAR's training images alone.

    Source: FATS, Table 2, ERRATA 21.
    """
    rows = {}
    for name in ("Cifar-10", "Cifar-100"):
        each = dict(sizes[name], samples_per_client=CIFAR_TRAINING / sizes[name]["n_clients"])
        plan = _plan(each)
        same = all(plan[key] == each[key] for key in ("clients_per_round", "batch_size"))
        rows[name] = stability.stability(**each)._asdict() | {"same K and b": same}
    return pd.DataFrame.from_dict(rows, orient="index")


def _plan(sizes: Sizes) -> dict[str, Any]:
    """Return the plan that line 3 makes from the stability of given sizes."""
    rho = stability.stability(**sizes)
    rest = {key: sizes[key] for key in ("n_clients", "samples_per_client", "local_steps", "rounds")}
    return stability.plan(rho_s=rho.rho_s, rho_c=rho.rho_c, **rest)._asdict()


# --- what the claims are judged by ----------------------------------------------------------------


def exactness(
    *,
    exact: pd.DataFrame,
    restart: Mapping[str, Fraction],
    two: Mapping[str, Fraction],
    rho: pd.DataFrame,
    printed: Sequence[enumeration.Distance],
    rates: pd.DataFrame,
    hits: AnyHit,
    table: pd.DataFrame,
    plans: pd.DataFrame,
    trained: pd.DataFrame,
) -> dict[str, dict[str, Any]]:
    """Return the evidence of notebook 40's claims, by artefact and part.

    The arguments are `enumerated`, `restart_distances`, `two_requests`, the stabilities of Table
    2's settings, `printed_distances`, `used_shares`, `any_hit`, Table 2, `planned` and `cifar`.
    """
    off = {rule: (exact[rule].astype(float).to_numpy(), 0.0) for rule in (*RULES, "client")}
    tiny = pd.DataFrame([stability.stability(**sizes) for sizes in exact["setting"]]).clip(upper=1)
    w = np.arange(1, len(hits.simulated[0]) + 1)
    uses = {"sample": ("rho_s", 0), "client": ("rho_c", 1)}
    lemma1 = {
        level: (exact[f"TV {level}"].astype(float).to_numpy(), tiny[column].to_numpy())
        for level, (column, _) in uses.items()
    }
    lemma1["table_2"] = (
        rho[["p_sample", "p_client"]].to_numpy(),
        rho[["rho_s", "rho_c"]].clip(upper=1).to_numpy(),
    )
    theorem2 = {"sample_exact": off["printed"], "client_exact": off["client"]}
    loaded = {key: (float(distance), 0.0) for key, distance in restart.items()}
    theorem2 |= {"models_exact": loaded["printed"], "models_before": loaded["from before"]}
    for level, (column, at) in uses.items():
        lemma1[f"simulated_{level}s"] = tuple(
            rates[f"{words}{level}s"].to_numpy() for words in ("", "se ", "p ")
        )
        theorem2[f"{level}_probability"] = (
            np.stack([hits.exact[name][at] for name in NAMES]),
            np.stack([w * rho.loc[name, column] for name in NAMES]),
        )
        theorem2[f"{level}_simulated"] = (
            hits.simulated[at], hits.error[at], hits.exact["MNIST"][at]
        )  # fmt: skip
    return {
        "fats-alg1": {
            "law": {f"federation {i}": bool(fair) for i, fair in enumerate(exact["uniform"])},
            "restart": loaded["printed"],
            "restart_before": loaded["from before"],
        },
        "fats-alg2": {
            "tiny": off["printed"],
            "table_2": (*np.array(printed).T, 0.0),
            "kept": off["exact"],
            "kept_twice": (float(two["exact"]), 0.0),
            "minimal": off["minimal"],
            "claim1": off["claim1"],
        },
        "fats-alg3": {"tiny": off["client"], "two_in_a_row": (float(two["client"]), 0.0)},
        "fats-rem1": {level: tuple(pairs.T) for level, pairs in without_several(exact).items()},
        "fats-lem1": lemma1,
        "fats-thm2": theorem2 | {"sample_kept": off["exact"]},
        "fats-tab2": _table_2_evidence(table, rho, plans, trained),
    }


def _table_2_evidence(
    table: pd.DataFrame, rho: pd.DataFrame, plans: pd.DataFrame, trained: pd.DataFrame
) -> dict[str, Any]:
    text = tables.paper_value("fats", "fats", "clients of the simulated data sets")
    fits = trained[["rho_s", "rho_c"]].max(axis=1) <= 1 + 1e-12
    return {
        "rho": (rho[["rho_s", "rho_c"]].to_numpy(), 1.0),
        "line_3": (
            plans[["clients_per_round", "batch_size"]].to_numpy(),
            table[["K", "b"]].to_numpy(),
        ),
        "samples": (table["samples"].iloc[:4].to_numpy(), np.array(list(IMAGES.values()))),
        "clients": (table["M"].iloc[:4].to_numpy(), text),
        "training_images": {
            f"{name}, {what}": bool(held[name])
            for name in trained.index
            for what, held in (("rho", fits), ("K and b", trained["same K and b"]))
        },
        "text_clients": {name: bool(table["K"][name] * table["R"][name] > 100) for name in IMAGES},
    }
