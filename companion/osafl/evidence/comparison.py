"""What notebooks 33 and 34 show beside their verdicts: steps, limits, tables, and a bottom line.

Source: OSAFL, Section V-B, Tables II to V, Appendix D-B. The runs are those of
`companion.osafl.plans.training`, the evidence for the verdicts is in `evidence.training`, and what
is said with them in `evidence.remarks`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from companion import story
from companion.judging.claims import Page
from companion.judging.tables import comparison, paper_values
from companion.osafl import tuning
from companion.osafl.claims.dataset1 import BASELINES, LABELS
from companion.osafl.measures import area, as_printed, best, best_loss, by_arm
from companion.osafl.plans.training import ARMS, SEARCHED, Dataset1, Dataset2
from sflkit.osafl.clients import ceiling, ceiling_of_strangers
from sflkit.osafl.config import OSAFLConfig
from sflkit.osafl.rules import RULES
from sflkit.results import intervals
from sflkit.results.intervals import Estimate, mean_interval
from sflkit.results.store import config_dict

# The table of the paper that has K's numbers, by network and K.
TABLES = {("LSTM", 1): "osafl-tab4", ("LSTM", 2): "osafl-tab5"} | {
    (network, K): f"osafl-tab{1 + K}" for network in ("FCN", "CNN", "SqueezeNet1") for K in (1, 2)
}
_PAIRED = (
    "The intervals are those of the differences seed by seed, in which what a seed does to both "
    "rules cancels; the ± of the tables are those of one rule."
)
_REFUSED = {
    "edge": "refused, still better at the end of the grid",
    "guess": "refused, no better than a constant guess",
}


def printed_steps(base: Mapping[str, Any]) -> pd.DataFrame:
    """Return the rates that the paper prints, one row per rule, and how far each rule moves.

    The last column is the longest step of the model, in multiples of a gradient that all clients
    share: what OSAFL does with scores of 1, and the others with the largest number of local steps.

    Parameters
    ----------
    base : mapping
        Fields of `OSAFLConfig` that name the network, `plans.fcn_base` or `plans.lstm_base`.
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


def ceilings(
    base: Mapping[str, Any], top_k: Iterable[int], seeds: Iterable[int]
) -> dict[int, pd.Series]:
    """Return, by K, the accuracy by seed of one who knows every user's law."""
    return {
        K: pd.Series({s: _limit(ceiling, OSAFLConfig(seed=s, top_k=K, **base)) for s in seeds})
        for K in top_k
    }


def _limit(limit: Callable[[OSAFLConfig], float], config: OSAFLConfig) -> float:
    """Return a limit of a world, which needs its images, from those that are published."""
    return story.kept(limit.__name__, config_dict(config), lambda: limit(config))


def two_ceilings(
    base: Mapping[str, Any], top_k: Iterable[int], seeds: Iterable[int]
) -> dict[int, pd.DataFrame]:
    """Return, by K, a table by seed: who knows every user's law, and who sees the last file only.

    The columns are `user` and `file`, as `evidence.training.dataset2` takes them.
    """
    limits = {"user": ceiling, "file": ceiling_of_strangers}
    return {
        K: pd.DataFrame(
            {
                name: {s: _limit(limit, OSAFLConfig(seed=s, top_k=K, **base)) for s in seeds}
                for name, limit in limits.items()
            }
        )
        for K in top_k
    }


def participation(tables: pd.DataFrame, n_clients: int) -> str:
    """Say how many clients are stragglers and how many ever take part, the genie left out."""
    runs = tables[tables["arm"] != "genie"]
    share, joined = runs["stragglers"].mean() / n_clients, runs["joined"].max()
    return (
        f"In a round {share:.0%} of the clients are stragglers on average, and at most {joined} of "
        f"{n_clients} ever take part."
    )


def paper_table(runs: pd.DataFrame, arms: Sequence[str], network: str, K: int) -> pd.DataFrame:
    """Return best accuracy and the loss of that round beside the paper's, one row per arm.

    Parameters
    ----------
    runs : DataFrame
        With the columns arm, K and seed; the rows of K are taken.
    arms : sequence of str
        Out of `plans.ARMS`.
    network : {"FCN", "CNN", "SqueezeNet1", "LSTM"}
    K : int
    """
    values = paper_values("osafl").set_index(["artefact", "quantity"])["value"]
    mine, names, found = runs[runs["K"] == K], arm_labels(), {}
    for what, measure in (("accuracy", best), ("loss", best_loss)):
        ends = by_arm(mine, measure)
        rows = []
        for arm in arms:
            rule = ARMS[arm][0]
            said = "SGD" if rule == "genie" else LABELS.get(rule)
            # the paper's M-AFA-CD is the one with the printed buffer
            repaired = arm == "m_afa_cd" and "m_afa_cd_printed" in arms
            table = None if repaired else TABLES.get((network, K))
            paper = values.get((table, f"test {what} {said} {network}"))
            rows.append({"quantity": names[arm], "ours": ends[arm].to_numpy(), "paper": paper})
        found[what] = comparison(rows).set_index("quantity")
    return pd.concat(found, axis=1).rename_axis(index=f"{network}, K = {K}")


def arm_labels() -> dict[str, str]:
    """Return what the arms of `plans.ARMS` are called."""
    return RULES.labels() | {
        "m_afa_cd_printed": "M-AFA-CD, printed buffer",
        "osafl_printed": "OSAFL, printed buffer",
        "osafl_zero": "OSAFL, zeros",
    }


# --- equal steps ----------------------------------------------------------------------------------


def equal_steps(found: Dataset1, K: int, base: Mapping[str, Any]) -> pd.DataFrame:
    """Return every rule at its printed and at its tuned step, and OSAFL without scores.

    Columns: what the search chose, the `longest_step` as printed and as tuned, then best accuracies
    and means over the rounds, ± half of the 95 % interval, for the first K and the seeds of what is
    beyond the tables.

    Parameters
    ----------
    found : Dataset1
    K : int
    base : mapping
        As `printed_steps` takes it.
    """
    seeds = _few(found)
    printed = found.tables[(found.tables["K"] == K) & found.tables["seed"].isin(seeds)]
    runs = {"printed": printed, "tuned": found.tuned}
    table = {}
    for rule in SEARCHED:
        row = _searched(rule, found.chosen.get(rule), base)
        for name, frame in runs.items():
            row |= _cells(name, frame[frame["arm"] == rule] if len(frame) else frame)
        table[RULES[rule].label] = row
    without = {"the search took": "steps as long as OSAFL's, in the mean"}
    even = found.no_score
    even = even[even["seed"].isin(seeds)] if len(even) else even
    for name in runs:
        without |= _cells(name, even[even["arm"] == name] if len(even) else even)
    table["OSAFL without scores"] = without
    return pd.DataFrame(table).T.fillna("").rename_axis(f"K = {K}, {len(seeds)} seeds")


def _few(found: Dataset1) -> list[int]:
    return [] if not len(found.buffers) else list(dict.fromkeys(found.buffers["seed"]))


def _searched(rule: str, choice: tuning.Choice | None, base: Mapping[str, Any]) -> dict[str, str]:
    """Return the cells about the search: its factor, and the longest step before and after it."""
    words = {"global_rate": "server rate", "rate": "local rate"}
    config, step = OSAFLConfig(rule, **base), tuning.step_name(rule)
    row = {"the search took": "", "longest step: printed": f"{longest_step(config):g}"}
    if choice is None:
        return row | {"longest step: tuned": ""}
    said = f"{choice.factor:g} times the {words.get(step, step)}"
    if choice.refused:
        said = f"none (best of those tried: {said}, {_REFUSED[choice.refused]})"
        return row | {"the search took": said, "longest step: tuned": ""}
    tuned = f"{choice.factor * longest_step(config):.2g}"
    return row | {"the search took": said, "longest step: tuned": tuned}


def _cells(name: str, runs: pd.DataFrame) -> dict[str, str]:
    if not len(runs):
        return {f"{name}: best": "", f"{name}: mean": ""}
    return {
        f"{name}: {what}": intervals.text(by_arm(runs, measure).iloc[:, 0].dropna())
        for what, measure in (("best", best), ("mean", area))
    }


# --- the bottom line ------------------------------------------------------------------------------


def bottom_line_1(found: Dataset1, K: int, base: Mapping[str, Any], judged: bool) -> Page:
    """Say in words who leads at the printed steps, what is left at tuned ones, what scores add.

    Parameters
    ----------
    found : Dataset1
    K : int
        The first of the request model.
    base : mapping
        As `printed_steps` takes it.
    judged : bool
        Whether the network is large enough for Tables II and III to be judged, `remarks.is_full`.
    """
    printed = by_arm(found.tables[found.tables["K"] == K], best)
    rival = _strongest(printed, BASELINES)
    lead = _difference(printed["osafl"], printed[rival])
    said = [
        f"At the printed steps OSAFL's best accuracy is {_percent(printed['osafl'])}. The best "
        f"baseline, {LABELS[rival]}, reaches {_percent(printed[rival])}: OSAFL {_leads(lead)}."
    ]
    if len(found.tuned) and "osafl" in set(found.tuned["arm"]):
        said += [_step_words(found, base), *_tuned_words(by_arm(found.tuned, best), lead)]
    if len(found.no_score):
        said.append(_score_words(found))
    said.append(_PAIRED)
    if not judged:
        said.append(
            "This network is too small to judge Tables II and III by; what has been judged with "
            "the full one stands in [VERDICTS](../VERDICTS.md)."
        )
    return Page("**The bottom line of this run.** " + " ".join(said))


def _step_words(found: Dataset1, base: Mapping[str, Any]) -> str:
    """Say how far apart the steps of the rules that are compared lie, before and after tuning."""
    there = [rule for rule in SEARCHED if rule in set(found.tuned["arm"])]
    printed = [longest_step(OSAFLConfig(rule, **base)) for rule in there]
    tuned = [step * found.chosen[rule].factor for step, rule in zip(printed, there, strict=True)]
    return (
        f"The longest printed step is {max(printed) / min(printed):,.0f} times the shortest. "
        f"After tuning it is {max(tuned) / min(tuned):.2g} times the shortest."
    )


def _tuned_words(tuned: pd.DataFrame, lead: Estimate) -> list[str]:
    """Say whether a lead over the paper's baselines outlasts tuning, and if another is ahead."""
    found = [rule for rule in SEARCHED[1:] if rule in tuned]
    theirs = [rule for rule in found if rule in BASELINES]
    said = [
        "At the steps that the search chose (one factor for each rule, by a short run with one "
        f"seed) OSAFL's best accuracy is {_percent(tuned['osafl'])}."
    ]
    if theirs:
        rival = _strongest(tuned, theirs)
        left = _difference(tuned["osafl"], tuned[rival])
        said.append(
            f"The best baseline, picked after the run, is {LABELS[rival]} with "
            f"{_percent(tuned[rival])}: OSAFL {_leads(left)}."
        )
        if lead.low > 0 and left.high < 0:
            said.append("So the lead at the printed steps does not outlast tuning.")
        elif lead.low > 0 and left.low <= 0:
            said.append("So nothing shows that the lead is more than one of step length.")
        elif lead.low > 0:
            said.append("So OSAFL keeps a lead when no rule is held back by its step.")
    first = _strongest(tuned, found) if found else ""
    if first and first not in theirs:
        said.append(
            f"{RULES[first].label}, which is not in the paper, reaches {_percent(tuned[first])}: "
            f"OSAFL {_leads(_difference(tuned['osafl'], tuned[first]))}."
        )
    return said


def _score_words(found: Dataset1) -> str:
    """Compare OSAFL with OSAFL without scores, whose steps are as long in the mean."""
    scored, even = (
        [by_arm(runs[runs["seed"].isin(found.score_seeds)], measure) for measure in (best, area)]
        for runs in (found.with_score, found.no_score)
    )
    told = {}
    for name in even[0]:
        effects = [
            _changes(_difference(a[name], b[name])) for a, b in zip(scored, even, strict=True)
        ]
        told[name] = (
            "the best accuracy {} and the mean accuracy over the rounds {}".format(*effects)
            + f" at OSAFL's {name} step"
        )
    choice = found.chosen.get("osafl")
    if choice is not None and choice.factor == 1 and "tuned" in told:
        told.pop("tuned")
        told["printed"] += ", which the search kept"
    return f"When scores are added and the mean score is matched, {', and '.join(told.values())}."


def bottom_line_2(found: Dataset2, known: Mapping[int, pd.DataFrame], judged: bool) -> Page:
    """Say in words how far OSAFL leads on Dataset-2, and what the older requests are worth.

    Parameters
    ----------
    found : Dataset2
    known : mapping
        `two_ceilings`.
    judged : bool
        Whether the network is deep enough for Tables IV and V to be judged.
    """
    said = []
    for K, limits in known.items():
        ends = as_printed(by_arm(found.tables[found.tables["K"] == K], best))
        rival = _strongest(ends, BASELINES)
        lead = _difference(ends["osafl"], ends[rival])
        said.append(
            f"With K = {K} OSAFL reaches {_percent(ends['osafl'])} and the best baseline, "
            f"{LABELS[rival]}, {_percent(ends[rival])}: OSAFL {_leads(lead)}. Centralised SGD "
            f"reaches {_percent(ends['genie'])}, where one who knows every user's law is right in "
            f"{_percent(limits['user'])} and one who sees nothing but the last file in "
            f"{_percent(limits['file'])} of all requests."
        )
    said.append(_PAIRED)
    if not judged:
        said.append(
            "One LSTM layer is too shallow for Tables IV and V to be judged; what has been judged "
            "with three layers stands in [VERDICTS](../VERDICTS.md)."
        )
    return Page("**The bottom line of this run.** " + " ".join(said))


def _strongest(ends: pd.DataFrame, rules: Iterable[str]) -> str:
    return str(ends[list(rules)].mean().idxmax())


def _difference(first: pd.Series, second: pd.Series) -> Estimate:
    """Return the paired difference in points over the seeds that both have."""
    return mean_interval(100 * (first - second).dropna())


def _percent(ends: pd.Series) -> str:
    return f"{100 * np.mean(ends.dropna()):.1f} %"


def _leads(by: Estimate) -> str:
    if by.low > 0:
        return f"leads by {by.mean:.1f} points {_interval(by)}"
    if by.high < 0:
        return f"lies {-by.mean:.1f} points behind {_interval(by)}"
    return f"neither leads nor lags by more than chance allows {_interval(by)}"


def _changes(by: Estimate) -> str:
    if by.low > 0:
        return f"rises by {by.mean:.1f} points {_interval(by)}"
    if by.high < 0:
        return f"falls by {-by.mean:.1f} points {_interval(by)}"
    return f"changes by no more than chance allows {_interval(by)}"


def _interval(by: Estimate) -> str:
    """Say the interval, without signs where both ends have the same."""
    if by.n < 2:
        return f"({by.mean:+.1f} points with one seed, so without an interval)"
    low, high = by.low, by.high
    ends = f"{low:+.1f} to {high:+.1f}"
    if low > 0 or high < 0:
        ends = "{:.1f} to {:.1f}".format(*sorted((abs(low), abs(high))))
    return f"(95 % interval {ends} points over {by.n} seeds)"
