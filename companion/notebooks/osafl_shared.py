"""What notebooks 33 and 34 share: arms, one number from a run's rounds, tables, curves.

Source: OSAFL, Tables II to V, Figs. 4 to 6, Section V-B, Appendix D-B. Every measure takes the rows
of one run of `training.run`; `by_arm` makes the table seed x arm of a measure. Rounds of a diverged
end count as accuracy 0 and as ten times the loss of a uniform guess. The step size of a rule is the
server's where it has one, else the local rate (`step_name`).
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from companion import figures, sheets, story
from companion.judging.tables import paper_values
from companion.plans import Stage, no_runs
from sflkit.intervals import mean_interval
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

# An arm is a rule and what stands in its buffer for a client that never joined. Notebook 34 runs
# the baselines without such clients, and M-AFA-CD as printed, which is what the paper's numbers
# show (ERRATA 38).
ARMS = {
    "osafl": ("osafl", "exclude"),
    "m_fedavg": ("m_fedavg", "exclude"),
    "m_afa_cd_printed": ("m_afa_cd", "literal"),
    "m_fednova": ("m_fednova", "exclude"),
    "m_fedprox": ("m_fedprox", "exclude"),
    "m_feddisco": ("m_feddisco", "exclude"),
    "m_afa_cd": ("m_afa_cd", "exclude"),
    "genie": ("genie", "exclude"),
    "osafl_printed": ("osafl", "literal"),
    "osafl_zero": ("osafl", "zero"),
}

CASE = ("arm", "K", "seed")

Runs = Generator[Stage, pd.DataFrame, pd.DataFrame]


# --- configs --------------------------------------------------------------------------------------


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


# --- stages ---------------------------------------------------------------------------------------


def cases_of_arms(
    base: Mapping, arms: Iterable[str], top_k: Iterable[int], seeds: Iterable[int], name: str
) -> Runs:
    """Yield the runs of some arms, one K and one seed after the other; return them with `arm`."""
    cases = {
        (arm, K, seed): scaled(OSAFLConfig(*ARMS[arm], seed=seed, top_k=K, **base))
        for K in top_k
        for seed in seeds
        for arm in arms
    }
    return (yield from collected(cases, CASE, name))


def collected(
    cases: Mapping[tuple, OSAFLConfig], names: Sequence[str], name: str, gpu: bool = False
) -> Runs:
    """Yield the runs of `cases` and return them with the parts of each case as columns."""
    frame = yield Stage(training.run, list(dict.fromkeys(cases.values())), name, gpu)
    if not cases:
        return no_runs()  # with the same `attrs`
    found = collect(frame, cases, names)
    found.attrs["keys"] = frame.attrs["keys"]
    found.attrs["data"] = frame.attrs.get("data", [])
    return found


# The options of `RULES` that are a step size of the server; no rule has two of them.
SERVER_STEPS = ("global_rate", "slowdown")


def step_name(rule: str) -> str:
    """Return which field of the config is the step size of `rule`."""
    options = RULES[rule].options
    return next((name for name in SERVER_STEPS if name in options), "rate")


def scaled(config: OSAFLConfig, factor: float = 1.0) -> OSAFLConfig:
    """Return the config with `factor` times its rule's step size, which is then explicit."""
    name = step_name(config.rule)
    return replace(config, **{name: config.hyper[name] * factor})


def collect(
    frame: pd.DataFrame, plan: Mapping[tuple, OSAFLConfig], names: Sequence[str]
) -> pd.DataFrame:
    """Return the rows of every case of `plan`, with the parts of the case as further columns.

    Parameters
    ----------
    frame : DataFrame
        Results of `sweep.run_many(run, plan.values())`.
    plan : mapping
        The config of each case, which is a tuple as long as `names`. Several cases may share a
        config.
    names : sequence of str
        What the columns are called.

    Raises
    ------
    ValueError
        If the frame does not hold the runs of the plan.
    """
    runs = [run for _, run in frame.drop_duplicates(["key", "round"]).groupby("key", sort=False)]
    configs = dict.fromkeys(plan.values())
    if len(runs) != len(configs):
        raise ValueError(
            f"frame holds {len(runs)} runs; the plan has {len(configs)} different configs"
        )
    run_of = dict(zip(configs, runs, strict=True))
    return pd.concat(
        [
            run_of[config].assign(**dict(zip(names, case, strict=True)))
            for case, config in plan.items()
        ],
        ignore_index=True,
    )


# The loss that stands for a diverged round, ten times that of a uniform guess among 100 files.
WORST_LOSS = 10 * np.log(100)


def best(run: pd.DataFrame) -> float:
    """Return the best accuracy of the rounds, 0 where none was finite."""
    return float(np.nan_to_num(run["best_accuracy"].iloc[-1]))


def best_loss(run: pd.DataFrame) -> float:
    """Return the loss of the round with the best accuracy, `WORST_LOSS` where there is none."""
    return float(run["best_loss"].fillna(WORST_LOSS).iloc[-1])


def between(first: float, last: float) -> Callable[[pd.DataFrame], float]:
    """Return the measure "mean accuracy over these shares of the rounds", such as 0.75 to 1."""
    return lambda run: float(part_of(accuracy(run), first, last).mean())


def log_loss(first: float, last: float) -> Callable[[pd.DataFrame], float]:
    """Return the measure "logarithm of the mean loss over these shares of the rounds"."""
    return lambda run: float(np.log(part_of(loss(run), first, last).mean()))


def at_round(number: int) -> Callable[[pd.DataFrame], float]:
    """Return the measure "accuracy after so many rounds", which must have been evaluated."""
    return lambda run: float(accuracy(run).loc[number])


def accuracy(run: pd.DataFrame) -> pd.Series:
    """Return the accuracies of the evaluated rounds by round, 0 where the run had diverged."""
    rows = run[_evaluated(run)]
    return pd.Series(rows["accuracy"].fillna(0).to_numpy(), index=rows["round"].to_numpy())


def loss(run: pd.DataFrame) -> pd.Series:
    """Return the losses of the evaluated rounds by round, `WORST_LOSS` in diverged ones."""
    rows = run[_evaluated(run)]
    losses = rows["loss"].where(~rows["diverged"], WORST_LOSS)
    return pd.Series(losses.to_numpy(), index=rows["round"].to_numpy())


def at_k(runs: pd.DataFrame, K: int) -> pd.DataFrame:
    """Return the rows with one K; a frame without rows, which may lack the column, as it is."""
    return runs[runs["K"] == K] if len(runs) else runs


def by_arm(runs: pd.DataFrame, measure: Callable[[pd.DataFrame], float]) -> pd.DataFrame:
    """Return a measure as a table with one row per seed and one column per arm.

    Parameters
    ----------
    runs : DataFrame
        Rows of runs with the columns `seed` and `arm`, which name a run together.
    measure : function
        Of this module, or any other of the rows of a run.
    """
    found = {
        (seed, arm): measure(run) for (seed, arm), run in runs.groupby(["seed", "arm"], sort=False)
    }
    names = pd.MultiIndex.from_tuples(found, names=["seed", "arm"])
    return pd.Series(list(found.values()), index=names).unstack("arm")


def as_printed(found: pd.DataFrame) -> pd.DataFrame:
    """Return a table of `by_arm` in which M-AFA-CD is the one with the printed buffer, if any.

    That one is what the paper's numbers show (ERRATA 38).
    """
    if "m_afa_cd_printed" not in found:
        return found
    kept = found.drop(columns="m_afa_cd", errors="ignore")
    return kept.rename(columns={"m_afa_cd_printed": "m_afa_cd"})


def part_of(curve: pd.Series, first: float, last: float) -> pd.Series:
    end = curve.index.max()
    return curve[(curve.index > first * end) & (curve.index <= last * end)]


def _evaluated(run: pd.DataFrame) -> pd.Series:
    return run["accuracy"].notna() | run["diverged"]


# What Tables II to V print of a rule.
MEASURES = {"accuracy": best, "loss": best_loss}
# Their rows, by rule.
ROWS = {"genie": "centralised SGD"} | LABELS


def printed_steps(base: Mapping[str, Any]) -> pd.DataFrame:
    """Return the rates that the paper prints, one row per rule, and how far each rule moves.

    The last column is the longest step of the model, in multiples of a gradient that all clients
    share: what OSAFL does with scores of 1, and the others with the largest number of local steps.

    Parameters
    ----------
    base : mapping
        Fields of `OSAFLConfig` that name the network, `fcn_base` or `n34.lstm_base`.
    """
    words = {"rate": "local rate", "global_rate": "server rate"}
    rows = {}
    for rule, name in LABELS.items():
        config = OSAFLConfig(rule, **base)
        rows[name] = {words.get(key, key): f"{value:g}" for key, value in config.hyper.items()}
        rows[name]["longest step"] = f"{longest_step(config):g}"
    table = pd.DataFrame(rows).T.fillna("")
    last = ["longest step"]
    return table[[*table.columns.drop(last), *last]].rename_axis("rule")


def longest_step(config: OSAFLConfig) -> float:
    """Return how far a federated rule moves the model if all clients share one gradient.

    In multiples of that gradient: OSAFL with scores of 1, and the rules that keep models with the
    largest number of local steps, without M-FedProx's pull.
    """
    given = config.hyper
    if config.rule == "osafl":
        return given["rate"] * given["global_rate"]
    if config.rule == "m_afa_cd":
        return given["global_rate"]
    return given["rate"] * config.max_steps * given.get("slowdown", 1.0)


def limit_of(limit: Callable[[OSAFLConfig], float], config: OSAFLConfig) -> float:
    """Return a limit of a world, which needs its images, from those that are published."""
    return story.kept(limit.__name__, config_dict(config), lambda: limit(config))


def printed_table(artefact: str, network: str) -> dict[str, dict[str, tuple[float, float]]]:
    """Return a table of the paper as `sheets.table` takes it.

    Parameters
    ----------
    artefact : {"osafl-tab2", "osafl-tab3", "osafl-tab4", "osafl-tab5"}
    network : str
        A column of the table, such as "FCN".

    Returns
    -------
    dict
        Name of a rule, in the paper's order -> "accuracy" or "loss" -> number and printed spread.
    """
    values = paper_values("osafl").set_index(["artefact", "quantity"])["value"].astype(float)

    def cell(name: str, what: str) -> tuple[float, float]:
        quantity = f"test {what} {'SGD' if name == ROWS['genie'] else name} {network}"
        return values[artefact, quantity], values[artefact, f"{quantity}, spread"]

    return {name: {what: cell(name, what) for what in MEASURES} for name in ROWS.values()}


def printed_marks(artefact: str, what: str, network: str) -> dict[str, float]:
    """Return the numbers of `printed_table` for "accuracy" or "loss" by rule, with "genie"."""
    table = printed_table(artefact, network)
    return {rule: table[name][what][0] for rule, name in ROWS.items()}


def our_table(runs: pd.DataFrame) -> dict[str, dict[str, np.ndarray]]:
    """Return best accuracies and the losses of those rounds, one a seed, by the paper's rows.

    `runs` has one K, and the columns arm and seed.
    """
    found = {what: as_printed(by_arm(runs, measure)) for what, measure in MEASURES.items()}
    return {
        ROWS[arm]: {what: found[what][arm].dropna().to_numpy() for what in MEASURES}
        for arm in found["accuracy"]
    }


Evidence = dict[str, Any]


def missing(K: int, runs: pd.DataFrame) -> str:
    return "" if len(runs) else f"nothing was run with K = {K} under the reading that is judged"


def best_in_words(runs: pd.DataFrame) -> str:
    """Say the best accuracies of a table."""
    means = as_printed(by_arm(runs, best)).mean()
    rules = means[[*LABELS]].sort_values(ascending=False)
    said = ", ".join(f"{LABELS[rule]} {mean:.3f}" for rule, mean in rules.items())
    genie = f"; centralised {means['genie']:.3f}" if "genie" in means else ""
    return f"Ours: {said}{genie}."


def draw_table(
    axes: Sequence[Axes],
    ours: Mapping[str, Mapping[str, np.ndarray]],
    paper: Mapping[str, Mapping[str, tuple[float, float]]],
) -> pd.DataFrame:
    """Draw a table of the paper, a row a rule: accuracies left, losses right, ours and printed.

    Parameters
    ----------
    axes : two Axes
        For accuracy and loss.
    ours, paper : mapping
        As `our_table` and `printed_table` return them.

    Returns
    -------
    DataFrame
        what, rule; ours, low, high (95 % interval over seeds), seeds; paper and spread.
    """
    color = {ROWS[rule]: colors()[rule] for rule in ROWS}
    rows = []
    for ax, what in zip(axes, MEASURES, strict=True):
        for y, (name, cells) in enumerate(paper.items()):
            printed, spread = cells[what]
            look = {"color": color[name], "capsize": 4, "linestyle": "none"}
            ax.errorbar(printed, y + 0.18, xerr=spread, marker="D", mfc="none", **look)
            row = {"what": what, "rule": name, "paper": printed, "spread": spread}
            if name in ours:
                at = mean_interval(ours[name][what])
                bar = [[at.mean - at.low], [at.high - at.mean]]
                ax.errorbar(at.mean, y - 0.18, xerr=bar, marker="o", **look)
                row |= {"ours": at.mean, "low": at.low, "high": at.high, "seeds": at.n}
            rows.append(row)
        ax.set_yticks(range(len(paper)), list(paper) if ax is axes[0] else [])
        ax.set(xlabel=f"test {what}, best round", ylim=(len(paper) - 0.5, -0.5))
    axes[0].set_xlim(left=0)
    return pd.DataFrame(rows)


def colors() -> dict[str, str]:
    """Return the colour of each rule."""
    return {name: RULES[name].look.color for name in RULES}


def compared(ax: Axes, runs: pd.DataFrame, what: str, printed: Mapping[str, float]) -> pd.DataFrame:
    """Draw one curve per rule, the mean over seeds, and right of them the best rounds.

    Full marks are the means of ours, hollow ones what the paper prints.

    Parameters
    ----------
    ax : Axes
    runs : DataFrame
        Runs of a plan, with the column `arm`, a rule; the paper's M-AFA-CD has the printed buffer.
    what : {"accuracy", "loss"}
    printed : mapping
        Rule -> the paper's number of its best round.

    Returns
    -------
    DataFrame
        Mean, std and count by arm and round.
    """
    as_in_the_paper = runs["arm"].replace("m_afa_cd_printed", "m_afa_cd")
    drawn = runs.assign(arm=as_in_the_paper).dropna(subset=[what])
    figures.curves(ax, drawn, "round", what, "arm", rules=RULES, interval=None)
    end = int(runs["round"].max())
    places = best_rounds(ax, what, printed, end)
    ours = as_printed(by_arm(runs, MEASURES[what])).mean()
    for rule in ours.index.intersection(list(places)):
        ax.plot(places[rule], ours[rule], "D", color=colors()[rule], markersize=5)
    ax.legend().remove()
    return drawn.groupby(["arm", "round"])[what].agg(["mean", "std", "count"]).reset_index()


def best_rounds(ax: Axes, what: str, printed: Mapping[str, float], end: int) -> dict[str, float]:
    """Draw what the paper prints of each rule's round of best accuracy, right of all rounds.

    Arguments are those of `compared`, and the last round. Returns where each rule stands.
    """
    places = {rule: end * (1.05 + 0.035 * i) for i, rule in enumerate(printed)}
    sheets.printed_marks(ax, places, printed, colors())
    ax.axvline(end, color="0.4", linewidth=1)
    above = {"xycoords": ax.get_xaxis_transform(), "textcoords": "offset points"}
    ax.annotate("at best accuracy", (1.01 * end, 1), (0, 3), fontsize=8, **above)
    ax.set(xlabel="round", ylabel=f"test {what}", xlim=(0, end * 1.3))
    ax.set_xticks(np.unique(np.linspace(0, end, 6).round()))
    return places
