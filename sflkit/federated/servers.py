"""What the server does with the clients' updates, and what it asks of their local steps.

Sources: SFL, Section IV, (5)-(6) (FedAvg); FDS, Algorithm 1, line 13 and Appendix E, which compares
Li et al. 2020 (FedProx) and Karimireddy et al. 2020 (SCAFFOLD); Hsu et al. 2019 (FedAvgM); Reddi et
al. 2021, "Adaptive federated optimization", Algorithm 2 (FedAdam, FedYogi). An update is a client's
model difference after its local steps, w_k - w, one row of a stacked array `updates` (n_clients,
n_params); SFL's Delta_k is that difference over the local rate eta_L.

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
| momentum       | beta, beta_1    | ()                    | past in the running mean              |
| decay          | beta_2          | ()                    | past in the running squares           |
| floor          | tau             | ()                    | FedAdam, FedYogi: in the divisor      |

Arrays may be torch tensors (the usual case) or numpy arrays; the answer is of the kind of `params`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from sflkit import checks
from sflkit.federated.arrays import array_of
from sflkit.registry import Look, Registry, Rule


@dataclass(eq=False)
class LocalWork:
    """What the participants of one round do. All that a server rule may ask of it is checked here.

    Parameters
    ----------
    clients : tensor or array (n_clients,)
        Ids of the participants, distinct integers >= 0; kept as an int64 array.
    steps : tensor or array (n_clients,)
        Whole numbers of local steps, >= 0; kept as an int64 array.
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
        self.clients = _integers("work.clients", self.clients)
        self.steps = _integers("work.steps", self.steps)
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
    if work is None:
        raise ValueError("work=None; the rule needs the round's LocalWork(clients, steps, rate)")
    if len(work.clients) and work.clients.max() >= n_clients:
        raise ValueError(
            f"work.clients={work.clients.tolist()} must be integers in [0, {n_clients - 1}]"
        )
    if updates is not None and len(updates) != len(work.clients):
        raise ValueError(
            f"updates has {len(updates)} rows, but work names {len(work.clients)} clients; "
            "they must agree"
        )
    return work


def _integers(name: str, values: Any) -> np.ndarray:
    values = checks.array(name, array_of(values), ndim=1, low=0)
    return np.array([checks.integer(name, v) for v in values.tolist()], dtype=np.int64)


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


@dataclass(frozen=True)
class FedAvg:
    """The mean update times a global rate: w <- w + eta sum_k p_k (w_k - w).

    Without weights, p_k = 1/K. Source: SFL, (5)-(6).

    Parameters
    ----------
    global_rate : float
        eta > 0. SFL, Section VI, uses 1, which makes the new model the mean of the local ones.
    """

    global_rate: float = 1.0

    def __post_init__(self):
        checks.real("global_rate", self.global_rate, above=0.0)

    def local_options(self, work: LocalWork) -> dict[str, Any]:
        """Return no options: local steps are plain SGD."""
        return {}

    def __call__(
        self, params: Any, updates: Any, weights: Any = None, work: LocalWork | None = None
    ) -> Any:
        """Return the next global parameters (n_params,); ValueError on shapes that do not fit."""
        # ERRATA 2: (6) prints eta mean(Delta) without eta_L; the proof has eta eta_L mean(Delta),
        # and eta_L Delta = w_k - w.
        return params + self.global_rate * mean_update(params, updates, weights)


@dataclass(frozen=True)
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

    mu: float = 0.1
    global_rate: float = 1.0

    def __post_init__(self):
        checks.real("mu", self.mu, 0.0)
        checks.real("global_rate", self.global_rate, above=0.0)

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
    mean : tensor or array (n_params,), or None
        c; None stands for 0 before the first round.
    """

    def __init__(self, n_clients: int, shares: Any = None, global_rate: float = 1.0):
        self.n_clients = checks.integer("n_clients", n_clients, 1)
        equal = np.full(self.n_clients, 1 / self.n_clients)
        self.shares = checks.simplex("shares", equal if shares is None else shares, tol=1e-6)
        if len(self.shares) != self.n_clients:
            raise ValueError(
                f"shares has {len(self.shares)} entries; it must have n_clients={self.n_clients}"
            )
        self._average = FedAvg(global_rate)
        self.controls: dict[int, Any] = {}
        self.mean: Any = None

    def local_options(self, work: LocalWork) -> dict[str, Any]:
        """Return the corrections c - c_k, or nothing while all control variates are 0."""
        work = check_work(work, self.n_clients)
        if self.mean is None:
            return {}
        rows = [self.mean - self.controls.get(k, 0) for k in work.clients.tolist()]
        return {"corrections": torch.stack(rows) if _is_tensor(self.mean) else np.stack(rows)}

    def __call__(
        self, params: Any, updates: Any, weights: Any = None, work: LocalWork | None = None
    ) -> Any:
        """Return the next global parameters (n_params,); ValueError on a bad argument."""
        work = check_work(work, self.n_clients, updates)
        new = self._average(params, updates, weights)
        weights = np.ones(len(updates)) if weights is None else array_of(weights)
        if self.mean is None:
            self.mean = 0 * params
        mean = self.mean + 0  # the changes below all refer to the c of this round
        rows = zip(work.clients.tolist(), updates, weights, work.steps.tolist(), strict=True)
        for k, update, weight, steps in rows:
            if weight and steps:
                change = -update / (steps * work.rate) - self.mean  # c_k+ - c_k
                self.controls[k] = self.controls.get(k, 0) + change
                mean += float(self.shares[k]) * change
        self.mean = mean
        return new


class FedAvgM:
    """FedAvg with a running sum of the mean updates Delta: m <- beta m + Delta, w <- w + eta m.

    Source: Hsu et al. 2019, Section 3; Reddi et al. 2021, Section 5 (SGD with momentum as the
    server's optimiser). The sum starts at 0, so that the first round is FedAvg's; updates that
    stay the same end in steps 1 / (1 - beta) times as long.

    Parameters
    ----------
    momentum : float
        beta in [0, 1); both papers use 0.9. With 0 it is FedAvg.
    global_rate : float
        eta > 0.
    """

    def __init__(self, momentum: float = 0.9, global_rate: float = 1.0):
        self.momentum = checks.real("momentum", momentum, 0.0, below=1.0)
        self.global_rate = checks.real("global_rate", global_rate, above=0.0)
        self._sum: Any = 0

    def local_options(self, work: LocalWork) -> dict[str, Any]:
        """Return no options: local steps are plain SGD."""
        return {}

    def __call__(
        self, params: Any, updates: Any, weights: Any = None, work: LocalWork | None = None
    ) -> Any:
        """Return the next global parameters (n_params,); ValueError on shapes that do not fit."""
        self._sum = self.momentum * self._sum + mean_update(params, updates, weights)
        return params + self.global_rate * self._sum


class FedAdam:
    """The mean update Delta, smoothed, and scaled entry by entry by its running squares.

    Source: Reddi et al. 2021, Algorithm 2: m <- beta_1 m + (1 - beta_1) Delta,
    v <- beta_2 v + (1 - beta_2) Delta^2, w <- w + eta m / (sqrt(v) + tau). m starts at 0 and v at
    tau^2, the least that the algorithm allows. As there, and unlike in Adam, neither is corrected
    for its start, so that the first steps are short.

    Parameters
    ----------
    global_rate : float
        eta > 0; about the length of a step in each entry, so that 1 is far too much. The paper
        tunes it for each task, from 10^-2.5 to 10^0.5; the default is ours.
    momentum, decay : float
        beta_1 and beta_2 in [0, 1); the paper uses 0.9 and 0.99.
    floor : float
        tau > 0; the paper mostly uses 10^-3. Entries far below it are not scaled up.
    """

    def __init__(
        self,
        global_rate: float = 0.03,
        momentum: float = 0.9,
        decay: float = 0.99,
        floor: float = 1e-3,
    ):
        self.global_rate = checks.real("global_rate", global_rate, above=0.0)
        self.momentum = checks.real("momentum", momentum, 0.0, below=1.0)
        self.decay = checks.real("decay", decay, 0.0, below=1.0)
        self.floor = checks.real("floor", floor, above=0.0)
        self._mean: Any = 0
        self._squares: Any = None

    def local_options(self, work: LocalWork) -> dict[str, Any]:
        """Return no options: local steps are plain SGD."""
        return {}

    def next_squares(self, squares: Any, new: Any) -> Any:
        """Return the next v from the last one and Delta^2, both (n_params,)."""
        return self.decay * squares + (1 - self.decay) * new

    def __call__(
        self, params: Any, updates: Any, weights: Any = None, work: LocalWork | None = None
    ) -> Any:
        """Return the next global parameters (n_params,); ValueError on shapes that do not fit."""
        change = mean_update(params, updates, weights)
        if self._squares is None:
            self._squares = 0 * change**2 + self.floor**2
        self._mean = self.momentum * self._mean + (1 - self.momentum) * change
        self._squares = self.next_squares(self._squares, change**2)
        return params + self.global_rate * self._mean / (self._squares**0.5 + self.floor)


class FedYogi(FedAdam):
    """`FedAdam` whose running squares move towards the new ones by steps of their size.

    Source: Reddi et al. 2021, Algorithm 2: v <- v - (1 - beta_2) Delta^2 sign(v - Delta^2). Where
    FedAdam forgets a large Delta quickly once updates are small, here v falls slowly, and steps do
    not jump up. Parameters as `FedAdam`.
    """

    def next_squares(self, squares: Any, new: Any) -> Any:
        """Return the next v from the last one and Delta^2, both (n_params,)."""
        difference = squares - new
        sign = difference.sign() if _is_tensor(difference) else np.sign(difference)
        return squares - (1 - self.decay) * new * sign


RULES = Registry(
    "server rule",
    {
        "fedavg": Rule(FedAvg, "FedAvg", Look("#000000", "-"), ("global_rate",)),
        "fedprox": Rule(FedProx, "FedProx", Look("#0072B2", "--"), ("mu", "global_rate")),
        "scaffold": Rule(
            Scaffold, "SCAFFOLD", Look("#D55E00", "-."), ("n_clients", "shares", "global_rate")
        ),
        "fedavgm": Rule(FedAvgM, "FedAvgM", Look("#009E73", ":"), ("momentum", "global_rate")),
        "fedadam": Rule(
            FedAdam,
            "FedAdam",
            Look("#CC79A7", "-", "o"),
            ("global_rate", "momentum", "decay", "floor"),
        ),
        "fedyogi": Rule(
            FedYogi,
            "FedYogi",
            Look("#E69F00", "--", "s"),
            ("global_rate", "momentum", "decay", "floor"),
        ),
    },
)


def mean_update(params: Any, updates: Any, weights: Any = None) -> Any:
    """Return `weighted_average(updates, weights)`, which must fit the global parameters.

    Raises
    ------
    ValueError
        As `weighted_average`, or if `params` does not have the shape of one update.
    """
    mean = weighted_average(updates, weights)
    if params.shape != mean.shape:
        raise ValueError(
            f"params has shape {tuple(params.shape)}; the updates need {tuple(mean.shape)}"
        )
    return mean


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
    updates = updates if _is_tensor(updates) else np.asarray(updates)
    if updates.ndim != 2 or len(updates) == 0:
        raise ValueError(
            f"updates has shape {tuple(updates.shape)}; it must be (n_clients, n_params) with at "
            "least one client"
        )
    if _is_tensor(updates) and not updates.is_floating_point():
        updates = updates.double()
    if weights is None:
        return updates.mean(0)
    weights = checks.array("weights", array_of(weights), ndim=1, low=0.0)
    if len(weights) != len(updates) or not weights.sum() > 0:
        raise ValueError(
            f"weights={weights!r} must be {len(updates)} numbers >= 0, one per row of updates, "
            "not all 0"
        )
    used = np.flatnonzero(weights)
    shares = weights[used] / weights.sum()
    if not _is_tensor(updates):
        return shares @ updates[used]
    if len(used) < len(weights):
        updates = updates[torch.from_numpy(used).to(updates.device)]
    return torch.from_numpy(shares).to(updates) @ updates


def _is_tensor(value: Any) -> bool:
    return isinstance(value, Tensor)
