"""What notebooks 33 and 34 share: rules, one number from a run's rounds, printed tables, curves.

Source: OSAFL, Tables II to V, Figs. 4 to 6, Section V-B, Appendix D-B. A frame of runs is what
`run_many` returns, with two names more (`named`): `arm`, the rule as the paper's tables have it,
and `K`. Every measure takes the rows of one run; `by_arm` makes the table (K, seed) x arm of a
measure. Rounds of a diverged end count as accuracy 0 and as ten times the loss of a uniform guess.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from companion import sheets, story
from companion.judging.tables import paper_values
from companion.plans import Stage
from sflkit.osafl import training
from sflkit.osafl.config import OSAFLConfig
from sflkit.osafl.networks import SIZES
from sflkit.osafl.rules import RULES
from sflkit.runs.keys import config_dict

if TYPE_CHECKING:
    from matplotlib.axes import Axes


# The rules of Tables II to V, in their order, with the labels of `RULES`.
LABELS = {
    "osafl": "OSAFL",
    "m_fedavg": "M-FedAvg",
    "m_afa_cd": "M-AFA-CD",
    "m_fednova": "M-FedNova",
    "m_fedprox": "M-FedProx",
    "m_feddisco": "M-FedDisco",
}
BASELINES = tuple(LABELS)[1:]
# The rows of these tables, by rule.
ROWS = {"genie": "centralised SGD"} | LABELS
COLORS = {name: RULES[name].look.color for name in RULES}

Evidence = dict[str, Any]
Runs = Generator[Stage, pd.DataFrame, pd.DataFrame]


# --- configs and runs -----------------------------------------------------------------------------


# What `fcn_base` takes, in this order; fields of the config and parameters of notebook 33.
FCN_SETTINGS = "hidden n_clients rounds features input_norm allocator genie_steps test_size".split()


def fcn_base(hidden: Sequence[int], *others: Any) -> dict:
    """Return the settings that the FCN's runs share, from the values of `FCN_SETTINGS`.

    A smaller network than ours keeps the payload of the full one, so that the same clients are
    stragglers.
    """
    size = SIZES["FCN"]
    base = {"model": size.model, **dict(zip(FCN_SETTINGS[1:], others, strict=True))}
    if tuple(hidden) != size.options["hidden"]:
        base |= {"hidden": tuple(hidden), "payload_bits": float(size.payload_bits)}
    return base


def scaled(config: OSAFLConfig, factor: float = 1.0) -> OSAFLConfig:
    """Return the config with `factor` times its rule's step size, which is then explicit.

    It is the server's where the rule has one, else the local rate.
    """
    options = RULES[config.rule].options
    name = next((name for name in ("global_rate", "slowdown") if name in options), "rate")
    return replace(config, **{name: config.hyper[name] * factor})


def ran(configs: Iterable[OSAFLConfig], name: str) -> Runs:
    """Yield a stage of these runs, each once, and return their frame with `arm` and `K`."""
    frame = yield Stage(training.run, list(dict.fromkeys(configs)), name)
    if not len(frame):  # nothing was asked for
        columns = ["arm", "K", "seed", "round", "accuracy", "loss", "best_accuracy"]
        return frame.reindex(columns=[*columns, "input_norm", "never_joined", "genie_steps"])
    arm = frame["rule"].replace("m_fednova_latest", "m_fednova")
    return frame.assign(arm=arm, K=frame["top_k"])


# --- one number of a run --------------------------------------------------------------------------


# The loss that stands for a diverged round, ten times that of a uniform guess among 100 files.
WORST_LOSS = 10 * np.log(100)


def best(run: pd.DataFrame) -> float:
    """Return the best accuracy of the rounds, 0 where none was finite."""
    return float(np.nan_to_num(run["best_accuracy"].iloc[-1]))


def best_loss(run: pd.DataFrame) -> float:
    """Return the loss of the round with the best accuracy, `WORST_LOSS` where there is none."""
    return float(run["best_loss"].fillna(WORST_LOSS).iloc[-1])


# What Tables II to V print of a rule.
MEASURES = {"accuracy": best, "loss": best_loss}


def between(first: float, last: float) -> Callable[[pd.DataFrame], float]:
    """Return the measure "mean accuracy over these shares of the rounds", such as 0.75 to 1."""
    return lambda run: float(part_of(accuracy(run), first, last).mean())


def at_round(number: int) -> Callable[[pd.DataFrame], float]:
    """Return the measure "accuracy after so many rounds", which must have been evaluated."""
    return lambda run: float(accuracy(run).loc[number])


def accuracy(run: pd.DataFrame) -> pd.Series:
    """Return the accuracies of the evaluated rounds by round, 0 where the run had diverged."""
    rows = _evaluated(run)
    return rows["accuracy"].fillna(0)


def loss(run: pd.DataFrame) -> pd.Series:
    """Return the losses of the evaluated rounds by round, `WORST_LOSS` in diverged ones."""
    rows = _evaluated(run)
    return rows["loss"].where(~rows["diverged"], WORST_LOSS)


def part_of(curve: pd.Series, first: float, last: float) -> pd.Series:
    """Return a curve between two shares of its rounds, without the first."""
    end = curve.index.max()
    return curve[(curve.index > first * end) & (curve.index <= last * end)]


def _evaluated(run: pd.DataFrame) -> pd.DataFrame:
    return run[run["accuracy"].notna() | run["diverged"]].set_index("round")


def by_arm(runs: pd.DataFrame, measure: Callable[[pd.DataFrame], float]) -> pd.DataFrame:
    """Return a measure as a table with one row per K and seed and one column per arm."""
    return runs.groupby(["K", "seed", "arm"]).apply(measure).unstack("arm")


def best_in_words(runs: pd.DataFrame) -> str:
    """Say the mean best accuracies of runs of one K, the highest first."""
    means = by_arm(runs, best).mean()
    rules = means[[*LABELS]].sort_values(ascending=False)
    said = ", ".join(f"{LABELS[rule]} {mean:.3f}" for rule, mean in rules.items())
    genie = f"; centralised {means['genie']:.3f}" if "genie" in means else ""
    return f"Ours: {said}{genie}."


def limit_of(limit: Callable[[OSAFLConfig], float], config: OSAFLConfig) -> float:
    """Return a limit of a world, which needs its images, from those that are published."""
    return story.kept(limit.__name__, config_dict(config), lambda: limit(config))


# --- what the paper prints ------------------------------------------------------------------------


def printed_table(
    network: str, top_k: Iterable[int] = (1, 2)
) -> dict[str, dict[str, tuple[float, float]]]:
    """Return a network's columns of the printed Tables II to V as `sheets.table` takes them.

    Parameters
    ----------
    network : {"FCN", "SqueezeNet1", "CNN", "LSTM"}
    top_k : iterable of 1 and 2
        K; Tables II and III are of Dataset-1, IV and V of Dataset-2, which only the LSTM sees.

    Returns
    -------
    dict
        Name of a rule, in the paper's order -> such as "accuracy, K = 1" -> number and printed
        spread.
    """
    values = paper_values("osafl").set_index(["artefact", "quantity"])["value"].astype(float)

    def cell(name: str, what: str, K: int) -> tuple[float, float]:
        artefact = f"osafl-tab{K + (3 if network == 'LSTM' else 1)}"
        quantity = f"test {what} {'SGD' if name == ROWS['genie'] else name} {network}"
        return values[artefact, quantity], values[artefact, f"{quantity}, spread"]

    columns = [(K, what) for K in top_k for what in MEASURES]
    return {
        name: {f"{what}, K = {K}": cell(name, what, K) for K, what in columns}
        for name in ROWS.values()
    }


def printed_marks(network: str, what: str, K: int) -> dict[str, float]:
    """Return the numbers of `printed_table` for "accuracy" or "loss" by rule, with "genie"."""
    table = printed_table(network, [K])
    return {rule: table[name][f"{what}, K = {K}"][0] for rule, name in ROWS.items()}


def our_table(runs: pd.DataFrame) -> dict[str, dict[str, np.ndarray]]:
    """Return best accuracies and the losses of those rounds, one a seed, as `printed_table` does.

    What was not run has no values.
    """
    found = {what: by_arm(runs, measure) for what, measure in MEASURES.items()}
    columns = [(K, what) for K in dict.fromkeys(runs["K"]) for what in MEASURES]
    return {
        ROWS[arm]: {
            f"{what}, K = {K}": found[what][arm].loc[K].dropna().to_numpy() for K, what in columns
        }
        for arm in found["accuracy"]
    }


def printed_steps(base: Mapping[str, Any]) -> pd.DataFrame:
    """Return the rates that the paper prints, one row per rule, and how far each rule moves.

    The last column is the longest step of the model, in multiples of a gradient that all clients
    share: what OSAFL does with scores of 1, and the rules that keep models with the largest number
    of local steps, without M-FedProx's pull.

    Parameters
    ----------
    base : mapping
        Fields of `OSAFLConfig` that name the network, `fcn_base` or `n34.lstm_base`.
    """
    rows = {}
    for rule, name in LABELS.items():
        config = OSAFLConfig(rule, **base)
        given = config.hyper
        step = given["rate"] * config.max_steps * given.get("slowdown", 1.0)
        if "global_rate" in given:  # what is sent is a gradient: OSAFL moves by its rate as well
            step = given["global_rate"] * (given["rate"] if rule == "osafl" else 1.0)
        rows[name] = {key: f"{value:g}" for key, value in given.items()}
        rows[name]["longest step"] = f"{step:g}"
    table = pd.DataFrame(rows).T.fillna("").rename_axis("rule")
    table = table[[*table.columns.drop("longest step"), "longest step"]]
    return table.rename(columns={"rate": "local rate", "global_rate": "server rate"})


# --- curves ---------------------------------------------------------------------------------------


def best_rounds(
    ax: Axes, what: str, ours: Mapping[str, float], printed: Mapping[str, float]
) -> None:
    """Draw the rules' rounds of best accuracy, right of all rounds: full ours, hollow the paper's.

    Parameters
    ----------
    ax : Axes
        The curves over the rounds are in it already.
    what : {"accuracy", "loss"}
    ours, printed : mapping
        Rule -> number.
    """
    end = max(line.get_xdata().max() for line in ax.get_lines())
    places = {rule: end * (1.05 + 0.035 * i) for i, rule in enumerate(printed)}
    sheets.printed_marks(ax, places, printed, COLORS)
    ax.axvline(end, color="0.4", linewidth=1)
    above = {"xycoords": ax.get_xaxis_transform(), "textcoords": "offset points"}
    ax.annotate("at best accuracy", (1.01 * end, 1), (0, 3), fontsize=8, **above)
    for rule, value in ours.items():
        ax.plot(places[rule], value, "D", color=COLORS[rule], markersize=5)
    ax.set(xlabel="round", ylabel=f"test {what}", xlim=(0, end * 1.3))
    ax.set_xticks(np.unique(np.linspace(0, end, 6).round()))
