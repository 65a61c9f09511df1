"""The global models of streaming-FL runs and the round that trains them side by side. Source: SFL,
Section IV-A, (2)-(6).

| code    | symbol | shape                     | meaning                                                        |
|---------|--------|---------------------------|----------------------------------------------------------------|
| params  | w_t    | (n_runs, n_params)        | the global models, one row a run; one run is the usual case    |
| start   | w_t    | (n_runs * K, n_params)    | its run's global model for each client, clients run by run     |
| updates |        | (n_runs, K, n_params)     | local minus global model, eta_L Delta_t^k                      |
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from sflkit import data
from sflkit.randomness import generator
from sflkit.sfl import sampling


@functools.lru_cache(
    maxsize=1
)  # the runs of a sweep share one data set, whose conversion costs as much as many rounds
def _training_tensors(name: str, superclasses: bool, digest: str, device: str):
    import torch

    source = data.load(name)
    source = source.with_coarse_labels() if superclasses else source
    return torch.as_tensor(source.inputs("train")).to(device), torch.as_tensor(
        source.labels("train")
    ).to(device)


class _Member(NamedTuple):
    """What a run has of its own in a batch of runs, beside its model: server rule, local rate, test
    set (x, y).
    """

    server: Callable
    rate: float
    test: tuple


class Learner:
    """The models of some runs. A round is `step`, then `keep_finite`, and `evaluate` where it is
    asked for.

    Parameters
    ----------
    clients : list of `clients.Clients`, one a run; their configs share model, sizes and number of steps
    source : Dataset
    model : torch.nn.Module or None
        None builds the network that the configs name.
    backend : str
        Of `federated.local_sgd`.
    """

    def __init__(self, clients: list, source: data.Dataset, model, backend: str):
        import torch

        from sflkit import federated, models
        from sflkit.federated.servers import FedAvg

        config = clients[0].config
        options = {"width": config.width} if config.model == "mobilenetv2" else {}
        self.config, self.federated, self.torch, self.backend = config, federated, torch, backend
        if model is None:
            model = models.create(
                config.model, input_shape=source.input_shape, n_classes=source.n_classes, **options
            )
        self.task = federated.Task(model)
        device = "cuda" if torch.cuda.is_available() else "cpu"
        self.x, self.y = _training_tensors(source.name, config.superclasses, source.digest, device)
        self.members, starts, tests = [], [], {}
        for run in clients:
            c = run.config
            starts.append(self.task.init(int(generator(c.seed, "model").integers(2**31))))
            shares = run.stream.long_term.mean(axis=0)
            test = sampling.draw_test_set(
                source.y_test, shares, c.test_size, generator(c.seed, "test_set")
            )
            if test.tobytes() not in tests:  # rules that are compared share one
                parts = source.inputs("test", test), source.labels("test", test)
                tests[test.tobytes()] = tuple(torch.as_tensor(part).to(device) for part in parts)
            self.members.append(_Member(FedAvg(c.global_rate), c.local_rate, tests[test.tobytes()]))
        self.params = torch.stack(starts).to(device)

    def step(self, client_caches: list) -> None:
        ids = [cache.ids for cache in client_caches]  # of all clients, run by run
        sizes, ids = (
            [len(i) for i in ids],
            self.torch.as_tensor(np.concatenate(ids), device=self.x.device),
        )
        samples = zip(self.x[ids].split(sizes), self.y[ids].split(sizes), strict=True)
        batches = [
            [batch] * self.config.local_steps for batch in samples
        ]  # (3): E steps on the whole cache
        start = self.params[:, None].expand(-1, self.config.n_clients, -1).flatten(0, 1)
        rates = np.repeat([member.rate for member in self.members], self.config.n_clients)
        updates = self.federated.local_sgd(
            self.task, start, batches, rates, backend=self.backend, updates=True
        )
        updates = updates.unflatten(0, (-1, self.config.n_clients))
        servers = [member.server for member in self.members]
        self.params = self.torch.stack(
            [server(w, u) for server, w, u in zip(servers, self.params, updates, strict=True)]
        )

    def keep_finite(self) -> list[bool]:
        """Drop the runs whose model is no longer finite; return of each whether it stays."""
        finite = self.torch.isfinite(self.params).all(1)
        stays = finite.tolist()
        if not all(stays):
            self.params, self.members = (
                self.params[finite],
                [m for m, ok in zip(self.members, stays, strict=True) if ok],
            )
        return stays

    def evaluate(self) -> list:
        """Return the Evaluation of each run; the models that share a test set go through it in one
        call.
        """
        results = [None] * len(self.members)
        for test in {id(member.test): member.test for member in self.members}.values():
            rows = [i for i, member in enumerate(self.members) if member.test is test]
            losses, accuracies = self.federated.evaluate(self.task, self.params[rows], *test)
            for i, loss, accuracy in zip(rows, losses, accuracies, strict=True):
                results[i] = self.federated.Evaluation(float(loss), float(accuracy))
        return results
