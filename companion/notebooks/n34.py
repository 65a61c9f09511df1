"""Notebook 34, Dataset-2: runs, evidence, settings and remarks, pictures.

Source: OSAFL, Section V-B, Tables IV and V, Figs. 6 and 8.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping, Sequence
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd

from companion import sheets
from companion.judging.claims import NotRun, Setting
from companion.judging.tables import paper_value
from companion.notebooks.osafl_shared import (
    ARMS,
    BASELINES,
    FCN_SETTINGS,
    LABELS,
    Evidence,
    as_printed,
    at_k,
    at_round,
    best,
    best_in_words,
    best_loss,
    between,
    by_arm,
    cases_of_arms,
    colors,
    compared,
    fcn_base,
    limit_of,
    missing,
    printed_marks,
)
from companion.plans import Stage, data_remarks
from sflkit.osafl.clients import ceiling, ceiling_of_strangers
from sflkit.osafl.config import OSAFLConfig
from sflkit.osafl.networks import SIZES

if TYPE_CHECKING:
    from matplotlib.figure import Figure


PRINTED = tuple(ARMS)[:6]
COLUMN = (*PRINTED, "genie")


class Dataset2(NamedTuple):
    """What notebook 34 draws and judges.

    All are frames of runs with the columns `arm`, `K` and `seed`: `tables` has the printed arms
    and centralised SGD with the LSTM, and `features` and `names` centralised SGD on Dataset-1 and
    Dataset-2 once more, with seeds of its own.
    """

    tables: pd.DataFrame
    features: pd.DataFrame
    names: pd.DataFrame


def dataset2(**given: Any) -> Generator[Stage, pd.DataFrame, Dataset2]:
    """Yield the stages of notebook 34, one K after the other; see its parameters."""
    p = SimpleNamespace(**given)
    base = lstm_base(
        p.layers, p.hidden, p.embedding, p.n_clients, p.rounds, p.minibatches, p.capacity
    )
    base |= {"allocator": p.allocator, "genie_steps": p.genie_steps, "test_size": p.test_size}
    own = {"hidden": p.fcn_hidden, "genie_steps": p.fcn_genie_steps}
    dense = fcn_base(*(own.get(name, given[name]) for name in FCN_SETTINGS))
    parts = []
    for K in p.top_k:
        part = yield from cases_of_arms(base, COLUMN, [K], p.seeds, f"LSTM, K = {K}")
        parts.append(part)
    vectors = yield from cases_of_arms(dense, ("genie",), p.top_k, p.genie_seeds, "Dataset-1")
    names = yield from cases_of_arms(base, ("genie",), p.top_k, p.genie_seeds, "Dataset-2")
    tables = pd.concat(parts, ignore_index=True)
    tables.attrs["keys"] = [key for part in parts for key in part.attrs["keys"]]
    return Dataset2(tables, vectors, names)


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


def two_ceilings(
    base: Mapping[str, Any], top_k: Iterable[int], seeds: Iterable[int]
) -> dict[int, pd.DataFrame]:
    """Return, by K, a table by seed: who knows every user's law, and who sees the last file only.

    The columns are `user` and `file`, as `dataset2` takes them.
    """
    limits = {"user": ceiling, "file": ceiling_of_strangers}
    return {
        K: pd.DataFrame(
            {
                name: {s: limit_of(limit, OSAFLConfig(seed=s, top_k=K, **base)) for s in seeds}
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


ROUND = 40  # at which Section V-B.2 reads Fig. 6
LSTM_LAYERS = 3


def evidence(found: Dataset2, layers: int) -> dict[str, Evidence]:
    """Return the evidence of notebook 34's trained claims.

    Parameters
    ----------
    found : Dataset2
    layers : int
        Of the LSTM; fewer than three do not judge Tables IV and V and Figure 6.
    """
    evidence: dict[str, Evidence] = {"osafl-fig6": {}, "osafl-datasets": {}}
    deep = layers >= LSTM_LAYERS
    reason = f"an LSTM of {layers} layer has no plateau to leave; the paper's has {LSTM_LAYERS}"
    for K in (1, 2):
        runs = at_k(found.tables, K)
        why = reason if not deep else missing(K, runs)
        evidence["osafl-fig6"] |= _round_40(runs, K, why) | _NEARER
        evidence[f"osafl-tab{3 + K}"] = _lstm_table(runs, why) | _NEARER
        gap = _gap(at_k(found.features, K), at_k(found.names, K), K, deep)
        evidence["osafl-datasets"] |= gap
    return evidence


_NEARER = {
    "reading": NotRun("the reading that Table II chose was not run on Dataset-2 (6 CPU hours)")
}


# --- Dataset-2 ------------------------------------------------------------------------------------


def _round_40(runs: pd.DataFrame, K: int, why: str) -> Evidence:
    rising = [rule for rule in BASELINES if rule != "m_afa_cd"]
    keys = [f"K{K}_ahead_{rule}" for rule in BASELINES]
    keys += [f"K{K}_rises_{rule}" for rule in rising] + [f"K{K}_flat_m_afa_cd"]
    if why:
        return dict.fromkeys(keys, NotRun(why))
    there, early, late = (
        as_printed(by_arm(runs, what))
        for what in (at_round(ROUND), between(0, 0.25), between(0.75, 1))
    )
    ahead = [(there["osafl"], there[rule]) for rule in BASELINES]
    moved = [(late[rule], early[rule]) for rule in (*rising, "m_afa_cd")]
    return dict(zip(keys, [*ahead, *moved], strict=True))


def _lstm_table(runs: pd.DataFrame, why: str) -> Evidence:
    keys = [*(f"best_{rule}" for rule in BASELINES), "factor", "losses", "fails"]
    if why:
        return dict.fromkeys(keys, NotRun(why))
    found, losses = (as_printed(by_arm(runs, what)) for what in (best, best_loss))
    second = found[list(BASELINES)].mean().idxmax()
    evidence = {f"best_{rule}": (found["osafl"], found[rule]) for rule in BASELINES}
    evidence["factor"] = np.log(found["osafl"] / found[second])
    evidence["losses"] = np.log(losses[second] / losses["osafl"])
    return evidence | {"fails": (found["osafl"] / 2, found["m_afa_cd"])}


def _gap(features: pd.DataFrame, names: pd.DataFrame, K: int, deep: bool) -> Evidence:
    why = missing(K, names) or ("" if deep else "short training of small networks compares steps")
    if why:
        return {f"K{K}_gap": NotRun(why)}
    return {f"K{K}_gap": (by_arm(features, best)["genie"], by_arm(names, best)["genie"])}


_NOTHING_MISSING = (
    "Who knows the last file only is as often right, at best, as who knows every user's law, so "
    "that the number of the file holds all that the best guess needs."
)
# Of Dataset-2: a late accuracy below it says that a rule has not left the first plateau.
_NOT_BEGUN = 0.1


_MEAN = (
    "reading: means over the clients that ever joined, M-AFA-CD's buffer as printed, M-FedNova "
    "with this round's contributions and its rate"
)
# Which files are similar, and so what is asked for, depends on their images.
_IMAGES = "features: synthetic (the files of Dataset-2 have synthetic images, not CIFAR-100's)"
_CENTRAL = (
    "centralised SGD, 100 steps a round; on Dataset-1 the FCN, inputs at the scale 10, 30 steps"
)


def settings_2(
    evidence: Iterable[str],
    layers: int,
    hidden: int,
    n_clients: int,
    rounds: int,
    features: pd.DataFrame,
) -> dict[str, Setting]:
    """Return the setting of every artefact of notebook 34; `features` is that of `Dataset2`."""
    sizes = f"{layers} LSTM layers of {hidden} units, {n_clients} clients, {rounds} rounds"
    trained = Setting("reduced", f"{sizes}; the paper's width is not known; {_MEAN}; {_IMAGES}")
    known = {"osafl-fig8": Setting("stand-in", "the sizes are ours")}
    words = "; ".join(filter(None, [sizes, _CENTRAL, _IMAGES, data_remarks(features)]))
    known["osafl-datasets"] = Setting("reduced", words)
    return {artefact: known.get(artefact, trained) for artefact in evidence}


def notes_2(found: Dataset2) -> dict[str, str]:
    """Return the remarks on notebook 34's verdicts, by artefact."""
    notes = {"osafl-datasets": _NOTHING_MISSING}
    for K, artefact in ((1, "osafl-tab4"), (2, "osafl-tab5")):
        runs = at_k(found.tables, K)
        if len(runs):
            words = _plateau_words(runs)
            notes[artefact] = f"{best_in_words(runs)} {words}".strip()
            if words:
                said = notes.get("osafl-fig6", "")
                notes["osafl-fig6"] = f"{said} K = {K}: {words}".strip()
    return notes


def _plateau_words(runs: pd.DataFrame) -> str:
    """Say that no baseline has begun to learn, "" if one has."""
    ends = as_printed(by_arm(runs, between(0.75, 1))).mean()
    highest = ends[list(BASELINES)].max()
    if highest >= _NOT_BEGUN:
        return ""
    return (
        "No baseline leaves its first plateau: in the mean over the last quarter the highest is "
        f"right in {100 * highest:.1f} % of the requests, and somebody who always names one "
        "popular file in 3 to 7 %."
    )


def draw_curves(
    found: Dataset2, top_k: Sequence[int], hidden: int
) -> tuple[Figure, dict[str, pd.DataFrame]]:
    """Draw Fig. 6: accuracy above and loss below, with Tables IV and V and the text's round 40.

    Returns the figure and what it draws, for `figures.save_figure`.
    """
    import matplotlib.pyplot as plt

    fig, axes = plt.subplots(2, len(top_k), figsize=(9.6, 7.4), squeeze=False)
    drawn = {}
    for pair, K in zip(axes.T, top_k, strict=True):
        for ax, what in zip(pair, ("accuracy", "loss"), strict=True):
            printed = printed_marks(f"osafl-tab{3 + K}", what, "LSTM")
            drawn[f"{what}, K = {K}"] = compared(ax, at_k(found.tables, K), what, printed)
            high = {1: 0.7, 2: 0.4}[K]
            ax.set(
                ylim=(0, high) if what == "accuracy" else (1.5, 5), title=f"Figure 6, LSTM, K = {K}"
            )
        said = f"accuracy at round {ROUND} K = {K}"
        marks = {
            rule: paper_value("osafl", "osafl-fig6", f"{said} {name}")
            for rule, name in LABELS.items()
        }
        # side by side, since some are equal
        places = {rule: 37 + 1.5 * i for i, rule in enumerate(marks)}
        pair[0].axvspan(36, 45.5, color="0.92", zorder=0)
        top = dict(fontsize=8.5, color="0.35", ha="center", va="top")
        pair[0].text(40.75, 0.7, f"round {ROUND}", transform=pair[0].get_xaxis_transform(), **top)
        sheets.printed_marks(pair[0], places, marks, colors())
    sheets.one_legend(fig.axes[-1], loc="outside lower center", ncols=4)
    fig.suptitle(
        f"LSTM of three layers of {hidden} units (the paper gives no width), "
        f"{found.tables['seed'].nunique()} runs (paper: 3);\n"
        f"grey: the text's numbers of round {ROUND}; clients that never joined are left out, "
        "except in M-AFA-CD",
        fontsize=11,
    )
    return fig, drawn
