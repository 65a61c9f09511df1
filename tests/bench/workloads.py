"""The four workloads of the benchmark: what one federated round costs, from tiny models to
bandwidth- and FLOP-bound ones.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from sflkit import models


@dataclass(frozen=True)
class Workload:
    """One round: `clients` of `pool` clients take `steps` SGD steps of `batch` samples at `rate`;
    then the server averages.
    """

    name: str
    model: str
    options: dict
    input_shape: tuple[int, ...]
    n_classes: int
    clients: int
    pool: int
    steps: int
    batch: int  # samples per step
    full_batch: bool  # every step uses the same samples
    rate: float
    flops: float  # of the matrix products per sample, forward and backward

    def build(self) -> torch.nn.Module:
        return models.create(
            self.model, input_shape=self.input_shape, n_classes=self.n_classes, **self.options
        )

    def data(self, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor, list[list[torch.Tensor]]]:
        """Return x, y of all clients' samples, and each client's sample ids of each local step."""
        g = torch.Generator().manual_seed(seed)
        per_client = self.batch if self.full_batch else self.batch * self.steps
        n = self.pool * per_client
        x = torch.randn(n, *self.input_shape, generator=g)
        y = torch.randint(0, self.n_classes, (n,), generator=g)
        ids = torch.randperm(n, generator=g).view(self.pool, -1, self.batch)
        return x, y, [list(client) for client in ids]

    def participants(self, round_: int) -> list[int]:
        """Return the clients of a round: the next `clients` of the pool in turn."""
        return [(round_ * self.clients + i) % self.pool for i in range(self.clients)]


def _products(*layers: tuple[int, int]) -> float:
    """Multiply-adds count 2; the forward pass, the weight gradient and the input gradient cost the
    same, but the first layer needs no input gradient. `layers` are (weights, output positions).
    """
    return sum(
        2 * weights * places * (2 if i == 0 else 3) for i, (weights, places) in enumerate(layers)
    )


WORKLOADS = {
    "W1": Workload(
        "W1",
        "lenet",
        {},
        (1, 28, 28),
        10,
        10,
        10,
        2,
        300,
        True,
        0.05,
        _products(
            (6 * 25, 28 * 28), (16 * 6 * 25, 10 * 10), (400 * 120, 1), (120 * 84, 1), (84 * 10, 1)
        ),
    ),
    "W2": Workload(
        "W2",
        "mlp",
        {"hidden": (512, 256)},
        (3168,),
        100,
        100,
        100,
        5,
        32,
        False,
        0.05,
        _products((3168 * 512, 1), (512 * 256, 1), (256 * 100, 1)),
    ),
    "W3": Workload(
        "W3",
        "small_cnn",
        {},
        (1, 28, 28),
        10,
        5,
        300,
        10,
        10,
        False,
        0.01,
        _products((32 * 25, 28 * 28), (64 * 32 * 25, 14 * 14), (3136 * 512, 1), (512 * 10, 1)),
    ),
    "W4": Workload("W4", "linear", {}, (20,), 2, 50, 50, 5, 20, True, 0.05, _products((40, 1))),
}
