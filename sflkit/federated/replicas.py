"""Working copies of a task's model, which the back ends load with parameters and train.

A model in torch carries its own parameters, so two threads cannot train one object for two clients.
Every thread borrows a `Replica` from its task (`Task.replica`), fills it from a row of a stacked
array of parameters, trains it, writes the new row, and gives the replica back for the next client.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn


class Replica:
    """A copy of a model whose parameters are loaded from, and stored to, rows of a flat array.

    Parameters
    ----------
    module : torch.nn.Module
        The copy, on its device. On a CPU the weights of its convolutions are put in channels_last
        order, in which oneDNN's convolutions are faster; rows of parameters keep torch's usual
        order.

    Attributes
    ----------
    params : list of Tensor
        The parameters in the order of `module.parameters()`.
    """

    def __init__(self, module: nn.Module):
        named = dict(module.named_parameters())
        self.on_cpu = next(iter(named.values())).device.type == "cpu"
        # A parameter that is used in several places has several names; `outputs` sets it in all.
        number = {id(p): i for i, p in enumerate(named.values())}
        every = module.named_parameters(remove_duplicate=False)
        self.places = {name: number[id(p)] for name, p in every}
        self.shapes = tuple(p.shape for p in named.values())
        self.sizes = tuple(p.numel() for p in named.values())
        self.module = module.to(memory_format=torch.channels_last) if self.on_cpu else module
        self.params = list(self.module.parameters())

    def views(self, rows: Tensor) -> list[Tensor]:
        """Return the parameters of one model (P,) or many (C, P) in their shapes, uncopied."""
        parts = zip(rows.split(self.sizes, -1), self.shapes, strict=True)
        return [part.view(*rows.shape[:-1], *shape) for part, shape in parts]

    @torch.no_grad()
    def load(self, row: Tensor) -> None:
        """Take the parameters of a flat row (P,), and drop what gradients an error left."""
        for p, value in zip(self.params, self.views(row), strict=True):
            p.copy_(value)
            p.grad = None

    @torch.no_grad()
    def store(self, row: Tensor, minus: Tensor | None = None) -> None:
        """Write the parameters to the flat row (P,), or their difference to the row `minus`."""
        if minus is None:
            for p, target in zip(self.params, self.views(row), strict=True):
                target.copy_(p)
        else:
            both = zip(self.params, self.views(row), self.views(minus), strict=True)
            for p, target, start in both:
                torch.sub(p, start, out=target)

    def inputs(self, x: Tensor) -> Tensor:
        """Return inputs in the memory order of the weights: images in channels_last on a CPU."""
        if x.ndim == 4 and self.on_cpu:
            return x.contiguous(memory_format=torch.channels_last)
        return x

    def outputs(self, parts: list[Tensor], x: Tensor, shared: bool = False) -> Tensor:
        """Return the outputs of many models at once, through `torch.func.vmap`.

        Parameters
        ----------
        parts : list of Tensor (C, ...)
            The parameters of all models, as `views` returns them; the replica's own are not used.
        x : Tensor (C, n, ...), or (n, ...) if `shared`
            Inputs of each model, or of all models.

        Returns
        -------
        Tensor (C * n, ...)
            The outputs, model by model.
        """

        def forward(x: Tensor, *one: Tensor) -> Tensor:
            params = {name: one[i] for name, i in self.places.items()}
            return torch.func.functional_call(self.module, params, (x,), tie_weights=False)

        dims = (None if shared else 0, *[0] * len(parts))
        return torch.func.vmap(forward, dims)(x, *parts).flatten(0, 1)
