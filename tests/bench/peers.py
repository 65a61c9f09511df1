"""Who takes part in the benchmark. A peer is a function of a workload and its data that returns an
object with `round(clients)` (one federated round, timed) and `params()` (the flat global
parameters, for comparison).

To add one that shares our process, write such a class and add it to `PEERS`. Flower runs in a
process of its own: `flower.py`."""

from __future__ import annotations

import torch
from torch.nn import functional as F
from torch.nn.utils import parameters_to_vector, vector_to_parameters

from sflkit.federated import FedAvg, Task, local_sgd


class Plain:
    """The loop a user would write: load the global state, torch.optim.SGD, average the states."""

    def __init__(self, workload, x, y, ids, start):
        self.workload, self.x, self.y, self.ids = workload, x, y, ids
        self.model, local = workload.build(), workload.build()
        vector_to_parameters(start.clone(), self.model.parameters())
        self.local = local
        self.state = {k: v.clone() for k, v in self.model.state_dict().items()}

    def round(self, clients):
        mean = {k: torch.zeros_like(v) for k, v in self.state.items()}
        for k in clients:
            self.local.load_state_dict(self.state)
            optimiser = torch.optim.SGD(self.local.parameters(), lr=self.workload.rate)
            for x, y in select(self, k):
                optimiser.zero_grad()
                F.cross_entropy(self.local(x), y).backward()
                optimiser.step()
            for name, value in self.local.state_dict().items():
                mean[name] += value / len(clients)
        self.state = mean

    def params(self):
        self.model.load_state_dict(self.state)
        return parameters_to_vector(self.model.parameters()).detach()


class Ours:
    """The public interface: local_sgd and a server rule."""

    backend = "auto"

    def __init__(self, workload, x, y, ids, start):
        self.workload, self.x, self.y, self.ids = workload, x, y, ids
        self.task = Task(workload.build())
        self.w = start.clone()
        self.rule = FedAvg()
        self.out = torch.empty(workload.clients, self.task.n_params)

    def round(self, clients):
        batches = [select(self, k) for k in clients]
        updates = local_sgd(
            self.task,
            self.w,
            batches,
            self.workload.rate,
            backend=self.backend,
            updates=True,
            out=self.out,
        )
        self.w = self.rule(self.w, updates)

    def params(self):
        return self.w


class OursPool(Ours):
    backend = "pool"


class OursStacked(Ours):
    backend = "stacked"


PEERS = {
    "plain": Plain,
    "sflkit auto": Ours,
    "sflkit pool": OursPool,
    "sflkit stacked": OursStacked,
}


def select(peer, k):
    """Return the client's batches, picked out of the data set by sample ids as in a real round;
    full-batch steps share one.
    """
    if peer.workload.full_batch:
        return [(peer.x[peer.ids[k][0]], peer.y[peer.ids[k][0]])] * peer.workload.steps
    return [(peer.x[i], peer.y[i]) for i in peer.ids[k]]
