"""Dense layers of the pool's working copies: oneDNN's matrix product, and steps taken within the backward pass.

The product. `F.linear` and `@` go to MKL, which on an AMD EPYC with AVX-512 reaches half of what oneDNN does with the same
float32 numbers (one thread, 32 samples, 3168 x 512 weights: 94 against 179 GFLOP/s). torch uses oneDNN for convolutions only, but
offers its product, too.

oneDNN compiles a kernel for every shape and keeps it, so that numbers of samples above 32 are rounded up to a multiple of 32 by
rows of zeros: 250 clients with as many sizes would cost 700 MB.

The step. A plain one writes the gradient of a layer, reads it again, and reads and writes the weights; for models whose time goes
into moving weights, the backward pass here changes them directly, w <- w - rate g' x, and no gradient is kept. This is right
only for a weight that nothing else in the model uses, and for one backward pass a step. `fuse` leaves shared weights alone; a
layer that is called twice in a forward pass, or that sees a backward pass before the loss is there, raises `Unfusable`, and
autograd's own check raises when another operation needs the weight as it was (it does not see uses of `weight.data`). The back
end then trains that model step by step as any other.
"""

from __future__ import annotations

import functools
import platform
from collections import Counter
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from torch.autograd import forward_ad
from torch.nn import functional as F

# Numbers of a weight from which its step is fused. A layer of 3168 x 512 with batches of 32 gains: a round of the benchmark's W2
# took 0.98 s in place of 1.17, in two runs. Where exactly the gain begins to exceed the cost in Python was not measured.
_LEAST_NUMBERS = 2**18
# Multiply-adds of a product from which oneDNN's saves more than a layer in Python costs. Three products of a pass, MKL against
# oneDNN, one thread: 1.6 million multiply-adds 130 us against 100, 4 million 270 against 175, 14 million 850 against 530.
_LEAST_PRODUCT = 2**21
# Samples from which a step is oneDNN's product and a subtraction in place of MKL's product added in place, which moves the
# weights once less. 3168 x 512, one of two busy threads: 10 samples 290 us (MKL) against 490, 64 samples 1950 against 1200. With
# 32 it is 950 against 760, but a whole round of W2 then took 0.77 s against 0.83: there the weights come from further away.
_LEAST_SAMPLES = 48
_ROWS = 32  # see above


class Unfusable(RuntimeError):
    """A layer was called more than once in a step, or differentiated before the loss."""


def _onednn():
    """Return oneDNN's product (x, w, b, ...) -> x w' + b; None where it is switched off, not offered, or the processor no x86."""
    return _offered() if torch.backends.mkldnn.enabled else None


@functools.cache
def _offered():
    if platform.machine().lower() not in ("x86_64", "amd64") or not torch.backends.mkldnn.is_available():
        return None
    try:  # not documented, so try it out; torch.compile's generated code calls it
        product = torch.ops.mkldnn._linear_pointwise
        x = torch.arange(6, dtype=torch.float32, device="cpu").view(2, 3)
        same = torch.equal(product(x, x, x[:, 0].contiguous(), "none", [], ""), F.linear(x, x, x[:, 0]))
    except (AttributeError, RuntimeError, TypeError):
        return None
    return product if same else None


def _product(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Return x weight' + bias for x (n, i) and weight (o, i)."""
    onednn = _onednn() if len(x) * weight.numel() >= _LEAST_PRODUCT else None
    return F.linear(x, weight, bias) if onednn is None else onednn(x, weight, bias, "none", [], "")


class _Linear(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        ctx.save_for_backward(x if ctx.needs_input_grad[1] else None, weight if ctx.needs_input_grad[0] else None)
        return _product(x, weight, bias)

    @staticmethod
    def backward(ctx, gradient: Tensor):
        # Where somebody will differentiate this gradient once more, oneDNN's product, which has no derivative, would be wrong.
        multiply, (x, weight) = F.linear if torch.is_grad_enabled() else _product, ctx.saved_tensors
        return (multiply(gradient, weight.t()) if ctx.needs_input_grad[0] else None,
                multiply(gradient.t(), x.t()) if ctx.needs_input_grad[1] else None,
                gradient.sum(0) if ctx.needs_input_grad[2] else None)


class _Step(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x: Tensor, weight: Tensor, bias: Tensor | None, layer: Dense) -> Tensor:
        ctx.layer = layer
        ctx.save_for_backward(x)  # autograd notices if it is changed in place; the weight must be free for the step
        return _product(x, weight, bias)

    @staticmethod
    def backward(ctx, gradient: Tensor):
        layer, (x,) = ctx.layer, ctx.saved_tensors
        if layer._calls != 1 or not layer._armed:
            raise Unfusable(f"a dense layer was called {layer._calls} times, or differentiated before the loss was there")
        weight = layer.weight.detach()  # shares the version counter: autograd notices if someone else needs the old values
        onward = _product(gradient, weight.t()) if ctx.needs_input_grad[0] else None
        if len(x) < _LEAST_SAMPLES:
            weight.addmm_(gradient.t(), x, alpha=-layer._rate)
        else:
            weight.sub_(_product(gradient.t(), x.t()), alpha=layer._rate)
        layer._calls = 0  # a second backward pass raises
        return onward, None, None if layer.bias is None else gradient.sum(0), None


class Dense(nn.Linear):
    """nn.Linear by oneDNN's product; its weight takes its step in the backward pass while the layer has a rate."""

    _rate: float | None = None
    _calls = 0
    _armed = False

    def forward(self, input: Tensor) -> Tensor:
        n = len(input)
        large = n * self._numbers >= _LEAST_PRODUCT  # first, since in a tiny model every look costs
        if not (large or self._rate is not None) or not self._plain(input):
            return super().forward(input)
        large = large and _onednn() is not None
        added = -n % _ROWS if large and n > _ROWS else 0
        x = F.pad(input, (0, 0, 0, added)) if added else input
        if not torch.is_grad_enabled():
            outputs = _product(x, self.weight, self.bias)
        elif self._rate is not None and not self.weight._backward_hooks:
            self._calls += 1
            outputs = _Step.apply(x, self.weight, self.bias, self)
        elif large:
            outputs = _Linear.apply(x, self.weight, self.bias)
        else:
            return super().forward(input)
        return outputs[:n] if added else outputs

    def _plain(self, x: Tensor) -> bool:
        """Whether this is what we have products and derivatives for: own parameters, dense float32 (n, i), no transformation."""
        return (x.ndim == 2 and x.dtype == torch.float32 and x.layout == torch.strided
                and self.weight is self._own[0] and self.bias is self._own[1]  # torch.func.functional_call puts others there
                and not torch._C._are_functorch_transforms_active() and forward_ad._current_level < 0
                and not torch.is_autocast_enabled("cpu"))


def fuse(module: nn.Module) -> list[Dense]:
    """Turn the dense layers of `module`, in place, into `Dense`, and return the large ones, which may step in the backward pass.

    Their parameters stay the same objects.
    """
    uses = Counter(id(p) for m in module.modules() for p in m._parameters.values() if p is not None)
    layers = [m for m in module.modules() if type(m) is nn.Linear]
    for layer in layers:
        layer.__class__ = Dense
        layer._own, layer._numbers = (layer.weight, layer.bias), layer.weight.numel()
    return [m for m in layers if m.weight.numel() >= _LEAST_NUMBERS and uses[id(m.weight)] == 1]


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
