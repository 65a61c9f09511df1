"""What the server does with the clients' updates, and what it asks of their local steps.

Sources: SFL, Section IV, (5)-(6) (FedAvg); FDS, Algorithm 1, line 13 and Appendix E, which compares Li et al. 2020 (FedProx)
and Karimireddy et al. 2020 (SCAFFOLD). An update is a client's model difference after its local steps, w_k - w, one row of a
stacked array `updates` (n_clients, n_params); SFL's Delta_k is that difference over the local rate eta_L.

| code           | symbol          | shape                 | meaning                                                             |
|----------------|-----------------|-----------------------|---------------------------------------------------------------------|
| params         | w_t, x          | (n_params,)           | global model before the round                                       |
| updates        | eta_L Delta_t^k | (n_clients, n_params) | local model minus global model, y_k - x                             |
| weights        | p_k^(t)         | (n_clients,)          | aggregation weights of the round's participants; default all equal  |
| global_rate    | eta             | ()                    | server's learning rate                                              |
| work           | k, E_k, eta_L   | (n_clients,) and ()   | who trains, how many local steps, at which local rate               |
| mu             | mu              | ()                    | FedProx: each local gradient gets mu (y_k - x)                      |
| shares         | p_k             | (N,)                  | SCAFFOLD: clients' importance in the objective, on the simplex      |
| controls, mean | c_k, c          | (n_params,)           | SCAFFOLD: control variates of a client and of the server            |

Arrays may be torch tensors (the usual case) or numpy arrays; the answer is of the kind of `params`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor

from sflkit import checks
from sflkit.osafl.rules import (
    MFedProx,  # noqa: F401
)
from sflkit.osafl.scores import osafl_scores  # noqa: F401


class LocalWork(NamedTuple):
    """What the participants of one round do: client ids (U,), whole local steps of each (U,) >= 0, and the local rate > 0."""

    clients: np.ndarray
    steps: np.ndarray
    rate: float


class ServerRule(Protocol):
    """Bring your own server: an object with the two methods by which a run talks to it in every round.

        options = rule.local_options(work)                     # before: keywords for engine.local_sgd
        params = rule(params, updates, weights, work)          # after: the next global parameters

    `local_options` may hold `prox` (a number) and `corrections` (one row for each of work.clients). A rule gets the global
    parameters (n_params,), the stacked updates of work.clients, and their weights or None; it changes none of its arguments.
    State that a rule keeps between rounds (momentum, control variates) lives in its object. Derive from `FedAvg` to change
    one of the two. `runs.datastreams.run(config, server=make)` trains with it: make(p) returns a rule for an arm whose clients
    have importance p. For example, clipping every update to norm 1:

    >>> import torch
    >>> class Clipped(FedAvg):
    ...     def __call__(self, params, updates, weights=None, work=None):
    ...         norms = updates.norm(dim=1, keepdim=True).clamp(min=1.0)
    ...         return super().__call__(params, updates / norms, weights)
    >>> Clipped()(torch.zeros(2), torch.tensor([[3.0, 4.0], [0.0, 0.0]]))
    tensor([0.3000, 0.4000])
    >>> from sflkit.runs import datastreams
    >>> config = datastreams.DataStreamsConfig(arms=("uniform",), rates=(0.1,), rounds=2)
    >>> len(datastreams.run(config, server=lambda p: Clipped()))
    1
    """

    def local_options(self, work: LocalWork) -> dict: ...

    def __call__(self, params, updates, weights=None, work: LocalWork | None = None): ...


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

    def local_options(self, work: LocalWork) -> dict:
        return {}

    def __call__(self, params, updates, weights=None, work: LocalWork | None = None):
        # ERRATA 2: (6) prints eta mean(Delta) without eta_L; the proof has eta eta_L mean(Delta), and eta_L Delta = w_k - w.
        step = weighted_average(updates, weights)
        if params.shape != step.shape:
            raise ValueError(f"params has shape {tuple(params.shape)}; the updates need {tuple(step.shape)}")
        return params + self.global_rate * step


@dataclass(frozen=True, init=False)
class FedProx(FedAvg):
    """FedAvg whose clients are held near the global model: local gradient + mu (y - x). Source: Li et al. 2020; FDS, App. E.

    Parameters
    ----------
    mu : >= 0; FDS uses 0.1; 0 is FedAvg bit for bit.
    global_rate : eta > 0.
    """

    mu: float = 0.1

    def __init__(self, mu: float = 0.1, global_rate: float = 1.0):
        object.__setattr__(self, "mu", checks.real("mu", mu, 0.0))
        super().__init__(global_rate)

    def local_options(self, work: LocalWork) -> dict:
        return {"prox": self.mu}


class Scaffold:
    """SCAFFOLD, option II: local gradients corrected by c - c_k, with control variates c_k of the clients and c of the server.

    Source: Karimireddy et al. 2020, Algorithm 1. After a round each participant with E_k > 0 local steps sets
    c_k+ = c_k - c + (x - y_k) / (E_k eta_L), its mean gradient over the round, and the server c += sum_k p_k (c_k+ - c_k).

    Their objective weighs the N clients equally, and c is the mean of the c_k. Here it is sum_k p_k f_k, so that c must be
    sum_k p_k c_k: then the corrections average to 0 under p, the aggregated direction stays an unbiased estimate of the
    objective's gradient, and the optimum is a fixed point. p is the importance in the objective, which does not depend on who
    takes part, unlike the weights of a round; equal shares give back |S|/N times the participants' mean change.

    All control variates start at 0, so the first round is FedAvg's. They take n_params numbers for every client that has
    taken part. A participant of weight 0 changes nothing, neither the model nor its control variate.

    Parameters
    ----------
    n_clients : N >= 1; client ids run from 0 to N - 1.
    shares : (N,) p on the simplex; None means 1/N each.
    global_rate : eta > 0.
    """

    def __init__(self, n_clients: int, shares=None, global_rate: float = 1.0):
        self.n_clients = checks.integer("n_clients", n_clients, 1)
        self.shares = checks.simplex("shares", np.full(n_clients, 1 / n_clients) if shares is None else shares, tol=1e-6)
        if len(self.shares) != self.n_clients:
            raise ValueError(f"shares has {len(self.shares)} entries; it must have n_clients={self.n_clients}")
        self._average = FedAvg(global_rate)
        self.controls: dict[int, Tensor | np.ndarray] = {}  # absent means 0
        self.mean: Tensor | np.ndarray | None = None  # None means 0

    def local_options(self, work: LocalWork) -> dict:
        """Return the corrections c - c_k of the participants, or nothing while all control variates are 0."""
        clients = self._check(work)
        if self.mean is None:
            return {}
        rows = [self.mean - self.controls.get(k, 0) for k in clients]
        return {"corrections": torch.stack(rows) if isinstance(self.mean, Tensor) else np.stack(rows)}

    def __call__(self, params, updates, weights=None, work: LocalWork | None = None):
        clients = self._check(work)
        new = self._average(params, updates, weights)
        if len(updates) != len(clients):
            raise ValueError(f"updates has {len(updates)} rows, but work names {len(clients)} clients; they must agree")
        weights = np.ones(len(clients)) if weights is None else _plain(weights)
        if self.mean is None:
            self.mean = 0 * params
        mean = self.mean + 0  # the changes below all refer to the c of this round
        for k, update, weight, steps in zip(clients, updates, weights, work.steps, strict=True):
            if weight and steps:
                change = -update / (float(steps) * work.rate) - self.mean  # c_k+ - c_k
                self.controls[k] = self.controls.get(k, 0) + change
                mean += float(self.shares[k]) * change
        self.mean = mean
        return new

    def _check(self, work: LocalWork | None) -> list[int]:
        if work is None:
            raise ValueError("work=None; SCAFFOLD needs the round's LocalWork(clients, steps, rate)")
        clients = [checks.integer("work.clients", k) for k in _plain(work.clients)]
        if len(set(clients)) != len(clients) or (clients and not 0 <= min(clients) <= max(clients) < self.n_clients):
            raise ValueError(f"work.clients={clients} must be distinct integers in [0, {self.n_clients - 1}]")
        steps = checks.array("work.steps", _plain(work.steps), ndim=1, low=0)
        if len(steps) != len(clients):
            raise ValueError(f"work.steps has {len(steps)} entries and work.clients {len(clients)}; they must agree")
        for k in steps:
            checks.integer("work.steps", float(k), 0)
        checks.real("work.rate", work.rate, above=0)
        return clients


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
    weights = checks.array("weights", _plain(weights), ndim=1, low=0.0)
    if len(weights) != len(updates) or not weights.sum() > 0:
        raise ValueError(f"weights={weights!r} must be {len(updates)} numbers >= 0, one per row of updates, not all 0")
    used = np.flatnonzero(weights)
    shares = weights[used] / weights.sum()
    if len(used) < len(weights):
        updates = updates[used if isinstance(updates, np.ndarray) else torch.from_numpy(used).to(updates.device)]
    if isinstance(updates, Tensor):
        return torch.from_numpy(shares).to(updates) @ updates
    return shares @ updates


def _plain(value) -> np.ndarray:
    """Return a tensor on any device, or anything else, as a numpy array."""
    return value.detach().cpu().numpy() if isinstance(value, Tensor) else np.asarray(value)
