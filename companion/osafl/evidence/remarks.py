"""What is said with the verdicts of notebooks 33 and 34: their settings, and remarks on them.

Source: OSAFL, Section V-B, Tables II to V. The evidence for the verdicts is in `evidence.training`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pandas as pd

from companion.judging.claims import Setting
from companion.osafl.measures import as_printed, at_k, best, between, by_arm
from companion.osafl.plans.readings import Read, met, name_of
from companion.osafl.plans.training import Dataset1, Dataset2
from companion.osafl.printed import BASELINES, LABELS

_NOTHING_MISSING = (
    "Who knows the last file only is as often right, at best, as who knows every user's law (the "
    "parts beyond the paper), so that the number of the file holds all that the best guess needs."
)
_GENIE = (
    "Who is ahead depends on how many steps a round centralised SGD takes, which the paper does "
    "not say."
)
# Of Dataset-2: a late accuracy below it says that a rule has not left the first plateau.
_NOT_BEGUN = 0.1
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
        As `comparison.printed_steps` takes it.
    found : Dataset1
        The runs.
    """
    ours = f"FCN of {'-'.join(map(str, hidden))} units"
    scale = f"inputs at the scale {base['input_norm']:g}, which the paper does not state"
    by_hand = (*(f"osafl-alg{number}" for number in (6, 7, 8, 10)), "osafl-private")
    special = dict.fromkeys(by_hand, BY_HAND) | {"osafl-fig7": Setting("full")}
    said = f"reading: {name_of(found.read.best)}, one of {len(found.read.table)} tried"
    special |= dict.fromkeys(_READ, Setting("full", f"{ours}; {said}"))
    for network in found.checkpoints:
        level = "full" if len(found.columns[network]) else "reduced"
        words = f"{network} {_how_far(found, network)}; {said}, by the FCN"
        special[f"osafl-{network.lower()}"] = Setting(level, words)
    return {
        artefact: special.get(artefact, Setting("full", f"{ours}, {scale}"))
        for artefact in evidence
    }


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


def settings_2(
    evidence: Iterable[str], layers: int, hidden: int, n_clients: int, rounds: int
) -> dict[str, Setting]:
    """Return the setting of every artefact of notebook 34."""
    sizes = f"{layers} LSTM layers of {hidden} units, {n_clients} clients, {rounds} rounds"
    trained = Setting("reduced", f"{sizes}; the paper's width is not known")
    return {
        artefact: Setting("full") if artefact == "osafl-fig8" else trained for artefact in evidence
    }


# --- remarks --------------------------------------------------------------------------------------


def notes_1(found: Dataset1) -> dict[str, str]:
    """Return the remarks on notebook 33's verdicts, by artefact."""
    notes = {"osafl-alg9": f"ERRATA 38. {_both_ways(found.buffers)}", "osafl-genie": _GENIE}
    said = _reading_words(found.read)
    for K, artefact in ((1, "osafl-tab2"), (2, "osafl-tab3")):
        runs = at_k(found.read.runs, K)
        if len(runs):
            there = f"On the seeds that judge it meets {met(runs, K)} of this table's twelve."
            notes[artefact] = f"{_ours(runs)} {said} {there}"
    return notes | {"osafl-fig4": said, "osafl-fig5": said, "osafl-score": said}


def notes_2(found: Dataset2) -> dict[str, str]:
    """Return the remarks on notebook 34's verdicts, by artefact."""
    notes = {"osafl-datasets": _NOTHING_MISSING}
    for K, artefact in ((1, "osafl-tab4"), (2, "osafl-tab5")):
        runs = at_k(found.tables, K)
        if len(runs):
            notes[artefact] = f"{_ours(runs)} {_plateau_words(runs)}".strip()
            if words := _plateau_words(runs):
                said = notes.get("osafl-fig6", "")
                notes["osafl-fig6"] = f"{said} K = {K}: {words}".strip()
    return notes


def _ours(runs: pd.DataFrame) -> str:
    """Say the best accuracies of a table."""
    ends = by_arm(runs, best)
    means = (as_printed(ends) if "m_afa_cd_printed" in ends else ends).mean()
    rules = means[[*LABELS]].sort_values(ascending=False)
    said = ", ".join(f"{LABELS[rule]} {mean:.3f}" for rule, mean in rules.items())
    genie = f"; centralised {means['genie']:.3f}" if "genie" in means else ""
    return f"Ours: {said}{genie}."


def _reading_words(read: Read) -> str:
    """Say which reading is judged, how many were tried, and what it meets."""
    first = read.table.iloc[0]
    return (
        f"The reading: {name_of(read.best)}. It meets {first['met']} of the twelve numbers, the "
        f"most of {len(read.table)} readings tried, on a seed that judges nothing."
    )


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
