"""The global models of streaming-FL runs and the round that trains them side by side.

Source: SFL, Section IV-A, (2)-(6).

| code    | symbol | shape                     | meaning                                           |
|---------|--------|---------------------------|---------------------------------------------------|
| params  | w_t    | (n_runs, n_params)        | the global models, one row per run                |
| start   | w_t    | (n_runs * K, n_params)    | its run's model for each client, run by run       |
| updates |        | (n_runs, K, n_params)     | local minus global model, eta_L Delta_t^k         |
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from sflkit import data, machine
from sflkit.randomness import generator, model_seed
from sflkit.sfl import protocol, sampling
from sflkit.sfl.clients import Clients

if TYPE_CHECKING:
    import torch
    from torch import Tensor, nn

    from sflkit.federated import Evaluation, LocalWork, ServerRule

# So many training samples are normalised at a time on their way to a GPU.
_PART = 4096


class Member(NamedTuple):
    """What a run has of its own in a batch of runs, beside its model.

    Attributes
    ----------
    server : ServerRule
    work : LocalWork
        The clients' work in a round in which every client holds a sample.
    test : tuple of two tensors
        Inputs and labels of the test set.
    """

    server: ServerRule
    work: LocalWork
    test: tuple[Tensor, Tensor]


class Learner:
    """The models of some runs. A round is `step`, then `keep_finite`; `evaluate` where it is asked.

    Parameters
    ----------
    clients : list of `clients.Clients`, one per run
        Their configs share model, sizes and number of steps.
    source : Dataset
        Samples are taken from it as they are needed: on a CPU only the rows that the caches hold
        are ever normalised, because all of CIFAR takes 614 MB as float32. On a GPU they all lie in
        its memory.
    server, model : optional
        Your own server rule and network, see `sflkit.federated.own`; None takes FedAvg with the
        config's global rate, and builds the network that the configs name.
    backend : str
        Of `federated.local_sgd`.

    Raises
    ------
    ValueError
        If `server` or `model` is not what `sflkit.federated.own` asks for.
    """

    def __init__(
        self,
        clients: Sequence[Clients],
        source: data.Dataset,
        *,
        server: Callable | None = None,
        model: nn.Module | Callable | None = None,
        backend: str = "auto",
    ):
        import torch

        from sflkit.federated import Task
        from sflkit.federated.own import build_model

        self.config = clients[0].config
        self.backend = backend
        self.source = source
        self.device = machine.device()
        self.resident = None
        if self.device.type != "cpu":
            self.resident = resident_inputs(source.name, source.digest, self.device)
        model = _named_model(self.config.model, self.config.width) if model is None else model
        self.task = Task(build_model(model, source.input_shape, source.n_classes))
        self.members = _members(clients, source, server, self.device)
        starts = [self.task.init(model_seed(run.config.seed)) for run in clients]
        self.params = torch.stack(starts).to(self.device)

    def step(self, contents: Sequence[protocol.Contents]) -> None:
        """Train all clients on what their caches hold, and move the global models.

        Parameters
        ----------
        contents : list of Contents, one per run that is still a member

        Raises
        ------
        ValueError
            If a server rule asks for what local training does not know, or does not answer with
            parameters.
        """
        import torch

        steps = self._local_steps(contents)
        n_clients = self.config.n_clients
        works = []
        for i, member in enumerate(self.members):
            own = steps[i * n_clients : (i + 1) * n_clients]
            works.append(member.work if all(own) else _work(map(len, own), member.work.rate))
        updates = self._train(steps, works)
        rows = zip(self.members, self.params, updates, works, strict=True)
        self.params = torch.stack([_moved(m.server, w, u, work) for m, w, u, work in rows])

    def keep_finite(self) -> list[bool]:
        """Drop the runs whose model is no longer finite; return of each whether it stays."""
        import torch

        finite = torch.isfinite(self.params).all(1)
        stays = finite.tolist()
        if not all(stays):
            self.params = self.params[finite]
            self.members = [m for m, ok in zip(self.members, stays, strict=True) if ok]
        return stays

    def evaluate(self) -> list[Evaluation]:
        """Return the Evaluation of each run.

        The models that share a test set go through it in one call.
        """
        from sflkit import federated

        results: list[Any] = [None] * len(self.members)
        for test in {id(member.test): member.test for member in self.members}.values():
            rows = [i for i, member in enumerate(self.members) if member.test is test]
            losses, accuracies = federated.evaluate(self.task, self.params[rows], *test)
            for i, loss, accuracy in zip(rows, losses, accuracies, strict=True):
                results[i] = federated.Evaluation(float(loss), float(accuracy))
        return results

    def _local_steps(self, contents: Sequence[protocol.Contents]) -> list[list[tuple]]:
        """Return each client's local steps, run by run; a client without samples has none."""
        import torch

        ids = np.concatenate([held.ids for held in contents])
        sizes = [size for held in contents for size in held.sizes]
        if self.resident is None:
            x = torch.from_numpy(self.source.inputs("train", ids))
        else:
            x = self.resident[torch.from_numpy(ids).to(self.device)]
        y = torch.from_numpy(self.source.labels("train", ids)).to(self.device)
        samples = zip(x.split(sizes), y.split(sizes), strict=True)
        # (3): E steps on the whole cache
        return [[batch] * self.config.local_steps if len(batch[1]) else [] for batch in samples]

    def _train(self, steps: list[list[tuple]], works: list[LocalWork]) -> list[Tensor]:
        """Return the updates (K, n_params) of each run.

        One call of `local_sgd` trains all runs, unless their server rules ask for different
        proximal terms, or some for corrections and others not.
        """
        from sflkit import federated

        n_clients = self.config.n_clients
        options = [_options(m.server, w) for m, w in zip(self.members, works, strict=True)]
        groups: dict[tuple, list[int]] = {}
        for i, asked in enumerate(options):
            groups.setdefault((asked.get("prox", 0.0), "corrections" in asked), []).append(i)
        updates: list[Any] = [None] * len(options)
        for (prox, corrected), runs in groups.items():
            start = self.params[runs] if len(groups) > 1 else self.params
            batches = [b for i in runs for b in steps[i * n_clients : (i + 1) * n_clients]]
            rates = np.repeat([works[i].rate for i in runs], n_clients)
            asked = {"prox": prox} if prox else {}
            if corrected:
                asked["corrections"] = _rows([options[i]["corrections"] for i in runs])
            trained = federated.local_sgd(
                self.task,
                start[:, None].expand(-1, n_clients, -1).flatten(0, 1),
                batches,
                rates,
                backend=self.backend,
                updates=True,
                **asked,
            )
            for i, rows in zip(runs, trained.unflatten(0, (-1, n_clients)), strict=True):
                updates[i] = rows
        return updates


@functools.lru_cache(maxsize=1)  # the runs of a sweep share one data set
def resident_inputs(name: str, digest: str, device: torch.device) -> Tensor:
    """Return all training inputs of a data set on `device`, (n_samples, channels, height, width).

    They are normalised in parts, so that the host never holds them all as float32. `digest` is that
    of the data set, so that one that changed is read again.
    """
    import torch

    source = data.load(name)
    out = torch.empty((len(source.y_train), *source.input_shape), device=device)
    for first in range(0, len(out), _PART):
        part = np.arange(first, min(first + _PART, len(out)))
        out[first : first + _PART] = torch.from_numpy(source.inputs("train", part)).to(device)
    return out


def _named_model(name: str, width: float) -> Callable:
    from sflkit import models

    options = {"width": width} if name == "mobilenetv2" else {}

    def build(input_shape: tuple[int, ...], n_classes: int) -> nn.Module:
        return models.create(name, input_shape=input_shape, n_classes=n_classes, **options)

    return build


def _members(
    clients: Sequence[Clients],
    source: data.Dataset,
    server: Callable | None,
    device: torch.device,
) -> list[Member]:
    import torch

    from sflkit.federated import FedAvg
    from sflkit.federated.own import build_server, check_not_shared

    members = []
    tests: dict[bytes, tuple] = {}
    for run in clients:
        config = run.config
        shares = run.stream.long_term.mean(axis=0)
        rng = generator(config.seed, "test_set")
        test = sampling.draw_test_set(source.y_test, shares, config.test_size, rng)
        if test.tobytes() not in tests:  # rules that are compared share one
            parts = source.inputs("test", test), source.labels("test", test)
            tests[test.tobytes()] = tuple(torch.as_tensor(part).to(device) for part in parts)
        if server is None:
            rule = FedAvg(config.global_rate)
        else:
            rule = build_server(server, config, np.full(config.n_clients, 1 / config.n_clients))
        work = _work([config.local_steps] * config.n_clients, config.local_rate)
        members.append(Member(rule, work, tests[test.tobytes()]))
    owners = [f"run {i}" for i in range(len(members))]
    check_not_shared("server", [member.server for member in members], owners)
    return members


def _work(steps: Any, rate: float) -> LocalWork:
    from sflkit.federated import LocalWork

    steps = np.array(list(steps))
    return LocalWork(np.arange(len(steps)), steps, rate)


def _options(server: ServerRule, work: LocalWork) -> dict[str, Any]:
    asked = server.local_options(work)
    unknown = set(asked) - {"prox", "corrections"}
    if unknown:
        raise ValueError(
            f"local_options of {type(server).__name__} holds {', '.join(sorted(unknown))}; it may "
            "hold prox and corrections"
        )
    return asked


def _rows(corrections: list[Any]) -> Tensor:
    """Return the corrections (K, n_params) of several runs as one (n_runs * K, n_params)."""
    import torch

    return torch.cat([torch.as_tensor(rows) for rows in corrections])


def _moved(server: ServerRule, params: Tensor, updates: Tensor, work: LocalWork) -> Tensor:
    """Return the global model after the server rule has seen the updates."""
    import torch

    new = server(params, updates, None, work)
    if not isinstance(new, torch.Tensor) or new.shape != params.shape or new.dtype != params.dtype:
        form = tuple(new.shape) if hasattr(new, "shape") else type(new).__name__
        raise ValueError(
            f"server rule {type(server).__name__} answered with {form} of "
            f"{getattr(new, 'dtype', 'no type')}; it must be a tensor {tuple(params.shape)} of "
            f"{params.dtype}, the next global parameters"
        )
    return new
