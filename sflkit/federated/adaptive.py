"""Server rules that remember the updates of past rounds: FedAvgM, FedAdam, FedYogi.

Sources: Hsu et al. 2019 (FedAvgM); Reddi et al. 2021, "Adaptive federated optimization", Algorithm
2 (FedAdam, FedYogi). They treat the mean update of a round as an optimiser treats a gradient. Each
object keeps what it remembers, and serves one run.

| code        | symbol          | shape                 | meaning                           |
|-------------|-----------------|-----------------------|-----------------------------------|
| updates     | eta_L Delta_t^k | (n_clients, n_params) | local minus global model, y_k - x |
| global_rate | eta             | ()                    | server's learning rate            |
| momentum    | beta, beta_1    | ()                    | past in the running mean          |
| decay       | beta_2          | ()                    | past in the running squares       |
| floor       | tau             | ()                    | FedAdam, FedYogi: in the divisor  |

Arrays may be torch tensors (the usual case) or numpy arrays; the answer is of the kind of `params`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from torch import Tensor

from sflkit import checks
from sflkit.federated.aggregation import LocalWork, mean_update


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
        sign = difference.sign() if isinstance(difference, Tensor) else np.sign(difference)
        return squares - (1 - self.decay) * new * sign
