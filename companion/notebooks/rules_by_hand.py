"""One round of every rule, worked out by hand, and what the servers must know of their clients.

Source: OSAFL, Algorithms 2 and 6 to 10, (16), (21), (83), Section V-B.1; FedNova's own rule is that
of Wang et al. 2020. Three clients, two parameters, the model w = (1, 2), the local rate 1/2. Client
0 takes two steps and ends (-1, 0) away from w, client 1 one step and (0, -1). By (16) they send the
mean gradients d_0 = (1, 0) and d_1 = (0, 2). Client 2 is a straggler and has never joined: as
printed, d_2 = w / (1/2) = (2, 4) stands for it.

A client sends its mean gradient (OSAFL, M-AFA-CD, M-FedNova) or its local model. Whether the server
also needs the sizes of the stores, the numbers of local steps or the counts of the labels is found
by trying: one of them changes, what is sent stays, and the next model changes or does not
(`private_needs`).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch

from sflkit import federated
from sflkit.federated import LocalWork
from sflkit.osafl import scores
from sflkit.osafl.rules import (
    MAFACD,
    OSAFL,
    RULES,
    MFedAvg,
    MFedDisco,
    MFedNova,
    MFedProx,
    RoundRule,
)

MODEL, SENT = (1.0, 2.0), ((-1.0, 0.0), (0.0, -1.0))
RATE = 0.5
SIZES = (3, 1, 4)  # samples that the three clients hold
# The claim of each rule: artefact -> label of `RULES`.
ARTEFACTS = {
    "osafl-alg2": "OSAFL",
    "osafl-alg6": "M-FedAvg",
    "osafl-alg7": "M-FedProx",
    "osafl-alg8": "M-FedNova",
    "osafl-alg9": "M-AFA-CD",
    "osafl-alg10": "M-FedDisco",
}

# What a reader calls the forms of `cases`; see the top of `rules` for the readings of the buffer.
FORMS = {
    "exclude": "left out",
    "literal": "as printed",
    "printed": "as printed",
    "true": "as its authors define it",
}


class Case(NamedTuple):
    """One rule in one form, the weights that it is given, and the next model by hand."""

    rule: RoundRule
    expected: tuple[float, float]
    weights: np.ndarray | None = None


class Rounds(NamedTuple):
    """What was computed.

    Attributes
    ----------
    table : DataFrame
        One row per case with the columns rule, form, by hand, sflkit.
    checked : dict
        Label of a rule -> what was checked -> whether the library gives what the hand gives.
    same_direction : bool
        Whether M-FedNova as printed moves the model in FedNova's direction.
    """

    table: pd.DataFrame
    checked: dict[str, dict[str, bool]]
    same_direction: bool


def cases() -> dict[tuple[str, str], Case]:
    """Return every rule and form with the model that one round by hand ends at.

    - OSAFL: the mean of d_0 and d_1 points along (1, 2), so that the cosines are 1 / sqrt 5 and
      2 / sqrt 5 and the scores (1 + cosine) / 2. With d_2 the mean is (1, 2) itself, d_2 has the
      score 1 and the others keep theirs; a third in place of a half weighs all.
    - M-FedAvg and M-FedProx's server: the mean of (0, 2) and (1, 1), as printed with w for client
      2 as well.
    - M-AFA-CD at rate 0.3: w - 0.3 (d_0 + d_1) / 2, as printed w - 0.3 (d_0 + d_1 + d_2) / 3.
    - M-FedNova, slowdown 1/2: w + 1/2 (3/8 (-1, 0) + 1/8 (0, -1)). FedNova: with the participants'
      shares p = (3/4, 1/4) the steps are 7/4 in the mean, w + 7/4 (3/4 1/2 (-1, 0) + 1/4 (0, -1)).
    - M-FedDisco with weights 0.6 and 0.2: 3/4 (0, 2) + 1/4 (1, 1).
    """
    low, high = (1 + 1 / 5**0.5) / 2, (1 + 2 / 5**0.5) / 2
    literal = {"never_joined": "literal"}
    return {
        ("OSAFL", "exclude"): Case(OSAFL(3, 2.0), (1 - low / 2, 2 - high)),
        ("OSAFL", "literal"): Case(
            OSAFL(3, 2.0, **literal), (1 - (low + 2) / 3, 2 - (2 * high + 4) / 3)
        ),
        ("M-FedAvg", "exclude"): Case(MFedAvg(3), (0.5, 1.5)),
        ("M-FedAvg", "literal"): Case(MFedAvg(3, **literal), (2 / 3, 5 / 3)),
        ("M-FedProx", "exclude"): Case(MFedProx(3, 0.9), (0.5, 1.5)),
        ("M-AFA-CD", "exclude"): Case(MAFACD(3, 0.3), (0.85, 1.7)),
        ("M-AFA-CD", "literal"): Case(MAFACD(3, 0.3, **literal), (0.7, 1.4)),
        ("M-FedNova", "printed"): Case(MFedNova(SIZES, 0.5), (1 - 3 / 16, 2 - 1 / 16)),
        ("M-FedNova", "true"): Case(MFedNova(SIZES, form="true"), (1 - 21 / 32, 2 - 7 / 16)),
        ("M-FedDisco", "exclude"): Case(MFedDisco(3), (0.25, 1.75), np.array([0.6, 0.2])),
    }


def rounds() -> Rounds:
    """Compute every case with the library, then a round that nobody joins, and compare."""
    work, nobody = LocalWork([0, 1], [2, 1], RATE), LocalWork([2], [0], RATE)
    w, sent = torch.tensor(MODEL), torch.tensor(SENT)
    known, rows = cases(), []
    checked: dict[str, dict[str, bool]] = {}
    for (name, form), (rule, expected, weights) in known.items():
        got = rule(w, sent, weights, work)
        alone = None if weights is None else np.array([0.2])
        idle = rule(got, torch.zeros(1, 2), alone, nobody)
        checked.setdefault(name, {})[form] = _close(got, expected)
        checked[name][f"{form}, nobody joins"] = bool(torch.equal(idle, got))
        rule_name = "FedNova" if form == "true" else name
        rows.append((rule_name, FORMS[form], _shown(expected), _shown(got)))
    checked["M-AFA-CD"]["stale"] = _stale(known["M-AFA-CD", "exclude"].rule)
    checked["M-FedProx"]["local term"] = _close(pulled_client(), [0.5])
    checked["M-FedDisco"]["weights"] = _close(
        disco_weights(), [0.475 - 0.05 * 2**0.5, 0.225 - 0.1 * 2**0.5, 0.6]
    )
    moves = [np.subtract(known["M-FedNova", form].expected, MODEL) for form in ("printed", "true")]
    parallel = bool(abs(moves[0][0] * moves[1][1] - moves[0][1] * moves[1][0]) < 1e-9)
    table = pd.DataFrame(rows, columns=["rule", "form", "by hand", "sflkit"])
    return Rounds(table, checked, parallel)


def pulled_client() -> np.ndarray:
    """Return where M-FedProx's client ends, (1,): two steps at rate 1/4 on w^2 from w = 1, mu = 2.

    By hand: the first step is 1 - 1/4 (2) = 1/2. There the gradient of w^2 is 1, and mu times the
    distance from the global model is 2 (1/2 - 1) = -1, so that the client stays at 1/2.
    """
    square = federated.Task(torch.nn.Linear(1, 1, bias=False), loss="mse")
    sample = (torch.ones(1, 1), torch.zeros(1, 1))
    options = MFedProx(3, 2.0).local_options(LocalWork([0, 1], [2, 1], RATE))
    ended = federated.local_sgd(square, torch.ones(1), [[sample] * 2], 0.25, **options)
    return np.asarray(ended).ravel()


def disco_weights() -> np.ndarray:
    """Return M-FedDisco's weights (83) of three clients, (3,), at a = 0.2 and b = 0.1.

    By hand: labels (3, 1), (1, 0), (2, 2) lie sqrt 2 / 4, sqrt 2 / 2 and 0 from even shares, and
    the weights are 3/8 - 0.2 sqrt 2 / 4 + 0.1, 1/8 - 0.2 sqrt 2 / 2 + 0.1 and 1/2 + 0.1.
    """
    apart = scores.label_discrepancy([[3, 1], [1, 0], [2, 2]])
    return scores.disco_weights(SIZES, apart, a=0.2, b=0.1)


def evidence(found: Rounds, needs: pd.DataFrame) -> dict[str, dict[str, Any]]:
    """Return the parts that are judged by hand, artefact -> part -> what the part's rule takes.

    Parameters
    ----------
    found : Rounds
    needs : DataFrame
        `private_needs` of the six rules of the paper.
    """
    parts: dict[str, dict[str, Any]] = {
        artefact: {"by_hand": found.checked[name]} for artefact, name in ARTEFACTS.items()
    }
    parts["osafl-alg8"] |= {
        "same_direction": found.same_direction,
        "true_rule": found.checked["M-FedNova"]["true"],
    }
    labels = RULES.labels()
    without = needs.loc[["osafl", "m_fedavg", "m_fedprox", "m_afa_cd"]]
    parts["osafl-private"] = {
        "m_fednova": bool(needs.loc["m_fednova", "sizes"]),
        "m_feddisco": {name: bool(needs.loc["m_feddisco", name]) for name in ("sizes", "labels")},
        "others": {labels[rule]: not row.any() for rule, row in without.iterrows()},
    }
    return parts


def _stale(rule: RoundRule) -> bool:
    """Client 2 joins alone with d_2 = (2, 0); d_0 = (1, 0) and d_1 = (0, 2) still count.

    From w = (1, 2) at rate 0.3 that is w - 0.3 (3, 2) / 3.
    """
    late = rule(torch.tensor(MODEL), torch.tensor([[-1.0, 0.0]]), None, LocalWork([2], [1], RATE))
    return _close(late, [1 - 0.3 * 3 / 3, 2 - 0.3 * 2 / 3])


def _close(got: Any, expected: Any) -> bool:
    return bool(np.allclose(np.asarray(got), expected, atol=1e-6))


def _shown(model: Any) -> str:
    return "({:.4f}, {:.4f})".format(*(float(value) for value in model))


PRIVATE = ("sizes", "steps", "labels")
SENDS_GRADIENTS = ("osafl", "m_afa_cd", "m_fednova", "fednova")

# Three clients that all take part, two parameters, and another value of everything private. The
# labels differ in their distance from even shares, which is what M-FedDisco weighs.
_BEFORE = {"sizes": (3, 1, 4), "steps": (2, 1, 3), "labels": ((3, 1), (1, 0), (2, 2))}
_AFTER = {"sizes": (1, 2, 5), "steps": (1, 3, 2), "labels": ((2, 2), (3, 1), (4, 0))}
_SENT = ((1.0, 0.0), (0.0, 2.0), (1.0, 1.0))
_OPTIONS = {
    "n_clients": 3,
    "never_joined": "exclude",
    "global_rate": 2.0,
    "chi": 1.0,
    "mu": 0.1,
    "slowdown": 0.5,
    "a": 0.2,
    "b": 0.1,
}


def private_needs(rules: Iterable[str]) -> pd.DataFrame:
    """Return which private quantities the servers of `rules` need.

    Parameters
    ----------
    rules : names of `RULES` that train in a federation

    Returns
    -------
    DataFrame of booleans, one row per rule, columns `PRIVATE`
        True where the next model changes with the quantity although the clients send the same.
    """
    found = {}
    for rule in rules:
        before = _next_model(rule, **_BEFORE)
        found[rule] = {
            name: not np.allclose(before, _next_model(rule, **_BEFORE | {name: _AFTER[name]}))
            for name in PRIVATE
        }
    return pd.DataFrame.from_dict(found, orient="index", columns=list(PRIVATE))


def _next_model(rule: str, *, sizes: tuple, steps: tuple, labels: tuple) -> np.ndarray:
    """Return the model (2,) after a round in which the clients send `_SENT`."""
    given = _OPTIONS | {"sizes": np.array(sizes)}
    row = RULES[rule]
    server = row.build(**{name: given[name] for name in row.options})
    work = LocalWork([0, 1, 2], list(steps), 0.5)
    sent = torch.tensor(_SENT)
    if rule in SENDS_GRADIENTS:  # (16): the update is -eta kappa_u times what is sent
        sent = -0.5 * torch.tensor(steps)[:, None] * sent
    weights = server.round_weights(work, given["sizes"], lambda: np.array(labels))
    return server(torch.tensor([1.0, 2.0]), sent, weights, work).numpy()
