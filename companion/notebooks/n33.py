"""Notebook 33, Dataset-1: which runs, and the evidence of its claims.

Source: OSAFL, Section V-B, Tables II and III, Figs. 4, 5 and 7. The first stages of the plan hold
the readings of the tables (`table2_readings`) and the runs that judge them; a local round of 32
steps, as Section II-C counts them, is chosen by the CNN alone, after the few rounds that the text
names, and shown on what did not choose it.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from companion.claims import OSAFL
from companion.judging.claims import NotRun
from companion.notebooks.osafl_shared import (
    BASELINES,
    FCN_SETTINGS,
    LABELS,
    Evidence,
    accuracy,
    at_round,
    best,
    best_loss,
    between,
    by_arm,
    fcn_base,
    limit_of,
    loss,
    part_of,
    printed_table,
    ran,
    scaled,
)
from companion.notebooks.table2_readings import (
    CHECKPOINT_ROUND,
    Reading,
    checkpoint_value,
    config,
    configs,
    grid_table,
    star,
)
from companion.plans import Stage
from sflkit.osafl import video
from sflkit.osafl.clients import ceiling, world
from sflkit.osafl.config import OSAFLConfig
from sflkit.osafl.networks import SIZES


class Dataset1(NamedTuple):
    """What notebook 33 draws and judges; frames of runs have the columns `arm`, `K` and `seed`.

    Attributes
    ----------
    table : DataFrame
        How many of Table II's numbers each reading meets, see `grid_table`, on the seed that
        chooses.
    best : Reading
        The first of the table.
    runs : DataFrame
        The six rules under that reading on the seeds that judge.
    scored, no_score : DataFrame
        OSAFL as it is, and with all scores 1 at steps of the same mean length, first K, on the
        seeds that judge the score.
    as_printed : DataFrame
        OSAFL at that scale with the printed buffer, both K, on the seeds that judge.
    genie : DataFrame
        Centralised SGD at the scale of that reading, K = 1, by the number of steps a round,
        `genie_steps`.
    buffers : DataFrame
        OSAFL and M-AFA-CD by what stands in their buffers for clients that never joined, K = 1, at
        another scale: OSAFL with the printed buffer and with zeros on few seeds (`osafl_printed`,
        `osafl_zero`), M-AFA-CD as printed and both without these clients on all.
    scan : DataFrame
        OSAFL and M-FedAvg without the clients that never joined, by the scale `input_norm`, K = 1.
    cnn : DataFrame
        The CNN under the reading with K = 1 until the round that Section V-B names.
    steps : Steps or None
        The local round of 32 steps; None where no round of it was asked for.
    """

    table: pd.DataFrame
    best: Reading
    runs: pd.DataFrame
    scored: pd.DataFrame
    no_score: pd.DataFrame
    as_printed: pd.DataFrame
    genie: pd.DataFrame
    buffers: pd.DataFrame
    scan: pd.DataFrame
    cnn: pd.DataFrame
    steps: Steps | None


class Steps(NamedTuple):
    """What a local round of 32 steps gives; frames of runs have the columns `arm`, `K` and `seed`.

    Attributes
    ----------
    table : DataFrame, one row per cell, the nearest to print first
        norm, buffer, the accuracy of each of `CHOOSERS` at the CNN's checkpoint (0 where the run
        has diverged), and distance, the mean absolute difference from print; NaN where OSAFL's
        alone makes another cell nearer.
    best : Reading
        The first of the table.
    chose, judges : DataFrame
        The CNN until the checkpoint under it, K = 1, on the seed that chose and on those that
        judge.
    fcn : DataFrame
        The FCN under it on the seed that chose, which did not choose by the FCN.
    """

    table: pd.DataFrame
    best: Reading
    chose: pd.DataFrame
    judges: pd.DataFrame
    fcn: pd.DataFrame


# The rules whose printed accuracies at the CNN's checkpoint choose the scale of the 32 steps.
CHOOSERS = ("osafl", "m_fedavg")
# Arms of the buffers: a rule, and what stands in its buffer for a client that never joined.
_STANDS = {"exclude": "", "zero": "_zero", "literal": "_printed"}


def dataset1(**given: Any) -> Generator[Stage, pd.DataFrame, Dataset1]:
    """Yield the stages of notebook 33; see its parameters.

    Raises ValueError if a seed chooses a reading and judges it.
    """
    p = SimpleNamespace(**given)
    judges = p.step_seeds[: p.step_few]
    if p.reading_seed in (*p.reading_seeds, *p.score_seeds, *judges):
        raise ValueError(
            f"reading_seed={p.reading_seed} chooses, and must not be among the seeds that judge"
        )
    base = fcn_base(*(given[name] for name in FCN_SETTINGS))
    own = base | {"test_size": p.reading_test_size, "rounds": p.reading_rounds}
    read = yield from _readings(p, own)
    asked = [("osafl", never, s) for s in p.seeds[: p.few] for never in ("literal", "zero")]
    without = (("osafl", "exclude"), ("m_afa_cd", "literal"), ("m_afa_cd", "exclude"))
    asked += [(rule, never, s) for s in p.seeds for rule, never in without]
    filled = (scaled(OSAFLConfig(rule, never, seed=s, **base)) for rule, never, s in asked)
    buffers = yield from ran(filled, "buffers")
    buffers["arm"] += buffers["never_joined"].map(_STANDS)
    scales = [(norm, s, rule) for norm in p.norms for s in p.scan_seeds for rule in CHOOSERS[::-1]]
    scan = (OSAFLConfig(rule, seed=s, **base | {"input_norm": n}) for n, s, rule in scales)
    scan = yield from ran(map(scaled, scan), "scale")
    until = {"rounds": max(1, p.cnn_rounds), "evaluate_every": 5}
    early = configs([read[1]], _cnn(base) | until, p.cnn_seeds if p.cnn_rounds else [])
    cnn = yield from ran(early, "CNN")
    steps = (yield from _steps(p, own, judges)) if p.step_rounds else None
    return Dataset1(*read, buffers, scan, cnn, steps)


def _readings(p: SimpleNamespace, own: Mapping) -> Generator[Stage, pd.DataFrame, tuple]:
    """Yield the runs of all readings, then those of the best one, on the seeds that judge."""
    tried = star(p.reading_norms, p.reading_buffers, p.reading_fednova)
    frame = yield from ran(configs(tried, own, [p.reading_seed]), "readings")
    table = grid_table(frame, tried, own, seed=p.reading_seed)
    best = tried[tried.index(tuple(table.loc[0, list(Reading._fields)]))]
    judges = own, p.reading_seeds, p.reading_top_k
    runs = yield from ran(configs([best], *judges), "best reading")
    alone = configs([best], own, p.score_seeds, p.reading_top_k[:1], ["osafl"])
    scored = yield from ran(alone, "best reading, OSAFL")
    mean = scored.groupby("seed")["mean_score"].mean().round(4)
    even = [scaled(replace(one, chi=1e9), float(mean[one.seed])) for one in alone]
    no_score = yield from ran(even, "best reading, score")
    literal = configs([best._replace(buffer="printed")], *judges, ["osafl"])
    as_printed = yield from ran(literal, "as printed")
    central = [
        OSAFLConfig("genie", seed=s, **own | {"input_norm": best.norm, "genie_steps": n})
        for n in p.genie_curve
        for s in p.reading_seeds
    ]
    genie = yield from ran(central, "centralised steps")
    return table, best, runs, scored, no_score, as_printed, genie


def _steps(
    p: SimpleNamespace, own: Mapping, judges: Sequence[int]
) -> Generator[Stage, pd.DataFrame, Steps]:
    """Yield the local round of 32 steps: every cell on the CNN, then more at the nearest one."""
    rest = ("this round's", "minibatches")
    tried = [Reading(norm, "OSAFL without w/eta", *rest) for norm in p.step_norms]
    tried += [Reading(norm, "printed", *rest) for norm in p.step_printed]
    base, seed = _cnn(own) | {"rounds": p.step_rounds}, [p.reading_seed]
    table = yield from _nearest_first(tried, base, p.reading_seed)
    best = next(one for one in tried if one[:2] == tuple(table.loc[0, ["norm", "buffer"]]))
    more = configs([best], base, seed, rules=[*CHOOSERS, *p.step_rules])
    chose = yield from ran(more, "32 steps, CNN")
    fresh = yield from ran(configs([best], base, judges), "32 steps, CNN")
    dense = own | {"rounds": p.step_fcn_rounds}
    fcn = yield from ran(configs([best], dense, seed, rules=p.step_fcn_rules), "32 steps, FCN")
    return Steps(table, best, chose, fresh, fcn)


def _cnn(base: Mapping) -> dict:
    """Return the settings of the CNN, whose size is not the FCN's."""
    kept = {name: base[name] for name in base if name not in ("hidden", "payload_bits")}
    return kept | {"model": SIZES["CNN"].model}


def _nearest_first(
    tried: Sequence[Reading], base: Mapping, seed: int
) -> Generator[Stage, pd.DataFrame, pd.DataFrame]:
    """Yield OSAFL's run of every cell, and M-FedAvg's of those that may be the nearest to print.

    A cell's distance is at least half of OSAFL's difference, so that M-FedAvg is not asked for
    where another cell is nearer already.
    """
    print_ = {rule: checkpoint_value("CNN", rule) for rule in CHOOSERS}
    rows = pd.DataFrame([one[:2] for one in tried], columns=["norm", "buffer"])
    for rule in CHOOSERS:
        rows[rule] = np.nan
    runs = yield from ran((config(one, "osafl", base, seed=seed) for one in tried), "32 steps")
    rows["osafl"] = [accuracy(run).iloc[-1] for _, run in runs.groupby("key", sort=False)]
    rows["off"], rows["distance"] = (rows["osafl"] - print_["osafl"]).abs(), np.nan
    for i in rows.sort_values(["off", "norm"]).index:
        if rows.loc[i, "off"] / 2 > rows["distance"].min():
            break
        run = yield from ran([config(tried[i], "m_fedavg", base, seed=seed)], "32 steps")
        rows.loc[i, "m_fedavg"] = accuracy(run).iloc[-1]
        away = abs(rows.loc[i, "m_fedavg"] - print_["m_fedavg"])
        rows.loc[i, "distance"] = round((rows.loc[i, "off"] + away) / 2, 12)
    table = rows.sort_values(["distance", "off", "norm"], ignore_index=True)
    return table[["norm", "buffer", *CHOOSERS, "distance"]]


# --- one number of a run --------------------------------------------------------------------------


def area(run: pd.DataFrame) -> float:
    """Return the mean accuracy over the evaluated rounds."""
    return float(accuracy(run).mean())


def late_log_loss(run: pd.DataFrame) -> float:
    """Return the mean of the loss's logarithm over the last quarter of the rounds."""
    return float(np.log(part_of(loss(run), 0.75, 1)).mean())


def log_loss(first: float, last: float) -> Callable[[pd.DataFrame], float]:
    """Return the measure "logarithm of the mean loss over these shares of the rounds"."""
    return lambda run: float(np.log(part_of(loss(run), first, last).mean()))


def plateau(run: pd.DataFrame, share: float = 0.98, window: int = 5) -> float:
    """Return after how many rounds a run, evaluated in every round, is on its plateau.

    The middle of the first `window` rounds whose mean accuracy is at least `share` of the mean over
    the last quarter; NaN where there are none.
    """
    curve = accuracy(run)
    level = share * part_of(curve, 0.75, 1).mean()
    return _first_window(curve, window, lambda means: means >= level)


def loss_plateau(run: pd.DataFrame, share: float = 0.98, window: int = 5) -> float:
    """Return after how many rounds the loss of a run is on its plateau.

    As `plateau`, but what counts is the first `window` of whose mean loss the mean over the last
    quarter is at least `share`.
    """
    curve = loss(run)
    level = part_of(curve, 0.75, 1).mean() / share
    return _first_window(curve, window, lambda means: means <= level)


def _first_window(curve: pd.Series, window: int, good: Callable[[pd.Series], pd.Series]) -> float:
    means = curve.rolling(window).mean()
    ends = means.index[good(means).to_numpy()]
    return float(ends[0] - (window - 1) / 2) if len(ends) else float("nan")


def ceilings(base: Mapping[str, Any], seeds: Iterable[int]) -> pd.Series:
    """Return, by seed, the accuracy of one who knows every user's law, K = 1."""
    return pd.Series({s: limit_of(ceiling, OSAFLConfig(seed=s, top_k=1, **base)) for s in seeds})


def right_on_test(config: OSAFLConfig) -> float:
    """Return how often one who knows every user's law is right on the test requests themselves.

    It is `ceiling` but for chance: the test set is a sample, and all rules have the same one.
    """
    w = world(config)
    law = video.request_matrix(w.catalogue, w.users, top_k=config.top_k)
    each = config.test_size // config.n_clients
    last, label = w.test_requests[:, :each], w.test_requests[:, 1 : each + 1]
    guess = law[np.arange(len(last))[:, None], last].argmax(axis=2)
    return float((guess == label).mean())


# --- evidence -------------------------------------------------------------------------------------


# CPU minutes of a run until the checkpoint, and over all 100 rounds.
MINUTES = {"CNN": (0.7, 14), "SqueezeNet1": (7, 23)}


def evidence(found: Dataset1, known: pd.Series, possible: pd.Series) -> dict[str, Evidence]:
    """Return the evidence of notebook 33's trained claims at its published parameters.

    Parameters
    ----------
    found : Dataset1
    known : Series
        Accuracy of one who knows every user's law, K = 1, by seed of the buffers.
    possible : Series
        The same by seed of the runs that judge the tables.
    """
    ends, areas, late = (by_arm(found.runs, measure) for measure in (best, area, late_log_loss))
    literal = found.as_printed
    tables = {}
    for K, artefact in ((1, "osafl-tab2"), (2, "osafl-tab3")):
        own = ends.loc[K]
        shares = own["osafl"] if K == 2 else possible.loc[own.index]  # of OSAFL's, or of the best
        rules = [rule for rule in LABELS if rule != "m_afa_cd" and (K, rule) != (2, "osafl")]
        tables[artefact] = {f"best_{rule}": (own["osafl"], own[rule]) for rule in BASELINES}
        tables[artefact] |= {f"level_{rule}": (own[rule], shares) for rule in rules}
        tables[artefact]["fails"] = own["osafl"] / 2, own["m_afa_cd"]
        tables[artefact]["printed"] = by_arm(literal, best)["osafl"][K], own["m_fedavg"]
    pairs = [(K, rule) for K in (1, 2) for rule in BASELINES]
    return tables | {
        "osafl-superior": _superior(),
        "osafl-fig4": {f"K{K}_{r}": (areas["osafl"][K], areas[r][K]) for K, r in pairs}
        | {"printed": (by_arm(literal, area)["osafl"][1], areas["m_fedavg"][1])},
        "osafl-score": {
            "printed": tuple(by_arm(one, area)["osafl"] for one in (found.scored, found.no_score))
        },
        "osafl-fig5": {f"K{K}_{r}": (late[r][K], late["osafl"][K]) for K, r in pairs},
        "osafl-saturation": _saturation(found.runs),
        "osafl-genie": _genie(found.genie, areas.loc[1]),
        **_buffers(found.buffers, known),
        **{f"osafl-{network.lower()}": _network(network, found) for network in MINUTES},
    }


def _superior() -> Evidence:
    """Whether OSAFL is the best federated rule of each column of the printed Tables II to V."""
    found: Evidence = {"accuracy": {}, "loss": {}}
    for network in ("FCN", *MINUTES, "LSTM"):
        table = printed_table(network)
        for what, K in itertools.product(found, (1, 2)):
            said = {rule: table[name][f"{what}, K = {K}"][0] for rule, name in LABELS.items()}
            sign = 1 if what == "accuracy" else -1
            ahead = [sign * (said["osafl"] - said[rule]) >= 0 for rule in BASELINES]
            found[what][f"{network}, K = {K}"] = all(ahead)
    return found


def _saturation(runs: pd.DataFrame) -> Evidence:
    reached, losses = by_arm(runs, plateau), by_arm(runs, loss_plateau)
    late, early = by_arm(runs, between(0.75, 1)), by_arm(runs, between(0.04, 0.25))
    accuracies = [by_arm(runs, between(*span)) for span in ((0.75, 0.875), (0.875, 1))]
    log_losses = [by_arm(runs, log_loss(*span)) for span in ((0.75, 0.875), (0.875, 1))]
    found: Evidence = {"afa_flat": (late["m_afa_cd"][1], early["m_afa_cd"][1])}
    for K in (1, 2):
        found[f"osafl_K{K}"], found[f"loss_K{K}"] = reached["osafl"][K], losses["osafl"][K]
        found[f"fednova_plateau_K{K}"] = reached["m_fednova"][K]
        found[f"fednova_K{K}"] = by_arm(runs, best)["m_fednova"][K], late["osafl"][K]
        for rule in ("m_fedavg", "m_fedprox", "m_feddisco", "m_fednova"):
            found[f"falling_{rule}_K{K}"] = tuple(one[rule][K] for one in log_losses)
            if rule != "m_fednova":
                found[f"rising_{rule}_K{K}"] = tuple(one[rule][K] for one in accuracies[::-1])
    return found


def _genie(genie: pd.DataFrame, ours: pd.DataFrame) -> Evidence:
    """The race with centralised SGD at every number of steps a round, which decides it."""
    alone = NotRun("centralised SGD was not run with K = 2 under the reading judged (1 CPU hour)")
    steps = by_arm(genie.assign(arm=genie["genie_steps"]), area).loc[1]
    strongest = ours[list(BASELINES)].mean().idxmax()
    return {"K2_osafl": alone, "K2_baseline": alone} | {
        f"K1_{key}": {f"{n} steps": (steps[n], ours[rule]) for n in steps}
        for key, rule in (("osafl", "osafl"), ("baseline", strongest))
    }


def _buffers(runs: pd.DataFrame, known: pd.Series) -> dict[str, Evidence]:
    """The evidence on Algorithms 2 and 9: what stands for clients that never joined."""
    ends, losses = by_arm(runs, best).loc[1], by_arm(runs, best_loss).loc[1]
    joined, fails, zero = ends["osafl"], ends["m_afa_cd_printed"], ends["osafl_zero"].dropna()
    return {
        "osafl-alg2": {
            "without": (zero, known.loc[zero.index] / 2),
            "printed_buffer": (ends["osafl_printed"].dropna(), zero),
        },
        "osafl-alg9": {
            "fails": (joined / 2, fails),
            "loss": losses["m_afa_cd_printed"],
            "accuracy": fails,
            "repaired": (ends["m_afa_cd"], joined / 2),
        },
    }


def _network(network: str, found: Dataset1) -> Evidence:
    """The CNN at the round that Section V-B names, under both readings; all else is not run."""
    at, evidence = CHECKPOINT_ROUND[network], {}

    def price(rounds: int, K: str) -> NotRun:
        minutes = 18 * MINUTES[network][rounds == 100]  # six rules on three seeds
        costs = f"{minutes / 60:.1f} CPU hours" if minutes > 90 else f"{minutes:.0f} CPU minutes"
        said = f"{network} was not trained for {rounds} rounds{K} under the reading judged"
        return NotRun(f"{said} ({costs})")

    for key in (part.key for part in OSAFL[f"osafl-{network.lower()}"].parts):
        if key.startswith(("ahead_", "value")):
            evidence[key] = price(at, "")
        elif key.startswith("K2_"):
            evidence[key] = price(at if "ahead" in key else 100, " with K = 2")
        else:
            evidence[key] = price(100, " with K = 1")
    if network == "CNN":
        readings = {"the FCN's": found.cnn, "32 steps": found.steps.judges}
        there = {name: by_arm(runs, at_round(at)) for name, runs in readings.items()}
        evidence["value"] = {name: one["osafl"] for name, one in there.items()}
        for rule in BASELINES:
            pairs = {name: (one["osafl"], one[rule]) for name, one in there.items()}
            evidence[f"ahead_{rule}"] = pairs
    return evidence
