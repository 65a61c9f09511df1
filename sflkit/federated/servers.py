"""What the server does with the clients' updates, and what it asks of their local steps.

Sources: SFL, Section IV, (5)-(6) (FedAvg); FDS, Algorithm 1, line 13 and Appendix E, which compares
Li et al. 2020 (FedProx) and Karimireddy et al. 2020 (SCAFFOLD). `RULES` lists these. An update is a
client's model difference after its local steps, w_k - w, one row of a stacked array `updates`
(n_clients, n_params); SFL's Delta_k is that difference over the local rate eta_L.

| code           | symbol          | shape                 | meaning                               |
|----------------|-----------------|-----------------------|---------------------------------------|
| params         | w_t, x          | (n_params,)           | global model before the round         |
| updates        | eta_L Delta_t^k | (n_clients, n_params) | local minus global model, y_k - x     |
| weights        | p_k^(t)         | (n_clients,)          | weights of the participants           |
| global_rate    | eta             | ()                    | server's learning rate                |
| work           | k, E_k, eta_L   | (n_clients,) and ()   | participants, local steps, local rate |
| mu             | mu              | ()                    | FedProx: gradients get mu (y_k - x)   |
| shares         | p_k             | (N,)                  | SCAFFOLD: importance, on the simplex  |
| controls, mean | c_k, c          | (n_params,)           | SCAFFOLD: control variates            |

Arrays may be torch tensors (the usual case) or numpy arrays. Numpy's are taken as tensors of their
own precision, and the answer is then an array where `params` is none; corrections are tensors.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from sflkit import checks
from sflkit.config import NotNegative, Positive, settings
from sflkit.federated.arrays import array_of, finite_vector, rows_of, weights_of
from sflkit.registry import Look, Registry, Rule


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
        for name in ("clients", "steps"):
            given = array_of(getattr(self, name))
            setattr(self, name, checks.integers(f"work.{name}", given, ndim=1, low=0).copy())
        self.rate = checks.real("work.rate", self.rate, above=0)
        if len(set(self.clients.tolist())) < len(self.clients):
            raise ValueError(f"work.clients={self.clients.tolist()} must be distinct integers")
        checks.shape("work.steps", self.steps, self.clients.shape, like="work.clients")


def check_work(work: LocalWork | None, n_clients: int, updates: Any = None) -> LocalWork:
    """Return the round's `work` for a rule that keeps something for each of `n_clients` clients.

    Raises
    ------
    ValueError
        If `work` is None or names a client outside [0, n_clients - 1], or if `updates` is given and
        does not have one row for each participant, for which it is asked for its shape alone.
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
    shape = () if updates is None else np.shape(updates)
    if updates is not None and tuple(shape[:1]) != work.clients.shape:
        raise ValueError(
            f"updates has {shape[0] if shape else 'no'} rows, but work names {len(work.clients)} "
            "clients; they must agree"
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
    rows = rows_of("updates", updates)
    if not len(rows):
        raise ValueError(f"updates has shape {tuple(rows.shape)}; it must have at least one client")
    if weights is None:
        mean = rows.mean(0)
    else:
        weights = weights_of(weights, (len(rows),), "updates")
        used = np.flatnonzero(weights)
        shares = torch.from_numpy(weights[used] / weights.sum())
        mean = shares.to(rows) @ (rows if len(used) == len(rows) else rows[used])
    return like(updates, mean)


def like(given: Any, value: Tensor) -> Any:
    """Return a tensor, or an array of its numbers where what was given is no tensor."""
    return value if isinstance(given, Tensor) else value.numpy()


class ServerRule(Protocol):
    """Bring your own server: an object with the two methods that a run calls in every round.

        options = rule.local_options(work)                     # before: keywords for `local_sgd`
        params = rule(params, updates, weights, work)          # after: the next global parameters

    `local_options` may hold `prox` (a number) and `corrections` (one row for each of
    work.clients). A rule gets the global parameters (n_params,), the stacked updates of
    work.clients, and their weights or None; it changes none of its arguments. What a rule keeps
    between rounds (momentum, control variates) lives in its object. Derive from `FedAvg` to change
    one of the two methods. For example, a rule that clips every update to norm 1:

    >>> import torch
    >>> class Clipped(FedAvg):
    ...     def __call__(self, params, updates, weights=None, work=None):
    ...         norms = updates.norm(dim=1, keepdim=True).clamp(min=1.0)
    ...         return super().__call__(params, updates / norms, weights)
    >>> Clipped()(torch.zeros(2), torch.tensor([[3.0, 4.0], [0.0, 0.0]]))
    tensor([0.3000, 0.4000])
    """

    def local_options(self, work: LocalWork) -> dict[str, Any]: ...

    def __call__(
        self, params: Any, updates: Any, weights: Any = None, work: LocalWork | None = None
    ) -> Any: ...


@settings
class FedAvg:
    """The mean update times a global rate: w <- w + eta sum_k p_k (w_k - w).

    Without weights, p_k = 1/K. Source: SFL, (5)-(6).

    Parameters
    ----------
    global_rate : float
        eta > 0. SFL, Section VI, uses 1, which makes the new model the mean of the local ones.
    """

    global_rate: Positive = 1.0

    def local_options(self, work: LocalWork) -> dict[str, Any]:
        """Return no options: local steps are plain SGD."""
        return {}

    def __call__(
        self, params: Any, updates: Any, weights: Any = None, work: LocalWork | None = None
    ) -> Any:
        """Return the next global parameters (n_params,).

        An update that is not finite makes them so, and a run sees by it that it has diverged.

        Raises
        ------
        ValueError
            As `weighted_average`, or if `params` is not finite, as those of a run that diverged, or
            does not have the shape of one update.
        """
        # ERRATA 2: (6) prints eta mean(Delta) without eta_L; the proof has eta eta_L mean(Delta),
        # and eta_L Delta = w_k - w.
        start = finite_vector("params", params)
        mean = weighted_average(rows_of("updates", updates), weights)
        checks.shape("params", start, tuple(mean.shape), like="each of updates")
        return like(params, start + self.global_rate * mean)


@settings
class FedProx:
    """FedAvg whose clients are held near the global model: the local gradient gets mu (y - x).

    Source: Li et al. 2020; FDS, Appendix E.

    Parameters
    ----------
    mu : float
        >= 0. FDS uses 0.1; with 0 it is FedAvg bit for bit.
    global_rate : float
        eta > 0.
    """

    mu: NotNegative = 0.1
    global_rate: Positive = 1.0

    def local_options(self, work: LocalWork) -> dict[str, Any]:
        """Return mu as the factor of the proximal term."""
        return {"prox": self.mu}

    def __call__(
        self, params: Any, updates: Any, weights: Any = None, work: LocalWork | None = None
    ) -> Any:
        """Return what `FedAvg` returns."""
        return FedAvg(self.global_rate)(params, updates, weights)


class Scaffold:
    """SCAFFOLD, option II: local gradients are corrected by c - c_k.

    Source: Karimireddy et al. 2020, Algorithm 1, with control variates c_k of the clients and c of
    the server. After a round each participant with E_k > 0 local steps sets c_k+ = c_k - c + (x -
    y_k) / (E_k eta_L), its mean gradient over the round, and the server c += sum_k p_k (c_k+ -
    c_k).

    Their objective weighs the N clients equally, and c is the mean of the c_k. Here it is
    sum_k p_k f_k, so that c must be sum_k p_k c_k: then the corrections average to 0 under p, the
    aggregated direction stays an unbiased estimate of the objective's gradient, and the optimum is
    a fixed point. p is the importance in the objective, which does not depend on who takes part,
    unlike the weights of a round; equal shares give back |S|/N times the participants' mean
    change.

    All control variates start at 0, so that the first round is FedAvg's. They take n_params numbers
    for every client that has taken part. A participant of weight 0 changes nothing, neither the
    model nor its control variate.

    Parameters
    ----------
    n_clients : int
        N >= 1; ids of clients run from 0 to N - 1.
    shares : array (N,), optional
        p on the simplex; 1/N each unless given.
    global_rate : float
        eta > 0.

    Attributes
    ----------
    controls : dict
        c_k by client; a client that is absent has 0.
    mean : Tensor (n_params,) or None
        c; None stands for 0 before the first round.
    """

    def __init__(self, n_clients: int, shares: Any = None, global_rate: float = 1.0):
        self.n_clients = checks.integer("n_clients", n_clients, 1)
        equal = np.full(self.n_clients, 1 / self.n_clients)
        shares = equal if shares is None else shares
        self.shares = checks.simplex("shares", shares, tol=1e-6).copy()
        checks.shape("shares", self.shares, (self.n_clients,))
        self._average = FedAvg(global_rate)
        self.controls: dict[int, Tensor] = {}
        self.mean: Tensor | None = None

    def local_options(self, work: LocalWork) -> dict[str, Any]:
        """Return the corrections c - c_k, or nothing while all control variates are 0."""
        work = check_work(work, self.n_clients)
        if self.mean is None:
            return {}
        rows = [self.mean - self.controls.get(k, 0) for k in work.clients.tolist()]
        return {"corrections": torch.stack(rows)}

    def __call__(
        self, params: Any, updates: Any, weights: Any = None, work: LocalWork | None = None
    ) -> Any:
        """Return the next global parameters (n_params,); ValueError on a bad argument."""
        start, updates = finite_vector("params", params), rows_of("updates", updates)
        work = check_work(work, self.n_clients, updates)
        new = self._average(start, updates, weights)
        weights = np.ones(len(updates)) if weights is None else array_of(weights)
        if self.mean is None:
            self.mean = 0 * start
        mean = self.mean + 0  # the changes below all refer to the c of this round
        rows = zip(work.clients.tolist(), updates, weights, work.steps.tolist(), strict=True)
        for k, update, weight, steps in rows:
            if weight and steps:
                change = -update / (steps * work.rate) - self.mean  # c_k+ - c_k
                self.controls[k] = self.controls.get(k, 0) + change
                mean += float(self.shares[k]) * change
        self.mean = mean
        return like(params, new)


RULES = Registry(
    "server rule",
    {
        "fedavg": Rule(FedAvg, "FedAvg", Look("#000000", "-"), ("global_rate",)),
        "fedprox": Rule(FedProx, "FedProx", Look("#0072B2", "--"), ("mu", "global_rate")),
        "scaffold": Rule(
            Scaffold, "SCAFFOLD", Look("#D55E00", "-."), ("n_clients", "shares", "global_rate")
        ),
    },
)
