"""The global model of a streaming-FL run and the round that trains it.

Source: SFL, Section IV-A, (2)-(6).

| code    | symbol | shape         | meaning                                           |
|---------|--------|---------------|---------------------------------------------------|
| params  | w_t    | (n_params,)   | the global model                                  |
| updates |        | (K, n_params) | local minus global model, eta_L Delta_t^k         |
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from sflkit import data, machine
from sflkit.federated import Evaluation, FedAvg, LocalWork, Task, evaluate, local_sgd
from sflkit.federated.own import build_server, local_options, network, next_params
from sflkit.randomness import generator, model_seed
from sflkit.sfl import protocol, sampling
from sflkit.sfl.config import SFLConfig
from sflkit.sfl.streams import LabelStream

# So many training samples are normalised at a time on their way to a GPU.
_PART = 4096


class Learner:
    """The global model of a run: `step` by round, `evaluate` where it is asked.

    Parameters
    ----------
    config : SFLConfig
    stream : LabelStream
        Its long-term shares, averaged over the clients, are those of the test set.
    source : Dataset
        Samples are taken from it as they are needed: on a CPU only the rows that the caches hold
        are ever normalised, because all of CIFAR takes 614 MB as float32. On a GPU they all lie in
        its memory.
    server, model : optional
        Your own server rule and network, see `sflkit.federated.own`; None takes FedAvg with the
        config's global rate, and builds the network that the config names.

    Raises
    ------
    ValueError
        If `server` or `model` is not what `sflkit.federated.own` asks for.
    """

    def __init__(
        self,
        config: SFLConfig,
        stream: LabelStream,
        source: data.Dataset,
        *,
        server: Callable | None = None,
        model: nn.Module | Callable | None = None,
    ):

        self.config = config
        self.source = source
        self.device = machine.device()
        self.resident = None
        if self.device.type != "cpu":
            x = resident_inputs(source, self.device)
            y = source.labels("train", np.arange(len(x)))
            self.resident = x, torch.from_numpy(y).to(self.device)
        width = config.width if config.model == "mobilenetv2" else None
        shape, n_classes = source.input_shape, source.n_classes
        self.task = Task(network(model, config.model, shape, n_classes, width=width))
        self.server = FedAvg(config.global_rate)
        if server is not None:
            shares = np.full(config.n_clients, 1 / config.n_clients)
            self.server = build_server(server, config, shares)
        self.test = self._test_set(stream.long_term.mean(axis=0))
        self.params = self.task.init(model_seed(config.seed)).to(self.device)

    def step(self, contents: protocol.Contents) -> None:
        """Train all clients on what their caches hold, and move the global model.

        Raises
        ------
        ValueError
            If the server rule asks for what local training does not know, or does not answer with
            parameters.
        """

        sizes, rate = np.asarray(contents.sizes, dtype=np.int64), self.config.local_rate
        work = LocalWork(np.arange(len(sizes)), self.config.local_steps * (sizes > 0), rate)
        options = local_options(self.server, work) | self._local_data(contents.ids, sizes)
        updates = local_sgd(self.task, self.params, rate=rate, updates=True, **options)
        self.params = next_params(self.server, self.params, updates, None, work)

    def is_finite(self) -> bool:
        """Return whether all parameters of the global model are finite."""
        return bool(self.params.isfinite().all())

    def evaluate(self) -> Evaluation:
        """Return loss and accuracy of the global model on the test set."""

        return evaluate(self.task, self.params, *self.test)

    def observe(self, names: tuple[str, ...], ids: np.ndarray) -> dict[str, np.ndarray]:
        """Return inputs and losses of training samples under the global model, as far as named."""
        x, y = self._samples(ids)
        seen = {"inputs": x.cpu().numpy()}
        if "losses" in names:
            with torch.no_grad():
                outputs = self.task.build(self.params)(x)
                seen["losses"] = self.task.sample_losses(outputs, y).cpu().numpy()
        return {name: seen[name] for name in names}

    def _test_set(self, shares: np.ndarray) -> tuple[Tensor, Tensor]:
        """Return inputs and labels of a test set with these label shares."""
        rng = generator(self.config.seed, "test_set")
        ids = sampling.draw_test_set(self.source.y_test, shares, self.config.test_size, rng)
        parts = self.source.inputs("test", ids), self.source.labels("test", ids)
        return tuple(torch.as_tensor(part).to(self.device) for part in parts)

    def _local_data(self, ids: np.ndarray, sizes: np.ndarray) -> dict[str, Any]:
        """Return the clients' local steps, by (3): E on the whole cache, none without samples."""
        if not len(ids):
            return {"batches": [[]] * len(sizes)}
        inside = np.arange(sizes.max()) < sizes[:, None]
        rows = np.full(inside.shape, -1)
        if self.resident is None:
            data, rows[inside] = self._samples(ids), np.arange(len(ids))
        else:
            data, rows[inside] = self.resident, ids
        shape = (len(sizes), self.config.local_steps, inside.shape[1])
        return {"data": data, "rows": np.broadcast_to(rows[:, None], shape)}

    def _samples(self, ids: np.ndarray) -> tuple[Tensor, Tensor]:
        """Return inputs and labels of training samples."""
        if self.resident is not None:
            rows = torch.from_numpy(ids).to(self.device)
            return self.resident[0][rows], self.resident[1][rows]
        x, y = self.source.inputs("train", ids), self.source.labels("train", ids)
        return torch.from_numpy(x), torch.from_numpy(y)


_resident: dict[tuple[str, torch.device], Tensor] = {}


def resident_inputs(source: data.Dataset, device: torch.device) -> Tensor:
    """Return all training inputs of a data set on `device`, (n_samples, channels, height, width).

    They are normalised in parts, so that the host never holds them all as float32. The runs of a
    sweep share those of one data set.
    """
    key = (source.digest, device)
    if key in _resident:
        return _resident[key]
    out = torch.empty((len(source.y_train), *source.input_shape), device=device)
    for first in range(0, len(out), _PART):
        part = np.arange(first, min(first + _PART, len(out)))
        out[first : first + _PART] = torch.from_numpy(source.inputs("train", part)).to(device)
    _resident.clear()
    _resident[key] = out
    return out
