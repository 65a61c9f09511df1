"""Which runs notebooks 33 and 34 need, in the order in which they are worth most.

Source: OSAFL, Section V-B, Tables II to V, Figs. 4 to 6. A plan is a generator of stages
(`companion.plans`); its arguments are the notebook's parameters. The first stage holds the
printed arms of the tables, and the next ones what else the paper claims. What is beyond the paper
(tuned rates) comes later and takes the first few seeds. Other networks, the dearest, come last.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping, Sequence
from typing import NamedTuple

import pandas as pd

from companion import story
from companion.osafl import measures, tuning
from companion.osafl.plans import readings
from companion.osafl.plans.readings import Read
from companion.osafl.tuning import Choice
from companion.plans import Stage, no_runs
from sflkit.osafl import training
from sflkit.osafl.clients import constant_guess
from sflkit.osafl.config import OSAFLConfig
from sflkit.osafl.networks import SIZES
from sflkit.results.store import config_dict

# An arm is a rule and what stands in its buffer for a client that never joined. The tables run the
# baselines without such clients, and M-AFA-CD also as printed, which is what the paper's numbers
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
    "fednova": ("fednova", "exclude"),
}
TABLE = tuple(ARMS)[:8]
PRINTED = TABLE[:6]
COLUMN = (*PRINTED, "genie")
SEARCHED = ("osafl", "m_fedavg", "m_afa_cd", "m_fednova", "m_fedprox", "m_feddisco", "fednova")
# The search ends here: a factor of 4096 takes M-FedNova's printed step of 0.1 to 410.
FACTOR_RANGE = (1 / 64, 4096.0)
# The accuracy of M-FedAvg in Table II. The scale of the inputs, which the paper does not state, is
# judged a second time where M-FedAvg comes nearest to it; CNN and SqueezeNet1 take that scale.
FEDAVG_TABLE_2 = 0.6281

_CASE = ("arm", "K", "seed")

Runs = Generator[Stage, pd.DataFrame, pd.DataFrame]


class Dataset1(NamedTuple):
    """What notebook 33 draws and judges; frames of runs have the columns `arm`, `K` and `seed`.

    Attributes
    ----------
    tables : DataFrame
        The arms `TABLE` at the printed rates, without the clients that never joined.
    read : Read
        The grid of readings, and the rules of Table II under the one that meets most of its
        numbers.
    genie : DataFrame
        Centralised SGD at the scale of that reading, K = 1, by the number of steps a round, the
        column `steps`.
    buffers : DataFrame
        OSAFL with the printed buffer and with zeros, first K, few seeds.
    chosen : dict
        Rule -> `tuning.Choice`.
    tuned : DataFrame
        The arms `SEARCHED` at the chosen factors, refused ones left out, first K, few seeds.
    no_score : DataFrame
        OSAFL with all scores 1 at steps of the same mean length; arms "printed" and "tuned".
    with_score : DataFrame
        OSAFL itself at these steps, with the same arms and seeds.
    score_seeds : list of int
        The seeds of the last two that judge; they also hold those of `tuned`.
    scan : DataFrame
        OSAFL and M-FedAvg with the columns `norm` and `K`, which is 1.
    norm : float
        The scale of the scan at which M-FedAvg comes nearest to Table II; NaN without a scan.
    nearest : DataFrame
        As `scan`, at that scale alone, with every K: the seeds of the tables for K = 1, and seeds
        of their own for the others.
    checkpoints : dict
        "CNN" and "SqueezeNet1" -> their runs under that reading with K = 1 until the round that
        Section V-B names, empty where they were not asked for.
    columns : dict
        The same over all rounds with every K, which are columns of Tables II and III.
    """

    tables: pd.DataFrame
    read: Read
    genie: pd.DataFrame
    buffers: pd.DataFrame
    chosen: dict[str, Choice]
    tuned: pd.DataFrame
    no_score: pd.DataFrame
    with_score: pd.DataFrame
    score_seeds: list[int]
    scan: pd.DataFrame
    norm: float
    nearest: pd.DataFrame
    checkpoints: dict[str, pd.DataFrame]
    columns: dict[str, pd.DataFrame]


class Dataset2(NamedTuple):
    """What notebook 34 draws and judges.

    All are frames of runs with the columns `arm`, `K` and `seed`: `tables` has the printed arms
    and centralised SGD with the LSTM, and `features` and `names` centralised SGD on Dataset-1 and
    Dataset-2 once more, with seeds of its own.
    """

    tables: pd.DataFrame
    features: pd.DataFrame
    names: pd.DataFrame


def dataset1(
    *,
    hidden: Sequence[int],
    n_clients: int,
    rounds: int,
    seeds: Sequence[int],
    top_k: Sequence[int],
    features: str,
    input_norm: float,
    allocator: str,
    genie_steps: int,
    test_size: int,
    few: int,
    factors: Sequence[float],
    tune_seed: int,
    tune_rounds: int,
    norms: Sequence[float],
    scan_seeds: Sequence[int],
    second_seeds: Sequence[int],
    score_seeds: Sequence[int],
    cnn_rounds: int,
    cnn_seeds: Sequence[int],
    squeezenet1_rounds: int,
    squeezenet1_seeds: Sequence[int],
    networks: Sequence[str],
    column_seeds: Sequence[int],
    reading_rounds: int,
    reading_norms: Sequence[float],
    reading_buffers: Sequence[str],
    reading_fednova: Sequence[str],
    reading_seed: int,
    reading_seeds: Sequence[int],
    reading_top_k: Sequence[int],
    reading_test_size: int,
    genie_curve: Sequence[int],
) -> Generator[Stage, pd.DataFrame, Dataset1]:
    """Yield the stages of notebook 33; see its parameters.

    With `tune_rounds` 0 nothing is searched and no rule is tuned; with `reading_rounds` 0 no
    reading is tried.
    """
    base = fcn_base(
        hidden, n_clients, rounds, features, input_norm, allocator, genie_steps, test_size
    )
    first, some = list(top_k)[:1], list(seeds)[:few]
    tables = yield from _arms(base, TABLE, top_k, seeds, "tables")
    own = base | {"test_size": reading_test_size, "rounds": max(1, reading_rounds)}
    tried = readings.star(reading_norms, reading_buffers, reading_fednova)
    tried = tried if reading_rounds else []
    read = yield from readings.grid(own, tried, reading_seed, reading_seeds, reading_top_k)
    genie = yield from _genies(own, read, genie_curve, reading_seeds)
    buffers = yield from _arms(base, ("osafl_printed", "osafl_zero"), first, some, "buffers")
    scan = yield from _scan(base, norms, {1: scan_seeds}, "scale")
    norm = nearest_norm(scan)
    own = {K: second_seeds if K > 1 else seeds for K in top_k}
    nearest = yield from _scan(base, [norm] if len(scan) else [], own, "nearest scale")
    short = base | {"seed": tune_seed, "rounds": tune_rounds, "top_k": first[0]}
    chosen = yield from _search(short, factors if some and tune_rounds else ())
    by = {rule: choice.factor for rule, choice in chosen.items() if not choice.refused}
    tuned = yield from _arms(base, tuple(by), first, some, "tuned", by)
    compared = list(dict.fromkeys([*some, *score_seeds])) if some else []
    own = tables[(tables["arm"] == "osafl") & (tables["K"] == first[0])]
    with_score = own[own["seed"].isin(compared)].assign(arm="printed")
    if "osafl" in by and compared:
        searched = yield from _arms(base, ("osafl",), first, compared, "score, tuned", by)
        with_score = pd.concat([with_score, searched.assign(arm="tuned")], ignore_index=True)
    no_score = yield from _without_scores(base, first[0], with_score, by.get("osafl"))
    checkpoints, columns = {}, {}
    asked = {
        "CNN": (cnn_rounds, cnn_seeds),
        "SqueezeNet1": (squeezenet1_rounds, squeezenet1_seeds),
    }
    for network, (until, early_seeds) in asked.items():
        early = column_base(base, network, until, norm) | {"evaluate_every": 5}
        whole = column_base(base, network, rounds, norm)  # plateaus need every round
        gpu = network == "SqueezeNet1"
        some_seeds = early_seeds if until and read.best else ()
        cases = readings.cases(read.best, early, some_seeds, [1])
        checkpoints[network] = yield from _collected(cases, _CASE, network, gpu)
        columns[network] = yield from _arms(
            whole,
            COLUMN if network in networks else (),
            top_k,
            column_seeds,
            f"{network}, tables",
            gpu=gpu,
        )
    return Dataset1(
        tables=tables,
        read=read,
        genie=genie,
        buffers=buffers,
        chosen=chosen,
        tuned=tuned,
        no_score=no_score,
        with_score=with_score,
        score_seeds=list(score_seeds),
        scan=scan,
        norm=norm,
        nearest=nearest,
        checkpoints=checkpoints,
        columns=columns,
    )


def dataset2(
    *,
    layers: int,
    hidden: int,
    embedding: int,
    n_clients: int,
    rounds: int,
    seeds: Sequence[int],
    genie_seeds: Sequence[int],
    top_k: Sequence[int],
    minibatches: int,
    capacity: Sequence[int],
    allocator: str,
    genie_steps: int,
    test_size: int,
    fcn_hidden: Sequence[int],
    fcn_genie_steps: int,
    features: str,
    input_norm: float,
) -> Generator[Stage, pd.DataFrame, Dataset2]:
    """Yield the stages of notebook 34, one K after the other; see its parameters."""
    base = lstm_base(layers, hidden, embedding, n_clients, rounds, minibatches, capacity)
    base |= {"allocator": allocator, "genie_steps": genie_steps, "test_size": test_size}
    dense = fcn_base(
        fcn_hidden, n_clients, rounds, features, input_norm, allocator, fcn_genie_steps, test_size
    )
    parts = []
    for K in top_k:
        part = yield from _arms(base, COLUMN, [K], seeds, f"LSTM, K = {K}")
        parts.append(part)
    features = yield from _arms(dense, ("genie",), top_k, genie_seeds, "Dataset-1")
    names = yield from _arms(base, ("genie",), top_k, genie_seeds, "Dataset-2")
    tables = pd.concat(parts, ignore_index=True)
    tables.attrs["keys"] = [key for part in parts for key in part.attrs["keys"]]
    return Dataset2(tables, features, names)


# --- configs --------------------------------------------------------------------------------------


def fcn_base(
    hidden: Sequence[int],
    n_clients: int,
    rounds: int,
    features: str,
    input_norm: float,
    allocator: str,
    genie_steps: int,
    test_size: int,
) -> dict:
    """Return the settings that the FCN's runs share.

    A smaller network than ours keeps the payload of the full one, so that the same clients are
    stragglers.
    """
    size = SIZES["FCN"]
    base = {
        "model": size.model,
        "features": features,
        "n_clients": n_clients,
        "rounds": rounds,
        "input_norm": input_norm,
        "allocator": allocator,
        "genie_steps": genie_steps,
        "test_size": test_size,
    }
    if tuple(hidden) != size.options["hidden"]:
        base |= {"hidden": tuple(hidden), "payload_bits": float(size.payload_bits)}
    return base


def column_base(base: Mapping, network: str, rounds: int, norm: float) -> dict:
    """Return the settings of another column of Tables II and III."""
    kept = {name: base[name] for name in base if name not in ("hidden", "payload_bits")}
    kept |= {"model": SIZES[network].model, "rounds": max(1, rounds)}
    return kept | ({"input_norm": norm} if norm == norm else {})  # NaN: there was no scan


def lstm_base(
    layers: int,
    hidden: int,
    embedding: int,
    n_clients: int,
    rounds: int,
    minibatches: int,
    capacity: Sequence[int],
) -> dict:
    """Return the settings that the LSTM's runs share; the payload is that of our full network."""
    size = SIZES["LSTM"]
    base = {
        "dataset": 2,
        "model": size.model,
        "n_clients": n_clients,
        "rounds": rounds,
        "minibatches": minibatches,
        "capacity_low": capacity[0],
        "capacity_high": capacity[1],
    }
    given = {"layers": layers, "hidden": hidden, "embedding": embedding}
    if given != size.options:
        base |= given | {"payload_bits": float(size.payload_bits)}
    return base


# --- stages ---------------------------------------------------------------------------------------


def _arms(
    base: Mapping,
    arms: Iterable[str],
    top_k: Iterable[int],
    seeds: Iterable[int],
    name: str,
    factors: Mapping[str, float] | None = None,
    *,
    gpu: bool = False,
) -> Runs:
    """Yield the runs of some arms, one K and one seed after the other; return them with `arm`."""
    factors = factors or {}
    cases = {
        (arm, K, seed): tuning.scaled(
            OSAFLConfig(*ARMS[arm], seed=seed, top_k=K, **base), factors.get(arm, 1.0)
        )
        for K in top_k
        for seed in seeds
        for arm in arms
    }
    return (yield from _collected(cases, _CASE, name, gpu))


def _collected(
    cases: Mapping[tuple, OSAFLConfig], names: Sequence[str], name: str, gpu: bool = False
) -> Runs:
    """Yield the runs of `cases` and return them with the parts of each case as columns."""
    frame = yield Stage(training.run, list(dict.fromkeys(cases.values())), name, gpu)
    if not cases:
        return no_runs()  # with the same `attrs`
    found = tuning.collect(frame, cases, names)
    found.attrs["keys"] = frame.attrs["keys"]
    return found


def _genies(base: Mapping, read: Read, steps: Sequence[int], seeds: Sequence[int]) -> Runs:
    """Yield centralised SGD with so many steps a round, at the scale of the best reading."""
    norm = None if read.best is None else read.best.norm
    cases = {
        (n, 1, seed): OSAFLConfig(
            "genie", seed=seed, **{**base, "input_norm": norm, "genie_steps": n}
        )
        for n in (steps if read.best else ())
        for seed in seeds
    }
    return (yield from _collected(cases, ("steps", "K", "seed"), "centralised steps"))


def _search(
    short: Mapping, factors: Sequence[float]
) -> Generator[Stage, pd.DataFrame, dict[str, Choice]]:
    """Yield short runs of every rule at every factor until each best one is accepted.

    It ends earlier for a rule whose grid has reached the end of `FACTOR_RANGE`.
    """
    if not factors:
        return {}
    offers = {rule: OSAFLConfig(*ARMS[rule], **short) for rule in SEARCHED}
    first = next(iter(offers.values()))
    guess = story.kept("constant guess", config_dict(first), lambda: constant_guess(first))
    losses: dict[str, dict[float, float]] = {rule: {} for rule in SEARCHED}
    missing = {rule: list(factors) for rule in SEARCHED}
    chosen: dict[str, Choice] = {}
    while any(missing.values()):
        cases = {
            (rule, factor): tuning.scaled(offers[rule], factor)
            for rule, more in missing.items()
            for factor in more
        }
        found = yield from _collected(cases, ("arm", "factor"), "search")
        for (rule, factor), run in found.groupby(["arm", "factor"]):
            losses[rule][factor] = measures.late_log_loss(run)
        chosen = {rule: tuning.choose(losses[rule], guess) for rule in SEARCHED}
        missing = {
            rule: tuning.grown(losses[rule], chosen[rule], *FACTOR_RANGE) for rule in SEARCHED
        }
    return chosen


def _without_scores(base: Mapping, K: int, with_score: pd.DataFrame, factor: float | None) -> Runs:
    """Yield OSAFL without scores: chi large, so that all are 1, at steps of OSAFL's mean length.

    `with_score` holds the runs with scores, whose arms "printed" and "tuned" say by which step.
    """
    cases, factors = {}, {"printed": 1.0, "tuned": factor}
    for (arm, seed), run in with_score.groupby(["arm", "seed"], sort=False):
        config = OSAFLConfig("osafl", "exclude", seed=seed, top_k=K, chi=1e9, **base)
        share = round(float(run["mean_score"].mean()), 4)
        cases[arm, K, seed] = tuning.scaled(config, factors[arm] * share)
    return (yield from _collected(cases, _CASE, "no score"))


def _scan(
    base: Mapping, norms: Sequence[float], seeds: Mapping[int, Sequence[int]], name: str
) -> Runs:
    """Yield OSAFL and M-FedAvg at every scale of the inputs, all rounds; `seeds` are by K."""
    cases = {
        (arm, norm, K, seed): tuning.scaled(
            OSAFLConfig(*ARMS[arm], seed=seed, top_k=K, **{**base, "input_norm": norm})
        )
        for norm in norms
        for K in seeds
        for seed in seeds[K]
        for arm in ("m_fedavg", "osafl")
    }
    return (yield from _collected(cases, ("arm", "norm", "K", "seed"), name))


def scan_table(scan: pd.DataFrame) -> pd.DataFrame:
    """Return the mean best accuracies of a scan, one row per scale and one column per arm.

    `scan` has the columns `arm`, `norm` and `seed`; without rows there is nothing in the table.
    """
    if not len(scan):
        return pd.DataFrame(index=pd.Index([], name="norm"))
    best = scan.groupby(["norm", "arm", "seed"])["best_accuracy"].last().fillna(0)
    return best.groupby(["norm", "arm"]).mean().unstack("arm")


def nearest_norm(scan: pd.DataFrame, target: float = FEDAVG_TABLE_2) -> float:
    """Return the scale at which M-FedAvg's mean best accuracy comes nearest to `target`.

    `scan` is that of `scan_table`; NaN where it has no rows.
    """
    table = scan_table(scan)
    return float((table["m_fedavg"] - target).abs().idxmin()) if len(table) else float("nan")
