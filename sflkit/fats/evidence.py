"""From enumerations, simulations and formulas to the evidence that FATS's claims are judged by.

Notebooks 40 and 41 show what these functions return, and `sflkit.fats.claims` judges it. The
notation is that of `sflkit.fats.history`; `Sizes` are the keywords of `draw_history` without rng.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import numpy as np

from sflkit.fats import enumeration

Sizes = Mapping[str, Any]
# One draw of one client and one sample, of two clients with two samples each.
TINY: Sizes = {
    "n_clients": 2,
    "samples_per_client": 2,
    "clients_per_round": 1,
    "batch_size": 1,
    "local_steps": 1,
    "rounds": 1,
}


def restart_distances() -> dict[str, Fraction]:
    """Return the distance to retraining of the two readings of which model a restart loads.

    One client of three samples makes two steps with b = 1; a model is the list of samples that it
    has seen. After a hit at the second step "printed" loads the model after that step, as lines 4-6
    of Algorithm 1 say, and "from before" the one that it started from. Source: FATS, ERRATA 18.
    """
    sizes = dict(TINY, n_clients=1, samples_per_client=3, local_steps=2)
    laws: dict[str, dict[tuple, tuple]] = {"printed": {}, "from before": {}}
    for p, history in enumeration.drawn_law(**sizes).values():
        steps, first = tuple(history.batches.ravel().tolist()), history.first_use(0, 0)
        for name, law in laws.items():
            if first is None:
                models = [steps]
            elif first == (0, 0):  # the round begins with the global model, whatever is loaded
                models = [(one, other) for one in (1, 2) for other in (1, 2)]
            else:
                models = [(*(steps if name == "printed" else steps[:1]), new) for new in (1, 2)]
            for model in models:
                law[model] = (law.get(model, (0,))[0] + p / len(models), None)
    goal = {(one, other): (Fraction(1, 4), None) for one in (1, 2) for other in (1, 2)}
    return {name: enumeration.total_variation(law, goal) for name, law in laws.items()}


def request_costs(sizes: Sizes, requests: int) -> dict[str, np.ndarray]:
    """Return what 1 to w requests cost on average, exactly, for clients and for samples.

    Requests come after training, each for another client, or for a sample of another client. The
    i-th client to leave finds M - i + 1 clients, and since forgetting is exact, the history of a
    run on these. Source: FATS, Theorem 7 and Section 5.3.1.

    Parameters
    ----------
    sizes : mapping
        As of `draw_history`; samples_per_client may be a mean.
    requests : int
        w in [1, M).

    Returns
    -------
    dict of arrays (w,)
        "client" and "sample": re-computations of requests one after another; with "_time": the
        steps that they repeat, in trainings; with "_once" and "_once_time": those of all requests
        at once.
    """
    m, k, r, e = (sizes[key] for key in ("n_clients", "clients_per_round", "rounds", "local_steps"))
    spare = 1 - sizes["batch_size"] / sizes["samples_per_client"]  # a step of the client spares it
    w, t, done = np.arange(1, requests + 1), np.arange(1, r + 1), np.arange(1, e + 1)
    left = m - w + 1  # clients that the i-th leaver finds
    client = 1 - (1 - 1 / left) ** (k * r)
    client_rounds = (1 - (1 - 1 / left[:, None]) ** (k * t)).sum(axis=1)
    together = 1 - (1 - w / m) ** (k * r)
    together_rounds = (1 - (1 - w[:, None] / m) ** (k * t)).sum(axis=1)
    whole = (1 - w / m * (1 - spare**e)) ** k  # a round spares w samples of different clients
    part = (1 - w[:, None] / m * (1 - spare**done)) ** k  # its first steps do
    at_once = 1 - whole**r
    steps = (1 - whole[:, None, None] ** (t[:, None] - 1) * part[:, None, :]).sum(axis=(1, 2))
    return {
        "client": np.cumsum(client),
        "client_time": np.cumsum(client_rounds) / r,
        "client_once": together,
        "client_once_time": together_rounds / r,
        "sample": w * at_once[0],
        "sample_time": w * steps[0] / (e * r),
        "sample_once": at_once,
        "sample_once_time": steps / (e * r),
    }
