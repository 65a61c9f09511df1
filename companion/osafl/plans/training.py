"""Which runs notebooks 33 and 34 need, in the order in which they are worth most.

Source: OSAFL, Section V-B, Tables II to V, Figs. 4 to 6. A plan is a generator of stages
(`companion.plans`); its arguments are the notebook's parameters. The first stages hold the readings
of the tables and the runs that judge them, and the next ones what else the paper claims. Other
networks, the dearest, come last.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping, Sequence
from typing import NamedTuple

import pandas as pd

from companion.osafl import tuning
from companion.osafl.plans import readings
from companion.osafl.plans.readings import Read
from companion.plans import Stage, no_runs
from sflkit.osafl import training
from sflkit.osafl.config import OSAFLConfig
from sflkit.osafl.networks import SIZES

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
PRINTED = tuple(ARMS)[:6]
COLUMN = (*PRINTED, "genie")

_CASE = ("arm", "K", "seed")

Runs = Generator[Stage, pd.DataFrame, pd.DataFrame]


class Dataset1(NamedTuple):
    """What notebook 33 draws and judges; frames of runs have the columns `arm`, `K` and `seed`.

    Attributes
    ----------
    read : Read
        The grid of readings, and the rules of Table II under the one that meets most of its
        numbers.
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
    """

    read: Read
    genie: pd.DataFrame
    buffers: pd.DataFrame
    scan: pd.DataFrame
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
    features: str,
    input_norm: float,
    allocator: str,
    genie_steps: int,
    test_size: int,
    few: int,
    norms: Sequence[float],
    scan_seeds: Sequence[int],
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
    """Yield the stages of notebook 33; see its parameters."""
    base = fcn_base(
        hidden, n_clients, rounds, features, input_norm, allocator, genie_steps, test_size
    )
    own = base | {"test_size": reading_test_size, "rounds": reading_rounds}
    tried = readings.star(reading_norms, reading_buffers, reading_fednova)
    read = yield from readings.grid(own, tried, reading_seed, reading_seeds, reading_top_k)
    genie = yield from _genies(own, read, genie_curve, reading_seeds)
    as_printed = yield from _arms(base, ("osafl_printed", "osafl_zero"), [1], seeds[:few], "buffer")
    without = ("osafl", "m_afa_cd_printed", "m_afa_cd")
    others = yield from _arms(base, without, [1], seeds, "buffers")
    buffers = pd.concat([as_printed, others], ignore_index=True)
    buffers.attrs["keys"] = [*as_printed.attrs["keys"], *others.attrs["keys"]]
    scan = yield from _scan(base, norms, scan_seeds)
    checkpoints, columns = {}, {}
    asked = {
        "CNN": (cnn_rounds, cnn_seeds),
        "SqueezeNet1": (squeezenet1_rounds, squeezenet1_seeds),
    }
    for network, (until, early_seeds) in asked.items():
        early = column_base(base, network, until) | {"evaluate_every": 5}
        whole = column_base(base, network, rounds)  # plateaus need every round
        gpu = network == "SqueezeNet1"
        some_seeds = early_seeds if until else ()
        cases = readings.cases(read.best, early, some_seeds, [1])
        checkpoints[network] = yield from _collected(cases, _CASE, network, gpu)
        some_seeds = column_seeds if network in networks else ()
        cases = readings.cases(read.best, whole, some_seeds, reading_top_k)
        columns[network] = yield from _collected(cases, _CASE, f"{network}, tables", gpu)
    return Dataset1(read, genie, buffers, scan, checkpoints, columns)


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


def column_base(base: Mapping, network: str, rounds: int) -> dict:
    """Return the settings of another column of Tables II and III."""
    kept = {name: base[name] for name in base if name not in ("hidden", "payload_bits")}
    return kept | {"model": SIZES[network].model, "rounds": max(1, rounds)}


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
    base: Mapping, arms: Iterable[str], top_k: Iterable[int], seeds: Iterable[int], name: str
) -> Runs:
    """Yield the runs of some arms, one K and one seed after the other; return them with `arm`."""
    cases = {
        (arm, K, seed): tuning.scaled(OSAFLConfig(*ARMS[arm], seed=seed, top_k=K, **base))
        for K in top_k
        for seed in seeds
        for arm in arms
    }
    return (yield from _collected(cases, _CASE, name))


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
    own = {**base, "input_norm": read.best.norm}
    cases = {
        (n, 1, seed): OSAFLConfig("genie", seed=seed, **own | {"genie_steps": n})
        for n in steps
        for seed in seeds
    }
    return (yield from _collected(cases, ("steps", "K", "seed"), "centralised steps"))


def _scan(base: Mapping, norms: Sequence[float], seeds: Sequence[int]) -> Runs:
    """Yield OSAFL and M-FedAvg at every scale of the inputs, all rounds."""
    cases = {
        (arm, norm, 1, seed): tuning.scaled(
            OSAFLConfig(*ARMS[arm], seed=seed, top_k=1, **{**base, "input_norm": norm})
        )
        for norm in norms
        for seed in seeds
        for arm in ("m_fedavg", "osafl")
    }
    return (yield from _collected(cases, ("arm", "norm", "K", "seed"), "scale"))


def scan_table(scan: pd.DataFrame) -> pd.DataFrame:
    """Return the mean best accuracies of a scan, one row per scale and one column per arm.

    `scan` has the columns `arm`, `norm` and `seed`; without rows there is nothing in the table.
    """
    if not len(scan):
        return pd.DataFrame(index=pd.Index([], name="norm"))
    best = scan.groupby(["norm", "arm", "seed"])["best_accuracy"].last().fillna(0)
    return best.groupby(["norm", "arm"]).mean().unstack("arm")
