"""What a server must know of its clients beside what they send for training.

Source: OSAFL, Section V-B.1 and Algorithms 2 and 6 to 10. A client sends its mean gradient (OSAFL,
M-AFA-CD, M-FedNova) or its local model. Whether the server also needs the sizes of the stores, the
numbers of local steps or the counts of the labels is found by trying: one of them changes, what is
sent stays, and the next model changes or does not.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pandas as pd
import torch

from sflkit.federated import LocalWork
from sflkit.osafl.rules import RULES

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
