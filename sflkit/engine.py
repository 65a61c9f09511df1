"""Local training of many clients from flat parameter vectors, and evaluation.

    task = Task(models.create("lenet", input_shape=(1, 28, 28), n_classes=10))
    w = task.init(seed=0)                                      # (P,)
    updates = local_sgd(task, w, [[(x0, y0)] * 2, [(x1, y1)] * 2], rate=0.1, updates=True)   # (2, P): two full-batch steps each
    w = w + updates.mean(0)                                    # FedAvg
    evaluate(task, w, x_test, y_test).accuracy

Local steps are plain SGD, SFL (3): w <- w - eta_L g. The arithmetic lives in `backends`: "pool" trains clients in parallel
worker threads, "stacked" trains all clients at once through torch.func.vmap. Both give the same answers to rounding.

| code        | symbol | shape          | meaning                                                              |
|-------------|--------|----------------|----------------------------------------------------------------------|
| params      | w      | (P,) or (C, P) | flat float32 parameters, in the order of `model.parameters()`        |
| batches     | L_t^k  | C lists        | per client the list of its local steps' (x, y) or (x, y, weights)    |
| rate        | eta_L  | () or (C,)     | local learning rate                                                  |
| prox        | mu     | ()             | FedProx: adds mu (w - w_start) to every gradient                     |
| corrections |        | (P,) or (C, P) | added to every gradient, as SCAFFOLD's c - c_k                       |
"""

from __future__ import annotations

import contextlib
import copy
import gc
import os
import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from sflkit import backends, checks
from sflkit.batches import Batch, Forward, convert

LOSSES = ("cross_entropy", "mse")
BACKENDS = ("auto", "pool", "stacked")
DEVICES = ("auto", "cpu", "cuda")
# Up to these sizes overhead outweighs arithmetic and one stacked call beats the workers. Measured for dense models with 10 and
# 50 clients on 2 cores of a busy machine (best time of pool over that of stacked): 25 450 parameters with batches of 40: 2.5;
# 50 890 with 20: 2.2 and 1.4; 101 770 with 10: 0.5 and 1.5; 7 850 with 150: 1.0 and 0.8; 210 with 2000: 0.6.
STACK_PARAMS = 50_000
STACK_BATCH = 100
_NOT_STACKABLE = ("backend='stacked' cannot train this model, which torch.func.vmap does not take (recurrent layers, decisions "
                  "by values, changes in place); use 'pool' or 'auto'")
_seed_lock = threading.Lock()


class Evaluation(NamedTuple):
    """Mean loss and share of correct predictions; arrays (C,) when the parameters were (C, P). NaN accuracy for a regression."""

    loss: float | np.ndarray
    accuracy: float | np.ndarray


class Task:
    """A model and a loss: what local training needs beside parameters and data.

    Parameters
    ----------
    model : torch.nn.Module with float32 parameters, no buffers and no active dropout. It serves as a template and is copied;
        its weights are not read (see `init`).
    loss : "cross_entropy" (integer targets), "mse" (float targets shaped like the outputs), or a callable
        (outputs, targets) -> losses of shape (n_samples,), one per sample.

    Raises
    ------
    ValueError
        The model has buffers (batch normalisation: its running statistics are no parameters and differ between clients),
        dropout, no parameters, or parameters that are frozen or not float32; unknown loss.
    """

    def __init__(self, model: nn.Module, loss: str | Callable[[Tensor, Tensor], Tensor] = "cross_entropy"):
        if not isinstance(model, nn.Module):
            raise ValueError(f"model={model!r} must be a torch.nn.Module")
        if not callable(loss):
            checks.choice("loss", loss, LOSSES)
        buffers = [name for name, _ in model.named_buffers()]
        if buffers:
            raise ValueError(f"the model has buffers ({', '.join(buffers[:3])}), which a flat parameter vector does not carry; "
                             "use a model without them, for example GroupNorm in place of batch normalisation")
        for name, module in model.named_modules():
            if isinstance(module, nn.modules.dropout._DropoutNd) and module.p > 0:
                raise ValueError(f"the model has dropout ({name}, p={module.p}); training is deterministic here: set p=0")
        named = dict(model.named_parameters())
        if not named:
            raise ValueError("the model has no parameters")
        for name, p in named.items():
            if p.dtype != torch.float32 or not p.requires_grad:
                raise ValueError(f"parameter {name} has dtype {p.dtype} and requires_grad={p.requires_grad}; "
                                 "all parameters must be trainable float32")
        self.loss = loss
        self._template = copy.deepcopy(model).cpu()
        self.names = tuple(named)
        self.shapes = tuple(p.shape for p in named.values())
        self.sizes = tuple(p.numel() for p in named.values())
        self.n_params = sum(self.sizes)
        kinds = {type(m) for m in model.modules()}
        self.has_conv = any(issubclass(k, nn.modules.conv._ConvNd) for k in kinds)
        # The fused kernels of recurrent layers have no vmap rule; of other models it is found out in the first stacked call.
        self.stackable = not any(issubclass(k, nn.RNNBase) for k in kinds)
        self.fusable = True  # until a training call finds that it is not, see `sflkit.fused`
        self._reset_caches()

    def _reset_caches(self):
        self._replicas: dict[str, deque] = {}  # idle working copies of the model, by device
        self._forwards: dict[tuple, Forward] = {}  # what one sample's forward pass makes, by input shape and dtype
        self._traces: dict[tuple, object] = {}  # recorded stacked steps, by shapes

    def __getstate__(self):
        return {k: v for k, v in self.__dict__.items() if k not in ("_replicas", "_forwards", "_traces")}

    def __setstate__(self, state):
        self.__dict__.update(state)
        self._reset_caches()

    def init(self, seed: int) -> Tensor:
        """Return fresh parameters (P,), float32 on the CPU: every module's `reset_parameters()` under `seed`.

        The same seed gives the same vector; torch's global random state is left as it was. Raises ValueError on a
        seed outside [0, 2^63), or a module that holds parameters without `reset_parameters()`.
        """
        seed = checks.integer("seed", seed, 0, 2**63 - 1)
        model = copy.deepcopy(self._template)
        with _seed_lock, torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(seed)
            for name, module in model.named_modules():
                if hasattr(module, "reset_parameters"):
                    module.reset_parameters()
                elif module._parameters:
                    raise ValueError(f"module {name or 'root'} ({type(module).__name__}) holds parameters but has no "
                                     "reset_parameters(); give it one so that init(seed) can draw them")
        return nn.utils.parameters_to_vector(model.parameters()).detach().clone()

    def build(self, params: Tensor) -> nn.Module:
        """Return a copy of the model that holds `params` (P,), for use outside the engine. Raises ValueError on another shape."""
        flat = _parameters(self, params)
        if flat.ndim != 1:
            raise ValueError(f"params has shape {tuple(flat.shape)}; build takes one client's ({self.n_params},)")
        model = copy.deepcopy(self._template).to(flat.device)
        nn.utils.vector_to_parameters(flat.clone(), model.parameters())
        return model

    def sample_losses(self, outputs: Tensor, y: Tensor) -> Tensor:
        """Return the loss of each sample, shape (n_samples,)."""
        if callable(self.loss):
            return self.loss(outputs, y)
        if self.loss == "mse":
            losses = (outputs - y).square()
        else:  # written out, since under vmap it is a third of the operations of F.cross_entropy
            losses = -F.log_softmax(outputs, 1).gather(1, y.unsqueeze(1)).squeeze(1)
        return losses.flatten(1).mean(1) if losses.ndim > 1 else losses

    def mean_loss(self, outputs: Tensor, y: Tensor, weights: Tensor | None = None) -> Tensor:
        """Return the mean loss, or sum(w l) / sum(w) with sample weights w."""
        if weights is not None:
            return (self.sample_losses(outputs, y) * weights).sum() / weights.sum()
        return F.cross_entropy(outputs, y) if self.loss == "cross_entropy" else self.sample_losses(outputs, y).mean()


def local_sgd(task: Task, params, batches: Sequence[Sequence[tuple]], rate, *, backend: str = "auto", device: str = "auto",
              threads: int | None = None, prox: float = 0.0, corrections=None, updates: bool = False,
              out: Tensor | None = None) -> Tensor:
    """Train every client by plain SGD from its parameters and return the new ones, or what changed.

    Parameters
    ----------
    task : the model and loss.
    params : (P,) start for all clients, or (C, P) one row a client; tensor or array, finite.
    batches : per client the list of its local steps, each (x, y) or (x, y, weights) with x (n, ...), y (n, ...) and weights
        (n,) >= 0: the step follows the gradient of the (weighted) mean loss of that batch. Lists may differ in length; an
        empty one returns the client's parameters unchanged. For full-batch steps repeat the same tuple: nothing is copied.
        Tensors are used as they are; arrays are converted. Inputs are not searched for NaN (a training step would not notice
        the cost, a call with thousands of small batches would); they end in NaN parameters, which the next call refuses.
    rate : learning rate > 0, one or (C,).
    backend : "pool", "stacked", or "auto": stacked on a GPU, and for small dense models with small batches (no convolution, at
        most `STACK_PARAMS` parameters and `STACK_BATCH` samples a step); else pool, also for models that torch.func.vmap cannot
        take, such as those that decide by the values of their inputs.
    device : "cpu", "cuda", or "auto": a GPU when there is one. Data already there are not moved.
    threads : upper bound on CPU threads; default torch's own number; `SFLKIT_THREADS` bounds either.
    prox : FedProx's mu >= 0; adds mu (w - w_start) to each gradient.
    corrections : (P,) or (C, P), added to each gradient.
    updates : return the clients' updates, new parameters minus `params`, which is what server rules take; cheaper than to
        subtract afterwards, with the same bits.
    out : (C, P) float32 tensor to fill, for callers that want to reuse the memory; on a CPU the first write to fresh memory
        costs as much as training a large layer. Must not overlap `params`.

    Returns
    -------
    (C, P) float32 tensor on the device of `params`. Same inputs, device and thread count: same bits.

    Raises
    ------
    ValueError
        A shape, label, rate or parameter that does not fit; the message names client and step.
    """
    flat = _parameters(task, params)
    if not isinstance(batches, Sequence) or isinstance(batches, (str, bytes)):
        raise ValueError(f"batches={type(batches).__name__} must be a list with one list of (x, y) per client")
    n = len(batches)
    if flat.ndim == 2 and len(flat) != n:
        raise ValueError(f"params has {len(flat)} rows but batches has {n} clients; they must agree")
    rates = checks.array("rate", rate, above=0.0)
    if rates.ndim == 0:
        rates = np.full(n, rates)
    if rates.shape != (n,):
        raise ValueError(f"rate has shape {rates.shape}; it must be one number or ({n},), one per client")
    prox = checks.real("prox", prox, 0.0)
    if corrections is not None:
        corrections = _parameters(task, corrections, "corrections")
        if corrections.ndim == 2 and len(corrections) != n:
            raise ValueError(f"corrections has {len(corrections)} rows but batches has {n} clients; they must agree")
    where = _device(device)
    with _collector_paused():
        steps = convert(task, batches, where)
    how = _backend(task, backend, where, steps)
    home = flat.device
    if out is None:
        result = torch.empty(n, task.n_params, device=where)
    elif not isinstance(out, Tensor) or out.shape != (n, task.n_params) or out.dtype != torch.float32 or not out.is_contiguous():
        raise ValueError(f"out must be a contiguous float32 tensor of shape ({n}, {task.n_params})")
    else:
        result = out if out.device == where else torch.empty_like(out, device=where)
    work = (task, flat.to(where).expand(n, -1), steps, rates, prox,
            None if corrections is None else corrections.to(where).expand(n, -1), updates, result, thread_count(threads))
    if how == "pool" or not _stacked(task, backend, work):
        backends.pool(*work)
    if out is not None and result is not out:
        out.copy_(result)
        return out
    return result.to(home) if out is None else result


def evaluate(task: Task, params, x, y, *, weights=None, batch_size: int = 500, device: str = "auto",
             threads: int | None = None) -> Evaluation:
    """Return mean loss and accuracy on (x, y), in inference mode.

    Parameters
    ----------
    params : (P,), or (C, P) for C models on the same data.
    weights : (n,) sample weights >= 0, not all 0, of any sum: loss and accuracy become weighted means. A sample of weight 0
        has no influence, even if its loss is not finite. None counts every sample once.
    batch_size : samples per forward pass; changes memory and rounding, not the result.

    Returns
    -------
    Evaluation(loss, accuracy) : floats, or float64 arrays (C,). Accuracy is the (weighted) share of samples whose largest
        output is the target, NaN for "mse" and for a callable loss on non-integer targets.

    Raises ValueError on a shape, label, weight, batch size or device that does not fit.
    """
    flat = _parameters(task, params, finite=False)
    batch_size = checks.integer("batch_size", batch_size, 1)
    where = _device(device)
    batch = convert(task, [[(x, y)]], where)[0][0]
    if weights is not None:
        weights = checks.array("weights", weights.cpu() if isinstance(weights, Tensor) else weights, low=0.0)
        if weights.shape != (batch.n,) or not weights.any():
            raise ValueError(f"weights of shape {weights.shape} must be ({batch.n},), one per sample, >= 0, not all 0")
        weights = torch.from_numpy(weights / weights.max()).to(where)  # by the largest first: the sum may overflow
    rows = flat.to(where).reshape(-1, task.n_params)
    loss, accuracy = backends.evaluate(task, rows, batch, batch_size, thread_count(threads), weights)
    return Evaluation(loss, accuracy) if flat.ndim == 2 else Evaluation(float(loss[0]), float(accuracy[0]))


def thread_count(threads: int | None = None) -> int:
    """Return the CPU threads to use: `threads` or torch's number, at most the environment's `SFLKIT_THREADS`.

    Warns where `threads` is more than the cores. Raises ValueError unless either is an integer >= 1.
    """
    count = torch.get_num_threads() if threads is None else checks.workers("threads", threads)
    bound = os.environ.get("SFLKIT_THREADS", "").strip()
    if bound:
        if not bound.isdecimal() or int(bound) < 1:
            raise ValueError(f"SFLKIT_THREADS={bound!r} must be an integer >= 1")
        count = min(count, int(bound))
    return count


@contextlib.contextmanager
def _collector_paused():
    """Keep Python's garbage collector from walking all objects again and again while batches are made, none of which is garbage:
    with 10,000 clients it took half of a round."""
    paused = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if paused:
            gc.enable()


def _device(device: str) -> torch.device:
    checks.choice("device", device, DEVICES)
    if device == "cuda" and not torch.cuda.is_available():
        raise ValueError("device='cuda' but torch sees no GPU; use 'cpu' or 'auto'")
    return torch.device("cuda" if device != "cpu" and torch.cuda.is_available() else "cpu")


def _backend(task: Task, backend: str, device: torch.device, steps: list[list[Batch]]) -> str:
    checks.choice("backend", backend, BACKENDS)
    if backend == "stacked" and not task.stackable:
        raise ValueError(_NOT_STACKABLE)
    if backend != "auto":
        return backend
    if not task.stackable or len(steps) < 2:
        return "pool"
    if device.type == "cuda":
        return "stacked"
    largest = max((b.n for client in steps for b in client[:1]), default=0)
    small = not task.has_conv and task.n_params <= STACK_PARAMS and largest <= STACK_BATCH
    return "stacked" if small else "pool"


def _stacked(task: Task, backend: str, work: tuple) -> bool:
    """Train by the stacked back end; False where torch.func.vmap cannot take the model and the caller left the choice to us."""
    try:
        backends.stacked(*work)
    except RuntimeError as error:
        if isinstance(error, torch.OutOfMemoryError):
            raise
        if backend == "stacked":
            raise ValueError(_NOT_STACKABLE) from error
        task.stackable = False
        return False
    return True


def _parameters(task: Task, value, name: str = "params", finite: bool = True) -> Tensor:
    """Return `value` as float32 tensor (P,) or (C, P), or raise ValueError naming the first client with a non-finite entry."""
    try:
        flat = torch.as_tensor(value).detach()
    except (TypeError, ValueError, RuntimeError):
        raise ValueError(f"{name}={value!r} must be a tensor or an array of numbers") from None
    if flat.ndim not in (1, 2) or flat.shape[-1] != task.n_params:
        raise ValueError(f"{name} has shape {tuple(flat.shape)}; it must be ({task.n_params},) or (n_clients, {task.n_params})")
    flat = flat.to(torch.float32)
    # One sum finds any NaN or infinity in a single pass; only when it is off (also by overflow) look closer.
    if finite and not torch.isfinite(flat.sum()):
        bad = (~torch.isfinite(flat)).reshape(-1, task.n_params).any(1).nonzero()
        if len(bad):
            raise ValueError(f"{name} of client {int(bad[0])} hold NaN or infinite entries; they must be finite "
                             "(did training diverge? try a smaller rate)")
    return flat
