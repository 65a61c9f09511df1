"""Valid calls of the engine, its server rules and the models."""

from __future__ import annotations

import numpy as np
import torch

from sflkit import machine, models
from sflkit.federated import Task, evaluate, local_sgd
from sflkit.federated.servers import (
    FedAvg,
    FedProx,
    LocalWork,
    Scaffold,
    check_work,
    weighted_average,
)

batches = [[(np.array([[1.0, 2, 3], [3, 2, 1]]), np.array([0, 0]))]] * 2
step = dict(params=np.ones(3), updates=np.ones((2, 3)), weights=np.ones(2))
torches = {name: torch.ones(values.shape) for name, values in step.items()}


def task() -> Task:
    """Return a linear model of 3 features and 2 classes, 8 parameters."""
    return Task(models.create("linear", input_shape=(3,), n_classes=2))


def work() -> LocalWork:
    """Return a round of two clients."""
    return LocalWork([0, 1], [2, 2], 0.1)


def image(**changes: object) -> dict:
    """Return what a model for small images of 10 classes is made of."""
    return dict(input_shape=(3, 32, 32), n_classes=10) | changes


CALLS = {
    "weighted_average": lambda: (
        weighted_average,
        dict(updates=step["updates"], weights=step["weights"]),
    ),
    "FedAvg": lambda: (FedAvg, dict(global_rate=1.0)),
    "FedAvg()": lambda: (FedAvg(), dict(step)),
    "FedAvg() of tensors": lambda: (FedAvg(), torches),
    "Scaffold": lambda: (Scaffold, dict(n_clients=2, shares=np.full(2, 0.5), global_rate=1.0)),
    "Scaffold()": lambda: (Scaffold(2), step | dict(work=work())),
    "LocalWork": lambda: (LocalWork, dict(clients=np.arange(2), steps=np.array([1, 2]), rate=0.1)),
    "local_sgd": lambda: (
        lambda **options: local_sgd(task(), **options),
        dict(
            params=np.zeros(8, np.float32),
            batches=batches,
            rate=0.1,
            backend="pool",
            device="cpu",
            prox=0.1,
            updates=True,
        ),
    ),
    "local_sgd of rows": lambda: (
        lambda **options: local_sgd(task(), np.zeros(8), rate=0.1, device="cpu", **options),
        dict(
            data=(np.ones((4, 3)), np.array([0, 1, 0, 1])),
            rows=np.array([[[0, 1], [2, -1]]]),
            weights=np.array([[[1.0, 2.0], [0.5, 0.0]]]),
        ),
    ),
    "evaluate": lambda: (
        lambda **options: evaluate(task(), **options),
        dict(
            params=np.zeros(8, np.float32),
            x=np.ones((4, 3)),
            y=np.array([0, 1, 0, 1]),
            weights=np.ones(4),
            batch_size=2,
            device="cpu",
        ),
    ),
    "FedProx": lambda: (FedProx, dict(mu=0.1, global_rate=1.0)),
    "check_work": lambda: (check_work, dict(work=work(), n_clients=2)),
    "one step": lambda: (
        lambda **batch: local_sgd(
            task(), np.zeros(8), [[(batch["x"], batch["y"], batch["weights"])]], 0.1
        ),
        dict(x=np.ones((2, 3)), y=np.array([0, 0]), weights=np.ones(2)),
    ),
    "Task.init": lambda: (task().init, dict(seed=0)),
    "Task.build": lambda: (task().build, dict(params=np.zeros(8, np.float32))),
    "Task.vectors": lambda: (
        lambda value, finite: task().vectors("value", value, finite),
        dict(value=np.zeros((2, 8)), finite=True),
    ),
    "create": lambda: (
        models.create,
        dict(name="mlp", input_shape=(3,), n_classes=2, hidden=(4, 3)),
    ),
    "lenet": lambda: (
        lambda **options: models.create("lenet", **options),
        image(input_shape=(1, 28, 28)),
    ),
    "cnn": lambda: (
        lambda **options: models.create("cnn", **options),
        image(channels=(2, 3), hidden=4, padding=2),
    ),
    "mobilenetv2": lambda: (
        lambda **options: models.create("mobilenetv2", **options),
        image(width=0.25),
    ),
    "small_cnn": lambda: (
        lambda **options: models.create("small_cnn", **options),
        image(input_shape=(1, 28, 28)),
    ),
    "osafl_cnn": lambda: (
        lambda **options: models.create("osafl_cnn", **options),
        dict(input_shape=(3080,), n_classes=2, channels=(4, 3), hidden=5),
    ),
    "osafl_squeezenet1": lambda: (
        lambda **options: models.create("osafl_squeezenet1", **options),
        dict(input_shape=(3080,), n_classes=2),
    ),
    "char_rnn": lambda: (
        lambda **options: models.create("char_rnn", **options),
        dict(
            input_shape=(5,), n_classes=7, vocabulary=7, embedding=2, hidden=3, layers=1, cell="rnn"
        ),
    ),
    "char_mlp": lambda: (
        lambda **options: models.create("char_mlp", **options),
        dict(input_shape=(5,), n_classes=7, vocabulary=7, embedding=2, context=3, hidden=3),
    ),
    "vgg16": lambda: (
        lambda **options: models.create("vgg16", **options),
        image(width=0.1),
    ),
    "osafl_fcn": lambda: (
        lambda **options: models.create("osafl_fcn", **options),
        dict(input_shape=(5,), n_classes=2, hidden=(4, 3)),
    ),
    "osafl_lstm": lambda: (
        lambda **options: models.create("osafl_lstm", **options),
        dict(input_shape=(5,), n_classes=2, embedding=3, hidden=4, layers=1),
    ),
    "thread_count": lambda: (machine.thread_count, dict(threads=1)),
    "cpu": lambda: (machine.device, dict(name="cpu")),
}

BEYOND = {
    "lenet": dict(input_shape=((1, 8, 8), (28, 28), (28, 28, 1))),
    "small_cnn": dict(input_shape=((1, 3, 8),)),
    "cnn": dict(input_shape=((1, 3, 20),), channels=((4, 0), (4,), 4), padding=(3,)),
    "vgg16": dict(input_shape=((3, 31, 32), (3, 32))),
    "char_rnn": dict(input_shape=((80, 2),), cell=("elman",)),
    "char_mlp": dict(input_shape=((80, 2), (2,))),
    "create": dict(input_shape=((0,), (), 5), hidden=((4, -1), 4)),
    "osafl_cnn": dict(input_shape=((47,), (3, 4, 4)), channels=((), (8, 0), (1,) * 6)),
    "osafl_squeezenet1": dict(input_shape=((100,),)),
    "osafl_lstm": dict(input_shape=((10, 2),)),
}
