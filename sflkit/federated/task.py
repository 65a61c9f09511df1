"""A learning task: a model and a loss, and all that the engine keeps for them between two calls.

    task = Task(models.create("lenet", input_shape=(1, 28, 28), n_classes=10))
    w = task.init(seed=0)                                               # (P,)

| code   | symbol | shape  | meaning                                                |
|--------|--------|--------|--------------------------------------------------------|
| params | w      | (P,)   | parameters, flat, in the order of `model.parameters()` |
| rows   |        | (C, P) | parameters of C clients                                |
| x, y   |        | (n, .) | inputs and targets of n samples                        |
"""

from __future__ import annotations

import copy
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.conv import _ConvNd
from torch.nn.modules.dropout import _DropoutNd
from torch.nn.modules.lazy import LazyModuleMixin

from sflkit import checks, torch_draws
from sflkit.federated.arrays import FINITE, NotFinite, first_not_finite, numbers_of
from sflkit.federated.recording import Programs
from sflkit.federated.replicas import Replica

LOSSES = ("cross_entropy", "mse")
DTYPES = (torch.float32, torch.float64)
_WITH_DROPOUT = (nn.RNNBase, nn.MultiheadAttention)  # they hold a share of dropout of their own


class Forward(NamedTuple):
    """What a model makes of one sample: its output's shape, how many numbers in all layers, and
    whether it makes the same of it beside another sample.
    """

    shape: torch.Size
    numbers: int
    alone: bool


class Task:
    """A model and a loss: what local training needs beside parameters and data.

    A task owns its working copies of the model and what it has found out about the model (the
    shapes of its outputs, whether clients can be stacked). All of this is made when it is first
    needed, is left out when a task is pickled, and may be used from many threads.

    Parameters
    ----------
    model : torch.nn.Module
        A model with trainable float32 parameters, no buffers and no active dropout. It serves as a
        template and is copied; its weights are not read, see `init`.
    loss : "cross_entropy", "mse", or callable
        "cross_entropy" takes integer targets, "mse" float targets shaped like the outputs. A
        callable maps (outputs, targets) to one loss a sample, shape (n_samples,), each from its
        own sample alone: the engine may hand it the samples of several clients in one call.
    dtype : torch.float32 or torch.float64
        The type of parameters, inputs, and arithmetic. float64 is for checks to many digits.

    Attributes
    ----------
    loss, dtype
        As given.
    names, shapes, sizes : tuple
        Name, shape and number of entries of each parameter, in the order of `model.parameters()`.
    n_params : int
        P, the number of all entries.
    programs : Programs
        What the back ends have recorded for this task.
    convolutional, recurrent : bool
        Whether the model has a convolution, or one of torch's recurrent layers.

    Raises
    ------
    ValueError
        If the model has buffers or batch normalisation (whose statistics are no parameters, and
        differ between clients and batches), dropout, lazy layers whose size is not known yet, no
        parameters, or parameters that are frozen or not float32; or if the loss or the type is
        unknown.
    """

    def __init__(
        self,
        model: nn.Module,
        loss: str | Callable[[Tensor, Tensor], Tensor] = "cross_entropy",
        dtype: torch.dtype = torch.float32,
    ):
        if not isinstance(model, nn.Module):
            raise ValueError(f"model={model!r} must be a torch.nn.Module")
        if not callable(loss):
            checks.choice("loss", loss, LOSSES)
        self.loss, self.dtype = loss, checks.choice("dtype", dtype, DTYPES)
        _check_model(model)
        named = dict(model.named_parameters())
        self._template = copy.deepcopy(model).cpu()
        self.names = tuple(named)
        self.shapes = tuple(p.shape for p in named.values())
        self.sizes = tuple(p.numel() for p in named.values())
        self.n_params = sum(self.sizes)
        self.convolutional = any(isinstance(m, _ConvNd) for m in model.modules())
        self.recurrent = any(isinstance(m, nn.RNNBase) for m in model.modules())
        self._begin()

    def _begin(self) -> None:
        """Make what belongs to one process, and is neither copied nor pickled."""
        self._idle: dict[str, deque[Replica]] = {}  # by kind of device
        self._forwards: dict[tuple, Forward] = {}  # by a sample's shape and type
        self._stackable: dict[tuple, bool] = {}  # likewise
        self.programs = Programs()

    def __getstate__(self) -> dict[str, Any]:
        kept = ("_idle", "_forwards", "_stackable", "programs")
        return {name: value for name, value in self.__dict__.items() if name not in kept}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._begin()

    def init(self, seed: int) -> Tensor:
        """Return fresh parameters (P,) on the CPU, by every module's `reset_parameters()`.

        The same seed gives the same vector, and torch's global random state is left as it was. The
        draws are made in float32 for either `dtype`, so that both start from the same numbers.

        Raises
        ------
        ValueError
            If `seed` is no integer in [0, 2^63), or a module holds parameters of its own but has no
            `reset_parameters()`.
        """
        seed = checks.integer("seed", seed, 0, 2**63 - 1)
        model = copy.deepcopy(self._template)
        with torch_draws.lock, torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(seed)
            for name, module in model.named_modules():
                if hasattr(module, "reset_parameters"):
                    module.reset_parameters()
                elif next(module.parameters(recurse=False), None) is not None:
                    raise ValueError(
                        f"module {name or 'root'} ({type(module).__name__}) holds parameters but "
                        "has no reset_parameters(); give it one so that init(seed) can draw them"
                    )
        flat = nn.utils.parameters_to_vector(model.parameters()).detach()
        return flat.to(self.dtype, copy=True)

    def build(self, params: Any) -> nn.Module:
        """Return a copy of the model that holds `params` (P,), for use outside the engine.

        Raises
        ------
        ValueError
            If `params` does not have the shape (P,), or is not finite.
        """
        flat = self.vectors("params", params)
        if flat.ndim != 1:
            raise ValueError(
                f"params has shape {tuple(flat.shape)}; build takes one client's ({self.n_params},)"
            )
        model = copy.deepcopy(self._template).to(flat.device, self.dtype)
        nn.utils.vector_to_parameters(flat.clone(), model.parameters())
        return model

    def sample_losses(self, outputs: Tensor, y: Tensor) -> Tensor:
        """Return the loss of each sample, shape (n_samples,)."""
        if callable(self.loss):
            return self.loss(outputs, y)
        if self.loss == "mse":
            losses = (outputs - y).square()
        else:
            losses = F.cross_entropy(outputs, y, reduction="none")
        return losses.flatten(1).mean(1) if losses.ndim > 1 else losses

    def mean_loss(self, outputs: Tensor, y: Tensor, weights: Tensor | None = None) -> Tensor:
        """Return the mean loss, or sum(w l) / sum(w) with sample weights w (n_samples,)."""
        if weights is not None:
            return (self.sample_losses(outputs, y) * weights).sum() / weights.sum()
        if self.loss == "cross_entropy":
            return F.cross_entropy(outputs, y)
        return self.sample_losses(outputs, y).mean()

    def vectors(self, name: str, value: Any, finite: bool = True) -> Tensor:
        """Return parameter vectors as a tensor (P,) or (C, P) of the task's type, after a check.

        Parameters
        ----------
        name : str
            What an error message calls them.
        value : tensor or array
            One vector, or one a client.
        finite : bool
            Whether NaN and infinite entries are refused.

        Raises
        ------
        ValueError
            If `value` has another shape or no numbers, or, where that is refused, entries that are
            not finite; the message names the first such client.
        """
        flat = numbers_of(name, value)
        if flat.ndim not in (1, 2) or flat.shape[-1] != self.n_params:
            raise ValueError(
                f"{name} has shape {tuple(flat.shape)}; it must be ({self.n_params},) or "
                f"(n_clients, {self.n_params})"
            )
        if flat.is_complex():  # its imaginary part would be lost without a word
            raise ValueError(f"{name} has dtype {flat.dtype}; it must hold real numbers")
        flat = flat.to(self.dtype)
        finite = checks.flag("finite", finite)
        bad = first_not_finite(flat.reshape(-1, self.n_params)) if finite else None
        if bad is not None:
            raise NotFinite(f"{name} of client {bad} hold NaN or infinite entries; they {FINITE}")
        return flat

    @contextmanager
    def replica(self, device: torch.device) -> Iterator[Replica]:
        """Lend a working copy of the model on `device`, so that each thread works on its own.

        The task keeps it for the next borrower. Its parameters are whatever the last one left.
        """
        idle = self._idle.setdefault(device.type, deque())
        try:
            replica = idle.pop()
        except IndexError:
            replica = Replica(copy.deepcopy(self._template).to(device, self.dtype))
        try:
            yield replica
        finally:
            idle.append(replica)

    def forward(self, x: Tensor) -> Forward:
        """Return what the model makes of one sample like those of `x` (n, ...).

        The model is tried out on the first sample, by itself and beside zeros, once for each shape
        and type of samples.

        Raises
        ------
        Exception
            The model's own, if it does not take such a sample.
        """
        key = (x.shape[1:], x.dtype)
        if key not in self._forwards:
            model, counts = copy.deepcopy(self._template).to(self.dtype), []

            def count(module: nn.Module, args: Any, output: Any) -> None:
                values = output if isinstance(output, tuple) else (output,)
                counts.extend(v.numel() for v in values if isinstance(v, Tensor))

            for module in model.modules():
                if next(module.children(), None) is None:
                    module.register_forward_hook(count)
            with torch.inference_mode():
                sample = x[:1].cpu()
                outputs = model(sample)
                numbers = sum(counts)
                beside = model(torch.cat([sample, torch.zeros_like(sample)]))[:1]
            alone = torch.allclose(outputs, beside, rtol=1e-3, atol=1e-5, equal_nan=True)
            self._forwards[key] = Forward(outputs.shape[1:], numbers, alone)
        return self._forwards[key]

    def stackable(self, x: Tensor) -> bool:
        """Return whether `torch.func.vmap` takes the model on samples like those of `x` (n, ...).

        Two models are tried out on the first sample, once for each shape and type of samples. An
        error means no: models that decide by the values of their inputs, or that write to tensors
        of their own making, cannot be stacked. Recurrent layers are not tried: their fast kernels
        have no rule in vmap, and what it does in their place is slow.
        """
        key = (x.shape[1:], x.dtype)
        if key not in self._stackable:
            self._stackable[key] = not self.recurrent and self._can_stack(x[:1])
        return self._stackable[key]

    def _can_stack(self, x: Tensor) -> bool:
        rows = torch.zeros(2, self.n_params, dtype=self.dtype, device=x.device, requires_grad=True)
        with self.replica(x.device) as replica, torch.enable_grad():
            try:
                replica.outputs(replica.views(rows), torch.stack([x, x]))
            except torch.OutOfMemoryError:
                raise
            except (RuntimeError, TypeError, ValueError):  # includes NotImplementedError
                return False
        return True


def _check_model(model: nn.Module) -> None:
    """Raise ValueError if the model cannot be a flat vector of parameters that alone decide.

    Batch normalisation is refused without buffers, too: a sample's output then depends on the other
    samples of its batch.
    """
    for name, module in model.named_modules():
        if isinstance(module, LazyModuleMixin) and module.has_uninitialized_params():
            kind = type(module).__name__
            raise ValueError(
                f"{name or 'the model'} is a {kind} of unknown size; give its input size"
            )
    buffers = [name for name, _ in model.named_buffers()]
    batch_norms = [name for name, m in model.named_modules() if isinstance(m, _BatchNorm)]
    if buffers or batch_norms:
        what = "buffers" if buffers else "batch statistics"
        raise ValueError(
            f"the model has {what} ({', '.join((buffers or batch_norms)[:3])}), which a flat "
            "parameter vector does not carry; use a model without them, for example GroupNorm in "
            "place of batch normalisation"
        )
    for name, module in model.named_modules():
        share = module.p if isinstance(module, _DropoutNd) else 0.0
        share = module.dropout if isinstance(module, _WITH_DROPOUT) else share
        if share > 0:
            raise ValueError(
                f"the model has dropout ({name}, p={share}); training is deterministic "
                "here: set p=0"
            )
    named = dict(model.named_parameters())
    if not named:
        raise ValueError("the model has no parameters")
    for name, p in named.items():
        if p.dtype != torch.float32 or not p.requires_grad:
            raise ValueError(
                f"parameter {name} has dtype {p.dtype} and requires_grad={p.requires_grad}; "
                "all parameters must be trainable float32"
            )
