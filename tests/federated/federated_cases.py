"""Small tasks, random batches, and the plain loop that the engine is compared with."""

import numpy as np
import torch
from torch.nn import functional as F
from torch.nn.utils import parameters_to_vector

from sflkit import models
from sflkit.federated import Task

CASES = {
    "linear": dict(name="linear", input_shape=(20,), n_classes=3),
    "mlp": dict(name="mlp", input_shape=(12,), n_classes=4, hidden=(16, 8)),
    "lenet": dict(name="lenet", input_shape=(1, 28, 28), n_classes=10),
    "small_cnn": dict(name="small_cnn", input_shape=(3, 8, 8), n_classes=5),
}
ROWS = np.array(  # of client 1 the middle step is none, client 2 has no steps
    [
        [[0, 1, 2, 3], [4, -1, 5, -1], [6, 6, 7, 8]],
        [[9, 10, -1, -1], [-1, -1, -1, -1], [-1, 11, -1, 2]],
        [[-1] * 4] * 3,
        [[3, 2, 1, 0], [8, 9, 10, 11], [-1, -1, -1, -1]],
    ]
)


def table(case, n=12, dtype=torch.float32):
    """Return a task, parameters and a table of samples."""
    spec, g = CASES[case], torch.Generator().manual_seed(1)
    task = Task(models.create(**spec), dtype=dtype)
    x = torch.randn(n, *spec["input_shape"], generator=g, dtype=dtype)
    return task, task.init(0), x, torch.randint(0, spec["n_classes"], (n,), generator=g)


def make(case, sizes, seed=0):
    """Return a task, parameters, and per client the batches of the given sizes."""
    spec, g = CASES[case], torch.Generator().manual_seed(seed)
    task = Task(models.create(**spec))

    def batch(n):
        x = torch.randn(n, *spec["input_shape"], generator=g)
        return x, torch.randint(0, spec["n_classes"], (n,), generator=g)

    return task, task.init(seed), [[batch(n) for n in client] for client in sizes]


def lists_of(x, y, rows, weights=None):
    """Return the steps that rows say, as lists."""
    clients = []
    for k, steps in enumerate(rows):
        clients.append([])
        for s, step in enumerate(steps):
            keep = (step >= 0) & (True if weights is None else weights[k, s] > 0)
            if keep.any():
                own = () if weights is None else (torch.tensor(weights[k, s][keep]),)
                clients[-1].append((x[step[keep]], y[step[keep]], *own))
    return clients


def reference(task, start, batches, rate, prox=0.0, correction=None):
    """One client by torch.optim.SGD; FedProx and the correction are terms of the loss."""
    model = task.build(start)
    optimiser = torch.optim.SGD(model.parameters(), lr=rate)
    for x, y, *w in batches:
        losses = F.cross_entropy(model(x), y, reduction="none")
        loss = (losses * w[0]).sum() / w[0].sum() if w else losses.mean()
        flat = parameters_to_vector(model.parameters())
        loss = loss + prox / 2 * ((flat - start) ** 2).sum()
        if correction is not None:
            loss = loss + correction @ flat
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    return parameters_to_vector(model.parameters()).detach()
