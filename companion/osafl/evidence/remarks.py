"""What is said with the verdicts of notebooks 33 and 34: their settings, and remarks on them.

Source: OSAFL, Section V-B, Tables II to V. The evidence for the verdicts is in `evidence.training`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pandas as pd

from companion.judging.claims import Setting
from companion.osafl.claims.dataset1 import BASELINES, LABELS
from companion.osafl.measures import as_printed, at_k, best, between, by_arm
from companion.osafl.plans.training import FEDAVG_TABLE_2, Dataset1, Dataset2
from sflkit.osafl.networks import SIZES
from sflkit.osafl.rules import RULES

_NOTHING_MISSING = (
    "Who knows the last file only is as often right, at best, as who knows every user's law (the "
    "parts beyond the paper), so that the number of the file holds all that the best guess needs."
)
_GENIE = (
    "The paper does not say how many steps a round centralised SGD takes; ours takes the number "
    "that the setting names, and was not tuned. With fewer steps it is slower: in the quick "
    "profile's small network it takes ten a round, and with K = 2 its curve ends below OSAFL's."
)
# Of Dataset-2: a late accuracy below it says that a rule has not left the first plateau.
_NOT_BEGUN = 0.1
BY_HAND = Setting("full", "three clients and two parameters, by hand")

# --- settings -------------------------------------------------------------------------------------


def settings_1(
    evidence: Iterable[str], hidden: Sequence[int], base: Mapping[str, Any], found: Dataset1
) -> dict[str, Setting]:
    """Return the setting of every artefact of notebook 33; see `is_full`.

    Parameters
    ----------
    evidence : iterable of str
        The artefacts.
    hidden : sequence of int
        Widths of the FCN.
    base : mapping
        As `comparison.printed_steps` takes it.
    found : Dataset1
        The runs; its `norm` is the scale of the inputs of the other networks.
    """
    sizes = "-".join(map(str, hidden))
    full = is_full(hidden, base["n_clients"], base["rounds"], base["features"])
    scale = f"inputs at the scale {base['input_norm']:g}"
    if full:
        ours = f"FCN of {sizes} units, {scale} and {base['genie_steps']} centralised steps a round"
        trained = Setting("full", f"{ours}, which the paper does not state")
    else:
        trained = Setting(
            "stand-in",
            f"FCN of {sizes} units, {base['n_clients']} clients, {base['rounds']} rounds, "
            f"{base['features']} images, {scale}",
        )
    by_hand = (*(f"osafl-alg{number}" for number in (6, 7, 8, 10)), "osafl-private")
    special = dict.fromkeys(by_hand, BY_HAND) | {"osafl-fig7": Setting("full")}
    if full and found.norm == found.norm:  # not NaN
        for network in found.checkpoints:
            whole = len(found.columns[network]) > 0
            special[f"osafl-{network.lower()}"] = Setting(
                "full" if whole else "reduced",
                f"{network} {_how_far(found, network)}, inputs at the scale {found.norm:g} alone, "
                "which the paper does not state and at which M-FedAvg with the FCN comes nearest "
                "to Table II",
            )
    return {artefact: special.get(artefact, trained) for artefact in evidence}


def _how_far(found: Dataset1, network: str) -> str:
    """Say until which round a network was trained, on how many seeds."""
    said = []
    for runs, until in (
        (found.checkpoints[network], "until the checkpoint in the text"),
        (found.columns[network], "over all rounds"),
    ):
        if len(runs):
            said.append(f"{until} on {runs['seed'].nunique()} seeds")
    return " and ".join(said)


def is_full(hidden: Sequence[int], n_clients: int, rounds: int, features: str) -> bool:
    """Return whether Tables II and III are judged: our full FCN, and the paper's other numbers."""
    size = SIZES["FCN"].options["hidden"]
    return (tuple(hidden), n_clients, features) == (size, 100, "cifar100") and rounds >= 100


def settings_2(
    evidence: Iterable[str], layers: int, hidden: int, n_clients: int, rounds: int
) -> dict[str, Setting]:
    """Return the setting of every artefact of notebook 34."""
    plural = "s" if layers > 1 else ""
    sizes = f"{layers} LSTM layer{plural} of {hidden} units, {n_clients} clients, {rounds} rounds"
    full = layers == 3 and n_clients == 100 and rounds >= 100
    trained = (
        Setting("reduced", f"{sizes}; the paper's width is not known")
        if full
        else Setting("stand-in", sizes)
    )
    return {
        artefact: Setting("full") if artefact == "osafl-fig8" else trained for artefact in evidence
    }


# --- remarks --------------------------------------------------------------------------------------


def notes_1(found: Dataset1, input_norm: float, judged: bool) -> dict[str, str]:
    """Return the remarks on notebook 33's verdicts, by artefact.

    Parameters
    ----------
    found : Dataset1
    input_norm : float
        The scale of the inputs at which the tables were run.
    judged : bool
        As `comparison.bottom_line_1` takes it; only then is there more to say than what an erratum
        says.
    """
    step = "M-FedNova hardly moves at its printed step (ERRATA 69)."
    notes = {"osafl-tab2": step, "osafl-tab3": step, "osafl-alg9": "ERRATA 38."}
    notes["osafl-genie"] = _GENIE
    if not judged:
        return notes
    notes["osafl-alg9"] += f" {_both_ways(found)}"
    for K, artefact in ((1, "osafl-tab2"), (2, "osafl-tab3")):
        runs = at_k(found.tables, K)
        if len(runs):
            notes[artefact] = f"{_ours(runs)} {_mafacd_words(runs)} {step}"
    if lost := _diverged(found.tuned):
        notes["osafl-tab2"] += f" {lost}"
    if len(found.nearest):
        scale = _scale_words(found, input_norm)
        notes["osafl-tab2"] += f" {scale}"
        notes["osafl-tab3"] += f" {scale}"
        notes |= {"osafl-fig4": scale, "osafl-fig5": scale}
    return notes


def notes_2(found: Dataset2, judged: bool) -> dict[str, str]:
    """Return the remarks on notebook 34's verdicts, by artefact; none unless they are judged."""
    if not judged:
        return {}
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
    means = as_printed(by_arm(runs, best)).mean()
    rules = means[[*LABELS]].sort_values(ascending=False)
    said = ", ".join(f"{LABELS[rule]} {mean:.3f}" for rule, mean in rules.items())
    return f"Ours: {said}; centralised {means['genie']:.3f}."


def _mafacd_words(runs: pd.DataFrame) -> str:
    mean = by_arm(runs, best)["m_afa_cd"].mean()
    return (
        "That is M-AFA-CD with its buffer as printed; without the clients that never joined it "
        f"reaches {mean:.3f}, and that one is compared with OSAFL."
    )


def _both_ways(found: Dataset1) -> str:
    """Say what the printed buffer does to M-AFA-CD and to OSAFL."""
    ends = by_arm(at_k(found.tables, 1), best).mean()
    words = (
        "The printed buffer harms OSAFL too (ERRATA 37). Without the clients that never joined "
        f"OSAFL reaches {ends['osafl']:.3f} and M-AFA-CD {ends['m_afa_cd']:.3f}"
    )
    if not len(found.buffers):
        return f"{words}."
    printed = by_arm(found.buffers, best)["osafl_printed"]
    what = f"reaches {printed.mean():.3f}" if printed.any() else "diverges"
    return (
        f"{words}; with the buffer as printed OSAFL {what} ({len(printed)} runs) and "
        f"M-AFA-CD reaches {ends['m_afa_cd_printed']:.3f}. What the paper reports is OSAFL of the "
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


def _diverged(tuned: pd.DataFrame) -> str:
    """Say which rules diverged at the step that the search chose, "" if none did."""
    if not len(tuned):
        return ""
    lost = tuned.groupby(["arm", "seed"])["diverged"].any().groupby("arm").agg(["sum", "size"])
    told = [
        f"{row['sum']} of {row['size']} runs of {RULES[arm].label}"
        for arm, row in lost[lost["sum"] > 0].iterrows()
    ]
    return f"At the searched step {' and '.join(told)} diverged." if told else ""


def _scale_words(found: Dataset1, input_norm: float) -> str:
    """Say what the scale of the inputs, which the paper does not state, does to OSAFL's lead."""
    reached = []
    for K, runs in found.nearest.groupby("K"):
        ends = by_arm(runs, best)
        reached.append(
            f"{100 * ends['m_fedavg'].mean():.1f} % and OSAFL {100 * ends['osafl'].mean():.1f} % "
            f"with K = {K} ({len(ends)} seeds)"
        )
    return (
        "The lead depends on the scale of the inputs, which the paper does not state (ERRATA 67) "
        f"and which is {input_norm:g} here. Of the scales that were tried, M-FedAvg comes nearest "
        f"to its {100 * FEDAVG_TABLE_2:.1f} % of Table II at {found.norm:g}, the second scale. "
        f"There it reaches {', and '.join(reached)}."
    )
