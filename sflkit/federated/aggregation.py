"""What all server rules share: what they know of a round, and the mean of the updates.

An update is a client's model difference after its local steps, w_k - w, one row of a stacked array
(n_clients, n_params).

| code    | symbol          | shape                 | meaning                               |
|---------|-----------------|-----------------------|---------------------------------------|
| updates | eta_L Delta_t^k | (n_clients, n_params) | local minus global model, y_k - x     |
| weights | p_k^(t)         | (n_clients,)          | weights of the participants           |
| work    | k, E_k, eta_L   | (n_clients,) and ()   | participants, local steps, local rate |

Arrays may be torch tensors (the usual case) or numpy arrays.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from sflkit import checks
from sflkit.federated.arrays import array_of, finite_vector, numbers_of


@dataclass(eq=False)
class LocalWork:
    """What the participants of one round do. All that a server rule may ask of it is checked here.

    Parameters
    ----------
    clients : tensor or array (n_clients,)
        Ids of the participants, distinct integers >= 0; kept as a copy, an int64 array.
    steps : tensor or array (n_clients,)
        Whole numbers of local steps, >= 0; kept as a copy, an int64 array.
    rate : float
        The local rate, > 0.

    Raises
    ------
    ValueError
        If an entry is out of range or no integer, or the lengths disagree.
    """

    clients: np.ndarray
    steps: np.ndarray
    rate: float

    def __post_init__(self):
        clients, steps = array_of(self.clients), array_of(self.steps)
        self.clients = checks.integers("work.clients", clients, ndim=1, low=0).copy()
        self.steps = checks.integers("work.steps", steps, ndim=1, low=0).copy()
        self.rate = checks.real("work.rate", self.rate, above=0)
        if len(set(self.clients.tolist())) < len(self.clients):
            raise ValueError(f"work.clients={self.clients.tolist()} must be distinct integers")
        if len(self.steps) != len(self.clients):
            raise ValueError(
                f"work.steps has {len(self.steps)} entries and work.clients {len(self.clients)}; "
                "they must agree"
            )


def check_work(work: LocalWork | None, n_clients: int, updates: Any = None) -> LocalWork:
    """Return the round's `work` for a rule that keeps something for each of `n_clients` clients.

    Raises
    ------
    ValueError
        If `work` is None or names a client outside [0, n_clients - 1], or if `updates` is given and
        does not have one row for each participant.
    """
    if not isinstance(work, LocalWork):
        raise ValueError(
            f"work={work!r}; the rule needs the round's LocalWork(clients, steps, rate)"
        )
    n_clients = checks.integer("n_clients", n_clients, 1)
    if len(work.clients) and work.clients.max() >= n_clients:
        raise ValueError(
            f"work.clients={work.clients.tolist()} must be integers in [0, {n_clients - 1}], as "
            f"n_clients={n_clients}"
        )
    # a tensor tells its number of axes without a copy from its device
    if updates is not None and not np.ndim(
        updates if hasattr(updates, "ndim") else array_of(updates)
    ):
        raise ValueError(
            f"updates={checks.shown(updates)} must be an array with one row per participant"
        )
    if updates is not None and len(updates) != len(work.clients):
        raise ValueError(
            f"updates has {len(updates)} rows, but work names {len(work.clients)} clients; "
            "they must agree"
        )
    return work


def weighted_average(updates: Any, weights: Any = None) -> Any:
    """Return sum_k weights_k updates_k / sum_k weights_k, shape (n_params,).

    Parameters
    ----------
    updates : tensor or array (n_clients, n_params)
        At least one row. Integers are averaged as float64.
    weights : tensor or array (n_clients,), optional
        Finite, >= 0, not all zero; None means equal weights. A client of weight 0 has no influence,
        even if its update is not finite.

    Raises
    ------
    ValueError
        If a shape does not fit, there is no client, or a weight is out of range.
    """
    updates = numbers("updates", updates)
    if updates.ndim != 2 or len(updates) == 0:
        raise ValueError(
            f"updates has shape {tuple(updates.shape)}; it must be (n_clients, n_params) with at "
            "least one client"
        )
    if weights is None:
        return updates.mean(0)
    weights = checks.array("weights", array_of(weights), ndim=1, low=0.0)
    if len(weights) != len(updates) or not weights.sum() > 0:
        raise ValueError(
            f"weights={checks.shown(weights)} must be {len(updates)} numbers >= 0, one per row of "
            "updates, not all 0"
        )
    used = np.flatnonzero(weights)
    shares = weights[used] / weights.sum()
    if not isinstance(updates, Tensor):
        return shares @ updates[used]
    if len(used) < len(weights):
        updates = updates[torch.from_numpy(used).to(updates.device)]
    return torch.from_numpy(shares).to(updates) @ updates


def mean_update(params: Any, updates: Any, weights: Any = None) -> Any:
    """Return `weighted_average(updates, weights)`, which must fit the global parameters.

    An update that is not finite makes the mean so, and a run sees by it that it has diverged. The
    global parameters must be finite: those of a run that diverged are no start of a round.

    Raises
    ------
    ValueError
        As `weighted_average`, or if `params` is no tensor or array of the kind of the updates, does
        not have the shape of one update, or is not finite.
    """
    if not isinstance(params, (Tensor, np.ndarray)):
        raise ValueError(f"params={checks.shown(params)} must be a tensor or an array (n_params,)")
    if isinstance(params, np.ndarray) and isinstance(updates, Tensor):
        raise ValueError("params is an array and updates a tensor; both must be of one kind")
    mean = weighted_average(updates, weights)
    finite_vector("params", params)
    if params.shape != mean.shape:
        raise ValueError(
            f"params has shape {tuple(params.shape)}; the updates need {tuple(mean.shape)}"
        )
    return mean


def numbers(name: str, value: Any) -> Any:
    """Return a tensor or array of real floating-point numbers; integers become float64."""
    if isinstance(value, Tensor):
        value = numbers_of(name, value)
        real, floating = not value.is_complex(), value.is_floating_point()
    else:
        given, value = value, checks.values(name, value)
        real, floating = value.dtype.kind in "biuf", value.dtype.kind == "f"
        if value.dtype == object and not value.ndim:  # ragged, or no numbers
            said = checks.shown(given)
            raise ValueError(f"{name}={said} must be a tensor or an array of numbers")
    if not real:
        raise ValueError(f"{name} is of {value.dtype}; it must hold real numbers")
    if floating:
        return value
    return value.double() if isinstance(value, Tensor) else value.astype(float)
