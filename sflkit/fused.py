"""Dense layers that take their SGD step within the backward pass, for models whose time goes into moving weights.

A plain step writes the gradient of a layer, reads it again, and reads and writes the weights. Here the last product of the
backward pass is added to the weights directly, w <- w - rate g' x, and no gradient exists.

This is right only for a weight that nothing else in the model uses, and for one backward pass a step. `fuse` leaves shared
weights alone; a layer that is called twice in a forward pass, or that sees a backward pass before the loss is there, raises
`Unfusable`, and autograd's own check raises when another operation needs the weight as it was. The back end then trains that
model step by step as any other.
"""

from __future__ import annotations

from collections import Counter
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from torch.nn import functional as F

# Numbers of a weight from which its step is fused. A layer of 3168 x 512 with batches of 32 gains: a round of the benchmark's W2
# took 0.98 s in place of 1.17, in two runs. Where exactly the gain begins to exceed the cost in Python was not measured.
_LEAST_NUMBERS = 2**18


class Unfusable(RuntimeError):
    """A layer was called more than once in a step, or differentiated before the loss."""


class _Step(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x: Tensor, weight: Tensor, bias: Tensor | None, layer: Dense) -> Tensor:
        ctx.layer = layer
        ctx.save_for_backward(x)  # autograd notices if it is changed in place; the weight must be free for the step
        return F.linear(x, weight, bias)

    @staticmethod
    def backward(ctx, gradient: Tensor):
        layer, (x,) = ctx.layer, ctx.saved_tensors
        if layer._calls != 1 or not layer._armed:
            raise Unfusable(f"a dense layer was called {layer._calls} times, or differentiated before the loss was there")
        weight = layer.weight.detach()  # shares the version counter: autograd notices if someone else needs the old values
        onward = gradient @ weight if ctx.needs_input_grad[0] else None
        weight.addmm_(gradient.t(), x, alpha=-layer._rate)
        layer._calls = 0  # a second backward pass raises
        return onward, None, None if layer.bias is None else gradient.sum(0), None


class Dense(nn.Linear):
    """nn.Linear whose weight takes its step in the backward pass while it has a rate; the bias gets a gradient as usual."""

    _rate: float | None = None
    _calls = 0
    _armed = False

    def forward(self, x: Tensor) -> Tensor:
        if self._rate is None or x.ndim != 2 or not torch.is_grad_enabled():
            return super().forward(x)
        self._calls += 1
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
    """Let the layers take steps of `rate`; yields a function to call with False before a forward and True before its backward."""

    def arm(backward: bool) -> None:
        for layer in layers:
            layer._armed = backward
            if not backward:
                layer._calls = 0

    try:
        for layer in layers:
            layer._rate = rate
        yield arm
    finally:
        for layer in layers:
            layer._rate = None
