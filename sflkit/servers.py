"""What the server does with the clients' updates.

SFL Section IV, eqs. (5)-(6). An update is a client's model difference after its local steps, w_k - w, one row of a stacked
array `updates` (n_clients, n_params); SFL's Delta_k is that difference over the local rate eta_L.

| code        | symbol          | shape                 | meaning                                |
|-------------|-----------------|-----------------------|----------------------------------------|
| params      | w_t             | (n_params,)           | global model before the round          |
| updates     | eta_L Delta_t^k | (n_clients, n_params) | local model minus global model         |
| weights     |                 | (n_clients,)          | aggregation weights; default all equal |
| global_rate | eta             | ()                    | server's learning rate                 |

Arrays may be torch tensors (the usual case) or numpy arrays; the answer is of the kind of `params`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from sflkit import checks


class ServerRule(Protocol):
    """Bring your own server: anything callable as `rule(params, updates, weights=None) -> new params`.

    A rule gets the global parameters (n_params,), the stacked updates (n_clients, n_params) of the clients that took part,
    and their weights or None; it returns the next global parameters and changes none of its arguments. State that a rule
    keeps between rounds (momentum, control variates) lives in its object. For example, clipping every update to norm 1:

    >>> import torch
    >>> def clipped(params, updates, weights=None):
    ...     norms = updates.norm(dim=1, keepdim=True).clamp(min=1.0)
    ...     return params + weighted_average(updates / norms, weights)
    >>> clipped(torch.zeros(2), torch.tensor([[3.0, 4.0], [0.0, 0.0]]))
    tensor([0.3000, 0.4000])
    """

    def __call__(self, params, updates, weights=None): ...


@dataclass(frozen=True)
class FedAvg:
    """The mean update times a global rate: w <- w + eta sum_k p_k (w_k - w), with p_k = 1/K unless weights are given.

    Parameters
    ----------
    global_rate : eta > 0; SFL Section VI uses 1, which makes the new model the mean of the local ones.
    """

    global_rate: float = 1.0

    def __post_init__(self):
        checks.real("global_rate", self.global_rate, above=0.0)

    def __call__(self, params, updates, weights=None):
        # ERRATA 2: (6) prints eta mean(Delta) without eta_L; the proof has eta eta_L mean(Delta), and eta_L Delta = w_k - w.
        step = weighted_average(updates, weights)
        if params.shape != step.shape:
            raise ValueError(f"params has shape {tuple(params.shape)}; the updates need {tuple(step.shape)}")
        return params + self.global_rate * step


def weighted_average(updates, weights=None):
    """Return sum_k weights_k updates_k / sum_k weights_k, shape (n_params,).

    Parameters
    ----------
    updates : (n_clients, n_params), tensor or array, at least one row.
    weights : (n_clients,) finite, >= 0, not all zero; None means equal weights. A client of weight 0 has no influence, even
        if its update is not finite.

    Raises
    ------
    ValueError
        Wrong shapes, no client, or weights out of range.
    """
    if not isinstance(updates, Tensor):
        updates = np.asarray(updates)
    if updates.ndim != 2 or len(updates) == 0:
        raise ValueError(f"updates has shape {tuple(updates.shape)}; it must be (n_clients, n_params) with at least one client")
    if weights is None:
        return updates.mean(0)
    if isinstance(weights, Tensor):
        weights = weights.detach().cpu().numpy()
    weights = checks.array("weights", weights, ndim=1, low=0.0)
    if len(weights) != len(updates) or not weights.sum() > 0:
        raise ValueError(f"weights={weights!r} must be {len(updates)} numbers >= 0, one per row of updates, not all 0")
    used = np.flatnonzero(weights)
    shares = weights[used] / weights.sum()
    if len(used) < len(weights):
        updates = updates[used if isinstance(updates, np.ndarray) else torch.from_numpy(used).to(updates.device)]
    if isinstance(updates, Tensor):
        return torch.from_numpy(shares).to(updates) @ updates
    return shares @ updates
