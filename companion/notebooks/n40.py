"""Notebook 40, exactness counted out: enumerations and simulations, evidence, pictures.

Source: FATS, Algorithms 1 to 3, Lemma 1, Theorem 2, Table 2. The notation is that of
`sflkit.fats.history`. Distances are total variations, as fractions. Every picture's numbers come
from its arguments alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from math import comb
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd

from companion import figures, story
from companion.judging import tables
from companion.notebooks.fats_shared import KEYWORDS, NAMES, TINY, Sizes
from sflkit.fats import enumeration, stability
from sflkit.fats.expected_time import rule_cost
from sflkit.fats.forgetting import RULES
from sflkit.fats.history import draw_history
from sflkit.randomness import generator

if TYPE_CHECKING:
    from matplotlib.figure import Figure


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


def forgetting_by_hand() -> dict[str, pd.DataFrame]:
    """Return who trains on what before and after forgetting, in two federations of one draw.

    "sample": rows are the samples a_0 to b_1 of two clients; "client": they are three clients.
    Columns are the laws learned, after forgetting a_0 by the printed and the exact rule (or client
    A by Algorithm 3), and retrained.
    """
    learned = enumeration.drawn_law(**TINY)
    samples = {
        "learned,\nwith $a_0$": learned,
        "printed:\nclient drawn\nagain": enumeration.forgotten_law(learned, (0, 0), "printed"),
        "exact:\nclient kept": enumeration.forgotten_law(learned, (0, 0), "exact"),
        "retrained\nwithout $a_0$": enumeration.retrained_law([(0, 0)], **TINY),
    }
    three = dict(TINY, n_clients=3, samples_per_client=1)
    learned = enumeration.drawn_law(**three)
    clients = {
        "learned,\nwith A": learned,
        "Algorithm 3:\ndrawn again": enumeration.forgotten_law(learned, (0, None)),
        "retrained\nwithout A": enumeration.retrained_law([(0, None)], **three),
    }
    shares = {
        "sample": pd.DataFrame(0.0, ["$a_0$", "$a_1$", "$b_0$", "$b_1$"], list(samples)),
        "client": pd.DataFrame(0.0, list("ABC"), list(clients)),
    }
    for table, laws in zip(shares.values(), (samples, clients), strict=True):
        for title, law in laws.items():
            for p, history in law.values():
                each = history.samples_per_client[0]
                at = each * history.clients[0, 0] + history.batches[0, 0, 0, 0]
                table.loc[table.index[at], title] += float(p)
    return shares


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


def rule_costs(sizes: Mapping[str, Sizes]) -> pd.DataFrame:
    """Return how many samples each rule draws anew for one request, on average.

    One row for each of the sizes, one column for each rule. "gradients" are those of the exact rule
    as a share of a training, and "gradients, claim1" those of Claim 1's. Source: FATS, Appendix
    B.2; `expected_time.rule_cost`.
    """
    rows = {}
    for name, each in sizes.items():
        whole = {key: int(value) for key, value in each.items()}
        found = {rule: rule_cost(rule, **whole) for rule in RULES}
        training = whole["clients_per_round"] * whole["local_steps"] * whole["rounds"]
        rows[name] = {rule: cost.samples for rule, cost in found.items()} | {
            "gradients": found["exact"].gradients / training,
            "gradients, claim1": found["claim1"].gradients / training,
        }
    return pd.DataFrame.from_dict(rows, orient="index")


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


class Planned(NamedTuple):
    """Line 3 of Algorithm 1 at Table 2's settings.

    planned: K and b by setting. cifar: rho and plan with CIFAR's training images. hundred: rho_C
    with the text's 100 clients.
    """

    planned: pd.DataFrame
    cifar: pd.DataFrame
    hundred: dict[str, float]


def planned(sizes: Mapping[str, Sizes]) -> Planned:
    """Return what line 3 of Algorithm 1 plans. Source: FATS, Table 2, ERRATA 21."""
    plans = pd.DataFrame([_plan(each) for each in sizes.values()], index=list(sizes))
    cifar = {}
    for name in ("Cifar-10", "Cifar-100"):
        each = dict(sizes[name], samples_per_client=CIFAR_TRAINING / sizes[name]["n_clients"])
        plan, rho = _plan(each), stability.stability(**each)
        same = all(plan[key] == each[key] for key in ("clients_per_round", "batch_size"))
        cifar[name] = rho._asdict() | {"same K and b": same}
    hundred = {
        name: sizes[name]["clients_per_round"] * sizes[name]["rounds"] / 100 for name in IMAGES
    }
    return Planned(plans, pd.DataFrame.from_dict(cifar, orient="index"), hundred)


def _plan(sizes: Sizes) -> dict[str, Any]:
    """Return the plan that line 3 makes from the stability of given sizes."""
    rho = stability.stability(**sizes)
    rest = {key: sizes[key] for key in ("n_clients", "samples_per_client", "local_steps", "rounds")}
    return stability.plan(rho_s=rho.rho_s, rho_c=rho.rho_c, **rest)._asdict()


# --- what the claims are judged by ----------------------------------------------------------------


class Exactness(NamedTuple):
    """All that notebook 40 has found, as the functions above return it."""

    exact: pd.DataFrame
    restart: dict[str, Fraction]
    two: dict[str, Fraction]
    several: dict[str, np.ndarray]
    rho: pd.DataFrame
    printed: list[enumeration.Distance]
    rates: pd.DataFrame
    hits: AnyHit
    plans: Planned


def exactness(found: Exactness, table: pd.DataFrame) -> dict[str, dict[str, Any]]:
    """Return the evidence of notebook 40's claims, by artefact and part; `table` is Table 2."""
    exact, rho, rates, hits, plans = found.exact, found.rho, found.rates, found.hits, found.plans
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
    restart = {key: (float(distance), 0.0) for key, distance in found.restart.items()}
    theorem2 |= {"models_exact": restart["printed"], "models_before": restart["from before"]}
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
            "restart": restart["printed"],
            "restart_before": restart["from before"],
        },
        "fats-alg2": {
            "tiny": off["printed"],
            "table_2": (*np.array(found.printed).T, 0.0),
            "kept": off["exact"],
            "kept_twice": (float(found.two["exact"]), 0.0),
            "minimal": off["minimal"],
            "claim1": off["claim1"],
        },
        "fats-alg3": {"tiny": off["client"], "two_in_a_row": (float(found.two["client"]), 0.0)},
        "fats-rem1": {level: tuple(pairs.T) for level, pairs in found.several.items()},
        "fats-lem1": lemma1,
        "fats-thm2": theorem2 | {"sample_kept": off["exact"]},
        "fats-tab2": _table_2_evidence(table, rho, plans),
    }


def _table_2_evidence(table: pd.DataFrame, rho: pd.DataFrame, plans: Planned) -> dict[str, Any]:
    text = tables.paper_value("fats", "fats", "clients of the simulated data sets")
    fits = plans.cifar[["rho_s", "rho_c"]].max(axis=1) <= 1 + 1e-12
    return {
        "rho": (rho[["rho_s", "rho_c"]].to_numpy(), 1.0),
        "line_3": (
            plans.planned[["clients_per_round", "batch_size"]].to_numpy(),
            table[["K", "b"]].to_numpy(),
        ),
        "samples": (table["samples"].iloc[:4].to_numpy(), np.array(list(IMAGES.values()))),
        "clients": (table["M"].iloc[:4].to_numpy(), text),
        "training_images": {
            f"{name}, {what}": bool(held[name])
            for name in plans.cifar.index
            for what, held in (("rho", fits), ("K and b", plans.cifar["same K and b"]))
        },
        "text_clients": {name: value > 1 for name, value in plans.hundred.items()},
    }


def exactness_notes(found: Exactness) -> dict[str, str]:
    """Return what stands below each verdict of notebook 40."""
    fractions = ", ".join(map(str, sorted(set(found.exact["printed"]))))
    sizes = [distance.value for distance in found.printed]
    return {
        "fats-alg1": "Lines 4-6 load the model after step t_0, which has seen the sample: TV "
        f"{found.restart['printed']} (ERRATA 18); line 3 in whole numbers and after deletions: "
        "ERRATA 22, 45.",
        "fats-alg2": f"Distances as printed: {fractions}; {min(sizes):.3f} to {max(sizes):.3f} at "
        "Table 2's sizes. At a round's first step the clients are drawn again, although a hit says "
        "that the client took part; keeping them makes it exact, as the operator of Claim 1 in the "
        "paper's own proof does (ERRATA 13).",
        "fats-alg3": "ERRATA 17.",
        "fats-rem1": "The distance is the probability that one of the w is used, which w rho adds "
        "up.",
        "fats-lem1": "Loose: the distance is the probability of being used, about 1 - exp(-rho) "
        "(ERRATA 20).",
        "fats-thm2": "Exact for samples with the clients of the hit round kept (ERRATA 13); the "
        "proof's coupling is not (ERRATA 14).",
        "fats-tab2": "CIFAR's 60,000 samples count the test images, and 300 and 600 clients "
        "contradict the text's 100, with which no rho_C would be allowed (ERRATA 21).",
    }


_BLUE, _ORANGE, _GREEN = "#0072B2", "#D55E00", "#009E73"


def by_hand(shares: Mapping[str, pd.DataFrame]) -> Figure:
    """Draw `forgetting_by_hand` as stacked bars with fractions."""
    import matplotlib.pyplot as plt

    samples = {
        "$a_0$": ("#56B4E9", "//"),
        "$a_1$": (_BLUE, ""),
        "$b_0$": ("#F0E442", ""),
        "$b_1$": ("#E69F00", ""),
    }
    clients = {"A": ("#56B4E9", "//"), "B": ("#E69F00", ""), "C": (_GREEN, "")}
    fig, axes = plt.subplots(1, 2, figsize=(9.8, 3.9), width_ratios=[4, 3])
    for ax, frame, looks in zip(axes, shares.values(), (samples, clients), strict=True):
        bottom = np.zeros(frame.shape[1])
        for part, (color, hatch) in looks.items():
            height = frame.loc[part].to_numpy()
            look = {"color": color, "hatch": hatch, "edgecolor": "white", "width": 0.62}
            ax.bar(range(frame.shape[1]), height, bottom=bottom, **look)
            for i in np.flatnonzero(height):
                text = f"{part}  {Fraction(height[i]).limit_denominator(96)}"
                ax.text(
                    i, bottom[i] + height[i] / 2, text, ha="center", va="center", fontsize=10,
                    color="white" if color == _BLUE else "black",
                    bbox={"facecolor": color, "edgecolor": "none", "pad": 1.5},
                )  # fmt: skip
            bottom += height
        ax.set_xticks(range(frame.shape[1]), list(frame.columns), fontsize=9.5)
        ax.set_ylim(0, 1)
        ax.grid(False)
    axes[0].axhline(0.5, color="black", linestyle=":", linewidth=1.5, zorder=0)
    axes[0].set(
        ylabel="probability",
        title="forget a photo of client A: A has 3/8 with the printed rule, should have 1/2",
    )
    axes[1].set(title="forget client A of three")
    return fig


def distances(exact: pd.DataFrame, printed: Sequence, costs: pd.DataFrame) -> Figure:
    """Draw each rule's distance to retraining, and what it draws anew.

    Left all rules in tiny federations, in the middle the printed one at Table 2's sizes, right the
    samples that a request has drawn anew on average. Theorem 2 claims 0 in the first two. The
    arguments are `enumerated`, `printed_distances` and `rule_costs`.
    """
    import matplotlib.pyplot as plt

    fig, axes = plt.subplots(1, 3, figsize=(11, 4.4), width_ratios=[4, 3, 3])
    order = exact["printed"].astype(float).argsort().to_numpy()
    looks = {rule: (row.label, row.look.color, row.look.marker) for rule, row in RULES.items()}
    looks = {"printed": looks.pop("printed")} | looks
    looks |= {"client": ("Algorithm 3 (client)", "#000000", "x")}
    for rule, (label, color, marker) in looks.items():
        place = np.arange(len(exact)) + {"exact": -0.2, "claim1": -0.35, "client": 0.2}.get(rule, 0)
        values = exact[rule].astype(float).to_numpy()[order]
        axes[0].plot(values, place, marker, color=color, label=label)
        if rule in costs:
            axes[2].plot(costs[rule], range(6), marker, color=color, markersize=8)
    for i, value in enumerate(exact["printed"].to_numpy()[order]):
        axes[0].annotate(
            str(value), (float(value), i), textcoords="offset points", xytext=(7, 0), va="center",
            fontsize=9,
        )  # fmt: skip
    counted = [", ".join(map(str, sizes)) for sizes in FEDERATIONS]
    axes[0].set_yticks(range(len(counted)), [counted[i] for i in order], fontsize=8.5)
    axes[0].set(ylabel="M, N, K, b, E, R", xlabel="TV to retraining", xlim=(-0.012, 0.25))
    axes[0].set_title("tiny federations, exact")
    fig.legend(*axes[0].get_legend_handles_labels(), loc="outside upper center", ncols=5)
    errors = [4 * d.error for d in printed]
    axes[1].barh(range(6), [d.value for d in printed], xerr=errors, color=_ORANGE, height=0.6)
    axes[1].plot(
        [0] * 6, range(6), "D", color="0.2", markerfacecolor="none", clip_on=False,
        label="the paper: 0",
    )  # fmt: skip
    axes[1].legend(loc="lower right")
    axes[1].set(xlabel="TV to retraining", title="as printed, Table 2's sizes")
    axes[2].set(xscale="log", xlabel="samples drawn anew", title="cost of a request")
    for ax in axes[1:]:
        ax.set_yticks(range(6), NAMES)
        ax.invert_yaxis()
    axes[2].tick_params(labelleft=False)
    return fig


def uses(rates: pd.DataFrame, rho: pd.DataFrame, exact: pd.DataFrame) -> Figure:
    """Draw how often samples and clients are used, against Lemma 1, and the exact distances."""
    import matplotlib.pyplot as plt

    fig, axes = plt.subplots(1, 3, figsize=(9.8, 3.4))
    axis = np.linspace(0, 1.2, 200)
    for ax, level, column in ((axes[0], "samples", "rho_s"), (axes[1], "clients", "rho_c")):
        limit = np.minimum(axis, 1)
        ax.plot(axis, limit, color="black", linestyle=":", label=r"Lemma 1: $\min\{\rho,1\}$")
        ax.plot(axis, 1 - np.exp(-axis), color=_BLUE, label=r"$1-e^{-\rho}$")
        handles = []
        for i, name in enumerate(NAMES):
            look = figures.series_style(None, i) | {"linestyle": "none", "markersize": 7}
            point = rho.loc[name, column], rates.loc[name, level]
            error = 4 * rates.loc[name, f"se {level}"]
            handles.append(ax.errorbar(*point, error, label=name, **look))
        ax.set(
            xlabel=rf"$\rho_{column[-1].upper()}$", title=f"{level}: share that was used",
            ylim=(0, 1.02), xlim=(0, 1.1),
        )  # fmt: skip
    axes[0].set_ylabel("probability of being used")
    axes[0].legend(handles=axes[0].lines[:2], fontsize=8.5, loc="upper left")
    axes[1].legend(handles=handles, fontsize=8.5, loc="upper left")
    tiny = pd.DataFrame([stability.stability(**sizes) for sizes in exact["setting"]])
    axes[2].plot([0, 1], [0, 1], color="black", linestyle=":", label=r"TV = $\min\{\rho,1\}$")
    for name, column, color, marker in (
        ("sample", "rho_s", _BLUE, "o"),
        ("client", "rho_c", "#E69F00", "s"),
    ):
        value = exact[f"TV {name}"].astype(float)
        axes[2].plot(
            tiny[column].clip(upper=1), value, marker, color=color, label=f"without a {name}"
        )
    axes[2].set(
        xlabel=r"$\min\{\rho,1\}$", title="tiny configurations: TV of learning",
        xlim=(0, 1.05), ylim=(0, 1.02),
    )  # fmt: skip
    axes[2].legend(fontsize=8.5, loc="upper left")
    return fig


def draw_any_hit(hits: AnyHit, rho: pd.DataFrame) -> Figure:
    """Draw how likely it is that any of w requests hits, against the bound of Theorem 2."""
    import matplotlib.pyplot as plt

    w = np.arange(1, hits.simulated.shape[1] + 1)
    fig, axes = plt.subplots(1, 2, figsize=(9.6, 3.8))
    titles = "w samples of different clients", "w clients"
    for i, (ax, column, title) in enumerate(zip(axes, ("rho_s", "rho_c"), titles, strict=True)):
        colors = {"MNIST": _BLUE, "FEMNIST": _GREEN, "Shakespeare": _ORANGE}
        for name, color in colors.items():
            ax.plot(w, hits.exact[name][i], color=color, label=f"{name}, exact")
            bound = np.minimum(w * rho.loc[name, column], 1)
            label = "bound" if name == "MNIST" else None
            ax.plot(w, bound, color=color, linestyle=":", label=label)
        ax.errorbar(
            w, hits.simulated[i], 1.96 * hits.error[i], fmt="o", color="black", markersize=4,
            label="MNIST, simulated",
        )  # fmt: skip
        ax.set(xlabel="requests w", title=title, ylim=(0, 1.04))
    axes[0].set_ylabel("probability of any re-computation")
    axes[0].legend(fontsize=8.5, loc="lower right")
    return fig


def table_2(rho: pd.DataFrame, plans: Planned) -> Figure:
    """Draw the stability that Table 2 implies, beside the exact probability of use."""
    import matplotlib.pyplot as plt

    fig, axes = plt.subplots(1, 2, figsize=(9.6, 3.6))
    for ax, bound, used, title in (
        (axes[0], "rho_s", "p_sample", "Table 2, samples"),
        (axes[1], "rho_c", "p_client", "Table 2, clients"),
    ):
        rows = np.arange(6)
        implied = r"$\rho$, implied by Table 2"
        ax.barh(rows - 0.19, rho[bound], height=0.36, color="#999999", label=implied)
        exact = "exact probability of use"
        ax.barh(rows + 0.19, rho[used], height=0.36, color=_BLUE, label=exact)
        ax.axvline(1, color="black", linewidth=1)
        ax.set(xlabel="stability", title=title, xlim=(0, 1.05), ylim=(5.6, -2.2))
        ax.set_yticks(range(6), NAMES if ax is axes[0] else [])
    corrected = r"$\rho_S$ with 50,000 images"
    axes[0].plot(
        plans.cifar["rho_s"], [1.81, 2.81], "D", color=_ORANGE, clip_on=False, label=corrected
    )
    axes[0].legend(fontsize=8.5, loc="upper left")
    return fig
