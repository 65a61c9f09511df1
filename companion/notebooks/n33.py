"""Notebook 33, Dataset-1: runs, evidence, settings and remarks, pictures.

Source: OSAFL, Section V-B, Tables II and III, Figs. 4, 5 and 7. The first stages of the plan hold
the readings of the tables (`table2_readings`) and the runs that judge them, and the next ones what
else the paper claims. Other networks, the dearest, come last.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd

from companion import figures, sheets
from companion.claims import OSAFL
from companion.judging.claims import NotRun, Setting
from companion.notebooks import osafl_shared, table2_readings
from companion.notebooks.osafl_shared import (
    ARMS,
    BASELINES,
    CASE,
    FCN_SETTINGS,
    LABELS,
    Evidence,
    Runs,
    accuracy,
    at_k,
    at_round,
    best,
    best_in_words,
    best_loss,
    between,
    by_arm,
    cases_of_arms,
    collected,
    colors,
    fcn_base,
    limit_of,
    log_loss,
    loss,
    missing,
    part_of,
    printed_marks,
)
from companion.notebooks.table2_readings import (
    CHECKPOINT_ROUND,
    Read,
    Steps,
    met,
    name_of,
)
from companion.plans import Stage, data_remarks
from sflkit.intervals import mean_interval
from sflkit.osafl import video
from sflkit.osafl.clients import ceiling, world
from sflkit.osafl.config import OSAFLConfig
from sflkit.osafl.networks import SIZES
from sflkit.osafl.rules import RULES

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class Dataset1(NamedTuple):
    """What notebook 33 draws and judges; frames of runs have the columns `arm`, `K` and `seed`.

    Attributes
    ----------
    read : Read
        The grid of readings, and the rules of Table II under the one that meets most of its
        numbers.
    as_printed : DataFrame
        OSAFL at that scale with the printed buffer, both K, on the seeds that judge.
    genie : DataFrame
        Centralised SGD at the scale of that reading, K = 1, by the number of steps a round, the
        column `steps`.
    buffers : DataFrame
        OSAFL and M-AFA-CD by what stands in their buffers for clients that never joined, K = 1, at
        another scale: OSAFL with the printed buffer and with zeros on few seeds, M-AFA-CD as
        printed and both without these clients on all.
    scan : DataFrame
        OSAFL and M-FedAvg without the clients that never joined, by the scale `norm`, K = 1.
    checkpoints : dict
        "CNN" and "SqueezeNet1" -> their runs under the reading with K = 1 until the round that
        Section V-B names, empty where they were not asked for.
    columns : dict
        The same over all rounds with both K, which are columns of Tables II and III.
    steps : Steps or None
        The local round of 32 steps; None where no scale was asked for.
    """

    read: Read
    as_printed: pd.DataFrame
    genie: pd.DataFrame
    buffers: pd.DataFrame
    scan: pd.DataFrame
    checkpoints: dict[str, pd.DataFrame]
    columns: dict[str, pd.DataFrame]
    steps: Steps | None


def dataset1(**given: Any) -> Generator[Stage, pd.DataFrame, Dataset1]:
    """Yield the stages of notebook 33; see its parameters."""
    p = SimpleNamespace(**given)
    base = fcn_base(*(given[name] for name in FCN_SETTINGS))
    own = base | {"test_size": p.reading_test_size, "rounds": p.reading_rounds}
    tried = table2_readings.star(p.reading_norms, p.reading_buffers, p.reading_fednova)
    read = yield from table2_readings.grid(
        own, tried, p.reading_seed, p.reading_seeds, p.reading_top_k, p.score_seeds
    )
    literal = read.best._replace(buffer="printed")
    as_printed = table2_readings.cases(literal, own, p.reading_seeds, p.reading_top_k, ("osafl",))
    diverging = yield from collected(as_printed, CASE, "as printed")
    genie = yield from _genies(own, read, p.genie_curve, p.reading_seeds)
    buffer = yield from cases_of_arms(
        base, ("osafl_printed", "osafl_zero"), [1], p.seeds[: p.few], "buffer"
    )
    without = ("osafl", "m_afa_cd_printed", "m_afa_cd")
    others = yield from cases_of_arms(base, without, [1], p.seeds, "buffers")
    buffers = pd.concat([buffer, others], ignore_index=True)
    buffers.attrs["keys"] = [*buffer.attrs["keys"], *others.attrs["keys"]]
    scan = yield from _scan(base, p.norms, p.scan_seeds)
    checkpoints, columns = {}, {}
    asked = {
        "CNN": (p.cnn_rounds, p.cnn_seeds),
        "SqueezeNet1": (p.squeezenet1_rounds, p.squeezenet1_seeds),
    }
    for network, (until, early_seeds) in asked.items():
        early = column_base(base, network, until) | {"evaluate_every": 5}
        whole = column_base(base, network, p.rounds)  # plateaus need every round
        gpu = network == "SqueezeNet1"
        some_seeds = early_seeds if until else ()
        cases = table2_readings.cases(read.best, early, some_seeds, [1])
        checkpoints[network] = yield from collected(cases, CASE, network, gpu)
        some_seeds = p.column_seeds if network in p.networks else ()
        cases = table2_readings.cases(read.best, whole, some_seeds, p.reading_top_k)
        columns[network] = yield from collected(cases, CASE, f"{network}, tables", gpu)
    steps = None
    if p.step_rounds:
        cnn = column_base(own, "CNN", p.step_rounds)
        dense = own | {"rounds": p.step_fcn_rounds}
        judges = p.step_seeds[: p.step_few]
        scales = (p.step_norms, p.step_printed)
        others = (p.step_rules, judges, p.step_fcn_rules)
        steps = yield from table2_readings.steps_grid(cnn, dense, *scales, p.reading_seed, *others)
    return Dataset1(read, diverging, genie, buffers, scan, checkpoints, columns, steps)


def column_base(base: Mapping, network: str, rounds: int) -> dict:
    """Return the settings of another column of Tables II and III."""
    kept = {name: base[name] for name in base if name not in ("hidden", "payload_bits")}
    return kept | {"model": SIZES[network].model, "rounds": max(1, rounds)}


def _genies(base: Mapping, read: Read, steps: Sequence[int], seeds: Sequence[int]) -> Runs:
    """Yield centralised SGD with so many steps a round, at the scale of the best reading."""
    own = {**base, "input_norm": read.best.norm}
    cases = {
        (n, 1, seed): OSAFLConfig("genie", seed=seed, **own | {"genie_steps": n})
        for n in steps
        for seed in seeds
    }
    return (yield from collected(cases, ("steps", "K", "seed"), "centralised steps"))


def _scan(base: Mapping, norms: Sequence[float], seeds: Sequence[int]) -> Runs:
    """Yield OSAFL and M-FedAvg at every scale of the inputs, all rounds."""
    cases = {
        (arm, norm, 1, seed): osafl_shared.scaled(
            OSAFLConfig(*ARMS[arm], seed=seed, top_k=1, **{**base, "input_norm": norm})
        )
        for norm in norms
        for seed in seeds
        for arm in ("m_fedavg", "osafl")
    }
    return (yield from collected(cases, ("arm", "norm", "K", "seed"), "scale"))


def scan_table(scan: pd.DataFrame) -> pd.DataFrame:
    """Return the mean best accuracies of a scan, one row per scale and one column per arm.

    `scan` has the columns `arm`, `norm` and `seed`; without rows there is nothing in the table.
    """
    if not len(scan):
        return pd.DataFrame(index=pd.Index([], name="norm"))
    best = scan.groupby(["norm", "arm", "seed"])["best_accuracy"].last().fillna(0)
    return best.groupby(["norm", "arm"]).mean().unstack("arm")


def area(run: pd.DataFrame) -> float:
    """Return the mean accuracy over the evaluated rounds."""
    return float(accuracy(run).mean())


def late_log_loss(run: pd.DataFrame) -> float:
    """Return the mean of the loss's logarithm over the last quarter of the rounds."""
    return float(np.log(part_of(loss(run), 0.75, 1)).mean())


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


PAPER_ROUNDS = 100  # the claims about plateaus and whole tables are about so many
# CPU minutes of a run until the checkpoint, and over all rounds.
MINUTES = {"CNN": (0.7, 14), "SqueezeNet1": (7, 23)}


def evidence(found: Dataset1, known: pd.Series, possible: pd.Series) -> dict[str, Evidence]:
    """Return the evidence of notebook 33's trained claims.

    Parameters
    ----------
    found : Dataset1
    known : Series
        Accuracy of one who knows every user's law, K = 1, by seed of the buffers.
    possible : Series
        The same by seed of the runs that judge the tables.
    """
    read = {K: at_k(found.read.runs, K) for K in (1, 2)}
    evidence: dict[str, Evidence] = {
        "osafl-tab2": _table(read[1], 1, possible) | _as_printed(found, 1, best),
        "osafl-tab3": _table(read[2], 2) | _as_printed(found, 2, best),
        "osafl-superior": _superior(),
        "osafl-fig4": _curves(read, area) | _as_printed(found, 1, area),
        "osafl-score": {
            "printed": (
                by_arm(found.read.scored, area)["osafl"],
                by_arm(found.read.no_score, area)["printed"],
            )
            if len(found.read.scored)
            else NotRun(missing(1, found.read.scored))
        },
        "osafl-fig5": _curves(read, late_log_loss, falls=True),
        "osafl-saturation": _saturation(read),
        "osafl-genie": _genie(found),
        **_buffers(found.buffers, known),
    }
    for network, runs in found.checkpoints.items():
        steps = found.steps if network == "CNN" else None
        evidence[f"osafl-{network.lower()}"] = _checkpoint(network, runs, steps) | _column(
            network, found.columns[network]
        )
    return evidence


# --- Dataset-1 ------------------------------------------------------------------------------------


def _table(runs: pd.DataFrame, K: int, possible: pd.Series | None = None) -> Evidence:
    """The orders of a table, and its levels: shares of what is possible, or of OSAFL's own."""
    rules = [rule for rule in LABELS if rule != "m_afa_cd"]  # which is to fail
    rules = rules if possible is not None else rules[1:]
    keys = [*(f"best_{rule}" for rule in BASELINES), "fails"]
    if why := missing(K, runs):
        return dict.fromkeys([*keys, *(f"level_{rule}" for rule in rules)], NotRun(why))
    found = by_arm(runs, best)
    pairs = [(found["osafl"], found[rule]) for rule in BASELINES]
    of_best = found["osafl"] if possible is None else possible.loc[found.index]
    levels = {f"level_{rule}": (found[rule], of_best) for rule in rules}
    return levels | dict(zip(keys, [*pairs, (found["osafl"] / 2, found["m_afa_cd"])], strict=True))


def _superior() -> Evidence:
    """Whether OSAFL is the best federated rule of each column of the printed Tables II to V."""
    columns = [(f"osafl-tab{K + 1}", name, K) for K in (1, 2) for name in ("FCN", *MINUTES)]
    columns += [(f"osafl-tab{K + 3}", "LSTM", K) for K in (1, 2)]
    found: Evidence = {"accuracy": {}, "loss": {}}
    for artefact, network, K in columns:
        for what, sign in (("accuracy", 1), ("loss", -1)):
            said = printed_marks(artefact, what, network)
            ahead = [sign * (said["osafl"] - said[rule]) >= 0 for rule in BASELINES]
            found[what][f"{network}, K = {K}"] = all(ahead)
    return found


def _as_printed(found: Dataset1, K: int, measure: Callable) -> Evidence:
    """What OSAFL with the printed buffer reaches beside M-FedAvg, whose printed buffer is kept."""
    runs, printed = at_k(found.read.runs, K), at_k(found.as_printed, K)
    if why := missing(K, runs) or missing(K, printed):
        return {"printed": NotRun(why)}
    return {"printed": (by_arm(printed, measure)["osafl"], by_arm(runs, measure)["m_fedavg"])}


def _curves(tables: Mapping[int, pd.DataFrame], measure: Callable, falls: bool = False) -> Evidence:
    evidence: Evidence = {}
    for K, runs in tables.items():
        why = missing(K, runs)
        ends = None if why else by_arm(runs, measure)
        for rule in BASELINES:
            pair = NotRun(why) if why else (ends["osafl"], ends[rule])
            evidence[f"K{K}_{rule}"] = pair[::-1] if falls and not why else pair
    return evidence


def _saturation(tables: Mapping[int, pd.DataFrame]) -> Evidence:
    evidence: Evidence = {}
    rising = ("m_fedavg", "m_fedprox", "m_feddisco")
    falling = (*rising, "m_fednova")
    for K, runs in tables.items():
        keys = [f"{what}_K{K}" for what in ("osafl", "loss", "fednova_plateau", "fednova")]
        keys += [f"rising_{rule}_K{K}" for rule in rising]
        keys += [f"falling_{rule}_K{K}" for rule in falling]
        if K == 1:
            keys.append("afa_flat")
        rounds = int(runs["round"].max()) if len(runs) else 0
        why = missing(K, runs)
        if not why and rounds < PAPER_ROUNDS:
            why = f"{rounds} rounds are fewer than {PAPER_ROUNDS}"
        if why:
            evidence |= dict.fromkeys(keys, NotRun(why))
            continue
        reached, late = by_arm(runs, plateau), by_arm(runs, between(0.75, 1))
        loss = by_arm(runs, loss_plateau)["osafl"]
        found = [reached["osafl"], loss, reached["m_fednova"]]
        found.append((by_arm(runs, best)["m_fednova"], late["osafl"]))
        before, after = by_arm(runs, between(0.75, 0.875)), by_arm(runs, between(0.875, 1))
        found += [(after[rule], before[rule]) for rule in rising]
        before, after = by_arm(runs, log_loss(0.75, 0.875)), by_arm(runs, log_loss(0.875, 1))
        found += [(before[rule], after[rule]) for rule in falling]
        if K == 1:
            early = by_arm(runs, between(0.04, 0.25))
            found.append((late["m_afa_cd"], early["m_afa_cd"]))
        evidence |= dict(zip(keys, found, strict=True))
    return evidence


def _genie(found: Dataset1) -> Evidence:
    """The race with centralised SGD at every number of steps a round, which decides it."""
    evidence: Evidence = {}
    for K in (1, 2):
        runs, genie = at_k(found.read.runs, K), at_k(found.genie, K)
        keys = (f"K{K}_osafl", f"K{K}_baseline")
        alone = f"centralised SGD was not run with K = {K} under the reading judged (1 CPU hour)"
        if why := missing(K, runs) or (not len(genie) and alone):
            evidence |= dict.fromkeys(keys, NotRun(why))
            continue
        steps = by_arm(genie.assign(arm=genie["steps"]), area)
        ours = by_arm(runs, area)
        strongest = ours[list(BASELINES)].mean().idxmax()
        for key, rule in zip(keys, ("osafl", strongest), strict=True):
            evidence[key] = {f"{n} steps": (steps[n], ours[rule]) for n in steps}
    return evidence


def _buffers(runs: pd.DataFrame, known: pd.Series) -> dict[str, Evidence]:
    """The evidence on Algorithms 2 and 9: what stands for clients that never joined."""
    ends = by_arm(runs, best)
    joined, fails = ends["osafl"], ends["m_afa_cd_printed"]
    without = printed = NotRun("few = 0 leaves out the printed buffer and the one without w/eta")
    if "osafl_printed" in ends:
        zero = ends["osafl_zero"].dropna()
        without = (zero, known.loc[zero.index] / 2)
        printed = (ends["osafl_printed"].dropna(), zero)
    return {
        "osafl-alg2": {"without": without, "printed_buffer": printed},
        "osafl-alg9": {
            "fails": (joined / 2, fails),
            "loss": by_arm(runs, best_loss)["m_afa_cd_printed"],
            "accuracy": fails,
            "repaired": (ends["m_afa_cd"], joined / 2),
        },
    }


def _checkpoint(network: str, runs: pd.DataFrame, steps: Steps | None) -> Evidence:
    """The evidence of the round that Section V-B names, under the FCN's reading and 32 steps."""
    at = CHECKPOINT_ROUND[network]
    late = [f"K2_ahead_{rule}" for rule in BASELINES]
    why = _price(network, at, " with K = 2", 18 * MINUTES[network][0])
    evidence: Evidence = dict.fromkeys(late, NotRun(why))
    readings = {"the FCN's": runs}
    if steps is not None and len(fresh := judging(steps)):
        readings["32 steps"] = fresh
    found = {
        name: by_arm(one, at_round(at))
        for name, one in readings.items()
        if len(one) and one["round"].max() >= at
    }
    keys = [*(f"ahead_{rule}" for rule in BASELINES), "value"]
    if not found:
        return evidence | dict.fromkeys(
            keys, NotRun(_price(network, at, "", 18 * MINUTES[network][0]))
        )
    for rule in BASELINES:
        evidence[f"ahead_{rule}"] = {name: (one["osafl"], one[rule]) for name, one in found.items()}
    return evidence | {"value": {name: one["osafl"] for name, one in found.items()}}


def judging(steps: Steps) -> pd.DataFrame:
    """Return the CNN's runs of 32 steps on the seeds that did not choose the scale."""
    chose = steps.curves["seed"].iloc[0]
    return steps.curves[steps.curves["seed"] != chose]


def _column(network: str, runs: pd.DataFrame) -> Evidence:
    """The evidence of a network's column of the tables, under the reading."""
    parts = OSAFL[f"osafl-{network.lower()}"].parts
    level = [part.key for part in parts if part.key.startswith("level_")]
    evidence: Evidence = {}
    for K in (1, 2):
        keys = [f"K{K}_{rule}" for rule in BASELINES]
        keys += ["plateau", "fednova_plateau", *level] if K == 1 else []
        part = at_k(runs, K)
        if not len(part) or part["round"].max() < PAPER_ROUNDS:
            why = _price(network, PAPER_ROUNDS, f" with K = {K}", 18 * MINUTES[network][1])
            evidence |= dict.fromkeys(keys, NotRun(why))
            continue
        found = by_arm(part, best)
        pairs = [(found["osafl"], found[rule]) for rule in BASELINES]
        if K == 1:
            reached = by_arm(part, plateau)
            end = by_arm(part, between(0.75, 1))["osafl"]
            pairs += [reached["osafl"], reached["m_fednova"]]
            pairs += [(found[key.removeprefix("level_")], end) for key in level]
        evidence |= dict(zip(keys, pairs, strict=True))
    return evidence


# --- helpers --------------------------------------------------------------------------------------


def _price(network: str, rounds: int, how: str, minutes: float) -> str:
    """Say that a network was not trained, and what six rules on three seeds cost."""
    costs = f"{minutes / 60:.1f} CPU hours" if minutes > 90 else f"{minutes:.0f} CPU minutes"
    return f"{network} was not trained for {rounds} rounds{how} under the reading judged ({costs})"


_GENIE = (
    "Who is ahead depends on how many steps a round centralised SGD takes, which the paper does "
    "not say."
)
# Judged under the reading that meets most of Table II's numbers.
_READ = tuple(
    f"osafl-{name}" for name in ("tab2", "tab3", "fig4", "fig5", "saturation", "score", "genie")
)
BY_HAND = Setting("full", "three clients and two parameters, by hand")


# --- settings -------------------------------------------------------------------------------------


def settings_1(
    evidence: Iterable[str], hidden: Sequence[int], base: Mapping[str, Any], found: Dataset1
) -> dict[str, Setting]:
    """Return the setting of every artefact of notebook 33.

    Parameters
    ----------
    evidence : iterable of str
        The artefacts.
    hidden : sequence of int
        Widths of the FCN.
    base : mapping
        As `printed_steps` takes it.
    found : Dataset1
        The runs.
    """
    ours = f"FCN of {'-'.join(map(str, hidden))} units"
    remark = data_remarks(found.read.runs).partition(";")[0]  # such as a subset
    images = f", the files' images from CIFAR-100 ({remark})" if remark else ""
    ours += images
    scale = f"inputs at the scale {base['input_norm']:g}, which the paper does not state"
    by_hand = (*(f"osafl-alg{number}" for number in (6, 7, 8, 10)), "osafl-private")
    special = dict.fromkeys(by_hand, BY_HAND)
    special["osafl-fig7"] = Setting("stand-in", "the sizes are ours")
    special["osafl-superior"] = Setting("full", "the numbers that the paper prints")
    said = (
        f"of {len(found.read.table)} readings of what the paper leaves open the one that came "
        f"nearest to Table II on another seed ({name_of(found.read.best)})"
    )
    special |= dict.fromkeys(_READ, Setting("full", f"{ours}; {said}"))
    panels = f"{ours}; CNN and SqueezeNet1 not run to the end; {said}"
    special |= dict.fromkeys(("osafl-fig4", "osafl-fig5"), Setting("full", panels))
    for network in found.checkpoints:
        level = "full" if len(found.columns[network]) else "reduced"
        words = f"{network} {_how_far(found, network)}{images}; {said}, by the FCN"
        if network == "CNN" and found.steps is not None:
            words += f"; the other: {_steps_in_words(found.steps)}"
        special[f"osafl-{network.lower()}"] = Setting(level, words)
    return {
        artefact: special.get(artefact, Setting("full", f"{ours}, {scale}"))
        for artefact in evidence
    }


def _steps_in_words(steps: Steps) -> str:
    """Say which scale the local round of 32 steps has, and who chose it."""
    fresh = judging(steps)["seed"].nunique()
    judged = f"judged on {fresh} other seeds" if fresh else "no other seed was run"
    return (
        f"32 steps a local round at the scale {steps.best.norm:g}, the nearest of "
        f"{len(steps.table)} cells to OSAFL's and M-FedAvg's printed round 5 on one seed; {judged}"
    )


def _how_far(found: Dataset1, network: str) -> str:
    """Say until which round a network was trained, on how many seeds."""
    said = []
    for runs, until in (
        (found.checkpoints[network], "until the checkpoint in the text"),
        (found.columns[network], "over all rounds"),
    ):
        if len(runs):
            said.append(f"{until} on {runs['seed'].nunique()} seeds")
    return " and ".join(said) or "not trained"


# --- remarks --------------------------------------------------------------------------------------


def notes_1(found: Dataset1) -> dict[str, str]:
    """Return the remarks on notebook 33's verdicts, by artefact."""
    notes = {"osafl-alg9": f"ERRATA 38. {_both_ways(found.buffers)}", "osafl-genie": _GENIE}
    first = found.read.table.iloc[0]
    said = (
        f"The reading: {name_of(found.read.best)}. It meets {first['met']} of the twelve numbers, "
        f"the most of {len(found.read.table)} readings tried, on a seed that judges nothing."
    )
    for K, artefact in ((1, "osafl-tab2"), (2, "osafl-tab3")):
        runs = at_k(found.read.runs, K)
        if len(runs):
            there = f"On the seeds that judge it meets {met(runs, K)} of this table's twelve."
            notes[artefact] = f"{best_in_words(runs)} {said} {there}"
    return notes | {"osafl-fig4": said, "osafl-fig5": said, "osafl-score": said}


def _both_ways(buffers: pd.DataFrame) -> str:
    """Say what the printed buffer does to M-AFA-CD and to OSAFL."""
    ends = by_arm(buffers, best)
    means = ends.mean()
    words = (
        "The printed buffer harms OSAFL too (ERRATA 37). Without the clients that never joined "
        f"OSAFL reaches {means['osafl']:.3f} and M-AFA-CD {means['m_afa_cd']:.3f}"
    )
    if "osafl_printed" not in ends:
        return f"{words}."
    printed = ends["osafl_printed"].dropna()
    what = f"reaches {printed.mean():.3f}" if printed.any() else "diverges"
    return (
        f"{words}; with the buffer as printed OSAFL {what} ({len(printed)} runs) and "
        f"M-AFA-CD reaches {means['m_afa_cd_printed']:.3f}. What the paper reports is OSAFL of the "
        "first pair beside M-AFA-CD of the second."
    )


# What stands for a client that never joined, in the arms of Algorithm 2's figure. A rule keeps its
# colour in every figure; the line says what its buffer holds.
NEVER_JOINED = {
    "osafl_zero": "OSAFL, nothing in their place",
    "osafl": "OSAFL, mean over who joined",
    "osafl_printed": "OSAFL, as printed: w/η",
    "m_afa_cd": "M-AFA-CD, mean over who joined",
    "m_afa_cd_printed": "M-AFA-CD, as printed: w/η",
}
_BUFFER_LINES = {"osafl_zero": "--", "osafl_printed": ":", "m_afa_cd_printed": ":"}


def leads(axes: Sequence[Axes], runs: pd.DataFrame) -> pd.DataFrame:
    """Draw how far OSAFL's best accuracy lies above each baseline's, ours and the paper's.

    M-AFA-CD, which lies far outside, is left out.

    Parameters
    ----------
    axes : two Axes
        For K = 1 and 2.
    runs : DataFrame
        The six rules under the reading.

    Returns
    -------
    DataFrame
        K, rule, ours, low, high (95 % interval over seeds) and paper, in points.
    """
    rules = [rule for rule in BASELINES if rule != "m_afa_cd"]
    rows = []
    for ax, K in zip(axes, dict.fromkeys(runs["K"]), strict=False):
        ends, printed = (
            by_arm(at_k(runs, K), best),
            printed_marks(f"osafl-tab{K + 1}", "accuracy", "FCN"),
        )
        for y, rule in enumerate(rules):
            own = 100 * (ends["osafl"] - ends[rule])
            at = mean_interval(own)
            look = {"color": colors()[rule], "markersize": 7, "capsize": 4}
            ax.errorbar(at.mean, y, xerr=[[at.mean - at.low], [at.high - at.mean]], fmt="o", **look)
            ax.plot(own, [y + 0.2] * len(own), "|", color=colors()[rule], markersize=7)
            paper = 100 * (printed["osafl"] - printed[rule])
            sheets.printed_marks(ax, paper, {rule: y - 0.25}, colors())
            rows.append((K, LABELS[rule], at.mean, at.low, at.high, paper))
        ax.axvline(0, color="0.4", linewidth=1)
        ax.set(xlabel="OSAFL minus the rule, points", title=f"Table {'I' * (K + 1)}, FCN, K = {K}")
        ax.set_yticks(range(len(rules)), [LABELS[rule] for rule in rules])
        ax.invert_yaxis()
    sheets.explain_marks(axes[1], marks=True, loc="upper left", bbox_to_anchor=(1, 1))
    return pd.DataFrame(rows, columns=["K", "rule", "ours", "low", "high", "paper"])


def never_joined(axes: Sequence[Axes], found: Dataset1) -> dict[str, pd.DataFrame]:
    """Draw what stands for clients that never joined (left), and the scale of the inputs (right).

    Left every seed has a line; a run that has diverged has no accuracy from there on, and a cross
    marks its last one. Right one seed each, by what counts for such clients.
    """
    for arm, name in NEVER_JOINED.items():
        runs = found.buffers[found.buffers["arm"] == arm]
        if len(runs) and not runs["accuracy"].notna().any():
            name += " (diverges at once)"
        for i, (_, run) in enumerate(runs.groupby("seed")):
            rule = "osafl" if arm.startswith("osafl") else "m_afa_cd"
            look = {"color": RULES[rule].look.color, "linestyle": _BUFFER_LINES.get(arm, "-")}
            look |= {"linewidth": 1.2, "marker": "x" if run["accuracy"].count() == 1 else "None"}
            axes[0].plot(run["round"], run["accuracy"], **look, label=name if i == 0 else None)
    axes[0].set(
        xlabel="round",
        ylabel="test accuracy",
        ylim=(0, 1.05),
        title="what stands for clients that never joined; scale 10",
    )
    axes[0].legend(fontsize=9, loc="upper left")
    scale = scan_table(found.scan)
    tried = found.read.table
    tried = (
        tried[tried["buffer"] == "OSAFL without w/eta"].drop_duplicates("norm").sort_values("norm")
    )
    for rule in scale:
        look = figures.series_style(rule, rules=RULES) | {"linestyle": "-"}
        axes[1].plot(
            scale.index, scale[rule], **look, label=f"{LABELS[rule]}, mean over who joined"
        )
        look |= {"linestyle": "--", "markersize": 9}
        name = f"{LABELS[rule]}, nothing in their place"
        axes[1].plot(tried["norm"], tried[f"{rule} accuracy"], **look, label=name)
        sheets.printed_marks(
            axes[1], 46, {rule: printed_marks("osafl-tab2", "accuracy", "FCN")[rule]}, colors()
        )
    axes[1].set(xlabel="scale of the inputs", ylabel="best accuracy", xscale="log", ylim=(0, 1.05))
    axes[1].set_xticks(scale.index, [f"{norm:g}" for norm in scale.index])
    axes[1].set_title("the same over the scale; dashed: another seed")
    axes[1].minorticks_off()
    sheets.explain_marks(axes[1], marks=True, fontsize=9, loc="upper left")
    runs = found.buffers[["arm", "seed", "round", "accuracy", "loss"]]
    return {
        "runs": runs,
        "scan": scale.reset_index(),
        "tried": tried[["norm", *(f"{r} accuracy" for r in scale)]],
    }
