"""The four workloads of the benchmark: what one federated round costs, from tiny models to
bandwidth- and FLOP-bound ones.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import torch

from sflkit import models


@dataclass(frozen=True)
class Workload:
    """One round: `clients` of `pool` clients take `steps` SGD steps of `batch` samples at `rate`;
    then the server averages. `full_batch`: every step uses the same samples. `layers` are the
    weights of each layer and the output positions that they are used at.
    """

    name: str
    model: str
    input_shape: tuple[int, ...]
    n_classes: int
    clients: int
    pool: int
    steps: int
    batch: int
    full_batch: bool
    rate: float = 0.05
    options: dict = field(default_factory=dict)
    layers: tuple[tuple[int, int], ...] = ()

    def build(self) -> torch.nn.Module:
        return models.create(
            self.model, input_shape=self.input_shape, n_classes=self.n_classes, **self.options
        )

    def data(self, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Return x, y of all clients' samples, and the ids of each local step's, (pool, steps or 1,
        batch).
        """
        g = torch.Generator().manual_seed(seed)
        n = self.pool * self.batch * (1 if self.full_batch else self.steps)
        x = torch.randn(n, *self.input_shape, generator=g)
        y = torch.randint(0, self.n_classes, (n,), generator=g)
        return x, y, torch.randperm(n, generator=g).view(self.pool, -1, self.batch)

    def participants(self, round_: int) -> list[int]:
        """Return the clients of a round: the next `clients` of the pool in turn."""
        return [(round_ * self.clients + i) % self.pool for i in range(self.clients)]

    def flops(self) -> float:
        """Return the operations of a round's matrix products.

        Multiply-adds count 2; the forward pass, the weight gradient and the input gradient cost the
        same, but the first layer needs no input gradient.
        """
        sample = sum(2 * w * places * (2 + (i > 0)) for i, (w, places) in enumerate(self.layers))
        return float(sample * self.clients * self.steps * self.batch)


_LENET = ((6 * 25, 784), (16 * 6 * 25, 100), (400 * 120, 1), (120 * 84, 1), (84 * 10, 1))
_MLP = ((3168 * 512, 1), (512 * 256, 1), (256 * 100, 1))
_CNN = ((32 * 25, 784), (64 * 32 * 25, 196), (3136 * 512, 1), (512 * 10, 1))
WIDE, IMAGE = {"hidden": (512, 256)}, (1, 28, 28)
WORKLOADS = {
    w.name: w
    for w in (
        Workload("W1", "lenet", IMAGE, 10, 10, 10, 2, 300, True, layers=_LENET),
        Workload("W2", "mlp", (3168,), 100, 100, 100, 5, 32, False, options=WIDE, layers=_MLP),
        Workload("W3", "small_cnn", IMAGE, 10, 5, 300, 10, 10, False, rate=0.01, layers=_CNN),
        Workload("W4", "linear", (20,), 2, 50, 50, 5, 20, True, layers=((40, 1),)),
    )
}
# 10,000 LeNets, whose float32 updates alone are 2.5 GB
MANY = Workload("10000 LeNets", "lenet", IMAGE, 10, 10_000, 10_000, 1, 10, True)
