"""Working copies of a task's model: one for each thread that trains, fast on a CPU, loaded from and stored to flat vectors."""

from __future__ import annotations

import copy
from collections import deque
from contextlib import contextmanager
from itertools import pairwise

import torch
from torch import Tensor, nn

from sflkit.fused import fuse


class Replica:
    """A working copy of a task's model, whose parameters are loaded from and stored to rows of flat vectors."""

    def __init__(self, task, device: torch.device):
        self.module = copy.deepcopy(task._template).to(device)
        self.swaps, self.swapped = pool_before_relu(self.module), True
        if device.type == "cpu":
            self.module = self.module.to(memory_format=torch.channels_last)
        large = fuse(self.module) if device.type == "cpu" else []
        self.dense = large if task.fusable else []  # layers that take their step in the backward pass
        self.params = list(self.module.parameters())
        self.sizes, self.shapes = task.sizes, task.shapes

    def order(self, pool_first: bool) -> None:
        """Put pooling before its ReLU, or after it as in the task's model."""
        if pool_first != self.swapped:
            for layers, a, b in self.swaps:
                layers[a], layers[b] = layers[b], layers[a]
            self.swapped = pool_first

    def views(self, row: Tensor) -> list[Tensor]:
        return [v.view(s) for v, s in zip(row.split(self.sizes), self.shapes, strict=True)]

    @torch.no_grad()
    def load(self, row: Tensor) -> None:
        for p, v in zip(self.params, self.views(row), strict=True):
            p.copy_(v)

    @torch.no_grad()
    def store(self, row: Tensor, minus: Tensor | None = None) -> None:
        """Write the parameters to `row`, or their difference to `minus`."""
        if minus is None:
            for p, v in zip(self.params, self.views(row), strict=True):
                v.copy_(p)
        else:
            for p, v, m in zip(self.params, self.views(row), self.views(minus), strict=True):
                torch.sub(p, m, out=v)


def pool_before_relu(module: nn.Module) -> list[tuple[dict, str, str]]:
    """Swap each ReLU with the max pooling after it, and return (layers, name, name) of each swap.

    The bits stay the same, and the ReLU has a quarter of the numbers to see. That pays in training; without a backward pass it
    does not, as max pooling finds the zeros of a ReLU easier to sort. Only where plain sequences are all there is from the top,
    and where nobody looks on: what runs, and in which order, is known.
    """
    if type(module) is not nn.Sequential:
        return []
    layers, swaps = module._modules, []
    if any(m._forward_hooks or m._forward_pre_hooks or m._backward_hooks or m._backward_pre_hooks for m in layers.values()):
        return []
    for a, b in pairwise(list(layers)):
        if type(layers[a]) is nn.ReLU and type(layers[b]) is nn.MaxPool2d and not layers[b].return_indices \
                and layers[b].dilation == 1:  # with holes, a window may lie in the padding and hold -inf
            layers[a], layers[b] = layers[b], layers[a]
            swaps.append((layers, a, b))
    return swaps + [swap for layer in layers.values() for swap in pool_before_relu(layer)]


@contextmanager
def borrow(task, device: torch.device):
    """Lend an idle replica, so that each thread works on its own."""
    idle = task._replicas.setdefault(device.type, deque())
    try:
        replica = idle.pop()
    except IndexError:
        replica = Replica(task, device)
    try:
        yield replica
    finally:
        idle.append(replica)
