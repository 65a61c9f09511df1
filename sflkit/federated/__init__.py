"""Federated learning: a task, local training of many clients, evaluation, and server rules.

    from sflkit.federated import Task, local_sgd, evaluate, FedAvg

    task = Task(models.create("lenet", input_shape=(1, 28, 28), n_classes=10))
    w, server = task.init(seed=0), FedAvg()
    for batches in rounds:                        # one list of (x, y) a client, see `local_sgd`
        w = server(w, local_sgd(task, w, batches, rate=0.1, updates=True))
    evaluate(task, w, x_test, y_test).accuracy

Server rules stand in `servers`, the engine in `task`, `local` and `evaluation`;
`own` builds the rule and the network that a user brings to a run. What is below them (`batches`,
`replicas`, `workers`, `stacked`, `recording`) is for those who extend the engine.
"""

from sflkit.federated.evaluation import Evaluation, evaluate
from sflkit.federated.local import local_sgd
from sflkit.federated.servers import (
    RULES,
    FedAvg,
    FedProx,
    LocalWork,
    Scaffold,
    ServerRule,
    weighted_average,
)
from sflkit.federated.task import Task

__all__ = [
    "RULES",
    "Evaluation",
    "FedAvg",
    "FedProx",
    "LocalWork",
    "Scaffold",
    "ServerRule",
    "Task",
    "evaluate",
    "local_sgd",
    "weighted_average",
]
