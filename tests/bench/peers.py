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

GROUP = 500


class Plain:
    """The loop a user would write: load the global state, torch.optim.SGD, average the states."""

    def __init__(self, workload, x, y, ids, start):
        self.workload, self.x, self.y, self.ids = workload, x, y, ids
        self.model, self.local = workload.build(), workload.build()
        vector_to_parameters(start.clone(), self.model.parameters())
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
    """The public interface, `local_sgd` and a server rule, with lists of batches."""

    backend = "auto"
    group = None  # how many clients one call trains; all

    def __init__(self, workload, x, y, ids, start):
        self.workload, self.x, self.y, self.ids = workload, x, y, ids
        self.task, self.w, self.rule = Task(workload.build()), start.clone(), FedAvg()
        self.out = torch.empty(self.group or workload.clients, len(start))

    def round(self, clients):
        self.w = self.rule(self.w, self.updates(clients))

    def updates(self, clients):
        options = dict(backend=self.backend, updates=True, out=self.out[: len(clients)])
        return local_sgd(
            self.task, self.w, rate=self.workload.rate, **self.steps(clients), **options
        )

    def steps(self, clients):
        return {"batches": [select(self, k) for k in clients]}

    def params(self):
        return self.w


class OursPool(Ours):
    backend = "pool"


class OursStacked(Ours):
    backend = "stacked"


class OursRows(Ours):
    """The same with the data set as one table, of which each step takes rows."""

    def steps(self, clients):
        rows = self.ids.numpy()[clients]
        rows = rows.repeat(self.workload.steps, 1) if self.workload.full_batch else rows
        return {"data": (self.x, self.y), "rows": rows}


class OursInGroups(Ours):
    """A round that holds `GROUP` local models at a time: the mean update needs only their sum."""

    group = GROUP

    def round(self, clients):
        groups = [clients[i : i + self.group] for i in range(0, len(clients), self.group)]
        total = sum(self.updates(group).sum(0) for group in groups)
        self.w = self.rule(self.w, (total / len(clients))[None])


PEERS = {
    "plain": Plain,
    "sflkit auto": Ours,
    "sflkit pool": OursPool,
    "sflkit stacked": OursStacked,
    "sflkit rows": OursRows,
}
ALL_PEERS = PEERS | {"sflkit in groups": OursInGroups}


def select(peer, k):
    """Return the client's batches, picked out of the data set by sample ids as in a real round;
    full-batch steps share one.
    """
    batches = [(peer.x[i], peer.y[i]) for i in peer.ids[k]]
    return batches * peer.workload.steps if peer.workload.full_batch else batches
