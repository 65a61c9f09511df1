"""Dense layers that take their SGD step within the backward pass, for models whose time goes into moving weights.

A plain step writes the gradient of a layer, reads it again, and reads and writes the weights: for a layer of 3168 x 512 and a
batch of 32 that costs as much as the products. Here the last product of the backward pass is added to the weights directly,
w <- w - rate g' x, and no gradient exists.

This is right only for a weight that nothing else in the model uses. `fuse` leaves shared weights alone; a layer that is called
twice in a forward pass raises `Unfusable` before it changes anything else, and so does autograd's own check (a RuntimeError)
when another operation needs the weight as it was. The back end then trains that model step by step as any other.
"""

from __future__ import annotations

from collections import Counter
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from torch.nn import functional as F

# Numbers of a weight from which the saved traffic pays for a step of Python: 2 ms a client and step become 1.5 at 1.8 million,
# 0.1 ms stay 0.1 at 50 000.
_LEAST_NUMBERS = 2**18


class Unfusable(RuntimeError):
    """A layer was called more than once in one forward pass."""


class _Step(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x: Tensor, weight: Tensor, bias: Tensor | None, layer: Dense) -> Tensor:
        ctx.layer, ctx.x = layer, x
        return F.linear(x, weight, bias)

    @staticmethod
    def backward(ctx, gradient: Tensor):
        layer, x = ctx.layer, ctx.x
        if layer.calls != 1:
            raise Unfusable(f"a dense layer was called {layer.calls} times in one forward pass")
        weight = layer.weight.detach()  # shares the version counter: autograd notices if someone else needs the old values
        onward = gradient @ weight if ctx.needs_input_grad[0] else None
        weight.addmm_(gradient.t(), x, alpha=-layer.rate)
        return onward, None, None if layer.bias is None else gradient.sum(0), None


class Dense(nn.Linear):
    """nn.Linear whose weight takes its step in the backward pass while `rate` is set; the bias gets a gradient as usual."""

    rate: float | None = None
    calls = 0

    def forward(self, x: Tensor) -> Tensor:
        if self.rate is None or x.ndim != 2 or not torch.is_grad_enabled():
            return super().forward(x)
        self.calls += 1
        return _Step.apply(x, self.weight, self.bias, self)


def fuse(module: nn.Module) -> list[Dense]:
    """Turn the large dense layers of `module`, in place, into `Dense` and return them; their parameters stay the same objects."""
    uses = Counter(id(p) for m in module.modules() for p in m._parameters.values() if p is not None)
    large = [m for m in module.modules() if type(m) is nn.Linear and m.weight.numel() >= _LEAST_NUMBERS
             and uses[id(m.weight)] == 1]
    for layer in large:
        layer.__class__ = Dense
    return large


@contextmanager
def stepping(layers: list[Dense], rate: float):
    """Let the layers take steps of `rate` in backward passes; yields a function to call before every forward pass."""

    def begin() -> None:
        for layer in layers:
            layer.calls = 0

    try:
        for layer in layers:
            layer.rate = rate
        yield begin
    finally:
        for layer in layers:
            layer.rate = None
