"""Small tasks, random batches, and the plain loop that the engine is compared with."""

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


def make(case, sizes, seed=0, dtype=torch.float32):
    """Return a task, parameters, and per client the batches of the given sizes."""
    spec = CASES[case]
    task = Task(models.create(**spec), dtype=dtype)
    g = torch.Generator().manual_seed(seed)
    batches = [
        [
            (
                torch.randn(n, *spec["input_shape"], generator=g),
                torch.randint(0, spec["n_classes"], (n,), generator=g),
            )
            for n in client
        ]
        for client in sizes
    ]
    return task, task.init(seed), batches


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
